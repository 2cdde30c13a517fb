// Constraints on the extents of a graph, one function for each index rule: the equations of ir/infer.c. Every extent of every tensor at every level
// is a variable, and so is every axis. Extents of 1 stay 1.
#include "verify/proof.h"

enum { ROW_ALIGNED = 16 }; // bytes of the widest access of a thread

static int64_t extent(const struct frame *f, int t, int d) { return f->g->tensors[t].shape.d[d]; }
static int rank(const struct frame *f, int t) { return f->g->tensors[t].shape.n; }

// Right-aligned dimensions of equal extent in x and t stay equal.
static void broadcast(struct system *s, const struct frame *f, int x, int t)
{
  int shift = rank(f, t) - rank(f, x);
  for (int i = 0; i < rank(f, x); i++)
    if (i + shift >= 0 && extent(f, x, i) == extent(f, t, i + shift)) shrink_same(s, f->dims[x] + i, f->dims[t] + i + shift);
}

static void same_but(struct system *s, const struct frame *f, int x, int t, int dim)
{
  for (int i = 0; i < rank(f, x); i++)
    if (i != dim) shrink_same(s, f->dims[x] + i, f->dims[t] + i);
}

static void matrices(struct system *s, const struct frame *f, int x, int y, int out)
{
  int rx = rank(f, x), ry = rank(f, y), ro = rank(f, out);
  shrink_same(s, f->dims[x] + rx - 1, f->dims[y] + ry - 2);
  shrink_same(s, f->dims[x] + rx - 2, f->dims[out] + ro - 2);
  shrink_same(s, f->dims[y] + ry - 1, f->dims[out] + ro - 1);
  for (int side = 0; side < 2; side++) {
    int in = side ? y : x, r = side ? ry : rx;
    for (int i = 0; i < r - 2; i++)
      if (extent(f, in, i) == extent(f, out, i + ro - r)) shrink_same(s, f->dims[in] + i, f->dims[out] + i + ro - r);
  }
}

// in = out * group along dim; `group` is a variable of the node.
static void reduction(struct system *s, struct frame *f, int i)
{
  const struct node *n = &f->g->nodes[i];
  int x = n->in[0], t = n->out, dim = n->a.dim;
  int64_t folded = extent(f, x, dim) / extent(f, t, dim);
  bool whole = op_rows[n->op].abstract == AE_PROD; // (-1)^n and 2^n depend on n
  int group = whole ? shrink_constant(s, folded) : shrink_var(s, folded);
  same_but(s, f, x, t, dim);
  shrink_product(s, 1, (int[]){f->dims[x] + dim}, 2, (int[]){group, f->dims[t] + dim});
  f->attr[i] = group;
}

// Each group of adjacent extents keeps the same product on both sides. Extents of 1 belong to no group.
static void reshape(struct system *s, const struct frame *f, int x, int t)
{
  int i = 0, j = 0;
  while (i < rank(f, x) || j < rank(f, t)) {
    int side[2][MAX_DIMS], n[2] = {0, 0};
    int64_t p = 1, q = 1;
    do {
      bool left = i < rank(f, x) && (p <= q || j >= rank(f, t));
      if (!left && j >= rank(f, t)) break;
      if (left)
        p *= extent(f, x, i), side[0][n[0]++] = f->dims[x] + i++;
      else
        q *= extent(f, t, j), side[1][n[1]++] = f->dims[t] + j++;
    } while (p != q);
    shrink_product(s, n[0], side[0], n[1], side[1]);
  }
}

// The elements before and behind the slice stay. The slice may become shorter.
static void slice_by_margins(struct system *s, struct frame *f, const struct node *n)
{
  const int part = f->dims[n->out] + n->a.dim, whole = f->dims[n->in[0]] + n->a.dim;
  const int64_t aligned = MAX(ROW_ALIGNED / dtype_bytes(f->g->tensors[n->out].dtype), 1), full = extent(f, n->out, n->a.dim);
  int64_t least = full % aligned;
  while (least < 2) least += aligned;
  same_but(s, f, n->in[0], n->out, n->a.dim);
  if (least < full) s->least[shrink_find(s, part)] = MAX(s->least[shrink_find(s, part)], least);
  PUSH(s->mem, s->margins, s->nmargins, s->margins_cap) =
      (struct margin){whole, part, extent(f, n->in[0], n->a.dim) - full, least < full ? aligned : full + 1};
}

