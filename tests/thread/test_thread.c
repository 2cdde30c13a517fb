// Thread graphs by rules: the expected operators are fused, the results are unchanged, and hand-written thread graphs equal the block operators that
// they replace.
#include "graphs.h"
#include "thread/thread.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BLOCK_OF(body)                                                                                          \
  "graph g { X: f32[8, 16]\n Y: f32[8, 16]\n Z: f32[16, 4]\n R: f32[8, 1]\n O = block(x=2; i=4) { x = iter(X, " \
  "imap={x:0}, fmap={i:1})\n " body " }\n return O }"
#define Y_TILE "y = iter(Y, imap={x:0}, fmap={i:1})\n "
#define Z_TILE "z = iter(Z, fmap={i:0})\n "
#define R_TILE "r = iter(R, imap={x:0})\n "

static const struct {
  const char *name, *text;
  int threads;        // THREAD nodes
  const char *has[2]; // in the result
  const char *hasnt;
} forms[] = {
    {"a chain", BLOCK_OF(Y_TILE "save(accum(exp(x * y) + 1, fmap={i:1}), omap={x:0})"), 1, {"thread(x=1; i=4)", "exp("}, NULL},
    {"one operator alone", BLOCK_OF("save(accum(exp(x), fmap={i:1}), omap={x:0})"), 0, {NULL}, "thread"},
    {"broadcast", BLOCK_OF(R_TILE "save(accum(exp(x * r) * 2, fmap={i:1}), omap={x:0})"), 1, {"iter(r, fmap={i:0})"}, NULL},
    {"a reduction ends it", BLOCK_OF("save(accum(sum(square(x), dim=1)), omap={x:0})"), 1, {"sum("}, NULL},
    {"along the rows", BLOCK_OF("save(accum(max(square(x), dim=0), fmap={i:1}), omap={x:0})"), 1, {"i=4", "iter(x, fmap={i:1})"}, NULL},
    {"nothing follows a reduction", BLOCK_OF("s = sum(square(x), dim=1)\n save(accum(sqrt(s) * 3), omap={x:0})"), 2, {NULL}, NULL},
    {"a second reader", BLOCK_OF(Z_TILE "e = exp(x * 0.5)\n save(accum(matmul(e, z)) / accum(sum(e, dim=1)), omap={x:0})"), 1, {"e, "}, NULL},
    {"phases stay apart",
     BLOCK_OF(R_TILE "a = exp(r) * 2\n b = accum(sum(x * 2 + 1, dim=1))\n save((b * a + 1) / (b + 3), omap={x:0})"),
     3,
     {NULL},
     NULL},
    {"a path through a matmul",
     BLOCK_OF(Z_TILE "e = exp(x)\n s = sum(matmul(e, z), dim=1)\n save(accum(e * s * s, fmap={i:1}), omap={x:0})"),
     1,
     {NULL},
     NULL},
    {"constants go along", BLOCK_OF("c = const(2)\n save(accum(pow(maximum(x, c), c), fmap={i:1}), omap={x:0})"), 1, {"const(2)"}, NULL},
    {"constants that stay", BLOCK_OF("c = const(2)\n save(accum(exp(x * c), fmap={i:1}) / c, omap={x:0})"), 1, {"const(2)"}, NULL},
    {"the running maximum",
     BLOCK_OF("m, d = accum_max(max(x, dim=1))\n e = exp(x - m)\n save(1 / accum_sum_rescale(e, exp(d), dim=1), "
              "omap={x:0})"),
     1,
     {"accum_max"},
     NULL},
    {"several savers",
     "graph g { X: f32[8, 16]\n A, B = block(x=2) { x = iter(X, imap={x:0})\n e = exp(x) * 2\n save(e, omap={x:0})\n s "
     "= sum(e, dim=1)\n"
     " save(e / s, omap={x:0}) }\n return A, B }",
     1,
     {NULL},
     NULL},
    {"everything folded",
     "graph g { X: f32[16]\n O = block(x=1) { x = iter(X)\n save(sum(exp(x), dim=0)) }\n return O }",
     1,
     {"thread(x=1) {"},
     NULL},
    {"thread graphs stay",
     BLOCK_OF("t = thread(x=4) { v = iter(x, imap={x:0})\n save(exp(v) * 2, omap={x:0}) }\n save(accum(exp(t) + t, "
              "fmap={i:1}), omap={x:0})"),
     2,
     {"thread(x=4)"},
     NULL},
};

static struct graph *fused(struct arena *mem, const char *name, const struct graph *g)
{
  struct err e = {0};
  struct graph *t;
  if (thread_graphs(mem, g, &t, &e) || graph_check(t, &e)) fail_msg("%s: %s", name, e.text);
  return t;
}

