// Bounds for every tensor of a graph, in order. The rows of op.def define the operators. Block and thread graphs are entered as the interpreter
// enters them.
#include "verify/law_size.h"
#include "verify/value.h"

#include <math.h>

struct size_walk {
  struct arena *mem;
  struct bounder *b;
  const struct graph *g;
  struct value *v; // a tensor
  double times;    // number of evaluations of the graph in one test
};

static const unsigned DIM_BITS = (1u << MAX_DIMS) - 1;

static const struct shape *shape(const struct size_walk *w, int t) { return &w->g->tensors[t].shape; }

static int loop_bit(const struct graph *g, int axis) { return LOOP_BIT + MAX_LOOPS * (g->level == THREAD) + axis; }

// Dimension i of the argument becomes bit to[i] of the result.
static struct value moved(const struct value *x, int n, const int *to)
{
  struct value r = *x;
  for (int i = 0; i < r.ndens + r.nroots; i++) {
    unsigned *m = i < r.ndens ? &r.den[i].mask : &r.root[i - r.ndens].mask, out = *m & ~DIM_BITS;
    for (int d = 0; d < n; d++)
      if (*m >> d & 1) out |= 1u << to[d];
    *m = out;
  }
  return r;
}

// Elements were moved, so the denominator at one position differs from the argument's.
static struct value renamed(const struct size_walk *w, struct value x)
{
  x.id = 0;
  for (int i = 0; i < x.ndens; i++)
    if (x.den[i].mask) x.den[i].id = ++w->b->ids;
  for (int i = 0; i < x.nroots; i++)
    if (x.root[i].mask) x.root[i].id = ++w->b->ids;
  return x;
}

// Argument x of an elementwise operator with result t, with its dimensions aligned to t.
static struct value aligned(const struct size_walk *w, int x, int t)
{
  int to[MAX_DIMS], shift = shape(w, t)->n - shape(w, x)->n;
  for (int i = 0; i < MAX_DIMS; i++) to[i] = MAX(0, MIN(i + shift, MAX_DIMS - 1));
  return moved(&w->v[x], shape(w, x)->n, to);
}

// Dimensions along which tensor x, aligned with t, may vary.
static unsigned varies(const struct size_walk *w, int x, int t)
{
  unsigned m = 0;
  int shift = shape(w, t)->n - shape(w, x)->n;
  for (int i = 0; i < shape(w, x)->n; i++)
    if (shape(w, x)->d[i] > 1) m |= 1u << MAX(0, i + shift);
  enum phase p = w->g->tensors[x].phase;
  for (int l = 0; l < w->g->nloop && (p == VARYING || p == RUN); l++) m |= 1u << loop_bit(w->g, l);
  // a thread graph's tensors vary with the loop of the enclosing block
  for (int l = 0; l < MAX_LOOPS && w->g->level == THREAD; l++) m |= 1u << (LOOP_BIT + l);
  return m;
}

static double applications(const struct size_walk *w, int t) { return w->times * (double)shape_size(shape(w, t)); }

static struct value opaque(const struct size_walk *w, const struct node *n)
{
  struct value x = aligned(w, n->in[0], n->out);
  if (n->nin > 1) {
    struct value y = aligned(w, n->in[1], n->out);
    x = value_either(w->b, &x, &y);
  }
  return value_opaque(w->b, &x, MAX(applications(w, n->out), applications(w, n->in[0])));
}

// ---- laws: law_size.h ----

static struct value added(const struct size_walk *w, struct value x, struct value y) { return value_add(w->b, &x, &y); }
static struct value multiplied(const struct size_walk *w, struct value x, struct value y) { return value_mul(w->b, &x, &y); }
static struct value divided(const struct size_walk *w, struct value x, struct value y, unsigned mask) { return value_div(w->b, &x, &y, mask); }
static struct value exponential(const struct size_walk *w, struct value x) { return value_exp(w->b, &x); }
static struct value root(const struct size_walk *w, struct value x, unsigned mask) { return value_sqrt(w->b, &x, mask); }