// Start, end and extent are multiples of a unit, which may be reduced.
static void slice(struct system *s, struct frame *f, int i)
{
  const struct node *n = &f->g->nodes[i];
  const int64_t whole = extent(f, n->in[0], n->a.dim), unit = slice_unit(&n->a, whole);
  if (s->margins_stay && unit == 1 && extent(f, n->out, n->a.dim) > 1) {
    slice_by_margins(s, f, n);
    return;
  }
  f->attr[i] = shrink_var(s, unit);
  same_but(s, f, n->in[0], n->out, n->a.dim);
  shrink_product(s, 1, (int[]){f->dims[n->in[0]] + n->a.dim}, 2, (int[]){shrink_constant(s, whole / unit), f->attr[i]});
  shrink_product(s, 1, (int[]){f->dims[n->out] + n->a.dim}, 2, (int[]){shrink_constant(s, (n->a.end - n->a.start) / unit), f->attr[i]});
}

static void view(struct system *s, struct frame *f, int i)
{
  const struct node *n = &f->g->nodes[i];
  int x = n->in[0], t = n->out, r = rank(f, x);
  if (n->op == OP_RESHAPE) {
    reshape(s, f, x, t);
  } else if (n->op == OP_TRANSPOSE) {
    for (int d = 0; d < r; d++) {
      int from = n->a.perm.n ? (int)n->a.perm.d[d] : d < r - 2 ? d : 2 * r - 3 - d;
      shrink_same(s, f->dims[x] + from, f->dims[t] + d);
    }
  } else if (n->op == OP_REPEAT) {
    f->attr[i] = shrink_var(s, n->a.times);
    same_but(s, f, x, t, n->a.dim);
    shrink_product(s, 1, (int[]){f->dims[t] + n->a.dim}, 2, (int[]){f->dims[x] + n->a.dim, f->attr[i]});
  } else if (n->op == OP_SLICE) {
    slice(s, f, i);
  } else {
    same_but(s, f, x, t, REPLICA);
  }
}

static void concat(struct system *s, const struct frame *f, const struct node *n)
{
  struct total sum = {.out = f->dims[n->out] + n->a.dim, .n = MIN(n->nin, 64)};
  if (n->nin > 64) s->failed = true;
  for (int k = 0; k < sum.n; k++) {
    same_but(s, f, n->in[k], n->out, n->a.dim);
    sum.in[k] = f->dims[n->in[k]] + n->a.dim;
  }
  PUSH(s->mem, s->totals, s->ntotals, s->totals_cap) = sum;
}

static void split(struct system *s, const struct frame *f, const struct node *n)
{
  int x = n->in[0], dim = n->a.dim, parts = shrink_constant(s, n->a.parts);
  for (int k = 0; k < n->nout; k++) {
    same_but(s, f, x, n->out + k, dim);
    shrink_product(s, 1, (int[]){f->dims[x] + dim}, 2, (int[]){f->dims[n->out + k] + dim, parts});
  }
}

// The indexed dimension keeps its extent, because the indices keep their range.
static void choice(struct system *s, const struct frame *f, const struct node *n)
{
  const int x = n->in[0], at = n->in[1], dim = n->a.dim;
  if (node_has(n, SELECTS)) {
    s->failed = true;
    return;
  }
  const int slices = node_has(n, READS_SLICES) ? n->out : n->in[2], more = rank(f, at);
  shrink_same(s, f->dims[x] + dim, shrink_constant(s, extent(f, x, dim)));
  for (int d = 0; d < rank(f, slices); d++) {
    int other = d < dim ? f->dims[x] + d : d < dim + more ? f->dims[at] + d - dim : f->dims[x] + d - more + 1;
    shrink_same(s, f->dims[slices] + d, other);
  }
  if (node_has(n, WRITES_SLICES)) same_but(s, f, x, n->out, REPLICA);
}

static void accumulator(struct system *s, struct frame *f, int i)
{
  const struct node *n = &f->g->nodes[i];
  int x = n->in[0], t = n->out;
  if (op_rows[n->op].flags & REDUCES) reduction(s, f, i);
  if (op_rows[n->op].flags & RESCALES) broadcast(s, f, n->in[1], t);
  if (n->nout == 2) same_but(s, f, t, t + 1, REPLICA);
  if (op_rows[n->op].flags & REDUCES) return;
  for (int d = 0; d < rank(f, t); d++) {
    int side[1 + MAX_LOOPS] = {f->dims[x] + d}, m = 1;
    for (int l = 0; l < f->g->nloop && (op_rows[n->op].attrs & A_FMAP); l++)
      if (n->a.fmap[l] == d) side[m++] = f->axes + MAX_GRID + l;
    shrink_product(s, 1, (int[]){f->dims[t] + d}, m, side);
  }
}

