// A search does not depend on who did its work: any number of threads, processes (threads of this one, here) that share
// it, and runs before it that were cut off anywhere. Units that an earlier run left may be damaged: then they are made
// again, or, where the damage is such that no check can see it, what is found is still verified.
// test: timeout 300
// test: quick release
#include "../thin.h"
#include "examples.h"
#include "verify/verify.h"

#include <pthread.h>

// ---- a store in memory ----

struct kept {
  uint64_t unit;
  size_t n;
  unsigned char *bytes;
};
struct shelf {
  struct arena mem;
  int n, cap;
  struct kept *k;
  int puts, last; // set *stop at put number `last`
  volatile int *stop;
};

static bool shelf_get(void *arg, uint64_t unit, struct arena *mem, void **bytes, size_t *n)
{
  struct shelf *s = arg;
  for (int i = 0; i < s->n; i++)
    if (s->k[i].unit == unit) return *bytes = arena_copy(mem, s->k[i].bytes, s->k[i].n), *n = s->k[i].n, true;
  return false;
}

static void shelf_put(void *arg, uint64_t unit, const void *bytes, size_t n)
{
  struct shelf *s = arg;
  int i = 0;
  while (i < s->n && s->k[i].unit != unit) i++;
  if (i == s->n) PUSH(&s->mem, s->k, s->n, s->cap) = (struct kept){unit};
  s->k[i].bytes = arena_copy(&s->mem, bytes, n), s->k[i].n = n;
  if (s->stop && ++s->puts == s->last) *s->stop = 1;
}

// ---- comparing ----

struct setting_of {
  const char *name;
  int kernels, block_ops;
};
static const struct setting_of some[] = {{"m_gqa", 3, 9}, {"m_rms", 0, 7}, {"m_lora", 0, 8}, {"g_lstm", 2, 6}, {"m_mqa", 0, 0}};

// Sanitizers take long.
static bool sanitized(void) { return getenv("MICA_SANITIZED"); }
static size_t settings(void) { return sanitized() ? 1 : COUNT(some) / (size_t)quick_step(2); }

static struct search_opts opts_of(const struct setting_of *s)
{
  return (struct search_opts){.max_kernel_ops = s->kernels, .max_block_ops = s->block_ops, .threads = 2, .seed = 7};
}

static struct search_result run(struct arena *mem, const struct setting_of *s, const struct search_opts *o)
{
  struct search_result r;
  struct err e = {0};
  assert_int_equal(search_run(mem, load(mem, s->name, 0, NULL), &machine, o, &r, &e), OK);
  return r;
}

static void assert_same(const struct search_result *a, const struct search_result *b)
{
  assert_int_equal(a->n, b->n);
  for (int i = 0; i < a->n; i++) {
    assert_true(graph_same(a->found[i].g, b->found[i].g));
    assert_true(a->found[i].cost == b->found[i].cost);
    assert_int_equal(a->found[i].structure, b->found[i].structure);
    assert_int_equal(a->found[i].kernels, b->found[i].kernels);
    assert_int_equal(a->found[i].block_ops, b->found[i].block_ops);
    assert_string_equal(a->found[i].schedule, b->found[i].schedule);
  }
  assert_int_equal(a->stats.states, b->stats.states);
  assert_int_equal(a->stats.values, b->stats.values);
  assert_int_equal(a->stats.schedules, b->stats.schedules);
  assert_int_equal(a->stats.graphs, b->stats.graphs);
  assert_int_equal(a->stats.verified, b->stats.verified);
  assert_memory_equal(a->stats.pruned, b->stats.pruned, sizeof a->stats.pruned);
  assert_int_equal(a->complete, b->complete);
  assert_string_equal(a->why, b->why);
}

static void test_threads_and_runs(void **state)
{
  (void)state;
  static const int threads[] = {1, 2, 8, 2};
  for (size_t i = 0; i < settings(); i++) {
    struct arena mem = {0};
    struct search_result first = {0};
    for (size_t k = 0; k < COUNT(threads); k++) {
      struct search_opts o = opts_of(&some[i]);
      o.threads = threads[k];
      struct search_result r = run(&mem, &some[i], &o);
      assert_true(r.n > 0);
      if (k)
        assert_same(&first, &r);
      else
        first = r;
    }
    arena_close(&mem);
  }
}

// ---- stopped for good ----

struct watch {
  int stop, calls;
  double best;
};

static void stop_at_first(void *arg, const struct search_stats *s, double best_us, double done)
{
  struct watch *w = arg;
  (void)s;
  w->calls++;
  if (best_us > 0 && !w->stop) w->stop = 1, w->best = best_us, assert_true(done < 0.6);
}

