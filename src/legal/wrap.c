// Wraps library operators as block graphs, so the schemes for block graphs also generate them. The result of an elementwise operator is divided into
// tiles of some thousand elements, whole rows if they fit. A reduction reads its dimension whole, or in a loop if it is long. Views stay views:
// kernels read through them. If that is impossible (a product whose operand has no strides, a view that is an output of the program), a block graph
// that only loads and saves copies the view. Input: a checked graph, which may have composites. Output: inputs, outputs, views, constants, indices,
// products and block graphs.
#include "legal/rewrite.h"
#include "plan/letters.h"

#include <string.h>

enum { TILE = 4096, LONG_ROW = 16384, ROW_PART = 8192, COLUMN_PART = 128, JOINED = 16, LONG_SCAN = 1 << 18, SCAN_PART = 16384, LEAST_PART = 1024 };

struct wrapping {
  struct graph *to;
  struct err *e;
  bool *taken; // by tensor of `to`: an output already has its buffer
  int cap;
};

struct wrap_cut { // grid axes that divide the result
  int n;
  int dim[MAX_GRID];
  int64_t parts[MAX_GRID];
};

static const struct node *constant(const struct graph *g, int t)
{
  const struct node *n = &g->nodes[g->tensors[t].node];
  return n->op == OP_CONST ? n : NULL;
}

// The least number of equal parts of at most `most` elements.
static int64_t equal_parts(int64_t extent, int64_t most)
{
  int64_t part = MIN(extent, most);
  while (part > 1 && extent % part) part--;
  return extent / MAX(part, 1);
}

// Axes of one dimension are nested, the slow one first. Among dimensions, the fastest is first, so that adjacent blocks are adjacent in memory.
static void add_axis(struct wrap_cut *c, int dim, int64_t parts)
{
  int i = c->n++;
  for (; i > 0 && c->dim[i - 1] == dim; i--) c->dim[i] = c->dim[i - 1], c->parts[i] = c->parts[i - 1];
  c->dim[i] = dim, c->parts[i] = parts;
}

// Grid axes that divide the shape into tiles. A tile already has `inside` elements. An axis of a view divides one factor of a dimension, since
// dimensions may have several strides. Slower factors of a divided dimension are divided into single elements, each by its own axis.
static struct wrap_cut cut_of(const struct shape *s, const struct kview *v, int64_t inside, int64_t tile)
{
  struct wrap_cut c = {0};
  for (int d = s->n - 1; d >= 0; d--) {
    bool cut = false;
    for (int k = v ? v->dim[d].n : 1; k-- > 0;) {
      const int64_t extent = v ? v->dim[d].extent[k] : s->d[d];
      const int64_t parts = c.n + k >= MAX_GRID ? 1 : cut ? extent : equal_parts(extent, MAX(1, tile / inside));
      inside *= extent / parts;
      if (parts > 1) add_axis(&c, d, parts), cut = true;
    }
  }
  return c;
}

// Divides the factors of a dimension until they are those of b too. False: their extents do not divide each other.
static bool refine(struct kview_dim *a, struct kview_dim b)
{
  struct kview_dim x = *a, out = {0};
  while (x.n && b.n) {
    int64_t *p = &x.extent[x.n - 1], *q = &b.extent[b.n - 1];
    const int64_t part = MIN(*p, *q);
    if (*p % part || *q % part || out.n == MAX_FACTORS) return false;
    for (int k = out.n++; k > 0; k--) out.extent[k] = out.extent[k - 1];
    out.extent[0] = part;
    *p /= part, *q /= part;
    x.n -= *p == 1, b.n -= *q == 1;
  }
  return *a = out, true;
}

// Whether each axis has a stride in tensor t, broadcast to the divided shape of this rank.
static bool cut_fits(const struct wrapping *w, const struct wrap_cut *c, int rank, int t)
{
  struct kview v;
  int64_t stride;
  bool fits = kview_of(w->to, t, &v);
  for (int i = 0; i < c->n && fits; i++) {
    const int d = c->dim[i] - (rank - v.ndims);
    fits = d < 0 || w->to->tensors[t].shape.d[d] == 1 || kview_take(&v.dim[d], c->parts[i], &stride);
  }
  return fits;
}

