// The pairs of primes and the laws of their arithmetic; products of matrices against element by element; random
// inputs and rounding to half precision.
// test: quick sanitized
#include "evaluate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// ---- primes ----

static uint64_t times(uint64_t x, uint64_t y, uint64_t n) { return (uint64_t)((unsigned __int128)x * y % n); }

static uint64_t power(uint64_t x, uint64_t e, uint64_t n)
{
  uint64_t r = 1;
  for (; e; e >>= 1, x = times(x, x, n))
    if (e & 1) r = times(r, x, n);
  return r;
}

// Miller-Rabin with the first twelve primes as bases decides below 3.3e24 (Sorenson and Webster, 2015).
static bool prime(uint64_t n)
{
  static const uint64_t bases[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
  int twos = __builtin_ctzll(n - 1);
  for (size_t i = 0; i < COUNT(bases); i++) {
    uint64_t x = power(bases[i], (n - 1) >> twos, n);
    bool witness = x != 1 && x != n - 1;
    for (int k = 1; k < twos && witness; k++) witness = (x = times(x, x, n)) != n - 1;
    if (witness) return false;
  }
  return true;
}

static const int sizes[] = {PRIMES_FILTER, 40, PRIMES_TEST}; // bits of p

static void is_pair(struct primes r, int bits)
{
  assert_true(prime(r.p) && prime(r.q) && prime_is(r.p) && prime_is(r.q));
  assert_int_equal(r.p, 2 * r.q + 1);
  assert_int_equal(r.p >> (bits - 1), 1); // as many bits as were asked for
  assert_true(r.p % 8 == 7 && r.q % 8 == 7);
}

// Euler's criterion.
static bool residue(uint64_t x, uint64_t n) { return power(x % n, (n - 1) / 2, n) == 1; }

static void primes(void **state)
{
  (void)state;
  assert_true(prime(1000000007) && !prime(3215031751u) && !prime(4611686018427387905u));
  for (uint64_t n = 2; n < 2000; n++) assert_int_equal(prime_is(n), n == 2 || (n % 2 && (n < 38 ? prime_is(n) : prime(n))));
  for (size_t i = 0; i < COUNT(sizes); i++)
    for (uint64_t seed = 0; seed < 50; seed++) {
      struct primes r = primes_draw(sizes[i], seed, 0, NULL), again = primes_draw(sizes[i], seed, 0, NULL);
      is_pair(r, sizes[i]);
      assert_true(r.p == again.p);
      assert_true(r.p != primes_draw(sizes[i], seed + 1, 0, NULL).p);
      assert_true(residue(2, r.p) && residue(2, r.q) && residue(3, r.p) && residue(3, r.q) && residue(5, r.p) && residue(5, r.q));
      assert_false(residue(r.p - 1, r.p) || residue(r.q - 1, r.q));
    }
}

// Numbers that a caller names are residues: small primes, large ones, and products nobody factored.
static void wanted_residues(void **state)
{
  (void)state;
  static const uint64_t wanted[] = {29, 31, 97, 841, 1009, 1000003, 1000000007, 999999000001};
  for (uint64_t seed = 0; seed < 10; seed++) {
    struct primes r = primes_draw(PRIMES_TEST, seed, COUNT(wanted), wanted);
    is_pair(r, PRIMES_TEST);
    for (size_t i = 0; i < COUNT(wanted); i++) assert_true(residue(wanted[i], r.p) && residue(wanted[i], r.q));
    for (uint64_t small = 2; small < 30; small++) assert_true(residue(small, r.p) && residue(small, r.q));
  }
}

// More than can be had: the last ones are left out, and a pair is found all the same.
static void too_many_residues(void **state)
{
  (void)state;
  uint64_t wanted[30];
  int n = 0;
  for (uint64_t x = 1000; n < 30; x++)
    if (prime(x | 1) && (!n || wanted[n - 1] != (x | 1))) wanted[n++] = x | 1;
  struct primes r = primes_draw(PRIMES_FILTER, 1, n, wanted);
  is_pair(r, PRIMES_FILTER);
  assert_true(residue(wanted[0], r.p) && residue(wanted[0], r.q));
}

static void jacobi_symbol(void **state)
{
  (void)state;
  for (uint64_t n = 3; n < 300; n += 2)
    for (uint64_t a = 0; a < n && prime_is(n); a++) assert_int_equal(jacobi(a, n), a == 0 ? 0 : residue(a, n) ? 1 : -1);
  assert_int_equal(jacobi(2, 15), 1), assert_int_equal(jacobi(7, 15), -1), assert_int_equal(jacobi(6, 15), 0);
}

static void factors(void **state)
{
  (void)state;
  uint64_t f[4];
  int n = 0;
  prime_factors(841 * 6, 4, f, &n);
  assert_true(n == 3 && f[0] == 2 && f[1] == 3 && f[2] == 29);
  prime_factors(1, 4, f, &n), prime_factors(29, 4, f, &n);
  assert_int_equal(n, 3);
  prime_factors(1000000007, 4, f, &n), prime_factors(13, 4, f, &n); // no room for a fifth
  assert_true(n == 4 && f[3] == 1000000007);
}

// ---- laws, for every pair of primes ----

static bool eq(struct ffv x, struct ffv y) { return x.p == y.p && x.q == y.q; }
static bool eq_p(struct ffv x, struct ffv y) { return x.p == y.p; }

static void ring_laws(struct field *F, struct ffv x, struct ffv y, struct ffv z)
{
  struct ffv one = ff_const(F, 1);
  assert_true(eq(ff_mul(F, x, ff_add(F, y, z)), ff_add(F, ff_mul(F, x, y), ff_mul(F, x, z))));
  assert_true(eq(ff_add(F, ff_sub(F, x, y), y), x));
  assert_true(eq(ff_add(F, x, ff_neg(F, x)), FF_ZERO));
  assert_true(eq(ff_mul(F, x, one), x));
  assert_true(eq(ff_mul(F, x, ff_inv(F, x)), one));
  assert_true(eq(ff_mul(F, ff_div(F, x, y), y), x));
  assert_true(x.p < F->P.n && x.q < F->Q.n);
  assert_int_equal(mod_from(&F->P, x.p), times(x.p, power(F->P.one, F->P.n - 2, F->P.n), F->P.n));
  assert_int_equal(mod_from(&F->P, ff_mul(F, x, y).p), times(mod_from(&F->P, x.p), mod_from(&F->P, y.p), F->P.n));
}

static void exp_laws(struct field *F, struct ffv x, struct ffv y)
{
  struct ffv e = ff_exp(F, ff_add(F, x, y));
  assert_true(eq(e, ff_mul(F, ff_exp(F, x), ff_exp(F, y))));
  assert_true(ff_lost(e) && ff_lost(ff_add(F, e, x)) && ff_lost(ff_mul(F, x, e)) && ff_lost(ff_inv(F, e)) && ff_lost(ff_sqrt(F, e)));
  assert_int_equal(power(mod_from(&F->P, e.p), F->Q.n, F->P.n), 1); // a q-th root of unity
  assert_true(eq_p(ff_exp(F, FF_ZERO), ff_const(F, 1)) && !eq_p(ff_exp(F, ff_const(F, 1)), ff_const(F, 1)));
  assert_int_equal(F->lost_exps, 0);
}

static void root_laws(struct field *F, struct ffv x, struct ffv y)
{
  struct ffv r = ff_sqrt(F, x), s = ff_mul(F, r, r), minus = ff_neg(F, x);
  assert_true(s.p == x.p || s.p == minus.p);
  assert_true(s.q == x.q || s.q == minus.q);
  assert_true(eq(ff_sqrt(F, ff_mul(F, x, y)), ff_mul(F, r, ff_sqrt(F, y))));
}

static void order_laws(struct field *F, struct ffv x, struct ffv y, struct ffv z)
{
  assert_true(eq(ff_max(F, x, x), x) && eq(ff_min(F, x, x), x));
  assert_true(eq(ff_max(F, x, y), ff_max(F, y, x)) && eq(ff_min(F, x, y), ff_min(F, y, x)));
  if (F->opaque_max) return;
  assert_true(eq(ff_max(F, x, ff_max(F, y, z)), ff_max(F, ff_max(F, x, y), z)));
  assert_true(eq(ff_min(F, x, ff_min(F, y, z)), ff_min(F, ff_min(F, x, y), z)));
  assert_true(eq(ff_max(F, x, y), x) != eq(ff_min(F, x, y), x));
  assert_true(eq(ff_max(F, x, ff_min(F, x, y)), x));
}

static void laws(void **state)
{
  (void)state;
  for (size_t row = 0; row < COUNT(sizes); row++)
    for (uint64_t seed = 0; seed < 20; seed++) {
      struct field F;
      struct rng r = {seed};
      field_open(&F, primes_draw(sizes[row], seed, 0, NULL), seed);
      for (int i = 0; i < 50; i++) {
        struct ffv x = field_random(&F, &r), y = field_random(&F, &r), z = field_random(&F, &r);
        ring_laws(&F, x, y, z);
        exp_laws(&F, x, y);
        root_laws(&F, x, y);
        order_laws(&F, x, y, z);
      }
      assert_int_equal(F.zero_divisions, 0);
    }
}

static void opaque_functions(void **state)
{
  (void)state;
  struct field F, G;
  struct rng r = {1};
  struct primes pair = primes_draw(PRIMES_TEST, 1, 0, NULL);
  field_open(&F, pair, 1), field_open(&G, pair, 2);
  struct ffv x = field_random(&F, &r), y = field_random(&F, &r);
  assert_true(eq(ff_opaque(&F, OP_LOG, x, x), ff_opaque(&F, OP_LOG, x, x)));
  assert_false(eq(ff_opaque(&F, OP_LOG, x, x), ff_opaque(&F, OP_ABS, x, x)));
  assert_false(eq(ff_opaque(&F, OP_POW, x, y), ff_opaque(&F, OP_POW, y, x)));
  assert_false(eq(ff_opaque(&F, OP_LOG, x, x), ff_opaque(&G, OP_LOG, x, x)));
  F.opaque_max = true;
  assert_true(eq(ff_max(&F, x, y), ff_max(&F, x, y)));
  assert_false(eq(ff_max(&F, x, y), x) || eq(ff_max(&F, x, y), y) || eq(ff_max(&F, x, y), ff_min(&F, x, y)));
}

static void constants(void **state)
{
  (void)state;
  static const struct {
    double c;
    const char *times, *is; // c * times = is
  } rows[] = {{0.1, "10", "1"}, {-2.5, "2", "-5"},   {1e-5, "100000", "1"}, {0.125, "8", "1"}, {3, "7", "21"}, {1e20, "1", "100000000000000000000"},
              {-0.0, "1", "0"}, {1.5e3, "2", "3000"}};
  struct field F;
  for (size_t row = 0; row < COUNT(sizes); row++) {
    field_open(&F, primes_draw(sizes[row], 1, 0, NULL), 1);
    for (size_t i = 0; i < COUNT(rows); i++)
      assert_true(eq(ff_mul(&F, ff_const(&F, rows[i].c), ff_const(&F, strtod(rows[i].times, NULL))), ff_const(&F, strtod(rows[i].is, NULL))));
    assert_int_equal(mod_from(&F.P, ff_const(&F, 12345).p), 12345);
    assert_int_equal(mod_from(&F.Q, ff_const(&F, -1).q), F.Q.n - 1);
    assert_true(eq(ff_const(&F, INFINITY), ff_const(&F, INFINITY)) && !eq(ff_const(&F, INFINITY), ff_const(&F, -INFINITY)));
    assert_false(eq(ff_const(&F, NAN), ff_const(&F, INFINITY)));
  }
}

// 1/48, 2/7 and 0.13 are no doubles, but the fields have them exactly; roots of squares of constants are positive.
static void constants_are_exact(void **state)
{
  (void)state;
  static const struct {
    double c;
    uint64_t n, d;
  } rows[] = {{1.0 / 48, 1, 48},  {2.0 / 7, 2, 7},   {1.0 / 4095, 1, 4095},
              {0.13, 13, 100},    {1e-5, 1, 100000}, {0.123456789012, 123456789012, 1000000000000},
              {97.0 / 89, 97, 89}};
  uint64_t wanted[8];
  int n = 0;
  for (size_t i = 0; i < COUNT(rows); i++) prime_factors(rows[i].n, 8, wanted, &n), prime_factors(rows[i].d, 8, wanted, &n);
  struct field F;
  for (uint64_t seed = 0; seed < 5; seed++) {
    field_open(&F, primes_draw(PRIMES_TEST, seed, n, wanted), seed);
    for (size_t i = 0; i < COUNT(rows); i++) {
      struct ffv c = ff_const(&F, rows[i].c);
      assert_true(eq(ff_mul(&F, c, ff_const(&F, (double)rows[i].d)), ff_const(&F, (double)rows[i].n)));
      assert_true(eq(ff_sqrt(&F, ff_mul(&F, c, c)), c));
    }
  }
}

static void what_is_counted(void **state)
{
  (void)state;
  struct field F;
  struct rng r = {1};
  field_open(&F, primes_draw(PRIMES_TEST, 1, 0, NULL), 1);
  struct ffv x = field_random(&F, &r);
  assert_true(eq(ff_div(&F, x, FF_ZERO), FF_ZERO));
  assert_true(eq(ff_div(&F, x, FF_ZERO), FF_ZERO)); // from memory, and counted again
  assert_int_equal(F.zero_divisions, 2);
  ff_exp(&F, ff_exp(&F, x));
  assert_int_equal(F.lost_exps, 1);
}

// ---- products ----

static struct ffv slow_product(struct field *F, const struct ffv *x, const struct ffv *y, int64_t n, int64_t k)
{
  struct ffv r = FF_ZERO;
  for (int64_t l = 0; l < k; l++) r = ff_add(F, r, ff_mul(F, x[l], y[l * n]));
  return r;
}

// Elements are the largest there are, so that sums come as near to 128 bits as they can; `holes` are lost.
static void check_product(struct field *F, int64_t m, int64_t n, int64_t k, bool largest, int holes, bool exps)
{
  struct arena mem = {0};
  struct values v = {0};
  const char *result = exps ? "Z, exp(Z)" : "Z";
  const struct graph *g = test_graph(
      &mem,
      arena_printf(&mem, "program p { X: f32[%d, %d]\n Y: f32[%d, %d]\n Z = matmul(X, Y)\n return %s }", (int)m, (int)k, (int)k, (int)n, result),
      false);
  test_inputs(&mem, g, DOM_FIELD, F, 1, &v);
  struct ffv *x = v.in[0], *y = v.in[1];
  struct rng r = {5};
  for (int64_t i = 0; i < m * k && largest; i++) x[i] = (struct ffv){F->P.n - 1, F->Q.n - 1};
  for (int64_t i = 0; i < k * n && largest; i++) y[i] = x[0];
  for (int i = 0; i < holes; i++) x[rng_below(&r, (uint64_t)(m * k))].q = FF_NONE, y[rng_below(&r, (uint64_t)(k * n))].q = FF_NONE;
  test_run(&mem, g, F, &v);
  const struct ffv *z = v.out[0];
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      struct ffv want = slow_product(F, x + i * k, y + j, n, k);
      assert_int_equal(z[i * n + j].p, want.p);
      if (exps)
        assert_int_equal(z[i * n + j].q, want.q);
      else
        assert_true(ff_lost(z[i * n + j]));
    }
  arena_close(&mem);
}

