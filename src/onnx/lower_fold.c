// Products, softmax and reductions.
#include "onnx/onnx_lower.h"

#include <string.h>

// ---- products ----

static int with_rank(struct onnx_lower *l, int t, bool row)
{
  const struct shape *s = lo_shape(l, t);
  if (t < 0 || s->n != 1) return t;
  return lo_reshape(l, t, &(struct shape){.n = 2, .d = {row ? 1 : s->d[0], row ? s->d[0] : 1}});
}

void onnx_as_matmul(struct onnx_lower *l)
{
  int x = lo_in(l, 0), y = lo_in(l, 1);
  bool drop_row = lo_shape(l, x)->n == 1, drop_col = lo_shape(l, y)->n == 1;
  int t = lo_op2(l, OP_MATMUL, with_rank(l, x, true), with_rank(l, y, false));
  struct shape s = *lo_shape(l, t);
  if (t < 0) return;
  if (drop_col) s.n--;
  if (drop_row) {
    int at = s.n - (drop_col ? 1 : 2);
    memmove(s.d + at, s.d + at + 1, sizeof *s.d * (size_t)(s.n - at - 1));
    s.n--;
  }
  lo_out(l, 0, lo_reshape(l, t, &s));
}

static const struct shape swapped = {.n = 2, .d = {1, 0}};

static int last_two_swapped(struct onnx_lower *l, int t)
{
  struct shape perm = {.n = lo_shape(l, t)->n};
  if (perm.n < 2) return t;
  for (int i = 0; i < perm.n; i++) perm.d[i] = i < perm.n - 2 ? i : 2 * perm.n - 3 - i;
  return lo_transpose(l, t, &perm);
}

// com.microsoft: alpha A B, with optional transposes.
void onnx_as_fused_matmul(struct onnx_lower *l)
{
  int x = lo_in(l, 0), y = lo_in(l, 1);
  if (onnx_attr_int(l->n, "transBatchA", 0) || onnx_attr_int(l->n, "transBatchB", 0))
    lo_fail(l, "transBatchA or transBatchB is set, which are not taken");
  if (!l->failed && (lo_shape(l, x)->n < 2 || lo_shape(l, y)->n < 2)) lo_fail(l, "it multiplies matrices only");
  if (l->failed) return;
  if (onnx_attr_int(l->n, "transA", 0)) x = last_two_swapped(l, x);
  if (onnx_attr_int(l->n, "transB", 0)) y = last_two_swapped(l, y);
  lo_out(l, 0, lo_scale(l, lo_op2(l, OP_MATMUL, x, y), onnx_attr_real(l->n, "alpha", 1)));
}

void onnx_as_gemm(struct onnx_lower *l)
{
  int x = lo_in(l, 0), y = lo_in(l, 1);
  double alpha = onnx_attr_real(l->n, "alpha", 1), beta = onnx_attr_real(l->n, "beta", 1);
  if (!l->failed && (lo_shape(l, x)->n != 2 || lo_shape(l, y)->n != 2)) lo_fail(l, "it multiplies matrices only");
  if (l->failed) return;
  if (onnx_attr_int(l->n, "transA", 0)) x = lo_transpose(l, x, &swapped);
  if (onnx_attr_int(l->n, "transB", 0)) y = lo_transpose(l, y, &swapped);
  int t = lo_scale(l, lo_op2(l, OP_MATMUL, x, y), alpha);
  lo_out(l, 0, lo_has(l, 2) && beta != 0 ? lo_op2(l, OP_ADD, t, lo_scale(l, lo_in(l, 2), beta)) : t);
}

// ---- convolutions with disjoint windows are products of patches ----

struct lower_fold_window {
  int n; // number of spatial dimensions
  int64_t size[MAX_DIMS], step[MAX_DIMS];
};

static bool all_are(const struct onnx_ints *x, int64_t c)
{
  for (int i = 0; i < x->n; i++)
    if (x->v[i] != c) return false;
  return true;
}

