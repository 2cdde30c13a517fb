// Programs over several ranks. All ranks run one kernel graph. A rank sees its own part of an input with a shard, and the whole of all other
// inputs. Ranks exchange data only in operators of the rule WORLD.
//
// graph_unfold defines the semantics: one ordinary graph of whole inputs with the operators of all ranks. Interpreters, proofs and generated
// code see that graph.
#include "ir/ir.h"

#include <string.h>

static const int sizes[] = {1, 2, 4, 8};

int graph_world(struct graph *g, int64_t ranks, struct loc at, struct err *e)
{
  CHECK(g->level == KERNEL && !g->nnodes);
  for (size_t i = 0; i < COUNT(sizes); i++)
    if (sizes[i] == ranks) return g->world = (int)ranks, OK;
  int s = err_set(e, ERR_WORLD, at, "a world of %lld devices", (long long)ranks);
  return err_hint(e, "a world has 1, 2, 4 or 8 devices"), s;
}

int graph_shard(struct graph *g, int t, int64_t dim, struct loc at, struct err *e)
{
  struct tensor *x = &g->tensors[t];
  if (dim < 0) dim += x->shape.n;
  if (dim < 0 || dim >= x->shape.n) return err_set(e, ERR_ATTRIBUTE, at, "shard(%lld) of a tensor of %d dimensions", (long long)dim, x->shape.n);
  if (x->shape.d[dim] % g->world) {
    int s = err_set(e, ERR_SHAPE, at, "dimension %lld of extent %lld has no %d equal parts, one a rank", (long long)dim, (long long)x->shape.d[dim],
                    g->world);
    return err_hint(e, "the extents of an input are those of the whole tensor"), s;
  }
  if (g->world == 1) return OK;
  return x->shape.d[dim] /= g->world, x->shard = (int)dim + 1, OK;
}

struct shape graph_whole(const struct graph *g, int t)
{
  const struct tensor *x = &g->tensors[t];
  struct shape s = x->shape;
  if (x->shard) s.d[x->shard - 1] *= g->world;
  return s;
}

void graph_varying(const struct graph *g, bool *varies)
{
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    bool any = n->op == OP_INPUT && g->tensors[n->out].shard;
    for (int k = 0; k < n->nin; k++) any |= varies[n->in[k]];
    if (op_rows[n->op].rule == RULE_WORLD) any = node_has(n, SCATTERS) && g->world > 1;
    for (int k = 0; k < n->nout; k++) varies[n->out + k] = any;
  }
}

bool node_meets(const struct node *n) { return op_rows[n->op].rule == RULE_WORLD && !node_has(n, STAYS_APART); }

bool graph_collects(const struct graph *g)
{
  bool any = false;
  for (int i = 0; i < g->nnodes; i++) any |= op_rows[g->nodes[i].op].rule == RULE_WORLD;
  return any;
}

int world_refuse(const struct graph *g, const char *who, struct err *e)
{
  if (g->world == 1) return OK;
  int s = err_set(e, ERR_WORLD, NOWHERE, "%s takes a program of one device, and %s is one of %d", who, g->name ? g->name : "this", g->world);
  return err_hint(e, "`mica show --unfold --text` prints what all ranks compute as a program of one device"), s;
}

// ---- rules of a well-formed world ----

static int check_input(const struct graph *g, const struct node *n, struct err *e)
{
  const struct tensor *x = &g->tensors[n->out];
  if (x->shard < 0 || x->shard > x->shape.n)
    return err_set(e, ERR_WORLD, n->at, "an input of %d dimensions has no dimension %d", x->shape.n, x->shard - 1);
  return OK;
}

static int no_update(const struct graph *g, const struct node *n, const char *why, const char *hint, struct err *e)
{
  const char *name = g->tensors[graph_state(g, node_updated(n))].name;
  int s = err_set(e, ERR_WORLD, n->at, "an update of the state `%.60s` %s", name ? name : "", why);
  return err_hint(e, "%s", hint), s;
}

