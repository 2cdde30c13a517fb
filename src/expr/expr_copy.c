// Copies a normal form from one context to another. The order of its parts stays, since it depends on content alone. Shared parts are copied once.
#include "expr/normal.h"

struct copier {
  struct expr *dst;
  const struct expr *src;
  nf *done; // by id in src; 0: not yet copied
};

static nf copy_poly(const struct copier *c, nf e);

static uint32_t copy_atom(const struct copier *c, uint32_t id)
{
  const struct expr_atom *a = atom_at(c->src, id);
  struct expr_atom *b = draft_atom(c->dst, a->kind, a->tag, a->n);
  for (uint32_t i = 0; i < a->n; i++) b->arg[i] = copy_poly(c, a->arg[i]);
  return intern_atom(c->dst, b);
}

static uint32_t copy_mono(const struct copier *c, uint32_t id)
{
  const struct expr_mono *a = mono_at(c->src, id);
  DRAFT_MONO(draft);
  struct expr_mono *b = &draft.m;
  b->k = a->k;
  b->x = copy_poly(c, a->x);
  b->s = copy_poly(c, a->s);
  b->q = copy_poly(c, a->q);
  b->d = copy_poly(c, a->d);
  b->n = a->n;
  for (uint32_t i = 0; i < a->n; i++) b->a[i] = copy_atom(c, a->a[i]);
  return intern_mono(c->dst, b);
}

static nf copy_poly(const struct copier *c, nf e)
{
  if (e <= NF_ONE || c->done[e]) return e <= NF_ONE ? e : c->done[e];
  const struct poly *a = poly_at(c->src, e);
  struct poly *b = draft_poly(c->dst, a->n);
  for (uint32_t i = 0; i < a->n; i++) b->m[i] = copy_mono(c, a->m[i]);
  return c->done[e] = intern_poly(c->dst, b);
}

nf expr_copy(struct expr *dst, const struct expr *src, nf e)
{
  if (dst == src) return e;
  struct arena_mark top = arena_mark(&dst->tmp);
  struct copier c = {dst, src, NEWS(&dst->tmp, nf, src->poly.n)};
  nf r = copy_poly(&c, e);
  arena_reset(&dst->tmp, top);
  return r;
}
