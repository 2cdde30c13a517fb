// The machine's part of src/cuda/meet.cuh for a CPU, as the kernels' text needs it. meet_machine.h runs the fibers. This file needs no C++ library,
// because it is compiled with each mistake that test_meet.sh plants.
#pragma once
#include "cuda/meeting.h"

#include <cstdint>
#include <cstring>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;
typedef long long i64;
struct uint2 {
  u32 x, y;
};
struct uint4 {
  u32 x, y, z, w;
};
struct __nv_bfloat16 {
  u16 w;
};

#define MEET_SHIM
#define MEET_DEV inline
#define MEET_TID (shim_me->tid)
#define MEET_BLOCK (shim_me->block)
#define MEET_GRID (shim_me->grid)
enum { MEET_THREADS = 8 };

struct shim_thread {
  int rank, block, tid, grid;
};
extern shim_thread *shim_me;
extern u64 shim_clock;
void shim_yield();
bool shim_block_pass(bool good);
void shim_send(void *to, const void *from, size_t n, int rank, bool released);

template <class U> static void meet_store(U *p, U v, int rank) { shim_send(p, &v, sizeof v, rank, false); }
inline void meet_put(uint4 *p, uint4 v, int rank) { shim_send(p, &v, sizeof v, rank, false); }
template <class U> static U meet_load(const U *p) { return *p; }
inline uint4 meet_get(const uint4 *p) { return shim_yield(), *p; }
inline void meet_release(u32 *p, u32 v, int rank) { shim_send(p, &v, sizeof v, rank, true); }
inline u32 meet_acquire(const u32 *p) { return shim_yield(), *p; }
inline void meet_tell(u32 *p, u32 v) { *p = v; }
inline u32 meet_look(const u32 *p) { return shim_yield(), *p; }
inline u32 meet_add(u32 *p, u32 v) { return *p += v, *p - v; }
inline u64 meet_now() { return shim_clock; }
inline bool meet_all(bool good) { return shim_block_pass(good); }

inline float meet_wide(float x) { return x; }
inline int meet_wide(int x) { return x; }
inline float meet_wide(__nv_bfloat16 x)
{
  const u32 bits = (u32)x.w << 16;
  float f;
  return memcpy(&f, &bits, 4), f;
}
inline void meet_narrow(float &to, float x) { to = x; }
inline void meet_narrow(int &to, int x) { to = x; }
inline void meet_narrow(__nv_bfloat16 &to, float x)
{
  u32 bits;
  memcpy(&bits, &x, 4);
  to.w = (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// ---- exchanges that meet_rows.cc makes ----

enum { MEET_ROOM = 512, MEET_ROOM_WORD = MEET_ROOM * 16, MEET_ROOM_SLOT = 4096 };
typedef void meet_run(const meet_world &w, const void *in, void *out, u32 count, u32 inner);
// ROW(type, how, elements of a unit; 0: words)
#define MEET_ROWS(ROW)                   \
  ROW(float, MEETING_SUM, 0)             \
  ROW(__nv_bfloat16, MEETING_SUM, 0)     \
  ROW(int, MEETING_SUM, 0)               \
  ROW(float, MEETING_SUM, 4)             \
  ROW(__nv_bfloat16, MEETING_SUM, 8)     \
  ROW(__nv_bfloat16, MEETING_SUM, 1)     \
  ROW(float, MEETING_GATHER, 0)          \
  ROW(__nv_bfloat16, MEETING_GATHER, 0)  \
  ROW(float, MEETING_GATHER, 2)          \
  ROW(__nv_bfloat16, MEETING_GATHER, 8)  \
  ROW(float, MEETING_SCATTER, 0)         \
  ROW(__nv_bfloat16, MEETING_SCATTER, 0) \
  ROW(float, MEETING_SCATTER, 4)         \
  ROW(int, MEETING_SCATTER, 1)
extern meet_run *const meet_runs[];
