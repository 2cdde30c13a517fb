// Results of the search are in its space. So are graphs that differ from them in sizes, order of axes or place of a sum,
// and their rewrites by rewrite.c. Graphs that are wrong, or beyond what the search tries, are not. A rule is named only
// where the space without it holds the graph.
// test: quick release
#include "examples.h"
#include "graphs.h"
#include "rewrite.h"

static struct cover covers_under(struct arena *mem, const struct graph *p, struct graph *g, const struct search_opts *o)
{
  struct cover c;
  struct err e = {0};
  if (search_covers(mem, p, &machine, o, 1, &g, &c, &e)) fail_msg("%s", e.text);
  return c;
}

static struct cover covers(struct arena *mem, const struct graph *p, struct graph *g)
{
  return covers_under(mem, p, g, &(struct search_opts){.threads = 2, .seed = 7});
}

static void test_found(void **state)
{
  (void)state;
  static const char *const names[] = {"m_gqa", "m_rms", "m_gated", "lora", "softmax", "g_gemm", "mlp", "gqa_dec"};
  for (size_t i = 0; i < COUNT(names); i++) {
    struct arena mem = {0};
    struct graph *p = load(&mem, names[i], 0, NULL);
    struct search_opts o = {.threads = 2, .seed = 7};
    struct search_result r;
    struct err e = {0};
    assert_int_equal(search_run(&mem, p, &machine, &o, &r, &e), OK);
    struct graph **g = NEWS(&mem, struct graph *, r.n);
    struct cover *c = NEWS(&mem, struct cover, r.n);
    for (int k = 0; k < r.n; k++) g[k] = r.found[k].g;
    assert_int_equal(search_covers(&mem, p, &machine, &o, r.n, g, c, &e), OK);
    for (int k = 0; k < r.n; k++)
      if (!c[k].held) fail_msg("%s, %s: %s", names[i], r.found[k].schedule, c[k].why);
    assert_true(r.n > 0);
    arena_close(&mem);
  }
}

// clang-format off
#define GATED "program p { X: f32[8, 64]\n W: f32[64, 32]\n V: f32[64, 32]\n return silu(matmul(X, W)) * matmul(X, V) }"
#define GATED_G "graph g { X: f32[8, 64]\n W: f32[64, 32]\n V: f32[64, 32]\n"
#define TILES "x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n v = iter(V, imap={x:1}, fmap={i:0})\n"

#define SHARES "program p { X: f32[8, 64]\n V: f32[64, 32]\n return matmul(relu(X / sum(X, dim=1)), V) }"
#define SHARES_G "graph g { X: f32[8, 64]\n V: f32[64, 32]\n"
#define SHARES_END "O = block(x=2) { p = iter(P, imap={x:0})\n save(sum_to(p, dim=1, extent=32), omap={x:0}) }\n return O }"

#define ATTENTION \
  "program p { Q: f32[4, 8, 16]\n K: f32[4, 16, 32]\n V: f32[4, 32, 16]\n E = exp(matmul(Q, K))\n return matmul(E / sum(E, dim=2), V) }"
#define ATTENTION_G \
  "graph g { Q: f32[4, 8, 16]\n K: f32[4, 16, 32]\n V: f32[4, 32, 16]\n S = matmul(Q, K)\n" \
  "A, B = block(x=4, y=4; i=2) { v = iter(V, imap={x:0, y:1}, fmap={i:1})\n s = iter(S, imap={x:0, y:2}, fmap={i:2})\n e = exp(s)\n" \
  "save(accum_sum(e, dim=2), omap={x:0, y:2})\n save(accum(matmul(e, v)), omap={x:0, y:2}) }\n"

