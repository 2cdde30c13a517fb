// Decides whether the space contains a given kernel graph. The kernels are visited in order, and every tensor is matched with a value of one
// schedule, operator by operator. These differences do not count: sizes and the order of axes; axes of extent 1; loops of one iteration, or that only
// add up partial sums; a sum before or after a tensor is left for a later kernel; partial sums of partial sums; a library operator instead of a block
// graph of that operator. If no match is found, the furthest point reached is reported; excluded.c finds the reason.
#include "search/covers.h"

#include <string.h>

bool cover_lost(struct search_walk *w, int kernel, int block, const char *what, const char *why)
{
  int64_t at = (int64_t)kernel * MANY + block + 1;
  if (at > w->furthest) {
    w->furthest = at;
    snprintf(w->why, w->room, "kernel %d, %s: %s", kernel + 1 - graph_inputs(w->g, NULL), what, why);
  }
  return false;
}

// ---- kernels ----------------------------------------------------------------------------------------------------------

// Tries all assignments of the schedule's classes to the axes.
static bool orders(struct inside *x, const struct search_schedule *s, int at, unsigned used)
{
  if (at == s->ngrid) {
    struct arena mem = {0};
    struct inside y = *x;
    y.value = NEWS(&mem, int, y.b->ntensors + 1);
    bool found = cover_block(&y, 0);
    arena_close(&mem);
    return found;
  }
  for (int i = 0; i < s->ngrid && at < MAX_GRID; i++) {
    if (used >> i & 1) continue;
    x->axis[at] = s->grid[i];
    if (orders(x, s, at + 1, used | 1u << i)) return true;
  }
  return false;
}

// A loop that reads only tensors of earlier kernels may do nothing but add up partial sums.
static bool may_unroll(const struct search_walk *w, const struct node *kernel)
{
  const struct graph *b = kernel->sub;
  bool only = true;
  for (int k = 0, i = 0; k < b->nnodes; k++) {
    if (b->nodes[k].op != OP_ITER) continue;
    only &= b->nodes[k].a.fmap[0] == REPLICA || w->program_input[kernel->in[i]] < 0;
    i++;
  }
  return only;
}

static bool walk_schedules(struct search_walk *w, int i, const struct graph *b)
{
  int axes = 0;
  bool looped = graph_iterations(b) > 1, unroll = looped && may_unroll(w, &w->g->nodes[i]);
  for (int a = 0; a < b->ngrid; a++) axes += b->grid[a] > 1;
  if (b->nloop > 1) return cover_lost(w, i, 0, "block graph", "the search uses one loop axis");
  for (int t = 0; t < w->pl->ntables; t++) {
    const struct search_schedule *s = &w->pl->tables[t].sch;
    bool as_loop = looped && s->loop >= 0, as_none = (!looped || unroll) && s->loop < 0;
    struct inside x = {.w = w, .node = i, .b = b, .table = t, .loop = as_loop};
    if (s->ngrid == axes && (as_loop || as_none) && orders(&x, s, 0, 0)) return true;
  }
  return cover_lost(w, i, 0, "block graph", "no schedule of the search has these axes");
}

