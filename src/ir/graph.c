// Building graphs. Every node of every graph is added by append(), so no graph has nodes of wrong shapes. The parser, the
// JSON reader, the search and the rewrites all call the same functions.
#include "ir/ir.h"

#include <string.h>

struct graph *graph_new(struct arena *mem, enum level level, const char *name)
{
  struct graph *g = NEW(mem, struct graph);
  g->level = level, g->world = 1, g->mem = mem, g->name = name ? arena_strdup(mem, name) : NULL;
  return g;
}

struct graph *graph_new_as(struct arena *mem, const struct graph *g)
{
  struct graph *to = graph_new(mem, g->level, g->name);
  return to->world = g->world, to->rank = g->rank, to;
}

void graph_axes(struct graph *g, int ngrid, const int64_t *grid, int nloop, const int64_t *loop)
{
  CHECK(ngrid <= MAX_GRID && nloop <= MAX_LOOPS && !g->nnodes);
  g->ngrid = ngrid, g->nloop = nloop;
  for (int i = 0; i < ngrid; i++) g->grid[i] = grid[i];
  for (int i = 0; i < nloop; i++) g->loop[i] = loop[i];
}

static int append(struct graph *g, const struct node *n, const struct tensor *outs, int nout, int *out)
{
  int first = g->ntensors;
  for (int i = 0; i < nout; i++) {
    struct tensor t = outs[i];
    t.node = g->nnodes;
    PUSH(g->mem, g->tensors, g->ntensors, g->tensors_cap) = t;
  }
  struct node copy = *n;
  copy.in = n->nin ? arena_copy(g->mem, n->in, sizeof(int) * (size_t)n->nin) : NULL;
  copy.out = first, copy.nout = nout;
  PUSH(g->mem, g->nodes, g->nnodes, g->nodes_cap) = copy;
  if (out) *out = first;
  return OK;
}

static int refuse(const struct graph *g, const struct node *n, struct err *e)
{
  const struct op_row *row = &op_rows[n->op];
  if (!(row->levels >> g->level & 1)) return err_set(e, ERR_LEVEL, n->at, "%s is not an operator of %s graphs", row->name, level_name(g->level));
  if (n->nin < row->least || n->nin > row->most)
    return err_set(e, ERR_ARITY, n->at, "%s takes %d%s tensors, not %d", row->name, row->least,
                   row->most == MANY        ? " or more"
                   : row->most > row->least ? " to more"
                                            : "",
                   n->nin);
  for (int i = 0; i < n->nin; i++)
    if (n->in[i] < 0 || n->in[i] >= g->ntensors)
      return err_set(e, ERR_GRAPH, n->at, "%s: argument %d is not a tensor made before it", row->name, i + 1);
  return OK;
}

static int add_node(struct graph *g, const struct node *n, int *out, struct err *e)
{
  struct tensor outs[64];
  int nout = 0, s = refuse(g, n, e);
  if (!s) s = infer_node(g, n, outs, &nout, e);
  return s ? s : append(g, n, outs, nout, out);
}

int graph_add(struct graph *g, enum op op, int nin, const int *in, const struct attrs *a, struct loc at, int *out, struct err *e)
{
  struct node n = {.op = op, .nin = nin, .in = (int *)in, .a = a ? *a : attrs_default(op), .at = at};
  CHECK(op != OP_INPUT && op != OP_ITER && op_rows[op].rule != RULE_GRAPH);
  bool known = nin > 0 && in[0] >= 0 && in[0] < g->ntensors;
  if (known && n.a.dim < 0 && (op_rows[op].attrs & A_DIM)) n.a.dim += g->tensors[in[0]].shape.n;
  return add_node(g, &n, out, e);
}

int graph_input(struct graph *g, const char *name, enum dtype t, const struct shape *s, struct loc at, int *out, struct err *e)
{
  CHECK(g->level == KERNEL);
  char text[128];
  int64_t size = 1;
  for (int i = 0; i < s->n; i++) {
    bool good = s->d[i] > 0 && s->d[i] < EXTENT_LIMIT;
    if (good && !__builtin_mul_overflow(size, s->d[i], &size) && size < EXTENT_LIMIT) continue;
    shape_text(text, s);
    return err_set(e, ERR_EXTENT, at, "input%s%s %s: extents are at least 1 and a tensor has fewer than 2^40 elements", name ? " " : "",
                   name ? name : "", text);
  }
  struct node n = {.op = OP_INPUT, .a = attrs_default(OP_INPUT), .at = at};
  struct tensor x = {.dtype = t, .shape = *s, .whole = num_whole(t)};
  if (x.whole) x.range = range_default(t);
  int i, status = append(g, &n, &x, 1, &i);
  if (name) status = graph_name(g, i, name, at, e);
  *out = i;
  return status;
}