// The bound on one of x and y, or on an unknown function of them.
static struct value either(const struct size_walk *w, const struct node *n, struct value x, struct value y, bool maximum)
{
  struct value r = value_either(w->b, &x, &y);
  if (maximum) w->b->out->maxima = true;
  return value_opaque(w->b, &r, MAX(applications(w, n->out), applications(w, n->in[0])));
}

// The bound on a sum or difference of f(x) and f(-x), for an unknown function f.
static struct value of_both_signs(const struct size_walk *w, const struct node *n, struct value x)
{
  struct value r = value_opaque(w->b, &x, 2 * MAX(applications(w, n->out), applications(w, n->in[0])));
  return value_add(w->b, &r, &r);
}

static struct value by_law(const struct size_walk *w, const struct node *n, struct value x, struct value y, unsigned mask)
{
  const struct value r = x;
  ATTR_LOCALS(&n->a);
  (void)r, (void)y;
  switch (n->op) {
#define OP(id, name, least, most, rule, levels, attrs, flags, code, law, abstract, range, cost, doc) \
  case OP_##id:                                                                                      \
    return law;
#include "ir/op.def"
#undef OP
  case OPS: break;
  }
  return x;
}

static struct value elementwise(const struct size_walk *w, const struct node *n)
{
  enum abstract how = op_rows[n->op].abstract;
  struct value one = value_atom(0), x = aligned(w, n->in[0], n->out), r;
  unsigned mask = varies(w, n->in[0], n->out);
  if (how == AE_SCALE || how == AE_NEG) return x;
  if (how == AE_SHIFT) return value_add(w->b, &x, &one);
  if (how == AE_EXP) return value_exp(w->b, &x);
  if (how == AE_SQUARE) return value_mul(w->b, &x, &x);
  if (how == AE_SQRT) return value_sqrt(w->b, &x, mask);
  if (how == AE_RSQRT) {
    r = value_sqrt(w->b, &x, mask);
    r.id = -x.id;
    return value_div(w->b, &one, &r, mask);
  }
  if (how == AE_DEFINED) return by_law(w, n, x, n->nin > 1 ? aligned(w, n->in[1], n->out) : x, mask);
  if (how == AE_EWMAX || how == AE_EWMIN) w->b->out->maxima = true;
  if (n->nin < 2 || how == AE_OPAQUE || how == AE_EWMAX || how == AE_EWMIN) return opaque(w, n);
  struct value y = aligned(w, n->in[1], n->out);
  if (how == AE_ADD || how == AE_SUB) return value_add(w->b, &x, &y);
  if (how == AE_MUL) return value_mul(w->b, &x, &y);
  return value_div(w->b, &x, &y, varies(w, n->in[1], n->out));
}

static struct value product(const struct size_walk *w, int x, int y, int t)
{
  int rx = shape(w, x)->n, ry = shape(w, y)->n, r = shape(w, t)->n, tx[MAX_DIMS], ty[MAX_DIMS];
  for (int i = 0; i < rx; i++) tx[i] = i == rx - 1 ? CONTRACTED_BIT : r - rx + i;
  for (int i = 0; i < ry; i++) ty[i] = i == ry - 2 ? CONTRACTED_BIT : r - ry + i;
  struct value u = moved(&w->v[x], rx, tx), v = moved(&w->v[y], ry, ty), p = value_mul(w->b, &u, &v);
  return value_sum(w->b, &p, CONTRACTED_BIT, (double)shape(w, x)->d[rx - 1], false);
}

static struct value contraction(const struct size_walk *w, const struct node *n)
{
  struct value p = product(w, n->in[0], n->in[n->nin / 2], n->out);
  if (n->nin == 2) return p;
  struct value q = product(w, n->in[1], n->in[3], n->out);
  return value_add(w->b, &p, &q);
}

static struct value reduced(const struct size_walk *w, const struct node *n, const struct value *x)
{
  int dim = n->a.dim;
  double from = (double)shape(w, n->in[0])->d[dim], to = (double)shape(w, n->out)->d[dim];
  return value_sum(w->b, x, dim, from / to, to > 1);
}

