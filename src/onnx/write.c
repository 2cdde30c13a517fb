// Shared by write_*.c: values, constants and nodes that are made while a model is planned.
#include "onnx/write.h"

#include <stdio.h>
#include <string.h>

void wr_fail(struct onnx_write *w, const char *fmt, ...)
{
  if (w->failed) return;
  w->failed = true;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(w->why, sizeof w->why, fmt, ap);
  va_end(ap);
}

// ---- the node ----

bool wr_has(const struct onnx_write *w, int k) { return k < w->n->nin && w->n->in[k] >= 0; }
bool wr_wants(const struct onnx_write *w, int k) { return k < w->n->nout && w->n->out[k] >= 0 && w->m->values[w->n->out[k]].uses; }

int wr_in(struct onnx_write *w, int k)
{
  if (!wr_has(w, k)) wr_fail(w, "input %d is missing", k);
  return w->failed ? -1 : w->n->in[k];
}

int wr_type(const struct onnx_write *w, int value) { return value < 0 ? ONNX_FLOAT : w->m->values[value].type; }

const struct shape *wr_shape(struct onnx_write *w, int value)
{
  static const struct shape scalar;
  if (value < 0) return &scalar;
  const struct onnx_value *v = &w->m->values[value];
  if (!v->shaped) wr_fail(w, "the shape of `%.100s` is not known", v->name);
  return v->shaped ? &v->shape : &scalar;
}

void wr_refuse_inputs(struct onnx_write *w, int from)
{
  for (int k = from; k < w->n->nin; k++)
    if (wr_has(w, k)) wr_fail(w, "its input %d, `%.100s`, is not taken", k, w->m->values[w->n->in[k]].name);
}

void wr_refuse_attr(struct onnx_write *w, const char *name, int64_t plain)
{
  int64_t is = onnx_attr_int(w->n, name, plain);
  if (is != plain) wr_fail(w, "its attribute %s is %lld, which is not taken", name, (long long)is);
}

// ---- values ----

static const char *fresh(struct onnx_write *w, const char *what)
{
  const char *name, *base = *w->n->name ? w->n->name : w->n->type;
  do name = arena_printf(w->m->mem, "%.200s/%.40s_%d", base, what, ++w->m->written);
  while (onnx_find(w->m, name) >= 0);
  return name;
}

static int constant(struct onnx_write *w, const char *name, const struct onnx_cells *c)
{
  struct onnx_model *m = w->m;
  int64_t n = onnx_elements(&c->shape);
  if (m->nvalues >= ONNX_VALUES) wr_fail(w, "the graph would have more than %d values", ONNX_VALUES);
  if (w->failed) return -1;
  int v = onnx_value_of(m, name);
  m->values[v] = (struct onnx_value){.name = m->values[v].name, .node = -1, .type = c->type, .shape = c->shape, .shaped = true, .known = c};
  m->known_cells += n;
  return v;
}

int wr_number(struct onnx_write *w, int type, double c)
{
  struct onnx_cells *x = onnx_cells_new(w->m->mem, type, &(struct shape){0});
  x->f[0] = c;
  onnx_cells_round(x);
  return constant(w, fresh(w, "number"), x);
}

int wr_list(struct onnx_write *w, int n, const int64_t *v)
{
  struct onnx_cells *x = onnx_cells_new(w->m->mem, ONNX_INT64, &(struct shape){.n = 1, .d = {n}});
  memcpy(x->i, v, sizeof *v * (size_t)n);
  return constant(w, fresh(w, "list"), x);
}

double wr_lowest(int type)
{
  enum dtype t = F32;
  (void)onnx_type_dtype(type, &t);
  return -dtype_largest(t);
}

static bool same_cells(const struct onnx_value *v, const struct onnx_cells *c)
{
  return v->known && v->node < 0 && !v->init && v->type == c->type && shape_eq(&v->shape, &c->shape) &&
         !memcmp(v->known->p, c->p, 8 * (size_t)onnx_elements(&c->shape));
}

// Constants are shared between layers by name.
int wr_band(struct onnx_write *w, int type, const struct band *b)
{
  struct shape s = {.n = 2, .d = {b->rows, b->cols}};
  int64_t n = onnx_elements(&s);
  if (n > ONNX_KNOWN_CELLS || n > ONNX_MOST_KNOWN - w->m->known_cells) wr_fail(w, "its mask would have %lld elements", (long long)n);
  if (w->failed) return -1;
  struct onnx_cells *c = onnx_cells_new(w->m->mem, type, &s);
  for (int64_t i = 0; i < b->rows; i++)
    for (int64_t j = 0; j < b->cols; j++) {
      bool far = (b->right >= 0 && j > i + b->before + b->right) || (b->left >= 0 && j < i + b->before - b->left);
      c->f[i * b->cols + j] = far ? b->otherwise : 0;
    }
  const char *name = arena_printf(w->m->mem, "mask_%lldx%lld_%s", (long long)b->rows, (long long)b->cols, onnx_type_name(type));
  int v = onnx_find(w->m, name);
  if (v >= 0 && same_cells(&w->m->values[v], c)) return v;
  return constant(w, v < 0 ? name : fresh(w, "mask"), c);
}

