// Single elements of a kernel graph in float64. An element is computed from the elements that it depends on, by walking back through the index
// rules to the inputs. So a few elements of a large result cost little. This code shares with the evaluators of whole tensors only the rows
// of op.def and the definition of their texts (real.h).
#define NUM double
#include "eval/real.h"
#include "eval/eval.h"
#include "base/memory.h"

#include <math.h>

#define DROP(id, EXPR)
#define ROW_MAP DROP
#define ROW_IO DROP
#define ROW_CONST DROP
#define ROW_INDEX DROP
#define ROW_CONTRACT DROP
#define ROW_REDUCE DROP
#define ROW_VIEW DROP
#define ROW_AT DROP
#define ROW_CONCAT DROP
#define ROW_SPLIT DROP
#define ROW_WORLD DROP
#define ROW_COMPOSITE DROP
#define ROW_ACCUM DROP
#define ROW_GRAPH DROP

enum { DEEPEST = 4000, LEAST_KNOWN = 1 << 10 }; // most nodes between an output and an input; first capacity of the table
enum { CHEAP = 8 };                             // most elements that are read again instead of caching their result

struct known_element {
  uint64_t key; // from tensor and index, at least 1; 0: an empty slot
  double value;
};
struct element_walk {
  const struct graph *g;
  const struct eval_reader *in;
  int *input;   // by tensor: its number among the inputs
  bool *notes;  // by tensor: its elements are cached
  int64_t left; // remaining steps
  int depth;
  bool lost; // no steps are left, or an operator is not supported
  struct known_element *known;
  int64_t n, cap; // cap: a power of two
};

static double element(struct element_walk *w, int t, int64_t i);

// ---- the cache of elements ----

static struct known_element *slot(const struct known_element *known, int64_t cap, uint64_t key)
{
  uint64_t at = hash_mix(key, 0) & (uint64_t)(cap - 1);
  while (known[at].key && known[at].key != key) at = (at + 1) & (uint64_t)(cap - 1);
  return (struct known_element *)&known[at];
}

static void note(struct element_walk *w, uint64_t key, double value)
{
  if (2 * w->n >= w->cap) {
    const int64_t cap = MAX(LEAST_KNOWN, 2 * w->cap);
    struct known_element *more = MEM_NEWS(struct known_element, cap);
    for (int64_t i = 0; i < w->cap; i++)
      if (w->known[i].key) *slot(more, cap, w->known[i].key) = w->known[i];
    mem_free(w->known);
    w->known = more, w->cap = cap;
  }
  *slot(w->known, w->cap, key) = (struct known_element){key, value};
  w->n++;
}

// ---- index rules ----

static const struct shape *shape_of(const struct element_walk *w, int t) { return &w->g->tensors[t].shape; }

// The element of a tensor of shape x that element i of shape o reads, with broadcasting.
static int64_t under(const struct shape *o, const struct shape *x, int64_t i)
{
  int64_t at = 0, step = 1;
  for (int d = o->n - 1, k = x->n - 1; k >= 0; i /= o->d[d--], step *= x->d[k--])
    if (x->d[k] > 1) at += i % o->d[d] * step;
  return at;
}

static double of_map(enum op op, const struct attrs *a, double x, double y)
{
  ATTR_LOCALS(a);
  (void)y;
#undef ROW_MAP
#define ROW_MAP(id, EXPR) \
  case OP_##id: return EXPR;
  switch ((int)op) {
#define OP(id, name, least, most, rule, levels, attrs, flags, real, field, ...) ROW_##rule(id, VALUE(real, field))
#include "ir/op.def"
#undef OP
  default: CHECK(!"an elementwise operator");
  }
#undef ROW_MAP
#define ROW_MAP DROP
  return 0;
}

// One step of a reduction or product: accumulates x (and y) into r.
static double of_fold(enum op op, double r, double x, double y)
{
  (void)y;
#undef ROW_CONTRACT
#undef ROW_REDUCE
#define ROW_REDUCE(id, EXPR) \
  case OP_##id:              \
    return EXPR;
#define ROW_CONTRACT ROW_REDUCE
  switch ((int)op) {
#define OP(id, name, least, most, rule, levels, attrs, flags, real, field, ...) ROW_##rule(id, VALUE(real, field))
#include "ir/op.def"
#undef OP
  default: CHECK(!"a reduction or a contraction");
  }
#undef ROW_CONTRACT
#define ROW_CONTRACT DROP
#undef ROW_REDUCE
#define ROW_REDUCE DROP
  return 0;
}

