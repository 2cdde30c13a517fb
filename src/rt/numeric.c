// Generated code against float64. The reference is evaluated node by node, so that products, where nearly all the
// work of a large program is, can be done by a blocked loop on all cores; everything else is the interpreter's.
// Inputs are normal(0, 1). Where a reference value leaves the range of the dtype it is stored in (exp of a long dot
// product), the inputs are made smaller until none does, because no arithmetic in that dtype could be right there.
#include "eval/eval.h"
#include "gen/mica_cpu.h"
#include "rt/rt.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 4, COLS = 512, SHRINKS = 8 };

static const struct {
  double tolerance, largest;
} limits[DTYPES] = {[F16] = {5e-3, 65504}, [BF16] = {4e-2, 3e38}, [F32] = {1e-4, 3e38}};

struct reference {
  const struct graph *g;
  double **value; // of every tensor, malloc'd; NULL once nobody needs it
  int *readers;
  bool overflow;
};

// ---- products in float64 ----

struct product {
  const double *a, *b;
  double *c;
  int64_t m, n, k;
};

static void product_rows(void *arg, int piece, int worker)
{
  (void)worker;
  const struct product *p = arg;
  int64_t from = (int64_t)piece * ROWS, to = MIN(from + ROWS, p->m);
  for (int64_t j0 = 0; j0 < p->n; j0 += COLS) {
    int64_t width = MIN(COLS, p->n - j0);
    double sum[ROWS][COLS];
    memset(sum, 0, sizeof sum);
    for (int64_t k = 0; k < p->k; k++) {
      const double *row = p->b + k * p->n + j0;
      for (int64_t i = from; i < to; i++) {
        double x = p->a[i * p->k + k], *s = sum[i - from];
        for (int64_t j = 0; j < width; j++) s[j] += x * row[j];
      }
    }
    for (int64_t i = from; i < to; i++) memcpy(p->c + i * p->n + j0, sum[i - from], (size_t)width * sizeof **sum);
  }
}

// Offset of matrix number `at` (of the output's batch) in an operand whose leading extents may be 1 or missing.
static int64_t matrix_at(const struct shape *x, const struct shape *out, int64_t at)
{
  int64_t offset = 0, step = x->d[x->n - 1] * x->d[x->n - 2];
  for (int i = out->n - 3, k = x->n - 3; i >= 0; i--, k--) {
    int64_t index = at % out->d[i];
    at /= out->d[i];
    if (k >= 0 && x->d[k] > 1) offset += index * step;
    if (k >= 0) step *= x->d[k];
  }
  return offset;
}

static void multiply(struct reference *r, const struct node *n)
{
  const struct shape *x = &r->g->tensors[n->in[0]].shape, *y = &r->g->tensors[n->in[1]].shape,
                     *o = &r->g->tensors[n->out].shape;
  struct product p = {.m = o->d[o->n - 2], .n = o->d[o->n - 1], .k = x->d[x->n - 1]};
  int64_t batch = shape_size(o) / p.m / p.n;
  for (int64_t i = 0; i < batch; i++) {
    p.a = r->value[n->in[0]] + matrix_at(x, o, i), p.b = r->value[n->in[1]] + matrix_at(y, o, i);
    p.c = r->value[n->out] + i * p.m * p.n;
    pool_run(pool_cores(), (int)((p.m + ROWS - 1) / ROWS), product_rows, &p);
  }
}

// ---- everything else: a graph of one node for the interpreter ----

static int one_node(struct arena *mem, const struct graph *g, const struct node *n, struct graph **out, struct err *e)
{
  struct graph *o = *out = graph_new(mem, KERNEL, "node");
  int *in = NEWS(mem, int, n->nin + 1), t = 0, s = OK;
  for (int i = 0; i < n->nin && !s; i++) {
    const struct node *from = &g->nodes[g->tensors[n->in[i]].node];
    if (from->op == OP_CONST)
      s = graph_add(o, OP_CONST, 0, NULL, &from->a, NOWHERE, &in[i], e);
    else
      s = graph_input(o, NULL, g->tensors[n->in[i]].dtype, &g->tensors[n->in[i]].shape, NOWHERE, &in[i], e);
  }
  if (!s)
    s = n->sub ? graph_nest(o, n->sub, n->nin, in, n->at, &t, e) : graph_add(o, n->op, n->nin, in, &n->a, n->at, &t, e);
  for (int i = 0; i < n->nout && !s; i++) {
    int from = t + i;
    s = graph_add(o, OP_OUTPUT, 1, &from, NULL, NOWHERE, NULL, e);
  }
  return s;
}

