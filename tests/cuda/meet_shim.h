// The machine's part of src/cuda/meet.cuh for a CPU. Each thread of each block of each rank is a fiber. Stores to other ranks arrive late, in any
// order but that of two to one place; a flag that is released arrives after all earlier stores of its block. A seed chooses every order. Fibers
// fall asleep for some time. The clock counts rounds of the scheduler.
#include "cuda/meeting.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>

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

struct shim_gate { // opens when `want` fibers have come
  int come;
  bool good, last;
  u64 round;
};
struct shim_fiber {
  ucontext_t context;
  int rank, block, tid, grid;
  bool done;
  shim_gate *at;     // waits until its round is over; or NULL
  u64 round, asleep; // it sleeps until then
  std::vector<char> stack;
};
static shim_fiber *shim_me;
static ucontext_t shim_scheduler;
static std::function<void()> shim_body;
static std::vector<shim_gate> shim_blocks; // by rank and block
static u64 shim_seed = 1, shim_clock;
static int shim_most; // blocks of a rank

static u64 shim_random()
{
  shim_seed += 0x9e3779b97f4a7c15u;
  u64 z = (shim_seed ^ shim_seed >> 30) * 0xbf58476d1ce4e5b9u;
  return (z ^ z >> 27) >> 1;
}

static void shim_yield()
{
  shim_fiber *me = shim_me;
  swapcontext(&me->context, &shim_scheduler);
  shim_me = me;
}

static bool shim_pass(shim_gate &g, int want, bool good)
{
  g.good = g.come ? g.good && good : good;
  if (++g.come == want) return g.come = 0, g.last = g.good, g.round++, g.last;
  shim_me->at = &g, shim_me->round = g.round;
  while (g.round == shim_me->round) shim_yield();
  return shim_me->at = NULL, g.last;
}

// ---- stores on their way ----

struct shim_store {
  char *to, bytes[16];
  size_t n;
  int from; // the block that stored it
  bool released;
};
static std::vector<shim_store> shim_way;

static void shim_arrive(size_t i)
{
  bool again = true;
  while (again) {
    again = false;
    for (size_t k = 0; k < i && !again; k++)
      if (shim_way[k].to == shim_way[i].to || (shim_way[i].released && shim_way[k].from == shim_way[i].from)) i = k, again = true;
  }
  memcpy(shim_way[i].to, shim_way[i].bytes, shim_way[i].n);
  shim_way.erase(shim_way.begin() + (long)i);
}

static void shim_send(void *to, const void *from, size_t n, int rank, bool released)
{
  shim_store s = {(char *)to, {0}, n, shim_me->rank * shim_most + shim_me->block, released};
  memcpy(s.bytes, from, n);
  if (rank == shim_me->rank)
    memcpy(to, from, n);
  else
    shim_way.push_back(s);
}

// ---- the machine ----

template <class U> static void meet_store(U *p, U v, int rank) { shim_send(p, &v, sizeof v, rank, false); }
static void meet_put(uint4 *p, uint4 v, int rank) { shim_send(p, &v, sizeof v, rank, false); }
template <class U> static U meet_load(const U *p) { return *p; }
static uint4 meet_get(const uint4 *p) { return shim_yield(), *p; }
static void meet_release(u32 *p, u32 v, int rank) { shim_send(p, &v, sizeof v, rank, true); }
static u32 meet_acquire(const u32 *p) { return shim_yield(), *p; }
static void meet_tell(u32 *p, u32 v) { *p = v; }
static u32 meet_look(const u32 *p) { return shim_yield(), *p; }
static u32 meet_add(u32 *p, u32 v) { return *p += v, *p - v; }
static u64 meet_now() { return shim_clock; }
static bool meet_all(bool good) { return shim_pass(shim_blocks[(size_t)(shim_me->rank * shim_most + shim_me->block)], MEET_THREADS, good); }

static float meet_wide(float x) { return x; }
static int meet_wide(int x) { return x; }
static float meet_wide(__nv_bfloat16 x)
{
  const u32 bits = (u32)x.w << 16;
  float f;
  return memcpy(&f, &bits, 4), f;
}
static void meet_narrow(float &to, float x) { to = x; }
static void meet_narrow(int &to, int x) { to = x; }
static void meet_narrow(__nv_bfloat16 &to, float x)
{
  u32 bits;
  memcpy(&bits, &x, 4);
  to.w = (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// ---- the scheduler ----

static void shim_begin()
{
  shim_body();
  shim_me->done = true;
  for (;;) shim_yield();
}

// All threads of `blocks` blocks of all ranks at once; false: they did not end in `most` rounds.
static bool shim_run(int ranks, int blocks, u64 most, std::function<void()> body)
{
  std::vector<shim_fiber> f((size_t)(ranks * blocks * MEET_THREADS));
  size_t left = f.size();
  shim_body = body, shim_most = blocks, shim_clock = 0;
  shim_blocks.assign((size_t)(ranks * blocks), {0, true, true, 0});
  shim_way.clear();
  for (size_t i = 0; i < f.size(); i++) {
    shim_fiber &x = f[i];
    x.tid = (int)(i % MEET_THREADS), x.block = (int)(i / MEET_THREADS) % blocks, x.rank = (int)(i / MEET_THREADS) / blocks;
    x.done = false, x.at = NULL, x.asleep = 0;
    x.stack.resize(1 << 16);
    getcontext(&x.context);
    x.context.uc_stack.ss_sp = x.stack.data(), x.context.uc_stack.ss_size = x.stack.size(), x.context.uc_link = &shim_scheduler;
    makecontext(&x.context, shim_begin, 0);
  }
  for (; left && shim_clock < most; shim_clock++) {
    size_t from = shim_random() % f.size();
    for (size_t late = shim_random() % (shim_way.size() / 2 + 2); late && !shim_way.empty(); late--) shim_arrive(shim_random() % shim_way.size());
    for (size_t k = 0; k < f.size(); k++) {
      shim_fiber &x = f[(from + k) % f.size()];
      if (x.done || (x.at && x.at->round == x.round) || x.asleep > shim_clock || shim_random() % 4 == 0) continue;
      if (shim_random() % 64 == 0) x.asleep = shim_clock + shim_random() % 100;
      shim_me = &x;
      swapcontext(&shim_scheduler, &x.context);
      left -= x.done;
    }
  }
  shim_me = NULL;
  return !left;
}
