// The text of plain kernels: definitions for plain.cuh, for each index rule. Scalar expressions are the rows' FLOAT.
#include "gpu/plain.h"
#include "rt/rt.h"

#include <math.h>
#include <string.h>

extern const char gpu_plain_text[];

enum { LONG = 256, LONG_COLUMN = 4096, FEW = 1 << 14 }; // elements of a row, and of a column, that a block reduces together; few results

// ---- definitions ----

static void real(struct str *s, const char *name, double x)
{
  if (isinf(x))
    str_add(s, "#define PLAIN_%s (%sINFINITY)\n", name, x < 0 ? "-" : "");
  else
    str_add(s, "#define PLAIN_%s (%a)\n", name, x);
}

static void whole(struct str *s, const char *name, int64_t x) { str_add(s, "#define PLAIN_%s %lldll\n", name, (long long)x); }
static void word(struct str *s, const char *name, const char *x) { str_add(s, "#define PLAIN_%s %s\n", name, x); }

static void dtype(struct str *s, enum dtype t)
{
  static const char *const rules[] = {[MICA_IEEE] = "MICA_IEEE", [MICA_SATURATES] = "MICA_SATURATES", [MICA_FINITE] = "MICA_FINITE"};
  const struct num_row *f = &num_rows[t];
  str_add(s, "#define PLAIN_EXPONENT %d\n#define PLAIN_MANTISSA %d\n#define PLAIN_BITS %d\n", f->exponent, f->mantissa, f->bits);
  word(s, "SPECIAL", rules[f->special]);
  real(s, "LARGEST", num_largest(f)), real(s, "UNDERFLOW", num_underflow(f)), real(s, "TINY", special_tiny(t));
}

// Tensor t, which a kernel computes. A view is perturbed already.
static void made(struct str *s, const struct graph *g, int t)
{
  const struct tensor *x = &g->tensors[t];
  const struct node *n = &g->nodes[x->node];
  dtype(s, x->dtype);
  if (!x->whole && op_rows[n->op].rule != RULE_VIEW) str_add(s, "#define PLAIN_SEED %du\n", t);
  whole(s, "SIZE", shape_size(&x->shape));
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
  static const char *const bits[PLAIN_MODES] = {[PLAIN_AS_IT_IS] = "0",
                                                [PLAIN_ROUNDED] = "PLAIN_ROUNDS",
                                                [PLAIN_ROUNDED_FLUSHED] = "(PLAIN_ROUNDS | PLAIN_FLUSHES)",
                                                [PLAIN_NUDGED_DOWN] = "PLAIN_DOWN",
                                                [PLAIN_NUDGED_EITHER] = "PLAIN_EITHER"};
  dtype(&k->text, F32);
  word(&k->text, "MODE", bits[m]);
  k->blocks = 1;
  end(k);
}

void plain_input_text(const struct tensor *t, struct plain_kernel *k)
{
  const struct num_row *f = &num_rows[t->dtype];
  dtype(&k->text, t->dtype);
  whole(&k->text, "SIZE", shape_size(&t->shape));
  str_add(&k->text, "#define PLAIN_WORD %sint%d_t\n", num_floats(f) || f->bits == 8 ? "u" : "", f->bits);
  k->blocks = blocks_of(shape_size(&t->shape));
  end(k);
}

// ---- indices: C expressions of i, the index of the computed element ----

// The index in each dimension of o, times its stride.
static void strided(struct str *s, const struct shape *o, const int64_t *stride)
{
  int64_t step = 1;
  bool any = false;
  for (int d = o->n - 1; d >= 0; step *= o->d[d--]) {
    if (!stride[d] || o->d[d] == 1) continue;
    str_add(s, "%si / %lldll %% %lldll * %lldll", any ? " + " : "", (long long)step, (long long)o->d[d], (long long)stride[d]);
    any = true;
  }
  if (!any) str_add(s, "0");
}

