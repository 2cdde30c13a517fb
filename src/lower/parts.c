// Products of f32 on tensor cores, with errors of the size of f32's. Tensor cores multiply 16 bits. An f32 number is the sum of three bf16 numbers of 8
// significant bits each (base/parts.h), so a product is a sum of products of parts:
//   x y = high(x) high(y) + high(x) middle(y) + middle(x) high(y) + middle(x) middle(y) + high(x) low(y) + low(x) high(y) + ...
// The three products that are left out are below 2^-21 of x y together, about 2^-24 on average, and always towards 0. In the block graphs of a kernel
// graph each product of two f32 operands becomes a sum of six, the smallest first. Operands that iterators load come from tensors of parts, which a kernel
// makes of the whole tensor. A left operand that is computed is divided where it is. Schemes see products of bf16 whose results are f32, and add up the
// results of each iteration outside of the tensor cores, which cut bits off.
#include "lower/lower.h"

#include <string.h>

enum { PARTS = 3, PAIRS = 6 };
static const enum op part_op[PARTS] = {OP_BF16_HIGH, OP_BF16_MIDDLE, OP_BF16_LOW};
static const int pair[PAIRS][2] = {{2, 0}, {0, 2}, {1, 1}, {1, 0}, {0, 1}, {0, 0}};

struct part_tensors { // a tensor's; -1: not made
  int of[PARTS];
};
struct dividing {
  const struct graph *g;
  struct graph *to;
  int *map;                   // tensors of g -> of `to`
  struct part_tensors *parts; // by tensor of g: tensors of `to`
  struct err *e;
};
struct divided_block { // a kernel while it is made
  struct dividing *w;
  const struct node *n;
  struct graph *sub;
  bool *divides, *wanted;     // by node of n->sub: a product that is divided; by tensor: something reads it as it is
  int *tile;                  // by tensor of n->sub: of `sub`
  struct part_tensors *parts; // the same
  int nin, cap, *in;          // tensors of the new graph, by iterator
};

static bool is_f32(const struct graph *g, int t) { return g->tensors[t].dtype == F32; }

// Does the operator of the kernel's block graph multiply two f32 matrices? A scan multiplies nothing.
static bool divides(const struct graph *g, const struct node *kernel, const struct node *n)
{
  return n->op == OP_MATMUL && is_f32(kernel->sub, n->in[0]) && is_f32(kernel->sub, n->in[1]) && !graph_scan(g, kernel, n).triangle;
}

static bool any_divides(const struct graph *g)
{
  for (int i = 0; i < g->nnodes; i++)
    for (int k = 0; g->nodes[i].op == OP_BLOCK && k < g->nodes[i].sub->nnodes; k++)
      if (divides(g, &g->nodes[i], &g->nodes[i].sub->nodes[k])) return true;
  return false;
}

// ---- tensors of parts ----

static int kernel(struct dividing *w, int t, struct loc at, struct part_tensors *out)
{
  int first;
  TRY(lower_elementwise(w->to, t, at, PARTS, part_op, &first, w->e));
  for (int p = 0; p < PARTS; p++) out->of[p] = first + p;
  return OK;
}

// The parts of tensor t of g. A view's parts are views of parts.
static int tensor_parts(struct dividing *w, int t, struct part_tensors **out)
{
  const struct node *n = &w->g->nodes[w->g->tensors[t].node];
  struct part_tensors *from;
  *out = &w->parts[t];
  if ((*out)->of[0] >= 0) return OK;
  if (op_rows[n->op].rule != RULE_VIEW) return kernel(w, w->map[t], n->at, *out);
  TRY(tensor_parts(w, n->in[0], &from));
  for (int p = 0; p < PARTS; p++) TRY(graph_add(w->to, n->op, 1, &from->of[p], &n->a, n->at, &(*out)->of[p], w->e));
  return OK;
}

// ---- within a block graph ----

static int iterate(struct divided_block *b, int tensor, const struct node *x, int *out)
{
  PUSH(b->w->to->mem, b->in, b->nin, b->cap) = tensor;
  return graph_iter(b->sub, b->w->to, tensor, &x->a, x->at, out, b->w->e);
}

static int tile_parts(struct divided_block *b, int t, struct part_tensors **out)
{
  const struct graph *from = b->n->sub;
  const struct node *x = &from->nodes[from->tensors[t].node];
  const int loaded = node_iterated(b->n, graph_root(from, t));
  struct part_tensors *of;
  *out = &b->parts[t];
  if ((*out)->of[0] >= 0) return OK;
  if (loaded < 0) {
    for (int p = 0; p < PARTS; p++) TRY(graph_add(b->sub, part_op[p], 1, &b->tile[t], NULL, x->at, &(*out)->of[p], b->w->e));
    return OK;
  }
  TRY(x->op == OP_ITER ? tensor_parts(b->w, loaded, &of) : tile_parts(b, x->in[0], &of));
  for (int p = 0; p < PARTS; p++)
    TRY(x->op == OP_ITER ? iterate(b, of->of[p], x, &(*out)->of[p]) : graph_add(b->sub, x->op, 1, &of->of[p], &x->a, x->at, &(*out)->of[p], b->w->e));
  return OK;
}

