// Values of a block graph. What is after the loop is made of sums over the loop: an accumulator is pushed inward through
// what is linear, until it stands at a product with weights, or at a sum over k of elements of X. So a product inside the
// loop whose other operand does not change, (x A) B, is done once after the loop. A tail that sums what blocks did with their
// parts of k is pushed inward in the same way: k is then all of it. Requires a norm; provides values in an order in which
// operands come first, the spaces, and for each product which operand is the weights.
#include "lower/skinny.h"

#include <string.h>

static int summed_of(struct sk_plan *p, const struct sk_side *s, int tensor);
static int parts_summed_of(struct sk_plan *p, const struct sk_side *s, int tensor);
static int after_of(struct sk_plan *p, const struct sk_side *s, int tensor);

// The sum over k of a tensor of an iteration, the dimension of k in it already summed.
static int summed(struct sk_plan *p, const struct sk_side *s, int tensor) { return sk_making(p, s, tensor, summed_of); }

// What the tail sums over parts.
static int parts_summed(struct sk_plan *p, const struct sk_side *s, int tensor) { return sk_making(p, s, tensor, parts_summed_of); }

int sk_after(struct sk_plan *p, const struct sk_side *s, int tensor) { return sk_making(p, s, tensor, after_of); }

// ---- what sums go through ----

struct linear { // a sum that is pushed inward: over the loop, or by the tail over parts
  int (*sum)(struct sk_plan *p, const struct sk_side *s, int tensor);
  int (*rest)(struct sk_plan *p, const struct sk_side *s, int tensor);
  bool (*still)(const struct sk_plan *p, const struct sk_side *s, int tensor); // the sum does not run over it
};

static int through(struct sk_plan *p, const struct sk_side *s, const struct node *n, const struct linear *l)
{
  enum op op = n->op;
  if (op_rows[op].flags & SCALES) return sk_operate(p, op, &n->a, l->sum(p, s, n->in[0]), -1);
  if (op == OP_ADD || op == OP_SUB) {
    if (l->still(p, s, n->in[0]) || l->still(p, s, n->in[1])) return sk_no(p, "sums what does not change");
    int x = l->sum(p, s, n->in[0]);
    return x < 0 ? -1 : sk_operate(p, op, &n->a, x, l->sum(p, s, n->in[1]));
  }
  if ((op == OP_MUL || op == OP_DIV) && l->still(p, s, n->in[1])) {
    int x = l->sum(p, s, n->in[0]);
    return x < 0 ? -1 : sk_operate(p, op, &n->a, x, l->rest(p, s, n->in[1]));
  }
  if (op == OP_MUL && l->still(p, s, n->in[0])) {
    int x = l->rest(p, s, n->in[0]);
    return x < 0 ? -1 : sk_operate(p, op, &n->a, x, l->sum(p, s, n->in[1]));
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
    part[i] = sk_is_element(s, a) ? sk_matmul(p, a, b) : sk_second(p, s, summed(p, s, a), b);
  }
  return sk_operate(p, OP_ADD, &none, part[0], part[1]);
}

// A sum or a mean over one dimension.
static bool is_reduction(const struct node *n) { return (n->op == OP_SUM && !n->a.group) || n->op == OP_MEAN; }

static const struct norm_dim *reduced_dim(const struct sk_side *s, const struct node *n) { return &sk_tile(s, n->in[0])->dim[n->a.dim]; }

// A mean of `size` elements whose sum is value v.
static int mean(struct sk_plan *p, const struct node *n, int64_t size, int v)
{
  return v < 0 || n->op == OP_SUM ? v : sk_scaled(p, v, 1.0 / (double)size);
}

// sum(h * w) of one row h is h w. -2: n is no such sum, of weights that are loaded once and what is not.
static int second_by_sum(struct sk_plan *p, const struct sk_side *s, const struct node *n, int (*left)(struct sk_plan *, const struct sk_side *, int))
{
  const struct norm_dim *d = reduced_dim(s, n);
  struct sk_space sum = sk_space_of(p, s, d);
  int h = -1, weights = sk_weights(s, n->in[0], d, &h);
  if (weights < 0 || sk_is_element(s, h) || !fixed(p, s, weights)) return -2;
  int v = sk_second(p, s, left(p, s, h), weights);
  if (v >= 0 && sk_space_axes(&p->second[p->v[v].number].cols) != sk_space_axes(&sum))
    return sk_no(p, "a product after the loop that sums something else");
  return mean(p, n, sum.size, v);
}

