// Machine code of a whole run. Races, proofs and saved folders request the same kernels repeatedly; each source is compiled once here. Costly parts
// are made when they are first needed: a run that is recalled starts no compiler.
#include "gpu/session.h"
#include "base/memory.h"

static void drop(void *f) { gpu_forge_close(f); }
static const struct mem_kind kind = {.close = drop};

struct gpu_forge *gpu_forge_open(const struct gpu_forge_opts *o)
{
  struct gpu_forge *f = mem_handle(sizeof *f, &kind);
  f->o = *o, f->compiled.mem.lasting = true;
  pthread_mutex_init(&f->compiled.lock, NULL);
  if (o->by) f->by = *o->by;
  return f;
}

void gpu_forge_close(struct gpu_forge *f)
{
  if (!f) return;
  compilers_close(f->processes);
  nvrtc_close(f->nvrtc);
  arena_close(&f->compiled.mem);
  pthread_mutex_destroy(&f->compiled.lock);
  mem_free(f);
}

void gpu_forge_rest(struct gpu_forge *f)
{
  if (f && f->processes) compilers_rest(f->processes);
}

int gpu_forge_ready(struct gpu_forge *f, struct err *e)
{
  if (f->ready) return OK;
  if (!f->o.by && nvrtc_open(&f->nvrtc, e)) return e->status;
  if (!f->o.by) f->by = gpu_compiler_nvrtc(f->nvrtc);
  if (!f->o.by || f->o.apart) f->processes = compilers_open(f->o.worker);
  return f->ready = true, OK;
}

void gpu_forge_version(const struct gpu_forge *f, int *major, int *minor) { *major = f->by.major, *minor = f->by.minor; }

int gpu_forge_begin(struct arena *mem, struct gpu_forge *f, struct db *db, const struct patience *until, int arch, int n, const struct code *codes,
                    struct compilation **out, struct err *e)
{
  if (gpu_forge_ready(f, e)) return e->status;
  const struct compile_with how = {.c = &f->by, .processes = f->processes, .db = db, .before = &f->compiled, .until = *until};
  return compile_begin(mem, &how, arch, n, codes, out, e);
}

int gpu_forge_codes(struct arena *mem, struct gpu_forge *f, struct db *db, const struct patience *until, int arch, int n, struct code *codes,
                    struct compile_result *results, struct compile_stats *stats, struct err *e)
{
  struct compilation *w;
  TRY(gpu_forge_begin(mem, f, db, until, arch, n, codes, &w, e));
  compile_work(w);
  compile_end(mem, w, codes, results, stats);
  return OK;
}
