// Writes out attention: product, scale, cap, biases, softmax, product. Heads that share a key become rows of one product with it. A boolean mask
// becomes a bias, by a node that is left if the mask is computed at run time. A causal mask or a window becomes a constant. ONNX masks with -inf, and
// a fully masked row gives zeros. Operators of com.microsoft mask with the lowest number or a given one, and such a row gives an average.
#include "onnx/write.h"

#include <math.h>
#include <string.h>

#define DIMS(...) \
  (int64_t[]) { __VA_ARGS__ }

int wr_split_heads(struct onnx_write *w, int x, int64_t batch, int64_t rows, int64_t heads)
{
  return wr_transpose(w, wr_reshape(w, x, 4, DIMS(batch, rows, heads, -1)), 4, DIMS(0, 2, 1, 3));
}

int wr_join_heads(struct onnx_write *w, int x, int64_t batch, int64_t rows, int64_t width)
{
  return wr_reshape(w, wr_transpose(w, x, 4, DIMS(0, 2, 1, 3)), 3, DIMS(batch, rows, width));
}

int wr_bool_bias(struct onnx_write *w, int mask, int type, double otherwise)
{
  return wr_op3(w, "Where", mask, wr_number(w, type, 0), wr_number(w, type, otherwise));
}

// If several heads share a key, the scores and the added tensor are [batch, kv, heads / kv, rows, cols].
void wr_add_bias(struct onnx_write *w, struct heads *h, int bias, const struct shape *s)
{
  int64_t heads = s->n > 2 ? s->d[s->n - 3] : 1, group = heads == 1 ? 1 : h->heads / h->kv;
  if (h->heads != h->kv && s->n > 2)
    bias = wr_reshape(w, bias, 5, DIMS(s->n > 3 ? s->d[0] : 1, heads == 1 ? 1 : h->kv, group, s->d[s->n - 2], s->d[s->n - 1]));
  h->bias[h->nbias++] = bias;
}

void wr_add_band(struct onnx_write *w, struct heads *h, int64_t before, int64_t left, int64_t right)
{
  struct shape s = {.n = 2, .d = {h->rows, h->cols}};
  left = MIN(left, h->rows + h->cols), right = MIN(right, h->rows + h->cols);
  struct band b = {h->rows, h->cols, before, left, right, h->zeros ? -INFINITY : wr_lowest(h->type)};
  if (left >= 0 || right >= 0) wr_add_bias(w, h, wr_band(w, h->type, &b), &s);
}

// Zeros for fully masked rows come from the masked softmax, which takes the sum of all biases as one mask.
static int softmax_of(struct onnx_write *w, struct heads *h, int s, int mask)
{
  int y = h->zeros && mask >= 0 ? wr_op2(w, "MaskedSoftmax", s, mask) : wr_op1(w, "Softmax", mask < 0 ? s : wr_op2(w, "Add", s, mask));
  return wr_int(w, "axis", -1), y;
}

static void keep_scores(struct onnx_write *w, struct heads *h, int stage, int x, bool grouped)
{
  if (h->stage != stage) return;
  h->scores = h->heads == h->kv && !grouped ? x : wr_reshape(w, x, 4, DIMS(h->batch, h->heads, h->rows, h->cols));
}

int wr_attention(struct onnx_write *w, struct heads *h)
{
  int64_t group = h->heads / h->kv;
  int q = group == 1 ? h->q : wr_reshape(w, h->q, 4, DIMS(h->batch, h->kv, group * h->rows, h->size));
  int s = wr_op2(w, "MatMul", q, wr_transpose(w, h->k, 4, DIMS(0, 1, 3, 2)));
  s = wr_scale(w, s, h->type, h->scale);
  keep_scores(w, h, 0, s, false);
  if (h->cap != 0) s = wr_scale(w, wr_op1(w, "Tanh", wr_scale(w, s, h->type, 1 / h->cap)), h->type, h->cap);
  keep_scores(w, h, 1, s, false);
  bool apart = group > 1 && h->nbias;
  if (apart) s = wr_reshape(w, s, 5, DIMS(h->batch, h->kv, group, h->rows, h->cols));
  int mask = h->nbias ? h->bias[0] : -1;
  for (int i = 1; i < h->nbias; i++) mask = wr_op2(w, "Add", mask, h->bias[i]);
  if (h->stage == 2) keep_scores(w, h, 2, mask < 0 ? s : wr_op2(w, "Add", s, mask), apart);
  s = softmax_of(w, h, s, mask);
  keep_scores(w, h, 3, s, apart);
  if (apart) s = wr_reshape(w, s, 4, DIMS(h->batch, h->kv, group * h->rows, h->cols));
  int y = wr_op2(w, "MatMul", s, h->v);
  return group == 1 ? y : wr_reshape(w, y, 4, DIMS(h->batch, h->heads, h->rows, h->vsize));
}

