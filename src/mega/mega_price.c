// The modelled time of a step. The model has a pipeline and consumers for each worker, one memory for all, and events with measured latencies
// (fact.def). Memory transfers pieces through L2 in the order in which pipelines request them. Three steps are simulated, and the last one is the
// result, because the first ones begin with empty pipelines.
#include "mega/mega.h"

#include <math.h>
#include <string.h>

const struct mega_fact mega_facts[] = {
#define FACT(id, value, unit, doc) {#id, value, unit, doc},
#include "mega/fact.def"
};
enum fact {
#define FACT(id, ...) FACT_##id,
#include "mega/fact.def"
  FACTS
};
static double ns_of(enum fact f) { return mega_facts[f].value; }

enum { PRICED_STEPS = 3, AT_ONCE = 4 }; // AT_ONCE: parts of attention that an operator loads at once
enum price_kind { CONSUME, PRODUCE };

struct price_entry { // an entry of the queue of simulated actions
  double at;
  int worker;
  enum price_kind kind;
};
struct price_heap {
  int n, cap;
  struct price_entry *e;
};
struct price_op {           // of an operator
  int *first, npieces, cap; // first piece of a tile; tiles + 1 of them
  int *bytes;
  double begin, piece, tile; // ns of a task, of 16 KB, of a tile
  double fed;                // bytes of the input with many rows that are read from L2 with a piece of the weights, or with a piece of the input
};
struct price_event { // of one step
  int left;          // tasks that have not published it
  double at;         // time of the last publication
};
struct price_place { // a position in the order of a worker's pieces
  int step, node, tile, piece;
};
struct price_worker {
  struct price_place now, fill; // of the consumers, where piece -1 is between tasks; of the pipeline
  int64_t made, taken;
  double *arrival;  // by stage
  int used, asked;  // of the task: pieces of weights that were consumed; pieces of the input that were requested
  double *input;    // by slot: arrival of a piece of the input
  bool parked;      // the consumers wait for a piece that was not requested yet
  int waits, fills; // events of a step that the consumers and the pipeline wait for, or -1
};
struct price_run {
  struct arena *mem;
  const struct mega_plan *p;
  struct price_heap heap;
  struct price_op *op;
  struct price_event *event; // [step][event]
  int *first_wait;           // by node
  int *first_event, *events; // by node: the events that it publishes
  struct price_worker *w;
  double memory, l2, inputs; // times at which they become free
  double busy;               // total time of memory transfers
  double *end;               // [step]: end of its last task
  struct mega_price *out;
};

// ---- the queue of actions ----

static void push(struct price_run *x, double at, int worker, enum price_kind kind)
{
  struct price_heap *h = &x->heap;
  PUSH(x->mem, h->e, h->n, h->cap) = (struct price_entry){at, worker, kind};
  for (int i = h->n - 1, up; i && h->e[up = (i - 1) / 2].at > h->e[i].at; i = up) {
    struct price_entry swap = h->e[i];
    h->e[i] = h->e[up], h->e[up] = swap;
  }
}

static struct price_entry pop(struct price_heap *h)
{
  struct price_entry top = h->e[0], last = h->e[--h->n];
  int i = 0;
  for (int k; (k = 2 * i + 1) < h->n; i = k) {
    if (k + 1 < h->n && h->e[k + 1].at < h->e[k].at) k++;
    if (h->e[k].at >= last.at) break;
    h->e[i] = h->e[k];
  }
  h->e[i] = last;
  return top;
}

// ---- facts about operators, for all steps ----

// The number of parts of attention that an operator merges; 0: it does something else, or it is a product.
static int64_t merged_parts(const struct mega_model *m, const struct mega_op *op)
{
  bool heads = op->spec.attrs >> MEGA_ATTR_heads & 1, rotary = op->spec.attrs >> MEGA_ATTR_theta & 1, streams = false;
  for (int a = 0; a < op->spec.naccess; a++) streams |= op->spec.access[a].stream;
  return heads && !rotary && !streams ? m->tensor[op->arg[0]].dim[1] : 0;
}

