// Products with what follows them as one launch of the library: which kernels it takes in, with which operands and strides, and
// that the result is what the graph says in float64. The products are done by this machine, as their strides and their row of
// epilogue.def say.
#include "given.h"
#include "sim/device_proof.h"
#include "gpu/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// clang-format off: the texts are laid out as graphs
#define AB "A: f16[16, 32]\n B: f16[32, 24]\n "
#define BATCHED "A: f16[3, 16, 32]\n B: f16[3, 32, 24]\n "
#define P "P = matmul(A, B)\n "
#define FOLLOWED(axes, iters, value, omap) "O = block(" axes ") {\n " iters "\n save(" value ", omap=" omap ")\n }\n return O"
#define HALVES(iters, value) FOLLOWED("x=4, y=2", "p = iter(P, imap={x:0, y:1})\n " iters, value, "{x:0, y:1}")
static const struct {
  const char *name, *text;
  const char *text_of; // of the epilogue; NULL: why there is none
  const char *why;
} cases[] = {
    {"relu", AB P HALVES("", "relu(p)"), ", relu of A B", NULL},
    {"bias", AB "c: f16[24]\n " P HALVES("c = iter(c, imap={y:0})", "p + c"), ", bias of A B + bias", NULL},
    {"bias, relu", AB "c: f16[24]\n " P HALVES("c = iter(c, imap={y:0})", "relu(c + p)"), ", relu_bias of A B + bias", NULL},
    {"scale", AB P HALVES("", "p * 0.125"), ", sum of 0.125 times A B", NULL},
    {"negated", AB P HALVES("", "relu(-p)"), ", relu of -1 times A B", NULL},
    {"a matrix", AB "C: f16[16, 24]\n " P HALVES("c = iter(C, imap={x:0, y:1})", "p + c"), ", sum of A B + C", NULL},
    {"less a matrix", AB "C: f16[16, 24]\n " P HALVES("c = iter(C, imap={x:0, y:1})", "p - c * 2"), ", sum of A B + -2 C", NULL},
    {"a matrix less this", AB "C: f16[16, 24]\n " P HALVES("c = iter(C, imap={x:0, y:1})", "relu(c - p)"), ", relu of -1 times A B + C", NULL},
    {"all of it", AB "C: f16[16, 24]\n v: f16[24]\n " P HALVES("c = iter(C, imap={x:0, y:1})\n v = iter(v, imap={y:0})", "relu((p + c) * 0.5 + v)"),
     ", relu_bias of 0.5 times A B + 0.5 C + bias", NULL},
    {"all rows in each block", AB "v: f16[24]\n " P FOLLOWED("x=3", "p = iter(P, imap={x:1})\n v = iter(v, imap={x:0})", "p + v", "{x:1}"),
     ", bias of A B + bias", NULL},
    {"the program's own operator", AB "return relu(matmul(A, B))", ", relu of A B", NULL},
    {"of fp32", "A: f32[16, 32]\n B: f32[32, 24]\n v: f32[24]\n return matmul(A, B) + v", ", bias of A B + bias", NULL},
    {"a vector and a result in fp32", AB "v: f32[24]\n " P HALVES("v = iter(v, imap={y:0})", "p + v"), ", bias of A B + bias", NULL},
    {"of bf16", "A: bf16[16, 32]\n B: bf16[32, 24]\n return relu(matmul(A, B))", ", relu of A B", NULL},
    {"of a transpose", "A: f16[16, 32]\n W: f16[24, 32]\n return relu(matmul(A, transpose(W)))", ", relu of A B", NULL},
    {"a product that is transposed", AB P "T = transpose(P)\n" FOLLOWED("x=4", "p = iter(T, imap={x:0})", "relu(p)", "{x:0}"), ", relu of A B", NULL},
    {"transposed, a vector along the columns of what is left",
     AB "v: f16[16]\n " P "T = transpose(P)\n" FOLLOWED("x=4", "p = iter(T, imap={x:0})\n v = iter(v)", "relu(p + v)", "{x:0}"),
     ", relu_bias of A B + bias", NULL},
    {"rows of heads", AB P "T = reshape(P, [4, 4, 24])\n" FOLLOWED("x=2", "p = iter(T, imap={x:0})", "relu(p)", "{x:0}"), ", relu of A B", NULL},
    {"batches", BATCHED P FOLLOWED("x=3", "p = iter(P, imap={x:0})", "relu(p)", "{x:0}"), ", relu of A B", NULL},
    {"batches, one vector", BATCHED "v: f16[24]\n " P FOLLOWED("x=3", "p = iter(P, imap={x:0})\n v = iter(v)", "p + v", "{x:0}"),
     ", bias of A B + bias", NULL},
    {"batches, a vector each", BATCHED "v: f16[3, 1, 24]\n " P FOLLOWED("x=3", "p = iter(P, imap={x:0})\n v = iter(v, imap={x:0})", "p + v", "{x:0}"),
     ", bias of A B + bias", NULL},
    {"batches, one matrix", BATCHED "C: f16[16, 24]\n " P FOLLOWED("x=3", "p = iter(P, imap={x:0})\n c = iter(C)", "p + c", "{x:0}"),
     ", sum of A B + C", NULL},
    {"batches that are rows", "A: f16[4, 1, 16]\n B: f16[16, 8]\n v: f16[8]\n return matmul(A, B) + v", ", bias of A B + bias", NULL},
    {"one row", "A: f16[1, 32]\n B: f16[32, 24]\n v: f16[24]\n return matmul(A, B) + v", ", sum of A B + C", NULL},
    {"one column", "A: f16[16, 32]\n B: f16[32, 1]\n C: f16[16, 1]\n return matmul(A, B) + C", ", sum of A B + C", NULL},

    {"a vector along the rows", AB "v: f16[16, 1]\n " P HALVES("v = iter(v, imap={x:0})", "p + v"), NULL, "lies otherwise"},
    {"a vector times a number", AB "v: f16[24]\n " P HALVES("v = iter(v, imap={y:0})", "(p + v) * 0.5"), NULL, "times a number"},
    {"two vectors", AB "v: f16[24]\n w: f16[24]\n " P HALVES("v = iter(v, imap={y:0})\n w = iter(w, imap={y:0})", "p + v + w"), NULL, "two vectors"},
    {"two matrices", AB "C: f16[16, 24]\n D: f16[16, 24]\n " P HALVES("c = iter(C, imap={x:0, y:1})\n d = iter(D, imap={x:0, y:1})", "p + c + d"),
     NULL, "two matrices"},
    {"three terms", AB "v: f16[24]\n w: f16[24]\n " P HALVES("v = iter(v, imap={y:0})\n w = iter(w, imap={y:0})", "p + v + w + v"), NULL, "no sum"},
    {"a product of both", AB "C: f16[16, 24]\n " P HALVES("c = iter(C, imap={x:0, y:1})", "p * c"), NULL, "no sum"},
    {"a constant more", AB P HALVES("", "p + 1"), NULL, "no sum"},
    {"exp", AB P HALVES("", "exp(p)"), NULL, "no sum"},
    {"gelu, which is not the library's", AB P HALVES("", "gelu(p)"), NULL, "no sum"},
    {"relu inside", AB "C: f16[16, 24]\n " P HALVES("c = iter(C, imap={x:0, y:1})", "relu(p) + c"), NULL, "no sum"},
    {"twice the product", AB P HALVES("q = iter(P, imap={x:0, y:1})", "p + q"), NULL, "no sum"},
    {"relu of its sums", AB P FOLLOWED("x=4", "p = iter(P, imap={x:0})", "relu(sum(p, dim=1))", "{x:0}"), NULL, "no sum"},
    {"two results", AB P "O, Q = block(x=4) {\n p = iter(P, imap={x:0})\n save(relu(p), omap={x:0})\n save(-p, omap={x:0})\n }\n return O, Q", NULL,
     "more than one"},
    {"a matrix that is kept in another type",
     AB "X: f16[16, 24]\n X2 = block(x=4) {\n x = iter(X, imap={x:0})\n save(exp(x), omap={x:0})\n }\n" P HALVES("c = iter(X2, imap={x:0, y:1})",
                                                                                                                 "p + c"),
     NULL, "another type"},
    {"spread over more", AB "C: f16[2, 16, 24]\n " P FOLLOWED("x=4", "p = iter(P, imap={x:0})\n c = iter(C, imap={x:1})", "p + c", "{x:1}"), NULL,
     "no strides"},
};
// clang-format on

