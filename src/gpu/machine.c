// Checks before a long search that this machine can race programs: a compiler, a driver that loads its output, the right GPU, and memory for inputs
// and outputs.
#include "gpu/session.h"

enum { CACHES = 2 }; // buffers of the size of L2 that are written to flush it
static const double MB = 1 << 20;

static int check_driver(const struct gpu_forge *f, const struct gpu_facts *g, struct err *e)
{
  int major, minor;
  gpu_forge_version(f, &major, &minor);
  if (g->driver / 1000 >= major) return OK;
  err_set(e, ERR_GPU, NOWHERE, "the driver is for CUDA %d.%d and cannot load what NVRTC %d.%d compiles", g->driver / 1000, g->driver % 1000 / 10,
          major, minor);
  err_hint(e, "install a newer driver, or set LD_LIBRARY_PATH to the folder of a libnvrtc.so.%d", g->driver / 1000);
  return e->status;
}

int gpu_machine_check(struct gpu_worker *w, const struct gpu_forge *f, const struct gpu_need *n, struct err *e)
{
  struct gpu_worker_facts x;
  if (gpu_worker_facts(w, &x, e) || check_driver(f, &x.gpu, e)) return e->status;
  const struct target *t = target_gpu(n->arch);
  if (!t || !target_code_runs(t, x.gpu.arch))
    return err_set(e, ERR_TARGET, NOWHERE, "the kernels are for compute capability %d.%d, and %s has %d.%d", n->arch / 10, n->arch % 10, x.gpu.name,
                   x.gpu.arch / 10, x.gpu.arch % 10);
  int64_t least = n->bytes + CACHES * x.gpu.l2;
  if (least <= x.memory) return OK;
  err_set(e, ERR_MEMORY, NOWHERE, "inputs and outputs need %.0f MB of the GPU's memory, and %.0f MB are free", (double)least / MB,
          (double)x.memory / MB);
  err_hint(e, "`nvidia-smi` shows who uses it");
  return e->status;
}

int gpu_machine_begin(struct gpu_forge *f, stop_flag stop, struct gpu_worker **out, struct err *e)
{
  const struct gpu_worker_opts o = {.stop = stop};
  TRY(gpu_worker_open(&o, out, e)); // it starts while the compiler is looked up
  return gpu_forge_ready(f, e);
}
