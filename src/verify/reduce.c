// The same pair of graphs at small extents. Evaluation over a field costs as much as the program itself, and the theorem on exponentials needs few of
// them (paper, section 5, Theorem 2; a softmax over s keys has about s^2). So tests use 2 or 3 for every grid, loop and tile factor of every index.
// Operators, loops, maps and accumulators all still have an effect. An extent of 1 would hide sums and transposes.
#include "verify/proof.h"

static const int64_t LARGEST = 4096, LARGEST_TILE = 1 << 20;

// Constrains every input and output to the same extents on both sides.
static bool join(struct system *s, const struct frame *a, const struct frame *b, int n, const int *ta, const int *tb)
{
  for (int i = 0; i < n; i++) {
    const struct shape *x = &a->g->tensors[ta[i]].shape;
    if (!shape_eq(x, &b->g->tensors[tb[i]].shape)) return false;
    for (int d = 0; d < x->n; d++) shrink_same(s, a->dims[ta[i]] + d, b->dims[tb[i]] + d);
  }
  return true;
}

static bool join_ends(struct system *s, const struct frame *a, const struct frame *b, int (*ends)(const struct graph *, int *))
{
  int n = ends(a->g, NULL);
  if (ends(b->g, NULL) != n) return false;
  int *ta = NEWS(s->mem, int, n + 1), *tb = NEWS(s->mem, int, n + 1);
  ends(a->g, ta), ends(b->g, tb);
  return join(s, a, b, n, ta, tb);
}

bool shrink_pair(struct arena *mem, const struct graph *a, const struct graph *b, enum shrink_style style, struct graph **sa, struct graph **sb)
{
  struct arena scratch = {0};
  struct system s = {.mem = &scratch, .largest = LARGEST};
  shrink_constant(&s, 1); // the variable ONE
  struct frame *fa = shrink_collect(&s, a), *fb = shrink_collect(&s, b);
  bool good = !s.failed && join_ends(&s, fa, fb, graph_inputs) && join_ends(&s, fa, fb, graph_outputs);
  good = good && shrink_solve(&s, style);
  *sa = good ? shrink_build(&s, fa, mem) : NULL;
  *sb = *sa ? shrink_build(&s, fb, mem) : NULL;
  arena_close(&scratch);
  return *sa && *sb;
}

// ---- full-size tiles ----

// Whether rows of tiles do not depend on each other, so that fewer rows do the same work: elementwise operators and reductions only.
static bool by_rows(const struct graph *b)
{
  bool yes = true;
  for (int i = 0; i < b->nnodes; i++) {
    const enum rule r = op_rows[b->nodes[i].op].rule;
    yes &= r == RULE_IO || r == RULE_CONST || r == RULE_MAP || r == RULE_REDUCE;
  }
  return yes;
}

// Dimensions that are reduced, and the last ones, in which elements are adjacent, stay.
static void fix_columns(struct system *s, const struct frame *sub)
{
  for (int t = 0; t < sub->g->ntensors; t++)
    if (sub->g->tensors[t].shape.n) s->fixed[shrink_find(s, sub->dims[t] + sub->g->tensors[t].shape.n - 1)] = true;
  for (int i = 0; i < sub->g->nnodes; i++) {
    const struct node *n = &sub->g->nodes[i];
    if (op_rows[n->op].rule != RULE_REDUCE) continue;
    s->fixed[shrink_find(s, sub->dims[n->in[0]] + n->a.dim)] = s->fixed[shrink_find(s, sub->dims[n->out] + n->a.dim)] = true;
    s->fixed[shrink_find(s, sub->attr[i])] = true;
  }
}

// Two steps of the kernel. Rows that are no whole number of steps stay.
static int64_t fewest_rows(int64_t full, int64_t rows) { return full % rows ? full : MIN(full, 2 * rows); }

static void fix_tile(struct system *s, const struct frame *sub, int64_t rows)
{
  const bool fewer = rows && by_rows(sub->g);
  if (fewer) fix_columns(s, sub);
  for (int t = 0; t < sub->g->ntensors; t++)
    for (int d = 0; d < sub->g->tensors[t].shape.n; d++) {
      const int v = shrink_find(s, sub->dims[t] + d);
      if (!fewer)
        s->fixed[v] = true;
      else if (!s->fixed[v])
        s->least[v] = MAX(s->least[v], fewest_rows(s->full[v], rows));
    }
}

static void fix_tiles(struct system *s, const struct frame *f, int64_t rows)
{
  for (int i = 0; i < f->g->nnodes; i++)
    if (f->sub[i]) fix_tile(s, f->sub[i], rows);
}