// Checks an update of a state. All ranks must write the same indices, each in its part. The written values may differ between ranks only if the
// state is divided.
static int check_update(const struct graph *g, const struct node *n, const bool *varies, struct err *e)
{
  const int state = g->world > 1 && !g->rank && node_updated(n) >= 0 ? graph_state(g, node_updated(n)) : -1;
  if (state < 0) return OK;
  if (n->sub) return no_update(g, n, "is part of a kernel", "in a program of several devices updates stand in the kernel graph", e);
  const int shard = input_shard(g, state);
  if (varies[n->in[1]])
    return no_update(g, n, "writes other places on each device", "all_gather or all_reduce makes indices that all devices have", e);
  if (shard < 0 && varies[n->in[2]])
    return no_update(g, n, "would make it different on each device", "declare the state as divided, as in K: f32[64, 8] shard(1) state", e);
  if (shard == n->a.dim)
    return no_update(g, n, "chooses places along the dimension in which it is divided", "divide the state along another dimension", e);
  if (shard >= 0 && g->nodes[g->tensors[n->in[0]].node].op == OP_RESHAPE)
    return no_update(g, n, "has several indices, and the state is divided", "use one index tensor", e);
  return OK;
}

static int check_output(const struct graph *g, const struct node *n, const bool *varies, struct err *e)
{
  const struct tensor *x = &g->tensors[n->in[0]];
  if (!varies[n->in[0]] || g->rank || state_output(g, n)) return OK;
  int s = err_set(e, ERR_WORLD, n->at, "%s%.60s%s may be different on each of the %d devices: a result is the same on all",
                  x->name ? "`" : "this result", x->name ? x->name : "", x->name ? "`" : "", g->world);
  return err_hint(e, "return shard(x, dim) leaves each rank its part; all_gather(x, dim) joins the parts, all_reduce(x) adds them up"), s;
}

static bool is_apart(const struct graph *g, int t) { return node_has(&g->nodes[g->tensors[t].node], STAYS_APART); }

// No operator can read a result that stays divided, because no rank has the whole tensor.
static int check_reader(const struct graph *g, const struct node *n, struct err *e)
{
  for (int k = 0; k < n->nin && n->op != OP_OUTPUT; k++) {
    if (!is_apart(g, n->in[k])) continue;
    int s = err_set(e, ERR_WORLD, n->at, "%s reads what `shard` leaves divided, which no device has as a whole", op_rows[n->op].name);
    return err_hint(e, "use all_gather(x, dim) where all devices need the whole tensor"), s;
  }
  return OK;
}

int world_check(const struct graph *g, struct err *e)
{
  struct arena tmp = {0};
  bool *varies = NEWS(&tmp, bool, g->ntensors + 1);
  int s = OK;
  if (g->world > 1) graph_varying(g, varies);
  for (int i = 0; i < g->nnodes && !s; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op == OP_INPUT) s = check_input(g, n, e);
    if (n->op == OP_OUTPUT) s = check_output(g, n, varies, e);
    if (!s) s = check_update(g, n, varies, e);
    if (!s) s = check_reader(g, n, e);
  }
  arena_close(&tmp);
  return s;
}

// ---- all ranks as one graph ----

enum { MOST_NAMED = 1024 };

struct unfolding {
  const struct graph *g;
  struct graph *to;
  bool *varies; // by tensor of g: differs between ranks; otherwise all ranks share one tensor of `to`
  int **map;    // by rank, then by tensor of g: the tensor of `to`
  int *state;   // by tensor of g: the whole of a divided state, after the updates so far
  struct err *e;
};

static void share(const struct unfolding *u, const struct node *n)
{
  for (int r = 1; r < u->g->world; r++)
    for (int k = 0; k < n->nout; k++) u->map[r][n->out + k] = u->map[0][n->out + k];
}

