// muGraphs as the public Mirage project saves them: an array of graphs, each an array of operators, connected by the
// guids of tensors. An operator's name is a prefix and a name of op.def, or is in the table below. Every node is built
// with graph_add, and the shapes in the file must equal the inferred ones. The format omits some attributes (constants
// of mul_scalar, limits of clamp); graphs that need them are rejected with an error.
#include "front/front.h"
#include "ir/constants.h"
#include "base/doc.h"

#include <string.h>

enum { MOST_GRAPHS = 4096, MOST_OPS = 1 << 12, MOST_ARGS = 8 };

static const struct {
  const char *name; // without kn_, tb_ and _op
  enum op op;
  int dim; // LAST, or -2 for none
} others[] = {
#define LAST (-1)
#define NO_DIM (-2)
    {"accum_nored", OP_ACCUM, NO_DIM},
    {"forloop_accum_nored", OP_ACCUM, NO_DIM},
    {"forloop_accum_no_red", OP_ACCUM, NO_DIM},
    {"accum_red_ld_sum", OP_ACCUM_SUM, LAST},
    {"forloop_accum_red_ld_sum", OP_ACCUM_SUM, LAST},
    {"accum_red_ld_mean", OP_ACCUM_MEAN, LAST},
    {"forloop_accum_red_ld_mean", OP_ACCUM_MEAN, LAST},
    {"accum_red_ld_rms", OP_ACCUM_RMS, LAST},
    {"forloop_accum_red_ld_rms", OP_ACCUM_RMS, LAST},
    {"accum_redtox_ld_sum", OP_ACCUM_SUM_TO, LAST},
    {"forloop_accum_redtox_ld_sum", OP_ACCUM_SUM_TO, LAST},
    {"reduction_0", OP_SUM, 0},
    {"reduction_1", OP_SUM, 1},
    {"reduction_2", OP_SUM, 2},
    {"reduction_0_to_dimx", OP_SUM, 0},
    {"reduction_1_to_dimx", OP_SUM, 1},
    {"reduction_2_to_dimx", OP_SUM, 2},
    {"reduction_0_max", OP_MAX, 0},
    {"reduction_1_max", OP_MAX, 1},
    {"reduction_2_max", OP_MAX, 2},
    {"concat_0", OP_CONCAT, 0},
    {"concat_1", OP_CONCAT, 1},
    {"concat_2", OP_CONCAT, 2},
    {"concat_first_op_id", OP_CONCAT, 0},
    {"concat_then_matmul", OP_CONCAT_MATMUL, NO_DIM},
    {"allreduce", OP_ALL_REDUCE, NO_DIM},
};

struct mirage_known {
  json_int_t guid;
  int tensor;
};
struct mirage_reader {
  struct arena *mem;
  struct loc at;
  struct err *e;
  enum dtype dtype;
  int graph, kernel, block; // being read; block is -1 in the kernel graph
};
// A graph under construction, and the enclosing one.
struct mirage_place {
  struct graph *g;
  const struct mirage_place *above;
  struct mirage_known *known;
  int nknown, cap;
  int *from, nfrom, from_cap; // tensors of `above` that the iterators read
};

static int bad(struct mirage_reader *r, enum errid id, const char *fmt, ...) PRINTF(3, 4);
static int bad(struct mirage_reader *r, enum errid id, const char *fmt, ...)
{
  char text[400], where[48] = "";
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  if (r->block >= 0) snprintf(where, sizeof where, ", block operator %d", r->block);
  return err_set(r->e, id, r->at, "graph %d, operator %d%s: %s", r->graph, r->kernel, where, text);
}

// Returns the status of graph_add; puts the position in the file in front of an error's message.
static int located(struct mirage_reader *r, int status)
{
  if (status == OK) return OK;
  struct err inner = *r->e;
  *r->e = (struct err){0};
  return bad(r, inner.id, "%.380s", inner.text);
}

static int want_int(struct mirage_reader *r, const json_t *o, const char *key, int64_t least, int64_t most, int64_t *out)
{
  const json_t *v = json_object_get(o, key);
  if (!json_is_integer(v)) return bad(r, ERR_JSON, "`%s` should be an integer", key);
  *out = json_integer_value(v);
  if (*out >= least && *out <= most) return OK;
  return bad(r, ERR_JSON, "`%s` is %lld, outside [%lld, %lld]", key, (long long)*out, (long long)least, (long long)most);
}

