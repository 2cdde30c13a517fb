// Replaces masks of attention by a span of each row. A mask is an operand that hides scores: a condition, or numbers that are added to the scores and
// are -inf for hidden ones. A separate kernel reads the mask once for all heads. For each row it computes the first shown element, the end of the
// shown elements, and whether the mask differs from showing this whole span unchanged. Attention compares indices with the first two numbers, and
// skips iterations outside of them (lower/mma_hidden.c). It reads the mask only in rows that differ. Every element of the mask keeps its effect.
#include "legal/rewrite.h"

#include <string.h>

enum { FIRST, BEHIND, MORE, SPANS };
static const double LOWEST_SHOWN = -1e4;  // keep() replaces hidden scores by at most this
static const double LOWEST_HIDDEN = -1e3; // the exponent of a hidden element is at least this much below others

// ---- masks ----

struct span_mask {       // tiles and nodes of a block graph
  int keep, tile, shown; // keep(x, shown): shown is a condition on the tile
  bool adds;             // x also depends on the tile only: numbers that are added to a score. Otherwise x is the score
  bool weighs;           // exponentials are multiplied by the condition
  bool *made;            // by tile: whether it depends on that tile and constants only
};

static const struct node *maker(const struct graph *b, int t) { return &b->nodes[b->tensors[t].node]; }

// Marks the tiles on which t depends. False: it depends on another iterator's tile than m->tile (-1: none so far), or on operators that are not
// elementwise.
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

// Whether a reshape only adds or removes leading dimensions of extent 1, so that its elements meet the same elements of other operands.
static bool keeps_places(const struct graph *b, const struct node *n)
{
  const struct shape *x = &b->tensors[n->in[0]].shape, *y = &b->tensors[n->out].shape;
  for (int i = 1; i <= MAX(x->n, y->n); i++)
    if ((i <= x->n ? x->d[x->n - i] : 1) != (i <= y->n ? y->d[y->n - i] : 1)) return false;
  return true;
}

// The constant factor by which element t grows with the result of keep. 0: it does not, or by no constant factor.
static double follows(const struct graph *b, int t, int keep)
{
  const struct node *n = maker(b, t);
  if (t == b->nodes[keep].out) return 1;
  if (n->op == OP_MUL_SCALAR) return n->a.scalar * follows(b, n->in[0], keep);
  if (n->op == OP_ADD_SCALAR || n->op == OP_SUB || (n->op == OP_RESHAPE && keeps_places(b, n))) return follows(b, n->in[0], keep);
  return n->op == OP_ADD ? follows(b, n->in[0], keep) + follows(b, n->in[1], keep) : 0;
}

// Whether t is an exponential that is 0 for hidden elements, in rows with shown elements.
static bool vanishes(const struct graph *b, int t, int keep)
{
  const struct node *n = maker(b, t);
  return n->op == OP_EXP && follows(b, n->in[0], keep) * b->nodes[keep].a.scalar <= LOWEST_HIDDEN;
}

// Whether every other reader of the condition, which t is, multiplies it by an exponential that is 0 where the condition is 0, in rows with shown
// elements.
static bool only_weighs(const struct graph *b, struct span_mask *m, int t)
{
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    for (int k = 0; k < n->nin && n->op != OP_ITER && i != m->keep && !(n->nout && m->made[n->out]); k++) {
      if (n->in[k] != t) continue;
      const bool same = n->op == OP_RESHAPE && keeps_places(b, n) && only_weighs(b, m, n->out);
      if (!same && (n->op != OP_MUL || !vanishes(b, n->in[1 - k], m->keep))) return false;
      m->weighs = true;
    }
  }
  return true;
}

// Whether the tensor has several rows, and the only loop runs along them.
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
    *m = (struct span_mask){.keep = i, .tile = -1, .shown = n->in[1], .made = NEWS(mem, bool, b->ntensors)};
    if (!made_of_one(b, n->in[1], m) || m->tile < 0) continue;
    m->adds = made_of_one(b, n->out, m);
    for (int t = 0; t < b->ntensors && !m->adds; t++) m->made[t] = false;
    if (!m->adds) made_of_one(b, n->in[1], m);
    if (only_weighs(b, m, m->shown) && walks_rows(g, b, m->tile, node_iterated(nest, m->tile))) return true;
  }
  return false;
}

// ---- the kernel that reads the mask ----

static int map(struct block_making *b, enum op op, int x, int y) { return block_add(b, op, 2, (int[]){x, y}, NULL, NOWHERE); }

static int with(struct block_making *b, enum op op, int x, double scalar)
{
  struct attrs a = attrs_default(op);
  a.scalar = scalar;
  return block_add(b, op, op != OP_CONST, &x, &a, NOWHERE);
}

static int along(struct block_making *b, enum op op, int x, int dim)
{
  struct attrs a = attrs_default(op);
  a.dim = dim;
  return block_add(b, op, 1, &x, &a, NOWHERE);
}

static int numbers_to(struct rewriting *w, int64_t n, int *out)
{
  struct attrs a = attrs_default(OP_IOTA);
  a.shape = (struct shape){1, {n}};
  return graph_add(w->to, OP_IOTA, 0, NULL, &a, NOWHERE, out, w->e);
}

// A grid with a block for each row. Dimensions beyond the number of grid axes stay in a block.
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