static double map(struct element_walk *w, const struct node *n, int64_t i)
{
  const struct shape *o = shape_of(w, n->out);
  double x[2] = {0, 0};
  for (int k = 0; k < n->nin; k++) x[k] = element(w, n->in[k], under(o, shape_of(w, n->in[k]), i));
  return of_map(n->op, &n->a, x[0], x[1]);
}

// `inner` of a tensor seen as [outer, extent, inner], with dimension dim in the middle.
static int64_t inner_of(const struct shape *s, int dim)
{
  int64_t inner = 1;
  for (int d = dim + 1; d < s->n; d++) inner *= s->d[d];
  return inner;
}

// The element of a view's input that is element i of the view.
static int64_t moved(const struct element_walk *w, const struct node *n, int64_t i)
{
  const struct shape *o = shape_of(w, n->out), *x = shape_of(w, n->in[0]);
  const int64_t inner = inner_of(o, n->op == OP_RESHAPE ? 0 : n->a.dim), extent = o->n ? o->d[n->a.dim] : 1;
  int64_t at = 0, stride[MAX_DIMS], step = 1;
  if (n->op == OP_RESHAPE) return i;
  if (n->op == OP_REPEAT) return i / inner / n->a.times * inner + i % inner;
  if (n->op == OP_SLICE) return (i / inner / extent * x->d[n->a.dim] + i / inner % extent + n->a.start) * inner + i % inner;
  for (int d = x->n - 1; d >= 0; step *= x->d[d--]) stride[d] = step;
  for (int d = o->n - 1; d >= 0; i /= o->d[d--]) at += i % o->d[d] * stride[perm_of(&n->a, o->n, d)];
  return at;
}

// Is element i of tensor t element `at` of an input, through views alone? Along a dimension of t, the offsets in the input are then equidistant.
static bool is_of_input(const struct element_walk *w, int t, int64_t i, int *input, int64_t *at)
{
  const struct node *n = &w->g->nodes[w->g->tensors[t].node];
  if (n->op == OP_INPUT) return *input = w->input[t], *at = i, true;
  return (n->op == OP_TRANSPOSE || n->op == OP_SLICE) && is_of_input(w, n->in[0], moved(w, n, i), input, at);
}

struct run_of_input { // equidistant elements of an input
  int input;
  int64_t at, step;
};

static bool is_run(const struct element_walk *w, int t, int64_t i, int64_t step, int64_t n, struct run_of_input *r)
{
  int64_t next = 0;
  if (!is_of_input(w, t, i, &r->input, &r->at)) return false;
  if (n > 1) is_of_input(w, t, i + step, &r->input, &next);
  return r->step = n > 1 ? next - r->at : 0, true;
}

static double of_run(const struct element_walk *w, const struct run_of_input *r, int64_t k)
{
  return w->in->element(w->in->arg, r->input, r->at + k * r->step);
}

static double contract(struct element_walk *w, const struct node *n, int64_t i)
{
  const struct shape *o = shape_of(w, n->out), *x = shape_of(w, n->in[0]), *y = shape_of(w, n->in[1]);
  const int64_t cols = o->d[o->n - 1], rows = o->d[o->n - 2], deep = x->d[x->n - 1], of = i / (rows * cols);
  struct shape bo = *o, bx = *x, by = *y;
  bo.n -= 2, bx.n -= 2, by.n -= 2;
  const int64_t x_at = (under(&bo, &bx, of) * rows + i / cols % rows) * deep, y_at = under(&bo, &by, of) * deep * cols + i % cols;
  const struct scan s = graph_scan(w->g, NULL, n);
  double r = 0;
  if (s.triangle) { // a scan: adds and does not multiply
    const int64_t last = s.x ? i / cols % rows : i % cols;
    for (int64_t k = 0; k <= last && !w->lost; k++) r += s.x ? element(w, n->in[1], y_at + k * cols) : element(w, n->in[0], x_at + k);
    return r;
  }
  struct run_of_input a, b;
  if (is_run(w, n->in[0], x_at, 1, deep, &a) && is_run(w, n->in[1], y_at, cols, deep, &b)) {
    if ((w->left -= 2 * deep) < 0) return w->lost = true, 0;
    for (int64_t k = 0; k < deep; k++) r = of_fold(n->op, r, of_run(w, &a, k), of_run(w, &b, k));
    return r;
  }
  for (int64_t k = 0; k < deep && !w->lost; k++) r = of_fold(n->op, r, element(w, n->in[0], x_at + k), element(w, n->in[1], y_at + k * cols));
  return r;
}

