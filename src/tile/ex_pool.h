// ex_pool: internals of the pool of integer expressions (ex.h), shared by the files that build them.
//
//   ex.c        the pool, sums and products       ex_range.c   ranges and divisors of new nodes
//   ex_term.c   sums under construction           ex_divide.c  quotients and remainders
//   ex_logic.c  minima, bits, comparisons, truth  ex_text.c    printing
//   ex_eval.c   evaluating, substituting
//
// Bounds on work for hostile input. An expanded node has at most EX_WEIGHT nodes and depth EX_DEPTH; a sum has at most EX_TERMS terms. A larger node,
// or a number beyond 62 bits, is replaced by 0 or the nearest number, and ex_overflowed reports it from then on.
#ifndef MICA_TILE_EX_POOL_H
#define MICA_TILE_EX_POOL_H

#include "tile/ex.h"

enum { EX_TERMS = 64, EX_FACTORS = 16, EX_WEIGHT = 1 << 20, EX_DEPTH = 200 };
#define EX_INF INT64_MAX          // no upper bound; -EX_INF: no lower bound
#define EX_BIG ((int64_t)1 << 62) // bound on the absolute value of finite bounds and constants

struct ex_full {
  struct ex_node node;
  uint64_t hash;
  uint64_t vars; // bit v % 64 for every variable v in it
  int weight, depth;
  uint32_t stamp; // the last traversal that visited it, and its result
  ex memo;
};

struct ex_pool {
  struct arena *mem;
  struct ex_full **node;
  uint32_t n, cap;
  uint32_t *slot, slots; // open addressing; node + 1
  int vars;
  bool overflow;
  uint32_t stamp;
};

static inline struct ex_full *ex_full(const struct ex_pool *p, ex x) { return p->node[(uint64_t)x >> 1]; }
static inline bool ex_is(const struct ex_pool *p, ex x, enum ex_kind kind) { return !ex_is_const(x) && ex_full(p, x)->node.kind == kind; }
ex ex_number(struct ex_pool *p, __int128 v); // a constant; if it is out of range, the nearest one and an overflow
ex ex_make(struct ex_pool *p, enum ex_kind kind, int n, const ex *arg, const int64_t *coef, int64_t c);
static inline ex ex_make2(struct ex_pool *p, enum ex_kind kind, ex a, ex b) { return ex_make(p, kind, 2, (ex[]){a, b}, NULL, 0); }

// ---- ex_range.c ----
void ex_bound(const struct ex_pool *p, struct ex_node *n); // sets range and multiple
int64_t ex_gcd(int64_t a, int64_t b);                      // not negative
int64_t ex_floor(int64_t a, int64_t b);                    // b > 0
struct ex_range ex_range_add(struct ex_range a, struct ex_range b);
struct ex_range ex_range_mul(struct ex_range a, struct ex_range b);

// ---- ex_term.c ----
struct terms { // a sum under construction; t sorted and unique, every k nonzero
  int64_t c;
  int n;
  ex t[EX_TERMS];
  int64_t k[EX_TERMS];
};
struct mono { // coefficient times factors, sorted
  int64_t k;
  int n;
  ex f[EX_FACTORS];
};
void terms_of(struct ex_pool *p, ex x, struct terms *s);
void terms_add(struct ex_pool *p, struct terms *s, ex x, int64_t k); // s += k * x
void terms_const(struct ex_pool *p, struct terms *s, __int128 c);    // s += c
ex terms_done(struct ex_pool *p, struct terms *s);
void mono_of(const struct ex_pool *p, ex t, int64_t k, struct mono *m);       // of a term
bool mono_of_ex(const struct ex_pool *p, ex x, struct mono *m);               // false for a sum
ex mono_product(struct ex_pool *p, ex a, ex b);                               // of two terms that are not constants
bool mono_divide(const struct mono *a, const struct mono *b, struct mono *q); // exactly
void mono_gcd(const struct mono *a, const struct mono *b, struct mono *g);
ex mono_done(struct ex_pool *p, const struct mono *m);

// ---- ex_logic.c ----
bool ex_positive(struct ex_pool *p, ex x); // whether x >= 1 is proved

#endif
