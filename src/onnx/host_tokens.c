// Operators on token sequences: LinearAttention, CausalConvWithState, FlexAttention.
#include "onnx/host_graph.h"

#include <math.h>
#include <string.h>

struct tokens { // dimensions of LinearAttention's inputs
  int64_t batch, time, heads, kv, dk, dv;
  bool gated, delta, decays_by_head, one_rate;
  double scale;
};

static bool tokens_of(struct onnx_host *h, struct tokens *t)
{
  const char *rule = onnx_attr_text(h->n, "update_rule", "gated_delta");
  const struct shape *q = &host_in(h, 0)->shape, *k = &host_in(h, 1)->shape, *v = &host_in(h, 2)->shape;
  *t = (struct tokens){
      .heads = onnx_attr_int(h->n, "q_num_heads", 0), .kv = onnx_attr_int(h->n, "kv_num_heads", 0), .scale = onnx_attr_real(h->n, "scale", 0)};
  t->gated = !strcmp(rule, "gated") || !strcmp(rule, "gated_delta"), t->delta = !strcmp(rule, "delta") || !strcmp(rule, "gated_delta");
  for (int i = 0; i < 6; i++) host_real(h, i);
  if (!t->gated && !t->delta && strcmp(rule, "linear")) host_fail(h, "its update_rule is not known");
  bool fits = !h->failed && q->n == 3 && k->n == 3 && v->n == 3 && t->kv > 0 && t->heads > 0 && t->heads % t->kv == 0 && q->d[2] % t->heads == 0;
  if (!fits || k->d[2] % t->kv || v->d[2] % t->kv || k->d[2] / t->kv != q->d[2] / t->heads) return host_fail(h, "its heads do not fit"), false;
  t->batch = q->d[0], t->time = q->d[1], t->dk = k->d[2] / t->kv, t->dv = v->d[2] / t->kv;
  for (int i = 1; i < 3; i++)
    if (h->in[i]->shape.d[0] != t->batch || h->in[i]->shape.d[1] != t->time) return host_fail(h, "input %d does not fit", i), false;
  if (t->scale == 0) t->scale = 1 / sqrt((double)t->dk);
  return true;
}

static bool gates_of(struct onnx_host *h, struct tokens *t)
{
  int64_t rows = t->batch * t->time, decay = host_has(h, 4) ? onnx_elements(&h->in[4]->shape) : 0,
          rate = host_has(h, 5) ? onnx_elements(&h->in[5]->shape) : 0;
  t->decays_by_head = decay == rows * t->kv && t->dk != 1, t->one_rate = rate == rows;
  if (t->gated && !t->decays_by_head && decay != rows * t->kv * t->dk) host_fail(h, "its decay does not fit");
  if (t->delta && !t->one_rate && rate != rows * t->kv) host_fail(h, "its beta does not fit");
  if (host_has(h, 3) && onnx_elements(&h->in[3]->shape) != t->batch * t->kv * t->dk * t->dv) host_fail(h, "its past state does not fit");
  return !h->failed;
}

// The state [dk, dv] of key head `head` after one token.
static void update(const struct onnx_host *h, const struct tokens *t, int64_t token, int64_t head, double *state)
{
  const double *k = h->in[1]->f + (token * t->kv + head) * t->dk, *v = h->in[2]->f + (token * t->kv + head) * t->dv;
  double rate = t->delta ? h->in[5]->f[t->one_rate ? token : token * t->kv + head] : 1;
  for (int64_t i = 0; i < t->dk && t->gated; i++) {
    double g = exp(h->in[4]->f[t->decays_by_head ? token * t->kv + head : (token * t->kv + head) * t->dk + i]);
    for (int64_t j = 0; j < t->dv; j++) state[i * t->dv + j] *= g;
  }
  for (int64_t j = 0; j < t->dv; j++) {
    double r = v[j];
    for (int64_t i = 0; i < t->dk && t->delta; i++) r -= state[i * t->dv + j] * k[i];
    for (int64_t i = 0; i < t->dk; i++) state[i * t->dv + j] += rate * k[i] * r;
  }
}