// Verified graphs are there before cuts are saturated, and a stop keeps them.
static void test_first_look(void **state)
{
  (void)state;
  static const struct setting_of rows[] = {{"g_fmha", 0, 0}, {"qknorm_qk", 0, 0}, {"llama_rms_lora", 0, 0}};
  enum { CHEAPER = 2 }; // so many of them cost less than op-by-op at first look; the last has library operators, and costs about as much
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct watch w = {0};
    struct search_opts o = opts_of(&rows[i]);
    o.stop = &w.stop, o.progress = stop_at_first, o.progress_arg = &w;
    struct graph *p = load(&mem, rows[i].name, 0, NULL);
    struct search_result r = run(&mem, &rows[i], &o);
    assert_true(w.stop && r.n > 0);
    assert_true(!r.complete && r.found[0].cost * 1e6 == w.best && (i >= CHEAPER || r.stats.first > 0));
    for (int k = 0; k < r.n; k++) assert_true(verify_filter(p, r.found[k].g, 5));
    arena_close(&mem);
  }
}

// ---- an earlier run ----

static void test_kept(void **state)
{
  (void)state;
  for (size_t i = 0; i < settings(); i++) {
    struct arena mem = {0};
    struct shelf all = {0};
    struct search_store store = {&all, shelf_get, shelf_put};
    struct search_opts o = opts_of(&some[i]);
    struct search_result plain = run(&mem, &some[i], &o), first, again;
    o.store = &store;
    first = run(&mem, &some[i], &o);
    assert_same(&plain, &first);
    assert_int_equal(first.stats.resumed, 0);
    assert_true(all.n > (int)first.stats.schedules);
    o.threads = 1;
    again = run(&mem, &some[i], &o);
    assert_same(&plain, &again);
    assert_int_equal(again.stats.resumed, all.n);
    arena_close(&all.mem);
    arena_close(&mem);
  }
}

// Stopped in the middle of things, often, and always gone on.
static void test_cut_off(void **state)
{
  (void)state;
  struct rng rng = {11};
  for (size_t i = 0; i < settings(); i++) {
    struct arena mem = {0};
    struct shelf shelf = {0};
    struct search_store store = {&shelf, shelf_get, shelf_put};
    struct search_opts o = opts_of(&some[i]);
    struct search_result plain = run(&mem, &some[i], &o), r;
    int cuts = 0, before;
    volatile int stop;
    o.store = &store;
    do {
      stop = 0;
      before = shelf.n;
      shelf.stop = &stop, o.stop = &stop, shelf.puts = 0, shelf.last = 1 + (int)rng_below(&rng, 16);
      o.threads = sanitized() ? 1 : 1 + cuts % 3; // a stop is one of a signal: a plain int, which the thread sanitizer minds
      r = run(&mem, &some[i], &o);
      assert_int_equal(r.stats.resumed, before);
      if (stop) assert_false(r.complete);
      cuts += stop;
    } while (stop);
    assert_true(cuts > 1);
    assert_same(&plain, &r);
    arena_close(&shelf.mem);
    arena_close(&mem);
  }
}

// ---- damage ----

static void reseal(struct kept *k)
{
  uint64_t sum = hash_bytes(k->bytes, k->n - sizeof sum, k->unit);
  memcpy(k->bytes + k->n - sizeof sum, &sum, sizeof sum);
}

static void damage(struct rng *rng, struct kept *k)
{
  size_t body = k->n - 8;
  switch (rng_below(rng, 4)) {
  case 0: k->n = 8 + rng_below(rng, body + 1); break;                                        // cut
  case 1: k->bytes[rng_below(rng, body)] ^= (unsigned char)(1u << rng_below(rng, 8)); break; // one bit
  case 2: k->bytes[rng_below(rng, body)] = (unsigned char)rng_next(rng); break;
  default: // a run of bytes from elsewhere
    for (size_t at = rng_below(rng, body), from = rng_below(rng, body), n = rng_below(rng, 64); n && at < body && from < body; n--)
      k->bytes[at++] = k->bytes[from++];
  }
}

static void copy_shelf(struct shelf *to, const struct shelf *from)
{
  for (int i = 0; i < from->n; i++) shelf_put(to, from->k[i].unit, from->k[i].bytes, from->k[i].n);
}

// Damage that the sum shows: every unit is made again.
static void test_damaged(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct rng rng = {3};
  struct shelf shelf = {0};
  struct search_store store = {&shelf, shelf_get, shelf_put};
  struct search_opts o = opts_of(&some[0]);
  o.store = &store;
  struct search_result plain = run(&mem, &some[0], &o), r;
  for (int i = 0; i < shelf.n; i++) shelf.k[i].bytes[rng_below(&rng, shelf.k[i].n)] ^= 4;
  r = run(&mem, &some[0], &o);
  assert_int_equal(r.stats.resumed, 0);
  assert_same(&plain, &r);
  for (int i = 0; i < shelf.n; i++) shelf.k[i].n = rng_below(&rng, shelf.k[i].n); // and too short
  r = run(&mem, &some[0], &o);
  assert_int_equal(r.stats.resumed, 0);
  assert_same(&plain, &r);
  arena_close(&shelf.mem);
  arena_close(&mem);
}

