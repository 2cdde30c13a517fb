// The grid cut anew. Which block makes which rows, a block graph says for its own tiles: 71 heads times 2 of 32 queries, or all
// 256 rows of 8 heads. No product cares. So what of the grid only rows have becomes letters of rows, batches that tiles hold
// become axes of the grid, and blocks take pieces of all rows, as many as the knob says; the last piece may be smaller, its
// missing rows are read as the last one and not stored. Axes that right operands have (batches, parts of sums) stay.
#include "lower/mma.h"

#include <string.h>

struct cutting {
  struct mma_plan *p;
  struct norm *n;       // the plan's own from here on
  bool *needs;          // by tensor: does it depend on the axis in question?
  uint32_t moved;       // letters that became axes
};

// ---- the norm as it will be ----

struct norm *mma_own_norm(struct mma_plan *p)
{
  struct arena *mem = p->job->mem;
  const struct norm *n = p->n;
  struct norm *to = arena_copy(mem, n, sizeof *n);
  to->t = arena_copy(mem, n->t, sizeof *n->t * (size_t)n->block->ntensors);
  to->iter = arena_copy(mem, n->iter, sizeof *n->iter * (size_t)MAX(n->niter, 1));
  to->save = arena_copy(mem, n->save, sizeof *n->save * (size_t)MAX(n->nsave, 1));
  return p->n = to, to;
}

static int accesses(const struct norm *n) { return n->niter + n->nsave; }

static struct access *access_at(const struct norm *n, int i) { return i < n->niter ? &n->iter[i] : &n->save[i - n->niter]; }

static void depends(struct cutting *c, int axis)
{
  const struct graph *b = c->n->block;
  memset(c->needs, 0, sizeof *c->needs * (size_t)b->ntensors);
  for (int i = 0; i < c->n->niter; i++) c->needs[c->n->iter[i].tile] = c->n->iter[i].grid[axis] != 0;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *x = &b->nodes[i];
    for (int k = 0; k < x->nin && x->op != OP_ITER; k++)
      for (int o = 0; o < x->nout; o++) c->needs[x->out + o] |= c->needs[x->in[k]];
  }
}

// Right operands are the same along the axis, and each of its blocks saves something else.
static bool only_rows(struct cutting *c, int axis)
{
  const struct mma_plan *p = c->p;
  depends(c, axis);
  for (int i = 0; i < p->nproducts; i++)
    if (c->needs[p->product[i].b]) return false;
  for (int i = 0; i < c->n->nsave; i++)
    if (!c->n->save[i].grid[axis]) return false;
  return true;
}

static bool make_letter(struct cutting *c, int axis)
{
  struct norm *n = c->n;
  int l = n->nletters;
  if (l == MAX_LETTERS) return mma_refuse(c->p, "more than %d letters", MAX_LETTERS);
  n->nletters++, n->extent[l] = c->p->axis[axis], c->p->axis[axis] = 1;
  for (int i = 0; i < accesses(n); i++) {
    struct access *a = access_at(n, i);
    a->stride[l] = a->grid[axis], a->grid[axis] = 0;
  }
  for (int t = 0; t < n->block->ntensors; t++)
    if (c->needs[t]) n->t[t].has |= 1u << l;
  for (int i = 0; i < c->p->nproducts; i++) c->p->product[i].rows |= 1u << l;
  c->p->row_letters |= 1u << l;
  return true;
}

// Of letters that become axes nothing may be summed, and every saver has them.
static bool may_move(const struct cutting *c, uint32_t letters)
{
  const struct norm *n = c->n;
  for (int i = 0; i < n->block->nnodes; i++) {
    const struct node *x = &n->block->nodes[i];
    enum rule rule = op_rows[x->op].rule;
    if (rule == RULE_REDUCE || rule == RULE_ACCUM)
      if (n->t[x->in[0]].has & ~n->t[x->out].has & letters) return false;
  }
  for (int i = 0; i < n->nsave; i++)
    if (letters & ~n->t[n->save[i].tile].has) return false;
  return true;
}

static bool make_axis(struct cutting *c, int letter)
{
  struct mma_plan *p = c->p;
  struct norm *n = c->n;
  uint32_t bit = 1u << letter;
  if (p->naxes == GRID_AXES) return mma_refuse(p, "more than %d axes of the grid", GRID_AXES);
  p->axis[p->naxes] = n->extent[letter];
  for (int i = 0; i < accesses(n); i++) {
    struct access *a = access_at(n, i);
    a->grid[p->naxes] = a->stride[letter], a->stride[letter] = 0;
  }
  p->naxes++, c->moved |= bit, p->row_letters &= ~bit;
  for (int t = 0; t < n->block->ntensors; t++) n->t[t].has &= ~bit;
  for (int i = 0; i < p->nproducts; i++) p->product[i].rows &= ~bit, p->product[i].batch &= ~bit;
  return true;
}

