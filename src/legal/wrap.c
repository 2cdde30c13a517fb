// Wraps library operators as block graphs, so the schemes for block graphs also generate them. The result of an elementwise operator is divided into
// tiles of some thousand elements, whole rows if they fit. A reduction reads its dimension whole, or in a loop if it is long. Views stay views:
// kernels read through them. If that is impossible (a product whose operand has no strides, a view that is an output of the program), a block graph
// that only loads and saves copies the view. Input: a checked graph, which may have composites. Output: inputs, outputs, views, constants, indices,
// products and block graphs.
#include "legal/wrap.h"

#include <string.h>

// ---- views ----

int wrap_view(struct wrapping *w, const struct node *n, int x, int *out)
{
  struct kview v;
  TRY(graph_add(w->to, n->op, 1, &x, &n->a, n->at, out, w->e));
  if (kview_of(w->to, *out, &v)) return OK;
  TRY(wrap_copied(w, x, &x)); // the view of a copy has strides
  return graph_add(w->to, n->op, 1, &x, &n->a, n->at, out, w->e);
}

// Parts of a split are views, one slice each.
static int slices(struct wrapping *w, const struct node *n, int x, int *out)
{
  struct node one = *n;
  one.op = OP_SLICE, one.nout = 1, one.a = attrs_default(OP_SLICE), one.a.dim = n->a.dim;
  for (int k = 0; k < n->nout; k++) {
    int64_t extent = w->to->tensors[x].shape.d[n->a.dim] / n->a.parts, index = node_part(n, k);
    one.a.start = index * extent, one.a.end = one.a.start + extent;
    TRY(wrap_view(w, &one, x, &out[k]));
  }
  return OK;
}

// ---- products and outputs ----

// The library multiplies operands of one dtype, so those that are not f32 are copied: what a kernel makes is stored as f32 (store.c).
static int in_f32(struct wrapping *w, int *x)
{
  for (int k = 0; k < 2; k++)
    if (w->to->tensors[x[k]].dtype != F32) TRY(wrap_copied(w, x[k], &x[k]));
  return OK;
}

// Whether t can be an operand of the library. Views may have no strides, and indices have no memory.
static bool may_be_operand(const struct graph *g, int t)
{
  enum rule rule = op_rows[g->nodes[g->tensors[t].node].op].rule;
  return rule != RULE_VIEW && rule != RULE_INDEX;
}

static int product(struct wrapping *w, const struct node *n, const int *in, int *out)
{
  struct library_product p;
  int x[2] = {in[0], in[1]};
  if (legal_mixed(w->to, x)) TRY(in_f32(w, x));
  TRY(graph_add(w->to, n->op, 2, x, &n->a, n->at, out, w->e));
  if (product_of(w->to, NULL, w->to->nnodes - 1, &p)) return OK;
  w->to->nnodes--, w->to->ntensors--; // add it again, with copied operands
  for (int k = 0; k < 2; k++)
    if (!may_be_operand(w->to, x[k])) TRY(wrap_copied(w, x[k], &x[k]));
  return graph_add(w->to, n->op, 2, x, &n->a, n->at, out, w->e);
}

// Whether the view has all elements of its root, in row-major order.
static bool whole(const struct graph *g, const struct kview *v)
{
  int64_t stride = 1;
  for (int d = v->ndims - 1; d >= 0; d--)
    for (int k = v->dim[d].n - 1; k >= 0; k--) {
      if (v->dim[d].stride[k] != stride) return false;
      stride *= v->dim[d].extent[k];
    }
  return !v->offset && stride == shape_size(&g->tensors[v->root].shape);
}

// Whether tensor t already is an output of the program.
static bool is_output(const struct graph *g, int t)
{
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == OP_OUTPUT && graph_root(g, g->nodes[i].in[0]) == t) return true;
  return false;
}

