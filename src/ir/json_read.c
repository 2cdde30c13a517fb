// JSON -> graph. The text is not trusted: fields are checked by name and type, and unknown ones are errors. Nodes are built
// with graph_add, which infers their shapes, and the result is checked by graph_check. Messages give a path such as
// "nodes[2].graph.nodes[5] (matmul)", because jansson keeps line numbers for syntax errors only.
#include "ir/json.h"
#include "base/doc.h"

#include <math.h>
#include <string.h>

enum { MAX_NODES = 1 << 14, MAX_ARGS = 64, MAX_NAME = 255 };
static const int64_t AXES_LIMIT = (int64_t)1 << 22; // limit of the product of grid (loop) extents

struct json_read_reader {
  struct arena *mem;
  struct loc at;
  struct err *e;
  char where[128]; // path of the node being read
};

// A graph under construction, and the enclosing one.
struct json_read_place {
  struct graph *g;
  const struct graph *above;
  json_t *nodes;
  int *from, nfrom, from_cap; // tensors of `above` that the iterators so far read
};

static int bad(struct json_read_reader *r, enum errid id, const char *fmt, ...) PRINTF(3, 4);
static int bad(struct json_read_reader *r, enum errid id, const char *fmt, ...)
{
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return err_set(r->e, id, r->at, "%s: %s", r->where, text);
}

// Returns the status of graph_add; puts the path in front of an error's message.
static int located(struct json_read_reader *r, int status)
{
  char text[sizeof r->e->text];
  if (!status) return OK;
  snprintf(text, sizeof text, "%s: %.600s", r->where, r->e->text);
  memcpy(r->e->text, text, sizeof text);
  return status;
}

static const char *kind_name(const json_t *v)
{
  static const char *const names[] = {"an object", "an array", "a string", "an integer", "a real", "true", "false", "null"};
  return v ? names[json_typeof(v)] : "nothing";
}

static int want_string(struct json_read_reader *r, const char *key, json_t *v, const char **out)
{
  if (!json_is_string(v)) return bad(r, ERR_JSON, "`%s` should be a string, not %s", key, kind_name(v));
  *out = json_string_value(v);
  size_t n = json_string_length(v);
  if (!n || n > MAX_NAME) return bad(r, ERR_JSON, "`%s` should have 1 to %d characters", key, MAX_NAME);
  for (size_t i = 0; i < n; i++)
    if ((unsigned char)(*out)[i] < 0x20) return bad(r, ERR_JSON, "`%s` has a control character", key);
  return OK;
}

static int want_int(struct json_read_reader *r, const char *key, json_t *v, int64_t least, int64_t most, int64_t *out)
{
  if (!json_is_integer(v)) return bad(r, ERR_JSON, "`%s` should be an integer, not %s", key, kind_name(v));
  *out = json_integer_value(v);
  if (*out >= least && *out <= most) return OK;
  return bad(r, ERR_JSON, "`%s` is %lld, outside [%lld, %lld]", key, (long long)*out, (long long)least, (long long)most);
}

static int want_real(struct json_read_reader *r, const char *key, json_t *v, double *out)
{
  const char *s = json_is_string(v) ? json_string_value(v) : "";
  if (json_is_number(v)) return *out = json_number_value(v), OK;
  if (!strcmp(s, "inf") || !strcmp(s, "-inf")) return *out = *s == '-' ? -INFINITY : INFINITY, OK;
  return bad(r, ERR_JSON, "`%s` should be a number, \"inf\" or \"-inf\", not %s", key, kind_name(v));
}

static int want_list(struct json_read_reader *r, const char *key, json_t *v, int64_t least, struct shape *out)
{
  if (!json_is_array(v)) return bad(r, ERR_JSON, "`%s` should be an array of integers, not %s", key, kind_name(v));
  if (json_array_size(v) > MAX_DIMS) return bad(r, ERR_JSON, "`%s` has more than %d entries", key, MAX_DIMS);
  out->n = (int)json_array_size(v);
  int s = OK;
  for (int i = 0; i < out->n && !s; i++) s = want_int(r, key, json_array_get(v, (size_t)i), least, EXTENT_LIMIT - 1, &out->d[i]);
  return s;
}

