// Plain kernels: for each index rule, the definitions for plain.cuh and the arguments. Scalar expressions are the rows' FLOAT. The text has no shape,
// so that all nodes of an operator share a kernel.
#include "gpu/plain.h"
#include "rt/rt.h"

#include <string.h>

extern const char gpu_plain_text[];

enum { LONG = 256, LONG_COLUMN = 4096, FEW = 1 << 14 }; // elements of a row, and of a column, that a block reduces together; few results

// ---- definitions ----

static void word(struct str *s, const char *name, const char *x) { str_add(s, "#define PLAIN_%s %s\n", name, x); }

static void dtype(struct plain_args *a, enum dtype t)
{
  const struct num_row *f = &num_rows[t];
  a->exponent = f->exponent, a->mantissa = f->mantissa, a->bits = f->bits, a->special = f->special;
  a->largest = num_largest(f), a->underflow = num_underflow(f), a->tiny = special_tiny(t);
}

static void begin(struct plain_kernel *k, enum dtype t, int64_t size)
{
  k->args = (struct plain_args){.size = size, .seed = -1};
  dtype(&k->args, t);
}

// Tensor t, which a kernel computes. A view is perturbed already.
static void made(struct plain_kernel *k, const struct graph *g, int t)
{
  const struct tensor *x = &g->tensors[t];
  begin(k, x->dtype, shape_size(&x->shape));
  if (!x->whole && op_rows[g->nodes[x->node].op].rule != RULE_VIEW) k->args.seed = t;
}

void plain_without_includes(struct str *s, const char *text)
{
  for (const char *line = text; *line;) {
    const size_t n = strcspn(line, "\n");
    if (strncmp(line, "#include", 8) != 0) str_add(s, "%.*s\n", (int)n, line);
    line += n + (line[n] == '\n');
  }
}

// Equal kernels get the same name.
static void end(struct plain_kernel *k)
{
  const uint64_t hash = hash_bytes(str_text(&k->text), k->text.n, 1);
  str_add(&k->text, "#define PLAIN_NAME plain_%016llx\n", (unsigned long long)hash);
  plain_without_includes(&k->text, gpu_plain_text);
}

static int64_t blocks_of(int64_t n) { return MAX(1, (n + PLAIN_THREADS - 1) / PLAIN_THREADS); }

void plain_mode_text(enum plain_mode m, struct plain_kernel *k)
{
  static const int bits[PLAIN_MODES] = {[PLAIN_ROUNDED] = PLAIN_ROUNDS,
                                        [PLAIN_ROUNDED_FLUSHED] = PLAIN_ROUNDS | PLAIN_FLUSHES,
                                        [PLAIN_NUDGED_DOWN] = PLAIN_DOWN,
                                        [PLAIN_NUDGED_EITHER] = PLAIN_EITHER};
  begin(k, F32, 1);
  k->args.mode = bits[m];
  word(&k->text, "MODE", "1");
  k->blocks = 1;
  end(k);
}

void plain_input_text(const struct tensor *t, struct plain_kernel *k)
{
  begin(k, t->dtype, shape_size(&t->shape));
  word(&k->text, "INPUT", "1");
  k->blocks = blocks_of(k->args.size);
  end(k);
}

// ---- indices ----

// Adds a dimension inside the others: its extent, and the stride of the first operand, of the second and of the result. Dimensions that are
// contiguous in all three become one.
static void axis(struct plain_args *a, int64_t extent, int64_t x, int64_t y, int64_t at)
{
  const int64_t last = a->dims - 1;
  if (extent == 1) return;
  if (a->dims && a->x[last] == x * extent && a->y[last] == y * extent && a->at[last] == at * extent) {
    a->extent[last] *= extent, a->x[last] = x, a->y[last] = y, a->at[last] = at;
    return;
  }
  const int64_t d = a->dims++;
  a->extent[d] = extent, a->x[d] = x, a->y[d] = y, a->at[d] = at;
}

