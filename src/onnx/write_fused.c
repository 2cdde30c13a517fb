// Writes out fused operators of com.microsoft: norms of sums, and attention with projections, rotations and masks.
#include "onnx/write.h"

#include <math.h>

#define DIMS(...) \
  (int64_t[]) { __VA_ARGS__ }

// ---- norms of sums ----

// The norm of x + skip + bias; the sum is an output too. `norm` has its weight as input 2, and its shift as input `shift`.
static void skip_norm(struct onnx_write *w, const char *norm, int shift, int bias)
{
  int sum = wr_op2(w, "Add", wr_in(w, 0), wr_in(w, 1)), out[3];
  if (wr_has(w, bias)) sum = wr_op2(w, "Add", sum, wr_in(w, bias));
  bool layer = shift >= 0;
  int in[] = {sum, wr_in(w, 2), layer && wr_has(w, shift) ? wr_in(w, shift) : -1};
  wr_op(w, norm, in[2] >= 0 ? 3 : 2, in, layer ? 3 : 2, out);
  wr_real(w, "epsilon", onnx_attr_real(w->n, "epsilon", 1e-12));
  wr_int(w, "axis", -1);
  wr_out(w, 0, out[0]);
  if (layer && wr_wants(w, 1)) wr_out(w, 1, out[1]);
  if (wr_wants(w, 2)) wr_out(w, 2, out[layer ? 2 : 1]);
  if (wr_wants(w, 3)) wr_out(w, 3, sum);
}

void onnx_write_skip_layer_norm(struct onnx_write *w) { skip_norm(w, "LayerNormalization", 3, 4); }

void onnx_write_skip_rms_norm(struct onnx_write *w)
{
  if (wr_wants(w, 1)) wr_fail(w, "its mean is read, and it takes none");
  skip_norm(w, "SimplifiedLayerNormalization", -1, 3);
}

// ---- attention ----

static void named_refused(struct onnx_write *w, int k, const char *name)
{
  if (wr_has(w, k)) wr_fail(w, "its input %d, %s, is not taken", k, name);
}

static void output_refused(struct onnx_write *w, int k, const char *name)
{
  if (wr_wants(w, k)) wr_fail(w, "its output %d, %s, is not computed", k, name);
}

static int bias_part(struct onnx_write *w, int x, int bias, int64_t from, int64_t to)
{
  return bias < 0 ? x : wr_op2(w, "Add", x, wr_slice(w, bias, 0, from, to));
}

// An integer mask with 0 for masked keys: [batch, cols], or [batch, rows, cols].
static void integer_mask(struct onnx_write *w, struct heads *h, int k)
{
  if (!wr_has(w, k)) return;
  int mask = wr_in(w, k);
  const struct shape *s = wr_shape(w, mask);
  bool flat = s->n == 2 && s->d[0] == h->batch && s->d[1] == h->cols,
       full = s->n == 3 && s->d[0] == h->batch && s->d[1] == h->rows && s->d[2] == h->cols;
  if (!flat && !full)
    return wr_fail(w, "its mask is neither [%lld, %lld] nor [%lld, %lld, %lld]", (long long)h->batch, (long long)h->cols, (long long)h->batch,
                   (long long)h->rows, (long long)h->cols);
  int is = wr_op1(w, "Cast", mask);
  wr_int(w, "to", ONNX_BOOL);
  int bias = wr_bool_bias(w, is, h->type, onnx_attr_real(w->n, "mask_filter_value", -10000));
  struct shape wide = {.n = 4, .d = {h->batch, 1, flat ? 1 : h->rows, h->cols}};
  wr_add_bias(w, h, wr_reshape(w, bias, wide.n, wide.d), &wide);
}

static void score_bias(struct onnx_write *w, struct heads *h, int k)
{
  if (!wr_has(w, k)) return;
  int bias = wr_in(w, k);
  struct shape s = *wr_shape(w, bias);
  if (s.n != 4 || s.d[2] != h->rows || s.d[3] != h->cols || (s.d[1] != h->heads && s.d[1] != 1) || wr_type(w, bias) != h->type)
    return wr_fail(w, "its input %d, attention_bias, does not fit [%lld, %lld, %lld, %lld]", k, (long long)h->batch, (long long)h->heads,
                   (long long)h->rows, (long long)h->cols);
  wr_add_bias(w, h, bias, &s);
}

