// A THREAD node as loop nests over whole tiles. The division of tiles among its threads changes no value. Elementwise operators are the same on parts
// and on the whole. A reduction along a dimension that threads divide leaves one partial result for each part, which is a grouped reduction of the
// whole. The accumulators of a thread graph join the parts, or add up partial results. A value that is read again after a reduction ends a nest; the
// next nest reads it as a tile.
#include "gen/emit.h"

struct fusion_part { // a tensor of the thread graph as a whole tile
  struct shape whole;
  enum { UNMADE, LOADED, VALUE, FOLDED } kind;
  int value, root; // root: the tensor whose memory it shares
  int outer;       // the block's tensor that it represents, or -1
  int nest;        // the last nest that loaded it as a value
  struct place at;
};

struct fusion {
  struct block *b;
  const struct node *node;
  const struct graph *g;
  enum stage st;
  struct fusion_part *part;
  bool open;
  int nest; // number of f, from 1
  struct nest f;
};

// Number of parts into which the threads divide dimension `dim` of sub-tensor t.
static int64_t parts_of(const struct fusion *u, int t, int dim) { return u->part[t].whole.d[dim] / u->g->tensors[t].shape.d[dim]; }

static int root(const struct fusion *u, int t) { return u->part[t].root; }

// Whether the operator computes a value. Savers and accumulators pass it on.
static bool computes(const struct node *n) { return op_rows[n->op].rule == RULE_MAP || op_rows[n->op].rule == RULE_REDUCE; }

static bool needed_later(const struct fusion *u, int t, int from)
{
  for (int i = from; i < u->g->nnodes; i++)
    for (int k = 0; k < u->g->nodes[i].nin; k++)
      if (root(u, u->g->nodes[i].in[k]) == t && computes(&u->g->nodes[i])) return true;
  return false;
}

// The accumulator that adds up the parts of a reduction along the loop's dimension.
static const struct node *adder(const struct fusion *u, const struct node *reduce)
{
  const struct node *found = NULL;
  int readers = 0;
  for (int i = 0; i < u->g->nnodes; i++)
    for (int k = 0; k < u->g->nodes[i].nin; k++)
      if (u->g->nodes[i].in[k] == reduce->out) found = &u->g->nodes[i], readers++;
  bool adds = readers == 1 && found->op == OP_ACCUM && reduce->op == OP_SUM && u->g->nloop == 1 && found->a.fmap[0] == REPLICA;
  return adds && parts_of(u, reduce->in[0], reduce->a.dim) == u->g->loop[0] ? found : NULL;
}

static int outer_of(const struct fusion *u, int t, int from)
{
  int saver = 0;
  for (int i = 0; i < u->g->nnodes; i++) {
    if (u->g->nodes[i].op != OP_SAVE) continue;
    if (root(u, u->g->nodes[i].in[0]) == t && saver >= from) return u->node->out + saver;
    saver++;
  }
  return -1;
}

static struct view tile_of(struct fusion *u, int t)
{
  struct block *b = u->b;
  struct fusion_part *p = &u->part[t];
  const char *name = name_of(b->mem, arena_printf(b->mem, "u%d_", u->node->out), t, u->g->tensors[t].name);
  struct view v = tile_new(b, name, &p->whole, u->st, false);
  p->at = (struct place){PLACE_VIEW, false, 0, v};
  return v;
}

// Ends the nest. Values that are still needed become tiles.
static void flush(struct fusion *u, int next)
{
  if (!u->open) return;
  for (int t = 0; t < u->g->ntensors; t++) {
    struct fusion_part *p = &u->part[t];
    if (p->kind == VALUE && needed_later(u, t, next)) {
      struct view v = tile_of(u, t);
      nest_store(&u->f, p->value, &v, false);
      p->kind = LOADED;
    } else if (p->kind == VALUE) {
      p->kind = UNMADE;
    } else if (p->kind == FOLDED) {
      p->kind = LOADED;
    }
  }
  group_finish(u->b, &u->f, u->st);
  u->open = false;
}