// ---- Attention of the default domain ----

// An input [batch, heads, rows, size]; or [batch, rows, heads * size] with the number of heads as an attribute.
static int heads_of(struct onnx_write *w, int k, const char *attr, int64_t dims[4])
{
  int x = wr_in(w, k);
  const struct shape *s = wr_shape(w, x);
  int64_t heads = onnx_attr_int(w->n, attr, 0);
  if (w->failed) return -1;
  if (s->n == 4) return memcpy(dims, s->d, 4 * sizeof *dims), x;
  if (s->n != 3 || heads < 1 || s->d[2] % heads) return wr_fail(w, "its input %d has no %lld heads (%s)", k, (long long)heads, attr), -1;
  dims[0] = s->d[0], dims[1] = heads, dims[2] = s->d[1], dims[3] = s->d[2] / heads;
  return wr_split_heads(w, x, dims[0], dims[2], heads);
}

// Appends the keys or values of this call to the earlier ones, in *x. Returns the number of earlier ones.
static int64_t with_past(struct onnx_write *w, int k, const int64_t dims[4], int *x)
{
  if (!wr_has(w, k)) return 0;
  int past = wr_in(w, k);
  const struct shape *s = wr_shape(w, past);
  if (w->failed) return 0;
  if (s->n != 4 || s->d[0] != dims[0] || s->d[1] != dims[1] || s->d[3] != dims[3])
    return wr_fail(w, "its input %d, from before, does not fit the new ones", k), 0;
  if (!s->d[2]) return 0;
  int64_t before = s->d[2];
  *x = wr_concat(w, 2, (int[]){past, *x}, 2);
  return before;
}

// Keys beyond the mask's last column are masked.
static int widened(struct onnx_write *w, int bias, struct shape *s, int64_t cols, int type)
{
  int64_t pads[2 * MAX_DIMS] = {0};
  if (w->failed || s->d[s->n - 1] == cols) return bias;
  pads[2 * s->n - 1] = cols - s->d[s->n - 1], s->d[s->n - 1] = cols;
  return wr_op3(w, "Pad", bias, wr_list(w, 2 * s->n, pads), wr_number(w, type, -INFINITY));
}

// The mask input [.., rows, cols]: added, or used as a condition if it is boolean. It may have fewer columns than there are keys.
static void add_mask(struct onnx_write *w, struct heads *h, int k)
{
  if (!wr_has(w, k)) return;
  int mask = wr_in(w, k);
  struct shape s = *wr_shape(w, mask);
  const int64_t want[] = {h->batch, h->heads, h->rows, h->cols};
  bool fits = s.n <= 4 && s.n > 0;
  for (int i = 2; i <= s.n && fits; i++) fits = s.d[s.n - i] == want[4 - i] || s.d[s.n - i] == 1;
  if (!fits || s.d[s.n - 1] > h->cols)
    wr_fail(w, "its mask does not fit [%lld, %lld, %lld, %lld]", (long long)want[0], (long long)want[1], (long long)want[2], (long long)want[3]);
  bool real = wr_type(w, mask) == h->type;
  if (!real && wr_type(w, mask) != ONNX_BOOL) wr_fail(w, "its mask is %s", onnx_type_name(wr_type(w, mask)));
  if (!real) mask = wr_bool_bias(w, mask, h->type, -INFINITY);
  mask = widened(w, mask, &s, h->cols, h->type);
  wr_add_bias(w, h, mask, &s);
}

// 0, 1, ... n - 1, minus a number.
static int counted(struct onnx_write *w, int64_t n, int64_t less)
{
  if (!w->failed && n > ONNX_KNOWN_CELLS) wr_fail(w, "it has lengths, and %lld queries or keys are too many for that", (long long)n);
  if (w->failed) return -1;
  int64_t *v = NEWS(w->m->mem, int64_t, n);
  for (int64_t i = 0; i < n; i++) v[i] = i - less;
  return wr_list(w, (int)n, v);
}

