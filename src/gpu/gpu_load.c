// A candidate on the device: modules and kernels of its machine code, plans of its products. Addresses and tensor maps are made at launch, because
// each launch in a graph has others.
#include "gpu/stage.h"
#include "base/memory.h"

struct loaded *stage_find(struct stage *s, int64_t id) { return id >= 0 && id < s->np && s->p[id].there ? &s->p[id] : NULL; }

void stage_drop(struct stage *s, int id)
{
  struct loaded *l = stage_find(s, id);
  if (!l) return;
  for (int i = 0; i < l->code.nkernel; i++) gpu_unload(l->kernel[i].module);
  for (int i = 0; i < l->code.nlaunch; i++) blas_plan_close(l->plan[i]);
  arena_close(&l->mem);
  *l = (struct loaded){0};
}

// ---- arguments ----

static bool inside(const struct stage *s, const struct code *c, const struct lower_place *at)
{
  int64_t bytes = at->kind == PLACE_WORK                                ? c->workspace
                  : at->index < 0                                       ? 0
                  : at->kind == PLACE_INPUT && at->index < s->map.nin   ? s->map.in_bytes[at->index]
                  : at->kind == PLACE_OUTPUT && at->index < s->map.nout ? s->map.out_bytes[at->index]
                                                                        : 0;
  return at->offset >= 0 && at->offset < bytes;
}

static int check_places(const struct stage *s, const struct code *c, struct err *e)
{
  for (int i = 0; i < c->nlaunch; i++)
    for (int k = 0; k < c->launch[i].narg; k++)
      if (!c->launch[i].arg[k].value && !inside(s, c, &c->launch[i].arg[k].at))
        return err_set(e, ERR_GRAPH, NOWHERE, "argument %d of %s lies in no tensor of the program", k, c->launch[i].name);
  for (int i = 0; i < c->nstate; i++) {
    const struct code_state *x = &c->state[i];
    const struct lower_place in = {PLACE_INPUT, x->in, MAX(x->bytes, 1) - 1}, out = {PLACE_OUTPUT, x->out, MAX(x->bytes, 1) - 1};
    if (!inside(s, c, &in) || !inside(s, c, &out)) return err_set(e, ERR_GRAPH, NOWHERE, "state %d lies in no tensor of the program", i);
  }
  return OK;
}

static int launch_kernel(struct stage *s, const struct loaded *l, const struct code_launch *c, int set, int ring, int work, struct err *e)
{
  struct arena mem = {0};
  void **args = NEWS(&mem, void *, c->narg + 1);
  gpu_address *address = NEWS(&mem, gpu_address, c->narg + 1);
  uintptr_t raw = (uintptr_t)arena_alloc(&mem, sizeof(struct gpu_map) * (size_t)(c->narg + 1));
  struct gpu_map *map = (struct gpu_map *)((raw + _Alignof(struct gpu_map) - 1) & ~(uintptr_t)(_Alignof(struct gpu_map) - 1));
  int status = OK;
  for (int i = 0; i < c->narg && status == OK; i++) {
    if (c->arg[i].value) {
      args[i] = (void *)(uintptr_t)c->arg[i].value;
      continue;
    }
    address[i] = stage_place(s, &l->code, &c->arg[i].at, set, ring, work);
    args[i] = c->arg[i].is_map ? (void *)&map[i] : (void *)&address[i];
    if (c->arg[i].is_map) status = gpu_map(s->g, address[i], &c->arg[i].map, &map[i], e);
  }
  const struct gpu_launch launch = {l->kernel[c->kernel].kernel, c->blocks, c->threads, c->dependent, args};
  if (status == OK) status = gpu_launch(s->g, &launch, e);
  arena_close(&mem);
  return status;
}

static int launch_product(struct stage *s, const struct loaded *l, int i, int set, int ring, int work, struct err *e)
{
  const struct code_launch *c = &l->code.launch[i];
  gpu_address at[BLAS_OPERANDS];
  for (int k = 0; k < c->narg; k++) at[k] = stage_place(s, &l->code, &c->arg[k].at, set, ring, work);
  return blas_run(l->plan[i], &l->how[i], at, s->blas_work, e);
}

int stage_launch(struct stage *s, const struct loaded *l, int first, int end, int set, int ring, int work, struct err *e)
{
  int status = OK;
  for (int i = first; i < end && status == OK; i++)
    status = l->plan[i] ? launch_product(s, l, i, set, ring, work, e) : launch_kernel(s, l, &l->code.launch[i], set, ring, work, e);
  return status;
}

// ---- the request ----

static int load_kernels(struct stage *s, struct loaded *l, struct err *e)
{
  for (int i = 0; i < l->code.nkernel; i++) {
    const struct code_kernel *k = &l->code.kernel[i];
    struct cubin cubin = {.bytes = k->cubin, .n = (size_t)k->bytes, .ptx = "", .log = ""};
    if (gpu_load(s->g, &cubin, &l->kernel[i].module, e)) return e->status;
    if (gpu_find(l->kernel[i].module, k->name, k->shared, k->cluster, &l->kernel[i].kernel, e)) return e->status;
  }
  return OK;
}

static int load(struct stage *s, struct loaded *l, struct wire *in, struct err *e)
{
  int status = wire_get_code(&l->mem, in, &l->code, e);
  l->kernel = NEWS(&l->mem, struct loaded_kernel, l->code.nkernel + 1);
  l->plan = NEWS(&l->mem, struct blas_plan *, l->code.nlaunch + 1);
  l->how = NEWS(&l->mem, struct blas_algorithm, l->code.nlaunch + 1);
  l->algorithm = NEWS(&l->mem, int, l->code.nlaunch + 1);
  if (status == OK) status = check_places(s, &l->code, e);
  if (status == OK) status = stage_room(s, &l->code, e);
  if (status == OK) status = load_kernels(s, l, e);
  for (int i = 0; i < l->code.nlaunch && status == OK; i++) {
    l->algorithm[i] = -1;
    if (l->code.launch[i].kernel < 0) status = product_load(s, l, i, e);
  }
  return status;
}

static void answer(const struct loaded *l, struct wire *out)
{
  wire_put(out, l->code.nlaunch);
  for (int i = 0; i < l->code.nlaunch; i++) wire_put(out, l->algorithm[i]);
}

int stage_load(struct stage *s, struct wire *in, struct wire *out, struct err *e)
{
  enum { MOST = 1 << 20 };
  int64_t id = wire_get(in);
  if (!s->shared || in->bad || id < 0 || id > MOST) return err_set(e, ERR_GPU, NOWHERE, "a candidate cannot be read");
  while (s->np <= id) {
    if (s->np == s->cap) {
      int cap = s->cap ? 2 * s->cap : 16;
      s->p = mem_more(s->p, sizeof *s->p * (size_t)s->np, sizeof *s->p * (size_t)cap), s->cap = cap;
    }
    s->p[s->np++] = (struct loaded){0};
  }
  stage_drop(s, (int)id);
  struct loaded *l = &s->p[id];
  l->there = true;
  int status = load(s, l, in, e);
  if (status == OK)
    answer(l, out);
  else
    stage_drop(s, (int)id);
  return status;
}
