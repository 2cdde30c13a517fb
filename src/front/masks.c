// Operators of tensors with run-time extents. A tensor is allocated for the bound of the extent; elements from the extent on are padding. Padding of
// inputs and states is finite; otherwise nothing is known of it. Before an operator reduces along such a dimension, padding is replaced by the
// operator's neutral element. Results along the dimension have padding again. So the graph has fixed shapes. Other components only see a comparison
// of indices with the input that holds the extent.
#include "front/parse.h"

#include <math.h>
#include <string.h>

// Known content of padding.
enum padding { ANYTHING, FINITE, ZEROS };

struct masking {
  struct graph *g;
  struct loc at;
  struct err *e;
};

static const struct tensor *tensor(const struct masking *m, int t) { return &m->g->tensors[t]; }
static bool has(const struct node *n, int flag) { return op_rows[n->op].flags & flag; }
static const struct node *maker(const struct graph *g, int t) { return &g->nodes[g->tensors[t].node]; }

static int put(const struct masking *m, enum op op, int n, const int *in, const struct attrs *a, int *out)
{
  return graph_add(m->g, op, n, in, a, m->at, out, m->e);
}

// ---- conditions ----

// Is c the condition that the index along dimension `dim` of a tensor of that rank is less than the extent?
static bool is_inside(const struct graph *g, int c, int rank, int dim, int extent)
{
  const struct node *n = maker(g, c);
  if (n->op != OP_LESS || n->in[1] != extent_input(g, extent)) return false;
  const struct shape *s = &maker(g, n->in[0])->a.shape;
  return maker(g, n->in[0])->op == OP_IOTA && s->n == rank - dim && s->d[0] == shape_size(s);
}

// An iota of shape a->shape along a run-time extent; an existing one is reused.
static int index_of(const struct masking *m, const struct attrs *a, uint8_t extent, int *out)
{
  for (int i = 0; i < m->g->nnodes; i++) {
    const struct node *n = &m->g->nodes[i];
    if (n->op == OP_IOTA && shape_eq(&n->a.shape, &a->shape) && tensor(m, n->out)->runs[0] == extent) return *out = n->out, OK;
  }
  TRY(put(m, OP_IOTA, 0, NULL, a, out));
  return m->g->tensors[*out].runs[0] = extent, OK;
}

// The condition of is_inside for dimension `dim` of t; an existing one is reused.
static int inside(const struct masking *m, int t, int dim, int *out)
{
  const int rank = tensor(m, t)->shape.n, extent = tensor(m, t)->runs[dim];
  struct attrs a = attrs_default(OP_IOTA);
  int index;
  for (int i = 0; i < m->g->nnodes; i++)
    if (m->g->nodes[i].op == OP_LESS && is_inside(m->g, m->g->nodes[i].out, rank, dim, extent)) return *out = m->g->nodes[i].out, OK;
  a.shape.n = rank - dim;
  for (int i = 0; i < a.shape.n; i++) a.shape.d[i] = i ? 1 : tensor(m, t)->shape.d[dim];
  TRY(index_of(m, &a, (uint8_t)extent, &index));
  return put(m, OP_LESS, 2, (int[]){index, extent_input(m->g, extent)}, NULL, out);
}

// The dimension of operand k that corresponds to dimension `dim` of an elementwise result; -1 if the operand is broadcast.
static int aligned(const struct graph *g, const struct node *n, int k, int dim)
{
  const struct shape *x = &g->tensors[n->in[k]].shape;
  const int d = dim - (g->tensors[n->out].shape.n - x->n);
  return d < 0 || x->d[d] == 1 ? -1 : d;
}

// Does the condition of n, a mask operator, hide the padding along dim of its result?
static bool shows(const struct graph *g, const struct node *n, int dim)
{
  const int d = aligned(g, n, 1, dim);
  return d >= 0 && is_inside(g, n->in[1], g->tensors[n->in[1]].shape.n, d, g->tensors[n->out].runs[dim]);
}

