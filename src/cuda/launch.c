// Modules, launches and graphs. Clusters and programmatic dependent launch are launch attributes; a graph keeps both.
// The driver encodes tensor maps and checks them. An error of it is reported with the numbers that it got.
#include "cuda/driver.h"
#include "base/memory.h"

enum { PORTABLE_CLUSTER = 8, CAPTURE_THREAD_LOCAL = 1, MOST_BLOCKS = 0x7fffffff };

struct gpu_kernel {
  cu_function f;
  int64_t shared;
  int cluster;
  struct gpu_use use;
  struct gpu_kernel *next;
};
struct gpu_module {
  struct gpu *g;
  cu_module m;
  struct gpu_kernel *kernels;
};
struct gpu_graph {
  struct gpu *g;
  cu_graph graph;
  cu_exec exec;
};

int gpu_load(struct gpu *g, const struct cubin *c, struct gpu_module **out, struct err *e)
{
  cu_module m;
  *out = NULL;
  struct gpu_module *r = mem_lasting(sizeof *r);
  if (gpu_check(g, g->module_load(&m, c->bytes), e, "loading %zu bytes of machine code", c->n)) return mem_free(r), e->status;
  r->g = g, r->m = m;
  *out = r;
  return OK;
}

void gpu_unload(struct gpu_module *m)
{
  if (!m) return;
  for (struct gpu_kernel *k = m->kernels, *next; k; k = next) next = k->next, mem_free(k);
  m->g->module_unload(m->m);
  mem_free(m);
}

static int read_use(struct gpu *g, struct gpu_kernel *k, struct err *e)
{
  const struct {
    int id, *to;
  } wanted[] = {{CU_FUNC_THREADS, &k->use.threads_most}, {CU_FUNC_LOCAL, &k->use.local_bytes}, {CU_FUNC_REGISTERS, &k->use.registers}};
  for (size_t i = 0; i < COUNT(wanted); i++)
    if (gpu_check(g, g->function_attribute(wanted[i].to, wanted[i].id, k->f), e, "asking about a kernel")) return e->status;
  return OK;
}

int gpu_find(struct gpu_module *m, const char *name, int64_t shared, int cluster, struct gpu_kernel **out, struct err *e)
{
  struct gpu *g = m->g;
  *out = NULL;
  if (shared < 0 || shared > g->facts.shared)
    return err_set(e, ERR_GPU, NOWHERE, "%s wants %lld bytes of shared memory a block; %s has %lld", name, (long long)shared, g->facts.name,
                   (long long)g->facts.shared);
  struct gpu_kernel *k = mem_lasting(sizeof *k);
  k->next = m->kernels, m->kernels = k;
  k->shared = shared, k->cluster = cluster;
  if (gpu_check(g, g->module_function(&k->f, m->m, name), e, "finding the kernel %s", name)) return e->status;
  if (gpu_check(g, g->function_set(k->f, CU_FUNC_DYNAMIC_SHARED, (int)shared), e, "giving %s %lld bytes of shared memory", name, (long long)shared))
    return e->status;
  if (cluster > PORTABLE_CLUSTER && gpu_check(g, g->function_set(k->f, CU_FUNC_ODD_CLUSTERS, 1), e, "giving %s clusters of %d blocks", name, cluster))
    return e->status;
  if (read_use(g, k, e)) return e->status;
  *out = k;
  return OK;
}

struct gpu_use gpu_use(const struct gpu_kernel *k) { return k->use; }

int gpu_launch(struct gpu *g, const struct gpu_launch *l, struct err *e)
{
  const struct gpu_kernel *k = l->kernel;
  if (l->blocks < 1 || l->blocks > MOST_BLOCKS || l->threads < 1 || l->threads > k->use.threads_most)
    return err_set(e, ERR_GPU, NOWHERE, "%lld blocks of %d threads can not be launched: at most %d blocks of %d threads", (long long)l->blocks,
                   l->threads, MOST_BLOCKS, k->use.threads_most);
  struct cu_attribute attribute[3] = {0};
  unsigned n = 0;
  if (k->cluster > 1) {
    attribute[n].id = CU_CLUSTER_DIMENSION;
    attribute[n].value.cluster.x = (unsigned)k->cluster;
    attribute[n].value.cluster.y = attribute[n].value.cluster.z = 1;
    n++;
  }
  if (l->cooperative) attribute[n].id = CU_COOPERATIVE, attribute[n++].value.flag = 1;
  if (l->dependent) attribute[n].id = CU_PROGRAMMATIC_SERIALIZATION, attribute[n++].value.flag = 1;
  const struct cu_config c = {.grid = {(unsigned)l->blocks, 1, 1},
                              .block = {(unsigned)l->threads, 1, 1},
                              .shared = (unsigned)k->shared,
                              .stream = g->stream,
                              .attributes = n ? attribute : NULL,
                              .nattributes = n};
  return gpu_check(g, g->launch(&c, k->f, l->args, NULL), e, "launching %lld blocks of %d threads", (long long)l->blocks, l->threads);
}

int gpu_launch_time(struct gpu *g, const struct gpu_launch *l, double *seconds, struct err *e)
{
  float ms = 0;
  if (gpu_check(g, g->event_record(g->from, g->stream), e, "timing")) return e->status;
  TRY(gpu_launch(g, l, e));
  if (gpu_check(g, g->event_record(g->to, g->stream), e, "timing")) return e->status;
  TRY(gpu_wait(g, e));
  if (gpu_check(g, g->event_elapsed(&ms, g->from, g->to), e, "timing")) return e->status;
  return *seconds = 1e-3 * ms, OK;
}

