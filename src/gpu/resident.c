// A program that stays on a device. Calls use the current context and the stream that the caller names, so they are ordered with the caller's own
// kernels. Everything is prepared before the first call, except tensor maps, which are made again when an address changes. A call allocates no memory
// and never waits.
#include "gpu/peers.h"
#include "base/memory.h"
#include "base/range.h"
#include "cuda/driver.h"

#include <string.h>

struct prepared { // one launch
  struct gpu_kernel *kernel;
  struct gpu_kernel *local; // for a collective on data that were gathered before
  struct blas_plan *plan;   // for a product, or NULL
  struct blas_algorithm how;
  gpu_address *address, *mapped; // for each argument; mapped: the address of its current tensor map
  struct gpu_map *map;
  void **args;
};
struct gpu_resident {
  const struct code *c;
  struct gpu *g;
  struct blas *blas;
  struct arena mem;
  struct gpu_module **module; // for each kernel
  struct prepared *launch;
  gpu_address own;         // workspace
  struct gpu_peers *peers; // for a rank, or NULL
};

static const gpu_address NO_ADDRESS = ~(gpu_address)0;

static bool has_products(const struct code *c)
{
  for (int i = 0; i < c->nlaunch; i++)
    if (c->launch[i].kernel < 0) return true; // a collective has a kernel
  return false;
}

static int64_t ahead(const struct code *c) { return (c->workspace + 255) / 256 * 256; } // offset of the library's workspace

int64_t gpu_code_workspace(const struct code *c) { return has_products(c) ? ahead(c) + PRODUCT_WORKSPACE : c->workspace; }

// ---- making it ready ----

static int check_device(const struct gpu *g, int arch, struct err *e)
{
  const struct gpu_facts *f = gpu_facts(g);
  const struct target *t = target_gpu(arch);
  if (t && target_code_runs(t, f->arch)) return OK;
  err_set(e, ERR_TARGET, NOWHERE, "the program has machine code for %s, which %.100s, of compute capability %d.%d, does not run",
          t ? t->name : "an unknown target", f->name, f->arch / 10, f->arch % 10);
  return err_hint(e, "optimize it for the target of this GPU: `mica targets` lists them"), e->status;
}

static int load_kernels(struct gpu_resident *r, struct err *e)
{
  const struct code *c = r->c;
  struct gpu_kernel **kernel = NEWS(&r->mem, struct gpu_kernel *, c->nkernel + 1);
  for (int i = 0; i < c->nkernel; i++) {
    const struct code_kernel *k = &c->kernel[i];
    const struct cubin cubin = {.bytes = k->cubin, .n = (size_t)k->bytes, .ptx = "", .log = ""};
    if (gpu_load(r->g, &cubin, &r->module[i], e)) return e->status;
    if (gpu_find(r->module[i], k->name, k->shared, k->cluster, &kernel[i], e)) return e->status;
  }
  for (int i = 0; i < c->nlaunch; i++) {
    const int k = c->launch[i].kernel;
    if (k >= 0) r->launch[i].kernel = kernel[k];
    if (!c->launch[i].meet.ranks) continue;
    const char *local = arena_printf(&r->mem, "%s_local", c->kernel[k].name);
    if (gpu_find(r->module[k], local, 0, 1, &r->launch[i].local, e)) return (int)e->status;
  }
  return OK;
}

static int plan_product(struct gpu_resident *r, const struct code_launch *c, struct prepared *p, struct err *e)
{
  struct blas_algorithm a[PRODUCT_PROPOSED];
  int n;
  if (!r->blas && blas_open(r->g, &r->blas, e)) return e->status;
  if (blas_plan(r->blas, &c->mul, &p->plan, e)) return e->status;
  if (blas_algorithms(p->plan, PRODUCT_WORKSPACE, PRODUCT_PROPOSED, a, &n, e)) return e->status;
  p->how = a[c->algorithm >= 0 && c->algorithm < n ? c->algorithm : 0];
  return OK;
}

static void arguments(struct gpu_resident *r, const struct code_launch *c, struct prepared *p)
{
  const size_t n = (size_t)c->narg + 1, align = _Alignof(struct gpu_map);
  p->address = NEWS(&r->mem, gpu_address, n), p->mapped = NEWS(&r->mem, gpu_address, n), p->args = NEWS(&r->mem, void *, n);
  const uintptr_t raw = (uintptr_t)arena_alloc(&r->mem, sizeof(struct gpu_map) * n + align);
  p->map = (struct gpu_map *)((raw + align - 1) / align * align);
  for (int i = 0; i < c->narg; i++) {
    p->mapped[i] = NO_ADDRESS;
    p->args[i] = c->arg[i].is_map ? (void *)&p->map[i] : (void *)&p->address[i];
  }
}

static int make(struct gpu_resident *r, int arch, struct err *e)
{
  int status = gpu_borrow(&r->g, e);
  if (status == OK) status = check_device(r->g, arch, e);
  if (status == OK) status = load_kernels(r, e);
  for (int i = 0; i < r->c->nlaunch && status == OK; i++) {
    arguments(r, &r->c->launch[i], &r->launch[i]);
    if (r->c->launch[i].kernel < 0) status = plan_product(r, &r->c->launch[i], &r->launch[i], e);
  }
  return status;
}

static void drop(void *r) { gpu_resident_close(r); }
static const struct mem_kind kind = {.close = drop};