static void planned(struct arena *mem, size_t i, bool tails, struct gpu_limits *gpu, struct lower_plan *p)
{
  struct err e = {0};
  *gpu = h200();
  must(lower_plan(mem, read(mem, cases[i].text), gpu, &(struct lower_opts){.tails = tails, .dependent = true}, p, &e), cases[i].name, &e);
}

// The first product.
static const struct lower_unit *multiplies(const struct lower_plan *p)
{
  int i = 0;
  while (!p->unit[i].product) i++;
  return &p->unit[i];
}

// The choice with an epilogue; NULL: there is none.
static const struct choice *ended(const struct lower_plan *p)
{
  const struct lower_unit *u = multiplies(p);
  for (int i = 0; i < u->nchoices; i++)
    if (u->choice[i].tail) return &u->choice[i];
  return NULL;
}

static void what_the_library_takes_in(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct arena mem = {0};
    struct lower_plan p;
    struct gpu_limits gpu;
    struct str text = {0};
    planned(&mem, i, true, &gpu, &p);
    const struct choice *c = ended(&p);
    const struct lower_unit *u = multiplies(&p);
    if (!c != !cases[i].text_of) fail_msg("%s: %s", cases[i].name, c ? "has an epilogue" : u->why);
    if (c) product_text(&u->ends.p, &text);
    if (c && strcmp(str_text(&text), cases[i].text_of) != 0) fail_msg("%s: %s", cases[i].name, str_text(&text));
    if (!c && !strstr(u->why, cases[i].why)) fail_msg("%s: %s", cases[i].name, u->why);
    assert_int_equal(u->nchoices, c ? 2 : 1);
    str_free(&text);
    planned(&mem, i, false, &gpu, &p);
    assert_null(ended(&p));
    arena_close(&mem);
  }
}

