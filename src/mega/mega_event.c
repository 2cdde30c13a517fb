// Derives events: a work tile waits for the tiles that wrote the elements that it reads. Equal sets of producers share one event.
#include "mega/mega.h"

#include <string.h>

// ---- kinds ----

// The kind of an event, by the rule at MEGA_TAGGED_ROWS in mega.h.
static enum mega_signal kind_of(const struct mega_plan *p, const struct mega_event *ev)
{
  if (!ev->reuse && p->held[ev->tensor].tagged) return MEGA_TAGGED;
  bool many = p->m->rows > MEGA_TAGGED_ROWS && mega_event_tasks(p, ev) >= MEGA_FLAG_TASKS;
  return many && !ev->reuse ? MEGA_FLAG : MEGA_COUNTER;
}

static bool same(const struct mega_event *a, const struct mega_event *b)
{
  return a->node == b->node && a->nspans == b->nspans && a->kind == b->kind && a->reuse == b->reuse &&
         (a->kind != MEGA_TAGGED || a->tensor == b->tensor) && !memcmp(a->span, b->span, sizeof *a->span * (size_t)a->nspans);
}

int mega_event_add(struct arena *mem, struct mega_plan *p, const struct mega_event *given)
{
  struct mega_event ev = *given;
  ev.kind = kind_of(p, &ev);
  ev.ranks = ev.reuse ? 1 : mega_slots(p->m, &p->m->tensor[ev.tensor]);
  ev.release = ev.acquire = ev.barrier = mega_signals[ev.kind].flag;
  for (int i = p->nevents - 1; i >= 0; i--)
    if (same(&p->event[i], &ev)) return i;
  ev.span = arena_copy(mem, ev.span, sizeof *ev.span * (size_t)ev.nspans);
  ev.count = mega_event_count(p, &ev);
  PUSH(mem, p->event, p->nevents, p->events_cap) = ev;
  return p->nevents - 1;
}

// ---- derivation ----

struct mega_wanted { // producers of one box, cached
  struct mega_box box;
  int event; // or -1: no tile writes to the box
};
struct mega_deriving {
  struct arena *mem;
  struct mega_plan *p;
  int node, producer, access, tensor, back;
  bool stream;               // waits of the pipeline, for writes of the previous step
  struct mega_region *wrote; // by tile of the producer
  int nwanted, cap;
  struct mega_wanted *wanted;
};
enum { STEP_BEFORE, STEP }; // the steps that are examined: positions of a cache differ between them

static void regions_of_writer(struct mega_deriving *d)
{
  const struct mega_op *op = mega_op_of(d->p, d->producer);
  d->wrote = NEWS(d->mem, struct mega_region, op->tiles);
  for (int a = 0; a < op->spec.naccess; a++) {
    if (!op->spec.access[a].out || op->arg[op->spec.access[a].arg] != d->tensor) continue;
    for (int t = 0; t < op->tiles; t++)
      mega_region(d->mem, d->p->m, op, a, d->p->node[d->producer].layer, t, d->back ? STEP_BEFORE : STEP, &d->wrote[t]);
  }
}

static int producers_of(struct mega_deriving *d, const struct mega_box *b)
{
  int rank = d->p->m->tensor[d->tensor].rank, tiles = mega_op_of(d->p, d->producer)->tiles, cap = 0;
  bool ordered = mega_ordered(d->p->m, mega_op_of(d->p, d->producer)); // then any of its tiles may write the box
  struct mega_event ev = {.node = d->producer, .tensor = d->tensor};
  for (int t = 0; t < tiles; t++) {
    bool meets = ordered;
    for (int i = 0; i < d->wrote[t].n && !meets; i++) meets = mega_meet(rank, &d->wrote[t].box[i], b);
    if (!meets) continue;
    if (ev.nspans && ev.span[ev.nspans - 1].hi == t)
      ev.span[ev.nspans - 1].hi++;
    else
      PUSH(d->mem, ev.span, ev.nspans, cap) = (struct mega_span){t, t + 1};
  }
  return ev.nspans ? mega_event_add(d->mem, d->p, &ev) : -1;
}