static void own_strides(const struct shape *x, int64_t *stride)
{
  int64_t step = 1;
  for (int d = x->n - 1; d >= 0; step *= x->d[d--]) stride[d] = step;
}

// The same for a tensor x that broadcasts to o.
static void under(struct str *s, const struct shape *o, const struct shape *x)
{
  int64_t own[MAX_DIMS], stride[MAX_DIMS] = {0};
  own_strides(x, own);
  for (int d = o->n - 1, k = x->n - 1; k >= 0; d--, k--) stride[d] = x->d[k] > 1 ? own[k] : 0;
  if (shape_eq(o, x))
    str_add(s, "i");
  else
    strided(s, o, stride);
}

static int64_t inner_of(const struct shape *s, int dim)
{
  int64_t inner = 1;
  for (int d = dim + 1; d < s->n; d++) inner *= s->d[d];
  return inner;
}

// ---- kernels with one element a thread ----

// X, Y: operands; their `value` is stored at AT.
struct pointwise {
  const char *value;
  struct str x, y, at;
};

static void pointwise(struct plain_kernel *k, const struct attrs *a, struct pointwise *p, int64_t size)
{
  const struct attrs none = {0};
  struct str *s = &k->text;
  if (!a) a = &none;
  real(s, "SCALAR", a->scalar), real(s, "LO", a->lo), real(s, "HI", a->hi), real(s, "SLOPE", a->slope);
  word(s, "X", p->x.n ? str_text(&p->x) : "0"), word(s, "Y", p->y.n ? str_text(&p->y) : "0");
  word(s, "AT", p->at.n ? str_text(&p->at) : "i");
  str_add(s, "#define PLAIN_VALUE (%s)\n", p->value);
  k->blocks = blocks_of(size);
  str_free(&p->x), str_free(&p->y), str_free(&p->at);
}

void plain_copy_text(const struct tensor *t, struct plain_kernel *k)
{
  struct pointwise p = {.value = "x"};
  dtype(&k->text, t->dtype);
  whole(&k->text, "SIZE", shape_size(&t->shape));
  str_add(&k->text, "#define PLAIN_RAW\n");
  str_add(&p.x, "X[i]");
  pointwise(k, NULL, &p, shape_size(&t->shape));
  end(k);
}

static void map(const struct graph *g, const struct node *n, struct plain_kernel *k)
{
  const struct shape *o = &g->tensors[n->out].shape;
  struct pointwise p = {.value = op_rows[n->op].code};
  struct str *of[] = {&p.x, &p.y};
  for (int i = 0; i < n->nin; i++) {
    str_add(of[i], "%c[", "XY"[i]);
    under(of[i], o, &g->tensors[n->in[i]].shape);
    str_add(of[i], "]");
  }
  pointwise(k, &n->a, &p, shape_size(o));
}

static void view(const struct graph *g, const struct node *n, struct plain_kernel *k)
{
  const struct shape *o = &g->tensors[n->out].shape, *x = &g->tensors[n->in[0]].shape;
  struct pointwise p = {.value = "x"};
  const long long inner = inner_of(o, n->a.dim);
  int64_t own[MAX_DIMS], stride[MAX_DIMS];
  str_add(&p.x, "X[");
  if (n->op == OP_TRANSPOSE) {
    own_strides(x, own);
    for (int d = 0; d < o->n; d++) stride[d] = own[perm_of(&n->a, o->n, d)];
    strided(&p.x, o, stride);
  } else if (n->op == OP_REPEAT)
    str_add(&p.x, "i / %lldll * %lldll + i %% %lldll", inner * n->a.times, inner, inner);
  else if (n->op == OP_SLICE)
    str_add(&p.x, "i / %lldll * %lldll + %lldll + i %% %lldll", inner * o->d[n->a.dim], inner * x->d[n->a.dim], inner * n->a.start,
            inner * o->d[n->a.dim]);
  else
    str_add(&p.x, "i"); // a reshape
  str_add(&p.x, "]");
  pointwise(k, NULL, &p, shape_size(o));
}

