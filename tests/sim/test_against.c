// Tensor programs as references of tile kernels: which tensor corresponds to which buffer, and detection of wrong kernels.
#include "sim/against.h"
#include "drive/drive.h"
#include "sim/tile_host.h"
#include "sim/number.h"
#include "front/front.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// y = relu(x W + b) for one layer, W column by column; the kernel's text only declares buffers and copies, because what
// is tested is the comparison with numbers given here.
static const char kernel[] = "order row\nkernel net { param M\n %X:[M, 4].fp16.GL\n %W:[2, 4, 4 : 16, 1, 4].fp16.GL\n %bias:[2, 4].fp16.GL\n "
                             "%unused:[3].fp16.GL\n"
                             " %Y:[M, 4].fp16.GL\n #g:[M].block\n #t:[32].thread\n"
                             " %Y <- Spec<<<#g, #t>>>(%X, %W, %bias, %unused) {\n  @b = #g.indices()\n  @i = #t.indices()\n  #me = #t.scalar()\n"
                             "  %r:[].fp16.RF\n  %r <- Move<<<#g, #me>>>(%X[0, 0])\n  %r <- Move<<<#g, #me>>>(%W[0, 0, 0])\n  %r <- Move<<<#g, "
                             "#me>>>(%bias[0, 0])\n"
                             "  if (0 > 1) {\n   %r <- Move<<<#g, #me>>>(%unused[0])\n  }\n"
                             "  if (@i < 4) {\n   %Y[@b, @i] <- Move<<<#g, #me>>>(%r)\n  }\n }\n}\n";
static const char two_layers[] = "program net(m = 3) { X: f16[m, 4]\n W1: f16[4, 4]; b1: f16[4]\n W2: f16[4, 4]; b2: f16[4]\n"
                                 "h = relu(matmul(X, W1) + b1)\n return relu(matmul(h, W2) + b2) }";
enum { M = 3, D = 4, X = 0, W = 1, BIAS = 2, Y = 4 };

struct fixture {
  struct arena mem;
  struct err e;
  struct tile_program *p;
  struct tile_host h;
  struct against a;
};

static void start(struct fixture *f)
{
  memset(f, 0, sizeof *f);
  struct tile_setting set[] = {{"M", M, false}};
  struct tile_fill small = {.buffer = "W", .scale = 0.5};
  if (tile_parse_set(&f->mem, "net", kernel, 1, set, &f->p, &f->e)) fail_msg("%d: %s", f->e.at.line, f->e.text);
  assert_int_equal(tile_host_open(&f->h, &f->mem, f->p, f->p->kernels[0], 1, set, &f->e), OK);
  assert_int_equal(tile_host_fill(&f->h, 7, 1, &small, &f->e), OK);
}

static int open_program(struct fixture *f, const char *text)
{
  struct graph *g;
  assert_int_equal(load_text(&f->mem, text, "net", 0, NULL, &g, &f->e), OK);
  return against_open(&f->a, &f->mem, g, f->p, f->h.k, f->h.params, f->h.data, &f->e);
}

static void end(struct fixture *f)
{
  against_close(&f->a);
  arena_close(&f->mem);
}

static double get(const struct fixture *f, int buffer, int at) { return num_one(TT_F16, (const char *)f->h.data[buffer] + 2 * at); }

// The same in a few loops, rounded to fp16.
static void layers(struct fixture *f)
{
  for (int m = 0; m < M; m++) {
    double h[D], y[D];
    for (int d = 0; d < D; d++) h[d] = get(f, X, m * D + d);
    for (int l = 0; l < 2; l++) {
      for (int n = 0; n < D; n++) {
        y[n] = get(f, BIAS, l * D + n);
        for (int k = 0; k < D; k++) y[n] += h[k] * get(f, W, l * D * D + k + n * D);
        y[n] = fmax(y[n], 0);
      }
      memcpy(h, y, sizeof h);
    }
    for (int d = 0; d < D; d++) num_set(TT_F16, h[d], (char *)f->h.data[Y] + 2 * (m * D + d));
  }
}

static void results(void **state)
{
  (void)state;
  struct fixture f;
  struct against_answer r;
  start(&f);
  assert_int_equal(open_program(&f, two_layers), OK);
  assert_int_equal(f.a.noutputs, 1);
  assert_int_equal(f.a.output[0], Y);
  layers(&f);
  against_compare(&f.a, 0, f.h.data[Y], &r);
  assert_true(r.fine && !r.flat && r.relative < 0x1p-11 && r.elements == M * D && r.zeros < M * D);
  for (int at = 0; at < M * D; at++) { // any one element that is off, or not there
    uint16_t *y = (uint16_t *)f.h.data[Y] + at, was = *y;
    num_write(F16, y, 0, num_read(F16, &was, 0) + r.typical / 4);
    struct against_answer bad;
    against_compare(&f.a, 0, f.h.data[Y], &bad);
    assert_true(!bad.fine && bad.wrong == 1 && bad.worst == at);
    *y = 0x7e00; // not a number
    against_compare(&f.a, 0, f.h.data[Y], &bad);
    assert_true(!bad.fine && bad.wrong == 1 && bad.worst == at);
    *y = was;
  }
  end(&f);
}

