// Fingerprints: tensors over small extents and a pair of 32- and 31-bit primes drawn by the seed (paper, section 5.2). Equal tensors have equal
// fingerprints. Different ones have different fingerprints except with probability about 2^-30, and the verifier checks the results. Field semantics
// come from op.def's column F, on a pair of 32-bit words.
#include "base/rational.h"
#include "eval/primes.h"
#include "search/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct field_pair { // the type on which the rows' F works here
  const struct fctx *f;
  struct {
    double c;
    struct fv v;
    bool set;
  } memo[4]; // cached constants: a row's function asks for them for every element
};

// x mod n by multiplication with floor(2^64 / n): the quotient is at most one too small.
static inline uint32_t reduced(const struct finger_prime *m, uint64_t x)
{
  uint64_t r = x - (uint64_t)((unsigned __int128)x * m->inverse >> 64) * m->n;
  return (uint32_t)(r >= m->n ? r - m->n : r);
}
static inline uint32_t times(const struct finger_prime *m, uint32_t a, uint32_t b) { return reduced(m, (uint64_t)a * b); }
static inline uint32_t plus(const struct finger_prime *m, uint32_t a, uint32_t b)
{
  uint64_t s = (uint64_t)a + b;
  return (uint32_t)(s >= m->n ? s - m->n : s);
}
static uint32_t power(const struct finger_prime *m, uint32_t x, uint64_t n)
{
  uint32_t r = 1;
  for (; n; n >>= 1, x = times(m, x, x))
    if (n & 1) r = times(m, r, x);
  return r;
}

static inline struct fv ff_add(struct field_pair *F, struct fv x, struct fv y)
{
  return (struct fv){plus(&F->f->p, x.p, y.p), plus(&F->f->q, x.q, y.q)};
}
static inline struct fv ff_neg(struct field_pair *F, struct fv x) { return (struct fv){x.p ? F->f->p.n - x.p : 0, x.q ? F->f->q.n - x.q : 0}; }
static inline struct fv ff_sub(struct field_pair *F, struct fv x, struct fv y) { return ff_add(F, x, ff_neg(F, y)); }
static inline struct fv ff_mul(struct field_pair *F, struct fv x, struct fv y)
{
  return (struct fv){times(&F->f->p, x.p, y.p), times(&F->f->q, x.q, y.q)};
}
static struct fv ff_inv(struct field_pair *F, struct fv x)
{
  return (struct fv){power(&F->f->p, x.p, F->f->p.n - 2), power(&F->f->q, x.q, F->f->q.n - 2)};
}
static struct fv ff_div(struct field_pair *F, struct fv x, struct fv y) { return ff_mul(F, x, ff_inv(F, y)); }
static struct fv ff_sqrt(struct field_pair *F, struct fv x)
{
  return (struct fv){power(&F->f->p, x.p, ((uint64_t)F->f->p.n + 1) / 4), power(&F->f->q, x.q, ((uint64_t)F->f->q.n + 1) / 4)};
}
static struct fv ff_exp(struct field_pair *F, struct fv x)
{
  const uint32_t(*t)[2048] = F->f->power;
  return (struct fv){times(&F->f->p, times(&F->f->p, t[0][x.q & 2047], t[1][x.q >> 11 & 2047]), t[2][x.q >> 22]), 0};
}
static struct fv ff_opaque(struct field_pair *F, enum op op, struct fv x, struct fv y)
{
  uint64_t h = hash_mix(hash_mix(F->f->key + (uint64_t)op, (uint64_t)x.p << 32 | x.q), (uint64_t)y.p << 32 | y.q);
  return (struct fv){(uint32_t)(h % F->f->p.n), (uint32_t)((h >> 20) % F->f->q.n)};
}
static uint64_t order(struct field_pair *F, struct fv x) { return hash_mix(F->f->key, (uint64_t)x.p << 32 | x.q); }
static struct fv ff_max(struct field_pair *F, struct fv x, struct fv y) { return order(F, x) < order(F, y) ? y : x; }
static struct fv ff_min(struct field_pair *F, struct fv x, struct fv y) { return order(F, x) < order(F, y) ? x : y; }

static uint32_t rational_part(const struct finger_prime *m, const struct rational *c)
{
  uint32_t up = times(m, power(m, 10, (uint64_t)MAX(0, c->tens)), power(m, 2, (uint64_t)MAX(0, c->twos)));
  uint32_t down = times(m, power(m, 10, (uint64_t)MAX(0, -c->tens)), power(m, 2, (uint64_t)MAX(0, -c->twos)));
  down = times(m, down, reduced(m, c->d));
  uint32_t r = times(m, times(m, reduced(m, c->n), up), power(m, down, m->n - 2));
  return c->negative && r ? m->n - r : r;
}

