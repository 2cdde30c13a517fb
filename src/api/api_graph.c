// include/mica.h: programs built call by call. Calls go through the parser (front/call.c), so operators, attributes and errors are those of the
// language. Mistakes that the grammar of a text rules out are checked here. After an error a graph is unchanged.
#include "api/api.h"
#include "front/front.h"
#include "ir/print.h"

#include <string.h>

static const int64_t LARGEST = EXTENT_LIMIT - 1;

// State that a call may change, saved before the call and restored if memory runs out. Arrays only grow, so their earlier elements are still valid.
struct was {
  struct mica_graph x;
  struct graph g, above;
};

static struct was was(const struct mica_graph *g) { return (struct was){*g, *g->g, g->above ? *g->above->g : *g->g}; }

static void restore(struct mica_graph *g, const struct was *w)
{
  *g = w->x, *g->g = w->g;
  if (g->above) *g->above->g = w->above;
}

// The body of every public call on a graph; `work` is its last step.
#define GRAPH_CALL(graph, work)                                \
  do {                                                         \
    int status_;                                               \
    const struct was was_ = was(graph);                        \
    CALL((graph)->m, status_, work);                           \
    if (is_left((graph)->m, status_)) restore((graph), &was_); \
    return status_;                                            \
  } while (0)
static bool is_left(const struct mica_context *m, int status) { return status == ENV && m->err.id == ERR_MEMORY; }
static struct err *err_of(const struct mica_graph *g) { return &g->m->err; }

static int check_open(const struct mica_graph *g, struct err *e)
{
  if (g->ended) {
    err_set(e, ERR_GRAPH, NOWHERE, "the %s has ended, and nothing can be added to it", level_name(g->g->level));
    return err_hint(e, "mica_block_end is the last call for a block or thread graph"), e->status;
  }
  if (g->g->ntensors < FRONT_TENSORS) return OK;
  return err_set(e, ERR_LIMIT, NOWHERE, "the graph has more than %d tensors", FRONT_TENSORS);
}

static int check_tensor(const struct mica_graph *g, int t, struct err *e)
{
  if (t >= 0 && t < g->g->ntensors) return OK;
  return err_set(e, ERR_GRAPH, NOWHERE, "there is no tensor %d: this %s graph has %d", t, level_name(g->g->level), g->g->ntensors);
}

static int check_level(const struct mica_graph *g, enum level level, const char *what, const char *hint, struct err *e)
{
  if (g->g->level == level) return OK;
  err_set(e, ERR_LEVEL, NOWHERE, "%s of a %s graph", what, level_name(g->g->level));
  return err_hint(e, "%s", hint), e->status;
}

static int check_nested(const struct mica_graph *g, const char *what, const char *hint, struct err *e)
{
  return g->g->level != KERNEL ? OK : check_level(g, BLOCK, what, hint, e);
}

static int check_name(const char *name, struct err *e)
{
  if (strnlen(name, LONGEST_NAME + 1) <= LONGEST_NAME && print_is_name(name)) return OK;
  err_set(e, ERR_NAME, NOWHERE, "`%.60s` cannot be a name", name);
  return err_hint(e, "names are letters, digits and `_`, at most %d, begin with no digit, and are no words of the language", LONGEST_NAME), e->status;
}

static int check_free(const struct mica_graph *g, int but, const char *name, struct err *e)
{
  TRY(check_name(name, e));
  for (int i = 0; i < g->g->ntensors; i++)
    if (i != but && g->g->tensors[i].name && !strcmp(g->g->tensors[i].name, name))
      return err_set(e, ERR_DUPLICATE, NOWHERE, "`%s` is already the name of tensor %d", name, i);
  return OK;
}

// ---- the graph ----

static struct mica_graph *graph_make(struct mica_context *m, struct graph *g, struct mica_graph *above)
{
  struct mica_graph *x = NEW(&m->mem, struct mica_graph);
  x->m = m, x->g = g, x->above = above;
  return x;
}

static int open_graph(struct mica_context *m, const char *name, struct mica_graph **g)
{
  if (name) TRY(check_name(name, &m->err));
  return *g = graph_make(m, graph_new(&m->mem, KERNEL, name ? name : "program"), NULL), OK;
}

int mica_graph_open(struct mica_context *m, const char *name, struct mica_graph **g)
{
  int status;
  CALL(m, status, open_graph(m, name, g));
  return status;
}

