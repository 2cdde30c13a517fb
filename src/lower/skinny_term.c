// Terms: what sums over k are made of. A product is of elements of X by weights, which an iterator loads; written as matmul,
// or, of one row, as a sum of element by element products. A statistic is a sum of elements of X. A second product is of a
// product by weights that are loaded whole. Requires a norm; provides values, k, rows, batches, and for each product which
// operand is the weights.
#include "lower/skinny.h"

#include <string.h>

int sk_no(struct sk_plan *p, const char *what)
{
  if (!*p->why) snprintf(p->why, 160, "%s", what);
  return -1;
}

const struct node *sk_maker(const struct sk_side *s, int tensor) { return &s->n->block->nodes[s->n->block->tensors[s->n->t[tensor].root].node]; }

const struct norm_tensor *sk_tile(const struct sk_side *s, int tensor) { return &s->n->t[tensor]; }

static const struct norm_dim *last(const struct norm_tensor *t, int back) { return &t->dim[t->ndims - back]; }

// -1: no iterator's.
int sk_iterator(const struct sk_side *s, int tensor)
{
  int i = s->n->iter_of[s->n->t[tensor].root];
  return i < 0 ? -1 : s->iters + i;
}

static uint64_t loops(const struct sk_side *s) { return (1ull << s->grid) - (1ull << s->loops); }

static bool same(const struct sk_value *a, const struct sk_value *b)
{
  return a->kind == b->kind && a->op == b->op && a->x == b->x && a->y == b->y && a->index == b->index && a->number == b->number &&
         attrs_reals_same(&a->a, &b->a);
}

static int put(struct sk_plan *p, struct sk_value v)
{
  for (int i = 0; i < p->nvalues; i++)
    if (same(&p->v[i], &v)) return i;
  if (p->nvalues == SK_VALUES) return sk_no(p, "too many operators");
  bool sum = v.kind == SK_PRODUCT || v.kind == SK_STAT;
  v.about = sum && p->taking.node >= 0 ? p->taking : p->making;
  p->v[p->nvalues] = v;
  return p->nvalues++;
}

int sk_operate(struct sk_plan *p, enum op op, const struct attrs *a, int x, int y)
{
  if (x < 0 || (y < 0 && op_rows[op].most == 2)) return -1;
  if (!emit_has_pointwise(op)) return sk_no(p, arena_printf(p->j->mem, "%s is no operator of single elements here", op_rows[op].name));
  return put(p, (struct sk_value){.kind = SK_OP, .op = op, .a = *a, .x = x, .y = y, .has = p->v[x].has | (y < 0 ? 0 : p->v[y].has)});
}

int sk_scaled(struct sk_plan *p, int x, double by)
{
  struct attrs a = attrs_default(OP_MUL_SCALAR);
  a.scalar = by;
  return sk_operate(p, OP_MUL_SCALAR, &a, x, -1);
}

int sk_load(struct sk_plan *p, int iter)
{
  return put(p, (struct sk_value){.kind = SK_LOAD, .x = -1, .y = -1, .index = iter, .has = sk_axes_of(p, &p->iter[iter])});
}

int sk_constant(struct sk_plan *p, const struct node *n) { return put(p, (struct sk_value){.kind = SK_CONST, .a = n->a, .x = -1, .y = -1}); }

static int element_of(struct sk_plan *p, const struct sk_side *s, int tensor);

// Elements of what is loaded, in or before the loop.
static int element(struct sk_plan *p, const struct sk_side *s, int tensor) { return sk_making(p, s, tensor, element_of); }

static int element_of(struct sk_plan *p, const struct sk_side *s, int tensor)
{
  const struct node *n = sk_maker(s, tensor);
  if (n->op == OP_ITER) return sk_load(p, sk_iterator(s, tensor));
  if (n->op == OP_CONST) return sk_constant(p, n);
  if (op_rows[n->op].rule != RULE_MAP) return sk_no(p, arena_printf(p->j->mem, "%s before a product", op_rows[n->op].name));
  int x = element(p, s, n->in[0]);
  return sk_operate(p, n->op, &n->a, x, n->nin == 2 ? element(p, s, n->in[1]) : -1);
}

