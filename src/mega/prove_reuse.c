// Checks that all readers have read elements, and their writer has ended, before a tile overwrites them. Tagged data need a chain of events of which
// one has release and acquire semantics. Other data need a chain in which every event has them.
#include "mega/mega_prove.h"

#include <string.h>

struct mega_user { // an access to a tensor. It writes or reads write number `write` of the step that is `back` steps earlier
  int node, access, write, back;
};
struct mega_users {
  int n, cap;
  struct mega_user *at;
};
struct mega_reusing {
  struct mega_proving *v;
  struct mega_users *users; // by tensor, in the order of nodes
  struct mega_known known;  // of the writing tile
  int instance, worker, tile, node, tensor;
  const struct mega_box *box;
  struct mega_touches *reads, *writes; // by tensor of state
  struct mega_region other_box;
  int only; // only this tensor; -1: all tensors
  struct mega_overwritten first;
};

static const uint32_t *needed(const struct mega_reusing *u) { return u->known.of[u->v->p->held[u->tensor].tagged ? MEGA_SOME : MEGA_ALL]; }

static void fault(struct mega_reusing *u, const char *what, int node, int tile, bool remote)
{
  char name[80];
  if (!u->v->out->nfaults) u->first = (struct mega_overwritten){u->node, node, remote};
  mega_node_name(u->v->p, node, name);
  mega_fault_add(u->v->p, u->v->out, MEGA_CHECK_REUSE, u->node, u->tile, -1,
                 "overwrites %s, but no chain of events orders this after tile %d of %s %s it%s", u->v->p->m->tensor[u->tensor].name, tile, name,
                 what, remote ? " on another rank" : "");
}

// Whether the check may stop: the choice of versions needs only one fault.
static bool may_stop(const struct mega_reusing *u) { return u->only >= 0 && u->v->out->nfaults; }

// ---- versions ----

// Reports the first tile of a task whose access intersects the box, unless the task is known to have ended.
static void check_task(struct mega_reusing *u, int instance, int access, int worker)
{
  const struct mega_plan *p = u->v->p;
  int node = instance % p->nnodes;
  const struct mega_op *op = mega_op_of(p, node);
  struct mega_span s = mega_share(p, node, worker);
  struct mega_region *r = &u->other_box;
  bool here = instance == u->instance && worker == u->worker; // earlier tiles of this task have ended
  if ((worker == u->worker && !here) || s.lo == s.hi || mega_over(needed(u), worker, instance)) return;
  for (int t = here ? u->tile + 1 : s.lo; t < s.hi; t++) {
    r->n = 0;
    mega_region(u->v->mem, p->m, op, access, p->node[node].layer, t, instance / p->nnodes, r);
    for (int i = 0; i < r->n; i++)
      if ((instance != u->instance || t != u->tile || worker != u->worker) && mega_meet(p->m->tensor[u->tensor].rank, &r->box[i], u->box)) {
        fault(u, op->spec.access[access].out ? "writes" : "reads", node, t, false);
        return;
      }
  }
}

// Reports a tile on another rank that reads the slot which this rank writes there.
static void check_remote(struct mega_reusing *u, int instance, int access, int worker)
{
  const struct mega_plan *p = u->v->p;
  int node = instance % p->nnodes;
  struct mega_span s = mega_share(p, node, worker);
  struct mega_region *r = &u->other_box;
  if (s.lo == s.hi || mega_over(needed(u), p->m->workers + worker, instance)) return;
  for (int t = s.lo; t < s.hi; t++) {
    r->n = 0;
    mega_region(u->v->mem, p->m, mega_op_of(p, node), access, p->node[node].layer, t, instance / p->nnodes, r);
    for (int i = 0; i < r->n; i++)
      if (mega_meet(p->m->tensor[u->tensor].rank, &r->box[i], u->box)) {
        fault(u, "reads", node, t, true);
        return;
      }
  }
}

static void list_users(struct mega_reusing *u)
{
  const struct mega_plan *p = u->v->p;
  u->users = NEWS(u->v->mem, struct mega_users, p->m->ntensors);
  for (int node = 0; node < p->nnodes; node++) {
    const struct mega_op *op = mega_op_of(p, node);
    for (int a = 0; a < op->spec.naccess; a++) {
      const struct mega_access *x = &op->spec.access[a];
      const struct mega_held *h = &p->held[op->arg[x->arg]];
      struct mega_users *l = &u->users[op->arg[x->arg]];
      struct mega_user user = {.node = node, .access = a};
      if (!h->nwrites || (u->only >= 0 && u->only != op->arg[x->arg])) continue;
      if (x->out)
        while (h->write[user.write] != node) user.write++;
      else
        user.write = mega_read_write(p, node, op->arg[x->arg], &user.back);
      PUSH(u->v->mem, l->at, l->n, l->cap) = user;
    }
  }
}

