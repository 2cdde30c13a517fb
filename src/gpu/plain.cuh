// One operator in double, as float64 references are computed on a GPU: no tile program, no scheme. The definitions before this text say which
// operator (plain_text.c); the text is CUDA C++ and, for tests, C for the host, where a call is one block and each loop over
// threads is a loop.
//
//   EACH(t)     what each thread of the block does until the next MEET
//   MINE, OWN   room for the values that a thread keeps from one EACH to the next, and its place there
//   state       [0] a value left the range of its dtype, [1] bits of the mode, [2] an index left its dimension
#ifdef __CUDACC__
#undef static
#define PLAIN_BLOCK ((int64_t)blockIdx.x)
#define PLAIN_KERNEL extern "C" __global__ void __launch_bounds__(256)
#define PLAIN static __device__ __forceinline__
#define EACH(t) for (int t = (int)threadIdx.x, once_ = 1; once_; once_ = 0)
#define MINE 1
#define OWN(t) 0
#define MEET __syncthreads()
#define SHARED __shared__
#define UNROLL _Pragma("unroll")
#define ROLL _Pragma("unroll 1")
#else
static int64_t PLAIN_BLOCK;
#define PLAIN_KERNEL static void
#define PLAIN static inline __attribute__((unused))
#define EACH(t) for (int t = 0; t < 256; t++)
#define MINE 256
#define OWN(t) t
#define MEET ((void)0)
#define SHARED static
#define UNROLL
#define ROLL
#endif
enum { PLAIN_ROUNDS = 1, PLAIN_DOWN = 2, PLAIN_EITHER = 4, PLAIN_FLUSHES = 8 };
#define PLAIN_ARGUMENTS void *o_, int *state, const void *x_, const void *y_, const void *z_
#define PLAIN_OPERANDS \
  double *const o = (double *)o_; \
  const double *const X = (const double *)x_, *const Y = (const double *)y_, *const Z = (const double *)z_; \
  (void)o, (void)X, (void)Y, (void)Z, (void)state

// ---- a value on its way into memory ----

PLAIN uint64_t plain_mix(uint64_t h, uint64_t x)
{
  h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h ^= h >> 33, h *= 0xff51afd7ed558ccdu, h ^= h >> 33, h *= 0xc4ceb9fe1a85ec53u;
  return h ^ h >> 33;
}

// Element i moved by what underflow may take it, in the direction that rt/underflow.c draws.
PLAIN double plain_nudged(double x, int64_t i, int mode, double by, uint64_t seed)
{
  uint64_t z = plain_mix(seed, (uint64_t)(i >> 16)) + (uint64_t)((i & 0xffff) + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  const double size = fabs(x), moved = mode & PLAIN_EITHER && (z ^ z >> 31) >> 63 ? size + by : size - by;
  return x == 0 || !(size < INFINITY) ? x : copysign(moved > 0 ? moved : 0, x);
}

PLAIN double plain_whole(double x, int bits)
{
  const double most = bits == 8 ? 1 : bits == 32 ? 2147483647.0 : 9223372036854775807.0, least = bits == 8 ? 0 : -most - 1;
  return !(x > least) ? (x <= least ? least : 0) : x >= most ? most : rint(x);
}

PLAIN double plain_kept(double x, int64_t i, int *state)
{
  const int mode = state[1];
  (void)i;
#ifdef PLAIN_RAW
  return x;
#endif
  if (!(fabs(x) <= PLAIN_LARGEST)) state[0] = 1;
#if PLAIN_EXPONENT
  if (mode & PLAIN_ROUNDS)
    x = mica_float_from(mica_float_bits(x, PLAIN_EXPONENT, PLAIN_MANTISSA, PLAIN_SPECIAL), PLAIN_EXPONENT, PLAIN_MANTISSA, PLAIN_SPECIAL);
#else
  if (mode & PLAIN_ROUNDS) x = plain_whole(x, PLAIN_BITS);
#endif
#ifdef PLAIN_SEED
  if (mode & (PLAIN_DOWN | PLAIN_EITHER)) x = plain_nudged(x, i, mode, PLAIN_UNDERFLOW, PLAIN_SEED);
#endif
  return x;
}

// An index that data choose; `least`, and a note, where it is none.
PLAIN int64_t plain_index(double x, int64_t least, int64_t extent, int *state)
{
  if (x >= (double)least && x < (double)extent && x == rint(x)) return (int64_t)x;
  state[2] = 1;
  return least;
}

// ---- kernels ----

#ifdef PLAIN_MODE
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  EACH(t)
    if (t < 4) state[t] = t == 1 ? PLAIN_MODE : 0;
}
#endif