static int count_threads(const struct graph *g)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) n += g->nodes[i].op == OP_THREAD ? 1 : g->nodes[i].sub ? count_threads(g->nodes[i].sub) : 0;
  return n;
}

static void same_values(struct arena *mem, const char *name, const struct graph *a, const struct graph *b)
{
  struct err e = {0};
  void *in[16], *x[16], *y[16];
  int outs[16], n = graph_outputs(a, outs);
  eval_random(mem, a, DOM_F64, NULL, 11, in);
  assert_int_equal(eval_run(mem, a, DOM_F64, NULL, in, x, NULL, &e), OK);
  assert_int_equal(eval_run(mem, b, DOM_F64, NULL, in, y, NULL, &e), OK);
  assert_int_equal(n, graph_outputs(b, NULL));
  for (int k = 0; k < n; k++)
    for (int64_t i = 0; i < shape_size(&a->tensors[outs[k]].shape); i++) {
      double p = ((double *)x[k])[i], q = ((double *)y[k])[i];
      if (p != q && !(fabs(p - q) <= 1e-12 * fabs(p)) && !(isnan(p) && isnan(q)))
        fail_msg("%s: output %d element %lld: %g, not %g", name, k, (long long)i, q, p);
    }
}

static void fuses_what_the_rules_say(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(forms); i++) {
    struct arena mem = {0};
    struct str text = {0};
    struct graph *g = graph_of(&mem, forms[i].text), *t = fused(&mem, forms[i].name, g);
    graph_print(t, &text);
    if (count_threads(t) != forms[i].threads) fail_msg("%s: %d thread graphs\n%s", forms[i].name, count_threads(t), str_text(&text));
    assert_holds(forms[i].name, t, forms[i].has, COUNT(forms[i].has));
    if (forms[i].hasnt) assert_null(strstr(str_text(&text), forms[i].hasnt));
    assert_true(graph_same(t, graph_of(&mem, str_text(&text)))); // thread graphs print and parse
    same_values(&mem, forms[i].name, g, t);
    str_free(&text);
    arena_close(&mem);
  }
}

#define ROWS(type, body) \
  "graph g { X: " type "[8, 64]\n Y: f32[8, 64]\n W: f32[64, 4]\n R: f32[8, 1]\n O = block(x=2) { x = iter(X, imap={x:0})\n " body " }\n return O }"

static const struct {
  const char *name, *text;
  int subs; // subtractions in the result
} again[] = {
    {"a norm", ROWS("f32", "c = x - mean(x, dim=1)\n save(c / sqrt(mean(square(c), dim=1)), omap={x:0})"), 2},
    {"two operators", ROWS("f32", "c = (x - mean(x, dim=1)) * 2\n save(c / sqrt(mean(square(c), dim=1)), omap={x:0})"), 2},
    {"both operands", ROWS("f32", "c = x - mean(x, dim=1)\n save(c * c + mean(square(c), dim=1), omap={x:0})"), 1},
    {"a small tensor", ROWS("f32", "r = iter(R, imap={x:0})\n c = x - r\n save(c / sum(c, dim=1), omap={x:0})"), 2},
    {"narrow numbers", ROWS("f16", "c = x - mean(x, dim=1)\n save(c / sqrt(mean(square(c), dim=1)), omap={x:0})"), 2},
    {"narrow numbers, two operators", ROWS("f16", "c = (x - mean(x, dim=1)) * 2\n save(c / sqrt(mean(square(c), dim=1)), omap={x:0})"), 1},
    {"too much work", ROWS("f32", "c = exp(x - max(x, dim=1))\n save(c / sum(c, dim=1), omap={x:0})"), 1},
    {"two large tensors", ROWS("f32", "y = iter(Y, imap={x:0})\n c = x - y\n save(c / sum(c, dim=1), omap={x:0})"), 1},
    {"no reduction between", ROWS("f32", "c = x - mean(x, dim=1)\n save(square(c) + c, omap={x:0})"), 1},
    {"a product reads it", ROWS("f32", "w = iter(W)\n c = x - mean(x, dim=1)\n save(matmul(c, w) / sum(square(c), dim=1), omap={x:0})"), 1},
    {"it is saved",
     "graph g { X: f32[8, 64]\n A, B = block(x=2) { x = iter(X, imap={x:0})\n c = x - mean(x, dim=1)\n save(c, omap={x:0})\n"
     " save(c / sum(square(c), dim=1), omap={x:0}) }\n return A, B }",
     1},
};

