// The verifier: what it must accept, what it must reject and where, what a certificate says, and reduced extents.
// test: quick release
#include "cases.h"
#include "front/front.h"
#include "verify/proof.h"
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
  int unproved = 0;
  for (int i = 0; i < equal_count; i++) {
    const struct equal_case *k = &equal_cases[i];
    struct certificate c = compare(k->program, k->graph, &(struct verify_opts){.seed = 5, .no_proof = true});
    if (c.finding != FOUND_EQUAL) fail_msg("%s: %s", k->name, c.note);
    if (c.delta > 1e-9 * 1.0001) fail_msg("%s: delta %g", k->name, c.delta);
    assert_int_equal(c.scope, EVIDENCE_FULL);
    c = compare(k->program, k->graph, &(struct verify_opts){.seed = 5});
    if (c.scope != EVIDENCE_PROVED && c.scope != EVIDENCE_FULL) fail_msg("%s: %s", k->name, c.proof);
    unproved += c.scope != EVIDENCE_PROVED;
  }
  assert_true(unproved <= 1); // parts of a sum that are told apart by `split`
}

#define IN2 "X: f32[4, 6]; Y: f32[4, 6]"

// A maximum that leaves out one element of n is another in one order of n.
static void test_lost_element(void **state)
{
  (void)state;
  for (int n = 40; n <= 40000; n *= 10)
    for (uint64_t seed = 1; seed <= 3; seed++) {
      char whole[160], parts[260];
      snprintf(whole, sizeof whole, "program p { X: f32[1, %d]\n return max(X, dim=1) }", n);
      snprintf(parts, sizeof parts, "program p { X: f32[1, %d]\n return maximum(max(X[:, 0:%d], dim=1), max(X[:, %d:%d], dim=1)) }", n, n / 2,
               n / 2 + 1, n);
      const struct certificate c = compare(whole, parts, &(struct verify_opts){.seed = seed, .full_size_ops = 50000000});
      if (c.finding == FOUND_EQUAL) fail_msg("%d elements, seed %d: %s", n, (int)seed, c.note);
    }
}

// Odd and even functions are odd and even over fields too.
static void test_parity(void **state)
{
  (void)state;
  static const struct {
    const char *a, *b;
    enum finding found;
  } rows[] = {
      {"sin(Y - X)", "-sin(X - Y)", FOUND_EQUAL},    {"cos(Y - X)", "cos(X - Y)", FOUND_EQUAL},    {"erf(-2 * X)", "-erf(2 * X)", FOUND_EQUAL},
      {"tanh(X * -Y)", "-tanh(X * Y)", FOUND_EQUAL}, {"sin(X - X)", "Y - Y", FOUND_EQUAL},         {"sin(Y - X)", "sin(X - Y)", FOUND_UNEQUAL},
      {"cos(Y - X)", "-cos(X - Y)", FOUND_UNEQUAL},  {"erf(-2 * X)", "erf(2 * X)", FOUND_UNEQUAL}, {"cos(X - X)", "Y - Y", FOUND_UNEQUAL},
      {"gelu(-X)", "-gelu(X)", FOUND_UNEQUAL},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    char a[160], b[160];
    snprintf(a, sizeof a, "program p { " IN2 "\n return %s }", rows[i].a);
    snprintf(b, sizeof b, "program p { " IN2 "\n return %s }", rows[i].b);
    struct certificate c = compare(a, b, &(struct verify_opts){.seed = 5, .no_proof = true});
    if (c.finding != rows[i].found || (c.finding == FOUND_EQUAL && c.delta > 1e-9 * 1.0001)) fail_msg("%s, %s: %s", rows[i].a, rows[i].b, c.note);
  }
}
// The sum of X over the iterations is 4 X.
#define REPEATED                                                                                                                               \
  "graph g { X: f32[1, 6]; W: f32[8, 6]\n"                                                                                                     \
  "  O = block(x=2; i=4) { x = iter(X, imap={x:1}); w = iter(W, imap={x:1}, fmap={i:0}); save(accum(x) + accum_sum(w, dim=0), omap={x:1}) }\n" \
  "  return O }"

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
    {"program p { " IN2 "; return maximum(X, Y) }", "program p { " IN2 "; return maximum(Y, X) }"},
    {"program p { " IN2 "; return relu(X) - relu(X) + Y }", "program p { " IN2 "; return Y + 0 * X }"},
    {"program p { " IN2 "; return X, Y }", "program q { A: f16[4, 6]; B: f16[4, 6]; return A, B }"},
    // the softmax of a stable loop and of two passes
    {"program p { " IN2 "; return softmax(X, dim=1) * Y }", "program p { " IN2 "; E = exp(X - max(X, dim=1)); return E * Y / sum(E, dim=1) }"},
    // rms: a mean, an accumulated mean, a sum and the size
    {"program p { X: f32[6, 4096]; return rms_norm(X) }",
     "graph g { X: f32[6, 4096]; S = block(x=3; i=64) { save(accum_rms(iter(X, imap={x:0}, fmap={i:1}), dim=1), omap={x:0}) }; return X / S }"},
    {"program p { X: f32[6, 4096]; return rms_norm(X) }", "graph g { X: f32[6, 4096]; S = block(x=3; i=64) { save(sqrt(accum_sum(square(iter(X, "
                                                          "imap={x:0}, fmap={i:1})), dim=1) / 4096), omap={x:0}) }; return X / S }"},
    {"program p { X: f32[6, 48]; return mean(X, dim=1) }", "program p { X: f32[6, 48]; return sum(X, dim=1) / 48 }"},
    {"program p { X: f32[1, 6]; W: f32[8, 6]; return X * 4 + sum(W, dim=0) }", REPEATED},
};

