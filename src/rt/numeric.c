// Generated code against float64. The reference is evaluated node by node, so that products, where nearly all the
// work of a large program is, can be done by a blocked loop on all cores; everything else is the interpreter's.
// Inputs have mean 0 and variance 1. Where a reference value leaves the range of the dtype it is stored in (exp of a
// long dot product), the inputs are made smaller until none does, because no arithmetic in that dtype could be right.
#include "eval/eval.h"
#include "gen/mica_cpu.h"
#include "rt/rt.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 32, COLS = 256, DEEP = 64, PIECE = 1 << 16, SHRINKS = 8 };
static const double LARGE = 1e9; // multiply-adds of a reference from which on one comparison must do


static const struct {
  double tolerance, largest;
} limits[DTYPES] = {[F16] = {5e-3, 65504}, [BF16] = {4e-2, 3e38}, [F32] = {1e-4, 3e38}};

struct reference {
  const struct graph *g;
  const struct buffers *b; // inputs as the device has them
  double **value;          // of every tensor, malloc'd; NULL before the first and after the last that needs it
  int *readers;
  bool overflow;
};

// ---- products in float64 ----

struct product {
  const double *a, *b;
  double *c;
  int64_t m, n, k;
};

// to += x[0] * row[0] + x[1] * row[1] + ...
static void add_rows(double *restrict to, const double *x, const double *row, int64_t stride, int64_t rows, int64_t width)
{
  int64_t k = 0;
  for (; k + 4 <= rows; k += 4, row += 4 * stride) {
    const double *r1 = row + stride, *r2 = r1 + stride, *r3 = r2 + stride;
    double x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3];
    for (int64_t j = 0; j < width; j++) to[j] += x0 * row[j] + x1 * r1[j] + (x2 * r2[j] + x3 * r3[j]);
  }
  for (; k < rows; k++, row += stride)
    for (int64_t j = 0; j < width; j++) to[j] += x[k] * row[j];
}

static int pieces(int64_t n, int64_t size) { return (int)((n + size - 1) / size); }