static int want_map(struct json_read_reader *r, const char *key, json_t *v, const char *axes, int n, int8_t *out)
{
  if (!json_is_object(v)) return bad(r, ERR_JSON, "`%s` should be an object of axes and dimensions, not %s", key, kind_name(v));
  const char *axis;
  json_t *dim;
  json_object_foreach(v, axis, dim)
  {
    const char *p = *axis && !axis[1] ? strchr(axes, *axis) : NULL;
    int64_t d = REPLICA;
    if (!p || p - axes >= n) return bad(r, ERR_JSON, "`%s` names the axis `%s`, which this graph has not", key, axis);
    if (!json_is_null(dim) && want_int(r, key, dim, 0, MAX_DIMS - 1, &d)) return USER;
    out[p - axes] = (int8_t)d;
  }
  return OK;
}

static int want_axes(struct json_read_reader *r, const char *key, json_t *v, const char *axes, int64_t *out, int *n)
{
  *n = 0;
  if (!v) return OK;
  if (!json_is_object(v)) return bad(r, ERR_JSON, "`%s` should be an object of axes and extents, not %s", key, kind_name(v));
  int64_t all = 1;
  for (int count = (int)json_object_size(v); *n < count; ++*n) {
    const char axis[2] = {*n < (int)strlen(axes) ? axes[*n] : 0};
    json_t *extent = *axis ? json_object_get(v, axis) : NULL;
    if (!extent) return bad(r, ERR_JSON, "`%s` has %d axes: they should be the first of %s", key, count, axes);
    if (want_int(r, key, extent, 1, AXES_LIMIT, &out[*n])) return USER;
    if ((all *= out[*n]) > AXES_LIMIT) return bad(r, ERR_JSON, "the extents of `%s` multiply to more than 2^22", key);
  }
  return OK;
}

// ---- attributes ----

static int attribute(struct json_read_reader *r, const struct graph *g, int i, json_t *v, struct attrs *a)
{
  const struct attr_row *row = &attr_rows[i];
  char *p = (char *)a + row->offset;
  int64_t d = 0;
  int s = OK;
  switch (row->kind) {
  case ATTR_DIM_KIND:
    if (!(s = want_int(r, row->name, v, -MAX_DIMS, MAX_DIMS - 1, &d))) *(int *)p = (int)d;
    return s;
  case ATTR_INT_KIND: return want_int(r, row->name, v, 0, EXTENT_LIMIT - 1, (int64_t *)p);
  case ATTR_REAL_KIND: return want_real(r, row->name, v, (double *)p);
  case ATTR_LIST_KIND: return want_list(r, row->name, v, -1, (struct shape *)p);
  case ATTR_GRID_KIND: return want_map(r, row->name, v, GRID_AXES, g->ngrid, (int8_t *)p);
  case ATTR_LOOP_KIND: return want_map(r, row->name, v, LOOP_AXES, g->nloop, (int8_t *)p);
  }
  return s;
}

static bool common_key(enum op op, const char *key)
{
  static const char *const keys[] = {"op", "in", "out"};
  for (size_t i = 0; i < COUNT(keys); i++)
    if (!strcmp(key, keys[i])) return true;
  static const char *const of_input[] = {"dtype", "shape", "range", "distinct", "shard", "state", "frozen", "extent"};
  for (size_t i = 0; i < COUNT(of_input) && op == OP_INPUT; i++)
    if (!strcmp(key, of_input[i])) return true;
  if (extent_told(op) && !strcmp(key, "runs")) return true;
  return op_rows[op].rule == RULE_GRAPH && !strcmp(key, "graph");
}