// Operand number `part` at its position in the whole.
static void concat(const struct graph *g, const struct node *n, int part, struct plain_kernel *k)
{
  const struct shape *o = &g->tensors[n->out].shape, *x = &g->tensors[n->in[part]].shape;
  struct pointwise p = {.value = "x"};
  const long long inner = inner_of(o, n->a.dim), own = inner * x->d[n->a.dim], all = inner * o->d[n->a.dim];
  long long from = 0;
  for (int i = 0; i < part; i++) from += inner * g->tensors[n->in[i]].shape.d[n->a.dim];
  str_add(&p.x, "X[i]");
  str_add(&p.at, "(i / %lldll * %lldll + %lldll + i %% %lldll)", own, all, from, own);
  str_add(&k->text, "#undef PLAIN_SIZE\n");
  whole(&k->text, "SIZE", shape_size(x));
  pointwise(k, NULL, &p, shape_size(x));
}

static void split(const struct graph *g, const struct node *n, int part, struct plain_kernel *k)
{
  const struct shape *o = &g->tensors[n->out + part].shape, *x = &g->tensors[n->in[0]].shape;
  struct pointwise p = {.value = "x"};
  const long long inner = inner_of(o, n->a.dim), own = inner * o->d[n->a.dim], all = inner * x->d[n->a.dim];
  str_add(&p.x, "X[i / %lldll * %lldll + %lldll + i %% %lldll]", own, all, own * (long long)node_part(n, part), own);
  pointwise(k, NULL, &p, shape_size(o));
}

static void constant(const struct node *n, int64_t size, struct plain_kernel *k)
{
  struct pointwise p = {.value = op_rows[n->op].rule == RULE_CONST ? "scalar" : "(double)i"};
  if (op_rows[n->op].rule == RULE_CONST) str_add(&k->text, "#define PLAIN_RAW\n");
  pointwise(k, &n->a, &p, size);
}

static void gather(const struct graph *g, const struct node *n, struct plain_kernel *k)
{
  const struct shape *x = &g->tensors[n->in[0]].shape;
  const long long inner = inner_of(x, n->a.dim), many = shape_size(&g->tensors[n->in[1]].shape), extent = x->d[n->a.dim];
  struct pointwise p = {.value = "x"};
  str_add(&p.x, "X[(i / %lldll * %lldll + plain_index(Y[i / %lldll %% %lldll], 0, %lldll, state)) * %lldll + i %% %lldll]", inner * many, extent,
          inner, many, extent, inner, inner);
  pointwise(k, NULL, &p, shape_size(&g->tensors[n->out].shape));
}

// ---- kernels with cooperating blocks ----

static void fold_text(struct str *s, const struct node *n) { str_add(s, "#define PLAIN_FOLD(r, x, y) (%s)\n", op_rows[n->op].code); }

static void contract(const struct graph *g, const struct node *n, struct plain_kernel *k)
{
  const struct shape *o = &g->tensors[n->out].shape, *x = &g->tensors[n->in[0]].shape, *y = &g->tensors[n->in[1]].shape;
  enum { TILE = 64 };
  const int64_t rows = o->d[o->n - 2], cols = o->d[o->n - 1];
  struct shape bo = *o, bx = *x, by = *y;
  struct str *s = &k->text;
  bo.n -= 2, bx.n -= 2, by.n -= 2;
  whole(s, "ROWS", rows), whole(s, "COLS", cols), whole(s, "DEEP", x->d[x->n - 1]);
  fold_text(s, n);
  str_add(s, "#define PLAIN_MATRIX(i) (");
  under(s, &bo, &bx);
  str_add(s, ")\n#define PLAIN_LEFT PLAIN_MATRIX(of)\n#define PLAIN_OTHER(i) (");
  under(s, &bo, &by);
  str_add(s, ")\n#define PLAIN_RIGHT PLAIN_OTHER(of)\n");
  k->blocks = shape_size(&bo) * ((rows + TILE - 1) / TILE) * ((cols + TILE - 1) / TILE);
}

