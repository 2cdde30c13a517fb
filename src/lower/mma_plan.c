// Facts of a block graph for products by mma.sync that do not depend on knobs: which letters are rows, the orientation of each product, the lists of
// columns, the tiles in shared memory, and the values before, in and after the loop. Graphs that the scheme does not support are refused here or in
// mma_fit.c. The text is emitted from the plan without further checks.
#include "lower/mma.h"
#include "plan/layout.h"

#include <string.h>

bool mma_refuse(struct mma_plan *p, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(p->why, 160, fmt, ap);
  va_end(ap);
  return false;
}

// ---- products and their rows ----

static struct mma_product oriented(const struct mma_plan *p, int v, const struct chain_product *c)
{
  const struct kern_value *x = &p->k.v[v];
  struct norm_product n = norm_product(p->n, c->node);
  bool turned = n.a != n.b ? c->a != n.a : c->cols != n.cols;
  uint32_t there = 0; // letters that exist
  for (int i = 0; i < p->n->nletters; i++) there |= p->n->extent[i] > 1 ? 1u << i : 0;
  return (struct mma_product){
      v, x->in[turned], x->in[!turned], c->rows & there, c->cols & there, c->sum & there, c->batch & there, 0, 0, -1, -1, p->product_of[v], false, c};
}

static bool collect(struct mma_plan *p)
{
  const struct chains *c = &p->n->passes->chains;
  const struct graph *b = p->n->block;
  for (int i = 0; i < b->nnodes; i++)
    if (b->nodes[i].op == OP_CONCAT_MATMUL) return mma_refuse(p, "a concat_matmul");
  p->product = NEWS(p->job->mem, struct mma_product, p->k.nvalues + 1);
  for (int v = 0; v < p->k.nvalues; v++)
    for (int i = 0; i < c->nproducts && p->k.v[v].live && p->k.v[v].kind == KERN_PRODUCT; i++)
      if (p->k.v[v].about == c->product[i].node + 1) p->product_of[v] = p->nproducts, p->product[p->nproducts++] = oriented(p, v, &c->product[i]);
  for (int i = 0; i < p->n->nletters; i++) p->row_letters |= p->n->extent[i] > 1 ? c->rows & 1u << i : 0;
  if (!p->nproducts) return mma_refuse(p, "no products");
  return c->oriented || mma_refuse(p, "products have no rows in common");
}

// ---- sums of products that use the same registers ----

// Marks the products that are summed in v, and the sums between them, as parts of `root`, an accumulator or the last sum. False: another term is
// added, or a part is read elsewhere.
static bool join_sum(struct mma_plan *p, int v, int root, bool mark)
{
  const struct kern_value *x = mma_at(p, v);
  struct mma_product *product = x->kind == KERN_PRODUCT ? &p->product[p->product_of[v]] : NULL;
  if (p->section[v] != p->section[root] || (v != root && x->uses != 1)) return false;
  if (product && mark) *(mma_accumulates(p, root) ? &product->into : &product->joins) = root;
  if (product) return mark || product->into < 0;
  if (x->kind != KERN_MAP || x->op != OP_ADD || x->in[0] == x->in[1] || (p->folded[v] && !mark)) return false;
  if (mark && v != root) p->folded[v] = true;
  return join_sum(p, x->in[0], root, mark) && join_sum(p, x->in[1], root, mark);
}

static void join_accumulators(struct mma_plan *p)
{
  for (int v = 0; v < p->k.nvalues && !p->job->exact; v++) {
    const struct kern_value *x = &p->k.v[v];
    bool adds = x->kind == KERN_SUM || x->kind == KERN_RESCALE;
    if (!x->live || !adds || !mma_accumulates(p, v) || mma_gone(p, v)) continue;
    if (join_sum(p, x->in[0], v, false)) join_sum(p, x->in[0], v, true);
  }
}

