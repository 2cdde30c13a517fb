// What the search finds is in its space; what differs from it in sizes, order of axes or place of a sum is too; what is
// wrong, or beyond what the search tries, is not, and the reason names the place.
#include "examples.h"
#include "graphs.h"

static struct cover covers(struct arena *mem, const struct graph *p, struct graph *g)
{
  struct search_opts o = {.threads = 2, .seed = 7};
  struct cover c;
  struct err e = {0};
  if (search_covers(mem, p, &machine, &o, 1, &g, &c, &e)) fail_msg("%s", e.text);
  return c;
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

#define GATED "program p { X: f32[8, 64]\n W: f32[64, 32]\n V: f32[64, 32]\n return silu(matmul(X, W)) * matmul(X, V) }"
#define GATED_G "graph g { X: f32[8, 64]\n W: f32[64, 32]\n V: f32[64, 32]\n"
#define TILES "x = iter(X, fmap={i:1})\n w = iter(W, imap={x:1}, fmap={i:0})\n v = iter(V, imap={x:1}, fmap={i:0})\n"

#define SHARES "program p { X: f32[8, 64]\n V: f32[64, 32]\n return matmul(relu(X / sum(X, dim=1)), V) }"
#define SHARES_G "graph g { X: f32[8, 64]\n V: f32[64, 32]\n"
#define SHARES_END "O = block(x=2) { p = iter(P, imap={x:0})\n save(sum_to(p, dim=1, extent=32), omap={x:0}) }\n return O }"

static const struct {
  const char *name, *program, *graph, *why; // why: NULL where it is held
} rows[] = {
    {"one kernel", GATED, GATED_G "O = block(x=4; i=8) {" TILES "save(silu(accum(matmul(x, w))) * accum(matmul(x, v)), omap={x:1}) }\n return O }", NULL},
    {"other sizes, and an axis of extent 1", GATED,
     GATED_G "O = block(x=2, y=1; i=2) {" TILES "save(accum(matmul(x, v)) * silu(accum(matmul(x, w))), omap={x:1}) }\n return O }", NULL},
    {"a loop of one iteration", GATED, GATED_G "O = block(x=4; i=1) {" TILES "save(silu(accum(matmul(x, w))) * accum(matmul(x, v)), omap={x:1}) }\n return O }", NULL},
    {"the last product in a kernel of its own", GATED,
     GATED_G "A, B = block(x=4; i=8) {" TILES "save(silu(accum(matmul(x, w))), omap={x:1})\n save(accum(matmul(x, v)), omap={x:1}) }\n return A * B }", NULL},
    {"a wrong operator", GATED, GATED_G "O = block(x=4; i=8) {" TILES "save(silu(accum(matmul(x, w))) + accum(matmul(x, v)), omap={x:1}) }\n return O }", "add: "},
    {"the function inside the sum", GATED, GATED_G "O = block(x=4; i=8) {" TILES "save(accum(silu(matmul(x, w))) * accum(matmul(x, v)), omap={x:1}) }\n return O }", "rule `expr`"},
    {"an operator too many", GATED, GATED_G "O = block(x=4; i=8) {" TILES "save(silu(accum(matmul(x, w))) * accum(matmul(x, w + v)), omap={x:1}) }\n return O }", "add: "},
    {"two loops", GATED,
     GATED_G "O = block(x=4; i=2, j=4) { x = iter(X, fmap={i:1, j:1})\n w = iter(W, imap={x:1}, fmap={i:0, j:0})\n v = iter(V, imap={x:1}, fmap={i:0, j:0})\n"
             "save(silu(accum(matmul(x, w))) * accum(matmul(x, v)), omap={x:1}) }\n return O }",
     "one loop axis"},
    {"a loop that concatenates", "program p { X: f32[8, 64]\n return exp(X) * 2 }",
     "graph g { X: f32[8, 64]\n O = block(x=4; i=2) { x = iter(X, imap={x:0}, fmap={i:1})\n save(accum(exp(x) * 2, fmap={i:1}), omap={x:0}) }\n return O }",
     "no schedule"},
    {"partial sums left whole", "program p { X: f32[8, 64]\n return sum(exp(X), dim=1) }",
     "graph g { X: f32[8, 64]\n P = block(x=2, y=4) { x = iter(X, imap={x:0, y:1})\n save(exp(x), omap={x:0, y:1}) }\n"
     "O = block(x=2; i=4) { p = iter(P, imap={x:0}, fmap={i:1})\n save(accum_sum(p, dim=1), omap={x:0}) }\n return O }", NULL},
    {"a library operator that blocks do not have", "program p { X: f32[8, 64]\n return exp(X) * 2 }",
     "graph g { X: f32[8, 64]\n return exp(chunk(concat(X, X, X, dim=1), dim=1, parts=3, index=0)) * 2 }", "concat: "},
    {"a block operator that the search does not try", GATED,
     GATED_G "O = block(x=4) { x = iter(X)\n w = iter(W, imap={x:1})\n v = iter(V, imap={x:1})\n"
             "save(silu(matmul(x, w)) * concat_matmul(x, x, v, v), omap={x:1}) }\n return O }",
     "concat_matmul: "},
    {"another constant", "program p { X: f32[8, 64]\n return exp(X * 0.5) }", "graph g { X: f32[8, 64]\n return exp(X * 0.25) }", "mul_scalar: "},
    {"the same constant", "program p { X: f32[8, 64]\n return exp(X * 0.5) }", "graph g { X: f32[8, 64]\n return exp(X * 0.5) }", NULL},
    {"an accumulator that concatenates instead of adding up", "program p { X: f32[8, 64]\n return sum(exp(X), dim=1) }",
     "graph g { X: f32[8, 64]\n O = block(x=4; i=8) { x = iter(X, imap={x:0}, fmap={i:1})\n save(sum(accum(exp(x), fmap={i:1}), dim=1), omap={x:0}) }\n return O }",
     "concatenate"},
    {"a constant in a block", "program p { X: f32[8, 64]\n return 3 / sum(X, dim=1) }",
     "graph g { X: f32[8, 64]\n O = block(x=4) { x = iter(X, imap={x:0})\n save(3 / sum(x, dim=1), omap={x:0}) }\n return O }", NULL},
    {"another constant in a block", "program p { X: f32[8, 64]\n return 3 / sum(X, dim=1) }",
     "graph g { X: f32[8, 64]\n O = block(x=4) { x = iter(X, imap={x:0})\n save(2 / sum(x, dim=1), omap={x:0}) }\n return O }", "const: "},
    {"a whole copy beside a part", "program p { X: f32[8, 64]\n return X / sum(X, dim=1) }",
     "graph g { X: f32[8, 64]\n O = block(x=4; i=2) { x = iter(X, imap={x:0})\n part = iter(X, imap={x:0}, fmap={i:1})\n"
     "save(x / accum_sum(part, dim=1), omap={x:0}) }\n return O }",
     "rule `whole`"},
    {"partial sums of what another kernel had to finish", SHARES,
     SHARES_G "T = block(x=8) { x = iter(X, imap={x:0})\n save(relu(x / sum(x, dim=1)), omap={x:0}) }\n"
     "P = block(x=2) { t = iter(T, imap={x:1})\n v = iter(V, imap={x:0})\n save(matmul(t, v), omap={x:1}) }\n" SHARES_END, NULL},
    {"partial sums of what is finished with the sums of another kernel", SHARES,
     SHARES_G "S = block(x=8) { x = iter(X, imap={x:0})\n save(sum(x, dim=1), omap={x:0}) }\n"
     "P = block(x=2) { x = iter(X, imap={x:1})\n s = iter(S)\n v = iter(V, imap={x:0})\n save(matmul(relu(x / s), v), omap={x:1}) }\n" SHARES_END, NULL},
    {"partial sums of a product with something else", SHARES,
     SHARES_G "T = block(x=8) { x = iter(X, imap={x:0})\n save(x / sum(x, dim=1), omap={x:0}) }\n"
     "P = block(x=2) { t = iter(T, imap={x:1})\n v = iter(V, imap={x:0})\n save(matmul(t, v), omap={x:1}) }\n" SHARES_END, "rule `expr`"},
    {"other outputs", GATED, GATED_G "O = silu(matmul(X, W))\n return O, matmul(X, V) }", "other inputs or outputs"},
};

static void test_rows(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct cover c = covers(&mem, graph_of(&mem, rows[i].program), graph_of(&mem, rows[i].graph));
    if (c.held != !rows[i].why || (rows[i].why && !strstr(c.why, rows[i].why))) fail_msg("%s: %s", rows[i].name, c.held ? "held" : c.why);
    arena_close(&mem);
  }
}

// A graph that two kernels cannot make is told by the limit.
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
  assert_non_null(strstr(c.why, "4 kernels, more than --max-kernel-ops"));
  o.max_kernel_ops = 4;
  assert_int_equal(search_covers(&mem, p, &machine, &o, 1, &g, &c, &e), OK);
  if (!c.held) fail_msg("%s", c.why);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_found), cmocka_unit_test(test_rows), cmocka_unit_test(test_limits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