// A product with a triangle of ones: only the other operand is read.
static void scan(const struct graph *g, const struct node *n, const struct scan *s, struct plain_kernel *k, struct plain_launch *l)
{
  const struct shape *o = &g->tensors[n->out].shape;
  const int64_t len = o->d[s->along];
  l->nin = 1, l->in[0] = n->in[s->x];
  whole(&k->text, "ALONG", len), whole(&k->text, "INNER", inner_of(o, s->along));
  k->blocks = blocks_of(shape_size(o) / len);
}

static void reduce(const struct graph *g, const struct node *n, struct plain_kernel *k)
{
  const struct shape *o = &g->tensors[n->out].shape, *x = &g->tensors[n->in[0]].shape;
  const int64_t len = x->d[n->a.dim] / o->d[n->a.dim], inner = inner_of(o, n->a.dim), size = shape_size(o);
  const enum abstract how = op_rows[n->op].abstract;
  const bool together = inner == 1 ? len >= LONG : len >= LONG_COLUMN && size < FEW;
  struct str *s = &k->text;
  whole(s, "LEN", len), whole(s, "INNER", inner), real(s, "COUNT", node_has(n, MEAN) ? (double)len : 1);
  word(s, "FIRST", how == AE_MAX || how == AE_PROD ? "1" : "0");
  fold_text(s, n);
  if (together) word(s, "TOGETHER", "1");
  k->blocks = together ? size : blocks_of(size);
}

static void select_best(const struct graph *g, const struct node *n, int part, struct plain_kernel *k)
{
  const struct shape *o = &g->tensors[n->out].shape, *x = &g->tensors[n->in[0]].shape;
  const int64_t inner = inner_of(o, n->a.dim);
  whole(&k->text, "BEST", o->d[n->a.dim]), whole(&k->text, "EXTENT", x->d[n->a.dim]), whole(&k->text, "INNER", inner);
  word(&k->text, "INDICES", part ? "1" : "0");
  k->blocks = shape_size(o) / o->d[n->a.dim];
}

static void write_slices(const struct graph *g, const struct node *n, struct plain_kernel *k)
{
  const struct shape *o = &g->tensors[n->out].shape;
  const int64_t inner = inner_of(o, n->a.dim), lines = shape_size(o) / o->d[n->a.dim];
  whole(&k->text, "WRITES", shape_size(&g->tensors[n->in[1]].shape));
  whole(&k->text, "EXTENT", o->d[n->a.dim]), whole(&k->text, "INNER", inner);
  str_add(&k->text, "#undef PLAIN_SIZE\n");
  whole(&k->text, "SIZE", lines);
  k->blocks = blocks_of(lines);
}

static void copy(const struct graph *g, const struct node *n, struct plain_kernel *k)
{
  struct pointwise p = {.value = "x"};
  str_add(&p.x, "X[i]");
  pointwise(k, NULL, &p, shape_size(&g->tensors[n->out].shape));
}

static void chosen(const struct graph *g, const struct node *n, int part, struct plain_kernel *k)
{
  if (node_has(n, SELECTS))
    select_best(g, n, part, k);
  else if (node_has(n, READS_SLICES))
    gather(g, n, k);
  else if (part == 0)
    copy(g, n, k);
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
  made(&k->text, g, n->out + l->result);
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
  case RULE_INDEX: constant(n, shape_size(&g->tensors[n->out].shape), k); break;
  case RULE_IO:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_ACCUM:
  case RULE_GRAPH: CHECK(!"plain_takes is asked first");
  }
  return end(k), true;
}