// The same for tensors that are broadcast to the shape. If views among them have other strides within a dimension, their factors are divided.
static struct wrap_cut cut_with(const struct wrapping *w, const struct shape *s, int n, const int *in, int64_t inside, int64_t tile)
{
  const struct wrap_cut plain = cut_of(s, NULL, inside, tile);
  struct kview all = {.ndims = s->n}, v;
  bool fits = true;
  for (int d = 0; d < s->n; d++) all.dim[d] = (struct kview_dim){1, {s->d[d]}, {0}};
  for (int k = 0; k < n; k++) {
    if (constant(w->to, in[k]) || cut_fits(w, &plain, s->n, in[k]) || !kview_of(w->to, in[k], &v)) continue;
    fits = false;
    for (int d = 0, to = s->n - v.ndims; d < v.ndims; d++, to++)
      if (to >= 0 && s->d[to] > 1 && w->to->tensors[in[k]].shape.d[d] == s->d[to]) refine(&all.dim[to], v.dim[d]);
  }
  return fits ? plain : cut_of(s, &all, inside, tile);
}

// ---- block graphs ----

struct wrap_block { // a block graph under construction
  struct wrapping *w;
  struct block_making b;
  struct wrap_cut cut;
  int rank; // of the divided shape
};

static struct wrap_block begin(struct wrapping *w, int rank, struct wrap_cut c, int64_t loop)
{
  struct wrap_block x = {w, block_begin(w->to, NULL, w->e), c, rank};
  graph_axes(x.b.sub, MAX(1, c.n), c.n ? c.parts : (int64_t[]){1}, loop > 1, &loop);
  return x;
}

// An iterator over tensor t, broadcast to the divided shape.
static int load_view(struct wrap_block *x, int t, int loop_dim)
{
  struct attrs a = attrs_default(OP_ITER);
  const struct shape *s = &x->b.to->tensors[t].shape;
  for (int i = 0; i < x->cut.n; i++) {
    int d = x->cut.dim[i] - (x->rank - s->n);
    if (d >= 0 && s->d[d] > 1) a.imap[i] = (int8_t)d;
  }
  if (x->b.sub->nloop) a.fmap[0] = (int8_t)loop_dim;
  return block_load(&x->b, t, &a, NOWHERE);
}

static int copied(struct wrapping *w, int t, int *out) { return legal_elementwise(w->to, t, NOWHERE, 0, NULL, out, w->e); }

// The same. A view that the axes cannot divide is copied.
static int load(struct wrap_block *x, int t, int loop_dim)
{
  struct kview v;
  int64_t stride;
  const bool loops = x->b.sub->nloop && loop_dim >= 0;
  const bool fits =
      cut_fits(x->w, &x->cut, x->rank, t) && (!loops || (kview_of(x->w->to, t, &v) && kview_take(&v.dim[loop_dim], x->b.sub->loop[0], &stride)));
  if (!fits && !x->b.status) x->b.status = copied(x->w, t, &t);
  return load_view(x, t, loop_dim);
}

static int load_all(struct wrap_block *x, int t)
{
  const struct attrs a = attrs_default(OP_ITER);
  return block_load(&x->b, t, &a, NOWHERE);
}

// Saves n tiles, with numbers from t on.
static int end(struct wrap_block *x, int n, int t, struct loc at, int *out)
{
  struct attrs a = attrs_default(OP_SAVE);
  for (int i = 0; i < x->cut.n; i++) a.omap[i] = (int8_t)x->cut.dim[i];
  for (; n > 0; n--, t++) block_add(&x->b, OP_SAVE, 1, &t, &a, at);
  return block_end(&x->b, at, out);
}

int legal_elementwise(struct graph *to, int t, struct loc at, int nops, const enum op *ops, int *first, struct err *e)
{
  const struct shape *s = &to->tensors[t].shape;
  struct wrapping w = {.to = to, .e = e};
  struct kview v;
  struct wrap_block b = begin(&w, s->n, cut_of(s, kview_of(to, t, &v) ? &v : NULL, 1, TILE), 1);
  const int tile = load_view(&b, t, -1);
  int made = tile; // the first saved tile
  for (int i = 0; i < nops; i++) {
    const int one = block_add(&b.b, ops[i], 1, &tile, NULL, at);
    if (!i) made = one;
  }
  return end(&b, MAX(nops, 1), made, at, first);
}