static void own_strides(const struct shape *x, int64_t *stride)
{
  int64_t step = 1;
  for (int d = x->n - 1; d >= 0; step *= x->d[d--]) stride[d] = step;
}

// The strides of x, which broadcasts to o, by o's dimensions. NULL: all are 0.
static void under(const struct shape *o, const struct shape *x, int64_t *stride)
{
  int64_t own[MAX_DIMS];
  for (int d = 0; d < o->n; d++) stride[d] = 0;
  if (x) own_strides(x, own);
  for (int d = o->n - 1, k = x ? x->n - 1 : -1; k >= 0; d--, k--) stride[d] = x->d[k] > 1 ? own[k] : 0;
}

// Operands that broadcast to o.
static void axes(struct plain_args *a, const struct shape *o, const struct shape *x, const struct shape *y)
{
  int64_t sx[MAX_DIMS], sy[MAX_DIMS], own[MAX_DIMS];
  under(o, x, sx), under(o, y, sy), own_strides(o, own);
  for (int d = 0; d < o->n; d++) axis(a, o->d[d], sx[d], sy[d], own[d]);
}

static int64_t inner_of(const struct shape *s, int dim)
{
  int64_t inner = 1;
  for (int d = dim + 1; d < s->n; d++) inner *= s->d[d];
  return inner;
}

// ---- kernels with one element a thread ----

// `value` is a C expression of x and y.
static void pointwise(struct plain_kernel *k, const char *value, int reads)
{
  str_add(&k->text, "#define PLAIN_READS %d\n", reads);
  str_add(&k->text, "#define PLAIN_VALUE (%s)\n", value);
  k->blocks = blocks_of(k->args.size);
}

static void contiguous(struct plain_kernel *k)
{
  axis(&k->args, k->args.size, 1, 0, 1);
  pointwise(k, "x", 1);
}

void plain_copy_text(const struct tensor *t, struct plain_kernel *k)
{
  begin(k, t->dtype, shape_size(&t->shape));
  k->args.raw = 1;
  contiguous(k);
  end(k);
}

static void map(const struct graph *g, const struct node *n, struct plain_kernel *k)
{
  const struct shape *in[2] = {0};
  for (int i = 0; i < n->nin; i++) in[i] = &g->tensors[n->in[i]].shape;
  k->args.scalar = n->a.scalar, k->args.lo = n->a.lo, k->args.hi = n->a.hi, k->args.slope = n->a.slope;
  axes(&k->args, &g->tensors[n->out].shape, in[0], in[1]);
  pointwise(k, op_rows[n->op].code, n->nin);
}

static void view(const struct graph *g, const struct node *n, struct plain_kernel *k)
{
  const struct shape *o = &g->tensors[n->out].shape, *x = &g->tensors[n->in[0]].shape;
  const int64_t inner = inner_of(o, n->a.dim), size = k->args.size;
  int64_t of[MAX_DIMS], own[MAX_DIMS];
  if (n->op == OP_RESHAPE) return contiguous(k);
  if (n->op == OP_TRANSPOSE) {
    own_strides(x, of), own_strides(o, own);
    for (int d = 0; d < o->n; d++) axis(&k->args, o->d[d], of[perm_of(&n->a, o->n, d)], 0, own[d]);
  } else if (n->op == OP_REPEAT) {
    axis(&k->args, size / (inner * n->a.times), inner, 0, inner * n->a.times);
    axis(&k->args, n->a.times, 0, 0, inner), axis(&k->args, inner, 1, 0, 1);
  } else { // a slice
    const int64_t line = inner * o->d[n->a.dim];
    axis(&k->args, size / line, inner * x->d[n->a.dim], 0, line), axis(&k->args, line, 1, 0, 1);
    k->args.x0 = inner * n->a.start;
  }
  pointwise(k, "x", 1);
}

