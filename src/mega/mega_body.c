// Task bodies of dense layers in C, float32: the layers of layer.def on packed boxes. Accesses are numbered as in the row.
#include "mega/mega_bodies.h"

#include <math.h>

float mega_norm_factor(const float *x, int64_t n, double eps)
{
  float sum = 0;
  for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
  return 1 / sqrtf(sum / (float)n + (float)eps);
}

float mega_silu(float x) { return x / (1 + expf(-x)); }

void mega_body_embed(struct mega_task *t)
{
  int64_t rows = mega_extent(&t->box[0], 0), from = t->box[1].lo[1], n = mega_extent(&t->box[1], 1);
  for (int64_t r = 0; r < rows; r++) {
    float token = t->data[0][r];
    bool known = token >= 0 && token < (float)mega_extent(&t->box[1], 0);
    if (!known) t->fault = "a token is outside of the table";
    for (int64_t i = 0; i < n; i++) t->data[2][r * n + i] = known ? t->table[(int64_t)token * t->table_stride + from + i] : NAN;
  }
}

void mega_body_rmsnorm(struct mega_task *t)
{
  int64_t n = mega_extent(&t->box[0], 1);
  float f = mega_norm_factor(t->data[0], n, t->op->attr[MEGA_ATTR_eps]);
  for (int64_t i = 0; i < n; i++) t->data[2][i] = t->data[0][i] * t->data[1][i] * f;
}

void mega_body_add_slots(struct mega_task *t)
{
  int64_t n = mega_extent(&t->box[0], 0) * mega_extent(&t->box[0], 1);
  for (int64_t i = 0; i < n; i++) {
    float sum = t->data[0][i];
    for (int s = 1; s < t->slots; s++) sum += t->data[0][s * n + i];
    t->data[2][i] = t->data[1][i] + sum;
  }
}

void mega_body_silu_mul(struct mega_task *t)
{
  int64_t n = mega_extent(&t->box[0], 0) * mega_extent(&t->box[0], 1);
  for (int64_t i = 0; i < n; i++) t->data[2][i] = mega_silu(t->data[0][i]) * t->data[1][i];
}

// ---- products ----

struct mega_product { // y[r][j] += sum of x[r][i] gain[i] w(i, j), piece by piece along k
  const float *x, *gain;
  int64_t rows, k, n, from, count; // the piece: `count` elements of k from `from` on
  int64_t step_k, step_n;          // of w
};

static void add_piece(const struct mega_product *p, const float *w, float *y)
{
  for (int64_t r = 0; r < p->rows; r++)
    for (int64_t i = 0; i < p->count; i++) {
      int64_t at = p->from + i;
      float x = p->x[r * p->k + at] * (p->gain ? p->gain[at] : 1);
      for (int64_t j = 0; j < p->n; j++) y[r * p->n + j] += x * w[i * p->step_k + j * p->step_n];
    }
}

// Weights are [layer][k][n], or [n][k] of the head.
static void product(struct mega_task *t, const float *gain, float *y)
{
  const float *w;
  struct mega_product p = {.x = t->data[0], .gain = gain, .rows = mega_extent(&t->box[0], 0), .k = mega_extent(&t->box[0], 1)};
  while ((w = t->next(t))) {
    bool head = t->piece_rank == 2;
    p.from = t->piece.lo[1], p.count = mega_extent(&t->piece, 1), p.n = mega_extent(&t->piece, head ? 0 : 2);
    p.step_k = head ? 1 : p.n, p.step_n = head ? p.count : 1;
    add_piece(&p, w, y);
  }
}

static void scale_rows(const struct mega_task *t, float *y, int64_t n)
{
  int64_t rows = mega_extent(&t->box[0], 0), k = mega_extent(&t->box[0], 1);
  for (int64_t r = 0; r < rows; r++) {
    float f = mega_norm_factor(t->data[0] + r * k, k, t->op->attr[MEGA_ATTR_eps]);
    for (int64_t j = 0; j < n; j++) y[r * n + j] *= f;
  }
}

void mega_body_linear(struct mega_task *t) { product(t, NULL, t->data[2]); }

void mega_body_rmsnorm_linear(struct mega_task *t)
{
  product(t, t->data[1], t->data[3]);
  scale_rows(t, t->data[3], mega_extent(&t->box[3], 1));
}

void mega_body_rmsnorm_head(struct mega_task *t) { mega_body_rmsnorm_linear(t); }

void mega_body_linear_with_residual(struct mega_task *t)
{
  int64_t n = mega_extent(&t->box[3], 0) * mega_extent(&t->box[3], 1);
  product(t, NULL, t->data[3]);
  for (int64_t i = 0; i < n; i++) t->data[3][i] += t->data[2][i];
}

// Merges the parts of each row in place, and moves the row to its place in [rows][k].
static void merge_product(struct mega_task *t, float *y)
{
  int64_t rows = mega_extent(&t->box[0], 0), parts = mega_extent(&t->box[0], 1), k = mega_extent(&t->box[0], 2), heads = mega_extent(&t->box[1], 2);
  for (int64_t r = 0; r < rows; r++) {
    float *x = t->data[0] + r * parts * k;
    mega_attention_merge(x, t->data[1] + r * parts * heads * 2, parts, heads, k / heads);
    for (int64_t i = 0; i < k; i++) t->data[0][r * k + i] = x[i];
  }
  t->box[0].lo[1] = 0, t->box[0].hi[1] = k;
  product(t, NULL, y);
}

void mega_body_merge_linear(struct mega_task *t) { merge_product(t, t->data[3]); }

void mega_body_merge_linear_with_residual(struct mega_task *t)
{
  int64_t n = mega_extent(&t->box[4], 0) * mega_extent(&t->box[4], 1);
  merge_product(t, t->data[4]);
  for (int64_t i = 0; i < n; i++) t->data[4][i] += t->data[3][i];
}

// Pieces are [layer][2][k][n]: the weights of the gate, then those of the other product.
void mega_body_rmsnorm_gate_up(struct mega_task *t)
{
  const float *w;
  int64_t n = mega_extent(&t->box[3], 1), rows = mega_extent(&t->box[3], 0);
  struct mega_product p = {.x = t->data[0], .gain = t->data[1], .rows = rows, .k = mega_extent(&t->box[0], 1), .n = n, .step_k = n, .step_n = 1};
  while ((w = t->next(t))) {
    p.from = t->piece.lo[2], p.count = mega_extent(&t->piece, 2);
    add_piece(&p, w, t->data[3]);
    add_piece(&p, w + p.count * n, t->spare);
  }
  scale_rows(t, t->data[3], n), scale_rows(t, t->spare, n);
  for (int64_t i = 0; i < rows * n; i++) t->data[3][i] = mega_silu(t->data[3][i]) * t->spare[i];
}

// ---- the next token ----

void mega_body_argmax_partial(struct mega_task *t)
{
  int64_t rows = mega_extent(&t->box[0], 0), n = mega_extent(&t->box[0], 1);
  for (int64_t r = 0; r < rows; r++) {
    const float *x = t->data[0] + r * n;
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
      if (x[i] > x[best]) best = i;
    t->data[1][2 * r] = x[best], t->data[1][2 * r + 1] = (float)(t->columns + t->box[0].lo[1] + best);
  }
}

void mega_body_argmax(struct mega_task *t)
{
  int64_t parts = t->slots * mega_extent(&t->box[0], 1), best = 0;
  for (int64_t i = 1; i < parts; i++)
    if (t->data[0][2 * i] > t->data[0][2 * best]) best = i;
  t->data[1][0] = t->data[0][2 * best + 1];
}