static int attributes(struct json_read_reader *r, const struct graph *g, enum op op, json_t *node, struct attrs *a)
{
  unsigned seen = 0, takes = op_rows[op].attrs;
  const char *key;
  json_t *v;
  *a = attrs_default(op);
  json_object_foreach(node, key, v)
  {
    if (common_key(op, key)) continue;
    int i = 0;
    while (i < ATTRS && strcmp(key, attr_rows[i].name)) i++;
    if (i == ATTRS || !(takes >> i & 1)) return bad(r, ERR_ATTRIBUTE, "%s has no attribute `%s`", op_rows[op].name, key);
    seen |= 1u << i;
    if (attribute(r, g, i, v, a)) return USER;
  }
  for (int i = 0; i < ATTRS; i++)
    if ((takes >> i & 1) && attr_rows[i].needed && !(seen >> i & 1))
      return bad(r, ERR_ATTRIBUTE, "%s needs the attribute `%s` (%s)", op_rows[op].name, attr_rows[i].name, attr_rows[i].doc);
  return OK;
}

// ---- tensors ----

// Is `name` an output of a later node? Used for the text of an error.
static bool made_later(const json_t *nodes, const char *name)
{
  for (size_t i = 0; i < json_array_size(nodes); i++) {
    const json_t *outs = json_object_get(json_array_get(nodes, i), "out");
    for (size_t k = 0; k < json_array_size(outs); k++) {
      const json_t *o = json_array_get(outs, k);
      if (json_is_string(o) && !strcmp(json_string_value(o), name)) return true;
    }
  }
  return false;
}

static int argument(struct json_read_reader *r, const struct graph *g, const json_t *nodes, json_t *v, int *t)
{
  if (json_is_integer(v)) {
    json_int_t i = json_integer_value(v);
    if (i >= 0 && i < g->ntensors) return *t = (int)i, OK;
    return bad(r, ERR_GRAPH, "tensor %lld is used before it is made: the graph is cyclic or out of order, or has no such tensor", (long long)i);
  }
  const char *name = NULL;
  if (want_string(r, "in", v, &name)) return USER;
  for (*t = 0; *t < g->ntensors; ++*t)
    if (g->tensors[*t].name && !strcmp(g->tensors[*t].name, name)) return OK;
  if (made_later(nodes, name)) return bad(r, ERR_GRAPH, "tensor `%s` is used before it is made: the graph is cyclic or out of order", name);
  return bad(r, ERR_NAME, "there is no tensor `%s` in the %s graph", name, level_name(g->level));
}

static int arguments(struct json_read_reader *r, const struct graph *g, const json_t *nodes, json_t *in, int *t, int *n)
{
  *n = (int)json_array_size(in);
  if (in && !json_is_array(in)) return bad(r, ERR_JSON, "`in` should be an array of tensors, not %s", kind_name(in));
  if (json_array_size(in) > MAX_ARGS) return bad(r, ERR_LIMIT, "more than %d arguments", MAX_ARGS);
  int s = OK;
  for (int i = 0; i < *n && !s; i++) s = argument(r, g, nodes, json_array_get(in, (size_t)i), &t[i]);
  return s;
}

static int results(struct json_read_reader *r, struct graph *g, int first, json_t *out)
{
  int n = g->ntensors - first;
  if (!out) return OK;
  if (!json_is_array(out)) return bad(r, ERR_JSON, "`out` should be an array of names, not %s", kind_name(out));
  if ((int)json_array_size(out) != n) return bad(r, ERR_ARITY, "`out` has %d entries, but there are %d results", (int)json_array_size(out), n);
  for (int i = 0; i < n; i++) {
    json_t *v = json_array_get(out, (size_t)i);
    const char *name = NULL;
    if (json_is_null(v) || (json_is_integer(v) && json_integer_value(v) == first + i)) continue;
    if (json_is_integer(v))
      return bad(r, ERR_GRAPH, "tensor %lld would be made where tensor %d is next: the graph is cyclic or out of order",
                 (long long)json_integer_value(v), first + i);
    if (want_string(r, "out", v, &name)) return USER;
    if (located(r, graph_name(g, first + i, name, r->at, r->e))) return USER;
  }
  return OK;
}