void mma_join_sums(struct mma_plan *p)
{
  for (int v = p->k.nvalues - 1; v >= 0; v--)
    if (mma_at(p, v)->live && mma_at(p, v)->kind == KERN_MAP && join_sum(p, v, v, false)) join_sum(p, v, v, true);
  for (int i = 0; i < p->norder; i++) {
    struct mma_product *x = p->product_of[p->order[i]] < 0 ? NULL : &p->product[p->product_of[p->order[i]]];
    for (int k = 0; k < i && x && x->joins >= 0; k++) {
      const struct mma_product *before = mma_product_at(p, p->order[k]);
      if (before && before->joins == x->joins) p->product[p->product_of[before->out]].goes_on = true, x->leads = before->leads;
    }
  }
}

// Rows of a batch letter of a right operand are kept apart. Other batch letters are ordinary rows.
static void list_rows(struct mma_plan *p)
{
  p->batch_letters = 0;
  for (int i = 0; i < p->nproducts; i++) p->batch_letters |= p->product[i].batch & mma_has(p, p->product[i].b);
  for (int i = 0; i < p->nproducts; i++) {
    const struct chain_product *c = p->product[i].chain;
    mma_list_add_of(p->n, &p->batch, &p->n->t[c->out], p->batch_letters);
    mma_list_add_of(p->n, &p->rows, &p->n->t[c->a], p->row_letters & ~p->batch_letters);
    mma_list_add_of(p->n, &p->rows, &p->n->t[c->out], p->row_letters & ~p->batch_letters);
  }
  p->nbatch = space_size(&p->batch), p->nrows = space_size(&p->rows);
  p->padded = (p->nrows + 15) / 16 * 16;
}

// ---- columns ----

int mma_cols_with(const struct mma_plan *p, uint32_t letters)
{
  for (int c = 0; c < p->ncols; c++)
    if (p->cols[c].has == letters) return c;
  return -1;
}

// Letters in the order of the tensor that the value belongs to.
int mma_cols_of(struct mma_plan *p, int value, uint32_t letters)
{
  const struct node *about = &p->n->block->nodes[mma_at(p, value)->about - 1];
  const struct norm_tensor *t = &p->n->t[about->nout ? about->out : about->in[0]];
  int known = mma_cols_with(p, letters);
  if (known >= 0 || p->ncols == MMA_LISTS) return known;
  struct mma_cols *c = &p->cols[p->ncols];
  *c = (struct mma_cols){.has = letters};
  mma_list_add_of(p->n, &c->list, t, letters);
  for (uint32_t rest = letters & ~mma_list_has(&c->list); rest; rest &= rest - 1) space_push(&c->list, p->n->extent, __builtin_ctz(rest));
  c->size = space_size(&c->list), c->padded = mma_pad(c->size);
  return p->ncols++;
}

static bool product_columns(struct mma_plan *p)
{
  for (int i = 0; i < p->nproducts; i++) {
    struct mma_product *x = &p->product[i];
    x->sum_cols = mma_cols_of(p, x->b, x->sum), x->out_cols = mma_cols_of(p, x->b, x->cols);
    if (x->sum_cols < 0 || x->out_cols < 0) return mma_refuse(p, "more than %d lists of columns", MMA_LISTS);
    p->cols[x->sum_cols].summed = true, p->cols[x->out_cols].product = true;
  }
  return true;
}

// ---- operands in shared memory ----

// Eight rows at the same 16-byte chunk must be in different banks: by a swizzle, or by longer rows.
static void choose_swizzle(struct mma_tile *t)
{
  struct swizzle_plan s = layout_swizzle(2 * t->cols);
  t->stride = t->cols + s.shift / 2;
  if (s.bits) t->swizzle[0] = s.bits, t->swizzle[1] = 3, t->swizzle[2] = s.from;
}

