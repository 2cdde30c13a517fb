// Changes how many rows of a product a thread block computes. The block graph has a grid for its own tiles, such as 71 heads with 2 tiles of 32
// queries each, but a product gives the same result for any tiling of its rows. A grid axis becomes a letter of rows if only left operands and
// results depend on it, and a batch dimension inside a tile becomes a grid axis. A block then takes the requested number of rows; the last one may
// take fewer. A grid axis that a right operand depends on (a batch, or a part of a sum) stays.
#include "plan/retile.h"
#include "plan/passes.h"

#include <string.h>

struct cutting {
  struct norm *n; // a copy, like everything below
  struct graph *b;
  struct passes *passes;
  bool *needs; // for each tensor: whether it depends on the axis that find_dependent() was called for
  char *why;
};

static bool refuse(struct cutting *c, const char *why) { return snprintf(c->why, 160, "%s", why), false; }

// ---- the copy that is changed ----

static void make_copy(struct arena *mem, const struct norm *n, struct cutting *c)
{
  c->n = arena_copy(mem, n, sizeof *n), c->b = arena_copy(mem, n->block, sizeof *n->block);
  c->n->t = arena_copy(mem, n->t, sizeof *n->t * (size_t)n->block->ntensors);
  c->n->iter = arena_copy(mem, n->iter, sizeof *n->iter * (size_t)MAX(n->niter, 1));
  c->n->save = arena_copy(mem, n->save, sizeof *n->save * (size_t)MAX(n->nsave, 1));
  c->passes = arena_copy(mem, n->passes, sizeof *n->passes);
  struct chains *ch = &c->passes->chains;
  ch->product = arena_copy(mem, ch->product, sizeof *ch->product * (size_t)MAX(ch->nproducts, 1));
  c->needs = NEWS(mem, bool, n->block->ntensors);
  c->n->block = c->b, c->n->passes = c->passes;
}

static int accesses(const struct norm *n) { return n->niter + n->nsave; }

struct plan_access *norm_access(const struct norm *n, int i) { return i < n->niter ? &n->iter[i] : &n->save[i - n->niter]; }

static void find_dependent(struct cutting *c, int axis)
{
  memset(c->needs, 0, sizeof *c->needs * (size_t)c->b->ntensors);
  for (int i = 0; i < c->n->niter; i++) c->needs[c->n->iter[i].tile] = c->n->iter[i].grid[axis] != 0;
  for (int i = 0; i < c->b->nnodes; i++) {
    const struct node *x = &c->b->nodes[i];
    for (int k = 0; k < x->nin && x->op != OP_ITER; k++)
      for (int o = 0; o < x->nout; o++) c->needs[x->out + o] |= c->needs[x->in[k]];
  }
}

// Whether no right operand depends on the axis, and every output does.
static bool only_rows(struct cutting *c, int axis)
{
  const struct chains *ch = &c->passes->chains;
  find_dependent(c, axis);
  for (int i = 0; i < ch->nproducts; i++)
    if (c->needs[ch->product[i].b]) return false;
  for (int i = 0; i < c->n->nsave; i++)
    if (!c->n->save[i].grid[axis]) return false;
  return true;
}

static bool make_letter(struct cutting *c, int axis)
{
  struct norm *n = c->n;
  struct chains *ch = &c->passes->chains;
  int l = n->nletters;
  if (l == MAX_LETTERS) return refuse(c, "rows have too many letters");
  n->nletters++, n->extent[l] = c->b->grid[axis], c->b->grid[axis] = 1;
  for (int i = 0; i < accesses(n); i++) {
    struct plan_access *a = norm_access(n, i);
    a->stride[l] = a->grid[axis], a->grid[axis] = 0;
  }
  for (int t = 0; t < c->b->ntensors; t++)
    if (c->needs[t]) n->t[t].has |= 1u << l;
  for (int i = 0; i < ch->nproducts; i++) ch->product[i].rows |= 1u << l;
  ch->rows |= 1u << l;
  return true;
}