// Numbers of valid keys for each batch; later keys are masked. A causal mask or a window places the last query at the last valid key.
static void add_lengths(struct onnx_write *w, struct heads *h, int k, int64_t left, int64_t right)
{
  const int64_t most = h->rows + h->cols;
  struct shape s = {.n = 4, .d = {h->batch, 1, 1, h->cols}};
  int lengths = wr_reshape(w, wr_in(w, k), 4, DIMS(h->batch, 1, 1, 1)), places = counted(w, h->cols, 0), keep = wr_op2(w, "Less", places, lengths);
  if (left >= 0 || right >= 0) {
    int query = wr_op2(w, "Add", lengths, wr_reshape(w, counted(w, h->rows, h->rows), 2, DIMS(h->rows, 1)));
    int behind = wr_op2(w, "Sub", query, places); // [batch, 1, rows, cols]
    if (left >= 0) keep = wr_op2(w, "And", keep, wr_op2(w, "LessOrEqual", behind, wr_list(w, 1, DIMS(MIN(left, most)))));
    if (right >= 0) keep = wr_op2(w, "And", keep, wr_op2(w, "GreaterOrEqual", behind, wr_list(w, 1, DIMS(-MIN(right, most)))));
    s.d[2] = h->rows;
  }
  wr_add_bias(w, h, wr_bool_bias(w, keep, h->type, -INFINITY), &s);
}

static void check_heads(struct onnx_write *w, const int64_t q[4], const int64_t k[4], const int64_t v[4])
{
  bool fit = k[0] == q[0] && v[0] == q[0] && v[1] == k[1] && v[2] == k[2] && k[3] == q[3] && k[1] > 0 && q[1] % k[1] == 0;
  if (!w->failed && !fit) wr_fail(w, "its query, key and value do not fit one another");
  for (int i = 0; i < 4 && !w->failed; i++)
    if (q[i] < 1 || k[i] < 1 || v[i] < 1) wr_fail(w, "one of its inputs is empty");
}

// Whether a causal mask or a window leaves a query without keys.
static bool band_hides_row(const struct heads *h, int64_t before, int64_t left, int64_t right)
{
  bool hides = false;
  right = MIN(right, h->cols);
  for (int64_t i = before; i < before + h->rows && !hides; i++)
    hides = MAX(left < 0 ? 0 : i - left, 0) > MIN(right < 0 ? h->cols : i + right, h->cols - 1);
  return hides;
}

void onnx_write_attention(struct onnx_write *w)
{
  int64_t q[4] = {0}, k[4] = {0}, v[4] = {0}, before;
  struct heads h = {.q = heads_of(w, 0, "q_num_heads", q), .stage = -1};
  h.k = heads_of(w, 1, "kv_num_heads", k), h.v = heads_of(w, 2, "kv_num_heads", v);
  check_heads(w, q, k, v);
  wr_refuse_inputs(w, 7);
  if (wr_has(w, 6) && wr_has(w, 4)) wr_fail(w, "it has keys from before, and lengths");
  if (wr_has(w, 4) != wr_has(w, 5)) wr_fail(w, "only one of past_key and past_value is given");
  before = with_past(w, 4, k, &h.k);
  if (with_past(w, 5, v, &h.v) != before) wr_fail(w, "past_key and past_value do not fit one another");
  h.type = wr_type(w, wr_in(w, 0)), h.batch = q[0], h.heads = q[1], h.rows = q[2], h.size = q[3];
  h.kv = k[1], h.cols = before + k[2], h.vsize = v[3];
  h.scale = onnx_attr_real(w->n, "scale", 1 / sqrt((double)h.size)), h.cap = onnx_attr_real(w->n, "softcap", 0);
  if (wr_wants(w, 3)) h.stage = (int)onnx_attr_int(w->n, "qk_matmul_output_mode", 0);
  if (wr_wants(w, 3) && (h.stage < 0 || h.stage > 3)) wr_fail(w, "qk_matmul_output_mode %d is not known", h.stage);
  if (w->failed) return;
  int64_t left = onnx_attr_int(w->n, "left_window_size", -1),
          right = onnx_attr_int(w->n, "is_causal", 0) ? 0 : onnx_attr_int(w->n, "right_window_size", -1);
  h.zeros = wr_has(w, 3) || wr_has(w, 6) || h.stage == 2 || band_hides_row(&h, before, left, right);
  add_mask(w, &h, 3);
  if (wr_has(w, 6))
    add_lengths(w, &h, 6, left, right);
  else
    wr_add_band(w, &h, before, left, right);
  int y = wr_attention(w, &h);
  wr_out(w, 0, wr_shape(w, wr_in(w, 0))->n == 4 ? y : wr_join_heads(w, y, h.batch, h.rows, h.heads * h.vsize));
  if (wr_wants(w, 1)) wr_out(w, 1, h.k);
  if (wr_wants(w, 2)) wr_out(w, 2, h.v);
  if (wr_wants(w, 3)) wr_out(w, 3, h.scores);
}
