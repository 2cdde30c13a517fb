// The machine of meet_shim.h. Each thread of each block of each rank is a fiber. Stores to other ranks arrive late, in any
// order but that of two to one place; a flag that is released arrives after all earlier stores of its block. A seed chooses every order. Fibers
// fall asleep for some time. The clock counts rounds of the scheduler.
#include "meet_shim.h"
#include "megacuda/fiber.h"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

struct shim_gate { // opens when `want` fibers have come
  int come;
  bool good, last;
  u64 round;
};
struct shim_fiber : shim_thread, fiber {
  shim_gate *at;     // waits until its round is over; or NULL
  u64 round, asleep; // it sleeps until then
  std::vector<char> stack;
};
shim_thread *shim_me;
u64 shim_clock;
static std::function<void()> shim_body;
static std::vector<shim_gate> shim_blocks; // by rank and block
static u64 shim_seed = 1;
static int shim_most; // blocks of a rank

static u64 shim_random()
{
  shim_seed += 0x9e3779b97f4a7c15u;
  u64 z = (shim_seed ^ shim_seed >> 30) * 0xbf58476d1ce4e5b9u;
  return (z ^ z >> 27) >> 1;
}

static shim_fiber &shim_this() { return *static_cast<shim_fiber *>(shim_me); }
void shim_yield() { fiber_yield(shim_this()); }

static bool shim_pass(shim_gate &g, int want, bool good)
{
  g.good = g.come ? g.good && good : good;
  if (++g.come == want) return g.come = 0, g.last = g.good, g.round++, g.last;
  shim_fiber &me = shim_this();
  me.at = &g, me.round = g.round;
  while (g.round == me.round) shim_yield();
  return me.at = NULL, g.last;
}
bool shim_block_pass(bool good) { return shim_pass(shim_blocks[(size_t)(shim_me->rank * shim_most + shim_me->block)], MEET_THREADS, good); }

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

void shim_send(void *to, const void *from, size_t n, int rank, bool released)
{
  shim_store s = {(char *)to, {0}, n, shim_me->rank * shim_most + shim_me->block, released};
  memcpy(s.bytes, from, n);
  if (rank == shim_me->rank)
    memcpy(to, from, n);
  else
    shim_way.push_back(s);
}

// ---- the scheduler ----

static void shim_begin()
{
  shim_body();
  shim_this().done = true;
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
    x.at = NULL, x.asleep = 0;
    x.stack.resize(1 << 16);
    fiber_open(x, x.stack.data(), x.stack.size(), shim_begin);
  }
  for (; left && shim_clock < most; shim_clock++) {
    size_t from = shim_random() % f.size();
    for (size_t late = shim_random() % (shim_way.size() / 2 + 2); late && !shim_way.empty(); late--) shim_arrive(shim_random() % shim_way.size());
    for (size_t k = 0; k < f.size(); k++) {
      shim_fiber &x = f[(from + k) % f.size()];
      if (x.done || (x.at && x.at->round == x.round) || x.asleep > shim_clock || shim_random() % 4 == 0) continue;
      if (shim_random() % 64 == 0) x.asleep = shim_clock + shim_random() % 100;
      shim_me = &x;
      fiber_resume(x);
      left -= x.done;
    }
  }
  shim_me = NULL;
  return !left;
}
