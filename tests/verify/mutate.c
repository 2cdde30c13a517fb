// Mutants: copy the graph, change one place, build it anew through the functions that every graph is built with.
// Inference and graph_check decide which changes make a graph at all.
#include "mutate.h"

#include <string.h>

const char *const change_names[CHANGES] = {
    [CHANGE_IMAP] = "imap",       [CHANGE_OMAP] = "omap",   [CHANGE_FMAP] = "fmap",   [CHANGE_SWAP] = "swap",
    [CHANGE_OPERAND] = "operand", [CHANGE_OP] = "operator", [CHANGE_DROP] = "drop",   [CHANGE_AXIS] = "axis",
    [CHANGE_SCALAR] = "scalar",   [CHANGE_DIM] = "dim",     [CHANGE_ORDER] = "order", [CHANGE_COUNT] = "count",
};

struct maker {
  const struct graph *whole;
  const int *path; // of node indices from the whole graph to the graph that is changed
  int depth;
  mutant_found found;
  void *arg;
  int count;
};

// ---- building ----

static void live(const struct graph *g, bool *node)
{
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const struct node *n = &g->nodes[i];
    node[i] |= n->op == OP_OUTPUT || n->op == OP_SAVE || n->op == OP_INPUT;
    for (int k = 0; k < n->nin && node[i]; k++) node[g->tensors[n->in[k]].node] = true;
  }
}

static int build(struct graph *to, const struct graph *above, const int *from, const struct graph *g);

static int build_nested(struct graph *to, const int *at, const struct node *n, int *out)
{
  struct graph *sub = graph_new(to->mem, n->sub->level, NULL);
  struct err e = {0};
  bool *node = NEWS(to->mem, bool, n->sub->nnodes);
  int *from = NEWS(to->mem, int, n->nin), *used = NEWS(to->mem, int, n->nin), nused = 0, iter = 0;
  live(n->sub, node);
  for (int i = 0; i < n->sub->nnodes; i++) {
    if (n->sub->nodes[i].op != OP_ITER) continue;
    from[iter] = at[n->in[iter]];
    if (node[i]) used[nused++] = from[iter];
    iter++;
  }
  graph_axes(sub, n->sub->ngrid, n->sub->grid, n->sub->nloop, n->sub->loop);
  int s = build(sub, to, from, n->sub);
  return s ? s : graph_nest(to, sub, nused, used, n->at, out, &e);
}

static int build(struct graph *to, const struct graph *above, const int *from, const struct graph *g)
{
  struct err e = {0};
  int *at = NEWS(to->mem, int, g->ntensors + 1), iter = 0, s = OK;
  bool *node = NEWS(to->mem, bool, g->nnodes + 1);
  live(g, node);
  for (int i = 0; i < g->nnodes && !s; i++) {
    const struct node *n = &g->nodes[i];
    int in[64], out = 0, k = n->op == OP_ITER ? iter++ : 0;
    if (!node[i]) continue;
    for (int j = 0; j < n->nin; j++) in[j] = at[n->in[j]];
    if (n->op == OP_INPUT)
      s = graph_input_as(to, g->tensors[n->out].name, g->tensors[n->out].dtype, &g->tensors[n->out], n->at, &out, &e);
    else if (n->op == OP_ITER)
      s = graph_iter(to, above, from[k], &n->a, n->at, &out, &e);
    else if (n->sub)
      s = build_nested(to, at, n, &out);
    else
      s = graph_add(to, n->op, n->nin, in, &n->a, n->at, &out, &e);
    for (int j = 0; j < n->nout && !s; j++) at[n->out + j] = out + j;
    if (!s && n->nout && to->nodes[to->nnodes - 1].nout != n->nout) s = USER;
  }
  return s;
}

static bool same_ends(const struct graph *a, const struct graph *b)
{
  int x[64], y[64], n = graph_outputs(a, NULL);
  if (n > 64 || graph_outputs(b, NULL) != n) return false;
  graph_outputs(a, x), graph_outputs(b, y);
  for (int i = 0; i < n; i++)
    if (!shape_eq(&a->tensors[x[i]].shape, &b->tensors[y[i]].shape)) return false;
  return true;
}

// ---- one change ----