int graph_declare(struct graph *g, int t, const struct whole_range *range, bool state, struct loc at, struct err *e)
{
  struct tensor *x = &g->tensors[t];
  const struct whole_range all = range_default(x->dtype);
  if (x->extent || extent_tells(x)) return err_set(e, ERR_EXTENT, at, "tensor %d has a run-time extent, and is declared already", t);
  if (state && x->frozen) return err_set(e, ERR_GRAPH, at, "tensor %d is frozen: it is no state", t);
  x->state = state;
  if (!range) return OK;
  if (!x->whole) return err_set(e, ERR_DTYPE, at, "%s has no range: it holds no whole numbers", dtype_name(x->dtype));
  if (range->least > range->most) return err_set(e, ERR_INTEGER_RANGE, at, "no number is in this range");
  if (range->least < -WHOLE_MOST || range->most > all.most || (x->dtype == BOOL && range->least < 0))
    return err_set(e, ERR_INTEGER_RANGE, at, "a range from %lld to %lld of %s, which is at most %lld here", (long long)range->least,
                   (long long)range->most, dtype_name(x->dtype), (long long)all.most);
  if (range->distinct && shape_size(&x->shape) > range->most - range->least + 1)
    return err_set(e, ERR_INTEGER_RANGE, at, "%lld distinct numbers from %lld to %lld", (long long)shape_size(&x->shape), (long long)range->least,
                   (long long)range->most);
  return x->range = *range, OK;
}

int graph_freeze(struct graph *g, int t, struct loc at, struct err *e)
{
  struct tensor *x = &g->tensors[t];
  const char *why = x->state ? "a state is written" : x->extent || extent_tells(x) ? "a run-time extent changes between calls" : NULL;
  if (!why) return x->frozen = true, OK;
  err_set(e, ERR_GRAPH, at, "%s: the input is not frozen", why);
  return err_hint(e, "declare it without `frozen`"), (int)e->status;
}

int graph_root(const struct graph *g, int t)
{
  while (op_rows[g->nodes[g->tensors[t].node].op].rule == RULE_VIEW) t = g->nodes[g->tensors[t].node].in[0];
  return t;
}

int node_iterated(const struct node *n, int tile)
{
  const int maker = n->sub->tensors[tile].node;
  int iterator = 0;
  for (int i = 0; i < maker; i++) iterator += n->sub->nodes[i].op == OP_ITER;
  return n->sub->nodes[maker].op == OP_ITER ? n->in[iterator] : -1;
}

int graph_input_as(struct graph *g, const char *name, enum dtype t, const struct tensor *as, struct loc at, int *out, struct err *e)
{
  TRY(graph_input(g, name, t, &as->shape, at, out, e));
  struct tensor *x = &g->tensors[*out];
  x->state = as->state, x->frozen = as->frozen, x->shard = as->shard, x->extent = as->extent;
  memcpy(x->runs, as->runs, sizeof x->runs);
  if (as->whole) x->whole = true, x->range = as->range;
  return OK;
}

int graph_iter(struct graph *sub, const struct graph *above, int from, const struct attrs *a, struct loc at, int *out, struct err *e)
{
  if (from < 0 || from >= above->ntensors) return err_set(e, ERR_GRAPH, at, "iter of a tensor that does not exist");
  struct node n = {.op = OP_ITER, .a = *a, .at = at};
  struct tensor t = {.dtype = above->tensors[from].dtype, .weak = above->tensors[from].weak, .adapts = above->tensors[from].adapts};
  t.whole = above->tensors[from].whole, t.range = above->tensors[from].range;
  int s = infer_tile(sub, a, &above->tensors[from].shape, at, &t.shape, e);
  if (s) return s;
  t.phase = FIXED;
  for (int i = 0; i < sub->nloop; i++)
    if (a->fmap[i] != REPLICA) t.phase = VARYING;
  return append(sub, &n, &t, 1, out);
}

