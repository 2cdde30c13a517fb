// A graph in float64, node by node, so that products, where nearly all the work of a large program is, can be done by
// a blocked loop on all cores; everything else is the interpreter's, elementwise operators and reductions by rows on all
// cores too.
#include "eval/eval.h"
#include "base/memory.h"
#include "rt/product64.h"
#include "rt/reference64.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { PIECE = 1 << 13, LARGE_PAGE = 2 << 20 };

// ---- products ----

static int pieces(int64_t n, int64_t size) { return (int)((n + size - 1) / size); }

static void multiply(struct reference64 *r, const struct node *n)
{
  const int a = n->in[0], b = n->in[1];
  const struct shape *x = &r->g->tensors[a].shape, *y = &r->g->tensors[b].shape, *o = &r->g->tensors[n->out].shape;
  const struct reference64_place of_a = reference64_place_of(r, a), of_b = reference64_place_of(r, b);
  struct product64 p = {.a = r->value[a], .b = r->value[b], .c = r->value[n->out], .stop = r->from->stop};
  p.m = o->d[o->n - 2], p.n = o->d[o->n - 1], p.k = x->d[x->n - 1], p.batch = shape_size(o) / p.m / p.n;
  p.a_row = of_a.stride[x->n - 2], p.a_col = of_a.stride[x->n - 1], p.b_row = of_b.stride[y->n - 2], p.b_col = of_b.stride[y->n - 1];
  int64_t *a_at = reference64_matrices(r, a, o, p.batch), *b_at = reference64_matrices(r, b, o, p.batch);
  p.a_at = a_at, p.b_at = b_at;
  product64_run(&p);
  mem_free(a_at), mem_free(b_at);
}

// ---- everything else: graphs of one node for the interpreter ----

// A part of a node's work: `rows` of the output along `dim`, from row `from` on. dim < 0: all of it.
struct reference64_part {
  int dim;
  int64_t from, rows;
};

// The dimension of input t that runs along dimension `dim` of the node's output; -1: none, all of the input is needed.
static int along(const struct reference64 *r, const struct node *n, int t, int dim)
{
  const struct shape *o = &r->g->tensors[n->out].shape, *x = &r->g->tensors[t].shape;
  int k = dim - (o->n - x->n);
  return dim >= 0 && k >= 0 && x->d[k] > 1 ? k : -1;
}

// Whether operand i is made in the graph of one node instead of given to it: a constant, and an index of a block with a running sum. By the index
// the interpreter sees that the block's triangle need not be computed, which has as many elements as the axis squared.
static bool is_made(const struct graph *g, const struct node *n, int i)
{
  const enum op op = g->nodes[g->tensors[n->in[i]].node].op;
  bool scans = false;
  for (int k = 0; op == OP_IOTA && n->sub && k < n->sub->nnodes && !scans; k++) scans = graph_scan(g, n, &n->sub->nodes[k]).triangle;
  return scans || op == OP_CONST;
}

static int one_node(struct arena *mem, const struct reference64 *r, const struct node *n, const struct reference64_part *part, struct graph **out,
                    struct err *e)
{
  const struct graph *g = r->g;
  struct graph *o = *out = graph_new(mem, KERNEL, "node");
  int *in = NEWS(mem, int, n->nin + 1), t = 0, s = OK;
  for (int i = 0; i < n->nin && !s; i++) {
    const struct node *from = &g->nodes[g->tensors[n->in[i]].node];
    struct tensor operand = g->tensors[n->in[i]];
    int k = along(r, n, n->in[i], part->dim);
    if (k >= 0) operand.shape.d[k] = part->rows;
    if (is_made(g, n, i))
      s = graph_add(o, from->op, 0, NULL, &from->a, NOWHERE, &in[i], e);
    else
      s = graph_input_as(o, NULL, operand.dtype, &operand, NOWHERE, &in[i], e);
  }
  if (!s) s = n->sub ? graph_nest(o, n->sub, n->nin, in, n->at, &t, e) : graph_add(o, n->op, n->nin, in, &n->a, n->at, &t, e);
  for (int i = 0; i < n->nout && !s; i++) {
    int from = t + i;
    s = graph_add(o, OP_OUTPUT, 1, &from, NULL, NOWHERE, NULL, e);
  }
  return s;
}

// Elements of a row of tensor t.
static int64_t row_size(const struct reference64 *r, int t, int dim)
{
  const struct shape *x = &r->g->tensors[t].shape;
  return dim < 0 ? 0 : shape_size(x) / x->d[dim];
}