// *out: t with its padding along dim replaced by the constant.
static int masked(const struct masking *m, int t, int dim, double c, int *out)
{
  struct attrs a = attrs_default(OP_KEEP);
  const bool zero = !(c < 0) && !(c > 0);
  const struct node *n = maker(m->g, t);
  int shown;
  a.scalar = c;
  if (n->op == (zero ? OP_MASK : OP_KEEP) && n->a.scalar == (zero ? 0 : c) && shows(m->g, n, dim)) return *out = t, OK; // already masked
  TRY(inside(m, t, dim, &shown));
  return !zero ? put(m, OP_KEEP, 2, (int[]){t, shown}, &a, out) : put(m, OP_MASK, 2, (int[]){t, shown}, NULL, out);
}

// *out: t with dimension dim, of the extent's bound, marked as having the run-time extent. Elements stay.
static int extended(const struct masking *m, int t, int dim, uint8_t extent, int *out)
{
  struct attrs a = attrs_default(OP_RESHAPE);
  uint8_t runs[MAX_DIMS];
  memcpy(runs, tensor(m, t)->runs, sizeof runs);
  runs[dim] = extent, a.shape = tensor(m, t)->shape;
  TRY(put(m, OP_RESHAPE, 1, &t, &a, out));
  return memcpy(m->g->tensors[*out].runs, runs, sizeof runs), OK;
}

// ---- known content of padding ----

enum { MOST_STEPS = 1000 }; // limit of a walk through the operators behind a tensor, as a node may be reached by many paths

static enum padding padding_walk(const struct graph *g, int t, int dim, int *left);
static enum padding padding_of(const struct graph *g, int t, int dim) { return padding_walk(g, t, dim, &(int){MOST_STEPS}); }

static enum padding operand_padding(const struct graph *g, const struct node *n, int k, int dim, int *left)
{
  const int d = aligned(g, n, k, dim);
  return d < 0 ? ANYTHING : padding_walk(g, n->in[k], d, left);
}

static enum padding map_padding(const struct graph *g, const struct node *n, int dim, int *left)
{
  if ((n->op == OP_MASK || n->op == OP_KEEP) && shows(g, n, dim)) return n->op == OP_MASK ? ZEROS : FINITE;
  if (has(n, BRACKET)) return FINITE;
  bool zeros = has(n, KEEPS_ZERO);
  for (int k = 0; k < n->nin && zeros; k++) zeros = operand_padding(g, n, k, dim, left) == ZEROS;
  return zeros ? ZEROS : ANYTHING;
}

// Is n a softmax along dim that gives 0 for padding?
static bool hides(const struct node *n, int dim) { return has(n, HIDES) && n->a.dim == dim; }

// Are the elements of t those of an input or a state? These are finite, padding included (docs/language.md).
static bool given(const struct graph *g, int t)
{
  while (op_rows[maker(g, t)->op].rule == RULE_VIEW || has(maker(g, t), WRITES_SLICES)) t = maker(g, t)->in[0];
  return maker(g, t)->op == OP_INPUT;
}

static enum padding padding_walk(const struct graph *g, int t, int dim, int *left)
{
  const struct node *n = maker(g, t);
  const int extent = g->tensors[t].runs[dim];
  if (--*left < 0) return ANYTHING;
  switch (op_rows[n->op].rule) {
  case RULE_IO:
  case RULE_CONST:
  case RULE_INDEX: return FINITE;
  case RULE_MAP: return map_padding(g, n, dim, left);
  case RULE_VIEW:
  case RULE_SPLIT: {
    const int from = extent_along(&g->tensors[n->in[0]], extent);
    if (from >= 0 && extent_along(&g->tensors[t], extent) >= 0) return padding_walk(g, n->in[0], from, left);
    return given(g, t) ? FINITE : ANYTHING;
  }
  case RULE_COMPOSITE: return hides(n, dim) ? ZEROS : ANYTHING;
  case RULE_AT: return !has(n, SELECTS) && given(g, n->in[0]) ? FINITE : ANYTHING;
  case RULE_CONTRACT:
  case RULE_REDUCE:
  case RULE_CONCAT:
  case RULE_WORLD:
  case RULE_ACCUM:
  case RULE_GRAPH: break;
  }
  return ANYTHING;
}

