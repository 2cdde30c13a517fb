// One block graph of a given kernel graph under one schedule, operator by operator.
#include "search/covers.h"

enum { MOST_STEPS = 4000000 };

static const struct table *table_of(const struct inside *x) { return &x->w->pl->tables[x->table]; }

// ---- one operator -------------------------------------------------------------------------------------------------

static bool go_on(struct inside *x, int k, int tensor, int value)
{
  x->value[tensor] = value;
  return cover_block(x, k + 1);
}

// Whether derivations are kept for one order of the operands only. For a product, the classes determine the left factor.
bool cover_turnable(enum op op) { return op == OP_MATMUL || (op_rows[op].flags & COMMUTES); }

// Whether a derivation has the constant (a limit, a scalar) of node n.
bool cover_same_constants(const struct table *t, const struct deriv *d, const struct node *n)
{
  if (d->attrs < 0 || n->op != d->op) return true;
  return attrs_reals_same(&t->voc->i[d->attrs].a, &n->a);
}

// Continues the match with every value that `op` makes of a (and b).
static bool try_derivations(struct inside *x, int k, enum op op, int a, int b, int tensor, bool *any)
{
  const struct table *t = table_of(x);
  const int *owner = x->w->owner[x->table];
  bool turns = cover_turnable(op);
  for (int d = 0; d < t->nd; d++) {
    const struct deriv *y = &t->d[d];
    if (y->op != op || !((y->a == a && y->b == b) || (turns && y->a == b && y->b == a)) || !cover_same_constants(t, y, &x->b->nodes[k])) continue;
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

static const char not_made[] = "the search makes no such value";

static bool walk_map(struct inside *x, int k, const struct node *n)
{
  int a = x->value[n->in[0]], b = n->nin > 1 ? x->value[n->in[1]] : -1;
  bool any = false;
  if (try_derivations(x, k, n->op, a, b, n->out, &any)) return true;
  return cover_lost(x->w, x->node, k, op_rows[n->op].name, any ? "leads nowhere" : not_made);
}

// Matches a root mean square, for each class that it may reduce.
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

static bool has_unit(const struct shape *s)
{
  bool any = false;
  for (int i = 0; i < s->n; i++) any |= s->d[i] == 1;
  return any;
}

// Matches a reduction of value a, or an accumulator. Either graph may omit sums of extent 1 and partial sums.
static bool walk_fold(struct inside *x, int k, const struct node *n, enum op op, int a)
{
  bool any = false;
  const struct shape *from = &x->b->tensors[n->in[0]].shape;
  bool viewed = op_rows[x->b->nodes[x->b->tensors[n->in[0]].node].op].rule == RULE_VIEW;
  bool reduces = op_rows[op].rule == RULE_REDUCE || (op_rows[op].flags & REDUCES);
  if (try_derivations(x, k, op, a, -1, n->out, &any)) return true;
  if (reduces && (viewed || from->d[n->a.dim] == 1)) { // partial sums
    if (!x->loop || op_rows[op].rule == RULE_REDUCE) any = true;
    if (!x->loop || op_rows[op].rule == RULE_REDUCE ? go_on(x, k, n->out, a) : try_derivations(x, k, OP_ACCUM, a, -1, n->out, &any)) return true;
  }
  if (op == OP_ACCUM && has_unit(from) && try_derivations(x, k, OP_ACCUM_SUM, a, -1, n->out, &any)) return true;
  if (op == OP_ACCUM_RMS && walk_rms(x, k, n, a)) return true;
  return cover_lost(x->w, x->node, k, op_rows[n->op].name, any ? "leads nowhere" : not_made);
}

// Matches an accumulator of value v in a kernel without a loop.
static bool walk_unlooped(struct inside *x, int k, const struct node *n, int v)
{
  enum op op = op_without_loop(n->op);
  if (op == OP_ACCUM) return go_on(x, k, n->out, v);
  if (op_rows[op].rule == RULE_REDUCE || op == OP_ACCUM_RMS) return walk_fold(x, k, n, op, v);
  return cover_lost(x->w, x->node, k, op_rows[n->op].name, "not an operator that the search tries");
}

// Whether derivation d adds up partial sums v that earlier kernels stored.
static bool sums_parts(const struct table *t, const struct deriv *d, int v)
{
  return d->op == OP_SUM && d->a == v && (t->v[v].has & all_of(d->cls)) == bit(d->cls, GRID);
}

static bool walk_accum(struct inside *x, int k, const struct node *n)
{
  const struct table *t = table_of(x);
  int v = x->value[n->in[0]];
  bool joins = (op_rows[n->op].attrs & A_FMAP) && x->b->nloop && n->a.fmap[0] != REPLICA && graph_iterations(x->b) > 1;
  if (joins) return cover_lost(x->w, x->node, k, op_rows[n->op].name, "loops that only concatenate are outside the space");
  if (x->loop) return walk_fold(x, k, n, n->op, v);
  if (walk_unlooped(x, k, n, v)) return true;
  for (int d = 0; d < t->nd; d++) // the kernels before it may have stored separate parts for each iteration
    if (sums_parts(t, &t->d[d], v) && walk_unlooped(x, k, n, x->w->owner[x->table][d])) return true;
  return false;
}

// ---- iterators and savers -------------------------------------------------------------------------------------------

static bool dim_has(const struct labels *l, int dim, int c)
{
  for (int i = 0; i < l->d[dim].n; i++)
    if (l->d[dim].c[i] == c) return true;
  return false;
}

// Whether one axis, over piece `piece` of class c, may partition the tensor that v is loaded from as the map requires. The order of the dimensions of
// a tensor that is not in the program is not fixed.
static bool cuts(const struct search_walk *w, const struct search_value *v, bool open, int dim, int c, enum piece piece)
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
  struct search_walk *w = x->w;
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
  return cover_lost(w, x->node, k, "iterator", "no schedule partitions its tensor like this");
}

// Matches a constant of the program, which blocks contain without an iterator.
static bool walk_const(struct inside *x, int k, const struct node *n)
{
  const struct table *t = table_of(x);
  const struct graph *p = x->w->pl->m->s->p;
  for (int v = 0; v < t->n; v++) {
    const struct device *dev = t->v[v].leaf < 0 ? NULL : &x->w->pl->m->dev[t->v[v].leaf];
    if (!dev || dev->visit < 0) continue;
    const struct node *of = &p->nodes[p->tensors[x->w->pl->m->s->visit[dev->visit].tensor].node];
    if (of->op == OP_CONST && attrs_reals_same(&of->a, &n->a) && go_on(x, k, n->out, v)) return true;
  }
  return cover_lost(x->w, x->node, k, "const", "not a constant of the program");
}

static bool save_value(struct inside *x, int k, int tensor, int v)
{
  const struct planner *pl = x->w->pl;
  mask has;
  if (!value_saveable(pl->m->s, table_of(x), &table_of(x)->v[v], &has)) return false;
  for (int d = pl->nfixed; d < pl->ndev; d++) {
    if (pl->m->dev[d].has != has || pl->m->dev[d].hash != table_of(x)->v[v].hash) continue;
    x->w->device[tensor] = d;
    if (cover_block(x, k + 1)) return true;
  }
  return false;
}

// Matches the stored value itself, or the result of a sum that a later kernel would compute.
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
  return cover_lost(x->w, x->node, k, "saver",
                    "it saves a tensor that the search does not leave for later kernels (whole tensors, or sums over all but the grid's part)");
}

