// The formal check: what it must prove, what it must never prove, and what it leaves undecided and why. Its main test
// is in test_mutants.c: no mutant that is not equal is proved. test: timeout 300
// test: quick sanitized
#include "cases.h"
#include "graphs.h"
#include "mutate.h"
#include "plan/plan.h"
#include "search/examples.h"
#include "thread/thread.h"

#include <math.h>

#define IN2 "X: f32[4, 6]; Y: f32[4, 6]"
#define SQUARE2 "X: f32[6, 6]; Y: f32[6, 6]"

static bool prove(const char *x, const char *y, char why[160])
{
  struct arena mem = {0};
  const struct graph *a = graph_of(&mem, x), *b = graph_of(&mem, y);
  bool there = verify_prove(a, b, why), back = verify_prove(b, a, why);
  assert_int_equal(there, back);
  arena_close(&mem);
  return there;
}

// ---- proved ----

static void test_cases(void **state)
{
  (void)state;
  char why[160];
  for (int i = 0; i < equal_count; i++) {
    const struct equal_case *k = &equal_cases[i];
    if (!prove(k->program, k->graph, why)) fail_msg("%s: %s", k->name, why);
  }
}

static const struct {
  const char *a, *b;
} proved[] = {
    // sums and products
    {"program p { " IN2 "; return X * (Y + 1) }", "program p { " IN2 "; return X * Y + X }"},
    {"program p { " IN2 "; return (X + Y) * (X - Y) }", "program p { " IN2 "; return X * X - square(Y) }"},
    {"program p { " IN2 "; return relu(X) - relu(X) + Y }", "program p { " IN2 "; return Y + 0 * X }"},
    {"program p { " IN2 "; return X, Y }", "program q { A: f16[4, 6]; B: f16[4, 6]; return A, B }"},
    {"program p { X: f32[6, 48]; return mean(X, dim=1) }", "program p { X: f32[6, 48]; return sum(X, dim=1) / 48 }"},
    {"program p { " SQUARE2 "; return matmul(X, transpose(X)) }", "program p { " SQUARE2 "; return transpose(matmul(X, transpose(X))) }"},
    {"program p { X: f32[4, 6]; S = sum(X, dim=1); return S * S }",
     "program p { X: f32[4, 6]; return reshape(sum(sum(reshape(X, [4, 6, 1]) * reshape(X, [4, 1, 6]), dim=1), dim=2), "
     "[4, 1]) }"},
    // quotients
    {"program p { " IN2 "; return X / (Y / X) }", "program p { " IN2 "; return X * X / Y }"},
    {"program p { " IN2 "; return X / Y + Y / X }", "program p { " IN2 "; return (X * X + Y * Y) / (X * Y) }"},
    {"program p { " IN2 "; return 1 / (X + Y) + 1 / (X - Y) }", "program p { " IN2 "; return 2 * X / (X * X - Y * Y) }"},
    {"program p { " IN2 "; S = sum(X, dim=1); return Y / S - Y / (2 * S) }", "program p { " IN2 "; return Y * 0.5 / sum(X, dim=1) }"},
    // exponentials
    {"program p { " IN2 "; return exp(X) / exp(Y) }", "program p { " IN2 "; return exp(X - Y) }"},
    {"program p { " IN2 "; return exp(X) * exp(X) * exp(Y * 3) }", "program p { " IN2 "; return exp(2 * X + 3 * Y) }"},
    {"program p { " IN2 "; return softmax(X, dim=1) * Y }", "program p { " IN2 "; E = exp(X - max(X, dim=1)); return E * Y / sum(E, dim=1) }"},
    {"program p { " IN2 "; return softmax(X, dim=1) }", "program p { " IN2 "; return softmax(X + sum(Y, dim=1), dim=1) }"},
    // roots
    {"program p { " IN2 "; return sqrt(exp(X)) }", "program p { " IN2 "; return exp(X / 2) }"},
    {"program p { " IN2 "; return sqrt(X) * sqrt(X) }", "program p { " IN2 "; return X }"},
    {"program p { " IN2 "; return sqrt(8) * X }", "program p { " IN2 "; return X * sqrt(8) }"},
    {"program p { " IN2 "; return rms_norm(Y * rms_norm(X)) }", "program p { " IN2 "; return rms_norm(Y * X) }"},
    {"program p { " IN2 "; return rms_norm(3 * X) }", "program p { " IN2 "; return rms_norm(X) }"},
    {"program p { X: f32[6, 4096]; return rms_norm(X) }",
     "graph g { X: f32[6, 4096]; S = block(x=3; i=64) { save(accum_rms(iter(X, imap={x:0}, fmap={i:1}), dim=1), "
     "omap={x:0}) }; return X / S }"},
    // maxima
    {"program p { " IN2 "; return maximum(X, maximum(Y, Y)) }", "program p { " IN2 "; return maximum(Y, X) }"},
    {"program p { " IN2 "; return max(X, dim=1) + Y }",
     "program p { " IN2 "; return Y + max(reshape(max(reshape(X, [4, 2, 3]), dim=2), [4, 2]), dim=1) }"},
    {"program p { X: f32[4, 8]; return max(X, dim=1) }",
     "graph g { X: f32[4, 8]; O = block(x=2; i=4) { x = iter(X, imap={x:0}, fmap={i:1}); m, _ = accum_max(max(x, "
     "dim=1)); save(m, omap={x:0}) }; return O }"},
    // a loop over elements that are limited from below
    {"program p { X: f32[4, 8]; Y: f32[4, 1]; return sum(exp(maximum(X, -15000) + Y), dim=1) }",
     "graph g { X: f32[4, 8]; Y: f32[4, 1]; O = block(x=2; i=4) { x = iter(X, imap={x:0}, fmap={i:1}); y = iter(Y, imap={x:0}); c = const(-15000); "
     "save(accum_sum(exp(y + maximum(x, c)), dim=1), omap={x:0}) }; return O }"},
    // two running maxima of the same elements
    {"program p { X: f32[4, 8]; Y: f32[4, 8]; E = exp(X); return sum(E * Y, dim=1) / sum(E, dim=1) }",
     "graph g { X: f32[4, 8]; Y: f32[4, 8]\n O = block(x=2; i=4) {\n"
     "  x = iter(X, imap={x:0}, fmap={i:1}); y = iter(Y, imap={x:0}, fmap={i:1}); m, a = accum_max(max(x, dim=1)); _, "
     "b = accum_max(max(transpose(x), dim=0))\n"
     "  e = exp(x - m); save(accum_sum_rescale(e * y, exp(a), dim=1) / accum_sum_rescale(e, exp(reshape(b, [2, 1])), "
     "dim=1), omap={x:0}) }\n return O }"},
    // indices
    {"program p { X: f32[6, 4]; return reshape(transpose(reshape(X, [2, 3, 4])), [8, 3]) }",
     "program p { X: f32[6, 4]; return reshape(transpose(reshape(reshape(X, [24]), [2, 3, 4])), [8, 3]) }"},
    {"program p { X: f32[2, 6]; Y: f32[8, 6]; return repeat(X, dim=0, times=4) * Y }",
     "program p { X: f32[2, 6]; Y: f32[8, 6]; return reshape(reshape(X, [2, 1, 6]) * reshape(Y, [2, 4, 6]), [8, 6]) }"},
    {"program p { " IN2 "; return concat(X, Y, dim=0) * 2 }", "program p { " IN2 "; return concat(X + X, Y + Y, dim=0) }"},
    {"program p { " IN2 "; return sum(concat(X, Y, dim=0), dim=0) }", "program p { " IN2 "; return sum(Y, dim=0) + sum(X, dim=0) }"},
    {"program p { X: f32[4, 12]; return slice(X, dim=1, start=4, end=8) }", "program p { X: f32[4, 12]; return chunk(X, dim=1, parts=3, index=1) }"},
    {"program p { X: f32[4, 12]; return slice(exp(X), dim=1, start=2, end=8) }",
     "program p { X: f32[4, 12]; return slice(slice(exp(X), dim=1, start=0, end=8), dim=1, start=2, end=8) }"},
    {"program p { X: f32[4, 12]; return concat(slice(X, dim=1, start=0, end=5), slice(X, dim=1, start=5, end=12), dim=1) }",
     "program p { X: f32[4, 12]; return X }"},
    {"program p { X: f32[4, 227]; return exp(slice(X, dim=1, start=0, end=101)) * slice(X, dim=1, start=126, end=227) }",
     "graph g { X: f32[4, 227]; A = slice(X, dim=1, start=126, end=227); B = slice(X, dim=1, start=0, end=101)\n"
     " O = block(x=2) { a = iter(A, imap={x:0}); b = iter(B, imap={x:0}); save(exp(b) * a, omap={x:0}) }; return O }"},
    {"program p { X: f32[4, 12]; return chunk(X, dim=1, parts=3, index=1) }",
     "program p { X: f32[4, 12]; a, b, c = split(X, dim=1, parts=3); return b }"},
    {"program p { X: f32[4, 6]; return sum(X, dim=1) }",
     "program p { X: f32[4, 6]; a, b = split(X, dim=1, parts=2); return sum(a, dim=1) + sum(b, dim=1) }"},
    {"program p { X: f32[4, 6]; return softmax(X, dim=1) }",
     "program p { X: f32[4, 6]; a, b, c = split(exp(X), dim=1, parts=3); s = a + b + c; return exp(X) / sum(s, dim=1) }"},
    // one kernel cuts a dimension in 4, the next in 6
    {"program p { X: f32[12, 5]; return exp(X) * 2 }", "graph g { X: f32[12, 5]; E = block(x=4) { save(exp(iter(X, imap={x:0})), omap={x:0}) }\n"
                                                       " O = block(x=6) { save(iter(E, imap={x:0}) * 2, omap={x:0}) }; return O }"},
    {"program p { X: f32[12, 5]; return sum(exp(X), dim=0) }",
     "graph g { X: f32[12, 5]; E = block(x=4) { save(exp(iter(X, imap={x:0})), omap={x:0}) }\n"
     " O = block(x=5; i=6) { save(accum_sum(iter(E, imap={x:1}, fmap={i:0}), dim=0), omap={x:1}) }; return O }"},
    // an accumulator that joins over one axis and sums over the other; what does not change is summed as often
    {"program p { X: f32[4, 6]; Y: f32[4, 8, 6]; return X + reshape(sum(Y, dim=1), [4, 6]) }",
     "graph g { X: f32[4, 6]; Y: f32[4, 8, 6]\n"
     " S = block(x=2; i=2, j=4) { y = iter(Y, imap={x:2}, fmap={i:0, j:1}); save(accum(sum(y, dim=1), fmap={i:0}), "
     "omap={x:2}) }\n"
     " return X + reshape(S, [4, 6]) }"},
    {"program p { X: f32[1, 6]; W: f32[8, 6]; return X * 4 + sum(W, dim=0) }",
     "graph g { X: f32[1, 6]; W: f32[8, 6]\n"
     " O = block(x=2; i=4) { x = iter(X, imap={x:1}); w = iter(W, imap={x:1}, fmap={i:0}); save(accum(x) + "
     "accum_sum(w, dim=0), omap={x:1}) }\n return O }"},
};

