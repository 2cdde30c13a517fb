// Functions of one tensor: elements of a result that depend on the same element of one tensor only, and on constants.
#include "ir/ir.h"

bool unary_take(struct graph *to, const struct graph *p, int t, int x, int *map, int *left)
{
  const struct node *n = &p->nodes[p->tensors[t].node];
  struct err e = {0};
  int in[2];
  if (map[t] >= 0) return true;
  const bool number = n->op == OP_CONST, same = shape_eq(&p->tensors[t].shape, &p->tensors[x].shape);
  if (!number && (op_rows[n->op].rule != RULE_MAP || n->nin > 2 || n->nout != 1 || !same || --*left < 0)) return false;
  for (int i = 0; i < n->nin; i++) {
    if (!unary_take(to, p, n->in[i], x, map, left)) return false;
    in[i] = map[n->in[i]];
  }
  return graph_add(to, n->op, n->nin, in, &n->a, NOWHERE, &map[t], &e) == OK;
}

int unary_sources(const struct graph *p, int t, int most, int *out)
{
  int n = 0, seen = 0;
  out[n++] = t;
  for (; seen < n; seen++) {
    const struct node *x = &p->nodes[p->tensors[out[seen]].node];
    for (int i = 0; i < x->nin && op_rows[x->op].rule == RULE_MAP; i++) {
      bool known = p->nodes[p->tensors[x->in[i]].node].op == OP_CONST || n == most;
      for (int k = 0; k < n; k++) known |= out[k] == x->in[i];
      if (!known) out[n++] = x->in[i];
    }
  }
  return n;
}