// Names tensor h of rank 2 "h_2", unless another tensor has that name. Large graphs get no such names.
static void name_part(const struct unfolding *u, const struct node *n, int rank)
{
  for (int k = 0; k < n->nout && u->g->ntensors <= MOST_NAMED; k++) {
    struct err taken = {0};
    const char *name = u->g->tensors[n->out + k].name;
    struct tensor *t = &u->to->tensors[u->map[rank][n->out + k]];
    if (!name || t->name) continue;
    name = arena_printf(u->to->mem, "%s_%d", name, rank);
    for (int i = 0; i < u->g->ntensors && name; i++)
      if (u->g->tensors[i].name && !strcmp(u->g->tensors[i].name, name)) name = NULL;
    if (name) graph_name(u->to, u->map[rank][n->out + k], name, NOWHERE, &taken);
  }
}

// Adds each rank's part of x along dim.
static int scatter(const struct unfolding *u, const struct node *n, int x, int dim)
{
  struct attrs a = attrs_default(OP_CHUNK);
  a.dim = dim, a.parts = u->g->world;
  for (int r = 0; r < u->g->world; r++) {
    a.index = r;
    TRY(graph_add(u->to, OP_CHUNK, 1, &x, &a, n->at, &u->map[r][n->out], u->e));
    name_part(u, n, r);
  }
  return OK;
}

static int input(const struct unfolding *u, const struct node *n)
{
  const struct tensor *x = &u->g->tensors[n->out];
  struct tensor whole = *x;
  int t;
  whole.shape = graph_whole(u->g, n->out), whole.shard = 0;
  TRY(graph_input_as(u->to, x->name, x->dtype, &whole, n->at, &t, u->e));
  u->state[n->out] = t;
  if (x->shard) return scatter(u, n, t, x->shard - 1);
  return u->map[0][n->out] = t, share(u, n), OK;
}

// Adds the sum over the ranks, in a fixed order, so that all ranks round in the same way.
static int sum(const struct unfolding *u, const struct node *n, int *out)
{
  *out = u->map[0][n->in[0]];
  for (int r = 1; r < u->g->world; r++) TRY(graph_add(u->to, OP_ADD, 2, (int[]){*out, u->map[r][n->in[0]]}, NULL, n->at, out, u->e));
  return OK;
}

// Adds the concatenation along dim of the parts of tensor t on all ranks.
static int joined(const struct unfolding *u, const struct node *n, int t, int dim, int *out)
{
  struct attrs a = attrs_default(OP_CONCAT);
  int *in = NEWS(u->to->mem, int, u->g->world);
  a.dim = dim;
  for (int r = 0; r < u->g->world; r++) in[r] = u->map[r][t];
  return graph_add(u->to, OP_CONCAT, u->g->world, in, &a, n->at, out, u->e);
}

static int meet(const struct unfolding *u, const struct node *n)
{
  int t = u->map[0][n->in[0]];
  if (u->g->world > 1) TRY(node_has(n, JOINS_RANKS) ? joined(u, n, n->in[0], n->a.dim, &t) : sum(u, n, &t));
  if (node_has(n, SCATTERS) && u->g->world > 1) return scatter(u, n, t, n->a.dim);
  u->map[0][n->out] = t, share(u, n);
  if (u->g->world > 1) graph_keep_names(u->to, u->g, n, u->map[0]);
  return OK;
}

// The dimension along which the state that n updates is divided; -1: n updates no divided state.
static int divided_state(const struct graph *g, const struct node *n)
{
  const int state = node_has(n, WRITES_SLICES) ? graph_state(g, n->in[0]) : -1;
  return state < 0 ? -1 : input_shard(g, state);
}

