// Functions of one tensor as single operators. An activation that a program writes out, such as exp(minimum(x, 0)) + relu(x), is a function f(x) of
// elements. Its operators are opaque to the search, which then combines them with all others: a program may be too large to search because of them.
// The core of the program has one operator in place of each such function, which the program does not have elsewhere. Graphs of the core become graphs
// of the program by putting the function back, and the filter compares them with the program.
#include "search/space.h"

#include <string.h>

enum { LEAST = 3, MOST = 16 }; // operators of a function

static bool has_op(const struct graph *p, enum op op)
{
  for (int i = 0; i < p->nnodes; i++)
    if (p->nodes[i].op == op) return true;
  return false;
}

static bool has_opaque(const struct graph *p)
{
  for (int i = 0; i < p->nnodes; i++)
    if (op_rows[p->nodes[i].op].flags & OPAQUE) return true;
  return false;
}

// Tensor t as a function of x, if it has enough operators and one of them is opaque; else NULL.
static struct graph *function_of(struct arena *mem, const struct graph *p, int t, int x)
{
  struct graph *g = graph_new(mem, KERNEL, "f");
  struct err e = {0};
  int *map = NEWS(mem, int, p->ntensors + 1), left = MOST;
  for (int i = 0; i < p->ntensors; i++) map[i] = -1;
  if (graph_input_as(g, NULL, p->tensors[x].dtype, &p->tensors[x], NOWHERE, &map[x], &e) || !unary_take(g, p, t, x, map, &left)) return NULL;
  if (MOST - left < LEAST || !has_opaque(g) || graph_add(g, OP_OUTPUT, 1, &map[t], NULL, NOWHERE, &(int){0}, &e)) return NULL;
  return g;
}

// The function with most operators; NULL: none. *x: its argument.
static struct graph *largest(struct arena *mem, const struct graph *p, int t, int *x)
{
  int from[2 * MOST], n = unary_sources(p, t, 2 * MOST, from);
  struct graph *best = NULL;
  for (int i = 1; i < n; i++) {
    struct graph *g = function_of(mem, p, t, from[i]);
    if (g && (!best || g->nnodes > best->nnodes)) best = g, *x = from[i];
  }
  return best;
}

// The operator that stands for the function; OPS: there is no other one left.
static enum op stand_in(struct calls *c, const struct graph *f)
{
  for (int i = 0; i < c->n; i++)
    if (graph_same(c->of[i], f)) return c->as[i];
  for (enum op op = 0; op < OPS && c->n < MOST_CALLS; op++) {
    bool used = !(op_rows[op].flags & STANDS_IN) || has_op(c->p, op);
    for (int k = 0; k < c->n; k++) used |= c->as[k] == op;
    if (used) continue;
    c->of[c->n] = f;
    return c->as[c->n++] = op;
  }
  return OPS;
}

// Later results first, so that a function is not part of a larger one.
bool calls_of(struct arena *mem, const struct graph *p, struct calls *out)
{
  enum op *as = NEWS(mem, enum op, p->ntensors + 1);
  int *x = NEWS(mem, int, p->ntensors + 1), *map = NEWS(mem, int, p->ntensors + 1);
  bool *needed = NEWS(mem, bool, p->ntensors + 1);
  struct err e = {0};
  *out = (struct calls){.p = p};
  if (graph_ops(p) > SEARCH_LONG) return false; // it is cut first
  for (int i = p->nnodes - 1; i >= 0; i--) {
    const struct node *n = &p->nodes[i];
    bool wanted = n->op == OP_OUTPUT;
    for (int k = 0; k < n->nout; k++) as[n->out + k] = OPS, wanted |= needed[n->out + k];
    const bool maps = wanted && op_rows[n->op].rule == RULE_MAP && n->nout == 1;
    const struct graph *f = maps ? largest(mem, p, n->out, &x[n->out]) : NULL;
    if (f && (as[n->out] = stand_in(out, f)) != OPS)
      needed[x[n->out]] = true;
    else
      for (int k = 0; k < n->nin && wanted; k++) needed[n->in[k]] = true;
  }
  if (!out->n) return false;
  struct graph *to = graph_new_as(mem, p);
  for (int i = 0; i < p->nnodes; i++) {
    const struct node *n = &p->nodes[i];
    const enum op call = n->nout ? as[n->out] : OPS;
    if ((call == OPS ? graph_take(to, NULL, -1, p, n, map, &e) : graph_add(to, call, 1, &map[x[n->out]], NULL, n->at, &map[n->out], &e)) != OK)
      return false;
    graph_keep_names(to, p, n, map);
  }
  return graph_without_unread(mem, to, false, &out->core, &e) == OK && graph_check(out->core, &e) == OK;
}

// ---- graphs of the program ----

static const struct graph *called(const struct calls *c, enum op op)
{
  for (int i = 0; i < c->n; i++)
    if (c->as[i] == op) return c->of[i];
  return NULL;
}

static int put_function(struct graph *to, const struct graph *f, int x, int *out, struct err *e)
{
  int *map = NEWS(to->mem, int, f->ntensors + 1);
  for (int i = 0; i < f->nnodes; i++) {
    const struct node *n = &f->nodes[i];
    if (n->op == OP_INPUT)
      map[n->out] = x;
    else if (n->op == OP_OUTPUT)
      *out = map[n->in[0]];
    else
      TRY(graph_take(to, NULL, -1, f, n, map, e));
  }
  return OK;
}

// above: the graph around g, and `in` what g's iterators read there.
static int put(const struct calls *c, struct graph *to, const struct graph *above, const int *in, const struct graph *g, struct err *e)
{
  int *map = NEWS(to->mem, int, g->ntensors + 1), iters = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    const struct graph *f = called(c, n->op);
    if (f)
      TRY(put_function(to, f, map[n->in[0]], &map[n->out], e));
    else if (n->sub) {
      struct graph *sub = graph_new(to->mem, n->sub->level, n->sub->name);
      int *read = NEWS(to->mem, int, n->nin + 1), made = 0;
      for (int k = 0; k < n->nin; k++) read[k] = map[n->in[k]];
      graph_axes(sub, n->sub->ngrid, n->sub->grid, n->sub->nloop, n->sub->loop);
      TRY(put(c, sub, to, read, n->sub, e));
      TRY(graph_nest(to, sub, n->nin, read, n->at, &made, e));
      for (int k = 0; k < n->nout; k++) map[n->out + k] = made + k;
    } else
      TRY(graph_take(to, above, n->op == OP_ITER ? in[iters++] : -1, g, n, map, e));
    graph_keep_names(to, g, n, map);
  }
  return OK;
}

struct graph *calls_put(struct arena *mem, const struct calls *c, const struct graph *g)
{
  struct graph *to = graph_new_as(mem, g);
  struct err e = {0};
  return put(c, to, NULL, NULL, g, &e) == OK && graph_check(to, &e) == OK ? to : NULL;
}