static void products(void **state)
{
  (void)state;
  static const int64_t extents[][3] = {{1, 1, 1}, {2, 3, 4}, {9, 130, 7}, {8, 128, 64}, {3, 257, 5}, {17, 2, 33}};
  for (size_t row = 0; row < COUNT(sizes); row++)
    for (size_t i = 0; i < COUNT(extents); i++)
      for (int kind = 0; kind < 8; kind++) {
        struct field F;
        field_open(&F, primes_draw(sizes[row], 1, 0, NULL), 1);
        check_product(&F, extents[i][0], extents[i][1], extents[i][2], kind & 1, kind & 2 ? 2 : 0, kind & 4);
      }
}

// ---- random inputs ----

static void random_inputs(void **state)
{
  (void)state;
  struct arena mem = {0};
  const struct graph *g = test_graph(&mem, "program p { X: f16[64, 64]\n Y: f32[64, 64]\n Z: bf16[64, 64]\n return X + Y + Z }", false);
  void *a[3], *b[3], *c[3];
  eval_random(&mem, g, DOM_F64, NULL, 1, a);
  eval_random(&mem, g, DOM_F64, NULL, 1, b);
  eval_random(&mem, g, DOM_F64, NULL, 2, c);
  size_t bytes = 64 * 64 * sizeof(double);
  assert_memory_equal(a[0], b[0], bytes);
  assert_memory_not_equal(a[0], c[0], bytes);
  assert_memory_not_equal(a[0], a[1], bytes);
  double sum = 0, squares = 0;
  for (int i = 0; i < 64 * 64; i++) {
    double x = ((double *)a[0])[i], y = ((double *)a[1])[i], z = ((double *)a[2])[i];
    assert_true(num_round(F16, x) == x && num_round(F32, y) == y && num_round(BF16, z) == z);
    sum += y, squares += y * y;
  }
  assert_true(fabs(sum / 4096) < 0.1 && fabs(squares / 4096 - 1) < 0.1);
  arena_close(&mem);
}

