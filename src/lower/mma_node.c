// Nodes as specs over fragments: elementwise operators, reductions over columns, accumulators. Sums that only
// accumulate are left in parts, one a lane of a quad, until after the loop.
#include "lower/mma.h"

#include <math.h>

static int root_of(const struct mma_kernel *k, int tensor) { return k->p->n->t[tensor].root; }

// An operand that is computed has its own shape; an iterator comes in that of the result, or whole where it is reduced.
struct mma_shape mma_wanted(const struct mma_plan *p, int node, int i)
{
  const struct node *n = &p->n->block->nodes[node];
  int root = p->n->t[n->in[i]].root;
  struct mma_shape s = p->shape[n->out];
  if (p->n->iter_of[root] < 0) return p->shape[root];
  if (op_rows[n->op].rule == RULE_MAP) return s;
  uint32_t letters = p->n->t[root].has & ~p->row_letters;
  for (int c = 0; c < p->ncols; c++)
    if (letters && p->cols[c].has == letters) s.cols = c;
  return s;
}

static const char *operand(struct mma_kernel *k, int node, int i)
{
  return mma_value(k, root_of(k, k->p->n->block->nodes[node].in[i]), mma_wanted(k->p, node, i));
}

static void unary(struct mma_kernel *k, const char *op, const char *out, const char *x)
{
  text_line(k->t, "%%%s <- UnaryPointwise<%s><<<#grid, #me>>>(%%%s)", out, op, x);
}

static void binary(struct mma_kernel *k, const char *op, const char *out, const char *x, const char *y)
{
  text_line(k->t, "%%%s <- BinaryPointwise<%s><<<#grid, #me>>>(%%%s, %%%s)", out, op, x, y);
}

static void set(struct mma_kernel *k, const char *out, double x) { text_line(k->t, "%%%s <- Init<%#.9g><<<#grid, #me>>>()", out, x); }

static void scale(struct mma_kernel *k, const char *out, const char *x, double by)
{
  const char *c = mma_declare(k, (struct mma_shape){false, -1}, "fp32");
  set(k, c, by);
  binary(k, "*", out, x, c);
}

// ---- elementwise ----

// Is the difference computed with its exponential only?
static bool left_to_exp(const struct mma_plan *p, int node)
{
  const struct graph *b = p->n->block;
  const struct node *n = &b->nodes[node];
  if (n->op != OP_SUB || p->n->uses[n->out] != 1) return false;
  for (int i = node + 1; i < b->nnodes; i++)
    if (b->nodes[i].op == OP_EXP && p->n->t[b->nodes[i].in[0]].root == n->out)
      return p->section[i] == p->section[node] && p->shape[b->nodes[i].out].cols == p->shape[n->out].cols;
  return false;
}

// x c, where only maxima and such differences read it: they take x, and bring c in where it costs little or nothing. Gives c, or
// 1 for what is computed as it stands.
static double deferred(const struct mma_plan *p, int root)
{
  const struct graph *b = p->n->block;
  const struct node *m = &b->nodes[b->tensors[root].node];
  if (m->op != OP_MUL_SCALAR || m->a.scalar <= 0 || p->n->iter_of[p->n->t[m->in[0]].root] >= 0) return 1;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    bool reads = false, max = n->op == OP_MAX, sub = left_to_exp(p, i) && p->n->t[n->in[1]].root != root;
    for (int k = 0; k < n->nin && op_rows[n->op].rule != RULE_VIEW && n->op != OP_ITER; k++) reads |= p->n->t[n->in[k]].root == root;
    if (reads && ((!max && !sub) || p->section[i] != p->section[b->tensors[root].node])) return 1;
  }
  return m->a.scalar;
}

// 2^x in place. Where so many exponentials are computed beside products that the unit for them is short, one tile of columns out
// of `poly` is left to multiplications.
static void powers(struct mma_kernel *k, const char *x, struct mma_shape s)
{
  const struct mma_plan *p = k->p;
  int nt = s.cols >= 0 ? p->cols[s.cols].nt : 1, every = p->poly;
  if (!every || nt % every) {
    unary(k, "exp2.approx", x, x);
    return;
  }
  text_open(k->t, "for (m = 0; m < %d; m += 1) unroll", s.rows ? p->mt : 1);
  text_open(k->t, "for (n = 0; n < %d; n += 1) unroll", nt / every);
  for (int e = 0; e < every; e++) {
    const char *one = arena_printf(k->mem, "%s[m, n * %d + %d]", x, every, e);
    unary(k, e == every - 1 ? "exp2.poly" : "exp2.approx", one, one);
  }
  text_close(k->t), text_close(k->t);
}

