// What a block graph needs to become products by mma.sync, whatever the knobs: which letters are rows, in which
// orientation each product is done, which lists of columns there are, what lies in shared memory, and what is done
// before, in and after the loop. Refuses what the scheme does not do; what passes here and mma_fit.c is emitted as it
// stands.
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

static bool collect(struct mma_plan *p)
{
  const struct chains *c = &p->n->passes->chains;
  const struct graph *b = p->n->block;
  if (p->n->joins) return mma_refuse(p, "parts that are joined or split");
  for (int i = 0; i < b->nnodes; i++) {
    p->product_of[i] = -1;
    if (b->nodes[i].op == OP_CONCAT_MATMUL) return mma_refuse(p, "a concat_matmul");
  }
  p->product = NEWS(p->job->mem, struct mma_product, c->nproducts + 1);
  for (int i = 0; i < c->nproducts; i++) {
    const struct chain_product *x = &c->product[i];
    p->product_of[x->node] = i;
    p->product[i] = (struct mma_product){x->node, x->out, x->a, x->b, x->rows, x->cols, x->sum, x->batch, 0, 0, x->into};
  }
  p->nproducts = c->nproducts, p->row_letters = c->rows;
  if (!p->nproducts) return mma_refuse(p, "no products");
  return c->oriented || mma_refuse(p, "products have no rows in common");
}

static void push_letters(struct mma_list *l, const struct norm_tensor *t, uint32_t wanted)
{
  for (int d = 0; d < t->ndims; d++)
    for (int i = 0; i < t->dim[d].n; i++) {
      int8_t letter = t->dim[d].letter[i];
      if (!(wanted >> letter & 1) || mma_list_has(l) >> letter & 1) continue;
      l->letter[l->n++] = letter;
    }
}

// A batch letter of a right operand keeps its rows apart; others are rows like any.
static void list_rows(struct mma_plan *p)
{
  p->batch_letters = 0;
  for (int i = 0; i < p->nproducts; i++) p->batch_letters |= p->product[i].batch & p->n->t[p->product[i].b].has;
  for (int i = 0; i < p->nproducts; i++) {
    push_letters(&p->batch, &p->n->t[p->product[i].out], p->batch_letters);
    push_letters(&p->rows, &p->n->t[p->product[i].a], p->row_letters & ~p->batch_letters);
    push_letters(&p->rows, &p->n->t[p->product[i].out], p->row_letters & ~p->batch_letters);
  }
  p->nbatch = mma_list_size(p->n, &p->batch), p->nrows = mma_list_size(p->n, &p->rows);
  p->padded = (p->nrows + 15) / 16 * 16;
}

// ---- columns ----

