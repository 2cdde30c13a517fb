// Each pruning rule switched off: which graphs come in, structure by structure, not only the few that the search would
// choose. With a rule off nothing is missing that is there with it on, and what comes in besides is no cheaper than its
// representative, some graph that was there: in no count of what it takes, nor by the model. But eight, with a whole
// copy beside a part: `accum_rms` needs a loop and is one operator, so they have one less; by the model the cheapest
// that was there is no dearer. The axioms prove none of the graphs that come in without the oracle equal to the program.
#include "naive.h"
#include "examples.h"
#include "graphs.h"

#include "search/space.h"

#include <math.h>

static const enum prune rules[] = {PRUNE_SHAPE, PRUNE_CANON, PRUNE_FINGER, PRUNE_WHOLE, PRUNE_SQUARE};

// clang-format off
static const struct row {
  const char *text;
  int ops, more[COUNT(rules)]; // operators; graphs that come in with each rule off
  int alone;                   // of these with rule `whole` off: without a representative that takes no more
  struct {
    int ops, found, more;      // without the oracle: operators; graphs with it; graphs that come in
  } blind[2];                  // quick; deep
} rows[] = {
    {"program a() { X: f32[4, 4]\n Y: f32[4, 8]\n return matmul(X, Y) }", 4, {16, 0, 0, 4, 0}, 0, {{4, 8, 0}, {6, 8, 0}}},
    {"program b() { X: f32[4, 4]\n return X / sum(X, dim=1) }", 4, {0, 0, 0, 18, 0}, 0, {{4, 2, 94}, {5, 2, 1056}}},
    {"program c() { X: f32[4, 4]\n Y: f32[4, 4]\n return sum(X * Y, dim=1) }", 4, {0, 0, 0, 2, 0}, 0, {{4, 8, 0}, {6, 8, 0}}},
    {"program d() { X: f32[4, 4]\n return sqrt(sum(square(X), dim=1)) }", 4, {0, 0, 0, 2, 0}, 0, {{4, 8, 0}, {6, 8, 48}}},
    {"program e() { X: f32[4, 4]\n Y: f32[4, 4]\n return exp(X + Y) * X }", 4, {0, 0, 0, 0, 0}, 0, {{4, 3, 9}, {6, 3, 9}}},
    {"program f() { X: f32[4, 4]\n return exp(X) / sum(exp(X), dim=1) }", 4, {0, 0, 0, 10, 0}, 0, {{4, 2, 0}, {5, 2, 174}}},
    {"program g() { X: f32[4, 4]\n W: f32[4, 8]\n return relu(matmul(X, W)) }", 4, {16, 0, 0, 4, 0}, 0, {{4, 8, 0}, {6, 8, 0}}},
    {"program h() { X: f32[4, 4]\n Y: f32[4, 4]\n Z: f32[4, 1]\n return (X + Y) * Z }", 4, {0, 0, 0, 0, 0}, 0, {{4, 8, 0}, {5, 8, 0}}},
    {"program i() { X: f32[4, 4]\n Y: f32[4, 4]\n return X * square(X + Y) }", 4, {0, 0, 0, 0, 6}, 0, {{4, 3, 6}, {6, 3, 72}}},
    {"program j() { X: f32[4, 4]\n W: f32[4, 8]\n return matmul(X / sum(X, dim=1), W) }", 4, {24, 0, 0, 44, 0}, 0, {{4, 12, 4}, {5, 20, 524}}},
    {"program k() { X: f32[4, 4]\n W: f32[4, 8]\n V: f32[4, 8]\n return matmul(X, W) * matmul(X, V) }", 5, {104, 0, 0, 20, 0}, 0, {{4, 4, 0}, {6, 8, 0}}},
    {"program l() { X: f32[4, 4]\n return square(sum(X, dim=1)) + sum(square(X), dim=1) }", 5, {0, 0, 0, 6, 0}, 0, {{5, 4, 0}, {6, 12, 0}}},
    {"program m() { X: f32[16, 64]\n W: f32[64, 64]\n return matmul(X / sqrt(mean(square(X), dim=1)), W) }", 5, {24, 0, 0, 40, 0}, 8, {{4, 4, 0}, {5, 20, 4}}},
    {"program n() { X: f32[4, 4]\n Y: f32[4, 4]\n return sum(exp(X), dim=1) * sum(Y, dim=0) }", 4, {72, 0, 0, 4, 0}, 0, {{4, 12, 0}, {5, 44, 0}}},
    {"program o() { X: f32[4, 4]\n Y: f32[4, 4]\n return sum(exp(X + Y) * X, dim=1) }", 4, {0, 0, 0, 2, 0}, 0, {{4, 4, 0}, {5, 8, 12}}},
};
// clang-format on

// Adds to *removed, where given, what `rule` removed.
static void graphs(struct arena *mem, const struct graph *p, unsigned off, int ops, int powers, struct trial_inputs *x, struct naive *out,
                   enum prune rule, uint64_t *removed)
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

