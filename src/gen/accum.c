// Accumulators: buffers that live through the for-loop. They are zeroed before it, receive values of loop nests or products inside it, and are
// finished after it (roots). Only the value of ACCUM_MAX is also read inside the loop. In a loop of one iteration, values are stored to the
// accumulator, not added.
#include "gen/emit.h"

#include <math.h>

bool accum_is(enum op op) { return op_rows[op].rule == RULE_ACCUM; }

static bool is_first(const struct block *b) { return b->iterations == 1; }

static enum stage inside(const struct block *b) { return is_first(b) ? BEFORE : INSIDE; }

static struct folded fold_of(const struct block *b, const struct node *n)
{
  int64_t extent = b->g->tensors[n->in[0]].shape.d[n->a.dim];
  double all = (double)(extent * b->iterations);
  return (struct folded){FOLD_SUM, n->a.dim, extent, op_rows[n->op].flags & MEAN ? 1 / all : 1};
}

// Returns the buffer. The first call creates and zeroes it.
static struct view buffer(struct block *b, const struct node *n, double start)
{
  struct place *p = &b->place[n->out];
  if (p->kind == PLACE_NONE) {
    struct view v = tile_new(b, block_name(b, "t", n->out), &b->g->tensors[n->out].shape, BEFORE, true);
    *p = (struct place){PLACE_VIEW, false, 0, v};
    if (!is_first(b)) tile_fill(b, &v, start, BEFORE);
  }
  tile_use(b, &p->v, inside(b));
  return p->v;
}

// The part of the buffer that this iteration writes. *add: iterations add up in it.
static struct view part(struct block *b, const struct node *n, bool *add)
{
  struct view v = buffer(b, n, 0);
  bool joins = op_rows[n->op].attrs & A_FMAP;
  *add = false;
  for (int i = 0; i < b->g->nloop; i++) {
    if (b->g->loop[i] == 1) continue;
    int dim = joins ? n->a.fmap[i] : REPLICA;
    if (dim == REPLICA) {
      *add = true;
      continue;
    }
    v.shape.d[dim] /= b->g->loop[i];
    v.ptr = arena_printf(b->mem, "%s + l%d * %lld", v.ptr, i, (long long)(v.shape.d[dim] * v.stride[dim]));
  }
  return v;
}

bool accum_takes(const struct block *b, const struct nest *f, int node, int tensor, const struct folded *how)
{
  const struct node *n = &b->g->nodes[node];
  if (!accum_is(n->op) || n->op == OP_ACCUM_MAX || n->in[0] != tensor) return false;
  if (!is_first(b) && stage_of(b, tensor) != INSIDE) return false;
  unsigned flags = op_rows[n->op].flags;
  if ((flags & RESCALES) && b->place[n->in[1]].kind != PLACE_VIEW) return false;
  if (how->fold == FOLD_NONE && !shape_eq(&b->g->tensors[tensor].shape, &f->space)) return false; // it would be added repeatedly
  if (how->fold == FOLD_MAX || how->fold == FOLD_PROD || (how->fold != FOLD_NONE && (flags & REDUCES))) return false;
  struct folded mine = flags & REDUCES ? fold_of(b, n) : *how;
  return mine.fold == FOLD_NONE || nest_can_fold(f, mine.dim, mine.group);
}

// Multiplies the accumulated value by the factor. Row factors have their own routine, which skips rows with a factor of 1.
static void rescale(struct block *b, const struct node *n, const struct view *acc)
{
  if (is_first(b)) return;
  const struct view *f = &b->place[n->in[1]].v;
  int last = acc->shape.n - 1;
  struct shape rows = acc->shape;
  if (last >= 0) rows.d[last] = 1;
  bool plain = b->place[n->in[1]].kind == PLACE_VIEW && shape_eq(&rows, &f->shape) && f->dtype == F32;
  if (plain && acc->shape.d[last] >= 16 && view_is_dense(acc) && view_is_dense(f)) {
    tile_use(b, f, INSIDE);
    line(&b->text[INSIDE], depth_of(b, INSIDE), "m_scale_rows(%lld, %lld, %s, %lld, %s, 1);", (long long)shape_size(&rows),
         (long long)acc->shape.d[last], acc->ptr, (long long)acc->shape.d[last], f->ptr);
    return;
  }
  struct nest nest = nest_new(b->mem, &acc->shape);
  int x = nest_load(&nest, acc), y = tile_load(b, &nest, n->in[1], INSIDE);
  nest_store(&nest, nest_op(&nest, OP_MUL, NULL, x, y), acc, false);
  tile_print(b, &nest, INSIDE);
}