static void pieces_of(struct price_run *x, int o)
{
  const struct mega_model *m = x->p->m;
  const struct mega_op *op = &m->op[o];
  struct price_op *q = &x->op[o];
  struct mega_region r = {0};
  bool state = false;
  q->first = NEWS(x->mem, int, op->tiles + 1);
  for (int t = 0; t < op->tiles; t++) {
    for (int a = 0; a < op->spec.naccess; a++) {
      const struct mega_tensor *of = &m->tensor[op->arg[op->spec.access[a].arg]];
      if (!op->spec.access[a].stream) continue;
      state |= of->kind == MEGA_STATE, r.n = 0;
      mega_region(x->mem, m, op, a, 0, t, 1, &r);
      for (int i = 0; i < r.n; i++)
        for (int64_t k = 0, n = mega_pieces(m, op, a, &r.box[i]); k < n; k++) {
          struct mega_box b;
          mega_piece(m, op, a, &r.box[i], k, &b);
          PUSH(x->mem, q->bytes, q->npieces, q->cap) = (int)mega_piece_bytes(m, op, a, &b);
        }
    }
    q->first[t + 1] = q->npieces;
  }
  bool product = q->npieces && !state, merges = product && op->spec.attrs >> MEGA_ATTR_heads & 1;
  q->begin = ns_of(FACT_TASK) + (merges ? ns_of(FACT_MERGE) : 0);
  int64_t accesses = (merged_parts(m, op) + AT_ONCE - 1) / AT_ONCE;
  q->piece = ns_of(state ? FACT_PAGE : FACT_PIECE), q->tile = product ? ns_of(FACT_TILE)
                                                              : state ? ns_of(FACT_ATTEND)
                                                                      : MAX(accesses - 1, 0) * ns_of(FACT_ACCESS);
}

// The input with many rows is read from L2 in pieces, once for all tiles of a task. A task waits for the first piece.
static void inputs_of(struct price_run *x, int o)
{
  const struct mega_model *m = x->p->m;
  const struct mega_op *op = &m->op[o];
  struct price_op *q = &x->op[o];
  double pieces = (double)q->npieces / op->tiles * ((op->tiles + m->workers - 1) / m->workers); // of a task
  for (int a = 0; a < op->spec.naccess; a++) {
    int tensor = op->arg[op->spec.access[a].arg];
    if (!mega_input_of_rows(m, op, a) || x->p->held[tensor].load != MEGA_LOAD_BULK || !q->npieces) continue;
    struct mega_region r = {0};
    mega_region(x->mem, m, op, a, 0, 0, 1, &r);
    double values = (double)mega_volume(op->spec.access[a].rank, &r.box[0]);
    const struct mega_feed *f = &x->p->feed[o];
    q->fed = values * mega_bytes(mega_type_find("bf16")) / (f->slots ? f->pieces : pieces);
    if (f->slots) {
      q->piece = ns_of(FACT_ROWS);
      continue;
    }
    q->begin += ns_of(FACT_ARRIVAL) + (op->spec.attrs >> MEGA_ATTR_heads & 1 ? values / 1000 * ns_of(FACT_MERGES) : 0);
  }
}

static void index_plan(struct price_run *x)
{
  const struct mega_plan *p = x->p;
  x->first_wait = mega_first_waits(x->mem, p), x->first_event = NEWS(x->mem, int, p->nnodes + 2), x->events = NEWS(x->mem, int, p->nevents + 1);
  for (int e = 0; e < p->nevents; e++) x->first_event[p->event[e].node + 2]++;
  for (int i = 2; i <= p->nnodes + 1; i++) x->first_event[i] += x->first_event[i - 1];
  for (int e = 0; e < p->nevents; e++) x->events[x->first_event[p->event[e].node + 1]++] = e;
  x->event = NEWS(x->mem, struct price_event, PRICED_STEPS * p->nevents);
  for (int e = 0; e < p->nevents; e++)
    for (int s = 0, tasks = mega_event_tasks(p, &p->event[e]); s < PRICED_STEPS; s++) x->event[s * p->nevents + e].left = tasks;
}

// ---- events ----

static double latency_of(const struct mega_plan *p, const struct mega_event *ev)
{
  int tiles = 0;
  for (int i = 0; i < ev->nspans; i++) tiles += ev->span[i].hi - ev->span[i].lo;
  double values = ev->reuse ? 0 : (double)mega_elements(&p->m->tensor[ev->tensor]) * tiles / mega_op_of(p, ev->node)->tiles;
  bool words = ev->kind == MEGA_TAGGED;
  if (p->m->tensor[ev->tensor].kind != MEGA_ACTIVATION || p->held[ev->tensor].load == MEGA_LOAD_BULK) values = 0;
  return ns_of(words ? FACT_WORD : FACT_COUNTER) + values / 1000 * ns_of(words ? FACT_WORDS : FACT_COUNTERS);
}

static void publish(struct price_run *x, int worker, int node, int step, double at)
{
  const struct mega_plan *p = x->p;
  struct mega_span share = mega_share(p, node, worker);
  for (int i = x->first_event[node]; i < x->first_event[node + 1]; i++) {
    int e = x->events[i], id = step * p->nevents + e;
    if (!mega_shared_tiles(&p->event[e], share)) continue;
    x->event[id].at = MAX(x->event[id].at, at);
    if (--x->event[id].left) continue;
    for (int w = 0; w < p->m->workers; w++) {
      if (x->w[w].waits == id) x->w[w].waits = -1, push(x, x->event[id].at, w, CONSUME);
      if (x->w[w].fills == id) x->w[w].fills = -1, push(x, x->event[id].at, w, PRODUCE);
    }
  }
}