static struct fv rational(struct field_pair *F, double c)
{
  if (!isfinite(c)) c = isnan(c) ? 1 : 2; // no program has such a constant
  struct rational r = rational_of(c);
  return (struct fv){rational_part(&F->f->p, &r), rational_part(&F->f->q, &r)};
}

static struct fv ff_const(struct field_pair *F, double c)
{
  int i = (int)(hash_bytes(&c, sizeof c, 0) % COUNT(F->memo));
  if (!F->memo[i].set || F->memo[i].c < c || F->memo[i].c > c) {
    struct fv v = rational(F, c);
    F->memo[i].c = c, F->memo[i].v = v, F->memo[i].set = true;
  }
  return F->memo[i].v;
}

#include "eval/law_field.h"
typedef struct fv map_fn(struct field_pair *F, const struct attrs *a, struct fv x, struct fv y);
#define K(c) (c)
#define DEFINE_MAP(id, law)                                                                        \
  static struct fv map_##id(struct field_pair *F, const struct attrs *a, struct fv x, struct fv y) \
  {                                                                                                \
    ATTR_LOCALS(a);                                                                                \
    const struct fv r = x;                                                                         \
    (void)F, (void)y, (void)r;                                                                     \
    return law;                                                                                    \
  }
#define OP(id, name, least, most, rule, levels, attrs, flags, code, law, abstract, range, cost, doc) DEFINE_MAP(id, law)
#include "ir/op.def"
#undef OP
#undef K
static map_fn *const maps[OPS] = {
#define OP(id, ...) [OP_##id] = map_##id,
#include "ir/op.def"
#undef OP
};

static struct finger_prime prime_of(uint64_t n) { return (struct finger_prime){(uint32_t)n, (uint32_t)(((uint64_t)1 << 32) % n), UINT64_MAX / n}; }

void finger_open(struct fctx *f, const struct space *s, uint64_t seed)
{
  struct rng r = {seed ^ 0x6d696361};
  struct primes primes = primes_draw(PRIMES_FILTER, seed, 0, NULL);
  f->s = s, f->key = rng_next(&r), f->p = prime_of(primes.p), f->q = prime_of(primes.q);
  uint32_t omega = power(&f->p, (uint32_t)(2 + rng_below(&r, f->p.n - 3)), 2); // a square, so its order is q
  for (int k = 0; k < 3; k++) {
    uint32_t step = power(&f->p, omega, (uint64_t)1 << (11 * k));
    f->power[k][0] = 1;
    for (int i = 1; i < 2048; i++) f->power[k][i] = times(&f->p, f->power[k][i - 1], step);
  }
}

int64_t finger_size(const struct space *s, mask has)
{
  int64_t n = 1;
  for (int b = 0; b < 3 * s->nclass; b++)
    if (has >> b & 1) n *= s->classes[b / 3].small[b % 3];
  return n;
}

static struct finger make(const struct fctx *f, struct arena *mem, mask has, bool q)
{
  int64_t n = finger_size(f->s, has);
  return (struct finger){has, q, n, NEWS(mem, struct fv, n)};
}

// Each element depends on its index in the tensor alone, so two visits of one tensor read the same numbers.
void finger_input(const struct fctx *f, struct arena *mem, const struct visit *v, struct finger *out)
{
  const struct space *s = f->s;
  *out = make(f, mem, v->full, true);
  for (int64_t i = 0; i < out->n; i++) {
    int digit[3 * MAX_CLASSES];
    int64_t rest = i;
    for (int b = 3 * s->nclass - 1; b >= 0; b--) {
      if (!(v->full >> b & 1)) continue;
      digit[b] = (int)(rest % s->classes[b / 3].small[b % 3]), rest /= s->classes[b / 3].small[b % 3];
    }
    uint64_t h = hash_mix(f->key, (uint64_t)v->tensor);
    for (int d = 0; d < v->l.n; d++)
      for (int k = 0; k < v->l.d[d].n; k++)
        for (int p = 0; p < 3; p++) h = hash_mix(h, (uint64_t)digit[3 * v->l.d[d].c[k] + p]);
    out->v[i] = (struct fv){(uint32_t)(h % f->p.n), (uint32_t)(hash_mix(h, 1) % f->q.n)};
  }
}