// Checks the tasks that access one write of the tensor. `epoch` counts its writes from the first step.
static void check_epoch(struct mega_reusing *u, int64_t epoch)
{
  const struct mega_plan *p = u->v->p;
  const struct mega_users *l = &u->users[u->tensor];
  const bool remote = mega_slots(p->m, &p->m->tensor[u->tensor]) > 1;
  for (int step = 0; step * p->nnodes <= u->instance; step++)
    for (int k = 0; k < l->n; k++) {
      const struct mega_user *x = &l->at[k];
      const int i = step * p->nnodes + x->node;
      if ((int64_t)(step - x->back) * p->held[u->tensor].nwrites + x->write != epoch || i > u->instance) continue;
      for (int w = 0; w < p->m->workers && !may_stop(u); w++) check_task(u, i, x->access, w);
      for (int w = 0; w < p->m->workers && !may_stop(u) && remote && !mega_op_of(p, x->node)->spec.access[x->access].out; w++)
        check_remote(u, i, x->access, w);
    }
}

static void check_version(struct mega_reusing *u)
{
  const struct mega_plan *p = u->v->p;
  const struct mega_held *h = &p->held[u->tensor];
  int write = 0;
  while (h->write[write] != u->node) write++;
  int64_t epoch = (int64_t)(u->instance / p->nnodes) * h->nwrites + write - h->versions;
  u->v->out->looked[MEGA_CHECK_REUSE]++;
  if (epoch >= 0) check_epoch(u, epoch);
}

// ---- state ----

static bool has_ended(void *arg, const struct mega_touch *t)
{
  const struct mega_reusing *u = arg;
  return t->instance >= u->instance || t->worker == u->worker || mega_over(u->known.of[MEGA_ALL], t->worker, t->instance);
}

static void check_state(struct mega_reusing *u)
{
  int rank = u->v->p->m->tensor[u->tensor].rank, n = u->v->p->nnodes;
  const struct mega_touch *r = mega_touch_find(&u->reads[u->tensor], rank, u->box, has_ended, u);
  const struct mega_touch *w = mega_touch_find(&u->writes[u->tensor], rank, u->box, has_ended, u);
  u->v->out->looked[MEGA_CHECK_REUSE]++;
  if (r) fault(u, "reads", r->instance % n, r->tile, false);
  if (w) fault(u, "writes", w->instance % n, w->tile, false);
}

// ---- all tiles ----

static void check_access(struct mega_reusing *u, int access, struct mega_region *r)
{
  const struct mega_plan *p = u->v->p;
  const struct mega_op *op = mega_op_of(p, u->node);
  const struct mega_access *a = &op->spec.access[access];
  u->tensor = op->arg[a->arg];
  bool state = p->m->tensor[u->tensor].kind == MEGA_STATE;
  if (!p->held[u->tensor].nwrites || (!a->out && !state) || (u->only >= 0 && u->only != u->tensor)) return;
  r->n = 0;
  mega_region(u->v->mem, p->m, op, access, p->node[u->node].layer, u->tile, u->instance / p->nnodes, r);
  for (int i = 0; i < r->n; i++) {
    struct mega_touch t = {r->box[i], u->instance, u->worker, u->tile};
    u->box = &r->box[i];
    if (a->out && state) check_state(u);
    if (a->out && !state) check_version(u);
    if (state) mega_touch_add(u->v->mem, a->out ? &u->writes[u->tensor] : &u->reads[u->tensor], &t);
  }
}

static bool concerns(const struct mega_reusing *u, const struct mega_op *op)
{
  for (int a = 0; a < op->spec.nargs; a++)
    if (u->only < 0 || op->arg[a] == u->only) return true;
  return false;
}

static void check_node(struct mega_reusing *u)
{
  const struct mega_plan *p = u->v->p;
  const struct mega_op *op = mega_op_of(p, u->node);
  struct mega_region r = {0};
  for (u->worker = 0; u->worker < p->m->workers; u->worker++) {
    struct mega_span s = mega_share(p, u->node, u->worker);
    mega_clock_start(&u->v->clocks, u->instance, u->worker, &u->known);
    for (u->tile = s.lo; u->tile < s.hi && !may_stop(u); u->tile++) {
      mega_clock_tile(&u->v->clocks, u->instance, u->worker, u->tile, &u->known);
      for (int a = 0; a < op->spec.naccess; a++) check_access(u, a, &r);
    }
  }
}

static void check_all(struct mega_reusing *u)
{
  const struct mega_plan *p = u->v->p;
  u->known = mega_known_new(u->v->mem, p);
  list_users(u);
  u->reads = NEWS(u->v->mem, struct mega_touches, p->m->ntensors), u->writes = NEWS(u->v->mem, struct mega_touches, p->m->ntensors);
  for (u->instance = 0; u->instance < MEGA_STEPS * p->nnodes; u->instance++) {
    u->node = u->instance % p->nnodes;
    if (!may_stop(u) && concerns(u, mega_op_of(p, u->node))) check_node(u);
  }
}

int mega_prove_reuse(struct mega_proving *v, struct err *e)
{
  struct mega_reusing u = {.v = v, .only = -1};
  (void)e;
  check_all(&u);
  return OK;
}

bool mega_reuse_find(struct mega_proving *v, int tensor, struct mega_overwritten *first)
{
  struct mega_reusing u = {.v = v, .only = tensor};
  v->out->nfaults = 0;
  check_all(&u);
  *first = u.first;
  return !v->out->nfaults;
}

bool mega_reuse_fits(struct mega_proving *v, int tensor)
{
  struct mega_overwritten first;
  return mega_reuse_find(v, tensor, &first);
}