static int map(struct wrapping *w, const struct node *n, const int *in, const struct shape *s, int *out)
{
  struct wrap_block b = begin(w, s->n, cut_with(w, s, n->nin, in, 1, TILE), 1);
  int tile[2];
  for (int k = 0; k < n->nin; k++) {
    const struct node *number = constant(w->to, in[k]);
    if (k && in[k] == in[0])
      tile[k] = tile[0];
    else
      tile[k] = number ? block_add(&b.b, OP_CONST, 0, NULL, &number->a, n->at) : load(&b, in[k], -1);
  }
  if (!b.b.status && !b.b.nin) return err_set(w->e, ERR_GRAPH, n->at, "%s of constants alone", op_rows[n->op].name);
  return end(&b, 1, block_add(&b.b, n->op, n->nin, tile, &n->a, n->at), n->at, out);
}

static enum op accumulator(enum op op) { return op == OP_SUM ? OP_ACCUM_SUM : op == OP_MEAN ? OP_ACCUM_MEAN : OP_ACCUM_MAX; }

static int reduce(struct wrapping *w, const struct node *n, const int *in, const struct shape *s, int *out)
{
  const struct shape *x = &w->to->tensors[in[0]].shape;
  int64_t extent = x->d[n->a.dim], behind = 1, loop = 1;
  for (int d = n->a.dim + 1; d < x->n; d++) behind *= x->d[d];
  if (behind > 1)
    loop = equal_parts(extent, COLUMN_PART);
  else if (extent > LONG_ROW)
    loop = equal_parts(extent, ROW_PART);
  if ((n->op == OP_SUM && n->a.group) || op_rows[n->op].abstract == AE_PROD) loop = 1; // no accumulator computes these
  struct wrap_block b = begin(w, s->n, cut_with(w, s, 1, in, extent / loop, behind > 1 ? ROW_PART : TILE), loop);
  enum op op = loop > 1 ? accumulator(n->op) : n->op;
  struct attrs a = loop > 1 ? attrs_default(op) : n->a, one = attrs_default(OP_MAX);
  int tile = load(&b, in[0], n->a.dim);
  one.dim = n->a.dim;
  if (loop > 1 && n->op == OP_MAX)
    tile = block_add(&b.b, OP_MAX, 1, &tile, &one, n->at); // first of the tile, then of all tiles
  else
    a.dim = n->a.dim;
  return end(&b, 1, block_add(&b.b, op, 1, &tile, &a, n->at), n->at, out);
}

// ---- data-dependent indices ----

// A whole tensor is one tile, because the scheme of such kernels divides them by its own knobs. An update writes slices in place: in a state, or in a
// copy.
static int by_index(struct wrapping *w, const struct node *n, const int *in, int *out)
{
  int x = in[0], tile[3];
  if (node_has(n, WRITES_SLICES) && graph_state(w->to, x) < 0) TRY(copied(w, x, &x));
  struct wrap_block b = begin(w, 0, (struct wrap_cut){0}, 1);
  for (int k = 0; k < n->nin; k++) tile[k] = load(&b, k ? in[k] : x, -1);
  return end(&b, 1, block_add(&b.b, n->op, n->nin, tile, &n->a, n->at), n->at, out);
}

// Divides x like the kernel that computes it, if that kernel does not divide dimension dim. The two can then become one kernel (merge.c). Otherwise
// each block has some rows, as in a reduction.
static struct wrap_cut cut_of_rows(const struct wrapping *w, int dim, int x)
{
  const struct shape *s = &w->to->tensors[x].shape;
  const struct node *maker = &w->to->nodes[w->to->tensors[x].node], *save = NULL;
  struct wrap_cut c = {0};
  struct shape rest = *s;
  for (int i = 0, k = x - maker->out; maker->op == OP_BLOCK && i < maker->sub->nnodes && !save; i++)
    if (maker->sub->nodes[i].op == OP_SAVE && !k--) save = &maker->sub->nodes[i];
  for (int i = 0; save && i < maker->sub->ngrid; i++) {
    if (maker->sub->grid[i] > 1 && save->a.omap[i] == dim) save = NULL;
    if (save) c.dim[i] = save->a.omap[i], c.parts[i] = maker->sub->grid[i], c.n++;
  }
  rest.d[dim] = 1;
  return save ? c : cut_of(&rest, NULL, s->d[dim], TILE);
}