static int64_t past_length(struct onnx_write *w, int k, const struct heads *h)
{
  if (!wr_has(w, k)) return 0;
  const struct shape *s = wr_shape(w, wr_in(w, k));
  if (!w->failed && (s->n != 4 || s->d[0] != h->batch || s->d[1] != h->kv)) wr_fail(w, "its input %d, from before, does not fit the new keys", k);
  return w->failed ? 0 : s->d[2];
}

static void append_past(struct onnx_write *w, struct heads *h, int key, int64_t before)
{
  if (before) h->k = wr_concat(w, 2, (int[]){wr_in(w, key), h->k}, 2), h->v = wr_concat(w, 2, (int[]){wr_in(w, key + 1), h->v}, 2);
}

static void give_attention(struct onnx_write *w, struct heads *h)
{
  int y = wr_attention(w, h);
  wr_out(w, 0, wr_join_heads(w, y, h->batch, h->rows, h->heads * h->vsize));
  if (wr_wants(w, 1)) wr_out(w, 1, h->k);
  if (wr_wants(w, 2)) wr_out(w, 2, h->v);
}

static bool sizes(struct onnx_write *w, struct heads *h, int64_t width, int64_t vwidth)
{
  if (!w->failed && (h->heads < 1 || h->kv < 1 || h->heads % h->kv || width < 1 || width % h->heads || vwidth < 1 || vwidth % h->kv))
    wr_fail(w, "%lld and %lld elements have no %lld heads", (long long)width, (long long)vwidth, (long long)h->heads);
  if (w->failed) return false;
  h->size = width / h->heads, h->vsize = vwidth / h->kv;
  h->scale = onnx_attr_real(w->n, "scale", 0);
  if (h->scale == 0) h->scale = 1 / sqrt((double)h->size);
  return true;
}

void onnx_write_ms_multi_head(struct onnx_write *w)
{
  int q = wr_in(w, 0), k = wr_in(w, 1), v = wr_in(w, 2), bias = wr_has(w, 3) ? wr_in(w, 3) : -1;
  struct shape qs = *wr_shape(w, q), ks = *wr_shape(w, k), vs = *wr_shape(w, v);
  struct heads h = {.type = wr_type(w, q), .stage = -1, .heads = onnx_attr_int(w->n, "num_heads", 0)};
  h.kv = h.heads;
  named_refused(w, 8, "past_sequence_length"), named_refused(w, 9, "cache_indirection"), output_refused(w, 3, "qk");
  bool ready = ks.n == 4 && vs.n == 4; // keys and values come from another attention
  if (!w->failed && (qs.n != 3 || (!ready && (ks.n != 3 || vs.n != 3)))) wr_fail(w, "its query, key and value are packed, which is not taken");
  if (!w->failed && (ks.d[0] != qs.d[0] || vs.d[0] != qs.d[0])) wr_fail(w, "its query, key and value are of different batches");
  if (!sizes(w, &h, qs.d[2], ready ? vs.d[1] * vs.d[3] : vs.d[2])) return;
  int64_t fresh = ready ? ks.d[2] : ks.d[1], width = qs.d[2];
  if ((ready ? ks.d[1] * ks.d[3] : ks.d[2]) != width || (ready ? vs.d[2] : vs.d[1]) != fresh)
    return wr_fail(w, "its query, key and value do not fit one another");
  h.batch = qs.d[0], h.rows = qs.d[1];
  if (wr_has(w, 6) && (w->n->nout < 2 || w->n->out[1] < 0))
    return wr_fail(w, "its past_key is given without present_key, and onnxruntime then does not read it");
  int64_t before = past_length(w, 6, &h);
  h.cols = before + fresh;
  h.q = wr_split_heads(w, bias_part(w, q, bias, 0, width), h.batch, h.rows, h.heads);
  h.k = ready ? k : wr_split_heads(w, bias_part(w, k, bias, width, 2 * width), h.batch, fresh, h.heads);
  h.v = ready ? v : wr_split_heads(w, bias_part(w, v, bias, 2 * width, 2 * width + vs.d[2]), h.batch, fresh, h.heads);
  append_past(w, &h, 6, before);
  integer_mask(w, &h, 4);
  score_bias(w, &h, 5);
  wr_add_band(w, &h, before, -1, onnx_attr_int(w->n, "unidirectional", 0) ? 0 : -1);
  give_attention(w, &h);
}