static int count_subs(const struct graph *g)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) n += g->nodes[i].sub ? count_subs(g->nodes[i].sub) : g->nodes[i].op == OP_SUB;
  return n;
}

static void computes_again(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(again); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g = graph_of(&mem, again[i].text), *out;
    if (thread_again(&mem, g, &out, &e) || graph_check(out, &e)) fail_msg("%s: %s", again[i].name, e.text);
    out = fused(&mem, again[i].name, out);
    if (count_subs(out) != again[i].subs) fail_msg("%s: %d subtractions", again[i].name, count_subs(out));
    same_values(&mem, again[i].name, g, out);
    assert_same_function(again[i].name, g, out);
    arena_close(&mem);
  }
}

static const struct graph *flat(struct arena *mem, const char *name, const struct graph *g)
{
  struct err e = {0};
  const struct graph *f;
  if (thread_flat(mem, g, &f, &e) || graph_check(f, &e)) fail_msg("%s: %s", name, e.text);
  assert_int_equal(count_threads(f), 0);
  return f;
}

// Thread graphs made by the rules can be undone. Hand-written thread graphs equal the block operators that they represent.
static void flat_graphs_compute_the_same(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(forms); i++) {
    struct arena mem = {0};
    struct graph *g = graph_of(&mem, forms[i].text), *t = fused(&mem, forms[i].name, g);
    same_values(&mem, forms[i].name, g, flat(&mem, forms[i].name, t));
    if (!count_threads(g)) assert_ptr_equal(flat(&mem, forms[i].name, g), g);
    arena_close(&mem);
  }
}

static void is_equal(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(forms); i++) {
    struct arena mem = {0};
    struct graph *g = graph_of(&mem, forms[i].text);
    assert_same_function(forms[i].name, g, fused(&mem, forms[i].name, g));
    arena_close(&mem);
  }
}

// Block operators, and thread graphs written by hand for them.
static const struct {
  const char *block, *thread;
} pairs[] = {
    {BLOCK_OF("t = exp(x) * 2\n save(accum(t, fmap={i:1}), omap={x:0})"),
     BLOCK_OF("t = thread(x=2, y=2; i=2) { v = iter(x, imap={x:0, y:1}, fmap={i:0})\n save(accum(exp(v) * 2, "
              "fmap={i:0}), omap={x:0, y:1}) }\n"
              " save(accum(t, fmap={i:1}), omap={x:0})")},
    {BLOCK_OF("t = sum(square(x), dim=1)\n save(accum(t), omap={x:0})"),
     BLOCK_OF("t = thread(x=4; i=2) { v = iter(x, imap={x:0}, fmap={i:1})\n save(accum(sum(square(v), dim=1)), "
              "omap={x:0}) }\n save(accum(t), omap={x:0})")},
    {BLOCK_OF(R_TILE "t = x * r + 1\n save(accum(t, fmap={i:1}), omap={x:0})"),
     BLOCK_OF(R_TILE "t = thread(x=4) { v = iter(x, imap={x:1})\n w = iter(r)\n save(v * w + 1, omap={x:1}) }\n "
                     "save(accum(t, fmap={i:1}), omap={x:0})")},
};

static void hand_written_ones_are_checked(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(pairs); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct certificate c;
    const struct verify_opts o = {.delta = 1e-3};
    struct graph *a = graph_of(&mem, pairs[i].block), *b = graph_of(&mem, pairs[i].thread),
                 *wrong = graph_of(&mem, pairs[(i + 1) % COUNT(pairs)].thread);
    same_values(&mem, "pair", a, b);
    assert_true(graph_same(a, flat(&mem, "pair", b)));
    assert_int_equal(verify_equal(a, b, &o, &c, &e), OK);
    assert_true(c.equal);
    const struct shape *sa = &a->tensors[a->ntensors - 1].shape, *sw = &wrong->tensors[wrong->ntensors - 1].shape;
    if (shape_eq(sa, sw)) {
      assert_int_equal(verify_equal(a, wrong, &o, &c, &e), OK);
      assert_false(c.equal);
    }
    arena_close(&mem);
  }
}

