// Which values the scheme supports, and their rows and columns. The result of an operator has the rows and columns of its operands. A load takes the
// shape that its reader wants, so only computed operands must agree.
#include "lower/mma.h"

bool mma_reduces(const struct kern_value *v) { return kern_folds(v) || v->kind == KERN_RESCALE; }

bool mma_accumulates(const struct mma_plan *p, int v)
{
  const struct kern_value *x = &p->k.v[v];
  return x->folded & p->k.loops && x->kind != KERN_PRODUCT;
}

static uint32_t column_letters(const struct mma_plan *p, int v) { return mma_has(p, v) & ~p->row_letters; }

static bool take_cols(struct mma_plan *p, int v, struct mma_shape *s)
{
  uint32_t letters = column_letters(p, v);
  s->cols = -1;
  if (!letters) return true;
  s->cols = mma_cols_of(p, v, letters);
  return s->cols >= 0 || mma_refuse(p, "more than %d lists of columns", MMA_LISTS);
}

// A product of one column has a list without letters, and so have the values computed from it.
static void take_one_column(struct mma_plan *p, int x, struct mma_shape *s)
{
  if (!mma_loads(p, x) && s->cols < 0 && p->shape[x].cols >= 0 && !p->cols[p->shape[x].cols].has) s->cols = p->shape[x].cols;
}

static const char *name_of(const struct mma_plan *p, const struct kern_value *v)
{
  return v->kind == KERN_MAP ? kern_op(v->op).name : v->about ? op_rows[p->n->block->nodes[v->about - 1].op].name : "a value";
}

// Computed operands must have the same columns, or none. Loads may have some of them.
static bool map(struct mma_plan *p, int v)
{
  const struct kern_value *n = mma_at(p, v);
  struct mma_shape *s = &p->shape[v];
  if (n->kind == KERN_MAP && n->op < OPS && !emit_has_pointwise((enum op)n->op))
    return mma_refuse(p, "%s is no operator of the tile language", name_of(p, n));
  if (!take_cols(p, v, s)) return false;
  s->rows = (mma_has(p, v) & p->row_letters) != 0;
  for (int i = 0; i < n->nin; i++) {
    int x = n->in[i];
    take_one_column(p, x, s);
    s->rows |= !mma_loads(p, x) && p->shape[x].rows;
    if (!mma_loads(p, x) && p->shape[x].cols >= 0 && p->shape[x].cols != s->cols)
      return mma_refuse(p, "%s broadcasts along a part of the columns", name_of(p, n));
  }
  return true;
}

static struct mma_shape shape_in(struct mma_plan *p, int x)
{
  struct mma_shape s = p->shape[x];
  if (!mma_loads(p, x)) return s;
  s = (struct mma_shape){(mma_has(p, x) & p->row_letters) != 0, -1};
  take_cols(p, x, &s);
  return s;
}

// Letters of a load that are neither rows nor columns of the result: parts that are reduced while they are loaded.
bool mma_sums_parts(const struct mma_plan *p, int fold)
{
  int x = mma_at(p, fold)->in[0];
  uint32_t gone = mma_gone(p, fold);
  return mma_loads(p, x) && gone && !(gone & p->row_letters) && gone != column_letters(p, x);
}

// A reduction must be over all columns, and not over rows.
static bool reduce(struct mma_plan *p, int v)
{
  const struct kern_value *n = mma_at(p, v);
  struct mma_shape *s = &p->shape[v];
  uint32_t gone = mma_gone(p, v);
  if (n->kind == KERN_PROD) return mma_refuse(p, "a product along a dimension");
  if (mma_sums_parts(p, v)) {
    if (mma_accumulates(p, v)) return mma_refuse(p, "%s of parts", name_of(p, n));
    if (p->n->ragged.all && gone >> p->n->ragged.letter & 1)
      return mma_refuse(p, "%s of parts, of which the last iteration has fewer", name_of(p, n));
    s->rows = (mma_has(p, v) & p->row_letters) != 0;
    return take_cols(p, v, s);
  }
  struct mma_shape in = shape_in(p, n->in[0]);
  if (!take_cols(p, n->in[0], &in)) return false;
  take_one_column(p, n->in[0], &in);
  if (gone & p->row_letters) return mma_refuse(p, "%s sums over rows of products", name_of(p, n));
  if (gone && gone != column_letters(p, n->in[0])) return mma_refuse(p, "%s sums over a part of the columns", name_of(p, n));
  *s = (struct mma_shape){in.rows, gone ? -1 : in.cols};
  return !gone || in.rows || mma_refuse(p, "%s sums what has no rows", name_of(p, n));
}

static bool accumulate(struct mma_plan *p, int v)
{
  const struct kern_value *n = mma_at(p, v);
  if (n->kind == KERN_RESCALE && (mma_loads(p, n->in[1]) || p->shape[n->in[1]].cols >= 0))
    return mma_refuse(p, "a factor of %s that has columns", name_of(p, n));
  if (n->kind == KERN_RUN_MOVE && mma_running(p, v, KERN_RUN_MAX) < 0) return mma_refuse(p, "a maximum that moves and is not read");
  if (mma_gone(p, v)) return reduce(p, v);
  if (n->kind == KERN_PROD) return mma_refuse(p, "a product along a dimension");
  p->shape[v] = shape_in(p, n->in[0]);
  return true;
}

static bool product(struct mma_plan *p, int v)
{
  const struct mma_product *x = mma_product_at(p, v);
  p->shape[v] = (struct mma_shape){true, x->out_cols};
  if (mma_loads(p, x->a)) return true;
  if (!p->shape[x->a].rows) return mma_refuse(p, "a left operand that is computed has no rows");
  return p->shape[x->a].cols == x->sum_cols || mma_refuse(p, "a left operand has other columns than its product sums");
}

static bool one(struct mma_plan *p, int v)
{
  const struct kern_value *x = mma_at(p, v);
  if (x->kind == KERN_LOAD || x->kind == KERN_CONST) return true;
  if (x->kind == KERN_MAP || x->kind == KERN_SPREAD) return map(p, v);
  if (x->kind == KERN_PRODUCT) return product(p, v);
  if (!kern_has(x, KERN_FOLDS | KERN_RUNS) || kern_tops(x)) return false;
  return mma_accumulates(p, v) ? accumulate(p, v) : reduce(p, v);
}

bool mma_shapes(struct mma_plan *p, const bool *only)
{
  for (int v = 0; v < p->k.nvalues; v++)
    if (only || p->section[v] != MMA_SIDE) p->shape[v] = (struct mma_shape){false, -1};
  for (int v = 0; v < p->k.nvalues; v++) {
    if (!p->k.v[v].live || (only ? !only[v] : p->section[v] == MMA_SIDE)) continue;
    if (!one(p, v)) return false;
  }
  for (int s = 0; s < p->k.nsaves && !only; s++)
    if (mma_loads(p, p->k.save[s].value)) return mma_refuse(p, "saves what it loads");
  return true;
}
