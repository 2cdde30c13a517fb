// Finds exponentials of differences to a maximum, which cannot overflow. The maximum may come from the enclosing graph or from a nested one.
#include "plan/stable.h"

static const struct node *made_by(const struct within *w, int t) { return &w->g->nodes[w->g->tensors[t].node]; }

// The argument of saver number k.
static int saved(const struct graph *g, int k)
{
  int i = 0;
  while (g->nodes[i].op != OP_SAVE || k-- > 0) i++;
  return g->nodes[i].in[0];
}

// The tensor of the enclosing graph that a tile was loaded from; -1: none.
static int loaded(const struct within *w, int t) { return w->above ? node_iterated(w->node, t) : -1; }

// Whether the accumulator concatenates along every loop. A sum of maxima is not a maximum.
static bool joins_all(const struct graph *g, const struct node *accum)
{
  for (int i = 0; i < g->nloop; i++)
    if (g->loop[i] != 1 && accum->a.fmap[i] == REPLICA) return false;
  return true;
}

// Whether a clamp can lower a maximum. A limit of the largest number of the dtype keeps all finite maxima.
static bool has_upper_limit(const struct within *w, const struct node *n) { return n->a.hi < dtype_largest(w->g->tensors[n->out].dtype); }

// Whether a tensor is a maximum, also through views, loads, lower limits, and the maximum of several.
static bool is_maximum(const struct within *w, int t)
{
  const struct node *n = made_by(w, t);
  if (n->op == OP_MAX || n->op == OP_ACCUM_MAX) return true;
  if (n->op == OP_ITER) return loaded(w, t) >= 0 && is_maximum(w->above, loaded(w, t));
  if (n->sub) return is_maximum(&(struct within){n->sub, w, n}, saved(n->sub, t - n->out));
  const bool same = op_rows[n->op].rule == RULE_VIEW || n->op == OP_MAXIMUM || (n->op == OP_CLAMP && !has_upper_limit(w, n)) ||
                    (n->op == OP_ACCUM && joins_all(w->g, n));
  return same && is_maximum(w, n->in[0]);
}

// The change of a running maximum is the second result of OP_ACCUM_MAX.
static bool is_difference(const struct within *w, int t)
{
  const struct node *n = made_by(w, t);
  if (n->op == OP_ACCUM_MAX) return t != n->out;
  if (n->op == OP_ITER) return loaded(w, t) >= 0 && is_difference(w->above, loaded(w, t));
  return n->op == OP_SUB && is_maximum(w, n->in[1]);
}

bool exp_shifted(const struct within *w, const struct node *exp) { return is_difference(w, exp->in[0]); }

static bool all_shifted(const struct within *w)
{
  for (int i = 0; i < w->g->nnodes; i++) {
    const struct node *n = &w->g->nodes[i];
    if (n->op == OP_EXP && !exp_shifted(w, n)) return false;
    if (n->sub && !all_shifted(&(struct within){n->sub, w, n})) return false;
  }
  return true;
}

bool plan_is_stable(const struct graph *g) { return all_shifted(&(struct within){.g = g}); }