// ---- nodes ----

static int read_nodes(struct json_read_reader *r, struct json_read_place *p);

static int want_bool(struct json_read_reader *r, const char *key, json_t *v, bool *out)
{
  return *out = json_is_true(v), !v || json_is_boolean(v) ? OK : bad(r, ERR_JSON, "`%s` should be true or false, not %s", key, kind_name(v));
}

// Reads the range of an input, its shard, and whether it is a state or frozen.
static int read_declared(struct json_read_reader *r, struct graph *g, int t, json_t *node)
{
  struct whole_range range = g->tensors[t].range;
  json_t *v = json_object_get(node, "range");
  bool state, frozen;
  if (v && json_array_size(v) != 2) return bad(r, ERR_JSON, "`range` should be an array of two integers, the least and the largest number");
  if (v && want_int(r, "range", json_array_get(v, 0), -EXTENT_LIMIT, EXTENT_LIMIT, &range.least)) return USER;
  if (v && want_int(r, "range", json_array_get(v, 1), -EXTENT_LIMIT, EXTENT_LIMIT, &range.most)) return USER;
  if (want_bool(r, "distinct", json_object_get(node, "distinct"), &range.distinct)) return USER;
  if (want_bool(r, "state", json_object_get(node, "state"), &state)) return USER;
  TRY(located(r, graph_declare(g, t, v || range.distinct ? &range : NULL, state, r->at, r->e)));
  if (want_bool(r, "frozen", json_object_get(node, "frozen"), &frozen)) return USER;
  if (frozen) TRY(located(r, graph_freeze(g, t, r->at, r->e)));
  int64_t dim, number;
  if ((v = json_object_get(node, "extent"))) {
    if (want_int(r, "extent", v, graph_extents(g) + 1, graph_extents(g) + 1, &number)) return USER;
    return located(r, graph_declare_extent(g, t, range.least, range.most, r->at, r->e));
  }
  if (!(v = json_object_get(node, "shard"))) return OK;
  if (want_int(r, "shard", v, 0, MAX_DIMS - 1, &dim)) return USER;
  return located(r, graph_shard(g, t, dim, r->at, r->e));
}

static int read_input(struct json_read_reader *r, struct json_read_place *p, json_t *node)
{
  const char *text;
  enum dtype t;
  struct shape shape = {0};
  if (want_string(r, "dtype", json_object_get(node, "dtype"), &text)) return USER;
  if (!dtype_parse(text, &t)) return bad(r, ERR_DTYPE, "`%s` is no dtype", text), err_hint(r->e, "dtypes are %s", num_names()), USER;
  if (want_list(r, "shape", json_object_get(node, "shape"), 1, &shape)) return USER;
  int out;
  TRY(located(r, graph_input(p->g, NULL, t, &shape, r->at, &out, r->e)));
  return read_declared(r, p->g, out, node);
}

static int read_iter(struct json_read_reader *r, struct json_read_place *p, json_t *node, const struct attrs *a)
{
  int t[MAX_ARGS], n, s = arguments(r, p->above, NULL, json_object_get(node, "in"), t, &n);
  if (s) return s;
  if (n != 1) return bad(r, ERR_ARITY, "iter takes 1 tensor of the graph above, not %d", n);
  PUSH(r->mem, p->from, p->nfrom, p->from_cap) = t[0];
  return located(r, graph_iter(p->g, p->above, t[0], a, r->at, &(int){0}, r->e));
}

