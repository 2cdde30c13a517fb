// verify_equal: which tests, where, and what follows from them.
//
// Where the theorem covers the pair at full size with few enough tests (no exponentials, or few), those are run. Else
// they are run at reduced extents, with one test at other small extents, so that a constant that fits the first by
// chance is found, and one at full size. A pair that fails at reduced extents only because its constants belong to
// the full size is told apart in two ways: constants of means are rescaled, and a full-size test decides where it
// is affordable. Work is limited by counting operations, never by the clock: results do not depend on the machine.
#include "verify/proof.h"

#include <math.h>

static const double DELTA = 1e-9;
static const int64_t FULL_OPS = 2000000000;   // of the full-size test unless told: seconds on one core
static const int64_t FULL_BYTES = (int64_t)2 << 30;
static const int64_t SMALL_OPS = 4000000000;  // of all tests at reduced extents
static const int64_t OVERHEAD = 20000;        // of one test, in operations
static const int64_t LAST_RESORT = 8;         // so many times the full-size limit where nothing else is possible
enum { BITS = 62, SIGN_BITS = 31, MOST_TESTS = 200000 };
enum { ORDERS = 1000 }; // tests of maxima under random orders: most orders may hide a wrong choice
enum { BLIND = 4 };     // tests where no theorem says how many: a few are as good as many

struct job {
  struct arena *mem;
  const struct graph *a, *b; // plain, full size
  const struct verify_opts *o;
  struct certificate *c;
  struct err *e;
  int64_t limit, ops; // of the full-size test
  int threads;
  bool opaque_max;
  enum verdict verdict;
};
// Tests planned for one pair of graphs.
struct plan {
  const struct graph *a, *b;
  struct bound bound;
  double error;  // of one test
  int wanted;    // tests for delta; INT_MAX where no number is enough
  int64_t ops;   // of one test
};

static double delta_of(const struct job *j) { return j->o->delta > 0 ? j->o->delta : DELTA; }

static struct plan plan_tests(const struct job *j, const struct graph *a, const struct graph *b)
{
  struct plan p = {a, b, .bound = size_pair(a, b)};
  p.error = size_error(&p.bound, j->c->p, j->c->q);
  double n = p.error < 1 ? ceil(log(delta_of(j)) / log(p.error)) : 1e9;
  p.wanted = n < 1e9 ? MAX(1, (int)n) : 1000000000;
  p.ops = work_ops(a) + work_ops(b) + OVERHEAD;
  return p;
}

// Are maxima taken in a random order, rather than as unknown functions?
static bool ordered(const struct job *j, const struct plan *p) { return p->bound.maxima && !j->opaque_max; }

static int affordable(const struct job *j, const struct plan *p, int64_t ops)
{
  int64_t wanted = ordered(j, p) ? ORDERS : p->error >= 1 ? BLIND : p->wanted;
  int64_t n = MIN(wanted, MIN(MOST_TESTS, ops / p->ops));
  return (int)MAX(1, n);
}

// In a field of p = 7 mod 8 the square roots of x and -x are the same, with p = 3 mod 8 they are opposite. So graphs
// with square roots pass one more test in such a field; but not roots of roots, since only the first kind of field
// keeps sqrt(sqrt(x)^2) = sqrt(x).
static enum verdict test(struct job *j, const struct plan *p, int n, uint64_t seed, int *passed, const char *where)
{
  struct trial t = {p->a, p->b, BITS, j->opaque_max, j->o->stop};
  struct place at = {0};
  enum verdict v = trial_many(&t, n, seed, j->threads, passed, &at, j->e);
  char text[160];
  int once;
  t.bits = SIGN_BITS;
  if (v == SAME && p->bound.roots > 0 && !p->bound.nested) v = trial_many(&t, 1, seed, 1, &once, &at, j->e);
  if (v == DIFFERENT) {
    place_text(text, p->a, &at);
    j->c->note[0] = 0;
    certificate_note(j->c, "%s %s", text, where);
  }
  if (v == ZERO_DIVISOR) j->c->note[0] = 0, certificate_note(j->c, "divides by zero whatever the inputs, %s", where);
  return j->verdict = v;
}

