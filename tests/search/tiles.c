// Contents of every tensor of a block graph, over pairs of prime fields: the interpreter's arithmetic, tile by tile, but
// all tensors are kept. From that the key of a graph: layouts, names and orders do not show in sets of elements.
#include "naive.h"

#include "eval/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct spot { // a block and an iteration
  int64_t block, iter;
};

static void odometer(int64_t number, int n, const int64_t *extent, int64_t *at)
{
  for (int i = n - 1; i >= 0; i--) at[i] = number % extent[i], number /= extent[i];
}

static void corner(int n, const int8_t *map, const int64_t *extent, int64_t number, int64_t part[MAX_DIMS])
{
  int64_t at[MAX_LOOPS];
  odometer(number, n, extent, at);
  for (int i = 0; i < n; i++)
    if (map[i] != REPLICA) part[map[i]] = part[map[i]] * extent[i] + at[i];
}

static struct eval_value tile_at(const struct graph *b, const struct tiles *t, int x, struct spot s)
{
  const struct tiles *y = &t[x];
  return (struct eval_value){b->tensors[x].shape, (char *)(y->v + y->size * (s.block * y->each + (y->each > 1 ? s.iter : 0)))};
}

static void load(const struct graph *b, const struct node *n, struct spot s, const struct whole *from, struct eval_value o)
{
  int64_t at[MAX_DIMS] = {0};
  corner(b->ngrid, n->a.imap, b->grid, s.block, at);
  corner(b->nloop, n->a.fmap, b->loop, s.iter, at);
  for (int i = 0; i < o.s.n; i++) at[i] *= o.s.d[i];
  move_cut(sizeof(struct ffv), (struct eval_value){from->s, (char *)from->v}, at, o);
}

static void accumulate(struct field *F, const struct graph *b, const struct node *n, struct spot s, struct eval_value o, struct eval_value x)
{
  struct fold f = op_rows[n->op].flags & REDUCES ? fold_of(n, &x.s, &o.s) : (struct fold){1, 1, 1, shape_size(&x.s)};
  bool joins = (op_rows[n->op].attrs & A_FMAP) && b->nloop && n->a.fmap[0] != REPLICA;
  if (joins) {
    int64_t at[MAX_DIMS] = {0};
    corner(b->nloop, n->a.fmap, b->loop, s.iter, at);
    for (int i = 0; i < x.s.n; i++) at[i] *= x.s.d[i];
    move_paste(sizeof(struct ffv), o, at, x);
    return;
  }
  int64_t iters = graph_iterations(b);
  domain_ff.fold(F, n->op, !s.iter, &f, o.p, x.p);
  if ((op_rows[n->op].flags & MEAN) && s.iter == iters - 1) domain_ff.finish(F, op_rows[n->op].flags & RMS, f.len * iters, shape_size(&o.s), o.p);
}

static void one_tile(struct field *F, const struct graph *b, const struct node *n, struct spot s, const struct whole *whole, struct tiles *t)
{
  struct eval_value o = tile_at(b, t, n->out, s), x = n->nin ? tile_at(b, t, n->in[0], s) : o, y = n->nin > 1 ? tile_at(b, t, n->in[1], s) : x;
  struct fold f;
  switch (op_rows[n->op].rule) {
  case RULE_IO: load(b, n, s, whole, o); break;
  case RULE_CONST: domain_ff.constant(F, n->a.scalar, o.p); break;
  case RULE_MAP: domain_ff.map(F, n->op, &n->a, o, x, y); break;
  case RULE_CONTRACT: domain_ff.contract(F, n->op, true, 1, NULL, o, x, y); break;
  case RULE_VIEW: move_view(sizeof(struct ffv), n, o, x); break;
  case RULE_ACCUM: accumulate(F, b, n, s, o, x); break;
  case RULE_REDUCE:
    f = fold_of(n, &x.s, &o.s);
    domain_ff.fold(F, n->op, true, &f, o.p, x.p);
    if (op_rows[n->op].flags & MEAN) domain_ff.finish(F, false, f.len, shape_size(&o.s), o.p);
    break;
  case RULE_INDEX:
  case RULE_AT:
  case RULE_CONCAT:
  case RULE_SPLIT:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_GRAPH: CHECK(!"an operator of these tests");
  }
}