static int topk(struct wrapping *w, const struct node *n, const int *in, int *out)
{
  struct wrap_block b = begin(w, w->to->tensors[in[0]].shape.n, cut_of_rows(w, n->a.dim, in[0]), 1);
  const int tile = load(&b, in[0], -1);
  return end(&b, 2, block_add(&b.b, n->op, 1, &tile, &n->a, n->at), n->at, out);
}

static int chosen(struct wrapping *w, const struct node *n, const int *in, int *out)
{
  for (int k = 0; k < n->nin; k++)
    if (constant(w->to, in[k])) return err_set(w->e, ERR_TARGET, n->at, "no GPU kernel can be made of %s of a constant", op_rows[n->op].name);
  return node_has(n, BY_INDEX) ? by_index(w, n, in, out) : topk(w, n, in, out);
}

// The indices of a first dimension with n elements; the other dimensions have one.
static int index_of(struct wrapping *w, int rank, int64_t n, struct loc at, int *out)
{
  struct attrs a = attrs_default(OP_IOTA);
  a.shape = (struct shape){rank, {n}};
  for (int d = 1; d < rank; d++) a.shape.d[d] = 1;
  return graph_add(w->to, OP_IOTA, 0, NULL, &a, at, out, w->e);
}

// An elementwise operator on x and y, or on x alone if y is -1.
static int put(struct wrapping *w, enum op op, int x, int y, const struct attrs *a, struct loc at, int *out)
{
  const struct node n = {.op = op, .nin = y < 0 ? 1 : 2, .a = a ? *a : attrs_default(op), .at = at};
  struct shape s = w->to->tensors[x].shape;
  if (y >= 0 && !shape_broadcast(&s, &w->to->tensors[y].shape, &s)) return err_set(w->e, ERR_SHAPE, at, "extents differ and neither is 1");
  return map(w, &n, (int[]){x, y}, &s, out);
}

// Slice i of the result is slice i - start of one operand. Each operand is read at all indices, limited to its own, and the result chooses.
static int concat_by_index(struct wrapping *w, const struct node *n, const int *in, const struct shape *whole, int *out)
{
  const int dim = n->a.dim;
  int64_t start = 0;
  int i, place, all = -1;
  TRY(index_of(w, 1, whole->d[dim], n->at, &i));
  TRY(index_of(w, whole->n - dim, whole->d[dim], n->at, &place));
  for (int k = 0; k < n->nin; k++) {
    const int64_t extent = w->to->tensors[in[k]].shape.d[dim];
    struct node read = {.op = OP_GATHER, .nin = 2, .nout = 1, .a = attrs_default(OP_GATHER), .at = n->at};
    struct attrs moved = attrs_default(OP_ADD_SCALAR), own = attrs_default(OP_CLAMP), from = attrs_default(OP_CONST);
    int at, x, bound, before, after;
    read.a.dim = dim, moved.scalar = -(double)start, own.lo = 0, own.hi = (double)(extent - 1), from.scalar = (double)start;
    TRY(put(w, OP_ADD_SCALAR, i, -1, &moved, n->at, &at));
    TRY(put(w, OP_CLAMP, at, -1, &own, n->at, &at));
    TRY(by_index(w, &read, (int[]){in[k], at}, &x));
    if (k) {
      TRY(graph_add(w->to, OP_CONST, 0, NULL, &from, n->at, &bound, w->e));
      TRY(put(w, OP_LESS, place, bound, NULL, n->at, &before));
      TRY(put(w, OP_LESS_EQUAL, bound, place, NULL, n->at, &after));
      TRY(put(w, OP_MASK, all, before, NULL, n->at, &all));
      TRY(put(w, OP_MASK, x, after, NULL, n->at, &x));
      TRY(put(w, OP_ADD, all, x, NULL, n->at, &x));
    }
    all = x, start += extent;
  }
  return *out = all, OK;
}