static int interpret(struct reference *r, const struct node *n, struct err *e)
{
  struct arena mem = {0};
  struct graph *g;
  int s = one_node(&mem, r->g, n, &g, e), nin = 0;
  void **in = NEWS(&mem, void *, n->nin + 1), **out = NEWS(&mem, void *, n->nout + 1);
  for (int i = 0; i < n->nin; i++)
    if (r->g->nodes[r->g->tensors[n->in[i]].node].op != OP_CONST) in[nin++] = r->value[n->in[i]];
  if (!s) s = eval_run(&mem, g, DOM_F64, NULL, in, out, NULL, e);
  for (int i = 0; i < n->nout && !s; i++)
    memcpy(r->value[n->out + i], out[i], (size_t)shape_size(&r->g->tensors[n->out + i].shape) * sizeof(double));
  arena_close(&mem);
  return s;
}

static bool fits(const double *x, int64_t n, double largest)
{
  for (int64_t i = 0; i < n; i++)
    if (!(fabs(x[i]) <= largest)) return false;
  return true;
}

static int compute(struct reference *r, const struct node *n, struct err *e)
{
  for (int i = 0; i < n->nout; i++) {
    size_t bytes = (size_t)shape_size(&r->g->tensors[n->out + i].shape) * sizeof(double);
    if (!(r->value[n->out + i] = malloc(bytes)))
      return err_set(e, ERR_MEMORY, NOWHERE, "no memory for the float64 reference");
  }
  int s = OK;
  if (n->op == OP_MATMUL)
    multiply(r, n);
  else
    s = interpret(r, n, e);
  for (int i = 0; i < n->nout && !s; i++) {
    const struct tensor *t = &r->g->tensors[n->out + i];
    if (!fits(r->value[n->out + i], shape_size(&t->shape), limits[t->dtype].largest)) r->overflow = true;
  }
  return s;
}

static void release(struct reference *r, int t)
{
  if (--r->readers[t] > 0) return;
  free(r->value[t]);
  r->value[t] = NULL;
}

static void reference_close(struct reference *r)
{
  for (int t = 0; t < r->g->ntensors && r->value; t++) free(r->value[t]);
  free(r->value), free(r->readers);
}

// Every node in order; what was read for the last time is freed. Outputs and inputs stay.
static int reference_run(struct reference *r, const struct graph *g, double *const *inputs, struct err *e)
{
  *r = (struct reference){g, calloc((size_t)g->ntensors + 1, sizeof(double *)),
                          calloc((size_t)g->ntensors + 1, sizeof(int)), false};
  CHECK(r->value && r->readers);
  int in = 0, s = OK;
  for (int i = 0; i < g->nnodes; i++) {
    for (int k = 0; k < g->nodes[i].nin; k++)
      r->readers[g->nodes[i].in[k]] += g->nodes[i].op == OP_OUTPUT ? g->nnodes : 1;
  }
  for (int i = 0; i < g->nnodes && !s && !r->overflow; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op == OP_INPUT) {
      size_t bytes = (size_t)shape_size(&g->tensors[n->out].shape) * sizeof(double);
      if (!(r->value[n->out] = malloc(bytes)))
        return err_set(e, ERR_MEMORY, NOWHERE, "no memory for the float64 reference");
      memcpy(r->value[n->out], inputs[in++], bytes);
    } else if (n->op != OP_OUTPUT && n->op != OP_CONST) {
      s = compute(r, n, e);
      for (int k = 0; k < n->nin && !s; k++) release(r, n->in[k]);
    }
  }
  return s;
}

// ---- one comparison ----

static double read_one(enum dtype t, const void *p, int64_t i)
{
  float f;
  if (t == F32) return ((const float *)p)[i];
  if (t == F16) return m_f16_to_f32(((const uint16_t *)p)[i]);
  m_load_bf16(&f, (const uint16_t *)p + i, 1);
  return f;
}