void host_linear_attention(struct onnx_host *h)
{
  struct tokens t;
  if (!tokens_of(h, &t) || !gates_of(h, &t)) return;
  struct shape s = {.n = 3, .d = {t.batch, t.time, t.heads * t.dv}}, last = {.n = 4, .d = {t.batch, t.kv, t.dk, t.dv}};
  struct onnx_cells *y = host_out(h, 0, h->in[0]->type, &s),
                    *end = h->n->nout > 1 ? host_out(h, 1, host_has(h, 3) ? h->in[3]->type : h->in[0]->type, &last) : NULL;
  if (h->failed || !y->p) return;
  if (onnx_elements(&last) > h->most) return host_fail(h, "its state would have %lld elements", (long long)onnx_elements(&last));
  int64_t each = t.dk * t.dv, share = t.heads / t.kv;
  double *state = arena_alloc(h->mem, 8 * (size_t)MAX(t.batch * t.kv * each, 1));
  if (host_has(h, 3)) memcpy(state, h->in[3]->f, 8 * (size_t)(t.batch * t.kv * each));
  for (int64_t token = 0; token < t.batch * t.time; token++)
    for (int64_t head = 0; head < t.heads; head++) {
      double *own = state + (token / t.time * t.kv + head / share) * each;
      if (head % share == 0) update(h, &t, token, head / share, own);
      for (int64_t j = 0; j < t.dv; j++) {
        double sum = 0;
        for (int64_t i = 0; i < t.dk; i++) sum += h->in[0]->f[(token * t.heads + head) * t.dk + i] * own[i * t.dv + j];
        y->f[(token * t.heads + head) * t.dv + j] = t.scale * sum;
      }
    }
  if (end) memcpy(end->f, state, 8 * (size_t)(t.batch * t.kv * each));
}

// A causal filter for each channel. The state holds the elements before the first token.
void host_causal_conv(struct onnx_host *h)
{
  const struct onnx_cells *x = host_in(h, 0), *w = host_in(h, 1), *bias = host_has(h, 2) ? h->in[2] : NULL, *past = host_has(h, 3) ? h->in[3] : NULL;
  const char *act = onnx_attr_text(h->n, "activation", "none");
  bool silu = !strcmp(act, "silu") || !strcmp(act, "swish");
  for (int k = 0; k < 4; k++) host_real(h, k);
  if (!silu && strcmp(act, "none")) host_fail(h, "its activation is not known");
  if (h->failed) return;
  bool fits = x->shape.n == 3 && w->shape.n == 3 && w->shape.d[0] == x->shape.d[1] && w->shape.d[1] == 1 && w->shape.d[2] > 0;
  int64_t c = x->shape.d[1], n = x->shape.d[2], size = fits ? w->shape.d[2] : 1, before = size - 1;
  struct shape s = {.n = 3, .d = {x->shape.d[0], c, before}};
  if (!fits || (bias && onnx_elements(&bias->shape) != c) || (past && !shape_eq(&past->shape, &s))) return host_fail(h, "its shapes do not fit");
  struct onnx_cells *y = host_out(h, 0, x->type, &x->shape), *end = h->n->nout > 1 ? host_out(h, 1, x->type, &s) : NULL;
  if (h->failed || !y->p) return;
  double *line = arena_alloc(h->mem, 8 * (size_t)(before + n + 1));
  for (int64_t row = 0; row < x->shape.d[0] * c; row++) {
    for (int64_t i = 0; i < before; i++) line[i] = past ? past->f[row * before + i] : 0;
    memcpy(line + before, x->f + row * n, 8 * (size_t)n);
    for (int64_t i = 0; i < n; i++) {
      double sum = bias ? bias->f[row % c] : 0;
      for (int64_t k = 0; k < size; k++) sum += line[i + k] * w->f[row % c * size + k];
      y->f[row * n + i] = silu ? sum / (1 + exp(-sum)) : sum;
    }
    if (end) memcpy(end->f + row * before, line + n, 8 * (size_t)before);
  }
}

