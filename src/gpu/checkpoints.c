#include "gpu/checkpoints.h"
#include "base/memory.h"

#include <string.h>

// The elements of a tensor that an element depends on, as extents of a box; all 0: none. Boxes of several readers are assumed to overlap.
struct dependence {
  int64_t d[MAX_DIMS];
};
struct dependence_walk {
  const struct graph *g;
  bool *cut;               // by tensor: its elements are given
  struct dependence *need; // by tensor
};

static double elements(const struct dependence *b, int n)
{
  double all = 1;
  for (int d = 0; d < n; d++) all *= (double)b->d[d];
  return all;
}

static bool needed(const struct dependence_walk *w, int t) { return w->need[t].d[0] > 0; }

static void join(struct dependence_walk *w, int t, const struct dependence *b)
{
  const struct shape *s = &w->g->tensors[t].shape;
  struct dependence *own = &w->need[t];
  own->d[0] = MAX(own->d[0], 1); // also of a scalar
  for (int d = 0; d < s->n; d++) own->d[d] = MAX(own->d[d], MIN(s->d[d], MAX(1, b->d[d])));
}

// Right-aligned, with broadcasting.
static void join_under(struct dependence_walk *w, int t, const struct dependence *b, int n)
{
  const struct shape *s = &w->g->tensors[t].shape;
  struct dependence own = {{0}};
  for (int d = s->n - 1, k = n - 1; d >= 0; d--, k--) own.d[d] = k < 0 ? 1 : MIN(s->d[d], b->d[k]);
  join(w, t, &own);
}

static void join_with(struct dependence_walk *w, int t, const struct dependence *b, int dim, int64_t extent)
{
  struct dependence own = *b;
  own.d[dim] = extent;
  join(w, t, &own);
}

// Both shapes consist of groups of dimensions with the same number of elements. In a group, all elements between the first and the last one count.
static void reshape(struct dependence_walk *w, const struct node *n, const struct dependence *b)
{
  const struct shape *o = &w->g->tensors[n->out].shape, *x = &w->g->tensors[n->in[0]].shape;
  struct dependence own = {{0}};
  for (int k = x->n - 1, d = o->n - 1; k >= 0;) {
    const int last = k;
    int64_t of_x = x->d[k--], of_o = 1, span = 1, step = 1;
    while (of_o != of_x) {
      if (of_o < of_x)
        span += (b->d[d] - 1) * of_o, of_o *= o->d[d--];
      else
        of_x *= x->d[k--];
    }
    for (int i = last; i > k; step *= x->d[i--]) own.d[i] = (span + step - 1) / step;
  }
  join(w, n->in[0], &own);
}

static void view(struct dependence_walk *w, const struct node *n, const struct dependence *b)
{
  const struct shape *o = &w->g->tensors[n->out].shape;
  struct dependence own = *b;
  if (n->op == OP_RESHAPE) return reshape(w, n, b);
  if (n->op == OP_TRANSPOSE)
    for (int d = 0; d < o->n; d++) own.d[perm_of(&n->a, o->n, d)] = b->d[d];
  else if (n->op == OP_REPEAT)
    own.d[n->a.dim] = b->d[n->a.dim] / n->a.times + 1;
  join(w, n->in[0], &own);
}

static double contract(struct dependence_walk *w, const struct node *n, const struct dependence *b)
{
  const struct shape *o = &w->g->tensors[n->out].shape, *x = &w->g->tensors[n->in[0]].shape;
  const int64_t deep = x->d[x->n - 1];
  struct dependence left = *b, right = *b;
  left.d[o->n - 1] = deep, right.d[o->n - 2] = deep;
  join_under(w, n->in[0], &left, o->n), join_under(w, n->in[1], &right, o->n);
  return 2 * (double)deep;
}