static int want_xyz(struct mirage_reader *r, const json_t *o, const char *key, int64_t least, int64_t most, int64_t out[MAX_GRID])
{
  static const char *const axes[MAX_GRID] = {"x", "y", "z"};
  const json_t *v = json_object_get(o, key);
  if (!json_is_object(v)) return bad(r, ERR_JSON, "`%s` should be an object of x, y and z", key);
  for (int i = 0; i < MAX_GRID; i++)
    if (want_int(r, v, axes[i], least, most, &out[i]) != OK) return USER;
  return OK;
}

// ---- tensors ----

static int read_shape(struct mirage_reader *r, const json_t *t, struct shape *s)
{
  const json_t *dims = json_object_get(t, "dim");
  int64_t n;
  if (want_int(r, t, "num_dims", 0, MAX_DIMS, &n) != OK) return USER;
  if (!json_is_array(dims) || json_array_size(dims) < (size_t)n) return bad(r, ERR_JSON, "`dim` should have num_dims entries");
  s->n = (int)n;
  for (int i = 0; i < s->n; i++) {
    const json_t *d = json_array_get(dims, (size_t)i);
    s->d[i] = json_is_integer(d) ? json_integer_value(d) : 0;
    if (s->d[i] < 1 || s->d[i] >= EXTENT_LIMIT) return bad(r, ERR_JSON, "dimension %d of a tensor is no extent", i);
  }
  return OK;
}

static int find(struct mirage_reader *r, const struct mirage_place *p, const json_t *t, int *tensor)
{
  const json_t *guid = json_object_get(t, "guid");
  for (int i = p->nknown - 1; i >= 0 && json_is_integer(guid); i--)
    if (p->known[i].guid == json_integer_value(guid)) return *tensor = p->known[i].tensor, OK;
  return bad(r, ERR_GRAPH, "reads a tensor that no operator before it makes");
}

// Records the tensors from `first` on as outputs of operator o. Their shapes must equal those in the file.
static int learn(struct mirage_reader *r, struct mirage_place *p, const json_t *o, int first)
{
  const json_t *outs = json_object_get(o, "output_tensors");
  size_t n = json_array_size(outs);
  if (n != (size_t)(p->g->ntensors - first)) return bad(r, ERR_GRAPH, "has %zu outputs, not %d", n, p->g->ntensors - first);
  for (size_t i = 0; i < n; i++) {
    const json_t *t = json_array_get(outs, i), *guid = json_object_get(t, "guid");
    struct shape said;
    char a[128], b[128];
    if (read_shape(r, t, &said) != OK) return USER;
    if (!json_is_integer(guid)) return bad(r, ERR_JSON, "`guid` should be an integer");
    const struct shape *is = &p->g->tensors[first + (int)i].shape;
    shape_text(a, &said), shape_text(b, is);
    if (!shape_eq(&said, is)) return bad(r, ERR_SHAPE, "the file says %s, but the operator makes %s", a, b);
    PUSH(r->mem, p->known, p->nknown, p->cap) = (struct mirage_known){json_integer_value(guid), first + (int)i};
  }
  return OK;
}

// ---- operators ----

static bool operator_of(const char *type, enum op *op, int *dim)
{
  char name[64];
  size_t n = strlen(type);
  if (n < 7 || n >= sizeof name + 3 || strcmp(type + n - 3, "_op")) return false;
  if (strncmp(type, "kn_", 3) && strncmp(type, "tb_", 3)) return false;
  snprintf(name, sizeof name, "%.*s", (int)(n - 6), type + 3);
  *dim = NO_DIM;
  for (size_t i = 0; i < COUNT(others); i++)
    if (!strcmp(name, others[i].name)) return *op = others[i].op, *dim = others[i].dim, true;
  return op_find(name, op) && (op_rows[*op].rule == RULE_MAP || *op == OP_MATMUL || *op == OP_RMS_NORM);
}

