// Chooses the tests for a pair of graphs, and draws conclusions from them.
//
// Each test over fields draws its primes. Maxima are first treated as opaque functions, which is sound for any meaning of the maximum; if that
// rejects, they follow random orders. Work is limited by counting operations and never by time, so results do not depend on the machine.
#include "verify/proof.h"

#include <math.h>

static const double DELTA = 1e-9;
static const int64_t OVERHEAD = 20000; // operations equivalent to the fixed cost of a test
enum { MOST_TESTS = 200000 };
enum { ORDERS = 1000 }; // least number of tests with maxima under random orders: most orders may hide a wrong choice
enum { BLIND = 4 };     // least number of tests if no theorem gives a number; small graphs get more
static const int64_t BLIND_OPS = 40000000;
enum { MOST_BLIND = 64 };
static const uint64_t LEAST_P = (uint64_t)1 << 61, LEAST_Q = (uint64_t)1 << 60; // of pairs with PRIMES_TEST bits

static double delta_of(const struct testing *t) { return t->o->delta > 0 ? t->o->delta : DELTA; }

static bool ordered(const struct testing *t) { return t->bound.maxima && !t->opaque_max; }

struct testing testing_of(const struct verify_opts *o, uint64_t seed, const struct graph *a, const struct graph *b)
{
  struct testing t = {.o = o, .seed = seed, .a = a, .b = b, .bound = size_pair(a, b)};
  t.error = size_error(&t.bound, LEAST_P, LEAST_Q);
  double n = t.error < 1 ? ceil(log(delta_of(&t)) / log(t.error)) : 1e9;
  t.wanted = n < 1e9 ? MAX(1, (int)n) : 1000000000;
  // One order in n shows whether an element is the largest of n.
  t.orders = t.bound.maxima ? ceil(-log(delta_of(&t)) * fmax(choices_among(a), choices_among(b))) : 0;
  t.ops = work_ops(a) + work_ops(b) + OVERHEAD;
  t.faithful = work_faithful(a) && work_faithful(b) && !t.bound.gap;
  return t;
}

static int affordable(const struct testing *t, int64_t ops)
{
  int64_t blind = MAX(BLIND, MIN(MOST_BLIND, BLIND_OPS / t->ops));
  const double most = fmin(MOST_TESTS, (double)(ops / t->ops)), orders = t->orders <= most ? fmax(ORDERS, t->orders) : ORDERS;
  int64_t wanted = ordered(t) ? (int64_t)orders : t->error >= 1 ? blind : MAX(t->wanted, t->faithful ? 1 : blind);
  return (int)MAX(1, MIN(wanted, MIN(MOST_TESTS, ops / t->ops)));
}

static enum verdict over_fields(struct testing *t, int64_t ops, struct err *e)
{
  struct trial trial = {t->a, t->b, PRIMES_TEST, t->opaque_max, 1, t->o->stop, 0, {0}};
  int n = affordable(t, ops), threads = MAX(1, t->o->threads);
  if (n < threads) trial.threads = threads;
  trial_residues(&trial);
  t->first = trial_primes(&trial, trial_seed(t->seed, 0));
  return trial_many(&trial, n, t->seed, n < threads ? 1 : threads, &t->passed, &t->where, e);
}

enum verdict testing_fields(struct testing *t, int64_t ops, struct err *e)
{
  t->opaque_max = t->bound.maxima;
  enum verdict v = over_fields(t, ops, e);
  if (v != DIFFERENT || !t->opaque_max) return v;
  t->opaque_max = false;
  return over_fields(t, ops, e);
}

bool testing_suffices(const struct testing *t) { return !ordered(t) || t->passed >= t->orders; }

static int clamp(double x) { return x < 1e9 ? (int)x : 1000000000; }

void testing_credit(const struct testing *t, struct certificate *c)
{
  bool order = ordered(t);
  c->tests = t->passed, c->p = t->first.p, c->q = t->first.q;
  c->k = t->bound.exps ? clamp(t->bound.diff.k) : 0;
  c->degree = clamp(MAX(t->bound.diff.d, t->bound.diff.h));
  c->delta = order || t->error >= 1 ? 1 : pow(t->error, t->passed);
  if (t->bound.gap) certificate_note(c, "not covered: %s", t->bound.gap);
  if (order) certificate_note(c, "maxima were tested under random orders, which no theorem covers");
  if (!order && t->bound.maxima) certificate_note(c, "holds whatever values the maxima have");
  if (!t->bound.gap && !order && c->delta > delta_of(t)) certificate_note(c, "%d tests would give the wanted delta", t->wanted);
}
