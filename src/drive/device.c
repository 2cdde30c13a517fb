// Candidates as kernels for GPUs. Each kernel is made in the way that the model says is best; a whole that is put together from
// parts takes over the ways of its parts. What goes wrong costs the candidate, with its reason.
#include "drive/drive.h"
#include "gpu/gpu.h"

#include <string.h>

enum { OTHERS = 8 };

// ---- choices ----

static bool same_kernel(const struct lower_plan *a, const struct lower_unit *x, const struct lower_plan *b, const struct lower_unit *y)
{
  if (x->product != y->product || (x->first == x->last) != (y->first == y->last)) return false;
  if (x->product) return blas_same(&x->mul.p, &y->mul.p) && (x->first == x->last || blas_same(&x->ends.p, &y->ends.p));
  return graph_same(a->g->nodes[x->first].sub, b->g->nodes[y->first].sub) && graph_same(a->g->nodes[x->last].sub, b->g->nodes[y->last].sub);
}

// Is y alone what x is without its tail?
static bool same_head(const struct lower_plan *a, const struct lower_unit *x, const struct lower_plan *b, const struct lower_unit *y)
{
  return x->first != x->last && y->first == y->last && !x->product && !y->product && graph_same(a->g->nodes[x->first].sub, b->g->nodes[y->first].sub);
}

static struct choice pick(const struct lower_plan *p, const struct lower_unit *u, int nlike, const struct lowered *const *like)
{
  for (int i = 0; i < nlike; i++)
    for (int k = 0; k < like[i]->plan.nunits; k++)
      if (same_kernel(p, u, &like[i]->plan, &like[i]->plan.unit[k])) return like[i]->pick[k];
  for (int i = 0; i < nlike; i++)
    for (int k = 0; k < like[i]->plan.nunits; k++)
      if (same_head(p, u, &like[i]->plan, &like[i]->plan.unit[k])) return like[i]->pick[k];
  return u->nchoices ? u->choice[0] : (struct choice){0};
}

// What a scheme promises and cannot keep costs the choice, as long as there is another.
static int make_with_others(const struct job *j, struct lowered *d, struct err *e)
{
  for (int tries = 0; tries < OTHERS; tries++) {
    struct err mine = {0};
    if (lower_make(j->mem, &d->plan, d->pick, &d->program, &mine) == OK) return OK;
    int at = d->program.nlaunch ? d->program.launch[d->program.nlaunch - 1].unit : -1;
    const struct lower_unit *u = at >= 0 ? &d->plan.unit[at] : NULL;
    if (!e->status) *e = mine;
    if (!u || tries + 1 >= u->nchoices) break;
    d->pick[at] = u->choice[tries + 1];
  }
  return (int)e->status;
}

static void nothing_compiled(const struct job *j, struct lowered *d)
{
  d->registers = NEWS(j->mem, int, d->program.nlaunch + 1), d->spilled = NEWS(j->mem, int, d->program.nlaunch + 1);
  for (int i = 0; i < d->program.nlaunch; i++) d->registers[i] = d->spilled[i] = -1;
  d->compiled = "", d->proof.note = "";
}

int device_make(const struct job *j, const struct graph *g, const char *name, int nlike, const struct lowered *const *like, struct lowered **out,
                struct err *e)
{
  struct lowered *d = *out = NEW(j->mem, struct lowered);
  struct graph *named = graph_copy(j->mem, g);
  named->name = name;
  const struct lower_opts o = {.tails = true, .dependent = !nlike || like[0]->plan.dependent};
  TRY(lower_plan(j->mem, named, &j->gpu, &o, &d->plan, e));
  d->pick = NEWS(j->mem, struct choice, d->plan.nunits + 1);
  for (int i = 0; i < d->plan.nunits; i++) d->pick[i] = pick(&d->plan, &d->plan.unit[i], nlike, like);
  struct err first = {0};
  if (make_with_others(j, d, &first) != OK) return *e = first, (int)e->status;
  return nothing_compiled(j, d), OK;
}

