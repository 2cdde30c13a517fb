// A transformer in float64, computed sequentially by simple loops. Results of plans are compared with it. Regions, events and task bodies take no
// part in the computation.
#include "mega/mega_run.h"

#include <math.h>
#include <string.h>

struct mega_sequence { // the state of one row
  const struct mega_config *c;
  const struct mega_model *m;
  float *const *v;
  int row;
  int64_t position, room; // room: positions of the cache
  double *keys, *values;  // [layer][position][kv][dim]
  double *x, *normed, *qkv, *attended, *inner, *scores, *logits, *routed;
};

static const float *weight(const struct mega_sequence *s, const char *name)
{
  int t = mega_tensor_find(s->m, name);
  return t < 0 ? NULL : s->v[t];
}

static void rms(const double *x, const float *gain, int n, double eps, double *to)
{
  double sum = 0;
  for (int i = 0; i < n; i++) sum += x[i] * x[i];
  for (int i = 0; i < n; i++) to[i] = x[i] / sqrt(sum / n + eps) * gain[i];
}

// y = x w, with w [k][n] in rows layer * k and following.
static void multiply(const double *x, const float *w, int64_t layer, int k, int n, double *y)
{
  memset(y, 0, sizeof *y * (size_t)n);
  for (int i = 0; i < k; i++)
    for (int j = 0; j < n; j++) y[j] += x[i] * w[(layer * k + i) * n + j];
}

static void rope(const struct mega_config *c, int64_t position, double *x)
{
  for (int i = 0; i < c->dim / 2; i++) {
    double f = pow(c->theta, -2.0 * i / c->dim), a = x[i], b = x[i + c->dim / 2];
    if (c->rope_factor > 0) {
      double wave = 2 * M_PI / f;
      double t = (c->rope_original / wave - c->rope_low) / (c->rope_high - c->rope_low);
      if (wave > c->rope_original / c->rope_low)
        f /= c->rope_factor;
      else if (wave >= c->rope_original / c->rope_high)
        f = (1 - t) * f / c->rope_factor + t * f;
    }
    double angle = f * (double)position;
    x[i] = a * cos(angle) - b * sin(angle), x[i + c->dim / 2] = b * cos(angle) + a * sin(angle);
  }
}

static double *cached(const struct mega_sequence *s, double *of, int layer, int64_t position, int kv)
{
  return of + (((int64_t)layer * s->room + position) * s->c->kv + kv) * s->c->dim;
}

static void append_cache(struct mega_sequence *s, int layer)
{
  const struct mega_config *c = s->c;
  for (int g = 0; g < c->kv; g++) {
    double *k = s->qkv + (c->heads + g) * c->dim;
    if (c->qk_norm) rms(k, weight(s, "k_norm") + (int64_t)layer * c->dim, c->dim, c->eps, k);
    rope(c, s->position, k);
    memcpy(cached(s, s->keys, layer, s->position, g), k, sizeof *k * (size_t)c->dim);
    memcpy(cached(s, s->values, layer, s->position, g), s->qkv + (c->heads + c->kv + g) * c->dim, sizeof *k * (size_t)c->dim);
  }
}

static void attend_head(struct mega_sequence *s, int layer, int head)
{
  const struct mega_config *c = s->c;
  double *q = s->qkv + head * c->dim, *y = s->attended + head * c->dim, sum = 0, most = -INFINITY;
  int kv = head / (c->heads / c->kv);
  if (c->qk_norm) rms(q, weight(s, "q_norm") + (int64_t)layer * c->dim, c->dim, c->eps, q);
  rope(c, s->position, q);
  for (int64_t p = 0; p <= s->position; p++) {
    const double *k = cached(s, s->keys, layer, p, kv);
    s->scores[p] = 0;
    for (int i = 0; i < c->dim; i++) s->scores[p] += q[i] * k[i] / sqrt(c->dim);
    most = fmax(most, s->scores[p]);
  }
  memset(y, 0, sizeof *y * (size_t)c->dim);
  for (int64_t p = 0; p <= s->position; p++) sum += s->scores[p] = exp(s->scores[p] - most);
  for (int64_t p = 0; p <= s->position; p++)
    for (int i = 0; i < c->dim; i++) y[i] += s->scores[p] / sum * cached(s, s->values, layer, p, kv)[i];
}

// Adds to `to` scale times gated MLP number `at` of the normed row.
static void gated(struct mega_sequence *s, int64_t at, double scale, double *to)
{
  const struct mega_config *c = s->c;
  multiply(s->normed, weight(s, "Wgate_up"), 2 * at, c->hidden, c->inner, s->inner);
  multiply(s->normed, weight(s, "Wgate_up"), 2 * at + 1, c->hidden, c->inner, s->logits);
  for (int i = 0; i < c->inner; i++) s->inner[i] = s->inner[i] / (1 + exp(-s->inner[i])) * s->logits[i];
  multiply(s->inner, weight(s, "Wdown"), at, c->inner, c->hidden, s->logits);
  for (int i = 0; i < c->hidden; i++) to[i] += scale * s->logits[i];
}