static void test_equal(void **state)
{
  (void)state;
  for (int i = 0; i < (int)COUNT(equal_pairs); i++) {
    for (int tests = 0; tests < 2; tests++) { // with the formal check, and by tests alone
      struct certificate c = compare(equal_pairs[i].a, equal_pairs[i].b, &(struct verify_opts){.no_proof = tests});
      if (!c.equal) fail_msg("%s\n%s\n%s", equal_pairs[i].a, equal_pairs[i].b, c.note);
    }
  }
}

// ---- unequal ----

static const struct {
  const char *a, *b;
} unequal_pairs[] = {
    {"program p { " IN2 "; return X - Y }", "program p { " IN2 "; return Y - X }"},
    {"program p { " IN2 "; return exp(X + Y) }", "program p { " IN2 "; return exp(X) + exp(Y) }"},
    {"program p { " IN2 "; return exp(X * Y) }", "program p { " IN2 "; return exp(X) * exp(Y) }"},
    // in a field in which 29 is no residue, these were equal
    {"program p { " IN2 "; return 29 * sqrt(X) }", "program p { " IN2 "; return -sqrt(841 * X) }"},
    {"program p { " IN2 "; return rms_norm(13 * X) }", "program p { " IN2 "; return -rms_norm(X) }"},
    {"program p { " IN2 "; return sqrt(square(X)) }", "program p { " IN2 "; return X }"},
    {"program p { " IN2 "; return exp(X) * 1e-30 + Y }", "program p { " IN2 "; return Y }"},
    {"program p { " IN2 "; return X * 1.000000000001 }", "program p { " IN2 "; return X }"},
    {"program p { X: f32[4, 48]; Y: f32[4, 96]; return sum(X, dim=1) * sum(Y, dim=1) / 48 }",
     "program p { X: f32[4, 48]; Y: f32[4, 96]; return sum(X, dim=1) * sum(Y, dim=1) / 96 }"},
    {"program p { " IN2 "; return relu(X) }", "program p { " IN2 "; return gelu(X) }"},
    {"program p { " IN2 "; return relu(X + Y) }", "program p { " IN2 "; return relu(X) + relu(Y) }"},
    {"program p { " IN2 "; return sum(X, dim=1) }", "program p { " IN2 "; return mean(X, dim=1) }"},
    {"program p { " IN2 "; return sum(X, dim=1) * 0.5 }", "program p { " IN2 "; return mean(X, dim=1) }"},
    {"program p { " IN2 "; return max(X, dim=1) }", "program p { " IN2 "; return sum(X, dim=1) }"},
    {"program p { " IN2 "; return maximum(X, Y) }", "program p { " IN2 "; return minimum(X, Y) }"},
    {"program p { " IN2 "; return maximum(X, Y) }", "program p { " IN2 "; return X }"},
    {"program p { " IN2 "; return clamp(X, -1, 1) }", "program p { " IN2 "; return clamp(X, -1, 2) }"},
    {"program p { " IN2 "; return softmax(X, dim=1) }", "program p { " IN2 "; return softmax(X, dim=0) }"},
    {"program p { " IN2 "; return rms_norm(X, eps=1e-5) }", "program p { " IN2 "; return rms_norm(X, eps=1e-6) }"},
    {"program p { X: f32[4, 4]; Y: f32[4, 4]; return matmul(X, Y) }", "program p { X: f32[4, 4]; Y: f32[4, 4]; return matmul(Y, X) }"},
    {"program p { X: f32[4, 4]; Y: f32[4, 4]; return matmul(X, Y) }", "program p { X: f32[4, 4]; Y: f32[4, 4]; return matmul(X, transpose(Y)) }"},
    {"program p { X: f32[6, 4]; return transpose(X) }", "program p { X: f32[6, 4]; return reshape(X, [4, 6]) }"},
    {"program p { X: f32[3, 48]; return mean(X, dim=1) }", "program p { X: f32[3, 48]; return sum(X, dim=1) / 24 }"},
    // softmax of each tile instead of the whole row
    {"program p { X: f32[4, 8]; return softmax(X, dim=1) }",
     "graph g { X: f32[4, 8]; O = block(x=2) { save(softmax(iter(X, imap={x:1}), dim=1), omap={x:1}) }; return O }"},
    // the factor of a running sum is missing
    {"program p { X: f32[4, 8]; E = exp(X); return sum(E, dim=1) / exp(max(X, dim=1)) }",
     "graph g { X: f32[4, 8]; O = block(x=2; i=4) { x = iter(X, imap={x:0}, fmap={i:1}); m, _ = accum_max(max(x, dim=1)); save(accum_sum(exp(x - m), "
     "dim=1), omap={x:0}) }; return O }"},
};