// Reads the run-time extents, by dimension, of the tensor that was added last.
static int read_runs(struct json_read_reader *r, struct graph *g, json_t *v)
{
  struct shape runs = {0};
  if (!v) return OK;
  if (want_list(r, "runs", v, 0, &runs)) return USER;
  return located(r, graph_declare_runs(g, g->ntensors - 1, runs.n, runs.d, r->at, r->e));
}

static int known_keys(struct json_read_reader *r, json_t *object, const char *const *keys, size_t n)
{
  const char *key;
  json_t *v;
  json_object_foreach(object, key, v)
  {
    size_t i = 0;
    while (i < n && strcmp(key, keys[i])) i++;
    if (i == n) return bad(r, ERR_JSON, "unknown field `%s`", key);
  }
  return OK;
}

static int read_name(struct json_read_reader *r, json_t *object, const char **name)
{
  json_t *v = json_object_get(object, "name");
  *name = NULL;
  return v ? want_string(r, "name", v, name) : OK;
}

static int read_graph(struct json_read_reader *r, struct json_read_place *p, json_t *node)
{
  static const char *const keys[] = {"name", "level", "grid", "loop", "nodes"};
  json_t *o = json_object_get(node, "graph");
  const char *name, *level;
  int64_t grid[MAX_GRID], loop[MAX_LOOPS];
  int ngrid, nloop;
  if (!json_is_object(o)) return bad(r, ERR_JSON, "`graph` should be an object, not %s", kind_name(o));
  if (known_keys(r, o, keys, COUNT(keys)) || read_name(r, o, &name)) return USER;
  if (want_string(r, "level", json_object_get(o, "level"), &level)) return USER;
  if (strcmp(level, level_name(p->g->level + 1)))
    return bad(r, ERR_LEVEL, "`level` is \"%s\" where \"%s\" belongs", level, level_name(p->g->level + 1));
  if (want_axes(r, "grid", json_object_get(o, "grid"), GRID_AXES, grid, &ngrid)) return USER;
  if (want_axes(r, "loop", json_object_get(o, "loop"), LOOP_AXES, loop, &nloop)) return USER;
  struct json_read_place sub = {.g = graph_new(r->mem, p->g->level + 1, name), .above = p->g, .nodes = json_object_get(o, "nodes")};
  graph_axes(sub.g, ngrid, grid, nloop, loop);
  char where[sizeof r->where];
  memcpy(where, r->where, sizeof where);
  size_t n = strcspn(r->where, " ");
  snprintf(r->where + n, sizeof r->where - n, ".graph");
  if (read_nodes(r, &sub)) return USER;
  memcpy(r->where, where, sizeof where);
  int t[MAX_ARGS], given;
  json_t *in = json_object_get(node, "in");
  if (arguments(r, p->g, p->nodes, in, t, &given)) return USER;
  if (in && (given != sub.nfrom || (given && memcmp(t, sub.from, sizeof *t * (size_t)given))))
    return bad(r, ERR_GRAPH, "`in` should list the tensors of the iterators, in order");
  return located(r, graph_nest(p->g, sub.g, sub.nfrom, sub.from, r->at, &(int){0}, r->e));
}

static int read_node(struct json_read_reader *r, struct json_read_place *p, json_t *node)
{
  const char *name;
  enum op op;
  struct attrs a;
  if (!json_is_object(node)) return bad(r, ERR_JSON, "a node should be an object, not %s", kind_name(node));
  if (want_string(r, "op", json_object_get(node, "op"), &name)) return USER;
  if (!op_find(name, &op)) return bad(r, ERR_FUNCTION, "`%s` is no operator", name);
  size_t n = strlen(r->where);
  snprintf(r->where + n, sizeof r->where - n, " (%s)", name);
  if (!(op_rows[op].levels >> p->g->level & 1)) return bad(r, ERR_LEVEL, "%s is not an operator of %s graphs", name, level_name(p->g->level));
  if (attributes(r, p->g, op, node, &a)) return USER;
  if (op == OP_INPUT) return read_input(r, p, node);
  if (op == OP_ITER) return read_iter(r, p, node, &a);
  if (op_rows[op].rule == RULE_GRAPH) return read_graph(r, p, node);
  int t[MAX_ARGS], nin, s = arguments(r, p->g, p->nodes, json_object_get(node, "in"), t, &nin);
  return s ? s : located(r, graph_add(p->g, op, nin, t, &a, r->at, &(int){0}, r->e));
}

