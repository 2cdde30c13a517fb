// Checks that each write of a tensor covers every element once, that reads stay within their tensor, and that state is written before it is read.
#include "mega/mega_prove.h"

#include <string.h>

static void check_bounds(struct mega_proving *v, int node, int tile, const struct mega_tensor *t, const struct mega_box *b)
{
  for (int d = 0; d < t->rank; d++)
    if (b->lo[d] < 0 || b->hi[d] > t->dim[d] || b->lo[d] > b->hi[d])
      mega_fault_add(v->p, v->out, MEGA_CHECK_REGIONS, node, tile, -1, "takes elements %lld to %lld of dimension %d of %s, which has %lld",
                     (long long)b->lo[d], (long long)b->hi[d] - 1, d, t->name, (long long)t->dim[d]);
}

// ---- tensors that are written as a whole ----

struct mega_painting {
  struct mega_proving *v;
  const struct mega_tensor *t;
  struct mega_paint *to;
  int node, tile;
  int64_t done;
};

static void paint_one(struct mega_painting *g, int64_t at)
{
  uint16_t *w = &g->to->tile[at];
  if (*w)
    mega_fault_add(g->v->p, g->v->out, MEGA_CHECK_REGIONS, g->node, g->tile, -1, "writes element %lld of %s, which tile %d writes too", (long long)at,
                   g->t->name, *w - 1);
  *w = (uint16_t)(g->tile + 1);
  g->done++;
}

static void paint(struct mega_painting *g, const struct mega_box *b, int d, int64_t at)
{
  for (int64_t i = b->lo[d]; i < b->hi[d]; i++) {
    int64_t next = at * g->t->dim[d] + i;
    if (d + 1 >= MIN(g->t->rank, MEGA_DIMS))
      paint_one(g, next);
    else
      paint(g, b, d + 1, next);
  }
}

static int paint_node(struct mega_painting *g, int tensor)
{
  const struct mega_plan *p = g->v->p;
  const struct mega_op *op = mega_op_of(p, g->node);
  struct mega_region r = {0};
  for (int a = 0; a < op->spec.naccess; a++) {
    if (!op->spec.access[a].out || op->arg[op->spec.access[a].arg] != tensor) continue;
    for (g->tile = 0; g->tile < op->tiles; g->tile++) {
      r.n = 0;
      mega_region(g->v->mem, p->m, op, a, p->node[g->node].layer, g->tile, 1, &r);
      for (int i = 0; i < r.n; i++) {
        check_bounds(g->v, g->node, g->tile, g->t, &r.box[i]);
        if (!g->v->out->nfaults) paint(g, &r.box[i], 0, 0);
      }
    }
  }
  return OK;
}

static int paint_tensor(struct mega_proving *v, int tensor, struct err *e)
{
  const struct mega_held *h = &v->p->held[tensor];
  const struct mega_tensor *t = &v->p->m->tensor[tensor];
  int64_t n = mega_elements(t);
  v->paint[tensor] = NEWS(v->mem, struct mega_paint, h->nwrites);
  for (int w = 0; w < h->nwrites && !v->out->nfaults; w++) {
    struct mega_painting g = {v, t, &v->paint[tensor][w], h->write[w]};
    if (!(g.to->tile = arena_try(v->mem, sizeof(uint16_t) * (size_t)n)))
      return err_set(e, ERR_MEMORY, NOWHERE, "no memory for the map of the writers of %s", t->name);
    TRY(paint_node(&g, tensor));
    for (int64_t i = 0; i < n && g.done < n && !v->out->nfaults; i++)
      if (!g.to->tile[i])
        mega_fault_add(v->p, v->out, MEGA_CHECK_REGIONS, g.node, -1, -1, "no tile writes element %lld of %s", (long long)i, t->name);
    v->out->looked[MEGA_CHECK_REGIONS] += n;
  }
  return OK;
}

// ---- state ----

static bool same_tile(void *arg, const struct mega_touch *t) { return t->tile == ((const struct mega_touch *)arg)->tile; }
static bool never(void *arg, const struct mega_touch *t) { return (void)arg, (void)t, false; }

struct mega_states {
  struct mega_region filled;           // before the first step
  struct mega_touches *writes, *reads; // reads: of the current instance
};

static void write_state(struct mega_proving *v, struct mega_states *s, int tensor, const struct mega_touch *t)
{
  int rank = v->p->m->tensor[tensor].rank, node = t->instance % v->p->nnodes;
  const struct mega_touch *other = mega_touch_find(s->writes, rank, &t->box, never, NULL);
  if (other && other->instance == t->instance)
    mega_fault_add(v->p, v->out, MEGA_CHECK_REGIONS, node, t->tile, -1, "writes elements of %s that tile %d writes too", v->p->m->tensor[tensor].name,
                   other->tile);
  other = mega_touch_find(s->reads, rank, &t->box, same_tile, (void *)t);
  if (other)
    mega_fault_add(v->p, v->out, MEGA_CHECK_REGIONS, node, t->tile, -1, "writes elements of %s that tile %d reads", v->p->m->tensor[tensor].name,
                   other->tile);
  mega_touch_add(v->mem, s->writes, t);
}