// ---- extents that must agree ----

// Is t computed from constants, indices and scalars alone? Then every index has a valid element, so t agrees with all extents.
static bool everywhere(const struct graph *g, int t, int *left)
{
  const struct node *n = maker(g, t);
  if (--*left < 0 || n->op == OP_INPUT) return *left >= 0 && shape_size(&g->tensors[t].shape) == 1;
  for (int i = 0; i < n->nin; i++)
    if (!everywhere(g, n->in[i], left)) return false;
  return true;
}

static int differ(const struct masking *m, enum op op, int x, int y)
{
  char a[512], b[512];
  const struct tensor *known = tensor(m, extent_tells(tensor(m, x)) ? x : y);
  int extent = 0;
  for (int d = 0; d < MAX_DIMS && !extent; d++) extent = known->runs[d];
  extent_text(a, m->g, tensor(m, x)), extent_text(b, m->g, tensor(m, y));
  int s = err_set(m->e, ERR_SHAPE, m->at, "%s of %.200s and %.200s: run-time extents differ", op_rows[op].name, a, b);
  return err_hint(m->e, "declare both dimensions with %.60s, or take the first elements: x[:%.60s]", extent_called(m->g, extent),
                  extent_called(m->g, extent)),
         s;
}

static int agree_at(const struct masking *m, enum op op, int x, int dx, int y, int dy)
{
  const struct tensor *a = tensor(m, x), *b = tensor(m, y);
  int left = MOST_STEPS;
  if (a->shape.d[dx] == 1 || b->shape.d[dy] == 1 || a->runs[dx] == b->runs[dy]) return OK;
  if ((!a->runs[dx] && everywhere(m->g, x, &left)) || (!b->runs[dy] && everywhere(m->g, y, &left))) return OK;
  return differ(m, op, x, y);
}

// Checks the dimensions of x and y before the last `last` ones, aligned at the end.
static int agree_aligned(const struct masking *m, enum op op, int x, int y, int last)
{
  for (int dx = tensor(m, x)->shape.n - last - 1, dy = tensor(m, y)->shape.n - last - 1; dx >= 0 && dy >= 0; dx--, dy--)
    TRY(agree_at(m, op, x, dx, y, dy));
  return OK;
}

static int agree(const struct masking *m, const struct node *n)
{
  const enum rule rule = op_rows[n->op].rule;
  if (rule == RULE_CONTRACT) {
    const int x = n->in[0], y = n->in[1], rank = tensor(m, x)->shape.n;
    TRY(agree_at(m, n->op, x, rank - 1, y, tensor(m, y)->shape.n - 2));
    return agree_aligned(m, n->op, x, y, 2);
  }
  for (int i = 0; i < n->nin; i++)
    for (int k = i + 1; k < n->nin && rule != RULE_AT; k++) TRY(agree_aligned(m, n->op, n->in[i], n->in[k], 0));
  return OK;
}

// ---- operators ----

static int along(const struct masking *m, const struct node *n, int extent, const char *hint)
{
  int s = err_set(m->e, ERR_EXTENT, m->at, "%s along dimension %d, which has the run-time extent %.60s", op_rows[n->op].name, n->a.dim,
                  extent_called(m->g, extent));
  return err_hint(m->e, "%s", hint), s;
}

static int add(const struct masking *m, const struct node *n, int *out) { return put(m, n->op, n->nin, n->in, &n->a, out); }

