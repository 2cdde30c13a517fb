// Writes code (gpu/gpu.h) as JSON. The parameters of a kernel are its buffers in order, then its tensor maps. A map holds the address of one of the
// buffers, and is encoded when the address is known. NVRTC compiles the machine code. Without NVRTC, program.json has null in its place and says why;
// kernel.cu has the same kernels for nvcc.
#include "export/manifest.h"
#include "export/export.h"

// ---- machine code ----

// Compiles all kernels or none. Returns the reason for none, or NULL.
static const char *machine_code(struct arena *mem, const struct device_program *d, const struct manifest_by *by, struct code *c,
                                const char **compiler)
{
  struct compile_result result = {0};
  struct compile_stats stats;
  struct err e = {0};
  int major, minor, status = gpu_forge_ready(by->forge, &e);
  *compiler = NULL;
  if (status != OK) return arena_strdup(mem, e.text);
  gpu_forge_version(by->forge, &major, &minor);
  if (major) *compiler = arena_printf(mem, "NVRTC %d.%d", major, minor);
  const struct patience until = {.until = by->seconds > 0 ? now_seconds() + by->seconds : 0};
  if (c->nkernel) status = gpu_forge_codes(mem, by->forge, by->db, &until, d->gpu->arch, 1, c, &result, &stats, &e);
  if (status == OK && result.status != OK) status = result.status, e = result.err;
  return status == OK ? NULL : arena_strdup(mem, e.text);
}

// Names each kernel's file after its first launch.
static const char **files(struct arena *mem, const struct code *c)
{
  const char **file = NEWS(mem, const char *, c->nkernel + 1);
  for (int i = c->nlaunch - 1; i >= 0; i--)
    if (c->launch[i].kernel >= 0) file[c->launch[i].kernel] = arena_printf(mem, "%s.cubin", c->launch[i].name);
  return file;
}

// ---- program.json ----

static json_t *numbers(int n, const int64_t *x)
{
  json_t *v = json_array();
  for (int i = 0; i < n; i++) json_array_append_new(v, json_integer((json_int_t)x[i]));
  return v;
}

json_t *manifest_tensors(const struct graph *g, int (*list)(const struct graph *, int *))
{
  struct arena mem = {0};
  int n = list(g, NULL), *t = NEWS(&mem, int, n + 1);
  json_t *all = json_array();
  list(g, t);
  for (int i = 0; i < n; i++) {
    const struct tensor *x = &g->tensors[t[i]];
    json_t *v = json_pack("{s:s?, s:s, s:o}", "name", x->name, "dtype", dtype_name(x->dtype), "shape", numbers(x->shape.n, x->shape.d));
    if (num_whole(x->dtype)) json_object_set_new(v, "range", numbers(2, (const int64_t[]){x->range.least, x->range.most}));
    if (x->range.distinct) json_object_set_new(v, "distinct", json_true());
    if (graph_state(g, t[i]) >= 0) json_object_set_new(v, "state", json_integer(1 + state_number(g, t[i])));
    if (x->frozen) json_object_set_new(v, "frozen", json_true());
    if (x->extent) json_object_set_new(v, "extent", json_integer(x->extent));
    if (extent_tells(x)) {
      const int64_t runs[] = {x->runs[0], x->runs[1], x->runs[2], x->runs[3], x->runs[4], x->runs[5], x->runs[6], x->runs[7]};
      json_object_set_new(v, "runs", numbers(x->shape.n, runs));
    }
    json_array_append_new(all, v);
  }
  arena_close(&mem);
  return all;
}

void manifest_shards(json_t *root, const struct graph *rank)
{
  size_t in = 0, out = 0;
  for (int i = 0; i < rank->nnodes; i++) {
    const struct node *n = &rank->nodes[i];
    if (n->op != OP_INPUT && n->op != OP_OUTPUT) continue;
    const bool input = n->op == OP_INPUT;
    const int dim = input ? input_shard(rank, n->out) : output_shard(rank, n);
    json_t *x = json_array_get(json_object_get(root, input ? "inputs" : "outputs"), input ? in++ : out++);
    if (dim >= 0) json_object_set_new(x, "shard", json_integer(dim));
  }
  json_object_set_new(root, "world", json_integer(rank->world));
}

static bool same_place(const struct lower_place *a, const struct lower_place *b)
{
  return a->kind == b->kind && (a->kind == PLACE_WORK ? a->offset == b->offset : a->index == b->index);
}

static json_t *place_json(const struct lower_place *p)
{
  static const char *const names[] = {[PLACE_INPUT] = "input", [PLACE_OUTPUT] = "output", [PLACE_WORK] = "workspace"};
  bool work = p->kind == PLACE_WORK;
  return json_pack("{s:s, s:i, s:I}", "place", names[p->kind], "index", work ? 0 : p->index, "offset", (json_int_t)(work ? p->offset : 0));
}

static json_t *map_json(const struct gpu_map_shape *s, int arg)
{
  json_t *size = json_array(), *stride = json_array(), *box = json_array();
  for (int i = 0; i < s->rank; i++) {
    json_array_append_new(size, json_integer((json_int_t)s->size[i]));
    json_array_append_new(stride, json_integer((json_int_t)s->stride[i]));
    json_array_append_new(box, json_integer((json_int_t)s->box[i]));
  }
  return json_pack("{s:i, s:s, s:o, s:o, s:o, s:i}", "arg", arg, "type", tile_types[s->type].name, "size", size, "stride", stride, "box", box,
                   "swizzle", s->swizzle_bytes);
}