// The extent of the outer tensor is that of the tile times the axes that divide or join it.
static void border(struct system *s, const struct frame *f, int outer, const struct frame *sub, const struct node *n, int tile)
{
  const int8_t *grid = n->op == OP_ITER ? n->a.imap : n->a.omap;
  for (int d = 0; d < rank(f, outer); d++) {
    int side[1 + MAX_GRID + MAX_LOOPS] = {sub->dims[tile] + d}, m = 1;
    for (int x = 0; x < sub->g->ngrid; x++)
      if (grid[x] == d) side[m++] = sub->axes + x;
    for (int l = 0; l < sub->g->nloop && n->op == OP_ITER; l++)
      if (n->a.fmap[l] == d) side[m++] = sub->axes + MAX_GRID + l;
    shrink_product(s, 1, (int[]){f->dims[outer] + d}, m, side);
  }
}

// Loop axes on which node n's argument depends.
static unsigned varies(const struct graph *g, const struct node *n, const unsigned *with)
{
  unsigned m = 0;
  for (int l = 0; l < g->nloop && n->op == OP_ITER; l++)
    if (n->a.fmap[l] != REPLICA) m |= 1u << l;
  for (int k = 0; k < n->nin; k++) m |= with[n->in[k]];
  return m;
}

// A sum of a loop-invariant value over iterations is a multiple of it. Its factor, the number of iterations, must not change.
static void pin_repeated_sums(struct system *s, const struct frame *sub)
{
  const struct graph *g = sub->g;
  unsigned *with = NEWS(s->mem, unsigned, g->ntensors + 1);
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    const struct op_row *row = &op_rows[n->op];
    unsigned m = varies(g, n, with);
    bool sums = row->rule == RULE_ACCUM && !(row->flags & (MEAN | RUNNING));
    for (int l = 0; l < g->nloop && sums; l++) {
      bool joins = (row->attrs & A_FMAP) && n->a.fmap[l] != REPLICA;
      if (!joins && !(m >> l & 1) && g->loop[l] > 1) shrink_same(s, sub->axes + MAX_GRID + l, shrink_constant(s, g->loop[l]));
    }
    for (int k = 0; k < n->nout; k++) with[n->out + k] = sums ? 0 : m;
  }
}

static void nested(struct system *s, struct frame *f, int i)
{
  const struct node *n = &f->g->nodes[i];
  struct frame *sub = f->sub[i] = shrink_collect(s, n->sub);
  int iter = 0, save = 0;
  for (int k = 0; k < n->sub->nnodes; k++) {
    const struct node *m = &n->sub->nodes[k];
    if (m->op == OP_ITER) border(s, f, n->in[iter++], sub, m, m->out);
    if (m->op == OP_SAVE) border(s, f, n->out + save++, sub, m, m->in[0]);
  }
  pin_repeated_sums(s, sub);
}

static void constrain(struct system *s, struct frame *f, int i)
{
  const struct node *n = &f->g->nodes[i];
  switch (op_rows[n->op].rule) {
  case RULE_IO:
  case RULE_CONST:
  case RULE_INDEX: break;
  case RULE_MAP:
    for (int k = 0; k < n->nin; k++) broadcast(s, f, n->in[k], n->out);
    break;
  case RULE_COMPOSITE:
    for (int k = 0; k < n->nin; k++) broadcast(s, f, n->in[k], n->out);
    break;
  case RULE_CONTRACT:
    matrices(s, f, n->in[0], n->in[n->nin / 2], n->out);
    if (n->nin == 4) matrices(s, f, n->in[1], n->in[3], n->out);
    break;
  case RULE_REDUCE: reduction(s, f, i); break;
  case RULE_VIEW: view(s, f, i); break;
  case RULE_CONCAT: concat(s, f, n); break;
  case RULE_SPLIT: split(s, f, n); break;
  case RULE_AT: choice(s, f, n); break;
  case RULE_WORLD: s->failed = true; break; // the number of ranks is fixed
  case RULE_ACCUM: accumulator(s, f, i); break;
  case RULE_GRAPH: nested(s, f, i); break;
  }
}

struct frame *shrink_collect(struct system *s, const struct graph *g)
{
  struct frame *f = NEW(s->mem, struct frame);
  f->g = g;
  f->dims = NEWS(s->mem, int, g->ntensors + 1), f->attr = NEWS(s->mem, int, g->nnodes + 1);
  f->sub = NEWS(s->mem, struct frame *, g->nnodes + 1);
  f->axes = s->nvars;
  for (int i = 0; i < MAX_GRID + MAX_LOOPS; i++) {
    bool grid = i < MAX_GRID;
    int64_t n = grid ? (i < g->ngrid ? g->grid[i] : 1) : i - MAX_GRID < g->nloop ? g->loop[i - MAX_GRID] : 1;
    s->axis[shrink_var(s, n)] = true;
  }
  for (int t = 0; t < g->ntensors; t++) {
    f->dims[t] = s->nvars;
    for (int d = 0; d < g->tensors[t].shape.n; d++) shrink_var(s, g->tensors[t].shape.d[d]);
  }
  for (int i = 0; i < g->nnodes && !s->failed; i++) constrain(s, f, i);
  return f;
}