// The largest space among the operators that can join a nest starting at node i.
static struct shape space_from(const struct fusion *u, int i)
{
  struct shape s = {0}, both;
  bool *folded = NEWS(u->b->mem, bool, u->g->ntensors + 1);
  for (; i < u->g->nnodes; i++) {
    const struct node *n = &u->g->nodes[i];
    if (!computes(n)) continue;
    for (int k = 0; k < n->nin; k++)
      if (folded[root(u, n->in[k])]) return s;
    const struct shape *own = &u->part[op_rows[n->op].rule == RULE_MAP ? n->out : n->in[0]].whole;
    if (op_rows[n->op].rule == RULE_REDUCE) folded[n->out] = true;
    if (!shape_broadcast(&s, own, &both)) return s;
    if (shape_size(&both) != MAX(shape_size(&s), shape_size(own))) return s; // neither space contains the other
    s = both;
  }
  return s;
}

static bool fits(const struct fusion *u, const struct shape *own, bool exact)
{
  struct shape both;
  if (exact) return shape_eq(own, &u->f.space);
  return shape_broadcast(own, &u->f.space, &both) && shape_eq(&both, &u->f.space);
}

static void begin(struct fusion *u, int i, const struct shape *own, bool exact)
{
  bool folded = false;
  const struct node *n = &u->g->nodes[i];
  for (int k = 0; k < n->nin; k++) folded |= u->part[root(u, n->in[k])].kind == FOLDED;
  if (u->open && (folded || !fits(u, own, exact))) flush(u, i);
  if (u->open) return;
  struct shape s = space_from(u, i);
  u->f = nest_new(u->b->mem, &s);
  if (!fits(u, own, exact)) u->f = nest_new(u->b->mem, own);
  u->open = true, u->nest++;
}

static int load(struct fusion *u, int t)
{
  struct fusion_part *p = &u->part[root(u, t)];
  if (p->kind == VALUE) return p->value;
  CHECK(p->kind == LOADED);
  if (p->nest == u->nest) return p->value;
  p->nest = u->nest;
  if (p->outer >= 0) return p->value = tile_load(u->b, &u->f, p->outer, u->st);
  if (p->at.kind == PLACE_CONST) return p->value = nest_const(&u->f, p->at.c);
  tile_use(u->b, &p->at.v, u->st);
  return p->value = nest_load(&u->f, &p->at.v);
}

static void deliver(struct fusion *u, int t, int value, const struct folded *how, int i)
{
  bool placed = false;
  for (int saver = 0, outer; (outer = outer_of(u, t, saver)) >= 0; saver = outer - u->node->out + 1) {
    group_sinks(u->b, &u->f, outer, value, how, u->st);
    const struct place *at = &u->b->place[outer];
    if (at->kind == PLACE_VIEW) u->part[t].at = *at, placed = true;
  }
  if (how->fold == FOLD_NONE || placed || !needed_later(u, t, i + 1)) return;
  struct view v = tile_of(u, t);
  CHECK(nest_fold(&u->f, value, &v, how->fold, how->dim, how->group, false, how->scale));
}

static int add_map(struct fusion *u, int i)
{
  const struct node *n = &u->g->nodes[i];
  begin(u, i, &u->part[n->out].whole, false);
  int x = load(u, n->in[0]), y = n->nin > 1 ? load(u, n->in[1]) : -1;
  struct folded how = {FOLD_NONE};
  int v = nest_op(&u->f, n->op, &n->a, x, y);
  u->part[n->out].kind = VALUE, u->part[n->out].value = v;
  deliver(u, n->out, v, &how, i);
  return OK;
}

static struct folded fold_in(const struct fusion *u, const struct node *n)
{
  int64_t extent = u->g->tensors[n->in[0]].shape.d[n->a.dim];
  int64_t group = (op_rows[n->op].attrs & A_GROUP) && n->a.group ? n->a.group : extent;
  if (adder(u, n)) group = u->part[n->in[0]].whole.d[n->a.dim];
  return (struct folded){fold_by(n->op), n->a.dim, group, op_rows[n->op].flags & MEAN ? 1.0 / (double)group : 1};
}