// Operand number `part` at its position in the whole.
static void concat(const struct graph *g, const struct node *n, int part, struct plain_kernel *k)
{
  const struct shape *o = &g->tensors[n->out].shape, *x = &g->tensors[n->in[part]].shape;
  const int64_t inner = inner_of(o, n->a.dim), line = inner * x->d[n->a.dim];
  for (int i = 0; i < part; i++) k->args.at0 += inner * g->tensors[n->in[i]].shape.d[n->a.dim];
  k->args.size = shape_size(x);
  axis(&k->args, k->args.size / line, line, 0, inner * o->d[n->a.dim]), axis(&k->args, line, 1, 0, 1);
  pointwise(k, "x", 1);
}

static void split(const struct graph *g, const struct node *n, int part, struct plain_kernel *k)
{
  const struct shape *o = &g->tensors[n->out + part].shape, *x = &g->tensors[n->in[0]].shape;
  const int64_t inner = inner_of(o, n->a.dim), line = inner * o->d[n->a.dim];
  axis(&k->args, k->args.size / line, inner * x->d[n->a.dim], 0, line), axis(&k->args, line, 1, 0, 1);
  k->args.x0 = line * node_part(n, part);
  pointwise(k, "x", 1);
}

static void constant(const struct node *n, struct plain_kernel *k)
{
  k->args.raw = op_rows[n->op].rule == RULE_CONST, k->args.scalar = n->a.scalar;
  axis(&k->args, k->args.size, 0, 0, 1);
  pointwise(k, k->args.raw ? "scalar" : "(double)i", 0);
}

static void gather(const struct graph *g, const struct node *n, struct plain_kernel *k)
{
  const struct shape *x = &g->tensors[n->in[0]].shape;
  k->args.inner = inner_of(x, n->a.dim), k->args.along = x->d[n->a.dim], k->args.many = shape_size(&g->tensors[n->in[1]].shape);
  word(&k->text, "GATHERS", "1");
  k->blocks = blocks_of(k->args.size);
}

// ---- kernels with cooperating blocks ----

static void fold_text(struct str *s, const struct node *n) { str_add(s, "#define PLAIN_FOLD(r, x, y) (%s)\n", op_rows[n->op].code); }

static void contract(const struct graph *g, const struct node *n, struct plain_kernel *k)
{
  const struct shape *o = &g->tensors[n->out].shape, *x = &g->tensors[n->in[0]].shape, *y = &g->tensors[n->in[1]].shape;
  enum { TILE = 64 };
  struct shape bo = *o, bx = *x, by = *y;
  bo.n -= 2, bx.n -= 2, by.n -= 2;
  k->args.rows = o->d[bo.n], k->args.cols = o->d[bo.n + 1], k->args.deep = x->d[x->n - 1];
  axes(&k->args, &bo, &bx, &by);
  word(&k->text, "PRODUCT", "1");
  fold_text(&k->text, n);
  k->blocks = shape_size(&bo) * ((k->args.rows + TILE - 1) / TILE) * ((k->args.cols + TILE - 1) / TILE);
}

// A product with a triangle of ones: only the other operand is read.
static void scan(const struct graph *g, const struct node *n, const struct scan *s, struct plain_kernel *k, struct plain_launch *l)
{
  const struct shape *o = &g->tensors[n->out].shape;
  l->nin = 1, l->in[0] = n->in[s->x];
  k->args.along = o->d[s->along], k->args.inner = inner_of(o, s->along);
  word(&k->text, "SCAN", "1");
  k->blocks = blocks_of(k->args.size / k->args.along);
}

static void reduce(const struct graph *g, const struct node *n, struct plain_kernel *k)
{
  const struct shape *o = &g->tensors[n->out].shape, *x = &g->tensors[n->in[0]].shape;
  const int64_t len = x->d[n->a.dim] / o->d[n->a.dim], inner = inner_of(o, n->a.dim), size = k->args.size;
  const enum abstract how = op_rows[n->op].abstract;
  const bool together = inner == 1 ? len >= LONG : len >= LONG_COLUMN && size < FEW;
  k->args.along = len, k->args.inner = inner, k->args.count = node_has(n, MEAN) ? (double)len : 1;
  word(&k->text, "REDUCES", "1");
  word(&k->text, "FIRST", how == AE_MAX || how == AE_PROD ? "1" : "0");
  fold_text(&k->text, n);
  if (together) word(&k->text, "TOGETHER", "1");
  k->blocks = together ? size : blocks_of(size);
}

