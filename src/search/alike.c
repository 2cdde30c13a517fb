// Equivalent forms of a graph, of which the space contains at most one. Each block graph loses parts that compute nothing: axes of extent 1, loops of
// one iteration, sums of one element. Each operator gets its own iterators, since a tensor may be partitioned in two ways. Then two axes that
// partition alike become one, and a loop that only joins parts is unrolled or becomes a grid axis. Every result is verified.
#include "plan/plan.h"
#include "search/space.h"
#include "verify/verify.h"

#include <string.h>

struct change {
  int loop;   // this loop becomes a grid axis, or -1
  int spread; // the loop's parts are joined along this dimension
};
struct copying {
  const struct graph *above, *b;
  struct graph *to;
  const struct change *c;
  const int *from;   // outer tensors that the iterators of b read
  int nin, cap, *in; // and those that `to` reads
  int *at;           // tensor of b -> tensor of `to`
  struct err *e;
};
struct alike_making {
  struct arena *mem;
  const struct graph *p;
  uint64_t seed;
};

enum op op_without_loop(enum op op) { return op == OP_ACCUM_SUM ? OP_SUM : op == OP_ACCUM_MEAN ? OP_MEAN : op; }

// ---- one block graph ------------------------------------------------------------------------------------------------

// Whether axis i is omitted: it has one part, or the change replaces it.
static bool loop_left_out(const struct copying *k, int i) { return k->b->loop[i] == 1 || i == k->c->loop; }

static bool copy_axes(struct copying *k)
{
  const struct graph *b = k->b;
  int64_t grid[GRID_AXES], loop[MAX_LOOPS];
  int ngrid = 0, nloop = 0;
  for (int i = 0; i < b->ngrid; i++)
    if (b->grid[i] > 1) grid[ngrid++] = b->grid[i];
  if (k->c->loop >= 0) grid[ngrid++] = b->loop[k->c->loop];
  for (int i = 0; i < b->nloop; i++)
    if (!loop_left_out(k, i)) loop[nloop++] = b->loop[i];
  if (ngrid > MAX_GRID) return false;
  graph_axes(k->to, ngrid, grid, nloop, loop);
  return true;
}

static void copy_maps(const struct copying *k, struct attrs *a)
{
  const struct attrs was = *a;
  int ngrid = 0, nloop = 0;
  memset(a->imap, REPLICA, sizeof a->imap), memset(a->omap, REPLICA, sizeof a->omap), memset(a->fmap, REPLICA, sizeof a->fmap);
  for (int i = 0; i < k->b->ngrid; i++)
    if (k->b->grid[i] > 1) a->imap[ngrid] = was.imap[i], a->omap[ngrid++] = was.omap[i];
  if (k->c->loop >= 0) a->imap[ngrid] = was.fmap[k->c->loop], a->omap[ngrid] = (int8_t)k->c->spread;
  for (int i = 0; i < k->b->nloop; i++)
    if (!loop_left_out(k, i)) a->fmap[nloop++] = was.fmap[i];
}

static int operand(struct copying *k, int tensor, int *out)
{
  int node = k->b->tensors[tensor].node, number = 0;
  const struct node *n = &k->b->nodes[node];
  struct attrs a = n->a;
  if (n->op != OP_ITER) return *out = k->at[tensor], OK;
  for (int i = 0; i < node; i++) number += k->b->nodes[i].op == OP_ITER;
  copy_maps(k, &a);
  PUSH(k->to->mem, k->in, k->nin, k->cap) = k->from[number];
  return graph_iter(k->to, k->above, k->from[number], &a, n->at, out, k->e);
}

// Whether n is a sum of one element, or an accumulator without a loop.
static bool is_idle(const struct copying *k, const struct node *n)
{
  if (op_rows[n->op].rule == RULE_REDUCE) return k->to->tensors[n->in[0]].shape.d[n->a.dim] == 1;
  return n->op == OP_ACCUM && !k->to->nloop;
}

static int copy_node(struct copying *k, const struct node *was)
{
  struct node n = *was;
  int out = 0, s = OK;
  n.in = NEWS(k->to->mem, int, n.nin + 1);
  for (int i = 0; i < n.nin && !s; i++) {
    int same = 0;
    while (was->in[same] != was->in[i]) same++;
    if (same < i)
      n.in[i] = n.in[same];
    else
      s = operand(k, was->in[i], &n.in[i]);
  }
  copy_maps(k, &n.a);
  if (!k->to->nloop) n.op = op_without_loop(n.op);
  if (!s && is_idle(k, &n))
    out = n.in[0];
  else if (!s)
    s = graph_add(k->to, n.op, n.nin, n.in, &n.a, n.at, &out, k->e);
  for (int i = 0; i < n.nout; i++) k->at[was->out + i] = out + i;
  return s;
}

// Replaces the block graph in node i of g.
static int copy_block(struct graph *g, int i, const struct change *c, struct err *e)
{
  struct node *block = &g->nodes[i];
  const struct graph *b = block->sub;
  struct copying k = {.above = g, .b = b, .to = graph_new(g->mem, BLOCK, b->name), .c = c, .from = block->in, .e = e};
  k.at = NEWS(g->mem, int, b->ntensors + 1);
  int s = copy_axes(&k) ? OK : USER;
  for (int n = 0; n < b->nnodes; n++) s = b->nodes[n].sub ? USER : s; // the search makes no thread graphs
  for (int n = 0; n < b->nnodes && !s; n++)
    if (b->nodes[n].op != OP_ITER) s = copy_node(&k, &b->nodes[n]);
  block->sub = k.to, block->in = k.in, block->nin = k.nin;
  return s;
}

static const struct change none = {-1, -1};

