// Products by conditions. `mask(x, c)` is 0 where the condition c is 0, even if x is NaN or infinite there, and equal to `x * c` over the reals. The
// search enumerates products alone. If the program has masks, and no product of a number by a condition, each such product of a result is a mask.
#include "search/space.h"

// Is the result of n a condition, which is 0 or 1, or a small number that is made of conditions? known: of each tensor of its graph before n.
static bool makes_condition(const struct node *n, const bool *known)
{
  const enum rule rule = op_rows[n->op].rule;
  const bool all = n->nin && known[n->in[0]] && known[n->in[n->nin - 1]];
  if (rule == RULE_VIEW || rule == RULE_SPLIT || n->op == OP_ACCUM) return all; // moves elements alone
  if (rule != RULE_MAP) return false;
  if (op_rows[n->op].flags & BRACKET) return true;
  if (n->op == OP_NEG || (n->op == OP_ADD_SCALAR && (n->a.scalar == 1 || n->a.scalar == -1))) return all; // parts of 1 - c
  return all && (n->op == OP_MUL || n->op == OP_MASK || n->op == OP_MINIMUM || n->op == OP_MAXIMUM);
}

static bool is_by_condition(const struct node *n, const bool *known) { return n->op == OP_MUL && known[n->in[0]] != known[n->in[1]]; }

static void to_mask(struct node *n, const bool *known)
{
  const int c = known[n->in[1]], condition = n->in[c], x = n->in[1 - c];
  n->op = OP_MASK, n->in[0] = x, n->in[1] = condition;
}

// Finds the conditions of g, and changes products by conditions if `change`. outer: of the tensors that its iterators read; NULL: g is a kernel
// graph. saved: of its savers, in order. Returns the number of products by conditions.
static int walk(struct arena *mem, struct graph *g, const bool *outer, bool *saved, bool change)
{
  bool *known = NEWS(mem, bool, g->ntensors + 1);
  int found = 0, iter = 0, save = 0;
  for (int i = 0; i < g->nnodes; i++) {
    struct node *n = &g->nodes[i];
    if (n->op == OP_INPUT)
      known[n->out] = g->tensors[n->out].dtype == BOOL;
    else if (n->op == OP_ITER)
      known[n->out] = outer[iter++];
    else if (n->op == OP_SAVE)
      saved[save++] = known[n->in[0]];
    else if (n->sub) {
      bool *in = NEWS(mem, bool, n->nin + 1);
      for (int k = 0; k < n->nin; k++) in[k] = known[n->in[k]];
      found += walk(mem, n->sub, in, known + n->out, change);
    } else if (n->nout) {
      const bool by = is_by_condition(n, known);
      found += by, known[n->out] = makes_condition(n, known);
      if (by && change) to_mask(n, known);
    }
  }
  return found;
}

static bool has_masks(const struct graph *p)
{
  for (int i = 0; i < p->nnodes; i++)
    if (p->nodes[i].op == OP_MASK) return true;
  return false;
}

int conditions_mask(struct arena *mem, struct graph **g, const struct graph *p, struct err *e)
{
  struct arena tmp = {0};
  const bool masks = has_masks(p) && !walk(&tmp, (struct graph *)(uintptr_t)p, NULL, NULL, false);
  const int made = masks ? walk(&tmp, *g, NULL, NULL, true) : 0;
  arena_close(&tmp);
  return made ? graph_rebuild(mem, *g, &(struct rebuilding){0}, g, e) : OK; // a mask may have another dtype than a product
}
