/* Tests of src/target/mica_cpu.h, the support header of generated C kernels, against double
 * precision libm and plain loops. Passes for every vector width the header knows: compile with
 * -march=native, with -mavx2 -mfma, and with no -m flag. Compile with -ffp-contract=fast. */
#include "target/mica_cpu.h"
#include "gen/mica_cpu_more.h"
#include "target/mica_cpu_tiles.h"

#include "gen/mica_cpu_pairs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- helpers ---- */

static uint64_t rng_state = 88172645463325252u;

static uint32_t rng(void)
{
  rng_state ^= rng_state << 13;
  rng_state ^= rng_state >> 7;
  rng_state ^= rng_state << 17;
  return (uint32_t)(rng_state >> 32);
}

static float uniform(float lo, float hi) { return lo + (hi - lo) * (float)(rng() >> 8) * 0x1p-24f; }

static float from_bits(uint32_t bits)
{
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

static uint32_t to_bits(float f)
{
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return bits;
}

static float *random_tile(ptrdiff_t n)
{
  float *p = malloc((size_t)n * sizeof *p);
  assert_non_null(p);
  for (ptrdiff_t i = 0; i < n; i++) p[i] = uniform(-1, 1);
  return p;
}

/* ---- elementwise functions ---- */

typedef m_vec vec_fn(m_vec);

// clang-format off
#define WRAP(name) \
  static m_vec v_##name(m_vec x) { return m_##name(x); }
WRAP(exp) WRAP(log) WRAP(tanh) WRAP(sigmoid) WRAP(silu) WRAP(erf) WRAP(gelu) WRAP(sqrt) WRAP(rsqrt) WRAP(abs) WRAP(sin) WRAP(cos) WRAP(log1p)
    // clang-format on

    static double d_sigmoid(double x)
{
  return 1 / (1 + exp(-x));
}
static double d_silu(double x) { return x / (1 + exp(-x)); }
static double d_gelu(double x) { return x * 0.5 * erfc(-x / sqrt(2)); }
static double d_rsqrt(double x) { return 1 / sqrt(x); }

/* error allowed: ulp units in the last place of the result, plus abs, plus the least normal number
 * since denormal results may be flushed; exp flushes below 2^-125.5 */
static const struct {
  const char *name;
  vec_fn *fn;
  double (*ref)(double);
  double ulp, abs;
  float lo, hi;
} functions[] = {
    {"exp", v_exp, exp, 1.5, 0x1p-127, -110, 95},
    {"exp near 0", v_exp, exp, 1.5, 0x1p-127, -1, 1},
    {"log near 1", v_log, log, 1.5, 0, 0.5f, 2},
    {"log", v_log, log, 1.5, 0, 0, 3e38f},
    {"tanh", v_tanh, tanh, 2.5, 0, -12, 12},
    {"tanh near 0", v_tanh, tanh, 2.5, 0, -0.7f, 0.7f},
    {"sigmoid", v_sigmoid, d_sigmoid, 3, 0, -100, 100},
    {"silu", v_silu, d_silu, 3, 3e-37, -100, 100},
    {"erf", v_erf, erf, 0, 6e-7, -6, 6},
    {"erf near 0", v_erf, erf, 4, 0, -0.99f, 0.99f},
    {"sin", v_sin, sin, 2.5, 0, -3, 3},
    {"sin afar", v_sin, sin, 2, 3e-7, -9000, 9000},
    {"cos", v_cos, cos, 2, 3e-7, -9000, 9000},
    {"log1p", v_log1p, log1p, 3, 0, -0.9999f, 3e38f},
    {"log1p near 0", v_log1p, log1p, 3, 0, -0.3f, 0.3f},
    {"gelu", v_gelu, d_gelu, 2, 6e-7, -15, 15},
    {"sqrt", v_sqrt, sqrt, 0.51, 0, 0, 3e38f},
    {"rsqrt", v_rsqrt, d_rsqrt, 2, 0, 1e-38f, 10},
    {"abs", v_abs, fabs, 0, 0, -10, 10},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static double ulp_of(double y)
{
  int e;
  frexp(y, &e);
  return ldexp(1, e - 24 < -149 ? -149 : e - 24);
}

static void check_value(int f, float x, float got)
{
  double want = functions[f].ref(x);
  float rounded = (float)want;
  double allowed = functions[f].ulp * ulp_of(want) + functions[f].abs + 1.2e-38;
  if (isnan(want) ? isnan(got) : got == rounded) return;
  if (isfinite(got) && fabs(got - want) <= allowed) return;
  if (isinf(rounded) && fabs(want) < 3.5e38 && got > 3.4e38f) return;
  fail_msg("%s(%a) = %a, expected %a", functions[f].name, x, got, rounded);
}

static void check_values(int f, const float *x, int n)
{
  float y[M_W];
  for (int i = 0; i < n; i += M_W) {
    int lanes = n - i < M_W ? n - i : M_W;
    m_storen(y, lanes, functions[f].fn(m_loadn(x + i, lanes)));
    for (int l = 0; l < lanes; l++) check_value(f, x[i + l], y[l]);
  }
}

static void test_functions_range(void **state)
{
  (void)state;
  enum { N = 100000 };
  float *x = malloc(N * sizeof *x);
  assert_non_null(x);
  for (int f = 0; f < FUNCTIONS; f++) {
    for (int i = 0; i < N; i++) x[i] = uniform(functions[f].lo, functions[f].hi);
    check_values(f, x, N);
    for (int i = 0; i < N; i++) /* every sign, exponent, NaN and denormal */
      x[i] = from_bits(rng());
    check_values(f, x, N);
  }
  free(x);
}

static m_vec v_sin_of(m_vec x, m_vec y) { return m_sin(x * y); }
static m_vec v_cos_of(m_vec x, m_vec y) { return m_cos(x * y); }

/* An argument is reduced exactly at every magnitude, and a product is rounded before it is reduced. */
static void test_waves_of_growing_magnitude(void **state)
{
  (void)state;
  for (float most = 1; most < 1e30f; most *= 8)
    for (int i = 0; i < 4000; i++) {
      float x[M_W], y[M_W], s[2][M_W], c[2][M_W];
      for (int l = 0; l < M_W; l++) x[l] = uniform(-most, most) / 3, y[l] = uniform(1, 3);
      m_store(s[0], v_sin_of(m_load(x), m_load(y))), m_store(c[0], v_cos_of(m_load(x), m_load(y)));
      for (int l = 0; l < M_W; l++) x[l] *= y[l];
      m_store(s[1], m_sin(m_load(x))), m_store(c[1], m_cos(m_load(x)));
      for (int l = 0; l < M_W; l++)
        for (int k = 0; k < 2; k++) {
          if (!(fabs(s[k][l] - sin((double)x[l])) <= 3e-7))
            fail_msg("sin(%a) = %g, most %g, expected %g, from %d", x[l], s[k][l], most, sin((double)x[l]), k);
          if (!(fabs(c[k][l] - cos((double)x[l])) <= 3e-7))
            fail_msg("cos(%a) = %g, most %g, expected %g, from %d", x[l], c[k][l], most, cos((double)x[l]), k);
        }
    }
}

static void test_functions_edges(void **state)
{
  (void)state;
  static const float x[] = {
      0.0f,   -0.0f,   1.0f,    -1.0f,   1e-45f,   -1e-45f, 1e-40f,  -1e-40f, 1.17549435e-38f, 88.72f, 88.7228f, 88.73f, 89.0f, -87.33f, -87.34f,
      -88.0f, -103.9f, -104.0f, 3.4e38f, -3.4e38f, 0.625f,  -0.625f, 1e10f,   -1e10f,          0.5f,   2.0f,     1e-10f, NAN,   -NAN,    INFINITY,
  };
  for (int f = 0; f < FUNCTIONS; f++) check_values(f, x, sizeof x / sizeof *x);
  /* -inf apart: silu and gelu make NaN of it, as x/(1+inf) and -inf*0 do */
  float inf = -INFINITY, y;
  m_storen(&y, 1, m_exp(m_loadn(&inf, 1)));
  assert_true(y == 0 && !signbit(y));
  m_storen(&y, 1, m_tanh(m_loadn(&inf, 1)));
  assert_true(y == -1);
  m_storen(&y, 1, m_sigmoid(m_loadn(&inf, 1)));
  assert_true(y == 0);
  m_storen(&y, 1, m_erf(m_loadn(&inf, 1)));
  assert_true(y == -1);
  m_storen(&y, 1, m_log(m_loadn(&inf, 1)));
  assert_true(isnan(y));
}

static void test_pow(void **state)
{
  (void)state;
  static const float v[] = {0.0f, -0.0f, 1, -1, 2, -2, 3, -3, 0.5f, INFINITY, -INFINITY, NAN, 1e30f};
  for (size_t i = 0; i < sizeof v / sizeof *v; i++)
    for (size_t j = 0; j < sizeof v / sizeof *v; j++) {
      float want = (float)pow(v[i], v[j]), got = m_hmax(m_pow(m_splat(v[i]), m_splat(v[j])));
      if (!isnan(want)) assert_float_equal(got, want, fabsf(want) * 2e-7f);
    }
}

static void test_min_max_nan(void **state)
{
  (void)state;
  assert_true(m_hmax(m_min(m_splat(1), m_splat(2))) == 1);
  assert_true(m_hmax(m_max(m_splat(1), m_splat(2))) == 2);
  assert_true(isnan(m_min_c(m_splat(1), m_splat(NAN))[0]));
  assert_true(isnan(m_max_c(m_splat(1), m_splat(NAN))[0]));
  static const float v[] = {NAN, -INFINITY, -1, 0, 2, INFINITY};
  for (size_t i = 0; i < sizeof v / sizeof *v; i++)
    for (size_t j = 0; j < sizeof v / sizeof *v; j++) {
      float least = i && j ? v[i < j ? i : j] : NAN, most = i && j ? v[i > j ? i : j] : NAN, all[M_W];
      m_store(all, m_splat(v[i]));
      all[M_W / 2 + 1] = v[j];
      assert_true(isnan(least) ? isnan(m_min(m_splat(v[i]), m_splat(v[j]))[1]) : m_min(m_splat(v[i]), m_splat(v[j]))[1] == least);
      assert_true(isnan(most) ? isnan(m_max(m_splat(v[i]), m_splat(v[j]))[1]) : m_max(m_splat(v[i]), m_splat(v[j]))[1] == most);
      assert_true(isnan(most) ? isnan(m_max1(v[i], v[j])) : m_max1(v[i], v[j]) == most);
      assert_true(isnan(most) ? isnan(m_hmax(m_load(all))) : m_hmax(m_load(all)) == most);
    }
}

static void test_row_max_nan(void **state)
{
  (void)state;
  enum { COLS = 3 * M_W + 1 };
  float row[COLS], max;
  for (int at = 0; at < COLS; at++) {
    for (int j = 0; j < COLS; j++) row[j] = (float)j;
    row[at] = NAN;
    m_row_max(1, COLS, row, COLS, &max, 0);
    assert_true(isnan(max));
    row[at] = 0;
    m_row_max(1, COLS, row, COLS, &max, 1); /* the maximum so far is NaN */
    assert_true(isnan(max));
  }
  for (int j = 0; j < COLS; j++) row[j] = -INFINITY;
  m_row_max(1, COLS, row, COLS, &max, 0);
  assert_true(max == -INFINITY);
}

static void test_lanes(void **state)
{
  (void)state;
  for (int n = 0; n <= M_W; n++) {
    float *src = random_tile(n ? n : 1), *dst = random_tile(n ? n : 1);
    float all[M_W], sum = 0, max = -INFINITY;
    m_store(all, m_loadn_or(src, n, m_splat(7)));
    m_storen(dst, n, m_loadn(src, n)); /* exact allocations: a sanitizer sees any excess */
    for (int i = 0; i < M_W; i++) {
      assert_true(all[i] == (i < n ? src[i] : 7));
      assert_true(i >= n || dst[i] == src[i]);
      sum += all[i];
      max = all[i] > max ? all[i] : max;
    }
    assert_float_equal(m_hsum(m_load(all)), sum, 1e-4f);
    assert_true(m_hmax(m_load(all)) == max);
    free(src);
    free(dst);
  }
}

/* ---- half precision ---- */

static void test_f16_widen(void **state)
{
  (void)state;
  enum { N = 65536 };
  uint16_t *h = malloc(N * sizeof *h), *back = malloc(N * sizeof *back);
  float *f = malloc(N * sizeof *f);
  assert_true(h && back && f);
  for (int i = 0; i < N; i++) h[i] = (uint16_t)i;
  m_load_f16(f, h, N);
  m_store_f16(back, f, N);
  for (int i = 0; i < N; i++) {
    int e = i >> 10 & 31, m = i & 1023;
    double mag = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    double want = i & 0x8000 ? -mag : mag;
    assert_true(isnan(want) ? isnan(f[i]) : to_bits(f[i]) == to_bits((float)want));
    assert_int_equal(to_bits(f[i]), to_bits(m_f16_to_f32(h[i]))); /* NaN payloads too */
    assert_int_equal(back[i], isnan(want) ? i | 0x200 : i);
  }
  free(h);
  free(back);
  free(f);
}

/* The nearest half, by comparing the distances to both neighbours; ties to the even one. */
static uint16_t nearest_f16(float x)
{
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  double a = fabs((double)x);
  int lo = 0, hi = 0x7c00;
  if (a >= 65520) return sign | 0x7c00;
  while (hi - lo > 1) {
    int mid = (lo + hi) / 2;
    if (m_f16_to_f32((uint16_t)mid) <= a)
      lo = mid;
    else
      hi = mid;
  }
  double below = a - (double)m_f16_to_f32((uint16_t)lo);
  double above = (hi == 0x7c00 ? 65536 : (double)m_f16_to_f32((uint16_t)hi)) - a;
  return (uint16_t)(sign | (below < above || (below == above && lo % 2 == 0) ? lo : hi) | sign);
}

static void test_f16_narrow(void **state)
{
  (void)state;
  enum { N = 100003 };
  float *f = malloc(N * sizeof *f);
  uint16_t *h = malloc(N * sizeof *h);
  assert_true(f && h);
  for (int i = 0; i < N; i++) {
    float tie = m_f16_to_f32(rng() & 0xfbff); /* half of the cases exactly between two halves */
    f[i] = i % 2 ? uniform(-70000, 70000) * (i % 4 == 1 ? 1 : 1e-8f) : from_bits(to_bits(tie) | 0x1000);
  }
  f[0] = 65519.996f, f[1] = 65520, f[2] = 1e-45f, f[3] = 0x1p-25f, f[4] = 0x1.000002p-25f;
  f[5] = INFINITY, f[6] = -INFINITY, f[7] = 1e38f;
  m_store_f16(h, f, N);
  for (int i = 0; i < N; i++) {
    assert_int_equal(h[i], nearest_f16(f[i]));
    assert_int_equal(m_f32_to_f16(f[i]), h[i]);
  }
  free(f);
  free(h);
}

static void test_bf16(void **state)
{
  (void)state;
  enum { N = 65539 };
  float *f = malloc(N * sizeof *f);
  uint16_t *h = malloc(N * sizeof *h);
  assert_true(f && h);
  for (int i = 0; i < N; i++) h[i] = (uint16_t)i;
  m_load_bf16(f, h, N);
  for (int i = 0; i < N; i++) assert_int_equal(to_bits(f[i]), (uint32_t)(uint16_t)i << 16);
  for (int i = 0; i < N; i++) f[i] = from_bits(i % 3 ? rng() : (rng() & 0xffff0000) | 0x8000);
  m_store_bf16(h, f, N);
  for (int i = 0; i < N; i++) {
    uint32_t b = to_bits(f[i]), low = b & 0xffff, up = b >> 16;
    uint32_t want = isnan(f[i]) ? up | 0x40 : up + (low > 0x8000 || (low == 0x8000 && up % 2));
    assert_int_equal(h[i], want);
  }
  free(f);
  free(h);
}

/* ---- tiles ---- */

static void test_load_tile(void **state)
{
  (void)state;
  for (int round = 0; round < 300; round++) {
    int rows = 1 + (int)(rng() % 40), cols = 1 + (int)(rng() % 70), lds = cols + (int)(rng() % 5);
    int ldd = cols + (int)(rng() % 3), ldt = rows + (int)(rng() % 3);
    float *src = random_tile((rows - 1) * lds + cols);
    float *dst = random_tile((rows - 1) * ldd + cols);
    float *dst_t = random_tile((cols - 1) * ldt + rows);
    m_load_tile(rows, cols, src, lds, dst, ldd);
    m_load_tile_t(rows, cols, src, lds, dst_t, ldt);
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < cols; j++) {
        assert_true(dst[i * ldd + j] == src[i * lds + j]);
        assert_true(dst_t[j * ldt + i] == src[i * lds + j]);
      }
    free(src);
    free(dst);
    free(dst_t);
  }
}

static void test_reductions(void **state)
{
  (void)state;
  for (int round = 0; round < 300; round++) {
    int rows = 1 + (int)(rng() % 20), cols = 1 + (int)(rng() % 70), ld = cols + (int)(rng() % 5);
    int add = (int)(rng() % 2);
    float *src = random_tile((rows - 1) * ld + cols);
    float *sum = random_tile(rows), *max = random_tile(rows), *col = random_tile(cols);
    double *col_want = calloc((size_t)cols, sizeof *col_want);
    for (int j = 0; j < cols; j++) col_want[j] = add ? col[j] : 0;
    for (int i = 0; i < rows; i++) {
      double s = add ? sum[i] : 0, m = add ? max[i] : -INFINITY;
      for (int j = 0; j < cols; j++) {
        s += src[i * ld + j];
        m = fmax(m, src[i * ld + j]);
        col_want[j] += src[i * ld + j];
      }
      m_row_sum(1, cols, src + i * ld, ld, sum + i, add);
      m_row_max(1, cols, src + i * ld, ld, max + i, add);
      assert_float_equal(sum[i], s, 2e-5f);
      assert_true(max[i] == (float)m);
    }
    m_col_sum(rows, cols, src, ld, col, add);
    for (int j = 0; j < cols; j++) assert_float_equal(col[j], col_want[j], 2e-5f);
    free(src);
    free(sum);
    free(max);
    free(col);
    free(col_want);
  }
}

/* ---- matrix products ---- */

/* A is M x K with element (i, k) at i*ars + k*acs; checks every element of C and that the
 * columns between N and ldc stay as they were */
static void check_product(int M, int N, int K, const float *A, int ars, int acs, const float *B, int ldb, const float *before, const float *C,
                          int ldc, int acc)
{
  for (int i = 0; i < M; i++)
    for (int j = 0; j < ldc && i * ldc + j < (M - 1) * ldc + N; j++) {
      double want = j >= N || acc ? before[i * ldc + j] : 0;
      for (int k = 0; j < N && k < K; k++) want += (double)A[i * ars + k * acs] * B[k * ldb + j];
      if (fabs(C[i * ldc + j] - want) > 1e-6 * (K + 4)) fail_msg("%dx%dx%d at %d,%d: %g, expected %g", M, N, K, i, j, C[i * ldc + j], want);
    }
}

enum { PLAIN, TRANSPOSED, PACKED, STREAM, KINDS };

/* m_gemm_stream takes constant row counts: the largest here that is not above M replaces M. */
static void stream(int *M, int N, int K, const float *A, int lda, const float *B, int ldb, float *C, int ldc, int acc)
{
  *M = *M < 7 ? 1 : *M < 13 ? 7 : 13;
  if (*M == 1)
    m_gemm_stream(1, N, K, A, lda, B, ldb, C, ldc, acc);
  else if (*M == 7)
    m_gemm_stream(7, N, K, A, lda, B, ldb, C, ldc, acc);
  else
    m_gemm_stream(13, N, K, A, lda, B, ldb, C, ldc, acc);
}

static void one_product(int kind, int M, int N, int K, int acc)
{
  int t = kind == TRANSPOSED, lda = (t ? M : K) + (int)(rng() % 3);
  int ldb = N + (int)(rng() % 3), ldc = N + (int)(rng() % 3);
  float *A = random_tile(((t ? K : M) - 1) * lda + (t ? M : K));
  float *B = random_tile((K - 1) * ldb + N), *packed = random_tile(m_packed_size(K, N));
  float *C = random_tile((M - 1) * ldc + N), *before = random_tile((M - 1) * ldc + N);
  memcpy(before, C, (size_t)((M - 1) * ldc + N) * sizeof *C);
  m_pack_b(K, N, B, ldb, packed);
  if (kind == PLAIN)
    m_gemm(M, N, K, A, lda, B, ldb, C, ldc, acc);
  else if (kind == TRANSPOSED)
    m_gemm_at(M, N, K, A, lda, B, ldb, C, ldc, acc);
  else if (kind == PACKED)
    m_gemm_packed(M, N, K, A, lda, packed, C, ldc, acc);
  else
    stream(&M, N, K, A, lda, B, ldb, C, ldc, acc);
  check_product(M, N, K, A, t ? 1 : lda, t ? lda : 1, B, ldb, before, C, ldc, acc);
  free(A);
  free(B);
  free(packed);
  free(C);
  free(before);
}

static void test_products_random(void **state)
{
  (void)state;
  for (int round = 0; round < 400; round++)
    one_product(round % KINDS, 1 + (int)(rng() % 50), 1 + (int)(rng() % 150), 1 + (int)(rng() % 90), (int)(rng() % 2));
}

/* every microkernel: all row counts, all widths up to two panels, whole and ragged */
static void test_products_small(void **state)
{
  (void)state;
  for (int kind = 0; kind < KINDS; kind++)
    for (int M = 1; M <= 2 * 8 + 1; M++)
      for (int N = 1; N <= 2 * M_PANEL + 1; N += N % M_W == 0 ? 1 : M_W / 2 - 1) one_product(kind, M, N, 5, N & 1);
}

/* the rows are a constant in generated code */
#define FEW(name, f)                                                                                                                       \
  static void name(int M, int N, int K, const float *A, ptrdiff_t ars, ptrdiff_t acs, const uint16_t *B, ptrdiff_t ldb, float *C, int acc) \
  {                                                                                                                                        \
    switch (M) {                                                                                                                           \
    case 1: f(1, N, K, A, ars, acs, B, ldb, C, N, acc); break;                                                                             \
    case 2: f(2, N, K, A, ars, acs, B, ldb, C, N, acc); break;                                                                             \
    case 3: f(3, N, K, A, ars, acs, B, ldb, C, N, acc); break;                                                                             \
    default: f(4, N, K, A, ars, acs, B, ldb, C, N, acc); break;                                                                            \
    }                                                                                                                                      \
  }
FEW(few_f16, m_gemm_few_f16)
FEW(few_bf16, m_gemm_few_bf16)

/* Products of pairs of bf16 numbers: B row by row and transposed, every row count, whole and ragged columns, even and odd
 * K. Infinities lie behind the rows of A and B. */
static void one_product_of_pairs(int M, int N, int K, int turned, int acc)
{
  const uint16_t inf = 0x7f80;
  int lda = (K + 3) / 2 * 2, ldb = turned ? K + 1 : N + 1;
  uint16_t *a = calloc((size_t)(M * lda), 2), *b = calloc((size_t)((turned ? N : K) * ldb), 2);
  float *A = random_tile(M * lda), *B = random_tile(K * N), *packed = random_tile((K + 1) / 2 * (N + M_W)), *C = random_tile(M * N),
        *before = random_tile(M * N);
  for (int i = 0; i < M * lda; i++) a[i] = (uint16_t)(to_bits(A[i]) >> 16), A[i] = from_bits((uint32_t)a[i] << 16);
  for (int i = 0; i < M; i++)
    for (int k = K; k < lda; k++) a[i * lda + k] = k == K && K % 2 ? 0 : inf;
  for (int i = 0; i < (turned ? N : K) * ldb; i++) b[i] = inf;
  for (int k = 0; k < K; k++)
    for (int j = 0; j < N; j++) {
      uint16_t h = (uint16_t)(to_bits(B[k * N + j]) >> 16);
      b[turned ? j * ldb + k : k * ldb + j] = h, B[k * N + j] = from_bits((uint32_t)h << 16);
    }
  memcpy(before, C, (size_t)(M * N) * sizeof *C);
  (turned ? m_pack_pairs_t : m_pack_pairs)(K, N, b, ldb, packed);
  m_gemm_pairs(M, N, K, a, lda, packed, C, N, acc);
  check_product(M, N, K, A, lda, 1, B, N, before, C, N, acc);
  free(a), free(b), free(A), free(B), free(packed), free(C), free(before);
}

/* D = A B by several parts, of dtype f32, bf16 or f16: the sums, rounded. */
static void one_product_of_words(int M, int N, int K, int turned, int parts)
{
  uint16_t *a = calloc((size_t)(M * K), 2), *b = calloc((size_t)(K * N), 2), *d = calloc((size_t)(M * N), 2), *h = calloc((size_t)(M * N), 2);
  float *A = random_tile(M * K), *B = random_tile(K * N), *packed = random_tile((K + 1) / 2 * (N + M_W)), *D = random_tile(M * N);
  for (int i = 0; i < M * K; i++) a[i] = (uint16_t)(to_bits(A[i]) >> 16), A[i] = from_bits((uint32_t)a[i] << 16);
  for (int k = 0; k < K; k++)
    for (int j = 0; j < N; j++) {
      const uint16_t bits = (uint16_t)(to_bits(B[k * N + j]) >> 16);
      b[turned ? j * K + k : k * N + j] = bits, B[k * N + j] = from_bits((uint32_t)bits << 16);
    }
  for (int i = parts - 1; i >= 0; i--) m_pack_words(K, N, b, turned ? 1 : N, turned ? K : 1, packed, i, parts);
  for (int i = 0; i < parts; i++) {
    m_gemm_words_f32(M, N, K, a, K, packed, D, N, i, parts);
    m_gemm_words_bf16(M, N, K, a, K, packed, d, N, i, parts);
    m_gemm_words_f16(M, N, K, a, K, packed, h, N, i, parts);
  }
  check_product(M, N, K, A, K, 1, B, N, D, D, N, 0);
  for (int i = 0; i < M * N; i++) {
    float bf16 = D[i], f16 = D[i];
    uint16_t bits;
    m_stn_bf16(&bits, 1, m_splat(bf16)), assert_int_equal(d[i], bits);
    m_stn_f16(&bits, 1, m_splat(f16)), assert_int_equal(h[i], bits);
  }
  free(a), free(b), free(d), free(h), free(A), free(B), free(packed), free(D);
}

static void products_of_pairs(void)
{
  for (int turned = 0; turned < 2; turned++)
    for (int M = 1; M <= 2 * 8 + 1; M++)
      for (int N = 1; N <= 2 * M_PANEL + 1; N += N % M_W == 0 ? 1 : M_W / 2 - 1)
        for (int K = 5; K <= 2 * M_W + 7; K += K == 6 ? 2 * M_W : 1) one_product_of_pairs(M, N, K, turned, N & 1);
  static const int large[][3] = {{32, 64, 64}, {33, 80, 96}, {47, 33, 31}, {49, 16, 600}, {200, 70, 40}, {64, 48, 1030}};
  for (size_t i = 0; i < sizeof large / sizeof *large; i++)
    for (int acc = 0; acc < 2; acc++) one_product_of_pairs(large[i][0], large[i][1], large[i][2], acc, acc);
  static const int words[][4] = {{1, 16, 2, 1}, {5, 100, 80, 3}, {32, 300, 64, 2}, {197, 65, 514, 2}, {64, 17, 1026, 2}, {100, 200, 34, 7}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) one_product_of_words(words[i][0], words[i][1], words[i][2], i % 2, words[i][3]);
}

static void test_products_of_pairs(void **state)
{
  (void)state;
  products_of_pairs();
#if M_TILES
  if (!m_tiles_granted) return;
  m_tiles_granted = 0; /* the other instructions */
  products_of_pairs();
  m_tiles_granted = 1;
#endif
}

/* Few rows of any strides with rows of bf16 and of f16 numbers. */
static void one_product_of_few(int M, int N, int K, int half, int acc)
{
  int ars = M % 2 ? 1 : K + 1, acs = M % 2 ? M : 1, ldb = N + 3;
  uint16_t *b = calloc((size_t)(K * ldb), 2);
  float *A = random_tile(M * (K + 1)), *B = random_tile(K * N), *C = random_tile(M * N), *before = random_tile(M * N);
  for (int k = 0; k < K; k++)
    for (int j = 0; j < N; j++) {
      B[k * N + j] = (float)((k * 7 + j * 3) % 15 - 7) * 0.25f; /* exact in both */
      (half ? m_store_f16 : m_store_bf16)(b + k * ldb + j, B + k * N + j, 1);
    }
  memcpy(before, C, (size_t)(M * N) * sizeof *C);
  (half ? few_f16 : few_bf16)(M, N, K, A, ars, acs, b, ldb, C, acc);
  check_product(M, N, K, A, ars, acs, B, N, before, C, N, acc);
  free(b), free(A), free(B), free(C), free(before);
}

static void test_products_of_few(void **state)
{
  (void)state;
  for (int half = 0; half < 2; half++)
    for (int M = 1; M <= 4; M++)
      for (int N = 1; N <= 4 * M_W + 1; N += N % M_W == 0 ? 1 : M_W / 2 - 1)
        for (int K = 1; K <= 37; K += 9) one_product_of_few(M, N, K, half, K & 1);
}

/* constant sizes take the path that generated code takes */
static void test_products_constant(void **state)
{
  (void)state;
  float *A = random_tile(64 * 64), *B = random_tile(64 * 96), *C = random_tile(64 * 96);
  m_gemm(64, 96, 64, A, 64, B, 96, C, 96, 0);
  check_product(64, 96, 64, A, 64, 1, B, 96, C, C, 96, 0);
  m_gemm(13, 41, 64, A, 64, B, 96, C, 41, 0);
  check_product(13, 41, 64, A, 64, 1, B, 96, C, C, 41, 0);
  m_gemm_at(16, 16, 64, A, 64, B, 96, C, 16, 0);
  check_product(16, 16, 64, A, 1, 64, B, 96, C, C, 16, 0);
  free(A);
  free(B);
  free(C);
}

/* ---- sizes that a file needs ---- */

/* The sizes in which m_panel runs M rows with nv vectors are among those that M_PRODUCTS keeps. `stream`: a streaming product, of any columns. */
static void check_rows(int M, int N, int nv, int stream)
{
  const int blocks = (M + M_ROWS(nv) - 1) / M_ROWS(nv), mr = M / blocks, larger = M % blocks;
  if (larger) assert_true(stream ? M_NEEDS_STREAM(M, 1, mr + 1, nv) : M_NEEDS_GEMM(M, N, mr + 1, nv) && M_NEEDS_PAIRS(M, N, mr + 1, nv));
  if (larger < blocks) assert_true(stream ? M_NEEDS_STREAM(M, 1, mr, nv) : M_NEEDS_GEMM(M, N, mr, nv) && M_NEEDS_PAIRS(M, N, mr, nv));
}

static void test_sizes_that_are_kept(void **state)
{
  (void)state;
  for (int M = 1; M <= 40; M++)
    for (int N = 1; N <= 12 * M_W; N++) {
      const int vecs = (N + M_W - 1) / M_W, panels = (vecs + M_NV - 1) / M_NV;
      int kept = 0;
      for (int p = 0; p < panels; p++) {
        const int nv = vecs / panels + (p < vecs % panels);
        check_rows(M, N, nv, 0), check_rows(M, N, nv, 1);
        assert_int_equal(m_panel_width(vecs, p), nv * M_W);
        for (int rows = 1; rows <= M_ROWS(nv); rows++)
          if (rows == M_ROWS(nv) || rows == 4 || rows == 2 || rows == 1) assert_true(M_NEEDS_BLOCKS(M, N, rows, nv) && M_NEEDS_WORDS(M, N, rows, nv));
        assert_true(M_NEEDS_PAIRS(M, N, 1, nv));
      }
      for (int nv = 1; nv <= M_NV; nv++)
        for (int mr = 1; mr <= M_ROWS(nv); mr++) kept += M_NEEDS_GEMM(M, N, mr, nv);
      assert_in_range(kept, 1, 4); /* and few others */
    }
  for (int M = M_ROWS(2) + 1; M <= 40; M++) { /* the first block of a strip is packed, and m_panel runs the rest */
    const int rest = M - M / ((M + M_ROWS(2) - 1) / M_ROWS(2)), blocks = (rest + M_ROWS(2) - 1) / M_ROWS(2);
    assert_true(M_NEEDS_STREAM(M, 1, rest / blocks, 2) && (rest % blocks == 0 || M_NEEDS_STREAM(M, 1, rest / blocks + 1, 2)));
  }
}

int main(void)
{
#if defined(__AVX2__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 77; /* skipped */
#endif
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_functions_range), cmocka_unit_test(test_functions_edges),     cmocka_unit_test(test_pow),
      cmocka_unit_test(test_min_max_nan),     cmocka_unit_test(test_row_max_nan),         cmocka_unit_test(test_lanes),
      cmocka_unit_test(test_f16_widen),       cmocka_unit_test(test_f16_narrow),          cmocka_unit_test(test_bf16),
      cmocka_unit_test(test_load_tile),       cmocka_unit_test(test_reductions),          cmocka_unit_test(test_products_random),
      cmocka_unit_test(test_products_small),  cmocka_unit_test(test_products_constant),   cmocka_unit_test(test_products_of_pairs),
      cmocka_unit_test(test_products_of_few), cmocka_unit_test(test_sizes_that_are_kept), cmocka_unit_test(test_waves_of_growing_magnitude),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