// Adds an output of the program. It has its own buffer with its elements in row-major order.
static int output(struct wrapping *w, const struct node *n, int t)
{
  struct kview v;
  bool strided = kview_of(w->to, t, &v);
  enum op maker = w->to->nodes[w->to->tensors[strided ? v.root : t].node].op;
  if (maker == OP_CONST) return err_set(w->e, ERR_GRAPH, n->at, "a constant is an output of the program");
  const bool made = maker == OP_BLOCK || maker == OP_MATMUL || op_rows[maker].rule == RULE_WORLD;
  if (!strided || !made || !whole(w->to, &v) || is_output(w->to, v.root)) TRY(wrap_copied(w, t, &t));
  return graph_add(w->to, OP_OUTPUT, 1, &t, NULL, n->at, NULL, w->e);
}

static int nest(struct wrapping *w, const struct node *n, const int *in, int *out)
{
  for (int k = 0; k < n->nin; k++)
    if (wrap_constant(w->to, in[k])) return err_set(w->e, ERR_GRAPH, n->at, "argument %d of a kernel is a constant", k + 1);
  for (int i = 0; i < n->sub->nnodes; i++)
    if (node_has(&n->sub->nodes[i], WRITES_SLICES))
      return err_set(w->e, ERR_TARGET, n->at, "no GPU kernel can be made of an update in a block graph");
  return graph_nest(w->to, graph_copy(w->to->mem, n->sub), n->nin, in, n->at, out, w->e);
}

// Adds a collective. Ranks exchange elements in row-major order.
static int meeting(struct wrapping *w, const struct node *n, int x, int *out)
{
  struct kview v;
  int status = OK;
  if (wrap_constant(w->to, graph_root(w->to, x))) return err_set(w->e, ERR_TARGET, n->at, "%s of a constant is not generated", op_rows[n->op].name);
  if (!kview_of(w->to, x, &v) || !whole(w->to, &v)) status = wrap_copied(w, x, &x);
  return status ? status : graph_add(w->to, n->op, 1, &x, &n->a, n->at, out, w->e);
}

static int one_node(struct wrapping *w, const struct graph *g, const struct node *n, const int *in, int *out)
{
  const struct tensor *t = n->nout ? &g->tensors[n->out] : NULL;
  switch (op_rows[n->op].rule) {
  case RULE_IO: return n->op == OP_OUTPUT ? output(w, n, in[0]) : graph_input_as(w->to, NULL, t->dtype, t, n->at, out, w->e);
  case RULE_CONST:
  case RULE_INDEX: return graph_add(w->to, n->op, 0, NULL, &n->a, n->at, out, w->e);
  case RULE_VIEW: return wrap_view(w, n, in[0], out);
  case RULE_CONTRACT: return product(w, n, in, out);
  case RULE_GRAPH: return nest(w, n, in, out);
  case RULE_MAP: return wrap_map(w, n, in, &t->shape, out);
  case RULE_REDUCE: return wrap_reduce(w, n, in, &t->shape, out);
  case RULE_CONCAT: return wrap_concat(w, n, in, &t->shape, out);
  case RULE_SPLIT: return slices(w, n, in[0], out);
  case RULE_AT: return wrap_chosen(w, n, in, out);
  case RULE_WORLD: return meeting(w, n, in[0], out);
  case RULE_ACCUM:
  case RULE_COMPOSITE: break;
  }
  return err_set(w->e, ERR_TARGET, n->at, "no GPU kernel can be made of %s", op_rows[n->op].name);
}

int wrap_library(struct arena *mem, const struct graph *kernels, struct graph **out, struct err *e)
{
  struct graph *g;
  TRY(graph_expand(mem, kernels, true, &g, e));
  struct wrapping w = {.to = *out = graph_new_as(mem, g), .e = e};
  int *to = NEWS(mem, int, g->ntensors + 1);
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    int *in = NEWS(mem, int, n->nin + 1), *made = NEWS(mem, int, n->nout + 1);
    for (int k = 0; k < n->nin; k++) in[k] = to[n->in[k]];
    const struct scan s = graph_scan(g, NULL, n);
    if (graph_scans(g, NULL, i)) continue; // its readers contain it
    TRY(s.triangle ? wrap_scan(&w, n, in, &s, to, made) : one_node(&w, g, n, in, made));
    for (int k = 0; k < n->nout; k++) to[n->out + k] = n->op == OP_SPLIT ? made[k] : made[0] + k;
    graph_keep_names(*out, g, n, to);
  }
  return graph_check(*out, e);
}
