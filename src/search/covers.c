// Does the space hold a given kernel graph? Its kernels are walked in order and every tensor is matched with a value of
// one schedule, operator by operator, up to what makes no difference to the structure: sizes and the order of axes;
// axes of extent 1; a loop of one iteration, or one that only adds up partial sums, is no loop; a sum may be taken
// before a tensor is left for a later kernel or there; partial sums of partial sums; a library operator is a block graph
// with that one operator. Where nothing fits, the furthest place and the rule that removed the operator are named.
#include "search/space.h"

#include <string.h>

enum { MOST_STEPS = 4000000 };

struct walk {
  const struct planner *pl;
  struct worker *const *by;  // by table: whose normal forms its values have
  const struct graph *g;
  const int *program_input;  // kernel tensor -> input tensor of the program that it is (a view of), or -1
  const bool *viewed;        // kernel tensor -> its dimensions are not those of that input
  int *device;               // kernel tensor -> device tensor
  int **owner;               // table -> value of each derivation
  int64_t steps;
  int64_t furthest;          // kernel node * MANY + block node
  char *why;
  size_t room;
};
struct inside {              // one block graph under one schedule
  struct walk *w;
  int node;                  // of the kernel graph
  const struct graph *b;
  int table;
  int axis[MAX_GRID];        // class of each axis
  bool loop;
  int *value;                // block tensor -> value
};

static bool walk_kernel(struct walk *w, int i);
static bool walk_block(struct inside *x, int k);

// Keeps the reason of the furthest failure.
static bool lost(struct walk *w, int kernel, int block, const char *what, const char *why)
{
  int64_t at = (int64_t)kernel * MANY + block + 1;
  if (at > w->furthest) {
    w->furthest = at;
    snprintf(w->why, w->room, "kernel %d, %s: %s", kernel + 1 - graph_inputs(w->g, NULL), what, why);
  }
  return false;
}

static const struct table *table_of(const struct inside *x) { return &x->w->pl->tables[x->table]; }

// ---- one operator -------------------------------------------------------------------------------------------------

static bool go_on(struct inside *x, int k, int tensor, int value)
{
  x->value[tensor] = value;
  return walk_block(x, k + 1);
}

// Are derivations kept for one order of the operands only? (Who is the left factor of a product follows from the classes.)
static bool turnable(enum op op) { return op == OP_MATMUL || (op_rows[op].flags & COMMUTES); }

static bool same_scalar(const struct attrs *a, const struct attrs *b) { return !(a->scalar < b->scalar || a->scalar > b->scalar); }

// Is the constant of a derivation (a limit, a scalar) that of node n?
static bool same_constants(const struct table *t, const struct deriv *d, const struct node *n)
{
  if (d->attrs < 0 || n->op != d->op) return true;
  const struct attrs *a = &t->voc->i[d->attrs].a, *b = &n->a;
  return same_scalar(a, b) && !(a->lo < b->lo || a->lo > b->lo || a->hi < b->hi || a->hi > b->hi);
}

// Every value that `op` makes of a (and b): the walk goes on with each.
static bool try_derivations(struct inside *x, int k, enum op op, int a, int b, int tensor, bool *any)
{
  const struct table *t = table_of(x);
  const int *owner = x->w->owner[x->table];
  bool turns = turnable(op);
  for (int d = 0; d < t->nd; d++) {
    const struct deriv *y = &t->d[d];
    if (y->op != op || !((y->a == a && y->b == b) || (turns && y->a == b && y->b == a)) || !same_constants(t, y, &x->b->nodes[k])) continue;
    *any = true;
    if (go_on(x, k, tensor, owner[d])) return true;
  }
  return false;
}

static int one_derivation(const struct inside *x, enum op op, int a)
{
  const struct table *t = table_of(x);
  for (int d = 0; d < t->nd && a >= 0; d++)
    if (t->d[d].op == op && t->d[d].a == a && t->d[d].b < 0) return x->w->owner[x->table][d];
  return -1;
}

// Is the oracle off?
static bool blind(const struct inside *x) { return x->w->pl->o->off >> PRUNE_EXPR & 1; }

