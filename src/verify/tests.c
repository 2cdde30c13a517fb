// Chooses the tests for a pair of graphs, and draws conclusions from them.
//
// Each test over fields draws its primes. Maxima are opaque functions, which is sound for any meaning of the maximum. A random order of the elements
// would accept more pairs, and wrong ones too: a difference may show in only one of exponentially many orders. Work is limited by counts of
// operations and never by time, so results do not depend on the machine.
#include "verify/proof.h"

#include <math.h>

static const double DELTA = 1e-9;
static const int64_t OVERHEAD = 20000; // operations equivalent to the fixed cost of a test
enum { MOST_TESTS = 200000 };
enum { BLIND = 4 }; // least number of tests if no theorem gives a number; small graphs get more
static const int64_t BLIND_OPS = 40000000;
enum { MOST_BLIND = 64 };
static const uint64_t LEAST_P = (uint64_t)1 << 61, LEAST_Q = (uint64_t)1 << 60; // of pairs with PRIMES_TEST bits

static double delta_of(const struct testing *t) { return t->o->delta > 0 ? t->o->delta : DELTA; }

struct testing testing_of(const struct verify_opts *o, uint64_t seed, const struct graph *a, const struct graph *b)
{
  struct testing t = {.o = o, .seed = seed, .a = a, .b = b, .bound = size_pair(a, b)};
  t.error = size_error(&t.bound, LEAST_P, LEAST_Q);
  double n = t.error < 1 ? ceil(log(delta_of(&t)) / log(t.error)) : 1e9;
  t.wanted = n < 1e9 ? MAX(1, (int)n) : 1000000000;
  t.ops = work_ops(a) + work_ops(b) + OVERHEAD;
  t.faithful = work_faithful(a) && work_faithful(b) && !t.bound.gap;
  return t;
}

static int affordable(const struct testing *t, int64_t ops)
{
  int64_t blind = MAX(BLIND, MIN(MOST_BLIND, BLIND_OPS / t->ops));
  int64_t wanted = t->error >= 1 ? blind : MAX(t->wanted, t->faithful ? 1 : blind);
  return (int)MAX(1, MIN(wanted, MIN(MOST_TESTS, ops / t->ops)));
}

enum verdict testing_fields(struct testing *t, int64_t ops, struct err *e)
{
  struct trial trial = {t->a, t->b, PRIMES_TEST, t->bound.maxima, 1, t->o->stop, 0, {0}};
  int n = affordable(t, ops), threads = MAX(1, t->o->threads);
  if (n < threads) trial.threads = threads;
  trial_residues(&trial);
  t->first = trial_primes(&trial, trial_seed(t->seed, 0));
  return trial_many(&trial, n, t->seed, n < threads ? 1 : threads, &t->passed, &t->where, e);
}

static int clamp(double x) { return x < 1e9 ? (int)x : 1000000000; }

void testing_credit(const struct testing *t, struct certificate *c)
{
  c->tests = t->passed, c->p = t->first.p, c->q = t->first.q;
  c->k = t->bound.exps ? clamp(t->bound.diff.k) : 0;
  c->degree = clamp(MAX(t->bound.diff.d, t->bound.diff.h));
  c->delta = t->error >= 1 ? 1 : pow(t->error, t->passed);
  if (t->bound.gap) certificate_note(c, "not covered: %s", t->bound.gap);
  if (t->bound.maxima) certificate_note(c, "holds whatever values the maxima have");
  if (!t->bound.gap && c->delta > delta_of(t)) certificate_note(c, "%d tests would give the wanted delta", t->wanted);
}
