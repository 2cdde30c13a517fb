// Mutants: graphs with one wrong map, operand, operator, loop range, accumulator or constant must be rejected. Accepted
// mutants are compared with real numbers (the interpreter in float64), and each must be of a kind whose reason stands in
// the table below: an accepted mutant that computes something else is a hole in the verifier.
// test: timeout 300
// test: quick release
#include "cases.h"
#include "front/front.h"
#include "mutate.h"
#include "thin.h"
#include "verify/proof.h"
#include "verify/verify.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 3, MOST_REASONS = 16 };

struct tally {
  const char *name;
  const struct graph *original;         // small
  void *in[SEEDS][64], *out[SEEDS][64]; // of the original, in float64
  int made[CHANGES], accepted[CHANGES], by_reason[MOST_REASONS];
  int wrong, unexplained, filter_missed, filter_extra, rejected_equal;
  int seen;                 // mutants, of which under the sanitizers some are run
  int proved, proved_wrong; // by normal forms; of those, the ones that real numbers refute
};

// ---- why a changed graph may be equal ----

static const struct shape *argument(const struct mutation *m) { return &m->in->tensors[m->in->nodes[m->node].in[0]].shape; }

static bool commutes(const struct mutation *m) { return m->change == CHANGE_SWAP && op_rows[m->op].flags & COMMUTES; }
static bool axis(const struct mutation *m) { return m->change == CHANGE_AXIS; }

static bool whole_group(const struct mutation *m)
{
  return m->change == CHANGE_COUNT && m->op == OP_SUM && m->y == argument(m)->d[m->in->nodes[m->node].a.dim];
}
static bool parts_of_sum(const struct mutation *m)
{
  return (m->change == CHANGE_COUNT && m->op == OP_SUM) || (m->change == CHANGE_DIM && m->op == OP_ACCUM_SUM);
}

static bool is_view(enum op op) { return op_rows[op].rule == RULE_VIEW; }
static bool same_order(const struct mutation *m)
{
  return (m->change == CHANGE_ORDER || m->change == CHANGE_OP) && is_view(m->op_before) && m->op_before != OP_REPEAT;
}
static bool joined_elsewhere(const struct mutation *m) { return m->change == CHANGE_OMAP; }
static bool repeats_one(const struct mutation *m) { return m->op_before == OP_REPEAT && argument(m)->d[m->in->nodes[m->node].a.dim] == 1; }
static bool dims_of_one(const struct mutation *m)
{
  return m->change == CHANGE_DIM && argument(m)->d[m->y] == 1 && argument(m)->d[m->in->nodes[m->node].a.dim] == 1;
}
static bool under_running_maximum(const struct mutation *m)
{
  return m->op_before == OP_MAX && (m->change == CHANGE_OP || m->change == CHANGE_OPERAND);
}
static bool repeated_mean(const struct mutation *m) { return m->change == CHANGE_FMAP && m->op == OP_ITER; }
static bool hides_by_product(const struct mutation *m)
{
  return m->change == CHANGE_OP && ((m->op_before == OP_MUL && m->op == OP_MASK) || (m->op_before == OP_MASK && m->op == OP_MUL));
}
static bool normalized_twice(const struct mutation *m) { return m->in->level == KERNEL; }

static const struct reason {
  const char *where; // part of the case's name, or NULL
  bool (*is)(const struct mutation *m);
  const char *why;
} reasons[] = {
    {NULL, commutes, "the operator commutes"},
    {NULL, axis, "the same work in another number of blocks or iterations: tiles, savers and accumulators follow"},
    {NULL, whole_group, "one group of the whole extent"},
    {NULL, dims_of_one, "another dimension of extent 1"},
    {NULL, hides_by_product, "over real numbers a mask is a product"},
    {NULL, repeats_one, "one slice broadcasts instead of being repeated"},
    {"rouped", same_order, "a view of the same elements in the same order, up to extents of 1, before a reshape"},
    {"moe", same_order, "transposes an extent of 1 before a reshape"},
    {"split", joined_elsewhere, "a reshape follows that reads the same elements in the same order"},
    {"soft", parts_of_sum, "the second kernel sums parts of any size"},
    {"split", parts_of_sum, "the second kernel sums parts of any size"},
    {"stable", under_running_maximum, "the shift of a stable softmax cancels whatever its value is"},
    {"layer norm", repeated_mean, "the mean of repeated means is the mean"},
    {"ngpt_alpha", normalized_twice, "the outer norm cancels any factor of a row, such as the inner norm's"},
};

// ---- the oracle: real numbers ----

static bool close_to(const struct graph *g, void *const *x, void *const *y)
{
  int outs[64], n = graph_outputs(g, outs);
  for (int i = 0; i < n; i++)
    for (int64_t k = 0; k < shape_size(&g->tensors[outs[i]].shape); k++) {
      double u = ((double *)x[i])[k], v = ((double *)y[i])[k];
      if (!(fabs(u - v) <= 1e-9 * (1 + fabs(u)))) return false;
    }
  return true;
}

static bool equal_on_reals(struct arena *mem, const struct tally *t, const struct graph *g)
{
  for (int i = 0; i < SEEDS; i++) {
    void *out[64];
    real_run(mem, g, t->in[i], out);
    if (!close_to(g, t->out[i], out)) return false;
  }
  return true;
}

