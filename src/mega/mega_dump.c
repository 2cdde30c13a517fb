// Plans as text: the summary of `mica mega plan`, and what `--dump` names.
#include "mega/mega.h"

#include <string.h>

static void waits_text(const struct mega_plan *p, int op, struct str *out)
{
  int seen[MEGA_MOST_OPS][MEGA_SIGNALS] = {0};
  for (int i = 0; i < p->nwaits; i++)
    if (p->node[p->wait[i].node].op == op) seen[p->node[p->event[p->wait[i].event].node].op][p->event[p->wait[i].event].kind]++;
  const char *between = "";
  for (int o = 0; o < p->m->nops; o++)
    for (int k = 0; k < MEGA_SIGNALS; k++)
      if (seen[o][k]) str_add(out, "%s%s (%s)", between, p->m->op[o].name, mega_signals[k].name), between = ", ";
}

static void ops_text(const struct mega_plan *p, struct str *out)
{
  str_add(out, "%-10s %-28s %6s %6s %10s  waits for\n", "operator", "layer", "times", "tiles", "weights");
  for (int o = 0; o < p->m->nops; o++) {
    const struct mega_op *op = &p->m->op[o];
    str_add(out, "%-10s %-28s %6d %6d %7.1f MB  ", op->name, op->layer->name, MAX(op->repeat, 1), op->tiles,
            (double)mega_weight_bytes(p->m, op) / 1e6);
    waits_text(p, o, out);
    str_add(out, "\n");
  }
}

void mega_plan_text(const struct mega_plan *p, struct str *out)
{
  const struct mega_model *m = p->m;
  int64_t bytes = 0, kinds[MEGA_SIGNALS] = {0};
  for (int o = 0; o < m->nops; o++) bytes += mega_weight_bytes(m, &m->op[o]);
  for (int i = 0; i < p->nevents; i++) kinds[p->event[i].kind]++;
  if (m->world > 1) str_add(out, "one of %d ranks of ", m->world);
  str_add(out, "%s: %d rows, %lld positions cached, %d workers, pipeline of %d stages of %d bytes\n\n", m->name, m->rows, (long long)m->context,
          m->workers, m->stages, m->stage_bytes);
  ops_text(p, out);
  str_add(out, "\nversions");
  for (int t = 0; t < m->ntensors; t++)
    if (m->tensor[t].kind == MEGA_ACTIVATION) str_add(out, " %s %d", m->tensor[t].name, p->held[t].versions);
  str_add(out, "\nevents  ");
  for (int k = 0; k < MEGA_SIGNALS; k++) str_add(out, " %s %lld", mega_signals[k].name, (long long)kinds[k]);
  str_add(out, "\nweights  %.3f GB a step: %.1f us at %d GB/s\n", (double)bytes / 1e9, (double)bytes / 1e3 / MEGA_COPY_GB, MEGA_COPY_GB);
  struct arena own = {0};
  struct mega_price price;
  mega_price(&own, p, &price);
  str_add(out, "model    %.1f us a step, of which memory is busy %.1f\n", price.step / 1e3, price.busy / 1e3);
  arena_close(&own);
}

// ---- --dump ----

static void dump_regions(struct arena *mem, const struct mega_plan *p, struct str *out)
{
  for (int n = 0; n < p->nnodes; n++) {
    const struct mega_op *op = mega_op_of(p, n);
    if (p->node[n].layer) continue;
    for (int t = 0; t < op->tiles; t += MAX(op->tiles - 1, 1)) {
      str_add(out, "%s tile %d:\n", op->name, t);
      for (int a = 0; a < op->spec.naccess; a++) {
        const struct mega_access *x = &op->spec.access[a];
        struct mega_region r = {0};
        mega_region(mem, p->m, op, a, 0, t, 1, &r);
        str_add(out, "  %-7s %s", x->out ? "writes" : x->stream ? "streams" : "reads", p->m->tensor[op->arg[x->arg]].name);
        for (int i = 0; i < MIN(r.n, 4); i++) mega_box_text(x->rank, &r.box[i], out);
        if (r.n > 4) str_add(out, " and %d more", r.n - 4);
        str_add(out, "\n");
      }
    }
  }
}

static void dump_events(struct arena *mem, const struct mega_plan *p, struct str *out)
{
  (void)mem;
  for (int i = 0; i < p->nwaits; i++) {
    const struct mega_wait *x = &p->wait[i];
    const struct mega_event *ev = &p->event[x->event];
    char from[80], to[80];
    mega_node_name(p, ev->node, from), mega_node_name(p, x->node, to);
    str_add(out, "%s tiles %d..%d wait for event %d: %s of %s tiles", to, x->lo, x->hi - 1, x->event, mega_signals[ev->kind].name, from);
    for (int s = 0; s < ev->nspans; s++) str_add(out, " %d..%d", ev->span[s].lo, ev->span[s].hi - 1);
    str_add(out, ", count %lld%s%s%s%s\n", (long long)ev->count, ev->ranks > 1 ? ", of each rank" : "", x->back ? ", of the step before" : "",
            ev->reuse ? ", for reuse" : "", x->stream ? ", by the pipeline" : "");
  }
}

static void dump_schedule(struct arena *mem, const struct mega_plan *p, struct str *out)
{
  (void)mem;
  for (int n = 0; n < p->nnodes; n++) {
    char name[80];
    mega_node_name(p, n, name);
    str_add(out, "%-14s", name);
    for (int w = 0; w < p->m->workers; w++) {
      struct mega_span s = mega_share(p, n, w);
      if (s.hi > s.lo)
        str_add(out, " %d..%d", s.lo, s.hi - 1);
      else
        str_add(out, " -");
    }
    str_add(out, "\n");
  }
}

// The modelled time at which the last task of each node ends, from the end of the previous step.
static void dump_model(struct arena *mem, const struct mega_plan *p, struct str *out)
{
  struct mega_price price;
  mega_price(mem, p, &price);
  str_add(out, "node,latest ns\n");
  for (int n = 0; n < p->nnodes; n++) {
    char name[80];
    mega_node_name(p, n, name);
    str_add(out, "%s,%.0f\n", name, price.end[n]);
  }
}

int mega_dump(struct arena *mem, const struct mega_plan *p, const char *what, struct str *out, struct err *e)
{
  static const struct {
    const char *name;
    void (*dump)(struct arena *mem, const struct mega_plan *p, struct str *out);
  } dumps[] = {{"regions", dump_regions}, {"events", dump_events}, {"schedule", dump_schedule}, {"model", dump_model}};
  for (size_t i = 0; i < COUNT(dumps); i++)
    if (!strcmp(dumps[i].name, what)) return dumps[i].dump(mem, p, out), OK;
  return err_set(e, ERR_OPTION, NOWHERE, "--dump takes regions, events, schedule or model, not %.40s", what);
}