// log2 e, or a sixteenth of it in rows where the product with m may overflow. Numbers of that size that differ do so by 2^100, so
// their powers are 0 and 1 for any factor.
static const char *log2e_of(struct mma_kernel *k, struct mma_shape s, const char *m)
{
  const double log2e = 1.4426950408889634;
  struct mma_shape one = {false, -1};
  const char *c = mma_declare(k, s, "fp32"), *least = mma_declare(k, one, "fp32"), *limit = mma_declare(k, one, "fp32");
  set(k, limit, 0x1p126), set(k, least, log2e / 16);
  unary(k, "abs", c, m), binary(k, "<", c, c, limit);
  scale(k, c, c, log2e * 15 / 16), binary(k, "+", c, c, least);
  return c;
}

// exp(x - m) = 2^(x log2 e - m log2 e): the product with the constant and the difference are one instruction.
static bool fused_exp(struct mma_kernel *k, const struct node *n, const char *out)
{
  const struct mma_plan *p = k->p;
  int from = p->n->block->tensors[root_of(k, n->in[0])].node;
  const struct node *sub = &p->n->block->nodes[from];
  if (sub->op != OP_SUB || p->n->uses[root_of(k, n->in[0])] != 1) return false;
  struct mma_shape y = mma_wanted(p, from, 1);
  const char *x = operand(k, from, 0), *m = operand(k, from, 1), *scaled, *c;
  double factor = deferred(p, root_of(k, sub->in[0]));
  if (p->n->iter_of[root_of(k, sub->in[1])] >= 0) y = k->have[root_of(k, sub->in[1])];
  scaled = mma_declare(k, y, "fp32");
  c = log2e_of(k, y, m);
  binary(k, "*", scaled, m, c);
  if (factor != 1) scale(k, c, c, factor);
  binary(k, "*", out, x, c);
  int was = text_about(k->t, from);
  binary(k, "-", out, out, scaled);
  text_about(k->t, was);
  powers(k, out, k->p->shape[n->out]);
  return true;
}

// x / y of a y without columns is x (1 / y): divisions are long.
static bool by_rows(struct mma_kernel *k, const struct node *n, const char *out, const char *x, const char *y)
{
  const struct mma_plan *p = k->p;
  if (n->op != OP_DIV || p->n->iter_of[root_of(k, n->in[1])] >= 0 || p->shape[n->out].cols < 0) return false;
  struct mma_shape s = p->shape[root_of(k, n->in[1])];
  if (s.cols >= 0) return false;
  const char *one = mma_declare(k, s, "fp32");
  unary(k, "rcp", one, y), binary(k, "*", out, x, one);
  return true;
}

static void map(struct mma_kernel *k, int node)
{
  const struct mma_plan *p = k->p;
  const struct node *n = &p->n->block->nodes[node];
  if (p->folded[node] || left_to_exp(p, node)) return;
  const char *out, *x = NULL, *y = NULL;
  if (n->op == OP_EXP && left_to_exp(p, p->n->block->tensors[root_of(k, n->in[0])].node)) {
    out = mma_declare(k, p->shape[n->out], "fp32");
    if (fused_exp(k, n, out)) k->reg[n->out] = out;
    return;
  }
  x = operand(k, node, 0);
  if (deferred(p, n->out) != 1) {
    k->reg[n->out] = x;
    return;
  }
  if (n->nin > 1) y = operand(k, node, 1);
  k->reg[n->out] = out = mma_declare(k, p->shape[n->out], "fp32");
  if (by_rows(k, n, out, x, y)) return;
  emit_pointwise(k->t, n->op, &n->a, out, x, y);
}

// ---- reductions ----

// Over this thread's columns: first down every other tile, so that there are several chains side by side.
static const char *reduce_thread(struct mma_kernel *k, const char *op, const char *x, struct mma_shape s)
{
  const struct mma_plan *p = k->p;
  const char *some = arena_printf(k->mem, "v%d", k->t->fresh++), *one;
  mma_mask(k, x, s, *op == 'm' ? "-inf" : "0.0");
  int nt = s.cols >= 0 ? p->cols[s.cols].nt : 1, chains = MIN(nt, 2);
  text_line(k->t, "%%%s:[%d, %d].[2, 1].[1, 2].fp32.RF", some, p->mt, chains);
  text_open(k->t, "for (m = 0; m < %d; m += 1) unroll", p->mt);
  text_open(k->t, "for (n = 0; n < %d; n += 1) unroll", chains);
  text_line(k->t, "%%%s[m, n] <- Move<<<#grid, #me>>>(%%%s[m, n])", some, x);
  text_close(k->t);
  if (nt > chains) {
    text_open(k->t, "for (n = %d; n < %d; n += 1) unroll", chains, nt);
    text_line(k->t, "%%%s[m, n %% %d] <- BinaryPointwise<%s><<<#grid, #me>>>(%%%s[m, n %% %d], %%%s[m, n])", some, chains, op, some, chains, x);
    text_close(k->t);
  }
  text_close(k->t);
  one = mma_declare(k, (struct mma_shape){s.rows, -1}, "fp32");
  text_line(k->t, "%%%s <- Reduction<%s><<<#grid, #me>>>(%%%s)", one, op, some);
  return one;
}

