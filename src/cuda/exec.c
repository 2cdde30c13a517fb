// Runs a kernel once on a device, with data in host memory.
#include "cuda/cuda.h"

int cuda_upload(struct gpu *g, const struct tile_kernel *k, void *const *host, const size_t *bytes, gpu_address *a, struct err *e)
{
  for (int i = 0; i < k->nbuffers; i++) {
    if (k->buffers[i].mem != MEM_GL) continue;
    if (gpu_alloc(g, bytes[i], &a[i], e) || gpu_write(g, a[i], host[i], bytes[i], e)) return e->status;
  }
  return OK;
}

void cuda_release(struct gpu *g, const struct tile_kernel *k, const gpu_address *a)
{
  for (int i = 0; i < k->nbuffers; i++) gpu_free(g, a[i]);
}

int cuda_once(struct gpu *g, struct arena *mem, const struct tile_program *p, const struct tile_kernel *k, const struct cuda_ready *r,
              const int64_t *sizes, void *const *host, const size_t *bytes, struct err *e)
{
  gpu_address *a = NEWS(mem, gpu_address, k->nbuffers + 1);
  struct gpu_launch l;
  int status = cuda_upload(g, k, host, bytes, a, e);
  if (status == OK) status = cuda_bind(g, mem, p, k, sizes, a, &l, e);
  if (status == OK) l.kernel = r->kernel, status = gpu_launch(g, &l, e);
  if (status == OK) status = gpu_wait(g, e);
  for (int i = 0; i < k->nbuffers && status == OK; i++)
    if (k->buffers[i].mem == MEM_GL && k->buffers[i].written) status = gpu_read(g, host[i], a[i], bytes[i], e);
  cuda_release(g, k, a);
  return status;
}
