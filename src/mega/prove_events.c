// Checks that each wait is for the tiles that publish its event, and for the write that the tile reads.
#include "mega/mega_prove.h"

static bool event_sound(struct mega_proving *v, int e)
{
  const struct mega_plan *p = v->p;
  const struct mega_event *ev = &p->event[e];
  int tiles = ev->node >= 0 && ev->node < p->nnodes ? mega_op_of(p, ev->node)->tiles : 0;
  bool fine = ev->nspans > 0;
  for (int i = 0; i < ev->nspans; i++)
    fine &= ev->span[i].lo >= (i ? ev->span[i - 1].hi : 0) && ev->span[i].lo < ev->span[i].hi && ev->span[i].hi <= tiles;
  if (!fine)
    mega_fault_add(p, v->out, MEGA_CHECK_COUNTS, tiles ? ev->node : -1, -1, e, "the tiles that publish it are not ascending tiles of the node");
  return fine;
}

int mega_prove_counts(struct mega_proving *v, struct err *err)
{
  const struct mega_plan *p = v->p;
  bool *awaited = NEWS(v->mem, bool, p->nevents + 1);
  (void)err;
  for (int i = 0; i < p->nwaits; i++) {
    const struct mega_wait *x = &p->wait[i];
    bool fine = x->event >= 0 && x->event < p->nevents && x->lo < x->hi && x->lo >= 0 && x->hi <= mega_op_of(p, x->node)->tiles && x->back >= 0;
    if (!fine)
      mega_fault_add(p, v->out, MEGA_CHECK_COUNTS, x->node, x->lo, -1, "a wait for event %d by tiles %d to %d is ill-formed", x->event, x->lo,
                     x->hi - 1);
    else
      awaited[x->event] = true;
  }
  for (int e = 0; e < p->nevents; e++) {
    const struct mega_event *ev = &p->event[e];
    v->out->looked[MEGA_CHECK_COUNTS]++;
    if (!event_sound(v, e)) continue;
    int ranks = ev->reuse ? 1 : mega_slots(p->m, &p->m->tensor[ev->tensor]);
    if (ev->ranks != ranks)
      mega_fault_add(p, v->out, MEGA_CHECK_COUNTS, ev->node, -1, e, "it is awaited from %d ranks, but %d publish it", ev->ranks, ranks);
    int64_t published = mega_event_count(p, ev);
    if (published != ev->count)
      mega_fault_add(p, v->out, MEGA_CHECK_COUNTS, ev->node, -1, e, "each step awaits %lld signals, but %lld are published", (long long)ev->count,
                     (long long)published);
    if (!awaited[e]) mega_fault_add(p, v->out, MEGA_CHECK_COUNTS, ev->node, -1, e, "no tile waits for it");
  }
  return OK;
}

// ---- epochs ----

// The number of steps between the node and the last publication of the event before it in a sequential program. The pipeline copies state of the
// previous step.
static int expected_back(const struct mega_plan *p, const struct mega_wait *x)
{
  const struct mega_event *ev = &p->event[x->event];
  return (x->stream && p->m->tensor[ev->tensor].kind == MEGA_STATE) || ev->node >= x->node;
}

static bool reads_tensor(const struct mega_op *op, int tensor)
{
  for (int a = 0; a < op->spec.naccess; a++)
    if (!op->spec.access[a].out && op->arg[op->spec.access[a].arg] == tensor) return true;
  return false;
}

int mega_prove_epochs(struct mega_proving *v, struct err *err)
{
  const struct mega_plan *p = v->p;
  (void)err;
  for (int i = 0; i < p->nwaits; i++) {
    const struct mega_wait *x = &p->wait[i];
    const struct mega_event *ev = &p->event[x->event];
    const struct mega_held *h = &p->held[ev->tensor];
    v->out->looked[MEGA_CHECK_EPOCHS]++;
    if (x->back != expected_back(p, x))
      mega_fault_add(p, v->out, MEGA_CHECK_EPOCHS, x->node, x->lo, x->event, "waits for the epoch of %d steps before, but must wait for that of %d",
                     x->back, expected_back(p, x));
    if (ev->reuse) continue;
    if (!reads_tensor(mega_op_of(p, x->node), ev->tensor))
      mega_fault_add(p, v->out, MEGA_CHECK_EPOCHS, x->node, x->lo, x->event, "waits for %s, which it does not read", p->m->tensor[ev->tensor].name);
    bool known = x->write >= 0 && x->write < h->nwrites;
    if (!known || h->write[x->write] != ev->node)
      mega_fault_add(p, v->out, MEGA_CHECK_EPOCHS, x->node, x->lo, x->event, "waits for write %d of %s, but the event follows another write",
                     x->write, p->m->tensor[ev->tensor].name);
  }
  return OK;
}
