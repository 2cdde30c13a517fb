// Sizes and costs are kept by schedule and by kind of work. Kept values equal those computed anew.
#include "examples.h"
#include "search/space.h"

#include <math.h>

struct bench {
  struct arena mem;
  struct space s;
  struct fctx f;
  struct vocabulary voc;
  struct worker w;
  struct device dev[MAX_VISITS + 1];
  struct table t;
  struct model m;
  int picks, chosen, shared;
  int kept, works[64][MAX_PICK + MAX_ROOTS + 1]; // of the first picks of a table
  double cost[64];
  struct ground *ground;
};

static double sum_anew(const struct bench *b, const struct works *w, const struct sizes *z)
{
  struct search_term sum = {0};
  for (int i = 0; i < w->n; i++) {
    struct search_term x = cost_term(&b->m, &b->t.work[w->id[i]], z);
    sum.compute += x.compute, sum.unique += x.unique, sum.again += x.again, sum.streams += x.streams, sum.tile += x.tile;
  }
  return cost_seconds(&b->m, &sum, z);
}

static void check_sizes(const struct bench *b, const struct sizes *z)
{
  int64_t blocks = 1;
  for (int c = 0; c < b->s.nclass; c++) {
    assert_int_equal(z->ext[c][GRID] * z->ext[c][LOOP] * z->ext[c][TILE], b->s.classes[c].extent);
    blocks *= z->ext[c][GRID];
  }
  assert_int_equal(blocks, z->blocks);
  assert_int_equal(z->ext[b->t.sch.loop][LOOP], z->iterations);
}

static bool take(void *arg, const struct pick *p)
{
  struct bench *b = arg;
  struct works w;
  struct sized z[2], again[2], fresh[2];
  uint64_t large[3] = {0};
  int root = p->value[p->n - 1];
  work_of(&b->t, p, &root, 1, &w);
  assert_int_equal(w.n, p->n + 1);
  int n = sizes_choose(b->ground, &w, z, 2, &large[0]);
  assert_int_equal(sizes_choose(b->ground, &w, again, 2, &large[1]), n);
  struct ground *g = sizes_open(&b->mem, &b->m, &b->t, -1, 0);
  assert_int_equal(sizes_choose(g, &w, fresh, 2, &large[2]), n);
  assert_true(large[0] == large[1] && large[0] == large[2]);
  for (int i = 0; i < n; i++) {
    const struct sizes *s = sizes_of(z[i].at);
    check_sizes(b, s);
    assert_true(z[i].at == again[i].at && !memcmp(s, sizes_of(fresh[i].at), sizeof *s));
    assert_true(isfinite(z[i].cost) && (!i || z[i - 1].cost <= z[i].cost));
    assert_memory_equal(&z[i].cost, &(double){sum_anew(b, &w, s)}, sizeof(double));
    assert_memory_equal(&z[i].cost, &(double){sizes_cost(g, fresh[i].at, &w)}, sizeof(double));
  }
  for (int i = 0; n && i < b->kept; i++)
    if (!memcmp(b->works[i], w.id, sizeof(int) * (size_t)w.n) && b->works[i][w.n] == -1) {
      assert_memory_equal(&b->cost[i], &z[0].cost, sizeof(double));
      b->shared++;
    }
  if (n && b->kept < 64) {
    memcpy(b->works[b->kept], w.id, sizeof(int) * (size_t)w.n);
    b->works[b->kept][w.n] = -1, b->cost[b->kept++] = z[0].cost;
  }
  b->picks++, b->chosen += n > 0;
  return true;
}

// A schedule with one grid axis and a loop under which the output can be saved.
static bool find_table(struct bench *b, int grid, int loop, int ndev)
{
  const struct search_opts o = {.max_values = 1500, .max_block_ops = 11};
  mask has;
  b->t = (struct table){.sch = {.ngrid = 1, .grid = {grid}, .loop = loop}};
  saturate(&b->t, &b->mem, &b->w, &b->f, &b->voc, b->dev, ndev, &o);
  extract_open(&b->mem, &b->t, ndev), work_open(&b->mem, &b->m, &b->t);
  b->ground = sizes_open(&b->mem, &b->m, &b->t, -1, 0);
  int v = b->s.out[0], found = 0;
  b->kept = 0;
  for (int i = 0; i < b->t.n; i++)
    if (b->t.v[i].hash == b->w.ref.hash[v] && value_saveable(&b->s, &b->t, &b->t.v[i], &has) && has == b->s.visit[v].full && b->t.v[i].der >= 0) {
      extract(&b->t, &i, 1, 11, ndev, 0, take, b);
      found++;
    }
  return found > 0;
}

