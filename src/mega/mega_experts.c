// Task bodies of experts in C, float32: the choice of experts for a row, and their products. The pipeline copies the chosen experts' weights in the
// order of the choices.
#include "mega/mega_bodies.h"

#include <math.h>

// A NaN score counts as the smallest.
static float score_of(float x) { return x == x ? x : -INFINITY; }

// The expert with the largest score among those that are not chosen yet; the first of equal ones.
static int64_t best_left(const float *x, int64_t n, const float *chosen, int64_t count)
{
  int64_t best = -1;
  for (int64_t i = 0; i < n; i++) {
    bool taken = false;
    for (int64_t c = 0; c < count; c++) taken |= (int64_t)chosen[2 * c] == i;
    if (!taken && (best < 0 || score_of(x[i]) > score_of(x[best]))) best = i;
  }
  return best;
}

void mega_body_choose_experts(struct mega_task *t)
{
  const float *x = t->data[0];
  float *chosen = t->data[1], sum = 0;
  int64_t n = mega_extent(&t->box[0], 1), choices = mega_extent(&t->box[1], 1);
  for (int64_t c = 0; c < choices; c++) {
    int64_t best = best_left(x, n, chosen, c);
    chosen[2 * c] = (float)best, chosen[2 * c + 1] = expf(score_of(x[best]) - score_of(x[(int64_t)chosen[0]]));
    sum += chosen[2 * c + 1];
  }
  for (int64_t c = 0; c < choices; c++) chosen[2 * c + 1] /= sum;
}

// y[j] += scale * sum of x[i] gain[i] w[i][j] over `count` elements of k.
static void add_rows(const float *x, const float *gain, float scale, const float *w, int64_t count, int64_t n, float *y)
{
  for (int64_t i = 0; i < count; i++) {
    float v = x[i] * scale * (gain ? gain[i] : 1);
    for (int64_t j = 0; j < n; j++) y[j] += v * w[i * n + j];
  }
}

// Pieces are [layer][expert][2][k][n] of one expert: the weights of the gate, then those of the other product.
void mega_body_rmsnorm_experts_gate_up(struct mega_task *t)
{
  int64_t k = mega_extent(&t->box[0], 1), n = mega_extent(&t->box[4], 2);
  const float *x = t->data[0], *gain = t->data[1], *w;
  float *y = t->data[4], *up = t->spare, f = mega_norm_factor(x, k, t->op->attr[MEGA_ATTR_eps]);
  while ((w = t->next(t))) {
    int64_t from = t->piece.lo[3], count = mega_extent(&t->piece, 3);
    add_rows(x + from, gain + from, f, w, count, n, y), add_rows(x + from, gain + from, f, w + count * n, count, n, up);
  }
  for (int64_t i = 0; i < n; i++) y[i] = mega_silu(y[i]) * up[i];
}

// Pieces are [layer][expert][k][n], expert by expert. Each expert begins with a piece from 0 along k.
void mega_body_experts_with_residual(struct mega_task *t)
{
  int64_t k = mega_extent(&t->box[0], 2), n = mega_extent(&t->box[4], 1), choice = -1;
  const float *w;
  float *y = t->data[4];
  while ((w = t->next(t))) {
    int64_t from = t->piece.lo[2];
    choice += from == 0;
    add_rows(t->data[0] + choice * k + from, NULL, t->data[1][2 * choice + 1], w, mega_extent(&t->piece, 2), n, y);
  }
  for (int64_t i = 0; i < n; i++) y[i] += t->data[3][i];
}
