// Elementwise operators and reductions of a block as loop nests. One operator is one nest. A THREAD node is one nest for all its operators, and
// intermediate values stay in registers. Savers and accumulators join the nest of the value that they read, so it needs no tile unless another node
// reads it.
#include "gen/emit.h"

static struct folded fold_of(const struct node *n, const struct shape *in)
{
  const struct attrs *a = &n->a;
  unsigned has = op_rows[n->op].attrs;
  int64_t extent = in->d[a->dim], group = extent;
  if ((has & A_GROUP) && a->group) group = a->group;
  return (struct folded){fold_by(n->op), a->dim, group, op_rows[n->op].flags & MEAN ? 1.0 / (double)group : 1};
}

static void emit_sink(struct nest *f, int value, const struct view *to, const struct folded *how)
{
  if (how->fold == FOLD_NONE)
    nest_store(f, value, to, false);
  else
    CHECK(nest_fold(f, value, to, how->fold, how->dim, how->group, false, how->scale));
}

static bool reads(const struct node *n, int tensor)
{
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] == tensor) return true;
  return false;
}

// Whether node i, which reads the value, stores it: a saver, or a reshape that only a saver reads. *to: its target, in the shape of the value.
static bool stores(const struct block *b, int i, const struct shape *value, int *saver, struct view *to)
{
  const struct node *n = &b->g->nodes[i];
  *saver = i;
  for (int k = 0, readers = 0; n->op == OP_RESHAPE && k < b->g->nnodes; k++) {
    if (!reads(&b->g->nodes[k], n->out)) continue;
    if (readers++ || b->g->nodes[k].op != OP_SAVE) return false;
    *saver = k;
  }
  if (b->g->nodes[*saver].op != OP_SAVE) return false;
  *to = tile_saved(b, *saver);
  const struct view whole = *to;
  return n->op == OP_SAVE || view_reshaped(&whole, value, to);
}

void group_sinks(struct block *b, struct nest *f, int tensor, int value, const struct folded *how, enum stage st)
{
  bool others = false;
  for (int i = 0; i < b->g->nnodes; i++) {
    const struct node *n = &b->g->nodes[i];
    if (b->done[i] || !reads(n, tensor)) continue;
    struct view to;
    int saver;
    const bool saves = stores(b, i, &b->g->tensors[tensor].shape, &saver, &to) && (how->fold == FOLD_NONE || to.dtype == F32);
    if (saves) {
      block_comment(b, saver, st);
      emit_sink(f, value, &to, how);
      b->done[saver] = true;
    } else if (accum_takes(b, f, i, tensor, how)) {
      block_comment(b, i, st);
      accum_sink(b, f, i, value, how);
      b->done[i] = true;
      continue;
    }
    others |= !saves;
    b->done[i] = saves;
  }
  if (!others) return;
  struct view t = tile_new(b, block_name(b, "t", tensor), &b->g->tensors[tensor].shape, st, false);
  emit_sink(f, value, &t, how);
  b->place[tensor] = (struct place){PLACE_VIEW, false, 0, t};
}

void group_finish(struct block *b, struct nest *f, enum stage st)
{
  if (!f->nsinks) return;
  tile_print(b, f, st);
  for (int i = 0; i < b->g->nnodes; i++)
    if (b->done[i] && accum_is(b->g->nodes[i].op)) accum_end(b, i);
}

int group_node(struct block *b, int node)
{
  const struct node *n = &b->g->nodes[node];
  bool map = op_rows[n->op].rule == RULE_MAP;
  enum stage st = stage_of(b, n->out);
  struct nest f = nest_new(b->mem, &b->g->tensors[map ? n->out : n->in[0]].shape);
  int x = tile_load(b, &f, n->in[0], st), y = n->nin > 1 ? tile_load(b, &f, n->in[1], st) : -1;
  struct folded how = {FOLD_NONE};
  if (map)
    x = nest_op(&f, n->op, &n->a, x, y);
  else
    how = fold_of(n, &f.space);
  group_sinks(b, &f, n->out, x, &how, st);
  group_finish(b, &f, st);
  return OK;
}
