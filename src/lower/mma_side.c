// Right operands that are computed of iterators alone, such as keys divided by their norm. Each thread takes elements
// of the tile from shared memory, in fragments whose columns are what the operand's reductions go over, computes, and
// puts them back where they were; after a barrier the product finds them there. Nobody else reads the tile. Lanes whose row or
// column does not exist read and write nothing: zeros behind the tile stay zeros.
#include "lower/mma.h"

// ---- plan ----

// Marks the nodes that `tensor` is computed by; false where one is no elementwise operator or reduction.
bool mma_side_mark(struct mma_plan *p, bool *node, int tensor)
{
  const struct graph *b = p->n->block;
  int i = b->tensors[p->n->t[tensor].root].node;
  const struct node *n = &b->nodes[i];
  enum rule rule = op_rows[n->op].rule;
  if (n->op == OP_ITER || rule == RULE_CONST) return true;
  if (rule != RULE_MAP && rule != RULE_REDUCE) return false;
  node[i] = true;
  for (int k = 0; k < n->nin; k++)
    if (!mma_side_mark(p, node, n->in[k])) return false;
  return true;
}

static bool reads(const struct mma_plan *p, int node, int root)
{
  const struct node *n = &p->n->block->nodes[node];
  for (int k = 0; k < n->nin && n->op != OP_ITER && op_rows[n->op].rule != RULE_VIEW; k++)
    if (p->n->t[n->in[k]].root == root) return true;
  return false;
}

// What is computed there is read there only, but for the operand, which products read on their right.
static bool private_nodes(struct mma_plan *p, const struct mma_side *s)
{
  const struct graph *b = p->n->block;
  for (int i = 0; i < b->nnodes; i++)
    for (int k = 0; k < b->nnodes && s->node[i]; k++) {
      bool right = b->nodes[i].out == s->root && p->product_of[k] >= 0 && p->product[p->product_of[k]].b == s->root &&
                   p->product[p->product_of[k]].a != s->root;
      if (!s->node[k] && !right && reads(p, k, b->nodes[i].out)) return false;
    }
  return true;
}

bool mma_side_add(struct mma_plan *p, int root, int *source)
{
  const struct graph *b = p->n->block;
  struct mma_side *s = &p->side[p->nsides];
  int found = 0;
  for (int i = 0; i < p->nsides; i++)
    if (p->side[i].root == root) return *source = p->tile[p->side[i].tile].tensor, true;
  if (p->nsides == MMA_TILES) return mma_refuse(p, "more than %d operands", MMA_TILES);
  *s = (struct mma_side){.root = root, .node = NEWS(p->job->mem, bool, b->nnodes)};
  if (!mma_side_mark(p, s->node, root)) return mma_refuse(p, "a right operand is computed by more than elementwise operators and reductions");
  for (int i = 0; i < p->n->niter; i++) {
    int tile = p->n->iter[i].tile;
    bool within = false;
    for (int k = 0; k < b->nnodes; k++) within |= s->node[k] && reads(p, k, tile);
    if (!within || p->n->t[tile].has != p->n->t[root].has) continue;
    *source = tile, found++;
    for (int k = 0; k < p->nproducts; k++)
      if (p->product[k].a == tile || p->product[k].b == tile) return mma_refuse(p, "a product reads what a right operand is computed from");
  }
  if (found != 1) return mma_refuse(p, "a right operand is computed from %d tensors of its size", found);
  if (!private_nodes(p, s)) return mma_refuse(p, "what a right operand is computed from is read elsewhere");
  for (int i = 0; i < b->nnodes; i++)
    if (s->node[i]) p->section[i] = MMA_SIDE;
  p->nsides++;
  return true;
}

static void push(struct mma_list *l, int8_t letter, uint32_t wanted)
{
  if (wanted >> letter & 1 && !(mma_list_has(l) >> letter & 1)) l->letter[l->n++] = letter;
}

