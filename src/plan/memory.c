// Offsets of a block graph's tiles in scratch. A tensor that changes with the for-loop lives from the node that makes
// it to its last reader in the same iteration; what is made before the loop and read in it, and accumulators, live
// through the whole loop; what follows the loop starts there. Tensors whose lives meet get disjoint bytes (pack.c).
#include "plan/plan.h"

enum { ALIGN = 64 };

// ---- lives ----

// Each node has a time in each of three stages: before the loop, in it, after it.
static int time_of(const struct graph *g, int node, enum phase p) { return g->nnodes * (p == FIXED ? 0 : p == AFTER ? 2 : 1) + node; }

// The phase in which a node runs: accumulators run in the loop, savers after it.
static enum phase runs_in(const struct graph *g, const struct node *n)
{
  if (!g->nloop) return FIXED;
  if (n->op == OP_SAVE) return AFTER;
  if (op_rows[n->op].rule == RULE_ACCUM || !n->nout) return VARYING;
  return g->tensors[n->out].phase;
}

static void use(struct plan_piece *x, int time)
{
  if (time < x->from) x->from = time;
  if (time > x->to) x->to = time;
}

static void use_by(const struct graph *g, struct plan_piece *x, int t, int reader)
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

static void find_lives(const struct graph *g, int elem, int *room, struct plan_piece *life)
{
  for (int t = 0; t < g->ntensors; t++) {
    int node = g->tensors[t].node, time = time_of(g, node, runs_in(g, &g->nodes[node]));
    room[t] = room_of(g, room, t);
    if (room[t] == t)
      life[t] = (struct plan_piece){(elem * shape_size(&g->tensors[t].shape) + ALIGN - 1) / ALIGN * ALIGN, time, time, -1};
    else
      use(&life[room[t]], time);
    if (holds_over_loop(g, t)) use(&life[t], time_of(g, 0, VARYING)), use(&life[t], time_of(g, g->nnodes - 1, VARYING));
  }
  for (int i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nin; k++) use_by(g, &life[room[g->nodes[i].in[k]]], g->nodes[i].in[k], i);
}

int plan_scratch(struct arena *mem, const struct graph *g, int elem, const bool *skip, int64_t *offset, int64_t *total)
{
  int *room = NEWS(mem, int, g->ntensors + 1), *index = NEWS(mem, int, g->ntensors + 1), n = 0;
  struct plan_piece *life = NEWS(mem, struct plan_piece, g->ntensors + 1), *piece = NEWS(mem, struct plan_piece, g->ntensors + 1);
  find_lives(g, elem, room, life);
  for (int t = 0; t < g->ntensors; t++) {
    index[t] = -1;
    if (room[t] != t || (skip && skip[t]) || g->nodes[g->tensors[t].node].op == OP_CONST) continue;
    index[t] = n, piece[n++] = life[t];
  }
  *total = plan_pack(mem, n, piece);
  for (int t = 0; t < g->ntensors; t++) offset[t] = index[room[t]] < 0 ? -1 : piece[index[room[t]]].offset;
  return OK;
}
