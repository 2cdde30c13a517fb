// Private declarations of rates.c and rates_*.c.
#ifndef MICA_RATES_H
#define MICA_RATES_H

#include "target/host.h"

enum { COPY = 48 << 20, FMA_STEPS = 400000, EXP_FLOATS = 4096, EXP_STEPS = 200, FMA_CHAINS = 12, CACHE_ROUNDS = 32 };

struct lab {
  const struct target *t;
  float *memory; // two buffers of COPY bytes
  double *sink;  // by thread: unused results, stored so that the compiler keeps the work
  void (*work)(struct lab *, int worker);
};
struct rates_work { // loops that do a thread's share, with vectors of `lanes` floats
  int lanes;
  void (*copy)(struct lab *, int worker), (*read_cache)(struct lab *, int worker), (*multiply_add)(struct lab *, int worker),
      (*multiply_pairs)(struct lab *, int worker), // of bf16; NULL: no instruction does
      (*exponential)(struct lab *, int worker);
  double pair_operations; // of multiply_pairs, by a thread
  double pair_rate;       // typical rate of multiply_pairs over that of multiply_add
};
extern const struct rates_work rates_plain, rates_avx2, rates_avx512, rates_bf16, rates_amx; // all but the first on x86-64 alone
const struct rates_work *rates_work(void);                                                   // the widest that this processor has
bool rates_tiles(void); // whether the system lets this process use the tiles of AMX, which the processor must have

static inline size_t cached_floats(const struct lab *lab) { return (size_t)lab->t->l2 / 2 / 64 * 16; }

#endif
