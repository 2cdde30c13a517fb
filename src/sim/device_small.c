// Kernels with data-dependent indices, with fewer slices in the indexed tensors (device_proof.h). An embedding table or a cache may be larger than the
// interpreter's memory. The range of the index input is reduced in the same way.
#include "sim/device_proof.h"
#include "ir/ir.h"

enum { SLICES = 256, ALIGNED = 64 }; // least number of slices; the new extent is equal to the old one modulo ALIGNED

struct shrinking {
  const struct graph *g;
  int64_t enough;  // number of slices that is enough for every choice
  int64_t *extent; // by tensor: new extent of dimension dim; 0: unchanged
  int *dim;
  int64_t *most; // by tensor: new largest index; -1: unchanged
};

static const struct node *input_of(const struct graph *g, const struct node *n, int tile)
{
  const int x = node_iterated(n, tile);
  const struct node *input = x < 0 ? NULL : &g->nodes[g->tensors[x].node];
  return input && input->op == OP_INPUT ? input : NULL;
}

// Is the tensor only read as a source indexed along dimension dim, or, for dim -1, only as an index?
static bool only_so(const struct graph *g, int tensor, int dim)
{
  bool only = true;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    for (int k = 0; k < n->nin; k++) only &= n->in[k] != tensor || n->op == OP_BLOCK;
    for (int k = 0; n->op == OP_BLOCK && k < n->sub->nnodes; k++) {
      const struct node *x = &n->sub->nodes[k];
      for (int o = 0; o < x->nin && x->op != OP_ITER; o++) {
        const struct node *input = input_of(g, n, x->in[o]);
        if (input && input->out == tensor) only &= op_rows[x->op].rule == RULE_AT && (dim < 0 ? o == 1 : o == 0 && x->a.dim == dim);
      }
    }
  }
  return only;
}

static void one(struct shrinking *s, const struct node *n, const struct node *choice)
{
  const struct node *x = input_of(s->g, n, choice->in[0]), *at = input_of(s->g, n, choice->in[1]);
  if (!x || !at || !s->g->tensors[at->out].whole || !only_so(s->g, x->out, choice->a.dim) || !only_so(s->g, at->out, -1)) return;
  const struct tensor *t = &s->g->tensors[x->out];
  const int64_t extent = t->shape.d[choice->a.dim], few = (s->enough + ALIGNED - 1) / ALIGNED * ALIGNED + extent % ALIGNED;
  if (few >= extent) return;
  s->extent[x->out] = few, s->dim[x->out] = choice->a.dim;
  s->most[at->out] = s->most[at->out] < 0 ? few - 1 : MIN(s->most[at->out], few - 1);
}

static void each(struct shrinking *s, void (*act)(struct shrinking *, const struct node *, const struct node *))
{
  for (int i = 0; i < s->g->nnodes; i++)
    for (int k = 0; s->g->nodes[i].op == OP_BLOCK && k < s->g->nodes[i].sub->nnodes; k++) {
      const struct node *x = &s->g->nodes[i].sub->nodes[k];
      if (node_has(x, BY_INDEX)) act(s, &s->g->nodes[i], x);
    }
}

static void count(struct shrinking *s, const struct node *n, const struct node *choice)
{
  const struct node *at = input_of(s->g, n, choice->in[1]);
  if (at) s->enough = MAX(s->enough, 2 * shape_size(&s->g->tensors[at->out].shape));
}

static int input(const struct shrinking *s, struct graph *to, const struct node *n, int *out, struct err *e)
{
  struct tensor t = s->g->tensors[n->out];
  if (s->extent[n->out]) t.shape.d[s->dim[n->out]] = s->extent[n->out];
  if (s->most[n->out] >= 0) t.range.most = MIN(t.range.most, s->most[n->out]);
  return graph_input_as(to, NULL, t.dtype, &t, n->at, out, e);
}

// Rebuilds a block graph; the shapes of its tiles follow from the new shapes of the tensors.
static int block(struct graph *to, const struct node *n, int *map, struct err *e)
{
  struct graph *sub = graph_new(to->mem, BLOCK, n->sub->name);
  int *tile = NEWS(to->mem, int, n->sub->ntensors + 1), *in = NEWS(to->mem, int, n->nin + 1), iters = 0, made = 0;
  for (int k = 0; k < n->nin; k++) in[k] = map[n->in[k]];
  graph_axes(sub, n->sub->ngrid, n->sub->grid, n->sub->nloop, n->sub->loop);
  for (int i = 0; i < n->sub->nnodes; i++) {
    const struct node *x = &n->sub->nodes[i];
    TRY(graph_take(sub, to, x->op == OP_ITER ? in[iters++] : -1, n->sub, x, tile, e));
  }
  TRY(graph_nest(to, sub, n->nin, in, n->at, &made, e));
  for (int k = 0; k < n->nout; k++) map[n->out + k] = made + k;
  return OK;
}

static int rebuild(const struct shrinking *s, struct graph *to, int *map, struct err *e)
{
  for (int i = 0; i < s->g->nnodes; i++) {
    const struct node *n = &s->g->nodes[i];
    if (n->op == OP_INPUT)
      TRY(input(s, to, n, &map[n->out], e));
    else if (n->op == OP_BLOCK)
      TRY(block(to, n, map, e));
    else
      TRY(graph_take(to, NULL, -1, s->g, n, map, e));
    graph_keep_names(to, s->g, n, map);
  }
  return OK;
}

struct graph *device_fewer_slices(struct arena *mem, struct graph *g)
{
  const int nt = g->ntensors + 1;
  struct shrinking s = {g, SLICES, NEWS(mem, int64_t, nt), NEWS(mem, int, nt), NEWS(mem, int64_t, nt)};
  struct err e = {0};
  bool any = false;
  for (int t = 0; t < nt; t++) s.most[t] = -1;
  each(&s, count), each(&s, one);
  for (int t = 0; t < nt; t++) any |= s.extent[t];
  struct graph *to = graph_new(mem, KERNEL, g->name);
  return any && rebuild(&s, to, NEWS(mem, int, nt), &e) == OK ? to : g;
}