// The neutral element as a constant of the tensor's dtype.
static double as_constant(const struct tensor *t, double neutral)
{
  if (isfinite(neutral)) return neutral;
  if (t->whole) return (double)(neutral < 0 ? t->range.least : t->range.most);
  return neutral < 0 ? -dtype_largest(t->dtype) : dtype_largest(t->dtype);
}

static int reduced(const struct masking *m, struct node *n, int *out)
{
  const struct op_row *row = &op_rows[n->op];
  const int extent = tensor(m, n->in[0])->runs[n->a.dim];
  double neutral;
  if (((row->attrs & A_GROUP) && n->a.group) || !number_neutral(n->op, &neutral))
    return along(m, n, extent, "groups along a run-time extent have no fixed number");
  const double c = as_constant(tensor(m, n->in[0]), neutral);
  const bool zeros = !(c < 0) && !(c > 0) && padding_of(m->g, n->in[0], n->a.dim) == ZEROS;
  if (!zeros) TRY(masked(m, n->in[0], n->a.dim, c, &n->in[0]));
  if (!(row->flags & MEAN)) return add(m, n, out);
  struct attrs a = attrs_default(OP_SUM);
  a.dim = n->a.dim;
  TRY(put(m, OP_SUM, 1, n->in, &a, out));
  return put(m, OP_DIV, 2, (int[]){*out, extent_input(m->g, extent)}, NULL, out);
}

// Constants, indices and conditions on them.
static bool finite_everywhere(const struct graph *g, int t)
{
  const struct op_row *row = &op_rows[maker(g, t)->op];
  return row->rule == RULE_CONST || row->rule == RULE_INDEX || row->flags & BRACKET;
}

// A matrix product multiplies padding by padding. The result is right if it is 0 in one operand and finite in the other.
static int multiplied(const struct masking *m, struct node *n, int *out)
{
  const int dim[] = {tensor(m, n->in[0])->shape.n - 1, tensor(m, n->in[1])->shape.n - 2};
  enum padding pads[2];
  bool zeros = false;
  for (int k = 0; k < 2; k++) {
    const uint8_t faces = tensor(m, n->in[1 - k])->runs[dim[1 - k]];
    if (!tensor(m, n->in[k])->runs[dim[k]] && faces && !finite_everywhere(m->g, n->in[k])) TRY(extended(m, n->in[k], dim[k], faces, &n->in[k]));
    pads[k] = tensor(m, n->in[k])->runs[dim[k]] ? padding_of(m->g, n->in[k], dim[k]) : FINITE;
    if (pads[k] == ANYTHING) {
      TRY(masked(m, n->in[k], dim[k], 0, &n->in[k]));
      pads[k] = ZEROS;
    }
    zeros |= pads[k] == ZEROS;
  }
  const bool runs[] = {tensor(m, n->in[0])->runs[dim[0]] != 0, tensor(m, n->in[1])->runs[dim[1]] != 0};
  const int smaller = shape_size(&tensor(m, n->in[0])->shape) > shape_size(&tensor(m, n->in[1])->shape);
  const int k = runs[smaller] ? smaller : 1 - smaller;
  if (!zeros && runs[k]) TRY(masked(m, n->in[k], dim[k], 0, &n->in[k]));
  return add(m, n, out);
}

// Is the condition c a product that has this factor?
static bool factor(const struct graph *g, int c, int shown, int *left)
{
  const struct node *n = maker(g, c);
  if (--*left < 0) return false;
  return c == shown || (n->op == OP_MUL && (factor(g, n->in[0], shown, left) || factor(g, n->in[1], shown, left)));
}