static void test_unequal(void **state)
{
  (void)state;
  for (int i = 0; i < (int)COUNT(unequal_pairs); i++) {
    struct certificate c = compare(unequal_pairs[i].a, unequal_pairs[i].b, NULL);
    if (c.finding != FOUND_UNEQUAL) fail_msg("%s:\n%s\n%s", finding_name(c.finding), unequal_pairs[i].a, unequal_pairs[i].b);
    if (!strstr(c.note, "output 1 differs at [")) fail_msg("%s", c.note);
    assert_true(c.delta == 1 && c.scope == EVIDENCE_NONE);
  }
}

// Both are defined on no inputs but 0, or rounding hides everything: no evidence of either answer.
static void test_undecided(void **state)
{
  (void)state;
  static const struct {
    const char *a, *b;
  } pairs[] = {
      {"program p { " IN2 "; return sqrt(X) }", "program p { " IN2 "; return sqrt(-X) }"},
      {"program p { " IN2 "; return relu(X) / (Y - Y) }", "program p { " IN2 "; return X / (Y - Y) }"},
  };
  for (size_t i = 0; i < COUNT(pairs); i++) {
    struct certificate c = compare(pairs[i].a, pairs[i].b, NULL);
    if (c.finding != FOUND_UNDECIDED) fail_msg("%s: %s\n%s", finding_name(c.finding), pairs[i].a, pairs[i].b);
    assert_true(!c.equal && c.scope == EVIDENCE_NONE && *c.note);
  }
}

// Real laws that neither the formal check nor the fields have: never "not equal".
static void test_never_unequal(void **state)
{
  (void)state;
  static const struct {
    const char *a, *b;
  } pairs[] = {
      {"program p { " IN2 "; return gelu(X) - gelu(-X) }", "program p { " IN2 "; return X }"},
      {"program p { " IN2 "; return tanh(X + Y) * (1 + tanh(X) * tanh(Y)) }", "program p { " IN2 "; return tanh(X) + tanh(Y) }"},
      {"program p { " IN2 "; return relu(X + relu(Y)) + relu(-relu(Y) - X) }", "program p { " IN2 "; return abs(relu(Y) + X) }"},
      {"program p { " IN2 "; return X * (0.12345678901234568 * 7.654321098765432) }",
       "program p { " IN2 "; return X * 0.12345678901234568 * 7.654321098765432 }"},
  };
  for (size_t i = 0; i < COUNT(pairs); i++) {
    struct certificate c = compare(pairs[i].a, pairs[i].b, NULL);
    if (c.finding == FOUND_UNEQUAL) fail_msg("not equal: %s\n%s\n%s", c.note, pairs[i].a, pairs[i].b);
  }
}

