// Runs a device program once on given inputs, in a worker process as in races.
#include "once.h"

#include <string.h>

static const double LIMIT = 60; // seconds

static int compile(struct arena *mem, const struct device_program *p, const struct gpu_race_opts *o, struct code *c, struct err *e)
{
  struct nvrtc *nvrtc = NULL;
  struct compile_result r;
  struct compile_stats stats;
  if (code_make(mem, p, c, e)) return e->status;
  if (!o->compiler && nvrtc_open(&nvrtc, e)) return e->status;
  const struct gpu_compiler compiler = o->compiler ? *o->compiler : gpu_compiler_nvrtc(nvrtc);
  int status = compile_codes(mem, &compiler, o->db, gpu_runs_on(p->gpu), 1, c, &r, &stats, e);
  nvrtc_close(nvrtc);
  if (status == OK && r.status != OK) *e = r.err, status = r.status;
  return status;
}

static int run(struct gpu_worker *w, const struct code *c, struct buffers *b, double limit, struct err *e)
{
  struct run_answer a;
  int id;
  if (gpu_worker_problem(w, b, 1, e) || gpu_worker_load(w, c, &id, e)) return e->status;
  if (gpu_worker_run(w, id, 1, limit, &a, e)) return e->status;
  for (int i = 0; i < b->nout; i++) memcpy(b->out[i], a.first[i], b->out_bytes[i]);
  return OK;
}

int gpu_run_program(struct arena *mem, const struct device_program *p, struct buffers *b, const struct gpu_race_opts *o, struct err *e)
{
  struct code c;
  struct gpu_worker *w = o->with;
  const struct gpu_worker_opts how = {.device = o->device, .path = o->worker};
  if (!w && gpu_worker_open(&how, &w, e)) return e->status;
  int status = compile(mem, p, o, &c, e);
  if (status == OK) status = run(w, &c, b, o->limit > 0 ? o->limit : LIMIT, e);
  if (o->with)
    gpu_worker_end(w);
  else
    gpu_worker_close(w);
  return status;
}
