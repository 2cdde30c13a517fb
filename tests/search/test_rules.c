// Each pruning rule switched off: which graphs come in, structure by structure, not only the few that the search would
// choose. With a rule off nothing is missing that is there with it on; what comes in besides takes at least as many
// blocks' worth of operators, moved elements and operations as some graph that was there.
// test: timeout 300
#include "naive.h"
#include "examples.h"
#include "graphs.h"

#include "search/search.h"

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
    {"program k() { X: f32[4, 4]\n W: f32[4, 8]\n V: f32[4, 8]\n return matmul(X, W) * matmul(X, V) }", 4, 0, {0, 64, 0, 0, 20, 0}},
};

static int graphs(struct arena *mem, const struct graph *p, unsigned off, int ops, int powers, struct trial_inputs *x, struct naive *out)
{
  struct tables *t = tables_open(mem, p, off, ops, false);
  tables_graphs(mem, t, ops, 2, powers, x, out);
  tables_close(t);
  return out->n;
}

static bool check(const struct row *r)
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
    double start = now_seconds();
    graphs(&mem, p, 0, ops, 1, &x, &on), graphs(&mem, p, 1u << rules[k], ops, 1, &x, &off), graphs(&mem, p, 0, ops, 2, &x, &sized);
    for (int i = 0; i < on.n; i++) lost += !naive_has(&off, on.found[i].key);
    int more = off.n - on.n + lost;
    print_message(" %s %d + %d (%d), %.2f s;", prune_rows[rules[k]].name, on.n, more, ops, now_seconds() - start);
    good &= !lost && more == r->more[k] && none_cheaper(&off, &on, &sized, r->text);
  }
  print_message("\n");
  arena_close(&mem);
  return good;
}

static void test_rules(void **state)
{
  (void)state;
  bool good = true;
  for (size_t i = 0; i < COUNT(rows); i++) good &= check(&rows[i]);
  assert_true(good);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