static int read_mask(struct rewriting *w, const struct node *nest, const struct span_mask *m, int from, int numbers, int *spans)
{
  const struct shape *s = &w->to->tensors[from].shape;
  const int last = s->n - 1;
  const double n = (double)s->d[last];
  struct block_making b = block_begin(w->to, NULL, w->e);
  const struct attrs rows = by_rows(b.sub, s), all = attrs_default(OP_ITER);
  struct attrs whole = attrs_default(OP_WHOLE), save = attrs_default(OP_SAVE);
  int *tile = NEWS(w->to->mem, int, nest->sub->ntensors);
  tile[m->tile] = block_load(&b, from, &rows, NOWHERE);
  const int at = block_load(&b, numbers, &all, NOWHERE);
  for (int i = 0; i <= m->keep && !b.status; i++) {
    const struct node *node = &nest->sub->nodes[i];
    if (node->op != OP_ITER && m->made[node->out]) b.status = graph_take(b.sub, NULL, -1, nest->sub, node, tile, w->e);
  }
  // `as_is` is 0 (if the mask adds) or 1 for elements that are shown unchanged
  const int shown = tile[m->shown], as_is = m->adds ? tile[nest->sub->nodes[m->keep].out] : shown;
  const int left = with(&b, OP_ADD_SCALAR, with(&b, OP_MUL_SCALAR, at, -1), n), right = with(&b, OP_ADD_SCALAR, at, 1);
  const int most = along(&b, OP_MAX, map(&b, OP_MUL, left, shown), last);
  const int first = with(&b, OP_ADD_SCALAR, with(&b, OP_MUL_SCALAR, most, -1), n);
  const int behind = along(&b, OP_MAX, map(&b, OP_MUL, right, shown), last);
  const int plain = along(&b, OP_SUM, map(&b, OP_EQUAL, as_is, with(&b, OP_CONST, -1, !m->adds)), last);
  const int made[SPANS] = {first, behind, map(&b, OP_LESS, plain, map(&b, OP_SUB, behind, first))};
  whole.lo = 0, whole.hi = n;
  for (int i = 0; i < MAX_GRID; i++) save.omap[i] = rows.imap[i];
  for (int i = 0; i < SPANS; i++) {
    const int number = block_add(&b, OP_WHOLE, 1, &made[i], &whole, NOWHERE);
    block_add(&b, OP_SAVE, 1, &number, &save, NOWHERE);
  }
  return block_end(&b, NOWHERE, spans);
}

// ---- the kernel that applies the mask ----

struct spanning { // of a kernel
  struct span_mask m;
  int spans, numbers; // tensors of the new graph: the first of SPANS; numbers of the row's elements
};

// Replaces keep and the condition. The mask is read only in rows that differ from their span.
static int narrow(struct block_rewriting *r, const struct spanning *s)
{
  const struct graph *from = r->n->sub;
  const struct span_mask *m = &s->m;
  const struct node *keep = &from->nodes[m->keep];
  struct block_making *b = &r->b;
  int *tile = r->tile, span[SPANS];
  struct attrs rows = maker(from, m->tile)->a, along_row = attrs_default(OP_ITER), repeat = attrs_default(OP_REPEAT);
  rows.fmap[0] = REPLICA, along_row.fmap[0] = 0;
  for (int i = 0; i < SPANS; i++) span[i] = block_load(b, s->spans + i, &rows, NOWHERE);
  const int at = block_load(b, s->numbers, &along_row, NOWHERE);
  const int inside = map(b, OP_MUL, map(b, OP_LESS_EQUAL, span[FIRST], at), map(b, OP_LESS, at, span[BEHIND]));
  int score;
  if (m->adds) {
    score = map(b, OP_MASK, tile[keep->out], map(b, OP_LESS, with(b, OP_CONST, -1, 0), span[MORE]));
  } else {
    const int one = with(b, OP_CONST, -1, 1), plain = map(b, OP_LESS, span[MORE], one);
    const int shown = map(b, OP_MAXIMUM, map(b, OP_EQUAL, tile[m->shown], one), plain);
    score = block_add(b, OP_KEEP, 2, (int[]){tile[keep->in[0]], shown}, &keep->a, NOWHERE);
  }
  tile[keep->out] = block_add(b, OP_KEEP, 2, (int[]){score, inside}, &keep->a, NOWHERE);
  if (!m->weighs) return b->status;
  repeat.dim = from->tensors[m->tile].shape.n - 1, repeat.times = from->tensors[m->tile].shape.d[repeat.dim];
  tile[m->shown] = map(b, OP_LESS, span[FIRST], span[BEHIND]);
  if (repeat.times > 1) tile[m->shown] = block_add(b, OP_REPEAT, 1, &tile[m->shown], &repeat, NOWHERE);
  return b->status;
}

static int node(struct block_rewriting *r, const struct node *x, int from)
{
  const struct spanning *s = r->own;
  const bool keeps = x == &r->n->sub->nodes[s->m.keep];
  if (!keeps || s->m.adds) TRY(rewrite_take(r, x, from));
  return keeps ? narrow(r, s) : OK;
}

static int kernel(struct rewriting *w, const struct node *n, int *out)
{
  struct spanning s;
  if (!find(w->to->mem, w->g, n, &s.m)) return NO;
  const int from = w->map[node_iterated(n, s.m.tile)];
  const struct shape *shape = &w->to->tensors[from].shape;
  TRY(numbers_to(w, shape->d[shape->n - 1], &s.numbers));
  TRY(read_mask(w, n, &s.m, from, s.numbers, &s.spans));
  return w->changed = true, rewrite_block(w, n, node, &s, out);
}

int legal_spans(struct arena *mem, const struct graph *wrapped, struct graph **out, struct err *e)
{
  return legal_rewrite(mem, wrapped, kernel, NULL, out, e);
}
