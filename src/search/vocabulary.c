// The operators worth trying for a program: elementwise ones with their attributes, and the order in which they are tried on a pair of values.
#include "search/space.h"

static void add_instance(struct vocabulary *v, struct arena *mem, int *cap, enum op op, const struct attrs *a, int cls)
{
  for (int i = 0; i < v->n; i++) {
    const struct instance *k = &v->i[i];
    if (k->op == op && k->cls == cls && attrs_reals_same(&k->a, a)) return;
  }
  PUSH(mem, v->i, v->n, *cap) = (struct instance){op, *a, cls};
}

// The factor of a mean over class c.
static void add_inverse(struct vocabulary *v, struct arena *mem, int *cap, const struct space *s, int c)
{
  struct attrs a = attrs_default(OP_MUL_SCALAR);
  a.scalar = 1 / (double)s->classes[c].extent;
  add_instance(v, mem, cap, OP_MUL_SCALAR, &a, c);
}

// The operators that define another one by its law.
static void add_parts(struct vocabulary *v, struct arena *mem, int *cap, op_set parts)
{
  for (int op = 0; op < OPS; op++) {
    struct attrs none = attrs_default((enum op)op);
    if (!(parts >> op & 1)) continue;
    v->add |= op == OP_ADD || op == OP_SUB, v->sub |= op == OP_SUB, v->mul |= op == OP_MUL || op == OP_DIV, v->div |= op == OP_DIV;
    if (op_rows[op].most == 1 || (op_rows[op].flags & OPAQUE)) add_instance(v, mem, cap, (enum op)op, &none, -1);
  }
}

// Whether an elementwise operator of the program broadcasts both operands.
static bool stretches(const struct space *s, const struct visit *v)
{
  return v->in[1] >= 0 && (s->visit[v->in[0]].full & ~s->visit[v->in[1]].full) && (s->visit[v->in[1]].full & ~s->visit[v->in[0]].full);
}

static void add_pairing(struct vocabulary *v, struct arena *mem, struct pairing p) { PUSH(mem, v->pairing, v->npairing, v->pairing_cap) = p; }

static void find_pairings(struct vocabulary *v, struct arena *mem)
{
  for (int back = 0; back < 2; back++) {
    if (v->add) add_pairing(v, mem, (struct pairing){OP_ADD, -1, back, back});
    if (v->mul) add_pairing(v, mem, (struct pairing){OP_MUL, -1, back, back});
  }
  for (int back = 0; back < 2; back++) {
    if (v->div) add_pairing(v, mem, (struct pairing){OP_DIV, -1, back, false});
    if (v->sub) add_pairing(v, mem, (struct pairing){OP_SUB, -1, back, false});
  }
  for (int i = 0; i < v->n; i++) {
    const unsigned flags = op_rows[v->i[i].op].flags;
    if (op_rows[v->i[i].op].least != 2) continue;
    add_pairing(v, mem, (struct pairing){v->i[i].op, i, false, false});
    // The normal forms and fingerprints of opaque operators depend on the order of operands, and the program has one of them.
    add_pairing(v, mem, (struct pairing){v->i[i].op, i, true, flags & COMMUTES && !(flags & OPAQUE)});
  }
}

void vocabulary_build(struct vocabulary *v, struct arena *mem, const struct space *s)
{
  *v = (struct vocabulary){0};
  int cap = 0;
  for (int op = 0; op < OPS; op++) v->plain[op] = (struct instance){(enum op)op, attrs_default((enum op)op), -1};
  for (int k = 0; k < s->nvisit; k++) {
    const struct node *n = &s->p->nodes[s->p->tensors[s->visit[k].tensor].node];
    enum rule rule = op_rows[n->op].rule;
    enum abstract ae = op_rows[n->op].abstract;
    v->add |= ae == AE_ADD || ae == AE_SUB || ae == AE_SHIFT, v->sub |= ae == AE_SUB || ae == AE_NEG;
    v->neg |= ae == AE_NEG, v->mul |= ae == AE_MUL || ae == AE_MATMUL || ae == AE_DIV, v->div |= ae == AE_DIV || ae == AE_RSQRT;
    v->product |= ae == AE_MATMUL || ae == AE_SUM || ae == AE_MEAN, v->sum |= v->product, v->mean |= ae == AE_MEAN;
    v->rms |= ae == AE_SQRT || ae == AE_RSQRT, v->max |= ae == AE_MAX;
    bool generic = ae == AE_ADD || ae == AE_SUB || ae == AE_MUL || ae == AE_DIV; // tried on all pairs in any case
    v->outer |= rule == RULE_MAP && stretches(s, &s->visit[k]);
    if (rule == RULE_MAP && !generic) add_instance(v, mem, &cap, n->op, &n->a, -1);
    if (ae == AE_MEAN)
      for (int c = 0; c < s->nclass; c++)
        if ((s->visit[s->visit[k].in[0]].full & ~s->visit[k].full) & bit(c, TILE)) add_inverse(v, mem, &cap, s, c);
    struct attrs none = attrs_default(OP_SQRT);
    if (ae == AE_RSQRT) add_instance(v, mem, &cap, OP_SQRT, &none, -1);
    if (ae == AE_DEFINED) add_parts(v, mem, &cap, op_parts(n->op));
    if (ae == AE_SUB) add_instance(v, mem, &cap, OP_NEG, &none, -1);
  }
  find_pairings(v, mem);
}
