// mica tile run --gpu: compiles the kernel by NVRTC and runs it on copies of the same inputs. Its outputs are compared with the interpreter's.
#include "cli/cli.h"
#include "sim/tile_host.h"
#include "cuda/cuda.h"

int tile_device_open(struct cli *c, struct tile_device *d)
{
  if (!c->gpu) return OK;
  TRY(gpu_open(0, &d->g, &c->err));
  TRY(nvrtc_open(&d->r, &c->err));
  d->arch = gpu_facts(d->g)->arch;
  return OK;
}

void tile_device_close(struct tile_device *d)
{
  nvrtc_close(d->r);
  gpu_close(d->g);
}

int tile_device_run(struct cli *c, struct tile_device *d, const struct tile_host *h)
{
  struct cuda_ready ready;
  d->host = NEWS(&c->mem, void *, h->k->nbuffers + 1);
  for (int i = 0; i < h->k->nbuffers; i++)
    if (h->data[i]) d->host[i] = arena_copy(&c->mem, h->data[i], h->bytes[i]);
  TRY(cuda_prepare(d->g, d->r, &c->mem, h->p, h->k, &ready, &c->err));
  struct gpu_use use = gpu_use(ready.kernel);
  if (output_wants_text(c))
    printf("%s: compiled in %.3f s, %d registers, %d bytes of local memory\n", gpu_facts(d->g)->name, ready.seconds, use.registers, use.local_bytes);
  int status = cuda_once(d->g, &c->mem, h->p, h->k, &ready, h->params, d->host, h->bytes, &c->err);
  gpu_unload(ready.module);
  return status;
}

int tile_device_compare(struct cli *c, const struct tile_device *d, const struct tile_host *h)
{
  int status = OK;
  for (int i = 0; i < h->k->nbuffers; i++) {
    const struct tile_buffer *b = &h->k->buffers[i];
    if (!h->data[i] || !b->written) continue;
    int64_t elements = (int64_t)h->bytes[i] / tile_types[b->type].bytes;
    struct sim_difference x = sim_compare(b->type, d->host[i], h->data[i], elements);
    bool fine = x.relative <= 1e-3; // false for NaN
    if (!fine) status = NO;
    if (fine && !output_wants_text(c)) continue;
    printf("%%%s: on the GPU %lld of %lld elements differ in bits, relative norm %.3g\n", b->name, (long long)x.other, (long long)elements,
           x.relative);
    if (!fine) printf("  element %lld is %g there, %g here\n", (long long)x.first, x.a, x.b);
  }
  return status;
}
