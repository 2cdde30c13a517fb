// Collective operators on GPUs. Each rank has exchange memory in its GPU, which all GPUs of the world can write. A rank stores its data in
// the memory of the others and polls its own. A sum adds the ranks' data in the order of ranks, so all ranks get the same bits.
//
// Small data are sent as words of 16 bytes: 12 bytes of data, and the number of the exchange (the epoch). A reader polls a word until it has the
// epoch. Large data are stored into a slot for each source. Then each block releases a flag on each rank, and waits for the flags of the blocks
// of the same number. A large sum takes two shots: each rank adds its part, then sends the sums to all.
//
// Slots, words and flags are double-buffered by the epoch's last bit. A kernel ends only after every rank has sent it data in this epoch. So when a
// rank begins epoch e, all ranks have ended epoch e - 2, whose buffers it writes again. The sums of two shots have a single buffer: they are sent
// to a rank that has sent its data of this epoch, so it has ended the epoch before.
//
// A poll that exceeds the time limit sets `failed` on all ranks and reports to the host. All other polls then end soon, and each rank reports to its
// host. The ranks must be opened again.
#ifndef MICA_MEET_CUH
#define MICA_MEET_CUH

enum { MEET_EPOCH = 0, MEET_ENDED = 128, MEET_FAILED = 256, MEET_FLAGS = 1024 }; // byte offsets in exchange memory
enum { MEET_LOOKS = 64 };                                                        // polls between looks at the clock
static_assert(MEET_FLAGS + 2 * 2 * MEETING_MOST_BLOCKS * MEETING_MOST_RANKS * sizeof(u32) <= MEETING_HEAD, "flags of two shots and two epochs");
static_assert(MEETING_WORD == sizeof(uint4), "data and the epoch");

struct meet_room { // sizes in exchange memory, in bytes
  i64 word, slot; // of the words of a source; of the slot of a source. The sums of all parts follow
};

// ---- the machine ----

#ifndef MEET_SHIM
enum { MEET_THREADS = MEETING_THREADS };
#define MEET_DEV __device__ __forceinline__
#define MEET_TID ((int)threadIdx.x)
#define MEET_BLOCK ((int)blockIdx.x)
#define MEET_GRID ((int)gridDim.x)

// A word is one access of 128 bits (PTX 8.3, CUDA 12.3), because a vector of four numbers may be written and read in parts. ptxas narrows a load if some
// numbers are not used. So the epoch is made to depend on all of them, with a mask that is zero, which the compiler does not know.
__constant__ u32 MEET_NO_BITS;