// The device's rounding of the inputs, which are then what the reference reads.
static void store_inputs(const struct tensor *t, double *x, void *p, double scale)
{
  for (int64_t i = 0, n = shape_size(&t->shape); i < n; i++) {
    float f = (float)(x[i] * scale);
    if (t->dtype == F32)
      ((float *)p)[i] = f;
    else if (t->dtype == F16)
      ((uint16_t *)p)[i] = m_f32_to_f16(f);
    else
      m_store_bf16((uint16_t *)p + i, &f, 1);
    x[i] = read_one(t->dtype, p, i);
  }
}

static int compare(const struct tensor *t, const double *ref, const void *out, int which, double *rel, struct err *e)
{
  double diff = 0, norm = 0, largest = limits[t->dtype].largest;
  int64_t n = shape_size(&t->shape);
  for (int64_t i = 0; i < n; i++) {
    double y = read_one(t->dtype, out, i);
    if (!isfinite(y) && fabs(ref[i]) <= largest)
      return err_set(e, ERR_WRONG, NOWHERE, "output %d: element %lld is %g, and %g in float64", which, (long long)i, y,
                     ref[i]);
    if (!isfinite(y)) continue;
    diff += (y - ref[i]) * (y - ref[i]), norm += ref[i] * ref[i];
  }
  double r = norm > 0 ? sqrt(diff / norm) : sqrt(diff);
  *rel = fmax(*rel, r);
  if (r <= limits[t->dtype].tolerance) return OK;
  return err_set(e, ERR_WRONG, NOWHERE, "output %d differs from float64 by %.3g (relative, %s allows %.0e)", which, r,
                 dtype_name(t->dtype), limits[t->dtype].tolerance);
}

static int call_and_compare(struct module *m, const struct reference *r, struct buffers *b, double *rel, struct err *e)
{
  for (int i = 0; i < b->nout; i++) memset(b->out[i], 0xff, b->out_bytes[i]); // NaN in every dtype
  if (module_call(m, b->in, b->out)) return err_set(e, ERR_MEMORY, NOWHERE, "a generated function found no memory");
  int *outs = calloc((size_t)b->nout + 1, sizeof *outs), s = OK;
  CHECK(outs);
  graph_outputs(r->g, outs);
  for (int i = 0; i < b->nout && !s; i++) s = compare(&r->g->tensors[outs[i]], r->value[outs[i]], b->out[i], i, rel, e);
  free(outs);
  return s;
}

static int check_once(struct module *m, const struct graph *g, struct buffers *b, uint64_t seed, double *rel,
                      struct err *e)
{
  struct arena mem = {0};
  struct reference r = {g};
  void **inputs = NEWS(&mem, void *, b->nin + 1);
  int *ins = NEWS(&mem, int, b->nin + 1), s = OK;
  graph_inputs(g, ins);
  eval_random(&mem, g, DOM_F64, NULL, seed, inputs);
  for (int shrunk = 0; shrunk <= SHRINKS && !s; shrunk++) {
    for (int i = 0; i < b->nin; i++) store_inputs(&g->tensors[ins[i]], inputs[i], b->in[i], shrunk ? 0.25 : 1);
    reference_close(&r);
    s = reference_run(&r, g, (double *const *)inputs, e);
    if (!r.overflow) break;
  }
  if (!s)
    s = r.overflow ? err_set(e, ERR_WRONG, NOWHERE, "no random inputs keep the reference in the range of its dtypes")
                   : call_and_compare(m, &r, b, rel, e);
  reference_close(&r);
  arena_close(&mem);
  return s;
}

int check_numeric(struct module *m, const struct graph *reference, uint64_t seed, int repeats, double *rel,
                  struct err *e)
{
  struct buffers *b;
  *rel = 0;
  int s = buffers_open(reference, seed, &b, e);
  if (s) return s;
  for (int i = 0; i < repeats && !s; i++) s = check_once(m, reference, b, hash_mix(seed, (uint64_t)i), rel, e);
  buffers_close(b);
  return s;
}