int graph_nest(struct graph *g, struct graph *sub, int nin, const int *in, struct loc at, int *out, struct err *e)
{
  CHECK(sub->level == g->level + 1);
  enum op op = sub->level == BLOCK ? OP_BLOCK : OP_THREAD;
  struct node n = {.op = op, .nin = nin, .in = (int *)in, .a = attrs_default(op), .sub = sub, .at = at};
  int iters = graph_inputs(sub, NULL);
  if (iters != nin) return err_set(e, ERR_GRAPH, at, "%s: %d iterators but %d tensors", op_rows[op].name, iters, nin);
  return add_node(g, &n, out, e);
}

int graph_name(struct graph *g, int t, const char *name, struct loc at, struct err *e)
{
  for (int i = 0; i < g->ntensors; i++)
    if (i != t && g->tensors[i].name && !strcmp(g->tensors[i].name, name)) return err_set(e, ERR_DUPLICATE, at, "the name `%s` is taken", name);
  g->tensors[t].name = arena_strdup(g->mem, name);
  return OK;
}

int graph_inputs(const struct graph *g, int *tensors)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) {
    if (g->nodes[i].op != OP_INPUT && g->nodes[i].op != OP_ITER) continue;
    if (tensors) tensors[n] = g->nodes[i].out;
    n++;
  }
  return n;
}

int graph_outputs(const struct graph *g, int *tensors)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) {
    if (g->nodes[i].op != OP_OUTPUT && g->nodes[i].op != OP_SAVE) continue;
    if (tensors) tensors[n] = g->nodes[i].in[0];
    n++;
  }
  return n;
}

int graph_ops(const struct graph *g)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) {
    enum rule r = op_rows[g->nodes[i].op].rule;
    n += r != RULE_IO && r != RULE_CONST && r != RULE_INDEX && r != RULE_VIEW;
  }
  return n;
}

int64_t graph_blocks(const struct graph *g)
{
  int64_t n = 1;
  for (int i = 0; i < g->ngrid; i++) n *= g->grid[i];
  return n;
}

int64_t graph_iterations(const struct graph *g)
{
  int64_t n = 1;
  for (int i = 0; i < g->nloop; i++) n *= g->loop[i];
  return n;
}

int64_t graph_tile_bytes(const struct graph *g, int elem)
{
  int64_t n = 0;
  for (int i = 0; i < g->ntensors; i++) n += elem * shape_size(&g->tensors[i].shape);
  return n;
}

bool attrs_same(const struct attrs *a, const struct attrs *b)
{
  for (int i = 0; i < ATTRS; i++)
    if (attr_whole(a, i) != attr_whole(b, i)) return false;
  return attrs_reals_same(a, b) && shape_eq(&a->shape, &b->shape) && shape_eq(&a->perm, &b->perm) && !memcmp(a->imap, b->imap, sizeof a->imap) &&
         !memcmp(a->omap, b->omap, sizeof a->omap) && !memcmp(a->fmap, b->fmap, sizeof a->fmap);
}

static bool node_same(const struct graph *ga, const struct node *a, const struct graph *gb, const struct node *b)
{
  if (a->op != b->op || a->nin != b->nin || a->nout != b->nout || a->out != b->out) return false;
  if (!attrs_same(&a->a, &b->a) || (a->nin && memcmp(a->in, b->in, sizeof(int) * (size_t)a->nin))) return false;
  for (int i = 0; i < a->nout; i++) {
    const struct tensor *x = &ga->tensors[a->out + i], *y = &gb->tensors[b->out + i];
    if (x->dtype != y->dtype || !shape_eq(&x->shape, &y->shape)) return false;
    if (a->op != OP_INPUT) continue; // ranges of other tensors follow from those of inputs
    if (x->whole != y->whole || x->state != y->state || x->range.least != y->range.least || x->range.most != y->range.most) return false;
    if (x->range.distinct != y->range.distinct || x->shard != y->shard) return false;
    if (x->extent != y->extent || memcmp(x->runs, y->runs, sizeof x->runs)) return false;
  }
  return !a->sub == !b->sub && (!a->sub || graph_same(a->sub, b->sub));
}

bool graph_same(const struct graph *a, const struct graph *b)
{
  if (a->level != b->level || a->world != b->world || a->nnodes != b->nnodes || a->ntensors != b->ntensors) return false;
  if (a->ngrid != b->ngrid || a->nloop != b->nloop) return false;
  if (memcmp(a->grid, b->grid, sizeof a->grid) || memcmp(a->loop, b->loop, sizeof a->loop)) return false;
  for (int i = 0; i < a->nnodes; i++)
    if (!node_same(a, &a->nodes[i], b, &b->nodes[i])) return false;
  return true;
}