static int add_reduce(struct fusion *u, int i)
{
  const struct node *n = &u->g->nodes[i];
  struct folded how = fold_in(u, n);
  begin(u, i, &u->part[n->in[0]].whole, true);
  if (!nest_can_fold(&u->f, how.dim, how.group)) flush(u, i), begin(u, i, &u->part[n->in[0]].whole, true);
  int x = load(u, n->in[0]);
  u->part[n->out].kind = FOLDED;
  deliver(u, n->out, x, &how, i);
  return OK;
}

// Whether the accumulator only joins parts, or adds up what a grouped reduction already does.
static bool joins(const struct fusion *u, const struct node *n)
{
  const struct node *from = &u->g->nodes[u->g->tensors[n->in[0]].node];
  if (op_rows[from->op].rule == RULE_REDUCE && adder(u, from) == n) return true;
  for (int i = 0; i < u->g->nloop; i++) {
    if (u->g->loop[i] == 1) continue;
    int dim = n->a.fmap[i];
    if (dim == REPLICA || parts_of(u, n->in[0], dim) % u->g->loop[i]) return false;
  }
  return true;
}

// Computes the shapes of whole tiles, starting at the iterators.
static int wholes(struct fusion *u, struct err *e)
{
  int iter = 0;
  for (int i = 0; i < u->g->nnodes; i++) {
    const struct node *n = &u->g->nodes[i];
    struct fusion_part *out = &u->part[n->out];
    enum rule r = op_rows[n->op].rule;
    for (int k = 0; k < n->nout; k++) u->part[n->out + k].root = n->out + k, u->part[n->out + k].outer = -1;
    if (n->op == OP_ITER) {
      out->whole = u->b->g->tensors[u->node->in[iter++]].shape;
    } else if (r == RULE_MAP) {
      out->whole = u->part[n->in[0]].whole;
      for (int k = 1; k < n->nin; k++) CHECK(shape_broadcast(&out->whole, &u->part[n->in[k]].whole, &out->whole));
    } else if (r == RULE_REDUCE) {
      out->whole = u->part[n->in[0]].whole;
      int d = n->a.dim;
      out->whole.d[d] = adder(u, n) ? 1 : u->g->tensors[n->out].shape.d[d] * parts_of(u, n->in[0], d);
    } else if (n->op == OP_ACCUM && joins(u, n)) {
      out->whole = u->part[n->in[0]].whole, out->root = root(u, n->in[0]);
    } else if (n->op != OP_SAVE && n->op != OP_CONST) {
      return err_set(e, ERR_TARGET, n->at, "%s in a thread graph is not generated for the cpu", op_rows[n->op].name);
    }
  }
  return OK;
}

int group_thread(struct block *b, int node)
{
  const struct node *n = &b->g->nodes[node];
  struct fusion u = {b, n, n->sub, stage_of(b, n->out)};
  u.part = NEWS(b->mem, struct fusion_part, n->sub->ntensors + 1);
  int s = wholes(&u, b->e), iter = 0;
  for (int i = 0; i < n->sub->nnodes && !s; i++) {
    const struct node *k = &n->sub->nodes[i];
    struct fusion_part *out = &u.part[k->out];
    enum rule r = op_rows[k->op].rule;
    if (computes(k)) line(&b->text[u.st], depth_of(b, u.st), "//   %s", node_text(b->mem, n->sub, k));
    if (k->op == OP_ITER)
      out->kind = LOADED, out->outer = n->in[iter++];
    else if (k->op == OP_CONST)
      out->kind = LOADED, out->at = (struct place){PLACE_CONST, false, k->a.scalar};
    else if (r == RULE_MAP)
      s = add_map(&u, i);
    else if (r == RULE_REDUCE)
      s = add_reduce(&u, i);
  }
  if (!s) flush(&u, n->sub->nnodes);
  return s;
}
