// Checks that each element is written before a tile reads it, by the clock of the tile after its waits. A tile that polls tagged words needs no
// clock. A pipeline requests weights that data select only after its producer has waited for these data.
#include "mega/mega_prove.h"

#include <string.h>

struct mega_source { // the writers of a box that is read
  struct mega_box box;
  int nspans;
  struct mega_span *span;
};
struct mega_ordering {
  struct mega_proving *v;
  struct mega_known known; // of the tile
  int instance, worker, tile, node, tensor;
  struct mega_touches *writes; // by tensor of state
  int nsources, cap;           // of this access of this node
  struct mega_source *source;
};

// ---- writers, by the map of elements ----

static void collect(const struct mega_tensor *t, const uint16_t *tile, const struct mega_box *b, int d, int64_t at, bool *found)
{
  for (int64_t i = b->lo[d]; i < b->hi[d]; i++) {
    int64_t next = at * t->dim[d] + i;
    if (d + 1 >= MIN(t->rank, MEGA_DIMS))
      found[tile[next]] = true;
    else
      collect(t, tile, b, d + 1, next, found);
  }
}

static const struct mega_source *source_of(struct mega_ordering *o, const struct mega_box *b, int write, int writer)
{
  const struct mega_plan *p = o->v->p;
  for (int i = o->nsources - 1; i >= 0; i--)
    if (!memcmp(&o->source[i].box, b, sizeof *b)) return &o->source[i];
  int tiles = mega_op_of(p, writer)->tiles, cap = 0;
  bool *found = NEWS(o->v->mem, bool, tiles + 1);
  PUSH(o->v->mem, o->source, o->nsources, o->cap) = (struct mega_source){.box = *b};
  struct mega_source *s = &o->source[o->nsources - 1];
  collect(&p->m->tensor[o->tensor], o->v->paint[o->tensor][write].tile, b, 0, 0, found);
  for (int t = 0; t < tiles; t++) {
    if (!found[t + 1]) continue;
    if (s->nspans && s->span[s->nspans - 1].hi == t)
      s->span[s->nspans - 1].hi++;
    else
      PUSH(o->v->mem, s->span, s->nspans, cap) = (struct mega_span){t, t + 1};
  }
  return s;
}

// ---- tensors that are written as a whole ----

// Whether the tile polls the words of these tiles: it waits for tagged data of all of them.
static bool polled(const struct mega_ordering *o, const struct mega_span *s, int writer, int back)
{
  const struct mega_plan *p = o->v->p;
  const struct mega_clocks *c = &o->v->clocks;
  for (int i = c->first_wait[o->node]; i < c->first_wait[o->node + 1]; i++) {
    const struct mega_wait *x = &p->wait[i];
    const struct mega_event *ev = &p->event[x->event];
    if (x->stream || x->lo > o->tile || o->tile >= x->hi || ev->kind != MEGA_TAGGED || ev->node != writer || ev->tensor != o->tensor ||
        x->back != back || ev->ranks != mega_slots(p->m, &p->m->tensor[o->tensor]))
      continue;
    if (mega_shared_tiles(ev, *s) == s->hi - s->lo) return true;
  }
  return false;
}

static void check_source(struct mega_ordering *o, const struct mega_span *s, int write, int back)
{
  const struct mega_plan *p = o->v->p;
  int writer = p->held[o->tensor].write[write], instance = (o->instance / p->nnodes - back) * p->nnodes + writer;
  if (polled(o, s, writer, back)) return;
  for (int w = 0; w < p->m->workers; w++) {
    struct mega_span x = mega_share(p, writer, w);
    int lo = MAX(x.lo, s->lo), hi = MIN(x.hi, s->hi);
    char name[80];
    if (lo >= hi || w == o->worker || mega_over(o->known.of[MEGA_ALL], w, instance)) continue;
    mega_node_name(p, writer, name);
    mega_fault_add(p, o->v->out, MEGA_CHECK_ORDER, o->node, o->tile, -1, "reads %s, but no event orders this after tile %d of %s writes it",
                   p->m->tensor[o->tensor].name, lo, name);
    return;
  }
}

static void check_whole(struct mega_ordering *o, const struct mega_box *b)
{
  const struct mega_plan *p = o->v->p;
  int back, write = mega_read_write(p, o->node, o->tensor, &back);
  if (write < 0 || o->instance / p->nnodes < back) return;
  const struct mega_source *s = source_of(o, b, write, p->held[o->tensor].write[write]);
  o->v->out->looked[MEGA_CHECK_ORDER]++;
  for (int i = 0; i < s->nspans; i++) check_source(o, &s->span[i], write, back);
}

// ---- data that select the weights of a pipeline ----

// Whether the producer waits for these tiles before it requests the tile's pieces. It polls their words, or an event orders them.
static bool producer_waited(const struct mega_ordering *o, const struct mega_span *s, int writer, int back)
{
  const struct mega_plan *p = o->v->p;
  const struct mega_clocks *c = &o->v->clocks;
  for (int i = c->first_wait[o->node]; i < c->first_wait[o->node + 1]; i++) {
    const struct mega_wait *x = &p->wait[i];
    const struct mega_event *ev = &p->event[x->event];
    bool orders = mega_event_orders(ev), words = ev->kind == MEGA_TAGGED && ev->tensor == o->tensor;
    if (!x->stream || x->lo > o->tile || o->tile >= x->hi || ev->node != writer || x->back != back || (!orders && !words)) continue;
    if (mega_shared_tiles(ev, *s) == s->hi - s->lo) return true;
  }
  return false;
}

