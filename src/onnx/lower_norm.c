// Norms. Norms over the last dimensions are Mica's layer_norm and rms_norm of rows. The weight is an operand of the norm if its shape is that of a
// row; else it is a product that broadcasts.
#include "onnx/onnx_lower.h"

struct lower_norm_rows {
  int x;                // [rows, length]
  struct shape s, norm; // shape of the tensor; its normalized dimensions
  struct shape ends;    // shape of a mean: those dimensions have extent 1
  double eps;
};

static bool rows_of(struct onnx_lower *l, double eps, struct lower_norm_rows *r)
{
  int axis, x = lo_in(l, 0);
  struct shape flat = {0};
  int64_t length = 1;
  *r = (struct lower_norm_rows){.s = *lo_shape(l, x), .eps = onnx_attr_real(l->n, "epsilon", eps)};
  if (!lo_axis(l, onnx_attr_int(l->n, "axis", -1), r->s.n, &axis)) return false;
  r->ends = r->s;
  for (int i = 0; i < r->s.n; i++) {
    if (i < axis)
      flat.d[flat.n++] = r->s.d[i];
    else
      length *= r->s.d[i], r->norm.d[r->norm.n++] = r->s.d[i], r->ends.d[i] = 1;
  }
  flat.d[flat.n++] = length;
  r->x = lo_reshape(l, x, &flat);
  return !l->failed;
}

// Input k as the weight of a row, if its shape is that of the normalized dimensions with leading extents of 1; else -1.
static int row_weight(struct onnx_lower *l, const struct lower_norm_rows *r, int k)
{
  if (!lo_has(l, k)) return -1;
  int t = lo_in(l, k), more = lo_shape(l, t)->n - r->norm.n;
  const struct shape *s = lo_shape(l, t);
  int64_t length = 1;
  if (more < 0) return -1;
  for (int i = 0; i < s->n; i++)
    if (s->d[i] != (i < more ? 1 : r->norm.d[i - more])) return -1;
  for (int i = 0; i < r->norm.n; i++) length *= r->norm.d[i];
  return lo_reshape(l, t, &(struct shape){.n = 1, .d = {length}});
}

static int with_eps(struct onnx_lower *l, enum op op, int n, const int *in, double eps)
{
  struct attrs a = attrs_default(op);
  a.eps = eps;
  return lo_op(l, op, n, in, &a);
}

// x * w + b with the inputs `weight` and `shift`, as far as they are present.
static int spread(struct onnx_lower *l, int t, int weight, int shift)
{
  if (lo_has(l, weight)) t = lo_op2(l, OP_MUL, t, lo_in(l, weight));
  return lo_has(l, shift) ? lo_op2(l, OP_ADD, t, lo_in(l, shift)) : t;
}

// Statistics that are outputs have float32, whatever the tensor's type; an operator here cannot convert.
static void statistic(struct onnx_lower *l, const struct lower_norm_rows *r, int k, int t)
{
  if (t >= 0 && l->g->tensors[t].dtype != F32) lo_fail(l, "its statistics are read, and would be %s", dtype_name(l->g->tensors[t].dtype));
  lo_out(l, k, lo_reshape(l, t, &r->ends));
}

static int deviation(struct onnx_lower *l, const struct lower_norm_rows *r, int x)
{
  int squares = lo_dim(l, OP_MEAN, lo_op1(l, OP_SQUARE, x), lo_shape(l, x)->n - 1);
  return lo_op1(l, OP_RSQRT, lo_shift(l, squares, r->eps));
}

// LayerNormalization, also with its second and third output, the mean and 1 / sqrt(variance + epsilon).
void onnx_as_layer_norm(struct onnx_lower *l)
{
  struct lower_norm_rows r;
  if (!rows_of(l, 1e-5, &r)) return;
  int in[3] = {r.x, row_weight(l, &r, 1), row_weight(l, &r, 2)};
  bool inside = in[1] >= 0 && (!lo_has(l, 2) || in[2] >= 0);
  int t = lo_reshape(l, with_eps(l, OP_LAYER_NORM, inside ? 2 + lo_has(l, 2) : 1, in, r.eps), &r.s);
  lo_out(l, 0, inside ? t : spread(l, t, 1, 2));
  if (l->failed || (!lo_wants(l, 1) && !lo_wants(l, 2))) return;
  int mean = lo_dim(l, OP_MEAN, r.x, lo_shape(l, r.x)->n - 1);
  if (lo_wants(l, 1)) statistic(l, &r, 1, mean);
  if (lo_wants(l, 2)) statistic(l, &r, 2, deviation(l, &r, lo_op2(l, OP_SUB, r.x, mean)));
}

