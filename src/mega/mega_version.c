// Chooses versions, and adds the events that ordering needs besides the events of data. An activation gets the fewest versions that the proof of
// reuse accepts. If no number of versions suffices, each layer waits for the previous one. If that is not enough either, the readers publish an event
// that the writer waits for. Outputs and state have one version, so they use such an event too.
#include "mega/mega_prove.h"

#include <stdlib.h>
#include <string.h>

struct mega_choosing {
  struct arena *mem;
  struct mega_plan *p;
  struct mega_proof proof;
  struct mega_proving v;
};

// Recomputes the clocks from the current waits and versions of the plan.
static int renew_clocks(struct mega_choosing *c, struct err *e)
{
  arena_close(c->v.mem);
  c->v = (struct mega_proving){.mem = c->v.mem, .p = c->p, .out = &c->proof};
  c->proof = (struct mega_proof){0};
  if (!mega_clocks_make(c->v.mem, c->p, &c->v.clocks))
    return err_set(e, ERR_MEMORY, NOWHERE, "no memory for the clocks of %d workers", c->p->m->workers);
  return OK;
}

static int by_node(const void *a, const void *b)
{
  const struct mega_wait *x = a, *y = b;
  return x->node != y->node ? (x->node > y->node) - (x->node < y->node)
         : x->lo != y->lo   ? (x->lo > y->lo) - (x->lo < y->lo)
                            : (x->event > y->event) - (x->event < y->event);
}

static void sort_waits(struct mega_plan *p)
{
  if (p->nwaits) qsort(p->wait, (size_t)p->nwaits, sizeof *p->wait, by_node);
}

static bool waits_for_reuse(const struct mega_plan *p, int writer, int other)
{
  for (int i = 0; i < p->nwaits; i++)
    if (p->wait[i].node == writer && p->event[p->wait[i].event].node == other && p->event[p->wait[i].event].reuse) return true;
  return false;
}

// All tiles of the writer wait for all tiles of the node whose access is overwritten.
static void add_wait(struct mega_choosing *c, int writer, int other, int tensor)
{
  struct mega_plan *p = c->p;
  struct mega_span all = {0, mega_op_of(p, other)->tiles};
  struct mega_event ev = {.node = other, .nspans = 1, .span = &all, .tensor = tensor, .reuse = true};
  int event = mega_event_add(c->mem, p, &ev);
  PUSH(c->mem, p->wait, p->nwaits, p->waits_cap) = (struct mega_wait){writer, 0, mega_op_of(p, writer)->tiles, event, other >= writer, 0, false};
}

// Adds the same wait in all layers. Layers are alike, so a violation in one is one in each of them.
static void add_reuse(struct mega_choosing *c, int writer, int other, int tensor)
{
  struct mega_plan *p = c->p;
  for (int n = 0; n < p->nnodes; n++) {
    int from = other + n - writer;
    if (p->node[n].op != p->node[writer].op || from < 0 || from >= p->nnodes || p->node[from].op != p->node[other].op) continue;
    if (n == writer || !waits_for_reuse(p, n, from)) add_wait(c, n, from, tensor);
  }
  sort_waits(p);
}

// The shared tensor that the node writes on all ranks, or reads from all ranks. -1: none.
static int shared_of(const struct mega_plan *p, int node, bool writes)
{
  const struct mega_op *op = mega_op_of(p, node);
  for (int a = 0; a < op->spec.nargs; a++)
    if (op->spec.writes[a] == writes && mega_slots(p->m, &p->m->tensor[op->arg[a]]) > 1) return op->arg[a];
  return -1;
}

