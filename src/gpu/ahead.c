// Kernels of a float64 reference, compiled in a thread before the reference is needed. The caller's thread looks them up in the database and stores
// new ones. A kernel serves all shapes (plain_args.h), so those of a whole program serve its parts too.
#include "base/memory.h"
#include "eval/eval.h"
#include "gpu/plain.h"
#include "gpu/session.h"

struct gpu_ahead {
  struct arena mem;
  struct code codes[PLAIN_MODES];
  struct compile_result results[PLAIN_MODES];
  struct compilation *work;
  struct compile_thread *thread;
};

static void drop(void *a) { gpu_ahead_close(a); }
static const struct mem_kind kind = {.close = drop};

// Errors are reported when the reference is computed.
static bool start(struct gpu_ahead *a, struct gpu_forge *f, struct db *db, int arch, const struct graph *g, stop_flag stop)
{
  struct err later = {0};
  struct graph *stable;
  const struct patience until = {.stop = stop};
  if (gpu_forge_ready(f, &later) || graph_expand(&a->mem, g, true, &stable, &later)) return false;
  for (int m = 0; m < PLAIN_MODES; m++)
    if (plain_code(&a->mem, stable, (enum plain_mode)m, &a->codes[m], &later)) return false;
  if (gpu_forge_begin(&a->mem, f, db, &until, arch, PLAIN_MODES, a->codes, &a->work, &later)) return a->work = NULL, false;
  a->thread = compile_start(&a->mem, a->work, "reference kernels ahead");
  return true;
}

struct gpu_ahead *gpu_ahead_open(struct gpu_forge *f, struct db *db, int arch, const struct graph *g, stop_flag stop)
{
  struct gpu_ahead *a = mem_handle(sizeof *a, &kind);
  if (start(a, f, db, arch, g, stop)) return a;
  return gpu_ahead_close(a), NULL;
}

// Without memory for its kernels the reference compiles them again, or says so.
void gpu_ahead_close(struct gpu_ahead *a)
{
  struct compile_stats stats;
  struct shortage lack;
  if (!a) return;
  if (a->thread && compile_wait(a->thread, &lack)) compile_end(&a->mem, a->work, a->codes, a->results, &stats);
  arena_close(&a->mem);
  mem_free(a);
}
