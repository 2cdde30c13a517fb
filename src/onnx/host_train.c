// One step of an optimizer: Momentum, Adagrad, Adam. Inputs are the learning rate, the step count, then all tensors, all gradients and all states;
// outputs are tensors and states.
#include "onnx/onnx_host.h"

#include <math.h>
#include <string.h>

struct train {
  double rate, steps, norm, alpha, beta, eps, after;
  bool nesterov;
};
// Updates x and its states s (two, the second optional) with gradient g.
typedef void train_step(const struct train *t, double g, double *x, double *s, double *s2);

static void momentum(const struct train *t, double g, double *x, double *s, double *s2)
{
  (void)s2;
  *s = t->alpha * *s + (t->steps > 0 ? t->beta : 1) * g;
  *x -= t->rate * (t->nesterov ? g + t->alpha * *s : *s);
}

static void adagrad(const struct train *t, double g, double *x, double *s, double *s2)
{
  (void)s2;
  *s += g * g, *x -= t->rate * g / (sqrt(*s) + t->eps);
}

static void adam(const struct train *t, double g, double *x, double *s, double *s2)
{
  double rate = t->steps > 0 ? t->rate * sqrt(1 - pow(t->beta, t->steps)) / (1 - pow(t->alpha, t->steps)) : t->rate;
  *s = t->alpha * *s + (1 - t->alpha) * g, *s2 = t->beta * *s2 + (1 - t->beta) * g * g;
  *x = (1 - t->after) * (*x - rate * *s / (sqrt(*s2) + t->eps));
}

// `each`: inputs for each tensor: itself, its gradient, its states.
static void train(struct onnx_host *h, const struct train *t, int each, train_step *step)
{
  int n = (h->nin - 2) / each;
  if (h->nin < 2 + each || (h->nin - 2) % each || h->n->nout != n * (each - 1)) return host_fail(h, "its tensors and states do not go together");
  for (int i = 0; i < n && !h->failed; i++) {
    const struct onnx_cells *x = host_in(h, 2 + i);
    struct onnx_cells *out[3] = {NULL};
    for (int k = 0; k < each; k++)
      if (!h->failed && host_real(h, 2 + i + k * n) && !shape_eq(&host_in(h, 2 + i + k * n)->shape, &x->shape))
        host_fail(h, "a state has another shape");
    for (int k = 0; k < each - 1; k++) out[k] = host_out(h, i + k * n, x->type, &x->shape);
    for (int64_t j = 0, all = onnx_elements(&x->shape); j < all && host_ready(h); j++) {
      double v = x->f[j], s = h->in[2 + i + 2 * n]->f[j], s2 = each > 3 ? h->in[2 + i + 3 * n]->f[j] : 0;
      step(t, t->norm * v + h->in[2 + i + n]->f[j], &v, &s, &s2);
      out[0]->f[j] = v, out[1]->f[j] = s;
      if (out[2]) out[2]->f[j] = s2;
    }
  }
}

static struct train train_of(struct onnx_host *h, double alpha, double beta)
{
  bool there = host_has(h, 0) && h->in[0]->p && host_has(h, 1) && h->in[1]->p;
  return (struct train){.rate = there ? host_scalar(h, 0, 0) : 0,
                        .steps = there ? host_scalar(h, 1, 0) : 0,
                        .norm = onnx_attr_real(h->n, "norm_coefficient", 0),
                        .alpha = onnx_attr_real(h->n, "alpha", alpha),
                        .beta = onnx_attr_real(h->n, "beta", beta),
                        .eps = onnx_attr_real(h->n, "epsilon", 1e-6),
                        .after = onnx_attr_real(h->n, "norm_coefficient_post", 0),
                        .nesterov = !strcmp(onnx_attr_text(h->n, "mode", ""), "nesterov")};
}

void host_momentum(struct onnx_host *h)
{
  struct train t = train_of(h, 0, 0);
  train(h, &t, 3, momentum);
}

void host_adagrad(struct onnx_host *h)
{
  struct train t = train_of(h, 0, 0);
  t.rate /= 1 + t.steps * onnx_attr_real(h->n, "decay_factor", 0);
  train(h, &t, 3, adagrad);
}

void host_adam(struct onnx_host *h)
{
  struct train t = train_of(h, 0.9, 0.999);
  train(h, &t, 4, adam);
}