static void test_proved(void **state)
{
  (void)state;
  char why[160];
  for (size_t i = 0; i < COUNT(proved); i++) {
    if (!prove(proved[i].a, proved[i].b, why)) fail_msg("%s\n%s\n%s", proved[i].a, proved[i].b, why);
    assert_string_equal(why, "");
  }
}

// ---- not proved ----

#define FLASH(OTHER, FACTOR, SHIFT)                                                                              \
  "graph stable { Q: f16[2, 6, 3]; K: f16[2, 3, 8]; V: f16[2, 8, 5]\n"                                           \
  "  O = block(x=2, y=3; i=4) {\n"                                                                               \
  "    q = iter(Q, imap={x:0, y:1}); k = iter(K, imap={x:0}, fmap={i:2}); v = iter(V, imap={x:0}, fmap={i:1})\n" \
  "    s = matmul(q, k); m, change = accum_max(max(s, dim=2)); " OTHER "\n"                                      \
  "    f = " FACTOR "; e = exp(s - " SHIFT ")\n"                                                                 \
  "    save(accum_rescale(matmul(e, v), f) / accum_sum_rescale(e, f, dim=2), omap={x:0, y:1})\n"                 \
  "  }\n  return O }"
#define ATTENTION                                                           \
  "program attention { Q: f16[2, 6, 3]; K: f16[2, 3, 8]; V: f16[2, 8, 5]\n" \
  "  E = exp(matmul(Q, K)); return matmul(E / sum(E, dim=2), V) }"