// Joins tensors along a dimension, which no grid axis divides, in equal parts, or by index if these are too many.
static int concat(struct wrapping *w, const struct node *n, const int *in, const struct shape *whole, int *out)
{
  struct shape rest = *whole;
  int64_t unit = 0;
  int tile[JOINED], count = 0;
  for (int k = 0; k < n->nin; k++) unit = common_divisor(w->to->tensors[in[k]].shape.d[n->a.dim], unit);
  if (whole->d[n->a.dim] / unit > JOINED) return concat_by_index(w, n, in, whole, out);
  rest.d[n->a.dim] = 1;
  struct wrap_block b = begin(w, whole->n, cut_of(&rest, NULL, whole->d[n->a.dim], TILE), 1);
  for (int k = 0; k < n->nin; k++) {
    struct attrs a = attrs_default(OP_CHUNK);
    int from = load(&b, in[k], -1);
    a.dim = n->a.dim, a.parts = w->to->tensors[in[k]].shape.d[n->a.dim] / unit;
    for (; a.index < a.parts; a.index++) tile[count++] = a.parts > 1 ? block_add(&b.b, OP_CHUNK, 1, &from, &a, n->at) : from;
  }
  return end(&b, 1, block_add(&b.b, OP_CONCAT, count, tile, &n->a, n->at), n->at, out);
}

// ---- views ----

static int view(struct wrapping *w, const struct node *n, int x, int *out)
{
  struct kview v;
  TRY(graph_add(w->to, n->op, 1, &x, &n->a, n->at, out, w->e));
  if (kview_of(w->to, *out, &v)) return OK;
  TRY(copied(w, x, &x)); // the view of a copy has strides
  return graph_add(w->to, n->op, 1, &x, &n->a, n->at, out, w->e);
}

// Parts of a split are views, one slice each.
static int slices(struct wrapping *w, const struct node *n, int x, int *out)
{
  struct node one = *n;
  one.op = OP_SLICE, one.nout = 1, one.a = attrs_default(OP_SLICE), one.a.dim = n->a.dim;
  for (int k = 0; k < n->nout; k++) {
    int64_t extent = w->to->tensors[x].shape.d[n->a.dim] / n->a.parts, index = node_part(n, k);
    one.a.start = index * extent, one.a.end = one.a.start + extent;
    TRY(view(w, &one, x, &out[k]));
  }
  return OK;
}

// ---- scans ----

static int shaped(struct wrapping *w, int x, struct shape s, struct loc at, int *out)
{
  struct node n = {.op = OP_RESHAPE, .nout = 1, .a = attrs_default(OP_RESHAPE), .at = at};
  n.a.shape = s;
  return view(w, &n, x, out);
}

// Scans rows that are too long for the blocks of a cluster in parts. One kernel sums each part. Another one scans each part, and adds the sums of the
// preceding parts.
static int scan_in_parts(struct wrapping *w, const struct node *n, int whole, int64_t part, int *out)
{
  enum { X, SUMS, HERE, PART, ROW, COLUMN, LOADED };
  const struct shape s = w->to->tensors[whole].shape;
  const int64_t len = s.d[s.n - 1], rows = shape_size(&s) / len, parts = len / part;
  struct node sum = {.op = OP_SUM, .nin = 1, .nout = 1, .a = attrs_default(OP_SUM), .at = n->at};
  struct attrs along = attrs_default(OP_SUM);
  struct wrap_cut c = {0};
  int x, sums, made, from[LOADED], tile[LOADED];
  TRY(shaped(w, whole, (struct shape){3, {rows, parts, part}}, n->at, &from[X]));
  sum.a.dim = along.dim = 2;
  TRY(reduce(w, &sum, &from[X], &(struct shape){3, {rows, parts, 1}}, &sums));
  TRY(shaped(w, sums, (struct shape){3, {rows, 1, parts}}, n->at, &from[SUMS]));
  TRY(index_of(w, 2, parts, n->at, &from[HERE]));
  TRY(index_of(w, 1, parts, n->at, &from[PART]));
  TRY(index_of(w, 2, part, n->at, &from[ROW]));
  TRY(index_of(w, 1, part, n->at, &from[COLUMN]));
  add_axis(&c, 1, parts);
  if (rows > 1) add_axis(&c, 0, rows);
  struct wrap_block b = begin(w, 3, c, 1);
  for (int k = 0; k < LOADED; k++) tile[k] = k <= HERE ? load(&b, from[k], -1) : load_all(&b, from[k]);
  const int before = block_add(&b.b, OP_LESS, 2, (int[]){tile[PART], tile[HERE]}, NULL, n->at);
  const int masked = block_add(&b.b, OP_MASK, 2, (int[]){tile[SUMS], before}, NULL, n->at),
            first = block_add(&b.b, OP_SUM, 1, &masked, &along, n->at);
  const int triangle = block_add(&b.b, OP_LESS_EQUAL, 2, (int[]){tile[ROW], tile[COLUMN]}, NULL, n->at);
  x = block_add(&b.b, OP_MATMUL, 2, (int[]){tile[X], triangle}, NULL, n->at);
  TRY(end(&b, 1, block_add(&b.b, OP_ADD, 2, (int[]){x, first}, NULL, n->at), n->at, &made));
  return shaped(w, made, s, n->at, out);
}