// softmax(x, mask): hides the elements that the mask hides, and padding.
static int softmax_of_mask(const struct masking *m, const struct node *n, int shown, int *out)
{
  struct attrs of = attrs_default(OP_SOFTMAX_WHERE);
  int seen, bias, sum;
  of.dim = n->a.dim;
  if (tensor(m, n->in[1])->dtype == BOOL) {
    TRY(put(m, OP_MUL, 2, (int[]){n->in[1], shown}, NULL, &seen));
    return put(m, OP_SOFTMAX_WHERE, 2, (int[]){n->in[0], seen}, &of, out);
  }
  const enum dtype joined = dtype_join(tensor(m, n->in[0])->dtype, tensor(m, n->in[1])->dtype);
  TRY(graph_mask_bias(m->g, n->in[1], joined, graph_add, m->at, &seen, &bias, m->e));
  TRY(put(m, OP_MUL, 2, (int[]){seen, shown}, NULL, &seen));
  TRY(put(m, OP_ADD, 2, (int[]){n->in[0], bias}, NULL, &sum));
  return put(m, OP_SOFTMAX_WHERE, 2, (int[]){sum, seen}, &of, out);
}

// Softmax along a run-time extent: adds the condition that hides padding, so padding is not taken for the largest score.
static int softmax(const struct masking *m, struct node *n, int *out)
{
  int shown;
  TRY(inside(m, n->in[0], n->a.dim, &shown));
  if (n->op == OP_SOFTMAX_WHERE && factor(m->g, n->in[1], shown, &(int){MOST_STEPS})) return add(m, n, out);
  if (n->op == OP_SOFTMAX && n->nin > 1) return softmax_of_mask(m, n, shown, out);
  if (n->op == OP_SOFTMAX) return put(m, OP_SOFTMAX_WHERE, 2, (int[]){n->in[0], shown}, &n->a, out);
  TRY(put(m, OP_MUL, 2, (int[]){n->in[1], shown}, NULL, &n->in[1]));
  return add(m, n, out);
}

static int chosen(const struct masking *m, struct node *n, int *out)
{
  const struct tensor *x = tensor(m, n->in[0]);
  struct tensor is[2];
  TRY(infer_node(m->g, n, is, &(int){0}, m->e));
  const int extent = has(n, SELECTS) ? x->runs[n->a.dim] : 0;
  if (extent) {
    if (n->a.k > tensor(m, extent_input(m->g, extent))->range.least) return along(m, n, extent, "declare that there are as many: n: dim >= 8 <= 64");
    TRY(masked(m, n->in[0], n->a.dim, as_constant(x, -INFINITY), &n->in[0]));
  }
  if (!has(n, WRITES_SLICES)) return add(m, n, out);
  const struct tensor *at = tensor(m, n->in[1]), *y = tensor(m, n->in[2]);
  for (int d = 0; d < y->shape.n; d++) {
    const bool index = d >= n->a.dim && d < n->a.dim + at->shape.n;
    const int want = index ? at->runs[d - n->a.dim] : x->runs[d < n->a.dim ? d : d - at->shape.n + 1];
    if (y->runs[d] && y->runs[d] != want) return differ(m, n->op, n->in[index ? 1 : 0], n->in[2]);
  }
  for (int d = 0; d < at->shape.n; d++)
    if (tensor(m, n->in[1])->runs[d]) TRY(masked(m, n->in[1], d, -1, &n->in[1])); // -1 drops a slice
  return add(m, n, out);
}

// Views and slices: a dimension with a run-time extent cannot be split, merged or repeated.
static int viewed(const struct masking *m, struct node *n, int *out)
{
  const struct tensor x = *tensor(m, n->in[0]);
  const int dim = n->a.dim, attrs = op_rows[n->op].attrs, extent = attrs & A_DIM ? x.runs[dim] : 0;
  if (extent && attrs & A_END) {
    const bool all = !n->a.start && n->a.end == x.shape.d[dim];
    if (!all && n->a.end > tensor(m, extent_input(m->g, extent))->range.least)
      return along(m, n, extent, "an element may be chosen at run time, as in x[n - 1]; a part ends at the least extent: n: dim >= 8 <= 64");
  } else if (extent) {
    return along(m, n, extent, "it has no fixed number of elements to be divided or repeated");
  }
  TRY(add(m, n, out));
  if (!(attrs & A_SHAPE)) return OK;
  int had = 0, has = 0;
  for (int d = 0; d < MAX_DIMS; d++) had += x.runs[d] != 0, has += tensor(m, *out)->runs[d] != 0;
  if (had == has) return OK;
  char text[512];
  extent_text(text, m->g, &x);
  int s = err_set(m->e, ERR_SHAPE, m->at, "reshape of %.300s: a run-time extent stays a dimension of its own", text);
  return err_hint(m->e, "name it in the new shape, with as many elements before it: reshape(x, [2, n, 4, 16])"), s;
}

