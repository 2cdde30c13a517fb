// One operator in double, as float64 references are computed on a GPU: no tile program, no scheme. The definitions before this text say which
// operator (plain_text.c), and the last argument has its shapes and its dtype (plain_args.h). The text is CUDA C++ and, for tests, C for the host,
// where a call is one block and each loop over threads is a loop.
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
#define PLAIN_CONSTANT const __grid_constant__
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
#define PLAIN_CONSTANT const
#endif
#define PLAIN_ARGUMENTS void *o_, int *state, const void *x_, const void *y_, const void *z_, PLAIN_CONSTANT struct plain_args p
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

PLAIN double plain_kept(double x, int64_t i, const struct plain_args *p, int *state)
{
  const int mode = state[1];
  if (p->raw) return x;
  if (!(fabs(x) <= p->largest)) state[0] = 1;
  if (mode & PLAIN_ROUNDS)
    x = p->exponent ? mica_float_from(mica_float_bits(x, p->exponent, p->mantissa, p->special), p->exponent, p->mantissa, p->special)
                    : plain_whole(x, p->bits);
  if (p->seed >= 0 && mode & (PLAIN_DOWN | PLAIN_EITHER)) x = plain_nudged(x, i, mode, p->underflow, (uint64_t)p->seed);
  return x;
}

struct plain_place { // of an element in the operands and in the result
  int64_t x, y, at;
};
PLAIN struct plain_place plain_find(int64_t i, const struct plain_args *p)
{
  struct plain_place k = {p->x0, 0, p->at0};
  for (int d = (int)p->dims - 1; d >= 0; d--) {
    const int64_t rest = d ? i / p->extent[d] : 0, index = i - rest * p->extent[d];
    k.x += index * p->x[d], k.y += index * p->y[d], k.at += index * p->at[d], i = rest;
  }
  return k;
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
    if (t < 4) state[t] = t == 1 ? (int)p.mode : 0;
}
#endif

#ifdef PLAIN_INPUT // an input in its dtype; bits: those of a word
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  EACH(t) {
    const int64_t i = PLAIN_BLOCK * 256 + t;
    if (i < p.size && p.exponent) {
      const uint32_t word = p.bits == 32 ? ((const uint32_t *)x_)[i] : p.bits == 16 ? ((const uint16_t *)x_)[i] : ((const uint8_t *)x_)[i];
      const double x = mica_float_from(word, p.exponent, p.mantissa, p.special);
      o[i] = state[1] & PLAIN_FLUSHES && fabs(x) <= p.tiny ? 0 : x;
    } else if (i < p.size)
      o[i] = p.bits == 64 ? (double)((const int64_t *)x_)[i] : p.bits == 32 ? (double)((const int32_t *)x_)[i] : ((const uint8_t *)x_)[i] != 0;
  }
}
#endif

#ifdef PLAIN_VALUE // an element of one or two operands; PLAIN_READS: how many
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  const double scalar = p.scalar, lo = p.lo, hi = p.hi, slope = p.slope;
  (void)scalar, (void)lo, (void)hi, (void)slope;
  EACH(t) {
    const int64_t i = PLAIN_BLOCK * 256 + t;
    if (i < p.size) {
      const struct plain_place k = plain_find(i, &p);
      const double x = PLAIN_READS > 0 ? X[k.x] : 0, y = PLAIN_READS > 1 ? Y[k.y] : 0;
      (void)x, (void)y;
      o[k.at] = plain_kept(PLAIN_VALUE, k.at, &p, state);
    }
  }
}
#endif

#ifdef PLAIN_GATHERS // elements of X [outer, along, inner] at the indices of Y
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  EACH(t) {
    const int64_t i = PLAIN_BLOCK * 256 + t, line = i / p.inner;
    if (i < p.size) {
      const int64_t at = line / p.many * p.along + plain_index(Y[line % p.many], 0, p.along, state);
      o[i] = plain_kept(X[at * p.inner + i % p.inner], i, &p, state);
    }
  }
}
#endif

#ifdef PLAIN_PRODUCT // of matrices: 64 x 64 of it a block, 4 x 4 a thread. The index is that of a matrix
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  enum { TILE = 64, STEP = 16 };
  SHARED double a[STEP][TILE + 1], b[STEP][TILE];
  const int64_t wide = (p.cols + TILE - 1) / TILE, high = (p.rows + TILE - 1) / TILE;
  const int64_t of = PLAIN_BLOCK / (wide * high), i0 = PLAIN_BLOCK / wide % high * TILE, j0 = PLAIN_BLOCK % wide * TILE;
  const struct plain_place matrix = plain_find(of, &p);
  const double *const left = X + matrix.x * p.rows * p.deep, *const right = Y + matrix.y * p.deep * p.cols;
  double sum[MINE][4][4];
  EACH(t)
    UNROLL for (int e = 0; e < 16; e++) sum[OWN(t)][e / 4][e % 4] = 0;
  for (int64_t k0 = 0; k0 < p.deep; k0 += STEP) {
    EACH(t) {
      UNROLL for (int e = 0; e < TILE * STEP / 256; e++) {
        const int at = e * 256 + t, row = at / STEP, k = at % STEP, deep = at / TILE, col = at % TILE;
        a[k][row] = i0 + row < p.rows && k0 + k < p.deep ? left[(i0 + row) * p.deep + k0 + k] : 0;
        b[deep][col] = j0 + col < p.cols && k0 + deep < p.deep ? right[(k0 + deep) * p.cols + j0 + col] : 0;
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
      const int64_t i = i0 + t / 16 + 16 * (e / 4), j = j0 + t % 16 + 16 * (e % 4), at = (of * p.rows + i) * p.cols + j;
      double x = 0;
      UNROLL for (int s = 0; s < 16; s++) x = s == e ? sum[OWN(t)][s / 4][s % 4] : x;
      if (i < p.rows && j < p.cols) o[at] = plain_kept(x, at, &p, state);
    }
  }
}
#endif