static int product(struct divided_block *b, const struct node *x)
{
  struct part_tensors *l, *r;
  int sum = -1;
  TRY(tile_parts(b, x->in[0], &l));
  TRY(tile_parts(b, x->in[1], &r));
  for (int k = 0; k < PAIRS; k++) {
    int one, in[2] = {l->of[pair[k][0]], r->of[pair[k][1]]};
    TRY(graph_add(b->sub, OP_MATMUL, 2, in, &x->a, x->at, &one, b->w->e));
    if (k) TRY(graph_add(b->sub, OP_ADD, 2, (int[]){sum, one}, NULL, x->at, &one, b->w->e));
    sum = one;
  }
  return b->tile[x->out] = sum, OK;
}

// Marks tensors that are read as they are, and not only as parts that an iterator loads.
static void find_wanted(struct divided_block *b)
{
  const struct graph *g = b->n->sub;
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const struct node *x = &g->nodes[i];
    bool read = !x->nout;
    for (int k = 0; k < x->nout; k++) read |= b->wanted[x->out + k];
    b->divides[i] = divides(b->w->g, b->n, x);
    for (int k = 0; k < x->nin && x->op != OP_ITER && read; k++)
      if (!b->divides[i] || node_iterated(b->n, graph_root(g, x->in[k])) < 0) b->wanted[x->in[k]] = true;
  }
}

static int block(struct dividing *w, const struct node *n, int *out)
{
  const struct graph *from = n->sub;
  struct arena *mem = w->to->mem;
  struct divided_block b = {.w = w,
                            .n = n,
                            .sub = graph_new(mem, BLOCK, from->name),
                            .divides = NEWS(mem, bool, from->nnodes + 1),
                            .wanted = NEWS(mem, bool, from->ntensors + 1),
                            .tile = NEWS(mem, int, from->ntensors + 1),
                            .parts = NEWS(mem, struct part_tensors, from->ntensors + 1)};
  int iters = 0;
  memset(b.parts, -1, sizeof *b.parts * (size_t)from->ntensors);
  graph_axes(b.sub, from->ngrid, from->grid, from->nloop, from->loop);
  find_wanted(&b);
  for (int i = 0; i < from->nnodes; i++) {
    const struct node *x = &from->nodes[i];
    const int tensor = x->op == OP_ITER ? w->map[n->in[iters++]] : -1;
    if (x->nout && !b.wanted[x->out]) continue;
    if (x->op == OP_ITER)
      TRY(iterate(&b, tensor, x, &b.tile[x->out]));
    else
      TRY(b.divides[i] ? product(&b, x) : graph_take(b.sub, NULL, -1, from, x, b.tile, w->e));
  }
  return graph_nest(w->to, b.sub, b.nin, b.in, n->at, out, w->e);
}

// ---- the whole ----

int lower_parts(struct arena *mem, const struct graph *wrapped, struct graph **out, struct err *e)
{
  if (!any_divides(wrapped)) return *out = (struct graph *)wrapped, NO;
  struct dividing w = {wrapped, graph_new_as(mem, wrapped), NEWS(mem, int, wrapped->ntensors + 1),
                       NEWS(mem, struct part_tensors, wrapped->ntensors + 1), e};
  memset(w.parts, -1, sizeof *w.parts * (size_t)wrapped->ntensors);
  for (int i = 0; i < wrapped->nnodes; i++) {
    const struct node *n = &wrapped->nodes[i];
    int made = 0;
    TRY(n->op == OP_BLOCK ? block(&w, n, &made) : graph_take(w.to, NULL, -1, wrapped, n, w.map, e));
    for (int k = 0; k < n->nout && n->op == OP_BLOCK; k++) w.map[n->out + k] = made + k;
    graph_keep_names(w.to, wrapped, n, w.map);
  }
  TRY(graph_without_unread(mem, w.to, false, out, e));
  return graph_check(*out, e);
}

// All products of f32 in block graphs are products of parts by now.
bool lower_exact(const struct lower_job *j)
{
  const struct graph *b = j->n->block;
  bool exact = false;
  for (int i = 0; i < b->nnodes; i++) exact |= divides(j->n->kernels, &j->n->kernels->nodes[j->n->node], &b->nodes[i]);
  return exact && j->gpu->f32_products == F32_BF16X6;
}
