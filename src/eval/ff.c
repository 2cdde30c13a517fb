// The interpreter's loops over pairs of prime fields. Nearly all time of a test is spent in matrix products, so they have
// their own loops here. These compute the same sums as the rows' r + x * y, but add products of Montgomery forms as
// 128-bit numbers and reduce once per element. The part mod q is not computed if no exponential follows (the result is
// then lost) or if an operand is lost.
#define NUM struct ffv
#define DOMAIN domain_ff
#define DOMAIN_RUN run_ff
#define DOMAIN_PRODUCT product_ff
#define VALUE(real, field) field
#define CONSTANT(c) ff_const(F, c)
#define OVER(x, y) ff_div(F, x, y)
#define ROOT(x) ff_sqrt(F, x)
#define OWN_PRODUCT
#include "eval/law_field.h"
#include "eval/run.h"

typedef unsigned __int128 wide;
enum { ROWS = 8, COLS = 128, PARTS = 2 };

// A tile of the output, rows x cols, at o, x and y, which have row strides of n, k and n pairs. A pair is two words,
// part 0 (mod p) and part 1 (mod q).
struct ff_tile {
  int64_t n, k, rows, cols;
  struct ffv *o;
  const struct ffv *x, *y;
};

static void product(struct field *F, enum op op, bool exps, int64_t m, int64_t n, int64_t k, struct ffv *o, const struct ffv *px,
                    const struct ffv *py);
#include "eval/domain.inc"

// Brings t < 2n * 2^64 below n * 2^64, as mod_reduce requires.
static inline wide folded(const struct modulus *m, wide t) { return t - ((uint64_t)(t >> 64) >= m->n ? (wide)m->n << 64 : 0); }

// sum[j] += x[0] y[0][j] + .. + x[3] y[3][j]. As n < 2^62, four products are below n * 2^64.
static void add_four(const struct modulus *m, int64_t cols, int64_t row, wide *restrict sum, const uint64_t *x, const uint64_t *y)
{
  uint64_t a = x[0], b = x[PARTS], c = x[2 * PARTS], d = x[3 * PARTS];
  for (int64_t j = 0; j < cols; j++) {
    const uint64_t *at = y + j * PARTS;
    sum[j] = folded(m, sum[j] + (wide)a * at[0] + (wide)b * at[row] + (wide)c * at[2 * row] + (wide)d * at[3 * row]);
  }
}

static void add_one(const struct modulus *m, int64_t cols, wide *restrict sum, uint64_t x, const uint64_t *y)
{
  for (int64_t j = 0; j < cols; j++) sum[j] = folded(m, sum[j] + (wide)x * y[j * PARTS]);
}

static void sum_part(const struct modulus *m, const struct ff_tile *t, int part, wide sum[ROWS][COLS])
{
  const uint64_t *px = &t->x->p + part, *py = &t->y->p + part;
  int64_t l = 0;
  for (int64_t i = 0; i < t->rows; i++) memset(sum[i], 0, sizeof(wide) * (size_t)t->cols);
  for (; l + 4 <= t->k; l += 4)
    for (int64_t i = 0; i < t->rows; i++) add_four(m, t->cols, t->n * PARTS, sum[i], px + (i * t->k + l) * PARTS, py + l * t->n * PARTS);
  for (; l < t->k; l++)
    for (int64_t i = 0; i < t->rows; i++) add_one(m, t->cols, sum[i], px[(i * t->k + l) * PARTS], py + l * t->n * PARTS);
}

static void product_p(const struct field *F, const struct ff_tile *t)
{
  wide sum[ROWS][COLS];
  sum_part(&F->P, t, 0, sum);
  for (int64_t i = 0; i < t->rows; i++)
    for (int64_t j = 0; j < t->cols; j++) {
      uint64_t *to = &t->o[i * t->n + j].p;
      *to = mod_add(&F->P, *to, mod_reduce(&F->P, sum[i][j]));
    }
}

// lost[i]: row i of x has a lost element, so all its products are lost. Returns true if some rows are not lost.
static bool lost_rows(const struct ff_tile *t, bool *lost)
{
  bool left = false;
  for (int64_t i = 0; i < t->rows; i++) {
    lost[i] = false;
    for (int64_t l = 0; l < t->k && !lost[i]; l++) lost[i] = ff_lost(t->x[i * t->k + l]);
    left |= !lost[i];
  }
  return left;
}

static bool lost_cols(const struct ff_tile *t, bool *lost)
{
  bool left = true;
  memset(lost, 0, (size_t)t->cols);
  for (int64_t l = 0; l < t->k && left; l++) {
    left = false;
    for (int64_t j = 0; j < t->cols; j++) lost[j] |= ff_lost(t->y[l * t->n + j]), left |= !lost[j];
  }
  return left;
}

static void product_q(const struct field *F, const struct ff_tile *t, const bool *lost_x, const bool *lost_y)
{
  wide sum[ROWS][COLS]; // sums with lost elements are not read
  sum_part(&F->Q, t, 1, sum);
  for (int64_t i = 0; i < t->rows; i++)
    for (int64_t j = 0; j < t->cols; j++) {
      struct ffv *to = &t->o[i * t->n + j];
      bool lost = lost_x[i] | lost_y[j] | ff_lost(*to);
      to->q = lost ? FF_NONE : mod_add(&F->Q, to->q, mod_reduce(&F->Q, sum[i][j]));
    }
}

static void lose(const struct ff_tile *t)
{
  for (int64_t i = 0; i < t->rows; i++)
    for (int64_t j = 0; j < t->cols; j++) t->o[i * t->n + j].q = FF_NONE;
}

static void product(struct field *F, enum op op, bool exps, int64_t m, int64_t n, int64_t k, struct ffv *o, const struct ffv *px,
                    const struct ffv *py)
{
  (void)op; // every contraction is r + x * y
  for (int64_t j = 0; j < n; j += COLS) {
    struct ff_tile t = {n, k, 0, MIN(COLS, n - j), NULL, NULL, py + j};
    bool lost_x[ROWS], lost_y[COLS], some = exps && lost_cols(&t, lost_y);
    for (int64_t i = 0; i < m; i += ROWS) {
      t.rows = MIN(ROWS, m - i), t.o = o + i * n + j, t.x = px + i * k;
      product_p(F, &t);
      if (some && lost_rows(&t, lost_x))
        product_q(F, &t, lost_x, lost_y);
      else
        lose(&t);
    }
  }
}
