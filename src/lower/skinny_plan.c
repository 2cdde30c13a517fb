// Values of a block graph. What is after the loop is made of sums over the loop: an accumulator is pushed inward through
// what is linear, until it stands at a product with weights, or at a sum over k of elements of X. So a product inside the
// loop whose other operand does not change, (x A) B, is done once after the loop. Requires a norm; provides values in an
// order in which operands come first, the spaces, and for each product which operand is the weights.
#include "lower/skinny.h"

#include <string.h>

static int after(struct sk_plan *p, int tensor);
static int summed(struct sk_plan *p, int tensor);

static int no(struct sk_plan *p, const char *what)
{
  if (!*p->why) snprintf(p->why, 160, "%s", what);
  return -1;
}

static const struct node *maker(const struct sk_plan *p, int tensor)
{
  return &p->n->block->nodes[p->n->block->tensors[p->n->t[tensor].root].node];
}

static bool same(const struct sk_value *a, const struct sk_value *b)
{
  return a->kind == b->kind && a->op == b->op && a->x == b->x && a->y == b->y && a->index == b->index && a->number == b->number &&
         a->a.scalar == b->a.scalar && a->a.lo == b->a.lo && a->a.hi == b->a.hi;
}

static int put(struct sk_plan *p, struct sk_value v)
{
  for (int i = 0; i < p->nvalues; i++)
    if (same(&p->v[i], &v)) return i;
  if (p->nvalues == SK_VALUES) return no(p, "too many operators");
  p->v[p->nvalues] = v;
  return p->nvalues++;
}

// Letters of more than one element: what a tensor depends on.
static uint32_t letters(const struct sk_plan *p, int tensor)
{
  uint32_t m = 0;
  for (int l = 0; l < p->n->nletters; l++)
    if (p->n->extent[l] > 1) m |= p->n->t[tensor].has & 1u << l;
  return m;
}

static int operate(struct sk_plan *p, enum op op, const struct attrs *a, int x, int y)
{
  if (x < 0 || (y < 0 && op_rows[op].most == 2)) return -1;
  if (!emit_has_pointwise(op)) return no(p, arena_printf(p->j->mem, "%s is no operator of single elements here", op_rows[op].name));
  struct sk_value v = {.kind = SK_OP, .op = op, .a = *a, .x = x, .y = y};
  v.has = p->v[x].has | (y < 0 ? 0 : p->v[y].has), v.runs = p->v[x].runs || (y >= 0 && p->v[y].runs);
  return put(p, v);
}

static int scaled(struct sk_plan *p, int x, double by)
{
  struct attrs a = attrs_default(OP_MUL_SCALAR);
  a.scalar = by;
  return operate(p, OP_MUL_SCALAR, &a, x, -1);
}

static int load(struct sk_plan *p, int tensor)
{
  int iter = p->n->iter_of[p->n->t[tensor].root];
  if (iter < 0) return no(p, "reads what no iterator loads");
  struct sk_value v = {.kind = SK_LOAD, .x = -1, .y = -1, .index = iter, .has = letters(p, tensor)};
  for (int i = 0; i < p->n->block->nloop; i++) v.runs |= p->n->block->loop[i] > 1 && p->n->iter[iter].loop[i];
  return put(p, v);
}

static int constant(struct sk_plan *p, const struct node *n)
{
  return put(p, (struct sk_value){.kind = SK_CONST, .a = n->a, .x = -1, .y = -1});
}

// Elements of what is loaded, in or before the loop.
static int element(struct sk_plan *p, int tensor)
{
  const struct node *n = maker(p, tensor);
  if (n->op == OP_ITER) return load(p, tensor);
  if (n->op == OP_CONST) return constant(p, n);
  if (op_rows[n->op].rule != RULE_MAP) return no(p, arena_printf(p->j->mem, "%s before a product", op_rows[n->op].name));
  int x = element(p, n->in[0]);
  return operate(p, n->op, &n->a, x, n->nin == 2 ? element(p, n->in[1]) : -1);
}

static bool is_element(const struct sk_plan *p, int tensor)
{
  const struct node *n = maker(p, tensor);
  if (n->op == OP_ITER || n->op == OP_CONST) return true;
  if (op_rows[n->op].rule != RULE_MAP) return false;
  for (int i = 0; i < n->nin; i++)
    if (!is_element(p, n->in[i])) return false;
  return true;
}

// ---- sums over k ----

