// Classification losses: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss.
#include "onnx/onnx_host.h"

#include <math.h>
#include <string.h>

struct loss {
  const struct onnx_cells *x, *target, *weight;
  struct host_lanes l; // lanes of scores along the classes
  bool ignores, mean, none;
  int64_t ignored;
};

static bool loss_of(struct onnx_host *h, struct loss *p)
{
  const struct onnx_attr *ignore = onnx_attr(h->n, "ignore_index");
  const char *how = onnx_attr_text(h->n, "reduction", "mean");
  *p = (struct loss){.x = host_in(h, 0),
                     .target = host_in(h, 1),
                     .weight = host_has(h, 2) ? h->in[2] : NULL,
                     .ignores = ignore,
                     .mean = !strcmp(how, "mean"),
                     .none = !strcmp(how, "none"),
                     .ignored = ignore ? ignore->i : 0};
  if (!p->mean && !p->none && strcmp(how, "sum")) host_fail(h, "its reduction is not known");
  if (!host_real(h, 0) || !host_whole(h, 1) || !host_real(h, 2)) return false;
  const struct shape *s = &p->x->shape, *t = &p->target->shape;
  bool fits = s->n >= 2 && t->n == s->n - 1 && t->d[0] == s->d[0] && (!p->weight || onnx_elements(&p->weight->shape) == s->d[1]);
  for (int i = 2; i < s->n && fits; i++) fits = s->d[i] == t->d[i - 1];
  if (!fits) return host_fail(h, "its scores, targets and weights do not fit"), false;
  p->l = host_lanes(s, 1);
  return true;
}

// Computes output 0 from log probabilities.
static void likelihood(struct onnx_host *h, const struct loss *p, const double *logs)
{
  struct onnx_cells *y = host_out(h, 0, p->x->type, p->none ? &p->target->shape : &(struct shape){0});
  double sum = 0, weights = 0;
  for (int64_t lane = 0; lane < p->l.n && !h->failed && y->p; lane++) {
    int64_t c = p->target->i[lane];
    bool out = p->ignores && c == p->ignored;
    if (!out && (c < 0 || c >= p->l.d)) return host_fail(h, "class %lld of %lld", (long long)c, (long long)p->l.d);
    double w = out ? 0 : p->weight ? p->weight->f[c] : 1, one = out ? 0 : -w * logs[host_lane(&p->l, lane) + c * p->l.step];
    if (p->none) y->f[lane] = one;
    sum += one, weights += w;
  }
  if (!h->failed && y->p && !p->none) y->f[0] = p->mean ? sum / weights : sum;
}

void host_nll_loss(struct onnx_host *h)
{
  struct loss p;
  if (loss_of(h, &p)) likelihood(h, &p, p.x->f);
}

void host_cross_entropy(struct onnx_host *h)
{
  struct loss p;
  if (!loss_of(h, &p)) return;
  int64_t n = onnx_elements(&p.x->shape);
  double *logs = arena_alloc(h->mem, 8 * (size_t)MAX(host_ready(h) ? n : 0, 1));
  for (int64_t lane = 0; lane < p.l.n && host_ready(h); lane++) {
    const double *x = p.x->f + host_lane(&p.l, lane);
    double most = -INFINITY, sum = 0;
    for (int64_t k = 0; k < p.l.d; k++) most = fmax(most, x[k * p.l.step]);
    for (int64_t k = 0; k < p.l.d; k++) sum += exp(x[k * p.l.step] - most);
    for (int64_t k = 0; k < p.l.d; k++) logs[host_lane(&p.l, lane) + k * p.l.step] = x[k * p.l.step] - most - log(sum);
  }
  likelihood(h, &p, logs);
  if (h->failed || h->n->nout < 2 || !*h->n->out_name[1]) return;
  struct onnx_cells *all = host_out(h, 1, p.x->type, &p.x->shape);
  if (!h->failed && all->p) memcpy(all->p, logs, 8 * (size_t)n);
}