// Common values of both are not evaluated.
static void test_common(void **state)
{
  (void)state;
  struct certificate c = compare(
      "program p { X: f32[4, 64]; A: f32[512, 512]; B: f32[512, 512]; return relu(sum(X, dim=1)), gelu(matmul(A, B)) * 3 }",
      "program p { X: f32[4, 64]; A: f32[512, 512]; B: f32[512, 512]; return relu(sum(X, dim=1)), gelu(matmul(A, B)) + 2 * gelu(matmul(A, B)) }",
      &(struct verify_opts){.no_proof = true, .full_size_ops = 100000000});
  if (c.scope != EVIDENCE_FULL) fail_msg("%s", c.note);
}

// At reduced extents only, where nothing at full size helps.
static void test_unequal_reduced(void **state)
{
  (void)state;
  const char *twice = "program p { X: f32[1, 6]; W: f32[8, 6]; return X * 2 + sum(W, dim=0) }";
  assert_false(compare(twice, REPEATED, &(struct verify_opts){.full_size_ops = 1}).equal);
  assert_false(compare("program p { X: f32[3, 4096]; return sum(X, dim=1) / 2 }", "program p { X: f32[3, 4096]; return mean(X, dim=1) }",
                       &(struct verify_opts){.full_size_ops = 1})
                   .equal);
  assert_false(
      compare("program p { X: f16[2048, 4096]; W: f16[4096, 4096]; return reshape(rms_norm(reshape(matmul(X, W), [2048, 32, 128])), [2048, 4096]) }",
              "program p { X: f16[2048, 4096]; W: f16[4096, 4096]; return reshape(rms_norm(reshape(matmul(X, W), [2048, 64, 64])), [2048, 4096]) }",
              &(struct verify_opts){.full_size_ops = 1})
          .equal);
}

static void test_place(void **state)
{
  (void)state;
  struct certificate c = compare("program p { X: f32[2, 3]; Y = X * 2; Z = concat(X, X, dim=0); return Y, Z }",
                                 "program p { X: f32[2, 3]; Y = X + X; Z = concat(X, Y, dim=0); return Y, Z }", NULL);
  assert_false(c.equal);
  assert_string_equal(c.note, "output 2 (Z) differs at [2, 0] at full size");
}

// ---- corners ----

static void test_extents_of_one(void **state)
{
  (void)state;
  assert_true(compare("program p { X: f32[1, 1]; return sum(X, dim=1) }", "program p { X: f32[1, 1]; return X }", NULL).equal);
  assert_true(compare("program p { X: f32[1, 1]; return softmax(X, dim=0) }", "program p { X: f32[1, 1]; return X / X }", NULL).equal);
  assert_false(compare("program p { X: f32[1, 1]; return sum(X, dim=1) }", "program p { X: f32[1, 1]; return X * X }", NULL).equal);
  assert_true(compare("program p { X: f32[]; return X * 2 }", "program p { X: f32[]; return X + X }", NULL).equal);
}

// 1/0 is 0 in a test, so these would agree; nothing is certified that divides by zero on every input.
static void test_zero_division(void **state)
{
  (void)state;
  struct certificate c = compare("program p { " IN2 "; return X / (Y - Y) }", "program p { " IN2 "; return X * 0 / (X - X) }", NULL);
  assert_false(c.equal);
  assert_non_null(strstr(c.note, "divides by zero"));
}

static void mismatch(const char *x, const char *y, const char *text)
{
  struct arena mem = {0};
  struct certificate c;
  struct err e = {0};
  assert_int_equal(verify_equal(parse(&mem, x), parse(&mem, y), NULL, &c, &e), USER);
  assert_int_equal(e.id, ERR_MISMATCH);
  assert_string_equal(e.text, text);
  assert_false(verify_filter(parse(&mem, x), parse(&mem, y), 1));
  arena_close(&mem);
}

static void test_signature(void **state)
{
  (void)state;
  mismatch("program p { X: f32[2]; return X }", "program p { X: f32[2]; Y: f32[2]; return X }", "one has 1 input, the other 2");
  mismatch("program p { X: f32[2]; return X }", "program p { Y: f32[3]; return Y }", "input 1 is X [2] in one and Y [3] in the other");
  mismatch("program p { X: f32[2]; return X }", "program p { X: f32[2]; return X, X }", "one has 1 output, the other 2");
  mismatch("program p { X: f32[2]; return X }", "program p { X: f32[2]; S = sum(X, dim=0); return S }",
           "output 1 is X [2] in one and S [1] in the other");
}