// Columns are what is reduced, or what is contiguous where nothing is.
bool mma_side_plan(struct mma_plan *p, struct mma_side *s)
{
  const struct graph *b = p->n->block;
  const struct mma_tile *t = s->tile >= 0 ? &p->tile[s->tile] : NULL;
  const struct norm_tensor *made = &p->n->t[s->root];
  struct mma_plan *q = s->plan = arena_copy(p->job->mem, p, sizeof *p);
  uint32_t cols = 0;
  q->nsides = q->nproducts = q->ncols = 0, q->source = t;
  q->shape = NEWS(p->job->mem, struct mma_shape, b->ntensors);
  for (int i = 0; i < b->nnodes; i++)
    if (s->node[i] && op_rows[b->nodes[i].op].rule == RULE_REDUCE) cols |= p->n->t[b->nodes[i].in[0]].has & ~p->n->t[b->nodes[i].out].has;
  if (!cols && t) cols = mma_list_has(&t->in);
  q->row_letters = made->has & ~cols, q->batch_letters = 0;
  q->batch = q->rows = (struct mma_list){0};
  for (int i = 0; t && i < t->out.n; i++) push(&q->rows, t->out.letter[i], q->row_letters);
  for (int i = 0; t && i < t->in.n; i++) push(&q->rows, t->in.letter[i], q->row_letters);
  for (int d = 0; d < made->ndims; d++)
    for (int i = 0; i < made->dim[d].n; i++) push(&q->rows, made->dim[d].letter[i], q->row_letters);
  q->cut = 0, q->nbatch = 1, q->nrows = mma_list_size(p->n, &q->rows), q->padded = (q->nrows + 15) / 16 * 16;
  s->varying = p->iterations > 1 && b->tensors[s->root].phase == VARYING;
  if (s->vector && made->has & cols) return mma_refuse(p, "a vector is computed from what it is reduced to");
  return mma_shapes(q, s->node);
}

// As many warps as share the rows evenly.
bool mma_side_fit(struct mma_plan *p)
{
  for (int i = 0; i < p->nsides; i++) {
    struct mma_plan *q = p->side[i].plan;
    int64_t tiles = q->padded / 16, most = 0;
    q->wm = p->wm * p->wn, q->wn = 1, q->threads = p->threads, q->stages = p->stages;
    while (tiles % q->wm) q->wm--;
    q->mt = (int)(tiles / q->wm);
    for (int c = 0; c < q->ncols; c++) q->cols[c].split = false, q->cols[c].nt = (int)(q->cols[c].padded / 8), most = MAX(most, q->cols[c].nt);
    p->registers = MAX(p->registers, 8 * q->mt * most + 40);
    if (p->side[i].vector) p->shared += 4 * p->cols[p->shape[p->side[i].root].cols].padded;
  }
  return true;
}

// ---- emission ----

// Row and column of the tile in shared memory, for element e (or pair) of this thread at m, h, n.
static const char *place(struct mma_kernel *k, int cols, int unit, int e)
{
  const struct mma_plan *p = k->p;
  const struct mma_tile *t = p->source;
  int64_t out[MAX_LETTERS] = {0}, in[MAX_LETTERS] = {0}, step = 1;
  const char *index = mma_cols_index(p, cols, unit);
  struct str s = {0}, row = {0};
  if (e) index = arena_printf(k->mem, "%s + %d", index, e);
  for (int i = t->out.n - 1; i >= 0; step *= p->n->extent[(int)t->out.letter[i--]]) out[(int)t->out.letter[i]] = step;
  step = 1;
  for (int i = t->in.n - 1; i >= 0; step *= p->n->extent[(int)t->in.letter[i--]]) in[(int)t->in.letter[i]] = step;
  str_add(&row, "0");
  mma_row_walk(p, out, 1, &row);
  mma_walk_list(p, &p->cols[cols].list, out, 1, unit, index, &row);
  str_add(&s, "%s, 0", mma_tile_row(p, t, mma_text(k, &row)));
  mma_row_walk(p, in, unit, &s);
  mma_walk_list(p, &p->cols[cols].list, in, unit, unit, index, &s);
  return mma_text(k, &s);
}

// Pairs of columns lie together where the fastest letter is the tile's.
static bool paired(const struct mma_plan *p, int cols)
{
  const struct mma_list *l = &p->cols[cols].list, *in = &p->source->in;
  return l->n && in->n && l->letter[l->n - 1] == in->letter[in->n - 1] && p->n->extent[(int)l->letter[l->n - 1]] % 2 == 0;
}

