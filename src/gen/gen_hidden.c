// Skips iterations of a block's for-loop in which a condition on indices masks everything. The condition is `index < n`, where n is an input of at
// least 1 and the index takes all values 0 .. N - 1 in the loop. So at least one iteration is not masked. A masked score is the dtype's lowest
// number, so its exponential is 0 relative to that of any score that is not masked (docs/theory.md). A masked iteration therefore adds 0 to sums and
// leaves maxima unchanged.
#include "gen/emit.h"

// Values of a tensor in a masked iteration.
enum hiding_class { ANYTHING, CONDITION, ZERO, ONE, LOW, TOP };

struct hiding {
  const struct graph *g;
  const enum hiding_class *from; // classes of the tensors that a thread graph's iterators load; NULL: a block graph
  enum hiding_class *of;         // for each tensor
  int condition;                 // the comparison node of a block graph
  bool changes;                  // an iteration would change an accumulator
};

static bool is_row(const struct graph *g, int t, int *dim)
{
  const struct shape *s = &g->tensors[t].shape;
  *dim = -1;
  for (int d = 0; d < s->n; d++)
    if (s->d[d] == shape_size(s)) *dim = d;
  return *dim >= 0;
}

// Whether the tile takes each value 0 .. N - 1 once over the iterations of a block.
static bool counts(const struct graph *g, int t)
{
  const struct tensor *x = &g->tensors[t];
  const struct node *n = &g->nodes[x->node];
  int dim;
  if (n->op != OP_ITER || !x->whole || !x->range.distinct || x->range.least || !is_row(g, t, &dim) || n->a.fmap[0] != dim) return false;
  for (int i = 0; i < g->ngrid; i++)
    if (n->a.imap[i] != REPLICA) return false;
  return x->range.most + 1 == x->shape.d[dim] * g->loop[0];
}

static bool is_condition(const struct graph *g, const struct node *n)
{
  if (n->op != OP_LESS) return false;
  const struct tensor *most = &g->tensors[n->in[1]];
  const bool one =
      g->nodes[most->node].op == OP_ITER && shape_size(&most->shape) == 1 && most->phase == FIXED && most->whole && most->range.least >= 1;
  return one && counts(g, n->in[0]);
}

// Whether n's number is at most the lowest number of its dtype, which masks a score.
static bool is_low(const struct graph *g, const struct node *n) { return n->a.scalar <= dtype_low(g->tensors[n->out].dtype); }

static enum hiding_class of_map(const struct hiding *h, const struct node *n)
{
  const enum hiding_class x = h->of[n->in[0]], y = n->nin > 1 ? h->of[n->in[1]] : ANYTHING;
  const bool zero = x == ZERO || x == CONDITION || y == ZERO || y == CONDITION;
  if (n->op == OP_KEEP && y == CONDITION) return is_low(h->g, n) ? LOW : ANYTHING;
  if (n->op == OP_MASK || n->op == OP_MUL) return zero ? ZERO : ANYTHING;
  if (n->op == OP_DIV) return x == ZERO ? ZERO : ANYTHING;
  if (n->op == OP_MAXIMUM) return x == LOW && y == LOW ? LOW : ANYTHING;
  if (n->op == OP_SUB && x == LOW) return y == TOP ? LOW : ANYTHING;
  if (n->op == OP_EXP) return x == LOW ? ZERO : x == ZERO ? ONE : ANYTHING;
  bool all = op_rows[n->op].flags & KEEPS_ZERO;
  for (int k = 0; k < n->nin; k++) all &= h->of[n->in[k]] == ZERO;
  return all ? ZERO : ANYTHING;
}

static enum hiding_class of_fold(const struct hiding *h, const struct node *n)
{
  const enum hiding_class x = h->of[n->in[0]];
  if (n->op == OP_MAX) return x == LOW || x == ZERO ? x : ANYTHING;
  if (op_rows[n->op].rule == RULE_CONTRACT) return x == ZERO || h->of[n->in[1]] == ZERO ? ZERO : ANYTHING;
  return x == ZERO && op_rows[n->op].flags & ADDITIVE ? ZERO : ANYTHING;
}

// An accumulator over the iterations of the block.
static void accumulate(struct hiding *h, const struct node *n)
{
  const enum hiding_class x = h->of[n->in[0]];
  bool joins = false;
  for (int i = 0; i < h->g->nloop && op_rows[n->op].attrs & A_FMAP; i++) joins |= n->a.fmap[i] != REPLICA;
  if (n->op == OP_ACCUM_MAX)
    h->changes |= x != LOW, h->of[n->out] = TOP, h->of[n->out + 1] = ZERO;
  else
    h->changes |= x != ZERO || joins || (op_rows[n->op].flags & RESCALES && h->of[n->in[1]] != ONE);
}