// Thread graphs that reduce, add up or multiply parts: the parts of a dimension become a dimension of their own.
static const char *const parts[] = {
    BLOCK_OF("t = thread(x=4) { v = iter(x, imap={x:1})\n w = iter(x)\n save(v + w, omap={x:1}) }\n save(accum(sum(t, dim=1)), omap={x:0})"),
    BLOCK_OF("t = thread(x=2; i=2) { v = iter(x, imap={x:1}, fmap={i:1})\n w = iter(x, imap={x:1})\n save(accum(sum(w, dim=1) * v, fmap={i:1}), "
             "omap={x:1}) "
             "}\n save(accum(t, fmap={i:1}), omap={x:0})"),
    BLOCK_OF("t = thread(x=2) { v = iter(x, imap={x:1})\n save(sum(exp(v), dim=1), omap={x:1}) }\n save(accum(max(t, dim=1)), omap={x:0})"),
    BLOCK_OF(
        "t = thread(x=2) { v = iter(x, imap={x:0})\n save(max(v, dim=0) + sum(v, dim=0), omap={x:0}) }\n save(accum(t, fmap={i:1}), omap={x:0})"),
    BLOCK_OF("t = thread(x=2) { v = iter(x, imap={x:1})\n save(mean(v, dim=1) * v, omap={x:1}) }\n save(accum(t, fmap={i:1}), omap={x:0})"),
    BLOCK_OF("t = thread(x=1; i=2) { v = iter(x, fmap={i:1})\n save(accum(max(v, dim=1))) }\n save(accum(t), omap={x:0})"),
    BLOCK_OF("t = thread(x=1; i=2) { v = iter(x, fmap={i:1})\n save(accum(square(v))) }\n save(accum(t, fmap={i:1}), omap={x:0})"),
    BLOCK_OF("t = thread(x=1; i=2) { v = iter(x, fmap={i:1})\n save(accum(exp(sum(v, dim=1)))) }\n save(accum(t), omap={x:0})"),
    BLOCK_OF("t = thread(x=1; i=2) { v = iter(x, fmap={i:1})\n save(accum(sum(v, dim=1), fmap={i:1})) }\n save(accum(t, fmap={i:1}), omap={x:0})"),
    BLOCK_OF("t = thread(x=2; i=2) { v = iter(x, imap={x:1}, fmap={i:1})\n save(accum(sum(v, dim=1)), omap={x:1}) }\n save(accum(prod(t, dim=1)), "
             "omap={x:0})"),
    BLOCK_OF(
        "t = thread(x=2; i=2) { v = iter(x, imap={x:0}, fmap={i:0})\n save(accum(square(v)), omap={x:0}) }\n save(accum(sum(t, dim=0), fmap={i:1}), "
        "omap={x:0})"),
    BLOCK_OF("t = thread(x=2; i=2) { v = iter(x, imap={x:1}, fmap={i:0})\n save(accum(max(v, dim=1), fmap={i:0}), omap={x:1}) }\n save(accum(sum(t, "
             "dim=1)), omap={x:0})"),
    BLOCK_OF(Z_TILE "t = thread(x=4, y=2) { v = iter(x, imap={x:0})\n w = iter(z, imap={y:1})\n save(matmul(exp(v), w) * 2, omap={x:0, y:1}) }\n "
                    "save(accum(t), omap={x:0})"),
    BLOCK_OF(Z_TILE
             "t = thread(x=2; i=2) { v = iter(x, imap={x:0}, fmap={i:1})\n w = iter(z, fmap={i:0})\n save(accum(matmul(v, w)), omap={x:0}) }\n "
             "save(accum(t), omap={x:0})"),
};

static void parts_become_a_dimension(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(parts); i++) {
    struct arena mem = {0};
    struct graph *g = graph_of(&mem, parts[i]);
    const struct graph *f = flat(&mem, parts[i], g);
    same_values(&mem, parts[i], g, f);
    assert_same_function(parts[i], g, f);
    arena_close(&mem);
  }
}

// Thread graphs that are no partition of operators over whole tiles, and why.
static const struct {
  const char *text, *why;
} not_flat[] = {
    {BLOCK_OF("t = thread(x=1; i=4) { v = iter(x, fmap={i:0})\n save(accum(exp(v), fmap={i:1})) }\n save(accum(t, fmap={i:1}), omap={x:0})"),
     "accum does not join the parts of the iterations as they were cut"},
    {BLOCK_OF("t = thread(x=4) { v = iter(x, imap={x:0})\n save(exp(v), omap={x:1}) }\n save(accum(t), omap={x:0})"),
     "save does not join the parts of the threads as they were cut"},
    {BLOCK_OF("t = thread(x=4) { v = iter(x, imap={x:0})\n w = iter(x, imap={x:1})\n save(accum(v * w), omap={x:0}) }\n save(accum(t), omap={x:0})"),
     "different dimensions"},
    {BLOCK_OF(Z_TILE
              "t = thread(x=2) { v = iter(x, imap={x:1})\n w = iter(z, imap={x:0})\n save(matmul(v, w), omap={x:1}) }\n save(accum(t), omap={x:0})"),
     "matmul sums over a dimension that the threads cut"},
    {BLOCK_OF(Z_TILE
              "t = thread(x=2) { v = iter(x, imap={x:0})\n w = iter(z, imap={x:1})\n save(matmul(v, w), omap={x:1}) }\n save(accum(t), omap={x:0})"),
     "different dimensions"},
};