static int summed_of(struct sk_plan *p, const struct sk_side *s, int tensor)
{
  static const struct linear over_loop = {summed, sk_after, fixed};
  const struct node *n = sk_maker(s, tensor);
  if (n->op == OP_CONCAT_MATMUL) return joined(p, s, n);
  if (n->op == OP_MATMUL) {
    int a = n->in[0], b = n->in[1];
    if (!sk_is_element(s, a) && fixed(p, s, b) && sk_maker(s, b)->op == OP_ITER) return sk_second(p, s, summed(p, s, a), b);
    return sk_matmul(p, a, b);
  }
  if (is_reduction(n)) {
    int v = second_by_sum(p, s, n, summed);
    return v != -2 ? v : mean(p, n, sk_space_of(p, s, reduced_dim(s, n)).size, sk_statistic(p, n->in[0], reduced_dim(s, n), 0, false));
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
  if (op_rows[x->op].flags & SCALES) return adds_up(p, x->x);
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
  const struct node *n = sk_maker(s, tensor);
  if (n->op == OP_ITER)
    for (int i = 0; i < p->head.n->nsave; i++)
      if (p->head.n->save[i].tensor == p->iter[sk_iterator(s, tensor)].tensor) return true;
  for (int i = 0; i < n->nin && n->op != OP_ITER; i++)
    if (reads_parts(p, s, n->in[i])) return true;
  return false;
}

static bool whole(const struct sk_plan *p, const struct sk_side *s, int tensor) { return !reads_parts(p, s, tensor); }

static int parts_summed_of(struct sk_plan *p, const struct sk_side *s, int tensor)
{
  static const struct linear over_parts = {parts_summed, sk_after, whole};
  const struct node *n = sk_maker(s, tensor);
  if (op_rows[n->op].rule == RULE_MAP) return through(p, s, n, &over_parts);
  if (n->op != OP_ITER) return sk_no(p, arena_printf(p->j->mem, "%s before the sum of parts", op_rows[n->op].name));
  int v = left_by_head(p, sk_iterator(s, tensor));
  if (v == -2) return sk_no(p, "sums what no block left");
  return v < 0 || adds_up(p, v) ? v : sk_no(p, "parts that do not add up");
}

static int accumulated(struct sk_plan *p, const struct sk_side *s, const struct node *n)
{
  unsigned flags = op_rows[n->op].flags;
  if (flags & (RESCALES | RUNNING)) return sk_no(p, "a running maximum");
  if (n->op == OP_ACCUM_SUM_TO) return sk_no(p, "partial sums");
  if (fixed(p, s, n->in[0])) return sk_no(p, "sums what does not change");
  if (flags & REDUCES) return sk_statistic(p, n->in[0], &sk_tile(s, n->in[0])->dim[n->a.dim], flags, flags & RMS);
  struct sk_about was = p->taking;
  p->taking = sk_about_node(s, n);
  int v = summed(p, s, n->in[0]);
  return p->taking = was, v;
}

static int loaded_after(struct sk_plan *p, const struct sk_side *s, int tensor)
{
  int iter = sk_iterator(s, tensor), v = s->tail ? left_by_head(p, iter) : -2;
  if (v == -2) return sk_load(p, iter);
  p->unsummed = true;
  return v;
}

// Is it made of sums over the loop?
static bool reads_sums(const struct sk_side *s, int tensor)
{
  const struct node *n = sk_maker(s, tensor);
  if (op_rows[n->op].rule == RULE_ACCUM) return true;
  for (int i = 0; i < n->nin && n->op != OP_ITER; i++)
    if (reads_sums(s, n->in[i])) return true;
  return false;
}

// Of what the loop accumulated, which is summed there already.
static int summed_later(struct sk_plan *p, const struct sk_side *s, const struct node *n, const struct node *accumulator)
{
  struct sk_about was = p->taking, making = p->making;
  p->taking = making, p->making = sk_about_node(s, accumulator);
  int v = sk_statistic(p, accumulator->in[0], reduced_dim(s, n), 0, false);
  return p->taking = was, p->making = making, v;
}

// A sum of elements, of what the loop accumulated of these, or a second product.
static int reduced_after(struct sk_plan *p, const struct sk_side *s, const struct node *n)
{
  const struct node *of = sk_maker(s, n->in[0]);
  const struct norm_dim *d = reduced_dim(s, n);
  if (sk_is_element(s, n->in[0]) && graph_iterations(s->n->block) == 1) return summed(p, s, n->out);
  if (of->op == OP_ACCUM && !fixed(p, s, of->in[0])) return mean(p, n, sk_space_of(p, s, d).size, summed_later(p, s, n, of));
  int v = second_by_sum(p, s, n, sk_after);
  return v != -2 ? v : sk_no(p, arena_printf(p->j->mem, "%s after the products", op_rows[n->op].name));
}

static int after_of(struct sk_plan *p, const struct sk_side *s, int tensor)
{
  const struct node *n = sk_maker(s, tensor);
  bool elements = n->op == OP_MATMUL && !s->tail && sk_is_element(s, n->in[0]) && !reads_sums(s, n->in[1]);
  if (op_rows[n->op].rule == RULE_ACCUM) return s->tail ? sk_no(p, "a loop in the tail") : accumulated(p, s, n);
  if (n->op == OP_ITER) return loaded_after(p, s, tensor);
  if (n->op == OP_CONST) return sk_constant(p, n);
  if (elements) return graph_iterations(s->n->block) > 1 ? sk_no(p, "a product beside the loop") : summed(p, s, tensor);
  if (n->op == OP_MATMUL) return sk_second(p, s, sk_after(p, s, n->in[0]), n->in[1]);
  if (n->op == OP_SUM && !n->a.group && s->tail && reads_parts(p, s, n->in[0]))
    return sk_tail_sums(p, &sk_tile(s, n->in[0])->dim[n->a.dim]) ? parts_summed(p, s, n->in[0]) : sk_no(p, "sums something else than parts");
  if (is_reduction(n) && !s->tail) return reduced_after(p, s, n);
  if (op_rows[n->op].rule != RULE_MAP) return sk_no(p, arena_printf(p->j->mem, "%s after the products", op_rows[n->op].name));
  int x = sk_after(p, s, n->in[0]);
  return x < 0 ? -1 : sk_operate(p, n->op, &n->a, x, n->nin == 2 ? sk_after(p, s, n->in[1]) : -1);
}
