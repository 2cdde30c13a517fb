// Compares outputs with the reference: the relative norm of the difference, which rounding bounds, and each element, since a norm over many elements
// does not show a few wrong ones. An element may deviate by 8 times the norm's tolerance, relative to itself and to the root mean square of all. If
// that fails, effects of underflow are allowed too (rt/underflow.c).
#include "gpu/compare.h"
#include "base/memory.h"

#include <math.h>

enum { PIECE = 1 << 15, STRIP = 256, ELEMENT = 8 };

struct sums {
  double difference, norm, worst; // sums of squares; the largest difference over |value| + typical
  int64_t bad, at;                // bad: first element that is not finite and should be; at: the worst one; -1: none
};
struct comparison {
  enum dtype t;
  int64_t n;
  const void *x, *y;     // y: values of the dtype, or NULL
  const double *ref;     // otherwise these
  double norm;           // sum of squares of the expected values
  double typical, least; // least: added to the typical size
  struct sums *piece;
};

// Elements from .. from + n, n <= STRIP; `room`: memory for converted elements.
static const double *expected(const struct comparison *c, int64_t from, int64_t n, double room[STRIP])
{
  if (c->y) num_read_all(c->t, c->y, from, n, room);
  return c->y ? room : c->ref + from;
}

static void norm_piece(void *arg, int piece, int worker)
{
  (void)worker;
  const struct comparison *c = arg;
  double norm = 0, largest = dtype_largest(c->t), room[STRIP];
  for (int64_t from = (int64_t)piece * PIECE, end = MIN(from + PIECE, c->n); from < end; from += STRIP) {
    const int64_t n = MIN(STRIP, end - from);
    const double *y = expected(c, from, n, room);
    for (int64_t i = 0; i < n; i++) norm += fabs(y[i]) <= largest ? y[i] * y[i] : 0;
  }
  c->piece[piece].norm = norm;
}

// One element at a time: for elements that deviate more than any before, or are not finite.
static void compare_each(const struct comparison *c, struct sums *s, int64_t from, int64_t n, const double *x, const double *y)
{
  const double largest = dtype_largest(c->t);
  for (int64_t i = 0; i < n; i++) {
    if (!(fabs(y[i]) <= largest)) continue; // any value of the dtype is accepted
    if (!isfinite(x[i])) {
      if (s->bad < 0) s->bad = from + i;
      continue;
    }
    const double d = fabs(x[i] - y[i]), part = d > 0 ? d / (fabs(y[i]) + c->typical) : 0;
    s->difference += d * d;
    if (part > s->worst) s->worst = part, s->at = from + i;
  }
}

// Most blocks contain no larger deviation than earlier ones; a loop without branches tests that.
static bool is_no_worse(const struct comparison *c, const struct sums *s, int64_t n, const double *x, const double *y, double *difference)
{
  const double largest = dtype_largest(c->t), worst = s->worst, typical = c->typical;
  double sum = 0;
  int64_t more = 0;
  for (int64_t i = 0; i < n; i++) {
    const double d = fabs(x[i] - y[i]);
    more += !(d <= worst * (fabs(y[i]) + typical)) | !(fabs(y[i]) <= largest); // also for values that are not finite
    sum += d * d;
  }
  return *difference = sum, !more;
}

static void compare_piece(void *arg, int piece, int worker)
{
  (void)worker;
  const struct comparison *c = arg;
  struct sums *s = &c->piece[piece];
  double values[STRIP], room[STRIP], difference;
  s->bad = s->at = -1, s->difference = 0, s->worst = 0;
  for (int64_t from = (int64_t)piece * PIECE, end = MIN(from + PIECE, c->n); from < end; from += STRIP) {
    const int64_t n = MIN(STRIP, end - from);
    const double *y = expected(c, from, n, room);
    num_read_all(c->t, c->x, from, n, values);
    if (is_no_worse(c, s, n, values, y, &difference))
      s->difference += difference;
    else
      compare_each(c, s, from, n, values, y);
  }
}

static double norm_of(struct comparison *c)
{
  const int pieces = (int)((c->n + PIECE - 1) / PIECE);
  double norm = 0;
  c->piece = mem_take(((size_t)pieces + 1) * sizeof *c->piece);
  pool_run(pool_cores(), pieces, norm_piece, c);
  for (int i = 0; i < pieces; i++) norm += c->piece[i].norm;
  return mem_free(c->piece), norm;
}

void check_norms(struct problem *p)
{
  for (int i = 0; i < p->b->nout; i++) {
    const struct tensor *t = &p->g->tensors[p->outs[i]];
    p->norm[i] = norm_of(&(struct comparison){.t = t->dtype, .n = shape_size(&t->shape), .ref = p->r.value[p->outs[i]]});
  }
}