// Combines the updates of all ranks into one update of the whole state.
static int update(const struct unfolding *u, const struct node *n, int dim)
{
  const int at = u->g->tensors[n->in[1]].shape.n, along = dim < n->a.dim ? dim : dim - 1 + at; // dimension of the written values
  int in[3] = {u->state[n->in[0]], u->map[0][n->in[1]]};
  TRY(joined(u, n, n->in[2], along, &in[2]));
  TRY(graph_add(u->to, n->op, 3, in, &n->a, n->at, &u->state[n->out], u->e));
  return scatter(u, n, u->state[n->out], dim);
}

static int output(const struct unfolding *u, const struct node *n)
{
  const int state = state_output(u->g, n) ? graph_state(u->g, n->in[0]) : -1;
  int none;
  const bool divided = state >= 0 && u->g->tensors[state].shard;
  return graph_add(u->to, OP_OUTPUT, 1, divided ? &u->state[n->in[0]] : &u->map[0][n->in[0]], NULL, n->at, &none, u->e);
}

static int each(const struct unfolding *u, const struct node *n)
{
  const bool apart = n->nout && u->varies[n->out];
  for (int r = 0; r < (apart ? u->g->world : 1); r++) {
    TRY(graph_take(u->to, NULL, -1, u->g, n, u->map[r], u->e));
    if (apart) name_part(u, n, r);
  }
  if (!apart) share(u, n), graph_keep_names(u->to, u->g, n, u->map[0]);
  return OK;
}

static int unfold_node(const struct unfolding *u, const struct node *n)
{
  const int dim = divided_state(u->g, n);
  if (n->op == OP_INPUT) return input(u, n);
  if (n->op == OP_OUTPUT) return output(u, n);
  if (op_rows[n->op].rule == RULE_WORLD) return meet(u, n);
  return dim >= 0 ? update(u, n, dim) : each(u, n);
}

int graph_unfold(struct arena *mem, const struct graph *g, struct graph **out, struct err *e)
{
  struct arena tmp = {0};
  struct unfolding u = {.g = g, .to = graph_new(mem, KERNEL, g->name), .e = e};
  int s = OK;
  if (g->world == 1 && !graph_collects(g)) return *out = (struct graph *)g, OK;
  u.varies = NEWS(&tmp, bool, g->ntensors + 1), u.map = NEWS(&tmp, int *, g->world), u.state = NEWS(&tmp, int, g->ntensors + 1);
  for (int r = 0; r < g->world; r++) u.map[r] = NEWS(&tmp, int, g->ntensors + 1);
  graph_varying(g, u.varies);
  for (int i = 0; i < g->nnodes && !s; i++) s = unfold_node(&u, &g->nodes[i]);
  arena_close(&tmp);
  return *out = u.to, s;
}

// ---- one rank ----

int input_shard(const struct graph *g, int t) { return g->tensors[t].shard - 1; }

int output_shard(const struct graph *g, const struct node *n)
{
  const struct node *made = &g->nodes[g->tensors[n->in[0]].node];
  if (state_output(g, n)) return input_shard(g, graph_state(g, n->in[0]));
  return g->world > 1 && node_has(made, STAYS_APART) ? made->a.dim : -1;
}

struct shape output_whole(const struct graph *g, const struct node *n)
{
  struct shape s = g->tensors[n->in[0]].shape;
  const int dim = state_output(g, n) ? output_shard(g, n) : -1; // other outputs are whole tensors
  if (dim >= 0) s.d[dim] *= g->world;
  return s;
}

int graph_rank(struct arena *mem, const struct graph *g, struct graph **out, struct err *e)
{
  struct arena tmp = {0};
  int *map = NEWS(&tmp, int, g->ntensors + 1), s = OK;
  *out = graph_new_as(mem, g), (*out)->rank = true;
  for (int i = 0; i < g->nnodes && !s; i++) {
    const struct node *n = &g->nodes[i];
    if (node_has(n, STAYS_APART)) {
      map[n->out] = map[n->in[0]];
      continue;
    }
    s = graph_take(*out, NULL, -1, g, n, map, e);
    if (!s) graph_keep_names(*out, g, n, map);
  }
  arena_close(&tmp);
  return s;
}