// Orders a write after a reader on another rank. The writer follows an exchange, in which it waits for slots of that rank. So the node that writes
// these slots is made to wait for the reader.
static int add_remote_reuse(struct mega_choosing *c, const struct mega_overwritten *x, int tensor, struct err *e)
{
  struct mega_plan *p = c->p;
  int back, at = x->writer, left = (x->writer - x->other + p->nnodes - 1) % p->nnodes; // nodes between
  for (; left > 0; left--) {
    at = (at + p->nnodes - 1) % p->nnodes;
    int from = shared_of(p, at, false), write = from < 0 ? -1 : mega_read_write(p, at, from, &back),
        via = write < 0 ? -1 : p->held[from].write[write];
    int before = (at - via + p->nnodes) % p->nnodes;
    if (via < 0 || before >= left || waits_for_reuse(p, via, x->other)) continue;
    add_reuse(c, via, x->other, tensor);
    return OK;
  }
  char name[80];
  mega_node_name(p, x->writer, name);
  err_set(e, ERR_MEGA, NOWHERE, "%s overwrites %.40s on other ranks, but no exchange orders this after their reads", name, p->m->tensor[tensor].name);
  return err_hint(e, "use more versions of the tensor"), USER;
}

// Gives each activation the fewest versions that suffice. stuck: no permitted number suffices.
static void lower_versions(struct mega_choosing *c, bool *stuck)
{
  struct mega_plan *p = c->p;
  for (int t = 0; t < p->m->ntensors; t++) {
    struct mega_held *h = &p->held[t];
    int most = MIN(h->nwrites, MEGA_MOST_VERSIONS);
    if (p->m->tensor[t].kind != MEGA_ACTIVATION || p->m->tensor[t].versions || !h->nwrites) continue;
    for (h->versions = 1; h->versions <= most; h->versions++)
      if (mega_reuse_fits(&c->v, t)) break;
    stuck[t] = h->versions > most;
    h->versions = MIN(h->versions, most);
  }
}

// The last node in the first layer of a repeated operator with tiles for all workers. -1: there is none.
static int last_of_all_workers(const struct mega_plan *p)
{
  int first = -1;
  for (int n = 0; n < p->nnodes; n++) {
    const struct mega_op *op = mega_op_of(p, n);
    int w = 0;
    if (op->repeat < 2 || (first >= 0 && p->node[n].layer > p->node[first].layer)) continue;
    while (w < p->m->workers && mega_share(p, n, w).lo < mega_share(p, n, w).hi) w++;
    if (w == p->m->workers) first = n;
  }
  return first;
}

// Adds waits for reuse: each layer of such an operator waits for all tiles of the same operator in the previous layer, and of the operators after it
// there. No worker is then more than one layer ahead of another. The waits are kept only if every activation fits into the permitted versions.
static int order_layers(struct mega_choosing *c, bool *stuck, struct err *e)
{
  struct mega_plan *p = c->p;
  int first = last_of_all_workers(p), tensor = 0, before = -1, nevents = p->nevents, nwaits = p->nwaits;
  while (tensor < p->m->ntensors && !stuck[tensor]) tensor++;
  if (tensor == p->m->ntensors || first < 0) return OK;
  struct mega_wait *waits = arena_copy(c->mem, p->wait, sizeof *waits * (size_t)nwaits);
  for (int n = 0; n < p->nnodes; n++)
    if (p->node[n].op == p->node[first].op) before = n;
  for (int n = first; n < p->nnodes; n++)
    if (p->node[n].op == p->node[first].op) {
      for (int other = before; other < p->nnodes && p->node[other].layer == p->node[before].layer && mega_op_of(p, other)->repeat > 1; other++)
        add_wait(c, n, other, tensor);
      before = n;
    }
  sort_waits(p);
  TRY(renew_clocks(c, e));
  bool still[MEGA_MOST_TENSORS] = {0}, any = false;
  lower_versions(c, still);
  for (int t = 0; t < p->m->ntensors; t++) any |= still[t];
  if (!any) return OK;
  memcpy(p->wait, waits, sizeof *waits * (size_t)nwaits);
  p->nevents = nevents, p->nwaits = nwaits;
  TRY(renew_clocks(c, e));
  return lower_versions(c, stuck), OK;
}

// Checks that no tensor has more versions in the text than a step has writes of it.
static int check_versions(const struct mega_plan *p, struct err *e)
{
  for (int t = 0; t < p->m->ntensors; t++) {
    const struct mega_tensor *x = &p->m->tensor[t];
    if (x->versions > MAX(p->held[t].nwrites, 1))
      return err_set(e, ERR_MEGA, NOWHERE, "%.40s has %d versions, but a step writes it %d times", x->name, x->versions, p->held[t].nwrites);
  }
  return OK;
}

