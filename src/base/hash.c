// Hashing by xxHash, the normal distribution by Box and Muller, and the clock.
#include "base/base.h"

#include <math.h>
#include <time.h>
#include <xxhash.h>

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed) { return XXH64(p, n, seed); }

double rng_normal(struct rng *r)
{
  double u = rng_unit(r), v = rng_unit(r);
  return sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v);
}

double now_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
