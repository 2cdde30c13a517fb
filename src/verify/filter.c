// The cheap filter of the search: one test over a pair of 32-bit primes at reduced extents. Graphs with maxima get eight tests, because one random
// order hides half of their faults. A pair that fails goes to the formal check, because fields lack laws of roots, maxima and opaque functions.
// Division by zero keeps every law. Constants of means are rescaled if the first test fails.
#include "verify/proof.h"

static const int64_t AFFORDABLE = 2000000; // field operations at full size

static bool has_maximum(const struct graph *g)
{
  for (int i = 0; i < g->nnodes; i++) {
    enum abstract a = op_rows[g->nodes[i].op].abstract;
    if (a == AE_MAX || a == AE_ACCUM_MAX || a == AE_EWMAX || a == AE_EWMIN) return true;
    if (g->nodes[i].sub && has_maximum(g->nodes[i].sub)) return true;
  }
  return false;
}

static bool passes(const struct graph *a, const struct graph *b, uint64_t seed)
{
  int n = has_maximum(a) || has_maximum(b) ? 8 : 1;
  for (int i = 0; i < n; i++) {
    struct verify_place where;
    struct err e = {0};
    struct trial t = {a, b, .bits = PRIMES_FILTER, .threads = 1};
    enum verdict v = trial_run(&t, seed + (uint64_t)i, &where, &e);
    if (v != SAME && v != ZERO_DIVISOR) return false;
  }
  return true;
}

static bool affordable(const struct graph *a, const struct graph *b) { return work_ops(a) + work_ops(b) <= AFFORDABLE; }

// A pair that fails at reduced extents may be equal at full size, because a constant may fit only there.
static bool filter(struct arena *mem, const struct graph *a, const struct graph *b, uint64_t seed)
{
  struct graph *sa, *sb;
  if (!shrink_pair(mem, a, b, VARIED, &sa, &sb)) return !affordable(a, b) || passes(a, b, seed);
  if (passes(sa, sb, seed)) return true;
  if (shrink_pair(mem, a, b, TINY, &sa, &sb) && rescale_constants(sa, a) + rescale_constants(sb, b) && passes(sa, sb, seed)) return true;
  return affordable(a, b) && passes(a, b, seed);
}

bool verify_filter(const struct graph *a, const struct graph *b, uint64_t seed)
{
  struct arena mem = {0};
  struct graph *pa, *pb;
  struct err e = {0};
  char why[160];
  bool same = signature_match(a, b, &e) == OK && graph_expand(&mem, a, false, &pa, &e) == OK && graph_expand(&mem, b, false, &pb, &e) == OK &&
              (filter(&mem, pa, pb, seed) || verify_prove(pa, pb, why));
  arena_close(&mem);
  return same;
}
