// Values of a block graph. What is after the loop is made of sums over the loop: an accumulator is pushed inward through
// what is linear, until it stands at a product with weights, or at a sum over k of elements of X. So a product inside the
// loop whose other operand does not change, (x A) B, is done once after the loop. A tail that sums what blocks did with their
// parts of k is pushed inward in the same way: k is then all of it. Requires a norm; provides values in an order in which
// operands come first, the spaces, and for each product which operand is the weights.
#include "lower/skinny.h"

#include <string.h>

static int summed(struct sk_plan *p, const struct sk_side *s, int tensor);

int sk_no(struct sk_plan *p, const char *what)
{
  if (!*p->why) snprintf(p->why, 160, "%s", what);
  return -1;
}

static const struct node *maker(const struct sk_side *s, int tensor)
{
  return &s->n->block->nodes[s->n->block->tensors[s->n->t[tensor].root].node];
}

static const struct norm_tensor *shape_of(const struct sk_side *s, int tensor) { return &s->n->t[tensor]; }

static const struct norm_dim *last(const struct norm_tensor *t, int back) { return &t->dim[t->ndims - back]; }

// -1: no iterator's.
static int iterator_of(const struct sk_side *s, int tensor)
{
  int i = s->n->iter_of[s->n->t[tensor].root];
  return i < 0 ? -1 : s->iters + i;
}

static uint64_t loops(const struct sk_side *s) { return (1ull << s->grid) - (1ull << s->loops); }

static bool same(const struct sk_value *a, const struct sk_value *b)
{
  return a->kind == b->kind && a->op == b->op && a->x == b->x && a->y == b->y && a->index == b->index && a->number == b->number &&
         a->a.scalar == b->a.scalar && a->a.lo == b->a.lo && a->a.hi == b->a.hi;
}

static int put(struct sk_plan *p, struct sk_value v)
{
  for (int i = 0; i < p->nvalues; i++)
    if (same(&p->v[i], &v)) return i;
  if (p->nvalues == SK_VALUES) return sk_no(p, "too many operators");
  p->v[p->nvalues] = v;
  return p->nvalues++;
}

static int operate(struct sk_plan *p, enum op op, const struct attrs *a, int x, int y)
{
  if (x < 0 || (y < 0 && op_rows[op].most == 2)) return -1;
  if (!emit_has_pointwise(op)) return sk_no(p, arena_printf(p->j->mem, "%s is no operator of single elements here", op_rows[op].name));
  return put(p, (struct sk_value){.kind = SK_OP, .op = op, .a = *a, .x = x, .y = y, .has = p->v[x].has | (y < 0 ? 0 : p->v[y].has)});
}

static int scaled(struct sk_plan *p, int x, double by)
{
  struct attrs a = attrs_default(OP_MUL_SCALAR);
  a.scalar = by;
  return operate(p, OP_MUL_SCALAR, &a, x, -1);
}

static int load(struct sk_plan *p, int iter)
{
  return put(p, (struct sk_value){.kind = SK_LOAD, .x = -1, .y = -1, .index = iter, .has = sk_axes_of(p, &p->iter[iter])});
}

static int constant(struct sk_plan *p, const struct node *n)
{
  return put(p, (struct sk_value){.kind = SK_CONST, .a = n->a, .x = -1, .y = -1});
}

// Elements of what is loaded, in or before the loop.
static int element(struct sk_plan *p, const struct sk_side *s, int tensor)
{
  const struct node *n = maker(s, tensor);
  if (n->op == OP_ITER) return load(p, iterator_of(s, tensor));
  if (n->op == OP_CONST) return constant(p, n);
  if (op_rows[n->op].rule != RULE_MAP) return sk_no(p, arena_printf(p->j->mem, "%s before a product", op_rows[n->op].name));
  int x = element(p, s, n->in[0]);
  return operate(p, n->op, &n->a, x, n->nin == 2 ? element(p, s, n->in[1]) : -1);
}

static bool is_element(const struct sk_side *s, int tensor)
{
  const struct node *n = maker(s, tensor);
  if (n->op == OP_ITER || n->op == OP_CONST) return true;
  if (op_rows[n->op].rule != RULE_MAP) return false;
  for (int i = 0; i < n->nin; i++)
    if (!is_element(s, n->in[i])) return false;
  return true;
}

