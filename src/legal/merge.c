// Merges consecutive kernels with the same blocks. Parts of a program that were searched separately share a tensor. The kernel that writes it and the
// kernel that reads it often have the same blocks, and each block reads only the data that the block with the same number wrote. The second kernel
// then continues where the first ends, and the tensor need not be stored. Input: a checked kernel graph. Output: an equal one. The plan decides
// whether the longer kernel is better.
#include "legal/rewrite.h"
#include "plan/letters.h"

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

// Whether the kernel has a topk, whose results must be stored.
static bool has_topk(const struct graph *g)
{
  for (int i = 0; i < g->nnodes; i++)
    if (node_has(&g->nodes[i], SELECTS)) return true;
  return false;
}

static bool makes(const struct node *n, int tensor) { return tensor >= n->out && tensor < n->out + n->nout; }

// Whether only the second kernel reads the results of the first, and each of its blocks reads only the results of the same block.
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

// Whether there is an update between the kernels. The merged kernel runs in the place of the second, and must not read what the update writes.
static bool updates_from(const struct graph *g, int first, int second)
{
  for (int i = first; i <= second; i++)
    if (node_updated(&g->nodes[i]) >= 0) return true;
  return false;
}

bool legal_topk(const struct graph *g)
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

// Appends the nodes of n's block graph. Iterators of the second kernel that load results of the first become values from `left`, the operands of its
// savers.
static void append(struct rewriting *w, struct block_making *b, const struct node *n, const struct node *first, int *left)
{
  int *tile = NEWS(w->to->mem, int, n->sub->ntensors + 1), iters = 0, saves = 0;
  for (int i = 0; i < n->sub->nnodes && !b->status; i++) {
    const struct node *x = &n->sub->nodes[i];
    int from = x->op == OP_ITER ? n->in[iters++] : -1;
    if (from >= 0 && n != first && makes(first, from))
      tile[x->out] = left[from - first->out];
    else if (from >= 0)
      tile[x->out] = block_load(b, w->map[from], &x->a, x->at);
    else if (x->op == OP_SAVE && n == first)
      left[saves++] = tile[x->in[0]];
    else
      b->status = graph_take(b->sub, NULL, -1, n->sub, x, tile, w->e);
  }
}

// Rebuilds the second kernel as both kernels. Then nothing reads the first.
static int kernel(struct rewriting *w, const struct node *n, int *out)
{
  const int *pair = w->own;
  const struct node *first = &w->g->nodes[pair[0]];
  const struct graph *most = first->sub->ngrid > n->sub->ngrid ? first->sub : n->sub;
  int *left = NEWS(w->to->mem, int, first->nout + 1);
  if (n != &w->g->nodes[pair[1]]) return NO;
  struct block_making b = block_begin(w->to, first->sub->name, w->e);
  graph_axes(b.sub, most->ngrid, most->grid, first->sub->nloop, first->sub->loop);
  append(w, &b, first, first, left), append(w, &b, n, first, left);
  return w->changed = true, block_end(&b, n->at, out);
}

int legal_merge(struct arena *mem, const struct graph *g, struct graph **out, struct err *e)
{
  int two[2], status = NO;
  for (; pair(g, &two[0], &two[1]); g = *out, status = OK) TRY(legal_rewrite(mem, g, kernel, two, out, e));
  return status;
}

// ---- tails ----

// The only kernel that reads the results of this one, if all its other operands are available before this one runs; -1: none.
int legal_tail_of(const struct graph *g, int node)
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