// All of k is summed: these letters, and the loop.
static bool over_k(struct sk_plan *p, const struct norm_dim *d)
{
  struct sk_space s = sk_space_of(p->n, d);
  uint32_t letters = sk_space_letters(&s);
  if (p->k.size) return letters == p->sum;
  p->k.size = 1, p->sum = letters;
  for (int i = 0; i < p->n->block->nloop; i++) sk_space_push(&p->k, true, i, p->n->block->loop[i]);
  for (int i = 0; i < d->n; i++) sk_space_push(&p->k, false, d->letter[i], p->n->extent[(int)d->letter[i]]);
  return true;
}

static bool of_rows(struct sk_plan *p, const struct norm_dim *d)
{
  struct sk_space s = sk_space_of(p->n, d);
  if (p->rows.size) return sk_space_letters(&s) == sk_space_letters(&p->rows);
  if (s.size > SK_ROWS) return false;
  p->rows = s;
  return true;
}

// rows x k by k x cols, or the other way round; `weights` is what an iterator loads.
static int product(struct sk_plan *p, int tensor, int a, int b, bool turned)
{
  const struct norm_tensor *o = &p->n->t[tensor], *at = &p->n->t[a], *bt = &p->n->t[b];
  int iter = p->n->iter_of[bt->root];
  struct sk_product x = {.iter = iter};
  for (int d = 0; d < o->ndims - 2; d++)
    if (norm_extent(p->n, norm_dim_letters(&o->dim[d])) > 1) return no(p, "products of several batches in a block");
  if (!of_rows(p, &o->dim[o->ndims - (turned ? 1 : 2)])) return no(p, "more than 32 rows, or products of different rows");
  if (!over_k(p, &at->dim[at->ndims - (turned ? 2 : 1)])) return no(p, "products that sum over different dimensions");
  x.cols = sk_space_of(p->n, &o->dim[o->ndims - (turned ? 2 : 1)]);
  if ((x.x = element(p, a)) < 0) return -1;
  if (p->nproducts == SK_PRODUCTS) return no(p, "too many products");
  for (int i = 0; i < p->nproducts; i++)
    if (p->product[i].x == x.x && p->product[i].iter == iter) return put(p, (struct sk_value){.kind = SK_PRODUCT, .x = -1, .y = -1, .index = i, .has = letters(p, tensor)});
  p->product[p->nproducts] = x;
  return put(p, (struct sk_value){.kind = SK_PRODUCT, .x = -1, .y = -1, .index = p->nproducts++, .has = letters(p, tensor)});
}

// By weights that are loaded whole, after the loop.
static int second(struct sk_plan *p, int tensor, int x, int b)
{
  const struct norm_tensor *bt = &p->n->t[b];
  int iter = p->n->iter_of[bt->root];
  if (x < 0) return -1;
  if (iter < 0) return no(p, "a product of two operands that are computed");
  for (int i = 0; i < p->n->block->nloop; i++)
    if (p->n->block->loop[i] > 1 && p->n->iter[iter].loop[i]) return no(p, "a product of two operands that change in the loop");
  struct sk_value v = {.kind = SK_SECOND, .x = x, .y = -1, .index = iter, .has = letters(p, tensor), .number = p->nseconds};
  for (int i = 0; i < p->nvalues; i++)
    if (p->v[i].kind == SK_SECOND && p->v[i].x == x && p->v[i].index == iter) return i;
  if (p->nseconds == SK_SECONDS) return no(p, "too many products after the loop");
  p->second[p->nseconds].value = x;
  p->second[p->nseconds++].cols = sk_space_of(p->n, &bt->dim[bt->ndims - 2]);
  return put(p, v);
}

static int matmul(struct sk_plan *p, int tensor, int a, int b)
{
  bool left = p->n->iter_of[p->n->t[a].root] >= 0 && is_element(p, b), right = p->n->iter_of[p->n->t[b].root] >= 0 && is_element(p, a);
  const struct norm_tensor *o = &p->n->t[tensor];
  bool few = o->ndims < 2 || norm_extent(p->n, norm_dim_letters(&o->dim[o->ndims - 2])) <= SK_ROWS;
  if (o->ndims < 2) return no(p, "a product of vectors");
  if (right && (few || !left)) return product(p, tensor, a, b, false);
  return left ? product(p, tensor, b, a, true) : no(p, "weights that are computed");
}