// A reduction: the file's output shape determines the size of its groups.
static int reduction(struct mirage_reader *r, const struct mirage_place *p, const json_t *o, const struct shape *in, enum op *op, struct attrs *a)
{
  struct shape to;
  if (a->dim < 0) a->dim += in->n;
  if (a->dim < 0 || a->dim >= in->n) return bad(r, ERR_SHAPE, "reduces a dimension that its input has not");
  if (read_shape(r, json_array_get(json_object_get(o, "output_tensors"), 0), &to) != OK) return USER;
  int64_t left = to.n == in->n ? to.d[a->dim] : 0;
  if (*op == OP_ACCUM_SUM_TO) return a->extent = left, OK;
  if (*op != OP_SUM || left <= 1) return OK;
  if (p->g->level == BLOCK)
    *op = OP_SUM_TO, a->extent = left;
  else
    a->group = in->d[a->dim] / left;
  return OK;
}

static int read_plain(struct mirage_reader *r, struct mirage_place *p, const json_t *o, const char *type)
{
  enum op op;
  int dim, in[MOST_ARGS], first = p->g->ntensors;
  const json_t *args = json_object_get(o, "input_tensors");
  size_t n = json_array_size(args);
  if (!operator_of(type, &op, &dim)) return bad(r, ERR_FUNCTION, "`%.60s` is not an operator that Mica knows", type);
  if (op_rows[op].attrs & (A_SCALAR | A_LO))
    return bad(r, ERR_ATTRIBUTE, "the constant of %s is not in the file: Mirage does not save it", op_rows[op].name);
  if (!n || n > MOST_ARGS) return bad(r, ERR_GRAPH, "has %zu inputs", n);
  for (size_t i = 0; i < n; i++)
    if (find(r, p, json_array_get(args, i), &in[i]) != OK) return USER;
  struct attrs a = attrs_default(op);
  if (dim != NO_DIM) {
    a.dim = dim;
    if (reduction(r, p, o, &p->g->tensors[in[0]].shape, &op, &a) != OK) return USER;
  }
  if (located(r, graph_add(p->g, op, (int)n, in, &a, r->at, &(int){0}, r->e)) != OK) return USER;
  return learn(r, p, o, first);
}

static int read_input(struct mirage_reader *r, struct mirage_place *p, const json_t *o)
{
  struct shape s;
  int first = p->g->ntensors;
  if (read_shape(r, json_array_get(json_object_get(o, "output_tensors"), 0), &s) != OK) return USER;
  if (located(r, graph_input(p->g, NULL, r->dtype, &s, r->at, &(int){0}, r->e)) != OK) return USER;
  return learn(r, p, o, first);
}

static int read_output(struct mirage_reader *r, struct mirage_place *p, const json_t *o)
{
  int t;
  if (find(r, p, json_array_get(json_object_get(o, "input_tensors"), 0), &t) != OK) return USER;
  return located(r, graph_add(p->g, OP_OUTPUT, 1, &t, NULL, r->at, &(int){0}, r->e));
}

static int read_map(struct mirage_reader *r, const struct graph *g, const json_t *o, const char *key, int8_t map[MAX_GRID])
{
  int64_t v[MAX_GRID];
  if (want_xyz(r, o, key, -1, MAX_DIMS - 1, v) != OK) return USER;
  for (int i = 0; i < g->ngrid; i++) map[i] = v[i] < 0 ? REPLICA : (int8_t)v[i];
  return OK;
}

static int read_iter(struct mirage_reader *r, struct mirage_place *p, const json_t *o)
{
  int from, first = p->g->ntensors;
  int64_t loop;
  struct attrs a = attrs_default(OP_ITER);
  if (find(r, p->above, json_object_get(o, "dtensor"), &from) != OK) return USER;
  if (read_map(r, p->g, o, "input_map", a.imap) != OK || want_int(r, o, "forloop_dim", -1, MAX_DIMS - 1, &loop) != OK) return USER;
  a.fmap[0] = loop < 0 ? REPLICA : (int8_t)loop;
  if (located(r, graph_iter(p->g, p->above->g, from, &a, r->at, &(int){0}, r->e)) != OK) return USER;
  PUSH(r->mem, p->from, p->nfrom, p->from_cap) = from;
  return learn(r, p, o, first);
}

static int read_save(struct mirage_reader *r, struct mirage_place *p, const json_t *o)
{
  int t;
  struct attrs a = attrs_default(OP_SAVE);
  if (find(r, p, json_array_get(json_object_get(o, "input_tensors"), 0), &t) != OK) return USER;
  if (read_map(r, p->g, o, "output_map", a.omap) != OK) return USER;
  return located(r, graph_add(p->g, OP_SAVE, 1, &t, &a, r->at, &(int){0}, r->e));
}

