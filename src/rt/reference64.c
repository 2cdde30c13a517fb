// A graph in float64, node by node, so that products, where nearly all the work of a large program is, can be done by
// a blocked loop on all cores; everything else is the interpreter's.
#include "eval/eval.h"
#include "rt/rt.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 32, COLS = 256, DEEP = 64, PIECE = 1 << 16 };

double dtype_largest(enum dtype t) { return t == F16 ? 65504 : 3e38; }

// ---- products in float64 ----

struct product {
  const double *a, *b;
  double *c;
  int64_t m, n, k;
};

// to += x[0] * row[0] + x[1] * row[1] + ...
static void add_rows(double *restrict to, const double *x, const double *row, int64_t stride, int64_t rows,
                     int64_t width)
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

static void multiply(struct reference64 *r, const struct node *n)
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

static int interpret(struct reference64 *r, const struct node *n, struct err *e)
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

static int hold(struct reference64 *r, int t, struct err *e)
{
  size_t bytes = (size_t)shape_size(&r->g->tensors[t].shape) * sizeof(double);
  r->value[t] = malloc(bytes);
  return r->value[t] ? OK : err_set(e, ERR_MEMORY, NOWHERE, "no memory for the float64 reference");
}

struct fetching {
  const struct reference64_from *from;
  double *to;
  int64_t n;
  int input;
};

static void fetch_piece(void *arg, int piece, int worker)
{
  (void)worker;
  const struct fetching *w = arg;
  int64_t from = (int64_t)piece * PIECE, to = MIN(from + PIECE, w->n);
  w->from->read(w->from->arg, w->input, from, to, w->to + from);
}

// Large inputs need much memory in float64: each is converted when the first operator asks for it.
static int fetch(struct reference64 *r, int t, struct err *e)
{
  if (r->value[t] || r->g->nodes[r->g->tensors[t].node].op != OP_INPUT) return OK;
  if (hold(r, t, e) != OK) return (int)e->status;
  int which = 0;
  for (int i = 0; i < r->g->tensors[t].node; i++) which += r->g->nodes[i].op == OP_INPUT;
  struct fetching w = {r->from, r->value[t], shape_size(&r->g->tensors[t].shape), which};
  pool_run(pool_cores(), pieces(w.n, PIECE), fetch_piece, &w);
  return OK;
}

static int compute(struct reference64 *r, const struct node *n, struct err *e)
{
  int s = OK;
  for (int i = 0; i < n->nin && !s; i++) s = fetch(r, n->in[i], e);
  for (int i = 0; i < n->nout && !s; i++) s = hold(r, n->out + i, e);
  if (!s) s = n->op == OP_MATMUL ? multiply(r, n), OK : interpret(r, n, e);
  for (int i = 0; i < n->nout && !s; i++) {
    const struct tensor *t = &r->g->tensors[n->out + i];
    if (r->from->in_range && !fits(r->value[n->out + i], shape_size(&t->shape), dtype_largest(t->dtype)))
      r->overflow = true;
  }
  return s;
}

static void release(struct reference64 *r, int t)
{
  if (--r->readers[t] > 0) return;
  free(r->value[t]);
  r->value[t] = NULL;
}

void reference64_close(struct reference64 *r)
{
  for (int t = 0; r->value && t < r->g->ntensors; t++) free(r->value[t]);
  free(r->value), free(r->readers);
}

// What was read for the last time is freed.
int reference64_run(struct reference64 *r, const struct graph *g, const struct reference64_from *from, struct err *e)
{
  *r = (struct reference64){g, from, calloc((size_t)g->ntensors + 1, sizeof(double *)),
                            calloc((size_t)g->ntensors + 1, sizeof(int)), false};
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

double reference64_products(const struct graph *g)
{
  double sum = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct shape *x = g->nodes[i].nin ? &g->tensors[g->nodes[i].in[0]].shape : NULL;
    if (g->nodes[i].op == OP_MATMUL)
      sum += (double)shape_size(&g->tensors[g->nodes[i].out].shape) * (double)x->d[x->n - 1];
  }
  return sum;
}