static const char DIFFER[] = "the normal forms differ";
static const char RESCALED[] = "an accumulator rescaled by something else than exp of the change of a running maximum";
static const char CUT[] = "an index is split inside one of its parts";

#define RUNNING_ROOTS                                                                                            \
  "X: f32[4, 8]\n O = block(x=2; i=4) { x = iter(X, imap={x:0}, fmap={i:1}); m, _ = accum_max(max(sqrt(x) + 1, " \
  "dim=1)); "                                                                                                    \
  "save(accum(m, fmap={i:1}), omap={x:0}) }\n"

static const struct {
  const char *a, *b, *why;
} unproved[] = {
    // different functions
    {"program p { " IN2 "; return X - Y }", "program p { " IN2 "; return Y - X }", DIFFER},
    {"program p { " IN2 "; return X / Y }", "program p { " IN2 "; return Y / X }", DIFFER},
    {"program p { " IN2 "; return sum(X, dim=1) * 0.5 }", "program p { " IN2 "; return mean(X, dim=1) }", DIFFER},
    {"program p { " IN2 "; return sum(X * Y, dim=1) }", "program p { " IN2 "; return sum(X, dim=1) * sum(Y, dim=1) }", DIFFER},
    {"program p { " IN2 "; return square(sum(X, dim=1)) }", "program p { " IN2 "; return sum(square(X), dim=1) }", DIFFER},
    {"program p { " IN2 "; return exp(X + Y) }", "program p { " IN2 "; return exp(X) + exp(Y) }", DIFFER},
    {"program p { " IN2 "; return exp(sum(X, dim=1)) }", "program p { " IN2 "; return sum(exp(X), dim=1) }", DIFFER},
    {"program p { " IN2 "; return softmax(X, dim=1) }", "program p { " IN2 "; return softmax(X, dim=0) }", DIFFER},
    {"program p { " IN2 "; return softmax(X, dim=1) }", "program p { " IN2 "; return softmax(X + sum(Y, dim=0), dim=1) }", DIFFER},
    {"program p { " IN2 "; return relu(X + Y) }", "program p { " IN2 "; return relu(X) + relu(Y) }", DIFFER},
    {"program p { " IN2 "; return relu(X) }", "program p { " IN2 "; return gelu(X) }", DIFFER},
    {"program p { " IN2 "; return pow(X, Y) }", "program p { " IN2 "; return pow(Y, X) }", DIFFER},
    {"program p { " IN2 "; return clamp(X, -1, 1) }", "program p { " IN2 "; return clamp(X, -1, 2) }", DIFFER},
    {"program p { " IN2 "; return maximum(X, Y) }", "program p { " IN2 "; return minimum(X, Y) }", DIFFER},
    {"program p { " IN2 "; return max(X + Y, dim=1) }", "program p { " IN2 "; return max(X, dim=1) + max(Y, dim=1) }", DIFFER},
    {"program p { " IN2 "; return rms_norm(X, eps=1e-5) }", "program p { " IN2 "; return rms_norm(X, eps=1e-6) }", DIFFER},
    {"program p { X: f32[3, 48]; return mean(X, dim=1) }", "program p { X: f32[3, 48]; return sum(X, dim=1) * 0.0208 }", DIFFER},
    {"program p { " IN2 "; return X, Y }", "program p { " IN2 "; return X, X }", DIFFER},
    // a square root is not negative, and does not let out what may be
    {"program p { " IN2 "; return sqrt(X * X) }", "program p { " IN2 "; return X }", DIFFER},
    {"program p { " IN2 "; return sqrt(X * X * exp(Y)) }", "program p { " IN2 "; return X * exp(Y / 2) }", DIFFER},
    {"program p { " IN2 "; return sqrt(X) }", "program p { " IN2 "; return -sqrt(X) }", DIFFER},
    {"program p { " IN2 "; return sqrt(X) }", "program p { " IN2 "; return sqrt(-X) }", DIFFER},
    {"program p { " IN2 "; return sqrt(X * Y) * sqrt(X / Y) }", "program p { " IN2 "; return X }", DIFFER},
    {"program p { X: f32[4]; Y: f32[4]; Z: f32[4]; return sqrt(X * Y) * sqrt(Y * Z) * sqrt(X * Z) }",
     "program p { X: f32[4]; Y: f32[4]; Z: f32[4]; return X * Y * Z }", DIFFER},
    // indices that look alike
    {"program p { " SQUARE2 "; return matmul(X, Y) }", "program p { " SQUARE2 "; return matmul(X, transpose(Y)) }", DIFFER},
    {"program p { " SQUARE2 "; return sum(sum(X * X, dim=0), dim=1) }", "program p { " SQUARE2 "; return sum(sum(X * transpose(X), dim=0), dim=1) }",
     DIFFER},
    {"program p { " SQUARE2 "; return sum(exp(sum(X, dim=1)), dim=0) }",
     "program p { " SQUARE2 "; return sum(exp(sum(transpose(X), dim=1)), dim=0) }", DIFFER},
    {"program p { " SQUARE2 "; return sum(max(X, dim=1), dim=0) }", "program p { " SQUARE2 "; return transpose(sum(max(X, dim=0), dim=1)) }", DIFFER},
    {"program p { X: f32[2, 6]; Y: f32[8, 6]; return repeat(X, dim=0, times=4) * Y }",
     "program p { X: f32[2, 6]; Y: f32[8, 6]; return concat(X, X, X, X, dim=0) * Y }", DIFFER},
    {"program p { " IN2 "; return concat(X, Y, dim=0) }", "program p { " IN2 "; return concat(Y, X, dim=0) }", DIFFER},
    {"program p { X: f32[4, 12]; return slice(X, dim=1, start=0, end=5) }", "program p { X: f32[4, 12]; return slice(X, dim=1, start=1, end=6) }",
     DIFFER},
    {"program p { X: f32[4, 227]; return slice(X, dim=1, start=0, end=101) }",
     "program p { X: f32[4, 227]; return slice(X, dim=1, start=1, end=102) }", DIFFER},
    {"program p { X: f32[4, 227]; Y: f32[4, 227]; return slice(X, dim=1, start=0, end=101) }",
     "program p { X: f32[4, 227]; Y: f32[4, 227]; return slice(Y, dim=1, start=0, end=101) }", DIFFER},
    {"program p { X: f32[6, 227]; return slice(reshape(X, [227, 6]), dim=0, start=0, end=101) }",
     "program p { X: f32[6, 227]; return slice(transpose(X), dim=0, start=0, end=101) }", DIFFER},
    {"program p { X: f32[4, 8]; return softmax(X, dim=1) }",
     "graph g { X: f32[4, 8]; O = block(x=2) { save(softmax(iter(X, imap={x:1}), dim=1), omap={x:1}) }; return O }", DIFFER},
    // running maxima used in the wrong way
    {ATTENTION, FLASH("n, _ = accum_max(max(s + s, dim=2))", "exp(change)", "n"), DIFFER},
    {ATTENTION, FLASH("n, other = accum_max(max(s + s, dim=2))", "exp(other)", "m"), DIFFER},
    {ATTENTION, FLASH("", "exp(-change)", "m"), RESCALED},
    {ATTENTION, FLASH("", "exp(change + change)", "m"), RESCALED},
    {ATTENTION, FLASH("", "exp(m)", "m"), RESCALED},
    {ATTENTION, FLASH("", "change", "m"), RESCALED},
    {"program p { X: f32[4, 8]; E = exp(X); return sum(E, dim=1) / exp(max(X, dim=1)) }",
     "graph g { X: f32[4, 8]; O = block(x=2; i=4) { x = iter(X, imap={x:0}, fmap={i:1}); m, _ = accum_max(max(x, "
     "dim=1)); save(accum_sum(exp(x - m), dim=1), omap={x:0}) }; return O }",
     DIFFER},
    // an iteration reads the roots of later ones neither for its running maximum nor at all
    {"graph g { " RUNNING_ROOTS " return O + sum(abs(X), dim=1) }", "graph g { " RUNNING_ROOTS " return O + sum(X, dim=1) }", DIFFER},
    // equal, but beyond the algebra
    {"program p { " IN2 "; return exp((X + Y + 2) / ((X + 1) * (Y + 1))) }", "program p { " IN2 "; return exp(1 / (X + 1) + 1 / (Y + 1)) }", DIFFER},
    {"program p { " IN2 "; return X }", "program p { " IN2 "; return max(concat(X, X, dim=1), dim=1) * 0 + X }", "a maximum over a concatenation"},
    {"program p { X: f32[4, 6]; return reshape(X, [6, 4]) }", "program p { X: f32[4, 6]; return transpose(X) }", CUT},
    {"program p { X: f32[4, 600]; Y: f32[4, 1]; return concat(X, Y, dim=1) * 2 }",
     "program p { X: f32[4, 600]; Y: f32[4, 1]; return 2 * concat(X, Y, dim=1) }", "a concatenation has too many parts to tell apart"},
    {"program p { " IN2 "; return X / (Y - Y) }", "program p { " IN2 "; return X * 0 / (X - X) }", "a denominator is zero"},
    {"program p { " IN2 "; return X }", "program p { X: f32[4, 6]; return X }", "one has 2 inputs, the other 1"},
};

