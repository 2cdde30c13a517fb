// Reads the launches of program.json, as manifest.c writes them. Numbers must be valid for a launch and stay within the program's tensors. The
// machine code itself is not checked.
#include "export/package.h"

#include <math.h>
#include <string.h>

enum { MOST_LAUNCHES = 1 << 16, MOST_ARGS = 512, MOST_SHARED = 1 << 20, MOST_THREADS = 1024, MOST_CLUSTER = 16 };

struct unpacking {
  struct arena *mem;
  const struct folder_files *files;
  struct package *p;
  struct reading r; // of the launch
};

// ---- arguments ----

static int place(const struct unpacking *u, const json_t *o, struct lower_place *out)
{
  static const char *const names[] = {[PLACE_INPUT] = "input", [PLACE_OUTPUT] = "output", [PLACE_WORK] = "workspace"};
  const struct package *p = u->p;
  const char *name;
  int64_t index, bytes;
  size_t kind = 0;
  TRY(reading_text(&u->r, o, "place", &name));
  while (kind < COUNT(names) && strcmp(names[kind], name)) kind++;
  if (kind == COUNT(names)) return reading_bad(&u->r, "place", "input, output or workspace");
  *out = (struct lower_place){.kind = (enum place_kind)kind};
  const int many = kind == PLACE_INPUT ? p->nin : kind == PLACE_OUTPUT ? p->nout : 1;
  TRY(reading_whole(&u->r, o, "index", 0, many - 1, &index));
  bytes = kind == PLACE_WORK ? p->code.workspace : package_tensor_bytes(kind == PLACE_INPUT ? &p->in[index] : &p->out[index]);
  out->index = (int)index;
  return reading_whole(&u->r, o, "offset", 0, MAX(0, bytes - 1), &out->offset);
}

static int numbers(const struct unpacking *u, const json_t *o, const char *key, size_t n, int64_t least, int64_t most, int64_t *out)
{
  size_t given;
  TRY(reading_list(&u->r, o, key, n, &given));
  if (given != n) return reading_bad(&u->r, key, "a list with a number for each dimension");
  for (size_t i = 0; i < n; i++) {
    const json_t *v = json_array_get(json_object_get(o, key), i);
    out[i] = json_integer_value(v);
    if (!json_is_integer(v) || out[i] < least || out[i] > most) return reading_bad(&u->r, key, "a list of numbers in their range");
  }
  return OK;
}

static int type_of(const struct unpacking *u, const char *name, enum tile_type *out)
{
  for (int i = 0; i < TT_COUNT; i++)
    if (name && !strcmp(tile_types[i].name, name)) return *out = (enum tile_type)i, OK;
  return reading_bad(&u->r, "type", "a type of the tile language");
}

static int map(const struct unpacking *u, const json_t *o, int narg, const struct code_arg *args, struct code_arg *out)
{
  struct gpu_map_shape *s = &out->map;
  const char *type;
  int64_t arg, swizzle, size[5], stride[5], box[5];
  size_t rank;
  TRY(reading_whole(&u->r, o, "arg", 0, narg - 1, &arg));
  TRY(reading_text(&u->r, o, "type", &type));
  TRY(type_of(u, type, &s->type));
  TRY(reading_list(&u->r, o, "size", 5, &rank));
  if (!rank) return reading_bad(&u->r, "size", "a list of 1 to 5 extents");
  TRY(numbers(u, o, "size", rank, 1, EXTENT_LIMIT, size));
  TRY(numbers(u, o, "stride", rank, 0, EXTENT_LIMIT, stride));
  TRY(numbers(u, o, "box", rank, 1, 256, box));
  TRY(reading_whole(&u->r, o, "swizzle", 0, 128, &swizzle));
  s->rank = (int)rank, s->swizzle_bytes = (int)swizzle;
  for (size_t i = 0; i < rank; i++) s->size[i] = (uint64_t)size[i], s->stride[i] = (uint64_t)stride[i], s->box[i] = (uint32_t)box[i];
  out->is_map = true, out->at = args[arg].at;
  return OK;
}

// ---- kernels ----