static bool window_of(struct onnx_lower *l, const struct shape *x, const struct shape *w, struct lower_fold_window *to)
{
  struct onnx_ints pads, steps, gaps;
  bool padded = lo_list(l, "pads", MAX_DIMS, &pads) && !all_are(&pads, 0), stepped = lo_list(l, "strides", MAX_DIMS, &steps);
  bool spread = lo_list(l, "dilations", MAX_DIMS, &gaps) && !all_are(&gaps, 1), apart = true, one = true;
  const char *automatic = onnx_attr_text(l->n, "auto_pad", "NOTSET");
  to->n = x->n - 2;
  if (x->n < 3 || w->n != x->n || (stepped && steps.n != to->n)) return lo_fail(l, "its shapes do not fit"), false;
  if (onnx_attr_int(l->n, "group", 1) != 1) return lo_fail(l, "it has %lld groups", (long long)onnx_attr_int(l->n, "group", 1)), false;
  for (int i = 0; i < to->n; i++) {
    to->size[i] = w->d[i + 2], to->step[i] = stepped ? steps.v[i] : 1;
    one &= to->size[i] == 1 && to->step[i] == 1;
    apart &= to->size[i] == to->step[i] && x->d[i + 2] % to->size[i] == 0;
  }
  if (!strncmp(automatic, "SAME", 4) && !one) padded = true;
  if (apart && !padded && (!spread || one)) return true;
  lo_fail(l, "windows of %lld with a step of %lld%s: only convolutions whose windows tile the input are products", (long long)to->size[0],
          (long long)to->step[0], padded ? " and padding" : "");
  return false;
}

static int add_bias(struct onnx_lower *l, int t, bool column)
{
  if (!lo_has(l, 2)) return t;
  int b = lo_in(l, 2);
  int64_t m = b < 0 ? 1 : shape_size(lo_shape(l, b));
  return lo_op2(l, OP_ADD, t, lo_reshape(l, b, column ? &(struct shape){.n = 2, .d = {m, 1}} : &(struct shape){.n = 1, .d = {m}}));
}

// [N, C, h p, w q] -> [N, h w, C p q]
static int patches(struct onnx_lower *l, int x, const struct lower_fold_window *w, struct shape *places)
{
  struct shape s = *lo_shape(l, x), cut = {.n = 2, .d = {s.d[0], s.d[1]}}, perm = {.n = 1, .d = {0}}, flat = {.n = 3, .d = {s.d[0], 1, s.d[1]}};
  if (2 + 2 * w->n > MAX_DIMS) return lo_fail(l, "it has %d dimensions", s.n), -1;
  for (int i = 0; i < w->n; i++) {
    places->d[i] = s.d[i + 2] / w->size[i];
    cut.d[cut.n++] = places->d[i], cut.d[cut.n++] = w->size[i];
    flat.d[1] *= places->d[i], flat.d[2] *= w->size[i];
    perm.d[perm.n++] = 2 + 2 * i;
  }
  perm.d[perm.n++] = 1;
  for (int i = 0; i < w->n; i++) perm.d[perm.n++] = 3 + 2 * i;
  places->n = w->n;
  return lo_reshape(l, lo_transpose(l, lo_reshape(l, x, &cut), &perm), &flat);
}

void onnx_as_conv(struct onnx_lower *l)
{
  int x = lo_in(l, 0), w = lo_in(l, 1), t;
  struct lower_fold_window win;
  struct shape places, out;
  if (l->failed) return;
  struct shape xs = *lo_shape(l, x), ws = *lo_shape(l, w);
  if (!window_of(l, &xs, &ws, &win)) return;
  int64_t m = ws.d[0], each = shape_size(&ws) / m;
  int matrix = lo_reshape(l, w, &(struct shape){.n = 2, .d = {m, each}});
  if (each == xs.d[1]) { // windows of one element
    struct shape flat = {.n = 3, .d = {xs.d[0], xs.d[1], shape_size(&xs) / xs.d[0] / xs.d[1]}};
    t = add_bias(l, lo_op2(l, OP_MATMUL, matrix, lo_reshape(l, x, &flat)), true);
    places = (struct shape){.n = xs.n - 2};
    memcpy(places.d, xs.d + 2, sizeof *xs.d * (size_t)places.n);
  } else {
    t = lo_op2(l, OP_MATMUL, patches(l, x, &win, &places), lo_transpose(l, matrix, &swapped));
    t = lo_transpose(l, add_bias(l, t, false), &(struct shape){.n = 3, .d = {0, 2, 1}});
  }
  if (l->failed) return;
  out = (struct shape){.n = 2 + places.n, .d = {xs.d[0], m}};
  memcpy(out.d + 2, places.d, sizeof *out.d * (size_t)places.n);
  lo_out(l, 0, lo_reshape(l, t, &out));
}