#ifdef PLAIN_WORD // an input in its dtype
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  EACH(t) {
    const int64_t i = PLAIN_BLOCK * 256 + t;
    if (i < PLAIN_SIZE) {
      const PLAIN_WORD word = ((const PLAIN_WORD *)x_)[i];
#if PLAIN_EXPONENT
      const double x = mica_float_from(word, PLAIN_EXPONENT, PLAIN_MANTISSA, PLAIN_SPECIAL);
      o[i] = state[1] & PLAIN_FLUSHES && fabs(x) <= PLAIN_TINY ? 0 : x;
#else
      o[i] = sizeof word == 1 ? word != 0 : (double)word;
#endif
    }
  }
}
#endif

#ifdef PLAIN_VALUE // element i, stored at PLAIN_AT
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  const double scalar = PLAIN_SCALAR, lo = PLAIN_LO, hi = PLAIN_HI, slope = PLAIN_SLOPE;
  (void)scalar, (void)lo, (void)hi, (void)slope;
  EACH(t) {
    const int64_t i = PLAIN_BLOCK * 256 + t;
    if (i < PLAIN_SIZE) {
      const double x = PLAIN_X, y = PLAIN_Y;
      (void)x, (void)y;
      o[PLAIN_AT] = plain_kept(PLAIN_VALUE, PLAIN_AT, state);
    }
  }
}
#endif

#ifdef PLAIN_DEEP // a matrix product: 64 x 64 of it a block, 4 x 4 a thread
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  enum { TILE = 64, STEP = 16, WIDE = (PLAIN_COLS + TILE - 1) / TILE, HIGH = (PLAIN_ROWS + TILE - 1) / TILE };
  SHARED double a[STEP][TILE + 1], b[STEP][TILE];
  const int64_t of = PLAIN_BLOCK / ((int64_t)WIDE * HIGH), i0 = PLAIN_BLOCK / WIDE % HIGH * TILE, j0 = PLAIN_BLOCK % WIDE * TILE;
  const double *const left = X + PLAIN_LEFT * PLAIN_ROWS * PLAIN_DEEP, *const right = Y + PLAIN_RIGHT * PLAIN_DEEP * PLAIN_COLS;
  double sum[MINE][4][4];
  EACH(t)
    UNROLL for (int e = 0; e < 16; e++) sum[OWN(t)][e / 4][e % 4] = 0;
  for (int64_t k0 = 0; k0 < PLAIN_DEEP; k0 += STEP) {
    EACH(t) {
      UNROLL for (int e = 0; e < TILE * STEP / 256; e++) {
        const int at = e * 256 + t, row = at / STEP, k = at % STEP, deep = at / TILE, col = at % TILE;
        a[k][row] = i0 + row < PLAIN_ROWS && k0 + k < PLAIN_DEEP ? left[(i0 + row) * PLAIN_DEEP + k0 + k] : 0;
        b[deep][col] = j0 + col < PLAIN_COLS && k0 + deep < PLAIN_DEEP ? right[(k0 + deep) * PLAIN_COLS + j0 + col] : 0;
      }
    }
    MEET;
    EACH(t) {
      UNROLL for (int k = 0; k < STEP; k++) {
        double x[4], y[4];
        UNROLL for (int e = 0; e < 4; e++) x[e] = a[k][t / 16 + 16 * e], y[e] = b[k][t % 16 + 16 * e];
        UNROLL for (int e = 0; e < 16; e++) sum[OWN(t)][e / 4][e % 4] = PLAIN_FOLD(sum[OWN(t)][e / 4][e % 4], x[e / 4], y[e % 4]);
      }
    }
    MEET;
  }
  EACH(t) {
    ROLL for (int e = 0; e < 16; e++) { // one copy of the conversion, as sixteen take twice as long to compile
      const int64_t i = i0 + t / 16 + 16 * (e / 4), j = j0 + t % 16 + 16 * (e % 4), at = (of * PLAIN_ROWS + i) * PLAIN_COLS + j;
      double x = 0;
      UNROLL for (int s = 0; s < 16; s++) x = s == e ? sum[OWN(t)][s / 4][s % 4] : x;
      if (i < PLAIN_ROWS && j < PLAIN_COLS) o[at] = plain_kept(x, at, state);
    }
  }
}
#endif

