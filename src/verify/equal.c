// verify_equal: the kinds of evidence, their order, and the finding.
//
// 1. The formal check, also with parts of inputs as inputs. If it succeeds, that is a proof.
// 2. Tests at full size, if they are affordable: over fields and over the reals. If it halves the work, tensors that both graphs compute alike first
//    become inputs (cut.c). This can only accept. Then the graphs are tested as they are.
// 3. Tests at several reduced extents. A pair that passes is equal at these extents, which the scope states. A pair that fails is undecided.
//
// "Not equal" needs evidence at full size: a difference over fields between graphs of field operations and exponentials only, or a difference over
// the reals that rounding does not explain. Everything else is undecided.
#include "verify/proof.h"

static const int64_t FULL_OPS = 2000000000; // default limit of tests at full size: a few seconds on one core
static const int64_t FULL_BYTES = (int64_t)4 << 30;
static const int64_t SMALL_OPS = 4000000000; // limit of all tests at reduced extents
static const int64_t ONE_TEST = 1;

struct equal_job {
  struct arena *mem;
  const struct graph *a, *b; // plain, full size
  const struct verify_opts *o;
  struct certificate *c;
  struct err *e;
  uint64_t seed; // made from the options' seed and both graphs, so no program can be written for known primes
  int64_t limit; // of tests at full size
  bool broken;   // an error: *e has it
};

const char *finding_name(enum finding f)
{
  static const char *const names[] = {[FOUND_UNDECIDED] = "undecided", [FOUND_EQUAL] = "equal", [FOUND_UNEQUAL] = "not equal"};
  return names[f];
}

const char *evidence_name(enum evidence s)
{
  static const char *const names[] = {
      [EVIDENCE_NONE] = "none", [EVIDENCE_PROVED] = "proved", [EVIDENCE_FULL] = "full", [EVIDENCE_REDUCED] = "reduced"};
  return names[s];
}

static void conclude(struct equal_job *j, enum finding f, enum evidence s)
{
  j->c->finding = f, j->c->equal = f == FOUND_EQUAL, j->c->scope = s;
  if (f != FOUND_EQUAL) j->c->delta = 1;
}

static void differs(struct equal_job *j, enum finding f, const struct graph *g, const struct verify_place *at, const char *where)
{
  char text[160];
  place_text(text, g, at);
  j->c->note[0] = 0;
  certificate_note(j->c, "%s %s", text, where);
  conclude(j, f, EVIDENCE_NONE);
}

static void undecided(struct equal_job *j, const char *why)
{
  j->c->note[0] = 0;
  certificate_note(j->c, "%s", why);
  conclude(j, FOUND_UNDECIDED, EVIDENCE_NONE);
}

// The finding of both kinds of tests at full size, if the finding is not decided by the tests over the reals. `whole`: the pair is the original one,
// so a difference counts.
static void weigh(struct equal_job *j, const struct testing *t, enum verdict fields, enum numbers numbers, bool whole)
{
  struct certificate *c = j->c;
  c->note[0] = 0;
  testing_credit(t, c);
  if (fields == SAME && numbers == NUMBERS_AGREE) return conclude(j, FOUND_EQUAL, EVIDENCE_FULL);
  if (!whole) return conclude(j, FOUND_UNDECIDED, EVIDENCE_NONE);
  if (fields == DIFFERENT && t->faithful) return differs(j, FOUND_UNEQUAL, t->a, &t->where, "at full size");
  if (numbers == NUMBERS_DIFFER) return undecided(j, "tests over fields agree, but values in float64 differ");
  if (fields == ZERO_DIVISOR) return undecided(j, "divides by zero for all inputs");
  if (fields == SAME) return undecided(j, "no inputs were found on which both are defined and rounding errors are small");
  undecided(j, "tests over fields differ, but only in their meaning of roots, maxima, whole numbers or opaque "
               "functions; values in float64 agree");
}

static bool affordable(const struct equal_job *j, const struct graph *a, const struct graph *b)
{
  return work_ops(a) + work_ops(b) <= j->limit && work_bytes(a) + work_bytes(b) <= FULL_BYTES;
}

// Tests at full size. False: too expensive, or an error.
static bool full(struct equal_job *j, const struct graph *a, const struct graph *b, bool whole)
{
  if (!affordable(j, a, b)) return false;
  struct testing t = testing_of(j->o, j->seed, a, b);
  struct verify_place at = {0};
  enum numbers numbers = real_compare(a, b, j->seed, j->o->threads, j->o->stop, &at, j->e);
  if ((j->broken = numbers == NUMBERS_BROKEN)) return false;
  if (numbers == NUMBERS_DIFFER && !whole) return false;
  if (numbers == NUMBERS_DIFFER && !t.faithful) return differs(j, FOUND_UNEQUAL, a, &at, "at full size, in float64"), true;
  enum verdict fields = testing_fields(&t, j->limit, j->e);
  if ((j->broken = fields == BROKEN)) return false;
  weigh(j, &t, fields, numbers, whole);
  return true;
}

// ---- reduced extents ----

