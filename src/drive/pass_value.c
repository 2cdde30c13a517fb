// The results of each pass, one by one.
#include "drive/pass.h"
#include "gpu/gpu.h"

static bool graph_value(const struct pass_on *on, const struct graph *g, struct ir_value *v)
{
  *v = (struct ir_value){.on = *on, .g = g};
  return g != NULL;
}

static bool numbered(const struct pass_on *on, int i, int n, struct ir_value *v)
{
  *v = (struct ir_value){.on = *on, .i = i};
  return i < n;
}

static bool label(struct ir_value *v, const char *name) { return snprintf(v->label, sizeof v->label, "%s", name ? name : "") >= 0; }

bool no_values(const struct pass_on *on, int i, struct ir_value *v) { return (void)on, (void)i, (void)v, false; }

// ---- kernel graphs ----

bool value_program(const struct pass_on *on, int i, struct ir_value *v) { return !i && graph_value(on, on->j->program, v); }

bool values_expanded(const struct pass_on *on, int i, struct ir_value *v)
{
  const struct job *j = on->j;
  if (!i) return graph_value(on, j->plain, v);
  return i == 1 && !graph_same(j->plain, j->stable) && graph_value(on, j->stable, v) && label(v, "stable");
}

bool value_moved(const struct pass_on *on, int i, struct ir_value *v)
{
  return !i && on->j->moved.g != on->j->plain && graph_value(on, on->j->moved.g, v);
}

bool values_parts(const struct pass_on *on, int i, struct ir_value *v)
{
  if (i >= on->j->split.n) return false;
  graph_value(on, on->j->split.parts[i].g, v);
  if (on->j->split.n > 1) snprintf(v->label, sizeof v->label, "subprogram %d", i + 1);
  return true;
}

bool values_found(const struct pass_on *on, int i, struct ir_value *v)
{
  const struct search_result *r = on->c->found;
  if (!r || i >= r->n) return false;
  snprintf(v->label, sizeof v->label, "graph %02d", i + 1);
  v->on = *on, v->g = r->found[i].g, v->i = i;
  return true;
}

bool values_picked(const struct pass_on *on, int i, struct ir_value *v)
{
  if (i + 1 >= on->c->ncand) return false;
  return graph_value(&(struct pass_on){on->j, on->c, &on->c->cand[i + 1]}, on->c->cand[i + 1].found, v);
}

bool value_candidate(const struct pass_on *on, int i, struct ir_value *v) { return !i && graph_value(on, on->x->g, v); }
bool value_joined(const struct pass_on *on, int i, struct ir_value *v) { return !i && graph_value(on, on->j->best.g, v); }

// ---- kernels ----

bool value_source(const struct pass_on *on, int i, struct ir_value *v) { return numbered(on, i, 1, v); }

bool values_kernels(const struct pass_on *on, int i, struct ir_value *v)
{
  const struct lowered *d = on->x->gpu.lowered;
  return numbered(on, i, d ? d->plan.nunits : 0, v) && label(v, d->plan.unit[i].name);
}

bool values_launches(const struct pass_on *on, int i, struct ir_value *v)
{
  const struct lowered *d = on->x->gpu.lowered;
  return numbered(on, i, d ? d->program.nlaunch : 0, v) && label(v, d->program.launch[i].name);
}

bool value_lowered(const struct pass_on *on, int i, struct ir_value *v) { return on->x->gpu.lowered && numbered(on, i, 1, v); }

bool values_cuda(const struct pass_on *on, int i, struct ir_value *v)
{
  const struct code *c = on->x->gpu.lowered ? on->x->gpu.lowered->code : NULL;
  return numbered(on, i, c ? c->nkernel : 0, v) && label(v, c->kernel[i].name);
}

bool values_use(const struct pass_on *on, int i, struct ir_value *v) { return value_lowered(on, i, v); }

// ---- results ----

bool value_certificate(const struct pass_on *on, int i, struct ir_value *v) { return !on->x->of && numbered(on, i, 1, v); }
bool value_numbers(const struct pass_on *on, int i, struct ir_value *v) { return numbered(on, i, 1, v); }
bool value_times(const struct pass_on *on, int i, struct ir_value *v) { return numbered(on, i, 1, v); }
bool value_whole(const struct pass_on *on, int i, struct ir_value *v) { return numbered(on, i, 1, v); }
bool value_report(const struct pass_on *on, int i, struct ir_value *v) { return on->j->report && numbered(on, i, 1, v); }
