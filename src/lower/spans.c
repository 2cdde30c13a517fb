// Masks whose rows say where they show anything. A mask is an operand that hides scores of attention: a condition, or numbers that are added to them and
// hide those at which they are -inf.
// A kernel of its own reads it once, for all heads: each row gets the first element that is shown, the place behind the last one, and whether the
// mask does more than to show these and those between. Attention then compares indices with the first two, skips iterations outside of them
// (mma_hidden.c), and reads the mask only in rows for which it does more. Each element of the mask is what it was.
#include "lower/lower.h"

#include <string.h>

enum { FIRST, BEHIND, MORE, SPANS };
static const double LOWEST_SHOWN = -1e4;  // a hidden element is at most this
static const double LOWEST_HIDDEN = -1e3; // and its exponent at most this below that of others

struct spanning {
  const struct graph *g;
  struct graph *to;
  int *map; // tensors of g -> of `to`
  struct err *e;
};

// ---- which ----

struct span_mask {       // tiles and nodes of a block graph
  int keep, tile, shown; // keep(x, shown): shown is a condition on the tile
  bool adds;             // and x too is made of the tile: numbers that are added to a score. Otherwise x is the score
  bool *made;            // by tile: made of that tile and constants alone
};

static const struct node *maker(const struct graph *b, int t) { return &b->nodes[b->tensors[t].node]; }

// Marks what t is made of; false where that is another tile than m->tile, -1: none so far.
static bool made_of_one(const struct graph *b, int t, struct span_mask *m)
{
  const struct node *n = maker(b, t);
  if (n->op == OP_ITER && m->tile >= 0 && m->tile != t) return false;
  if (n->op == OP_ITER) m->tile = t;
  if (n->op != OP_ITER && op_rows[n->op].rule != RULE_MAP && op_rows[n->op].rule != RULE_CONST) return false;
  for (int k = 0; k < n->nin && n->op != OP_ITER; k++)
    if (!made_of_one(b, n->in[k], m)) return false;
  return m->made[t] = true;
}

static bool is_condition(const struct graph *b, int t) { return b->tensors[t].dtype == BOOL || op_rows[maker(b, t)->op].flags & BRACKET; }

// The factor by which element t is larger where the result of keep is; 0: it is not, or by no constant.
static double follows(const struct graph *b, int t, int keep)
{
  const struct node *n = maker(b, t);
  if (t == b->nodes[keep].out) return 1;
  if (n->op == OP_MUL_SCALAR) return n->a.scalar * follows(b, n->in[0], keep);
  if (n->op == OP_ADD_SCALAR || n->op == OP_SUB) return follows(b, n->in[0], keep);
  return n->op == OP_ADD ? follows(b, n->in[0], keep) + follows(b, n->in[1], keep) : 0;
}

// An exponential that is 0 where keep hides an element, in rows that show something.
static bool vanishes(const struct graph *b, int t, int keep)
{
  const struct node *n = maker(b, t);
  return n->op == OP_EXP && follows(b, n->in[0], keep) * b->nodes[keep].a.scalar <= LOWEST_HIDDEN;
}

// Other readers of the condition multiply an exponential by it, which is 0 where the condition is, in rows that show something.
static bool only_weighs(const struct graph *b, const struct span_mask *m)
{
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    for (int k = 0; k < n->nin && n->op != OP_ITER && i != m->keep && !(n->nout && m->made[n->out]); k++)
      if (n->in[k] == m->shown && (n->op != OP_MUL || !vanishes(b, n->in[1 - k], m->keep))) return false;
  }
  return true;
}

// The rows of the tile differ, and the one loop walks along them.
static bool walks_rows(const struct graph *g, const struct graph *b, int tile, int from)
{
  const struct shape *s = &g->tensors[from].shape;
  const struct attrs *a = &maker(b, tile)->a;
  if (b->nloop != 1 || a->fmap[0] != s->n - 1 || shape_size(s) == s->d[s->n - 1] || s->d[s->n - 1] >= WHOLE_MOST) return false;
  return !memchr(a->imap, s->n - 1, sizeof a->imap);
}

static bool find(struct arena *mem, const struct graph *g, const struct node *nest, struct span_mask *m)
{
  const struct graph *b = nest->sub;
  for (int i = 0; b && i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    if (n->op != OP_KEEP || n->a.scalar > LOWEST_SHOWN || !is_condition(b, n->in[1])) continue;
    *m = (struct span_mask){i, -1, n->in[1], false, NEWS(mem, bool, b->ntensors)};
    if (!made_of_one(b, n->in[1], m) || m->tile < 0) continue;
    m->adds = made_of_one(b, n->out, m);
    for (int t = 0; t < b->ntensors && !m->adds; t++) m->made[t] = false;
    if (!m->adds) made_of_one(b, n->in[1], m);
    if (only_weighs(b, m) && walks_rows(g, b, m->tile, node_iterated(nest, m->tile))) return true;
  }
  return false;
}