// An accumulator within one iteration, over the iterations of the thread graph.
static void accumulate_inside(struct hiding *h, const struct node *n)
{
  const enum hiding_class x = h->of[n->in[0]];
  bool joins = op_rows[n->op].attrs & A_FMAP;
  for (int i = 0; i < h->g->nloop && joins; i++) joins = n->a.fmap[i] != REPLICA;
  for (int k = 0; k < n->nout; k++) h->of[n->out + k] = ANYTHING;
  if (n->op == OP_ACCUM && (joins || x == ZERO)) h->of[n->out] = x;
}

static void walk(struct hiding *h);

static void nested(struct hiding *h, const struct node *n)
{
  struct arena tmp = {0};
  enum hiding_class *from = NEWS(&tmp, enum hiding_class, n->nin + 1);
  for (int k = 0; k < n->nin; k++) from[k] = h->of[n->in[k]];
  struct hiding sub = {.g = n->sub, .from = from, .of = NEWS(&tmp, enum hiding_class, n->sub->ntensors + 1), .condition = -1};
  walk(&sub);
  for (int i = 0, k = 0; i < n->sub->nnodes; i++)
    if (n->sub->nodes[i].op == OP_SAVE) h->of[n->out + k++] = sub.of[n->sub->nodes[i].in[0]];
  arena_close(&tmp);
}

static void walk(struct hiding *h)
{
  int iterator = 0;
  for (int i = 0; i < h->g->nnodes; i++) {
    const struct node *n = &h->g->nodes[i];
    switch (op_rows[n->op].rule) {
    case RULE_IO:
      if (n->op == OP_ITER && h->from) h->of[n->out] = h->from[iterator++];
      break;
    case RULE_CONST: h->of[n->out] = is_low(h->g, n) ? LOW : ANYTHING; break;
    case RULE_MAP:
      h->of[n->out] = h->condition < 0 && !h->from && is_condition(h->g, n) ? CONDITION : of_map(h, n);
      if (h->of[n->out] == CONDITION) h->condition = i;
      break;
    case RULE_REDUCE:
    case RULE_CONTRACT: h->of[n->out] = of_fold(h, n); break;
    case RULE_VIEW: h->of[n->out] = h->of[n->in[0]]; break;
    case RULE_ACCUM: (h->from ? accumulate_inside : accumulate)(h, n); break;
    case RULE_GRAPH: nested(h, n); break;
    case RULE_INDEX:
    case RULE_AT:
    case RULE_CONCAT:
    case RULE_SPLIT:
    case RULE_WORLD:
    case RULE_COMPOSITE: break;
    }
  }
}

// Whether a C expression can read the tile in place.
static bool readable(const struct block *b, int t)
{
  const struct place *p = &b->place[t];
  return p->kind == PLACE_VIEW && (p->v.dtype == F32 || p->v.dtype == I32);
}

int hidden_condition(const struct graph *g)
{
  struct arena tmp = {0};
  struct hiding h = {.g = g, .of = NEWS(&tmp, enum hiding_class, g->ntensors + 1), .condition = -1};
  if (g->nloop == 1 && g->loop[0] > 1) walk(&h);
  arena_close(&tmp);
  return h.changes ? -1 : h.condition;
}

void hidden_print(struct block *b, int node, int condition)
{
  const struct node *n = condition < 0 ? NULL : &b->g->nodes[condition];
  struct str *s = &b->text[INSIDE];
  int dim, depth = depth_of(b, INSIDE);
  if (!n || node != MAX(b->g->tensors[n->in[0]].node, b->g->tensors[n->in[1]].node)) return;
  if (!readable(b, n->in[0]) || !readable(b, n->in[1]) || !is_row(b->g, n->in[0], &dim)) return;
  const struct view *x = &b->place[n->in[0]].v, *y = &b->place[n->in[1]].v;
  line(s, depth, "// masked iterations add nothing: %s", node_text(b->mem, b->g, n));
  line(s, depth, "if (l0 > 0) {");
  line(s, depth + 1, "ptrdiff_t h = 0;");
  line(s, depth + 1, "while (h < %lld && !((float)(%s)[h * %lld] < (float)(%s)[0])) h++;", (long long)x->shape.d[dim], x->ptr,
       (long long)x->stride[dim], y->ptr);
  line(s, depth + 1, "if (h == %lld) continue;", (long long)x->shape.d[dim]);
  line(s, depth, "}");
}