static void reduce_quad(struct mma_kernel *k, const char *op, const char *x)
{
  text_line(k->t, "%%%s <- Reduction<%s><<<#grid, #quad>>>(%%%s)", x, op, x);
}

static int64_t reduced(const struct mma_kernel *k, const struct node *n)
{
  return norm_extent(k->p->n, k->p->n->t[n->in[0]].has & ~k->p->n->t[n->out].has);
}

static void reduce(struct mma_kernel *k, int node)
{
  const struct node *n = &k->p->n->block->nodes[node];
  if (mma_sums_parts(k->p, n)) {
    const char *sum = k->reg[n->out] = mma_load_parts(k, node);
    if (n->op == OP_MEAN) scale(k, sum, sum, 1.0 / (double)reduced(k, n));
    return;
  }
  const char *op = n->op == OP_MAX ? "max" : "+", *x = operand(k, node, 0);
  struct mma_shape in = mma_wanted(k->p, node, 0);
  double factor = deferred(k->p, root_of(k, n->in[0]));
  if (reduced(k, n) == 1 && factor == 1) {
    k->reg[n->out] = x;
    return;
  }
  const char *out = k->reg[n->out] = reduce_thread(k, op, x, in);
  reduce_quad(k, op, out);
  if (in.cols >= 0 && k->p->cols[in.cols].split) mma_combine(k, out, k->p->shape[n->out], op, false);
  if (n->op == OP_MEAN) scale(k, out, out, 1.0 / (double)reduced(k, n));
  if (factor == 1) return;
  int was = text_about_tensor(k->t, k->p->n->block, root_of(k, n->in[0])); // the product that was left out before
  scale(k, out, out, factor);
  text_about(k->t, was);
}

// ---- accumulators ----

void mma_declare_accumulators(struct mma_kernel *k)
{
  const struct graph *b = k->p->n->block;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    if (op_rows[n->op].rule != RULE_ACCUM) continue;
    text_about(k->t, i);
    for (int o = 0; o < n->nout; o++) {
      k->reg[n->out + o] = mma_declare(k, k->p->shape[n->out + o], "fp32");
      set(k, k->reg[n->out + o], n->op == OP_ACCUM_MAX && !o ? -INFINITY : 0);
    }
  }
  text_about(k->t, -1);
}

static void accumulate_max(struct mma_kernel *k, int node)
{
  const struct node *n = &k->p->n->block->nodes[node];
  const char *top = k->reg[n->out], *moved = k->reg[n->out + 1], *x = operand(k, node, 0);
  const char *now = mma_declare(k, k->p->shape[n->out], "fp32");
  binary(k, "max", now, top, x);
  binary(k, "-", moved, top, now);
  text_line(k->t, "%%%s <- Move<<<#grid, #me>>>(%%%s)", top, now);
  if (k->p->iterations > 1) text_open(k->t, "if (it == 0)");
  set(k, moved, 0);
  if (k->p->iterations > 1) text_close(k->t);
}

static void accumulate(struct mma_kernel *k, int node)
{
  const struct mma_plan *p = k->p;
  const struct node *n = &p->n->block->nodes[node];
  unsigned flags = op_rows[n->op].flags;
  if (n->op == OP_ACCUM_MAX) {
    accumulate_max(k, node);
    return;
  }
  const char *sum = k->reg[n->out], *x;
  if (flags & RESCALES) binary(k, "*", sum, sum, operand(k, node, 1));
  bool adds = false;
  for (int i = 0; i < p->nproducts; i++)
    if (p->product[i].into == node) adds = true, mma_product_emit(k, &p->product[i], sum);
  if (adds) return;
  x = operand(k, node, 0);
  struct mma_shape s = mma_wanted(p, node, 0);
  if (flags & RMS) {
    const char *squares = mma_declare(k, s, "fp32");
    unary(k, "square", squares, x);
    x = squares;
  }
  if (flags & REDUCES && reduced(k, n) > 1) x = reduce_thread(k, "+", x, s);
  binary(k, "+", sum, sum, x);
}