static struct value product_along(const struct size_walk *w, const struct node *n)
{
  struct value x = w->v[n->in[0]];
  if ((x.ndens || x.nroots) && !w->b->out->gap) w->b->out->gap = "a product along a dimension of fractions or roots";
  x.id = 0, x.num = size_power(x.num, (double)shape(w, n->in[0])->d[n->a.dim]);
  return x;
}

static struct value reduction(const struct size_walk *w, const struct node *n)
{
  if (op_rows[n->op].abstract == AE_PROD) return product_along(w, n);
  if (op_rows[n->op].abstract != AE_MAX) return reduced(w, n, &w->v[n->in[0]]);
  w->b->out->maxima = true;
  return opaque(w, n);
}

static struct value view(const struct size_walk *w, const struct node *n)
{
  const struct value *x = &w->v[n->in[0]];
  int r = shape(w, n->in[0])->n, to[MAX_DIMS];
  if (n->op == OP_TRANSPOSE) {
    for (int d = 0; d < r; d++) to[n->a.perm.n ? (int)n->a.perm.d[d] : d < r - 2 ? d : 2 * r - 3 - d] = d;
    return moved(x, r, to);
  }
  if (n->op != OP_RESHAPE) return *x;
  struct value v = *x; // dimensions are mixed: a value that varies along one may vary along all
  for (int i = 0; i < v.ndens; i++) v.den[i].mask |= v.den[i].mask & DIM_BITS ? DIM_BITS : 0;
  for (int i = 0; i < v.nroots; i++) v.root[i].mask |= v.root[i].mask & DIM_BITS ? DIM_BITS : 0;
  return v;
}

static struct value concat(const struct size_walk *w, const struct node *n)
{
  struct value r = w->v[n->in[0]];
  for (int i = 1; i < n->nin; i++) r = value_either(w->b, &r, &w->v[n->in[i]]);
  return r;
}

// The sum over the iterations. Along an axis that fmap joins, a value that varies with the axis then varies with the dimension.
static struct value over_loops(const struct size_walk *w, const struct node *n, struct value x)
{
  for (int l = 0; l < w->g->nloop; l++) {
    int bit = loop_bit(w->g, l), dim = op_rows[n->op].attrs & A_FMAP ? n->a.fmap[l] : REPLICA;
    if (dim == REPLICA) {
      x = value_sum(w->b, &x, bit, (double)w->g->loop[l], false);
      continue;
    }
    for (int i = 0; i < x.ndens + x.nroots; i++) {
      unsigned *m = i < x.ndens ? &x.den[i].mask : &x.root[i - x.ndens].mask;
      if (*m >> bit & 1) *m = (*m & ~(1u << bit)) | 1u << dim;
    }
  }
  return x;
}

static struct value accumulator(const struct size_walk *w, const struct node *n)
{
  unsigned flags = op_rows[n->op].flags;
  struct value x = w->v[n->in[0]];
  if (flags & RUNNING) {
    w->b->out->maxima = true;
    return opaque(w, n);
  }
  if (flags & RMS) x = value_mul(w->b, &x, &x);
  if (flags & REDUCES) x = reduced(w, n, &x);
  x = over_loops(w, n, x);
  if (flags & RMS) return value_sqrt(w->b, &x, varies(w, n->out, n->out));
  if (!(flags & RESCALES)) return x;
  struct value f = aligned(w, n->in[1], n->out);
  if (f.ndens && !w->b->out->gap) w->b->out->gap = "an accumulator rescaled by a fraction";
  f.num = size_power(f.num, (double)MAX(1, graph_iterations(w->g) - 1));
  return value_mul(w->b, &x, &f);
}

static void walk_graph(struct size_walk *w, const struct size_walk *above, const int *from);

