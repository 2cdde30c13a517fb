// Task bodies of served requests in C, float32: attention if rows belong to requests, and sampling.
#include "mega/mega_bodies.h"

#include <math.h>

#include "mega/mega_noise.h"

// ---- attention ----

// Keys and values of this row, and of the rows before it of the same request, are computed from their inputs. So no tile waits for another tile of
// the same node. `now` gets this row's key and value, unless it is NULL.
static void add_rows(struct mega_task *t, const float *key_gain, struct mega_softmax *head, int64_t heads, float *now)
{
  int64_t dim = (int64_t)t->op->attr[MEGA_ATTR_dim], row = t->box[0].lo[0];
  struct mega_seat s = mega_seat_of(t->m, (int)row, t->step);
  float *spare = t->spare + 2 * mega_extent(&t->box[0], 1), *one = spare + dim;
  struct mega_task other = *t;
  for (int64_t r = row - s.before; r <= row; r++) {
    float *to = r == row && now ? now : one;
    other.position = s.position - (row - r);
    mega_append(&other, key_gain, t->data[1] + r * dim, t->data[2] + r * dim, spare, to);
    mega_heads_add(t, head, heads, to, to + dim);
  }
}

// Attention of one tile: positions that earlier launches wrote to the cache, then the request's rows of this launch.
static void attend_served(struct mega_task *t, const float *query_gain, const float *key_gain, float *now, float *y)
{
  struct mega_softmax head[MEGA_MOST_GROUP];
  int64_t heads = mega_heads_begin(t, query_gain, t->spare, y, head);
  mega_heads_stream(t, head, heads);
  add_rows(t, key_gain, head, heads, now);
  mega_heads_end(t, head, heads);
}

void mega_body_served_attention(struct mega_task *t) { attend_served(t, NULL, NULL, t->data[4], t->data[5]); }
void mega_body_qknorm_served_attention(struct mega_task *t) { attend_served(t, t->data[3], t->data[4], t->data[6], t->data[7]); }

void mega_body_served_append(struct mega_task *t) { mega_append(t, NULL, t->data[0], t->data[1], t->spare, t->data[2]); }
void mega_body_qknorm_served_append(struct mega_task *t) { mega_append(t, t->data[2], t->data[0], t->data[1], t->spare, t->data[3]); }

// One part of attention. The first part includes the rows of this launch.
static void attend_served_part(struct mega_task *t, const float *query_gain, const float *key_gain, int out)
{
  struct mega_softmax head[MEGA_MOST_GROUP];
  int64_t heads = mega_heads_begin(t, query_gain, t->spare, t->data[out], head);
  mega_heads_stream(t, head, heads);
  if (t->box[out].lo[1] == 0) add_rows(t, key_gain, head, heads, NULL);
  mega_heads_divisors(head, heads, t->data[out + 1]);
}

void mega_body_served_attention_part(struct mega_task *t) { attend_served_part(t, NULL, NULL, 4); }
void mega_body_qknorm_served_attention_part(struct mega_task *t) { attend_served_part(t, t->data[3], t->data[4], 6); }

// ---- sampling ----

struct mega_choice {
  float key, logit;
  int64_t token; // -1: none
};

// Whether a is the better choice: the larger key, or the smaller token if keys are equal.
static bool better(const struct mega_choice *a, const struct mega_choice *b)
{
  return b->token < 0 || a->key > b->key || (a->key == b->key && a->token < b->token);
}

struct mega_choosing_from { // logits of consecutive tokens, or pairs of a logit and a token
  const float *x, *settings;
  int64_t n, first;
  bool pairs, noisy;
  int64_t position;
};

static struct mega_choice choice_of(const struct mega_choosing_from *c, int64_t i)
{
  struct mega_choice a = {0, c->pairs ? c->x[2 * i] : c->x[i], c->pairs ? (int64_t)c->x[2 * i + 1] : c->first + i};
  if (a.logit != a.logit) a.token = -1; // NaN
  a.key = c->noisy && a.token >= 0 ? noise_key(a.logit, c->settings, (noise_word)c->position, (noise_word)a.token) : a.logit;
  return a;
}

// The best choice after `last` in the order of choices. `last` NULL: the best of all.
static struct mega_choice best_after(const struct mega_choosing_from *c, const struct mega_choice *last)
{
  struct mega_choice best = {-INFINITY, -INFINITY, -1};
  for (int64_t i = 0; i < c->n; i++) {
    struct mega_choice a = choice_of(c, i);
    if (a.token >= 0 && (!last || better(last, &a)) && (!last || a.token != last->token) && better(&a, &best)) best = a;
  }
  return best;
}

// Number of largest logits to choose from; 0: all.
static int64_t top_of(const float *settings, int64_t most) { return (int64_t)fminf(fmaxf(settings[NOISE_TOP], 0), (float)most); }

// The best tokens of the tile: one or, if the choice is limited, that number of tokens with the largest logits. Unused entries are no tokens.
void mega_body_sample_partial(struct mega_task *t)
{
  int64_t rows = mega_extent(&t->box[0], 0), n = mega_extent(&t->box[0], 1), kept = mega_extent(&t->box[2], 2);
  int64_t width = mega_extent(&t->box[1], 1);
  for (int64_t r = 0; r < rows; r++) {
    const float *settings = t->data[1] + r * width;
    int64_t top = top_of(settings, kept);
    struct mega_choosing_from c = {.x = t->data[0] + r * n, .settings = settings, .n = n, .first = t->box[0].lo[1], .noisy = !top};
    struct mega_choice last;
    c.position = mega_seat_of(t->m, (int)r, t->step).position;
    for (int64_t k = 0; k < kept; k++) {
      float *to = t->data[2] + (r * kept + k) * 2;
      to[0] = -INFINITY, to[1] = -1;
      if (k >= (top ? top : 1) || (k && last.token < 0)) continue;
      last = best_after(&c, k ? &last : NULL);
      to[0] = last.logit, to[1] = (float)last.token;
    }
  }
}

void mega_body_sample(struct mega_task *t)
{
  int64_t kept = mega_extent(&t->box[0], 2), all = mega_extent(&t->box[0], 1) * kept, top = top_of(t->data[1], kept);
  struct mega_choosing_from c = {.x = t->data[0], .settings = t->data[1], .n = all, .pairs = true, .noisy = !top, .position = t->position};
  struct mega_choice best = best_after(&c, NULL), last = best;
  for (int64_t k = 0; k < top && last.token >= 0; k++) {
    struct mega_choice noisy = last;
    noisy.key = noise_key(last.logit, t->data[1], (noise_word)t->position, (noise_word)last.token);
    if (!k || better(&noisy, &best)) best = noisy;
    last = best_after(&c, &last);
  }
  t->data[2][0] = (float)best.token;
  if (best.token < 0 && mega_seat_of(t->m, (int)t->box[0].lo[0], t->step).live) t->fault = "no logit is a number";
}
