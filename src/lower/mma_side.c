// Right operands that are computed from iterators alone, such as keys divided by their norm. Each thread reads elements of the tile from shared
// memory into fragments whose columns are the reduced letters, computes, and writes the results to the same places. A barrier follows before the
// product reads them. Nothing else reads the tile. Lanes beyond the rows or columns neither read nor write, so padding stays zero.
#include "lower/mma.h"

// ---- plan ----

// Marks the values that the operand is computed by. False: one is not an elementwise operator or a reduction.
static bool mark(struct mma_plan *p, bool *member, int value)
{
  const struct kern_value *v = mma_at(p, value);
  bool map = v->kind == KERN_MAP || v->kind == KERN_SPREAD, fold = kern_folds(v) && !mma_accumulates(p, value);
  if (mma_loads(p, value) || v->kind == KERN_CONST) return true;
  if (!map && !fold) return false;
  member[value] = true;
  for (int k = 0; k < v->nin; k++)
    if (!mark(p, member, v->in[k])) return false;
  return true;
}

bool mma_reads(const struct mma_plan *p, int v, int operand)
{
  const struct kern_value *x = &p->k.v[v];
  return x->live && ((x->nin && x->in[0] == operand) || (x->nin > 1 && x->in[1] == operand));
}

bool mma_read_in(const struct mma_plan *p, int value, unsigned sections)
{
  for (int v = 0; v < p->k.nvalues; v++)
    if (mma_reads(p, v, value) && !(sections >> p->section[v] & 1)) return false;
  return true;
}

// Whether nothing else reads the values computed there, except that products read the operand on their right.
static bool private_values(struct mma_plan *p, const struct mma_side *s)
{
  for (int i = 0; i < p->k.nvalues; i++)
    for (int k = 0; k < p->k.nvalues && s->member[i]; k++) {
      bool right = i == s->root && p->product_of[k] >= 0 && p->product[p->product_of[k]].b == i && p->product[p->product_of[k]].a != i;
      if (!s->member[k] && !right && mma_reads(p, k, i)) return false;
    }
  return true;
}

// The load that has all elements of the operand.
static bool find_source(struct mma_plan *p, const struct mma_side *s, int *source)
{
  int found = 0;
  for (int i = 0; i < p->k.nvalues; i++) {
    bool within = false;
    for (int k = 0; k < p->k.nvalues && mma_loads(p, i); k++) within |= s->member[k] && mma_reads(p, k, i);
    if (!within || mma_has(p, i) != mma_has(p, s->root)) continue;
    *source = i, found++;
    for (int k = 0; k < p->nproducts; k++)
      if (p->product[k].a == i || p->product[k].b == i) return mma_refuse(p, "a product reads what a right operand is computed from");
  }
  return found == 1 || mma_refuse(p, "a right operand is computed from %d tensors of its size", found);
}

bool mma_side_add(struct mma_plan *p, int root, int *source)
{
  struct mma_side *s = &p->side[p->nsides];
  for (int i = 0; i < p->nsides; i++)
    if (p->side[i].root == root) return *source = p->tile[p->side[i].tile].value, true;
  if (p->nsides == MMA_TILES) return mma_refuse(p, "more than %d operands", MMA_TILES);
  *s = (struct mma_side){.root = root, .member = NEWS(p->job->mem, bool, p->k.nvalues + 1)};
  if (!mark(p, s->member, root)) return mma_refuse(p, "a right operand is computed by more than elementwise operators and reductions");
  if (!find_source(p, s, source)) return false;
  if (!private_values(p, s)) return mma_refuse(p, "what a right operand is computed from is read elsewhere");
  for (int i = 0; i < p->k.nvalues; i++)
    if (s->member[i]) p->section[i] = MMA_SIDE;
  p->nsides++;
  return true;
}

// Columns are the reduced letters or, without a reduction, the contiguous ones.
bool mma_side_plan(struct mma_plan *p, struct mma_side *s)
{
  const struct mma_tile *t = &p->tile[s->tile];
  const struct norm_tensor *made = &p->n->t[p->n->block->nodes[mma_at(p, s->root)->about - 1].out];
  struct mma_plan *q = s->plan = arena_copy(p->job->mem, p, sizeof *p);
  uint32_t cols = 0;
  q->nsides = q->nproducts = q->ncols = 0, q->source = t;
  q->shape = NEWS(p->job->mem, struct mma_shape, p->k.nvalues + 1);
  for (int i = 0; i < p->k.nvalues; i++)
    if (s->member[i]) cols |= mma_gone(p, i);
  if (!cols) cols = mma_list_has(&t->in);
  q->row_letters = mma_has(p, s->root) & ~cols, q->batch_letters = 0;
  q->batch = q->rows = (struct lower_space){0};
  mma_list_add(p->n, &q->rows, t->out.n, t->out.axis, q->row_letters), mma_list_add(p->n, &q->rows, t->in.n, t->in.axis, q->row_letters);
  mma_list_add_of(p->n, &q->rows, made, q->row_letters);
  q->cut = 0, q->nbatch = 1, q->nrows = space_size(&q->rows), q->padded = (q->nrows + 15) / 16 * 16;
  s->varying = p->iterations > 1 && mma_varies(p, s->root);
  return mma_shapes(q, s->member);
}