static double reduce(struct element_walk *w, const struct node *n, int64_t i)
{
  const struct shape *o = shape_of(w, n->out), *x = shape_of(w, n->in[0]);
  const int64_t len = x->d[n->a.dim] / o->d[n->a.dim], inner = inner_of(o, n->a.dim), from = i / inner * len * inner + i % inner;
  const enum abstract how = op_rows[n->op].abstract;
  const bool first = how == AE_MAX || how == AE_PROD;
  double r = first ? element(w, n->in[0], from) : 0;
  for (int64_t l = first; l < len && !w->lost; l++) r = of_fold(n->op, r, element(w, n->in[0], from + l * inner), 0);
  return node_has(n, MEAN) ? r / (double)len : r;
}

static double view(struct element_walk *w, const struct node *n, int64_t i)
{
  if (n->op != OP_RESHAPE && n->op != OP_REPEAT && n->op != OP_SLICE && n->op != OP_TRANSPOSE) return w->lost = true, 0;
  return element(w, n->in[0], moved(w, n, i));
}

static double concat(struct element_walk *w, const struct node *n, int64_t i)
{
  const struct shape *o = shape_of(w, n->out);
  const int64_t inner = inner_of(o, n->a.dim), outer = i / inner / o->d[n->a.dim];
  int64_t at = i / inner % o->d[n->a.dim];
  int k = 0;
  while (at >= shape_of(w, n->in[k])->d[n->a.dim]) at -= shape_of(w, n->in[k++])->d[n->a.dim];
  return element(w, n->in[k], (outer * shape_of(w, n->in[k])->d[n->a.dim] + at) * inner + i % inner);
}

static double split(struct element_walk *w, const struct node *n, int t, int64_t i)
{
  const struct shape *o = shape_of(w, t), *x = shape_of(w, n->in[0]);
  const int64_t inner = inner_of(o, n->a.dim), extent = o->d[n->a.dim], at = i / inner % extent + node_part(n, t - n->out) * extent;
  return element(w, n->in[0], (i / inner / extent * x->d[n->a.dim] + at) * inner + i % inner);
}

// ---- data-dependent indices ----

static bool before(double x, int64_t i, double y, int64_t k)
{
  if (isnan(x) || isnan(y)) return isnan(x) && (!isnan(y) || i < k);
  return x > y || (!(x < y) && i < k);
}

static double select_one(struct element_walk *w, const struct node *n, int t, int64_t i)
{
  const struct shape *o = shape_of(w, t), *x = shape_of(w, n->in[0]);
  const int64_t inner = inner_of(o, n->a.dim), count = o->d[n->a.dim], extent = x->d[n->a.dim];
  const int64_t from = i / inner / count * extent * inner + i % inner;
  double *row = MEM_NEWS(double, extent + 1), value;
  int64_t last = -1;
  for (int64_t l = 0; l < extent && !w->lost; l++) row[l] = element(w, n->in[0], from + l * inner);
  for (int64_t k = 0; k <= i / inner % count && !w->lost; k++) {
    int64_t best = -1;
    if ((w->left -= extent) < 0) w->lost = true; // comparisons count as steps
    for (int64_t l = 0; l < extent; l++)
      if ((last < 0 || before(row[last], last, row[l], l)) && (best < 0 || before(row[l], l, row[best], best))) best = l;
    last = best;
  }
  value = w->lost ? 0 : t == n->out ? row[last] : (double)last;
  return mem_free(row), value;
}

static double gather(struct element_walk *w, const struct node *n, int64_t i)
{
  const struct shape *x = shape_of(w, n->in[0]);
  const int64_t inner = inner_of(x, n->a.dim), extent = x->d[n->a.dim], many = shape_size(shape_of(w, n->in[1]));
  const double at = element(w, n->in[1], i / inner % many);
  if (!(at >= 0 && at < (double)extent)) return w->lost = true, 0;
  return element(w, n->in[0], (i / inner / many * extent + (int64_t)at) * inner + i % inner);
}

static double update(struct element_walk *w, const struct node *n, int64_t i)
{
  const struct shape *x = shape_of(w, n->in[0]);
  const int64_t inner = inner_of(x, n->a.dim), extent = x->d[n->a.dim], many = shape_size(shape_of(w, n->in[1]));
  for (int64_t k = many - 1; k >= 0 && !w->lost; k--)
    if (element(w, n->in[1], k) == (double)(i / inner % extent)) return element(w, n->in[2], (i / inner / extent * many + k) * inner + i % inner);
  return element(w, n->in[0], i);
}

static double at(struct element_walk *w, const struct node *n, int t, int64_t i)
{
  return node_has(n, SELECTS) ? select_one(w, n, t, i) : node_has(n, READS_SLICES) ? gather(w, n, i) : update(w, n, i);
}

// ---- all rules ----