void accum_sink(struct block *b, struct nest *f, int node, int value, const struct folded *how)
{
  const struct node *n = &b->g->nodes[node];
  unsigned flags = op_rows[n->op].flags;
  bool add;
  struct view acc = part(b, n, &add);
  if (flags & RMS) value = nest_op(f, OP_MUL, NULL, value, value);
  struct folded mine = flags & REDUCES ? fold_of(b, n) : *how;
  bool folds = mine.fold != FOLD_NONE;
  if ((flags & RESCALES) && folds) rescale(b, n, &acc);
  if ((flags & RESCALES) && !folds && !is_first(b)) {
    int old = nest_load(f, &acc), factor = tile_load(b, f, n->in[1], INSIDE);
    value = nest_op(f, OP_ADD, NULL, nest_op(f, OP_MUL, NULL, old, factor), value), add = false;
  }
  if (folds)
    CHECK(nest_fold(f, value, &acc, mine.fold, mine.dim, mine.group, add, mine.scale));
  else
    nest_store(f, value, &acc, add);
  if (flags & RMS) b->root[node] = true;
}

void accum_end(struct block *b, int node)
{
  if (!b->root[node]) return;
  b->root[node] = false;
  enum stage st = is_first(b) ? BEFORE : BEHIND;
  struct view acc = b->place[b->g->nodes[node].out].v;
  struct nest f = nest_new(b->mem, &acc.shape);
  nest_store(&f, nest_op(&f, OP_SQRT, NULL, nest_load(&f, &acc), -1), &acc, false);
  tile_use(b, &acc, st);
  tile_print(b, &f, st);
}

// Computes the running maximum. Its second output is the difference of the old and the new maximum.
static int running_max(struct block *b, const struct node *n)
{
  enum stage st = inside(b);
  struct view m = buffer(b, n, -INFINITY);
  struct nest f = nest_new(b->mem, &m.shape);
  struct view delta = tile_new(b, block_name(b, "t", n->out + 1), &m.shape, st, false);
  int x = tile_load(b, &f, n->in[0], st), now = x, gone;
  if (is_first(b)) {
    gone = nest_const(&f, 0);
  } else {
    int old = nest_load(&f, &m);
    now = nest_op(&f, OP_MAXIMUM, NULL, old, x);
    gone = nest_value(&f, "first ? K(0) : x - y", NULL, old, now);
    b->wants_first = true;
  }
  nest_store(&f, now, &m, false);
  nest_store(&f, gone, &delta, false);
  b->place[n->out + 1] = (struct place){PLACE_VIEW, false, 0, delta};
  tile_print(b, &f, st);
  return OK;
}

int accum_node(struct block *b, int node)
{
  const struct node *n = &b->g->nodes[node];
  if (n->op == OP_ACCUM_MAX) return running_max(b, n);
  enum stage st = inside(b);
  struct nest f = nest_new(b->mem, &b->g->tensors[n->in[0]].shape);
  int x = tile_load(b, &f, n->in[0], st);
  struct folded how = {FOLD_NONE};
  accum_sink(b, &f, node, x, &how);
  tile_print(b, &f, st);
  accum_end(b, node);
  return OK;
}

bool accum_target(struct block *b, int tensor, struct view *v, bool *add)
{
  int reader = -1, readers = 0;
  for (int i = 0; i < b->g->nnodes; i++)
    for (int k = 0; k < b->g->nodes[i].nin; k++)
      if (b->g->nodes[i].in[k] == tensor) reader = i, readers++;
  if (readers != 1) return false;
  const struct node *n = &b->g->nodes[reader];
  if (b->done[reader] || (n->op != OP_ACCUM && n->op != OP_ACCUM_RESCALE)) return false;
  if (!is_first(b) && stage_of(b, tensor) != INSIDE) return false;
  bool scales = n->op == OP_ACCUM_RESCALE;
  if (scales && (n->in[0] != tensor || b->place[n->in[1]].kind != PLACE_VIEW)) return false;
  block_comment(b, reader, b->iterations > 1 ? INSIDE : stage_of(b, n->out));
  *v = part(b, n, add);
  if (scales) rescale(b, n, v);
  return b->done[reader] = true;
}