// One product computes queries, keys and values.
void onnx_write_ms_attention(struct onnx_write *w)
{
  int x = wr_in(w, 0), weight = wr_in(w, 1);
  struct shape s = *wr_shape(w, x), ws = *wr_shape(w, weight);
  struct heads h = {.type = wr_type(w, x), .stage = -1, .heads = onnx_attr_int(w->n, "num_heads", 0)};
  const struct onnx_attr *parts = onnx_attr(w->n, "qkv_hidden_sizes");
  named_refused(w, 4, "past"), named_refused(w, 6, "past_sequence_length"), output_refused(w, 1, "present");
  wr_refuse_attr(w, "do_rotary", 0);
  h.kv = h.heads;
  if (!w->failed && (s.n != 3 || ws.n != 2)) wr_fail(w, "its input has %d dimensions, its weights have %d", s.n, ws.n);
  int64_t width = parts && parts->ints.n == 3 ? MAX(MIN(parts->ints.v[0], ws.d[1]), 0) : ws.d[1] / 3, vwidth = ws.d[1] - 2 * width;
  if (!w->failed && parts && (parts->ints.n != 3 || parts->ints.v[0] != width || parts->ints.v[1] != width || parts->ints.v[2] != vwidth))
    wr_fail(w, "qkv_hidden_sizes do not fit its weights");
  if (!sizes(w, &h, width, vwidth)) return;
  h.batch = s.d[0], h.rows = h.cols = s.d[1];
  int all = wr_op2(w, "MatMul", x, weight);
  if (wr_has(w, 2)) all = wr_op2(w, "Add", all, wr_in(w, 2));
  h.q = wr_split_heads(w, wr_slice(w, all, 2, 0, width), h.batch, h.rows, h.heads);
  h.k = wr_split_heads(w, wr_slice(w, all, 2, width, 2 * width), h.batch, h.rows, h.heads);
  h.v = wr_split_heads(w, wr_slice(w, all, 2, 2 * width, ws.d[1]), h.batch, h.rows, h.heads);
  integer_mask(w, &h, 3);
  score_bias(w, &h, 5);
  wr_add_band(w, &h, 0, -1, onnx_attr_int(w->n, "unidirectional", 0) ? 0 : -1);
  give_attention(w, &h);
}

// ---- grouped queries ----

// Known integers that must all equal `want`; other lengths would mean keys that are missing.
static void length_is(struct onnx_write *w, int k, const char *name, int64_t want)
{
  const struct onnx_cells *c = w->failed ? NULL : onnx_known(w->m, wr_in(w, k));
  if (!w->failed && (!c || onnx_type_kind(c->type) != WHOLE))
    wr_fail(w, "its %s is computed when the model runs, and which keys there are follows from it", name);
  for (int64_t i = 0; !w->failed && i < onnx_elements(&c->shape); i++)
    if (c->i[i] != want) wr_fail(w, "its %s is %lld; only %lld, for keys that are all there, is taken", name, (long long)c->i[i], (long long)want);
}

static int turned(struct onnx_write *w, int x, const struct heads *h, int64_t heads, int64_t fresh, int64_t before)
{
  int tables[] = {wr_in(w, 7), wr_in(w, 8)};
  const struct shape *c = wr_shape(w, tables[0]);
  if (w->failed) return -1;
  struct rotation r = {h->size, 2 * c->d[1], onnx_attr_int(w->n, "rotary_interleaved", 0) != 0};
  if (c->n != 2 || !shape_eq(c, wr_shape(w, tables[1])) || c->d[0] < before + fresh || r.turned < 2 || r.turned > h->size)
    return wr_fail(w, "its tables do not fit %lld tokens and %lld elements of a head", (long long)(before + fresh), (long long)h->size), -1;
  struct shape s = {.n = 4, .d = {h->batch, heads, fresh, h->size}}, angles = {.n = 4, .d = {1, 1, fresh, c->d[1]}};
  for (int i = 0; i < 2; i++) tables[i] = wr_slice(w, tables[i], 0, before, before + fresh);
  return wr_rotate(w, x, &s, tables[0], tables[1], &angles, &r);
}

