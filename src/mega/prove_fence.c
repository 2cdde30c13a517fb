// Checks that the pipeline copies state only after threads have written it, with a proxy fence between. A copy begins as soon as a stage is free. So
// the task that freed the stage must be ordered after the write, and must have a fence. Pieces of a cache that requests share are not counted,
// because there may be none. The pipeline is then as far ahead as it can ever be.
#include "mega/mega_prove.h"

struct mega_fencing {
  struct mega_proving *v;
  int worker, instance, tile, tensor;
  int freed;                        // instance whose task frees the stage; -1: the stage is initially empty
  struct mega_touches *writes;      // by tensor
  const struct mega_touch *ordered; // a write that is ordered before the copy, but without the fence
};

static bool known_at(const struct mega_fencing *f, int instance, const struct mega_touch *t)
{
  if (instance < 0) return false;
  if (t->worker == f->worker) return t->instance < instance;
  return mega_over(mega_begun(&f->v->clocks, instance, f->worker)->of[MEGA_ALL], t->worker, t->instance);
}

// Whether the producer itself waits for the write. It has a fence of its own after the wait.
static bool awaited(const struct mega_fencing *f, const struct mega_touch *t)
{
  const struct mega_clocks *c = &f->v->clocks;
  int node = f->instance % c->p->nnodes, step = f->instance / c->p->nnodes;
  for (int i = c->first_wait[node]; i < c->first_wait[node + 1]; i++) {
    const struct mega_wait *x = &c->p->wait[i];
    if (!x->stream || !mega_event_orders(&c->p->event[x->event]) || x->lo > f->tile || f->tile >= x->hi || step < x->back) continue;
    if (mega_over(c->event[(step - x->back) * c->p->nevents + x->event].of[MEGA_ALL], t->worker, t->instance)) return true;
  }
  return false;
}

static bool fine(void *arg, const struct mega_touch *t)
{
  struct mega_fencing *f = arg;
  const struct mega_clocks *c = &f->v->clocks;
  int fence = f->freed > 0 ? c->fenced[(size_t)(f->freed - 1) * (size_t)c->p->m->workers + (size_t)f->worker] : -1;
  if (t->instance >= f->instance || known_at(f, fence, t) || awaited(f, t)) return true;
  f->ordered = known_at(f, f->freed, t) ? t : NULL;
  return false;
}

static void check_piece(struct mega_fencing *f, const struct mega_box *b, int64_t piece)
{
  const struct mega_plan *p = f->v->p;
  char name[80];
  f->freed = mega_stage_freed_by(f->v, &f->v->least[f->worker], piece);
  f->v->out->looked[MEGA_CHECK_FENCE]++;
  const struct mega_touch *t = mega_touch_find(&f->writes[f->tensor], p->m->tensor[f->tensor].rank, b, fine, f);
  if (!t) return;
  if (f->v->ahead) f->v->ahead[f->instance % p->nnodes] = true;
  mega_node_name(p, t->instance % p->nnodes, name);
  mega_fault_add(p, f->v->out, MEGA_CHECK_FENCE, f->instance % p->nnodes, f->tile, -1,
                 f->ordered ? "the pipeline copies %s, which tile %d of %s wrote, without a proxy fence between"
                            : "the pipeline may copy %s before tile %d of %s has written it",
                 p->m->tensor[f->tensor].name, t->tile, name);
}

// Checks the pieces of the tile's streams in the order in which the pipeline copies them. Pieces of weights are only counted.
static void check_tile(struct mega_fencing *f, int64_t *piece, struct mega_region *r)
{
  const struct mega_plan *p = f->v->p;
  int node = f->instance % p->nnodes;
  const struct mega_op *op = mega_op_of(p, node);
  for (int a = 0; a < op->spec.naccess; a++) {
    const struct mega_access *x = &op->spec.access[a];
    const bool table = mega_paged(p->m, op, true);
    if (!x->stream) continue;
    f->tensor = op->arg[x->arg], r->n = 0;
    // While a plan is being made, waits cover all positions of requests.
    (f->v->ahead ? mega_reach : mega_region)(f->v->mem, p->m, op, a, p->node[node].layer, f->tile, f->instance / p->nnodes, r);
    for (int i = 0; i < r->n; i++) {
      int64_t n = mega_pieces(p->m, op, a, &r->box[i]);
      for (int64_t k = 0; k < n && p->held[f->tensor].nwrites; k++) {
        struct mega_box b;
        mega_piece(p->m, op, a, &r->box[i], k, &b);
        check_piece(f, &b, *piece + (table ? 0 : k));
      }
      *piece += table ? 0 : n;
    }
  }
}

static void remember_writes(struct mega_fencing *f, struct mega_region *r)
{
  const struct mega_plan *p = f->v->p;
  int node = f->instance % p->nnodes;
  const struct mega_op *op = mega_op_of(p, node);
  for (int a = 0; a < op->spec.naccess; a++) {
    int tensor = op->arg[op->spec.access[a].arg];
    if (!op->spec.access[a].out || p->m->tensor[tensor].kind != MEGA_STATE) continue;
    for (int w = 0; w < p->m->workers; w++) {
      struct mega_span s = mega_share(p, node, w);
      for (int t = s.lo; t < s.hi; t++) {
        r->n = 0;
        mega_region(f->v->mem, p->m, op, a, p->node[node].layer, t, f->instance / p->nnodes, r);
        for (int i = 0; i < r->n; i++) {
          struct mega_touch touch = {r->box[i], f->instance, w, t};
          mega_touch_add(f->v->mem, &f->writes[tensor], &touch);
        }
      }
    }
  }
}

// Checks tasks whose feeder copies an activation into shared memory. The copy follows their waits and a fence, which the emitted text places by
// operator.
static void check_copies(struct mega_proving *v, int node)
{
  const struct mega_plan *p = v->p;
  const struct mega_op *op = mega_op_of(p, node);
  for (int a = 0; a < op->spec.naccess; a++) {
    int tensor = op->arg[op->spec.access[a].arg];
    if (p->held[tensor].load != MEGA_LOAD_BULK || !mega_input_of_rows(p->m, op, a)) continue;
    v->out->looked[MEGA_CHECK_FENCE]++;
    if (!p->fence[node])
      mega_fault_add(p, v->out, MEGA_CHECK_FENCE, node, -1, -1, "copies %s, which threads wrote, without a proxy fence after its waits",
                     p->m->tensor[tensor].name);
  }
}

int mega_prove_fence(struct mega_proving *v, struct err *e)
{
  const struct mega_plan *p = v->p;
  int n = MEGA_STEPS * p->nnodes;
  struct mega_region r = {0};
  struct mega_fencing f = {.v = v, .writes = NEWS(v->mem, struct mega_touches, p->m->ntensors)};
  (void)e;
  for (int node = 0; node < p->nnodes; node++) check_copies(v, node);
  for (f.instance = 0; f.instance < n; f.instance++) remember_writes(&f, &r);
  for (f.worker = 0; f.worker < p->m->workers; f.worker++)
    for (int i = 0; i < n; i++) {
      const struct mega_stream *s = &v->least[f.worker];
      f.instance = s->instance[i];
      struct mega_span x = mega_share(p, f.instance % p->nnodes, f.worker);
      int64_t piece = s->start[i];
      for (f.tile = x.lo; f.tile < x.hi; f.tile++) check_tile(&f, &piece, &r);
    }
  return OK;
}