// How many of x are not in y?
static int beside(const struct naive *x, const struct naive *y)
{
  int n = 0;
  for (int i = 0; i < x->n; i++) n += !naive_has(y, x->found[i].key);
  return n;
}

// Does one and the same graph of x have as many blocks, take no more of anything, and cost no more by the model?
static bool represented(const struct naive_graph *g, const struct naive *x)
{
  bool any = false;
  const struct bill much = bill_of(g->g);
  for (int i = 0; i < x->n && !any; i++) {
    const struct bill less = bill_of(x->found[i].g);
    any = x->found[i].cost <= g->cost && bill_within(&less, &much);
  }
  return any;
}

static bool check_rule(struct arena *mem, const struct row *r, const struct graph *p, struct trial_inputs *x, size_t k,
                       uint64_t removed[2][COUNT(rules)])
{
  struct naive on, off, sized;
  graphs(mem, p, 0, r->ops, 1, x, &on, rules[k], &removed[0][k]);
  graphs(mem, p, 1u << rules[k], r->ops, 1, x, &off, rules[k], &removed[1][k]);
  graphs(mem, p, 0, r->ops, 2, x, &sized, rules[k], NULL);
  int lost = beside(&on, &off), more = beside(&off, &on), alone = 0;
  for (int i = 0; i < off.n; i++) alone += !naive_has(&on, off.found[i].key) && !represented(&off.found[i], &sized);
  double least = cheapest(&sized, NULL), dropped = cheapest(&off, &on);
  print_message(" %s %d + %d", prune_rows[rules[k]].name, on.n, more);
  if (!lost && more == r->more[k] && dropped >= least && alone == (rules[k] == PRUNE_WHOLE ? r->alone : 0)) return true;
  print_message(" (%d lost, %d alone; %.4f us, %.4f us dropped)", lost, alone, 1e6 * least, 1e6 * dropped);
  return false;
}

void rules_check(void)
{
  bool good = true;
  uint64_t removed[2][COUNT(rules)] = {{0}}; // with the rule on; off
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct graph *p = graph_of(&mem, rows[i].text);
    struct trial_inputs x = trial_open(&mem, p);
    print_message("%.9s:", rows[i].text);
    for (size_t k = 0; k < COUNT(rules); k++) good &= check_rule(&mem, &rows[i], p, &x, k, removed);
    print_message("\n");
    arena_close(&mem);
  }
  assert_true(good);
  for (size_t k = 0; k < COUNT(rules); k++) {
    if (rules[k] == PRUNE_SQUARE) continue; // changes what rule `expr` sees
    if (rules[k] != PRUNE_SHAPE) assert_int_equal(removed[1][k], 0);
    assert_true(removed[0][k] > 0);
  }
}

// ---- without the oracle -------------------------------------------------------------------------------------------

// Whether rule `expr` claims to remove g, and g, which was found, is no cheaper than its representative.
static bool may_be_lost(const struct graph *p, const struct naive_graph *g, const struct naive *sized)
{
  bool same = same_expression(p, g->g);
  if (!same && represented(g, sized)) return true;
  struct str s = {0};
  graph_print(g->g, &s);
  print_message("%s\n%s", same ? "lost, and the axioms prove it" : "lost, and nothing that was there takes as little", str_text(&s));
  str_free(&s);
  return false;
}

static bool check_blind(const struct row *r, bool deep, int sum[2])
{
  struct arena mem = {0};
  struct graph *p = graph_of(&mem, r->text);
  struct trial_inputs x = trial_open(&mem, p);
  struct naive on, off, sized;
  int ops = r->blind[deep].ops;
  uint64_t removed[2] = {0};
  double start = now_seconds();
  graphs(&mem, p, 0, ops, 1, &x, &on, PRUNE_EXPR, &removed[0]);
  graphs(&mem, p, 1u << PRUNE_EXPR, ops, 1, &x, &off, PRUNE_EXPR, &removed[1]);
  graphs(&mem, p, 0, ops, 2, &x, &sized, PRUNE_EXPR, NULL);
  int lost = beside(&on, &off), more = beside(&off, &on);
  bool good = !lost && on.n == r->blind[deep].found && more == r->blind[deep].more && removed[0] && !removed[1] && !on.wrong && !off.wrong;
  for (int i = 0; i < off.n; i++)
    if (!naive_has(&on, off.found[i].key)) good &= may_be_lost(p, &off.found[i], &sized);
  print_message("%.9s: %d operators, %d graphs, without the oracle %d more, %d lost; %.2f s\n", r->text, ops, on.n, more, lost,
                now_seconds() - start);
  sum[0] += on.n, sum[1] += more;
  arena_close(&mem);
  return good;
}

void blind_check(bool deep)
{
  bool good = true;
  int sum[2] = {0};
  for (size_t i = 0; i < COUNT(rows); i++) good &= check_blind(&rows[i], deep, sum);
  print_message("%d graphs, and %d that only come in without the oracle\n", sum[0], sum[1]);
  assert_true(good);
}
