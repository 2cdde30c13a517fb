// Kernels of one operator: elementwise, reductions, choices by value and by index.
#include "legal/wrap.h"

enum { LONG_ROW = 16384, ROW_PART = 8192, COLUMN_PART = 128 };

const struct node *wrap_constant(const struct graph *g, int t)
{
  const struct node *n = &g->nodes[g->tensors[t].node];
  return n->op == OP_CONST ? n : NULL;
}

// ---- block graphs ----

struct wrap_block wrap_begin(struct wrapping *w, int rank, struct wrap_cut c, int64_t loop)
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

int wrap_copied(struct wrapping *w, int t, int *out) { return legal_elementwise(w->to, t, NOWHERE, 0, NULL, out, w->e); }

// The same. A view that the axes cannot divide is copied.
int wrap_load(struct wrap_block *x, int t, int loop_dim)
{
  struct kview v;
  int64_t stride;
  const bool loops = x->b.sub->nloop && loop_dim >= 0;
  const bool fits =
      wrap_cut_fits(x->w, &x->cut, x->rank, t) && (!loops || (kview_of(x->w->to, t, &v) && kview_take(&v.dim[loop_dim], x->b.sub->loop[0], &stride)));
  if (!fits && !x->b.status) x->b.status = wrap_copied(x->w, t, &t);
  return load_view(x, t, loop_dim);
}

int wrap_load_all(struct wrap_block *x, int t)
{
  const struct attrs a = attrs_default(OP_ITER);
  return block_load(&x->b, t, &a, NOWHERE);
}

// Saves n tiles, with numbers from t on.
int wrap_end(struct wrap_block *x, int n, int t, struct loc at, int *out)
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
  struct wrap_block b = wrap_begin(&w, s->n, wrap_cut_of(s, kview_of(to, t, &v) ? &v : NULL, 1, WRAP_TILE), 1);
  const int tile = load_view(&b, t, -1);
  int made = tile; // the first saved tile
  for (int i = 0; i < nops; i++) {
    const int one = block_add(&b.b, ops[i], 1, &tile, NULL, at);
    if (!i) made = one;
  }
  return wrap_end(&b, MAX(nops, 1), made, at, first);
}

// ---- operators ----

int wrap_map(struct wrapping *w, const struct node *n, const int *in, const struct shape *s, int *out)
{
  struct wrap_block b = wrap_begin(w, s->n, wrap_cut_with(w, s, n->nin, in, 1, WRAP_TILE), 1);
  int tile[2];
  for (int k = 0; k < n->nin; k++) {
    const struct node *number = wrap_constant(w->to, in[k]);
    if (k && in[k] == in[0])
      tile[k] = tile[0];
    else
      tile[k] = number ? block_add(&b.b, OP_CONST, 0, NULL, &number->a, n->at) : wrap_load(&b, in[k], -1);
  }
  if (!b.b.status && !b.b.nin) return err_set(w->e, ERR_GRAPH, n->at, "%s of constants alone", op_rows[n->op].name);
  return wrap_end(&b, 1, block_add(&b.b, n->op, n->nin, tile, &n->a, n->at), n->at, out);
}

static enum op accumulator(enum op op) { return op == OP_SUM ? OP_ACCUM_SUM : op == OP_MEAN ? OP_ACCUM_MEAN : OP_ACCUM_MAX; }

int wrap_reduce(struct wrapping *w, const struct node *n, const int *in, const struct shape *s, int *out)
{
  const struct shape *x = &w->to->tensors[in[0]].shape;
  int64_t extent = x->d[n->a.dim], behind = 1, loop = 1;
  for (int d = n->a.dim + 1; d < x->n; d++) behind *= x->d[d];
  if (behind > 1)
    loop = wrap_equal_parts(extent, COLUMN_PART);
  else if (extent > LONG_ROW)
    loop = wrap_equal_parts(extent, ROW_PART);
  if ((n->op == OP_SUM && n->a.group) || op_rows[n->op].abstract == AE_PROD) loop = 1; // no accumulator computes these
  struct wrap_block b = wrap_begin(w, s->n, wrap_cut_with(w, s, 1, in, extent / loop, behind > 1 ? ROW_PART : WRAP_TILE), loop);
  enum op op = loop > 1 ? accumulator(n->op) : n->op;
  struct attrs a = loop > 1 ? attrs_default(op) : n->a, one = attrs_default(OP_MAX);
  int tile = wrap_load(&b, in[0], n->a.dim);
  one.dim = n->a.dim;
  if (loop > 1 && n->op == OP_MAX)
    tile = block_add(&b.b, OP_MAX, 1, &tile, &one, n->at); // first of the tile, then of all tiles
  else
    a.dim = n->a.dim;
  return wrap_end(&b, 1, block_add(&b.b, op, 1, &tile, &a, n->at), n->at, out);
}

// ---- data-dependent indices ----

// A whole tensor is one tile, because the scheme of such kernels divides them by its own knobs. An update writes slices in place: in a state, or in a
// copy.
int wrap_by_index(struct wrapping *w, const struct node *n, const int *in, int *out)
{
  int x = in[0], tile[3];
  if (node_has(n, WRITES_SLICES) && graph_state(w->to, x) < 0) TRY(wrap_copied(w, x, &x));
  struct wrap_block b = wrap_begin(w, 0, (struct wrap_cut){0}, 1);
  for (int k = 0; k < n->nin; k++) tile[k] = wrap_load(&b, k ? in[k] : x, -1);
  return wrap_end(&b, 1, block_add(&b.b, n->op, n->nin, tile, &n->a, n->at), n->at, out);
}

static int topk(struct wrapping *w, const struct node *n, const int *in, int *out)
{
  struct wrap_block b = wrap_begin(w, w->to->tensors[in[0]].shape.n, wrap_cut_of_rows(w, n->a.dim, in[0]), 1);
  const int tile = wrap_load(&b, in[0], -1);
  return wrap_end(&b, 2, block_add(&b.b, n->op, 1, &tile, &n->a, n->at), n->at, out);
}

int wrap_chosen(struct wrapping *w, const struct node *n, const int *in, int *out)
{
  for (int k = 0; k < n->nin; k++)
    if (wrap_constant(w->to, in[k])) return err_set(w->e, ERR_TARGET, n->at, "no GPU kernel can be made of %s of a constant", op_rows[n->op].name);
  return node_has(n, BY_INDEX) ? wrap_by_index(w, n, in, out) : topk(w, n, in, out);
}

// The indices of a first dimension with n elements; the other dimensions have one.
int wrap_index_of(struct wrapping *w, int rank, int64_t n, struct loc at, int *out)
{
  struct attrs a = attrs_default(OP_IOTA);
  a.shape = (struct shape){rank, {n}};
  for (int d = 1; d < rank; d++) a.shape.d[d] = 1;
  return graph_add(w->to, OP_IOTA, 0, NULL, &a, at, out, w->e);
}
