// Kernels that follow one another on the same tiles become one. Parts of a program that were searched one by one meet at a
// tensor: the kernel that writes it and the one that reads it often have the same blocks, and each block reads just what the
// block of the same number wrote. Then the second continues where the first ends, and the tensor need not be stored.
// Requires a checked kernel graph; provides one that computes the same. Whether the longer kernel is better is for the plan
// to say.
#include "lower/lower.h"
#include "plan/letters.h"

#include <string.h>

struct merging {
  const struct graph *g;
  struct graph *to;
  int *map; // tensors of g -> of `to`
  struct err *e;
};

static bool same_blocks(const struct graph *a, const struct graph *b)
{
  for (int i = 0; i < MAX_GRID; i++)
    if ((i < a->ngrid ? a->grid[i] : 1) != (i < b->ngrid ? b->grid[i] : 1)) return false;
  return true;
}

static const struct node *nth(const struct graph *g, enum op op, int k)
{
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == op && !k--) return &g->nodes[i];
  return NULL;
}

static bool nested(const struct graph *g)
{
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].sub) return true;
  return false;
}

// The results of topk leave the kernel that makes them.
static bool has_topk(const struct graph *g)
{
  for (int i = 0; i < g->nnodes; i++)
    if (node_has(&g->nodes[i], SELECTS)) return true;
  return false;
}

static bool makes(const struct node *n, int tensor) { return tensor >= n->out && tensor < n->out + n->nout; }

// All that the first leaves is read by the second alone, each block what it wrote itself.
static bool continues(const struct graph *g, const struct node *first, const struct node *second)
{
  bool any = false;
  for (int i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nin; k++)
      if (makes(first, g->nodes[i].in[k]) && &g->nodes[i] != second) return false;
  for (int k = 0; k < second->nin; k++) {
    if (!makes(first, second->in[k])) continue;
    const struct node *iter = nth(second->sub, OP_ITER, k), *save = nth(first->sub, OP_SAVE, second->in[k] - first->out);
    for (int x = 0; x < second->sub->ngrid; x++)
      if (second->sub->grid[x] > 1 && iter->a.imap[x] != save->a.omap[x]) return false;
    any = true;
  }
  return any;
}

// The first is done later then, and must not read what an update writes in between.
static bool updates_from(const struct graph *g, int first, int second)
{
  for (int i = first; i <= second; i++)
    if (node_updated(&g->nodes[i]) >= 0) return true;
  return false;
}

bool lower_topk(const struct graph *g)
{
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == OP_BLOCK && has_topk(g->nodes[i].sub)) return true;
  return false;
}

static bool pair(const struct graph *g, int *first, int *second)
{
  for (int b = 0; b < g->nnodes; b++)
    for (int a = 0; a < b; a++) {
      const struct node *x = &g->nodes[a], *y = &g->nodes[b];
      if (x->op != OP_BLOCK || y->op != OP_BLOCK || graph_iterations(y->sub) > 1 || !same_blocks(x->sub, y->sub)) continue;
      if (nested(x->sub) || nested(y->sub) || has_topk(x->sub) || !continues(g, x, y) || updates_from(g, a, b)) continue;
      return *first = a, *second = b, true;
    }
  return false;
}

// Appends the nodes of n's block graph. Loads of the first kernel's results by iterators of the second become values at `left` of its savers.
static int append(struct merging *m, struct graph *sub, const struct node *n, const struct node *first, int *left, int *in, int *nin)
{
  int *tile = NEWS(m->to->mem, int, n->sub->ntensors + 1), iters = 0, saves = 0, status = OK;
  for (int i = 0; i < n->sub->nnodes && !status; i++) {
    const struct node *x = &n->sub->nodes[i];
    int from = x->op == OP_ITER ? n->in[iters++] : -1;
    if (from >= 0 && n != first && makes(first, from))
      tile[x->out] = left[from - first->out];
    else if (x->op == OP_SAVE && n == first)
      left[saves++] = tile[x->in[0]];
    else
      status = graph_take(sub, m->to, from < 0 ? -1 : (in[(*nin)++] = m->map[from]), n->sub, x, tile, m->e);
  }
  return status;
}

static int both(struct merging *m, const struct node *a, const struct node *b)
{
  struct arena *mem = m->to->mem;
  const struct graph *most = a->sub->ngrid > b->sub->ngrid ? a->sub : b->sub;
  struct graph *sub = graph_new(mem, BLOCK, a->sub->name);
  int *in = NEWS(mem, int, a->nin + b->nin), *left = NEWS(mem, int, a->nout + 1), nin = 0;
  graph_axes(sub, most->ngrid, most->grid, a->sub->nloop, a->sub->loop);
  int status = append(m, sub, a, a, left, in, &nin);
  if (!status) status = append(m, sub, b, a, left, in, &nin);
  int out = 0;
  if (!status) status = graph_nest(m->to, sub, nin, in, b->at, &out, m->e);
  for (int k = 0; k < b->nout; k++) m->map[b->out + k] = out + k;
  return status;
}

int lower_merge(struct arena *mem, const struct graph *g, struct graph **out, struct err *e)
{
  int first, second, status = OK, merged = NO;
  for (; !status && pair(g, &first, &second); merged = OK) {
    struct merging m = {g, *out = graph_new_as(mem, g), NEWS(mem, int, g->ntensors + 1), e};
    for (int i = 0; i < g->nnodes && !status; i++) {
      if (i == first) continue;
      const struct node *n = &g->nodes[i];
      status = i == second ? both(&m, &g->nodes[first], n) : graph_take(m.to, NULL, -1, g, n, m.map, e);
      if (!status) graph_keep_names(m.to, g, n, m.map);
    }
    g = *out;
  }
  return status ? status : merged ? merged : graph_check(*out, e);
}

// ---- tails ----

// The kernel that reads what this one saves, where nothing else does, and where all else that it reads is there before.
int lower_tail_of(const struct graph *g, int node)
{
  const struct node *n = &g->nodes[node];
  int found = -1;
  if (n->sub && graph_chooses(n->sub)) return -1;
  for (int i = node + 1; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nin; k++) {
      struct kview v;
      int t = g->nodes[i].in[k];
      bool ours = kview_of(g, t, &v) && v.root >= n->out && v.root < n->out + n->nout;
      if (!ours || op_rows[g->nodes[i].op].rule == RULE_VIEW) continue;
      if (g->nodes[i].op != OP_BLOCK || graph_chooses(g->nodes[i].sub) || (found >= 0 && found != i)) return -1;
      found = i;
    }
  for (int k = 0; found >= 0 && k < g->nodes[found].nin; k++) {
    struct kview v;
    if (!kview_of(g, g->nodes[found].in[k], &v)) return -1;
    if ((v.root < n->out || v.root >= n->out + n->nout) && g->tensors[v.root].node > node) return -1;
  }
  return found;
}