// A product with a triangle of ones is a running sum (rule `scan` of kern/rule.def). A block has the whole dimension.
static int scan(struct wrapping *w, const struct node *n, const int *in, const struct scan *s, const int *index, int *out)
{
  const int x = in[s->x], rank = w->to->tensors[x].shape.n;
  const int64_t len = w->to->tensors[x].shape.d[s->along], part = len / equal_parts(len, SCAN_PART);
  if (s->along == rank - 1 && len > LONG_SCAN && part >= LEAST_PART) return scan_in_parts(w, n, x, part, out);
  struct wrap_block b = begin(w, rank, cut_of_rows(w, s->along, x), 1);
  int tile[2], side[2];
  tile[s->x] = load(&b, x, -1);
  for (int k = 0; k < 2; k++) side[k] = load_all(&b, index[s->triangle->in[k]]);
  tile[!s->x] = block_add(&b.b, s->triangle->op, 2, side, &s->triangle->a, s->triangle->at);
  return end(&b, 1, block_add(&b.b, n->op, 2, tile, &n->a, n->at), n->at, out);
}

// ---- products and outputs ----

// The library multiplies operands of one dtype, so those that are not f32 are copied: what a kernel makes is stored as f32 (store.c).
static int in_f32(struct wrapping *w, int *x)
{
  for (int k = 0; k < 2; k++)
    if (w->to->tensors[x[k]].dtype != F32) TRY(copied(w, x[k], &x[k]));
  return OK;
}

// Whether t can be an operand of the library. Views may have no strides, and indices have no memory.
static bool may_be_operand(const struct graph *g, int t)
{
  enum rule rule = op_rows[g->nodes[g->tensors[t].node].op].rule;
  return rule != RULE_VIEW && rule != RULE_INDEX;
}

static int product(struct wrapping *w, const struct node *n, const int *in, int *out)
{
  struct library_product p;
  int x[2] = {in[0], in[1]};
  if (legal_mixed(w->to, &(struct node){.op = n->op, .in = x})) TRY(in_f32(w, x));
  TRY(graph_add(w->to, n->op, 2, x, &n->a, n->at, out, w->e));
  if (product_of(w->to, NULL, w->to->nnodes - 1, &p)) return OK;
  w->to->nnodes--, w->to->ntensors--; // add it again, with copied operands
  for (int k = 0; k < 2; k++)
    if (!may_be_operand(w->to, x[k])) TRY(copied(w, x[k], &x[k]));
  return graph_add(w->to, n->op, 2, x, &n->a, n->at, out, w->e);
}

// Whether the view has all elements of its root, in row-major order.
static bool whole(const struct graph *g, const struct kview *v)
{
  int64_t stride = 1;
  for (int d = v->ndims - 1; d >= 0; d--)
    for (int k = v->dim[d].n - 1; k >= 0; k--) {
      if (v->dim[d].stride[k] != stride) return false;
      stride *= v->dim[d].extent[k];
    }
  return !v->offset && stride == shape_size(&g->tensors[v->root].shape);
}