static int add_input(struct mica_graph *g, const char *name, enum mica_dtype dtype, int ndim, const int64_t *extents, int *t, struct err *e)
{
  struct shape s = {.n = ndim};
  TRY(check_open(g, e));
  TRY(check_level(g, KERNEL, "an input", "a block loads tiles of tensors around it: mica_block_input", e));
  if ((unsigned)dtype >= DTYPES)
    return err_set(e, ERR_DTYPE, NOWHERE, "there is no dtype %d", (int)dtype), err_hint(e, "dtypes are %s", num_names()), USER;
  if (ndim < 0 || ndim > MAX_DIMS) return err_set(e, ERR_LIMIT, NOWHERE, "an input of %d dimensions: a tensor has 0 to %d", ndim, MAX_DIMS);
  if (name) TRY(check_free(g, -1, name, e));
  for (int i = 0; i < ndim; i++) s.d[i] = extents[i];
  return graph_input(g->g, name, (enum dtype)dtype, &s, NOWHERE, t, e);
}

int mica_graph_input(struct mica_graph *g, const char *name, enum mica_dtype dtype, int ndim, const int64_t *shape, int *t)
{
  GRAPH_CALL(g, add_input(g, name, dtype, ndim, shape, t, err_of(g)));
}

static int declare(struct mica_graph *g, int t, int64_t least, int64_t most, int distinct, int state, struct err *e)
{
  const struct whole_range r = {least, most, distinct != 0};
  TRY(check_open(g, e));
  TRY(check_tensor(g, t, e));
  if (g->g->nodes[g->g->tensors[t].node].op != OP_INPUT) return err_set(e, ERR_GRAPH, NOWHERE, "tensor %d is no input", t);
  return graph_declare(g->g, t, num_whole(g->g->tensors[t].dtype) ? &r : NULL, state != 0, NOWHERE, e);
}

int mica_graph_declare(struct mica_graph *g, int t, int64_t least, int64_t most, int distinct, int state)
{
  GRAPH_CALL(g, declare(g, t, least, most, distinct, state, err_of(g)));
}

static int freeze(struct mica_graph *g, int t, struct err *e)
{
  TRY(check_open(g, e));
  TRY(check_tensor(g, t, e));
  if (g->g->nodes[g->g->tensors[t].node].op != OP_INPUT) return err_set(e, ERR_GRAPH, NOWHERE, "tensor %d is no input", t);
  return graph_freeze(g->g, t, NOWHERE, e);
}

int mica_graph_freeze(struct mica_graph *g, int t) { GRAPH_CALL(g, freeze(g, t, err_of(g))); }

static int set_extent(struct mica_graph *g, int t, int64_t least, int64_t most, struct err *e)
{
  TRY(check_open(g, e));
  TRY(check_tensor(g, t, e));
  if (g->g->nodes[g->g->tensors[t].node].op != OP_INPUT) return err_set(e, ERR_GRAPH, NOWHERE, "tensor %d is no input", t);
  return graph_declare_extent(g->g, t, least, most, NOWHERE, e);
}

int mica_graph_extent(struct mica_graph *g, int t, int64_t least, int64_t most) { GRAPH_CALL(g, set_extent(g, t, least, most, err_of(g))); }

static int extend(struct mica_graph *g, int t, int dim, int extent, struct err *e)
{
  int64_t runs[MAX_DIMS];
  TRY(check_open(g, e));
  TRY(check_tensor(g, t, e));
  TRY(check_tensor(g, extent, e));
  const struct tensor *x = &g->g->tensors[t];
  if (g->g->nodes[x->node].op != OP_INPUT || !g->g->tensors[extent].extent)
    return err_set(e, ERR_GRAPH, NOWHERE, "tensor %d is no input, or tensor %d holds no run-time extent", t, extent);
  if (dim < 0 || dim >= x->shape.n) return err_set(e, ERR_EXTENT, NOWHERE, "dimension %d of a tensor of %d", dim, x->shape.n);
  for (int d = 0; d < x->shape.n; d++) runs[d] = d == dim ? g->g->tensors[extent].extent : x->runs[d];
  return graph_declare_runs(g->g, t, x->shape.n, runs, NOWHERE, e);
}

int mica_graph_extend(struct mica_graph *g, int t, int dim, int extent) { GRAPH_CALL(g, extend(g, t, dim, extent, err_of(g))); }

static int set_world(struct mica_graph *g, int ranks, struct err *e)
{
  TRY(check_open(g, e));
  TRY(check_level(g, KERNEL, "a world", "the program is the graph that mica_graph_open made", e));
  if (!g->g->nnodes) return graph_world(g->g, ranks, NOWHERE, e);
  err_set(e, ERR_WORLD, NOWHERE, "a world of a graph that has an input or an operator already");
  return err_hint(e, "the number of devices comes first, because the shapes of parts depend on it"), e->status;
}

int mica_graph_world(struct mica_graph *g, int ranks) { GRAPH_CALL(g, set_world(g, ranks, err_of(g))); }