static void test_unproved(void **state)
{
  (void)state;
  char why[160];
  assert_true(prove(ATTENTION, FLASH("", "exp(change)", "m"), why));
  for (size_t i = 0; i < COUNT(unproved); i++) {
    if (prove(unproved[i].a, unproved[i].b, why)) fail_msg("proved:\n%s\n%s", unproved[i].a, unproved[i].b);
    struct arena mem = {0};
    (void)verify_prove(graph_of(&mem, unproved[i].a), graph_of(&mem, unproved[i].b), why);
    arena_close(&mem);
    if (strcmp(why, unproved[i].why)) fail_msg("%s\n%s\n%s", unproved[i].a, unproved[i].b, why);
  }
}

// A form that would grow without end is given up, soon.
static void test_large(void **state)
{
  (void)state;
  char why[160];
  const char *power = "program p { X: f32[4, 6]; Y: f32[4, 6]; Z: f32[4, 6]; S = X + Y + Z + X * Y + Y * Z + X * Z + 1\n"
                      "  A = S * S * S * S; B = A * A; return B * B * B }";
  assert_false(prove(power, power, why));
  assert_string_equal(why, "the forms are too large");
}

// ---- mutants of one graph against each other ----

enum { PICKED = 36 };

struct pick {
  struct arena mem;
  int seen, step, n;
  struct graph *g[PICKED];
  void *out[PICKED][2][64];
};

