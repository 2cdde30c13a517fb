// Offsets of a block graph's tiles in scratch. A tensor that changes with the for-loop lives from the node that makes
// it to its last reader in the same iteration; what is made before the loop and read in it, and accumulators, live
// through the whole loop; what follows the loop starts there. Tensors whose lives meet get disjoint bytes; finding
// the least total is dynamic storage allocation (NP-hard), so few tensors are searched exhaustively and many are
// placed largest first. Mirage plans shared memory in the same way (paper, section 6).
#include "plan/plan.h"

enum { ALIGN = 64, EXACT = 8 };

struct life {
  int64_t bytes, offset;
  int from, to; // times of the first and last use; to < from: none
};

struct fit {
  int n;
  struct life *life; // offset -1: not placed yet
  int64_t best;      // total of the best placement so far
  int64_t *at;       // its offsets
  int64_t bound;     // no placement is better
};

// ---- lives ----

// Each node has a time in each of three stages: before the loop, in it, after it.
static int time_of(const struct graph *g, int node, enum phase p)
{
  return g->nnodes * (p == FIXED ? 0 : p == AFTER ? 2 : 1) + node;
}

// The phase in which a node runs: accumulators run in the loop, savers after it.
static enum phase runs_in(const struct graph *g, const struct node *n)
{
  if (!g->nloop) return FIXED;
  if (n->op == OP_SAVE) return AFTER;
  if (op_rows[n->op].rule == RULE_ACCUM || !n->nout) return VARYING;
  return g->tensors[n->out].phase;
}

static void use(struct life *x, int time)
{
  if (time < x->from) x->from = time;
  if (time > x->to) x->to = time;
}

static void use_by(const struct graph *g, struct life *x, int t, int reader)
{
  enum phase at = runs_in(g, &g->nodes[reader]), made = runs_in(g, &g->nodes[g->tensors[t].node]);
  use(x, time_of(g, reader, at));
  if (made == FIXED && at == VARYING) use(x, time_of(g, g->nnodes - 1, VARYING)); // every iteration reads it
}

static bool holds_over_loop(const struct graph *g, int t)
{
  const struct node *n = &g->nodes[g->tensors[t].node];
  return g->nloop && op_rows[n->op].rule == RULE_ACCUM && t == n->out;
}

// The tensor whose room t shares.
static int room_of(const struct graph *g, const int *room, int t)
{
  const struct node *n = &g->nodes[g->tensors[t].node];
  return n->op == OP_RESHAPE ? room[n->in[0]] : t;
}

static void find_lives(const struct graph *g, int elem, int *room, struct life *life)
{
  for (int t = 0; t < g->ntensors; t++) {
    int node = g->tensors[t].node, time = time_of(g, node, runs_in(g, &g->nodes[node]));
    room[t] = room_of(g, room, t);
    if (room[t] == t)
      life[t] = (struct life){(elem * shape_size(&g->tensors[t].shape) + ALIGN - 1) / ALIGN * ALIGN, -1, time, time};
    else
      use(&life[room[t]], time);
    if (holds_over_loop(g, t)) use(&life[t], time_of(g, 0, VARYING)), use(&life[t], time_of(g, g->nnodes - 1, VARYING));
  }
  for (int i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nin; k++) use_by(g, &life[room[g->nodes[i].in[k]]], g->nodes[i].in[k], i);
}

// ---- placing ----

static bool meet(const struct life *a, const struct life *b) { return a->from <= b->to && b->from <= a->to; }

// The lowest offset at which x overlaps none of the placed tensors that it meets.
static int64_t lowest(const struct fit *f, const struct life *x)
{
  int64_t at = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (int i = 0; i < f->n; i++) {
      const struct life *o = &f->life[i];
      if (o->offset < 0 || !meet(o, x) || at >= o->offset + o->bytes || o->offset >= at + x->bytes) continue;
      at = o->offset + o->bytes, moved = true;
    }
  }
  return at;
}

static void keep(struct fit *f, int64_t total)
{
  f->best = total;
  for (int i = 0; i < f->n; i++) f->at[i] = f->life[i].offset;
}

static void largest_first(struct fit *f)
{
  int64_t total = 0;
  for (int k = 0; k < f->n; k++) {
    struct life *big = NULL;
    for (int i = 0; i < f->n; i++)
      if (f->life[i].offset < 0 && (!big || f->life[i].bytes > big->bytes)) big = &f->life[i];
    big->offset = lowest(f, big);
    total = MAX(total, big->offset + big->bytes);
  }
  keep(f, total);
  for (int i = 0; i < f->n; i++) f->life[i].offset = -1;
}

// Some order of lowest placements gives the least total: take the offsets of a best placement in rising order.
static void search(struct fit *f, int placed, int64_t total)
{
  if (total >= f->best) return;
  if (placed == f->n) keep(f, total);
  for (int i = 0; i < f->n && f->best > f->bound; i++) {
    struct life *x = &f->life[i];
    if (x->offset >= 0) continue;
    x->offset = lowest(f, x);
    search(f, placed + 1, MAX(total, x->offset + x->bytes));
    x->offset = -1;
  }
}

// What is alive at one time needs room at that time.
static int64_t least(const struct fit *f)
{
  int64_t most = 0;
  for (int i = 0; i < f->n; i++) {
    int64_t sum = 0;
    for (int k = 0; k < f->n; k++)
      if (f->life[k].from <= f->life[i].from && f->life[i].from <= f->life[k].to) sum += f->life[k].bytes;
    most = MAX(most, sum);
  }
  return most;
}

int plan_scratch(struct arena *mem, const struct graph *g, int elem, const bool *skip, int64_t *offset, int64_t *total)
{
  int *room = NEWS(mem, int, g->ntensors + 1), *index = NEWS(mem, int, g->ntensors + 1);
  struct life *life = NEWS(mem, struct life, g->ntensors + 1);
  struct fit f = {.life = NEWS(mem, struct life, g->ntensors + 1), .at = NEWS(mem, int64_t, g->ntensors + 1)};
  find_lives(g, elem, room, life);
  for (int t = 0; t < g->ntensors; t++) {
    index[t] = -1;
    if (room[t] != t || (skip && skip[t]) || g->nodes[g->tensors[t].node].op == OP_CONST) continue;
    index[t] = f.n, f.life[f.n++] = life[t];
  }
  largest_first(&f);
  f.bound = least(&f);
  if (f.n <= EXACT) search(&f, 0, 0);
  for (int t = 0; t < g->ntensors; t++) offset[t] = index[room[t]] < 0 ? -1 : f.at[index[room[t]]];
  *total = f.best;
  return OK;
}