// Tests the pair at small extents. Constants 1/n of means are rescaled if the unscaled pair differs.
static bool small_agrees(struct equal_job *j, enum shrink_style style, int64_t ops, struct testing *t)
{
  struct graph *a, *b;
  if (!shrink_pair(j->mem, j->a, j->b, style, &a, &b)) return undecided(j, "extents cannot be reduced"), false;
  for (int rescaled = 0; rescaled < 2; rescaled++) {
    if (rescaled && !(rescale_constants(a, j->a) + rescale_constants(b, j->b))) break;
    *t = testing_of(j->o, j->seed ^ (uint64_t)style, a, b);
    enum verdict v = testing_fields(t, ops, j->e);
    if ((j->broken = v == BROKEN)) return false;
    if (v == SAME) return true;
    if (v == ZERO_DIVISOR) return undecided(j, "divides by zero for all inputs, at reduced extents"), false;
    differs(j, FOUND_UNDECIDED, a, &t->where, "at reduced extents");
  }
  return false;
}

// Passes one test at each choice of extents, and at the smallest as many as delta requires.
static bool all_small_agree(struct equal_job *j, struct testing *t)
{
  static const enum shrink_style styles[] = {APART, OTHER, VARIED};
  for (size_t i = 0; i < COUNT(styles); i++)
    if (!small_agrees(j, styles[i], ONE_TEST, t)) return false;
  return small_agrees(j, TINY, SMALL_OPS, t);
}

static void small(struct equal_job *j, double ops)
{
  struct testing t;
  if (all_small_agree(j, &t)) {
    j->c->note[0] = 0;
    testing_credit(&t, j->c);
    certificate_extents(j->c, t.a);
    conclude(j, FOUND_EQUAL, EVIDENCE_REDUCED);
  }
  if (!j->broken) certificate_note(j->c, "not tested at full size: that takes %.1e operations", ops);
}

// ---- all ----

// Tests sample a few of many indices, so they may find a difference but cannot accept.
static void by_indices(struct equal_job *j)
{
  struct verify_place at = {0};
  undecided(j, "it has data-dependent indices, for which only a proof counts");
  if (!affordable(j, j->a, j->b)) return;
  enum numbers n = real_compare(j->a, j->b, j->seed, j->o->threads, j->o->stop, &at, j->e);
  if ((j->broken = n == NUMBERS_BROKEN)) return;
  if (n == NUMBERS_DIFFER) differs(j, FOUND_UNEQUAL, j->a, &at, "at full size, in float64");
}

static void decide(struct equal_job *j)
{
  if (graph_chooses(j->a) || graph_chooses(j->b)) return by_indices(j);
  struct graph *a, *b;
  bool cut = cut_common(j->mem, j->a, j->b, &a, &b) && work_ops(a) + work_ops(b) < (work_ops(j->a) + work_ops(j->b)) / 2;
  if (cut && full(j, a, b, false) && j->c->equal) return;
  if (j->broken || full(j, j->a, j->b, true) || j->broken) return;
  small(j, (double)(work_ops(j->a) + work_ops(j->b)));
}

static bool proved(struct arena *mem, const struct graph *a, const struct graph *b, char why[160])
{
  struct graph *pa, *pb;
  return verify_prove(a, b, why) || (parts_as_inputs(mem, a, b, &pa, &pb) && verify_prove(pa, pb, why));
}

static int verify(struct arena *mem, const struct graph *a, const struct graph *b, const struct verify_opts *o, struct certificate *c, struct err *e)
{
  struct graph *pa, *pb;
  int s = graph_expand(mem, a, false, &pa, e);
  if (!s) s = graph_expand(mem, b, false, &pb, e);
  if (!s) s = graph_unfold(mem, pa, &pa, e);
  if (!s) s = graph_unfold(mem, pb, &pb, e);
  if (!s) s = signature_match(pa, pb, e);
  if (s) return s;
  *c = (struct certificate){.delta = 1, .seed = o->seed};
  struct equal_job j = {mem, pa, pb, o, c, e, .limit = o->full_size_ops > 0 ? o->full_size_ops : FULL_OPS};
  j.seed = hash_mix(hash_mix(o->seed, graph_hash(pa)), graph_hash(pb));
  if (stop_set(o->stop)) return err_set(e, ERR_STOPPED, NOWHERE, "stopped");
  if (!o->no_proof && proved(mem, pa, pb, c->proof)) {
    conclude(&j, FOUND_EQUAL, EVIDENCE_PROVED), c->delta = 0;
    return OK;
  }
  if (o->no_proof) snprintf(c->proof, sizeof c->proof, "it was not asked for");
  decide(&j);
  return j.broken ? (conclude(&j, FOUND_UNDECIDED, EVIDENCE_NONE), (int)e->status) : OK;
}

int verify_equal(const struct graph *a, const struct graph *b, const struct verify_opts *o, struct certificate *c, struct err *e)
{
  static const struct verify_opts none;
  struct arena mem = {0};
  int s = verify(&mem, a, b, o ? o : &none, c, e);
  arena_close(&mem);
  return s;
}