static void pick(void *arg, const struct graph *g, const struct mutation *what)
{
  struct pick *p = arg;
  (void)what;
  if (p->seen++ % p->step || p->n == PICKED) return;
  void *in[64];
  p->g[p->n] = graph_copy(&p->mem, g);
  for (uint64_t seed = 0; seed < 2; seed++) {
    eval_random(&p->mem, g, DOM_F64, NULL, seed, in);
    real_run(&p->mem, g, in, p->out[p->n][seed]);
  }
  p->n++;
}

static void pass(void *arg, const struct graph *g, const struct mutation *what) { (void)arg, (void)g, (void)what; }

// Somewhere both are finite and not close.
static bool differ(const struct graph *g, void *const *x, void *const *y)
{
  int outs[64], n = graph_outputs(g, outs);
  for (int i = 0; i < n; i++)
    for (int64_t k = 0; k < shape_size(&g->tensors[outs[i]].shape); k++) {
      double u = ((double *)x[i])[k], v = ((double *)y[i])[k];
      if (isfinite(u) && isfinite(v) && fabs(u - v) > 1e-9 * (1 + fabs(u))) return true;
    }
  return false;
}

static void test_pairs(void **state)
{
  (void)state;
  int pairs = 0, equal = 0;
  for (int i = 0; i < 2 * equal_count; i++) {
    struct pick p = {0};
    const struct equal_case *k = &equal_cases[i / 2];
    const struct graph *g = graph_of(&p.mem, i % 2 ? k->graph : k->program);
    p.step = MAX(1, mutants(g, pass, NULL) / PICKED);
    mutants(g, pick, &p);
    for (int a = 0; a < p.n; a++)
      for (int b = 0; b < a; b++) {
        char why[160];
        pairs++;
        if (!verify_prove(p.g[a], p.g[b], why)) continue;
        equal++;
        if (differ(g, p.out[a][0], p.out[b][0]) || differ(g, p.out[a][1], p.out[b][1])) {
          struct str text = {0};
          graph_print(p.g[a], &text), graph_print(p.g[b], &text);
          fail_msg("%s: proved, but different:\n%s", k->name, str_text(&text));
        }
      }
    arena_close(&p.mem);
  }
  print_message("%d pairs of mutants, %d proved\n", pairs, equal);
  assert_true(pairs > 5000 && equal > 100);
}

