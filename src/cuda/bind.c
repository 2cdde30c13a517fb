// Makes the arguments of a launch from a tile kernel, the values of its sizes and the addresses of its buffers. They are
// pointers, sizes and tensor maps, in the order of the parameters that cu_print.c prints. Sizes are checked against the
// kernel's declarations, because the generated code relies on them.
#include "cuda/cuda.h"

#include <string.h>

// Values of all variables: the given ones for sizes, zero for the others.
static int64_t *values_of(struct arena *mem, const struct tile_program *p, const struct tile_kernel *k, const int64_t *sizes)
{
  int64_t *v = NEWS(mem, int64_t, ex_vars(p->ex) + 1);
  for (int i = 0; i < k->nparams; i++)
    if (!ex_is_const(k->params[i])) v[ex_node(p->ex, k->params[i])->c] = sizes[i];
  return v;
}

static int check_sizes(const struct tile_program *p, const struct tile_kernel *k, const int64_t *sizes, struct err *e)
{
  for (int i = 0; i < k->nparams; i++) {
    if (ex_is_const(k->params[i])) continue; // declared with one value, which is a constant in the code
    const struct ex_node *n = ex_node(p->ex, k->params[i]);
    if (sizes[i] < n->range.lo || sizes[i] > n->range.hi)
      return err_set(e, ERR_TILE, k->at, "%s = %lld: the kernel takes %lld to %lld", n->name, (long long)sizes[i], (long long)n->range.lo,
                     (long long)n->range.hi);
    if (n->multiple > 1 && sizes[i] % n->multiple)
      return err_set(e, ERR_TILE, k->at, "%s = %lld: the kernel takes multiples of %lld", n->name, (long long)sizes[i], (long long)n->multiple);
  }
  return OK;
}

static int tensor_map(struct gpu *g, const struct tile_program *p, const struct tile_kernel *k, const struct tile_map *m, const int64_t *values,
                      gpu_address base, struct gpu_map *out, struct err *e)
{
  const struct tile_buffer *b = &k->buffers[m->buf];
  struct gpu_map_shape s = {.type = b->type, .rank = m->rank, .swizzle_bytes = m->swizzle_bytes};
  int bytes = tile_types[b->type].bytes;
  for (int i = 0; i < m->rank; i++) {
    s.size[i] = (uint64_t)ex_eval(p->ex, m->size[i], values);
    s.stride[i] = (uint64_t)(ex_eval(p->ex, m->stride[i], values) * bytes);
    s.box[i] = (uint32_t)m->box[i];
    if (i && s.stride[i] % 16)
      return err_set(e, ERR_TILE, k->at, "rows of %s are %llu bytes apart; TMA needs a multiple of 16", b->name, (unsigned long long)s.stride[i]);
  }
  return gpu_map(g, base, &s, out, e);
}

// Memory for n tensor maps, aligned as the driver requires.
static struct gpu_map *map_memory(struct arena *mem, int n)
{
  uintptr_t at = (uintptr_t)arena_alloc(mem, sizeof(struct gpu_map) * (size_t)(n + 1));
  return (struct gpu_map *)((at + _Alignof(struct gpu_map) - 1) & ~(uintptr_t)(_Alignof(struct gpu_map) - 1));
}

int cuda_bind(struct gpu *g, struct arena *mem, const struct tile_program *p, const struct tile_kernel *k, const int64_t *sizes,
              const gpu_address *buffers, struct gpu_launch *out, struct err *e)
{
  if (check_sizes(p, k, sizes, e)) return e->status;
  int64_t *values = values_of(mem, p, k, sizes);
  void **args = NEWS(mem, void *, k->nbuffers + k->nparams + k->nmaps + 1);
  struct gpu_map *maps = map_memory(mem, k->nmaps);
  int n = 0;
  for (int i = 0; i < k->nbuffers; i++)
    if (k->buffers[i].mem == MEM_GL) args[n++] = arena_copy(mem, &buffers[i], sizeof *buffers);
  for (int i = 0; i < k->nparams; i++) {
    if (ex_is_const(k->params[i])) continue;
    int32_t size = (int32_t)sizes[i];
    args[n++] = arena_copy(mem, &size, sizeof size);
  }
  for (int i = 0; i < k->nmaps; i++) {
    if (tensor_map(g, p, k, &k->maps[i], values, buffers[k->maps[i].buf], &maps[i], e)) return e->status;
    args[n++] = &maps[i];
  }
  *out = (struct gpu_launch){
      .blocks = ex_eval(p->ex, k->groups[k->grid].size, values), .threads = (int)ex_value(k->groups[k->threads].size), .args = args};
  for (int i = 0; i < k->nspecs; i++)
    if (k->specs[i].atom && k->specs[i].atom->row->sem == SEM_GRID_WAIT) out->dependent = true;
  if (out->blocks % k->cluster) return err_set(e, ERR_TILE, k->at, "%lld blocks do not make clusters of %d", (long long)out->blocks, k->cluster);
  return OK;
}

int cuda_prepare(struct gpu *g, const struct nvrtc *r, struct arena *mem, const struct tile_program *p, const struct tile_kernel *k,
                 struct cuda_ready *out, struct err *e)
{
  *out = (struct cuda_ready){0};
  const struct target *t = target_for_device(gpu_facts(g)->arch);
  if (!t)
    return err_set(e, ERR_TARGET, NOWHERE, "%s is of compute capability %d.%d, for which Mica has no instructions", gpu_facts(g)->name,
                   gpu_facts(g)->arch / 10, gpu_facts(g)->arch % 10);
  struct str s = {0};
  int status = cuda_print(p, k, t->arch, &s, e);
  if (status == OK) out->source = str_keep(mem, &s);
  double start = now_seconds();
  if (status == OK) status = nvrtc_compile(r, mem, k->name, out->source, t->arch, &out->cubin, e);
  out->seconds = now_seconds() - start;
  if (status == OK) status = gpu_load(g, &out->cubin, &out->module, e);
  if (status == OK) status = gpu_find(out->module, cuda_kernel_name(mem, k), k->shared_bytes, k->cluster, &out->kernel, e);
  if (status != OK) gpu_unload(out->module), out->module = NULL;
  return status;
}