int device_take(const struct job *j, struct candidate *c, const struct lower_plan *p, const struct choice *pick, struct err *e)
{
  struct lowered *d = c->lowered;
  d->plan = *p, d->pick = arena_copy(j->mem, pick, sizeof *pick * (size_t)(p->nunits + 1));
  TRY(lower_make(j->mem, &d->plan, d->pick, &d->program, e));
  c->kernels = d->program.nlaunch, c->cost = d->program.cost;
  return nothing_compiled(j, d), OK;
}

void device_candidate(struct job *j, const struct contest *c, struct candidate *x)
{
  struct err e = {0};
  if (!x->g && !x->dropped) candidate_complete(j, c, x);
  if (x->dropped || x->lowered) return;
  if (device_make(j, x->g, j->program->name ? j->program->name : "program", 0, NULL, &x->lowered, &e) != OK)
    x->dropped = arena_strdup(j->mem, e.text), x->lowered = NULL;
  else
    x->kernels = x->lowered->program.nlaunch, x->cost = x->lowered->program.cost;
}

void devices_build(struct job *j, struct contest *c, int part, int from)
{
  job_progress(j, "lower", part, 0, &c->stats, 0);
  for (int i = from; i < c->ncand && !job_stopping(j); i++) device_candidate(j, c, &c->cand[i]);
}

// ---- compiling ----

// Registers of a launch are those of its kernel.
static void take_use(struct lowered *d, const struct code *c)
{
  for (int i = 0; i < c->nlaunch; i++) {
    const struct code_kernel *k = c->launch[i].kernel >= 0 ? &c->kernel[c->launch[i].kernel] : NULL;
    if (k) d->registers[i] = k->registers, d->spilled[i] = k->spilled;
  }
}

static int compile_by(const struct job *j, struct gpu_forge *f, struct lowered *d, struct err *e)
{
  struct code c;
  struct compile_result result = {0};
  struct compile_stats stats;
  // What was measured is compiled.
  const struct patience until = {.stop = job_stop(j, *j->unmeasured ? STOP_WORK : STOP_PROOF)};
  TRY(code_make(j->mem, &d->program, &c, e));
  TRY(gpu_forge_codes(j->mem, f, j->db, &until, j->gpu.arch, 1, &c, &result, &stats, e));
  take_use(d, &c);
  if (result.status != OK) *e = result.err;
  return result.status;
}

void device_compile(const struct job *j, struct lowered *d, struct err *e)
{
  struct err missing = {0};
  int major, minor;
  struct gpu_forge *f = j->forge ? j->forge : gpu_forge_open(&(struct gpu_forge_opts){0});
  if (gpu_forge_ready(f, &missing) != OK)
    d->compiled = arena_printf(j->mem, "not compiled: %s", missing.text);
  else {
    gpu_forge_version(f, &major, &minor);
    d->compiled = arena_printf(j->mem, "NVRTC %d.%d", major, minor);
    if (compile_by(j, f, d, e) != OK && e->id == ERR_STOPPED) d->compiled = "not compiled: there was no time";
  }
  if (!j->forge) gpu_forge_close(f);
}

// ---- for the report ----

json_t *lowered_json(const struct job *j, const struct lowered *d)
{
  json_t *list = launches_json(d);
  const struct device_proof *p = &d->proof;
  json_t *proof = json_pack("{s:i, s:i, s:i, s:I, s:I, s:f, s:f, s:s}", "kernels", p->kernels, "run", p->run, "full", p->full, "blocks",
                            (json_int_t)p->blocks, "elements", (json_int_t)p->elements, "error", p->relative, "seconds", p->seconds, "note", p->note);
  return json_pack("{s:s, s:i, s:i, s:I, s:I, s:s, s:o, s:o}", "unmeasured", j->unmeasured, "arch", j->gpu.arch, "runs_on", gpu_runs_on(&j->gpu),
                   "workspace", (json_int_t)d->program.workspace, "zeroed", (json_int_t)d->program.zeroed, "compiled", d->compiled, "interpreter",
                   proof, "launches", list);
}
