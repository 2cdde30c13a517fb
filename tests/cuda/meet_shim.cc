// The protocol of src/cuda/meet.cuh on a CPU: random exchanges in a row, whose results must have the bits of the sum in the order of ranks; and a
// rank that stays away, which ends all ranks. test_meet.sh compiles it, and compiles it with mistakes planted in the text, which it must find.
#include "meet_machine.h"

#include "cuda/meet.cuh"

enum { MOST_BLOCKS = 3, STEPS = 24, RESULT = 4096 };

// ---- exchanges ----

struct meeting {
  int row, blocks;
  u32 outer, inner; // elements, those of a part that lie together
};
struct row {
  const char *what;
  int how, unit, bytes;
  double (*number)(const void *p, size_t i);
  double (*sum)(double x, double y); // as the type adds
  void (*round)(void *p, size_t i, double x);
};

template <class T> static double number_of(const void *p, size_t i) { return (double)meet_wide(((const T *)p)[i]); }
template <class T> static void round_to(void *p, size_t i, double x) { meet_narrow(((T *)p)[i], (decltype(meet_wide(T())))x); }
template <class T> static double sum_of(double x, double y)
{
  typedef decltype(meet_wide(T())) wide;
  return (double)((wide)x + (wide)y);
}
#define ROW(T, HOW, UNIT) {#T " " #HOW " " #UNIT, HOW, UNIT, sizeof(T), number_of<T>, sum_of<T>, round_to<T>},
static const row rows[] = {MEET_ROWS(ROW)};

static std::vector<meeting> draw()
{
  std::vector<meeting> all;
  for (int i = 0; i < STEPS; i++) {
    const int k = (int)(shim_random() % (sizeof rows / sizeof *rows));
    const u32 unit = rows[k].unit ? (u32)rows[k].unit : 1, most = 4096 / WORLD / (u32)rows[k].bytes / unit;
    const u32 outer = 1 + (u32)(shim_random() % 3), inner = unit * (1 + (u32)(shim_random() % (most / 4 / outer)));
    all.push_back({k, 1 + (int)(shim_random() % MOST_BLOCKS), rows[k].how == MEETING_SUM ? 1 : outer, inner});
  }
  return all;
}

struct rank {
  std::vector<char> memory;
  std::vector<std::vector<char>> in, out; // by step
  u32 told;
  shim_gate gate;
};
static rank ranks[WORLD];
static std::vector<meeting> steps;

static size_t in_elements(const meeting &m) { return (size_t)m.outer * m.inner * (rows[m.row].how == MEETING_SCATTER ? WORLD : 1); }
static size_t out_elements(const meeting &m) { return (size_t)m.outer * m.inner * (rows[m.row].how == MEETING_GATHER ? WORLD : 1); }

// first: the epoch before the first exchange.
static void fill(u32 first)
{
  for (rank &r : ranks) {
    r.memory.assign(MEETING_HEAD + 2 * WORLD * (MEET_ROOM_WORD + MEET_ROOM_SLOT) + RESULT, 0), r.told = 0, r.gate = {0, true, true, 0};
    memcpy(r.memory.data() + MEET_EPOCH, &first, sizeof first);
    r.in.clear(), r.out.clear();
    for (const meeting &m : steps) {
      r.in.emplace_back(in_elements(m) * (size_t)rows[m.row].bytes + 16), r.out.emplace_back(out_elements(m) * (size_t)rows[m.row].bytes + 16, 0x5a);
      for (size_t i = 0; i < in_elements(m); i++) rows[m.row].round(r.in.back().data(), i, ((double)(shim_random() % 4096) - 2048) * (1 << shim_random() % 16));
    }
  }
}

// Every thread: the kernels one after the other; a rank begins the next when its blocks have ended. `away` stays out of the last ones.
static void all_kernels(int away, size_t until)
{
  meet_world w = {};
  rank &mine = ranks[shim_me->rank];
  for (int r = 0; r < WORLD; r++) w.at[r] = ranks[r].memory.data();
  w.told = &mine.told, w.patience = 3000, w.rank = shim_me->rank, w.ranks = WORLD;
  for (size_t i = 0; i < steps.size(); i++) {
    if (shim_me->rank == away && i == until) return;
    const meeting &m = steps[i];
    shim_me->grid = m.blocks;
    if (shim_me->block < m.blocks) meet_runs[m.row](w, mine.in[i].data(), mine.out[i].data(), m.outer * m.inner, m.inner);
    shim_pass(mine.gate, MOST_BLOCKS * MEET_THREADS, true);
  }
}

// ---- what is right ----

static void expect(const meeting &m, size_t step, int me, std::vector<char> &out)
{
  const row &x = rows[m.row];
  out.assign(ranks[me].out[step].size(), 0x5a);
  for (u32 o = 0; o < m.outer; o++)
    for (u32 k = 0; k < m.inner; k++) {
      const size_t e = (size_t)o * m.inner + k;
      double sum = 0;
      for (int r = 0; r < WORLD; r++) {
        const size_t from = x.how == MEETING_SCATTER ? ((size_t)o * WORLD + (size_t)me) * m.inner + k : e;
        const double one = x.number(ranks[r].in[step].data(), from);
        sum = r ? x.sum(sum, one) : one;
        if (x.how == MEETING_GATHER) x.round(out.data(), ((size_t)o * WORLD + (size_t)r) * m.inner + k, one);
      }
      if (x.how != MEETING_GATHER) x.round(out.data(), e, sum);
    }
}

static bool right()
{
  std::vector<char> want;
  for (int r = 0; r < WORLD; r++) {
    if (ranks[r].told) return printf("rank %d waited in vain: %u\n", r, ranks[r].told), false;
    for (size_t i = 0; i < steps.size(); i++) {
      expect(steps[i], i, r, want);
      if (want != ranks[r].out[i]) return printf("rank %d: exchange %zu, %s, is wrong\n", r, i, rows[steps[i].row].what), false;
    }
  }
  return true;
}

// Another rank's absence is told on every rank that had something to wait for, and what comes after ends at once.
static bool all_told(int away)
{
  for (int r = 0; r < WORLD; r++)
    if (r != away && ranks[r].told != (u32)away + 1 && ranks[r].told != MEETING_OTHERS) return printf("rank %d: told %u\n", r, ranks[r].told), false;
  for (int r = 0; r < WORLD; r++)
    if (ranks[r].told == (u32)away + 1) return true;
  return printf("nobody says that rank %d is away\n", away), false;
}

int main(int argc, char **argv)
{
  const int turns = argc > 1 ? atoi(argv[1]) : 20;
  for (int t = 0; t < turns; t++) {
    shim_seed = (u64)(1 + t) * 1000003;
    steps = draw(), fill(t % 3 ? 0 : 0xfffffff0 + (u32)(t % 16)); // in some turns the epoch wraps around
    if (!shim_run(WORLD, MOST_BLOCKS, 1000000, [] { all_kernels(-1, 0); })) return printf("turn %d: it does not end\n", t), 1;
    if (!right()) return printf("turn %d of %d ranks\n", t, WORLD), 1;
  }
  for (int away = 0; away < WORLD; away++) {
    steps = draw(), fill(0);
    if (!shim_run(WORLD, MOST_BLOCKS, 20000, [=] { all_kernels(away, 5); })) return printf("rank %d away: the others do not end\n", away), 1;
    if (!all_told(away)) return 1;
  }
  return printf("%d turns of %d exchanges of %d ranks: right; a rank that stays away ends all\n", turns, STEPS, WORLD), 0;
}