// Axes of extent 1 go; before the others comes the one that counts pieces of rows.
static bool pack_axes(struct cutting *c)
{
  struct mma_plan *p = c->p;
  int from[GRID_AXES], count = 1;
  int64_t axis[GRID_AXES] = {1};
  for (int i = 0; i < p->naxes; i++) {
    if (p->axis[i] == 1) continue;
    if (count == GRID_AXES) return mma_refuse(p, "more than %d axes of the grid", GRID_AXES);
    from[count] = i, axis[count++] = p->axis[i];
  }
  for (int i = 0; i < accesses(c->n); i++) {
    struct access *a = access_at(c->n, i);
    int64_t grid[GRID_AXES] = {0};
    for (int k = 1; k < count; k++) grid[k] = a->grid[from[k]];
    memcpy(a->grid, grid, sizeof grid);
  }
  memcpy(p->axis, axis, sizeof axis), p->naxes = count;
  return true;
}

static bool turned_over(const struct cutting *c)
{
  struct mma_plan *p = c->p;
  uint32_t batches = 0;
  for (int i = 0; i < p->nproducts; i++) batches |= p->product[i].batch & p->n->t[p->product[i].b].has;
  if (!may_move(c, batches)) return mma_refuse(p, "rows are summed");
  return true;
}

bool mma_cut(struct mma_plan *p, int64_t rows)
{
  const struct graph *b = p->n->block;
  struct cutting c = {.p = p};
  p->naxes = b->ngrid, p->cut = rows;
  for (int i = 0; i < b->ngrid; i++) p->axis[i] = b->grid[i];
  if (!rows) return true;
  if (rows < 0 || rows % 16) return mma_refuse(p, "%lld rows a block, no multiple of 16", (long long)rows);
  if (p->job->tail) return mma_refuse(p, "a tail wants the blocks that the graph has");
  c.n = mma_own_norm(p), c.needs = NEWS(p->job->mem, bool, b->ntensors);
  if (!turned_over(&c)) return false;
  for (int i = 0; i < p->nproducts; i++)
    for (uint32_t l = p->product[i].batch & c.n->t[p->product[i].b].has; l; l &= l - 1)
      if (!make_axis(&c, __builtin_ctz(l))) return false;
  for (int i = 0; i < b->ngrid; i++)
    if (p->axis[i] > 1 && only_rows(&c, i) && !make_letter(&c, i)) return false;
  return pack_axes(&c);
}

// ---- rows ----

// Letters in the order in which device memory has the rows of the first tensor that has all, so that these are one dimension there
// if they can be.
void mma_cut_rows(struct mma_plan *p)
{
  const struct norm *n = p->n;
  const struct access *by = &n->save[0];
  struct mma_list *l = &p->rows;
  for (uint32_t left = p->row_letters & ~mma_list_has(l); left; left &= left - 1) l->letter[l->n++] = (int8_t)__builtin_ctz(left);
  for (int i = n->niter - 1; i >= 0; i--)
    if ((n->t[n->iter[i].tile].has & p->row_letters) == p->row_letters) by = &n->iter[i];
  for (int i = 1; i < l->n; i++)
    for (int k = i; k > 0 && by->stride[(int)l->letter[k - 1]] < by->stride[(int)l->letter[k]]; k--) {
      int8_t x = l->letter[k];
      l->letter[k] = l->letter[k - 1], l->letter[k - 1] = x;
    }
  p->nrows = mma_list_size(n, l), p->padded = p->cut;
  p->axis[0] = (p->nrows + p->cut - 1) / p->cut;
}

int64_t mma_blocks(const struct mma_plan *p)
{
  int64_t n = 1;
  for (int i = 0; i < p->naxes; i++) n *= p->axis[i];
  return n;
}

int64_t mma_block_rows(const struct mma_plan *p) { return p->cut ? p->cut : p->nbatch * p->padded; }

bool mma_cut_ragged(const struct mma_plan *p) { return p->nrows % p->cut != 0; }

const char *mma_cut_row(const struct mma_plan *p, const char *row, bool within)
{
  struct arena *mem = p->job->mem;
  const char *piece = p->naxes > 1 ? arena_printf(mem, "@bid %% %lld", (long long)p->axis[0]) : "@bid";
  const char *at = p->axis[0] > 1 ? arena_printf(mem, "%s * %lld + %s", piece, (long long)p->cut, row) : row;
  return within && mma_cut_ragged(p) ? arena_printf(mem, "min(%s, %lld)", at, (long long)p->nrows - 1) : at;
}

// As the block graph has it, and pieces of a few sizes, none of which has all rows in its first half or is what the block graph
// has anyway; each with a few steps of the loop.
int mma_cuts(const struct lower_job *j, int64_t least, struct mma_anew out[MMA_CUTS], char why[160])
{
  struct mma_plan own, cut, p;
  char other[160];
  bool fine = mma_plan(&own, j, (struct mma_anew){0}, why);
  int64_t rows[MMA_CUTS], step = mma_own_step(j->n);
  int n = 0, nrows = 0;
  if (fine) rows[nrows++] = 0;
  if (mma_plan(&cut, j, (struct mma_anew){least, 0}, other))
    for (int64_t r = least; r <= 256; r += r < 64 ? r : 64) {
      bool same = fine && own.nbatch == 1 && own.nrows == r;
      if (!same && (r == least || r / 2 < cut.nrows)) rows[nrows++] = r;
    }
  for (int i = 0; i < nrows; i++)
    for (int64_t s = 0; s <= 128 && n < MMA_CUTS; s += s ? s : 64) {
      struct mma_anew a = {rows[i], s};
      if ((s && s == step) || (s && !mma_plan(&p, j, a, other))) continue;
      out[n++] = a;
    }
  return n;
}