static int set_shard(struct mica_graph *g, int t, int dim, struct err *e)
{
  TRY(check_open(g, e));
  TRY(check_tensor(g, t, e));
  if (g->g->nodes[g->g->tensors[t].node].op != OP_INPUT) return err_set(e, ERR_GRAPH, NOWHERE, "tensor %d is no input", t);
  bool used = g->g->tensors[t].shard;
  for (int i = 0; i < g->g->nnodes; i++)
    for (int k = 0; k < g->g->nodes[i].nin; k++) used |= g->g->nodes[i].in[k] == t;
  if (used) return err_set(e, ERR_WORLD, NOWHERE, "tensor %d is divided or used already", t);
  return graph_shard(g->g, t, dim, NOWHERE, e);
}

int mica_graph_shard(struct mica_graph *g, int t, int dim) { GRAPH_CALL(g, set_shard(g, t, dim, err_of(g))); }

static int add_call(struct mica_graph *g, const struct front_call *x, int *t, int *count, struct err *e)
{
  const int nodes = g->g->nnodes, tensors = g->g->ntensors;
  int first, n;
  TRY(check_open(g, e));
  TRY(front_call(&g->m->mem, g->g, x, &first, &n, e));
  if (!count && n != 1) {
    g->g->nnodes = nodes, g->g->ntensors = tensors;
    return err_set(e, ERR_ARITY, NOWHERE, "%.40s has %d results, and there is no place for their number", x->op, n);
  }
  *t = first;
  if (count) *count = n;
  return OK;
}

int mica_graph_op(struct mica_graph *g, const char *op, int nargs, const int *args, const char *attributes, int *t, int *count)
{
  GRAPH_CALL(g, add_call(g, &(struct front_call){op, attributes, nargs, args}, t, count, err_of(g)));
}

int mica_graph_tensor(const struct mica_graph *g, int t, struct mica_tensor *info)
{
  struct err *e = err_of(g);
  *e = (struct err){0};
  int status = check_tensor(g, t, e);
  if (status == OK) *info = tensor_tell(&g->g->tensors[t]);
  return context_finish(g->m, status);
}

static int give_name(struct mica_graph *g, int t, const char *name, struct err *e)
{
  TRY(check_tensor(g, t, e));
  TRY(check_free(g, t, name, e));
  return graph_name(g->g, t, name, NOWHERE, e);
}

int mica_graph_name(struct mica_graph *g, int t, const char *name) { GRAPH_CALL(g, give_name(g, t, name, err_of(g))); }

static int add_output(struct mica_graph *g, int t, struct err *e)
{
  int none;
  TRY(check_open(g, e));
  TRY(check_level(g, KERNEL, "an output", "a block saves tiles: mica_block_output", e));
  TRY(check_tensor(g, t, e));
  return graph_add(g->g, OP_OUTPUT, 1, &t, NULL, NOWHERE, &none, e);
}

int mica_graph_output(struct mica_graph *g, int t) { GRAPH_CALL(g, add_output(g, t, err_of(g))); }

static int make_program(struct mica_graph *g, struct mica_program **p, struct err *e)
{
  TRY(check_level(g, KERNEL, "a program", "the program is the graph that mica_graph_open made", e));
  struct graph *whole = graph_copy(&g->m->mem, g->g);
  TRY(state_outputs(whole, e));
  TRY(graph_check(whole, e));
  *p = NEW(&g->m->mem, struct mica_program);
  return (*p)->g = whole, OK;
}

int mica_graph_program(struct mica_graph *g, struct mica_program **p) { GRAPH_CALL(g, make_program(g, p, err_of(g))); }

// ---- blocks and threads ----

static int check_axes(int n, int most, const char *what, const int64_t *extents, struct err *e)
{
  int64_t all = 1;
  if (n < 0 || n > most) return err_set(e, ERR_LIMIT, NOWHERE, "%d %s axes: a block or thread graph has 0 to %d", n, what, most);
  for (int i = 0; i < n; i++) {
    if (extents[i] < 1 || extents[i] > LARGEST)
      return err_set(e, ERR_EXTENT, NOWHERE, "the extent of %s axis %d is %lld: it must be from 1 to 2^40 - 1", what, i, (long long)extents[i]);
    if (__builtin_mul_overflow(all, extents[i], &all) || all > LARGEST) return err_set(e, ERR_LIMIT, NOWHERE, "more than 2^40 blocks or iterations");
  }
  return OK;
}

struct nesting {
  int ngrid;
  const int64_t *grid;
  int nloop;
  const int64_t *loop;
};