#ifdef PLAIN_ALONG // the sums so far of [outer, PLAIN_ALONG, PLAIN_INNER]: a thread has all of one outer and inner index
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  EACH(t) {
    const int64_t line = PLAIN_BLOCK * 256 + t, from = line / PLAIN_INNER * PLAIN_ALONG * PLAIN_INNER + line % PLAIN_INNER;
    double sum = 0;
    for (int64_t l = 0; l < PLAIN_ALONG && line < PLAIN_SIZE / PLAIN_ALONG; l++) {
      const int64_t i = from + l * PLAIN_INNER;
      sum += X[i], o[i] = plain_kept(sum, i, state);
    }
  }
}
#endif

#ifdef PLAIN_LEN // a reduction of [outer, PLAIN_LEN, PLAIN_INNER]; PLAIN_FIRST: from its first element on
PLAIN double plain_fold(double r, double x) { return PLAIN_FOLD(r, x, x); }
PLAIN double plain_part(const double *x, int64_t from, int64_t step)
{
  double r = PLAIN_FIRST ? x[from * PLAIN_INNER] : 0;
  for (int64_t l = from + (PLAIN_FIRST ? step : 0); l < PLAIN_LEN; l += step) r = plain_fold(r, x[l * PLAIN_INNER]);
  return r;
}
#ifdef PLAIN_TOGETHER // a block an element
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  SHARED double part[256];
  const int64_t i = PLAIN_BLOCK, from = i / PLAIN_INNER * PLAIN_LEN * PLAIN_INNER + i % PLAIN_INNER;
  EACH(t)
    part[t] = plain_part(X + from, t, 256);
  for (int half = 128; half; half /= 2) {
    MEET;
    EACH(t)
      if (t < half) part[t] = plain_fold(part[t], part[t + half]);
  }
  EACH(t)
    if (!t) o[i] = plain_kept(part[0] / PLAIN_COUNT, i, state);
}
#else // a thread an element
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  EACH(t) {
    const int64_t i = PLAIN_BLOCK * 256 + t;
    if (i < PLAIN_SIZE) {
      const double r = plain_part(X + i / PLAIN_INNER * PLAIN_LEN * PLAIN_INNER + i % PLAIN_INNER, 0, 1);
      o[i] = plain_kept(r / PLAIN_COUNT, i, state);
    }
  }
}
#endif
#endif

#ifdef PLAIN_BEST // the largest PLAIN_BEST of [outer, PLAIN_EXTENT, PLAIN_INNER], or their indices: a block a row, one after the other
PLAIN int plain_before(const double *row, int64_t i, int64_t k)
{
  const double x = row[i * PLAIN_INNER], y = row[k * PLAIN_INNER];
  if (isnan(x) || isnan(y)) return isnan(x) && (!isnan(y) || i < k);
  return x > y || (!(x < y) && i < k);
}
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  SHARED int64_t best[256];
  const double *const row = X + PLAIN_BLOCK / PLAIN_INNER * PLAIN_EXTENT * PLAIN_INNER + PLAIN_BLOCK % PLAIN_INNER;
  int64_t last = -1;
  for (int64_t k = 0; k < PLAIN_BEST; k++) {
    EACH(t) {
      int64_t own = -1;
      for (int64_t l = t; l < PLAIN_EXTENT; l += 256)
        if ((last < 0 || plain_before(row, last, l)) && (own < 0 || plain_before(row, l, own))) own = l;
      best[t] = own;
    }
    for (int half = 128; half; half /= 2) {
      MEET;
      EACH(t)
        if (t < half && best[t + half] >= 0 && (best[t] < 0 || plain_before(row, best[t + half], best[t]))) best[t] = best[t + half];
    }
    MEET;
    last = best[0];
    MEET;
    EACH(t)
      if (!t) {
        const int64_t i = (PLAIN_BLOCK / PLAIN_INNER * PLAIN_BEST + k) * PLAIN_INNER + PLAIN_BLOCK % PLAIN_INNER;
        o[i] = plain_kept(PLAIN_INDICES ? (double)last : row[last * PLAIN_INNER], i, state);
      }
  }
}
#endif

#ifdef PLAIN_WRITES // slices of Z, at the indices of Y, in the order of PLAIN_WRITES, over a copy of X that is there
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  EACH(t) {
    const int64_t i = PLAIN_BLOCK * 256 + t, outer = i / PLAIN_INNER, inner = i % PLAIN_INNER;
    for (int64_t k = 0; k < PLAIN_WRITES && i < PLAIN_SIZE; k++) {
      const int64_t index = plain_index(Y[k], -1, PLAIN_EXTENT, state), at = (outer * PLAIN_EXTENT + index) * PLAIN_INNER + inner;
      if (index >= 0) o[at] = plain_kept(Z[(outer * PLAIN_WRITES + k) * PLAIN_INNER + inner], at, state);
    }
  }
}
#endif
