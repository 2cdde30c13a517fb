// Candidates as kernels for GPUs. Each kernel uses the model's best choice. A program joined from parts uses the choices of its parts. A failure
// drops the candidate, with its reason.
#include "drive/climb.h"
#include "drive/pass.h"
#include "gpu/gpu.h"

#include <string.h>

enum { OTHERS = 8 };

// ---- choices ----

static bool same_kernel(const struct lower_plan *a, const struct lower_unit *x, const struct lower_plan *b, const struct lower_unit *y)
{
  if (x->meet.m.ranks || y->meet.m.ranks) return false;
  if (x->product != y->product || (x->first == x->last) != (y->first == y->last)) return false;
  if (x->product) return blas_same(&x->mul.p, &y->mul.p) && (x->first == x->last || blas_same(&x->ends.p, &y->ends.p));
  return graph_same(a->g->nodes[x->first].sub, b->g->nodes[y->first].sub) && graph_same(a->g->nodes[x->last].sub, b->g->nodes[y->last].sub);
}

// Whether y is x without its tail.
static bool same_head(const struct lower_plan *a, const struct lower_unit *x, const struct lower_plan *b, const struct lower_unit *y)
{
  const bool ranks = x->meet.m.ranks || y->meet.m.ranks;
  return x->first != x->last && y->first == y->last && !x->product && !y->product && !ranks &&
         graph_same(a->g->nodes[x->first].sub, b->g->nodes[y->first].sub);
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

// A scheme that cannot keep a promise loses this choice, as long as there is another one. The first choice was the model's best, or that of a part.
static int make_with_others(const struct job *j, struct lowered *d, struct err *e)
{
  int *next = NEWS(j->mem, int, d->plan.nunits + 1); // choice of each unit
  for (int tries = 0; tries < OTHERS; tries++) {
    struct err mine = {0};
    if (lower_make(j->mem, &d->plan, d->pick, &d->program, &mine) == OK) return OK;
    int at = d->program.nlaunch ? d->program.launch[d->program.nlaunch - 1].unit : -1;
    const struct lower_unit *u = at >= 0 ? &d->plan.unit[at] : NULL;
    if (!e->status) *e = mine;
    while (u && next[at] < u->nchoices && choice_same(&u->choice[next[at]], &d->pick[at])) next[at]++;
    if (!u || next[at] >= u->nchoices) break;
    d->pick[at] = u->choice[next[at]++];
  }
  return (int)e->status;
}

static void nothing_compiled(const struct job *j, struct lowered *d)
{
  d->registers = NEWS(j->mem, int, d->program.nlaunch + 1), d->spilled = NEWS(j->mem, int, d->program.nlaunch + 1);
  for (int i = 0; i < d->program.nlaunch; i++) d->registers[i] = d->spilled[i] = -1;
  d->compiled = "", d->proof.note = "";
}

// ---- passes ----

// The kernels of the parts of a joined program.
static const struct lowered **made_of(const struct job *j, const struct candidate *x, int *n)
{
  const struct lowered **like = NEWS(j->mem, const struct lowered *, j->split.n + 1);
  *n = 0;
  for (int i = 0; i < j->split.n && x->of; i++)
    if (x->of[i]->gpu.lowered) like[(*n)++] = x->of[i]->gpu.lowered;
  return like;
}

bool device_given(const struct job *j, const struct contest *c, const struct candidate *x)
{
  return x->ways || (j->opts->candidate && j->opts->knobs && c && x != c->cand);
}

// Whether the list of --knobs ends with the word for independent launches.
static bool independent(const char *knobs)
{
  const char *last = strrchr(knobs, ';');
  last = last ? last + 1 : knobs;
  return !strcmp(last + strspn(last, " "), INDEPENDENT);
}

// The kernels of a program. For several devices: those of one rank, including its collectives.
static int kernels_of(const struct job *j, const struct candidate *x, struct graph **out, struct err *e)
{
  if (x->rank) return graph_rank(j->mem, x->rank, out, e);
  return *out = graph_copy(j->mem, x->g), OK;
}

// The layouts of tensors between the parts of a joined program, as they were when the parts were measured. NULL: it is one part.
static const char *const *between_parts(const struct job *j, const struct candidate *x)
{
  if (!x->of || j->split.n < 2) return NULL;
  const char **name = NEWS(j->mem, const char *, j->moved.g->ntensors + 1);
  int n = 0;
  for (int i = 0; i < j->split.n; i++)
    for (int k = 0; k < j->split.parts[i].nout; k++) {
      name[n] = j->moved.g->tensors[j->split.parts[i].out[k]].name;
      n += name[n] != NULL;
    }
  return name[n] = NULL, name;
}

int run_norm(const struct pass_on *on, struct err *e)
{
  const struct job *j = on->j;
  struct lowered *d = NEW(j->mem, struct lowered);
  struct graph *named;
  TRY(kernels_of(j, on->x, &named, e));
  int n, one = device_given(j, on->c, on->x);
  const struct lowered **like = made_of(j, on->x, &n);
  const bool dependent = on->x->ways ? on->x->ways->dependent : one ? !independent(j->opts->knobs) : !n || like[0]->plan.dependent;
  const struct lower_opts o = {.tails = true, .dependent = dependent, .stored = between_parts(j, on->x)};
  named->name = j->program->name ? j->program->name : "program";
  TRY(lower_plan(j->mem, named, &j->target, &o, &d->plan, e));
  return on->x->gpu.lowered = d, OK;
}

enum { MOST_KNOBS = 64 };

// Parses --knobs for a given candidate: one entry for each launch, separated by semicolons.
static int by_knobs(const struct job *j, struct lowered *d, struct err *e)
{
  const char *how[MOST_KNOBS];
  int n = 0;
  char *rest = arena_strdup(j->mem, j->opts->knobs), *next;
  for (; rest && n < MOST_KNOBS; rest = next) {
    if ((next = strchr(rest, ';'))) *next++ = 0;
    how[n++] = rest + strspn(rest, " ");
  }
  n -= independent(j->opts->knobs);
  if (!rest && launches_pick(&d->plan, n, how, d->pick)) return OK;
  return err_set(e, ERR_OPTION, NOWHERE, "--knobs %.200s: these are not %d schemes with knobs, one for each launch", j->opts->knobs, d->plan.nunits);
}

// They may come from elsewhere (plans.c): each is checked.
static int by_ways(const struct job *j, struct lowered *d, const struct candidate_ways *w, struct err *e)
{
  bool fits = launches_pick(&d->plan, w->n, w->how, d->pick);
  for (int i = 0; i < d->plan.nunits && fits; i++) fits = lower_inside(&d->plan, d->pick, i) || launches_settle(j->mem, &d->plan, i, &d->pick[i]);
  return fits ? OK : err_set(e, ERR_TARGET, NOWHERE, "its kernels use schemes or knobs that this build does not have");
}

int run_choices(const struct pass_on *on, struct err *e)
{
  const struct job *j = on->j;
  struct lowered *d = on->x->gpu.lowered;
  int n;
  const struct lowered **like = made_of(j, on->x, &n);
  d->pick = NEWS(j->mem, struct choice, d->plan.nunits + 1);
  if (on->x->ways && by_ways(j, d, on->x->ways, e) == OK) return OK;
  if (on->x->ways && on->x != on->c->cand) return (int)e->status;
  if (on->x->ways) on->x->ways = NULL, *e = (struct err){0}; // op-by-op is always available
  if (device_given(j, on->c, on->x)) return by_knobs(j, d, e);
  for (int i = 0; i < d->plan.nunits; i++) d->pick[i] = pick(&d->plan, &d->plan.unit[i], n, like);
  return OK;
}

int run_lower(const struct pass_on *on, struct err *e)
{
  const struct job *j = on->j;
  struct lowered *d = on->x->gpu.lowered;
  struct err first = {0};
  bool one = device_given(j, on->c, on->x);
  int status = one ? lower_make(j->mem, &d->plan, d->pick, &d->program, &first) : make_with_others(j, d, &first);
  if (status != OK) return *e = first, on->x->gpu.lowered = NULL, status;
  nothing_compiled(j, d);
  on->x->kernels = d->program.nlaunch, on->x->cost = d->program.cost;
  return OK;
}

int run_cuda(const struct pass_on *on, struct err *e)
{
  struct lowered *d = on->x->gpu.lowered;
  struct code *c = NEW(on->j->mem, struct code);
  TRY(code_make(on->j->mem, &d->program, c, e));
  return d->code = c, OK;
}

int run_nvrtc(const struct pass_on *on, struct err *e)
{
  struct err mine = {0};
  device_compile(on->j, on->x->gpu.lowered, &mine);
  if (mine.status == OK || mine.id == ERR_STOPPED) return OK;
  return err_set(e, mine.id, NOWHERE, "compiler: %.700s", mine.text);
}

int device_take(const struct job *j, struct candidate *c, const struct lower_plan *p, const struct choice *pick, struct err *e)
{
  struct lowered *d = c->gpu.lowered;
  d->code = NULL, d->plan = *p, d->pick = arena_copy(j->mem, pick, sizeof *pick * (size_t)(p->nunits + 1));
  TRY(lower_make(j->mem, &d->plan, d->pick, &d->program, e));
  c->kernels = d->program.nlaunch, c->cost = d->program.cost;
  return nothing_compiled(j, d), OK;
}

// The exported and stored program is the measured one. algorithm: for each launch, or NULL.
void device_algorithms(struct device_program *d, const int *algorithm)
{
  for (int i = 0; i < d->nlaunch && algorithm; i++) d->launch[i].algorithm = algorithm[i];
}

void device_candidate(struct job *j, struct contest *c, struct candidate *x)
{
  struct err e = {0};
  if (!x->dropped && pass_candidate(j, c, x, LAST_OF_CANDIDATE, &e) != OK) pass_fell(j, c, x, &e);
}

// ---- compiling ----

// A launch has the registers of its kernel.
static void take_use(struct lowered *d, const struct code *c)
{
  for (int i = 0; i < c->nlaunch; i++) {
    const struct code_kernel *k = c->launch[i].kernel >= 0 ? &c->kernel[c->launch[i].kernel] : NULL;
    if (k) d->registers[i] = k->registers, d->spilled[i] = k->spilled;
  }
}

static int compile_by(const struct job *j, struct gpu_forge *f, struct lowered *d, struct err *e)
{
  struct compile_result result = {0};
  struct compile_stats stats;
  // A measured program was compiled.
  const struct patience until = {.stop = job_stop(j, *j->unmeasured ? STOP_WORK : STOP_PROOF)};
  if (!d->code) {
    d->code = NEW(j->mem, struct code);
    TRY(code_make(j->mem, &d->program, d->code, e));
  }
  TRY(gpu_forge_codes(j->mem, f, j->db, &until, j->target.arch, 1, d->code, &result, &stats, e));
  take_use(d, d->code);
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
    if (compile_by(j, f, d, e) != OK && e->id == ERR_STOPPED) d->compiled = "not compiled: no time was left";
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
  return json_pack("{s:s, s:i, s:i, s:I, s:I, s:s, s:o, s:o, s:o}", "unmeasured", j->unmeasured, "arch", j->target.arch, "runs_on",
                   gpu_runs_on(&j->target), "workspace", (json_int_t)d->program.workspace, "zeroed", (json_int_t)d->program.zeroed, "compiled",
                   d->compiled, "interpreter", proof, "launches", list, "stored", stored_json(d));
}