// The most warps that divide the rows evenly.
void mma_side_fit(struct mma_plan *p)
{
  for (int i = 0; i < p->nsides; i++) {
    struct mma_plan *q = p->side[i].plan;
    int64_t tiles = q->padded / 16, most = 0;
    q->wm = p->wm * p->wn, q->wn = 1, q->threads = p->threads, q->stages = p->stages;
    while (tiles % q->wm) q->wm--;
    q->mt = (int)(tiles / q->wm);
    for (int c = 0; c < q->ncols; c++) q->cols[c].split = false, q->cols[c].nt = (int)(q->cols[c].padded / 8), most = MAX(most, q->cols[c].nt);
    p->registers = MAX(p->registers, 8 * q->mt * most + 40);
  }
}

// ---- emission ----

// Row and column in the tile in shared memory of this thread's element (or pair) e at m, h, n.
static const char *place(struct mma_kernel *k, int cols, int unit, int e)
{
  const struct mma_plan *p = k->p;
  const struct mma_tile *t = p->source;
  int64_t out[MAX_LETTERS], in[MAX_LETTERS];
  const char *index = mma_cols_index(p, cols, unit);
  struct str s = {0}, row = {0};
  if (e) index = arena_printf(k->mem, "%s + %d", index, e);
  mma_list_strides(p->n, &t->out, out), mma_list_strides(p->n, &t->in, in);
  str_add(&row, "0");
  mma_row_walk(p, out, 1, &row);
  mma_walk_list(p, &p->cols[cols].list, out, 1, unit, index, &row);
  str_add(&s, "%s, 0", mma_tile_row(p, t, str_keep(k->mem, &row)));
  mma_row_walk(p, in, unit, &s);
  mma_walk_list(p, &p->cols[cols].list, in, unit, unit, index, &s);
  return str_keep(k->mem, &s);
}

// Whether pairs of columns are adjacent: the fastest letter is the tile's.
static bool paired(const struct mma_plan *p, int cols)
{
  const struct lower_space *l = &p->cols[cols].list, *in = &p->source->in;
  return l->n && in->n && l->axis[l->n - 1] == in->axis[in->n - 1] && p->n->extent[(int)l->axis[l->n - 1]] % 2 == 0 &&
         !(mma_ragged(p, cols) && mma_ragged_last(p) % 2);
}

// A condition on @pr if fragments have more rows than the tile or the last iteration, else NULL.
static const char *row_exists(const struct mma_kernel *k)
{
  if (mma_ragged_rows(k->p)) return arena_printf(k->mem, "@pr < %s", mma_ragged_count(k->p, 1, mma_it(k)));
  return k->p->nrows < k->p->padded ? arena_printf(k->mem, "@pr < %lld", (long long)k->p->nrows) : NULL;
}

// Copies the tile to registers %v in fp32; back: to the tile.
static void transfer(struct mma_kernel *k, const char *v, int cols, bool back)
{
  const struct mma_plan *p = k->p;
  int unit = paired(p, cols) ? 2 : 1;
  const char *stage = p->source->varying ? "@stage" : "0";
  TEXT_SCOPE(k->t);
  mma_rows_open(k, true), text_if(k->t, row_exists(k)), mma_cols_open(k, cols);
  for (int e = 0; e < (unit == 2 ? 1 : 2); e++) {
    TEXT_SCOPE(k->t);
    text_if(k->t, mma_column_exists(p, cols, unit, e));
    const char *at = arena_printf(k->mem, unit == 2 ? "s%d[%s].tile([1, 2])[%s]" : "s%d[%s][%s]", p->source->tensor, stage, place(k, cols, unit, e));
    const char *reg = mma_element(k, v, (struct mma_shape){true, cols}, unit == 2, e);
    mma_move(k, p->type, arena_printf(k->mem, "half%d", e), unit == 2, reg, at, "", back);
  }
}

const char *mma_side_value(struct mma_kernel *k, struct mma_shape s)
{
  const char *v = mma_declare(k, s, "fp32");
  if (row_exists(k) || mma_pads(k->p, s.cols)) text_line(k->t, "%%%s <- Init<1.0>()", v);
  transfer(k, v, s.cols, false);
  return v;
}

static void side(struct mma_kernel *k, const struct mma_side *s)
{
  int n = k->p->k.nvalues;
  struct mma_kernel q = *k;
  struct mma_plan plan = *s->plan;
  plan.hides = k->p->hides, plan.hidden = k->p->hidden, plan.parts = k->p->parts; // the kernel's iterations
  q.p = &plan, q.section = s->varying ? MMA_LOOP : MMA_PRE;
  q.reg = NEWS(k->mem, const char *, n), q.left = NEWS(k->mem, const char *, n), q.have = NEWS(k->mem, struct mma_shape, n);
  for (int i = 0; i < n; i++)
    if (k->p->k.v[i].kind == KERN_CONST) q.reg[i] = k->reg[i];
  text_open(k->t, "if (@tid < %d) {", 32 * s->plan->wm);
  text_line(k->t, "@wm = @tid / 32");
  for (int i = 0; i < n; i++)
    if (s->member[i]) mma_compute(&q, i);
  transfer(&q, q.reg[s->root], s->plan->shape[s->root].cols, true);
  text_close(k->t);
}

void mma_sides(struct mma_kernel *k, bool varying)
{
  bool any = false;
  for (int i = 0; i < k->p->nsides; i++) mma_arrive(k, &k->p->tile[k->p->side[i].tile]);
  for (int i = 0; i < k->p->nsides; i++)
    if (k->p->side[i].varying == varying) any = true, side(k, &k->p->side[i]);
  if (any) text_line(k->t, "Sync<barrier>#t()");
}
