// Removes nodes that a rewrite left unused: nodes of the kernel graph, savers of block graphs whose tensor is not read, and nodes of a block graph
// that only such savers need. Inputs of the program stay, so that its signature does not change.
#include "plan/stable.h"

// Marks tensors of g that a live node reads, backwards. wanted[k]: saver k of g is live.
static bool *live_tensors(struct arena *tmp, const struct graph *g, const bool *wanted)
{
  bool *live = NEWS(tmp, bool, g->ntensors + 1);
  int save = graph_outputs(g, NULL);
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const struct node *n = &g->nodes[i];
    bool alive = false;
    if (n->op == OP_SAVE || n->op == OP_OUTPUT) alive = !wanted || wanted[--save];
    for (int k = 0; k < n->nout; k++) alive |= live[n->out + k];
    for (int k = 0; k < n->nin && alive; k++) live[n->in[k]] = true;
  }
  return live;
}

struct sweep {
  struct arena *mem, tmp;
  struct err *e;
};

// A graph being copied: the new number of each tensor (-1: removed), and for block graphs the enclosing graph.
struct moved {
  const struct graph *old;
  struct graph *g;
  int *to;
};

static struct moved start(struct sweep *w, const struct graph *old)
{
  struct moved m = {old, graph_new(w->mem, old->level, old->name), NEWS(&w->tmp, int, old->ntensors + 1)};
  graph_axes(m.g, old->ngrid, old->grid, old->nloop, old->loop);
  for (int i = 0; i < old->ntensors; i++) m.to[i] = -1;
  return m;
}

static int put(struct sweep *w, struct moved *m, const struct node *n)
{
  int *in = NEWS(&w->tmp, int, n->nin + 1), t = 0;
  for (int i = 0; i < n->nin; i++) in[i] = m->to[n->in[i]];
  int s = graph_add(m->g, n->op, n->nin, in, &n->a, n->at, &t, w->e);
  for (int k = 0; k < n->nout && !s; k++) {
    m->to[n->out + k] = t + k;
    m->g->tensors[t + k].name = m->old->tensors[n->out + k].name;
  }
  return s;
}

static int sweep_block(struct sweep *w, struct moved *up, const struct node *n, const bool *wanted)
{
  struct moved m = start(w, n->sub);
  const bool *live = live_tensors(&w->tmp, n->sub, wanted);
  int *from = NEWS(&w->tmp, int, n->nin + 1), nfrom = 0, iter = 0, save = 0, s = OK, t;
  for (int i = 0; i < n->sub->nnodes && !s; i++) {
    const struct node *x = &n->sub->nodes[i];
    bool alive = x->op == OP_SAVE && wanted[save++];
    for (int k = 0; k < x->nout; k++) alive |= live[x->out + k];
    int above = x->op == OP_ITER ? up->to[n->in[iter++]] : -1;
    if (!alive) continue;
    if (x->op == OP_ITER) {
      from[nfrom++] = above;
      s = graph_iter(m.g, up->g, above, &x->a, x->at, &m.to[x->out], w->e);
      if (!s) m.g->tensors[m.to[x->out]].name = n->sub->tensors[x->out].name;
    } else if (x->sub) {
      int *in = NEWS(&w->tmp, int, x->nin + 1);
      for (int k = 0; k < x->nin; k++) in[k] = m.to[x->in[k]];
      s = graph_nest(m.g, graph_copy(w->mem, x->sub), x->nin, in, x->at, &t, w->e);
      for (int k = 0; k < x->nout && !s; k++) m.to[x->out + k] = t + k, m.g->tensors[t + k].name = n->sub->tensors[x->out + k].name;
    } else {
      s = put(w, &m, x);
    }
  }
  if (!s) s = graph_nest(up->g, m.g, nfrom, from, n->at, &t, w->e);
  for (int k = 0; k < n->nout && !s; k++) {
    if (!wanted[k]) continue;
    up->g->tensors[t].name = up->old->tensors[n->out + k].name;
    up->to[n->out + k] = t++;
  }
  return s;
}

static int sweep_kernel(struct sweep *w, const struct graph *g, struct graph **out)
{
  struct moved m = start(w, g);
  const bool *live = live_tensors(&w->tmp, g, NULL);
  int s = OK;
  for (int i = 0; i < g->nnodes && !s; i++) {
    const struct node *n = &g->nodes[i];
    bool alive = n->op == OP_INPUT || n->op == OP_OUTPUT;
    for (int k = 0; k < n->nout; k++) alive |= live[n->out + k];
    if (!alive) continue;
    if (n->op == OP_INPUT) {
      const struct tensor *x = &g->tensors[n->out];
      s = graph_input_as(m.g, x->name, x->dtype, x, n->at, &m.to[n->out], w->e);
    } else {
      s = n->sub ? sweep_block(w, &m, n, live + n->out) : put(w, &m, n);
    }
  }
  *out = m.g;
  return s;
}

// A removed saver may leave operands of its kernel unused, so this repeats until nothing changes.
int plan_sweep(struct arena *mem, const struct graph *g, struct graph **out, struct err *e)
{
  for (;; g = *out) {
    struct sweep w = {.mem = mem, .e = e};
    int s = sweep_kernel(&w, g, out);
    arena_close(&w.tmp);
    if (s || graph_same(g, *out)) return s;
  }
}