static const struct {
  int input;
  const char *name;
} refused[] = {{9, "position_ids"},   {11, "head_sink"},     {12, "k_scale"},      {13, "v_scale"},
               {14, "q_norm_weight"}, {15, "k_norm_weight"}, {16, "query_seqlens"}};

static void refuse_query_forms(struct onnx_write *w)
{
  for (size_t i = 0; i < COUNT(refused); i++) named_refused(w, refused[i].input, refused[i].name);
  if (onnx_attr_int(w->n, "smooth_softmax", 0) > 0) wr_fail(w, "its attribute smooth_softmax is set, which is not taken");
  wr_refuse_attr(w, "sliding_window_cache", 0), wr_refuse_attr(w, "kv_cache_bit_width", 0);
  output_refused(w, 3, "output_qk");
}

void onnx_write_ms_group_query(struct onnx_write *w)
{
  int q = wr_in(w, 0), k = wr_has(w, 1) ? wr_in(w, 1) : -1, v = wr_has(w, 2) ? wr_in(w, 2) : -1;
  struct heads h = {.type = wr_type(w, q), .stage = -1, .heads = onnx_attr_int(w->n, "num_heads", 0), .kv = onnx_attr_int(w->n, "kv_num_heads", 0)};
  struct shape s = *wr_shape(w, q);
  bool packed = k < 0 && v < 0, causal = onnx_attr_int(w->n, "causal", 1) != 0;
  int64_t window = onnx_attr_int(w->n, "local_window_size", -1); // keys that a query sees, including its own; -1: all earlier ones
  refuse_query_forms(w);
  if (window < -1 || window == 0 || (window > 0 && !causal)) wr_fail(w, "its attribute local_window_size is %lld", (long long)window);
  if (!w->failed && (s.n != 3 || h.heads < 1 || h.kv < 1 || h.heads > s.d[2] || h.kv > s.d[2] || (k < 0) != (v < 0)))
    wr_fail(w, "its query, key and value do not fit one another");
  int64_t all = h.heads + 2 * h.kv;
  if (!w->failed && packed && s.d[2] % all) wr_fail(w, "%lld elements are no %lld heads", (long long)s.d[2], (long long)all);
  if (w->failed) return;
  int64_t size = packed ? s.d[2] / all : s.d[2] / h.heads, fresh = packed ? s.d[1] : wr_shape(w, k)->d[1];
  const struct shape want = {.n = 3, .d = {s.d[0], s.d[1], h.kv * size}};
  if (!packed && (!shape_eq(wr_shape(w, k), &want) || !shape_eq(wr_shape(w, v), &want))) return wr_fail(w, "its key and value do not fit its query");
  if (!sizes(w, &h, h.heads * size, h.kv * size)) return;
  h.batch = s.d[0], h.rows = s.d[1], h.cap = onnx_attr_real(w->n, "softcap", 0);
  int64_t before = past_length(w, 3, &h), at = h.heads * size;
  h.cols = before + fresh;
  length_is(w, 5, "seqlens_k", h.cols - 1), length_is(w, 6, "total_sequence_length", h.cols);
  if (packed)
    v = wr_slice(w, q, 2, at + h.kv * size, at + 2 * h.kv * size), k = wr_slice(w, q, 2, at, at + h.kv * size), q = wr_slice(w, q, 2, 0, at);
  h.q = wr_split_heads(w, q, h.batch, h.rows, h.heads), h.k = wr_split_heads(w, k, h.batch, fresh, h.kv),
  h.v = wr_split_heads(w, v, h.batch, fresh, h.kv);
  if (onnx_attr_int(w->n, "do_rotary", 0)) h.q = turned(w, h.q, &h, h.heads, fresh, before), h.k = turned(w, h.k, &h, h.kv, fresh, before);
  append_past(w, &h, 3, before);
  score_bias(w, &h, 10);
  if (causal) wr_add_band(w, &h, before, window < 0 ? -1 : window - 1, 0);
  give_attention(w, &h);
}