static const char *why_no_map(const struct inside *x, const struct node *n, int a, int b)
{
  const struct table *t = table_of(x);
  const struct value *va = &t->v[a], *vb = b < 0 ? NULL : &t->v[b];
  struct expr *ex = x->w->by[x->table]->ex;
  if (vb && ((va->phase == VARYING && vb->phase == AFTER) || (va->phase == AFTER && vb->phase == VARYING))) return "rule `phase`";
  if (!blind(x) && !expr_sub(ex, abstract_map(ex, n->op, &n->a, va->e, vb ? vb->e : 0)))
    return "rule `expr`: no such subexpression in what the axioms make of the program";
  return t->cut ? "cut by --max-values" : "rule `shape`, or not an operator that the search tries for this program";
}

static bool walk_map(struct inside *x, int k, const struct node *n)
{
  int a = x->value[n->in[0]], b = n->nin > 1 ? x->value[n->in[1]] : -1;
  bool any = false;
  if (try_derivations(x, k, n->op, a, b, n->out, &any)) return true;
  const char *why = any ? "leads nowhere" : op_rows[n->op].rule == RULE_CONTRACT ? "rule `expr` or `shape`" : why_no_map(x, n, a, b);
  return lost(x->w, x->node, k, op_rows[n->op].name, why);
}

// The root of a mean of squares, as the program may have it; of each class that it may run over.
static bool walk_rms(struct inside *x, int k, const struct node *n, int a)
{
  const struct table *t = table_of(x);
  int square = one_derivation(x, OP_SQUARE, a);
  for (int d = 0; d < t->nd && square >= 0; d++) {
    bool mean = t->d[d].op == (x->loop ? OP_ACCUM_MEAN : OP_MEAN) && t->d[d].a == square;
    int v = mean ? one_derivation(x, OP_SQRT, x->w->owner[x->table][d]) : -1;
    if (v >= 0 && go_on(x, k, n->out, v)) return true;
  }
  return false;
}

// A reduction, or an accumulator of a loop that is none: sums of extents of 1 and parts of sums may be skipped.
static bool walk_fold(struct inside *x, int k, const struct node *n, enum op op)
{
  int a = x->value[n->in[0]];
  bool any = false;
  const struct shape *from = &x->b->tensors[n->in[0]].shape;
  bool viewed = op_rows[x->b->nodes[x->b->tensors[n->in[0]].node].op].rule == RULE_VIEW;
  bool reduces = op_rows[op].rule == RULE_REDUCE || (op_rows[op].flags & REDUCES);
  if (try_derivations(x, k, op, a, -1, n->out, &any)) return true;
  if (reduces && (viewed || from->d[n->a.dim] == 1)) { // partial sums
    if (!x->loop || op_rows[op].rule == RULE_REDUCE) any = true;
    if (!x->loop || op_rows[op].rule == RULE_REDUCE ? go_on(x, k, n->out, a) : try_derivations(x, k, OP_ACCUM, a, -1, n->out, &any)) return true;
  }
  if (op == OP_ACCUM_RMS && walk_rms(x, k, n, a)) return true;
  const char *why = blind(x) ? "more operators than a block may have" : "rule `expr`: no such sum in what the axioms make of the program";
  return lost(x->w, x->node, k, op_rows[n->op].name, any ? "leads nowhere" : why);
}

static bool walk_accum(struct inside *x, int k, const struct node *n)
{
  bool joins = (op_rows[n->op].attrs & A_FMAP) && x->b->nloop && n->a.fmap[0] != REPLICA && graph_iterations(x->b) > 1;
  if (joins) return lost(x->w, x->node, k, op_rows[n->op].name, "loops that only concatenate are outside the space");
  if (x->loop) return walk_fold(x, k, n, n->op);
  if (n->op == OP_ACCUM) return go_on(x, k, n->out, x->value[n->in[0]]);
  if (n->op == OP_ACCUM_SUM) return walk_fold(x, k, n, OP_SUM);
  if (n->op == OP_ACCUM_MEAN) return walk_fold(x, k, n, OP_MEAN);
  if (n->op == OP_ACCUM_RMS) return walk_fold(x, k, n, OP_ACCUM_RMS);
  return lost(x->w, x->node, k, op_rows[n->op].name, "not an operator that the search tries");
}

// ---- iterators and savers -------------------------------------------------------------------------------------------

static bool dim_has(const struct labels *l, int dim, int c)
{
  for (int i = 0; i < l->d[dim].n; i++)
    if (l->d[dim].c[i] == c) return true;
  return false;
}

