// Checks that a whole graph is well formed. graph_add rejects errors at a single node. This file checks that stored nodes
// still agree with inference, since rewrites and file readers may have errors. It also checks rules for the whole graph:
// order, names, axes, disjoint outputs, no unused results (docs/mugraph.md lists them; paper, section 2).
// The message for the first violation names the node, its tensors and their shapes.
#include "ir/ir.h"

#include <string.h>

// The graph being checked, and the path to it.
struct check {
  const struct graph *g;
  const struct check *above; // NULL: the whole graph
  int node;                  // node of above->g that has g as its sub-graph
  struct err *e;
};

static void place(char out[160], const struct check *c)
{
  char outer[160] = "";
  out[0] = 0;
  if (!c->above) return;
  place(outer, c->above);
  snprintf(out, 160, "%.100sin the %s graph of node %d, ", outer, level_name(c->g->level), c->node);
}

static int bad(const struct check *c, enum errid id, int node, const char *fmt, ...) PRINTF(4, 5);
static int bad(const struct check *c, enum errid id, int node, const char *fmt, ...)
{
  char text[512], where[160];
  const struct node *n = &c->g->nodes[node];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  place(where, c);
  return err_set(c->e, id, n->at, "%snode %d (%s): %s", where, node, n->op < OPS ? op_rows[n->op].name : "?", text);
}

static int bad_graph(const struct check *c, enum errid id, const char *text)
{
  char where[160];
  place(where, c);
  return err_set(c->e, id, NOWHERE, "%sthe %s graph %s", where, level_name(c->g->level), text);
}

// "`name` [2, 3]" or "t5 [2, 3]".
static const char *tensor_text(char out[320], const struct graph *g, int t)
{
  char shape[128];
  shape_text(shape, &g->tensors[t].shape);
  if (g->tensors[t].name)
    snprintf(out, 320, "`%.160s` %s", g->tensors[t].name, shape);
  else
    snprintf(out, 320, "t%d %s", t, shape);
  return out;
}

// ---- structure: indices and order, which other checks rely on ----

static int check_arguments(const struct check *c, int i, int made)
{
  const struct node *n = &c->g->nodes[i];
  for (int k = 0; k < n->nin; k++) {
    if (n->in[k] < 0 || n->in[k] >= c->g->ntensors) return bad(c, ERR_GRAPH, i, "argument %d is tensor %d, which does not exist", k + 1, n->in[k]);
    if (n->in[k] < made) continue;
    const char *name = c->g->tensors[n->in[k]].name;
    if (name) return bad(c, ERR_GRAPH, i, "tensor `%s` is used before it is made: the graph is cyclic or out of order", name);
    return bad(c, ERR_GRAPH, i, "tensor t%d is used before it is made: the graph is cyclic or out of order", n->in[k]);
  }
  return OK;
}

static int check_structure(const struct check *c, int i, int *made)
{
  const struct graph *g = c->g;
  const struct node *n = &g->nodes[i];
  if (n->op < 0 || n->op >= OPS) return bad(c, ERR_FUNCTION, i, "no such operator");
  const struct op_row *row = &op_rows[n->op];
  if (!(row->levels >> g->level & 1)) {
    int s = bad(c, ERR_LEVEL, i, "not an operator of %s graphs", level_name(g->level));
    err_hint(c->e, "%s is legal in%s%s%s graphs", row->name, row->levels & IS_K ? " kernel" : "", row->levels & IS_B ? " block" : "",
             row->levels & IS_T ? " thread" : "");
    return s;
  }
  int least = n->op == OP_ITER ? 0 : row->least, most = n->op == OP_ITER ? 0 : row->most;
  if (n->nin < least || n->nin > most) return bad(c, ERR_ARITY, i, "has %d arguments", n->nin);
  if (n->nout < 0 || n->nout > g->ntensors - *made || (n->nout && n->out != *made))
    return bad(c, ERR_GRAPH, i, "its results are not the next tensors");
  if (check_arguments(c, i, *made)) return USER;
  for (int k = 0; k < n->nout; k++)
    if (g->tensors[n->out + k].node != i)
      return bad(c, ERR_GRAPH, i, "tensor t%d names node %d as its producer", n->out + k, g->tensors[n->out + k].node);
  *made += n->nout;
  if (!n->sub != (row->rule != RULE_GRAPH)) return bad(c, ERR_GRAPH, i, n->sub ? "has a graph inside" : "has no graph inside");
  if (n->sub && n->sub->level != g->level + 1) return bad(c, ERR_LEVEL, i, "holds a %s graph", level_name(n->sub->level));
  return OK;
}

