// Shared state of the races of one program: the worker, compiled code, inputs and the reference. All are made when first needed, so a recalled race
// starts no driver.
#include "gpu/session.h"
#include "base/memory.h"

static void drop(void *s) { gpu_session_close(s); }
static const struct mem_kind kind = {.close = drop};

int gpu_session_open(const struct graph *reference, const struct gpu_race_opts *o, struct gpu_session **out)
{
  struct gpu_session *s = *out = mem_handle(sizeof *s, &kind);
  s->g = reference, s->o = *o, s->staged = -1;
  return OK;
}

void gpu_session_close(struct gpu_session *s)
{
  if (!s) return;
  for (int i = 0; i < PROBLEMS; i++)
    if (s->problem[i].g) problem_close(&s->problem[i]);
  if (s->w && s->o.with)
    gpu_worker_end(s->w);
  else if (s->w)
    gpu_worker_close(s->w);
  gpu_forge_close(s->own);
  arena_close(&s->mem);
  mem_free(s);
}

int session_worker(struct gpu_session *s, struct err *e)
{
  const struct gpu_worker_opts o = {.device = s->o.device, .path = s->o.worker, .stop = s->o.stop};
  if (s->w) return OK;
  if (s->o.with) return s->w = s->o.with, gpu_worker_heed(s->w, s->o.stop), OK;
  int status = gpu_worker_open(&o, &s->w, e);
  if (s->w) mem_keep(s->w); // the session closes it
  return status;
}

struct gpu_forge *session_forge(struct gpu_session *s)
{
  const char *worker = s->o.with ? gpu_worker_path(s->o.with) : s->o.worker;
  if (s->forge) return s->forge;
  if (s->o.forge) return s->forge = s->o.forge;
  s->own = gpu_forge_open(&(struct gpu_forge_opts){.by = s->o.compiler, .worker = worker});
  mem_keep(s->own); // the session closes it
  return s->forge = s->own;
}

int session_problem(struct gpu_session *s, int which, const struct problem **out, struct err *e)
{
  struct problem *p = &s->problem[which];
  *out = p;
  if (p->g) return OK;
  uint64_t seed = which == OWN_INPUTS ? s->o.seed : hash_mix(s->o.seed, (uint64_t)which);
  const struct problem_wish w = {seed, s->o.stop, gpu_evaluator_device(s->o.evaluator)};
  int status = (which == SPECIAL_INPUTS ? problem_open_special : problem_open)(p, &s->mem, s->g, &w, e);
  gpu_evaluator_rest(s->o.evaluator);
  if (status != OK) problem_close(p);
  return status;
}

int session_stage(struct gpu_session *s, int which, bool *replaced, struct err *e)
{
  const struct problem *p;
  *replaced = s->staged != which || s->staged_at != gpu_worker_problems(s->w); // sessions share a worker
  if (!*replaced) return OK;
  s->staged = -1;
  if (session_problem(s, which, &p, e) || gpu_worker_problem(s->w, p->b, which == OWN_INPUTS && !s->o.untimed ? 0 : 2, e)) return e->status;
  return s->staged = which, s->staged_at = gpu_worker_problems(s->w), s->comparing = false, OK;
}

// If references are computed on the device, outputs are compared there too.
int session_compare(struct gpu_session *s, struct err *e)
{
  const struct problem *p = &s->problem[OWN_INPUTS];
  struct gpu_worker_facts f;
  if (!s->o.evaluator || s->comparing || s->staged != OWN_INPUTS) return OK;
  s->comparing = true;
  if (gpu_worker_facts(s->w, &f, e)) return e->status;
  if (!s->compare) s->compare = compare_plan(&s->mem, p, session_forge(s), s->o.db, &(struct patience){.stop = s->o.stop}, f.gpu.arch);
  return s->compare ? gpu_worker_compare(s->w, s->compare, e) : OK;
}
