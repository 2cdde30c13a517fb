// Products of f32 on tensor cores, with errors of the size of f32's. Tensor cores multiply 16 bits. An f32 number is the sum of three bf16 numbers of 8
// significant bits each (base/parts.h), so a product is a sum of products of parts:
//   x y = high(x) high(y) + high(x) middle(y) + middle(x) high(y) + middle(x) middle(y) + high(x) low(y) + low(x) high(y) + ...
// The three products that are left out are together below 2^-21 of x y, about 2^-24 on average, and always towards 0. In the block graphs of a kernel
// graph, each product of two f32 operands becomes a sum of six, the smallest first. Operands that iterators load come from tensors of parts, which a
// kernel computes from the whole tensor. A computed left operand is divided in its block. Schemes see products of bf16 with f32 results. They add up
// the results of each iteration outside of the tensor cores, which truncate sums.
#include "legal/rewrite.h"

#include <string.h>

enum { PARTS = 3, PAIRS = 6 };
static const enum op part_op[PARTS] = {OP_BF16_HIGH, OP_BF16_MIDDLE, OP_BF16_LOW};
static const int pair[PAIRS][2] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}};

struct part_tensors { // of one tensor; -1: not made
  int of[PARTS];
};
struct divided_block {        // of a kernel under construction
  bool *divides, *wanted;     // by node of n->sub: a product that is divided; by tensor: a node reads it undivided
  struct part_tensors *parts; // by tensor of n->sub: of the new block graph
};

static bool is_f32(const struct graph *g, int t) { return g->tensors[t].dtype == F32; }

// Whether node n of the kernel's block graph multiplies two f32 matrices. A scan multiplies nothing.
static bool divides(const struct graph *g, const struct node *kernel, const struct node *n)
{
  return n->op == OP_MATMUL && is_f32(kernel->sub, n->in[0]) && is_f32(kernel->sub, n->in[1]) && !graph_scan(g, kernel, n).triangle;
}

bool legal_divides(const struct graph *g, const struct node *kernel)
{
  bool any = false;
  for (int i = 0; kernel->op == OP_BLOCK && i < kernel->sub->nnodes; i++) any |= divides(g, kernel, &kernel->sub->nodes[i]);
  return any;
}

// ---- tensors of parts ----

// The parts of tensor t of g. The parts of a view are views of parts.
static int tensor_parts(struct rewriting *w, int t, struct part_tensors **out)
{
  const struct node *n = &w->g->nodes[w->g->tensors[t].node];
  struct part_tensors *parts = w->own, *from; // by tensor of g: tensors of `to`
  int first;
  *out = &parts[t];
  if ((*out)->of[0] >= 0) return OK;
  if (op_rows[n->op].rule != RULE_VIEW) {
    TRY(legal_elementwise(w->to, w->map[t], n->at, PARTS, part_op, &first, w->e));
    for (int p = 0; p < PARTS; p++) (*out)->of[p] = first + p;
    return OK;
  }
  TRY(tensor_parts(w, n->in[0], &from));
  for (int p = 0; p < PARTS; p++) TRY(graph_add(w->to, n->op, 1, &from->of[p], &n->a, n->at, &(*out)->of[p], w->e));
  return OK;
}

// ---- within a block graph ----

static int tile_parts(struct block_rewriting *r, int t, struct part_tensors **out)
{
  const struct divided_block *d = r->own;
  const struct graph *from = r->n->sub;
  const struct node *x = &from->nodes[from->tensors[t].node];
  const int loaded = node_iterated(r->n, graph_root(from, t));
  struct part_tensors *of = NULL;
  *out = &d->parts[t];
  if ((*out)->of[0] >= 0) return OK;
  if (loaded >= 0) TRY(x->op == OP_ITER ? tensor_parts(r->w, loaded, &of) : tile_parts(r, x->in[0], &of));
  for (int p = 0; p < PARTS; p++)
    (*out)->of[p] = loaded < 0         ? block_add(&r->b, part_op[p], 1, &r->tile[t], NULL, x->at)
                    : x->op == OP_ITER ? block_load(&r->b, of->of[p], &x->a, x->at)
                                       : block_add(&r->b, x->op, 1, &of->of[p], &x->a, x->at);
  return r->b.status;
}

static int product(struct block_rewriting *r, const struct node *x)
{
  struct part_tensors *a, *b;
  int sum = -1;
  TRY(tile_parts(r, x->in[0], &a));
  TRY(tile_parts(r, x->in[1], &b));
  for (int k = 0; k < PAIRS; k++) {
    const int one = block_add(&r->b, OP_MATMUL, 2, (int[]){a->of[pair[k][0]], b->of[pair[k][1]]}, &x->a, x->at);
    sum = k ? block_add(&r->b, OP_ADD, 2, (int[]){sum, one}, NULL, x->at) : one;
  }
  return r->tile[x->out] = sum, r->b.status;
}

// Marks tensors that a node reads undivided, not only as parts that an iterator loads.
static void find_wanted(const struct rewriting *w, const struct node *n, struct divided_block *d)
{
  const struct graph *g = n->sub;
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const struct node *x = &g->nodes[i];
    bool read = !x->nout;
    for (int k = 0; k < x->nout; k++) read |= d->wanted[x->out + k];
    d->divides[i] = divides(w->g, n, x);
    for (int k = 0; k < x->nin && x->op != OP_ITER && read; k++)
      if (!d->divides[i] || node_iterated(n, graph_root(g, x->in[k])) < 0) d->wanted[x->in[k]] = true;
  }
}

static int node(struct block_rewriting *r, const struct node *x, int from)
{
  const struct divided_block *d = r->own;
  if (x->nout && !d->wanted[x->out]) return OK;
  return d->divides[x - r->n->sub->nodes] ? product(r, x) : rewrite_take(r, x, from);
}

static int kernel(struct rewriting *w, const struct node *n, int *out)
{
  struct arena *mem = w->to->mem;
  const size_t tensors = (size_t)n->sub->ntensors + 1;
  struct divided_block d = {NEWS(mem, bool, n->sub->nnodes + 1), NEWS(mem, bool, tensors), NEWS(mem, struct part_tensors, tensors)};
  memset(d.parts, -1, sizeof *d.parts * tensors);
  find_wanted(w, n, &d);
  return w->changed = true, rewrite_block(w, n, node, &d, out);
}

int legal_parts(struct arena *mem, const struct graph *wrapped, struct graph **out, struct err *e)
{
  struct part_tensors *parts = NEWS(mem, struct part_tensors, wrapped->ntensors + 1);
  bool any = false;
  for (int i = 0; i < wrapped->nnodes; i++) any |= legal_divides(wrapped, &wrapped->nodes[i]);
  if (!any) return *out = (struct graph *)wrapped, NO;
  memset(parts, -1, sizeof *parts * (size_t)wrapped->ntensors);
  return legal_rewrite(mem, wrapped, kernel, parts, out, e);
}