MEET_DEV void meet_put(uint4 *p, uint4 v, int)
{
  const u64 low = v.x | (u64)v.y << 32, high = v.z | (u64)v.w << 32;
  asm volatile("{.reg .b128 t;\nmov.b128 t, {%1, %2};\nst.relaxed.sys.global.b128 [%0], t;}" ::"l"(p), "l"(low), "l"(high) : "memory");
}
MEET_DEV uint4 meet_get(const uint4 *p)
{
  u64 low, high;
  asm volatile("{.reg .b128 t;\nld.relaxed.sys.global.b128 t, [%2];\nmov.b128 {%0, %1}, t;}" : "=l"(low), "=l"(high) : "l"(p) : "memory");
  const u32 x = (u32)low, y = (u32)(low >> 32), z = (u32)high;
  return make_uint4(x, y, z, (u32)(high >> 32) ^ ((x ^ y ^ z) & MEET_NO_BITS));
}
template <class U> MEET_DEV void meet_store(U *p, U v, int) { *p = v; }
template <class U> MEET_DEV U meet_load(const U *p) { return *(const volatile U *)p; }
MEET_DEV uint4 meet_load(const uint4 *p)
{
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
  return v;
}
MEET_DEV uint2 meet_load(const uint2 *p)
{
  uint2 v;
  asm volatile("ld.relaxed.sys.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p) : "memory");
  return v;
}
MEET_DEV void meet_release(u32 *p, u32 v, int) { asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
MEET_DEV u32 meet_acquire(const u32 *p)
{
  u32 v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
MEET_DEV void meet_tell(u32 *p, u32 v) { asm volatile("st.relaxed.sys.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
MEET_DEV u32 meet_look(const u32 *p)
{
  u32 v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
MEET_DEV u32 meet_add(u32 *p, u32 v)
{
  u32 before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(p), "r"(v) : "memory");
  return before;
}
MEET_DEV u64 meet_now()
{
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
  return t;
}
MEET_DEV bool meet_all(bool good) { return __syncthreads_and(good); } // a barrier of the block

MEET_DEV float meet_wide(float x) { return x; }
MEET_DEV float meet_wide(__half x) { return __half2float(x); }
MEET_DEV float meet_wide(__nv_bfloat16 x) { return __bfloat162float(x); }
MEET_DEV int meet_wide(int x) { return x; }
MEET_DEV i64 meet_wide(i64 x) { return x; }
MEET_DEV float meet_wide(__nv_fp8_e4m3 x) { return mica_float(x); }
MEET_DEV float meet_wide(__nv_fp8_e5m2 x) { return mica_float(x); }
MEET_DEV void meet_narrow(float &to, float x) { to = x; }
MEET_DEV void meet_narrow(int &to, int x) { to = x; }
MEET_DEV void meet_narrow(i64 &to, i64 x) { to = x; }
template <class T> MEET_DEV void meet_narrow(T &to, float x) { to = mica_to<T>(x); }
#endif

// ---- addresses in exchange memory ----

template <int RANKS> MEET_DEV uint4 *meet_words(const meet_world &w, const meet_room &m, int rank, u32 epoch, int source)
{
  return (uint4 *)(w.at[rank] + MEETING_HEAD + ((epoch & 1) * RANKS + source) * m.word);
}
template <int RANKS, class U> MEET_DEV U *meet_slot(const meet_world &w, const meet_room &m, int rank, u32 epoch, int source)
{
  return (U *)(w.at[rank] + MEETING_HEAD + 2 * RANKS * m.word + ((epoch & 1) * RANKS + source) * m.slot);
}
template <int RANKS, class U> MEET_DEV U *meet_result(const meet_world &w, const meet_room &m, int rank)
{
  return (U *)(w.at[rank] + MEETING_HEAD + 2 * RANKS * (m.word + m.slot));
}
MEET_DEV u32 *meet_flag(const meet_world &w, int rank, u32 epoch, int shot, int source)
{
  return (u32 *)(w.at[rank] + MEET_FLAGS) + (((epoch & 1) * 2 + shot) * MEETING_MOST_BLOCKS + MEET_BLOCK) * MEETING_MOST_RANKS + source;
}
MEET_DEV u32 *meet_head(const meet_world &w, int rank, int what) { return (u32 *)(w.at[rank] + what); }

// meet_from: index in the operand of unit e of a rank's part. meet_to: index in the result of unit e of a rank.
template <int RANKS, int HOW> MEET_DEV i64 meet_from(int part, u32 e, u32 inner)
{
  return HOW == MEETING_SCATTER ? (i64)(e / inner * RANKS + part) * inner + e % inner : (i64)e;
}
template <int RANKS> MEET_DEV i64 meet_to(int source, u32 e, u32 inner) { return (i64)(e / inner * RANKS + source) * inner + e % inner; }

// ---- waiting ----

struct meet_wait {
  u64 since;
  int looks;
};

MEET_DEV void meet_fail(const meet_world &w, int late)
{
  for (int r = 0; r < w.ranks; r++) meet_tell(meet_head(w, r, MEET_FAILED), 1);
  meet_tell(w.told, late + 1);
}

// False: the time limit is exceeded, or another rank has failed.
MEET_DEV bool meet_patient(const meet_world &w, meet_wait &s, int source)
{
  if (++s.looks % MEET_LOOKS) return true;
  if (meet_look(meet_head(w, w.rank, MEET_FAILED))) return false;
  const u64 now = meet_now();
  if (!s.since) s.since = now;
  if (now - s.since < w.patience) return true;
  return meet_fail(w, source), false;
}

MEET_DEV bool meet_await(const meet_world &w, const uint4 *p, uint4 &v, u32 epoch, int source)
{
  meet_wait s = {0, 0};
  for (; v.w != epoch; v = meet_get(p))
    if (!meet_patient(w, s, source)) return false;
  return true;
}

// Publishes this block's stores: after a barrier, releases its flag on each other rank.
MEET_DEV void meet_signal(const meet_world &w, u32 epoch, int shot)
{
  meet_all(true);
  if (MEET_TID < w.ranks && MEET_TID != w.rank) meet_release(meet_flag(w, MEET_TID, epoch, shot, w.rank), epoch, MEET_TID);
}
MEET_DEV bool meet_flags(const meet_world &w, u32 epoch, int shot)
{
  meet_wait s = {0, 0};
  bool good = true;
  if (MEET_TID < w.ranks && MEET_TID != w.rank)
    while (good && meet_acquire(meet_flag(w, w.rank, epoch, shot, MEET_TID)) != epoch) good = meet_patient(w, s, MEET_TID);
  return meet_all(good);
}

// ---- units of several elements ----

template <int BYTES> struct meet_bits;
template <> struct meet_bits<1> { typedef u8 type; };
template <> struct meet_bits<2> { typedef u16 type; };
template <> struct meet_bits<4> { typedef u32 type; };
template <> struct meet_bits<8> { typedef uint2 type; };
template <> struct meet_bits<16> { typedef uint4 type; };

// The sum over the ranks in their order, rounded once.
template <class T, int RANKS, class U> MEET_DEV U meet_sum(const U (&x)[RANKS])
{
  U sum;
#pragma unroll
  for (int i = 0; i < (int)(sizeof(U) / sizeof(T)); i++) {
    auto s = meet_wide(((const T *)&x[0])[i]);
#pragma unroll
    for (int r = 1; r < RANKS; r++) s += meet_wide(((const T *)&x[r])[i]);
    meet_narrow(((T *)&sum)[i], s);
  }
  return sum;
}

// ---- small data ----

template <class T, int RANKS, int HOW>
MEET_DEV void meet_words_of(const meet_world &w, const meet_room &m, const T *in, T *out, u32 count, u32 inner, u32 epoch)
{
  enum { MOST = MEETING_DATA / sizeof(T) }; // elements per word
  const u32 words = (count + MOST - 1) / MOST, first = MEET_BLOCK * MEET_THREADS + MEET_TID, step = MEET_GRID * MEET_THREADS;
  for (u32 i = first; i < words; i += step)
#pragma unroll
    for (int k = 1; k <= RANKS; k++) { // other ranks first
      const int r = (w.rank + k) % RANKS;
      uint4 v = {0, 0, 0, epoch};
#pragma unroll
      for (u32 e = 0; e < MOST; e++)
        if (i * MOST + e < count) ((T *)&v)[e] = in[meet_from<RANKS, HOW>(r, i * MOST + e, inner)];
      meet_put(meet_words<RANKS>(w, m, r, epoch, w.rank) + i, v, r);
    }
  for (u32 i = first; i < words; i += step) {
    uint4 v[RANKS];
#pragma unroll
    for (int r = 0; r < RANKS; r++) v[r] = meet_get(meet_words<RANKS>(w, m, w.rank, epoch, r) + i);
#pragma unroll
    for (int r = 0; r < RANKS; r++)
      if (!meet_await(w, meet_words<RANKS>(w, m, w.rank, epoch, r) + i, v[r], epoch, r)) return;
#pragma unroll
    for (u32 e = 0; e < MOST; e++) {
      const u32 at = i * MOST + e;
      if (at >= count) break;
      T x[RANKS];
#pragma unroll
      for (int r = 0; r < RANKS; r++) x[r] = ((const T *)&v[r])[e];
      if constexpr (HOW == MEETING_GATHER) {
#pragma unroll
        for (int r = 0; r < RANKS; r++) out[meet_to<RANKS>(r, at, inner)] = x[r];
      } else
        out[at] = meet_sum<T, RANKS>(x);
    }
  }
}

// ---- large data ----

enum { MEET_AT_ONCE = 4 };

// Calls f(unit, value) for the thread's units below n. MEET_AT_ONCE units are loaded at a time.
template <class U, class L, class F> MEET_DEV void meet_each(u32 n, L load, F f)
{
  const u32 step = MEET_GRID * MEET_THREADS;
  for (u32 i = MEET_BLOCK * MEET_THREADS + MEET_TID; i < n; i += MEET_AT_ONCE * step) {
    U v[MEET_AT_ONCE];
#pragma unroll
    for (u32 k = 0; k < MEET_AT_ONCE; k++)
      if (i + k * step < n) v[k] = load(i + k * step);
#pragma unroll
    for (u32 k = 0; k < MEET_AT_ONCE; k++)
      if (i + k * step < n) f(i + k * step, v[k]);
  }
}

// Number of units of the rank's part, if n units are divided into parts of `part` units, the last of which may be shorter.
MEET_DEV u32 meet_part_of(u32 n, u32 part, int rank) { return rank * part >= n ? 0 : n - rank * part < part ? n - rank * part : part; }

// The sum of unit i over all ranks; this rank's unit is `own`.
template <class T, int RANKS, class U> MEET_DEV U meet_sum_at(const meet_world &w, const meet_room &m, U own, u32 i, u32 epoch)
{
  U x[RANKS];
#pragma unroll
  for (int r = 0; r < RANKS; r++) x[r] = r == w.rank ? own : meet_load(meet_slot<RANKS, U>(w, m, w.rank, epoch, r) + i);
  return meet_sum<T, RANKS>(x);
}

template <class T, int RANKS, class U> MEET_DEV void meet_two_shots(const meet_world &w, const meet_room &m, const U *in, U *out, u32 n, u32 epoch)
{
  const u32 part = (n + RANKS - 1) / RANKS, first = w.rank * part;
  for (int k = 1; k < RANKS; k++) {
    const int r = (w.rank + k) % RANKS;
    U *to = meet_slot<RANKS, U>(w, m, r, epoch, w.rank);
    meet_each<U>(meet_part_of(n, part, r), [&](u32 i) { return in[r * part + i]; }, [&](u32 i, U v) { meet_store(to + i, v, r); });
  }
  meet_signal(w, epoch, 0);
  if (!meet_flags(w, epoch, 0)) return;
  meet_each<U>(
      meet_part_of(n, part, w.rank), [&](u32 i) { return meet_sum_at<T, RANKS>(w, m, in[first + i], i, epoch); },
      [&](u32 i, U v) {
        out[first + i] = v;
#pragma unroll
        for (int k = 1; k < RANKS; k++) {
          const int r = (w.rank + k) % RANKS;
          meet_store(meet_result<RANKS, U>(w, m, r) + first + i, v, r);
        }
      });
  meet_signal(w, epoch, 1);
  if (!meet_flags(w, epoch, 1)) return;
  const U *all = meet_result<RANKS, U>(w, m, w.rank);
  for (int k = 1; k < RANKS; k++) {
    const int r = (w.rank + k) % RANKS;
    meet_each<U>(meet_part_of(n, part, r), [&](u32 i) { return meet_load(all + r * part + i); }, [&](u32 i, U v) { out[r * part + i] = v; });
  }
}

template <int RANKS, class U> MEET_DEV void meet_gather(const meet_world &w, const meet_room &m, const U *in, U *out, u32 n, u32 inner, u32 epoch)
{
  meet_each<U>(
      n, [&](u32 i) { return in[i]; },
      [&](u32 i, U v) {
        out[meet_to<RANKS>(w.rank, i, inner)] = v;
#pragma unroll
        for (int k = 1; k < RANKS; k++) {
          const int r = (w.rank + k) % RANKS;
          meet_store(meet_slot<RANKS, U>(w, m, r, epoch, w.rank) + i, v, r);
        }
      });
  meet_signal(w, epoch, 0);
  if (!meet_flags(w, epoch, 0)) return;
  for (int k = 1; k < RANKS; k++) {
    const int r = (w.rank + k) % RANKS;
    const U *from = meet_slot<RANKS, U>(w, m, w.rank, epoch, r);
    meet_each<U>(n, [&](u32 i) { return meet_load(from + i); }, [&](u32 i, U v) { out[meet_to<RANKS>(r, i, inner)] = v; });
  }
}

template <class T, int RANKS, class U>
MEET_DEV void meet_scatter(const meet_world &w, const meet_room &m, const U *in, U *out, u32 n, u32 inner, u32 epoch)
{
  for (int k = 1; k < RANKS; k++) {
    const int r = (w.rank + k) % RANKS;
    U *to = meet_slot<RANKS, U>(w, m, r, epoch, w.rank);
    meet_each<U>(n, [&](u32 i) { return in[meet_to<RANKS>(r, i, inner)]; }, [&](u32 i, U v) { meet_store(to + i, v, r); });
  }
  meet_signal(w, epoch, 0);
  if (!meet_flags(w, epoch, 0)) return;
  meet_each<U>(n, [&](u32 i) { return meet_sum_at<T, RANKS>(w, m, in[meet_to<RANKS>(w.rank, i, inner)], i, epoch); }, [&](u32 i, U v) { out[i] = v; });
}

// ---- the kernel ----

MEET_DEV u32 meet_begin(const meet_world &w)
{
  const u32 epoch = meet_look(meet_head(w, w.rank, MEET_EPOCH)) + 1;
  return epoch ? epoch : 2; // skips 0, the value of fresh memory, and keeps the last bit alternating
}

// The last block of the rank to arrive ends the epoch.
MEET_DEV void meet_end(const meet_world &w, u32 epoch)
{
  meet_all(true);
  if (MEET_TID) return;
  const u32 failed = meet_look(meet_head(w, w.rank, MEET_FAILED)), before = meet_add(meet_head(w, w.rank, MEET_ENDED), 1);
  if (failed && !meet_look(w.told)) meet_tell(w.told, MEETING_OTHERS);
  if (before + 1 < (u32)MEET_GRID) return;
  meet_tell(meet_head(w, w.rank, MEET_ENDED), 0);
  meet_tell(meet_head(w, w.rank, MEET_EPOCH), epoch);
}

// UNIT: elements of a unit of large data; 0: the data are small. count: number of elements of the operand of all_reduce and all_gather, or of the
// result of reduce_scatter. inner: number of contiguous elements of a rank's part.
template <class T, int RANKS, int HOW, int UNIT>
MEET_DEV void meet(const meet_world &w, const meet_room &m, const void *operand, void *result, u32 count, u32 inner)
{
  typedef typename meet_bits<sizeof(T) * (UNIT ? UNIT : 1)>::type unit;
  const u32 epoch = meet_begin(w);
  const unit *in = (const unit *)operand;
  unit *out = (unit *)result;
  if constexpr (!UNIT)
    meet_words_of<T, RANKS, HOW>(w, m, (const T *)operand, (T *)result, count, inner, epoch);
  else if constexpr (HOW == MEETING_SUM)
    meet_two_shots<T, RANKS, unit>(w, m, in, out, count / UNIT, epoch);
  else if constexpr (HOW == MEETING_GATHER)
    meet_gather<RANKS, unit>(w, m, in, out, count / UNIT, inner / UNIT, epoch);
  else
    meet_scatter<T, RANKS, unit>(w, m, in, out, count / UNIT, inner / UNIT, epoch);
  meet_end(w, epoch);
}

// The result of a rank from the operands of all ranks, which are stored one after the other.
template <class T, int RANKS, int HOW> MEET_DEV void meet_local(const void *operands, void *result, int rank, u32 count, u32 inner)
{
  const T *all = (const T *)operands;
  T *out = (T *)result;
  const i64 one = HOW == MEETING_SCATTER ? (i64)count * RANKS : count;
  for (u32 i = MEET_BLOCK * MEET_THREADS + MEET_TID; i < count; i += MEET_GRID * MEET_THREADS) {
    T x[RANKS];
#pragma unroll
    for (int r = 0; r < RANKS; r++) x[r] = all[r * one + meet_from<RANKS, HOW>(rank, i, inner)];
    if constexpr (HOW == MEETING_GATHER) {
#pragma unroll
      for (int r = 0; r < RANKS; r++) out[meet_to<RANKS>(r, i, inner)] = x[r];
    } else
      out[i] = meet_sum<T, RANKS>(x);
  }
}

#endif