static void test_stop(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct certificate c;
  struct err e = {0};
  const volatile int stop = 1;
  struct graph *g = parse(&mem, equal_cases[0].graph);
  assert_int_equal(verify_equal(g, g, &(struct verify_opts){.stop = &stop}, &c, &e), ENV);
  assert_int_equal(e.id, ERR_STOPPED);
  assert_false(c.equal);
  arena_close(&mem);
}

// ---- certificates ----

static const char BIG_ATTENTION[] = "program p { Q: f16[2, 256, 64]; K: f16[2, 64, 4096]; V: f16[2, 4096, 64]\n"
                                    "  E = exp(matmul(Q, K)); return matmul(E / sum(E, dim=2), V) }";
static const char BIG_FLASH[] = "graph g { Q: f16[2, 256, 64]; K: f16[2, 64, 4096]; V: f16[2, 4096, 64]\n"
                                "  O = block(x=2, y=8; i=64) {\n"
                                "    q = iter(Q, imap={x:0, y:1}); k = iter(K, imap={x:0}, fmap={i:2}); v = iter(V, imap={x:0}, fmap={i:1})\n"
                                "    e = exp(matmul(q, k)); save(accum(matmul(e, v)) / accum_sum(e, dim=2), omap={x:0, y:1})\n"
                                "  }\n"
                                "  return O }";

static void test_certificate(void **state)
{
  (void)state;
  struct certificate c = compare(BIG_ATTENTION, BIG_FLASH, &(struct verify_opts){.seed = 9, .full_size_ops = 1000, .no_proof = true});
  assert_true(c.equal && c.scope == EVIDENCE_REDUCED);
  assert_true(c.delta <= 1e-9 * 1.0001 && c.delta > 1e-10);
  assert_int_equal(c.k, 32); // 4 keys, twice: numerators and denominators of both sides
  assert_int_equal(c.seed, 9);
  assert_true(c.tests > 400 && c.tests < 600);
  assert_string_equal(c.extents, "Q [2, 4, 2], K [2, 2, 4], V [2, 4, 2]");
  assert_non_null(strstr(c.note, "not tested at full size: that takes"));
  struct str text = {0};
  certificate_text(&c, &text);
  assert_non_null(strstr(str_text(&text), "equal at the tested extents, not proved at full size\n"));
  assert_non_null(strstr(str_text(&text), " random tests over fields, seed 9; the first: values mod "));
  assert_non_null(strstr(str_text(&text), "  at Q [2, 4, 2], K [2, 2, 4], V [2, 4, 2]\n"));
  str_free(&text);
}

static void test_delta(void **state)
{
  (void)state;
  const struct verify_opts loose = {.delta = 0.01, .full_size_ops = 1000, .no_proof = true},
                           strict = {.delta = 1e-18, .full_size_ops = 1000, .no_proof = true};
  struct certificate x = compare(BIG_ATTENTION, BIG_FLASH, &loose), y = compare(BIG_ATTENTION, BIG_FLASH, &strict);
  assert_true(x.equal && y.equal && x.tests < y.tests);
  assert_true(x.delta <= 0.0101 && x.delta > 1e-4 && y.delta <= 1.001e-18);
}

static void test_threads(void **state)
{
  (void)state;
  for (int i = 0; i < equal_count; i++) {
    struct certificate c[2];
    for (int k = 0; k < 2; k++)
      c[k] = compare(equal_cases[i].program, equal_cases[i].graph, &(struct verify_opts){.delta = 0.01, .threads = 1 + 3 * k, .no_proof = true});
    assert_memory_equal(&c[0], &c[1], sizeof c[0]);
  }
}

// A pair that no theorem covers is accepted, if it passes, with delta 1 and the reason.
static void test_not_covered(void **state)
{
  (void)state;
  struct certificate c = compare("program p { " IN2 "; return exp(exp(X)) * Y }", "program p { " IN2 "; return Y * exp(exp(X)) }",
                                 &(struct verify_opts){.no_proof = true});
  assert_true(c.equal && c.delta == 1);
  assert_non_null(strstr(c.note, "an exponential of an exponential"));
}