// Every half is itself; between two neighbours the middle goes to the even one.
static void rounding(void **state)
{
  (void)state;
  double before = 0;
  for (int bits = 1; bits < 0x7c00; bits++) {
    int e = bits >> 10, f = bits & 1023;
    double x = e ? ldexp(1024 + f, e - 25) : ldexp(f, -24), middle = (before + x) / 2;
    assert_true(num_round(F16, x) == x && num_round(F16, -x) == -x);
    assert_true(num_round(F16, middle) == (bits % 2 ? before : x));
    assert_true(num_round(F16, nextafter(middle, 0)) == before && num_round(F16, nextafter(middle, 1e9)) == x);
    before = x;
  }
  assert_true(isinf(num_round(F16, 65520)) && num_round(F16, 65519.99) == 65504);
  assert_true(num_round(BF16, 1 + 0x1p-8) == 1 && num_round(BF16, 1 + 0x1.8p-7) == 1 + 0x1p-6 && num_round(BF16, 0x1p-133) == 0x1p-133);
  assert_true(isinf(num_round(BF16, 0x1.ffp127)) && num_round(BF16, 0x1.fep127) == 0x1.fep127);
  assert_true(num_round(F32, 1 + 0x1p-24) == 1 && isnan(num_round(F16, NAN)) && signbit(num_round(F16, -0.0)));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(primes),
      cmocka_unit_test(wanted_residues),
      cmocka_unit_test(too_many_residues),
      cmocka_unit_test(jacobi_symbol),
      cmocka_unit_test(factors),
      cmocka_unit_test(constants_are_exact),
      cmocka_unit_test(laws),
      cmocka_unit_test(opaque_functions),
      cmocka_unit_test(constants),
      cmocka_unit_test(what_is_counted),
      cmocka_unit_test(products),
      cmocka_unit_test(random_inputs),
      cmocka_unit_test(rounding),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