static void enter(struct size_walk *w, const struct node *n)
{
  struct size_walk sub = {w->mem, w->b, n->sub, NEWS(w->mem, struct value, n->sub->ntensors + 1), w->times};
  sub.times *= (double)(graph_blocks(n->sub) * graph_iterations(n->sub));
  walk_graph(&sub, w, n->in);
  int save = 0;
  for (int i = 0; i < n->sub->nnodes; i++) {
    const struct node *m = &n->sub->nodes[i];
    if (m->op != OP_SAVE) continue;
    struct value v = sub.v[m->in[0]];
    unsigned joined = 0, own = 0;
    for (int x = 0; x < n->sub->ngrid; x++)
      if (m->a.omap[x] != REPLICA) joined |= 1u << m->a.omap[x];
    for (int l = 0; l < MAX_LOOPS; l++) own |= 1u << loop_bit(n->sub, l);
    for (int k = 0; k < v.ndens; k++) v.den[k].mask = (v.den[k].mask & ~own) | joined;
    for (int k = 0; k < v.nroots; k++) v.root[k].mask = (v.root[k].mask & ~own) | joined;
    w->v[n->out + save++] = v;
  }
}

// The tile that an iterator loads. A value that varies along a dimension varies with the loop axes that divide it.
static struct value tile(const struct size_walk *w, const struct node *n, struct value x)
{
  for (int i = 0; i < x.ndens + x.nroots; i++) {
    unsigned *m = i < x.ndens ? &x.den[i].mask : &x.root[i - x.ndens].mask;
    for (int l = 0; l < w->g->nloop; l++)
      if (n->a.fmap[l] != REPLICA && *m >> n->a.fmap[l] & 1) *m |= 1u << loop_bit(w->g, l);
  }
  return x;
}

static struct value value_of(const struct size_walk *w, const struct node *n)
{
  switch (op_rows[n->op].rule) {
  case RULE_MAP: return elementwise(w, n);
  case RULE_CONTRACT: return contraction(w, n);
  case RULE_REDUCE: return reduction(w, n);
  case RULE_VIEW: return renamed(w, view(w, n));
  case RULE_CONCAT: return renamed(w, concat(w, n));
  case RULE_SPLIT: return renamed(w, w->v[n->in[0]]);
  case RULE_ACCUM: return accumulator(w, n);
  case RULE_AT:
  case RULE_IO:
  case RULE_INDEX: return value_atom(1);
  case RULE_CONST:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_GRAPH: break;
  }
  return value_atom(0);
}

static void walk_graph(struct size_walk *w, const struct size_walk *above, const int *from)
{
  int iter = 0;
  for (int i = 0; i < w->g->nnodes; i++) {
    const struct node *n = &w->g->nodes[i];
    if (n->sub) {
      enter(w, n);
    } else if (n->op == OP_ITER) {
      w->v[n->out] = renamed(w, tile(w, n, above->v[from[iter++]]));
    } else if (n->nout) {
      struct value v = value_of(w, n);
      for (int k = 0; k < n->nout; k++) w->v[n->out + k] = k ? renamed(w, v) : v;
    }
    for (int k = 0; k < n->nout; k++)
      if (!w->v[n->out + k].id) w->v[n->out + k].id = ++w->b->ids;
  }
}

static struct value *outputs(struct arena *mem, struct bounder *b, const struct graph *g, int *n)
{
  struct size_walk w = {mem, b, g, NEWS(mem, struct value, g->ntensors + 1), 1};
  walk_graph(&w, NULL, NULL);
  int *outs = NEWS(mem, int, graph_outputs(g, NULL) + 1);
  *n = graph_outputs(g, outs);
  struct value *v = NEWS(mem, struct value, *n + 1);
  for (int i = 0; i < *n; i++) v[i] = w.v[outs[i]];
  return v;
}

struct bound size_pair(const struct graph *a, const struct graph *b)
{
  struct arena mem = {0};
  struct bound r = {.diff = {1, 1, 0}};
  struct bounder walk = {0, &r};
  int n, m;
  const struct value *x = outputs(&mem, &walk, a, &n), *y = outputs(&mem, &walk, b, &m);
  for (int i = 0; i < MIN(n, m); i++) {
    struct size s = size_add(size_mul(x[i].num, value_dens(&y[i])), size_mul(y[i].num, value_dens(&x[i])));
    r.diff = (struct size){MAX(r.diff.k, s.k), MAX(r.diff.d, s.d), MAX(r.diff.h, s.h)};
    r.roots = MAX(r.roots, value_roots(&x[i]) + value_roots(&y[i]));
  }
  r.pairs = r.pairs * r.pairs / 2;
  arena_close(&mem);
  return r;
}