static int event_for(struct mega_deriving *d, const struct mega_box *b)
{
  for (int i = d->nwanted - 1; i >= 0; i--)
    if (!memcmp(&d->wanted[i].box, b, sizeof *b)) return d->wanted[i].event;
  int event = producers_of(d, b);
  PUSH(d->mem, d->wanted, d->nwanted, d->cap) = (struct mega_wanted){*b, event};
  return event;
}

static void add_wait(struct mega_deriving *d, int tile, int event, int write)
{
  struct mega_plan *p = d->p;
  for (int i = p->nwaits - 1; i >= 0 && p->wait[i].node == d->node; i--) {
    struct mega_wait *w = &p->wait[i];
    if (w->event != event || w->back != d->back || w->stream != d->stream) continue;
    if (w->lo <= tile && tile < w->hi) return; // the tile has this wait already
    if (w->hi == tile) {
      w->hi++;
      return;
    }
  }
  PUSH(d->mem, p->wait, p->nwaits, p->waits_cap) = (struct mega_wait){d->node, tile, tile + 1, event, d->back, write, d->stream};
}

static void wait_for_writer(struct mega_deriving *d, int write)
{
  const struct mega_op *op = mega_op_of(d->p, d->node);
  struct mega_region r = {0};
  d->nwanted = d->cap = 0, d->wanted = NULL;
  regions_of_writer(d);
  for (int t = 0; t < op->tiles; t++) {
    r.n = 0;
    mega_reach(d->mem, d->p->m, op, d->access, d->p->node[d->node].layer, t, STEP, &r);
    for (int i = 0; i < r.n; i++) {
      int event = event_for(d, &r.box[i]);
      if (event >= 0) add_wait(d, t, event, write);
    }
  }
}

// Whether an access may read elements of this write. Elements of state may come from any of its writers; those of another tensor come from the last.
static bool may_write(const struct mega_deriving *d, int write, int last)
{
  const struct mega_plan *p = d->p;
  int from = p->held[d->tensor].write[write];
  bool layers = mega_op_of(p, from)->repeat && mega_op_of(p, d->node)->repeat;
  if (p->m->tensor[d->tensor].kind != MEGA_STATE) return write == last;
  return (d->stream || (from < d->node) != d->back) && (!layers || p->node[from].layer == p->node[d->node].layer);
}

static void wait_for_writers(struct mega_deriving *d, int last)
{
  const struct mega_held *h = &d->p->held[d->tensor];
  for (int w = 0; w < h->nwrites; w++) {
    if (!may_write(d, w, last)) continue;
    d->producer = h->write[w];
    wait_for_writer(d, w);
  }
}

// The pipeline waits for the data that select the elements which it copies.
static void derive_decider(struct mega_deriving *d)
{
  const struct mega_op *op = mega_op_of(d->p, d->node);
  const int decider = op->spec.access[d->access].decider;
  if (decider < 0) return;
  d->access = decider, d->stream = true;
  d->tensor = op->arg[op->spec.access[decider].arg];
  wait_for_writers(d, mega_read_write(d->p, d->node, d->tensor, &d->back));
}

static void derive_access(struct mega_deriving *d)
{
  const struct mega_op *op = mega_op_of(d->p, d->node);
  const struct mega_access *a = &op->spec.access[d->access];
  d->tensor = op->arg[a->arg];
  int last = mega_read_write(d->p, d->node, d->tensor, &d->back);
  if (last < 0 || a->out || a->stream != d->stream) return;
  if (d->stream) d->back = 1;
  wait_for_writers(d, last);
}

static void derive_node(struct arena *mem, struct mega_plan *p, int node, bool stream)
{
  for (int a = 0; a < mega_op_of(p, node)->spec.naccess; a++) {
    struct mega_deriving d = {.mem = mem, .p = p, .node = node, .access = a, .stream = stream};
    derive_access(&d);
  }
}

void mega_events_derive(struct arena *mem, struct mega_plan *p)
{
  for (int n = 0; n < p->nnodes; n++) {
    derive_node(mem, p, n, false);
    for (int a = 0; a < mega_op_of(p, n)->spec.naccess; a++) {
      struct mega_deriving d = {.mem = mem, .p = p, .node = n, .access = a};
      derive_decider(&d);
    }
  }
}

void mega_events_stream(struct arena *mem, struct mega_plan *p, int node) { derive_node(mem, p, node, true); }