bool sk_is_element(const struct sk_side *s, int tensor)
{
  const struct node *n = sk_maker(s, tensor);
  if (n->op == OP_ITER || n->op == OP_CONST) return true;
  if (op_rows[n->op].rule != RULE_MAP) return false;
  for (int i = 0; i < n->nin; i++)
    if (!sk_is_element(s, n->in[i])) return false;
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
  for (int d = 0; d < sk_tile(s, tensor)->ndims - 2; d++) {
    struct sk_space x = sk_space_of(p, s, &sk_tile(s, tensor)->dim[d]);
    m |= sk_space_axes(&x);
  }
  return m;
}

// X by the weights of an iterator; `batch` are the letters that only go along.
static int put_product(struct sk_plan *p, struct sk_product x, const struct norm_dim *rows, const struct norm_dim *sum, uint64_t batch)
{
  if (p->nproducts && p->batch != batch) return sk_no(p, "products of different batches");
  if (!of_rows(p, rows)) return sk_no(p, "more than 32 rows, or products of different rows");
  if (!over_k(p, sum)) return sk_no(p, "products that sum over different dimensions");
  p->batch = batch;
  int i = 0;
  while (i < p->nproducts && (p->product[i].x != x.x || p->product[i].iter != x.iter)) i++;
  if (i == SK_PRODUCTS) return sk_no(p, "too many products");
  x.about = p->making;
  if (i == p->nproducts) p->product[p->nproducts++] = x;
  return put(p, (struct sk_value){.kind = SK_PRODUCT, .x = -1, .y = -1, .index = i, .has = sk_space_axes(&p->rows) | sk_space_axes(&x.cols)});
}

// rows x k by k x cols, or the other way round; b is what an iterator loads, the weights.
static int product(struct sk_plan *p, int a, int b, bool turned)
{
  const struct sk_side *s = &p->head;
  const struct norm_tensor *at = sk_tile(s, a), *bt = sk_tile(s, b);
  if (at->ndims < 2 || bt->ndims < 2) return sk_no(p, "a product of vectors");
  struct sk_product x = {.iter = sk_iterator(s, b), .cols = sk_space_of(p, s, last(bt, turned ? 2 : 1)), .x = element(p, s, a)};
  if (x.x < 0) return -1;
  return put_product(p, x, last(at, turned ? 1 : 2), last(at, turned ? 2 : 1), batches(p, s, a) | batches(p, s, b));
}

int sk_weights(const struct sk_side *s, int tensor, const struct norm_dim *d, int *x)
{
  const struct node *n = sk_maker(s, tensor);
  uint32_t sum = norm_dim_letters(d);
  for (int i = 0; i < 2 && n->op == OP_MUL; i++) {
    uint32_t weights = sk_tile(s, n->in[i])->has, left = sk_tile(s, n->in[!i])->has;
    if (sk_iterator(s, n->in[i]) >= 0 && left == sum && (weights & sum) == sum && weights != sum) return *x = n->in[!i], n->in[i];
  }
  return -1;
}

// sum(x * w) is x w, of one row.
static int dot(struct sk_plan *p, int tensor, const struct norm_dim *d, int x, int weights)
{
  static const struct norm_dim row;
  const struct sk_side *s = &p->head;
  const struct norm_tensor *t = sk_tile(s, tensor);
  struct sk_product out = {.iter = sk_iterator(s, weights), .cols = {.size = 1}, .x = element(p, s, x)};
  for (int i = 0; i < t->ndims; i++)
    for (int k = 0; k < t->dim[i].n; k++)
      if (!(norm_dim_letters(d) >> t->dim[i].letter[k] & 1)) sk_space_push(p, &out.cols, s->letters + t->dim[i].letter[k]);
  return out.x < 0 ? -1 : put_product(p, out, &row, d, 0);
}