int gpu_global(struct gpu_module *m, const char *name, gpu_address *out, size_t *bytes, struct err *e)
{
  return gpu_check(m->g, m->g->module_global(out, bytes, m->m, name), e, "finding the variable %s", name);
}

int gpu_record(struct gpu *g, struct err *e) { return gpu_check(g, g->capture(g->stream, CAPTURE_THREAD_LOCAL), e, "recording a graph"); }

int gpu_record_end(struct gpu *g, struct gpu_graph **out, struct err *e)
{
  *out = NULL;
  struct gpu_graph *r = mem_lasting(sizeof *r);
  r->g = g;
  int status = gpu_check(g, g->capture_end(g->stream, &r->graph), e, "recording a graph");
  if (status == OK) status = gpu_check(g, g->graph_make(&r->exec, r->graph, 0), e, "making a graph");
  if (status == OK) status = gpu_check(g, g->graph_upload(r->exec, g->stream), e, "preparing a graph");
  if (status != OK)
    gpu_graph_close(r);
  else
    *out = r;
  return status;
}

void gpu_graph_close(struct gpu_graph *r)
{
  if (!r) return;
  if (r->exec) r->g->exec_destroy(r->exec);
  if (r->graph) r->g->graph_destroy(r->graph);
  mem_free(r);
}

int gpu_replay(struct gpu *g, const struct gpu_graph *r, struct err *e)
{
  return gpu_check(g, g->graph_launch(r->exec, g->stream), e, "replaying a graph");
}

int gpu_time(struct gpu *g, const struct gpu_graph *r, double *seconds, struct err *e)
{
  float ms = 0;
  if (gpu_check(g, g->event_record(g->from, g->stream), e, "timing")) return e->status;
  if (gpu_replay(g, r, e)) return e->status;
  if (gpu_check(g, g->event_record(g->to, g->stream), e, "timing")) return e->status;
  if (gpu_check(g, g->event_wait(g->to), e, "running on the GPU")) return e->status;
  if (gpu_check(g, g->event_elapsed(&ms, g->from, g->to), e, "timing")) return e->status;
  *seconds = 1e-3 * ms;
  return OK;
}

static int queue_replays(struct gpu *g, int n, struct gpu_graph *const *r, gpu_address flush, size_t bytes, cu_event *at, struct err *e)
{
  if (n && gpu_replay(g, r[0], e)) return e->status;
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < 2; k++)
      if (gpu_check(g, g->event_create(&at[2 * i + k], 0), e, "making an event")) return e->status;
    if (gpu_fill(g, flush, 0, bytes, e)) return e->status;
    if (gpu_check(g, g->event_record(at[2 * i], g->stream), e, "timing")) return e->status;
    if (gpu_replay(g, r[i], e)) return e->status;
    if (gpu_check(g, g->event_record(at[2 * i + 1], g->stream), e, "timing")) return e->status;
  }
  return gpu_wait(g, e);
}

int gpu_times(struct gpu *g, int n, struct gpu_graph *const *r, gpu_address flush, size_t bytes, double *seconds, struct err *e)
{
  cu_event *at = MEM_NEWS(cu_event, 2 * n + 1);
  int status = queue_replays(g, n, r, flush, bytes, at, e);
  for (int i = 0; i < n && status == OK; i++) {
    float ms = 0;
    status = gpu_check(g, g->event_elapsed(&ms, at[2 * i], at[2 * i + 1]), e, "timing");
    seconds[i] = 1e-3 * ms;
  }
  for (int i = 0; i < 2 * n; i++)
    if (at[i]) g->event_destroy(at[i]);
  mem_free(at);
  return status;
}

int gpu_map(struct gpu *g, gpu_address base, const struct gpu_map_shape *s, struct gpu_map *out, struct err *e)
{
  enum { NO_INTERLEAVE = 0, PROMOTE_256 = 3, FILL_ZERO = 0 };
  static const uint32_t steps[5] = {1, 1, 1, 1, 1};
  int swizzle = s->swizzle_bytes == 32 ? 1 : s->swizzle_bytes == 64 ? 2 : s->swizzle_bytes == 128 ? 3 : 0;
  if (s->rank < 1 || s->rank > 5 || tile_types[s->type].map < 0)
    return err_set(e, ERR_GPU, NOWHERE, "no tensor map has %d dimensions of %s", s->rank, tile_types[s->type].name);
  int code = g->tensor_map(out, tile_types[s->type].map, (uint32_t)s->rank, (void *)(uintptr_t)base, s->size, s->stride + 1, s->box, steps,
                           NO_INTERLEAVE, swizzle, PROMOTE_256, FILL_ZERO);
  if (!code) return OK;
  struct str text = {0};
  for (int i = 0; i < s->rank; i++)
    str_add(&text, "%s%llu (box %u, stride %llu bytes)", i ? ", " : "", (unsigned long long)s->size[i], s->box[i],
            (unsigned long long)(i ? s->stride[i] : (uint64_t)tile_types[s->type].bytes));
  gpu_check(g, code, e, "making a tensor map of %.160s, swizzle %d", str_text(&text), s->swizzle_bytes);
  str_free(&text);
  return e->status;
}