// ---- sums over k ----

// All of k is summed: these letters, the loop, and the parts that the tail sums.
static bool over_k(struct sk_plan *p, const struct norm_dim *d)
{
  struct sk_space s = sk_space_of(p, &p->head, d);
  if (p->k.size) return sk_space_axes(&s) == p->letters_k;
  p->k.size = 1, p->letters_k = sk_space_axes(&s);
  for (int i = p->head.grid; i < p->head.grid + p->head.n->block->ngrid; i++)
    if (p->parts >> i & 1) sk_space_push(p, &p->k, i);
  for (int i = p->head.loops; i < p->head.grid; i++) sk_space_push(p, &p->k, i);
  for (int i = 0; i < s.n; i++) sk_space_push(p, &p->k, s.axis[i]);
  return true;
}

static bool of_rows(struct sk_plan *p, const struct norm_dim *d)
{
  struct sk_space s = sk_space_of(p, &p->head, d);
  if (p->rows.size) return sk_space_axes(&s) == sk_space_axes(&p->rows);
  if (s.size > SK_ROWS) return false;
  p->rows = s;
  return true;
}

static uint64_t batches(const struct sk_plan *p, const struct sk_side *s, int tensor)
{
  uint64_t m = 0;
  for (int d = 0; d < shape_of(s, tensor)->ndims - 2; d++) {
    struct sk_space x = sk_space_of(p, s, &shape_of(s, tensor)->dim[d]);
    m |= sk_space_axes(&x);
  }
  return m;
}

// rows x k by k x cols, or the other way round; b is what an iterator loads, the weights.
static int product(struct sk_plan *p, int a, int b, bool turned)
{
  const struct sk_side *s = &p->head;
  const struct norm_tensor *at = shape_of(s, a), *bt = shape_of(s, b);
  uint64_t batch = batches(p, s, a) | batches(p, s, b);
  struct sk_product x = {.iter = iterator_of(s, b)};
  if (at->ndims < 2 || bt->ndims < 2) return sk_no(p, "a product of vectors");
  if (p->nproducts && p->batch != batch) return sk_no(p, "products of different batches");
  if (!of_rows(p, last(at, turned ? 1 : 2))) return sk_no(p, "more than 32 rows, or products of different rows");
  if (!over_k(p, last(at, turned ? 2 : 1))) return sk_no(p, "products that sum over different dimensions");
  p->batch = batch, x.cols = sk_space_of(p, s, last(bt, turned ? 2 : 1));
  if ((x.x = element(p, s, a)) < 0) return -1;
  int i = 0;
  while (i < p->nproducts && (p->product[i].x != x.x || p->product[i].iter != x.iter)) i++;
  if (i == SK_PRODUCTS) return sk_no(p, "too many products");
  if (i == p->nproducts) p->product[p->nproducts++] = x;
  return put(p, (struct sk_value){.kind = SK_PRODUCT, .x = -1, .y = -1, .index = i, .has = sk_space_axes(&p->rows) | sk_space_axes(&x.cols)});
}

// Columns of the first product that a value is made of.
static bool product_columns(const struct sk_plan *p, int v, struct sk_space *out)
{
  const struct sk_value *x = &p->v[v];
  if (x->kind == SK_PRODUCT) return *out = p->product[x->index].cols, true;
  return x->kind == SK_OP && (product_columns(p, x->x, out) || (x->y >= 0 && product_columns(p, x->y, out)));
}

