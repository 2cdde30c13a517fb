// Queries of a plan.
#include "mega/mega.h"

int mega_read_write(const struct mega_plan *p, int node, int tensor, int *back)
{
  const struct mega_held *h = &p->held[tensor];
  int at = h->nwrites - 1;
  while (at >= 0 && h->write[at] >= node) at--;
  *back = at < 0 && h->nwrites;
  return at < 0 ? h->nwrites - 1 : at;
}

int *mega_first_waits(struct arena *mem, const struct mega_plan *p)
{
  int *first = NEWS(mem, int, p->nnodes + 1), at = 0;
  for (int n = 0; n <= p->nnodes; n++) {
    while (at < p->nwaits && p->wait[at].node < n) at++;
    first[n] = at;
  }
  return first;
}

void mega_node_name(const struct mega_plan *p, int node, char out[80])
{
  const struct mega_op *op = mega_op_of(p, node);
  if (op->repeat)
    snprintf(out, 80, "%.60s[%d]", op->name, p->node[node].layer);
  else
    snprintf(out, 80, "%.60s", op->name);
}

int64_t mega_shared_tiles(const struct mega_event *ev, struct mega_span s)
{
  int64_t n = 0;
  for (int i = 0; i < ev->nspans; i++) n += MAX(0, MIN(s.hi, ev->span[i].hi) - MAX(s.lo, ev->span[i].lo));
  return n;
}

int mega_event_tasks(const struct mega_plan *p, const struct mega_event *ev)
{
  int n = 0;
  for (int w = 0; w < p->m->workers; w++) n += mega_shared_tiles(ev, mega_share(p, ev->node, w)) > 0;
  return n;
}

int64_t mega_event_count(const struct mega_plan *p, const struct mega_event *ev)
{
  int64_t tiles = 0;
  if (ev->kind == MEGA_FLAG) return mega_event_tasks(p, ev);
  for (int w = 0; w < p->m->workers; w++) tiles += mega_shared_tiles(ev, mega_share(p, ev->node, w));
  return tiles;
}

int64_t mega_weight_bytes(const struct mega_model *m, const struct mega_op *op)
{
  int64_t n = 0;
  for (int a = 0; a < op->spec.naccess; a++) {
    const struct mega_tensor *t = &m->tensor[op->arg[op->spec.access[a].arg]];
    const int decider = op->spec.access[a].decider;
    int64_t bytes = mega_elements(t) * mega_bytes(t->type);
    if (!op->spec.access[a].stream || t->kind != MEGA_WEIGHTS) continue;
    n += decider < 0 ? bytes : bytes / t->dim[op->spec.access[a].decided] * (mega_elements(&m->tensor[op->arg[op->spec.access[decider].arg]]) / 2);
  }
  return n;
}