// ---- FlexAttention ----

// x as changed by the subgraph of an attribute; x itself if there is none.
static const struct onnx_cells *modified(struct onnx_host *h, const char *name, const struct onnx_cells *x)
{
  const struct onnx_graph *g = onnx_attr(h->n, name) ? graph_of(h, name) : NULL;
  const struct onnx_cells *y = x;
  if (!g || h->failed) return x;
  if (g->out.n != 1) return host_fail(h, "its %s has %d outputs", name, g->out.n), x;
  if (!graph_run(h, h->mem, g, 1, &x, &y)) return x;
  if (!shape_eq(&x->shape, &y->shape) || y->type != x->type) host_fail(h, "its %s changes the type or the shape", name);
  return y;
}

void host_flex_attention(struct onnx_host *h)
{
  const struct onnx_cells *q = host_in(h, 0), *k = host_in(h, 1), *v = host_in(h, 2);
  if (!host_real(h, 0) || !host_real(h, 1) || !host_real(h, 2)) return;
  bool fits = q->shape.n == 4 && k->shape.n == 4 && v->shape.n == 4 && k->shape.d[1] > 0 && q->shape.d[1] % k->shape.d[1] == 0 &&
              q->shape.d[3] == k->shape.d[3];
  for (int i = 0; i < 3 && fits; i++) fits = k->shape.d[i] == v->shape.d[i] && (i || k->shape.d[0] == q->shape.d[0]);
  if (!fits) return host_fail(h, "its query, key and value do not fit one another");
  int64_t heads = q->shape.d[1], rows = q->shape.d[2], cols = k->shape.d[2], d = q->shape.d[3], dv = v->shape.d[3], share = heads / k->shape.d[1];
  double scale = onnx_attr_real(h->n, "scale", 1 / sqrt((double)MAX(d, 1)));
  int type = (int)onnx_attr_int(h->n, "softmax_precision", q->type == ONNX_DOUBLE ? ONNX_DOUBLE : ONNX_FLOAT);
  struct shape s = {.n = 4, .d = {q->shape.d[0], heads, rows, dv}}, scores = {.n = 4, .d = {q->shape.d[0], heads, rows, cols}};
  if (onnx_type_kind(type) != REAL) return host_fail(h, "its softmax_precision is %s", onnx_type_name(type));
  struct onnx_cells *y = host_out(h, 0, q->type, &s);
  if (h->failed || !y->p) return;
  if (onnx_elements(&scores) > h->most) return host_fail(h, "it would make %lld scores", (long long)onnx_elements(&scores));
  struct onnx_cells *x = onnx_cells_new(h->mem, type, &scores), *p = onnx_cells_new(h->mem, type, &scores);
  for (int64_t e = 0; e < onnx_elements(&scores); e++) {
    int64_t head = e / cols / rows, row = e / cols, key = head / heads * (heads / share) * cols + head % heads / share * cols + e % cols;
    double sum = 0;
    for (int64_t i = 0; i < d; i++) sum += q->f[row * d + i] * k->f[key * d + i];
    x->f[e] = scale * sum;
  }
  const struct onnx_cells *mod = modified(h, "score_mod", x);
  for (int64_t row = 0; row < q->shape.d[0] * heads * rows && !h->failed; row++) {
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < cols; j++) most = fmax(most, mod->f[row * cols + j]);
    for (int64_t j = 0; j < cols; j++) sum += exp(mod->f[row * cols + j] - most);
    for (int64_t j = 0; j < cols; j++) p->f[row * cols + j] = exp(mod->f[row * cols + j] - most) / sum;
  }
  mod = modified(h, "prob_mod", p);
  for (int64_t e = 0; e < onnx_elements(&s) && !h->failed; e++) {
    int64_t row = e / dv, head = row / rows, first = head / heads * (heads / share) * cols + head % heads / share * cols;
    double sum = 0;
    for (int64_t j = 0; j < cols; j++) sum += mod->f[row * cols + j] * v->f[(first + j) * dv + e % dv];
    y->f[e] = sum;
  }
}
