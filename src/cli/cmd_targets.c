// mica targets, mica version: the targets, and this machine's capabilities.
#include "cli/cli.h"
#include "cuda/cuda.h"
#include "cuda/library.h"

static json_t *can_json(const struct target *t)
{
  json_t *list = json_array();
  for (int i = 0; i < CAPABILITIES; i++)
    if (t->can >> i & 1) json_array_append_new(list, json_string(capability_name(i)));
  return list;
}

static json_t *target_json(const struct target *t, const char *doc)
{
  json_t *v =
      json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "name", t->name, "doc", doc, "device",
                t->device, "cores", t->cores, "lanes", t->lanes, "l1", (json_int_t)t->l1, "l2", (json_int_t)t->l2, "l3", (json_int_t)t->l3, "scratch",
                (json_int_t)t->scratch, "memory", (json_int_t)t->memory, "bandwidth", t->bandwidth, "cache_bandwidth", t->cache_bandwidth, "flops",
                t->flops, "exp_rate", t->exp_rate, "launch", t->launch, "link", t->link, "meeting", t->meeting);
  if (t->kind == TARGET_CPU) json_object_set_new(v, "pair_flops", json_real(t->pair_flops));
  if (t->kind == TARGET_GPU)
    json_object_update_new(v, json_pack("{s:i, s:I, s:I, s:i, s:i, s:i, s:f, s:f, s:o}", "arch", t->arch, "shared_processor",
                                        (json_int_t)t->shared_processor, "registers", (json_int_t)t->registers, "threads", t->threads, "blocks",
                                        t->blocks, "cluster", t->cluster, "clock", t->clock, "vector_rate", t->vector_rate, "can", can_json(t)));
  return v;
}

static void print_gpu(const struct target *t, const char *doc)
{
  printf("%s: %s\n  %s, unless this machine has a GPU of that architecture\n", t->name, doc, t->device);
  printf("  %d multiprocessors, shared memory of a block %lld KiB, of a multiprocessor %lld KiB, L2 %lld MiB, memory %lld MiB\n", t->cores,
         (long long)t->scratch >> 10, (long long)t->shared_processor >> 10, (long long)t->l2 >> 20, (long long)t->memory >> 20);
  printf("  typical: copy %.0f GB/s, from L2 %.0f GB/s, %.0f Tflop/s in fp16, %.1f T operations/s in fp32, %.1f T exp/s, launch %.2f us; of several, "
         "%.0f GB/s to "
         "the others, a meeting %.2f us\n",
         1e-9 * t->bandwidth, 1e-9 * t->cache_bandwidth, 1e-12 * t->flops, 1e-12 * t->vector_rate, 1e-12 * t->exp_rate, 1e6 * t->launch,
         1e-9 * t->link, 1e6 * t->meeting);
  struct str can = {0};
  capability_text(t->can, &can);
  printf("  can: %s\n", str_text(&can));
  str_free(&can);
}

static void print_host(const struct target *t, const char *doc)
{
  printf("%s: %s\n  %s\n", t->name, doc, t->device);
  printf("  %d threads, vectors of %d f32, caches %lld KiB, %lld KiB, %lld KiB, memory %lld MiB\n", t->cores, t->lanes, (long long)t->l1 >> 10,
         (long long)t->l2 >> 10, (long long)t->l3 >> 10, (long long)t->memory >> 20);
  printf("  a block may keep %lld KiB\n", (long long)t->scratch >> 10);
  printf("  measured: copy %.1f GB/s, from cache %.1f GB/s, %.1f Gflop/s, of bf16 %.1f, %.2f G exp/s, launch %.1f us\n", 1e-9 * t->bandwidth,
         1e-9 * t->cache_bandwidth, 1e-9 * t->flops, 1e-9 * target_products(t, true), 1e-9 * t->exp_rate, 1e6 * t->launch);
}

// The installed GPUs; none without a driver.
static json_t *places_json(struct cli *c)
{
  struct err none = {0};
  struct gpu_place *p;
  json_t *list = json_array();
  int n;
  if (gpu_topology(&c->mem, &p, &n, &none) != OK) n = 0;
  for (int i = 0; i < n; i++) {
    json_t *peers = json_array();
    for (int k = 0; k < n; k++)
      if (p[i].reaches >> k & 1) json_array_append_new(peers, json_integer(k));
    json_array_append_new(list, json_pack("{s:i, s:s, s:o}", "gpu", i, "name", p[i].name, "reaches", peers));
    if (!output_wants_text(c)) continue;
    printf("GPU %d: %s%s", i, p[i].name, p[i].reaches ? ", reaches the memory of" : "");
    for (int k = 0; k < n; k++)
      if (p[i].reaches >> k & 1) printf(" %d", k);
    printf("\n");
  }
  return list;
}

// The library that carries data between GPUs that do not reach each other's memory.
static json_t *nccl_json(struct cli *c)
{
  struct cuda_found at;
  struct err none = {0};
  const bool found = cuda_library(LIBRARY_NCCL, &at, &none) != NULL;
  if (output_wants_text(c)) printf("NCCL: %s\n", found ? at.path : "not found");
  return found ? json_string(at.path) : json_null();
}

int cmd_targets(struct cli *c)
{
  json_t *list = json_array(), *root = json_pack("{s:o}", "targets", list);
  int status = OK;
  for (int i = 0; i < target_count() && status == OK; i++) {
    struct target t;
    status = target_open(target_name(i), cli_threads(c), false, &t, &c->err);
    if (status != OK) break;
    json_array_append_new(list, target_json(&t, target_doc(i)));
    if (output_wants_text(c)) (t.kind == TARGET_GPU ? print_gpu : print_host)(&t, target_doc(i));
  }
  json_object_set_new(root, "gpus", places_json(c));
  json_object_set_new(root, "nccl", nccl_json(c));
  if (status == OK) status = output_json(c, root);
  json_decref(root);
  return status;
}

int cmd_version(struct cli *c)
{
  const char *cc = compiler_version(NULL);
  if (output_wants_text(c)) printf("mica %s (sources %s)\ncompiler: %s\n", mica_version(), build_fingerprint, *cc ? cc : "none");
  json_t *v = json_pack("{s:s, s:s, s:s}", "mica", mica_version(), "sources", build_fingerprint, "compiler", cc);
  int status = output_json(c, v);
  json_decref(v);
  return status;
}