// ---- running ----

static void run(struct arena *mem, const char *name, const struct device_program *d)
{
  struct err e = {0};
  struct device_host h;
  int outs = 0;
  must(device_host_open(&h, mem, d, &(struct device_host_opts){.seed = 5}, &e), name, &e);
  for (int i = 0; i < d->nlaunch; i++) {
    struct sim_report r;
    struct device_answer a[4];
    must(device_host_launch(&h, i, &r, NULL, &e), name, &e);
    if (r.found) fail_msg("%s, %s: %s", name, d->launch[i].name, r.errors[0].text);
    int n = device_host_compare(&h, i, 4, a);
    for (int k = 0; k < n; k++) {
      if (!a[k].fine)
        fail_msg("%s (%s): %g off, element %lld is %g, not %g", name, d->launch[i].how, a[k].relative, (long long)a[k].worst, a[k].got, a[k].want);
      outs += a[k].output >= 0;
    }
  }
  assert_int_equal(outs, 1);
  device_host_close(&h);
}

static void both_ways_compute_the_graph(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct lower_plan p;
    struct gpu_limits gpu;
    struct device_program d;
    planned(&mem, i, true, &gpu, &p);
    if (!ended(&p)) {
      arena_close(&mem);
      continue;
    }
    assert_true(p.nunits == 2 && p.unit[0].product);
    for (int k = 0; k < p.unit[0].nchoices; k++) {
      struct choice pick[2] = {p.unit[0].choice[k], p.unit[1].choice[0]}, again;
      must(lower_make(&mem, &p, pick, &d, &e), cases[i].name, &e);
      assert_int_equal(d.nlaunch, pick[0].tail ? 1 : 2);
      assert_true((d.launch[0].last > d.launch[0].first) == pick[0].tail);
      assert_true(scheme_parse(d.launch[0].how, &again));
      assert_true(again.scheme == SCHEME_LIBRARY && again.tail == pick[0].tail && again.k.v[0] == pick[0].k.v[0]);
      run(&mem, cases[i].name, &d);
    }
    arena_close(&mem);
  }
}