// ---- the kernel that reads the mask ----

struct span_block { // a block graph while it is made
  struct graph *b;
  int nin, *in; // tensors of the new graph, by iterator
  int status;   // the first error: what comes later does nothing
};

static int iterate(struct spanning *w, struct span_block *x, int t, const struct attrs *a)
{
  int out = 0;
  if (!x->status) x->status = graph_iter(x->b, w->to, t, a, NOWHERE, &out, w->e), x->in[x->nin++] = t;
  return out;
}

static int add(struct spanning *w, struct span_block *x, enum op op, int a, int b, const struct attrs *attrs)
{
  int out = 0;
  if (!x->status) x->status = graph_add(x->b, op, b >= 0 ? 2 : a >= 0 ? 1 : 0, (int[]){a, b}, attrs, NOWHERE, &out, w->e);
  return out;
}

static int with(struct spanning *w, struct span_block *x, enum op op, int a, double scalar)
{
  struct attrs attrs = attrs_default(op);
  attrs.scalar = scalar;
  return add(w, x, op, a, -1, &attrs);
}

static int along(struct spanning *w, struct span_block *x, enum op op, int a, int dim)
{
  struct attrs attrs = attrs_default(op);
  attrs.dim = dim;
  return add(w, x, op, a, -1, &attrs);
}

static int numbers_to(struct spanning *w, int64_t n, int *out)
{
  struct attrs a = attrs_default(OP_IOTA);
  a.shape = (struct shape){1, {n}};
  return graph_add(w->to, OP_IOTA, 0, NULL, &a, NOWHERE, out, w->e);
}

// Each row is a block of the block graph, but for those of dimensions that the grid has no axes for.
static struct attrs by_rows(struct graph *b, const struct shape *s)
{
  struct attrs a = attrs_default(OP_ITER);
  int64_t grid[MAX_GRID] = {1};
  int n = 0;
  for (int d = s->n - 2; d >= 0 && n < MAX_GRID; d--)
    if (s->d[d] > 1) grid[n] = s->d[d], a.imap[n++] = (int8_t)d;
  graph_axes(b, MAX(1, n), grid, 0, NULL);
  return a;
}

static int read_mask(struct spanning *w, const struct node *nest, const struct span_mask *m, int from, int numbers, int spans[SPANS])
{
  const struct shape *s = &w->to->tensors[from].shape;
  const int last = s->n - 1;
  const double n = (double)s->d[last];
  struct span_block x = {graph_new(w->to->mem, BLOCK, NULL), 0, NEWS(w->to->mem, int, 2), OK};
  const struct attrs rows = by_rows(x.b, s), all = attrs_default(OP_ITER);
  struct attrs whole = attrs_default(OP_WHOLE), save = attrs_default(OP_SAVE);
  int *map = NEWS(w->to->mem, int, nest->sub->ntensors), out;
  map[m->tile] = iterate(w, &x, from, &rows);
  const int at = iterate(w, &x, numbers, &all);
  for (int i = 0; i <= m->keep && !x.status; i++) {
    const struct node *node = &nest->sub->nodes[i];
    if (node->op != OP_ITER && m->made[node->out]) x.status = graph_take(x.b, NULL, -1, nest->sub, node, map, w->e);
  }
  const int shown = map[m->shown], as_is = m->adds ? map[nest->sub->nodes[m->keep].out] : shown; // where it is 0 or 1
  const int left = with(w, &x, OP_ADD_SCALAR, with(w, &x, OP_MUL_SCALAR, at, -1), n), right = with(w, &x, OP_ADD_SCALAR, at, 1);
  const int most = along(w, &x, OP_MAX, add(w, &x, OP_MUL, left, shown, NULL), last);
  const int first = with(w, &x, OP_ADD_SCALAR, with(w, &x, OP_MUL_SCALAR, most, -1), n);
  const int behind = along(w, &x, OP_MAX, add(w, &x, OP_MUL, right, shown, NULL), last);
  const int plain = along(w, &x, OP_SUM, add(w, &x, OP_EQUAL, as_is, with(w, &x, OP_CONST, -1, !m->adds), NULL), last);
  const int made[SPANS] = {first, behind, add(w, &x, OP_LESS, plain, add(w, &x, OP_SUB, behind, first, NULL), NULL)};
  whole.lo = 0, whole.hi = n;
  for (int i = 0; i < MAX_GRID; i++) save.omap[i] = rows.imap[i];
  for (int i = 0; i < SPANS; i++) add(w, &x, OP_SAVE, add(w, &x, OP_WHOLE, made[i], -1, &whole), -1, &save);
  if (x.status) return x.status;
  TRY(graph_nest(w->to, x.b, x.nin, x.in, NOWHERE, &out, w->e));
  for (int i = 0; i < SPANS; i++) spans[i] = out + i;
  return OK;
}