static int clamp(double x) { return x < 1e9 ? (int)x : 1000000000; }

// What the tests of a plan are worth.
static void credit(struct job *j, const struct plan *p, int passed)
{
  struct certificate *c = j->c;
  bool order = ordered(j, p);
  c->tests = passed, c->k = p->bound.exps ? clamp(p->bound.diff.k) : 0;
  c->degree = clamp(MAX(p->bound.diff.d, p->bound.diff.h));
  c->delta = order || p->error >= 1 ? 1 : pow(p->error, passed);
  if (p->bound.gap) certificate_note(c, "not covered: %s", p->bound.gap);
  if (order) certificate_note(c, "maxima were tested under random orders, which no theorem covers");
  if (!order && p->bound.maxima) certificate_note(c, "holds whatever values the maxima have");
  if (!p->bound.gap && !order && c->delta > delta_of(j)) certificate_note(c, "%d tests would give the wanted delta", p->wanted);
}

static bool full_affordable(const struct job *j, int64_t times)
{
  return j->ops <= j->limit * times && work_bytes(j->a) + work_bytes(j->b) <= FULL_BYTES;
}

static bool run_full(struct job *j, const struct plan *p, int n)
{
  int passed;
  if (test(j, p, n, j->o->seed, &passed, "at full size") != SAME) return j->c->tests = passed, false;
  j->c->reduced = false, j->c->full_size = true, j->c->note[0] = 0;
  credit(j, p, passed);
  return true;
}

// Tests at full size and nothing else, where they are all that is needed.
static bool full_is_enough(struct job *j, const struct plan *p)
{
  return p->error < 1 && full_affordable(j, 1) && (double)p->ops * p->wanted <= (double)j->limit;
}

static const uint64_t OTHER_SEED = 0x9e3779b9;

// One test at other small extents.
static bool agrees_elsewhere(struct job *j)
{
  struct graph *a, *b;
  int passed;
  if (!shrink_pair(j->mem, j->a, j->b, OTHER, &a, &b)) return true;
  struct plan p = {a, b, .ops = 0}; // no bound: one test in one field
  return test(j, &p, 1, j->o->seed ^ OTHER_SEED, &passed, "at other reduced extents") == SAME;
}

// The theorem's tests on the pair at small extents.
static bool run_small(struct job *j, const struct graph *a, const struct graph *b)
{
  struct plan p = plan_tests(j, a, b);
  int passed;
  certificate_extents(j->c, a);
  j->c->reduced = true;
  if (test(j, &p, affordable(j, &p, SMALL_OPS), j->o->seed, &passed, "at reduced extents") != SAME) return j->c->tests = passed, false;
  credit(j, &p, passed);
  return true;
}

static void full_too(struct job *j, bool exact)
{
  struct plan p = {j->a, j->b, .ops = j->ops};
  struct certificate before = *j->c;
  int passed;
  if (!exact) {
    certificate_note(j->c, "no full-size test: 1/n is no finite decimal there");
  } else if (!full_affordable(j, 1)) {
    certificate_note(j->c, "no full-size test: it takes %.1e operations", (double)j->ops);
  } else if (test(j, &p, 1, j->o->seed ^ OTHER_SEED, &passed, "at full size") == SAME) {
    j->c->full_size = true;
  } else {
    j->c->equal = false, j->c->reduced = false, j->c->tests = before.tests;
  }
}

// Constants 1/n in a field are what their shortest decimal text denotes: exact for n = 2^i 5^j only.
static bool decimal_constants(const struct graph *g)
{
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (n->sub && !decimal_constants(n->sub)) return false;
    if (n->op != OP_MUL_SCALAR) continue;
    int64_t k = n->a.scalar != 0 && fabs(1 / n->a.scalar) < 1e15 ? llround(fabs(1 / n->a.scalar)) : 0;
    if (!k || fabs(n->a.scalar) != 1 / (double)k) continue;
    while (k % 2 == 0) k /= 2;
    while (k % 5 == 0) k /= 5;
    if (k != 1) return false;
  }
  return true;
}