// One element of very many is lost in the norm, and seen nevertheless.
static void one_of_many(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct tile_program *p;
  struct tile_host h;
  struct graph *g;
  struct against a;
  struct against_answer r;
  const char text[] = "order row\nkernel k { param N\n %x:[N].fp16.GL\n %y:[N].fp16.GL\n #g:[N].block\n #t:[32].thread\n"
                      "%y <- Spec<<<#g, #t>>>(%x) {\n @b = #g.indices()\n #me = #t.scalar()\n %r:[].fp16.RF\n"
                      "%r <- Move<<<#g, #me>>>(%x[@b])\n %y[@b] <- Move<<<#g, #me>>>(%r)\n }\n}\n";
  struct tile_setting set[] = {{"N", 1000000, false}};
  if (tile_parse_set(&mem, "k", text, 1, set, &p, &e)) fail_msg("%d: %s", e.at.line, e.text);
  assert_int_equal(tile_host_open(&h, &mem, p, p->kernels[0], 1, set, &e), OK);
  assert_int_equal(tile_host_fill(&h, 1, 0, NULL, &e), OK);
  assert_int_equal(load_text(&mem, "program k() { x: f16[1000000]\n return relu(x) + x * 2 }", "k", 0, NULL, &g, &e), OK);
  assert_int_equal(against_open(&a, &mem, g, p, p->kernels[0], h.params, h.data, &e), OK);
  uint16_t *y = h.data[1];
  for (int i = 0; i < 1000000; i++) {
    double x = num_read(F16, h.data[0], i);
    num_write(F16, y, i, fmax(x, 0) + 2 * x);
  }
  against_compare(&a, 0, y, &r);
  assert_true(r.fine);
  num_write(F16, y, 999999, num_read(F16, y, 999999) + 1);
  against_compare(&a, 0, y, &r);
  assert_true(r.relative <= r.bound && r.wrong == 1 && r.worst == 999999 && !r.fine);
  against_close(&a);
  arena_close(&mem);
}

// A result in fp16 that underflow takes away is right, and twice the result is wrong. The buffers may have changed since.
static void underflow_is_allowed(void **state)
{
  (void)state;
  static const struct {
    const char *program;
    double factor;
    bool fine;
  } rows[] = {{"X * 1e-7", 1e-7, true}, {"X * 1e-7", 2e-7, false}, {"X * 1e-9", 0, true}, {"X * 1e-9", 1e-6, false}, {"X * 1e-2", 0, false}};
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct fixture f;
    struct against_answer r;
    start(&f);
    assert_int_equal(open_program(&f, arena_printf(&f.mem, "program p() { X: f16[3, 4]\n W: f16[4, 8]; bias: f16[8]\n return %s }", rows[i].program)),
                     OK);
    for (int k = 0; k < M * D; k++) num_set(TT_F16, rows[i].factor * get(&f, X, k), (char *)f.h.data[Y] + 2 * k);
    memset(f.h.data[X], 0, f.h.bytes[X]);
    against_compare(&f.a, 0, f.h.data[Y], &r);
    if (r.fine != rows[i].fine) fail_msg("%s as %g X: relative %g", rows[i].program, rows[i].factor, r.relative);
    end(&f);
  }
}

static void refused(void **state)
{
  (void)state;
  static const struct {
    const char *program, *says;
  } rows[] = {
      {"program p() { X: f16[3, 4]\n return X }", "net reads 3 buffers (%X, %W, %bias), and p has 1 inputs"},
      {"program p() { X: f16[3, 4]\n W: f16[4, 8]; bias: f16[4]\n return X }", "%bias of net has 8 elements ([2, 4]), and input bias of p has 4"},
      {"program p() { X: f16[4, 4]\n W: f16[4, 8]; bias: f16[8]\n return X }", "%X of net has 12 elements ([3, 4]), and input X of p has 16"},
      {"program p() { X: f16[3, 4]\n W: f16[4, 8]; bias: f16[8]\n return sum(X, dim=1) }", "%Y of net has 12 elements ([3, 4]), and output"},
      {"program p() { X: f16[3, 4]\n W: f16[4, 8]; bias: f16[8]\n return X, X }", "net writes 1 buffers (%Y), and p has 2 outputs"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct fixture f;
    struct err e = {0};
    struct graph *g;
    start(&f);
    if (load_text(&f.mem, rows[i].program, "p", 0, NULL, &g, &e)) fail_msg("%s: %s", rows[i].program, e.text);
    assert_int_equal(against_open(&f.a, &f.mem, g, f.p, f.h.k, f.h.params, f.h.data, &e), USER);
    assert_int_equal(e.id, ERR_MISMATCH);
    if (!strstr(e.text, rows[i].says)) fail_msg("%s\nwants: %s", e.text, rows[i].says);
    end(&f);
  }
}

// Names decide where all agree, however the program declares them.
static void names(void **state)
{
  (void)state;
  struct fixture f;
  struct against_answer r;
  start(&f);
  assert_int_equal(open_program(&f, "program p() { bias: f16[8]\n W: f16[4, 8]; X: f16[3, 4]\n return X * 2 }"), OK);
  for (int i = 0; i < M * D; i++) num_set(TT_F16, 2 * get(&f, X, i), (char *)f.h.data[Y] + 2 * i);
  against_compare(&f.a, 0, f.h.data[Y], &r);
  assert_true(r.fine && r.relative == 0);
  end(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(results), cmocka_unit_test(one_of_many), cmocka_unit_test(underflow_is_allowed),
      cmocka_unit_test(refused), cmocka_unit_test(names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