static struct sums compare(struct comparison *c)
{
  int pieces = (int)((c->n + PIECE - 1) / PIECE);
  struct sums all = {.bad = -1, .at = -1};
  all.norm = c->norm;
  c->piece = mem_take(((size_t)pieces + 1) * sizeof *c->piece);
  c->typical = sqrt(all.norm / (double)MAX(c->n, 1)) + c->least;
  pool_run(pool_cores(), pieces, compare_piece, c);
  for (int i = 0; i < pieces; i++) {
    const struct sums *s = &c->piece[i];
    all.difference += s->difference;
    if (all.bad < 0) all.bad = s->bad;
    if (s->worst > all.worst) all.worst = s->worst, all.at = s->at;
  }
  mem_free(c->piece);
  return all;
}

static double relative(const struct sums *s) { return s->norm > 0 ? sqrt(s->difference / s->norm) : sqrt(s->difference); }

// floor: the part of the difference's norm that underflow explains.
static int check_one(const struct problem *p, int which, const void *out, double floor, struct check_answer *a, struct err *e)
{
  const struct tensor *t = &p->g->tensors[p->outs[which]];
  const enum dtype rounded = p->rounded[p->outs[which]];
  const double *ref = p->r.value[p->outs[which]], bound = num_rows[rounded].tolerance;
  struct comparison c = {.t = t->dtype, .n = shape_size(&t->shape), .x = out, .ref = ref, .norm = p->norm[which]};
  c.least = floor / sqrt((double)MAX(c.n, 1)) / bound;
  struct sums s = compare(&c);
  double r = relative(&s);
  a->relative = fmax(a->relative, r), a->worst = fmax(a->worst, s.worst / (ELEMENT * bound));
  a->lost = s.bad >= 0;
  if (s.bad >= 0)
    return err_set(e, ERR_WRONG, NOWHERE, "output %d: element %lld is %g, and %g in float64", which, (long long)s.bad, num_read(t->dtype, out, s.bad),
                   ref[s.bad]);
  if (sqrt(s.difference) > bound * (s.norm > 0 ? sqrt(s.norm) : 1) + floor)
    return err_set(e, ERR_WRONG, NOWHERE, "output %d differs from float64 by %.3g (relative, %s allows %.0e)", which, r, dtype_name(rounded), bound);
  if (s.worst > ELEMENT * bound)
    return err_set(e, ERR_WRONG, NOWHERE, "output %d: element %lld is %g, and %g in float64; elements are about %.3g", which, (long long)s.at,
                   num_read(t->dtype, out, s.at), ref[s.at], c.typical);
  return OK;
}

static int check_all(const struct problem *p, void *const *outputs, const double *floor, struct check_answer *a, struct err *e)
{
  int status = OK;
  *a = (struct check_answer){0};
  for (int i = 0; i < p->b->nout && status == OK; i++) {
    const int t = p->outs[i];
    status = check_one(p, i, outputs[i], floor ? floor[t] : 0, a, e);
  }
  return status;
}

int check_outputs(const struct problem *p, void *const *outputs, struct check_answer *a, struct err *e)
{
  int status = check_all(p, outputs, NULL, a, e);
  if (status != NO || a->lost) return status;
  struct problem_floors *f = p->floors;
  struct err why = {0};
  status = f->known ? OK : numeric_floors(&p->r, p->b, p->stop, f->of, &why);
  *e = why, f->known = status == OK;
  return status == OK ? check_all(p, outputs, f->of, a, e) : status;
}

bool compare_fine(const struct problem *p, const struct compare_sums *x, struct check_answer *a)
{
  *a = (struct check_answer){0};
  for (int i = 0; i < p->b->nout; i++) {
    const double bound = num_rows[p->rounded[p->outs[i]]].tolerance;
    const struct sums s = {.difference = x[i].difference, .norm = p->norm[i]};
    const double r = relative(&s);
    a->relative = fmax(a->relative, r), a->worst = fmax(a->worst, x[i].worst / (ELEMENT * bound));
    if (x[i].lost || !(r <= bound) || !(x[i].worst <= ELEMENT * bound)) return false;
  }
  return true;
}

// Another order of rounding changes a result by much less than the allowed error.
int check_repeats(const struct problem *p, void *const *one, void *const *other, struct check_answer *a, struct err *e)
{
  for (int i = 0; i < p->b->nout; i++) {
    const struct tensor *t = &p->g->tensors[p->outs[i]];
    struct comparison c = {.t = t->dtype, .n = shape_size(&t->shape), .x = other[i], .y = one[i]};
    c.norm = norm_of(&c);
    struct sums s = compare(&c);
    double bound = num_rows[p->rounded[p->outs[i]]].tolerance;
    a->repeats = fmax(a->repeats, relative(&s));
    if (s.bad < 0 && relative(&s) <= bound && s.worst <= ELEMENT * bound) continue;
    return err_set(e, ERR_WRONG, NOWHERE, "output %d: two runs on the same inputs differ by %.3g: kernels race, or one reads too early", i,
                   relative(&s));
  }
  return OK;
}