// By weights that are loaded whole, after the loop.
static int second(struct sk_plan *p, const struct sk_side *s, int x, int b)
{
  int iter = iterator_of(s, b);
  struct sk_space cols = {.size = 1};
  if (x < 0) return -1;
  if (iter < 0 || sk_axes_of(p, &p->iter[iter]) & loops(s)) return sk_no(p, "a product of two operands that are computed");
  if (!product_columns(p, x, &cols)) return sk_no(p, "a product after the loop of what is no product");
  uint64_t axes = sk_space_axes(&cols), has = sk_axes_of(p, &p->iter[iter]);
  if (axes & ~has) return sk_no(p, "a product after the loop that sums something else");
  struct sk_value v = {.kind = SK_SECOND, .x = x, .y = -1, .index = iter, .has = (p->v[x].has | has) & ~axes, .number = p->nseconds};
  for (int i = 0; i < p->nvalues; i++)
    if (p->v[i].kind == SK_SECOND && p->v[i].x == x && p->v[i].index == iter) return i;
  if (p->nseconds == SK_SECONDS) return sk_no(p, "too many products after the loop");
  if (!p->cols.size && s->tail) p->cols = sk_space_of(p, s, last(shape_of(s, b), 1));
  p->second[p->nseconds].value = x;
  p->second[p->nseconds++].cols = cols;
  return put(p, v);
}

// X by what may be computed of weights: X (A B + W) is (X A) B + X W.
static int times(struct sk_plan *p, const struct sk_side *s, int x, int right)
{
  const struct node *n = maker(s, right);
  if (n->op == OP_ITER) return product(p, x, right, false);
  if (n->op == OP_MATMUL) return second(p, s, times(p, s, x, n->in[0]), n->in[1]);
  if (n->op == OP_MUL_SCALAR || n->op == OP_NEG) return operate(p, n->op, &n->a, times(p, s, x, n->in[0]), -1);
  if (n->op != OP_ADD && n->op != OP_SUB) return sk_no(p, "weights that are computed");
  int left = times(p, s, x, n->in[0]);
  return left < 0 ? -1 : operate(p, n->op, &n->a, left, times(p, s, x, n->in[1]));
}

static int matmul(struct sk_plan *p, int a, int b)
{
  const struct sk_side *s = &p->head;
  bool left = iterator_of(s, a) >= 0 && is_element(s, b), right = is_element(s, a);
  bool few = shape_of(s, a)->ndims > 1 && sk_space_of(p, s, last(shape_of(s, a), 2)).size <= SK_ROWS;
  return left && (!few || !right) ? product(p, b, a, true) : right ? times(p, s, a, b) : sk_no(p, "a product of two operands that are computed");
}

static int statistic(struct sk_plan *p, int tensor, const struct norm_dim *d, unsigned flags, bool square)
{
  const struct sk_side *s = &p->head;
  int x = element(p, s, tensor), i = 0;
  struct attrs none = attrs_default(OP_SQUARE);
  if (x >= 0 && square) x = operate(p, OP_SQUARE, &none, x, -1);
  if (x < 0) return -1;
  if (!over_k(p, d)) return sk_no(p, "a sum over something else than the products");
  while (i < p->nstats && p->stat[i] != x) i++;
  if (i == SK_STATS) return sk_no(p, "too many sums");
  if (i == p->nstats) p->stat[p->nstats++] = x;
  int v = put(p, (struct sk_value){.kind = SK_STAT, .x = -1, .y = -1, .index = i, .has = p->v[x].has & ~sk_space_axes(&p->k)});
  if (flags & MEAN) v = scaled(p, v, 1.0 / (double)(sk_space_of(p, s, d).size * graph_iterations(s->n->block)));
  none = attrs_default(OP_SQRT);
  return flags & RMS ? operate(p, OP_SQRT, &none, v, -1) : v;
}

// ---- what sums go through ----

struct linear { // a sum that is pushed inward: over the loop, or by the tail over parts
  int (*sum)(struct sk_plan *p, const struct sk_side *s, int tensor);
  int (*rest)(struct sk_plan *p, const struct sk_side *s, int tensor);
  bool (*still)(const struct sk_plan *p, const struct sk_side *s, int tensor); // the sum does not run over it
};