// Adds an output of the program. It has its own buffer with its elements in row-major order.
static int output(struct wrapping *w, const struct node *n, int t)
{
  struct kview v;
  bool strided = kview_of(w->to, t, &v);
  enum op maker = w->to->nodes[w->to->tensors[strided ? v.root : t].node].op;
  if (maker == OP_CONST) return err_set(w->e, ERR_GRAPH, n->at, "a constant is an output of the program");
  const bool made = maker == OP_BLOCK || maker == OP_MATMUL || op_rows[maker].rule == RULE_WORLD;
  if (!strided || !made || !whole(w->to, &v) || w->taken[v.root]) {
    TRY(copied(w, t, &t));
    v.root = t;
  }
  if (v.root >= w->cap) return err_set(w->e, ERR_LIMIT, n->at, "too many tensors");
  w->taken[v.root] = true;
  return graph_add(w->to, OP_OUTPUT, 1, &t, NULL, n->at, NULL, w->e);
}

static int nest(struct wrapping *w, const struct node *n, const int *in, int *out)
{
  for (int k = 0; k < n->nin; k++)
    if (constant(w->to, in[k])) return err_set(w->e, ERR_GRAPH, n->at, "argument %d of a kernel is a constant", k + 1);
  for (int i = 0; i < n->sub->nnodes; i++)
    if (node_has(&n->sub->nodes[i], WRITES_SLICES))
      return err_set(w->e, ERR_TARGET, n->at, "no GPU kernel can be made of an update in a block graph");
  return graph_nest(w->to, graph_copy(w->to->mem, n->sub), n->nin, in, n->at, out, w->e);
}

// Adds a collective. Ranks exchange elements in row-major order.
static int meeting(struct wrapping *w, const struct node *n, int x, int *out)
{
  struct kview v;
  int status = OK;
  if (constant(w->to, graph_root(w->to, x))) return err_set(w->e, ERR_TARGET, n->at, "%s of a constant is not generated", op_rows[n->op].name);
  if (!kview_of(w->to, x, &v) || !whole(w->to, &v)) status = copied(w, x, &x);
  return status ? status : graph_add(w->to, n->op, 1, &x, &n->a, n->at, out, w->e);
}

static int one_node(struct wrapping *w, const struct graph *g, const struct node *n, const int *in, int *out)
{
  const struct tensor *t = n->nout ? &g->tensors[n->out] : NULL;
  switch (op_rows[n->op].rule) {
  case RULE_IO: return n->op == OP_OUTPUT ? output(w, n, in[0]) : graph_input_as(w->to, NULL, t->dtype, t, n->at, out, w->e);
  case RULE_CONST:
  case RULE_INDEX: return graph_add(w->to, n->op, 0, NULL, &n->a, n->at, out, w->e);
  case RULE_VIEW: return view(w, n, in[0], out);
  case RULE_CONTRACT: return product(w, n, in, out);
  case RULE_GRAPH: return nest(w, n, in, out);
  case RULE_MAP: return map(w, n, in, &t->shape, out);
  case RULE_REDUCE: return reduce(w, n, in, &t->shape, out);
  case RULE_CONCAT: return concat(w, n, in, &t->shape, out);
  case RULE_SPLIT: return slices(w, n, in[0], out);
  case RULE_AT: return chosen(w, n, in, out);
  case RULE_WORLD: return meeting(w, n, in[0], out);
  case RULE_ACCUM:
  case RULE_COMPOSITE: break;
  }
  return err_set(w->e, ERR_TARGET, n->at, "no GPU kernel can be made of %s", op_rows[n->op].name);
}

int wrap_library(struct arena *mem, const struct graph *kernels, struct graph **out, struct err *e)
{
  struct graph *g;
  TRY(graph_expand(mem, kernels, true, &g, e));
  struct wrapping w = {.to = *out = graph_new_as(mem, g), .e = e, .cap = 4 * g->ntensors + 8 * g->nnodes};
  w.taken = NEWS(mem, bool, w.cap);
  int *to = NEWS(mem, int, g->ntensors + 1);
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    int *in = NEWS(mem, int, n->nin + 1), *made = NEWS(mem, int, n->nout + 1);
    for (int k = 0; k < n->nin; k++) in[k] = to[n->in[k]];
    const struct scan s = graph_scan(g, NULL, n);
    if (graph_scans(g, NULL, i)) continue; // its readers contain it
    TRY(s.triangle ? scan(&w, n, in, &s, to, made) : one_node(&w, g, n, in, made));
    for (int k = 0; k < n->nout; k++) to[n->out + k] = n->op == OP_SPLIT ? made[k] : made[0] + k;
    graph_keep_names(*out, g, n, to);
  }
  return graph_check(*out, e);
}
