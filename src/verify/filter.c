// The cheap filter of the search: one test over a 32-bit pair of primes at reduced extents. It rejects nothing that
// is equal: division by zero keeps every law, maxima follow an order, constants of means are rescaled where needed.
#include "verify/proof.h"

static const int64_t AFFORDABLE = 20000000; // field operations at full size

static bool passes(const struct graph *a, const struct graph *b, uint64_t seed)
{
  struct place where;
  struct err e = {0};
  enum verdict v = trial_run(&(struct trial){a, b, .bits = 32}, seed, &where, &e);
  return v == SAME || v == ZERO_DIVISOR;
}

static bool affordable(const struct graph *a, const struct graph *b) { return work_ops(a) + work_ops(b) <= AFFORDABLE; }

// What fails at reduced extents may still be equal at full size, by a constant that fits only there.
static bool filter(struct arena *mem, const struct graph *a, const struct graph *b, uint64_t seed)
{
  struct graph *sa, *sb;
  if (!shrink_pair(mem, a, b, VARIED, &sa, &sb)) return !affordable(a, b) || passes(a, b, seed);
  if (passes(sa, sb, seed)) return true;
  if (shrink_pair(mem, a, b, TINY, &sa, &sb) && rescale_constants(sa, a) + rescale_constants(sb, b) && passes(sa, sb, seed))
    return true;
  return affordable(a, b) && passes(a, b, seed);
}

bool verify_filter(const struct graph *a, const struct graph *b, uint64_t seed)
{
  struct arena mem = {0};
  struct graph *pa, *pb;
  struct err e = {0};
  bool same = signature_match(a, b, &e) == OK && graph_expand(&mem, a, false, &pa, &e) == OK &&
              graph_expand(&mem, b, false, &pb, &e) == OK && filter(&mem, pa, pb, seed);
  arena_close(&mem);
  return same;
}