void finger_const(const struct fctx *f, struct arena *mem, double x, struct finger *out)
{
  *out = make(f, mem, 0, true);
  out->v[0] = ff_const(&(struct field_pair){.f = f}, x);
}

// ---- iteration: the pieces of `all` as loops; adjacent loops are merged if every tensor's steps permit ----

struct finger_walk {
  int n;
  int64_t extent[3 * MAX_CLASSES], step[3][3 * MAX_CLASSES]; // steps of up to three tensors
};

static void walk_open(struct finger_walk *w, const struct space *s, mask all, const mask *has, int tensors)
{
  int64_t step[3] = {1, 1, 1};
  w->n = 0;
  for (int b = 3 * s->nclass - 1; b >= 0; b--) {
    int64_t e = s->classes[b / 3].small[b % 3];
    if (!(all >> b & 1) || e == 1) continue;
    bool merge = w->n > 0;
    for (int t = 0; t < tensors; t++) {
      int64_t here = has[t] >> b & 1 ? step[t] : 0;
      if (w->n) merge &= here == w->step[t][w->n - 1] * w->extent[w->n - 1];
      w->step[t][w->n] = here;
      if (here) step[t] *= e;
    }
    if (merge)
      w->extent[w->n - 1] *= e;
    else
      w->extent[w->n++] = e;
  }
  if (!w->n) {
    w->extent[w->n++] = 1;
    for (int t = 0; t < 3; t++) w->step[t][0] = 0;
  }
}

// Advances the outer loops (all but loop 0, the innermost); false at the end.
static bool walk_next(const struct finger_walk *w, int64_t *index, int64_t *at, int tensors)
{
  for (int d = 1; d < w->n; d++) {
    for (int t = 0; t < tensors; t++) at[t] += w->step[t][d];
    if (++index[d] < w->extent[d]) return true;
    for (int t = 0; t < tensors; t++) at[t] -= w->step[t][d] * w->extent[d];
    index[d] = 0;
  }
  return false;
}

// The inverses of all elements, 0 for 0, by one inversion of the product of all.
static void invert_all(const struct fctx *f, struct arena *mem, const struct finger *x, struct finger *out)
{
  struct field_pair F = {.f = f};
  *out = make(f, mem, x->has, x->q);
  struct fv all = {1, 1};
  for (int64_t i = 0; i < x->n; i++) {
    out->v[i] = all;
    if (x->v[i].p) all.p = times(&f->p, all.p, x->v[i].p);
    if (x->v[i].q) all.q = times(&f->q, all.q, x->v[i].q);
  }
  all = ff_inv(&F, all);
  for (int64_t i = x->n - 1; i >= 0; i--) {
    struct fv v = x->v[i];
    out->v[i] = (struct fv){v.p ? times(&f->p, out->v[i].p, all.p) : 0, v.q ? times(&f->q, out->v[i].q, all.q) : 0};
    if (v.p) all.p = times(&f->p, all.p, v.p);
    if (v.q) all.q = times(&f->q, all.q, v.q);
  }
}

// Applies fn to all elements; inlined for a known fn.
static inline __attribute__((always_inline)) void map_all(const struct fctx *f, map_fn *fn, const struct attrs *a, const struct finger_walk *w,
                                                          const struct finger *x, const struct finger *y, struct finger *out)
{
  struct field_pair F = {.f = f};
  int64_t index[3 * MAX_CLASSES] = {0}, at[3] = {0};
  do {
    for (int64_t i = 0; i < w->extent[0]; i++) {
      struct fv vx = x->v[at[1] + i * w->step[1][0]], vy = y ? y->v[at[2] + i * w->step[2][0]] : vx;
      struct fv r = fn(&F, a, vx, vy);
      if (!out->q) r.q = 0;
      out->v[at[0] + i * w->step[0][0]] = r;
    }
  } while (walk_next(w, index, at, 3));
}

bool finger_map(const struct fctx *f, struct arena *mem, enum op op, const struct attrs *a, const struct finger *x, const struct finger *y,
                struct finger *out)
{
  struct finger inverse;
  if (op == OP_EXP && !x->q) return false;
  if (op == OP_DIV) {
    invert_all(f, mem, y, &inverse);
    y = &inverse, op = OP_MUL;
  }
  mask all = x->has | (y ? y->has : 0);
  *out = make(f, mem, all, op != OP_EXP && x->q && (!y || y->q));
  struct finger_walk w;
  walk_open(&w, f->s, all, (mask[]){all, x->has, y ? y->has : 0}, 3);
  if (op == OP_MUL)
    map_all(f, map_MUL, a, &w, x, y, out);
  else if (op == OP_ADD)
    map_all(f, map_ADD, a, &w, x, y, out);
  else
    map_all(f, maps[op], a, &w, x, y, out);
  return true;
}

