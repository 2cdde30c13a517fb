// Which nodes the scheme does, and the rows and columns of what they make. Rows and columns of an operator's result are
// those of its operands; an iterator is loaded in the shape in which it is wanted, so only what is computed must agree.
#include "lower/mma.h"

static bool computed(const struct mma_plan *p, int root) { return p->n->iter_of[root] < 0; }

static uint32_t column_letters(const struct mma_plan *p, int tensor) { return p->n->t[tensor].has & ~p->row_letters; }

static bool take_cols(struct mma_plan *p, int tensor, struct mma_shape *s)
{
  uint32_t letters = column_letters(p, tensor);
  s->cols = -1;
  if (!letters) return true;
  s->cols = mma_cols_of(p, tensor, letters);
  return s->cols >= 0 || mma_refuse(p, "more than %d lists of columns", MMA_LISTS);
}

// Of a product of one column the list has no letters, nor has what is computed of it.
static void take_one_column(struct mma_plan *p, int root, struct mma_shape *s)
{
  if (computed(p, root) && s->cols < 0 && p->shape[root].cols >= 0 && !p->cols[p->shape[root].cols].has) s->cols = p->shape[root].cols;
}

// Operands that are computed have the same columns or none; iterators may have some of them.
static bool map(struct mma_plan *p, const struct node *n)
{
  struct mma_shape *s = &p->shape[n->out];
  if (!emit_has_pointwise(n->op)) return mma_refuse(p, "%s is no operator of the tile language", op_rows[n->op].name);
  if (!take_cols(p, n->out, s)) return false;
  for (int i = 0; i < n->nin; i++) {
    int root = p->n->t[n->in[i]].root;
    take_one_column(p, root, s);
    s->rows |= computed(p, root) ? p->shape[root].rows : (p->n->t[root].has & p->row_letters) != 0;
    if (computed(p, root) && p->shape[root].cols >= 0 && p->shape[root].cols != s->cols)
      return mma_refuse(p, "%s broadcasts along a part of the columns", op_rows[n->op].name);
  }
  return true;
}

static struct mma_shape shape_in(struct mma_plan *p, int root)
{
  struct mma_shape s = p->shape[root];
  if (computed(p, root)) return s;
  s = (struct mma_shape){(p->n->t[root].has & p->row_letters) != 0, -1};
  take_cols(p, root, &s);
  return s;
}

// Of an iterator, indices that are neither rows nor columns of the result: parts that are summed while they are loaded.
bool mma_sums_parts(const struct mma_plan *p, const struct node *n)
{
  uint32_t gone = p->n->t[n->in[0]].has & ~p->n->t[n->out].has, columns = column_letters(p, n->in[0]);
  return !computed(p, p->n->t[n->in[0]].root) && gone && !(gone & p->row_letters) && gone != columns;
}

// Over all columns, and never over rows.
static bool reduce(struct mma_plan *p, const struct node *n)
{
  int root = p->n->t[n->in[0]].root;
  uint32_t gone = p->n->t[n->in[0]].has & ~p->n->t[n->out].has;
  struct mma_shape *s = &p->shape[n->out];
  if (op_rows[n->op].abstract == AE_PROD) return mma_refuse(p, "a product along a dimension");
  if (mma_sums_parts(p, n)) {
    s->rows = (p->n->t[n->out].has & p->row_letters) != 0;
    return take_cols(p, n->out, s);
  }
  struct mma_shape in = shape_in(p, root);
  if (!take_cols(p, root, &in)) return false;
  take_one_column(p, root, &in);
  if (gone & p->row_letters) return mma_refuse(p, "%s sums over rows of products", op_rows[n->op].name);
  if (gone && gone != column_letters(p, n->in[0])) return mma_refuse(p, "%s sums over a part of the columns", op_rows[n->op].name);
  *s = (struct mma_shape){in.rows, gone ? -1 : in.cols};
  if (gone && !in.rows) return mma_refuse(p, "%s sums what has no rows", op_rows[n->op].name);
  return true;
}

static bool accumulate(struct mma_plan *p, const struct node *n)
{
  unsigned flags = op_rows[n->op].flags;
  if (n->op == OP_ACCUM_SUM_TO) return mma_refuse(p, "an accum_sum_to");
  if (flags & RESCALES) {
    int f = p->n->t[n->in[1]].root;
    if (!computed(p, f) || p->shape[f].cols >= 0) return mma_refuse(p, "a factor of %s that has columns", op_rows[n->op].name);
  }
  if (flags & REDUCES && mma_sums_parts(p, n)) return mma_refuse(p, "%s of parts", op_rows[n->op].name);
  if (flags & REDUCES) return reduce(p, n);
  struct mma_shape s = shape_in(p, p->n->t[n->in[0]].root);
  for (int i = 0; i < n->nout; i++) p->shape[n->out + i] = s;
  return true;
}

static bool product(struct mma_plan *p, int node)
{
  const struct mma_product *x = &p->product[p->product_of[node]];
  p->shape[x->out] = (struct mma_shape){true, x->out_cols};
  if (!computed(p, x->a)) return true;
  if (!p->shape[x->a].rows) return mma_refuse(p, "a left operand that is computed has no rows");
  return p->shape[x->a].cols == x->sum_cols || mma_refuse(p, "a left operand has other columns than its product sums");
}

bool mma_shapes(struct mma_plan *p, const bool *only)
{
  const struct graph *b = p->n->block;
  for (int i = 0; i < b->ntensors; i++)
    if (only || p->section[b->tensors[i].node] != MMA_SIDE) p->shape[i].cols = -1;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    bool fine = true;
    if (only ? !only[i] : p->section[i] == MMA_SIDE) continue;
    switch (op_rows[n->op].rule) {
    case RULE_IO:
    case RULE_CONST:
    case RULE_VIEW: break;
    case RULE_MAP: fine = map(p, n); break;
    case RULE_CONTRACT: fine = product(p, i); break;
    case RULE_REDUCE: fine = n->op == OP_SUM_TO ? mma_refuse(p, "a sum_to") : reduce(p, n); break;
    case RULE_ACCUM: fine = accumulate(p, n); break;
    case RULE_CONCAT:
    case RULE_SPLIT:
    case RULE_COMPOSITE:
    case RULE_GRAPH: fine = mma_refuse(p, "%s", op_rows[n->op].name);
    }
    if (!fine) return false;
  }
  for (int i = 0, s = 0; i < b->nnodes && !only; i++)
    if (b->nodes[i].op == OP_SAVE && !computed(p, p->n->t[p->n->save[s++].tile].root)) return mma_refuse(p, "saves what it loads");
  return true;
}