// ---- what the search finds ----

static const char *const programs[] = {"m_gqa",    "m_rms",   "m_gated", "m_lora", "m_ntrans", "m_moe",   "gqa_dec",
                                       "mha_spec", "mqa_dec", "lora",    "mlp",    "g_lstm",   "softmax", "g_fmha_mask"};

static void expect(const char *name, const char *stage, const struct graph *p, const struct graph *g)
{
  char why[160];
  struct str text = {0};
  if (verify_prove(p, g, why)) return;
  graph_print(g, &text);
  fail_msg("%s, %s: %s\n%s", name, stage, why, str_text(&text));
}

// As found, with stable softmax, and with thread graphs, at full size.
static void test_search(void **state)
{
  (void)state;
  int found = 0, stable = 0;
  for (size_t i = 0; i < COUNT(programs); i++) {
    struct arena mem = {0};
    struct graph *p = load(&mem, programs[i], 0, NULL);
    struct search_opts o = {.threads = 2, .seed = 7, .max_block_ops = 5, .max_kernel_ops = 2, .most = 16};
    struct search_result r;
    struct err e = {0};
    assert_int_equal(search_run(&mem, p, &machine, &o, &r, &e), OK);
    for (int k = 0; k < r.n; k++) {
      struct graph *s, *t;
      bool changed;
      char note[256];
      expect(programs[i], "found", p, r.found[k].g);
      assert_int_equal(plan_stable(&mem, r.found[k].g, &s, &changed, note, &e), OK);
      expect(programs[i], "stable", p, s);
      assert_int_equal(thread_graphs(&mem, s, &t, &e), OK);
      expect(programs[i], "with thread graphs", p, t);
      found++, stable += changed;
    }
    arena_close(&mem);
  }
  print_message("%d graphs found, %d of them made stable: all proved\n", found, stable);
  assert_true(found > 100 && stable > 20);
}

