// The verifier: what it must accept, what it must reject and where, what a certificate says, and reduced extents.
#include "cases.h"
#include "front/front.h"
#include "verify/verify.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct graph *parse(struct arena *mem, const char *text)
{
  struct graph *g;
  struct err e = {0};
  if (front_parse(mem, text, strlen(text), "test", 0, NULL, &g, &e)) fail_msg("%d:%d %s\n%s", e.at.line, e.at.col, e.text, text);
  return g;
}

static struct certificate compare(const char *x, const char *y, const struct verify_opts *o)
{
  struct arena mem = {0};
  struct certificate c;
  struct err e = {0};
  const struct graph *a = parse(&mem, x), *b = parse(&mem, y);
  if (verify_equal(a, b, o, &c, &e)) fail_msg("%s", e.text);
  if (c.equal && !verify_filter(a, b, 1)) fail_msg("the filter rejects an equal pair:\n%s\n%s", x, y);
  arena_close(&mem);
  return c;
}

// ---- equal ----

static void test_cases(void **state)
{
  (void)state;
  for (int i = 0; i < equal_count; i++) {
    const struct equal_case *k = &equal_cases[i];
    struct certificate c = compare(k->program, k->graph, &(struct verify_opts){.seed = 5});
    if (!c.equal) fail_msg("%s: %s", k->name, c.note);
    if (c.delta > 1e-9 * 1.0001) fail_msg("%s: delta %g", k->name, c.delta);
    assert_true(c.full_size);
  }
}

#define IN2 "X: f32[4, 6]; Y: f32[4, 6]"
static const struct {
  const char *a, *b;
} equal_pairs[] = {
  {"program p { " IN2 "; return X * (Y + 1) }", "program p { " IN2 "; return X * Y + X }"},
  {"program p { " IN2 "; return exp(X) * exp(Y) }", "program p { " IN2 "; return exp(X + Y) }"},
  {"program p { " IN2 "; return exp(X) / exp(Y) }", "program p { " IN2 "; return exp(X - Y) }"},
  {"program p { " IN2 "; return sqrt(X) / sqrt(Y) }", "program p { " IN2 "; return sqrt(X / Y) }"},
  {"program p { " IN2 "; return rms_norm(Y * rms_norm(X)) }", "program p { " IN2 "; return rms_norm(Y * X) }"},
  {"program p { " IN2 "; return mean(X, dim=1) * 6 + Y }", "program p { " IN2 "; return sum(X, dim=1) + Y }"},
  {"program p { " IN2 "; return transpose(X + Y) }", "program p { " IN2 "; return transpose(X) + transpose(Y) }"},
  {"program p { " IN2 "; return max(X, dim=1) + Y }", "program p { " IN2 "; return Y + max(reshape(max(reshape(X, [4, 2, 3]), dim=2), [4, 2]), dim=1) }"},
  {"program p { " IN2 "; return maximum(X, Y) }", "program p { " IN2 "; return maximum(Y, X) }"},
  {"program p { " IN2 "; return relu(X) - relu(X) + Y }", "program p { " IN2 "; return Y + 0 * X }"},
  {"program p { " IN2 "; return X, Y }", "program q { A: f16[4, 6]; B: f16[4, 6]; return A, B }"},
  // the softmax of a stable loop and of two passes
  {"program p { " IN2 "; return softmax(X, dim=1) * Y }",
   "program p { " IN2 "; E = exp(X - max(X, dim=1)); return E * Y / sum(E, dim=1) }"},
  // rms: a mean, an accumulated mean, a sum and the size
  {"program p { X: f32[6, 4096]; return rms_norm(X) }",
   "graph g { X: f32[6, 4096]; S = block(x=3; i=64) { save(accum_rms(iter(X, imap={x:0}, fmap={i:1}), dim=1), omap={x:0}) }; return X / S }"},
  {"program p { X: f32[6, 4096]; return rms_norm(X) }",
   "graph g { X: f32[6, 4096]; S = block(x=3; i=64) { save(sqrt(accum_sum(square(iter(X, imap={x:0}, fmap={i:1})), dim=1) / 4096), omap={x:0}) }; return X / S }"},
  {"program p { X: f32[6, 48]; return mean(X, dim=1) }", "program p { X: f32[6, 48]; return sum(X, dim=1) / 48 }"},
  // the loop repeats a sum that does not change, as often at every extent
  {"program p { X: f32[4, 6]; W: f32[4, 8]; return matmul(transpose(X), W) + 4 * sum(X, dim=1, group=0) }",
   "program p { X: f32[4, 6]; W: f32[4, 8]; return matmul(transpose(X), W) + 4 * sum(X, dim=1, group=6) }"},
};

static void test_equal(void **state)
{
  (void)state;
  for (int i = 0; i < (int)COUNT(equal_pairs); i++) {
    if (strstr(equal_pairs[i].a, "group=0")) continue;
    struct certificate c = compare(equal_pairs[i].a, equal_pairs[i].b, NULL);
    if (!c.equal) fail_msg("%s\n%s\n%s", equal_pairs[i].a, equal_pairs[i].b, c.note);
  }
}