static const struct {
  const char *name, *program, *graph, *why; // why: NULL where it is held
} rows[] = {
    {"one kernel", GATED, GATED_G "O = block(x=4; i=8) {" TILES "save(silu(accum(matmul(x, w))) * accum(matmul(x, v)), omap={x:1}) }\n return O }", NULL},
    {"other sizes, and an axis of extent 1", GATED,
     GATED_G "O = block(x=2, y=1; i=2) {" TILES "save(accum(matmul(x, v)) * silu(accum(matmul(x, w))), omap={x:1}) }\n return O }", NULL},
    {"a loop of one iteration", GATED, GATED_G "O = block(x=4; i=1) {" TILES "save(silu(accum(matmul(x, w))) * accum(matmul(x, v)), omap={x:1}) }\n return O }", NULL},
    {"the last product in a kernel of its own", GATED,
     GATED_G "A, B = block(x=4; i=8) {" TILES "save(silu(accum(matmul(x, w))), omap={x:1})\n save(accum(matmul(x, v)), omap={x:1}) }\n return A * B }", NULL},
    {"a wrong operator", GATED, GATED_G "O = block(x=4; i=8) {" TILES "save(silu(accum(matmul(x, w))) + accum(matmul(x, v)), omap={x:1}) }\n return O }", "not equal"},
    {"the function inside the sum", GATED, GATED_G "O = block(x=4; i=8) {" TILES "save(accum(silu(matmul(x, w))) * accum(matmul(x, v)), omap={x:1}) }\n return O }", "not equal"},
    {"an operator too many", GATED, GATED_G "O = block(x=4; i=8) {" TILES "save(silu(accum(matmul(x, w))) * accum(matmul(x, w + v)), omap={x:1}) }\n return O }", "not equal"},
    {"one iterator for two ways of cutting", "program p { X: f32[8, 32]\n W: f32[32, 32]\n return matmul(X, W) + X }",
     "graph g { X: f32[8, 32]\n W: f32[32, 32]\n O = block(x=4) { x = iter(X, imap={x:0})\n w = iter(W)\n save(matmul(x, w) + x, omap={x:0}) }\n return O }", NULL},
    {"two loops", "program p { X: f32[8, 64]\n W: f32[64, 32]\n return matmul(X, W) }",
     "graph g { X: f32[8, 64]\n W: f32[64, 32]\n O = block(x=4; i=2, j=4) { x = iter(X, fmap={i:1, j:1})\n w = iter(W, imap={x:1}, fmap={i:0, j:0})\n"
     "save(accum(matmul(x, w)), omap={x:1}) }\n return O }",
     "one loop axis; no rule explains it"},
    {"a loop that concatenates", "program p { X: f32[8, 64]\n return exp(X) * 2 }",
     "graph g { X: f32[8, 64]\n O = block(x=4; i=2) { x = iter(X, imap={x:0}, fmap={i:1})\n save(accum(exp(x) * 2, fmap={i:1}), omap={x:0}) }\n return O }",
     NULL},
    {"partial sums left whole", "program p { X: f32[8, 64]\n return sum(exp(X), dim=1) }",
     "graph g { X: f32[8, 64]\n P = block(x=2, y=4) { x = iter(X, imap={x:0, y:1})\n save(exp(x), omap={x:0, y:1}) }\n"
     "O = block(x=2; i=4) { p = iter(P, imap={x:0}, fmap={i:1})\n save(accum_sum(p, dim=1), omap={x:0}) }\n return O }", NULL},
    {"a library operator that blocks do not have", "program p { X: f32[8, 64]\n return exp(X) * 2 }",
     "graph g { X: f32[8, 64]\n return exp(chunk(concat(X, X, X, dim=1), dim=1, parts=3, index=0)) * 2 }", "concat: as a separate kernel it makes no tensor that the search leaves in device memory; no rule explains it"},
    {"a block operator that the search does not try", "program p { X: f32[8, 64]\n W: f32[64, 32]\n return matmul(X, W) }",
     "graph g { X: f32[8, 64]\n W: f32[64, 32]\n O = block(x=4) { x = iter(X)\n w = iter(W, imap={x:1})\n"
     "save(concat_matmul(x, x, w, w) * 0.5, omap={x:1}) }\n return O }",
     "concat_matmul: the search makes no such value; no rule explains it"},
    {"another constant", "program p { X: f32[8, 64]\n return exp(X * 0.5) }", "graph g { X: f32[8, 64]\n return exp(X * 0.25) }", "not equal"},
    {"a sign that is turned around twice", "program p { X: f32[8, 64]\n return -max(-X, dim=1) }",
     "graph g { X: f32[8, 64]\n O = block(x=8) { x = iter(X, imap={x:0})\n save(-max(-x, dim=1), omap={x:0}) }\n return O }", NULL},
    {"the same where a kernel leaves the maximum", "program p { X: f32[8, 64]\n return -max(-X, dim=1) }",
     "graph g { X: f32[8, 64]\n O = block(x=8) { x = iter(X, imap={x:0})\n save(max(-x, dim=1), omap={x:0}) }\n return -O }", NULL},
    {"what is left of a maximum", "program p { X: f32[8, 64]\n return max(X, dim=0) - X }",
     "graph g { X: f32[8, 64]\n O = block(x=8) { x = iter(X, imap={x:1})\n save(max(x, dim=0) - x, omap={x:1}) }\n return O }", NULL},
    {"what is over a minimum", "program p { X: f32[8, 64]\n return X + max(-X, dim=0) }",
     "graph g { X: f32[8, 64]\n O = block(x=8) { x = iter(X, imap={x:1})\n save(x + max(-x, dim=0), omap={x:1}) }\n return O }", NULL},
    {"the same constant", "program p { X: f32[8, 64]\n return exp(X * 0.5) }", "graph g { X: f32[8, 64]\n return exp(X * 0.5) }", NULL},
    {"such a loop beside three axes", "program p { X: f32[8, 64]\n return exp(X) }",
     "graph g { X: f32[8, 64]\n O = block(x=2, y=2, z=2; i=4) { x = iter(X, imap={x:0, y:0, z:0}, fmap={i:1})\n"
     "save(accum(exp(x), fmap={i:1}), omap={x:0, y:0, z:0}) }\n return O }",
     NULL},
    {"a thread graph", "program p { X: f32[8, 64]\n return exp(X) }",
     "graph g { X: f32[8, 64]\n O = block(x=2) { x = iter(X, imap={x:0})\n t = thread(x=2) { s = iter(x, imap={x:0})\n save(exp(s), omap={x:0}) }\n"
     "save(t, omap={x:0}) }\n return O }",
     "thread: not an operator that the search tries in blocks; no rule explains it"},
    {"an accumulator that concatenates instead of adding up", "program p { X: f32[8, 64]\n return sum(exp(X), dim=1) }",
     "graph g { X: f32[8, 64]\n O = block(x=4; i=8) { x = iter(X, imap={x:0}, fmap={i:1})\n save(sum(accum(exp(x), fmap={i:1}), dim=1), omap={x:0}) }\n return O }",
     NULL},
    {"a constant in a block", "program p { X: f32[8, 64]\n return 3 / sum(X, dim=1) }",
     "graph g { X: f32[8, 64]\n O = block(x=4) { x = iter(X, imap={x:0})\n save(3 / sum(x, dim=1), omap={x:0}) }\n return O }", NULL},
    {"another constant in a block", "program p { X: f32[8, 64]\n return 3 / sum(X, dim=1) }",
     "graph g { X: f32[8, 64]\n O = block(x=4) { x = iter(X, imap={x:0})\n save(2 / sum(x, dim=1), omap={x:0}) }\n return O }", "not equal"},
    {"a whole copy beside a part", "program p { X: f32[8, 64]\n return X / sum(X, dim=1) }",
     "graph g { X: f32[8, 64]\n O = block(x=4; i=2) { x = iter(X, imap={x:0})\n part = iter(X, imap={x:0}, fmap={i:1})\n"
     "save(x / accum_sum(part, dim=1), omap={x:0}) }\n return O }",
     "rule `whole`: with --off "},
    {"an outer product by an elementwise operator", "program p { X: f32[4, 4]\n W: f32[4, 8]\n return matmul(X, W) }",
     "graph g { X: f32[4, 4]\n W: f32[4, 8]\n O = block(x=2; i=4) { x = iter(X, imap={x:0}, fmap={i:1})\n w = iter(W, fmap={i:0})\n"
     "save(accum(x * w), omap={x:0}) }\n return O }",
     "rule `shape`: with --off "},
    {"the product of a sum with itself", "program p { X: f32[4, 4]\n Y: f32[4, 4]\n return X * square(X + Y) }",
     "graph g { X: f32[4, 4]\n Y: f32[4, 4]\n O = block(x=2) { x = iter(X, imap={x:0})\n y = iter(Y, imap={x:0})\n s = x + y\n"
     "save(x * s * s, omap={x:0}) }\n return O }",
     "rule `square`: with --off "},
    {"a law that the axioms do not have", "program p { X: f32[4, 4]\n Y: f32[4, 4]\n return exp(X + Y) * X }",
     "graph g { X: f32[4, 4]\n Y: f32[4, 4]\n O = block(x=2) { x = iter(X, imap={x:0})\n y = iter(Y, imap={x:0})\n"
     "save(exp(x) * exp(y) * x, omap={x:0}) }\n return O }",
     "rule `expr`: with --off "},
    {"what two rules remove", "program p { X: f32[4, 4]\n W: f32[4, 8]\n return matmul(X, W) / sum(X, dim=1) }",
     "graph g { X: f32[4, 4]\n W: f32[4, 8]\n O = block(x=2; i=4) { x = iter(X, imap={x:0}, fmap={i:1})\n all = iter(X, imap={x:0})\n"
     "w = iter(W, fmap={i:0})\n save(accum(x * w) / sum(all, dim=1), omap={x:0}) }\n return O }",
     "rules `shape` and `whole`: with --off "},
    {"a loop that adds up partial sums, one an iteration", ATTENTION,
     ATTENTION_G "O = block(x=4, y=4; i=4) { a = iter(A, imap={x:0, y:1}, fmap={i:2})\n b = iter(B, imap={x:0, y:1}, fmap={i:2})\n"
                 "save(accum(b) / accum(a), omap={x:0, y:1}) }\n return O }",
     NULL},
    {"the same, of which one is a sum", ATTENTION,
     ATTENTION_G "O = block(x=4, y=4; i=4) { a = iter(A, imap={x:0, y:1}, fmap={i:2})\n b = iter(B, imap={x:0, y:1}, fmap={i:2})\n"
                 "save(accum(b) / accum_sum(a, dim=2), omap={x:0, y:1}) }\n return O }",
     NULL},
    {"the same, two an iteration", ATTENTION,
     ATTENTION_G "O = block(x=4, y=4; i=2) { a = iter(A, imap={x:0, y:1}, fmap={i:2})\n b = iter(B, imap={x:0, y:1}, fmap={i:2})\n"
                 "save(accum_sum_to(b, dim=2, extent=16) / accum_sum(a, dim=2), omap={x:0, y:1}) }\n return O }",
     NULL},
    {"partial sums of what another kernel had to finish", SHARES,
     SHARES_G "T = block(x=8) { x = iter(X, imap={x:0})\n save(relu(x / sum(x, dim=1)), omap={x:0}) }\n"
     "P = block(x=2) { t = iter(T, imap={x:1})\n v = iter(V, imap={x:0})\n save(matmul(t, v), omap={x:1}) }\n" SHARES_END, NULL},
    {"partial sums of what is finished with the sums of another kernel", SHARES,
     SHARES_G "S = block(x=8) { x = iter(X, imap={x:0})\n save(sum(x, dim=1), omap={x:0}) }\n"
     "P = block(x=2) { x = iter(X, imap={x:1})\n s = iter(S)\n v = iter(V, imap={x:0})\n save(matmul(relu(x / s), v), omap={x:1}) }\n" SHARES_END, NULL},
    {"partial sums of a product with something else", SHARES,
     SHARES_G "T = block(x=8) { x = iter(X, imap={x:0})\n save(x / sum(x, dim=1), omap={x:0}) }\n"
     "P = block(x=2) { t = iter(T, imap={x:1})\n v = iter(V, imap={x:0})\n save(matmul(t, v), omap={x:1}) }\n" SHARES_END, "not equal"},
    {"other outputs", GATED, GATED_G "O = silu(matmul(X, W))\n return O, matmul(X, V) }", "not equal"},
};