static int through(struct sk_plan *p, const struct sk_side *s, const struct node *n, const struct linear *l)
{
  enum op op = n->op;
  if (op == OP_NEG || op == OP_MUL_SCALAR) return operate(p, op, &n->a, l->sum(p, s, n->in[0]), -1);
  if (op == OP_ADD || op == OP_SUB) {
    if (l->still(p, s, n->in[0]) || l->still(p, s, n->in[1])) return sk_no(p, "sums what does not change");
    int x = l->sum(p, s, n->in[0]);
    return x < 0 ? -1 : operate(p, op, &n->a, x, l->sum(p, s, n->in[1]));
  }
  if ((op == OP_MUL || op == OP_DIV) && l->still(p, s, n->in[1])) {
    int x = l->sum(p, s, n->in[0]);
    return x < 0 ? -1 : operate(p, op, &n->a, x, l->rest(p, s, n->in[1]));
  }
  if (op == OP_MUL && l->still(p, s, n->in[0])) {
    int x = l->rest(p, s, n->in[0]);
    return x < 0 ? -1 : operate(p, op, &n->a, x, l->sum(p, s, n->in[1]));
  }
  return sk_no(p, arena_printf(p->j->mem, "%s between a product and its sum", op_rows[op].name));
}

static bool fixed(const struct sk_plan *p, const struct sk_side *s, int tensor)
{
  (void)p;
  return s->n->block->tensors[tensor].phase == FIXED;
}

static int joined(struct sk_plan *p, const struct sk_side *s, const struct node *n)
{
  struct attrs none = attrs_default(OP_ADD);
  int part[2];
  for (int i = 0; i < 2; i++) {
    int a = n->in[i], b = n->in[i + 2];
    part[i] = is_element(s, a) ? matmul(p, a, b) : second(p, s, summed(p, s, a), b);
  }
  return operate(p, OP_ADD, &none, part[0], part[1]);
}

// The sum over k of a tensor of an iteration, the dimension of k in it already summed.
static int summed(struct sk_plan *p, const struct sk_side *s, int tensor)
{
  static const struct linear over_loop = {summed, sk_after, fixed};
  const struct node *n = maker(s, tensor);
  if (n->op == OP_CONCAT_MATMUL) return joined(p, s, n);
  if (n->op == OP_MATMUL) {
    int a = n->in[0], b = n->in[1];
    if (!is_element(s, a) && fixed(p, s, b) && maker(s, b)->op == OP_ITER) return second(p, s, summed(p, s, a), b);
    return matmul(p, a, b);
  }
  if ((n->op == OP_SUM && !n->a.group) || n->op == OP_MEAN) {
    const struct norm_dim *d = &shape_of(s, n->in[0])->dim[n->a.dim];
    int v = statistic(p, n->in[0], d, 0, false);
    return v < 0 || n->op == OP_SUM ? v : scaled(p, v, 1.0 / (double)sk_space_of(p, s, d).size);
  }
  if (op_rows[n->op].rule == RULE_MAP) return through(p, s, n, &over_loop);
  return sk_no(p, arena_printf(p->j->mem, "%s in the loop", op_rows[n->op].name));
}

// Does a value add up when its parts of k do?
static bool adds_up(const struct sk_plan *p, int v)
{
  const struct sk_value *x = &p->v[v];
  if (x->kind == SK_PRODUCT || x->kind == SK_STAT) return true;
  if (x->kind == SK_SECOND) return adds_up(p, x->x) && !(sk_axes_of(p, &p->iter[x->index]) & p->parts);
  if (x->kind != SK_OP) return false;
  if (x->op == OP_ADD || x->op == OP_SUB) return adds_up(p, x->x) && adds_up(p, x->y);
  if (x->op == OP_NEG || x->op == OP_MUL_SCALAR) return adds_up(p, x->x);
  if (x->op != OP_MUL && x->op != OP_DIV) return false;
  bool right = p->v[x->y].kind == SK_LOAD || p->v[x->y].kind == SK_CONST, left = p->v[x->x].kind == SK_LOAD || p->v[x->x].kind == SK_CONST;
  if (right && adds_up(p, x->x)) return !(p->v[x->y].has & p->parts);
  return x->op == OP_MUL && left && adds_up(p, x->y) && !(p->v[x->x].has & p->parts);
}

// ---- after the loop ----

// What the head left in the tensor that a tail's iterator reads: -1 with a reason, -2 where it is none of these.
static int left_by_head(struct sk_plan *p, int iter)
{
  const struct norm *h = p->head.n;
  for (int i = 0; i < h->nsave; i++)
    if (h->save[i].tensor == p->iter[iter].tensor) return sk_after(p, &p->head, h->save[i].tile);
  return -2;
}