static void edit_operands(struct graph *g, struct node *n, const struct mutation *m)
{
  if (m->change == CHANGE_OPERAND) n->in[m->x] = m->y;
  if (m->change == CHANGE_SWAP) {
    int t = n->in[m->x];
    n->in[m->x] = n->in[m->y], n->in[m->y] = t;
  }
  for (int i = m->node + 1; i < g->nnodes && m->change == CHANGE_DROP; i++)
    for (int k = 0; k < g->nodes[i].nin; k++)
      if (g->nodes[i].in[k] == n->out) g->nodes[i].in[k] = n->in[0];
}

static void edit_counts(struct node *n, const struct mutation *m)
{
  int64_t *counts[] = {&n->a.index, &n->a.group, &n->a.times, &n->a.extent, &n->a.parts};
  if (m->change == CHANGE_COUNT) *counts[m->x] = m->y;
  if (m->change == CHANGE_DIM) n->a.dim = m->y;
  struct shape *list = n->op == OP_TRANSPOSE ? &n->a.perm : &n->a.shape;
  if (m->change == CHANGE_ORDER) {
    int64_t t = list->d[m->x];
    list->d[m->x] = list->d[m->y], list->d[m->y] = t;
  }
}

static void edit(struct graph *g, const struct mutation *m)
{
  struct node *n = &g->nodes[m->node];
  double *reals[] = {&n->a.scalar, &n->a.eps, &n->a.lo, &n->a.hi};
  const double by[][2] = {{2, 0}, {1, 1}, {-1, 0}, {0.5, 0.25}};
  int64_t *axis = n->sub ? m->x < MAX_GRID ? &n->sub->grid[m->x] : &n->sub->loop[m->x - MAX_GRID] : NULL;
  edit_operands(g, n, m);
  edit_counts(n, m);
  if (m->change == CHANGE_IMAP) n->a.imap[m->x] = (int8_t)m->y;
  if (m->change == CHANGE_OMAP) n->a.omap[m->x] = (int8_t)m->y;
  if (m->change == CHANGE_FMAP) n->a.fmap[m->x] = (int8_t)m->y;
  if (m->change == CHANGE_OP) n->op = (enum op)m->y;
  if (m->change == CHANGE_AXIS) *axis = m->y;
  if (m->change == CHANGE_SCALAR) *reals[m->x] = *reals[m->x] * by[m->y][0] + by[m->y][1];
}

static void try(struct maker *w, struct mutation m)
{
  struct arena mem = {0};
  struct graph *copy = graph_copy(&mem, w->whole), *at = copy;
  struct err e = {0};
  for (int i = 0; i < w->depth; i++) at = at->nodes[w->path[i]].sub;
  m.op = m.op_before = at->nodes[m.node].op, m.level = at->level;
  edit(at, &m);
  m.op = at->nodes[m.node].op;
  struct graph *g = graph_new(&mem, KERNEL, w->whole->name);
  bool good = build(g, NULL, NULL, copy) == OK && graph_check(g, &e) == OK && same_ends(g, w->whole);
  if (good && !graph_same(g, w->whole)) {
    snprintf(m.text, sizeof m.text, "%s of %s %d in the %s graph: %d to %d%s%s", change_names[m.change], op_rows[m.op_before].name, m.node,
             level_name(m.level), m.x, m.y, m.op == m.op_before ? "" : ", ", m.op == m.op_before ? "" : op_rows[m.op].name);
    w->found(w->arg, g, &m);
    w->count++;
  }
  arena_close(&mem);
}

static void change(struct maker *w, const struct graph *g, int node, enum change c, int x, int y)
{
  try(w, (struct mutation){.change = c, .in = g, .node = node, .x = x, .y = y});
}

// ---- all changes of one node ----

static void change_maps(struct maker *w, const struct graph *g, int i)
{
  const struct node *n = &g->nodes[i];
  int t = n->nout ? n->out : n->nin ? n->in[0] : -1;
  for (int d = REPLICA; t >= 0 && d < g->tensors[t].shape.n; d++) {
    for (int x = 0; x < g->ngrid; x++) {
      if (n->op == OP_ITER && n->a.imap[x] != d) change(w, g, i, CHANGE_IMAP, x, d);
      if (n->op == OP_SAVE && n->a.omap[x] != d) change(w, g, i, CHANGE_OMAP, x, d);
    }
    for (int l = 0; l < g->nloop; l++)
      if ((op_rows[n->op].attrs & A_FMAP) && n->a.fmap[l] != d) change(w, g, i, CHANGE_FMAP, l, d);
  }
}

