// Kernels and the memory between them, for each stream: calls in several streams may overlap, so that each has a workspace of its own,
// which stays until the module goes. The first call in a stream may be one that a CUDA graph captures. Work that must not be captured
// is therefore done in a stream of our own, which is waited for, while the thread's capture mode is relaxed: else the driver would
// refuse to give memory, and the capture would be invalid. Functions of the driver are looked for by name when the first is needed.
#include "ext.h"

#include <dlfcn.h>
#include <string.h>

enum { CAPTURE_RELAXED = 2, STREAM_NON_BLOCKING = 1 };

struct driver {
  int (*alloc)(unsigned long long *out, size_t bytes);
  int (*release)(unsigned long long address);
  int (*exchange)(int *mode);
  int (*stream_new)(void **out, unsigned flags);
  int (*stream_wait)(void *stream);
  int (*stream_free)(void *stream);
};
static const struct {
  const char *name;
  size_t at;
} functions[] = {
    {"cuMemAlloc_v2", offsetof(struct driver, alloc)},
    {"cuMemFree_v2", offsetof(struct driver, release)},
    {"cuThreadExchangeStreamCaptureMode", offsetof(struct driver, exchange)},
    {"cuStreamCreate", offsetof(struct driver, stream_new)},
    {"cuStreamSynchronize", offsetof(struct driver, stream_wait)},
    {"cuStreamDestroy_v2", offsetof(struct driver, stream_free)},
};

static bool driver_find(struct driver *d)
{
  void *library = dlopen("libcuda.so.1", RTLD_NOW); // opened before by whoever has tensors there; stays open
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    void *f = library ? dlsym(library, functions[i].name) : NULL;
    if (!f) return false;
    memcpy((char *)d + functions[i].at, &f, sizeof f);
  }
  return true;
}

static int no_memory(struct module *f) { return ext_raise_status(f->st, MICA_ENVIRONMENT, "no memory on the GPU for calls in another stream"), -1; }

static int lane_fill(struct module *f, const struct driver *d, struct lane *lane)
{
  unsigned long long address = 0;
  size_t bytes = (size_t)mica_module_workspace(f->x);
  void *own;
  if (bytes && d->alloc(&address, bytes)) return no_memory(f);
  lane->workspace = address;
  if (d->stream_new(&own, STREAM_NON_BLOCKING)) return no_memory(f);
  int status, failed;
  Py_BEGIN_ALLOW_THREADS // ranks of a world, which may be threads here, wait for each other
      status = mica_module_prepare(f->x, (void *)(uintptr_t)address, own);
  failed = d->stream_wait(own);
  d->stream_free(own);
  Py_END_ALLOW_THREADS if (status) return ext_raise_context(f->c, status), -1;
  return failed ? no_memory(f) : 0;
}

static int lane_add(struct module *f, int device, void *stream)
{
  struct driver d;
  struct lane lane = {.device = device, .stream = stream};
  int mode = CAPTURE_RELAXED;
  if (!driver_find(&d) || d.exchange(&mode)) {
    ext_raise_status(f->st, MICA_ENVIRONMENT, "NVIDIA's driver (libcuda.so.1) was not found, or is older than CUDA 12.0");
    return -1;
  }
  int status = lane_fill(f, &d, &lane);
  d.exchange(&mode);
  struct lane *more = status ? NULL : PyMem_Realloc(f->lane, (size_t)(f->nlane + 1) * sizeof *more);
  if (!status && !more) PyErr_NoMemory();
  if (!more && lane.workspace) d.release(lane.workspace);
  if (!more) return -1;
  f->lane = more, f->lane[f->nlane++] = lane;
  return 0;
}

int ext_lane_find(struct module *f, int device, void *stream, void **workspace)
{
  if (!mica_module_workspace(f->x)) stream = NULL; // one lane is for all streams
  int i = 0;
  while (i < f->nlane && (f->lane[i].device != device || f->lane[i].stream != stream)) i++;
  if (i == f->nlane && lane_add(f, device, stream)) return -1;
  *workspace = (void *)(uintptr_t)f->lane[i].workspace;
  return 0;
}

void ext_lanes_close(struct lane *lane, int n)
{
  struct driver d;
  bool found = n && driver_find(&d);
  for (int i = 0; i < n && found; i++)
    if (lane[i].workspace) d.release(lane[i].workspace); // waits for the kernels that use it
  PyMem_Free(lane);
}
