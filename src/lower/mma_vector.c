// Vectors over columns that are reduced from iterators alone, such as the norm of each row of a right operand: computed
// on the side (mma_side.c), in fragments whose rows are the vector's elements, and kept in shared memory for all warps.
#include "lower/mma.h"

static bool reduces(const struct mma_plan *p, const bool *node)
{
  const struct graph *b = p->n->block;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    if (!node[i] || op_rows[n->op].rule != RULE_REDUCE) continue;
    if (mma_sums_parts(p, n) && p->tile_of[p->n->t[n->in[0]].root] < 0) continue; // while it is loaded
    if (p->n->t[n->in[0]].has != p->n->t[n->out].has) return true;
  }
  return false;
}

// Nodes without rows that are, or come from, reductions. NULL: `node` is none.
static bool *cone(struct mma_plan *p, int node)
{
  const struct graph *b = p->n->block;
  const struct node *n = &b->nodes[node];
  bool *marked = NEWS(p->job->mem, bool, b->nnodes);
  if (n->nout != 1 || (op_rows[n->op].rule != RULE_MAP && op_rows[n->op].rule != RULE_REDUCE)) return NULL;
  if (p->section[node] == MMA_SIDE || p->n->t[n->out].has & p->row_letters) return NULL;
  return mma_side_mark(p, marked, n->out) && reduces(p, marked) ? marked : NULL;
}

// The tile in shared memory that is reduced, if any. What a right operand takes the place of is not to be read.
static bool find_tile(struct mma_plan *p, struct mma_side *s)
{
  const struct graph *b = p->n->block;
  s->tile = -1;
  for (int i = 0; i < b->nnodes; i++)
    for (int k = 0; s->node[i] && k < b->nodes[i].nin; k++) {
      int t = p->tile_of[p->n->t[b->nodes[i].in[k]].root];
      if (t >= 0) s->tile = t;
    }
  for (int i = 0; i < p->nsides; i++)
    if (s->tile >= 0 && !p->side[i].vector && p->side[i].tile == s->tile)
      return mma_refuse(p, "a vector is reduced from what a right operand is computed from");
  return true;
}

static bool add(struct mma_plan *p, int node, bool *marked)
{
  int root = p->n->block->nodes[node].out;
  struct mma_side *s = &p->side[p->nsides];
  if (p->nsides == MMA_TILES) return mma_refuse(p, "more than %d operands", MMA_TILES);
  *s = (struct mma_side){.root = root, .vector = true, .node = marked};
  p->shape[root] = (struct mma_shape){false, mma_cols_of(p, root, p->n->t[root].has)};
  if (p->shape[root].cols < 0) return mma_refuse(p, "more than %d lists of columns", MMA_LISTS);
  if (!find_tile(p, s)) return false;
  p->nsides++;
  return true;
}

// Those that other nodes read; what computes them is done nowhere else.
bool mma_vectors(struct mma_plan *p)
{
  const struct graph *b = p->n->block;
  bool **of = NEWS(p->job->mem, bool *, b->nnodes);
  for (int i = 0; i < b->nnodes; i++) of[i] = cone(p, i);
  for (int i = 0; i < b->nnodes; i++) {
    bool read = false;
    for (int k = 0; of[i] && k < b->nnodes; k++)
      for (int j = 0; j < b->nodes[k].nin && !of[k] && p->section[k] != MMA_SIDE && op_rows[b->nodes[k].op].rule != RULE_VIEW; j++)
        read |= b->nodes[k].op != OP_ITER && p->n->t[b->nodes[k].in[j]].root == b->nodes[i].out;
    if (read && !add(p, i, of[i])) return false;
  }
  for (int i = 0; i < p->nsides; i++)
    for (int k = 0; k < b->nnodes && p->side[i].vector; k++)
      if (p->side[i].node[k]) p->section[k] = MMA_SIDE;
  for (int i = 0; i < b->nnodes; i++)
    for (int j = 0; j < b->nodes[i].nin && p->section[i] != MMA_SIDE && b->nodes[i].op != OP_ITER && op_rows[b->nodes[i].op].rule != RULE_VIEW; j++) {
      int root = p->n->t[b->nodes[i].in[j]].root;
      bool known = p->section[b->tensors[root].node] != MMA_SIDE;
      for (int k = 0; k < p->nsides; k++) known |= p->side[k].root == root;
      if (!known) return mma_refuse(p, "a step on the way to a vector is read elsewhere");
    }
  return true;
}

// ---- emission ----

void mma_vector_declare(struct mma_kernel *k)
{
  for (int i = 0; i < k->p->nsides; i++)
    if (k->p->side[i].vector)
      text_line(k->t, "%%w%d:[%lld].fp32.SH", k->p->side[i].root, (long long)k->p->cols[k->p->shape[k->p->side[i].root].cols].padded);
}

// In the order of the columns that it will be.
void mma_vector_store(struct mma_kernel *k, const struct mma_plan *whole, const struct mma_side *s, const char *reg)
{
  int64_t stride[MAX_LETTERS] = {0}, step = 1;
  const struct mma_list *l = &whole->cols[whole->shape[s->root].cols].list;
  struct str at = {0};
  for (int i = l->n - 1; i >= 0; step *= k->p->n->extent[(int)l->letter[i--]]) stride[(int)l->letter[i]] = step;
  str_add(&at, "0");
  mma_row_walk(k->p, stride, 1, &at);
  const char *rows = mma_side_row_exists(k);
  long long size = whole->cols[whole->shape[s->root].cols].size, gap = whole->cols[whole->shape[s->root].cols].padded - size;
  text_open(k->t, "if (@lane %% 4 == 0)");
  mma_rows_open(k, true);
  if (rows) text_open(k->t, "if (%s)", rows);
  text_line(k->t, "%%w%d[%s] <- Move<<<#grid, #me>>>(%%%s[m, 0][h, 0][0, 0])", s->root, mma_text(k, &at), reg);
  if (rows) text_close(k->t);
  mma_rows_close(k, true);
  text_close(k->t);
  if (!gap) return;
  text_open(k->t, "if (@tid < %lld)", gap); // what is read with it and counts for nothing
  text_line(k->t, "%%one:[].fp32.RF");
  text_line(k->t, "%%one <- Init<1.0><<<#grid, #me>>>()");
  text_line(k->t, "%%w%d[%lld + @tid] <- Move<<<#grid, #me>>>(%%one)", s->root, size);
  text_close(k->t);
}

const char *mma_vector_value(struct mma_kernel *k, int tensor)
{
  const struct mma_plan *p = k->p;
  for (int i = 0; i < p->nsides; i++) {
    if (!p->side[i].vector || p->side[i].root != tensor) continue;
    struct mma_shape s = p->shape[tensor];
    const char *v = mma_declare(k, s, "fp32");
    text_open(k->t, "for (n = 0; n < %d; n += 1) unroll", p->cols[s.cols].nt);
    text_line(k->t, "%%%s[0, n][0, 0] <- Move<<<#grid, #me>>>(%%w%d.tile([2])[%s])", v, tensor, mma_cols_index(p, s.cols, 2));
    text_close(k->t);
    return k->have[tensor] = s, v;
  }
  return NULL;
}
