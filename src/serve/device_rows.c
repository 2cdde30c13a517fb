// The rows of each worker's tables: its tasks, and the events that they wait for and publish. mega_host.cuh makes the same rows from the tables in
// the emitted text.
#include "serve/serve_device.h"

#include <string.h>

struct device_task {
  uint16_t layer, lo, hi, wait, nwaits, publish;
  uint8_t op, npublish, turn, pad;
};
struct device_wait {
  uint16_t word, count, event;
  uint8_t back, stream;
};
struct device_publish {
  uint16_t word, add;
};
_Static_assert(sizeof(struct device_task) == MEGACUDA_NODE_ROW && sizeof(struct device_wait) == MEGACUDA_WAIT_ROW &&
                   sizeof(struct device_publish) == MEGACUDA_PUBLISH_ROW,
               "as in mega_device.cuh");

struct device_filling {
  const struct mega_plan *p;
  struct megacuda_most most; // maximal number of rows of a worker
  int planted, *base;        // base: first word by event
  struct device_task *node;
  struct device_wait *wait;
  struct device_publish *publish;
  int worker, nwaits, npublishes; // nwaits, npublishes: rows of this worker so far
};

static void add_waits(struct device_filling *f, int n, struct device_task *r)
{
  const struct mega_plan *p = f->p;
  struct mega_span s = mega_share(p, n, f->worker);
  for (int i = 0; i < p->nwaits; i++) {
    const struct mega_wait *x = &p->wait[i];
    const struct mega_event *ev = &p->event[x->event];
    bool flag = ev->kind == MEGA_FLAG;
    if (x->node != n || ev->kind == MEGA_TAGGED || MAX(s.lo, x->lo) >= MIN(s.hi, x->hi)) continue;
    for (int k = 0; k < (flag ? p->m->workers : 1); k++) {
      if (flag && !mega_shared_tiles(ev, mega_share(p, ev->node, k))) continue;
      f->wait[f->worker * f->most.waits + f->nwaits++] =
          (struct device_wait){(uint16_t)(f->base[x->event] + k), (uint16_t)((flag ? 1 : ev->count) + (x->event == f->planted)), (uint16_t)x->event,
                               (uint8_t)x->back, x->stream};
      r->nwaits++;
    }
  }
}

static void add_publishes(struct device_filling *f, int n, struct device_task *r)
{
  const struct mega_plan *p = f->p;
  for (int e = 0; e < p->nevents; e++) {
    const struct mega_event *ev = &p->event[e];
    bool flag = ev->kind == MEGA_FLAG;
    int64_t tiles = ev->node == n && ev->kind != MEGA_TAGGED ? mega_shared_tiles(ev, mega_share(p, n, f->worker)) : 0;
    if (!tiles) continue;
    f->publish[f->worker * f->most.publishes + f->npublishes++] =
        (struct device_publish){(uint16_t)(f->base[e] + (flag ? f->worker : 0)), flag ? 0 : (uint16_t)tiles};
    r->npublish++;
  }
}

static void fill_worker(struct device_filling *f)
{
  const struct mega_plan *p = f->p;
  bool turn = false;
  f->nwaits = f->npublishes = 0;
  for (int n = 0; n < p->nnodes; n++) {
    struct mega_span s = mega_share(p, n, f->worker);
    struct device_task *r = &f->node[f->worker * p->nnodes + n];
    turn ^= s.hi > s.lo;
    *r = (struct device_task){.op = (uint8_t)p->node[n].op,
                              .layer = (uint16_t)p->node[n].layer,
                              .lo = (uint16_t)s.lo,
                              .hi = (uint16_t)s.hi,
                              .wait = (uint16_t)f->nwaits,
                              .publish = (uint16_t)f->npublishes,
                              .turn = turn};
    add_waits(f, n, r), add_publishes(f, n, r);
  }
}

int device_planted(const struct mega_plan *p)
{
  int best = -1;
  for (int i = 0; i < p->nwaits; i++)
    if (p->event[p->wait[i].event].kind == MEGA_COUNTER && (best < 0 || !p->wait[i].back)) best = p->wait[i].event;
  return best;
}

void device_rows(struct arena *mem, const struct mega_plan *p, int planted, struct device_tables *out)
{
  struct device_filling f = {.p = p, .planted = planted, .base = NEWS(mem, int, p->nevents + 1)};
  int workers = p->m->workers;
  *out = (struct device_tables){0};
  megacuda_count_rows(p, &f.most);
  for (int i = 0; i < p->nevents; i++) {
    f.base[i] = out->words;
    if (p->event[i].kind != MEGA_TAGGED) out->words += p->event[i].kind == MEGA_FLAG ? workers : 1;
  }
  f.node = NEWS(mem, struct device_task, workers * p->nnodes), f.wait = NEWS(mem, struct device_wait, workers * f.most.waits);
  f.publish = NEWS(mem, struct device_publish, workers * f.most.publishes);
  for (f.worker = 0; f.worker < workers; f.worker++) fill_worker(&f);
  out->node = f.node, out->wait = f.wait, out->publish = f.publish;
  out->node_bytes = sizeof *f.node * (size_t)(workers * p->nnodes), out->wait_bytes = sizeof *f.wait * (size_t)(workers * f.most.waits);
  out->publish_bytes = sizeof *f.publish * (size_t)(workers * f.most.publishes);
}