// A product along a dimension that leaves the range of fp32 in some order of its factors is infinite, as it then is in code.
static int mark_orders(struct arena *mem, const struct reference64 *r, const struct graph *g, void **in, void **out, struct err *e)
{
  int nout = graph_outputs(g, NULL), *outs = NEWS(mem, int, nout + 1);
  void **worst = NEWS(mem, void *, nout + 1);
  TRY(eval_run(mem, g, DOM_FALLING, NULL, in, worst, r->from->stop, e));
  graph_outputs(g, outs);
  for (int i = 0; i < nout; i++) {
    double *x = out[i], *y = worst[i];
    for (int64_t k = 0, size = shape_size(&g->tensors[outs[i]].shape); k < size; k++)
      if (!isfinite(y[k]) && isfinite(x[k])) x[k] = INFINITY;
  }
  return OK;
}

static int interpret(struct reference64 *r, const struct node *n, const struct reference64_part *part, struct err *e)
{
  struct arena mem = {0};
  struct graph *g;
  int s = one_node(&mem, r, n, part, &g, e), nin = 0;
  void **in = NEWS(&mem, void *, n->nin + 1), **out = NEWS(&mem, void *, n->nout + 1);
  const bool orders = !s && eval_orders_count(g);
  for (int i = 0; i < n->nin; i++) {
    int t = n->in[i];
    if (is_made(r->g, n, i)) continue;
    in[nin++] = r->value[t] + part->from * row_size(r, t, along(r, n, t, part->dim));
  }
  const enum domain d = orders && r->from->nudge == NUDGE_DOWN ? DOM_RISING : n->sub && r->from->rounds ? DOM_ROUNDED : DOM_F64;
  if (!s) s = eval_run(&mem, g, d, NULL, in, out, r->from->stop, e);
  if (!s && orders && r->from->in_range) s = mark_orders(&mem, r, g, in, out, e);
  for (int i = 0; i < n->nout && !s; i++) {
    int64_t size = shape_size(&r->g->tensors[n->out + i].shape), row = row_size(r, n->out + i, part->dim);
    memcpy(r->value[n->out + i] + part->from * row, out[i], (size_t)(part->dim < 0 ? size : part->rows * row) * sizeof(double));
  }
  arena_close(&mem);
  return s;
}

// The first dimension of more than one row, where rows of the output depend on the same rows of the inputs only; else -1.
static int rows_dim(const struct reference64 *r, const struct node *n)
{
  enum rule rule = op_rows[n->op].rule;
  const struct shape *o = &r->g->tensors[n->out].shape;
  int dim = 0;
  if ((rule != RULE_MAP && rule != RULE_REDUCE) || n->nout != 1) return -1;
  while (dim < o->n && o->d[dim] == 1) dim++;
  if (dim == o->n || (rule == RULE_REDUCE && n->a.dim <= dim)) return -1;
  return dim;
}

struct parting {
  struct reference64 *r;
  const struct node *n;
  int dim;
  int64_t rows, all; // of a part, of the output
  struct err *e;     // by part
};

static void interpret_part(void *arg, int i, int worker)
{
  (void)worker;
  const struct parting *p = arg;
  struct reference64_part part = {p->dim, i * p->rows, MIN(p->rows, p->all - i * p->rows)};
  interpret(p->r, p->n, &part, &p->e[i]);
}

static int interpret_rows(struct reference64 *r, const struct node *n, struct err *e)
{
  int dim = rows_dim(r, n), status = OK;
  const struct reference64_part whole = {.dim = -1};
  if (dim < 0) return interpret(r, n, &whole, e);
  int64_t all = r->g->tensors[n->out].shape.d[dim], size = shape_size(&r->g->tensors[n->in[0]].shape);
  struct parting p = {r, n, dim, MAX(1, PIECE * all / MAX(size, 1)), all, NULL};
  int parts = pieces(all, p.rows);
  p.e = MEM_NEWS(struct err, parts);
  pool_run(pool_cores(), parts, interpret_part, &p);
  for (int i = 0; i < parts && status == OK; i++)
    if (p.e[i].status != OK) *e = p.e[i], status = (int)e->status;
  mem_free(p.e);
  return status;
}

struct range {
  const double *x;
  int64_t n;
  double largest;
  atomic_bool left; // by some element
};

static void check_piece(void *arg, int piece, int worker)
{
  (void)worker;
  struct range *r = arg;
  int64_t from = (int64_t)piece * PIECE, to = MIN(from + PIECE, r->n);
  bool in = true;
  for (int64_t i = from; i < to; i++) in &= fabs(r->x[i]) <= r->largest;
  if (!in) r->left = true;
}