// A form equal to p, or NULL.
static struct graph *verified(const struct alike_making *m, struct graph *g)
{
  struct err e = {0};
  return graph_check(g, &e) || !verify_filter(m->p, g, m->seed) ? NULL : g;
}

static struct graph *changed(const struct alike_making *m, const struct graph *g, int i, const struct change *c)
{
  struct err e = {0};
  struct graph *to = graph_copy(m->mem, g);
  return copy_block(to, i, c, &e) ? NULL : verified(m, to);
}

// Changes the extents of the axes of block i.
static struct graph *resized(const struct alike_making *m, const struct graph *g, int i, const struct axes *a)
{
  struct err e = {0};
  struct graph *to;
  if (plan_resize(m->mem, g, i, a, &to, &e)) return NULL;
  return changed(m, to, i, &none);
}

static struct axes axes_of(const struct graph *b)
{
  struct axes a;
  memcpy(a.grid, b->grid, sizeof a.grid), memcpy(a.loop, b->loop, sizeof a.loop);
  return a;
}

// ---- axes -----------------------------------------------------------------------------------------------------------

static struct graph *unrolled(const struct alike_making *m, const struct graph *g, int i, int loop)
{
  struct axes a = axes_of(g->nodes[i].sub);
  a.loop[loop] = 1;
  return resized(m, g, i, &a);
}

static struct graph *spread(const struct alike_making *m, const struct graph *g, int i, int loop)
{
  struct graph *to = NULL;
  for (int d = 0; d < MAX_DIMS && !to; d++) to = changed(m, g, i, &(struct change){loop, d});
  return to;
}

static bool only_replicas(const struct graph *b, int loop)
{
  bool only = true;
  for (int i = 0; i < b->nnodes; i++) only &= b->nodes[i].op != OP_ITER || b->nodes[i].a.fmap[loop] == REPLICA;
  return only;
}

static bool joins(const struct graph *b, int loop)
{
  bool any = false;
  for (int i = 0; i < b->nnodes; i++) any |= b->nodes[i].op == OP_ACCUM && b->nodes[i].a.fmap[loop] != REPLICA;
  return any;
}

// Whether two grid axes partition every tensor alike.
static bool cut_the_same(const struct graph *b, int x, int y)
{
  bool same = true;
  for (int i = 0; i < b->nnodes; i++) {
    const struct attrs *a = &b->nodes[i].a;
    if (b->nodes[i].op == OP_ITER) same &= a->imap[x] == a->imap[y];
    if (b->nodes[i].op == OP_SAVE) same &= a->omap[x] == a->omap[y];
  }
  return same;
}

static struct graph *merged_once(const struct alike_making *m, const struct graph *g, int i)
{
  const struct graph *b = g->nodes[i].sub;
  struct graph *to = NULL;
  for (int x = 0; x < b->ngrid && !to; x++)
    for (int y = x + 1; y < b->ngrid && !to; y++) {
      if (!cut_the_same(b, x, y)) continue;
      struct axes a = axes_of(b);
      a.grid[x] *= a.grid[y], a.grid[y] = 1;
      to = resized(m, g, i, &a);
    }
  return to;
}

static struct graph *merged(const struct alike_making *m, struct graph *g, int i)
{
  for (struct graph *to; (to = merged_once(m, g, i));) g = to;
  return g;
}

// Unrolls the loops in `which`, or makes them axes if that is requested or they cannot be unrolled.
static struct graph *without_loops(const struct alike_making *m, struct graph *g, int i, bool (*which)(const struct graph *b, int loop), bool blocks)
{
  for (int l = g->nodes[i].sub->nloop - 1; l >= 0; l--) {
    if (!which(g->nodes[i].sub, l)) continue;
    struct graph *to = blocks ? spread(m, g, i, l) : unrolled(m, g, i, l);
    if (!to) to = blocks ? unrolled(m, g, i, l) : spread(m, g, i, l);
    if (to) g = to;
  }
  return g;
}

// ---- kernel graphs ----------------------------------------------------------------------------------------------------

static struct graph *without_idle(const struct alike_making *m, const struct graph *g)
{
  struct err e = {0};
  struct graph *to = graph_copy(m->mem, g);
  for (int i = 0; i < to->nnodes; i++)
    if (to->nodes[i].sub && copy_block(to, i, &none, &e)) return graph_copy(m->mem, g);
  if (!verified(m, to)) return graph_copy(m->mem, g);
  for (int i = 0; i < to->nnodes; i++)
    if (to->nodes[i].sub) to = without_loops(m, to, i, only_replicas, false);
  return to;
}

static struct graph *with_axes_changed(const struct alike_making *m, struct graph *g, bool no_joins, bool blocks)
{
  for (int i = 0; i < g->nnodes; i++) {
    if (!g->nodes[i].sub) continue;
    if (no_joins) g = without_loops(m, g, i, joins, blocks);
    g = merged(m, g, i);
  }
  return g;
}

int graphs_alike(struct arena *mem, const struct graph *p, const struct graph *g, uint64_t seed, struct alike out[MOST_ALIKE])
{
  const struct alike_making m = {mem, p, seed};
  struct graph *plain = without_idle(&m, g);
  const struct alike all[MOST_ALIKE] = {{plain, ALIKE_SELF},
                                        {with_axes_changed(&m, plain, false, false), ALIKE_AXES},
                                        {with_axes_changed(&m, plain, true, false), ALIKE_JOINS},
                                        {with_axes_changed(&m, plain, true, true), ALIKE_JOINS}};
  int n = 0;
  for (int i = 0; i < MOST_ALIKE; i++) {
    bool there = false;
    for (int k = 0; k < n; k++) there |= graph_same(out[k].g, all[i].g);
    if (!there) out[n++] = all[i];
  }
  return n;
}
