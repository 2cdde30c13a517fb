// Chooses the dtype in which each tensor of a kernel graph is stored. Kernels compute in fp32, so a smaller dtype between kernels costs precision and
// saves bytes. Operands of tensor cores need 16 bits and are rounded in any case, so they are stored in the graph's dtype. Products of floats of two
// dtypes are products of f32. Other tensors between kernels are fp32: partial sums, for example, would lose precision. Inputs and outputs of the program
// have the program's dtypes.
#include "legal/legal.h"

#include <string.h>

// The larger operand of an elementwise product with a smaller tensor, such as the weights of a norm; else -1.
static int scaled(const struct graph *b, const struct node *n)
{
  if (op_rows[n->op].flags & SCALES) return n->in[0];
  if (n->op != OP_MUL) return -1;
  const int64_t size[] = {shape_size(&b->tensors[n->in[0]].shape), shape_size(&b->tensors[n->in[1]].shape)};
  return size[0] == size[1] ? -1 : n->in[size[1] > size[0]];
}

// Marks the kernel's input tensors whose tiles, as loaded or scaled, are operands of products.
static void mark_block(const struct graph *kernels, const struct node *n, bool *operand)
{
  const struct graph *b = n->sub;
  for (int i = 0; i < b->nnodes; i++) {
    if (op_rows[b->nodes[i].op].rule != RULE_CONTRACT) continue;
    for (int k = 0; k < b->nodes[i].nin; k++) {
      int tile = graph_root(b, b->nodes[i].in[k]);
      for (int from; (from = scaled(b, &b->nodes[b->tensors[tile].node])) >= 0;) tile = graph_root(b, from);
      const int x = node_iterated(n, tile);
      if (x >= 0) operand[graph_root(kernels, x)] = true;
    }
  }
}

// The operator whose result a kernel saves as t; OP_INPUT: no kernel saves it.
static enum op saved(const struct graph *g, int t)
{
  const struct node *n = &g->nodes[g->tensors[t].node], *save = n->sub ? n->sub->nodes : NULL;
  if (!save) return OP_INPUT;
  for (int k = t - n->out; save->op != OP_SAVE || k; save++) k -= save->op == OP_SAVE;
  return n->sub->nodes[n->sub->tensors[save->in[0]].node].op;
}

// Whether a kernel saves the result of a comparison as t. It is 1 or 0, which is exact in every dtype.
static bool is_condition(const struct graph *g, int t) { return op_rows[saved(g, t)].flags & BRACKET; }

bool legal_mixed(const struct graph *g, const int *in)
{
  const enum dtype a = g->tensors[in[0]].dtype, b = g->tensors[in[1]].dtype;
  return a != b && num_floats(&num_rows[a]) && num_floats(&num_rows[b]);
}

int legal_part(const struct graph *g, int t)
{
  _Static_assert(OP_BF16_MIDDLE == OP_BF16_HIGH + 1 && OP_BF16_LOW == OP_BF16_HIGH + 2, "parts stand one after another in op.def");
  const enum op op = saved(g, t);
  return op_rows[op].flags & NARROW ? (int)op - OP_BF16_HIGH : -1;
}

// If a condition is an operand of a product, stores it in the dtype of the other operand.
static void join_operands(const struct graph *g, const struct node *n, enum dtype *t)
{
  for (int k = 0; k < 2; k++) {
    int root = graph_root(g, n->in[k]), other = graph_root(g, n->in[1 - k]);
    if (!is_condition(g, root) || is_condition(g, other)) continue;
    for (int i = 0; i < g->ntensors; i++)
      if (graph_root(g, i) == root) t[i] = t[other];
  }
}

// Stores a copied mask in the dtype of the second operands of the products in the kernel that reads it.
static void join_masks(const struct graph *g, const struct node *n, enum dtype *t)
{
  enum dtype type = DTYPES;
  for (int i = 0; i < n->sub->nnodes && type == DTYPES; i++) {
    const struct node *x = &n->sub->nodes[i];
    const int from = x->op == OP_MATMUL ? node_iterated(n, graph_root(n->sub, x->in[1])) : -1;
    if (from >= 0) type = t[from];
  }
  for (int i = 0; i < g->ntensors && type != DTYPES; i++)
    for (int k = 0; k < n->nin; k++)
      if (graph_root(g, i) == graph_root(g, n->in[k]) && legal_copied(g, graph_root(g, i)) && g->tensors[i].dtype == BOOL) t[i] = type;
}

// The result of an update shares the memory of its operand, so it has the same dtype.
static void join_updates(const struct graph *g, bool *kept)
{
  for (int k = 2 * g->nnodes; k-- > 0;) { // from the last node to the first, and back
    const struct node *n = &g->nodes[k < g->nnodes ? g->nnodes - 1 - k : k - g->nnodes];
    int x = node_updated(n), root = x < 0 ? -1 : graph_root(g, x);
    if (root >= 0) kept[root] = kept[n->out] = kept[root] || kept[n->out];
  }
}

static void keep_named(const struct graph *g, const char *const *names, bool *kept)
{
  for (int t = 0; t < g->ntensors; t++)
    for (int i = 0; names && names[i] && g->tensors[t].name; i++) kept[graph_root(g, t)] |= !strcmp(g->tensors[t].name, names[i]);
}

const enum dtype *store_types(struct arena *mem, const struct graph *g, const char *const *stored)
{
  enum dtype *t = NEWS(mem, enum dtype, g->ntensors + 1);
  bool *kept = NEWS(mem, bool, g->ntensors + 1);
  bool *fixed =
      NEWS(mem, bool, g->ntensors + 1); // keeps the graph's dtype even if it is a part: operands of library products, ranks and updates, and outputs
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op == OP_INPUT) kept[n->out] = true;
    if (node_meets(n)) kept[n->out] = kept[graph_root(g, n->in[0])] = fixed[graph_root(g, n->in[0])] = true;
    const bool multiplied = op_rows[n->op].rule == RULE_CONTRACT && !(n->op == OP_MATMUL && legal_mixed(g, n->in));
    for (int k = 0; k < n->nin && (n->op == OP_OUTPUT || multiplied); k++) kept[graph_root(g, n->in[k])] = fixed[graph_root(g, n->in[k])] = true;
    if (node_updated(n) >= 0) fixed[graph_root(g, node_updated(n))] = true;
    if (n->sub) mark_block(g, n, kept);
  }
  keep_named(g, stored, kept);
  join_updates(g, kept);
  for (int i = 0; i < g->ntensors; i++) t[i] = kept[graph_root(g, i)] ? g->tensors[graph_root(g, i)].dtype : F32;
  for (int i = 0; i < g->ntensors; i++)
    if (op_rows[saved(g, graph_root(g, i))].flags & NARROW && !fixed[graph_root(g, i)]) t[i] = BF16;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == OP_MATMUL) join_operands(g, &g->nodes[i], t);
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].sub) join_masks(g, &g->nodes[i], t);
  return t;
}