// Sets *at to the time at which all waits of the task end. False: an event is not complete; its completion wakes the worker.
static bool ready_at(struct price_run *x, int worker, double *at)
{
  const struct mega_plan *p = x->p;
  struct price_worker *w = &x->w[worker];
  struct mega_span share = mega_share(p, w->now.node, worker);
  double ready = *at;
  for (int i = x->first_wait[w->now.node]; i < x->first_wait[w->now.node + 1]; i++) {
    const struct mega_wait *a = &p->wait[i];
    int step = w->now.step - a->back, id = step * p->nevents + a->event;
    if (a->stream || step < 0 || MAX(a->lo, share.lo) >= MIN(a->hi, share.hi)) continue;
    if (x->event[id].left) return w->waits = id, false;
    ready = MAX(ready, x->event[id].at + latency_of(p, &p->event[a->event]));
  }
  return *at = ready, true;
}

// ---- a worker ----

// Advances to the next task within the simulated steps. False: there is none.
static bool next_task(const struct price_run *x, int worker, struct price_place *at)
{
  for (; at->step < PRICED_STEPS; at->node = 0, at->step++)
    for (; at->node < x->p->nnodes; at->node++) {
      struct mega_span s = mega_share(x->p, at->node, worker);
      if (s.hi > s.lo) return at->tile = s.lo, at->piece = 0, true;
    }
  return false;
}

// Bytes of the next piece from this position on. 0: there is none.
static int next_piece(const struct price_run *x, int worker, struct price_place *at)
{
  while (at->step < PRICED_STEPS) {
    const struct price_op *q = &x->op[x->p->node[at->node].op];
    if (at->tile >= mega_share(x->p, at->node, worker).hi)
      at->node++, next_task(x, worker, at);
    else if (q->first[at->tile] + at->piece >= q->first[at->tile + 1])
      at->tile++, at->piece = 0;
    else
      return q->bytes[q->first[at->tile] + at->piece];
  }
  return 0;
}

// Sets *at to the time at which the data that choose the tile's weights are known. False: they are not known yet, and the event wakes the pipeline.
// Waits of the pipeline for the previous step are not modelled.
static bool weights_known(struct price_run *x, int worker, double *at)
{
  const struct mega_plan *p = x->p;
  struct price_worker *w = &x->w[worker];
  double ready = *at;
  for (int i = x->first_wait[w->fill.node]; i < x->first_wait[w->fill.node + 1] && w->fill.piece == 0; i++) {
    const struct mega_wait *a = &p->wait[i];
    int id = w->fill.step * p->nevents + a->event;
    if (!a->stream || a->back || a->lo > w->fill.tile || w->fill.tile >= a->hi) continue;
    if (x->event[id].left) return w->fills = id, false;
    ready = MAX(ready, x->event[id].at + latency_of(p, &p->event[a->event]));
  }
  return *at = ready, true;
}

// ---- pieces of an input ----

// The number of pieces of the input that `used` pieces of a task's weights are multiplied with, from the first on. Tiles of a group use the same ones.
static double inputs_of_weights(const struct price_run *x, int worker, int used)
{
  const struct price_worker *w = &x->w[worker];
  const struct mega_feed *f = &x->p->feed[x->p->node[w->now.node].op];
  const struct price_op *q = &x->op[x->p->node[w->now.node].op];
  struct mega_span share = mega_share(x->p, w->now.node, worker);
  int each = q->first[share.lo + 1] - q->first[share.lo], group = MIN(f->group, share.hi - share.lo);
  return (double)used * f->pieces / (each * group);
}

// Requests as many pieces of the input as there are slots, counted from the pieces that are consumed.
static void request_inputs(struct price_run *x, int worker, double at)
{
  struct price_worker *w = &x->w[worker];
  const struct price_op *q = &x->op[x->p->node[w->now.node].op];
  const struct mega_feed *f = &x->p->feed[x->p->node[w->now.node].op];
  struct mega_span share = mega_share(x->p, w->now.node, worker);
  if (!f->slots) return;
  int groups = (share.hi - share.lo + f->group - 1) / f->group, consumed = (int)inputs_of_weights(x, worker, w->used);
  for (; w->asked < groups * f->pieces && w->asked < consumed + f->slots; w->asked++) {
    x->inputs = MAX(x->inputs, at) + q->fed / ns_of(FACT_INPUT);
    w->input[w->asked % f->slots] = x->inputs + ns_of(FACT_ARRIVAL);
  }
}