// ---- certificates ----

static void test_certificate(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct certificate c;
  struct err e = {0};
  const struct verify_opts few = {.delta = 0.1};
  struct str text = {0};
  assert_int_equal(verify_equal(graph_of(&mem, ATTENTION), graph_of(&mem, FLASH("", "exp(change)", "m")), &few, &c, &e), OK);
  assert_true(c.equal && c.scope == EVIDENCE_PROVED && !*c.proof && c.delta == 0);
  certificate_text(&c, &text);
  assert_non_null(strstr(str_text(&text), "proved by normal forms at full size, for all inputs on which both are defined\n"));
  // equal by tests, undecided by forms
  const char *twice = "program p { " IN2 "; return exp(1 / (X + 1) + 1 / (Y + 1)) }",
             *once = "program p { " IN2 "; return exp((X + Y + 2) / ((X + 1) * (Y + 1))) }";
  assert_int_equal(verify_equal(graph_of(&mem, twice), graph_of(&mem, once), &few, &c, &e), OK);
  assert_true(c.equal && c.scope == EVIDENCE_FULL);
  assert_string_equal(c.proof, DIFFER);
  certificate_text(&c, &text);
  assert_non_null(strstr(str_text(&text), "no proof by normal forms: the normal forms differ\n"));
  // not equal: nothing is proved
  assert_int_equal(verify_equal(graph_of(&mem, twice), graph_of(&mem, "program p { " IN2 "; return X }"), &few, &c, &e), OK);
  assert_true(!c.equal && c.finding == FOUND_UNEQUAL && c.scope == EVIDENCE_NONE);
  str_free(&text);
  arena_close(&mem);
}

// The division of a sum by a loop does not change the scale of a maximum in it: all numbers of iterations have the same normal form.
static void test_iterations(void **state)
{
  (void)state;
  const char *program = "program p { V: f16[672, 128]; C: f16[672, 672]; return matmul(exp(maximum(C, -15000)) * (-65504 <= C), V) }";
  for (int i = 1; i <= 672; i++) {
    char graph[400], why[160];
    if (672 % i) continue;
    snprintf(graph, sizeof graph,
             "graph g { V: f16[672, 128]; C: f16[672, 672]; t = block(x=1; i=%d) { c = iter(C, fmap={i:1}); v = iter(V, fmap={i:0})\n"
             "  m = const(-65504); n = const(-15000); save(accum(matmul(exp(maximum(c, n)) * (m <= c), v)), omap={}) }\n return t }",
             i);
    if (!prove(program, graph, why)) fail_msg("%d iterations: %s", i, why);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_iterations), cmocka_unit_test(test_cases), cmocka_unit_test(test_proved), cmocka_unit_test(test_unproved),
      cmocka_unit_test(test_large),      cmocka_unit_test(test_pairs), cmocka_unit_test(test_search), cmocka_unit_test(test_certificate),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