// ---- nodes ----

int wr_op(struct onnx_write *w, const char *type, int n, const int *in, int nout, int *out)
{
  struct onnx_model *m = w->m;
  struct onnx_node x = {
      .name = fresh(w, type), .type = type, .domain = "", .overload = "", .opset = w->n->opset, .into = -1, .group = -1, .nin = n, .nout = nout};
  if (m->nvalues + nout > ONNX_VALUES) wr_fail(w, "the graph would have more than %d values", ONNX_VALUES);
  if (w->failed) {
    for (int k = 0; k < nout; k++) out[k] = -1;
    return -1;
  }
  x.in = NEWS(m->mem, int, n + 1), x.in_name = NEWS(m->mem, const char *, n + 1);
  x.out = NEWS(m->mem, int, nout + 1), x.out_name = NEWS(m->mem, const char *, nout + 1);
  for (int k = 0; k < n; k++) x.in[k] = in[k], x.in_name[k] = in[k] < 0 ? "" : m->values[in[k]].name;
  for (int k = 0; k < nout; k++) {
    x.out_name[k] = k ? fresh(w, type) : x.name;
    x.out[k] = out[k] = onnx_value_of(m, x.out_name[k]);
  }
  x.made = true;
  PUSH(m->mem, w->nodes, w->nnodes, w->cap) = x;
  return out[0];
}

int wr_op1(struct onnx_write *w, const char *type, int x) { return wr_op(w, type, 1, &x, 1, &(int){0}); }
int wr_op2(struct onnx_write *w, const char *type, int x, int y) { return wr_op(w, type, 2, (int[]){x, y}, 1, &(int){0}); }
int wr_op3(struct onnx_write *w, const char *type, int x, int y, int z) { return wr_op(w, type, 3, (int[]){x, y, z}, 1, &(int){0}); }

static void attribute(struct onnx_write *w, struct onnx_attr a)
{
  if (w->failed) return;
  struct onnx_node *n = &w->nodes[w->nnodes - 1];
  a.ref = "";
  PUSH(w->m->mem, n->attrs, n->nattrs, n->attrs_cap) = a;
}

void wr_int(struct onnx_write *w, const char *name, int64_t i) { attribute(w, (struct onnx_attr){.name = name, .i = i}); }
void wr_real(struct onnx_write *w, const char *name, double f) { attribute(w, (struct onnx_attr){.name = name, .f = f}); }

void wr_ints(struct onnx_write *w, const char *name, int n, const int64_t *v)
{
  attribute(w, (struct onnx_attr){.name = name, .ints = {arena_copy(w->m->mem, v, sizeof *v * (size_t)n), n, n}});
}

// The output's name is already given, so a node of its own computes it.
void wr_out(struct onnx_write *w, int k, int value)
{
  int made = wr_op1(w, "Identity", value);
  if (made < 0 || k >= w->n->nout || w->n->out[k] < 0) return;
  struct onnx_node *n = &w->nodes[w->nnodes - 1];
  n->out[0] = w->n->out[k], n->out_name[0] = w->n->out_name[k];
}

// ---- operators with list attributes ----

int wr_scale(struct onnx_write *w, int x, int type, double c) { return c == 1 ? x : wr_op2(w, "Mul", x, wr_number(w, type, c)); }
int wr_reshape(struct onnx_write *w, int x, int n, const int64_t *d) { return wr_op2(w, "Reshape", x, wr_list(w, n, d)); }

int wr_transpose(struct onnx_write *w, int x, int n, const int64_t *perm)
{
  int y = wr_op1(w, "Transpose", x);
  return wr_ints(w, "perm", n, perm), y;
}

int wr_slice(struct onnx_write *w, int x, int64_t dim, int64_t from, int64_t to)
{
  int in[] = {x, wr_list(w, 1, &from), wr_list(w, 1, &to), wr_list(w, 1, &dim)};
  return wr_op(w, "Slice", 4, in, 1, &(int){0});
}

int wr_concat(struct onnx_write *w, int n, const int *in, int64_t dim)
{
  int y = wr_op(w, "Concat", n, in, 1, &(int){0});
  return wr_int(w, "axis", dim), y;
}