static double compute(struct element_walk *w, const struct node *n, int t, int64_t i)
{
  switch (op_rows[n->op].rule) {
  case RULE_MAP: return map(w, n, i);
  case RULE_CONTRACT: return contract(w, n, i);
  case RULE_REDUCE: return reduce(w, n, i);
  case RULE_VIEW: return view(w, n, i);
  case RULE_CONCAT: return concat(w, n, i);
  case RULE_SPLIT: return split(w, n, t, i);
  case RULE_AT: return at(w, n, t, i);
  case RULE_IO:
  case RULE_CONST:
  case RULE_INDEX:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_ACCUM:
  case RULE_GRAPH: break;
  }
  return w->lost = true, 0;
}

static double element(struct element_walk *w, int t, int64_t i)
{
  const struct node *n = &w->g->nodes[w->g->tensors[t].node];
  const uint64_t key = ((uint64_t)t << 40 | (uint64_t)i) + 1;
  if (w->lost || --w->left < 0 || w->depth >= DEEPEST) return w->lost = true, 0;
  if (n->op == OP_INPUT) return w->in->element(w->in->arg, w->input[t], i);
  if (op_rows[n->op].rule == RULE_CONST) return n->a.scalar;
  if (op_rows[n->op].rule == RULE_INDEX) return (double)i;
  const struct known_element *had = w->cap && w->notes[t] ? slot(w->known, w->cap, key) : NULL;
  if (had && had->key) return had->value;
  w->depth++;
  const double x = compute(w, n, t, i);
  w->depth--;
  if (!w->lost && w->notes[t]) note(w, key, x);
  return x;
}

// Sums run over millions of elements, so reading a few elements again is cheaper than a lookup in the cache. Views are not cached, as they only
// compute an index.
static void choose_notes(const struct graph *g, bool *notes)
{
  int *cost = MEM_NEWS(int, g->ntensors + 1);
  for (int k = 0; k < g->nnodes; k++) {
    const struct node *n = &g->nodes[k];
    const enum rule rule = op_rows[n->op].rule;
    const bool moved = rule == RULE_VIEW || rule == RULE_CONCAT || rule == RULE_SPLIT;
    int sum = 1;
    for (int i = 0; i < n->nin; i++) sum = moved ? MAX(sum, 1 + cost[n->in[i]]) : sum + cost[n->in[i]];
    const bool noted = !moved && (rule == RULE_MAP ? sum > CHEAP : rule != RULE_IO && rule != RULE_CONST && rule != RULE_INDEX);
    for (int t = n->out; t < n->out + n->nout; t++) notes[t] = noted, cost[t] = noted || rule == RULE_IO ? 1 : sum;
  }
  mem_free(cost);
}

// A lower bound on the steps of an element of each tensor, if all shared elements are cached.
static void find_least(const struct element_walk *w, double *least)
{
  const struct graph *g = w->g;
  for (int k = 0; k < g->nnodes; k++) {
    const struct node *n = &g->nodes[k];
    const enum rule rule = op_rows[n->op].rule;
    const double in = n->nin ? least[n->in[0]] : 1;
    double x = 1;
    if (rule == RULE_CONTRACT && !graph_scan(g, NULL, n).triangle) x = 2 * (double)shape_of(w, n->in[0])->d[shape_of(w, n->in[0])->n - 1];
    if (rule == RULE_REDUCE) x = in * (double)(shape_of(w, n->in[0])->d[n->a.dim] / shape_of(w, n->out)->d[n->a.dim]);
    if ((rule == RULE_VIEW && n->op != OP_REPEAT) || rule == RULE_SPLIT) x = in;
    for (int i = 0; i < n->nin && rule == RULE_MAP; i++)
      if (shape_size(shape_of(w, n->in[i])) == shape_size(shape_of(w, n->out))) x = fmax(x, 1 + least[n->in[i]]);
    for (int t = n->out; t < n->out + n->nout; t++) least[t] = x;
  }
}

int eval_element(const struct graph *g, const struct eval_reader *in, int64_t steps, int t, int64_t i, double *out)
{
  struct element_walk w = {.g = g, .in = in, .input = MEM_NEWS(int, g->ntensors + 1), .left = steps};
  choose_notes(g, w.notes = MEM_NEWS(bool, g->ntensors + 1));
  for (int k = 0, inputs = 0; k < g->nnodes; k++)
    if (g->nodes[k].op == OP_INPUT) w.input[g->nodes[k].out] = inputs++;
  double *least = MEM_NEWS(double, g->ntensors + 1);
  find_least(&w, least);
  w.lost = least[t] > (double)steps;
  *out = element(&w, t, i);
  mem_free(least), mem_free(w.known), mem_free(w.input), mem_free(w.notes);
  return w.lost ? NO : OK;
}
