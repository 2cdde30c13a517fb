// Normalizes the branches of a maximum, whose order does not matter. max(x, y) + z is max(x + z, y + z); c max(x, y) is max(c x, c y) for a c that is
// not negative; nested maxima are merged. A monomial that no branch binds is moved out of all branches, with its least coefficient, so max(-x, 0) is
// max(x, 0) - x.
#include "verify/prove.h"

enum { MOST_BRANCHES = 12, MOST_COMPARED = 60, MOST_ROUNDS = 60 };

static const struct ratio ONE = {1, 1}, MINUS_ONE = {-1, 1};

void branch_add(struct prover *p, struct branches *s, struct branch b) { PUSH(p->mem, s->b, s->n, s->cap) = b; }

bool branch_has(const struct branch *b, const struct monomial *m)
{
  for (int i = 0; i < b->n; i++)
    for (int k = 0; k < m->nfactors; k++)
      if (atom_has(m->f[k].a, b->digits[i])) return true;
  return false;
}

struct monomial branch_close(struct prover *p, const struct branch *b)
{
  struct monomial m = monomial_one(ONE);
  const struct atom *a = atom_make(p, (struct atom){.kind = ATOM_BRANCH, .f = {b->f}});
  for (int i = 0; i < b->n; i++)
    if (atom_has(a, b->digits[i])) PUSH(p->mem, m.bound, m.nbound, m.bound_cap) = b->digits[i];
  monomial_factor(p, &m, a, ONE);
  monomial_merge(p, &m);
  m.hash = monomial_hash(p, &m);
  return m;
}

// ---- redundant branches ----

static bool same_branch(struct prover *p, const struct branch *a, const struct branch *b)
{
  if (a->f->n != b->f->n) return false;
  struct monomial x = branch_close(p, a), y = branch_close(p, b);
  return x.hash == y.hash && monomial_same(p, &x, &y);
}

// Whether a is never below b. Digits of the same name in both have the same values.
static bool above(struct prover *p, const struct branch *a, const struct branch *b)
{
  if (same_branch(p, a, b)) return true;
  if (a->f->n + b->f->n > MOST_COMPARED) return false;
  const struct form *d = form_add(p, a->f, form_scale(p, b->f, MINUS_ONE));
  return d && form_sign(p, d);
}

static bool drop(struct prover *p, struct branches *s)
{
  for (int i = 0; i < s->n && !p->why; i++)
    for (int k = 0; k < s->n && !p->why; k++)
      if (i != k && above(p, &s->b[i], &s->b[k])) return s->b[k] = s->b[--s->n], true;
  return false;
}

// ---- common summands ----

static const struct monomial *find(struct prover *p, const struct form *f, const struct monomial *m)
{
  for (int i = 0; i < f->n; i++)
    if (f->m[i].hash == m->hash && monomial_same(p, &f->m[i], m)) return &f->m[i];
  return NULL;
}

static struct ratio least(struct prover *p, const struct branches *s, const struct monomial *m)
{
  struct ratio least = m->c;
  for (int i = 0; i < s->n; i++) {
    const struct monomial *x = find(p, s->b[i].f, m);
    struct ratio c = x ? x->c : (struct ratio){0, 1};
    if (ratio_order(p, c, least) < 0) least = c;
  }
  return least;
}

static bool earlier(struct prover *p, const struct branches *s, int i, const struct monomial *m)
{
  for (int k = 0; k < i; k++)
    if (find(p, s->b[k].f, m)) return true;
  return false;
}

static bool share(struct prover *p, struct branches *s, const struct form **shift)
{
  const struct form *out = form_constant(p, (struct ratio){0, 1});
  for (int i = 0; i < s->n && !p->why; i++)
    for (int k = 0; k < s->b[i].f->n && !p->why; k++) {
      struct monomial m = s->b[i].f->m[k];
      bool bound = false;
      for (int b = 0; b < s->n && !bound; b++) bound = branch_has(&s->b[b], &m);
      if (bound || earlier(p, s, i, &m)) continue;
      m.c = least(p, s, &m);
      if (m.c.n) out = form_add(p, out, &(struct form){.n = 1, .m = &m});
    }
  if (!out || !out->n) return false;
  for (int i = 0; i < s->n && !p->why; i++) s->b[i].f = form_add(p, s->b[i].f, form_scale(p, out, MINUS_ONE));
  *shift = form_add(p, *shift, out);
  return !p->why;
}

