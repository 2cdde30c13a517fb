// mica tile run --cpu: the kernel as C, compiled and run on copies of the same inputs. Its outputs are compared with the interpreter's.
#include "cli/cli.h"
#include "sim/tile_cpu.h"
#include "sim/tile_host.h"
#include "cuda/cuda.h"

#include <time.h>

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int tile_processor_run(struct cli *c, const struct tile_host *h, void ***host)
{
  struct module *m;
  double began = now();
  *host = NEWS(&c->mem, void *, h->k->nbuffers + 1);
  for (int i = 0; i < h->k->nbuffers; i++)
    if (h->data[i]) (*host)[i] = arena_copy(&c->mem, h->data[i], h->bytes[i]);
  TRY(tile_cpu_build(h->p, h->k, &m, &c->err));
  double built = now();
  int status = tile_cpu_run(m, h->k, h->params, *host, &c->err);
  double done = now();
  module_close(m);
  if (status == OK && output_wants_text(c)) printf("%s: compiled in %.3f s, ran in %.6f s\n", compiler_version(NULL), built - began, done - built);
  return status;
}

int tile_processor_compare(struct cli *c, const struct tile_host *h, void *const *host)
{
  int status = OK;
  for (int i = 0; i < h->k->nbuffers; i++) {
    const struct tile_buffer *b = &h->k->buffers[i];
    if (!h->data[i] || !b->written) continue;
    int64_t elements = (int64_t)h->bytes[i] / tile_types[b->type].bytes;
    struct sim_difference x = sim_compare(b->type, host[i], h->data[i], elements);
    if (!x.other) x.relative = 0;   // also if both are NaN
    bool fine = x.relative <= 1e-3; // false for NaN
    if (!fine) status = NO;
    if (fine && !output_wants_text(c)) continue;
    printf("%%%s: as C %lld of %lld elements differ in bits, relative norm %.3g\n", b->name, (long long)x.other, (long long)elements, x.relative);
    if (!fine) printf("  element %lld is %g there, %g here\n", (long long)x.first, x.a, x.b);
  }
  return status;
}
