#include "evaluate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct graph *expanded(struct arena *mem, const struct graph *g, bool stable)
{
  struct err e = {0};
  struct graph *out;
  if (graph_expand(mem, g, stable, &out, &e) || graph_check(out, &e)) fail_msg("%s", e.text);
  return out;
}

struct graph *test_graph(struct arena *mem, const char *text, bool stable)
{
  struct err e = {0};
  struct graph *g;
  if (front_parse(mem, text, strlen(text), "test", 0, NULL, &g, &e)) fail_msg("%s\n%d: %s", text, e.at.line, e.text);
  return expanded(mem, g, stable);
}

struct graph *test_load(struct arena *mem, const char *path)
{
  struct err e = {0};
  struct graph *g;
  if (front_load(mem, path, 0, NULL, &g, &e)) fail_msg("%s: %s", path, e.text);
  return expanded(mem, g, false);
}

void test_inputs(struct arena *mem, const struct graph *g, enum domain d, struct field *F, double scale, struct values *v)
{
  int in[TEST_INPUTS];
  v->d = d, v->nin = graph_inputs(g, in);
  assert_true(v->nin <= TEST_INPUTS);
  eval_random(mem, g, d, F, 7, v->in);
  for (int k = 0; k < v->nin; k++)
    for (int64_t i = 0; i < shape_size(&g->tensors[in[k]].shape); i++) {
      if (d == DOM_F64) ((double *)v->in[k])[i] *= scale;
      if (d == DOM_F32) ((float *)v->in[k])[i] *= (float)scale;
    }
}

void test_run(struct arena *mem, const struct graph *g, struct field *F, struct values *v)
{
  struct err e = {0};
  int out[TEST_INPUTS];
  v->nout = graph_outputs(g, out);
  for (int i = 0; i < v->nout; i++) v->shape[i] = g->tensors[out[i]].shape, v->size[i] = shape_size(&v->shape[i]);
  if (eval_run(mem, g, v->d, F, v->in, v->out, NULL, &e)) fail_msg("%s", e.text);
}

double test_real(const struct values *v, int output, int64_t i)
{
  return v->d == DOM_F64 ? ((const double *)v->out[output])[i] : (double)((const float *)v->out[output])[i];
}

static bool same(const struct values *a, const struct values *b, int k, int64_t i, double tolerance)
{
  if (a->d == DOM_FIELD) {
    struct ffv x = ((const struct ffv *)a->out[k])[i], y = ((const struct ffv *)b->out[k])[i];
    return x.p == y.p && (ff_lost2(x, y) || x.q == y.q);
  }
  double x = test_real(a, k, i), y = test_real(b, k, i);
  return (isnan(x) && isnan(y)) || x == y || fabs(x - y) <= tolerance * (1 + fabs(x));
}

void test_equal(const char *name, const struct values *a, const struct values *b, double tolerance)
{
  assert_int_equal(a->nout, b->nout);
  for (int k = 0; k < a->nout; k++) {
    if (!shape_eq(&a->shape[k], &b->shape[k])) fail_msg("%s: output %d has other shapes", name, k);
    for (int64_t i = 0; i < a->size[k]; i++)
      if (!same(a, b, k, i, tolerance)) fail_msg("%s: output %d differs at %lld (domain %d)", name, k, (long long)i, a->d);
  }
}