// May one axis, over piece `piece` of class c, cut the tensor that v is loaded from as the map says? Of tensors that the
// program has not the order of the dimensions is open.
static bool cuts(const struct walk *w, const struct value *v, bool open, int dim, int c, enum piece piece)
{
  const struct device *dev = &w->pl->m->dev[v->leaf];
  bool cut = (dev->has & all_of(c)) == all_of(c) && !(v->stored & bit(c, piece));
  if (dim == REPLICA || !cut) return dim == REPLICA && !cut;
  if (dev->input < 0 || open) return true;
  const struct labels *l = &w->pl->m->s->visit[dev->visit].l;
  return dim < l->n && dim_has(l, dim, c);
}

static bool walk_iter(struct inside *x, int k, int number)
{
  struct walk *w = x->w;
  const struct node *n = &x->b->nodes[k];
  const struct table *t = table_of(x);
  int from = w->g->nodes[x->node].in[number];
  for (int v = 0; v < t->n; v++) {
    int d = t->v[v].leaf;
    if (d < 0) continue;
    bool fits = w->program_input[from] >= 0 ? w->pl->m->dev[d].input == w->program_input[from] : d == w->device[from];
    for (int i = 0, a = 0; i < x->b->ngrid && fits; i++)
      if (x->b->grid[i] > 1) fits = cuts(w, &t->v[v], w->viewed[from], n->a.imap[i], x->axis[a++], GRID);
    if (fits && x->loop) fits = cuts(w, &t->v[v], w->viewed[from], n->a.fmap[0], t->sch.loop, LOOP);
    if (fits && go_on(x, k, n->out, v)) return true;
  }
  return lost(w, x->node, k, "iterator", "no schedule cuts its tensor so: rule `whole`, or two axes that are one");
}

// A constant of the program, which blocks hold without an iterator.
static bool walk_const(struct inside *x, int k, const struct node *n)
{
  const struct table *t = table_of(x);
  const struct graph *p = x->w->pl->m->s->p;
  for (int v = 0; v < t->n; v++) {
    const struct device *dev = t->v[v].leaf < 0 ? NULL : &x->w->pl->m->dev[t->v[v].leaf];
    if (!dev || dev->visit < 0) continue;
    const struct node *of = &p->nodes[p->tensors[x->w->pl->m->s->visit[dev->visit].tensor].node];
    if (of->op == OP_CONST && same_scalar(&of->a, &n->a) && go_on(x, k, n->out, v)) return true;
  }
  return lost(x->w, x->node, k, "const", "not a constant of the program");
}

static bool save_value(struct inside *x, int k, int tensor, int v)
{
  const struct planner *pl = x->w->pl;
  mask has;
  if (!value_saveable(pl->m->s, table_of(x), &table_of(x)->v[v], &has)) return false;
  for (int d = pl->nfixed; d < pl->ndev; d++) {
    if (pl->m->dev[d].has != has || pl->m->dev[d].hash != table_of(x)->v[v].hash) continue;
    x->w->device[tensor] = d;
    if (walk_block(x, k + 1)) return true;
  }
  return false;
}

// The value itself, or what is left when a sum that a later kernel would take is taken now.
static bool walk_save(struct inside *x, int k, int number)
{
  const struct table *t = table_of(x);
  int v = x->value[x->b->nodes[k].in[0]], tensor = x->w->g->nodes[x->node].out + number;
  if (save_value(x, k, tensor, v)) return true;
  for (int d = 0; d < t->nd; d++) {
    const struct deriv *y = &t->d[d];
    bool summed = y->op == OP_SUM && y->a == v;
    for (int of = t->v[v].der; of >= 0 && !summed; of = t->d[of].next)
      summed = t->d[of].op == OP_ACCUM && y->op == OP_ACCUM_SUM && y->a == t->d[of].a;
    if (summed && save_value(x, k, tensor, x->w->owner[x->table][d])) return true;
  }
  return lost(x->w, x->node, k, "saver", "what it saves is nothing that the search leaves for later kernels (whole tensors, or sums over all but the grid's part)");
}

static int number_of(const struct graph *b, int k, enum op op)
{
  int n = 0;
  for (int i = 0; i < k; i++) n += b->nodes[i].op == op;
  return n;
}