void tiles_make(struct arena *mem, struct field *F, const struct graph *b, int i, const struct whole *whole, struct tiles *t)
{
  const struct node *n = &b->nodes[i];
  if (!n->nout) return;
  int64_t blocks = graph_blocks(b), iters = graph_iterations(b);
  struct tiles *o = &t[n->out];
  o->size = shape_size(&b->tensors[n->out].shape), o->each = b->tensors[n->out].phase == VARYING ? iters : 1;
  o->v = NEWS(mem, struct ffv, blocks * o->each * o->size);
  int64_t turns = op_rows[n->op].rule == RULE_ACCUM ? iters : o->each;
  for (struct spot s = {0}; s.block < blocks; s.block++)
    for (s.iter = 0; s.iter < turns; s.iter++) one_tile(F, b, n, s, whole, t);
}

struct whole tiles_save(struct arena *mem, const struct graph *b, int x, const struct attrs *a, const struct tiles *t)
{
  struct whole whole = {.s = b->tensors[x].shape};
  for (int i = 0; i < b->ngrid; i++)
    if (a->omap[i] != REPLICA) whole.s.d[a->omap[i]] *= b->grid[i];
  whole.v = NEWS(mem, struct ffv, shape_size(&whole.s));
  for (struct spot s = {0}; s.block < graph_blocks(b); s.block++) {
    struct eval_value tile = tile_at(b, t, x, s);
    int64_t at[MAX_DIMS] = {0};
    corner(b->ngrid, a->omap, b->grid, s.block, at);
    for (int i = 0; i < tile.s.n; i++) at[i] *= tile.s.d[i];
    move_paste(sizeof(struct ffv), (struct eval_value){whole.s, (char *)whole.v}, at, tile);
  }
  return whole;
}

// ---- keys ----------------------------------------------------------------------------------------------------------

static int by_value(const void *x, const void *y)
{
  uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
  return a < b ? -1 : a > b;
}

// All its elements, as a set: a tensor that is repeated holds what it held before.
static uint64_t content(const struct graph *b, const struct tiles *t)
{
  struct arena mem = {0};
  int64_t n = graph_blocks(b) * t->each * t->size;
  uint64_t *all = NEWS(&mem, uint64_t, n), sum = 0;
  for (int64_t i = 0; i < n; i++) all[i] = t->v[i].p;
  qsort(all, (size_t)n, sizeof *all, by_value);
  for (int64_t i = 0; i < n; i++) sum += i && all[i] == all[i - 1] ? 0 : hash_mix(7, all[i]);
  arena_close(&mem);
  return sum;
}

static uint64_t node_key(const struct graph *b, const struct node *n, const struct tiles *t)
{
  uint64_t in[2] = {0, 0}, h = hash_mix((uint64_t)n->op, (uint64_t)b->tensors[n->out].phase);
  for (int k = 0; k < n->nin; k++) in[k] = content(b, &t[n->in[k]]);
  bool turns = n->op == OP_MATMUL || (op_rows[n->op].flags & COMMUTES); // the other factor first is another layout
  if (turns && in[0] > in[1]) {
    uint64_t x = in[0];
    in[0] = in[1], in[1] = x;
  }
  if (op_rows[n->op].attrs & A_SCALAR) h = hash_mix(h, hash_bytes(&n->a.scalar, sizeof n->a.scalar, 3));
  h = hash_mix(hash_mix(h, in[0]), in[1]);
  return hash_mix(hash_mix(h, content(b, &t[n->out])), (uint64_t)t[n->out].size);
}

