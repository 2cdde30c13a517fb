// Products of f32 as products of bf16 parts: as exact as f32, with the infinities and the NaN that the program has, and chosen where they are faster.
// test: timeout 300
#include "../thin.h"
#include "given.h"
#include "sim/device_proof.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const double EXACT = 5e-7; // a relative norm that f32 has, and two bf16 parts do not

#define GRID "O = block(x=2, y=2; i=4) {\n"
#define X " x = iter(X, imap={x:0}, fmap={i:1})\n"
#define W " w = iter(W, imap={y:1}, fmap={i:0})\n"
#define END ", omap={x:0, y:1})\n }\n return O"
#define OPERANDS "X: f32[128, 256]\n W: f32[256, 128]\n"
static const struct {
  const char *name, *text;
} graphs[] = {
    {"plain", OPERANDS GRID X W " save(accum(matmul(x, w))" END},
    {"bias and relu", OPERANDS "b: f32[128]\n" GRID X W " b = iter(b, imap={y:0})\n save(relu(accum(matmul(x, w)) + b)" END},
    {"residual", OPERANDS "R: f32[128, 128]\n" GRID X W " r = iter(R, imap={x:0, y:1})\n save(accum(matmul(x, w)) * 0.5 + r" END},
    {"a linear layer", "X: f32[128, 256]\n W: f32[128, 256]\n" GRID X " w = iter(W, imap={y:0}, fmap={i:1})\n"
                       " save(accum(matmul(x, transpose(w)))" END},
    {"a transposed left operand",
     "X: f32[256, 128]\n W: f32[256, 128]\n" GRID " x = iter(X, imap={x:1}, fmap={i:0})\n" W " save(accum(matmul(transpose(x), w))" END},
    {"a computed left operand", OPERANDS GRID X W " save(accum(matmul(relu(x), w))" END},
    {"a matrix that is read twice", OPERANDS GRID X W " save(accum(matmul(x, w)) / sqrt(accum_sum(square(x), dim=1))" END},
    {"a view of an operand", "X: f32[2, 64, 256]\n W: f32[256, 128]\n Y = reshape(X, [128, 256])\n" GRID " x = iter(Y, imap={x:0}, fmap={i:1})\n" W
                             " save(accum(matmul(x, w))" END},
    {"no loop", "X: f32[128, 64]\n W: f32[64, 128]\n O = block(x=2, y=2) {\n x = iter(X, imap={x:0})\n w = iter(W, imap={y:1})\n"
                " save(matmul(x, w)" END},
};

static double relative(const struct device_host *h, const struct device_program *d)
{
  struct device_answer a[8];
  double most = -1;
  for (int i = 0, n = device_host_compare(h, d->nlaunch - 1, 8, a); i < n; i++) most = fmax(most, a[i].relative);
  return most;
}

static void run_all(struct arena *mem, const char *name, const struct device_program *d, const struct device_host_opts *o, struct device_host *h)
{
  struct err e = {0};
  must(device_host_open(h, mem, d, o, &e), name, &e);
  for (int i = 0; i < d->nlaunch; i++) {
    struct sim_report r;
    must(device_host_launch(h, i, &r, NULL, &e), name, &e);
    if (r.found) fail_msg("%s, %s (%s): %s", name, d->launch[i].name, d->launch[i].how, r.errors[0].text);
  }
}

// Classes of all elements, where evaluations in float64 and float32 agree on them (rt/special.c).
static void hold_special(struct arena *mem, const char *name, const struct graph *program, const struct device_program *d)
{
  struct err e = {0};
  struct buffers *b;
  for (int round = 0; round < special_rounds(program); round++) {
    struct device_host h;
    struct reference64 r = {0};
    struct special_answer a = {0};
    must(buffers_open(program, 7, &b, &e), name, &e);
    special_inputs(program, b, 7, round);
    run_all(mem, name, d, &(struct device_host_opts){.program = program, .inputs = b}, &h);
    for (int i = 0; i < b->nout; i++) assert_true(device_host_output(&h, i, b->out[i]));
    must(special_reference(program, b, NULL, &r, &e), name, &e);
    must(special_compare(&r, program, b, b->out, NULL, &a, &e), name, &e);
    assert_true(a.held > a.all / 2);
    device_host_close(&h), reference64_close(&r), buffers_close(b);
  }
}

static struct lower_plan plan_of(struct arena *mem, const char *name, const struct graph *g)
{
  static struct target gpu;
  struct err e = {0};
  struct lower_plan p;
  gpu = h200();
  must(lower_plan(mem, g, &gpu, &(struct lower_opts){.dependent = true}, &p, &e), name, &e);
  return p;
}