// At reduced extents, as written and then with rescaled constants. Sets *rescaled.
static bool small_agrees(struct job *j, bool *rescaled)
{
  struct graph *a, *b;
  *rescaled = false;
  if (!shrink_pair(j->mem, j->a, j->b, TINY, &a, &b)) return false;
  if (run_small(j, a, b) && agrees_elsewhere(j)) return true;
  if (j->verdict != DIFFERENT) return false;
  struct certificate failed = *j->c;
  if (rescale_constants(a, j->a) + rescale_constants(b, j->b)) {
    j->c->note[0] = 0;
    if (run_small(j, a, b)) {
      certificate_note(j->c, "constants 1/n follow the extents");
      return *rescaled = true;
    }
    if (j->verdict != DIFFERENT) return false;
  }
  *j->c = failed;
  return false;
}

static bool shrinks(struct job *j)
{
  struct graph *a, *b;
  return shrink_pair(j->mem, j->a, j->b, TINY, &a, &b);
}

// Full size decides where small extents could not.
static void last_resort(struct job *j, const struct plan *full, bool shrunk)
{
  struct certificate failed = *j->c;
  if (full_affordable(j, shrunk ? 1 : LAST_RESORT)) {
    if (run_full(j, full, affordable(j, full, j->limit))) {
      j->c->equal = true;
      certificate_note(j->c, shrunk ? "differs at reduced extents: a constant belongs to this size" : "extents cannot be reduced");
    } else if (shrunk && j->verdict == DIFFERENT) {
      *j->c = failed; // the smaller counterexample
    }
  } else if (!shrunk) {
    certificate_note(j->c, "not tested: extents cannot be reduced, and a full-size test takes %.1e operations", (double)j->ops);
  }
}

static void decide(struct job *j)
{
  struct plan full = plan_tests(j, j->a, j->b);
  j->opaque_max = full.bound.maxima;
  if (full_is_enough(j, &full) && run_full(j, &full, full.wanted)) j->c->equal = true;
  bool exact = decimal_constants(j->a) && decimal_constants(j->b);
  if (j->c->equal || j->verdict == BROKEN || (j->verdict == DIFFERENT && !j->opaque_max && exact)) return;
  bool rescaled = false, shrunk = shrinks(j);
  for (int order = !full.bound.maxima; order < 2 && shrunk && !j->c->equal && j->verdict != BROKEN; order++) {
    j->opaque_max = !order;
    j->c->note[0] = 0;
    j->c->equal = small_agrees(j, &rescaled);
  }
  if (j->c->equal) full_too(j, !rescaled || exact);
  else if (j->verdict == DIFFERENT || !shrunk) j->opaque_max = false, last_resort(j, &full, shrunk);
}

static const struct primes_row *primes(int bits)
{
  for (int i = 0; i < primes_count; i++)
    if (primes_rows[i].bits == bits) return &primes_rows[i];
  return NULL;
}

static int verify(struct arena *mem, const struct graph *a, const struct graph *b, const struct verify_opts *o,
                  struct certificate *c, struct err *e)
{
  struct graph *pa, *pb;
  const struct primes_row *row = primes(BITS);
  int s = signature_match(a, b, e);
  if (!s) s = graph_expand(mem, a, false, &pa, e);
  if (!s) s = graph_expand(mem, b, false, &pb, e);
  if (s) return s;
  *c = (struct certificate){.delta = 1, .p = row->p, .q = row->q, .seed = o->seed};
  struct job j = {mem, pa, pb, o, c, e, .limit = o->full_size_ops > 0 ? o->full_size_ops : FULL_OPS};
  j.ops = work_ops(pa) + work_ops(pb), j.threads = MAX(1, o->threads);
  decide(&j);
  if (!c->equal) c->delta = 1;
  else c->proved = verify_prove(pa, pb, c->proof);
  return j.verdict == BROKEN ? (int)e->status : OK;
}

int verify_equal(const struct graph *a, const struct graph *b, const struct verify_opts *o, struct certificate *c,
                 struct err *e)
{
  static const struct verify_opts none;
  struct arena mem = {0};
  int s = verify(&mem, a, b, o ? o : &none, c, e);
  arena_close(&mem);
  return s;
}