static int read_block(struct mirage_reader *r, struct mirage_place *p, const json_t *o)
{
  const json_t *b = json_object_get(o, "bgraph"), *ops = json_object_get(b, "operators"), *op;
  int64_t grid[MAX_GRID], loop[1];
  int ngrid = MAX_GRID, first = p->g->ntensors;
  if (!json_is_array(ops) || json_array_size(ops) > MOST_OPS) return bad(r, ERR_JSON, "`bgraph` should have up to %d operators", MOST_OPS);
  if (want_xyz(r, b, "grid_dim", 1, 1 << 20, grid) != OK || want_int(r, b, "forloop_range", 1, 1 << 20, loop) != OK) return USER;
  while (ngrid && grid[ngrid - 1] == 1) ngrid--;
  struct mirage_place sub = {.g = graph_new(r->mem, BLOCK, NULL), .above = p};
  graph_axes(sub.g, ngrid, grid, 1, loop);
  for (size_t i = 0; i < json_array_size(ops); i++) {
    op = json_array_get(ops, i), r->block = (int)i;
    const char *type = json_string_value(json_object_get(op, "op_type"));
    int s = !type                           ? bad(r, ERR_JSON, "`op_type` should be a string")
            : !strcmp(type, "tb_input_op")  ? read_iter(r, &sub, op)
            : !strcmp(type, "tb_output_op") ? read_save(r, &sub, op)
                                            : read_plain(r, &sub, op, type);
    if (s != OK) return s;
  }
  r->block = -1;
  if (located(r, graph_nest(p->g, sub.g, sub.nfrom, sub.from, r->at, &(int){0}, r->e)) != OK) return USER;
  return learn(r, p, o, first);
}

static int read_graph(struct mirage_reader *r, const json_t *ops, struct graph **out)
{
  struct mirage_place p = {.g = *out = graph_new(r->mem, KERNEL, "mirage")};
  r->kernel = 0, r->block = -1;
  if (!json_is_array(ops) || json_array_size(ops) > MOST_OPS) return bad(r, ERR_JSON, "a graph should be an array of up to %d operators", MOST_OPS);
  for (int outputs = 0; outputs < 2; outputs++) // outputs come last in a graph, whatever their order in the file
    for (size_t i = 0; i < json_array_size(ops); i++) {
      const json_t *o = json_array_get(ops, i);
      const char *type = json_string_value(json_object_get(o, "op_type"));
      if ((type && !strcmp(type, "kn_output_op")) != outputs) continue;
      r->kernel = (int)i;
      int s = !type                               ? bad(r, ERR_JSON, "`op_type` should be a string")
              : outputs                           ? read_output(r, &p, o)
              : !strcmp(type, "kn_input_op")      ? read_input(r, &p, o)
              : !strcmp(type, "kn_customized_op") ? read_block(r, &p, o)
                                                  : read_plain(r, &p, o, type);
      if (s != OK) return s;
    }
  int s = graph_check(p.g, r->e);
  return located(r, s ? s : constants_check(p.g, r->e));
}

int front_mirage(struct arena *mem, const char *text, size_t bytes, const char *file, enum dtype t, struct graph ***out, int *n, struct err *e)
{
  json_error_t why;
  struct mirage_reader r = {.mem = mem, .at = {.file = file ? arena_strdup(mem, file) : NULL}, .e = e, .dtype = t, .block = -1};
  json_t *top = json_loadb(text, bytes, 0, &why);
  *n = 0;
  if (!top) {
    r.at.line = MAX(why.line, 0), r.at.col = MAX(why.column, 0);
    return err_set(e, ERR_JSON, r.at, "not JSON: %s", why.text);
  }
  int s = OK;
  if (!json_is_array(top) || json_array_size(top) > MOST_GRAPHS)
    s = err_set(e, ERR_JSON, r.at, "a file of Mirage's holds an array of up to %d graphs", MOST_GRAPHS);
  *out = NEWS(mem, struct graph *, json_array_size(top) + 1);
  for (size_t i = 0; i < json_array_size(top) && s == OK; i++) {
    r.graph = (int)i + 1;
    s = read_graph(&r, json_array_get(top, i), &(*out)[*n]);
    if (s == OK) ++*n;
  }
  json_decref(top);
  return s;
}