static double chosen(struct dependence_walk *w, const struct node *n, const struct dependence *b)
{
  const struct shape *o = &w->g->tensors[n->out].shape, *x = &w->g->tensors[n->in[0]].shape;
  const int64_t extent = x->d[n->a.dim], many = (int64_t)MIN(1e15, elements(b, o->n));
  struct dependence few = {{0}}, all = {{0}};
  for (int d = 0; d < MAX_DIMS; d++) few.d[d] = 1, all.d[d] = INT64_MAX;
  if (node_has(n, SELECTS)) return join_with(w, n->in[0], b, n->a.dim, extent), (double)extent * (double)o->d[n->a.dim];
  if (node_has(n, READS_SLICES)) {
    join_with(w, n->in[0], &few, n->a.dim, many);
    return join_with(w, n->in[1], &few, 0, many), 1;
  }
  join(w, n->in[0], b), join(w, n->in[1], &all), join(w, n->in[2], b);
  return (double)shape_size(&w->g->tensors[n->in[1]].shape);
}

// Marks what one result needs of the operands. Returns the steps of one of its elements.
static double mark(struct dependence_walk *w, const struct node *n, const struct dependence *b)
{
  const struct shape *o = &w->g->tensors[n->out].shape;
  const enum rule rule = op_rows[n->op].rule;
  if (rule == RULE_CONTRACT) return contract(w, n, b);
  if (rule == RULE_AT) return chosen(w, n, b);
  if (rule == RULE_VIEW) return view(w, n, b), 1;
  if (rule == RULE_REDUCE) {
    const int64_t len = w->g->tensors[n->in[0]].shape.d[n->a.dim] / o->d[n->a.dim];
    return join_with(w, n->in[0], b, n->a.dim, b->d[n->a.dim] * len), (double)len;
  }
  for (int i = 0; i < n->nin; i++) {
    if (rule == RULE_MAP)
      join_under(w, n->in[i], b, o->n);
    else
      join(w, n->in[i], b); // parts, or the whole
  }
  return 1;
}

// first: a node; t does not depend on those before it.
static double steps_from(struct dependence_walk *w, int t, int first)
{
  const struct graph *g = w->g;
  const int least = g->nodes[first].out;
  double sum = 0;
  struct dependence one = {{0}};
  memset(w->need + least, 0, sizeof *w->need * (size_t)(t + 1 - least));
  join(w, t, &one);
  for (int i = g->tensors[t].node; i >= first; i--) {
    const struct node *n = &g->nodes[i];
    for (int u = n->out; u < n->out + n->nout; u++) {
      if (!needed(w, u)) continue;
      const struct dependence b = w->need[u];
      sum += elements(&b, g->tensors[u].shape.n) * (w->cut[u] && u != t ? 1 : mark(w, n, &b));
    }
  }
  return sum;
}

static double steps_of(struct dependence_walk *w, int t) { return steps_from(w, t, 0); }

// ---- the choice ----

static bool may_be_cut(const struct dependence_walk *w, int t)
{
  const enum rule rule = op_rows[w->g->nodes[w->g->tensors[t].node].op].rule;
  return !w->cut[t] && rule != RULE_IO && rule != RULE_CONST && rule != RULE_INDEX && rule != RULE_VIEW;
}

// The checkpoint that helps t most: of those with which t takes `each` steps the smallest, of equally small ones the first. -1: none helps.
static int best_cut(struct dependence_walk *w, int t, double each)
{
  const struct graph *g = w->g;
  int *may = MEM_NEWS(int, t + 1), n = 0, best = -1;
  double least = steps_of(w, t);
  int64_t size = 0;
  for (int u = 0; u < t; u++)
    if (needed(w, u) && (may_be_cut(w, u) || !n) && g->tensors[u].node != g->tensors[t].node) may[n++] = u;
  for (int i = 0, first = n ? g->tensors[may[0]].node : 0; i < n; i++) {
    const int u = may[i];
    const int64_t own = shape_size(&g->tensors[u].shape);
    if (!may_be_cut(w, u)) continue;
    w->cut[u] = true;
    const double steps = steps_from(w, t, first);
    w->cut[u] = false;
    const bool better = steps <= each ? least > each || own < size : least > each && steps < 0.9 * least;
    if (better) best = u, least = steps, size = own;
  }
  return mem_free(may), best;
}