int cover_number(const struct graph *b, int k, enum op op)
{
  int n = 0;
  for (int i = 0; i < k; i++) n += b->nodes[i].op == op;
  return n;
}

static bool reads_earlier(const struct search_walk *w, const struct node *kernel)
{
  for (int i = 0; i < kernel->nin; i++)
    if (w->program_input[kernel->in[i]] < 0) return true;
  return false;
}

// Whether the number of distinct values made by operators is within the limit.
static bool few_enough(const struct inside *x)
{
  const struct table *t = table_of(x);
  const struct planner *pl = x->w->pl;
  struct arena mem = {0};
  bool *seen = NEWS(&mem, bool, t->n + 1);
  int n = 0;
  for (int i = 0; i < x->b->nnodes; i++) {
    enum rule rule = op_rows[x->b->nodes[i].op].rule;
    int v = x->value[x->b->nodes[i].out];
    if (rule == RULE_IO || rule == RULE_CONST || rule == RULE_INDEX || rule == RULE_VIEW || t->v[v].leaf >= 0) continue;
    n += !seen[v], seen[v] = true;
  }
  arena_close(&mem);
  return n <= (reads_earlier(x->w, &x->w->g->nodes[x->node]) ? pl->later_ops : pl->o->max_block_ops);
}

bool cover_block(struct inside *x, int k)
{
  if (x->w->steps++ > MOST_STEPS) return cover_lost(x->w, x->node, k, "block graph", "too many ways to match it");
  if (k == x->b->nnodes && !few_enough(x)) return cover_lost(x->w, x->node, k, "block graph", "more operators than --max-block-ops");
  if (k == x->b->nnodes) return cover_kernel(x->w, x->node + 1);
  const struct node *n = &x->b->nodes[k];
  switch (op_rows[n->op].rule) {
  case RULE_IO: return n->op == OP_ITER ? walk_iter(x, k, cover_number(x->b, k, OP_ITER)) : walk_save(x, k, cover_number(x->b, k, OP_SAVE));
  case RULE_MAP:
  case RULE_CONTRACT: return walk_map(x, k, n);
  case RULE_REDUCE: return walk_fold(x, k, n, n->op, x->value[n->in[0]]);
  case RULE_ACCUM: return walk_accum(x, k, n);
  case RULE_VIEW: return go_on(x, k, n->out, x->value[n->in[0]]);
  case RULE_CONST: return walk_const(x, k, n);
  case RULE_AT:
  case RULE_INDEX:
  case RULE_CONCAT:
  case RULE_SPLIT:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_GRAPH: break;
  }
  return cover_lost(x->w, x->node, k, op_rows[n->op].name, "not an operator that the search tries in blocks");
}