static json_t *args_json(const struct code_launch *l, json_t **maps)
{
  json_t *args = json_array();
  *maps = json_array();
  for (int i = 0; i < l->narg; i++) {
    int of = 0;
    if (!l->arg[i].is_map) {
      json_array_append_new(args, place_json(&l->arg[i].at));
      continue;
    }
    while (l->arg[of].is_map || !same_place(&l->arg[of].at, &l->arg[i].at)) of++; // the buffer of a map is an earlier argument
    json_array_append_new(*maps, map_json(&l->arg[i].map, of));
  }
  return args;
}

static json_t *product_json(const struct blas_product *p)
{
  json_t *types = json_array(), *strides = json_array();
  for (int i = 0; i < BLAS_OPERANDS; i++) {
    if (!blas_has(p, i)) continue;
    json_array_append_new(types, json_string(tile_types[p->type[i]].name));
    json_array_append_new(strides, numbers(3, p->stride[i]));
  }
  return json_pack("{s:I, s:I, s:I, s:I, s:o, s:o, s:s, s:f, s:f}", "batch", (json_int_t)p->batch, "m", (json_int_t)p->m, "n", (json_int_t)p->n, "k",
                   (json_int_t)p->k, "stride", strides, "type", types, "epilogue", blas_epilogue_name(p->epilogue), "alpha", (double)p->alpha, "beta",
                   (double)p->beta);
}

static json_t *meeting_json(const struct meeting *m)
{
  return json_pack("{s:s, s:s, s:i, s:I, s:I}", "operator", meeting_name(m->how), "type", tile_types[m->type].name, "world", m->ranks, "outer",
                   (json_int_t)m->outer, "inner", (json_int_t)m->inner);
}

static json_t *launch_json(const struct code *c, const struct code_launch *l, const char *const *file, bool compiled)
{
  json_t *maps, *args = args_json(l, &maps), *v = json_pack("{s:s, s:s}", "name", l->name, "how", l->how);
  if (l->kernel < 0) {
    json_decref(maps);
    json_object_set_new(v, "product", product_json(&l->mul));
    json_object_set_new(json_object_get(v, "product"), "algorithm", json_integer(l->algorithm));
    json_object_set_new(v, "args", args);
    return v;
  }
  const struct code_kernel *k = &c->kernel[l->kernel];
  if (l->meet.ranks) json_object_set_new(v, "ranks", meeting_json(&l->meet));
  json_t *launch = json_pack("{s:s?, s:s, s:I, s:i, s:I, s:i, s:b, s:o, s:o}", "cubin", compiled ? file[l->kernel] : NULL, "kernel", k->name, "grid",
                             (json_int_t)l->blocks, "block", l->threads, "shared", (json_int_t)k->shared, "cluster", k->cluster, "dependent",
                             l->dependent, "args", args, "maps", maps);
  json_object_update_new(v, launch);
  return v;
}

int manifest_make(struct arena *mem, const struct device_program *d, const char *name, const struct manifest_by *by, struct manifest *out,
                  struct err *e)
{
  struct code c;
  const char *compiler;
  *out = (struct manifest){0};
  TRY(code_make(mem, d, &c, e));
  out->missing = machine_code(mem, d, by, &c, &compiler);
  const char **file = files(mem, &c);
  const struct graph *whole = by->whole ? by->whole : d->g;
  json_t *launches = json_array();
  for (int i = 0; i < c.nlaunch; i++) json_array_append_new(launches, launch_json(&c, &c.launch[i], file, !out->missing));
  json_t *root =
      json_pack("{s:s, s:s, s:s?, s:s?, s:o, s:o, s:I, s:I, s:o}", "program", name, "arch", cuda_arch_name(d->gpu->arch), "compiler", compiler,
                "missing", out->missing, "inputs", manifest_tensors(whole, graph_inputs), "outputs", manifest_tensors(whole, graph_outputs),
                "workspace", (json_int_t)c.workspace, "zeroed", (json_int_t)c.zeroed, "launches", launches);
  json_object_set_new(root, "build", json_pack("{s:s, s:s}", "flags", export_flags(mem, d->gpu->arch), "libraries", export_libraries(&c)));
  if (by->rank) manifest_shards(root, by->rank);
  json_text(root, &out->json);
  json_decref(root);
  if (out->missing) return OK;
  out->cubin = NEWS(mem, struct folder_file, c.nkernel + 1);
  for (int i = 0; i < c.nkernel; i++) out->cubin[out->n++] = (struct folder_file){file[i], c.kernel[i].cubin, (size_t)c.kernel[i].bytes};
  return OK;
}

void manifest_readme(const struct manifest *m, struct str *out)
{
  str_add(out, "\n`program.json` says how the kernels are launched by the driver alone (`cuModuleLoadData`, `cuLaunchKernelEx`): buffers in order,\n"
               "then tensor maps.");
  if (m->missing)
    str_add(out, " There is no machine code beside it: %s.\n", m->missing);
  else
    str_add(out, " `NAME.cubin` is their machine code; `kernel` names its function.\n");
}

void manifest_free(struct manifest *m) { str_free(&m->json); }