static int check_axes(const struct check *c)
{
  const struct graph *g = c->g;
  int64_t all = 1;
  if (g->ngrid < 0 || g->ngrid > MAX_GRID || g->nloop < 0 || g->nloop > MAX_LOOPS) return bad_graph(c, ERR_GRAPH, "has too many axes");
  if (g->level == KERNEL && g->ngrid + g->nloop) return bad_graph(c, ERR_GRAPH, "has grid or loop axes; only block and thread graphs do");
  for (int i = 0; i < g->ngrid + g->nloop; i++) {
    int64_t x = i < g->ngrid ? g->grid[i] : g->loop[i - g->ngrid];
    if (x < 1 || x >= EXTENT_LIMIT || (all = x > EXTENT_LIMIT / all ? EXTENT_LIMIT : all * x) >= EXTENT_LIMIT)
      return bad_graph(c, ERR_EXTENT, "has a grid or loop extent below 1, or 2^40 iterations or more");
  }
  return OK;
}

static int check_names(const struct check *c)
{
  for (int i = 0; i < c->g->ntensors; i++)
    for (int k = 0; k < i && c->g->tensors[i].name; k++)
      if (c->g->tensors[k].name && !strcmp(c->g->tensors[i].name, c->g->tensors[k].name))
        return bad(c, ERR_DUPLICATE, c->g->tensors[i].node, "the name `%.160s` is taken by tensor %d", c->g->tensors[k].name, k);
  return OK;
}

// ---- nodes: stored properties equal inferred ones ----

static int check_result(const struct check *c, int i, int k, const struct tensor *want)
{
  static const char rerun[] = "build graphs with graph_add, which infers shapes, dtypes and phases";
  const struct tensor *got = &c->g->tensors[c->g->nodes[i].out + k];
  char text[320], shape[128];
  tensor_text(text, c->g, c->g->nodes[i].out + k);
  shape_text(shape, &want->shape);
  int s = OK;
  if (!shape_eq(&got->shape, &want->shape))
    s = bad(c, ERR_SHAPE, i, "%s should have the shape %s", text, shape);
  else if (got->dtype != want->dtype)
    s = bad(c, ERR_DTYPE, i, "%s is %s, should be %s", text, dtype_name(got->dtype), dtype_name(want->dtype));
  else if (got->phase != want->phase)
    s = bad(c, ERR_GRAPH, i, "%s is %s, should be %s", text, phase_name(got->phase), phase_name(want->phase));
  if (s) err_hint(c->e, "%s", rerun);
  return s;
}

static int check_input(const struct check *c, int i)
{
  const struct shape *s = &c->g->tensors[c->g->nodes[i].out].shape;
  int64_t size = 1;
  if (s->n < 0 || s->n > MAX_DIMS) return bad(c, ERR_EXTENT, i, "%d dimensions", s->n);
  for (int k = 0; k < s->n; k++) {
    if (s->d[k] < 1 || s->d[k] >= EXTENT_LIMIT || s->d[k] > EXTENT_LIMIT / size)
      return bad(c, ERR_EXTENT, i, "extents are at least 1 and a tensor has fewer than 2^40 elements");
    size *= s->d[k];
  }
  return OK;
}

// Checks iterator number `iter` of a sub-graph against the tensor that the enclosing node passes to it.
static int check_iter(const struct check *c, int i, int iter)
{
  const struct node *n = &c->g->nodes[i];
  const struct graph *above = c->above->g;
  const struct node *holder = &above->nodes[c->node];
  if (iter >= holder->nin) return bad(c, ERR_GRAPH, i, "iterator %d, but node %d above has %d arguments", iter + 1, c->node, holder->nin);
  const struct tensor *from = &above->tensors[holder->in[iter]];
  struct tensor want = {.dtype = from->dtype};
  int s = infer_tile(c->g, &n->a, &from->shape, n->at, &want.shape, c->e);
  for (int k = 0; k < c->g->nloop; k++)
    if (n->a.fmap[k] != REPLICA) want.phase = VARYING;
  return s ? s : check_result(c, i, 0, &want);
}

static int check_inferred(const struct check *c, int i)
{
  struct tensor want[64];
  int nout = 0, s = infer_node(c->g, &c->g->nodes[i], want, &nout, c->e);
  if (!s && nout != c->g->nodes[i].nout) s = bad(c, ERR_GRAPH, i, "has %d results, should have %d", c->g->nodes[i].nout, nout);
  for (int k = 0; k < nout && !s; k++) s = check_result(c, i, k, &want[k]);
  return s;
}