#ifdef PLAIN_SCAN // the sums so far of [outer, along, inner]: a thread has all of one outer and inner index
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  EACH(t) {
    const int64_t line = PLAIN_BLOCK * 256 + t, from = line / p.inner * p.along * p.inner + line % p.inner;
    double sum = 0;
    for (int64_t l = 0; l < p.along && line < p.size / p.along; l++) {
      const int64_t i = from + l * p.inner;
      sum += X[i], o[i] = plain_kept(sum, i, &p, state);
    }
  }
}
#endif

#ifdef PLAIN_REDUCES // [outer, along, inner]; PLAIN_FIRST: from its first element on
PLAIN double plain_fold(double r, double x) { return PLAIN_FOLD(r, x, x); }
PLAIN double plain_part(const double *x, int64_t from, int64_t step, const struct plain_args *p)
{
  double r = PLAIN_FIRST ? x[from * p->inner] : 0;
  for (int64_t l = from + (PLAIN_FIRST ? step : 0); l < p->along; l += step) r = plain_fold(r, x[l * p->inner]);
  return r;
}
#ifdef PLAIN_TOGETHER // a block an element
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  SHARED double part[256];
  const int64_t i = PLAIN_BLOCK, from = i / p.inner * p.along * p.inner + i % p.inner;
  EACH(t)
    part[t] = plain_part(X + from, t, 256, &p);
  for (int half = 128; half; half /= 2) {
    MEET;
    EACH(t)
      if (t < half) part[t] = plain_fold(part[t], part[t + half]);
  }
  EACH(t)
    if (!t) o[i] = plain_kept(part[0] / p.count, i, &p, state);
}
#else // a thread an element
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  EACH(t) {
    const int64_t i = PLAIN_BLOCK * 256 + t;
    if (i < p.size) {
      const double r = plain_part(X + i / p.inner * p.along * p.inner + i % p.inner, 0, 1, &p);
      o[i] = plain_kept(r / p.count, i, &p, state);
    }
  }
}
#endif
#endif

#ifdef PLAIN_SELECTS // the largest elements of [outer, along, inner], or their indices: a block a row, one after the other
PLAIN int plain_before(const double *row, int64_t i, int64_t k, int64_t inner)
{
  const double x = row[i * inner], y = row[k * inner];
  if (isnan(x) || isnan(y)) return isnan(x) && (!isnan(y) || i < k);
  return x > y || (!(x < y) && i < k);
}
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  SHARED int64_t best[256];
  const double *const row = X + PLAIN_BLOCK / p.inner * p.along * p.inner + PLAIN_BLOCK % p.inner;
  int64_t last = -1;
  for (int64_t k = 0; k < p.many; k++) {
    EACH(t) {
      int64_t own = -1;
      for (int64_t l = t; l < p.along; l += 256)
        if ((last < 0 || plain_before(row, last, l, p.inner)) && (own < 0 || plain_before(row, l, own, p.inner))) own = l;
      best[t] = own;
    }
    for (int half = 128; half; half /= 2) {
      MEET;
      EACH(t)
        if (t < half && best[t + half] >= 0 && (best[t] < 0 || plain_before(row, best[t + half], best[t], p.inner))) best[t] = best[t + half];
    }
    MEET;
    last = best[0];
    MEET;
    EACH(t)
      if (!t) {
        const int64_t i = (PLAIN_BLOCK / p.inner * p.many + k) * p.inner + PLAIN_BLOCK % p.inner;
        o[i] = plain_kept(p.indices ? (double)last : row[last * p.inner], i, &p, state);
      }
  }
}
#endif

#ifdef PLAIN_WRITES // slices of Z, at the indices of Y, one after the other, over a copy of X that is there
PLAIN_KERNEL PLAIN_NAME(PLAIN_ARGUMENTS)
{
  PLAIN_OPERANDS;
  EACH(t) {
    const int64_t i = PLAIN_BLOCK * 256 + t, outer = i / p.inner, inner = i % p.inner;
    for (int64_t k = 0; k < p.many && i < p.size; k++) {
      const int64_t index = plain_index(Y[k], -1, p.along, state), at = (outer * p.along + index) * p.inner + inner;
      if (index >= 0) o[at] = plain_kept(Z[(outer * p.many + k) * p.inner + inner], at, &p, state);
    }
  }
}
#endif
