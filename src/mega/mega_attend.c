// Task bodies of attention in C, float32: rotary embedding, appending to the cache, attention over its pages with a running maximum.
#include "mega/mega_bodies.h"

#include <math.h>

// The angle in radians of a pair at a position. With rope_factor (scaling of the type llama3) low frequencies are divided by the factor.
double mega_rotary_angle(const double *attr, int64_t pair, int64_t position)
{
  double f = pow(attr[MEGA_ATTR_theta], -2.0 * (double)pair / attr[MEGA_ATTR_dim]), factor = attr[MEGA_ATTR_rope_factor];
  if (factor > 0) {
    double turns = attr[MEGA_ATTR_rope_original] * f / (2 * M_PI), low = attr[MEGA_ATTR_rope_low], high = attr[MEGA_ATTR_rope_high];
    double smooth = fmin(fmax((turns - low) / (high - low), 0), 1);
    f = (1 - smooth) * f / factor + smooth * f;
  }
  return f * (double)position;
}

static void rotate(const struct mega_task *t, const float *x, float *to)
{
  int64_t dim = (int64_t)t->op->attr[MEGA_ATTR_dim], half = dim / 2;
  for (int64_t i = 0; i < half; i++) {
    double angle = mega_rotary_angle(t->op->attr, i, t->position);
    float c = (float)cos(angle), s = (float)sin(angle), a = x[i], b = x[i + half];
    to[i] = a * c - b * s, to[i + half] = b * c + a * s;
  }
}

static void norm_head(const struct mega_task *t, const float *gain, const float *x, float *to)
{
  int64_t dim = (int64_t)t->op->attr[MEGA_ATTR_dim];
  float f = mega_norm_factor(x, dim, t->op->attr[MEGA_ATTR_eps]);
  for (int64_t i = 0; i < dim; i++) to[i] = x[i] * f * gain[i];
}

void mega_append(const struct mega_task *t, const float *gain, const float *key, const float *value, float *spare, float *to)
{
  int64_t dim = (int64_t)t->op->attr[MEGA_ATTR_dim];
  if (gain) norm_head(t, gain, key, spare), key = spare;
  rotate(t, key, to);
  for (int64_t i = 0; i < dim; i++) to[dim + i] = value[i];
}

void mega_body_rotary_append(struct mega_task *t) { mega_append(t, NULL, t->data[0], t->data[1], t->spare, t->data[2]); }
void mega_body_qknorm_rotary_append(struct mega_task *t) { mega_append(t, t->data[2], t->data[0], t->data[1], t->spare, t->data[3]); }

// ---- attention ----

// Adds one position to a running softmax.
static void attend_position(struct mega_softmax *a, const float *key, const float *value, int64_t dim)
{
  float score = 0;
  for (int64_t i = 0; i < dim; i++) score += a->query[i] * key[i];
  score /= sqrtf((float)dim);
  float most = fmaxf(a->most, score), keep = expf(a->most - most), add = expf(score - most);
  a->sum = a->sum * keep + add, a->most = most;
  for (int64_t i = 0; i < dim; i++) a->value[i] = a->value[i] * keep + add * value[i];
}

// The maximum of a part without positions. No score is lower.
static const float NOTHING = -1e30f;

int64_t mega_heads_begin(const struct mega_task *t, const float *gain, float *queries, float *y, struct mega_softmax *head)
{
  int64_t dim = (int64_t)t->op->attr[MEGA_ATTR_dim], heads = mega_extent(&t->box[0], 1) / dim;
  for (int64_t g = 0; g < heads; g++) {
    float *q = queries + g * dim;
    if (gain) norm_head(t, gain, t->data[0] + g * dim, q + heads * dim);
    rotate(t, gain ? q + heads * dim : t->data[0] + g * dim, q);
    head[g] = (struct mega_softmax){NOTHING, 0, y + g * dim, q};
  }
  return heads;
}

void mega_heads_stream(struct mega_task *t, struct mega_softmax *head, int64_t heads)
{
  int64_t dim = (int64_t)t->op->attr[MEGA_ATTR_dim];
  const float *piece;
  while ((piece = t->next(t))) {
    int64_t n = mega_extent(&t->piece, 4);
    for (int64_t g = 0; g < heads; g++)
      for (int64_t i = 0; i < n; i++) attend_position(&head[g], piece + i * dim, piece + (n + i) * dim, dim);
  }
}