// One mutant of this number is judged.
static int step(void) { return quick_step(4) * thinned(3); }

// ---- one mutant ----

static void complain(const struct tally *t, const struct graph *g, const struct mutation *m, const char *what)
{
  struct str text = {0};
  graph_print(g, &text);
  printf("%s: %s: %s\n%s\n", t->name, what, m->text, str_text(&text));
  str_free(&text);
}

static int reason_of(const struct tally *t, const struct mutation *m)
{
  for (int i = 0; i < (int)COUNT(reasons); i++)
    if ((!reasons[i].where || strstr(t->name, reasons[i].where)) && reasons[i].is(m)) return i;
  return -1;
}

static void found(void *arg, const struct graph *g, const struct mutation *m)
{
  struct tally *t = arg;
  if (t->seen++ % step()) return;
  struct arena mem = {0};
  struct certificate c;
  struct err e = {0};
  const struct verify_opts o = {.delta = 1e-3, .seed = 11};
  if (verify_equal(t->original, g, &o, &c, &e)) fail_msg("%s: %s: %s", t->name, m->text, e.text);
  bool filtered = verify_filter(t->original, g, 5), real = equal_on_reals(&mem, t, g);
  char undecided[160];
  bool proved = verify_prove(t->original, g, undecided);
  int why = reason_of(t, m);
  t->made[m->change]++, t->accepted[m->change] += c.equal;
  if (c.equal && !real)
    t->wrong++, complain(t, g, m, "accepted, but differs on real numbers");
  else if (c.equal && why < 0)
    t->unexplained++, complain(t, g, m, "accepted without a reason");
  else if (c.equal)
    t->by_reason[why]++;
  if (c.equal && !filtered) t->filter_missed++, complain(t, g, m, "equal, but the filter rejects it");
  t->proved += proved;
  if (proved && !real) t->proved_wrong++, complain(t, g, m, "proved, but it is not equal");
  t->filter_extra += !c.equal && filtered;
  t->rejected_equal += !c.equal && real;
  arena_close(&mem);
}

static void mutate(struct tally *t, const char *name, const struct graph *g)
{
  struct arena mem = {0};
  t->name = name, t->original = g;
  for (int i = 0; i < SEEDS; i++) {
    eval_random(&mem, g, DOM_F64, NULL, (uint64_t)i, t->in[i]);
    real_run(&mem, g, t->in[i], t->out[i]);
  }
  printf("%-50s %5d mutants\n", name, mutants(g, found, t));
  arena_close(&mem);
}

static void mutate_file(struct tally *t, const char *path)
{
  struct arena mem = {0};
  struct graph *g, *a, *b;
  struct err e = {0};
  if (front_load(&mem, path, 0, NULL, &g, &e)) fail_msg("%s: %s", path, e.text);
  if (!shrink_pair(&mem, g, g, VARIED, &a, &b)) fail_msg("%s: cannot be shrunk", path);
  mutate(t, path, a);
  arena_close(&mem);
}

static void mutate_folder(struct tally *t, const char *folder)
{
  struct dirent **names;
  int n = scandir(folder, &names, NULL, alphasort);
  assert_true(n > 0);
  for (int i = 0; i < n; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
    if (strstr(path, ".mica")) mutate_file(t, path);
    free(names[i]);
  }
  free(names);
}

static void mutate_text(struct tally *t, const char *name, const char *text)
{
  struct arena mem = {0};
  struct graph *g;
  struct err e = {0};
  if (front_parse(&mem, text, strlen(text), name, 0, NULL, &g, &e)) fail_msg("%s: %s", name, e.text);
  mutate(t, name, g);
  arena_close(&mem);
}

static void print(const struct tally *t)
{
  int made = 0, accepted = 0;
  for (int i = 0; i < CHANGES; i++) {
    printf("  %-10s %6d made %6d accepted\n", change_names[i], t->made[i], t->accepted[i]);
    made += t->made[i], accepted += t->accepted[i];
  }
  printf("  %-10s %6d made %6d accepted\n", "all", made, accepted);
  for (int i = 0; i < (int)COUNT(reasons); i++) printf("  %5d: %s\n", t->by_reason[i], reasons[i].why);
  printf("  %5d of the accepted are proved by normal forms\n", t->proved);
  printf("  %5d rejected that were the same on %d real inputs (a relu that cuts everything off, say)\n", t->rejected_equal, SEEDS);
  printf("  %5d rejected that the filter lets through\n", t->filter_extra);
}

static void test_mutants(void **state)
{
  (void)state;
  struct tally t = {0};
  for (int i = 0; i < equal_count; i++) {
    mutate_text(&t, equal_cases[i].name, equal_cases[i].graph);
    mutate_text(&t, equal_cases[i].name, equal_cases[i].program);
  }
  mutate_folder(&t, "examples/graphs");
  mutate_folder(&t, "examples");
  print(&t);
  int made = 0;
  for (int i = 0; i < CHANGES; i++) made += t.made[i];
  assert_true(made >= 2000 / step());
  assert_int_equal(t.wrong, 0);
  assert_int_equal(t.unexplained, 0);
  assert_int_equal(t.filter_missed, 0);
  assert_int_equal(t.proved_wrong, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_mutants)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