static void change_operands(struct maker *w, const struct graph *g, int i)
{
  const struct node *n = &g->nodes[i];
  for (int k = 0; k < n->nin; k++) {
    for (int j = 0; j < k; j++)
      if (n->in[j] != n->in[k]) change(w, g, i, CHANGE_SWAP, j, k);
    for (int t = 0; t < g->ntensors && g->tensors[t].node < i; t++)
      if (t != n->in[k] && shape_eq(&g->tensors[t].shape, &g->tensors[n->in[k]].shape)) change(w, g, i, CHANGE_OPERAND, k, t);
  }
  if (n->nin && n->nout && !n->sub && shape_eq(&g->tensors[n->in[0]].shape, &g->tensors[n->out].shape)) change(w, g, i, CHANGE_DROP, 0, 0);
}

static void change_operator(struct maker *w, const struct graph *g, int i)
{
  const struct op_row *row = &op_rows[g->nodes[i].op];
  for (int op = 0; op < OPS && row->rule != RULE_IO && row->rule != RULE_GRAPH; op++) {
    const struct op_row *to = &op_rows[op];
    bool alike = to->rule == row->rule && to->least == row->least && to->most == row->most && !(to->attrs & ~row->attrs);
    if (alike && to != row && to->levels >> g->level & 1) change(w, g, i, CHANGE_OP, 0, op);
  }
}

static void change_attributes(struct maker *w, const struct graph *g, int i)
{
  const struct node *n = &g->nodes[i];
  unsigned has = op_rows[n->op].attrs;
  for (int k = 0; k < 4; k++) {
    if (has & A_SCALAR) change(w, g, i, CHANGE_SCALAR, 0, k);
    if (has & A_EPS) change(w, g, i, CHANGE_SCALAR, 1, k);
    if (has & A_LO) change(w, g, i, CHANGE_SCALAR, 2, k), change(w, g, i, CHANGE_SCALAR, 3, k);
  }
  for (int d = 0; d < MAX_DIMS && n->nin && d < g->tensors[n->in[0]].shape.n; d++)
    if (((has & A_DIM) || n->op == OP_SOFTMAX) && n->a.dim != d) change(w, g, i, CHANGE_DIM, 0, d);
  const struct shape *list = n->op == OP_TRANSPOSE ? &n->a.perm : &n->a.shape;
  for (int x = 0; x < list->n; x++)
    for (int y = 0; y < x; y++)
      if (list->d[x] != list->d[y]) change(w, g, i, CHANGE_ORDER, x, y);
  for (int k = 0; k < 9; k++) {
    if ((has & A_INDEX) && k != n->a.index) change(w, g, i, CHANGE_COUNT, 0, k);
    if ((has & A_GROUP) && k != n->a.group) change(w, g, i, CHANGE_COUNT, 1, k);
    if ((has & A_TIMES) && k != n->a.times) change(w, g, i, CHANGE_COUNT, 2, k);
    if ((has & A_EXTENT) && k != n->a.extent) change(w, g, i, CHANGE_COUNT, 3, k);
  }
}

static void change_axes(struct maker *w, const struct graph *g, int i)
{
  const struct graph *sub = g->nodes[i].sub;
  for (int k = 0; sub && k < sub->ngrid + sub->nloop; k++) {
    bool grid = k < sub->ngrid;
    int64_t now = grid ? sub->grid[k] : sub->loop[k - sub->ngrid];
    for (int n = 1; n <= 8; n++)
      if (n != now) change(w, g, i, CHANGE_AXIS, grid ? k : MAX_GRID + k - sub->ngrid, n);
  }
}

static void visit(struct maker *w, const struct graph *g, int *path, int depth)
{
  for (int i = 0; i < g->nnodes; i++) {
    w->path = path, w->depth = depth;
    change_maps(w, g, i);
    change_operands(w, g, i);
    change_operator(w, g, i);
    change_attributes(w, g, i);
    change_axes(w, g, i);
    if (!g->nodes[i].sub || depth >= LEVELS) continue;
    path[depth] = i;
    visit(w, g->nodes[i].sub, path, depth + 1);
  }
}

int mutants(const struct graph *g, mutant_found found, void *arg)
{
  int path[LEVELS];
  struct maker w = {.whole = g, .found = found, .arg = arg};
  visit(&w, g, path, 0);
  return w.count;
}

void real_run(struct arena *mem, const struct graph *g, void *const *in, void **out)
{
  struct err e = {0};
  struct graph *plain;
  CHECK(graph_expand(mem, g, false, &plain, &e) == OK && eval_run(mem, plain, DOM_F64, NULL, in, out, NULL, &e) == OK);
}