// Letters that become axes must not be summed, and every saver must have them.
static bool may_move(const struct cutting *c, uint32_t letters)
{
  const struct norm *n = c->n;
  for (int i = 0; i < c->b->nnodes; i++) {
    const struct node *x = &c->b->nodes[i];
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
  struct norm *n = c->n;
  struct chains *ch = &c->passes->chains;
  uint32_t bit = 1u << letter;
  int axis = c->b->ngrid;
  if (axis == GRID_AXES) return refuse(c, "the grid has too many axes");
  c->b->grid[axis] = n->extent[letter], c->b->ngrid++;
  for (int i = 0; i < accesses(n); i++) {
    struct plan_access *a = norm_access(n, i);
    a->grid[axis] = a->stride[letter], a->stride[letter] = 0;
  }
  for (int t = 0; t < c->b->ntensors; t++) n->t[t].has &= ~bit;
  for (int i = 0; i < ch->nproducts; i++) ch->product[i].rows &= ~bit, ch->product[i].batch &= ~bit;
  ch->rows &= ~bit;
  return true;
}

// Removes axes of extent 1. If pieces is not 0, an axis of that many pieces of rows is put first.
static bool pack_axes(struct cutting *c, int64_t pieces)
{
  int from[GRID_AXES], first = pieces > 0, count = first;
  int64_t axis[GRID_AXES] = {pieces};
  for (int i = 0; i < c->b->ngrid; i++) {
    if (c->b->grid[i] == 1) continue;
    if (count == GRID_AXES) return refuse(c, "the grid has too many axes");
    from[count] = i, axis[count++] = c->b->grid[i];
  }
  for (int i = 0; i < accesses(c->n); i++) {
    struct plan_access *a = norm_access(c->n, i);
    int64_t grid[GRID_AXES] = {0};
    for (int k = first; k < count; k++) grid[k] = a->grid[from[k]];
    memcpy(a->grid, grid, sizeof grid);
  }
  memcpy(c->b->grid, axis, sizeof axis), c->b->ngrid = count;
  return true;
}

// Whether letter x is slower than letter y in rows of this tensor.
static bool is_slower(const struct norm *n, const struct plan_access *by, int x, int y)
{
  const bool x_fast = n->fast >> x & 1, y_fast = n->fast >> y & 1;
  return x_fast == y_fast ? by->stride[x] >= by->stride[y] : y_fast;
}

int norm_in_order(const struct norm *n, uint32_t letters, int8_t out[MAX_LETTERS])
{
  const struct plan_access *by = &n->save[0];
  int count = 0;
  for (int i = n->niter - 1; i >= 0; i--)
    if ((n->t[n->iter[i].tile].has & letters) == letters) by = &n->iter[i];
  for (; letters; letters &= letters - 1) {
    int8_t l = (int8_t)__builtin_ctz(letters);
    int at = count++;
    for (; at > 0 && !is_slower(n, by, out[at - 1], l); at--) out[at] = out[at - 1];
    out[at] = l;
  }
  return count;
}

// Adds a grid axis that counts parts of the letter. `part` is the extent of one.
static bool part_letter(struct cutting *c, int letter, int64_t part)
{
  int axis = c->b->ngrid;
  if (axis == GRID_AXES) return refuse(c, "the grid has too many axes");
  c->b->grid[axis] = c->n->extent[letter] / part, c->n->extent[letter] = part, c->b->ngrid++;
  for (int i = 0; i < accesses(c->n); i++) {
    struct plan_access *a = norm_access(c->n, i);
    a->grid[axis] = a->stride[letter] * part;
  }
  return true;
}

// Whether `rows` rows are whole extents of the fastest letters and a divisor of the next one. Then no block has fewer rows than others.
static bool cuts_evenly(const struct norm *n, const int8_t *l, int count, int64_t rows)
{
  for (int i = count - 1; i >= 0 && rows > 1; i--) {
    int64_t x = n->extent[(int)l[i]];
    if (x > rows ? x % rows : rows % x) return false;
    rows = x > rows ? 1 : rows / x;
  }
  return rows == 1;
}

static bool cut_evenly(struct cutting *c, const int8_t *l, int count, int64_t rows)
{
  for (int i = count - 1; i >= 0; i--) {
    int64_t x = c->n->extent[(int)l[i]];
    if (rows == 1 && x > 1 && !make_axis(c, l[i])) return false;
    if (rows > 1 && x > rows && !part_letter(c, l[i], rows)) return false;
    rows = x > rows ? 1 : rows / x;
  }
  return pack_axes(c, 0);
}

// Whether every output has all letters of rows. Otherwise several blocks would save the same elements.
static bool all_save_rows(const struct cutting *c, uint32_t rows)
{
  for (int i = 0; i < c->n->nsave; i++)
    if (norm_extent(c->n, rows & ~c->n->t[c->n->save[i].tile].has) > 1) return false;
  return true;
}

// Letters of rows that no condition depends on, where conditions depend on others: heads, if a causal mask hides keys of a query. A piece of all heads
// of few queries sees fewer keys than one of many queries of a head. 0 if a piece has no whole number of their elements.
static uint32_t without_conditions(const struct cutting *c, uint32_t rows, int64_t piece)
{
  uint32_t in = 0;
  for (int i = 0; i < c->b->nnodes; i++)
    if (op_rows[c->b->nodes[i].op].flags & BRACKET) in |= c->n->t[c->b->nodes[i].out].has & rows;
  return in && piece % norm_extent(c->n, rows & ~in) == 0 ? rows & ~in : 0;
}

static bool cut(struct cutting *c, bool even, int64_t *rows)
{
  const struct chains *ch = &c->passes->chains;
  uint32_t batches = 0;
  for (int i = 0; i < ch->nproducts; i++) batches |= ch->product[i].batch & c->n->t[ch->product[i].b].has;
  if (!may_move(c, batches)) return refuse(c, "rows are summed");
  for (uint32_t l = batches; l; l &= l - 1)
    if (!make_axis(c, __builtin_ctz(l))) return false;
  for (int i = 0; i < c->b->ngrid; i++)
    if (c->b->grid[i] > 1 && only_rows(c, i) && !make_letter(c, i)) return false;
  int8_t letters[MAX_LETTERS];
  c->n->fast = without_conditions(c, ch->rows, *rows);
  int count = norm_in_order(c->n, ch->rows, letters);
  int64_t all = norm_extent(c->n, ch->rows), own = *rows;
  if (all > own && !all_save_rows(c, ch->rows)) return refuse(c, "a result has only some of the rows, so blocks would store the same elements");
  if (cuts_evenly(c->n, letters, count, own)) return *rows = 0, cut_evenly(c, letters, count, own);
  if (even) return refuse(c, "a tail needs blocks with the same number of rows");
  return pack_axes(c, (all + own - 1) / own);
}

const struct norm *norm_cut(struct arena *mem, const struct norm *n, struct norm_retile to, bool even, int64_t *rows, char why[160])
{
  struct cutting c = {.why = why};
  *rows = to.rows;
  if (to.rows < 0 || to.rows % 16) return snprintf(why, 160, "%lld rows a block, which is no multiple of 16", (long long)to.rows), NULL;
  if (!n->passes->chains.nproducts) return refuse(&c, "no products"), NULL;
  if (!n->passes->chains.oriented) return refuse(&c, "products have no rows in common"), NULL;
  if (n->joins) return refuse(&c, "parts that are joined or split"), NULL;
  make_copy(mem, n, &c);
  if (to.step && !norm_step(c.n, c.b, to.step, why)) return NULL;
  if (to.rows && !cut(&c, even, rows)) return NULL;
  if (to.cols && even) return refuse(&c, "a tail needs the columns of the block graph"), NULL;
  if (to.cols && !norm_clip(c.n, c.b, to.cols, why)) return NULL;
  plan_meta(mem, c.n, &c.passes->chains, &c.passes->meta);
  return c.n;
}