static int joined(const struct masking *m, struct node *n, int *out)
{
  for (int i = 0; i < n->nin; i++) {
    const struct tensor *x = tensor(m, n->in[i]);
    if (n->a.dim < x->shape.n && x->runs[n->a.dim]) return along(m, n, x->runs[n->a.dim], "the elements after it would lie in the middle");
  }
  return add(m, n, out);
}

// The dimension along which a composite operator reduces; -1 if it is elementwise.
static int folded_dim(const struct node *n, int rank)
{
  if (has(n, CHOOSES | WHOLES | ENCODES)) return -1;
  return op_rows[n->op].attrs & A_DIM ? n->a.dim : rank - 1;
}

static int composed(const struct masking *m, struct node *n, int *out)
{
  const int dim = folded_dim(n, tensor(m, n->in[0])->shape.n);
  struct tensor is;
  TRY(infer_node(m->g, n, &is, &(int){0}, m->e));
  if (dim < 0) return add(m, n, out);
  const bool told = tensor(m, n->in[0])->runs[dim];
  if (!told && !is.runs[dim]) return add(m, n, out);
  if (!told) TRY(extended(m, n->in[0], dim, is.runs[dim], &n->in[0]));
  if (has(n, HIDES)) return softmax(m, n, out);
  return graph_expand_node(m->g, n, masks_add, out, m->e);
}

static int by_rule(const struct masking *m, struct node *n, int *out)
{
  switch (op_rows[n->op].rule) {
  case RULE_REDUCE: return tensor(m, n->in[0])->runs[n->a.dim] ? reduced(m, n, out) : add(m, n, out);
  case RULE_CONTRACT: return multiplied(m, n, out);
  case RULE_COMPOSITE: return composed(m, n, out);
  case RULE_AT: return chosen(m, n, out);
  case RULE_VIEW:
  case RULE_SPLIT: return viewed(m, n, out);
  case RULE_CONCAT: return joined(m, n, out);
  case RULE_IO:
  case RULE_CONST:
  case RULE_INDEX:
  case RULE_MAP:
  case RULE_WORLD:
  case RULE_ACCUM:
  case RULE_GRAPH: break;
  }
  return add(m, n, out);
}

int masks_add(struct graph *g, enum op op, int nin, const int *in, const struct attrs *a, struct loc at, int *out, struct err *e)
{
  struct arena tmp = {0};
  struct masking m = {g, at, e};
  struct node n = {
      .op = op, .nin = nin, .in = nin ? arena_copy(&tmp, in, sizeof *in * (size_t)nin) : NULL, .a = a ? *a : attrs_default(op), .at = at};
  const int rank = nin ? g->tensors[in[0]].shape.n : 0;
  const bool of_dim = op_rows[op].attrs & A_DIM;
  bool some = false;
  if (of_dim && n.a.dim < 0) n.a.dim += rank;
  for (int i = 0; i < nin; i++) some |= extent_tells(&g->tensors[in[i]]);
  const bool plain = !some || nin < op_rows[op].least || (of_dim && (n.a.dim < 0 || n.a.dim >= rank)) ||
                     (op_rows[op].rule == RULE_CONTRACT && (rank < 2 || g->tensors[in[1]].shape.n < 2));
  int s = plain ? OK : agree(&m, &n);
  if (!s) s = plain ? graph_add(g, op, nin, in, a, at, out, e) : by_rule(&m, &n, out);
  arena_close(&tmp);
  return s;
}
