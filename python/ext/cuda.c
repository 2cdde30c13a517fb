// Memory between kernels. A module's own is for one stream: calls in several streams may overlap, so that each further stream gets a
// workspace of its own, which stays until the module goes. The driver is looked for by name when the first is needed.
#include "ext.h"

#include <dlfcn.h>

typedef int (*alloc_fn)(unsigned long long *out, size_t bytes);
typedef int (*free_fn)(unsigned long long address);

static void *driver(const char *name)
{
  void *library = dlopen("libcuda.so.1", RTLD_NOW); // opened before by whoever has tensors there; stays open
  return library ? dlsym(library, name) : NULL;
}

static int workspace_new(struct module *f, void *stream, uint64_t *out)
{
  alloc_fn alloc = (alloc_fn)(uintptr_t)driver("cuMemAlloc_v2");
  unsigned long long address = 0;
  int64_t bytes = mica_module_workspace(f->x);
  if (!alloc || alloc(&address, (size_t)bytes)) {
    ext_raise_status(f->st, MICA_ENVIRONMENT, "no memory on the GPU for calls in another stream");
    return -1;
  }
  int status = mica_module_prepare(f->x, (void *)(uintptr_t)address, stream);
  *out = address;
  return status ? (ext_raise_context(f->c, status), -1) : 0;
}

static int lane_add(struct module *f, void *stream)
{
  struct lane *more = PyMem_Realloc(f->lane, (size_t)(f->nlane + 1) * sizeof *more);
  if (!more) return PyErr_NoMemory(), -1;
  f->lane = more;
  f->lane[f->nlane] = (struct lane){.stream = stream};
  if (f->nlane && workspace_new(f, stream, &f->lane[f->nlane].workspace)) return -1;
  return f->nlane++, 0;
}

int ext_lane_find(struct module *f, void *stream, void **workspace)
{
  *workspace = NULL;
  if (!mica_module_workspace(f->x)) return 0;
  int i = 0;
  while (i < f->nlane && f->lane[i].stream != stream) i++;
  if (i == f->nlane && lane_add(f, stream)) return -1;
  *workspace = (void *)(uintptr_t)f->lane[i].workspace; // of the first: none, that is, the module's own
  return 0;
}

void ext_lanes_close(struct module *f)
{
  free_fn give_back = f->nlane > 1 ? (free_fn)(uintptr_t)driver("cuMemFree_v2") : NULL; // waits for the kernels that use it
  for (int i = 1; i < f->nlane && give_back; i++) give_back(f->lane[i].workspace);
  PyMem_Free(f->lane);
}