static bool operand_type(struct mma_plan *p, const struct plan_access *a)
{
  enum dtype t = p->job->store[a->tensor];
  if (num_rows[t].bits != 16) return mma_refuse(p, "an operand of a product is kept in %s", num_rows[t].name);
  if (p->type != DTYPES && p->type != t) return mma_refuse(p, "operands of products have different types");
  p->type = t;
  return true;
}

static bool add_tile(struct mma_plan *p, int value, const struct lower_space *outer, const struct lower_space *inner, bool left)
{
  const struct plan_access *a = mma_access(p, value);
  uint32_t has = mma_has(p, value);
  struct lower_space rows = {0};
  mma_list_add(p->n, &rows, outer->n, outer->axis, has);
  if (!operand_type(p, a)) return false;
  if (has & ~(mma_list_has(&rows) | mma_list_has(inner))) return mma_refuse(p, "an operand has indices that its product has not");
  // The dimension that is contiguous in device memory is the inner one. For a left operand this can be the rows only if they are all of its rows.
  bool swap = mma_width(p, a, inner, 8) < mma_width(p, a, &rows, 8);
  uint32_t batch = has & p->batch_letters;
  struct lower_space in = swap ? rows : *inner, out = swap ? *inner : rows;
  if (swap && batch) swap = false, in = *inner, out = rows;
  if (swap && left && (p->cut || mma_list_has(&rows) != mma_list_has(&p->rows) || p->nrows % 8)) swap = false, in = *inner, out = rows;
  if (left && p->cut && mma_list_has(&rows) != mma_list_has(&p->rows))
    return mma_refuse(p, "an operand has only some of the rows, which are re-tiled");
  if (p->tile_of[value] >= 0) {
    struct mma_tile *t = &p->tile[p->tile_of[value]];
    t->reads += left;
    return (mma_list_same(&t->out, &out) && mma_list_same(&t->in, &in)) || mma_refuse(p, "two products read a tensor in different ways");
  }
  if (p->ntiles == MMA_TILES) return mma_refuse(p, "more than %d operands", MMA_TILES);
  struct mma_tile *t = &p->tile[p->ntiles];
  *t = (struct mma_tile){.value = value,
                         .tensor = a->tile,
                         .iter = mma_iter(p, value),
                         .out = out,
                         .in = in,
                         .reads = left,
                         .slot = -1,
                         .cut = left && p->cut,
                         .batches = norm_extent(p->n, mma_list_has(&out) & p->batch_letters),
                         .buffer = a->tile};
  t->width = mma_width(p, a, &in, 8), t->turned = swap;
  mma_pad_tile(p, t, left);
  t->varying = mma_varies(p, value), t->anywhere = mma_anywhere(p, t);
  choose_swizzle(t);
  p->tile_of[value] = p->ntiles++;
  return true;
}

static struct lower_space all_rows(const struct mma_plan *p)
{
  struct lower_space all = p->batch;
  return mma_list_add(p->n, &all, p->rows.n, p->rows.axis, ~0u), all;
}

bool mma_lane_tile(struct mma_plan *p, int value, int cols)
{
  const struct lower_space left = all_rows(p);
  if (!add_tile(p, value, &left, &p->cols[cols].list, true)) return false;
  return p->tile[p->ntiles - 1].lanes = true;
}