static int kernel_of(const struct unpacking *u, const json_t *o, int *out)
{
  struct code *c = &u->p->code;
  const char *file, *name;
  int64_t shared, cluster;
  size_t n;
  TRY(reading_file(&u->r, o, "cubin", &file));
  TRY(reading_text(&u->r, o, "kernel", &name));
  TRY(reading_whole(&u->r, o, "shared", 0, MOST_SHARED, &shared));
  TRY(reading_whole(&u->r, o, "cluster", 1, MOST_CLUSTER, &cluster));
  for (*out = 0; *out < c->nkernel; ++*out) // `source` holds the file's name here
    if (!strcmp(c->kernel[*out].source, file) && !strcmp(c->kernel[*out].name, name)) return OK;
  struct code_kernel *k = &c->kernel[c->nkernel];
  *k = (struct code_kernel){.name = arena_strdup(u->mem, name),
                            .source = arena_strdup(u->mem, file),
                            .shared = shared,
                            .cluster = (int)cluster,
                            .registers = -1,
                            .spilled = -1};
  TRY(package_file(u->mem, u->files, file, &k->cubin, &n, u->r.e));
  return k->bytes = (int64_t)n, c->nkernel++, OK;
}

static int kernel(const struct unpacking *u, const json_t *o, struct code_launch *l)
{
  const int nargs = l->narg;
  int64_t threads;
  size_t maps;
  TRY(kernel_of(u, o, &l->kernel));
  TRY(reading_whole(&u->r, o, "grid", 1, INT32_MAX, &l->blocks));
  TRY(reading_whole(&u->r, o, "block", 1, MOST_THREADS, &threads));
  TRY(reading_list(&u->r, o, "maps", MOST_ARGS, &maps));
  l->threads = (int)threads, l->dependent = json_is_true(json_object_get(o, "dependent"));
  if (l->blocks % u->p->code.kernel[l->kernel].cluster) return reading_bad(&u->r, "grid", "a multiple of `cluster`");
  for (size_t i = 0; i < maps; i++) TRY(map(u, json_array_get(json_object_get(o, "maps"), i), nargs, l->arg, &l->arg[l->narg++]));
  return OK;
}

// ---- products ----

static int factor(const struct unpacking *u, const json_t *o, const char *key, float *out)
{
  const json_t *v = json_object_get(o, key);
  *out = (float)json_number_value(v);
  return json_is_number(v) && isfinite(*out) ? OK : reading_bad(&u->r, key, "a number");
}

static int operands(const struct unpacking *u, const json_t *o, struct blas_product *p)
{
  const json_t *types = json_object_get(o, "type"), *strides = json_object_get(o, "stride");
  const size_t n = (size_t)blas_operands(p);
  if (json_array_size(types) != n || json_array_size(strides) != n) return reading_bad(&u->r, "stride", "a list with an entry for each operand");
  for (int i = 0; i < BLAS_OPERANDS; i++) {
    if (!blas_has(p, i)) continue;
    const size_t at = (size_t)blas_index(p, i);
    const json_t *s = json_array_get(strides, at);
    TRY(type_of(u, json_string_value(json_array_get(types, at)), &p->type[i]));
    for (size_t k = 0; k < 3; k++) {
      const json_t *x = json_array_get(s, k);
      p->stride[i][k] = json_integer_value(x);
      if (!json_is_integer(x) || p->stride[i][k] < 0 || p->stride[i][k] > EXTENT_LIMIT)
        return reading_bad(&u->r, "stride", "a list of three strides an operand");
    }
  }
  return OK;
}

static int product(const struct unpacking *u, const json_t *v, struct code_launch *l)
{
  const json_t *o = json_object_get(v, "product");
  struct blas_product *p = &l->mul;
  struct blas_arranged arranged;
  const char *epilogue;
  int64_t algorithm = -1;
  const struct {
    const char *key;
    int64_t *to;
  } extents[] = {{"batch", &p->batch}, {"m", &p->m}, {"n", &p->n}, {"k", &p->k}};
  for (size_t i = 0; i < COUNT(extents); i++) TRY(reading_whole(&u->r, o, extents[i].key, 1, INT32_MAX, extents[i].to));
  TRY(reading_text(&u->r, o, "epilogue", &epilogue));
  if (!blas_epilogue_find(epilogue, &p->epilogue)) return reading_bad(&u->r, "epilogue", "one of the library's epilogues");
  TRY(factor(u, o, "alpha", &p->alpha));
  TRY(factor(u, o, "beta", &p->beta));
  TRY(operands(u, o, p));
  if (json_object_get(o, "algorithm")) TRY(reading_whole(&u->r, o, "algorithm", -1, 1 << 20, &algorithm));
  if (l->narg != blas_operands(p)) return reading_bad(&u->r, "args", "a list with an entry for each operand");
  if (!blas_arrange(p, &arranged)) return reading_bad(&u->r, "product", "one that the library can do");
  return l->kernel = -1, l->algorithm = (int)algorithm, OK;
}

