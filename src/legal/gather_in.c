// Fuses gathers into the kernels that read them. A gather only moves bytes, and its reader can read the slices directly. The same holds for
// elementwise operators that only compute an index. Input: a checked kernel graph whose library operators are wrapped. Output: an equal graph
// without kernels that nothing reads any more. Kernels with products keep their operands in memory. The caller decides whether the result is faster.
#include "legal/rewrite.h"

#include <string.h>

enum { GATHER_TILES = 64 }; // tiles of a kernel whose result is computed in its readers

static const struct node *maker(const struct graph *g, int t) { return &g->nodes[g->tensors[t].node]; }

// ---- results that can be computed in their readers ----

// For each dimension of each tensor of the producer's block graph: the corresponding dimension of the result; -1: none.
typedef int8_t gather_dims[MAX_DIMS];

static bool place(gather_dims *dims, bool *there, int t, const int8_t *d, int n)
{
  if (there[t] && memcmp(dims[t], d, (size_t)n) != 0) return false;
  return memcpy(dims[t], d, (size_t)n), there[t] = true;
}

static bool place_map(const struct graph *b, const struct node *n, gather_dims *dims, bool *there)
{
  const struct shape *out = &b->tensors[n->out].shape;
  for (int k = 0; k < n->nin; k++) {
    const struct shape *in = &b->tensors[n->in[k]].shape;
    gather_dims d = {0};
    for (int i = 0; i < in->n; i++) d[i] = in->d[i] == 1 && out->d[i + out->n - in->n] > 1 ? -1 : dims[n->out][i + out->n - in->n];
    if (!place(dims, there, n->in[k], d, in->n)) return false;
  }
  return true;
}

static bool place_gather(const struct graph *b, const struct node *n, gather_dims *dims, bool *there)
{
  const struct shape *x = &b->tensors[n->in[0]].shape, *at = &b->tensors[n->in[1]].shape;
  gather_dims d = {0};
  for (int i = 0; i < x->n; i++) d[i] = i == n->a.dim ? -1 : dims[n->out][i < n->a.dim ? i : i + at->n - 1];
  return place(dims, there, n->in[0], d, x->n) && place(dims, there, n->in[1], dims[n->out] + n->a.dim, at->n);
}

// Whether each axis of the grid divides the same dimension of a tile and of the result.
static bool cuts_alike(const struct graph *b, const struct node *iter, const int8_t *dims, const struct node *save)
{
  for (int x = 0; x < b->ngrid; x++) {
    const int d = iter->a.imap[x];
    const bool has = memchr(dims, save->a.omap[x], (size_t)b->tensors[iter->out].shape.n) != NULL;
    if (b->grid[x] > 1 && (d == REPLICA ? has : dims[d] != save->a.omap[x])) return false;
  }
  return true;
}

// Whether the kernel only gathers, or only computes element by element, so that its result can be computed in its readers.
static bool producer(const struct node *n, bool gathers, gather_dims *dims)
{
  const struct graph *b = n->sub;
  const struct node *save = n->op == OP_BLOCK && n->nout == 1 ? &b->nodes[b->nnodes - 1] : NULL;
  if (!save || save->op != OP_SAVE || graph_iterations(b) > 1 || graph_chooses(b) != gathers || node_updated(n) >= 0) return false;
  bool there[GATHER_TILES] = {false}, fits = b->ntensors <= GATHER_TILES;
  if (!fits) return false;
  for (int d = 0; d < MAX_DIMS; d++) dims[save->in[0]][d] = (int8_t)d;
  there[save->in[0]] = true;
  for (int i = b->nnodes - 2; i >= 0 && fits; i--) {
    const struct node *x = &b->nodes[i];
    enum rule rule = op_rows[x->op].rule;
    fits = there[x->out] && x->nout == 1 && x->op != OP_SAVE;
    if (!fits) break;
    if (rule == RULE_MAP)
      fits = place_map(b, x, dims, there);
    else if (node_has(x, READS_SLICES))
      fits = place_gather(b, x, dims, there);
    else
      fits = rule == RULE_CONST || (x->op == OP_ITER && cuts_alike(b, x, dims[x->out], save));
  }
  return fits;
}

// ---- readers ----

static bool has_products(const struct graph *b)
{
  for (int i = 0; i < b->nnodes; i++)
    if (op_rows[b->nodes[i].op].rule == RULE_CONTRACT || b->nodes[i].sub) return true;
  return false;
}