static bool reads_parts(const struct sk_plan *p, const struct sk_side *s, int tensor)
{
  const struct node *n = maker(s, tensor);
  if (n->op == OP_ITER)
    for (int i = 0; i < p->head.n->nsave; i++)
      if (p->head.n->save[i].tensor == p->iter[iterator_of(s, tensor)].tensor) return true;
  for (int i = 0; i < n->nin && n->op != OP_ITER; i++)
    if (reads_parts(p, s, n->in[i])) return true;
  return false;
}

static bool whole(const struct sk_plan *p, const struct sk_side *s, int tensor) { return !reads_parts(p, s, tensor); }

static int parts_summed(struct sk_plan *p, const struct sk_side *s, int tensor)
{
  static const struct linear over_parts = {parts_summed, sk_after, whole};
  const struct node *n = maker(s, tensor);
  if (op_rows[n->op].rule == RULE_MAP) return through(p, s, n, &over_parts);
  if (n->op != OP_ITER) return sk_no(p, arena_printf(p->j->mem, "%s before the sum of parts", op_rows[n->op].name));
  int v = left_by_head(p, iterator_of(s, tensor));
  if (v == -2) return sk_no(p, "sums what no block left");
  return v < 0 || adds_up(p, v) ? v : sk_no(p, "parts that do not add up");
}

static int accumulated(struct sk_plan *p, const struct sk_side *s, const struct node *n)
{
  unsigned flags = op_rows[n->op].flags;
  if (flags & (RESCALES | RUNNING)) return sk_no(p, "a running maximum");
  if (n->op == OP_ACCUM_SUM_TO) return sk_no(p, "partial sums");
  if (fixed(p, s, n->in[0])) return sk_no(p, "sums what does not change");
  if (flags & REDUCES) return statistic(p, n->in[0], &shape_of(s, n->in[0])->dim[n->a.dim], flags, flags & RMS);
  return summed(p, s, n->in[0]);
}

static int loaded_after(struct sk_plan *p, const struct sk_side *s, int tensor)
{
  int iter = iterator_of(s, tensor), v = s->tail ? left_by_head(p, iter) : -2;
  if (v == -2) return load(p, iter);
  p->unsummed = true;
  return v;
}

// Is it made of sums over the loop?
static bool reads_sums(const struct sk_side *s, int tensor)
{
  const struct node *n = maker(s, tensor);
  if (op_rows[n->op].rule == RULE_ACCUM) return true;
  for (int i = 0; i < n->nin && n->op != OP_ITER; i++)
    if (reads_sums(s, n->in[i])) return true;
  return false;
}

int sk_after(struct sk_plan *p, const struct sk_side *s, int tensor)
{
  const struct node *n = maker(s, tensor);
  bool elements = n->op == OP_MATMUL && !s->tail && is_element(s, n->in[0]) && !reads_sums(s, n->in[1]), reduces = n->op == OP_SUM || n->op == OP_MEAN;
  if (op_rows[n->op].rule == RULE_ACCUM) return s->tail ? sk_no(p, "a loop in the tail") : accumulated(p, s, n);
  if (n->op == OP_ITER) return loaded_after(p, s, tensor);
  if (n->op == OP_CONST) return constant(p, n);
  if (elements) return graph_iterations(s->n->block) > 1 ? sk_no(p, "a product beside the loop") : summed(p, s, tensor);
  if (n->op == OP_MATMUL) return second(p, s, sk_after(p, s, n->in[0]), n->in[1]);
  if (n->op == OP_SUM && !n->a.group && s->tail && reads_parts(p, s, n->in[0]))
    return sk_tail_sums(p, &shape_of(s, n->in[0])->dim[n->a.dim]) ? parts_summed(p, s, n->in[0]) : sk_no(p, "sums something else than parts");
  if (reduces && !s->tail && is_element(s, n->in[0]) && graph_iterations(s->n->block) == 1) return summed(p, s, tensor);
  if (op_rows[n->op].rule != RULE_MAP) return sk_no(p, arena_printf(p->j->mem, "%s after the products", op_rows[n->op].name));
  int x = sk_after(p, s, n->in[0]);
  return x < 0 ? -1 : operate(p, n->op, &n->a, x, n->nin == 2 ? sk_after(p, s, n->in[1]) : -1);
}