// Columns of the first product that a value is made of.
static bool product_columns(const struct sk_plan *p, int v, struct sk_space *out)
{
  const struct sk_value *x = &p->v[v];
  if (x->kind == SK_PRODUCT) return *out = p->product[x->index].cols, true;
  return x->kind == SK_OP && (product_columns(p, x->x, out) || (x->y >= 0 && product_columns(p, x->y, out)));
}

// By weights that are loaded whole, after the loop.
int sk_second(struct sk_plan *p, const struct sk_side *s, int x, int b)
{
  int iter = sk_iterator(s, b);
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
  if (!p->cols.size && s->tail) p->cols = sk_space_of(p, s, last(sk_tile(s, b), 1));
  p->second[p->nseconds].value = x;
  p->second[p->nseconds++].cols = cols;
  return put(p, v);
}

// X by what may be computed of weights: X (A B + W) is (X A) B + X W.
static int times(struct sk_plan *p, const struct sk_side *s, int x, int right)
{
  const struct node *n = sk_maker(s, right);
  if (n->op == OP_ITER) return product(p, x, right, false);
  bool scales = op_rows[n->op].flags & SCALES, adds = n->op == OP_ADD || n->op == OP_SUB;
  if (n->op != OP_MATMUL && !scales && !adds) return sk_no(p, "weights that are computed");
  int left = times(p, s, x, n->in[0]), other = left >= 0 && adds ? times(p, s, x, n->in[1]) : -1;
  if (left < 0 || (adds && other < 0)) return -1;
  struct sk_about was = p->making;
  p->making = sk_about_node(s, n);
  int v = n->op == OP_MATMUL ? sk_second(p, s, left, n->in[1]) : sk_operate(p, n->op, &n->a, left, other);
  return p->making = was, v;
}

int sk_matmul(struct sk_plan *p, int a, int b)
{
  const struct sk_side *s = &p->head;
  bool left = sk_iterator(s, a) >= 0 && sk_is_element(s, b), right = sk_is_element(s, a);
  bool few = sk_tile(s, a)->ndims > 1 && sk_space_of(p, s, last(sk_tile(s, a), 2)).size <= SK_ROWS;
  return left && (!few || !right) ? product(p, b, a, true) : right ? times(p, s, a, b) : sk_no(p, "a product of two operands that are computed");
}

int sk_statistic(struct sk_plan *p, int tensor, const struct norm_dim *d, unsigned flags, bool square)
{
  const struct sk_side *s = &p->head;
  int left = -1, weights = square ? -1 : sk_weights(s, tensor, d, &left), i = 0;
  double per = flags & MEAN ? 1.0 / (double)(sk_space_of(p, s, d).size * graph_iterations(s->n->block)) : 1;
  struct attrs none = attrs_default(OP_SQUARE);
  if (weights >= 0 && sk_is_element(s, left)) {
    int v = dot(p, tensor, d, left, weights);
    return v < 0 || !(flags & MEAN) ? v : sk_scaled(p, v, per);
  }
  int x = element(p, s, tensor);
  if (x >= 0 && square) x = sk_operate(p, OP_SQUARE, &none, x, -1);
  if (x < 0) return -1;
  if (!over_k(p, d)) return sk_no(p, "a sum over something else than the products");
  while (i < p->nstats && p->stat[i] != x) i++;
  if (i == SK_STATS) return sk_no(p, "too many sums");
  if (i == p->nstats) p->stat_about[i] = p->making, p->stat[p->nstats++] = x;
  int v = put(p, (struct sk_value){.kind = SK_STAT, .x = -1, .y = -1, .index = i, .has = p->v[x].has & ~sk_space_axes(&p->k)});
  if (flags & MEAN) v = sk_scaled(p, v, per);
  none = attrs_default(OP_SQRT);
  return flags & RMS ? sk_operate(p, OP_SQRT, &none, v, -1) : v;
}