// Whether all readers of the tile are operators with data-dependent indices that read it as operand number k. With `only` false, other readers are
// permitted too.
static bool read_as(const struct graph *b, int tile, int operand, bool only)
{
  bool all = true, any = false;
  for (int i = 0; i < b->nnodes; i++)
    for (int k = 0; k < b->nodes[i].nin && b->nodes[i].op != OP_ITER; k++) {
      if (b->nodes[i].in[k] != tile) continue;
      bool so = op_rows[b->nodes[i].op].rule == RULE_AT && k == operand;
      all &= so, any |= so;
    }
  return only ? all && any : any;
}

// Whether kernel n, which runs after p, would read data that an update has written in between, or writes such data itself.
static bool too_late(const struct rewriting *w, const struct node *p, const struct node *n)
{
  for (int k = 0; k < p->nin; k++) {
    const int root = graph_root(w->to, p->in[k]), mine = node_updated(n);
    if (mine >= 0 && graph_root(w->to, w->map[mine]) == root) return true;
    for (const struct node *i = p; i < w->to->nodes + w->to->nnodes; i++)
      if (node_updated(i) >= 0 && graph_root(w->to, node_updated(i)) == root) return true;
  }
  return false;
}

static bool takes(const struct rewriting *w, const struct node *n, const struct node *p, bool gathers, gather_dims *dims)
{
  return p->op == OP_BLOCK && producer(p, gathers, dims) && !too_late(w, p, n);
}

// Whether kernel n can compute the data that its iterator reads. The tile must not be the operand of an update. `tensor`: of the new graph.
static bool takes_read(const struct rewriting *w, const struct node *n, const struct node *iter, int tensor, gather_dims *dims)
{
  const struct node *p = maker(w->to, tensor);
  if (has_products(n->sub) || (node_updated(n) >= 0 && read_as(n->sub, iter->out, 0, false))) return false;
  return takes(w, n, p, true, dims) || (read_as(n->sub, iter->out, 1, true) && takes(w, n, p, false, dims));
}

// ---- computing the result in the reader ----

// The dimension of the producer's tile that a grid axis divides if it divides the result in the reader.
static int8_t dim_of(const int8_t *dims, int n, int8_t of)
{
  const int8_t *found = of == REPLICA ? NULL : memchr(dims, of, (size_t)n);
  return found ? (int8_t)(found - dims) : REPLICA;
}

static struct attrs cut_as(const struct attrs *reader, const int8_t *dims, int n)
{
  struct attrs a = *reader;
  for (size_t i = 0; i < COUNT(a.imap); i++) a.imap[i] = dim_of(dims, n, reader->imap[i]);
  for (size_t i = 0; i < COUNT(a.fmap); i++) a.fmap[i] = dim_of(dims, n, reader->fmap[i]);
  return a;
}

// Adds the operators of producer p to the kernel, including those that compute an index.
static int make(struct block_rewriting *r, const struct node *p, const struct attrs *reader, gather_dims *dims, int *out)
{
  struct rewriting *w = r->w;
  const struct graph *from = p->sub;
  const bool index = !graph_chooses(from);
  gather_dims *inner = arena_alloc(w->to->mem, sizeof *inner * GATHER_TILES);
  int *tile = NEWS(w->to->mem, int, from->ntensors + 1), iters = 0, status = OK;
  for (int i = 0; i < from->nnodes && !status; i++) {
    const struct node *x = &from->nodes[i];
    const struct attrs a = x->op == OP_ITER ? cut_as(reader, dims[x->out], from->tensors[x->out].shape.n) : x->a;
    if (x->op == OP_SAVE)
      *out = tile[x->in[0]];
    else if (x->op == OP_ITER && index && takes(w, r->n, maker(w->to, p->in[iters]), false, inner))
      status = make(r, maker(w->to, p->in[iters++]), &a, inner, &tile[x->out]);
    else if (x->op == OP_ITER)
      tile[x->out] = block_load(&r->b, p->in[iters++], &a, x->at), status = r->b.status;
    else
      status = graph_take(r->b.sub, NULL, -1, from, x, tile, w->e);
  }
  return status;
}

static int node(struct block_rewriting *r, const struct node *x, int from)
{
  gather_dims *dims = arena_alloc(r->b.to->mem, sizeof *dims * GATHER_TILES);
  if (from < 0 || !takes_read(r->w, r->n, x, from, dims)) return rewrite_take(r, x, from);
  return r->w->changed = true, make(r, maker(r->b.to, from), &x->a, dims, &r->tile[x->out]);
}

static int kernel(struct rewriting *w, const struct node *n, int *out) { return rewrite_block(w, n, node, NULL, out); }

int legal_gathers(struct arena *mem, const struct graph *wrapped, struct graph **out, struct err *e)
{
  return legal_rewrite(mem, wrapped, kernel, NULL, out, e);
}