uint64_t tiles_key(const struct graph *b, const struct tiles *t)
{
  uint64_t h = hash_mix((uint64_t)graph_blocks(b), (uint64_t)graph_iterations(b));
  for (int i = 0; i < b->nnodes; i++) {
    enum rule rule = op_rows[b->nodes[i].op].rule;
    if (b->nodes[i].nout && rule != RULE_VIEW && rule != RULE_CONST) h += node_key(b, &b->nodes[i], t);
  }
  return h;
}

uint64_t structure_key(const struct graph *g, struct field *F, void *const *in)
{
  struct arena mem = {0};
  struct whole *at = NEWS(&mem, struct whole, g->ntensors);
  uint64_t key = 0;
  for (int i = 0, input = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (!n->nout) continue;
    at[n->out].s = g->tensors[n->out].shape;
    if (n->op == OP_INPUT) {
      at[n->out].v = in[input++];
    } else if (op_rows[n->op].rule == RULE_VIEW && at[n->in[0]].v) { // of an input
      at[n->out].v = NEWS(&mem, struct ffv, shape_size(&at[n->out].s));
      const struct whole *x = &at[n->in[0]], *o = &at[n->out];
      move_view(sizeof(struct ffv), n, (struct eval_value){o->s, (char *)o->v}, (struct eval_value){x->s, (char *)x->v});
    } else if (n->op == OP_BLOCK) {
      struct tiles *t = NEWS(&mem, struct tiles, n->sub->ntensors);
      for (int k = 0, iters = 0; k < n->sub->nnodes; k++)
        tiles_make(&mem, F, n->sub, k, n->sub->nodes[k].op == OP_ITER ? &at[n->in[iters++]] : NULL, t);
      key += tiles_key(n->sub, t);
    }
  }
  arena_close(&mem);
  return key;
}

// ---- bills ---------------------------------------------------------------------------------------------------------

// Elements that node n reads and makes, and its operations on them. Division by a smaller tensor is one reciprocal an
// element of that, and products (gen prints it so).
static double work_of(const struct graph *b, const struct node *n)
{
  const struct op_row *row = &op_rows[n->op];
  const struct shape *x = &b->tensors[n->in[0]].shape, *o = &b->tensors[n->out].shape;
  double made = (double)shape_size(o), least = (double)shape_size(x), read = 0;
  for (int a = 0; a < n->nin; a++) read += (double)shape_size(&b->tensors[n->in[a]].shape);
  double each = row->cost, size = fmax(least, made), divisor = n->op == OP_DIV ? read - least : 0;
  if (row->rule == RULE_CONTRACT) each = 2 * (double)x->d[x->n - 1], size = made;
  return read + made + (n->op == OP_DIV && divisor < made ? made + each * divisor : size * each);
}

struct bill bill_of(const struct graph *g)
{
  struct bill r = {0};
  for (int i = 0; i < g->nnodes; i++) {
    const struct graph *b = g->nodes[i].sub;
    if (!b) continue;
    int64_t blocks = graph_blocks(b), iters = graph_iterations(b);
    r.blocks = blocks, r.ops += graph_ops(b);
    for (int k = 0; k < b->nnodes; k++) {
      const struct node *n = &b->nodes[k];
      enum rule rule = op_rows[n->op].rule;
      const struct tensor *x = &b->tensors[n->nin ? n->in[0] : n->out];
      bool looped = x->phase == VARYING || rule == RULE_ACCUM || (n->nout && b->tensors[n->out].phase == VARYING);
      double times = (double)blocks * (looped ? (double)iters : 1);
      if (rule == RULE_IO)
        r.moved += times * (double)shape_size(&x->shape);
      else if (rule != RULE_VIEW && rule != RULE_CONST)
        r.work += times * work_of(b, n);
    }
  }
  return r;
}

bool bill_within(const struct bill *x, const struct bill *y)
{
  return x->ops <= y->ops && x->blocks >= y->blocks && x->moved <= y->moved && x->work <= y->work;
}
