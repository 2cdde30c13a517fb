// Writes a sum of separate parts, x[0] + x[1] + x[2], as a sum over an index. This is tried if two sides differ and one of them reads parts by
// number.
#include "verify/prove.h"

enum { MOST_PARTS = 64, MOST_EXTENTS = 4 };

static const struct ratio MINUS_ONE = {-1, 1};

struct extents {
  int n;
  int64_t e[MOST_EXTENTS];
};

static void add_extent(struct extents *s, int64_t e)
{
  for (int i = 0; i < s->n; i++)
    if (s->e[i] == e) return;
  if (s->n < MOST_EXTENTS && e <= MOST_PARTS) s->e[s->n++] = e;
}

// Collects the extents of the pieces in a that are the number 0.
static void firsts(struct extents *s, const struct atom *a)
{
  if (!a->numbered) return;
  for (int i = 0; i < a->nat; i++)
    for (int k = 0; k < a->at[i].n; k++)
      if (a->at[i].p[k].digit < 0 && !a->at[i].p[k].at) add_extent(s, a->at[i].p[k].extent);
  for (int f = 0; f < 2 && a->f[f]; f++)
    for (int i = 0; i < a->f[f]->n; i++)
      for (int k = 0; k < a->f[f]->m[i].nfactors; k++) firsts(s, a->f[f]->m[i].f[k].a);
}

static int find(struct prover *p, const struct form *f, const struct monomial *m)
{
  for (int i = 0; i < f->n; i++)
    if (f->m[i].hash == m->hash && f->m[i].c.n == m->c.n && f->m[i].c.d == m->c.d && monomial_same(p, &f->m[i], m)) return i;
  return -1;
}

// If f has the terms `varied` for each w, replaces them by the sum over w of `varied`.
static const struct form *replace(struct prover *p, const struct form *f, const struct monomial *varied, int w)
{
  const struct form *r = f;
  for (int64_t v = 0; v < p->digits[w].extent; v++) {
    p->digits[w].value = v;
    struct monomial one = monomial_renew(p, varied, w);
    p->digits[w].value = -1;
    if (p->why || find(p, f, &one) < 0) return NULL;
    r = form_add(p, r, form_scale(p, &(struct form){.n = 1, .m = &one}, MINUS_ONE));
    if (!r) return NULL;
  }
  return form_add(p, r, form_sum(p, &(struct form){.n = 1, .m = (struct monomial *)varied}, 1, &w));
}

static const struct form *gather_one(struct prover *p, const struct form *f)
{
  for (int i = 0; i < f->n; i++) {
    struct extents s = {0};
    for (int k = 0; k < f->m[i].nfactors; k++) firsts(&s, f->m[i].f[k].a);
    for (int k = 0; k < s.n && !p->why; k++) {
      if (s.e[k] > f->n) continue;
      int w = digit_new(p, s.e[k], false);
      struct monomial varied = monomial_vary(p, &f->m[i], w);
      const struct form *r = replace(p, f, &varied, w);
      if (r) return r;
    }
  }
  return NULL;
}

const struct form *form_gather(struct prover *p, const struct form *f)
{
  if (!p->gathers || !f) return f;
  enum sign sign = f->sign;
  for (const struct form *r = gather_one(p, f); r && r->n < f->n; r = gather_one(p, f)) f = r;
  if (p->why || f->sign == sign) return p->why ? NULL : f;
  struct form *r = arena_copy(p->mem, f, sizeof *f);
  r->sign = sign;
  return r;
}
