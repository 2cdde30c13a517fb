// Builds the operators of one node. Mica's rules infer shapes and dtypes as operators are appended; an error of a rule is the reason why a node is
// not taken.
#include "eval/eval.h"
#include "onnx/onnx_lower.h"

#include <math.h>
#include <string.h>

void lo_fail(struct onnx_lower *l, const char *fmt, ...)
{
  if (l->failed) return;
  l->failed = true;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(l->why, sizeof l->why, fmt, ap);
  va_end(ap);
}

// ---- inputs and outputs of the node ----

bool lo_has(const struct onnx_lower *l, int k) { return k < l->n->nin && l->n->in[k] >= 0; }
bool lo_wants(const struct onnx_lower *l, int k) { return k < l->n->nout && l->n->out[k] >= 0 && l->m->values[l->n->out[k]].uses; }
const struct shape *lo_shape(const struct onnx_lower *l, int t)
{
  static const struct shape scalar;
  return t < 0 ? &scalar : &l->g->tensors[t].shape;
}

// Weights that an exporter widened keep their original type, next to nodes that narrow again.
static bool was_narrow(struct onnx_lower *l, int value)
{
  const struct onnx_cells *x = l->narrow == F32 || l->m->values[value].type != ONNX_FLOAT ? NULL : onnx_known(l->m, value);
  for (int64_t i = 0, n = x ? onnx_elements(&x->shape) : 0; i < n; i++)
    if (num_round(l->narrow, x->f[i]) != x->f[i]) return false;
  return x != NULL;
}

static int graph_input_of(struct onnx_lower *l, int value)
{
  const struct onnx_value *v = &l->m->values[value];
  struct err e = {0};
  enum dtype dtype;
  int t;
  if (!v->shaped) return lo_fail(l, "the shape of `%.100s` is not known", v->name), -1;
  if (!onnx_type_dtype(v->type, &dtype))
    return lo_fail(l, "`%.100s` is %s, and Mica computes with float32, float16 and bfloat16", v->name, onnx_type_name(v->type)), -1;
  if (l->whole && was_narrow(l, value)) dtype = l->narrow;
  if (graph_input(l->g, NULL, dtype, &v->shape, NOWHERE, &t, &e) != OK) return lo_fail(l, "%.200s", e.text), -1;
  PUSH(l->g->mem, l->in, l->nin, l->in_cap) = value;
  return t;
}

int lo_in(struct onnx_lower *l, int k)
{
  if (!lo_has(l, k)) lo_fail(l, "input %d is missing", k);
  if (l->failed) return -1;
  int v = l->n->in[k];
  if (l->tensor[v] < 0) l->tensor[v] = graph_input_of(l, v);
  return l->tensor[v];
}

static int whole_input(struct onnx_lower *l, int value, enum dtype dtype, struct whole_range range)
{
  const struct onnx_value *v = &l->m->values[value];
  const struct tensor as = {.dtype = dtype, .shape = v->shape, .whole = true, .range = range};
  struct err e = {0};
  int t;
  if (!v->shaped) return lo_fail(l, "the shape of `%.100s` is not known", v->name), -1;
  if (graph_input_as(l->g, NULL, dtype, &as, NOWHERE, &t, &e) != OK) return lo_fail(l, "%.200s", e.text), -1;
  PUSH(l->g->mem, l->in, l->nin, l->in_cap) = value;
  if (l->tensor[value] < 0) l->tensor[value] = t;
  return t;
}

int lo_condition(struct onnx_lower *l, int k)
{
  if (!lo_has(l, k)) lo_fail(l, "input %d is missing", k);
  if (l->failed) return -1;
  const int v = l->n->in[k];
  if (l->m->values[v].type != ONNX_BOOL) return lo_fail(l, "`%.100s` is %s", l->m->values[v].name, onnx_type_name(l->m->values[v].type)), -1;
  return l->tensor[v] >= 0 ? l->tensor[v] : whole_input(l, v, BOOL, range_default(BOOL));
}

int lo_index(struct onnx_lower *l, int k, int64_t least, int64_t most)
{
  if (!lo_has(l, k)) lo_fail(l, "input %d is missing", k);
  if (l->failed) return -1;
  const int v = l->n->in[k], t = l->tensor[v], type = l->m->values[v].type;
  if (type != ONNX_INT32 && type != ONNX_INT64) return lo_fail(l, "its indices are %s", onnx_type_name(type)), -1;
  const struct tensor *x = t < 0 ? NULL : &l->g->tensors[t];
  if (x && x->whole && x->range.least >= least && x->range.most <= most) return t;
  if (x && l->g->nodes[x->node].op != OP_INPUT) return lo_fail(l, "its indices are computed, and may be beyond what they number"), -1;
  // again, in case the program has the input with wider limits
  return whole_input(l, v, type == ONNX_INT32 ? I32 : I64, (struct whole_range){least, most, false});
}

void lo_out(struct onnx_lower *l, int k, int t)
{
  if (!l->failed && k < l->n->nout && l->n->out[k] >= 0) l->tensor[l->n->out[k]] = t;
}

bool lo_known(struct onnx_lower *l, int k, double *c)
{
  const struct onnx_cells *x = lo_has(l, k) ? onnx_known(l->m, l->n->in[k]) : NULL;
  if (!x || onnx_elements(&x->shape) != 1 || onnx_type_kind(x->type) != REAL) return false;
  *c = x->f[0];
  return true;
}

// ---- facts that the node's simple function infers ----

