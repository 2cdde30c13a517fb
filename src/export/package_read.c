// Reads program.json: the members of all targets, and those of the CPU.
#include "export/package.h"
#include "export/manifest.h"

#include <string.h>

enum { MOST_TENSORS = 4096 };

int package_file(struct arena *mem, const struct folder_files *files, const char *name, const void **bytes, size_t *n, struct err *e)
{
  const struct folder_file *f = folder_find(files, name);
  if (!f) return err_set(e, ERR_CHANGED, NOWHERE, "%.200s is needed, and is none of the files that " FOLDER_SUMS " lists", name);
  return *n = f->n, *bytes = arena_copy(mem, f->bytes, f->n), OK;
}

int64_t package_tensor_bytes(const struct mica_tensor *t)
{
  int64_t n = dtype_bytes((enum dtype)t->dtype);
  for (int i = 0; i < t->ndim; i++) n *= t->shape[i];
  return n;
}

// ---- tensors ----

static int shape(const struct reading *r, const json_t *o, struct mica_tensor *t)
{
  const json_t *list = json_object_get(o, "shape");
  size_t n;
  int64_t size = 1;
  TRY(reading_list(r, o, "shape", MAX_DIMS, &n));
  t->ndim = (int)n;
  for (size_t i = 0; i < n; i++) {
    const json_t *d = json_array_get(list, i);
    t->shape[i] = json_integer_value(d);
    if (!json_is_integer(d) || t->shape[i] < 1 || t->shape[i] > EXTENT_LIMIT / size)
      return reading_bad(r, "shape", "a list of extents, with fewer than 2^40 elements in all");
    size *= t->shape[i];
  }
  return OK;
}

// Reads the value range, the state that the tensor belongs to, and whether it is frozen.
static int declared(const struct reading *r, const json_t *o, struct mica_tensor *t)
{
  const json_t *range = json_object_get(o, "range"), *state = json_object_get(o, "state");
  t->distinct = json_is_true(json_object_get(o, "distinct")), t->state = (int)json_integer_value(state);
  t->frozen = json_is_true(json_object_get(o, "frozen"));
  if (state && (!json_is_integer(state) || t->state < 1 || t->state > MOST_TENSORS)) return reading_bad(r, "state", "the number of an input");
  if (!range) return OK;
  t->least = json_integer_value(json_array_get(range, 0)), t->most = json_integer_value(json_array_get(range, 1));
  return json_array_size(range) == 2 && t->least <= t->most ? OK : reading_bad(r, "range", "two integers");
}

static int tensor(struct arena *mem, const struct reading *r, const json_t *o, struct mica_tensor *t)
{
  const char *dtype, *name = json_string_value(json_object_get(o, "name"));
  enum dtype d;
  TRY(reading_text(r, o, "dtype", &dtype));
  if (!dtype_parse(dtype, &d)) return reading_bad(r, "dtype", "a dtype");
  t->dtype = (enum mica_dtype)d, t->name = arena_strdup(mem, name ? name : "");
  TRY(shape(r, o, t));
  return declared(r, o, t);
}

// Reads the dimension along which each rank has its part.
static int shard(const struct reading *r, const json_t *o, const struct mica_tensor *t, int world, int *dim)
{
  int64_t d;
  *dim = -1;
  if (!json_object_get(o, "shard")) return OK;
  TRY(reading_whole(r, o, "shard", 0, MAX_DIMS - 1, &d));
  if (d >= t->ndim || t->shape[d] % world) return reading_bad(r, "shard", "a dimension with a part for each rank");
  return *dim = (int)d, OK;
}

struct package_list { // the list of inputs or of outputs
  int n, *shard;
  struct mica_tensor *tensor;
  struct package_extents *extents;
};

// Looks up run-time extents by number.
static int extents(const struct reading *r, const json_t *o, const struct mica_tensor *t, struct package_extents *x)
{
  int64_t number = 0;
  size_t n = 0;
  if (json_object_get(o, "extent")) TRY(reading_whole(r, o, "extent", 1, MOST_RUNTIME, &number));
  x->extent = (int)number;
  if (number && (t->dtype != MICA_I32 || t->ndim)) return reading_bad(r, "extent", "of an i32 scalar");
  if (!json_object_get(o, "runs")) return OK;
  TRY(reading_list(r, o, "runs", MAX_DIMS, &n));
  if ((int)n != t->ndim) return reading_bad(r, "runs", "a number for each dimension");
  for (size_t i = 0; i < n; i++) {
    number = json_integer_value(json_array_get(json_object_get(o, "runs"), i));
    if (number < 0 || number > MOST_RUNTIME) return reading_bad(r, "runs", "numbers of run-time extents");
    x->runs[i] = (uint8_t)number;
  }
  return OK;
}

