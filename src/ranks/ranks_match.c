// Matches a side of a law against a program, and builds the program with the other side.
#include "ranks/ranks.h"

#include <string.h>

struct ranks_binding {
  int tensor[RANKS_VARIABLES];            // the tensor bound to each variable, or -1
  const struct node *node[RANKS_CLASSES]; // the node bound to each class, or NULL
  int dim;                                // the dimension d, or -1
};

static bool fits(const struct ranks_rewriting *w, const struct ranks_term *p, int t, struct ranks_binding *b);

static bool arguments_fit(const struct ranks_rewriting *w, const struct ranks_term *p, const struct node *n, struct ranks_binding *b)
{
  const struct ranks_binding before = *b;
  const bool turns = p->n == 2 && op_rows[n->op].flags & COMMUTES && p->class == RANKS_NONE;
  for (int turned = 0; turned <= turns; turned++) {
    bool all = true;
    *b = before;
    for (int k = 0; k < p->n && all; k++) all = fits(w, p->arg[k], n->in[turned ? 1 - k : k], b);
    if (all) return true;
  }
  return false;
}

static bool attributes_fit(const struct ranks_rewriting *w, const struct ranks_term *p, const struct node *n, struct ranks_binding *b)
{
  struct attrs plain = attrs_default(n->op);
  if (p->dim) {
    if (b->dim >= 0 && b->dim != n->a.dim) return false;
    b->dim = plain.dim = n->a.dim;
  }
  if (p->count) plain.scalar = w->g->world;
  return attrs_same(&plain, &n->a);
}

static bool fits(const struct ranks_rewriting *w, const struct ranks_term *p, int t, struct ranks_binding *b)
{
  const struct node *n = &w->g->nodes[w->g->tensors[t].node];
  if (p->variable >= 0) {
    int *to = &b->tensor[p->variable];
    if ((p->same && w->varies[t]) || (*to >= 0 && *to != t)) return false;
    return *to = t, true;
  }
  if (n->nout != 1 || n->nin != p->n) return false;
  if (p->class != RANKS_NONE) {
    if (!ranks_is(p->class, n)) return false;
    b->node[p->class] = n;
  } else if (n->op != p->op || !attributes_fit(w, p, n, b)) {
    return false;
  }
  return arguments_fit(w, p, n, b);
}

// ---- building ----

struct ranks_building {
  const struct ranks_binding *b;
  struct graph *to;
  const int *map;      // by tensor of the program: the tensor of `to`
  int *first, *follow; // hash table of operators: first node of each bucket; by node of `to`, the next one; -1: none
  struct err e;
};
enum { BUCKETS = 1024, MOST_ADDED = 16 }; // buckets of the table; most operators of a side

// Adds an operator, or finds an equal one that has been added.
static int add(struct ranks_building *w, enum op op, int nin, const int *in, const struct attrs *a, struct loc at, int *out)
{
  const uint64_t hash = hash_bytes(in, sizeof *in * (size_t)nin, (uint64_t)op);
  int *bucket = &w->first[hash % BUCKETS];
  for (int i = *bucket; i >= 0; i = w->follow[i]) {
    const struct node *n = &w->to->nodes[i];
    if (n->op == op && n->nin == nin && !memcmp(n->in, in, sizeof *in * (size_t)nin) && attrs_same(&n->a, a)) return *out = n->out, OK;
  }
  TRY(graph_add(w->to, op, nin, in, a, at, out, &w->e));
  const int made = w->to->nnodes - 1;
  return w->follow[made] = *bucket, *bucket = made, OK;
}

static int build(struct ranks_building *w, const struct ranks_term *p, struct loc at, int *out)
{
  int in[RANKS_ARGS];
  if (p->variable >= 0) return *out = w->map[w->b->tensor[p->variable]], OK;
  for (int k = 0; k < p->n; k++) TRY(build(w, p->arg[k], at, &in[k]));
  const struct node *of = w->b->node[p->class];
  const enum op op = of ? of->op : p->op;
  struct attrs a = of ? of->a : attrs_default(op);
  if (p->dim) a.dim = w->b->dim;
  if (p->count) a.scalar = w->to->world;
  return add(w, op, p->n, in, &a, at, out);
}

static int take(struct ranks_building *w, const struct graph *g, const struct node *n, int *map)
{
  int in[64];
  const bool plain = n->op != OP_OUTPUT && !n->sub && n->nout == 1 && n->nin && n->nin <= (int)COUNT(in);
  if (!plain) return graph_take(w->to, NULL, -1, g, n, map, &w->e);
  for (int k = 0; k < n->nin; k++) in[k] = map[n->in[k]];
  return add(w, n->op, n->nin, in, &n->a, n->at, &map[n->out]);
}

static int replaced(struct ranks_building *w, const struct graph *g, int node, const struct ranks_term *side, int *map)
{
  int status = OK;
  for (int i = 0; i < g->nnodes && !status; i++) {
    const struct node *n = &g->nodes[i];
    status = i == node ? build(w, side, n->at, &map[n->out]) : take(w, g, n, map);
    if (!status) graph_keep_names(w->to, g, n, map);
    if (status || i != node) continue;
    const struct tensor *x = &g->tensors[n->out], *y = &w->to->tensors[map[n->out]];
    if (!shape_eq(&x->shape, &y->shape) || x->dtype != y->dtype) return NO;
  }
  return status;
}

static bool needs_dim(const struct ranks_term *p)
{
  bool any = p->dim;
  for (int k = 0; k < p->n; k++) any |= needs_dim(p->arg[k]);
  return any;
}

struct graph *ranks_rewrite(struct arena *mem, const struct ranks_rewriting *w, int i, int d)
{
  const struct node *n = &w->g->nodes[i];
  struct ranks_binding b = {.tensor = {-1, -1, -1, -1}, .dim = -1};
  if (n->nout != 1 || !fits(w, w->from, n->out, &b)) return NULL;
  const bool free_dim = b.dim < 0 && needs_dim(w->to);
  if (free_dim) b.dim = d;
  if (d && !free_dim) return NULL; // no dimension to try
  struct arena tmp = {0};
  struct ranks_building made = {.b = &b, .to = graph_new(&tmp, KERNEL, w->g->name)};
  int *map = NEWS(&tmp, int, w->g->ntensors + 1);
  made.to->world = w->g->world, made.map = map;
  made.first = NEWS(&tmp, int, BUCKETS), made.follow = NEWS(&tmp, int, w->g->nnodes + MOST_ADDED);
  memset(made.first, -1, sizeof *made.first * BUCKETS);
  struct graph *out;
  int status = replaced(&made, w->g, i, w->to, map);
  if (!status) status = graph_without_unread(mem, made.to, false, &out, &made.e);
  if (!status) status = world_check(out, &made.e);
  arena_close(&tmp);
  return status ? NULL : out;
}
