// Which of the tensors that kernels could leave are taken where there are too many: those with the cheapest plans, the same
// ones whatever else is taken, in the order of the tables.
#include "examples.h"
#include "graphs.h"
#include "search/space.h"

#include <math.h>

struct bench {
  struct space s;
  struct fctx f;
  struct worker w;
  struct vocabulary voc;
  struct search_opts o;
  struct device dev[MAX_VISITS];
  struct model m;
  int ndev, ntables;
  struct table *t;
};

static void add_inputs(struct bench *b)
{
  const struct graph *p = b->s.p;
  for (int v = 0; v < b->s.nvisit; v++) {
    int t = b->s.visit[v].tensor;
    if (p->nodes[p->tensors[t].node].op != OP_INPUT) continue;
    b->dev[b->ndev++] = (struct device){.has = b->s.visit[v].full,
                                        .e = {b->w.ref.e[v]},
                                        .ehash = expr_hash(b->w.ex, b->w.ref.e[v]),
                                        .f = b->w.ref.f[v],
                                        .hash = b->w.ref.hash[v],
                                        .visit = v,
                                        .input = t};
  }
}

// Tables without a loop, with at most one axis; fingerprints of what they offer.
static struct bench *open_bench(struct arena *mem, const char *text)
{
  struct bench *b = NEW(mem, struct bench);
  char why[160];
  assert_int_equal(classes_build(&b->s, graph_of(mem, text), why), OK);
  finger_open(&b->f, &b->s, 3);
  b->w.ex = expr_open();
  expr_option_exp_laws(b->w.ex, false);
  assert_int_equal(reference_build(&b->w.ref, mem, &b->f, b->w.ex), OK);
  vocabulary_build(&b->voc, mem, &b->s);
  b->o = (struct search_opts){.max_block_ops = 9, .max_values = 1500};
  b->m = (struct model){&b->s, &machine, b->dev};
  b->t = NEWS(mem, struct table, b->s.nclass + 1);
  add_inputs(b);
  for (int c = -1; c < b->s.nclass; c++) {
    struct table *t = &b->t[b->ntables++];
    t->sch = (struct search_schedule){.ngrid = c >= 0, .grid = {MAX(c, 0)}, .loop = -1};
    saturate(t, mem, &b->w, &b->f, &b->voc, b->dev, b->ndev, &b->o);
    for (int i = 0; i < t->n; i++)
      if (!cut_offered(&b->s, t, &t->v[i], false)) t->v[i].f.v = NULL;
  }
  return b;
}

static void close_bench(struct bench *b)
{
  expr_close(b->w.ex);
  arena_close(&b->w.scratch), arena_close(&b->w.pairs.mem);
}

static int choose(struct arena *mem, const struct bench *b, bool parts, int most, struct cut **out, bool *all)
{
  const struct cut_source from = {&b->m, &b->f, &b->w.ref, b->t, b->ntables, b->ndev, parts};
  return cuts_choose(mem, &from, most, out, all);
}

static bool holds(const struct cut *c, int n, const struct cut *x)
{
  for (int i = 0; i < n; i++)
    if (c[i].table == x->table && c[i].value == x->value) return true;
  return false;
}

static void assert_ordered(const struct cut *c, int n)
{
  for (int i = 1; i < n; i++) assert_true(c[i - 1].table < c[i].table || (c[i - 1].table == c[i].table && c[i - 1].value < c[i].value));
}

#define TWO "program p { X: f32[16, 256]\n W: f32[256, 512]\n V: f32[256, 512]\n return silu(matmul(X, W)) * matmul(X, V) }"
#define DEAR "program p { X: f32[16, 512]\n A: f32[512, 8]\n B: f32[8, 512]\n return matmul(matmul(X, A), B) }"

static void test_most(void **state)
{
  (void)state;
  static const char *const texts[] = {TWO, DEAR};
  for (size_t i = 0; i < COUNT(texts); i++) {
    struct arena mem = {0};
    struct bench *b = open_bench(&mem, texts[i]);
    struct cut *all, *some, *fewer = NULL;
    bool whole;
    int n = choose(&mem, b, false, 1000, &all, &whole), before = 0;
    assert_true(n > 4 && whole);
    assert_ordered(all, n);
    for (int most = 1; most < n; most++) {
      assert_int_equal(choose(&mem, b, false, most, &some, &whole), most);
      assert_false(whole);
      assert_ordered(some, most);
      double dearest = 0;
      for (int k = 0; k < most; k++) assert_true(holds(all, n, &some[k]) && some[k].cost > 0), dearest = fmax(dearest, some[k].cost);
      for (int k = 0; k < before; k++) assert_true(holds(some, most, &fewer[k])); // one more only adds one,
      for (int k = 0; k < most; k++)
        if (before && !holds(fewer, before, &some[k])) assert_true(some[k].cost > 0.96 * dearest); // that is no cheaper
      fewer = some, before = most;
    }
    close_bench(b);
    arena_close(&mem);
  }
}

static double elements(const struct bench *b, const struct cut *x)
{
  mask has = b->t[x->table].v[x->value].has;
  double n = 1;
  for (int c = 0; c < b->s.nclass; c++) n *= (has & all_of(c)) == all_of(c) ? (double)b->s.classes[c].extent : 1;
  return n;
}

// A B is large and takes many operations, as (X A) B does not: it and its parts are the last that are taken.
static void test_dear_last(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct bench *b = open_bench(&mem, DEAR);
  struct cut *all, *some;
  bool whole;
  int n = choose(&mem, b, false, 1000, &all, &whole), large = 0;
  for (int i = 0; i < n; i++) large += elements(b, &all[i]) >= 512 * 512;
  assert_in_range(large, 1, n / 2);
  assert_true(elements(b, &all[n - 1]) < 512 * 512); // it is not the order
  assert_int_equal(choose(&mem, b, false, n - large, &some, &whole), n - large);
  for (int i = 0; i < n - large; i++) assert_true(elements(b, &some[i]) < 512 * 512);
  close_bench(b);
  arena_close(&mem);
}

// Among parts only those of tensors that are there.
static void test_parts(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct bench *b = open_bench(&mem, TWO);
  struct cut *c;
  bool whole;
  assert_int_equal(choose(&mem, b, true, 1000, &c, &whole), 0); // inputs have none
  for (int v = 0; v < b->s.nvisit; v++) {
    if (b->s.p->nodes[b->s.p->tensors[b->s.visit[v].tensor].node].op != OP_MATMUL) continue;
    b->dev[b->ndev++] = (struct device){.has = b->s.visit[v].full, .hash = b->w.ref.hash[v], .visit = v, .input = -1};
  }
  int n = choose(&mem, b, true, 1000, &c, &whole);
  assert_int_equal(n, 2); // X W and X V
  for (int i = 0; i < n; i++) {
    int k;
    assert_true(partial_class(&b->s, b->t[c[i].table].v[c[i].value].has, &k));
    assert_true(b->s.classes[k].kind & CONTRACTED);
  }
  close_bench(b);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_most), cmocka_unit_test(test_dear_last), cmocka_unit_test(test_parts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
