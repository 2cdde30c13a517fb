// Each pruning rule switched off: which graphs come in, structure by structure, not only the few that the search would
// choose. With a rule off nothing is missing that is there with it on, and what comes in besides is dearer by the model
// than the cheapest that was there.
// test: timeout 300
#include "naive.h"
#include "examples.h"
#include "graphs.h"

#include "search/space.h"

#include <math.h>

static const enum prune rules[] = {PRUNE_EXPR, PRUNE_SHAPE, PRUNE_CANON, PRUNE_FINGER, PRUNE_WHOLE, PRUNE_SQUARE};

static const struct row {
  const char *text;
  int ops, ops_without_oracle; // 0: not tried; without the oracle a space grows a hundredfold with each operator
  int more[COUNT(rules)];      // graphs that come in with each rule off
} rows[] = {
    {"program a() { X: f32[4, 4]\n Y: f32[4, 8]\n return matmul(X, Y) }", 4, 2, {0, 16, 0, 0, 4, 0}},
    {"program b() { X: f32[4, 4]\n return X / sum(X, dim=1) }", 4, 2, {0, 0, 0, 0, 18, 0}},
    {"program c() { X: f32[4, 4]\n Y: f32[4, 4]\n return sum(X * Y, dim=1) }", 4, 2, {0, 0, 0, 0, 2, 0}},
    {"program d() { X: f32[4, 4]\n return sqrt(sum(square(X), dim=1)) }", 4, 3, {0, 0, 0, 0, 2, 0}},
    {"program e() { X: f32[4, 4]\n Y: f32[4, 4]\n return exp(X + Y) * X }", 4, 0, {0}},
    {"program f() { X: f32[4, 4]\n return exp(X) / sum(exp(X), dim=1) }", 4, 0, {0, 0, 0, 0, 10, 0}},
    {"program g() { X: f32[4, 4]\n W: f32[4, 8]\n return relu(matmul(X, W)) }", 4, 2, {0, 16, 0, 0, 4, 0}},
    {"program h() { X: f32[4, 4]\n Y: f32[4, 4]\n Z: f32[4, 1]\n return (X + Y) * Z }", 4, 2, {0}},
    {"program i() { X: f32[4, 4]\n Y: f32[4, 4]\n return X * square(X + Y) }", 4, 0, {0, 0, 0, 0, 0, 6}},
    {"program j() { X: f32[4, 4]\n W: f32[4, 8]\n return matmul(X / sum(X, dim=1), W) }", 4, 0, {0, 24, 0, 0, 44, 0}},
    {"program k() { X: f32[4, 4]\n W: f32[4, 8]\n V: f32[4, 8]\n return matmul(X, W) * matmul(X, V) }",
     5,
     0,
     {0, 104, 0, 0, 20, 0}},
    {"program l() { X: f32[4, 4]\n return square(sum(X, dim=1)) + sum(square(X), dim=1) }", 5, 0, {0, 0, 0, 0, 6, 0}},
    {"program m() { X: f32[16, 64]\n W: f32[64, 64]\n return matmul(X / sqrt(mean(square(X), dim=1)), W) }",
     5,
     0,
     {0, 24, 0, 0, 40, 0}},
};

// Adds to *removed, where given, what `rule` removed.
static void graphs(struct arena *mem, const struct graph *p, unsigned off, int ops, int powers, struct trial_inputs *x,
                   struct naive *out, enum prune rule, uint64_t *removed)
{
  struct tables *t = tables_open(mem, p, off, ops, false);
  tables_graphs(mem, t, ops, 2, powers, x, out);
  if (removed) *removed += tables_planner(t)->stats->pruned[rule];
  tables_close(t);
}

static double cheapest(const struct naive *x, const struct naive *but)
{
  double least = INFINITY;
  for (int i = 0; i < x->n; i++)
    if (!but || !naive_has(but, x->found[i].key)) least = fmin(least, x->found[i].cost);
  return least;
}

static bool check(const struct row *r, uint64_t removed[2][COUNT(rules)])
{
  struct arena mem = {0};
  struct graph *p = graph_of(&mem, r->text);
  struct trial_inputs x = trial_open(&mem, p);
  bool good = true;
  print_message("%.9s:", r->text);
  for (size_t k = 0; k < COUNT(rules); k++) {
    int ops = rules[k] == PRUNE_EXPR ? r->ops_without_oracle : r->ops, lost = 0;
    if (!ops) continue;
    struct naive on, off, sized;
    graphs(&mem, p, 0, ops, 1, &x, &on, rules[k], &removed[0][k]);
    graphs(&mem, p, 1u << rules[k], ops, 1, &x, &off, rules[k], &removed[1][k]);
    graphs(&mem, p, 0, ops, 2, &x, &sized, rules[k], NULL);
    for (int i = 0; i < on.n; i++) lost += !naive_has(&off, on.found[i].key);
    int more = off.n - on.n + lost;
    double least = cheapest(&sized, NULL), dropped = cheapest(&off, &on);
    print_message(" %s %d + %d", prune_rows[rules[k]].name, on.n, more);
    if (!lost && more == r->more[k] && dropped >= least) continue;
    print_message(" (%d lost; %.4f us, %.4f us dropped)", lost, 1e6 * least, 1e6 * dropped);
    good = false;
  }
  print_message("\n");
  arena_close(&mem);
  return good;
}

static void test_rules(void **state)
{
  (void)state;
  bool good = true;
  uint64_t removed[2][COUNT(rules)] = {{0}}; // with the rule on; off
  for (size_t i = 0; i < COUNT(rows); i++) good &= check(&rows[i], removed);
  assert_true(good);
  for (size_t k = 0; k < COUNT(rules); k++) {
    if (rules[k] == PRUNE_SQUARE) continue; // changes what rule `expr` sees
    if (rules[k] != PRUNE_SHAPE) assert_int_equal(removed[1][k], 0);
    assert_true(removed[0][k] > 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