// Checks that maps use only axes that the graph has.
static int check_maps(const struct check *c, int i)
{
  const struct node *n = &c->g->nodes[i];
  for (int k = 0; k < MAX_GRID + MAX_LOOPS; k++) {
    bool grid = k < MAX_GRID;
    int axis = grid ? k : k - MAX_GRID;
    if (axis < (grid ? c->g->ngrid : c->g->nloop)) continue;
    if ((grid && (n->a.imap[axis] != REPLICA || n->a.omap[axis] != REPLICA)) || (!grid && n->a.fmap[axis] != REPLICA))
      return bad(c, ERR_ATTRIBUTE, i, "a map names axis %c, which the graph has not", (grid ? "xyz" : "ijkl")[axis]);
  }
  return OK;
}

// "Each grid dimension must map to a data dimension of the output tensor, since different blocks must save to
// disjoint tensors" (paper, section 2).
static int check_save(const struct check *c, int i)
{
  char text[320];
  const struct node *n = &c->g->nodes[i];
  for (int k = 0; k < c->g->ngrid; k++) {
    if (n->a.omap[k] != REPLICA || c->g->grid[k] == 1) continue;
    int s = bad(c, ERR_GRAPH, i, "the %lld blocks along %c all save %s to the same place", (long long)c->g->grid[k], "xyz"[k],
                tensor_text(text, c->g, n->in[0]));
    err_hint(c->e, "map %c to a dimension in omap", "xyz"[k]);
    return s;
  }
  return OK;
}

// ---- whole graphs ----

static int check_graph(const struct check *c);

static int check_sub(const struct check *c, int i)
{
  const struct node *n = &c->g->nodes[i];
  int iters = 0;
  for (int k = 0; k < n->sub->nnodes; k++) iters += n->sub->nodes[k].op == OP_ITER;
  if (iters != n->nin) return bad(c, ERR_GRAPH, i, "%d arguments, but %d iterators inside", n->nin, iters);
  return check_graph(&(struct check){n->sub, c, i, c->e});
}

static int check_node(const struct check *c, int i, int *iter)
{
  const struct node *n = &c->g->nodes[i];
  int s = check_maps(c, i);
  if (s) return s;
  if (n->op == OP_INPUT) return check_input(c, i);
  if (n->op == OP_ITER) return c->above ? check_iter(c, i, (*iter)++) : OK;
  if (n->sub && (s = check_sub(c, i))) return s;
  if ((s = check_inferred(c, i))) return s;
  return n->op == OP_SAVE ? check_save(c, i) : OK;
}

// Checks that block and thread graphs load and compute nothing unused. A node with several results needs one that is used.
static int check_used(const struct check *c, struct arena *tmp)
{
  const struct graph *g = c->g;
  char text[320];
  bool *used = NEWS(tmp, bool, g->ntensors + 1);
  for (int i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nin; k++) used[g->nodes[i].in[k]] = true;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    bool any = !n->nout;
    for (int k = 0; k < n->nout; k++) any |= used[n->out + k];
    if (any) continue;
    int s = bad(c, ERR_GRAPH, i, "%s is never used", tensor_text(text, g, n->out));
    err_hint(c->e, "remove the node, or save its result");
    return s;
  }
  return OK;
}

static int check_sizes(const struct check *c)
{
  int64_t all = 0;
  for (int i = 0; i < c->g->ntensors; i++)
    if ((all += shape_size(&c->g->tensors[i].shape)) >= EXTENT_LIMIT) return bad_graph(c, ERR_LIMIT, "has 2^40 elements or more in all its tensors");
  return OK;
}

static int check_graph(const struct check *c)
{
  const struct graph *g = c->g;
  int made = 0, iter = 0, s = check_axes(c);
  for (int i = 0; i < g->nnodes && !s; i++) s = check_structure(c, i, &made);
  if (!s && made != g->ntensors) s = bad_graph(c, ERR_GRAPH, "has tensors that no node makes");
  if (!s) s = check_names(c);
  for (int i = 0; i < g->nnodes && !s; i++) s = check_node(c, i, &iter);
  if (!s) s = check_sizes(c);
  if (!s && !graph_outputs(g, NULL)) {
    s = bad_graph(c, ERR_GRAPH, "has no output");
    err_hint(c->e, g->level == KERNEL ? "end with an output" : "end with a saver: save(o, omap={...})");
  }
  if (s || g->level == KERNEL) return s;
  struct arena tmp = {0};
  s = check_used(c, &tmp);
  arena_close(&tmp);
  return s;
}

int graph_check(const struct graph *g, struct err *e)
{
  TRY(check_graph(&(struct check){g, NULL, 0, e}));
  TRY(world_check(g, e));
  return state_check(g, e);
}