static int statistic(struct sk_plan *p, int tensor, const struct norm_dim *d, unsigned flags, bool square)
{
  int x = element(p, tensor);
  struct attrs none = attrs_default(OP_SQUARE);
  if (x >= 0 && square) x = operate(p, OP_SQUARE, &none, x, -1);
  if (x < 0) return -1;
  if (!over_k(p, d)) return no(p, "a sum over something else than the products");
  uint32_t has = p->v[x].has & ~p->sum;
  int i = 0;
  while (i < p->nstats && p->stat[i] != x) i++;
  if (i == SK_STATS) return no(p, "too many sums");
  if (i == p->nstats) p->stat[p->nstats++] = x;
  int v = put(p, (struct sk_value){.kind = SK_STAT, .x = -1, .y = -1, .index = i, .has = has});
  if (flags & MEAN) v = scaled(p, v, 1.0 / (double)p->k.size);
  none = attrs_default(OP_SQRT);
  return flags & RMS ? operate(p, OP_SQRT, &none, v, -1) : v;
}

static bool fixed(const struct sk_plan *p, int tensor) { return p->n->block->tensors[tensor].phase == FIXED; }

static int summed_map(struct sk_plan *p, const struct node *n)
{
  enum op op = n->op;
  if (op == OP_NEG || op == OP_MUL_SCALAR) return operate(p, op, &n->a, summed(p, n->in[0]), -1);
  if (op == OP_ADD || op == OP_SUB) {
    if (fixed(p, n->in[0]) || fixed(p, n->in[1])) return no(p, "adds what does not change in every iteration");
    int x = summed(p, n->in[0]);
    return x < 0 ? -1 : operate(p, op, &n->a, x, summed(p, n->in[1]));
  }
  if ((op == OP_MUL || op == OP_DIV) && fixed(p, n->in[1])) {
    int x = summed(p, n->in[0]);
    return x < 0 ? -1 : operate(p, op, &n->a, x, after(p, n->in[1]));
  }
  if (op == OP_MUL && fixed(p, n->in[0])) {
    int x = after(p, n->in[0]);
    return x < 0 ? -1 : operate(p, op, &n->a, x, summed(p, n->in[1]));
  }
  return no(p, arena_printf(p->j->mem, "%s between a product and its sum", op_rows[op].name));
}

// The sum over k of a tensor of an iteration, the dimension of k in it already summed.
static int summed(struct sk_plan *p, int tensor)
{
  const struct node *n = maker(p, tensor);
  if (n->op == OP_MATMUL) {
    int a = n->in[0], b = n->in[1];
    bool one = is_element(p, a) && is_element(p, b);
    if (!one && fixed(p, b) && maker(p, b)->op == OP_ITER) return second(p, n->out, summed(p, a), b);
    return matmul(p, n->out, a, b);
  }
  if (n->op == OP_CONCAT_MATMUL) {
    struct attrs none = attrs_default(OP_ADD);
    int part[2];
    for (int i = 0; i < 2; i++) {
      int a = n->in[i], b = n->in[i + 2];
      part[i] = is_element(p, a) ? matmul(p, n->out, a, b) : second(p, n->out, summed(p, a), b);
    }
    return operate(p, OP_ADD, &none, part[0], part[1]);
  }
  if ((n->op == OP_SUM && !n->a.group) || n->op == OP_MEAN) {
    const struct norm_dim *d = &p->n->t[n->in[0]].dim[n->a.dim];
    int v = statistic(p, n->in[0], d, 0, false);
    return v < 0 || n->op == OP_SUM ? v : scaled(p, v, 1.0 / (double)norm_extent(p->n, norm_dim_letters(d)));
  }
  if (op_rows[n->op].rule == RULE_MAP) return summed_map(p, n);
  return no(p, arena_printf(p->j->mem, "%s in the loop", op_rows[n->op].name));
}

// ---- after the loop ----

static int accumulated(struct sk_plan *p, const struct node *n)
{
  unsigned flags = op_rows[n->op].flags;
  if (flags & (RESCALES | RUNNING)) return no(p, "a running maximum");
  if (n->op == OP_ACCUM_SUM_TO) return no(p, "partial sums");
  if (fixed(p, n->in[0])) return no(p, "sums what does not change");
  if (flags & REDUCES) return statistic(p, n->in[0], &p->n->t[n->in[0]].dim[n->a.dim], flags, flags & RMS);
  return summed(p, n->in[0]);
}