// clang-format on

static int most_ops(const struct graph *g)
{
  int most = 1;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].sub) most = MAX(most, graph_ops(g->nodes[i].sub));
  return most;
}

// A rule that is named is the reason: without it the graph is held, and without fewer it is not.
static void check_rules(struct arena *mem, const char *name, const struct graph *p, struct graph *g, const struct cover *c)
{
  struct search_opts o = {.threads = 2, .seed = 7, .max_values = 4000, .max_kernel_ops = graph_ops(g), .max_block_ops = most_ops(g), .off = c->rules};
  if (!c->rules) return;
  struct cover without = covers_under(mem, p, g, &o);
  if (!without.held) fail_msg("%s: %s, but without: %s", name, c->why, without.why);
  for (int r = 0; r < PRUNES && __builtin_popcount(c->rules) > 1; r++) {
    o.off = c->rules & ~(1u << r);
    if (c->rules >> r & 1 && covers_under(mem, p, g, &o).held) fail_msg("%s: %s, but not `%s`", name, c->why, prune_rows[r].name);
  }
}

static void test_rows(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct graph *p = graph_of(&mem, rows[i].program), *g = graph_of(&mem, rows[i].graph);
    struct cover c = covers(&mem, p, g);
    if (c.held != !rows[i].why || (rows[i].why && !strstr(c.why, rows[i].why))) fail_msg("%s: %s", rows[i].name, c.held ? "held" : c.why);
    check_rules(&mem, rows[i].name, p, g, &c);
    arena_close(&mem);
  }
}

