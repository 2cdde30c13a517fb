// The GPUs of this machine, and which of them can access each other's memory.
#include "cuda/driver.h"

static int read_place(const struct gpu *g, int i, int n, struct gpu_place *p, struct err *e)
{
  int device, other;
  *p = (struct gpu_place){0};
  if (gpu_check(g, g->device_get(&device, i), e, "asking about GPU %d", i)) return e->status;
  if (gpu_check(g, g->device_name(p->name, (int)sizeof p->name, device), e, "asking for the name of GPU %d", i)) return e->status;
  for (int k = 0; k < n; k++) {
    int can = 0;
    if (k == i) continue;
    if (gpu_check(g, g->device_get(&other, k), e, "asking about GPU %d", k)) return e->status;
    if (gpu_check(g, g->device_peer(&can, device, other), e, "asking whether GPU %d reaches GPU %d", i, k)) return e->status;
    if (can) p->reaches |= UINT64_C(1) << k;
  }
  return OK;
}

int gpu_topology(struct arena *mem, struct gpu_place **out, int *n, struct err *e)
{
  struct gpu *g;
  *n = 0, *out = NULL;
  TRY(gpu_open(0, &g, e));
  int status = gpu_check(g, g->device_count(n), e, "counting devices");
  *n = MIN(*n, GPU_MOST_PLACES);
  *out = NEWS(mem, struct gpu_place, *n);
  for (int i = 0; i < *n && status == OK; i++) status = read_place(g, i, *n, &(*out)[i], e);
  gpu_close(g);
  return status;
}