int mma_cols_of(struct mma_plan *p, int tensor, uint32_t letters)
{
  for (int i = 0; i < p->ncols; i++)
    if (p->cols[i].has == letters) return i;
  if (p->ncols == MMA_LISTS) return -1;
  struct mma_cols *c = &p->cols[p->ncols];
  *c = (struct mma_cols){.has = letters};
  push_letters(&c->list, &p->n->t[tensor], letters);
  c->size = mma_list_size(p->n, &c->list), c->padded = mma_pad(c->size);
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

// Eight rows at the same chunk of 16 bytes are in different banks: by xor, or by rows that are longer.
static void choose_swizzle(struct mma_tile *t)
{
  struct swizzle_plan s = layout_swizzle(2 * t->cols);
  t->stride = t->cols + s.shift / 2;
  if (s.bits) t->swizzle[0] = s.bits, t->swizzle[1] = 3, t->swizzle[2] = s.from;
}

static bool operand_type(struct mma_plan *p, const struct access *a)
{
  enum dtype t = p->job->store[a->tensor];
  if (num_rows[t].bits != 16) return mma_refuse(p, "an operand of a product is kept in %s", num_rows[t].name);
  if (p->type != DTYPES && p->type != t) return mma_refuse(p, "operands of products have different types");
  p->type = t;
  return true;
}

static bool add_tile(struct mma_plan *p, int tensor, const struct mma_list *outer, const struct mma_list *inner, bool left)
{
  const struct access *a = &p->n->iter[p->n->iter_of[tensor]];
  uint32_t has = p->n->t[tensor].has;
  struct mma_list rows = {0};
  for (int i = 0; i < outer->n; i++)
    if (has >> outer->letter[i] & 1) rows.letter[rows.n++] = outer->letter[i];
  if (!operand_type(p, a)) return false;
  if (has & ~(mma_list_has(&rows) | mma_list_has(inner))) return mma_refuse(p, "an operand has indices that its product has not");
  // The side that is contiguous in device memory is inside; of a left operand only all of its rows can be.
  bool swap = mma_width(p, a, inner, 8) < mma_width(p, a, &rows, 8);
  uint32_t batch = has & p->batch_letters;
  struct mma_list in = swap ? rows : *inner, out = swap ? *inner : rows;
  if (swap && batch) swap = false, in = *inner, out = rows;
  if (swap && left && (p->cut || mma_list_has(&rows) != mma_list_has(&p->rows) || p->nrows % 8)) swap = false, in = *inner, out = rows;
  if (left && p->cut && mma_list_has(&rows) != mma_list_has(&p->rows))
    return mma_refuse(p, "an operand has only some of the rows, which are cut anew");
  if (p->tile_of[tensor] >= 0) {
    struct mma_tile *t = &p->tile[p->tile_of[tensor]];
    t->reads += left;
    return (mma_list_same(&t->out, &out) && mma_list_same(&t->in, &in)) || mma_refuse(p, "two products read a tensor in different ways");
  }
  if (p->ntiles == MMA_TILES) return mma_refuse(p, "more than %d operands", MMA_TILES);
  struct mma_tile *t = &p->tile[p->ntiles];
  *t = (struct mma_tile){.tensor = tensor,
                         .iter = p->n->iter_of[tensor],
                         .out = out,
                         .in = in,
                         .reads = left,
                         .slot = -1,
                         .cut = left && p->cut,
                         .batches = norm_extent(p->n, mma_list_has(&out) & p->batch_letters),
                         .buffer = tensor};
  t->width = mma_width(p, a, &in, 8), t->turned = swap;
  mma_pad_tile(p, t, left);
  t->varying = p->n->passes->meta.iter[t->iter].ring;
  choose_swizzle(t);
  p->tile_of[tensor] = p->ntiles++;
  return true;
}

static bool product_tiles(struct mma_plan *p)
{
  for (int i = 0; i < p->nproducts; i++) {
    const struct mma_product *x = &p->product[i];
    struct mma_list left = p->batch, right = p->batch;
    for (int k = 0; k < p->rows.n; k++) left.letter[left.n++] = p->rows.letter[k];
    const struct mma_list *cols = &p->cols[x->out_cols].list, *sum = &p->cols[x->sum_cols].list;
    bool summed_inside = false;
    int b = x->b;
    if (p->n->iter_of[b] < 0 && !mma_side_add(p, x->b, &b)) return false;
    if (p->n->iter_of[x->a] >= 0 && !add_tile(p, x->a, &left, sum, true)) return false;
    // A right operand is [sum, cols], or [cols, sum] where the summed index is contiguous in memory.
    const struct access *a = &p->n->iter[p->n->iter_of[b]];
    summed_inside = mma_width(p, a, sum, 8) > mma_width(p, a, cols, 8);
    const struct mma_list *outer = summed_inside ? cols : sum;
    for (int k = 0; k < outer->n; k++) right.letter[right.n++] = outer->letter[k];
    if (!add_tile(p, b, &right, summed_inside ? sum : cols, false)) return false;
    if (b != x->b) p->tile_of[x->b] = p->tile_of[b];
    for (int k = 0; k < p->nsides; k++)
      if (p->side[k].root == x->b) p->side[k].tile = p->tile_of[b];
  }
  return true;
}

// ---- sections ----

static void place_nodes(struct mma_plan *p)
{
  static const enum mma_section of[] = {[SECTION_BEFORE] = MMA_PRE, [SECTION_LOOP] = MMA_LOOP, [SECTION_AFTER] = MMA_POST};
  for (int i = 0; i < p->n->block->nnodes; i++)
    if (p->section[i] != MMA_SIDE) p->section[i] = of[p->n->passes->schedule.section[i]];
}

// When tiles are read first: by products in the order in which they are emitted, or before all of them on the side.
static void order_tiles(struct mma_plan *p)
{
  const int after = 1 << 20;
  const struct schedule *planned = &p->n->passes->schedule;
  int *place = NEWS(p->job->mem, int, p->n->block->nnodes + 1);
  for (int i = 0; i < planned->n; i++) place[planned->order[i]] = i;
  for (int i = 0; i < p->ntiles; i++) p->tile[i].due = 2 * after;
  for (int i = 0; i < p->nproducts; i++) {
    const struct mma_product *x = &p->product[i];
    int at = place[x->into >= 0 ? x->into : x->node] + (p->section[x->node] == MMA_POST ? after : 0), of[] = {x->a, x->b};
    for (int k = 0; k < 2; k++)
      if (p->tile_of[of[k]] >= 0) p->tile[p->tile_of[of[k]]].due = MIN(p->tile[p->tile_of[of[k]]].due, at);
  }
  for (int i = 0; i < p->nsides; i++)
    if (p->side[i].tile >= 0) p->tile[p->side[i].tile].due = -1;
}

int64_t mma_elements(const struct mma_plan *p, int tensor) { return norm_elements(p->n, tensor); }

bool mma_tails(struct mma_plan *p)
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

int mma_plan(struct mma_plan *p, const struct lower_job *j, char why[160])
{
  if (!j) return 0;
  const struct graph *b = j->n->block;
  *p = (struct mma_plan){.job = j, .n = j->n, .why = why, .type = DTYPES, .iterations = graph_iterations(b), .cut = j->cut};
  p->product_of = NEWS(j->mem, int, b->nnodes), p->section = NEWS(j->mem, enum mma_section, b->nnodes);
  p->folded = j->n->passes->chains.folded;
  p->tile_of = NEWS(j->mem, int, b->ntensors), p->shape = NEWS(j->mem, struct mma_shape, b->ntensors);
  for (int i = 0; i < b->ntensors; i++) p->tile_of[i] = -1;
  if (!collect(p)) return 0;
  list_rows(p);
  if (j->anew && !p->batch_letters) mma_cut_rows(p);
  if (!product_columns(p) || !product_tiles(p)) return 0;
  if (!mma_vectors(p)) return 0;
  for (int i = 0; i < p->nsides; i++)
    if (!mma_side_plan(p, &p->side[i])) return 0;
  place_nodes(p), order_tiles(p);
  return mma_shapes(p, NULL) && mma_tails(p);
}