// RMSNormalization, and onnxruntime's SimplifiedLayerNormalization, whose second output is 1 / sqrt(mean square + epsilon).
void onnx_as_rms_norm(struct onnx_lower *l)
{
  struct lower_norm_rows r;
  if (!rows_of(l, 1e-5, &r)) return;
  int in[2] = {r.x, row_weight(l, &r, 1)};
  int t = lo_reshape(l, with_eps(l, OP_RMS_NORM, in[1] >= 0 ? 2 : 1, in, r.eps), &r.s);
  lo_out(l, 0, in[1] >= 0 ? t : spread(l, t, 1, MAX_DIMS));
  if (lo_wants(l, 1)) statistic(l, &r, 1, deviation(l, &r, r.x));
}

// A value for each channel, for a tensor [N, C, ...] of that rank.
static int channels(struct onnx_lower *l, int k, int rank)
{
  int t = lo_in(l, k);
  struct shape s = {.n = rank - 1};
  if (t < 0 || rank < 2) return t;
  for (int i = 0; i < s.n; i++) s.d[i] = i ? 1 : shape_size(lo_shape(l, t));
  return lo_reshape(l, t, &s);
}

void onnx_as_batch_norm(struct onnx_lower *l)
{
  int x = lo_in(l, 0), rank = lo_shape(l, x)->n;
  double eps = onnx_attr_real(l->n, "epsilon", 1e-5);
  if (onnx_attr_int(l->n, "training_mode", 0) || !onnx_attr_int(l->n, "spatial", 1))
    lo_fail(l, "it is in training, or its statistics are not by channel");
  for (int k = 1; k < l->n->nout; k++)
    if (lo_wants(l, k)) lo_fail(l, "its statistics are read");
  int factor = lo_op2(l, OP_MUL, channels(l, 1, rank), lo_op1(l, OP_RSQRT, lo_shift(l, channels(l, 4, rank), eps)));
  lo_out(l, 0, lo_op2(l, OP_ADD, lo_op2(l, OP_MUL, lo_op2(l, OP_SUB, x, channels(l, 3, rank)), factor), channels(l, 2, rank)));
}

void onnx_as_instance_norm(struct onnx_lower *l)
{
  int x = lo_in(l, 0);
  struct shape s = *lo_shape(l, x);
  if (!l->failed && s.n < 3) lo_fail(l, "it has no dimensions in space");
  if (l->failed) return;
  x = lo_reshape(l, x, &(struct shape){.n = 3, .d = {s.d[0], s.d[1], shape_size(&s) / s.d[0] / s.d[1]}});
  int t = lo_op2(l, OP_MUL, with_eps(l, OP_LAYER_NORM, 1, &x, onnx_attr_real(l->n, "epsilon", 1e-5)), channels(l, 1, 3));
  lo_out(l, 0, lo_reshape(l, lo_op2(l, OP_ADD, t, channels(l, 2, 3)), &s));
}

// Groups of channels are normalized together. Weights are per channel; before operator set 21 they were per group.
void onnx_as_group_norm(struct onnx_lower *l)
{
  int x = lo_in(l, 0);
  struct shape s = *lo_shape(l, x);
  int64_t groups = onnx_attr_int(l->n, "num_groups", 0);
  if (!l->failed && (s.n < 2 || groups < 1 || s.d[1] % groups)) lo_fail(l, "%lld groups of its channels", (long long)groups);
  if (l->failed) return;
  int64_t all = shape_size(&s) / s.d[0];
  struct shape flat = {.n = 3, .d = {s.d[0], groups, all / groups}};
  x = lo_reshape(l, x, &flat);
  bool by_group = l->n->opset < 21;
  int t = with_eps(l, OP_LAYER_NORM, 1, &x, onnx_attr_real(l->n, "epsilon", 1e-5)), rank = by_group ? 3 : s.n;
  if (!by_group) t = lo_reshape(l, t, &s);
  t = lo_op2(l, OP_ADD, lo_op2(l, OP_MUL, t, channels(l, 1, rank)), channels(l, 2, rank));
  lo_out(l, 0, lo_reshape(l, t, &s));
}