static void others_are_refused(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(not_flat); i++) {
    struct arena mem = {0};
    struct err e = {0};
    const struct graph *f;
    int status = thread_flat(&mem, graph_of(&mem, not_flat[i].text), &f, &e);
    if (status == OK || !strstr(e.text, not_flat[i].why)) fail_msg("%s\nstatus %d: %s", not_flat[i].text, status, e.text);
    arena_close(&mem);
  }
}

// A block over random operators; whatever no one reads is saved.
static struct graph *random_graph(struct arena *mem, struct rng *r)
{
  static const enum op ops[] = {OP_EXP, OP_NEG, OP_ADD, OP_MUL, OP_SUB, OP_SUM, OP_MAX, OP_MATMUL, OP_TRANSPOSE, OP_SIGMOID, OP_ACCUM};
  struct graph *k = graph_new(mem, KERNEL, NULL), *g = graph_new(mem, BLOCK, NULL);
  const struct shape s = {2, {4, 4}};
  int x[3], t, outs[64];
  bool used[256] = {false};
  struct err none = {0};
  graph_axes(g, 0, NULL, 1, (const int64_t[]){2});
  for (int i = 0; i < 3; i++) {
    struct attrs a = attrs_default(OP_ITER);
    if (rng_below(r, 2)) a.fmap[0] = 0;
    (void)graph_input(k, NULL, F32, &s, NOWHERE, &x[i], &none), (void)graph_iter(g, k, x[i], &a, NOWHERE, &t, &none);
  }
  for (int i = 0; i < 16; i++) {
    struct err e = {0};
    enum op op = ops[rng_below(r, COUNT(ops))];
    struct attrs a = attrs_default(op);
    a.dim = op == OP_SUM || op == OP_MAX ? (int)rng_below(r, 2) : 0;
    if (op == OP_ACCUM && rng_below(r, 2)) a.fmap[0] = 0;
    (void)graph_add(g, op, op_rows[op].least, (const int[]){(int)rng_below(r, (uint64_t)g->ntensors), (int)rng_below(r, (uint64_t)g->ntensors)}, &a,
                    NOWHERE, &t, &e);
  }
  for (int i = 0, n = g->ntensors; i < n; i++) // varying results are accumulated
    if (g->tensors[i].phase == VARYING) (void)graph_add(g, OP_ACCUM, 1, &i, NULL, NOWHERE, &t, &none);
  for (int i = 0; i < g->nnodes; i++)
    for (int q = 0; q < g->nodes[i].nin; q++) used[g->nodes[i].in[q]] = true;
  for (int i = 0, n = g->ntensors; i < n; i++)
    if (!used[i]) (void)graph_add(g, OP_SAVE, 1, &i, NULL, NOWHERE, NULL, &none);
  if (graph_nest(k, g, 3, x, NOWHERE, &t, &none)) return NULL;
  for (int i = 0, n = graph_outputs(g, outs); i < n; i++) (void)graph_add(k, OP_OUTPUT, 1, (const int[]){t + i}, NULL, NOWHERE, NULL, &none);
  return k;
}

static void random_blocks_compute_the_same(void **state)
{
  (void)state;
  struct rng r = {5};
  int threads = 0;
  for (int i = 0; i < 500; i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g = random_graph(&mem, &r);
    if (g && graph_outputs(g, NULL) <= 16 && !graph_check(g, &e)) {
      struct graph *t = fused(&mem, "random", g);
      threads += count_threads(t);
      same_values(&mem, "random", g, t);
      same_values(&mem, "random", g, flat(&mem, "random", t));
      assert_int_equal(thread_again(&mem, g, &t, &e), OK);
      same_values(&mem, "random", g, fused(&mem, "random", t));
    }
    arena_close(&mem);
  }
  assert_true(threads > 200);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fuses_what_the_rules_say),
      cmocka_unit_test(computes_again),
      cmocka_unit_test(flat_graphs_compute_the_same),
      cmocka_unit_test(parts_become_a_dimension),
      cmocka_unit_test(others_are_refused),
      cmocka_unit_test(is_equal),
      cmocka_unit_test(hand_written_ones_are_checked),
      cmocka_unit_test(random_blocks_compute_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
