// field: arithmetic on pairs (value mod p, value mod q) for random tests (L. Wu et al., "Mirage: A Multi-Level
// Superoptimizer for Tensor Programs", section 5, Table 3). An exponential maps the part mod q to omega^x mod p; the
// part mod q of its result is lost. An operation on a lost part gives a lost part.
//
// Glossary
//   pair      struct ffv; both parts in Montgomery form (x * 2^64 mod n), below their modulus, so that equal
//             values have equal bits; q = FF_NONE once lost
//   opaque    an operator without algebraic laws: a secret-keyed hash of its arguments' p parts, which acts as a random
//             function. Results are equal only if they are equal for every function
//   order     max and min follow a secret-keyed total order of the p parts: idempotent, commutative,
//             associative and consistent with each other. With opaque_max they are opaque functions instead,
//             idempotent and commutative
//
// A struct field also counts divisions by zero and exponentials of lost values, which a test must know. Therefore only
// one run may use it at a time.
#ifndef MICA_FIELD_H
#define MICA_FIELD_H

#include "eval/primes.h"

struct ffv {
  uint64_t p, q;
};
#define FF_NONE UINT64_MAX
static const struct ffv FF_ZERO = {0, 0};

struct modulus {
  uint64_t n;    // an odd prime below 2^62
  uint64_t minv; // -1/n mod 2^64
  uint64_t one;  // 2^64 mod n
  uint64_t sq;   // 2^128 mod n
};

enum { FF_WINDOW = 4, FF_ROWS = 64 / FF_WINDOW, FF_CONSTS = 8 };

struct field {
  struct modulus P, Q;
  uint64_t omega;                          // a q-th root of unity mod p other than 1, Montgomery form
  uint64_t power[FF_ROWS][1 << FF_WINDOW]; // omega^(j << 4i)
  uint64_t key;                            // secret of opaque functions and of the order
  bool opaque_max;
  // counts since field_open
  uint64_t zero_divisions; // of 1/0, which is 0 here
  uint64_t lost_exps;      // exponentials of a lost value, that is, two on one path; opaque here
  // caches
  struct ffv inv_of, inv_is;
  struct {
    double c;
    struct ffv v;
    bool set;
  } consts[FF_CONSTS];
};

// Initializes the field of a pair of primes; omega and key are drawn from the seed.
void field_open(struct field *F, struct primes primes, uint64_t seed);
struct ffv field_random(const struct field *F, struct rng *r);
uint64_t mod_pow(const struct modulus *m, uint64_t x, uint64_t e); // x and result in Montgomery form
struct modulus mod_open(uint64_t n);

struct ffv ff_inv(struct field *F, struct ffv x);        // 1/0 = 0, counted
struct ffv ff_sqrt(const struct field *F, struct ffv x); // multiplicative; squares to x or -x
struct ffv ff_exp(struct field *F, struct ffv x);
bool ff_small(const struct field *F, struct ffv x, int64_t most, int64_t *out); // x as a whole number with |*out| <= most; false if it is none
struct ffv ff_opaque(const struct field *F, int op, struct ffv x, struct ffv y);
struct ffv ff_max(const struct field *F, struct ffv x, struct ffv y);
struct ffv ff_min(const struct field *F, struct ffv x, struct ffv y);
// The rational number that c stands for (base/rational.h): 0.1 is 1/10.
struct ffv ff_const(struct field *F, double c);

static inline uint64_t mod_reduce(const struct modulus *m, unsigned __int128 t) // t < n * 2^64
{
  uint64_t k = (uint64_t)t * m->minv, r = (uint64_t)((t + (unsigned __int128)k * m->n) >> 64);
  return r - (r >= m->n ? m->n : 0);
}
static inline uint64_t mod_mul(const struct modulus *m, uint64_t x, uint64_t y) { return mod_reduce(m, (unsigned __int128)x * y); }
static inline uint64_t mod_add(const struct modulus *m, uint64_t x, uint64_t y)
{
  uint64_t r = x + y;
  return r - (r >= m->n ? m->n : 0);
}
static inline uint64_t mod_sub(const struct modulus *m, uint64_t x, uint64_t y) { return x - y + (x < y ? m->n : 0); }
static inline uint64_t mod_from(const struct modulus *m, uint64_t x) { return mod_reduce(m, x); }          // out of Montgomery form
static inline uint64_t mod_to(const struct modulus *m, uint64_t x) { return mod_mul(m, x % m->n, m->sq); } // into it

static inline bool ff_lost(struct ffv x) { return x.q >> 63; }
static inline bool ff_lost2(struct ffv x, struct ffv y) { return (x.q | y.q) >> 63; }
static inline struct ffv ff_add(const struct field *F, struct ffv x, struct ffv y)
{
  return (struct ffv){mod_add(&F->P, x.p, y.p), ff_lost2(x, y) ? FF_NONE : mod_add(&F->Q, x.q, y.q)};
}
static inline struct ffv ff_sub(const struct field *F, struct ffv x, struct ffv y)
{
  return (struct ffv){mod_sub(&F->P, x.p, y.p), ff_lost2(x, y) ? FF_NONE : mod_sub(&F->Q, x.q, y.q)};
}
static inline struct ffv ff_mul(const struct field *F, struct ffv x, struct ffv y)
{
  return (struct ffv){mod_mul(&F->P, x.p, y.p), ff_lost2(x, y) ? FF_NONE : mod_mul(&F->Q, x.q, y.q)};
}
static inline struct ffv ff_neg(const struct field *F, struct ffv x) { return ff_sub(F, FF_ZERO, x); }
static inline struct ffv ff_div(struct field *F, struct ffv x, struct ffv y) { return ff_mul(F, x, ff_inv(F, y)); }

#endif