// The results of the search are held however they are rewritten.
static void check_rewrites(const char *name, int max_ops, int counts[REWRITES])
{
  struct arena mem = {0};
  struct graph *p = load(&mem, name, 0, NULL);
  struct search_opts o = {.threads = 2, .seed = 7, .max_block_ops = max_ops, .most = 4};
  struct search_result r;
  struct err e = {0};
  int n = 0;
  assert_int_equal(search_run(&mem, p, &machine, &o, &r, &e), OK);
  struct graph **g = NEWS(&mem, struct graph *, r.n * REWRITES + 1);
  struct cover *c = NEWS(&mem, struct cover, r.n * REWRITES + 1);
  enum rewrite *how = NEWS(&mem, enum rewrite, r.n * REWRITES + 1);
  for (int i = 0; i < r.n * REWRITES; i++) {
    how[n] = (enum rewrite)(i % REWRITES), g[n] = rewritten(&mem, r.found[i / REWRITES].g, how[n]);
    if (g[n] && verify_filter(p, g[n], 1)) counts[how[n++]]++;
  }
  assert_int_equal(search_covers(&mem, p, &machine, &o, n, g, c, &e), OK);
  for (int i = 0; i < n; i++) {
    if (c[i].held) continue;
    struct str s = {0};
    graph_print(g[i], &s);
    fail_msg("%s, %s: %s\n%s", name, rewrite_names[how[i]], c[i].why, str_text(&s));
  }
  arena_close(&mem);
}