// ---- operators of all ranks ----

// Whether the kernel of this operator exists; operators of the same shape share one.
static int meeting(const struct unpacking *u, const json_t *v, struct code_launch *l)
{
  const json_t *o = json_object_get(v, "ranks");
  struct meeting *m = &l->meet;
  struct code *c = &u->p->code;
  const char *name;
  int64_t world;
  TRY(reading_text(&u->r, o, "operator", &name));
  if (!meeting_find(name, &m->how)) return reading_bad(&u->r, "operator", "an operator of all ranks");
  TRY(reading_text(&u->r, o, "type", &name));
  TRY(type_of(u, name, &m->type));
  TRY(reading_whole(&u->r, o, "world", 2, MEETING_MOST_RANKS, &world));
  TRY(reading_whole(&u->r, o, "outer", 1, INT32_MAX, &m->outer));
  TRY(reading_whole(&u->r, o, "inner", 1, INT32_MAX, &m->inner));
  m->ranks = (int)world;
  if (m->ranks != u->p->world) return reading_bad(&u->r, "world", "the program's");
  if (l->narg != 2 || l->threads != MEETING_THREADS || l->blocks > MEETING_MOST_BLOCKS)
    return reading_bad(&u->r, "ranks", "an operand and a result, in few blocks");
  if (!meeting_fits(m)) return reading_bad(&u->r, "ranks", "what ranks exchange");
  return meeting_room(m, &c->room), OK;
}

// ---- the whole ----

static int launch(const struct unpacking *u, const json_t *o, struct code_launch *l)
{
  const char *name = json_string_value(json_object_get(o, "name"));
  size_t args, maps = json_array_size(json_object_get(o, "maps"));
  TRY(reading_list(&u->r, o, "args", MOST_ARGS, &args));
  *l = (struct code_launch){.name = arena_strdup(u->mem, name ? name : ""), .how = "", .algorithm = -1};
  l->arg = NEWS(u->mem, struct code_arg, args + MIN(maps, MOST_ARGS) + 1);
  for (; l->narg < (int)args; l->narg++) TRY(place(u, json_array_get(json_object_get(o, "args"), (size_t)l->narg), &l->arg[l->narg].at));
  if (json_object_get(o, "product")) return product(u, o, l);
  TRY(kernel(u, o, l));
  return json_object_get(o, "ranks") ? meeting(u, o, l) : OK;
}

// An output that holds the last version of a state shares the buffer of that input.
static void states(struct arena *mem, const struct package *p, struct code *c)
{
  c->state = NEWS(mem, struct code_state, p->nout + 1);
  for (int i = 0; i < p->nout; i++) {
    const int in = p->out[i].state - 1;
    if (in < 0 || in >= p->nin) continue;
    const int64_t bytes = MIN(package_tensor_bytes(&p->in[in]), package_tensor_bytes(&p->out[i])) / (p->in_shard[in] < 0 ? 1 : p->world);
    c->state[c->nstate++] = (struct code_state){in, i, bytes};
  }
}

int package_code(struct arena *mem, const struct folder_files *files, const json_t *root, struct package *p, struct err *e)
{
  struct unpacking u = {mem, files, p, {"the program", e}};
  struct code *c = &p->code;
  size_t n;
  TRY(reading_whole(&u.r, root, "workspace", 0, EXTENT_LIMIT, &c->workspace));
  TRY(reading_whole(&u.r, root, "zeroed", 0, c->workspace, &c->zeroed));
  TRY(reading_list(&u.r, root, "launches", MOST_LAUNCHES, &n));
  states(mem, p, c);
  c->world = p->world;
  c->launch = NEWS(mem, struct code_launch, n + 1), c->kernel = NEWS(mem, struct code_kernel, n + 1);
  for (size_t i = 0; i < n; i++) {
    u.r.what = arena_printf(mem, "launch %zu", i + 1);
    TRY(launch(&u, json_array_get(json_object_get(root, "launches"), i), &c->launch[c->nlaunch++]));
  }
  return OK;
}