static void finish(struct mma_kernel *k, int node)
{
  const struct mma_plan *p = k->p;
  const struct node *n = &p->n->block->nodes[node];
  unsigned flags = op_rows[n->op].flags;
  struct mma_shape s = p->shape[n->out];
  const char *sum = k->reg[n->out];
  if (mma_partial(p, node)) k->reg[n->out] = sum = mma_combine(k, sum, s, "+", s.cols >= 0 && p->cols[s.cols].split_after);
  if (!(flags & REDUCES)) return;
  struct mma_shape in = mma_wanted(p, node, 0);
  if (reduced(k, n) > 1) reduce_quad(k, "+", sum);
  if (reduced(k, n) > 1 && p->cols[in.cols].split) mma_combine(k, sum, s, "+", false);
  if (flags & MEAN) scale(k, sum, sum, 1.0 / (double)(reduced(k, n) * p->iterations));
  if (flags & RMS) unary(k, "sqrt", sum, sum);
}

// What was in parts among warps is whole afterwards, or split by columns that were not before.
void mma_finish_accumulators(struct mma_kernel *k)
{
  struct mma_plan *p = arena_copy(k->mem, k->p, sizeof *p);
  const struct graph *b = p->n->block;
  if (p->wn > 1) text_line(k->t, "Sync<barrier><<<#grid, #t>>>()"); // shared memory of the loop may be taken again
  for (int i = 0; i < b->nnodes; i++)
    if (op_rows[b->nodes[i].op].rule == RULE_ACCUM) text_about(k->t, i), finish(k, i);
  text_about(k->t, -1);
  k->p = p;
  for (int c = 0; c < p->ncols; c++)
    if (p->cols[c].split_after) p->cols[c].split = true, p->cols[c].nt /= p->wn;
  for (int i = 0; i < p->n->niter + p->nsides; i++) { // iterators and vectors in registers are loaded again
    int t = i < p->n->niter ? p->n->iter[i].tile : p->side[i - p->n->niter].root;
    if (k->reg[t] && k->have[t].cols >= 0 && p->cols[k->have[t].cols].split_after) k->reg[t] = NULL;
  }
}

// ---- any node ----

static void constant(struct mma_kernel *k, const struct node *n)
{
  k->reg[n->out] = mma_declare(k, (struct mma_shape){false, -1}, "fp32");
  set(k, k->reg[n->out], n->a.scalar);
}

// Vectors from device memory that are wanted next to a product's result are on their way while it runs.
static void fetch_vectors(struct mma_kernel *k, int out)
{
  const struct mma_plan *p = k->p;
  const struct graph *b = p->n->block;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    if (op_rows[n->op].rule != RULE_MAP || n->nin < 2 || p->section[i] != k->section) continue;
    for (int j = 0; j < 2; j++) {
      int other = root_of(k, n->in[1 - j]);
      bool vector = p->n->iter_of[other] >= 0 && p->tile_of[other] < 0 && !(p->n->t[other].has & p->row_letters);
      if (root_of(k, n->in[j]) == out && vector) operand(k, i, 1 - j);
    }
  }
}

static void product(struct mma_kernel *k, int node)
{
  const struct mma_product *x = &k->p->product[k->p->product_of[node]];
  if (x->into >= 0) return; // with its accumulator
  if (k->p->iterations == 1) fetch_vectors(k, x->out);
  const char *out = mma_declare(k, k->p->shape[x->out], "fp32");
  if (!k->p->wg) set(k, out, 0);
  mma_product_emit(k, x, out);
  if (k->p->cols[x->sum_cols].split) out = mma_combine(k, out, k->p->shape[x->out], "+", false);
  k->reg[x->out] = out;
}

static void any(struct mma_kernel *k, int node)
{
  const struct node *n = &k->p->n->block->nodes[node];
  switch (op_rows[n->op].rule) {
  case RULE_CONST: constant(k, n); return;
  case RULE_MAP: map(k, node); return;
  case RULE_CONTRACT: product(k, node); return;
  case RULE_REDUCE: reduce(k, node); return;
  case RULE_ACCUM: accumulate(k, node); return;
  case RULE_IO:
  case RULE_VIEW:
  case RULE_CONCAT:
  case RULE_SPLIT:
  case RULE_COMPOSITE:
  case RULE_GRAPH: return;
  }
}

void mma_node(struct mma_kernel *k, int node)
{
  int was = text_about(k->t, node);
  any(k, node);
  text_about(k->t, was);
}
