// include/mica.h: programs built. Calls go the way of the language (front/call.c), so that operators, attributes and errors are the
// same; what a text cannot have wrong, because its grammar forbids it, is checked here. After an error a graph is as before.
#include "core/context.h"
#include "front/front.h"
#include "ir/print.h"

#include <string.h>

static const int64_t LARGEST = ((int64_t)1 << 40) - 1;

// Every call begins with this and ends in finish.
static struct err *begin(const struct mica_graph *g) { return g->m->err = (struct err){0}, &g->m->err; }
static int finish(const struct mica_graph *g, int status) { return context_finish(g->m, status); }

static int check_open(const struct mica_graph *g, struct err *e)
{
  if (g->ended) {
    err_set(e, ERR_GRAPH, NOWHERE, "the block has ended, and nothing can be added to it");
    return err_hint(e, "mica_block_end is the last call for a block"), e->status;
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

int mica_graph_open(struct mica_context *m, const char *name, struct mica_graph **g)
{
  m->err = (struct err){0};
  if (name && check_name(name, &m->err) != OK) return context_finish(m, m->err.status);
  *g = graph_make(m, graph_new(&m->mem, KERNEL, name ? name : "program"), NULL);
  return context_finish(m, OK);
}

static int add_input(struct mica_graph *g, const char *name, enum mica_dtype dtype, int ndim, const int64_t *extents, int *t, struct err *e)
{
  struct shape s = {.n = ndim};
  TRY(check_open(g, e));
  TRY(check_level(g, KERNEL, "an input", "a block loads tiles of tensors around it: mica_block_input", e));
  if ((unsigned)dtype >= DTYPES) return err_set(e, ERR_DTYPE, NOWHERE, "there is no dtype %d", (int)dtype);
  if (ndim < 0 || ndim > MAX_DIMS) return err_set(e, ERR_LIMIT, NOWHERE, "an input of %d dimensions: a tensor has 0 to %d", ndim, MAX_DIMS);
  if (name) TRY(check_free(g, -1, name, e));
  for (int i = 0; i < ndim; i++) s.d[i] = extents[i];
  return graph_input(g->g, name, (enum dtype)dtype, &s, NOWHERE, t, e);
}

int mica_graph_input(struct mica_graph *g, const char *name, enum mica_dtype dtype, int ndim, const int64_t *shape, int *t)
{
  struct err *e = begin(g);
  return finish(g, add_input(g, name, dtype, ndim, shape, t, e));
}

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
  struct err *e = begin(g);
  return finish(g, add_call(g, &(struct front_call){op, attributes, nargs, args}, t, count, e));
}

int mica_graph_tensor(const struct mica_graph *g, int t, struct mica_tensor *info)
{
  int status = check_tensor(g, t, begin(g));
  if (status == OK) *info = tensor_tell(&g->g->tensors[t]);
  return finish(g, status);
}

int mica_graph_name(struct mica_graph *g, int t, const char *name)
{
  struct err *e = begin(g);
  int status = check_tensor(g, t, e);
  if (status == OK) status = check_free(g, t, name, e);
  if (status == OK) status = graph_name(g->g, t, name, NOWHERE, e);
  return finish(g, status);
}

static int add_output(struct mica_graph *g, int t, struct err *e)
{
  int none;
  TRY(check_open(g, e));
  TRY(check_level(g, KERNEL, "an output", "a block saves tiles: mica_block_output", e));
  TRY(check_tensor(g, t, e));
  return graph_add(g->g, OP_OUTPUT, 1, &t, NULL, NOWHERE, &none, e);
}

int mica_graph_output(struct mica_graph *g, int t)
{
  struct err *e = begin(g);
  return finish(g, add_output(g, t, e));
}

static int make_program(struct mica_graph *g, struct mica_program **p, struct err *e)
{
  TRY(check_level(g, KERNEL, "a program", "the program is the graph that mica_graph_open made", e));
  TRY(graph_check(g->g, e));
  *p = NEW(&g->m->mem, struct mica_program);
  (*p)->g = graph_copy(&g->m->mem, g->g);
  return OK;
}

int mica_graph_program(struct mica_graph *g, struct mica_program **p)
{
  struct err *e = begin(g);
  return finish(g, make_program(g, p, e));
}

// ---- blocks ----

static int check_axes(int n, int most, const char *what, const int64_t *extents, struct err *e)
{
  int64_t all = 1;
  if (n < 0 || n > most) return err_set(e, ERR_LIMIT, NOWHERE, "%d %s axes: a block graph has 0 to %d", n, what, most);
  for (int i = 0; i < n; i++) {
    if (extents[i] < 1 || extents[i] > LARGEST)
      return err_set(e, ERR_EXTENT, NOWHERE, "the extent of %s axis %d is %lld: it must be from 1 to 2^40 - 1", what, i, (long long)extents[i]);
    if (__builtin_mul_overflow(all, extents[i], &all) || all > LARGEST) return err_set(e, ERR_LIMIT, NOWHERE, "more than 2^40 blocks or iterations");
  }
  return OK;
}

static int make_block(struct mica_graph *g, int ngrid, const int64_t *grid, int nloop, const int64_t *loop, struct mica_graph **block, struct err *e)
{
  TRY(check_level(g, KERNEL, "a block", "blocks stand in the graph that mica_graph_open made", e));
  TRY(check_axes(ngrid, MAX_GRID, "grid", grid, e));
  TRY(check_axes(nloop, MAX_LOOPS, "loop", loop, e));
  struct graph *sub = graph_new(&g->m->mem, BLOCK, NULL);
  graph_axes(sub, ngrid, grid, nloop, loop);
  return *block = graph_make(g->m, sub, g), OK;
}

int mica_graph_block(struct mica_graph *g, int ngrid, const int64_t *grid, int nloop, const int64_t *loop, struct mica_graph **block)
{
  struct err *e = begin(g);
  return finish(g, make_block(g, ngrid, grid, nloop, loop, block, e));
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
  TRY(check_level(b, BLOCK, "a tile", "tiles are loaded by blocks: mica_graph_block", e));
  TRY(check_tensor(b->above, t, e));
  TRY(take_map("imap", b->g->ngrid, imap, a.imap, e));
  TRY(take_map("fmap", b->g->nloop, fmap, a.fmap, e));
  TRY(graph_iter(b->g, b->above->g, t, &a, NOWHERE, bt, e));
  return PUSH(&b->m->mem, b->from, b->nfrom, b->from_cap) = t, OK;
}

int mica_block_input(struct mica_graph *block, int t, const int *imap, const int *fmap, int *bt)
{
  struct err *e = begin(block);
  return finish(block, load(block, t, imap, fmap, bt, e));
}

static int save(struct mica_graph *b, int bt, const int *omap, struct err *e)
{
  struct attrs a = attrs_default(OP_SAVE);
  int none;
  TRY(check_open(b, e));
  TRY(check_level(b, BLOCK, "a saved tile", "outputs of a program: mica_graph_output", e));
  TRY(check_tensor(b, bt, e));
  TRY(take_map("omap", b->g->ngrid, omap, a.omap, e));
  return graph_add(b->g, OP_SAVE, 1, &bt, &a, NOWHERE, &none, e);
}

int mica_block_output(struct mica_graph *block, int bt, const int *omap)
{
  struct err *e = begin(block);
  return finish(block, save(block, bt, omap, e));
}

static int end(struct mica_graph *b, int *t, int *count, struct err *e)
{
  TRY(check_open(b, e));
  TRY(check_level(b, BLOCK, "the end", "mica_block_end ends what mica_graph_block made", e));
  const int saves = graph_outputs(b->g, NULL);
  if (!b->nfrom || !saves) {
    err_set(e, ERR_GRAPH, NOWHERE, "this block %s nothing", saves ? "loads" : "saves");
    return err_hint(e, "it needs at least one mica_block_input and one mica_block_output"), e->status;
  }
  if (!count && saves != 1) return err_set(e, ERR_ARITY, NOWHERE, "the block has %d results, and there is no place for their number", saves);
  TRY(check_open(b->above, e));
  TRY(graph_nest(b->above->g, b->g, b->nfrom, b->from, NOWHERE, t, e));
  if (count) *count = saves;
  return b->ended = true, OK;
}

int mica_block_end(struct mica_graph *block, int *t, int *count)
{
  struct err *e = begin(block);
  return finish(block, end(block, t, count, e));
}