static bool product_tiles(struct mma_plan *p)
{
  for (int i = 0; i < p->nproducts; i++) {
    const struct mma_product *x = &p->product[i];
    struct lower_space left = all_rows(p), right = p->batch;
    const struct lower_space *cols = &p->cols[x->out_cols].list, *sum = &p->cols[x->sum_cols].list;
    int b = x->b;
    if (!mma_loads(p, b) && !mma_side_add(p, x->b, &b)) return false;
    if (mma_loads(p, x->a) && !add_tile(p, x->a, &left, sum, true)) return false;
    // A right operand is [sum, cols], or [cols, sum] if the summed index is contiguous in memory.
    const struct plan_access *a = mma_access(p, b);
    const int by_sum = mma_width(p, a, sum, 8), by_cols = mma_width(p, a, cols, 8);
    const bool summed_inside = by_sum > by_cols || (by_sum == by_cols && p->n->ragged.all && mma_lies_along(p, a, sum));
    const struct lower_space *outer = summed_inside ? cols : sum;
    mma_list_add(p->n, &right, outer->n, outer->axis, ~0u);
    if (!add_tile(p, b, &right, summed_inside ? sum : cols, false)) return false;
    if (b != x->b) p->tile_of[x->b] = p->tile_of[b];
    for (int k = 0; k < p->nsides; k++)
      if (p->side[k].root == x->b) p->side[k].tile = p->tile_of[b];
  }
  return true;
}

// ---- order ----

// Numbers tiles in the order of their first reads: side computations before the loop first, then products in their order.
static void order_tiles(struct mma_plan *p)
{
  const int never = 1 << 20;
  int *place = NEWS(p->job->mem, int, p->k.nvalues + 1);
  for (int i = 0; i < p->norder; i++) place[p->order[i]] = i;
  for (int i = 0; i < p->ntiles; i++) p->tile[i].due = never;
  for (int i = 0; i < p->nproducts; i++) {
    const struct mma_product *x = &p->product[i];
    int at = place[x->into >= 0 ? x->into : x->out], of[] = {x->a, x->b};
    for (int k = 0; k < 2; k++)
      if (p->tile_of[of[k]] >= 0) p->tile[p->tile_of[of[k]]].due = MIN(p->tile[p->tile_of[of[k]]].due, at);
  }
  for (int i = 0; i < p->nsides; i++) p->tile[p->side[i].tile].due = -1;
}

static bool make_tails(struct mma_plan *p)
{
  const struct lower_job *j = p->job;
  for (enum tail_way w = 0; j->tail && w < TAIL_WAYS; w++) {
    char other[160];
    struct tail *x = NEW(j->mem, struct tail);
    if (w == TAIL_CLUSTER && !(j->gpu->can & CAN_CLUSTER)) continue;
    if (tail_make(j, w, x, w ? other : p->why)) p->tails[w] = x;
  }
  return !j->tail || p->tails[TAIL_CLUSTER] || p->tails[TAIL_LAST];
}

static bool take_values(struct mma_plan *p)
{
  const struct lower_job *j = p->job;
  if (p->n->joins) return mma_refuse(p, "parts that are joined or split");
  if (lower_values(j, MMA_RULES, &p->k, p->why)) return false;
  size_t n = (size_t)p->k.nvalues + 1;
  p->product_of = NEWS(j->mem, int, n), p->section = NEWS(j->mem, enum mma_section, n), p->folded = NEWS(j->mem, bool, n);
  p->tile_of = NEWS(j->mem, int, n), p->shape = NEWS(j->mem, struct mma_shape, n);
  for (int v = 0; v < p->k.nvalues; v++) p->product_of[v] = p->tile_of[v] = -1, p->section[v] = MMA_CONST;
  return true;
}

int mma_plan(struct mma_plan *p, const struct lower_job *j, char why[160])
{
  if (!j) return 0;
  *p = (struct mma_plan){.job = j, .n = j->n, .why = why, .type = DTYPES, .iterations = graph_iterations(j->n->block), .cut = j->cut};
  if (!take_values(p) || !collect(p)) return 0;
  join_accumulators(p);
  list_rows(p);
  if (j->retiled && !p->batch_letters) mma_cut_rows(p);
  if (!product_columns(p) || !product_tiles(p)) return 0;
  for (int i = 0; i < p->nsides; i++)
    if (!mma_side_plan(p, &p->side[i])) return 0;
  mma_sections(p), order_tiles(p);
  if (j->exact) mma_join_sums(p);
  mma_hidden_plan(p);
  return mma_shapes(p, NULL) && make_tails(p);
}