// ---- softmax ----

void onnx_as_softmax(struct onnx_lower *l)
{
  bool flat = l->n->opset < 13, logs = l->row->op == OP_LOG; // before set 13: a matrix whose columns are all dimensions from axis on
  int x = lo_in(l, 0), axis;
  struct shape s = *lo_shape(l, x), two = {.n = 2, .d = {1, 1}};
  if (!lo_axis(l, onnx_attr_int(l->n, "axis", flat ? 1 : -1), s.n, &axis)) return;
  for (int i = 0; i < s.n; i++) two.d[i >= axis] *= s.d[i];
  flat = flat && axis < s.n - 1;
  int t = lo_dim(l, OP_SOFTMAX, flat ? lo_reshape(l, x, &two) : x, flat ? 1 : axis);
  t = lo_reshape(l, t, &s);
  lo_out(l, 0, logs ? lo_op1(l, OP_LOG, t) : t);
}

void onnx_as_masked_softmax(struct onnx_lower *l)
{
  int x = lo_in(l, 0), axis;
  struct attrs a = attrs_default(OP_SOFTMAX);
  if (!lo_axis(l, onnx_attr_int(l->n, "axis", -1), lo_shape(l, x)->n, &axis)) return;
  a.dim = axis;
  lo_out(l, 0, lo_op(l, OP_SOFTMAX, 2, (int[]){x, lo_in(l, 1)}, &a));
}

// ---- reductions ----

static int along(struct onnx_lower *l, enum op op, int x, const bool *cut)
{
  for (int i = 0, n = lo_shape(l, x)->n; i < n; i++)
    if (cut[i]) x = lo_dim(l, op, x, i);
  return x;
}

static int folded(struct onnx_lower *l, enum op op, int x, const bool *cut)
{
  if (op_rows[op].attrs & A_DIM) return along(l, op, x, cut);
  if (op == OP_SQRT) return lo_op1(l, OP_SQRT, along(l, OP_SUM, lo_op1(l, OP_SQUARE, x), cut));
  return along(l, OP_SUM, lo_op1(l, op, x), cut);
}

void onnx_as_reduce(struct onnx_lower *l)
{
  int x = lo_in(l, 0), axis;
  struct onnx_ints axes;
  bool given = lo_list(l, "axes", 1, &axes) && axes.n, cut[MAX_DIMS] = {false};
  struct shape was = *lo_shape(l, x), s = {0};
  if (!given && onnx_attr_int(l->n, "noop_with_empty_axes", 0)) return lo_out(l, 0, x);
  for (int i = 0; i < was.n; i++) cut[i] = !given;
  for (int i = 0; i < axes.n && given; i++)
    if (lo_axis(l, axes.v[i], was.n, &axis)) cut[axis] = true;
  int t = folded(l, l->row->op, x, cut);
  for (int i = 0; i < was.n; i++)
    if (!cut[i] || onnx_attr_int(l->n, "keepdims", 1)) s.d[s.n++] = cut[i] ? 1 : was.d[i];
  lo_out(l, 0, lo_reshape(l, t, &s));
}

void onnx_as_global_mean(struct onnx_lower *l)
{
  int x = lo_in(l, 0);
  bool cut[MAX_DIMS];
  for (int i = 0; i < MAX_DIMS; i++) cut[i] = i > 1;
  lo_out(l, 0, along(l, OP_MEAN, x, cut));
}