static bool walk_block(struct inside *x, int k)
{
  if (x->w->steps++ > MOST_STEPS) return lost(x->w, x->node, k, "block graph", "too many ways to match it");
  if (k == x->b->nnodes) return walk_kernel(x->w, x->node + 1);
  const struct node *n = &x->b->nodes[k];
  switch (op_rows[n->op].rule) {
  case RULE_IO: return n->op == OP_ITER ? walk_iter(x, k, number_of(x->b, k, OP_ITER)) : walk_save(x, k, number_of(x->b, k, OP_SAVE));
  case RULE_MAP:
  case RULE_CONTRACT: return walk_map(x, k, n);
  case RULE_REDUCE: return walk_fold(x, k, n, n->op);
  case RULE_ACCUM: return walk_accum(x, k, n);
  case RULE_VIEW: return go_on(x, k, n->out, x->value[n->in[0]]);
  case RULE_CONST: return walk_const(x, k, n);
  case RULE_CONCAT:
  case RULE_SPLIT:
  case RULE_COMPOSITE:
  case RULE_GRAPH: break;
  }
  return lost(x->w, x->node, k, op_rows[n->op].name, "not an operator that the search tries in blocks");
}

// ---- kernels ----------------------------------------------------------------------------------------------------------

// Every way to give the classes of the schedule to the axes.
static bool orders(struct inside *x, const struct schedule *s, int at, unsigned used)
{
  if (at == s->ngrid) {
    struct arena mem = {0};
    struct inside y = *x;
    y.value = NEWS(&mem, int, y.b->ntensors + 1);
    bool found = walk_block(&y, 0);
    arena_close(&mem);
    return found;
  }
  for (int i = 0; i < s->ngrid && at < MAX_GRID; i++) {
    if (used >> i & 1) continue;
    x->axis[at] = s->grid[i];
    if (orders(x, s, at + 1, used | 1u << i)) return true;
  }
  return false;
}

// A loop over tensors of earlier kernels only may be one that adds up partial sums.
static bool may_unroll(const struct walk *w, const struct node *kernel)
{
  const struct graph *b = kernel->sub;
  bool only = true;
  for (int k = 0, i = 0; k < b->nnodes; k++) {
    if (b->nodes[k].op != OP_ITER) continue;
    only &= b->nodes[k].a.fmap[0] == REPLICA || w->program_input[kernel->in[i]] < 0;
    i++;
  }
  return only;
}

static bool reads_earlier(const struct walk *w, const struct node *kernel)
{
  for (int i = 0; i < kernel->nin; i++)
    if (w->program_input[kernel->in[i]] < 0) return true;
  return false;
}

static bool walk_schedules(struct walk *w, int i, const struct graph *b)
{
  int axes = 0;
  bool looped = graph_iterations(b) > 1, unroll = looped && may_unroll(w, &w->g->nodes[i]);
  for (int a = 0; a < b->ngrid; a++) axes += b->grid[a] > 1;
  if (b->nloop > 1) return lost(w, i, 0, "block graph", "the search uses one loop axis");
  if ((reads_earlier(w, &w->g->nodes[i]) ? w->pl->later_ops : w->pl->o->max_block_ops) < graph_ops(b)) return lost(w, i, 0, "block graph", "more operators than --max-block-ops");
  for (int t = 0; t < w->pl->ntables; t++) {
    const struct schedule *s = &w->pl->tables[t].sch;
    bool as_loop = looped && s->loop >= 0, as_none = (!looped || unroll) && s->loop < 0;
    struct inside x = {.w = w, .node = i, .b = b, .table = t, .loop = as_loop};
    if (s->ngrid == axes && (as_loop || as_none) && orders(&x, s, 0, 0)) return true;
  }
  return lost(w, i, 0, "block graph", "no schedule of the search has these axes");
}