static void select_best(const struct graph *g, const struct node *n, int part, struct plain_kernel *k)
{
  const struct shape *o = &g->tensors[n->out].shape, *x = &g->tensors[n->in[0]].shape;
  k->args.many = o->d[n->a.dim], k->args.along = x->d[n->a.dim], k->args.inner = inner_of(o, n->a.dim), k->args.indices = part > 0;
  word(&k->text, "SELECTS", "1");
  k->blocks = shape_size(o) / o->d[n->a.dim];
}

static void write_slices(const struct graph *g, const struct node *n, struct plain_kernel *k)
{
  const struct shape *o = &g->tensors[n->out].shape;
  k->args.many = shape_size(&g->tensors[n->in[1]].shape), k->args.along = o->d[n->a.dim], k->args.inner = inner_of(o, n->a.dim);
  k->args.size = shape_size(o) / o->d[n->a.dim];
  word(&k->text, "WRITES", "1");
  k->blocks = blocks_of(k->args.size);
}

static void chosen(const struct graph *g, const struct node *n, int part, struct plain_kernel *k)
{
  if (node_has(n, SELECTS))
    select_best(g, n, part, k);
  else if (node_has(n, READS_SLICES))
    gather(g, n, k);
  else if (part == 0)
    contiguous(k);
  else
    write_slices(g, n, k);
}

// ---- all of them ----

bool plain_takes(const struct node *n)
{
  static const bool rules[] = {[RULE_CONST] = true, [RULE_INDEX] = true, [RULE_MAP] = true,    [RULE_CONTRACT] = true, [RULE_REDUCE] = true,
                               [RULE_VIEW] = true,  [RULE_AT] = true,    [RULE_CONCAT] = true, [RULE_SPLIT] = true,    [RULE_GRAPH] = false};
  return n->op == OP_INPUT || n->op == OP_OUTPUT || (rules[op_rows[n->op].rule] && op_rows[n->op].levels & IS_K);
}

static int parts_of(const struct node *n)
{
  const enum rule rule = op_rows[n->op].rule;
  return rule == RULE_CONCAT ? n->nin : rule == RULE_SPLIT || node_has(n, SELECTS) ? n->nout : node_has(n, WRITES_SLICES) ? 2 : 1;
}

bool plain_node_text(const struct graph *g, const struct node *n, int part, struct plain_kernel *k, struct plain_launch *l)
{
  if (part >= parts_of(n)) return false;
  const enum rule rule = op_rows[n->op].rule;
  const bool joins = rule == RULE_CONCAT;
  *l = (struct plain_launch){.result = n->nout > 1 ? part : 0, .nin = joins ? 1 : n->nin};
  for (int i = 0; i < l->nin; i++) l->in[i] = n->in[joins ? part : i];
  made(k, g, n->out + l->result);
  const struct scan s = graph_scan(g, NULL, n);
  switch (rule) {
  case RULE_MAP: map(g, n, k); break;
  case RULE_VIEW: view(g, n, k); break;
  case RULE_CONTRACT:
    if (s.triangle)
      scan(g, n, &s, k, l);
    else
      contract(g, n, k);
    break;
  case RULE_REDUCE: reduce(g, n, k); break;
  case RULE_CONCAT: concat(g, n, part, k); break;
  case RULE_SPLIT: split(g, n, part, k); break;
  case RULE_AT: chosen(g, n, part, k); break;
  case RULE_CONST:
  case RULE_INDEX: constant(n, k); break;
  case RULE_IO:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_ACCUM:
  case RULE_GRAPH: CHECK(!"plain_takes is asked first");
  }
  return end(k), true;
}