static int read_nodes(struct json_read_reader *r, struct json_read_place *p)
{
  if (!json_is_array(p->nodes)) return bad(r, ERR_JSON, "`nodes` should be an array, not %s", kind_name(p->nodes));
  if (json_array_size(p->nodes) > MAX_NODES) return bad(r, ERR_LIMIT, "more than %d nodes", MAX_NODES);
  size_t base = strlen(r->where);
  for (size_t i = 0; i < json_array_size(p->nodes); i++) {
    int first = p->g->ntensors;
    json_t *node = json_array_get(p->nodes, i);
    snprintf(r->where + base, sizeof r->where - base, "%snodes[%zu]", base ? "." : "", i);
    if (read_node(r, p, node) || read_runs(r, p->g, json_object_get(node, "runs")) || results(r, p->g, first, json_object_get(node, "out")))
      return USER;
  }
  r->where[base] = 0;
  return OK;
}

static int read_top(struct json_read_reader *r, json_t *top, struct graph **out)
{
  static const char *const keys[] = {"mica", "version", "name", "level", "world", "nodes"};
  const char *name, *level, *mark;
  int64_t version = 0, ranks = 1;
  snprintf(r->where, sizeof r->where, "top");
  if (!json_is_object(top)) return bad(r, ERR_JSON, "should be an object, not %s", kind_name(top));
  json_t *m = json_object_get(top, "mica");
  if (!m || want_string(r, "mica", m, &mark) || strcmp(mark, "mugraph")) return bad(r, ERR_JSON, "not a muGraph: `\"mica\": \"mugraph\"` is missing");
  if (want_int(r, "version", json_object_get(top, "version"), 1, EXTENT_LIMIT, &version)) return USER;
  if (version != JSON_VERSION) return bad(r, ERR_JSON, "version %lld, but this Mica reads version %d", (long long)version, JSON_VERSION);
  if (known_keys(r, top, keys, COUNT(keys)) || read_name(r, top, &name)) return USER;
  if (want_string(r, "level", json_object_get(top, "level"), &level)) return USER;
  if (strcmp(level, level_name(KERNEL))) return bad(r, ERR_LEVEL, "a file holds a kernel graph, not a %s graph", level);
  struct json_read_place p = {.g = graph_new(r->mem, KERNEL, name), .nodes = json_object_get(top, "nodes")};
  json_t *world = json_object_get(top, "world");
  if (world && want_int(r, "world", world, 1, EXTENT_LIMIT, &ranks)) return USER;
  TRY(located(r, graph_world(p.g, ranks, r->at, r->e)));
  r->where[0] = 0;
  if (read_nodes(r, &p)) return USER;
  *out = p.g;
  return graph_check(p.g, r->e);
}

int graph_from_json(struct arena *mem, const char *text, size_t n, const char *file, struct graph **out, struct err *e)
{
  struct loc at = {.file = file ? arena_strdup(mem, file) : NULL};
  json_error_t why;
  json_t *top = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
  if (!top) {
    at.line = MAX(why.line, 0), at.col = MAX(why.column, 0);
    return err_set(e, ERR_JSON, at, "not JSON: %s", why.text);
  }
  struct json_read_reader r = {.mem = mem, .at = at, .e = e};
  int s = read_top(&r, top, out);
  json_decref(top);
  if (s && !e->at.file) e->at.file = at.file;
  return s;
}
