// Compares outputs on the device, in the worker. The expected values are copied once for a problem; a candidate's run then returns a few sums.
#include "gpu/stage.h"
#include "base/memory.h"

#include <math.h>
#include <sys/mman.h>

void stage_compare_end(struct stage *s)
{
  struct stage_compare *c = &s->compare;
  if (c->module) gpu_unload(c->module);
  gpu_address *const all[] = {&c->expected, &c->first, &c->left};
  for (size_t i = 0; i < COUNT(all); i++) gpu_free(s->g, *all[i]);
  *c = (struct stage_compare){0};
}

// ---- the request ----

static int read_kernel(struct stage *s, struct wire *in, struct err *e)
{
  struct arena mem = {0};
  struct code code;
  int status = wire_get_code(&mem, in, &code, e);
  if (status == OK && code.nkernel != 1) status = err_set(e, ERR_GPU, NOWHERE, "the kernel that compares cannot be read");
  if (status == OK) {
    const struct cubin cubin = {.bytes = code.kernel->cubin, .n = (size_t)code.kernel->bytes, .ptx = "", .log = ""};
    status = gpu_load(s->g, &cubin, &s->compare.module, e);
    if (status == OK) status = gpu_find(s->compare.module, code.kernel->name, 0, 1, &s->compare.kernel, e);
  }
  return arena_close(&mem), status;
}

static int read_outputs(struct stage *s, struct wire *in, int64_t *bytes, struct err *e)
{
  struct stage_compare *c = &s->compare;
  c->out = NEWS(&s->mem, struct compare_output, s->map.nout + 1), c->at = NEWS(&s->mem, int64_t, s->map.nout + 1);
  bool fits = wire_get(in) == s->map.nout;
  *bytes = 0;
  for (int i = 0; i < s->map.nout && fits; i++) {
    struct compare_output *o = &c->out[i];
    o->n = wire_get(in), o->type = (enum dtype)wire_get(in), o->typical = wire_get_real(in);
    fits = !in->bad && (int)o->type >= 0 && o->type < DTYPES && o->n > 0 && o->n <= s->map.out_bytes[i] * 8 / num_rows[o->type].bits;
    c->at[i] = *bytes, *bytes += o->n * (int64_t)sizeof(double);
  }
  return fits ? OK : err_set(e, ERR_GPU, NOWHERE, "what is to be compared cannot be read");
}

static int take_expected(struct stage *s, int carried, int64_t bytes, struct err *e)
{
  struct stage_compare *c = &s->compare;
  void *p = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, carried, 0);
  if (p == MAP_FAILED) return err_set(e, ERR_MEMORY, NOWHERE, "memory shared with the worker cannot be mapped");
  int status = gpu_alloc(s->g, (size_t)bytes, &c->expected, e);
  if (status == OK) status = gpu_alloc(s->g, (size_t)s->out_bytes, &c->first, e);
  if (status == OK) status = gpu_alloc(s->g, 3 * COMPARE_BLOCKS * sizeof(double), &c->left, e);
  if (status == OK) status = gpu_write(s->g, c->expected, p, (size_t)bytes, e);
  if (status == OK) status = gpu_wait(s->g, e);
  return munmap(p, (size_t)bytes), status;
}

int stage_compare(struct stage *s, struct wire *in, int carried, struct err *e)
{
  int64_t bytes;
  stage_compare_end(s);
  int status = read_kernel(s, in, e);
  if (status == OK) status = read_outputs(s, in, &bytes, e);
  if (status == OK) status = take_expected(s, carried, bytes, e);
  if (status != OK) stage_compare_end(s);
  return status;
}

// ---- runs ----

int stage_compare_first(struct stage *s, struct err *e)
{
  const int status = gpu_copy(s->g, s->compare.first, s->out, (size_t)s->out_bytes, e);
  return s->compare.ran = status == OK, status;
}

static int sums(struct stage *s, gpu_address x, gpu_address y, int64_t n, int64_t type, double typical, struct compare_sums *a, struct err *e)
{
  double left[3 * COMPARE_BLOCKS], largest = type >= 0 ? dtype_largest((enum dtype)type) : 0;
  void *args[] = {&x, &y, &n, &type, &typical, &largest, &s->compare.left};
  const struct gpu_launch launch = {.kernel = s->compare.kernel, .blocks = COMPARE_BLOCKS, .threads = COMPARE_THREADS, .args = args};
  *a = (struct compare_sums){0};
  if (gpu_launch(s->g, &launch, e) || gpu_read(s->g, left, s->compare.left, sizeof left, e)) return e->status;
  for (int i = 0; i < COMPARE_BLOCKS; i++)
    a->difference += left[3 * i], a->worst = fmax(a->worst, left[3 * i + 1]), a->lost += (int64_t)left[3 * i + 2];
  return OK;
}

int stage_compare_same(struct stage *s, bool *same, struct err *e)
{
  struct compare_sums a;
  const int status = sums(s, s->out, s->compare.first, s->out_bytes / 4, COMPARE_WORDS, 0, &a, e);
  return *same = a.difference == 0, status;
}

int stage_compare_all(struct stage *s, struct wire *out, struct err *e)
{
  const struct stage_compare *c = &s->compare;
  for (int i = 0; i < s->map.nout; i++) {
    struct compare_sums a;
    const gpu_address x = c->first + (uint64_t)s->out_at[i], y = c->expected + (uint64_t)c->at[i];
    if (sums(s, x, y, c->out[i].n, c->out[i].type, c->out[i].typical, &a, e)) return e->status;
    wire_put_real(out, a.difference), wire_put_real(out, a.worst), wire_put(out, a.lost);
  }
  return OK;
}