// Softmax over all experts. The weights of the largest (the first of equal ones) are normalized.
static void run_experts(struct mega_sequence *s, int l)
{
  const struct mega_config *c = s->c;
  double *p = s->routed, most = -INFINITY, sum = 0;
  multiply(s->normed, weight(s, "Wrouter"), l, c->hidden, c->experts, p);
  for (int i = 0; i < c->experts; i++) most = fmax(most, p[i]);
  for (int i = 0; i < c->experts; i++) p[i] = exp(p[i] - most);
  double *chosen = p + c->experts; // 1 if the expert is chosen
  memset(chosen, 0, sizeof *chosen * (size_t)c->experts);
  for (int n = 0; n < c->choices; n++) {
    int best = 0;
    while (chosen[best] > 0) best++;
    for (int i = best + 1; i < c->experts; i++)
      if (!(chosen[i] > 0) && p[i] > p[best]) best = i;
    chosen[best] = 1, sum += p[best];
  }
  for (int i = 0; i < c->experts; i++)
    if (chosen[i] > 0) gated(s, (int64_t)l * c->experts + i, p[i] / sum, s->x);
}

static void run_layer(struct mega_sequence *s, int l)
{
  const struct mega_config *c = s->c;
  int qkv = (c->heads + 2 * c->kv) * c->dim;
  rms(s->x, weight(s, "attn_norm") + (int64_t)l * c->hidden, c->hidden, c->eps, s->normed);
  multiply(s->normed, weight(s, "Wqkv"), l, c->hidden, qkv, s->qkv);
  append_cache(s, l);
  for (int h = 0; h < c->heads; h++) attend_head(s, l, h);
  multiply(s->attended, weight(s, "Wo"), l, c->heads * c->dim, c->hidden, s->normed);
  for (int i = 0; i < c->hidden; i++) s->x[i] += s->normed[i];
  rms(s->x, weight(s, "mlp_norm") + (int64_t)l * c->hidden, c->hidden, c->eps, s->normed);
  if (c->experts)
    run_experts(s, l);
  else
    gated(s, l, 1, s->x);
}

static int32_t run_step(struct mega_sequence *s, int32_t token)
{
  const struct mega_config *c = s->c;
  const float *table = weight(s, "table"), *head = weight(s, c->tied ? "table" : "head_table");
  int32_t best = 0;
  for (int i = 0; i < c->hidden; i++) s->x[i] = table[(int64_t)token * c->hidden + i];
  for (int l = 0; l < c->layers; l++) run_layer(s, l);
  rms(s->x, weight(s, "final_norm"), c->hidden, c->eps, s->normed);
  for (int j = 0; j < c->vocab; j++) {
    s->logits[j] = 0;
    for (int i = 0; i < c->hidden; i++) s->logits[j] += s->normed[i] * head[(int64_t)j * c->hidden + i];
    if (s->logits[j] > s->logits[best]) best = j;
  }
  return best;
}

// Reads the values of the paged cache before the first step.
static void read_cache(struct mega_sequence *s)
{
  const struct mega_config *c = s->c;
  int t = mega_tensor_find(s->m, "cache");
  bool served = mega_served(s->m); // then no row has the first page
  const int64_t *dim = s->m->tensor[t].dim, pages = (dim[1] - served) / s->m->rows, slots = dim[4];
  for (int l = 0; l < c->layers; l++)
    for (int64_t p = 0; p < s->m->context; p++)
      for (int g = 0; g < c->kv; g++)
        for (int i = 0; i < c->dim; i++) {
          int64_t page = served + s->row * pages + p / slots, at = ((((l * dim[1] + page) * c->kv + g) * 2) * slots + p % slots) * c->dim + i;
          cached(s, s->keys, l, p, g)[i] = s->v[t][at], cached(s, s->values, l, p, g)[i] = s->v[t][at + slots * c->dim];
        }
}

static bool make_room(struct arena *mem, struct mega_sequence *s)
{
  const struct mega_config *c = s->c;
  size_t cache = (size_t)c->layers * (size_t)s->room * (size_t)c->kv * (size_t)c->dim, hidden = (size_t)c->hidden;
  double **of[] = {&s->keys, &s->values, &s->x, &s->normed, &s->qkv, &s->attended, &s->inner, &s->scores, &s->logits, &s->routed};
  size_t n[] = {cache,
                cache,
                hidden,
                hidden,
                (size_t)(c->heads + 2 * c->kv) * (size_t)c->dim,
                (size_t)c->heads * (size_t)c->dim,
                (size_t)c->inner,
                (size_t)s->room,
                (size_t)MAX(c->vocab, MAX(c->inner, c->hidden)),
                2 * (size_t)c->experts};
  bool fine = true;
  for (size_t i = 0; i < COUNT(n); i++) fine &= (*of[i] = arena_try(mem, n[i] * sizeof(double))) != NULL;
  return fine;
}

int mega_reference(struct arena *mem, const struct mega_config *c, const struct mega_model *m, float *const *first, int steps, int32_t **tokens,
                   struct err *e)
{
  struct mega_sequence s = {.c = c, .m = m, .v = first, .room = m->context + steps};
  *tokens = NEWS(mem, int32_t, steps * m->rows);
  if (!make_room(mem, &s)) return err_set(e, ERR_MEMORY, NOWHERE, "no memory for the reference");
  for (s.row = 0; s.row < m->rows; s.row++) {
    int32_t token = (int32_t)first[mega_tensor_find(m, "token")][s.row];
    read_cache(&s);
    for (int i = 0; i < steps; i++) s.position = m->context + i, token = (*tokens)[i * m->rows + s.row] = run_step(&s, token);
  }
  return OK;
}
