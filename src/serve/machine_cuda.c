// The machine of NVIDIA's driver. NVRTC compiles the text. Launches are cooperative, so that all blocks are resident at the same time.
#include "base/memory.h"
#include "cuda/cuda.h"
#include "serve/serve.h"

#include <string.h>

enum { THREADS_FILL = 256, BLOCKS_FILL = 1024 };

struct cuda_machine {
  struct gpu *g;
  struct gpu_module *module;
  struct gpu_kernel *kernel, *pack, *fill;
  gpu_address memory; // the global variable M of the text, a kernel_memory
  int64_t workers;
  int threads;
  double seconds;
};

static int enter(struct cuda_machine *c, void **before, struct err *e)
{
  return gpu_enter(c->g, before) ? OK : err_set(e, ERR_GPU, NOWHERE, "the GPU's context cannot be used in this thread");
}
// Makes the context current during a call, which may come from any thread.
#define WITHIN(c, call)                                \
  do {                                                 \
    void *before_;                                     \
    if (enter(c, &before_, e) != OK) return e->status; \
    int status_ = (call);                              \
    gpu_leave((c)->g, before_);                        \
    return status_;                                    \
  } while (0)

static int room(void *arg, size_t bytes, device_address *out, struct err *e)
{
  struct cuda_machine *c = arg;
  WITHIN(c, gpu_alloc(c->g, bytes, out, e));
}
static int write_to(void *arg, device_address to, const void *from, size_t bytes, struct err *e)
{
  struct cuda_machine *c = arg;
  WITHIN(c, gpu_write(c->g, to, from, bytes, e));
}
static int read_from(void *arg, void *to, device_address from, size_t bytes, struct err *e)
{
  struct cuda_machine *c = arg;
  WITHIN(c, gpu_read(c->g, to, from, bytes, e));
}
static int zero(void *arg, device_address to, size_t bytes, struct err *e)
{
  struct cuda_machine *c = arg;
  WITHIN(c, gpu_fill(c->g, to, 0, bytes, e));
}

static int start(struct cuda_machine *c, struct gpu_kernel *k, void **args, struct err *e)
{
  const struct gpu_launch l = {.kernel = k, .blocks = BLOCKS_FILL, .threads = THREADS_FILL, .args = args};
  TRY(gpu_launch(c->g, &l, e));
  return gpu_wait(c->g, e);
}
static int fill(void *arg, device_address to, uint64_t seed, double scale, int bytes, int64_t n, struct err *e)
{
  struct cuda_machine *c = arg;
  WITHIN(c, start(c, c->fill, (void *[]){&to, &seed, &scale, &bytes, &n}, e));
}
static int pack_weights(void *arg, int op, device_address to, device_address from, struct err *e)
{
  struct cuda_machine *c = arg;
  WITHIN(c, start(c, c->pack, (void *[]){&op, &to, &from}, e));
}

static int run(struct cuda_machine *c, const uint64_t *memory, size_t bytes, void **args, struct err *e)
{
  const struct gpu_launch l = {.kernel = c->kernel, .blocks = c->workers, .threads = c->threads, .cooperative = true, .args = args};
  TRY(gpu_write(c->g, c->memory, memory, bytes, e));
  return gpu_launch_time(c->g, &l, &c->seconds, e);
}
static int launch(void *arg, const uint64_t *memory, size_t bytes, uint32_t first, int position, int steps, struct err *e)
{
  struct cuda_machine *c = arg;
  WITHIN(c, run(c, memory, bytes, (void *[]){&first, &position, &steps}, e));
}

static double seconds(void *arg) { return ((struct cuda_machine *)arg)->seconds; }

static void drop(void *arg, device_address a)
{
  struct cuda_machine *c = arg;
  void *before;
  if (!gpu_enter(c->g, &before)) return;
  gpu_free(c->g, a);
  gpu_leave(c->g, before);
}

static void machine_close(void *arg)
{
  struct cuda_machine *c = arg;
  void *before;
  bool in = c->g && gpu_enter(c->g, &before);
  gpu_unload(c->module);
  if (in) gpu_leave(c->g, before);
  gpu_close(c->g);
  mem_free(c);
}

// ---- opening ----

static int compile(struct cuda_machine *c, const char *source, const struct mega_plan *p, struct err *e)
{
  struct nvrtc *r;
  struct arena own = {0};
  struct cubin code;
  int arch;
  TRY(cuda_arch_find("sm_90a", &arch, e));
  TRY(nvrtc_open(&r, e));
  int status = nvrtc_compile(r, &own, p->m->name, source, arch, &code, e);
  if (status == OK) status = gpu_load(c->g, &code, &c->module, e);
  nvrtc_close(r);
  arena_close(&own);
  return status;
}

static int fits(struct cuda_machine *c, const struct mega_plan *p, struct err *e)
{
  const struct gpu_facts *f = gpu_facts(c->g);
  if (f->arch != 90)
    return err_set(e, ERR_GPU, NOWHERE, "%s has the capability %d.%d; persistent kernels need 9.0", f->name, f->arch / 10, f->arch % 10);
  if (p->m->workers <= f->processors) return OK;
  err_set(e, ERR_MEGA, NOWHERE, "%d workers, and %s has %d multiprocessors", p->m->workers, f->name, f->processors);
  return err_hint(e, "open the model with %d workers", f->processors), USER;
}

static int find(struct cuda_machine *c, struct err *e)
{
  size_t bytes;
  TRY(gpu_global(c->module, "M", &c->memory, &bytes, e));
  TRY(gpu_find(c->module, "mega_kernel", MEGACUDA_SHARED, 1, &c->kernel, e));
  TRY(gpu_find(c->module, "mega_pack", 0, 1, &c->pack, e));
  return gpu_find(c->module, "mega_fill", 0, 1, &c->fill, e);
}

int serve_machine_cuda(const char *source, const struct mega_plan *p, int device, struct serve_machine *out, struct err *e)
{
  struct cuda_machine *c = mem_lasting(sizeof *c);
  struct arena own = {0};
  void *before = NULL;
  c->workers = p->m->workers, c->threads = megacuda_block(&own, p, MEGACUDA_WARPS);
  arena_close(&own);
  int status = gpu_open(device, &c->g, e);
  bool in = status == OK && gpu_enter(c->g, &before);
  if (status == OK) status = fits(c, p, e);
  if (status == OK) status = compile(c, source, p, e);
  if (status == OK) status = find(c, e);
  if (in) gpu_leave(c->g, before);
  if (status != OK) return machine_close(c), status;
  *out = (struct serve_machine){c, room, write_to, read_from, zero, fill, pack_weights, launch, seconds, drop, machine_close};
  return OK;
}