// Checks that an input holds each extent, and that its largest value is the extent of the dimension.
static bool held(const struct package *p, const struct mica_tensor *t, const struct package_extents *x)
{
  for (int d = 0; d < t->ndim; d++) {
    bool found = !x->runs[d];
    for (int i = 0; i < p->nin && !found; i++) found = p->in_extents[i].extent == x->runs[d] && p->in[i].most == t->shape[d];
    if (!found) return false;
  }
  return true;
}

// Checks that values are at least 1 and that exactly one input holds each extent.
static bool holders_right(const struct package *p)
{
  bool seen[MOST_RUNTIME + 1] = {false};
  for (int i = 0; i < p->nin; i++) {
    const int k = p->in_extents[i].extent;
    if (k && (seen[k] || p->in[i].least < 1)) return false;
    seen[k] = k > 0;
  }
  return true;
}

static bool all_held(const struct package *p)
{
  bool all = holders_right(p);
  for (int i = 0; i < p->nin; i++) all &= held(p, &p->in[i], &p->in_extents[i]);
  for (int i = 0; i < p->nout; i++) all &= held(p, &p->out[i], &p->out_extents[i]);
  return all;
}

static int tensors(struct arena *mem, const json_t *root, const char *key, int world, struct package_list *out, struct err *e)
{
  size_t count;
  TRY(reading_list(&(struct reading){"the program", e}, root, key, MOST_TENSORS, &count));
  out->tensor = NEWS(mem, struct mica_tensor, count + 1), out->shard = NEWS(mem, int, count + 1), out->n = (int)count;
  out->extents = NEWS(mem, struct package_extents, count + 1);
  for (size_t i = 0; i < count; i++) {
    const struct reading r = {arena_printf(mem, "entry %zu of `%s`", i + 1, key), e};
    const json_t *o = json_array_get(json_object_get(root, key), i);
    TRY(tensor(mem, &r, o, &out->tensor[i]));
    TRY(shard(&r, o, &out->tensor[i], world, &out->shard[i]));
    TRY(extents(&r, o, &out->tensor[i], &out->extents[i]));
  }
  return OK;
}

static int world(const struct reading *r, const json_t *root, int *ranks)
{
  int64_t n = 1;
  if (json_object_get(root, "world")) TRY(reading_whole(r, root, "world", 1, M_RANKS, &n));
  return *ranks = (int)n, OK;
}

// ---- the CPU's ----

static bool is_identifier(const char *s)
{
  char same[64];
  gen_identifier(same, s);
  return !strcmp(s, same);
}

static int object(struct arena *mem, const json_t *root, struct package_object *x, struct err *e)
{
  const struct reading r = {"`kernel`", e};
  const json_t *o = json_object_get(root, "kernel");
  TRY(reading_file(&r, o, "source", &x->source));
  TRY(reading_text(&r, o, "function", &x->function));
  if (!is_identifier(x->function)) return reading_bad(&r, "function", "an identifier of C");
  x->source = arena_strdup(mem, x->source), x->function = arena_strdup(mem, x->function);
  if (json_is_null(json_object_get(o, "object"))) return OK;
  TRY(reading_file(&r, o, "object", &x->file));
  TRY(reading_text(&r, o, "processor", &x->processor));
  x->file = arena_strdup(mem, x->file), x->processor = arena_strdup(mem, x->processor);
  return OK;
}

// ---- the whole ----

static int gpu(struct arena *mem, const struct folder_files *files, const json_t *root, struct package *out, struct err *e)
{
  const char *missing = json_string_value(json_object_get(root, "missing"));
  TRY(cuda_arch_find(out->target, &out->arch, e));
  if (missing) {
    err_set(e, ERR_COMPILER, NOWHERE, "the program has no machine code: %.500s", missing);
    return err_hint(e, "save it again on a machine with NVRTC, or compile its kernel.cu with nvcc"), e->status;
  }
  TRY(package_code(mem, files, root, out, e));
  for (int i = 0; i < out->code.nkernel; i++) out->key = hash_bytes(out->code.kernel[i].cubin, (size_t)out->code.kernel[i].bytes, out->key);
  return OK;
}