static void check_decider(struct mega_ordering *o, int access, struct mega_region *r)
{
  const struct mega_plan *p = o->v->p;
  const struct mega_op *op = mega_op_of(p, o->node);
  int back, decider = op->spec.access[access].decider;
  char name[80];
  if (decider < 0) return;
  o->tensor = op->arg[op->spec.access[decider].arg], r->n = 0;
  mega_region(o->v->mem, p->m, op, decider, p->node[o->node].layer, o->tile, o->instance / p->nnodes, r);
  int write = mega_read_write(p, o->node, o->tensor, &back);
  if (write < 0 || o->instance / p->nnodes < back) return;
  int writer = p->held[o->tensor].write[write];
  const struct mega_source *s = source_of(o, &r->box[0], write, writer);
  o->v->out->looked[MEGA_CHECK_ORDER]++;
  for (int i = 0; i < s->nspans; i++) {
    if (producer_waited(o, &s->span[i], writer, back)) continue;
    mega_node_name(p, writer, name);
    mega_fault_add(p, o->v->out, MEGA_CHECK_ORDER, o->node, o->tile, -1,
                   "the pipeline may request %s before tile %d of %s has written %s, which selects the elements",
                   p->m->tensor[op->arg[op->spec.access[access].arg]].name, s->span[i].lo, name, p->m->tensor[o->tensor].name);
    return;
  }
}

// ---- state ----

static bool written_before(void *arg, const struct mega_touch *t)
{
  const struct mega_ordering *o = arg;
  return t->instance >= o->instance || t->worker == o->worker || mega_over(o->known.of[MEGA_ALL], t->worker, t->instance);
}

static void check_state(struct mega_ordering *o, const struct mega_box *b)
{
  const struct mega_plan *p = o->v->p;
  const struct mega_touch *t = mega_touch_find(&o->writes[o->tensor], p->m->tensor[o->tensor].rank, b, written_before, o);
  char name[80];
  o->v->out->looked[MEGA_CHECK_ORDER]++;
  if (!t) return;
  mega_node_name(p, t->instance % p->nnodes, name);
  mega_fault_add(p, o->v->out, MEGA_CHECK_ORDER, o->node, o->tile, -1, "reads %s, but no event orders this after tile %d of %s writes it",
                 p->m->tensor[o->tensor].name, t->tile, name);
}

// ---- all tiles ----

static void check_access(struct mega_ordering *o, int access, bool writes, struct mega_region *r)
{
  const struct mega_plan *p = o->v->p;
  const struct mega_op *op = mega_op_of(p, o->node);
  const struct mega_access *a = &op->spec.access[access];
  if (a->stream && !writes) check_decider(o, access, r);
  o->tensor = op->arg[a->arg];
  bool state = p->m->tensor[o->tensor].kind == MEGA_STATE;
  if (a->out != writes || a->stream || !p->held[o->tensor].nwrites || (writes && !state)) return;
  r->n = 0;
  mega_region(o->v->mem, p->m, op, access, p->node[o->node].layer, o->tile, o->instance / p->nnodes, r);
  for (int i = 0; i < r->n; i++) {
    struct mega_touch t = {r->box[i], o->instance, o->worker, o->tile};
    if (writes)
      mega_touch_add(o->v->mem, &o->writes[o->tensor], &t);
    else if (state)
      check_state(o, &r->box[i]);
    else
      check_whole(o, &r->box[i]);
  }
}

static void check_node(struct mega_ordering *o, bool writes)
{
  const struct mega_plan *p = o->v->p;
  const struct mega_op *op = mega_op_of(p, o->node);
  struct mega_region r = {0};
  for (int a = 0; a < op->spec.naccess; a++) {
    o->nsources = o->cap = 0, o->source = NULL;
    for (o->worker = 0; o->worker < p->m->workers; o->worker++) {
      struct mega_span s = mega_share(p, o->node, o->worker);
      mega_clock_start(&o->v->clocks, o->instance, o->worker, &o->known);
      for (o->tile = s.lo; o->tile < s.hi; o->tile++) {
        mega_clock_tile(&o->v->clocks, o->instance, o->worker, o->tile, &o->known);
        check_access(o, a, writes, &r);
      }
    }
  }
}

int mega_prove_order(struct mega_proving *v, struct err *e)
{
  const struct mega_plan *p = v->p;
  struct mega_ordering o = {.v = v};
  if (!mega_clocks_make(v->mem, p, &v->clocks)) return err_set(e, ERR_MEMORY, NOWHERE, "no memory for the clocks of %d workers", p->m->workers);
  o.known = mega_known_new(v->mem, p);
  o.writes = NEWS(v->mem, struct mega_touches, p->m->ntensors);
  for (o.instance = 0; o.instance < MEGA_STEPS * p->nnodes; o.instance++)
    for (int writes = 0; writes < 2; writes++) o.node = o.instance % p->nnodes, check_node(&o, writes);
  return OK;
}