static void ways_are_different_programs(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct gpu_limits gpu = h200();
  static const char *const texts[] = {"p + c", "relu(p + c)", "p - c", "p * 2 + c", "p + c * 2", "c - p"};
  uint64_t seen[COUNT(texts)];
  for (size_t i = 0; i < COUNT(texts); i++) {
    struct device_program d;
    const char *text = arena_printf(
        &mem, AB "C: f16[16, 24]\n " P "O = block(x=4) {\n p = iter(P, imap={x:0})\n c = iter(C, imap={x:0})\n save(%s, omap={x:0})\n }\n return O",
        texts[i]);
    must(lower_program(&mem, read(&mem, text), &gpu, &(struct lower_opts){.tails = true}, &d, &e), texts[i], &e);
    assert_int_equal(d.nlaunch, 1);
    seen[i] = program_hash(&d, 1);
    for (size_t k = 0; k < i; k++) assert_true(seen[k] != seen[i]);
  }
  arena_close(&mem);
}

static void not_where_others_read(void **state)
{
  (void)state;
  static const char *const texts[] = {
      AB P "O = block(x=4) {\n p = iter(P, imap={x:0})\n save(relu(p), omap={x:0})\n }\n return O, P",
      AB P "O = block(x=4) {\n p = iter(P, imap={x:0})\n save(relu(p), omap={x:0})\n }\n"
           "Q = block(x=4) {\n p = iter(P, imap={x:0})\n save(-p, omap={x:0})\n }\n return O, Q",
      AB P "D = matmul(A, B)\n O = block(x=4) {\n p = iter(P, imap={x:0})\n d = iter(D, imap={x:0})\n save(p - d, omap={x:0})\n }\n return O",
  };
  for (size_t i = 0; i < COUNT(texts); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct lower_plan p;
    struct gpu_limits gpu = h200();
    must(lower_plan(&mem, read(&mem, texts[i]), &gpu, &(struct lower_opts){.tails = true}, &p, &e), texts[i], &e);
    assert_null(ended(&p));
    arena_close(&mem);
  }
}

static void text_is_read_back(void **state)
{
  (void)state;
  struct choice c;
  for (int i = 0; i < EPILOGUES; i++) {
    char text[64];
    snprintf(text, sizeof text, "cublaslt epilogue=%s algorithm 3", blas_epilogue_name((enum epilogue)i));
    assert_true(scheme_parse(text, &c) && c.scheme == SCHEME_LIBRARY && c.tail && c.k.v[0] == i + 1);
  }
  assert_true(scheme_parse("cublaslt", &c) && c.scheme == SCHEME_LIBRARY && !c.tail);
  assert_true(scheme_parse("cublaslt algorithm 3", &c) && !c.tail);
  assert_false(scheme_parse("cublaslt epilogue=gelu", &c));
  assert_false(scheme_parse("cublaslt epilogue=", &c));
  assert_false(scheme_parse("cublaslt tail", &c));
  assert_false(scheme_parse("cublas", &c));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_the_library_takes_in), cmocka_unit_test(both_ways_compute_the_graph), cmocka_unit_test(ways_are_different_programs),
      cmocka_unit_test(not_where_others_read),     cmocka_unit_test(text_is_read_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