// Tests alone do not accept a law of maxima; the formal check does.
static void test_laws_of_maxima(void **state)
{
  (void)state;
  for (int tests = 0; tests < 2; tests++) {
    struct certificate c =
        compare("program p { X: f32[4, 6]; return max(X, dim=1) }",
                "program p { X: f32[4, 6]; return reshape(max(reshape(max(reshape(X, [4, 2, 3]), dim=2), [4, 2]), dim=1), [4, 1]) }",
                &(struct verify_opts){.no_proof = tests});
    assert_int_equal(c.finding, tests ? FOUND_UNDECIDED : FOUND_EQUAL);
    assert_int_equal(c.scope, tests ? EVIDENCE_NONE : EVIDENCE_PROVED);
  }
}

// ---- reduced extents ----

static int64_t largest(const struct graph *g)
{
  int64_t n = 0;
  for (int i = 0; i < g->ntensors; i++)
    for (int d = 0; d < g->tensors[i].shape.n; d++) n = MAX(n, g->tensors[i].shape.d[d]);
  return n;
}

static void shrink(const char *name, const struct graph *a, const struct graph *b)
{
  struct arena mem = {0};
  struct graph *x, *y;
  struct err e = {0};
  if (!shrink_pair(&mem, a, b, VARIED, &x, &y)) fail_msg("%s cannot be shrunk", name);
  assert_int_equal(graph_check(x, &e), OK);
  assert_int_equal(graph_check(y, &e), OK);
  assert_int_equal(x->nnodes, a->nnodes);
  if (largest(x) > 64 || largest(y) > 64) fail_msg("%s: extents up to %lld", name, (long long)MAX(largest(x), largest(y)));
  for (int i = 0; i < a->ntensors; i++)
    for (int d = 0; d < a->tensors[i].shape.n; d++) assert_int_equal(a->tensors[i].shape.d[d] > 1, x->tensors[i].shape.d[d] > 1);
  arena_close(&mem);
}

static void shrink_folder(const char *folder)
{
  struct dirent **names;
  int n = scandir(folder, &names, NULL, alphasort);
  assert_true(n > 0);
  for (int i = 0; i < n; i++) {
    char path[512];
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g;
    snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
    if (strstr(path, ".mica")) {
      assert_int_equal(front_load(&mem, path, 0, NULL, &g, &e), OK);
      shrink(path, g, g);
    }
    arena_close(&mem), free(names[i]);
  }
  free(names);
}

static void test_shrink(void **state)
{
  (void)state;
  shrink_folder("examples"), shrink_folder("examples/graphs");
  for (int i = 0; i < equal_count; i++) {
    struct arena mem = {0};
    shrink(equal_cases[i].name, parse(&mem, equal_cases[i].program), parse(&mem, equal_cases[i].graph));
    arena_close(&mem);
  }
}

static void pair_of_files(const char *program, const char *graph)
{
  struct arena mem = {0};
  struct graph *a, *b;
  struct err e = {0};
  struct certificate c;
  assert_int_equal(front_load(&mem, program, 0, NULL, &a, &e), OK);
  assert_int_equal(front_load(&mem, graph, 0, NULL, &b, &e), OK);
  assert_int_equal(verify_equal(a, b, &(struct verify_opts){.full_size_ops = 1000, .delta = 1e-3, .no_proof = true}, &c, &e), OK);
  if (!c.equal || c.delta > 1.01e-3) fail_msg("%s: %s", graph, c.note);
  assert_true(verify_filter(a, b, 1));
  arena_close(&mem);
}

static void test_examples(void **state)
{
  (void)state;
  pair_of_files("examples/m_gqa.mica", "examples/graphs/gqa_split.mica");
  pair_of_files("examples/m_gqa.mica", "examples/graphs/gqa_stable.mica");
  pair_of_files("examples/m_rms.mica", "examples/graphs/rms_fused.mica");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cases),           cmocka_unit_test(test_equal),     cmocka_unit_test(test_unequal),
      cmocka_unit_test(test_unequal_reduced), cmocka_unit_test(test_place),     cmocka_unit_test(test_extents_of_one),
      cmocka_unit_test(test_zero_division),   cmocka_unit_test(test_signature), cmocka_unit_test(test_undecided),
      cmocka_unit_test(test_never_unequal),   cmocka_unit_test(test_common),    cmocka_unit_test(test_stop),
      cmocka_unit_test(test_lost_element),    cmocka_unit_test(test_parity),    cmocka_unit_test(test_certificate),
      cmocka_unit_test(test_delta),           cmocka_unit_test(test_threads),   cmocka_unit_test(test_not_covered),
      cmocka_unit_test(test_laws_of_maxima),  cmocka_unit_test(test_shrink),    cmocka_unit_test(test_examples),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
