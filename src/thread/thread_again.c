// Elementwise values that are computed again instead of kept. A value that is read before and after a reduction of it lies in a tile, which is
// written once and read once. If it takes few operations on one tensor that the block loads anyway, later readers compute it of that tensor.
#include "thread/fuse.h"

enum { MOST_WORK = 2, SMALL = 8 }; // single operations of a value; a tensor this many times smaller than the value is read at no cost

struct again {
  const struct graph *g; // the block graph as it was
  struct graph *to;
  struct thread_block needs; // which node depends on which
  int *moved;
  struct err *e;
};

static const struct node *maker(const struct graph *g, int t) { return &g->nodes[g->tensors[t].node]; }

static bool reads(const struct node *n, int t)
{
  for (int k = 0; k < n->nin; k++)
    if (n->in[k] == t) return true;
  return false;
}

static bool fuses(const struct node *n) { return op_rows[n->op].rule == RULE_MAP || op_rows[n->op].rule == RULE_REDUCE; }

// Operations that computing t takes, for readers of `size` elements; *large is the one tensor of that size that is loaded. More than MOST_WORK: t is
// kept.
static int work_of(const struct graph *g, int t, int64_t size, int *large)
{
  const struct node *n = maker(g, t);
  if (n->op == OP_CONST || shape_size(&g->tensors[t].shape) <= size / SMALL) return 0;
  if (n->op == OP_ITER) {
    const bool other = *large >= 0 && *large != t;
    *large = t;
    return other ? MOST_WORK + 1 : g->tensors[t].dtype != F32;
  }
  if (op_rows[n->op].rule != RULE_MAP) return MOST_WORK + 1;
  int work = (int)op_rows[n->op].cost;
  for (int k = 0; k < n->nin && work <= MOST_WORK; k++) work += work_of(g, n->in[k], size, large);
  return work;
}

// Does node i read t after a reduction of t?
static bool reads_late(const struct again *a, int i, int t)
{
  for (int r = 0; r < a->g->nnodes; r++)
    if (op_rows[a->g->nodes[r].op].rule == RULE_REDUCE && node_needs(&a->needs, i, r) && node_needs(&a->needs, r, a->g->tensors[t].node)) return true;
  return false;
}

// Is t in no tile, once late readers compute it themselves? Other readers share its loop.
static bool may_vanish(const struct again *a, int t)
{
  const struct graph *g = a->g;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (!reads(n, t)) continue;
    const struct shape *space = &g->tensors[op_rows[n->op].rule == RULE_MAP ? n->out : t].shape;
    if (!fuses(n) || g->tensors[n->out].phase != g->tensors[t].phase || !shape_eq(space, &g->tensors[t].shape)) return false;
  }
  return true;
}

static bool again(const struct again *a, int reader, int t)
{
  const struct node *n = maker(a->g, t);
  int large = -1;
  if (op_rows[n->op].rule != RULE_MAP || !may_vanish(a, t) || !reads_late(a, reader, t)) return false;
  return work_of(a->g, t, shape_size(&a->g->tensors[t].shape), &large) <= MOST_WORK && large >= 0;
}

// t in the new graph: a copy of its operators down to what is loaded, or small.
static int copy_of(struct again *a, int t, int64_t size, int *out)
{
  const struct node *n = maker(a->g, t);
  int in[2];
  *out = a->moved[t];
  if (op_rows[n->op].rule != RULE_MAP || shape_size(&a->g->tensors[t].shape) <= size / SMALL) return OK;
  for (int k = 0; k < n->nin; k++) TRY(copy_of(a, n->in[k], size, &in[k]));
  return graph_add(a->to, n->op, n->nin, in, &n->a, n->at, out, a->e);
}

static int put(struct again *a, const struct graph *above, const struct node *holder, int i, int *iter)
{
  const struct node *n = &a->g->nodes[i];
  int t = 0, *in = NEWS(a->needs.mem, int, n->nin + 1);
  if (n->op == OP_ITER) {
    TRY(graph_iter(a->to, above, holder->in[(*iter)++], &n->a, n->at, &t, a->e));
  } else {
    for (int k = 0; k < n->nin; k++) {
      in[k] = a->moved[n->in[k]];
      if (k && n->in[k] == n->in[0])
        in[k] = in[0];
      else if (fuses(n) && again(a, i, n->in[k]))
        TRY(copy_of(a, n->in[k], shape_size(&a->g->tensors[n->in[k]].shape), &in[k]));
    }
    TRY(graph_add(a->to, n->op, n->nin, in, &n->a, n->at, &t, a->e));
  }
  for (int k = 0; k < n->nout; k++) a->moved[n->out + k] = t + k, a->to->tensors[t + k].name = a->g->tensors[n->out + k].name;
  return OK;
}

static bool has_threads(const struct graph *g)
{
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].sub) return true;
  return false;
}

static bool any_again(const struct again *a)
{
  for (int i = 0; i < a->g->nnodes; i++)
    for (int k = 0; k < a->g->nodes[i].nin && fuses(&a->g->nodes[i]); k++)
      if (again(a, i, a->g->nodes[i].in[k])) return true;
  return false;
}

static int in_block(struct arena *mem, const struct graph *above, struct node *holder, struct err *e)
{
  struct arena tmp = {0};
  struct again a = {.g = holder->sub, .needs = {.mem = &tmp, .g = holder->sub}, .e = e};
  int iter = 0, s = OK;
  thread_needs(&a.needs);
  if (!has_threads(a.g) && any_again(&a)) {
    a.to = graph_new(mem, BLOCK, a.g->name), a.moved = NEWS(&tmp, int, a.g->ntensors + 1);
    graph_axes(a.to, a.g->ngrid, a.g->grid, a.g->nloop, a.g->loop);
    for (int i = 0; i < a.g->nnodes && !s; i++) s = put(&a, above, holder, i, &iter);
    if (!s) holder->sub = a.to;
  }
  arena_close(&tmp);
  return s;
}

int thread_again(struct arena *mem, const struct graph *g, struct graph **out, struct err *e)
{
  *out = graph_copy(mem, g);
  for (int i = 0; i < (*out)->nnodes; i++)
    if ((*out)->nodes[i].op == OP_BLOCK) TRY(in_block(mem, *out, &(*out)->nodes[i], e));
  return OK;
}