// The time at which the pieces of the input are there that the next piece of weights needs.
static double input_there(const struct price_run *x, int worker)
{
  const struct price_worker *w = &x->w[worker];
  const struct mega_feed *f = &x->p->feed[x->p->node[w->now.node].op];
  return f->slots ? w->input[(int)ceil(inputs_of_weights(x, worker, w->used + 1) - 1) % f->slots] : 0;
}

static void produce_priced(struct price_run *x, int worker, double at)
{
  const struct mega_plan *p = x->p;
  struct price_worker *w = &x->w[worker];
  int bytes = next_piece(x, worker, &w->fill), stages = x->p->m->stages;
  double asked = at;
  if (!bytes || w->made - w->taken >= stages || !weights_known(x, worker, &asked)) return;
  if (asked > at) return push(x, asked, worker, PRODUCE);
  double took = bytes / ns_of(FACT_RATE);
  x->memory = MAX(x->memory, at) + took, x->busy += took;
  bool apart = p->feed[p->node[w->fill.node].op].slots > 0; // the input is copied by itself
  x->l2 = MAX(x->l2, at) + (bytes + (apart ? 0 : x->op[p->node[w->fill.node].op].fed)) / ns_of(FACT_L2);
  w->arrival[w->made % stages] = MAX(x->l2, x->memory) + ns_of(FACT_ARRIVAL);
  w->made++, w->fill.piece++;
  if (w->parked) w->parked = false, push(x, at, worker, CONSUME);
  push(x, at, worker, PRODUCE); // after all requests of other workers at this time
}

static void end_task(struct price_run *x, int worker, double at)
{
  struct price_place *w = &x->w[worker].now;
  publish(x, worker, w->node, w->step, at);
  x->end[w->step] = MAX(x->end[w->step], at);
  if (w->step == PRICED_STEPS - 1) x->out->end[w->node] = MAX(x->out->end[w->node], at);
  w->node++;
  if (next_task(x, worker, w)) w->piece = -1, push(x, at, worker, CONSUME);
}

static void consume_priced(struct price_run *x, int worker, double at)
{
  struct price_worker *w = &x->w[worker];
  struct price_place *now = &w->now;
  const struct price_op *q = &x->op[x->p->node[now->node].op];
  if (now->piece < 0) { // the task begins
    if (!ready_at(x, worker, &at)) return;
    now->piece = w->used = w->asked = 0;
    request_inputs(x, worker, at);
    push(x, at + q->begin, worker, CONSUME);
    return;
  }
  if (q->first[now->tile] + now->piece < q->first[now->tile + 1]) {
    if (w->taken == w->made) {
      w->parked = true;
      return;
    }
    double there = MAX(w->arrival[w->taken % x->p->m->stages], input_there(x, worker));
    if (there > at) return push(x, there, worker, CONSUME);
    at += q->piece * q->bytes[q->first[now->tile] + now->piece] / MEGA_STAGE;
    w->taken++, now->piece++, w->used++;
    request_inputs(x, worker, at);
    push(x, at, worker, PRODUCE), push(x, at, worker, CONSUME);
    return;
  }
  now->tile++, now->piece = 0, at += q->tile;
  if (now->tile < mega_share(x->p, now->node, worker).hi) return push(x, at, worker, CONSUME);
  end_task(x, worker, at + ns_of(FACT_FINISH));
}

void mega_price(struct arena *mem, const struct mega_plan *p, struct mega_price *out)
{
  struct price_run x = {.mem = mem, .p = p, .out = out};
  *out = (struct mega_price){.end = NEWS(mem, double, p->nnodes)};
  x.op = NEWS(mem, struct price_op, p->m->nops), x.w = NEWS(mem, struct price_worker, p->m->workers), x.end = NEWS(mem, double, PRICED_STEPS);
  for (int o = 0; o < p->m->nops; o++) pieces_of(&x, o), inputs_of(&x, o);
  index_plan(&x);
  int slots = 1;
  for (int o = 0; o < p->m->nops; o++) slots = MAX(slots, p->feed[o].slots);
  for (int i = 0; i < p->m->workers; i++) {
    struct price_worker *w = &x.w[i];
    *w = (struct price_worker){.waits = -1, .fills = -1, .arrival = NEWS(mem, double, p->m->stages), .input = NEWS(mem, double, slots)};
    if (!next_task(&x, i, &w->now)) continue;
    w->fill = w->now, w->now.piece = -1;
    push(&x, 0, i, PRODUCE), push(&x, 0, i, CONSUME);
  }
  while (x.heap.n) {
    struct price_entry e = pop(&x.heap);
    (e.kind == PRODUCE ? produce_priced : consume_priced)(&x, e.worker, e.at);
  }
  double before = x.end[PRICED_STEPS - 2];
  out->step = x.end[PRICED_STEPS - 1] - before, out->busy = x.busy / PRICED_STEPS;
  for (int n = 0; n < p->nnodes; n++) out->end[n] -= before;
}