static int nest(struct mica_graph *g, const struct nesting *a, struct mica_graph **nested, struct err *e)
{
  TRY(check_open(g, e));
  TRY(check_axes(a->ngrid, MAX_GRID, "grid", a->grid, e));
  TRY(check_axes(a->nloop, MAX_LOOPS, "loop", a->loop, e));
  struct graph *sub = graph_new(&g->m->mem, (enum level)(g->g->level + 1), NULL);
  graph_axes(sub, a->ngrid, a->grid, a->nloop, a->loop);
  return *nested = graph_make(g->m, sub, g), OK;
}

static int make_block(struct mica_graph *g, const struct nesting *a, struct mica_graph **block, struct err *e)
{
  TRY(check_level(g, KERNEL, "a block", "blocks stand in the graph that mica_graph_open made", e));
  return nest(g, a, block, e);
}

static int make_thread(struct mica_graph *g, const struct nesting *a, struct mica_graph **thread, struct err *e)
{
  TRY(check_level(g, BLOCK, "a thread graph", "thread graphs stand in blocks: mica_graph_block", e));
  return nest(g, a, thread, e);
}

int mica_graph_block(struct mica_graph *g, int ngrid, const int64_t *grid, int nloop, const int64_t *loop, struct mica_graph **block)
{
  GRAPH_CALL(g, make_block(g, &(struct nesting){ngrid, grid, nloop, loop}, block, err_of(g)));
}

int mica_graph_thread(struct mica_graph *block, int ngrid, const int64_t *grid, int nloop, const int64_t *loop, struct mica_graph **thread)
{
  GRAPH_CALL(block, make_thread(block, &(struct nesting){ngrid, grid, nloop, loop}, thread, err_of(block)));
}

static int take_map(const char *what, int n, const int *map, int8_t *out, struct err *e)
{
  for (int i = 0; i < n; i++) {
    const int dim = map ? map[i] : REPLICA;
    if (dim < REPLICA || dim >= MAX_DIMS)
      return err_set(e, ERR_ATTRIBUTE, NOWHERE, "%s[%d] is %d: a dimension is from 0 to %d, or MICA_REPLICA", what, i, dim, MAX_DIMS - 1);
    out[i] = (int8_t)dim;
  }
  return OK;
}

static int load(struct mica_graph *b, int t, const int *imap, const int *fmap, int *bt, struct err *e)
{
  struct attrs a = attrs_default(OP_ITER);
  TRY(check_open(b, e));
  TRY(check_nested(b, "a tile", "tiles are loaded by blocks: mica_graph_block", e));
  TRY(check_tensor(b->above, t, e));
  TRY(take_map("imap", b->g->ngrid, imap, a.imap, e));
  TRY(take_map("fmap", b->g->nloop, fmap, a.fmap, e));
  TRY(graph_iter(b->g, b->above->g, t, &a, NOWHERE, bt, e));
  return PUSH(&b->m->mem, b->from, b->nfrom, b->from_cap) = t, OK;
}

int mica_block_input(struct mica_graph *block, int t, const int *imap, const int *fmap, int *bt)
{
  GRAPH_CALL(block, load(block, t, imap, fmap, bt, err_of(block)));
}

static int save(struct mica_graph *b, int bt, const int *omap, struct err *e)
{
  struct attrs a = attrs_default(OP_SAVE);
  int none;
  TRY(check_open(b, e));
  TRY(check_nested(b, "a saved tile", "outputs of a program: mica_graph_output", e));
  TRY(check_tensor(b, bt, e));
  TRY(take_map("omap", b->g->ngrid, omap, a.omap, e));
  return graph_add(b->g, OP_SAVE, 1, &bt, &a, NOWHERE, &none, e);
}

int mica_block_output(struct mica_graph *block, int bt, const int *omap) { GRAPH_CALL(block, save(block, bt, omap, err_of(block))); }

static int end(struct mica_graph *b, int *t, int *count, struct err *e)
{
  TRY(check_open(b, e));
  TRY(check_nested(b, "the end", "mica_block_end ends what mica_graph_block and mica_graph_thread made", e));
  const int saves = graph_outputs(b->g, NULL);
  if (!b->nfrom || !saves) {
    err_set(e, ERR_GRAPH, NOWHERE, "this %s %s nothing", level_name(b->g->level), saves ? "loads" : "saves");
    return err_hint(e, "it needs at least one mica_block_input and one mica_block_output"), e->status;
  }
  if (!count && saves != 1)
    return err_set(e, ERR_ARITY, NOWHERE, "the %s has %d results, and there is no place for their number", level_name(b->g->level), saves);
  TRY(check_open(b->above, e));
  TRY(graph_nest(b->above->g, b->g, b->nfrom, b->from, NOWHERE, t, e));
  if (count) *count = saves;
  return b->ended = true, OK;
}

int mica_block_end(struct mica_graph *block, int *t, int *count) { GRAPH_CALL(block, end(block, t, count, err_of(block))); }