static void test_rewrites(void **state)
{
  (void)state;
  static const struct {
    const char *name;
    int max_ops;
  } from[] = {{"m_gqa", 0}, {"m_gqa", 4}, {"m_rms", 0}, {"m_gated", 3}, {"lora", 0}, {"softmax", 0}, {"mlp", 0}};
  int counts[REWRITES] = {0};
  for (size_t i = 0; i < COUNT(from); i++) check_rewrites(from[i].name, from[i].max_ops, counts);
  for (int i = 0; i < REWRITES; i++) {
    print_message("%s: %d\n", rewrite_names[i], counts[i]);
    assert_true(counts[i] > 0);
  }
}

// The message for a graph that two kernels cannot compute names the limit.
static void test_limits(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *p = graph_of(&mem, GATED), *g = graph_of(&mem, GATED_G "return silu(matmul(X, W)) * matmul(X, V) }");
  struct search_opts o = {.threads = 1, .seed = 7, .max_kernel_ops = 2};
  struct cover c;
  struct err e = {0};
  assert_int_equal(search_covers(&mem, p, &machine, &o, 1, &g, &c, &e), OK);
  assert_false(c.held);
  assert_string_equal(c.why, "--max-kernel-ops is too low: with 4 the space contains it");
  o.max_kernel_ops = 4;
  assert_int_equal(search_covers(&mem, p, &machine, &o, 1, &g, &c, &e), OK);
  if (!c.held) fail_msg("%s", c.why);
  arena_close(&mem);
}

// The reason is looked for as long as that was asked for. Here it is too short for any search, and no reason is named.
static void test_time(void **state)
{
  (void)state;
  int unexplained = 0;
  for (size_t i = 0; i < COUNT(rows); i++) {
    if (!rows[i].why || !strstr(rows[i].why, "no rule")) continue;
    struct arena mem = {0};
    struct graph *p = graph_of(&mem, rows[i].program), *g = graph_of(&mem, rows[i].graph);
    struct search_opts o = {.threads = 1, .seed = 7, .explain = 1e-9, .max_values = 4000};
    struct cover c = covers_under(&mem, p, g, &o);
    assert_false(c.held);
    unexplained += strstr(c.why, "what excludes it was not found in") != NULL && !c.rules;
    arena_close(&mem);
  }
  assert_true(unexplained > 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_found), cmocka_unit_test(test_rows), cmocka_unit_test(test_rewrites),
                                     cmocka_unit_test(test_limits), cmocka_unit_test(test_time)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