static int after(struct sk_plan *p, int tensor)
{
  const struct node *n = maker(p, tensor);
  bool loops = graph_iterations(p->n->block) > 1;
  if (op_rows[n->op].rule == RULE_ACCUM) return accumulated(p, n);
  if (n->op == OP_ITER) return load(p, tensor);
  if (n->op == OP_CONST) return constant(p, n);
  if (n->op == OP_MATMUL && is_element(p, n->in[0]) && is_element(p, n->in[1]))
    return loops ? no(p, "a product beside the loop") : summed(p, tensor);
  if (n->op == OP_MATMUL) return second(p, n->out, after(p, n->in[0]), n->in[1]);
  if ((n->op == OP_SUM || n->op == OP_MEAN) && is_element(p, n->in[0]) && !loops) return summed(p, tensor);
  if (op_rows[n->op].rule != RULE_MAP) return no(p, arena_printf(p->j->mem, "%s after the products", op_rows[n->op].name));
  int x = after(p, n->in[0]);
  if (x < 0) return -1;
  return operate(p, n->op, &n->a, x, n->nin == 2 ? after(p, n->in[1]) : -1);
}

// ---- the whole ----

// Columns of the savers: what is not rows. Products of these are wide, others are needed whole by a second product.
static int columns(struct sk_plan *p)
{
  uint32_t rows = sk_space_letters(&p->rows), cols = 0;
  for (int i = 0; i < p->nproducts; i++) {
    bool inner = false;
    for (int s = 0; s < p->nseconds; s++) inner |= sk_space_letters(&p->second[s].cols) == sk_space_letters(&p->product[i].cols);
    p->product[i].wide = !inner;
    if (!inner) p->cols = p->product[i].cols;
  }
  for (int i = 0; i < p->nvalues && !p->cols.size; i++)
    if (p->v[i].kind == SK_SECOND) {
      const struct norm_tensor *t = &p->n->t[p->n->iter[p->v[i].index].tile];
      p->cols = sk_space_of(p->n, &t->dim[t->ndims - 1]);
    }
  cols = sk_space_letters(&p->cols);
  for (int i = 0; i < p->nproducts; i++)
    if (p->product[i].wide && sk_space_letters(&p->product[i].cols) != cols) return no(p, "products of different columns"), NO;
  for (int i = 0; i < p->nsaves; i++)
    if (p->v[p->save[i]].has & ~(rows | cols)) return no(p, "saves something else than rows and columns of products"), NO;
  for (int i = 0; i < p->nstats; i++)
    if (p->v[p->stat[i]].has & ~(rows | p->sum)) return no(p, "a sum that is not one of rows"), NO;
  for (int i = 0; i < p->nseconds; i++)
    if (p->v[p->second[i].value].has & ~(rows | sk_space_letters(&p->second[i].cols))) return no(p, "a second product of something else than rows"), NO;
  return OK;
}

static void reach(struct sk_plan *p, int v, int from)
{
  struct sk_value *x = &p->v[v];
  if (x->reached >> from & 1) return;
  x->reached |= 1u << from;
  if (x->kind != SK_OP) return;
  reach(p, x->x, from);
  if (x->y >= 0) reach(p, x->y, from);
}

static void reach_all(struct sk_plan *p)
{
  for (int i = 0; i < p->nsaves; i++) reach(p, p->save[i], SK_WIDE);
  for (int i = 0; i < p->nseconds; i++) reach(p, p->second[i].value, SK_INNER + i);
  for (int i = 0; i < p->nproducts; i++) reach(p, p->product[i].x, SK_LOOP);
  for (int i = 0; i < p->nstats; i++) reach(p, p->stat[i], SK_LOOP);
}

int sk_plan_make(const struct lower_job *j, struct sk_plan *p, char why[160])
{
  const struct graph *b = j->n->block;
  memset(p, 0, sizeof *p);
  *why = 0;
  p->j = j, p->n = j->n, p->why = why;
  if (b->nloop + MAX_FACTORS > SK_AXES) return no(p, "too many axes"), NO;
  for (int i = 0; i < b->nnodes; i++) {
    if (b->nodes[i].op != OP_SAVE) continue;
    if (p->nsaves == SK_SAVES) return no(p, "too many savers"), NO;
    if ((p->save[p->nsaves++] = after(p, b->nodes[i].in[0])) < 0) return NO;
  }
  if (!p->nproducts) return no(p, "no product"), NO;
  reach_all(p);
  return columns(p);
}