static void read_state(struct mega_proving *v, struct mega_states *s, int tensor, const struct mega_touch *t)
{
  const struct mega_tensor *x = &v->p->m->tensor[tensor];
  struct mega_box left;
  struct mega_region have = {0};
  mega_touch_add(v->mem, s->reads, t);
  struct arena_mark mark = arena_mark(v->mem);
  if (mega_covered(v->mem, x->rank, &t->box, &s->filled, &left)) return;
  for (int i = 0; i < s->filled.n; i++) PUSH(v->mem, have.box, have.n, have.cap) = s->filled.box[i];
  for (int64_t d = t->box.lo[0]; d < MIN(t->box.hi[0], t->box.lo[0] + MEGA_BUCKETS); d++)
    for (int i = 0; i < s->writes->n[d % MEGA_BUCKETS]; i++)
      if (s->writes->at[d % MEGA_BUCKETS][i].instance < t->instance)
        PUSH(v->mem, have.box, have.n, have.cap) = s->writes->at[d % MEGA_BUCKETS][i].box;
  if (!mega_covered(v->mem, x->rank, &t->box, &have, &left)) {
    struct str text = {0};
    mega_box_text(x->rank, &left, &text);
    mega_fault_add(v->p, v->out, MEGA_CHECK_REGIONS, t->instance % v->p->nnodes, t->tile, -1, "reads %s%s in step %d, which was never written",
                   x->name, str_text(&text), t->instance / v->p->nnodes);
    str_free(&text);
  }
  arena_reset(v->mem, mark);
}

static void state_node(struct mega_proving *v, struct mega_states *s, int instance)
{
  const struct mega_plan *p = v->p;
  int node = instance % p->nnodes, step = instance / p->nnodes;
  const struct mega_op *op = mega_op_of(p, node);
  struct mega_region r = {0};
  for (int t = 0; t < p->m->ntensors; t++)
    if (s[t].reads) memset(s[t].reads->n, 0, sizeof s[t].reads->n);
  for (int writes = 0; writes < 2; writes++)
    for (int a = 0; a < op->spec.naccess; a++) {
      const struct mega_access *x = &op->spec.access[a];
      int tensor = op->arg[x->arg];
      if (x->out != writes || p->m->tensor[tensor].kind != MEGA_STATE) continue;
      for (int t = 0; t < op->tiles; t++) {
        r.n = 0;
        mega_region(v->mem, p->m, op, a, p->node[node].layer, t, step, &r);
        for (int i = 0; i < r.n; i++) {
          struct mega_touch touch = {r.box[i], instance, -1, t};
          check_bounds(v, node, t, &p->m->tensor[tensor], &r.box[i]);
          v->out->looked[MEGA_CHECK_REGIONS]++;
          (writes ? write_state : read_state)(v, &s[tensor], tensor, &touch);
        }
      }
    }
}

// ---- all ----

static void read_bounds(struct mega_proving *v, int node)
{
  const struct mega_plan *p = v->p;
  const struct mega_op *op = mega_op_of(p, node);
  struct mega_region r = {0};
  for (int a = 0; a < op->spec.naccess; a++)
    for (int t = 0; t < op->tiles; t++) {
      const struct mega_tensor *x = &p->m->tensor[op->arg[op->spec.access[a].arg]];
      if (x->kind == MEGA_STATE) continue;
      r.n = 0;
      mega_region(v->mem, p->m, op, a, p->node[node].layer, t, 1, &r);
      for (int i = 0; i < r.n; i++) check_bounds(v, node, t, x, &r.box[i]);
      v->out->looked[MEGA_CHECK_REGIONS] += r.n;
    }
}

int mega_prove_regions(struct mega_proving *v, struct err *e)
{
  const struct mega_model *m = v->p->m;
  struct mega_states *s = NEWS(v->mem, struct mega_states, m->ntensors);
  for (int n = 0; n < v->p->nnodes; n++) read_bounds(v, n);
  for (int t = 0; t < m->ntensors && !v->out->nfaults; t++) {
    if (m->tensor[t].kind == MEGA_STATE)
      mega_filled(v->mem, m, t, &s[t].filled), s[t].writes = NEW(v->mem, struct mega_touches), s[t].reads = NEW(v->mem, struct mega_touches);
    else if (v->p->held[t].nwrites)
      TRY(paint_tensor(v, t, e));
  }
  for (int i = 0; i < MEGA_STEPS * v->p->nnodes && !v->out->nfaults; i++) state_node(v, s, i);
  return OK;
}