static void host_of(struct onnx_lower *l, struct onnx_host *h)
{
  int n = MAX(l->n->nin, 1);
  *h = (struct onnx_host){.mem = l->g->mem, .n = l->n, .row = l->row, .nin = l->n->nin};
  h->in = NEWS(h->mem, const struct onnx_cells *, n), h->out = NEWS(h->mem, struct onnx_cells *, MAX(l->n->nout, 1));
  for (int k = 0; k < h->nin; k++) {
    if (l->n->in[k] < 0) continue;
    const struct onnx_value *v = &l->m->values[l->n->in[k]];
    struct onnx_cells *c = NEW(h->mem, struct onnx_cells);
    const struct onnx_cells *known = k ? onnx_known(l->m, l->n->in[k]) : NULL;
    *c = (struct onnx_cells){.type = v->type, .shape = v->shape};
    if (!v->shaped) lo_fail(l, "the shape of `%.100s` is not known", v->name);
    h->in[k] = known ? known : c;
  }
}

bool lo_list(struct onnx_lower *l, const char *name, int k, struct onnx_ints *list)
{
  struct onnx_host h;
  *list = (struct onnx_ints){0};
  if (l->failed) return false;
  host_of(l, &h);
  bool given = host_list(&h, name, k, list);
  if (h.failed) lo_fail(l, "%s", h.why);
  return given && !l->failed;
}

bool lo_axis(struct onnx_lower *l, int64_t axis, int n, int *out)
{
  struct onnx_host h = {0};
  bool good = !l->failed && host_axis(&h, axis, n, out);
  if (h.failed) lo_fail(l, "%s", h.why);
  return good;
}

bool lo_host_shape(struct onnx_lower *l, int k, struct shape *s)
{
  struct onnx_host h;
  *s = (struct shape){0};
  if (l->failed) return false;
  host_of(l, &h);
  if (l->failed) return false;
  l->row->host(&h);
  if (h.failed || k >= l->n->nout || !h.out[k]) return lo_fail(l, "%s", h.failed ? h.why : "its shape is not known"), false;
  return *s = h.out[k]->shape, true;
}

// ---- operators ----

int lo_op(struct onnx_lower *l, enum op op, int n, const int *in, const struct attrs *a)
{
  struct err e = {0};
  int t = -1;
  for (int i = 0; i < n; i++)
    if (in[i] < 0) lo_fail(l, "an input is missing");
  if (l->failed) return -1;
  if (graph_add(l->g, op, n, in, a, NOWHERE, &t, &e) != OK) return lo_fail(l, "%.230s", e.text), -1;
  return t;
}

int lo_op1(struct onnx_lower *l, enum op op, int x) { return lo_op(l, op, 1, &x, NULL); }
int lo_op2(struct onnx_lower *l, enum op op, int x, int y) { return lo_op(l, op, 2, (int[]){x, y}, NULL); }

static int with_scalar(struct onnx_lower *l, enum op op, int x, double c)
{
  struct attrs a = attrs_default(op);
  a.scalar = c;
  if (!isfinite(c)) lo_fail(l, "a constant of it is not finite");
  return lo_op(l, op, op == OP_CONST ? 0 : 1, &x, &a);
}

int lo_const(struct onnx_lower *l, double c) { return with_scalar(l, OP_CONST, 0, c); }
int lo_scale(struct onnx_lower *l, int x, double c) { return c == 1 ? x : with_scalar(l, OP_MUL_SCALAR, x, c); }
int lo_shift(struct onnx_lower *l, int x, double c) { return c == 0 ? x : with_scalar(l, OP_ADD_SCALAR, x, c); }

int lo_dim(struct onnx_lower *l, enum op op, int x, int dim)
{
  struct attrs a = attrs_default(op);
  a.dim = dim;
  return lo_op(l, op, 1, &x, &a);
}

int lo_reshape(struct onnx_lower *l, int x, const struct shape *s)
{
  struct attrs a = attrs_default(OP_RESHAPE);
  a.shape = *s;
  if (x >= 0 && shape_eq(lo_shape(l, x), s)) return x;
  return lo_op(l, OP_RESHAPE, 1, &x, &a);
}

int lo_transpose(struct onnx_lower *l, int x, const struct shape *perm)
{
  struct attrs a = attrs_default(OP_TRANSPOSE);
  bool moves = false;
  for (int i = 0; i < perm->n; i++) moves |= perm->d[i] != i;
  a.perm = *perm;
  return moves ? lo_op(l, OP_TRANSPOSE, 1, &x, &a) : x;
}

// One of equal parts, or a slice.
int lo_part(struct onnx_lower *l, int x, int dim, int64_t start, int64_t count)
{
  if (x < 0) return -1;
  int64_t d = lo_shape(l, x)->d[dim];
  if (start == 0 && count == d) return x;
  if (count < 1) return lo_fail(l, "a slice of it is empty"), -1;
  bool equal = d % count == 0 && start % count == 0 && d / count <= LO_MOST_PARTS;
  struct attrs a = attrs_default(equal ? OP_CHUNK : OP_SLICE);
  a.dim = dim;
  if (equal)
    a.parts = d / count, a.index = start / count;
  else
    a.start = start, a.end = start + count;
  return lo_op(l, equal ? OP_CHUNK : OP_SLICE, 1, &x, &a);
}

// ---- nodes ----

bool onnx_lower_node(struct onnx_lower *l, const struct onnx_node *n)
{
  l->n = n, l->row = n->row, l->failed = false, l->type = 0;
  if (!n->row)
    lo_fail(l, "it is no operator that Mica knows");
  else if (!n->row->lower)
    lo_fail(l, "%s", n->row->without);
  else
    n->row->lower(l);
  for (int k = 0; k < n->nout && !l->failed; k++)
    if (lo_wants(l, k) && l->tensor[n->out[k]] < 0) lo_fail(l, "its output %d is not computed", k);
  return !l->failed;
}