// A condition on @pr, where there are more rows of fragments than rows; else NULL.
const char *mma_side_row_exists(const struct mma_kernel *k)
{
  return k->p->nrows < k->p->padded ? arena_printf(k->mem, "@pr < %lld", (long long)k->p->nrows) : NULL;
}

// Moves between the tile and registers %v: to %v in fp32, or back.
static void transfer(struct mma_kernel *k, const char *v, int cols, bool back)
{
  const struct mma_plan *p = k->p;
  int unit = paired(p, cols) ? 2 : 1;
  const char *stage = p->source->varying ? "@stage" : "0", *type = tile_dtype(p->type);
  mma_rows_open(k, true);
  const char *rows = mma_side_row_exists(k);
  if (rows) text_open(k->t, "if (%s)", rows);
  text_open(k->t, "for (n = 0; n < %d; n += 1) unroll", p->cols[cols].nt);
  for (int e = 0; e < (unit == 2 ? 1 : 2); e++) {
    const char *exists = mma_column_exists(p, cols, unit, e);
    if (exists) text_open(k->t, "if (%s)", exists);
    const char *at = arena_printf(k->mem, unit == 2 ? "s%d[%s].tile([1, 2])[%s]" : "s%d[%s][%s]", p->source->tensor, stage, place(k, cols, unit, e));
    const char *r = arena_printf(k->mem, unit == 2 ? "%s[m, n][h, 0]" : "%s[m, n][h, 0][0, %d]", v, e);
    text_line(k->t, "%%half%d:%s.%s.RF", e, unit == 2 ? "[1, 2]" : "[]", type);
    if (back) text_line(k->t, "%%half%d <- UnaryPointwise<cast><<<#grid, #me>>>(%%%s)", e, r);
    if (back)
      text_line(k->t, "%%%s <- Move<<<#grid, #me>>>(%%half%d)", at, e);
    else
      text_line(k->t, "%%half%d <- Move<<<#grid, #me>>>(%%%s)", e, at);
    if (!back) text_line(k->t, "%%%s <- UnaryPointwise<cast><<<#grid, #me>>>(%%half%d)", r, e);
    if (exists) text_close(k->t);
  }
  text_close(k->t);
  if (rows) text_close(k->t);
  mma_rows_close(k, true);
}

const char *mma_side_value(struct mma_kernel *k, struct mma_shape s)
{
  const char *v = mma_declare(k, s, "fp32");
  if (mma_side_row_exists(k) || mma_pads(k->p, s.cols)) text_line(k->t, "%%%s <- Init<1.0><<<#grid, #me>>>()", v);
  transfer(k, v, s.cols, false);
  return v;
}

static void side(struct mma_kernel *k, const struct mma_side *s)
{
  const struct graph *b = k->p->n->block;
  size_t n = (size_t)b->ntensors;
  struct mma_kernel q = *k;
  q.p = s->plan, q.section = s->varying ? MMA_LOOP : MMA_PRE;
  q.reg = NEWS(k->mem, const char *, n), q.left = NEWS(k->mem, const char *, n), q.have = NEWS(k->mem, struct mma_shape, n);
  for (int i = 0; i < b->nnodes; i++)
    if (op_rows[b->nodes[i].op].rule == RULE_CONST) q.reg[b->nodes[i].out] = k->reg[b->nodes[i].out];
  text_open(k->t, "if (@tid < %d)", 32 * s->plan->wm);
  text_line(k->t, "@wm = @tid / 32");
  for (int i = 0; i < b->nnodes; i++)
    if (s->node[i]) mma_node(&q, i);
  if (s->vector)
    mma_vector_store(&q, k->p, s, q.reg[s->root]);
  else
    transfer(&q, q.reg[s->root], s->plan->shape[s->root].cols, true);
  text_close(k->t);
}

void mma_sides(struct mma_kernel *k, bool varying)
{
  bool any = false;
  for (int i = 0; i < k->p->nsides; i++)
    if (k->p->side[i].tile >= 0) mma_arrive(k, &k->p->tile[k->p->side[i].tile]);
  for (int i = 0; i < k->p->nsides; i++)
    if (k->p->side[i].varying == varying) any = true, side(k, &k->p->side[i]);
  if (any) text_line(k->t, "Sync<barrier><<<#grid, #t>>>()");
}