// A library operator as a block graph of its own, under any schedule without a loop.
static bool walk_library(struct walk *w, int i)
{
  const struct planner *pl = w->pl;
  const struct node *n = &w->g->nodes[i];
  enum rule rule = op_rows[n->op].rule;
  bool tried = n->nin <= 2 && (rule == RULE_MAP || rule == RULE_CONTRACT || rule == RULE_REDUCE);
  for (int t = 0; t < pl->ntables && tried; t++) {
    const struct table *y = &pl->tables[t];
    for (int d = 0; d < y->nd && y->sch.loop < 0; d++) {
      const struct deriv *v = &y->d[d];
      bool fits = v->op == n->op && (v->b >= 0) == (n->nin > 1) && same_constants(y, v, n), turned = turnable(n->op);
      const int made[2] = {v->a, v->b};
      for (int k = 0; k < n->nin && fits; k++) {
        fits = false;
        for (int o = 0; o < n->nin && !fits; o++) {
          int leaf = made[o] < 0 || (o != k && !turned) ? -1 : y->v[made[o]].leaf;
          if (leaf < 0) continue;
          int want = w->program_input[n->in[k]];
          fits = want >= 0 ? pl->m->dev[leaf].input == want : leaf == w->device[n->in[k]];
        }
      }
      mask has;
      const struct value *made_of = &y->v[w->owner[t][d]];
      if (!fits || !value_saveable(pl->m->s, y, made_of, &has)) continue;
      for (int e = pl->nfixed; e < pl->ndev; e++) {
        if (pl->m->dev[e].has != has || pl->m->dev[e].hash != made_of->hash) continue;
        w->device[n->out] = e;
        if (walk_kernel(w, i + 1)) return true;
      }
    }
  }
  return lost(w, i, 0, op_rows[n->op].name, "as a kernel of its own it makes nothing that the search leaves in device memory");
}

static bool walk_output(struct walk *w, int i)
{
  const struct planner *pl = w->pl;
  int d = w->device[w->g->nodes[i].in[0]], o = number_of(w->g, i, OP_OUTPUT), first = pl->nfixed + pl->ncut;
  const struct device *want = &pl->m->dev[first + o];
  if (d >= 0 && first + o < pl->ndev && pl->m->dev[d].has == want->has && pl->m->dev[d].hash == want->hash) return walk_kernel(w, i + 1);
  return lost(w, i, 0, "output", "it is not the program's");
}

static bool walk_kernel(struct walk *w, int i)
{
  if (i == w->g->nnodes) return true;
  const struct node *n = &w->g->nodes[i];
  if (n->op == OP_INPUT || n->op == OP_CONST) return walk_kernel(w, i + 1);
  if (n->op == OP_OUTPUT) return walk_output(w, i);
  if (op_rows[n->op].rule == RULE_VIEW) return w->device[n->out] = w->device[n->in[0]], walk_kernel(w, i + 1);
  return n->sub ? walk_schedules(w, i, n->sub) : walk_library(w, i);
}

bool space_covers(struct arena *mem, const struct planner *pl, struct worker *const *by, const struct graph *g, char *why, size_t room)
{
  const struct graph *p = pl->m->s->p;
  int nin = graph_inputs(p, NULL), *in = NEWS(mem, int, nin + 1), *mine = NEWS(mem, int, nin + 1), kernels = graph_ops(g);
  if (graph_inputs(g, NULL) != nin || graph_outputs(g, NULL) != graph_outputs(p, NULL))
    return snprintf(why, room, "it has other inputs or outputs than the program"), false;
  graph_inputs(p, in), graph_inputs(g, mine);
  int *program_input = NEWS(mem, int, g->ntensors + 1), *device = NEWS(mem, int, g->ntensors + 1);
  for (int t = 0; t < g->ntensors; t++) program_input[t] = device[t] = -1;
  for (int i = 0; i < nin; i++) program_input[mine[i]] = in[i];
  bool *viewed = NEWS(mem, bool, g->ntensors + 1);
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (op_rows[n->op].rule == RULE_VIEW) program_input[n->out] = program_input[n->in[0]], viewed[n->out] = true;
  }
  struct walk w = {pl, by, g, program_input, viewed, device, NEWS(mem, int *, pl->ntables), 0, 0, why, room};
  for (int t = 0; t < pl->ntables; t++) {
    w.owner[t] = NEWS(mem, int, pl->tables[t].nd + 1);
    for (int v = 0; v < pl->tables[t].n; v++)
      for (int d = pl->tables[t].v[v].der; d >= 0; d = pl->tables[t].d[d].next) w.owner[t][d] = v;
  }
  if (kernels > pl->o->max_kernel_ops) return snprintf(why, room, "it has %d kernels, more than --max-kernel-ops", kernels), false;
  *why = 0;
  return walk_kernel(&w, 0);
}