uint64_t graph_hash(const struct graph *g)
{
  uint64_t h = hash_mix((uint64_t)g->level, (uint64_t)g->nnodes);
  for (int i = 0; i < MAX_GRID; i++) h = hash_mix(h, (uint64_t)g->grid[i]);
  for (int i = 0; i < MAX_LOOPS; i++) h = hash_mix(h, (uint64_t)g->loop[i]);
  if (g->world > 1) h = hash_mix(h, (uint64_t)g->world);
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    h = hash_mix(h, hash_bytes(op_rows[n->op].name, strlen(op_rows[n->op].name), 0));
    if (n->nin) h = hash_mix(h, hash_bytes(n->in, sizeof(int) * (size_t)n->nin, 1));
    const struct attrs *a = &n->a;
    int64_t ints[ATTRS];
    double reals[ATTRS];
    int nreals = 0;
    for (int k = 0; k < ATTRS; k++) ints[k] = attr_whole(a, k);
    for (int k = 0; k < ATTRS; k++)
      if (attr_rows[k].kind == ATTR_REAL_KIND) reals[nreals++] = attr_real(a, k);
    h = hash_mix(h, hash_bytes(ints, sizeof ints, 2)), h = hash_mix(h, hash_bytes(reals, sizeof *reals * (size_t)nreals, 3));
    h = hash_mix(h, hash_bytes(a->shape.d, 8 * (size_t)a->shape.n, 4)), h = hash_mix(h, hash_bytes(a->perm.d, 8 * (size_t)a->perm.n, 5));
    h = hash_mix(h, hash_bytes(a->imap, sizeof a->imap, 6)), h = hash_mix(h, hash_bytes(a->omap, sizeof a->omap, 7));
    h = hash_mix(h, hash_bytes(a->fmap, sizeof a->fmap, 8));
    for (int k = 0; k < n->nout; k++) {
      const struct tensor *t = &g->tensors[n->out + k];
      h = hash_mix(h, hash_bytes(t->shape.d, 8 * (size_t)t->shape.n, 9 + t->dtype));
      const int64_t known[] = {t->range.least, t->range.most, t->range.distinct, t->state};
      if (t->shard) h = hash_mix(h, (uint64_t)t->shard);
      if (t->frozen) h = hash_mix(h, 12);
      if (n->op == OP_INPUT && (t->extent || extent_tells(t))) h = hash_mix(h, hash_bytes(t->runs, sizeof t->runs, 11 + (uint64_t)t->extent));
      if (t->whole || t->state) h = hash_mix(h, hash_bytes(known, sizeof known, 10));
    }
    if (n->sub) h = hash_mix(h, graph_hash(n->sub));
  }
  return h;
}

struct graph *graph_copy(struct arena *mem, const struct graph *g)
{
  struct graph *c = NEW(mem, struct graph);
  *c = *g;
  c->mem = mem;
  c->name = g->name ? arena_strdup(mem, g->name) : NULL;
  c->nodes = arena_copy(mem, g->nodes, sizeof *g->nodes * (size_t)g->nnodes), c->nodes_cap = g->nnodes;
  c->tensors = arena_copy(mem, g->tensors, sizeof *g->tensors * (size_t)g->ntensors), c->tensors_cap = g->ntensors;
  for (int i = 0; i < c->ntensors; i++)
    if (c->tensors[i].name) c->tensors[i].name = arena_strdup(mem, c->tensors[i].name);
  for (int i = 0; i < c->nnodes; i++) {
    struct node *n = &c->nodes[i];
    if (n->nin) n->in = arena_copy(mem, n->in, sizeof(int) * (size_t)n->nin);
    if (n->sub) n->sub = graph_copy(mem, n->sub);
  }
  return c;
}

struct graph *graph_reorder(struct arena *mem, const struct graph *g, const int *order)
{
  struct graph *c = graph_copy(mem, g);
  int n = graph_inputs(g, NULL), *in = NEWS(mem, int, n + 1), *to = NEWS(mem, int, g->ntensors + 1);
  graph_inputs(g, in);
  for (int t = 0; t < g->ntensors; t++) to[t] = t;
  for (int i = 0; i < n; i++) to[in[order[i]]] = in[i];
  for (int i = 0; i < c->nnodes; i++)
    for (int k = 0; k < c->nodes[i].nin; k++) c->nodes[i].in[k] = to[c->nodes[i].in[k]];
  return c;
}