// Damage under a sum that is right, as only malice makes it: some of it no check can see, but nothing wrong is found.
static void test_forged(void **state)
{
  (void)state;
  struct rng rng = {5};
  struct shelf whole = {0};
  struct arena keep = {0};
  struct search_store store = {&whole, shelf_get, shelf_put};
  struct search_opts o = opts_of(&some[0]);
  int rounds = sanitized() ? 20 : 150, refused = 0, taken = 0;
  o.store = &store;
  run(&keep, &some[0], &o);
  for (int round = 0; round < rounds; round++) {
    struct arena mem = {0};
    struct shelf forged = {0};
    copy_shelf(&forged, &whole);
    store.arg = &forged;
    for (int n = 1 + (int)rng_below(&rng, 12); n; n--) {
      struct kept *k = &forged.k[rng_below(&rng, (uint64_t)forged.n)];
      damage(&rng, k);
      reseal(k);
    }
    struct graph *p = load(&mem, some[0].name, 0, NULL);
    struct search_result r = run(&mem, &some[0], &o);
    for (int i = 0; i < r.n; i += 7) assert_true(verify_filter(p, r.found[i].g, 99));
    refused += whole.n - (int)r.stats.resumed, taken += (int)r.stats.resumed;
    arena_close(&forged.mem);
    arena_close(&mem);
  }
  assert_true(refused > rounds && taken > 0);
  arena_close(&whole.mem);
  arena_close(&keep);
}

// ---- processes that share a search ----

enum { MOST_PROCESSES = 3 };
struct meeting {
  pthread_barrier_t barrier;
  int size;
  const void *bytes[MOST_PROCESSES];
  size_t n[MOST_PROCESSES];
};
struct process {
  struct meeting *m;
  struct crew crew;
  struct search_opts o;
  struct arena mem;
  const struct setting_of *what;
  struct search_result r;
};

static void gather(void *arg, const void *mine, size_t bytes, struct arena *mem, void **all, size_t *n)
{
  struct process *p = arg;
  p->m->bytes[p->crew.rank] = mine, p->m->n[p->crew.rank] = bytes;
  pthread_barrier_wait(&p->m->barrier);
  for (int i = 0; i < p->m->size; i++) all[i] = arena_copy(mem, p->m->bytes[i], n[i] = p->m->n[i]);
  pthread_barrier_wait(&p->m->barrier);
}

static void *take_part(void *arg)
{
  struct process *p = arg;
  p->r = run(&p->mem, p->what, &p->o);
  return NULL;
}

static void run_crew(struct process *p, int size, const struct setting_of *what, const struct search_store *store, stop_flag stop)
{
  struct meeting m = {.size = size};
  pthread_t t[MOST_PROCESSES];
  pthread_barrier_init(&m.barrier, NULL, (unsigned)size);
  for (int i = 0; i < size; i++) {
    p[i] = (struct process){.m = &m, .crew = {i, size, &p[i], gather}, .o = opts_of(what), .what = what};
    p[i].o.threads = 1 + i % 2, p[i].o.crew = &p[i].crew;
    if (!i) p[i].o.store = store, p[i].o.stop = stop;
    assert_int_equal(pthread_create(&t[i], NULL, take_part, &p[i]), 0);
  }
  for (int i = 0; i < size; i++) pthread_join(t[i], NULL);
  pthread_barrier_destroy(&m.barrier);
}

static void test_crew(void **state)
{
  (void)state;
  for (size_t i = 0; i < settings(); i++)
    for (int size = 1; size <= MOST_PROCESSES; size++) {
      struct arena mem = {0};
      struct process p[MOST_PROCESSES];
      struct search_opts o = opts_of(&some[i]);
      struct search_result alone = run(&mem, &some[i], &o);
      run_crew(p, size, &some[i], NULL, NULL);
      for (int k = 0; k < size; k++) {
        assert_same(&alone, &p[k].r);
        arena_close(&p[k].mem);
      }
      arena_close(&mem);
    }
}

// The first process keeps what all have done; a run after it, with other processes, takes that.
static void test_crew_kept(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct shelf shelf = {0};
  struct search_store store = {&shelf, shelf_get, shelf_put};
  struct process p[MOST_PROCESSES];
  volatile int stop = 0;
  struct search_opts o = opts_of(&some[0]);
  struct search_result alone = run(&mem, &some[0], &o);
  shelf.stop = &stop, shelf.last = 100; // the first process sees that, and then all do
  run_crew(p, 3, &some[0], &store, &stop);
  for (int i = 0; i < 3; i++) {
    assert_false(p[i].r.complete);
    assert_non_null(strstr(p[i].r.why, "stopped"));
    arena_close(&p[i].mem);
  }
  assert_true(shelf.n >= 100);
  shelf.stop = NULL;
  int before = shelf.n;
  run_crew(p, 2, &some[0], &store, NULL);
  assert_int_equal(p[0].r.stats.resumed, before);
  for (int i = 0; i < 2; i++) {
    assert_same(&alone, &p[i].r);
    arena_close(&p[i].mem);
  }
  arena_close(&shelf.mem);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_threads_and_runs), cmocka_unit_test(test_first_look), cmocka_unit_test(test_kept), cmocka_unit_test(test_cut_off),
      cmocka_unit_test(test_damaged),          cmocka_unit_test(test_forged),     cmocka_unit_test(test_crew), cmocka_unit_test(test_crew_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