int gpu_resident_open(const struct code *c, int arch, struct gpu_resident **out, struct err *e)
{
  struct gpu_resident *r = mem_handle(sizeof *r, &kind);
  *out = NULL;
  r->c = c, r->mem.lasting = true;
  r->module = NEWS(&r->mem, struct gpu_module *, c->nkernel + 1), r->launch = NEWS(&r->mem, struct prepared, c->nlaunch + 1);
  int status = make(r, arch, e);
  if (status != OK)
    gpu_resident_close(r);
  else
    *out = r;
  return status;
}

void gpu_resident_close(struct gpu_resident *r)
{
  void *before;
  if (!r) return;
  gpu_peers_close(r->peers);
  if (r->g && gpu_enter(r->g, &before)) {
    for (int i = 0; i < r->c->nlaunch; i++) blas_plan_close(r->launch[i].plan);
    blas_close(r->blas);
    for (int i = 0; i < r->c->nkernel; i++) gpu_unload(r->module[i]);
    gpu_free(r->g, r->own);
    gpu_leave(r->g, before);
  }
  gpu_return(r->g);
  arena_close(&r->mem);
  mem_free(r);
}

bool gpu_resident_here(const struct gpu_resident *r) { return gpu_is_current(r->g); }

// ---- ranks ----

int gpu_resident_connect(struct gpu_resident *r, struct m_exchange *host, int rank, double seconds, struct err *e)
{
  struct gpu_peers_wish w = {.host = host, .rank = rank, .ranks = r->c->world, .bytes = code_exchange(r->c), .seconds = seconds};
  for (int i = 0; i < r->c->nlaunch; i++)
    if (r->c->launch[i].meet.ranks) w.gathered = MAX(w.gathered, meeting_bytes(&r->c->launch[i].meet) * w.ranks);
  return gpu_peers_open(r->g, &w, &r->peers, e);
}

// Sets the addresses of operand and result.
static int meet(struct gpu_resident *r, const struct code_launch *c, struct prepared *p, struct err *e)
{
  if (!r->peers) return err_set(e, ERR_WORLD, NOWHERE, "%.80s is an operator of %d ranks, and no rank was opened", c->name, c->meet.ranks);
  const struct meet_world *w = gpu_peers_world(r->peers);
  gpu_address all;
  if (gpu_peers_direct(r->peers)) {
    void *args[] = {&p->address[0], &p->address[1], (void *)w};
    return gpu_launch(r->g, &(struct gpu_launch){p->kernel, c->blocks, c->threads, false, args}, e);
  }
  TRY(gpu_peers_gather(r->peers, p->address[0], meeting_bytes(&c->meet), r->g->stream, &all, e));
  void *args[] = {&all, &p->address[1], (void *)&w->rank};
  return gpu_launch(r->g, &(struct gpu_launch){p->local, c->blocks, c->threads, false, args}, e);
}

// ---- calls ----

int gpu_resident_prepare(struct gpu_resident *r, void *workspace, void *stream, struct err *e)
{
  gpu_address at = (uintptr_t)workspace;
  gpu_follow(r->g, stream);
  if (!at && !r->own && gpu_code_workspace(r->c) && gpu_alloc(r->g, (size_t)gpu_code_workspace(r->c), &r->own, e)) return e->status;
  return gpu_fill(r->g, at ? at : r->own, 0, (size_t)r->c->zeroed, e);
}

struct calling {
  struct gpu_resident *r;
  const void *const *in;
  void *const *out;
  gpu_address workspace;
};

static gpu_address find(const struct calling *x, const struct lower_place *at)
{
  const void *tensor = at->kind == PLACE_INPUT ? x->in[at->index] : at->kind == PLACE_OUTPUT ? x->out[at->index] : NULL;
  return (at->kind == PLACE_WORK ? x->workspace : (uintptr_t)tensor) + (gpu_address)at->offset;
}

static int launch(const struct calling *x, const struct code_launch *c, struct prepared *p, struct err *e)
{
  struct gpu_resident *r = x->r;
  for (int i = 0; i < c->narg; i++) {
    const gpu_address a = p->address[i] = find(x, &c->arg[i].at);
    if (!c->arg[i].is_map || p->mapped[i] == a) continue;
    if (gpu_map(r->g, a, &c->arg[i].map, &p->map[i], e)) return e->status;
    p->mapped[i] = a;
  }
  if (c->meet.ranks) return meet(r, c, p, e);
  if (p->plan) return blas_run(p->plan, &p->how, p->address, x->workspace + (gpu_address)ahead(r->c), e);
  return gpu_launch(r->g, &(struct gpu_launch){p->kernel, c->blocks, c->threads, c->dependent, p->args}, e);
}

int gpu_resident_run(struct gpu_resident *r, const void *const *in, void *const *out, void *workspace, void *stream, struct err *e)
{
  struct calling x = {r, in, out, (uintptr_t)workspace};
  gpu_follow(r->g, stream);
  if (r->peers) TRY(gpu_peers_told(r->peers, e));
  if (!workspace && !r->own && gpu_code_workspace(r->c) && gpu_resident_prepare(r, NULL, stream, e)) return e->status;
  if (!workspace) x.workspace = r->own;
  for (int i = 0; i < r->c->nstate; i++) { // the state is written in place, unless the caller wants the old one too
    const struct code_state *s = &r->c->state[i];
    if (in[s->in] != out[s->out] && gpu_copy(r->g, (uintptr_t)out[s->out], (uintptr_t)in[s->in], (size_t)s->bytes, e)) return e->status;
  }
  for (int i = 0; i < r->c->nlaunch; i++) {
    const bool ranged = range_push(r->c->launch[i].name);
    const int status = launch(&x, &r->c->launch[i], &r->launch[i], e);
    if (ranged) range_pop();
    if (status != OK) return status;
  }
  return OK;
}