void mega_heads_add(const struct mega_task *t, struct mega_softmax *head, int64_t heads, const float *key, const float *value)
{
  for (int64_t g = 0; g < heads; g++) attend_position(&head[g], key, value, (int64_t)t->op->attr[MEGA_ATTR_dim]);
}

void mega_heads_end(const struct mega_task *t, struct mega_softmax *head, int64_t heads)
{
  for (int64_t g = 0; g < heads; g++)
    for (int64_t i = 0; i < (int64_t)t->op->attr[MEGA_ATTR_dim]; i++) head[g].value[i] /= head[g].sum;
}

static void attend(struct mega_task *t, const float *gain, const float *now, float *y)
{
  struct mega_softmax head[MEGA_MOST_GROUP];
  int64_t heads = mega_heads_begin(t, gain, t->spare, y, head);
  mega_heads_stream(t, head, heads);
  mega_heads_add(t, head, heads, now, now + (int64_t)t->op->attr[MEGA_ATTR_dim]);
  mega_heads_end(t, head, heads);
}

void mega_body_paged_attention(struct mega_task *t) { attend(t, NULL, t->data[2], t->data[3]); }
void mega_body_qknorm_paged_attention(struct mega_task *t) { attend(t, t->data[1], t->data[3], t->data[4]); }

// The part of `spare` for one head, behind two copies of the queries.
static float *spare_head(const struct mega_task *t) { return t->spare + 2 * mega_extent(&t->box[0], 1); }

void mega_body_rotary_attention(struct mega_task *t)
{
  mega_append(t, NULL, t->data[1], t->data[2], spare_head(t), t->data[4]);
  attend(t, NULL, t->data[4], t->data[5]);
}
void mega_body_qknorm_rotary_attention(struct mega_task *t)
{
  mega_append(t, t->data[4], t->data[1], t->data[2], spare_head(t), t->data[6]);
  attend(t, t->data[3], t->data[6], t->data[7]);
}

// ---- parts ----

void mega_heads_divisors(const struct mega_softmax *head, int64_t heads, float *to)
{
  for (int64_t g = 0; g < heads; g++) to[2 * g] = head[g].most, to[2 * g + 1] = head[g].sum;
}

// The first part computes the key and value of this position, as `append` does.
static void attend_part(struct mega_task *t, const float *gain, const float *key_gain, int out)
{
  int64_t dim = (int64_t)t->op->attr[MEGA_ATTR_dim], group = mega_extent(&t->box[0], 1) / dim;
  struct mega_softmax head[MEGA_MOST_GROUP];
  float *now = NULL;
  if (t->box[out].lo[1] == 0) {
    now = spare_head(t) + dim;
    mega_append(t, key_gain, t->data[1], t->data[2], spare_head(t), now);
  }
  mega_heads_begin(t, gain, t->spare, t->data[out], head);
  mega_heads_stream(t, head, group);
  if (now) mega_heads_add(t, head, group, now, now + dim);
  mega_heads_divisors(head, group, t->data[out + 1]);
}

void mega_body_rotary_attention_part(struct mega_task *t) { attend_part(t, NULL, NULL, 4); }
void mega_body_qknorm_rotary_attention_part(struct mega_task *t) { attend_part(t, t->data[3], t->data[4], 6); }

// Merges all parts of `x`, [parts][heads * dim], into the first. m: [parts][heads][2], a maximum and a divisor.
void mega_attention_merge(float *x, const float *m, int64_t parts, int64_t heads, int64_t dim)
{
  for (int64_t h = 0; h < heads; h++) {
    float most = NOTHING, sum = 0;
    for (int64_t p = 0; p < parts; p++) most = fmaxf(most, m[(p * heads + h) * 2]);
    for (int64_t p = 0; p < parts; p++) sum += m[(p * heads + h) * 2 + 1] * expf(m[(p * heads + h) * 2] - most);
    for (int64_t i = 0; i < dim; i++) {
      float y = 0;
      for (int64_t p = 0; p < parts; p++) y += x[(p * heads + h) * dim + i] * expf(m[(p * heads + h) * 2] - most);
      x[h * dim + i] = y / sum;
    }
  }
}

void mega_body_merge_parts(struct mega_task *t)
{
  int64_t parts = mega_extent(&t->box[0], 1), width = mega_extent(&t->box[0], 2), heads = mega_extent(&t->box[1], 2);
  mega_attention_merge(t->data[0], t->data[1], parts, heads, width / heads);
  for (int64_t i = 0; i < width; i++) t->data[2][i] = t->data[0][i];
}