static void product_tile(void *arg, int piece, int worker)
{
  (void)worker;
  const struct product *p = arg;
  int wide = pieces(p->n, COLS);
  int64_t i0 = (int64_t)(piece / wide) * ROWS, j0 = (int64_t)(piece % wide) * COLS, width = MIN(COLS, p->n - j0);
  for (int64_t k0 = 0; k0 < p->k; k0 += DEEP)
    for (int64_t i = i0; i < MIN(i0 + ROWS, p->m); i++) {
      double *to = p->c + i * p->n + j0;
      if (!k0) memset(to, 0, (size_t)width * sizeof *to);
      add_rows(to, p->a + i * p->k + k0, p->b + k0 * p->n + j0, p->n, MIN(DEEP, p->k - k0), width);
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
    pool_run(pool_cores(), pieces(p.m, ROWS) * pieces(p.n, COLS), product_tile, &p);
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

static int hold(struct reference *r, int t, struct err *e)
{
  size_t bytes = (size_t)shape_size(&r->g->tensors[t].shape) * sizeof(double);
  r->value[t] = malloc(bytes);
  return r->value[t] ? OK : err_set(e, ERR_MEMORY, NOWHERE, "no memory for the float64 reference");
}

static double read_one(enum dtype t, const void *p, int64_t i)
{
  float f;
  if (t == F32) return ((const float *)p)[i];
  if (t == F16) return m_f16_to_f32(((const uint16_t *)p)[i]);
  m_load_bf16(&f, (const uint16_t *)p + i, 1);
  return f;
}

struct widening {
  enum dtype dtype;
  const void *from;
  double *to;
  int64_t n;
};

static void widen(void *arg, int piece, int worker)
{
  (void)worker;
  const struct widening *w = arg;
  int64_t from = (int64_t)piece * PIECE, to = MIN(from + PIECE, w->n);
  for (int64_t i = from; i < to; i++) w->to[i] = read_one(w->dtype, w->from, i);
}

// Large inputs need much memory in float64: each is converted when the first operator asks for it.
static int fetch(struct reference *r, int t, struct err *e)
{
  if (r->value[t] || r->g->nodes[r->g->tensors[t].node].op != OP_INPUT) return OK;
  if (hold(r, t, e) != OK) return (int)e->status;
  int which = 0;
  for (int i = 0; i < r->g->tensors[t].node; i++) which += r->g->nodes[i].op == OP_INPUT;
  const struct tensor *x = &r->g->tensors[t];
  struct widening w = {x->dtype, r->b->in[which], r->value[t], shape_size(&x->shape)};
  pool_run(pool_cores(), pieces(w.n, PIECE), widen, &w);
  return OK;
}

static int compute(struct reference *r, const struct node *n, struct err *e)
{
  int s = OK;
  for (int i = 0; i < n->nin && !s; i++) s = fetch(r, n->in[i], e);
  for (int i = 0; i < n->nout && !s; i++) s = hold(r, n->out + i, e);
  if (!s) s = n->op == OP_MATMUL ? multiply(r, n), OK : interpret(r, n, e);
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

// Every node in order; what was read for the last time is freed. Outputs stay.
static int reference_run(struct reference *r, const struct graph *g, const struct buffers *b, struct err *e)
{
  *r = (struct reference){g, b, calloc((size_t)g->ntensors + 1, sizeof(double *)), calloc((size_t)g->ntensors + 1, sizeof(int)), false};
  CHECK(r->value && r->readers);
  int s = OK;
  for (int i = 0; i < g->nnodes; i++) {
    for (int k = 0; k < g->nodes[i].nin; k++)
      r->readers[g->nodes[i].in[k]] += g->nodes[i].op == OP_OUTPUT ? g->nnodes : 1;
  }
  for (int i = 0; i < g->nnodes && !s && !r->overflow; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op == OP_INPUT || n->op == OP_CONST) continue;
    s = n->op == OP_OUTPUT ? fetch(r, n->in[0], e) : compute(r, n, e);
    for (int k = 0; k < n->nin && !s && n->op != OP_OUTPUT; k++) release(r, n->in[k]);
  }
  return s;
}

// ---- one comparison ----

static void shrink_inputs(const struct graph *g, const int *ins, struct buffers *b, float scale)
{
  for (int i = 0; i < b->nin; i++) {
    const struct tensor *t = &g->tensors[ins[i]];
    for (int64_t k = 0, n = shape_size(&t->shape); k < n; k++) {
      float f = (float)read_one(t->dtype, b->in[i], k) * scale;
      if (t->dtype == F32) ((float *)b->in[i])[k] = f;
      else if (t->dtype == F16) ((uint16_t *)b->in[i])[k] = m_f32_to_f16(f);
      else m_store_bf16((uint16_t *)b->in[i] + k, &f, 1);
    }
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

static int check_once(struct module *m, const struct graph *g, uint64_t seed, double *rel, struct err *e)
{
  struct buffers *b;
  int s = buffers_open(g, seed, &b, e);
  if (s) return s;
  struct reference r = {g};
  int *ins = calloc((size_t)b->nin + 1, sizeof *ins);
  CHECK(ins);
  graph_inputs(g, ins);
  for (int shrunk = 0; shrunk <= SHRINKS && !s; shrunk++) {
    if (shrunk) shrink_inputs(g, ins, b, 0.25f);
    reference_close(&r);
    s = reference_run(&r, g, b, e);
    if (!r.overflow) break;
  }
  if (!s)
    s = r.overflow ? err_set(e, ERR_WRONG, NOWHERE, "no random inputs keep the reference in the range of its dtypes")
                   : call_and_compare(m, &r, b, rel, e);
  reference_close(&r);
  free(ins);
  buffers_close(b);
  return s;
}

static double products(const struct graph *g)
{
  double sum = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct shape *x = g->nodes[i].nin ? &g->tensors[g->nodes[i].in[0]].shape : NULL;
    if (g->nodes[i].op == OP_MATMUL) sum += (double)shape_size(&g->tensors[g->nodes[i].out].shape) * (double)x->d[x->n - 1];
  }
  return sum;
}

int check_numeric(struct module *m, const struct graph *reference, uint64_t seed, int repeats, double *rel, struct err *e)
{
  int s = OK;
  *rel = 0;
  if (products(reference) > LARGE) repeats = 1;
  for (int i = 0; i < repeats && !s; i++) s = check_once(m, reference, hash_mix(seed, (uint64_t)i), rel, e);
  return s;
}