// Elements that one iteration of the loop axis reads along a dimension. 0: no iterator is divided by the axis.
static int64_t tile_along(const struct graph *b, int axis)
{
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    if (n->op == OP_ITER && n->a.fmap[axis] != REPLICA) return b->tensors[n->out].shape.d[n->a.fmap[axis]];
  }
  return 0;
}

// Elements of 16 bytes: the most among tensors in memory whose last dimension the axis divides. 1: it divides none. Rows that are a whole number of
// them can be loaded in vectors and by TMA.
static int64_t vector_along(const struct graph *b, bool loop, int axis)
{
  int64_t most = 1;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    if (n->op != OP_ITER && n->op != OP_SAVE) continue;
    const struct tensor *x = &b->tensors[n->op == OP_SAVE ? n->in[0] : n->out];
    const int along = n->op == OP_SAVE ? (loop ? REPLICA : n->a.omap[axis]) : loop ? n->a.fmap[axis] : n->a.imap[axis];
    if (x->shape.n && along == x->shape.n - 1) most = MAX(most, 16 / dtype_bytes(x->dtype));
  }
  return most;
}

static bool even(int64_t elements, int64_t step, int64_t sharing) { return (elements + step - 1) / step % sharing == 0; }

// The least number of iterations, or blocks, with which a kernel that takes `step` elements at a time takes more than one step, and as many as blocks
// that share them. Its last step is partial, rows are no whole number of vectors, and shares differ, if and only if it is so at full size.
static int64_t fewest_iterations(int64_t loop, int64_t tile, int64_t step, int64_t vector, int64_t sharing)
{
  for (int64_t n = 2; tile && n < loop; n++)
    if (n * tile > step * (MAX(sharing, 2) - 1) && (n * tile % step == 0) == (loop * tile % step == 0) &&
        (n * tile % vector == 0) == (loop * tile % vector == 0) && (sharing < 2 || even(n * tile, step, sharing) == even(loop * tile, step, sharing)))
      return n;
  return loop;
}

// Columns that each block along the grid axis saves. 0: the axis does not divide the columns.
static int64_t columns_along(const struct graph *b, int axis)
{
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    const struct shape *x = n->op == OP_SAVE ? &b->tensors[n->in[0]].shape : NULL;
    if (x && x->n > 1 && n->a.omap[axis] == x->n - 1) return x->d[x->n - 1];
  }
  return 0;
}

static void keep_steps(struct system *s, const struct frame *f, struct shrink_steps at_once)
{
  for (int i = 0; i < f->g->nnodes; i++) {
    const struct frame *sub = f->sub[i];
    for (int l = 0; sub && l < sub->g->nloop; l++) {
      const int64_t tile = tile_along(sub->g, l), step = at_once.step ? at_once.step : tile, vector = vector_along(sub->g, true, l);
      if (sub->g->loop[l] > 1 && (at_once.step || at_once.sharing || (tile && vector > 1)))
        s->least[shrink_find(s, sub->axes + MAX_GRID + l)] = fewest_iterations(sub->g->loop[l], tile, step, vector, at_once.sharing);
    }
    for (int x = 0; sub && x < sub->g->ngrid; x++) {
      const int64_t tile = columns_along(sub->g, x), step = at_once.cols ? at_once.cols : tile, vector = vector_along(sub->g, false, x);
      if (sub->g->grid[x] > 1 && (at_once.cols || (tile && vector > 1)))
        s->least[shrink_find(s, sub->axes + x)] = fewest_iterations(sub->g->grid[x], tile, step, vector, 0);
    }
  }
}

static bool shrink_with(struct arena *mem, const struct graph *g, struct shrink_steps at_once, bool margins_stay, struct graph **out)
{
  struct arena scratch = {0};
  struct system s = {.mem = &scratch, .largest = LARGEST_TILE, .margins_stay = margins_stay};
  shrink_constant(&s, 1); // the variable ONE
  struct frame *f = shrink_collect(&s, g);
  if (!s.failed) fix_tiles(&s, f, at_once.rows);
  if (!s.failed) keep_steps(&s, f, at_once);
  bool good = !s.failed && shrink_solve(&s, OTHER);
  *out = good ? shrink_build(&s, f, mem) : NULL;
  arena_close(&scratch);
  return *out;
}

// A slice whose ends have no common divisor with the extent becomes shorter only if its margins stay. That is tried first.
bool verify_shrink_axes(struct arena *mem, const struct graph *g, struct shrink_steps at_once, struct graph **out)
{
  return shrink_with(mem, g, at_once, true, out) || shrink_with(mem, g, at_once, false, out);
}