static bool fits(const double *x, int64_t n, double largest)
{
  struct range r = {x, n, largest, false};
  pool_run(pool_cores(), pieces(n, PIECE), check_piece, &r);
  return !r.left;
}

// ---- memory of values ----

// Memory that was touched before is taken again: most of the time of a large elementwise operator would go into touching it first.
struct reference64_room {
  double *at;
  size_t bytes;
  int tensor; // -1: free
};

static double *new_room(struct reference64 *r, int t, size_t bytes)
{
  size_t whole = (bytes + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
  double *p = aligned_alloc(LARGE_PAGE, whole);
  if (!p) return NULL;
  madvise(p, whole, MADV_HUGEPAGE);
  r->room[r->nroom++] = (struct reference64_room){p, whole, t};
  return p;
}

// Free memory goes back to the system.
static void drop_free(struct reference64 *r)
{
  int n = 0;
  for (int i = 0; i < r->nroom; i++)
    if (r->room[i].tensor < 0)
      free(r->room[i].at);
    else
      r->room[n++] = r->room[i];
  for (int i = n; i < r->nroom; i++) r->room[i].at = NULL;
  r->nroom = n;
}

static double *values_of(struct reference64 *r, int t, size_t bytes)
{
  struct reference64_room *best = NULL;
  size_t free_bytes = 0;
  if (bytes < LARGE_PAGE) return mem_try(bytes);
  for (struct reference64_room *x = r->room; x < r->room + r->nroom; x++) {
    if (x->tensor >= 0) continue;
    free_bytes += x->bytes;
    if (x->bytes >= bytes && x->bytes / 2 <= bytes && (!best || x->bytes < best->bytes)) best = x;
  }
  if (!best && free_bytes < bytes) drop_free(r); // never more than twice what is needed
  if (!best) return new_room(r, t, bytes);
  return best->tensor = t, best->at;
}

static void give_back(struct reference64 *r, int t)
{
  int i = 0;
  while (i < r->nroom && r->room[i].tensor != t) i++;
  if (i < r->nroom)
    r->room[i].tensor = -1;
  else
    mem_free(r->value[t]);
  r->value[t] = NULL;
}

static int hold(struct reference64 *r, int t, struct err *e)
{
  size_t bytes = (size_t)shape_size(&r->g->tensors[t].shape) * sizeof(double);
  r->value[t] = values_of(r, t, bytes);
  if (!r->value[t]) drop_free(r), r->value[t] = values_of(r, t, bytes);
  if (r->value[t]) return OK;
  char text[256];
  tensor_words(text, &r->g->tensors[t]);
  return err_set(e, ERR_MEMORY, NOWHERE, "no memory for the float64 reference of %s: %zu bytes", text, bytes);
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
  if (stop_set(w->from->stop)) return;
  int64_t from = (int64_t)piece * PIECE, to = MIN(from + PIECE, w->n);
  w->from->read(w->from->arg, w->input, from, to, w->to + from);
}

// Large inputs need much memory in float64: each is converted when the first operator asks for it. A constant has one element.
static int fetch(struct reference64 *r, int t, struct err *e)
{
  const struct node *from = &r->g->nodes[r->g->tensors[t].node];
  if (r->value[t] || (from->op != OP_INPUT && from->op != OP_CONST)) return OK;
  if (hold(r, t, e) != OK) return (int)e->status;
  if (from->op == OP_CONST) return *r->value[t] = from->a.scalar, OK;
  int which = 0;
  for (int i = 0; i < r->g->tensors[t].node; i++) which += r->g->nodes[i].op == OP_INPUT;
  struct fetching w = {r->from, r->value[t], shape_size(&r->g->tensors[t].shape), which};
  pool_run(pool_cores(), pieces(w.n, PIECE), fetch_piece, &w);
  return OK;
}

static int stopped(const struct reference64 *r, struct err *e)
{
  return stop_set(r->from->stop) ? err_set(e, ERR_STOPPED, NOWHERE, "stopped before the float64 reference was computed") : OK;
}

static int compute(struct reference64 *r, const struct node *n, struct err *e)
{
  int s = OK;
  for (int i = 0; i < n->nin && !s; i++) s = fetch(r, n->in[i], e);
  if (reference64_is_view(r, n)) {
    r->same[n->out] = n->in[0], r->readers[n->in[0]]++; // until nobody reads the view
    return r->value[n->out] = r->value[n->in[0]], s;
  }
  for (int i = 0; i < n->nout && !s; i++) s = hold(r, n->out + i, e);
  if (!s) s = n->op == OP_MATMUL ? multiply(r, n), OK : interpret_rows(r, n, e);
  if (!s) s = stopped(r, e);
  for (int i = 0; i < n->nout && !s; i++) {
    const struct tensor *t = &r->g->tensors[n->out + i];
    int64_t size = shape_size(&t->shape);
    double *x = r->value[n->out + i];
    if (r->from->in_range && !fits(x, size, dtype_largest(t->dtype))) r->overflow = true;
    if (r->from->nudge && !t->whole && op_rows[n->op].rule != RULE_VIEW)
      nudge_values(x, size, t->dtype, r->from->nudge, r->from->turn + (uint64_t)n->out + (uint64_t)i);
    if (r->from->rounds) round_values(x, size, t->dtype);
  }
  return s;
}

static void release(struct reference64 *r, int t)
{
  if (--r->readers[t] || !r->value[t]) return;
  if (r->same[t] < 0) return give_back(r, t);
  r->value[t] = NULL;
  release(r, r->same[t]);
}

void reference64_close(struct reference64 *r)
{
  for (int t = 0; r->value && t < r->g->ntensors; t++)
    if (r->value[t] && r->same[t] < 0) give_back(r, t);
  drop_free(r);
  mem_free(r->value), mem_free(r->readers), mem_free(r->same), mem_free(r->room);
  r->value = NULL, r->readers = NULL, r->same = NULL, r->room = NULL;
}

// The rooms, which an empty one ends.
static void drop(void *rooms)
{
  for (const struct reference64_room *x = rooms; x->at; x++) free(x->at);
  mem_free(rooms);
}
static const struct mem_kind kind = {.close = drop};

// Outputs alone, by another device. NO: it does not compute this one.
static int on_device(struct reference64 *r, struct err *e)
{
  struct reference64_device *d = r->from->b ? r->from->b->device : NULL;
  const int nout = graph_outputs(r->g, NULL);
  if (!d) return NO;
  int *outs = MEM_NEWS(int, nout + 1), s = OK;
  double **to = MEM_NEWS(double *, nout + 1);
  graph_outputs(r->g, outs);
  for (int i = 0; i < nout && !s; i++) {
    if (!r->value[outs[i]]) s = hold(r, outs[i], e);
    to[i] = r->value[outs[i]];
  }
  if (!s) s = d->run(d, r->g, r->from, to, &r->overflow, e);
  for (int i = 0; i < nout && s; i++)
    if (r->value[outs[i]]) give_back(r, outs[i]);
  return mem_free(outs), mem_free(to), s;
}

// A tensor is freed after its last read.
int reference64_run(struct reference64 *r, const struct graph *g, const struct reference64_from *from, struct err *e)
{
  *r = (struct reference64){.g = g, .from = from};
  r->value = MEM_NEWS(double *, g->ntensors + 1), r->readers = MEM_NEWS(int, g->ntensors + 1);
  r->same = MEM_NEWS(int, g->ntensors + 1);
  for (int t = 0; t < g->ntensors; t++) r->same[t] = -1;
  r->room = mem_handle(sizeof *r->room * (size_t)(g->ntensors + 1), &kind);
  int s = on_device(r, e);
  if (s != NO) return s;
  s = OK;
  for (int i = 0; i < g->nnodes; i++) {
    for (int k = 0; k < g->nodes[i].nin; k++) r->readers[g->nodes[i].in[k]] += g->nodes[i].op == OP_OUTPUT ? g->nnodes : 1;
  }
  for (int i = 0; i < g->nnodes && !s && !r->overflow; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op == OP_INPUT || n->op == OP_CONST) continue;
    s = stopped(r, e);
    if (!s) s = n->op == OP_OUTPUT ? fetch(r, n->in[0], e) : compute(r, n, e);
    for (int k = 0; k < n->nin && !s && n->op != OP_OUTPUT; k++) release(r, n->in[k]);
  }
  return s;
}

double reference64_products(const struct graph *g)
{
  double sum = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct shape *x = g->nodes[i].nin ? &g->tensors[g->nodes[i].in[0]].shape : NULL;
    if (g->nodes[i].op == OP_MATMUL) sum += (double)shape_size(&g->tensors[g->nodes[i].out].shape) * (double)x->d[x->n - 1];
  }
  return sum;
}