static bool same_tensors(const struct graph *g, int (*list)(const struct graph *, int *), int n, const struct mica_tensor *t)
{
  struct arena mem = {0};
  int *of = NEWS(&mem, int, list(g, NULL) + 1);
  bool same = list(g, of) == n;
  for (int i = 0; i < n && same; i++) {
    const struct tensor *x = &g->tensors[of[i]];
    same = x->shape.n == t[i].ndim && x->dtype == (enum dtype)t[i].dtype && !memcmp(x->shape.d, t[i].shape, sizeof(int64_t) * (size_t)t[i].ndim);
  }
  return arena_close(&mem), same;
}

// Reads the graph of a file; NULL if there is no such file. `name` is a constant: an error that names the file outlives `mem`.
static int read_graph(struct arena *mem, const struct folder_files *files, const char *name, struct graph **g, struct err *e)
{
  const struct folder_file *f = folder_find(files, name);
  *g = NULL;
  int status = f ? graph_from_json(mem, f->bytes, f->n, name, g, e) : OK;
  if (status != OK && e->at.file) e->at.file = name;
  return status;
}

// Checks that inputs and outputs are those of the saved graph.
static int check_graph(const struct folder_files *files, const struct package *p, struct err *e)
{
  struct arena mem = {0};
  struct graph *g;
  int status = read_graph(&mem, files, "graph.json", &g, e);
  if (status == OK && g && !(same_tensors(g, graph_inputs, p->nin, p->in) && same_tensors(g, graph_outputs, p->nout, p->out)))
    status = err_set(e, ERR_CHANGED, NOWHERE, "the inputs and outputs of program.json are not those of graph.json");
  return arena_close(&mem), status;
}

static bool same_shards(const struct graph *g, const struct package *p)
{
  int in = 0, out = 0;
  bool same = g->world == p->world && graph_inputs(g, NULL) == p->nin && graph_outputs(g, NULL) == p->nout;
  for (int i = 0; i < g->nnodes && same; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op == OP_INPUT) same = input_shard(g, n->out) == p->in_shard[in++];
    if (n->op == OP_OUTPUT) same = output_shard(g, n) == p->out_shard[out++];
  }
  return same;
}

// Checks the number of devices and the division of tensors against the saved graph of one rank.
static int check_rank(const struct folder_files *files, const struct package *p, struct err *e)
{
  struct arena mem = {0};
  struct graph *g;
  int status = read_graph(&mem, files, "rank.json", &g, e);
  if (status == OK && g && !same_shards(g, p))
    status = err_set(e, ERR_CHANGED, NOWHERE, "the devices and shards of program.json are not those of rank.json");
  return arena_close(&mem), status;
}

static int whole(struct arena *mem, const struct folder_files *files, const json_t *root, struct package *out, struct err *e)
{
  const struct reading r = {"the program", e};
  TRY(reading_text(&r, root, "program", &out->name));
  TRY(reading_text(&r, root, "arch", &out->target));
  out->name = arena_strdup(mem, out->name), out->target = arena_strdup(mem, out->target);
  struct package_list in, outs;
  TRY(world(&r, root, &out->world));
  TRY(tensors(mem, root, "inputs", out->world, &in, e));
  TRY(tensors(mem, root, "outputs", out->world, &outs, e));
  out->nin = in.n, out->in = in.tensor, out->in_shard = in.shard;
  out->nout = outs.n, out->out = outs.tensor, out->out_shard = outs.shard;
  out->in_extents = in.extents, out->out_extents = outs.extents;
  if (!all_held(out)) return reading_bad(&r, "runs", "numbers of run-time extents of inputs, with the bounds as the shapes");
  TRY(check_graph(files, out, e));
  TRY(check_rank(files, out, e));
  out->gpu = strcmp(out->target, "cpu") != 0;
  return out->gpu ? gpu(mem, files, root, out, e) : object(mem, root, &out->object, e);
}

int package_read(struct arena *mem, const struct folder_files *files, struct package *out, struct err *e)
{
  const void *text;
  size_t n;
  json_error_t why;
  *out = (struct package){0};
  TRY(package_file(mem, files, "program.json", &text, &n, e));
  json_t *root = json_loadb(text, n, 0, &why);
  if (!root) return err_set(e, ERR_JSON, (struct loc){"program.json", why.line, why.column}, "%s", why.text);
  out->key = hash_bytes(text, n, 0);
  int status = whole(mem, files, root, out, e);
  return json_decref(root), status;
}