static void ensure(struct dependence_walk *w, int t, double each)
{
  while (steps_of(w, t) > each) {
    const int u = best_cut(w, t, each);
    if (u < 0) return;
    w->cut[u] = true;
    ensure(w, u, each);
  }
}

static struct dependence_walk walk_from(struct arena *mem, const struct graph *g)
{
  return (struct dependence_walk){.g = g, .cut = NEWS(mem, bool, g->ntensors + 1), .need = NEWS(mem, struct dependence, g->ntensors + 1)};
}

double checkpoints_steps(const struct graph *g, int t)
{
  struct arena mem = {0};
  struct dependence_walk w = walk_from(&mem, g);
  const double steps = steps_of(&w, t);
  return arena_close(&mem), steps;
}

// ---- the graphs ----

static int take(struct graph *to, const struct graph *g, bool inputs, const bool *cut, int *map, struct err *e)
{
  for (const struct node *n = g->nodes; n < g->nodes + g->nnodes; n++) {
    if ((n->op == OP_INPUT) != inputs || n->op == OP_OUTPUT) continue;
    TRY(graph_take(to, NULL, -1, g, n, map, e));
    for (int u = n->out; u < n->out + n->nout && cut; u++) {
      if (!cut[u]) continue;
      map[g->ntensors + u] = map[u];
      TRY(graph_input_as(to, NULL, g->tensors[u].dtype, &g->tensors[u], NOWHERE, &map[u], e));
    }
  }
  return OK;
}

// map: by tensor what operators read, then what an output is.
static int from_checkpoints(struct arena *mem, const struct graph *g, const bool *cut, struct checkpoints *c, struct err *e)
{
  int *map = NEWS(mem, int, 2 * g->ntensors + 1), none;
  struct graph *to = c->from = graph_new_as(mem, g);
  for (int t = 0; t < 2 * g->ntensors; t++) map[t] = -1;
  TRY(take(to, g, true, NULL, map, e));
  TRY(take(to, g, false, cut, map, e));
  for (const struct node *n = g->nodes; n < g->nodes + g->nnodes; n++) {
    if (n->op != OP_OUTPUT) continue;
    const int t = n->in[0], was = map[g->ntensors + t];
    TRY(graph_add(to, OP_OUTPUT, 1, was >= 0 ? &was : &map[t], &n->a, NOWHERE, &none, e));
  }
  for (int i = 0; i < c->n; i++) TRY(graph_add(to, OP_OUTPUT, 1, &map[g->ntensors + c->tensor[i]], NULL, NOWHERE, &none, e));
  return OK;
}

int checkpoints_of(struct arena *mem, const struct graph *g, double most, double each, struct checkpoints *out, struct err *e)
{
  struct dependence_walk w = walk_from(mem, g);
  int *outs = NEWS(mem, int, g->nnodes + 1), none;
  const int nout = graph_outputs(g, outs);
  bool any = false;
  *out = (struct checkpoints){.tensor = NEWS(mem, int, g->ntensors + 1)};
  for (int i = 0; i < nout && !any; i++) any = steps_of(&w, outs[i]) > most;
  for (int i = 0; i < nout && any; i++) ensure(&w, outs[i], each);
  for (int t = 0; t < g->ntensors; t++)
    if (w.cut[t]) out->tensor[out->n++] = t;
  if (!out->n) return OK;
  out->more = graph_copy(mem, g);
  for (int i = 0; i < out->n; i++) TRY(graph_add(out->more, OP_OUTPUT, 1, &out->tensor[i], NULL, NOWHERE, &none, e));
  return from_checkpoints(mem, g, w.cut, out, e);
}