// A library operator as a block graph, under any schedule without a loop.
static bool walk_library(struct search_walk *w, int i)
{
  const struct planner *pl = w->pl;
  const struct node *n = &w->g->nodes[i];
  enum rule rule = op_rows[n->op].rule;
  bool tried = n->nin <= 2 && (rule == RULE_MAP || rule == RULE_CONTRACT || rule == RULE_REDUCE);
  for (int t = 0; t < pl->ntables && tried; t++) {
    const struct table *y = &pl->tables[t];
    for (int d = 0; d < y->nd && y->sch.loop < 0; d++) {
      const struct deriv *v = &y->d[d];
      bool fits = v->op == n->op && (v->b >= 0) == (n->nin > 1) && cover_same_constants(y, v, n), turned = cover_turnable(n->op);
      const int made[2] = {v->a, v->b};
      for (int k = 0; k < n->nin && fits; k++) {
        fits = false;
        for (int o = 0; o < n->nin && !fits; o++) {
          int leaf = made[o] < 0 || (o != k && !turned) ? -1 : y->v[made[o]].leaf;
          if (leaf < 0) continue;
          int want = w->program_input[n->in[k]];
          fits = want >= 0 ? pl->m->dev[leaf].input == want : leaf == w->device[n->in[k]];
        }
      }
      mask has;
      const struct search_value *made_of = &y->v[w->owner[t][d]];
      if (!fits || !value_saveable(pl->m->s, y, made_of, &has)) continue;
      for (int e = pl->nfixed; e < pl->ndev; e++) {
        if (pl->m->dev[e].has != has || pl->m->dev[e].hash != made_of->hash) continue;
        w->device[n->out] = e;
        if (cover_kernel(w, i + 1)) return true;
      }
    }
  }
  return cover_lost(w, i, 0, op_rows[n->op].name, "as a separate kernel it makes no tensor that the search leaves in device memory");
}

static bool walk_output(struct search_walk *w, int i)
{
  const struct planner *pl = w->pl;
  int d = w->device[w->g->nodes[i].in[0]], o = cover_number(w->g, i, OP_OUTPUT), first = pl->nfixed + pl->ncut;
  const struct device *want = &pl->m->dev[first + o];
  if (d >= 0 && first + o < pl->ndev && pl->m->dev[d].has == want->has && pl->m->dev[d].hash == want->hash) return cover_kernel(w, i + 1);
  return cover_lost(w, i, 0, "output", "it is not the program's");
}

bool cover_kernel(struct search_walk *w, int i)
{
  if (i == w->g->nnodes) return true;
  const struct node *n = &w->g->nodes[i];
  if (n->op == OP_INPUT || n->op == OP_CONST) return cover_kernel(w, i + 1);
  if (n->op == OP_OUTPUT) return walk_output(w, i);
  if (op_rows[n->op].rule == RULE_VIEW) return w->device[n->out] = w->device[n->in[0]], cover_kernel(w, i + 1);
  return n->sub ? walk_schedules(w, i, n->sub) : walk_library(w, i);
}

bool space_covers(struct arena *mem, const struct planner *pl, const struct graph *g, char *why, size_t room)
{
  const struct graph *p = pl->m->s->p;
  int nin = graph_inputs(p, NULL), *in = NEWS(mem, int, nin + 1), *mine = NEWS(mem, int, nin + 1), kernels = graph_ops(g);
  if (graph_inputs(g, NULL) != nin || graph_outputs(g, NULL) != graph_outputs(p, NULL))
    return snprintf(why, room, "it has other inputs or outputs than the program"), false;
  graph_inputs(p, in), graph_inputs(g, mine);
  int *program_input = NEWS(mem, int, g->ntensors + 1), *device = NEWS(mem, int, g->ntensors + 1);
  for (int t = 0; t < g->ntensors; t++) program_input[t] = device[t] = -1;
  for (int i = 0; i < nin; i++) program_input[mine[i]] = in[i];
  bool *viewed = NEWS(mem, bool, g->ntensors + 1);
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (op_rows[n->op].rule == RULE_VIEW) program_input[n->out] = program_input[n->in[0]], viewed[n->out] = true;
  }
  struct search_walk w = {pl, g, program_input, viewed, device, NEWS(mem, int *, pl->ntables), 0, 0, why, room};
  for (int t = 0; t < pl->ntables; t++) {
    w.owner[t] = NEWS(mem, int, pl->tables[t].nd + 1);
    for (int v = 0; v < pl->tables[t].n; v++)
      for (int d = pl->tables[t].v[v].der; d >= 0; d = pl->tables[t].d[d].next) w.owner[t][d] = v;
  }
  if (kernels > pl->o->max_kernel_ops) return snprintf(why, room, "it has %d kernels, more than --max-kernel-ops", kernels), false;
  *why = 0;
  return cover_kernel(&w, 0);
}