// ---- the kernel that adds it ----

// The mask, read in rows where it does more than to show a part of them; score and condition in its place.
static int narrow(struct spanning *w, const struct node *nest, const struct span_mask *m, struct span_block *x, int *tile, const int spans[SPANS],
                  int numbers)
{
  const struct graph *b = nest->sub;
  const struct node *keep = &b->nodes[m->keep];
  const int last = b->tensors[m->tile].shape.n - 1;
  struct attrs rows = maker(b, m->tile)->a, along_row = attrs_default(OP_ITER), repeat = attrs_default(OP_REPEAT);
  int span[SPANS];
  rows.fmap[0] = REPLICA, along_row.fmap[0] = 0;
  for (int i = 0; i < SPANS; i++) span[i] = iterate(w, x, spans[i], &rows);
  const int at = iterate(w, x, numbers, &along_row);
  const int inside = add(w, x, OP_MUL, add(w, x, OP_LESS_EQUAL, span[FIRST], at, NULL), add(w, x, OP_LESS, at, span[BEHIND], NULL), NULL);
  if (m->adds) {
    const int more = add(w, x, OP_LESS, with(w, x, OP_CONST, -1, 0), span[MORE], NULL);
    tile[keep->out] = add(w, x, OP_MASK, tile[keep->out], more, NULL);
  } else {
    const int one = with(w, x, OP_CONST, -1, 1), plain = add(w, x, OP_LESS, span[MORE], one, NULL);
    const int shown = add(w, x, OP_MAXIMUM, add(w, x, OP_EQUAL, tile[m->shown], one, NULL), plain, NULL);
    tile[keep->out] = add(w, x, OP_KEEP, tile[keep->in[0]], shown, &keep->a);
  }
  tile[keep->out] = add(w, x, OP_KEEP, tile[keep->out], inside, &keep->a);
  repeat.dim = last, repeat.times = b->tensors[m->tile].shape.d[last];
  tile[m->shown] = add(w, x, OP_LESS, span[FIRST], span[BEHIND], NULL);
  if (repeat.times > 1) tile[m->shown] = add(w, x, OP_REPEAT, tile[m->shown], -1, &repeat);
  return x->status;
}

static int block(struct spanning *w, const struct node *nest, int *out)
{
  const struct graph *b = nest->sub;
  struct span_mask m;
  int *tile = NEWS(w->to->mem, int, b->ntensors + 1), iters = 0, spans[SPANS], numbers = -1;
  struct span_block x = {graph_new(w->to->mem, BLOCK, b->name), 0, NEWS(w->to->mem, int, nest->nin + SPANS + 1), OK};
  const bool found = find(w->to->mem, w->g, nest, &m);
  if (found) {
    const int from = w->map[node_iterated(nest, m.tile)];
    const struct shape *s = &w->to->tensors[from].shape;
    TRY(numbers_to(w, s->d[s->n - 1], &numbers));
    TRY(read_mask(w, nest, &m, from, numbers, spans));
  }
  graph_axes(x.b, b->ngrid, b->grid, b->nloop, b->loop);
  for (int i = 0; i < b->nnodes && !x.status; i++) {
    const struct node *n = &b->nodes[i];
    if (n->op == OP_ITER)
      tile[n->out] = iterate(w, &x, w->map[nest->in[iters++]], &n->a);
    else if (!found || m.adds || i != m.keep)
      x.status = graph_take(x.b, NULL, -1, b, n, tile, w->e);
    if (!x.status && found && i == m.keep) x.status = narrow(w, nest, &m, &x, tile, spans, numbers);
  }
  return x.status ? x.status : graph_nest(w->to, x.b, x.nin, x.in, nest->at, out, w->e);
}

int lower_spans(struct arena *mem, const struct graph *wrapped, struct graph **out, struct err *e)
{
  struct spanning w = {wrapped, graph_new_as(mem, wrapped), NEWS(mem, int, wrapped->ntensors + 1), e};
  struct span_mask m;
  bool any = false;
  for (int i = 0; i < wrapped->nnodes && !any; i++) any = find(mem, wrapped, &wrapped->nodes[i], &m);
  if (!any) return NO;
  for (int i = 0; i < wrapped->nnodes; i++) {
    const struct node *n = &wrapped->nodes[i];
    int made = 0, status = n->op == OP_BLOCK ? block(&w, n, &made) : graph_take(w.to, NULL, -1, wrapped, n, w.map, e);
    for (int k = 0; k < n->nout && n->op == OP_BLOCK; k++) w.map[n->out + k] = made + k;
    if (status) return status;
    graph_keep_names(w.to, wrapped, n, w.map);
  }
  TRY(graph_without_unread(mem, w.to, false, out, e));
  return graph_check(*out, e);
}