// ---- maxima in branches ----

static bool plain(const struct factor *f, enum verify_atom_kind kind) { return f->a->kind == kind && ratio_is(f->e, 1); }

// For a monomial c u max(..) or c u |x| |y| .. with c > 0 and u not negative: returns the factor max(..), or NULL with the number of absolute values.
static const struct factor *maximum_in(struct prover *p, const struct monomial *m, int *bars)
{
  const struct factor *max = NULL;
  *bars = 0;
  if (m->c.n < 0 || m->nbound) return NULL;
  for (int i = 0; i < m->nfactors; i++) *bars += plain(&m->f[i], ATOM_ABS);
  for (int i = 0; i < m->nfactors && !max; i++)
    if (plain(&m->f[i], ATOM_MAX)) max = &m->f[i];
  for (int i = 0; i < m->nfactors && (max || *bars); i++)
    if (&m->f[i] != max && !factor_sign(p, &m->f[i])) return *bars = 0, NULL;
  return max;
}

static struct branch joined(struct prover *p, const struct branch *b, const struct form *f, const struct monomial *digits)
{
  struct digits d = {0};
  for (int i = 0; i < b->n; i++) digits_add(p, &d, b->digits[i]);
  for (int i = 0; digits && i < digits->nbound; i++) digits_add(p, &d, digits->bound[i]);
  return (struct branch){f, d.n, d.d};
}

// Replaces branch i, with `rest` as its other summands, by one branch for each branch of the maximum.
static bool open_maximum(struct prover *p, struct branches *s, int i, const struct form *rest, const struct form *u, const struct atom *max)
{
  struct branch b = s->b[i];
  const struct form *inner = max->f[0];
  if (s->n + inner->n - 1 > MOST_BRANCHES) return false;
  for (int k = 0; k < inner->n && !p->why; k++) {
    struct monomial m = inner->m[k];
    for (int d = 0; d < m.nbound; d++) monomial_rename(p, &m, d);
    const struct form *f = form_add(p, rest, form_mul(p, u, m.f[0].a->f[0]));
    if (!f) return false;
    struct branch one = joined(p, &b, f, &m);
    if (k)
      branch_add(p, s, one);
    else
      s->b[i] = one;
  }
  return !p->why;
}

static bool open_bars(struct prover *p, struct branches *s, int i, const struct form *rest, const struct monomial *from)
{
  struct branch b = s->b[i];
  struct monomial m = monomial_one(from->c);
  struct form *x = form_constant(p, ONE);
  if (s->n == MOST_BRANCHES) return false;
  for (int k = 0; k < from->nfactors; k++) {
    if (plain(&from->f[k], ATOM_ABS))
      x = form_mul(p, x, from->f[k].a->f[0]);
    else
      monomial_factor(p, &m, from->f[k].a, from->f[k].e);
  }
  x = form_mul(p, x, form_finish(p, &m));
  const struct form *more = form_add(p, rest, x), *less = form_add(p, rest, x ? form_scale(p, x, MINUS_ONE) : NULL);
  if (!more || !less) return false;
  s->b[i] = joined(p, &b, more, NULL), branch_add(p, s, joined(p, &b, less, NULL));
  return true;
}

static bool open_one(struct prover *p, struct branches *s)
{
  for (int i = 0; i < s->n && !p->why; i++)
    for (int k = 0; k < s->b[i].f->n && !p->why; k++) {
      int bars;
      struct form one = {.n = 1, .m = &s->b[i].f->m[k]};
      const struct factor *max = maximum_in(p, one.m, &bars);
      if (!max && !bars) continue;
      const struct form *rest = form_add(p, s->b[i].f, form_scale(p, &one, MINUS_ONE));
      const struct form *u = max ? form_times(p, &one, max->a, MINUS_ONE) : NULL;
      if (!rest || (max && !u)) return false;
      if (max ? open_maximum(p, s, i, rest, u, max->a) : open_bars(p, s, i, rest, one.m)) return true;
    }
  return false;
}

bool branches_settle(struct prover *p, struct branches *s, const struct form **shift)
{
  for (int i = 0; i < MOST_ROUNDS && !p->why; i++) {
    if (drop(p, s) || share(p, s, shift) || open_one(p, s)) continue;
    return true;
  }
  return prove_give_up(p, "a maximum that could not be simplified within the step limit");
}