static void test_sizes(void **state)
{
  (void)state;
  struct bench *b = calloc(1, sizeof *b);
  char why[160];
  int ndev = 0, tables = 0;
  b->w.ex = expr_open();
  expr_option_exp_laws(b->w.ex, false);
  assert_int_equal(classes_build(&b->s, load(&b->mem, "m_rms", 0, NULL), why), OK);
  finger_open(&b->f, &b->s, 7);
  assert_int_equal(reference_build(&b->w.ref, &b->mem, &b->f, b->w.ex), OK);
  vocabulary_build(&b->voc, &b->mem, &b->s);
  for (int v = 0; v < b->s.nvisit; v++) {
    enum op op = b->s.p->nodes[b->s.p->tensors[b->s.visit[v].tensor].node].op;
    if (op != OP_INPUT && op != OP_CONST) continue;
    b->dev[ndev++] = (struct device){.has = b->s.visit[v].full,
                                     .e = {b->w.ref.e[v]},
                                     .ehash = expr_hash(b->w.ex, b->w.ref.e[v]),
                                     .f = b->w.ref.f[v],
                                     .hash = b->w.ref.hash[v],
                                     .visit = v,
                                     .input = op == OP_INPUT ? b->s.visit[v].tensor : -1};
  }
  b->m = (struct model){&b->s, &machine, b->dev};
  for (int grid = 0; grid < b->s.nclass; grid++)
    for (int loop = 0; loop < b->s.nclass; loop++)
      tables += (b->s.classes[loop].kind & (CONTRACTED | REDUCED)) && grid != loop && find_table(b, grid, loop, ndev);
  assert_true(tables > 0 && b->picks >= 40 && b->chosen >= 40 && b->shared > 10);
  expr_close(b->w.ex);
  arena_close(&b->w.pairs.mem), arena_close(&b->w.scratch), arena_close(&b->mem);
  free(b);
}

// Seconds of a kernel that reads as many bytes of tiles again, and computes beside; of a program with a class of that kind.
static double streamed_in(enum search_kind kind, double tiles, double compute)
{
  const struct space s = {.nclass = 1, .classes = {{.kind = kind}}};
  const struct model m = {.s = &s, .t = &machine};
  const struct sizes z = {.blocks = 2, .iterations = 1};
  return cost_seconds(&m, &(struct search_term){.streams = 1e9, .tile = tiles, .compute = compute}, &z);
}
static double streamed(double tiles, double compute) { return streamed_in(CONTRACTED, tiles, compute); }

// Reading tiles again costs more if they do not fit the nearest cache, and the same for all sizes that fit the next one;
// tiles that do not fit that one either cost more yet, and are out in a program with products. Arithmetic hides most of it.
static void test_tiles(void **state)
{
  (void)state;
  double l1 = (double)machine.l1, scratch = (double)machine.scratch, near = streamed(0, 0), far = streamed(scratch, 0);
  assert_true(near < streamed(2 * l1, 0) && streamed(2 * l1, 0) < far && far < 5 * near);
  assert_true(streamed(4 * l1, 0) == far && streamed(scratch / 2, 0) == far);
  assert_true(isinf(streamed(scratch + 1, 0)));
  assert_true(streamed_in(REDUCED, scratch, 0) == far);
  assert_true(streamed_in(REDUCED, 2 * scratch, 0) > far && streamed_in(REDUCED, 4 * scratch, 0) > streamed_in(REDUCED, 2 * scratch, 0));
  assert_true(isfinite(streamed_in(REDUCED, 8 * scratch, 0)) && isinf(streamed_in(REDUCED, (double)machine.memory, 0)));
  assert_true(streamed(scratch, 1) - streamed(0, 1) < 0.4 * (far - near));
}

// For GPUs, tiles are multiples of 16, or of the power of two below that the whole is one of; what loops take is a multiple of 16.
static void test_good_extents(void **state)
{
  (void)state;
  assert_true(cost_gpu.extent(4104, 72, false) && cost_gpu.extent(4104, 8, false) && cost_gpu.extent(1500, 60, false));
  assert_true(cost_gpu.extent(4096, 64, false) && cost_gpu.extent(4096, 64, true) && cost_gpu.extent(2049, 683, false));
  assert_false(cost_gpu.extent(4104, 18, false) || cost_gpu.extent(4104, 72, true) || cost_gpu.extent(4128, 24, false));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_tiles), cmocka_unit_test(test_good_extents)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
