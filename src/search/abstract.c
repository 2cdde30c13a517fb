// Abstract expressions of values (paper, section 4.3, Table 1). Sum factors are products of primes, one prime for each piece of a class. So equality
// and divisibility of sizes that are not chosen yet become equality and divisibility of integers.
#include "search/law_abstract.h"
#include "search/space.h"

#include <string.h>

enum { SCALARS = 1 << 20, INVERSES = 1 << 19 };

// A constant has the same atom in every context: 31 bits of its hash, above all other ids.
uint32_t atom_scalar(double x) { return (uint32_t)hash_bytes(&x, sizeof x, 0) | (uint32_t)SCALARS << 11; }

uint32_t atom_inverse(int c) { return (uint32_t)(INVERSES + c); }

nf abstract_map(struct expr *ex, enum op op, const struct attrs *a, nf x, nf y)
{
  const nf r = EXPR_UNKNOWN;
  ATTR_LOCALS(a);
  (void)r;
  switch (op) {
#define OP(id, name, least, most, rule, levels, attrs, flags, code, law, abstract, range, cost, doc) \
  case OP_##id:                                                                                      \
    return law;
#include "ir/op.def"
#undef OP
  case OPS: break;
  }
  return EXPR_UNKNOWN;
}

uint64_t abstract_factor(const struct space *s, mask over)
{
  uint64_t k = 1;
  for (int b = 0; b < 3 * s->nclass; b++)
    if (over >> b & 1) k *= s->classes[b / 3].prime[b % 3];
  return k;
}

static mask dim_mask(const struct dim *d)
{
  mask m = 0;
  for (int i = 0; i < d->n; i++) m |= all_of(d->c[i]);
  return m;
}

struct abstract_maker {
  struct reference *r;
  struct arena *mem;
  const struct fctx *f;
  struct expr *ex;
  bool done[MAX_VISITS];
};

static bool make(struct abstract_maker *m, int v);

static bool make_reduce(struct abstract_maker *m, const struct node *n, int v)
{
  const struct space *s = m->f->s;
  const struct visit *me = &s->visit[v], *x = &s->visit[me->in[0]];
  struct reference *r = m->r;
  mask over = dim_mask(&x->l.d[n->a.dim]) & ~dim_mask(&me->l.d[n->a.dim]);
  bool mean = n->op == OP_MEAN;
  finger_fold(m->f, m->mem, n->op, &r->f[me->in[0]], over, mean ? finger_size(s, over) : 1, &r->f[v]);
  uint64_t k = abstract_factor(s, over);
  nf e = r->e[me->in[0]];
  r->e[v] = n->op == OP_MAX ? expr_max(m->ex, k, e) : expr_sum(m->ex, k, e);
  for (int c = 0; c < s->nclass && mean; c++)
    if (over & bit(c, TILE)) r->e[v] = expr_mul(m->ex, r->e[v], expr_atom(m->ex, atom_inverse(c)));
  return true;
}

static bool make_node(struct abstract_maker *m, const struct node *n, int v)
{
  const struct space *s = m->f->s;
  const struct visit *me = &s->visit[v];
  struct reference *r = m->r;
  int a = me->in[0], b = me->in[1];
  switch (op_rows[n->op].rule) {
  case RULE_IO:
  case RULE_AT:
  case RULE_INDEX:
    finger_input(m->f, m->mem, me, &r->f[v]);
    r->e[v] = expr_atom(m->ex, (uint32_t)me->tensor);
    return true;
  case RULE_CONST:
    finger_const(m->f, m->mem, n->a.scalar, &r->f[v]);
    r->e[v] = expr_atom(m->ex, atom_scalar(n->a.scalar));
    return true;
  case RULE_MAP:
    r->e[v] = abstract_map(m->ex, n->op, &n->a, r->e[a], b < 0 ? 0 : r->e[b]);
    return finger_map(m->f, m->mem, n->op, &n->a, &r->f[a], b < 0 ? NULL : &r->f[b], &r->f[v]);
  case RULE_CONTRACT: {
    const struct labels *la = &s->visit[a].l;
    mask over = dim_mask(&la->d[la->n - 1]);
    finger_product(m->f, m->mem, &r->f[a], &r->f[b], over, &r->f[v]);
    r->e[v] = expr_sum(m->ex, abstract_factor(s, over), expr_mul(m->ex, r->e[a], r->e[b]));
    return true;
  }
  case RULE_REDUCE: return make_reduce(m, n, v);
  case RULE_VIEW: r->e[v] = r->e[a], r->f[v] = r->f[a]; return true;
  case RULE_CONCAT:
  case RULE_SPLIT:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_ACCUM:
  case RULE_GRAPH: break;
  }
  return false;
}

static bool make(struct abstract_maker *m, int v)
{
  if (m->done[v]) return true;
  m->done[v] = true;
  const struct visit *me = &m->f->s->visit[v];
  for (int i = 0; i < 2; i++)
    if (me->in[i] >= 0 && !make(m, me->in[i])) return false;
  const struct graph *p = m->f->s->p;
  if (!make_node(m, &p->nodes[p->tensors[me->tensor].node], v)) return false;
  m->r->hash[v] = finger_hash(&m->r->f[v]);
  return true;
}

int reference_build(struct reference *r, struct arena *mem, const struct fctx *f, struct expr *ex)
{
  struct abstract_maker m = {r, mem, f, ex};
  nf targets[64];
  for (int o = 0; o < f->s->nout; o++) {
    if (!make(&m, f->s->out[o])) return NO;
    targets[o] = r->e[f->s->out[o]];
  }
  expr_target(ex, f->s->nout, targets);
  return OK;
}