// ---- pipelines that run too far ahead ----

// Adds waits of the producer for the writers of state in the previous step, before it copies that state.
static int add_stream_waits(struct mega_choosing *c, struct err *e)
{
  TRY(renew_clocks(c, e));
  c->v.ahead = NEWS(c->v.mem, bool, c->p->nnodes);
  mega_streams_make(&c->v);
  TRY(mega_prove_fence(&c->v, e));
  for (int n = 0; n < c->p->nnodes; n++)
    if (c->v.ahead[n]) mega_events_stream(c->mem, c->p, n);
  return sort_waits(c->p), OK;
}

int mega_versions_choose(struct arena *mem, struct mega_plan *p, struct err *e)
{
  struct arena own = {0};
  struct mega_choosing c = {.mem = mem, .p = p, .v = {.mem = &own}};
  bool stuck[MEGA_MOST_TENSORS] = {0};
  int status = check_versions(p, e);
  sort_waits(p);
  if (status == OK && !mega_waits_prune(mem, p)) status = err_set(e, ERR_MEMORY, NOWHERE, "no memory for the clocks of %d workers", p->m->workers);
  if (status == OK) status = renew_clocks(&c, e);
  if (status == OK) lower_versions(&c, stuck), status = order_layers(&c, stuck, e);
  for (int t = 0; t < p->m->ntensors && status == OK; t++) {
    struct mega_overwritten x;
    if (!p->held[t].nwrites || (p->m->tensor[t].versions && p->m->tensor[t].kind == MEGA_ACTIVATION)) continue;
    while (status == OK && !mega_reuse_find(&c.v, t, &x)) {
      if (x.remote)
        status = add_remote_reuse(&c, &x, t, e);
      else
        add_reuse(&c, x.writer, x.other, t);
      if (status == OK) status = renew_clocks(&c, e);
    }
  }
  if (status == OK) status = add_stream_waits(&c, e);
  arena_close(&own);
  return status;
}

// ---- events that the text names ----

static bool is_derived(const struct mega_plan *p, int op, const struct mega_after *a, const struct mega_wait *x)
{
  const struct mega_event *ev = &p->event[x->event];
  const struct mega_node *from = &p->node[ev->node], *to = &p->node[x->node];
  bool layered = p->m->op[from->op].repeat && p->m->op[op].repeat;
  return !strcmp(p->m->op[from->op].name, a->op) && x->back == a->step_back && (!layered || to->layer - from->layer == a->layer_back) &&
         (a->kind < 0 || a->kind == (int)ev->kind);
}

static bool is_implied(const struct mega_plan *p, int op, const struct mega_after *a)
{
  for (int i = 0; i < p->nimplied; i++) {
    const struct mega_implied *x = &p->implied[i];
    if (x->op == op && !strcmp(p->m->op[x->from].name, a->op) && x->layer_back == a->layer_back && x->step_back == a->step_back) return true;
  }
  return false;
}

int mega_after_check(const struct mega_plan *p, struct err *e)
{
  for (int o = 0; o < p->m->nops; o++)
    for (int k = 0; k < p->m->op[o].nafter; k++) {
      const struct mega_after *a = &p->m->op[o].after[k];
      bool found = is_implied(p, o, a);
      for (int i = 0; i < p->nwaits && !found; i++) found = p->node[p->wait[i].node].op == o && is_derived(p, o, a, &p->wait[i]);
      if (found) continue;
      err_set(e, ERR_MEGA, a->at, "operator %.40s does not wait for %.40s%s%s: no such event is derived", p->m->op[o].name, a->op,
              a->kind < 0 ? "" : " by a ", a->kind < 0 ? "" : mega_signals[a->kind].name);
      return err_hint(e, "`mica mega plan --dump events` lists the derived events"), USER;
    }
  return OK;
}