static void as_exact_as_f32(void **state)
{
  (void)state;
  int wgmma = 0, mma = 0;
  for (size_t i = 0; i < COUNT(graphs); i += (size_t)thinned(3)) {
    struct arena mem = {0};
    const struct graph *g = read(&mem, graphs[i].text);
    const struct lower_plan p = plan_of(&mem, graphs[i].name, g);
    const struct lower_unit *last = &p.unit[p.nunits - 1];
    struct choice *pick = NEWS(&mem, struct choice, p.nunits);
    for (int u = 0; u < p.nunits; u++) pick[u] = p.unit[u].choice[0];
    int of[2] = {0};
    for (int c = 0; c < last->nchoices; c++) {
      const bool by_wgmma = !strcmp(scheme_at(last->choice[c].scheme)->name, "wgmma");
      if (of[by_wgmma]++ >= 4 / thinned(2)) continue; // the first few of each scheme
      struct device_program d;
      struct device_host h;
      struct err e = {0};
      pick[p.nunits - 1] = last->choice[c];
      must(lower_make(&mem, &p, pick, &d, &e), graphs[i].name, &e);
      const char *how = d.launch[d.nlaunch - 1].how;
      const char *text = d.launch[d.nlaunch - 1].text, *loop = strstr(text, "for (it = ");
      if (loop && !strstr(loop, "<- BinaryPointwise<+>")) fail_msg("%s (%s): tensor cores add up iterations", graphs[i].name, how);
      run_all(&mem, graphs[i].name, &d, &(struct device_host_opts){.seed = 5}, &h);
      const double off = relative(&h, &d);
      if (!(off >= 0 && off <= EXACT)) fail_msg("%s (%s): %g off", graphs[i].name, how, off);
      device_host_close(&h);
      if (!c) hold_special(&mem, graphs[i].name, g, &d);
    }
    wgmma += of[true], mma += of[false];
    arena_close(&mem);
  }
  assert_true(wgmma > 0 && mma > 0);
}

static void proven(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(graphs); i += (size_t)thinned(4)) {
    struct arena mem = {0};
    struct err e = {0};
    struct device_proof proof;
    const char *why = "";
    const struct lower_plan p = plan_of(&mem, graphs[i].name, read(&mem, graphs[i].text));
    struct choice *pick = NEWS(&mem, struct choice, p.nunits);
    for (int u = 0; u < p.nunits; u++) pick[u] = p.unit[u].choice[0];
    if (device_prove(&mem, &p, pick, -1, 1, 2, NULL, &proof, &why, &e) != OK) fail_msg("%s: %s%s", graphs[i].name, why, e.text);
    assert_int_equal(proof.run, proof.kernels);
    assert_true(proof.held > 0);
    arena_close(&mem);
  }
}

// A user may forbid parts: products of f32 are then the library's, and no scheme takes them in a block graph.
static void forbidden(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct target gpu = h200();
  struct lower_plan p;
  struct err e = {0};
  gpu.f32_products = F32_IEEE;
  must(lower_plan(&mem, read(&mem, graphs[0].text), &gpu, &(struct lower_opts){.dependent = true}, &p, &e), graphs[0].name, &e);
  assert_int_equal(p.nunits, 1);
  assert_int_equal(p.unit[0].nchoices, 0);
  must(lower_plan(&mem, read(&mem, OPERANDS "return matmul(X, W)"), &gpu, &(struct lower_opts){.dependent = true}, &p, &e), "library", &e);
  assert_true(p.nunits == 1 && p.unit[0].product && p.unit[0].nchoices == 1);
  arena_close(&mem);
}

static double cost(struct arena *mem, const char *text)
{
  const struct lower_plan p = plan_of(mem, text, read(mem, text));
  double sum = 0;
  for (int u = 0; u < p.nunits; u++) sum += p.unit[u].nchoices ? p.unit[u].choice[0].cost : INFINITY;
  return sum;
}

// Large products are faster by parts than by the library, small ones are not. Products of 16 bits are not divided.
static void priced(void **state)
{
  (void)state;
  struct arena mem = {0};
  const char *sizes[][2] = {{"1024, 8192", "8192, 8192"}, {"64, 256", "256, 256"}};
  double by[2][2];
  for (int i = 0; i < 2; i++) {
    const char *in = arena_printf(&mem, "X: f32[%s]\n W: f32[%s]\n", sizes[i][0], sizes[i][1]);
    by[i][0] = cost(&mem, arena_printf(&mem, "%s return matmul(X, W)", in));
    by[i][1] = cost(
        &mem, arena_printf(&mem, "%s O = block(x=%d, y=%d; i=%d) {\n" X W " save(accum(matmul(x, w))" END, in, i ? 1 : 8, i ? 2 : 64, i ? 4 : 128));
  }
  assert_true(by[0][1] < 0.8 * by[0][0]);
  assert_true(by[1][1] > by[1][0]);
  struct graph *out;
  struct err e = {0};
  assert_int_equal(legal_parts(&mem, read(&mem, "X: f16[128, 256]\n W: f16[256, 128]\n" GRID X W " save(accum(matmul(x, w))" END), &out, &e), NO);
  arena_close(&mem);
}

// Parts that a program names lie in memory as f32 where the library, an update or a user takes them.
static void named_by_programs(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int products;
  } rows[] = {
      {OPERANDS "return matmul(bf16_high(X), W)", 1},
      {OPERANDS "return matmul(bf16_low(X), bf16_high(W))", 1},
      {OPERANDS "return bf16_middle(X)", 0},
      {"X: f32[8, 64]\n Y: f32[2, 64]\n at: i32[2] < 8, distinct\n return update(bf16_high(X), at, Y, dim=0)", 0},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct device_program d;
    const struct lower_plan p = plan_of(&mem, rows[i].text, read(&mem, rows[i].text));
    struct choice *pick = NEWS(&mem, struct choice, p.nunits);
    for (int u = 0; u < p.nunits; u++) pick[u] = p.unit[u].choice[0];
    must(lower_make(&mem, &p, pick, &d, &e), rows[i].text, &e);
    run_launches(&mem, rows[i].text, &d, rows[i].products);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(as_exact_as_f32), cmocka_unit_test(proven), cmocka_unit_test(priced),
                                     cmocka_unit_test(forbidden), cmocka_unit_test(named_by_programs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
