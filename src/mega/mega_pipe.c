// Pipelines: a producer copies pieces of weights and of the cache into stages, in the plan's order, as soon as stages are free. It waits for events
// only if the plan requires it: data choose the weights of a task, or state could be copied too early.
#include "mega/mega_threads.h"

#include <string.h>

// ---- the producer ----

static bool fill_stage(struct mega_thread *t, int access, const struct mega_box *b)
{
  struct mega_running *r = t->run;
  struct mega_ring *ring = &r->ring[t->worker];
  int64_t piece = t->taken++, stage = piece % r->p->m->stages;
  if (!mega_wait_ring(t, piece - r->p->m->stages + 1)) return false;
  mega_gather(t, access, b, ring->stage + stage * r->stage_floats);
  atomic_store_explicit(&ring->filled, piece + 1, memory_order_release);
  return true;
}

// Sets the elements of each box that data select. Waits for tagged words; an event was waited for before.
static bool choose_elements(struct mega_thread *t, int access, struct mega_region *r)
{
  const struct mega_plan *p = t->run->p;
  const struct mega_op *op = mega_op_of(p, t->node);
  const struct mega_access *a = &op->spec.access[access];
  if (a->decider < 0) return true;
  int64_t most = p->m->tensor[op->arg[a->arg]].dim[a->decided];
  struct mega_region from = {0};
  struct arena_mark mark = arena_mark(&t->own);
  mega_region(&t->own, p->m, op, a->decider, p->node[t->node].layer, t->tile, t->step, &from);
  bool known = mega_gather(t, a->decider, &from.box[0], t->scratch);
  arena_reset(&t->own, mark);
  if (!known) return false;
  for (int i = 0; i < r->n; i++) {
    float x = t->scratch[2 * i];
    if (!(x >= 0 && x < (float)most)) {
      mega_stop(t, false, "worker %d in step %d at %s tile %d: choice %d is %g, and there are %lld", t->worker, t->step, op->name, t->tile, i,
                (double)x, (long long)most);
      return false;
    }
    r->box[i].lo[a->decided] = (int64_t)x, r->box[i].hi[a->decided] = (int64_t)x + 1;
  }
  return true;
}

static bool fill_tile(struct mega_thread *t)
{
  const struct mega_plan *p = t->run->p;
  const struct mega_op *op = mega_op_of(p, t->node);
  if (!mega_wait_tile(t)) return false;
  for (int a = 0; a < op->spec.naccess; a++) {
    struct mega_region *r = &t->pieces;
    if (!op->spec.access[a].stream) continue;
    r->n = 0;
    mega_region(&t->own, p->m, op, a, p->node[t->node].layer, t->tile, t->step, r);
    if (!choose_elements(t, a, r)) return false;
    for (int i = 0; i < r->n; i++)
      for (int64_t k = 0; k < mega_pieces(p->m, op, a, &r->box[i]); k++) {
        struct mega_box b;
        mega_piece(p->m, op, a, &r->box[i], k, &b);
        if (!fill_stage(t, a, &b)) return false;
      }
  }
  return true;
}

void mega_produce(struct mega_thread *t)
{
  const struct mega_plan *p = t->run->p;
  for (t->step = 0; t->step < t->run->steps; t->step++)
    for (int n = 0; n < p->nnodes; n++) {
      t->node = p->pipe[n];
      struct mega_span s = mega_share(p, t->node, t->worker);
      for (t->tile = s.lo; t->tile < s.hi; t->tile++)
        if (!fill_tile(t)) return;
    }
}

// ---- the consumer's side ----

static void list_box(struct mega_thread *t, int access, const struct mega_box *box, struct mega_region *to)
{
  const struct mega_model *m = t->run->p->m;
  const struct mega_op *op = mega_op_of(t->run->p, t->node);
  for (int64_t k = 0; k < mega_pieces(m, op, access, box); k++) {
    struct mega_box b;
    mega_piece(m, op, access, box, k, &b);
    PUSH(&t->own, to->box, to->n, to->cap) = b;
  }
}

void mega_list_pieces(struct mega_thread *t, int step)
{
  const struct mega_plan *p = t->run->p;
  const struct mega_op *op = mega_op_of(p, t->node);
  struct mega_region whole = {0};
  t->pieces = (struct mega_region){0}, t->at = 0;
  for (int a = 0; a < op->spec.naccess; a++) {
    if (!op->spec.access[a].stream) continue;
    t->piece_access = a, whole.n = 0;
    mega_region(&t->own, p->m, op, a, p->node[t->node].layer, t->tile, step, &whole);
    for (int i = 0; i < whole.n; i++) list_box(t, a, &whole.box[i], &t->pieces);
  }
}

// Frees the stage of the piece that the body used last.
static void free_stage(struct mega_thread *t)
{
  if (t->holds) atomic_store_explicit(&t->run->ring[t->worker].freed, t->taken, memory_order_release);
  t->holds = false;
}

const float *mega_next_piece(struct mega_task *task)
{
  struct mega_thread *t = task->runner;
  struct mega_running *r = t->run;
  free_stage(t);
  if (t->at == t->pieces.n || !mega_wait_ring(t, t->taken + 1)) return NULL;
  task->piece = t->pieces.box[t->at++];
  task->piece_rank = task->op->spec.access[t->piece_access].rank;
  int64_t stage = t->taken++ % r->p->m->stages;
  t->holds = true;
  return r->ring[t->worker].stage + stage * r->stage_floats;
}

bool mega_finish_pieces(struct mega_thread *t, const struct mega_task *task)
{
  free_stage(t);
  return t->at == t->pieces.n && !task->fault;
}