void finger_fold(const struct fctx *f, struct arena *mem, enum op op, const struct finger *x, mask over, int64_t scale, struct finger *out)
{
  struct field_pair F = {.f = f};
  const struct attrs none = {0};
  *out = make(f, mem, x->has & ~over, x->q);
  bool *seen = NEWS(mem, bool, out->n);
  struct finger_walk w;
  walk_open(&w, f->s, x->has, (mask[]){out->has, x->has}, 2);
  int64_t index[3 * MAX_CLASSES] = {0}, at[3] = {0};
  map_fn *square = op == OP_ACCUM_RMS ? maps[OP_SQUARE] : NULL;
  bool max = op == OP_MAX;
  do {
    for (int64_t i = 0; i < w.extent[0]; i++) {
      struct fv v = x->v[at[1] + i * w.step[1][0]];
      int64_t o = at[0] + i * w.step[0][0];
      if (square) v = square(&F, &none, v, v);
      out->v[o] = !seen[o] ? v : max ? ff_max(&F, out->v[o], v) : ff_add(&F, out->v[o], v);
      seen[o] = true;
    }
  } while (walk_next(&w, index, at, 2));
  struct fv s = {1, 1};
  if (scale != 1) s = ff_inv(&F, (struct fv){(uint32_t)scale, (uint32_t)scale});
  for (int64_t i = 0; i < out->n; i++) {
    if (scale != 1) out->v[i] = ff_mul(&F, out->v[i], s);
    if (square) out->v[i] = ff_sqrt(&F, out->v[i]);
    if (!out->q) out->v[i].q = 0;
  }
}

// Adds the sum of n products to one element. The halves of each product are summed apart, so 2^31 terms do not overflow.
static void add_inner(const struct fctx *f, struct fv *out, const struct fv *x, int64_t dx, const struct fv *y, int64_t dy, int64_t n)
{
  uint64_t pl = out->p, ph = 0, ql = out->q, qh = 0;
  for (int64_t i = 0; i < n; i++) {
    struct fv a = x[i * dx], b = y[i * dy];
    uint64_t p = (uint64_t)a.p * b.p, q = (uint64_t)a.q * b.q;
    pl += (uint32_t)p, ph += p >> 32, ql += (uint32_t)q, qh += q >> 32;
  }
  out->p = reduced(&f->p, reduced(&f->p, pl) + (uint64_t)reduced(&f->p, ph) * f->p.carry);
  out->q = reduced(&f->q, reduced(&f->q, ql) + (uint64_t)reduced(&f->q, qh) * f->q.carry);
}

// Adds one product to each of n elements.
static void add_outer(const struct fctx *f, struct fv *out, int64_t d, const struct fv *x, int64_t dx, const struct fv *y, int64_t dy, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    struct fv a = x[i * dx], b = y[i * dy], *o = &out[i * d];
    *o = (struct fv){reduced(&f->p, (uint64_t)a.p * b.p + o->p), reduced(&f->q, (uint64_t)a.q * b.q + o->q)};
  }
}

// An element without a q part stores 0 there, so the q part of each of its products is 0.
void finger_product(const struct fctx *f, struct arena *mem, const struct finger *x, const struct finger *y, mask over, struct finger *out)
{
  mask all = x->has | y->has;
  *out = make(f, mem, all & ~over, x->q && y->q);
  struct finger_walk w;
  walk_open(&w, f->s, all, (mask[]){out->has, x->has, y->has}, 3);
  int64_t index[3 * MAX_CLASSES] = {0}, at[3] = {0}, d = w.step[0][0], dx = w.step[1][0], dy = w.step[2][0];
  do {
    if (d)
      add_outer(f, &out->v[at[0]], d, &x->v[at[1]], dx, &y->v[at[2]], dy, w.extent[0]);
    else
      add_inner(f, &out->v[at[0]], &x->v[at[1]], dx, &y->v[at[2]], dy, w.extent[0]);
  } while (walk_next(&w, index, at, 3));
}

uint64_t finger_hash(const struct finger *x)
{
  uint64_t h = hash_mix(x->has, x->q);
  return hash_mix(h, hash_bytes(x->v, sizeof *x->v * (size_t)x->n, 17));
}
