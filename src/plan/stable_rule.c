// The effect of each operator on rescaled tensors: one function for each index rule. Sums and products are linear in the target, so its factor passes
// through them if it is equal for all summands. It cancels in a quotient of two tensors with the same factor. Other cases fail the attempt.
#include "plan/stable.h"

#include <float.h>

static const struct shape *old_shape(const struct site *s, int t) { return &s->old->tensors[t].shape; }

static int not_linear(struct site *s, const struct node *n) { return give_up(s, "%s is not linear in it", op_rows[n->op].name); }

// Tensors of the new graph in place of n's arguments, with the same shapes.
static int copy_node(struct site *s, const struct node *n, const struct scaled *x, struct scaled *out)
{
  int in[64], t;
  if (n->nin > 64) return give_up(s, "%s of more than 64 tensors", op_rows[n->op].name);
  for (int i = 0; i < n->nin; i++) in[i] = x[i].t;
  if (site_add(s, n->op, n->nin, in, &n->a, &t)) return NO;
  for (int k = 0; k < n->nout; k++) out[k] = (struct scaled){.t = t + k};
  return OK;
}

static void give_factor(struct scaled *out, int nout, const struct scaled *x, int degree)
{
  for (int k = 0; k < nout; k++) out[k].degree = degree, out[k].F = x->F, out[k].stored = x->stored;
}

// ---- elementwise ----

// log(y) is degree * F + log(x), if y is exp(degree * F) x. F must be finite, because an infinite F would make the sum NaN. Each element needs a
// factor of its own: among elements that share a maximum, all but the largest may have become 0.
static int rule_log(struct site *s, const struct node *n, struct scaled *x, struct scaled *out)
{
  struct attrs a = attrs_default(OP_MUL_SCALAR);
  const struct shape *shape = old_shape(s, n->in[0]);
  int F = x->F, t;
  a.scalar = x->degree;
  for (int i = 0; i < shape->n; i++)
    if (factor_extent(s, x, i) != shape->d[i]) return give_up(s, "it takes logarithms of elements that share a maximum");
  if (!s->a->bounded) return s->a->wants_bound = true, give_up(s, "the maximum that a logarithm adds is not finite");
  if (x->degree != 1 && site_once(s, OP_MUL_SCALAR, F, -1, &a, &F)) return NO;
  if (site_add(s, OP_LOG, 1, &x->t, &n->a, &t) || site_add(s, OP_ADD, 2, (const int[]){t, F}, NULL, &out->t)) return NO;
  s->a->cancelled++;
  return OK;
}

static int map_one(struct site *s, const struct node *n, const struct scaled *x, int *degree)
{
  *degree = x->degree;
  if (op_rows[n->op].flags & SCALES) return OK;
  if (n->op == OP_SQUARE) return *degree *= 2, OK;
  if ((n->op != OP_SQRT && n->op != OP_RSQRT) || *degree % 2) return not_linear(s, n);
  *degree /= n->op == OP_SQRT ? 2 : -2;
  return OK;
}

static int map_two(struct site *s, const struct node *n, const struct scaled *x, int *degree)
{
  bool both = x[0].degree && x[1].degree;
  if (both && !factor_same(s, x[0].F, x[1].F)) return give_up(s, "%s combines exponentials of two different maxima", op_rows[n->op].name);
  if (n->op == OP_MUL)
    *degree = x[0].degree + x[1].degree;
  else if (n->op == OP_DIV)
    *degree = x[0].degree - x[1].degree;
  else if ((n->op == OP_ADD || n->op == OP_SUB) && x[0].degree == x[1].degree)
    *degree = x[0].degree;
  else
    return not_linear(s, n);
  s->a->cancelled += both && !*degree;
  return OK;
}

static int rule_map(struct site *s, const struct node *n, struct scaled *x, struct scaled *out)
{
  if (n->op == OP_LOG) return rule_log(s, n, x, out);
  int degree = 0, status = n->nin == 1 ? map_one(s, n, x, &degree) : map_two(s, n, x, &degree);
  if (status || copy_node(s, n, x, out)) return NO;
  give_factor(out, 1, n->nin == 2 && !x[0].degree ? &x[1] : x, degree);
  return OK;
}

// ---- sums ----

// [A1 A2 ..] [B1; B2; ..]: each pair has at most one rescaled tensor, and all pairs have the same factor.
static int rule_contract(struct site *s, const struct node *n, struct scaled *x, struct scaled *out)
{
  int half = n->nin / 2;
  const struct scaled *first = NULL;
  for (int i = 0; i < half; i++) {
    struct scaled *left = &x[i], *right = &x[i + half];
    if (left->degree && right->degree) return give_up(s, "both operands of a matmul depend on it");
    if (factor_settle(s, left, old_shape(s, n->in[i])->n - 1)) return NO;
    if (factor_settle(s, right, old_shape(s, n->in[i + half])->n - 2)) return NO;
    const struct scaled *here = left->degree ? left : right;
    if (!first) first = here;
    if (first->degree != here->degree || (here->degree && !factor_same(s, first->F, here->F)))
      return give_up(s, "%s combines exponentials of two different maxima", op_rows[n->op].name);
  }
  if (copy_node(s, n, x, out)) return NO;
  give_factor(out, 1, first, first->degree);
  return OK;
}

static int rule_reduce(struct site *s, const struct node *n, struct scaled *x, struct scaled *out)
{
  if (op_rows[n->op].abstract == AE_MAX || op_rows[n->op].abstract == AE_PROD) return not_linear(s, n);
  int64_t extent = old_shape(s, n->in[0])->d[n->a.dim], group = n->a.group ? n->a.group : extent;
  int64_t run = extent / factor_extent(s, x, n->a.dim);
  if (run % group && factor_settle(s, x, n->a.dim)) return NO;
  if (copy_node(s, n, x, out)) return NO;
  give_factor(out, 1, x, x->degree);
  return OK;
}

// ---- views ----

static int transpose_factor(struct site *s, const struct node *n, struct scaled *y)
{
  struct attrs a = n->a;
  return factor_pad(s, y, old_shape(s, n->in[0])->n) ? NO : factor_view(s, y, OP_TRANSPOSE, &a);
}

static int rule_view(struct site *s, const struct node *n, struct scaled *x, struct scaled *out)
{
  struct scaled y = *x;
  int status = OK;
  if (n->op == OP_RESHAPE)
    status = factor_reshape(s, &y, old_shape(s, n->in[0]), old_shape(s, n->out));
  else if (n->op == OP_TRANSPOSE)
    status = transpose_factor(s, n, &y);
  else if (n->op != OP_REPEAT)
    status = not_linear(s, n);
  if (status || copy_node(s, n, x, out)) return NO;
  give_factor(out, 1, &y, y.degree);
  return OK;
}

static int rule_concat(struct site *s, const struct node *n, struct scaled *x, struct scaled *out)
{
  for (int i = 0; i < n->nin; i++)
    if (x[i].degree != x[0].degree || factor_extent(s, &x[i], n->a.dim) != 1 || !factor_same(s, x[i].F, x[0].F)) return not_linear(s, n);
  if (copy_node(s, n, x, out)) return NO;
  give_factor(out, 1, x, x->degree);
  return OK;
}

static int rule_split(struct site *s, const struct node *n, struct scaled *x, struct scaled *out)
{
  if (copy_node(s, n, x, out)) return NO;
  give_factor(out, n->nout, x, x->degree);
  int64_t f = factor_extent(s, x, n->a.dim);
  if (f == 1) return OK;
  if (f % n->a.parts) return give_up(s, "%s splits elements that share a maximum", op_rows[n->op].name);
  struct attrs a = n->a;
  a.dim += s->g->tensors[x->F].shape.n - old_shape(s, n->in[0])->n;
  for (int k = 0; k < n->nout; k++) {
    if (n->op == OP_SPLIT) a.index = k;
    if (factor_view(s, &out[k], OP_CHUNK, &a)) return NO;
  }
  return OK;
}

// ---- accumulators ----

// Whether an accumulator concatenates over every loop axis (1), sums over every one (0), or does both (-1).
static int concatenates(const struct site *s, const struct node *n)
{
  int joined = 0, axes = 0;
  for (int i = 0; i < s->old->nloop; i++) {
    if (s->old->loop[i] == 1) continue;
    axes++, joined += n->a.fmap[i] != REPLICA;
  }
  return !joined ? 0 : joined == axes ? 1 : -1;
}

static int accum_concat(struct site *s, const struct node *n, struct scaled *x, struct scaled *out)
{
  struct scaled y = *x;
  enum phase p = s->g->tensors[x->F].phase;
  if (factor_running(s, x->F)) return give_up(s, "parts with different running maxima are concatenated");
  if (copy_node(s, n, x, out)) return NO;
  if (p == VARYING) {
    if (factor_pad(s, &y, old_shape(s, n->in[0])->n) || site_once(s, OP_ACCUM, y.F, -1, &n->a, &y.F)) return NO;
  } else {
    for (int i = 0; i < s->old->nloop; i++)
      if (n->a.fmap[i] != REPLICA && factor_extent(s, x, n->a.fmap[i]) != 1) return give_up(s, "parts that share maxima are concatenated");
  }
  give_factor(out, 1, &y, y.degree);
  return OK;
}

// There is no rescaling accumulator of means. So the mean of the tile is taken first, and then accumulated.
static int mean_tile(struct site *s, const struct node *n, struct scaled *x)
{
  struct attrs a = attrs_default(OP_MEAN);
  a.dim = n->a.dim;
  return site_add(s, OP_MEAN, 1, &x->t, &a, &x->t);
}

static int accum_rescaled(struct site *s, const struct node *n, struct scaled *x, struct scaled *out)
{
  int f;
  struct attrs a = attrs_default(OP_ACCUM_SUM_RESCALE);
  enum op op = n->op == OP_ACCUM_SUM ? OP_ACCUM_SUM_RESCALE : OP_ACCUM_RESCALE;
  if (factor_settle_loop(s, x, &f)) return NO;
  if (n->op == OP_ACCUM_SUM)
    a.dim = n->a.dim;
  else if (n->op == OP_ACCUM_MEAN && mean_tile(s, n, x))
    return NO;
  if (site_add(s, op, 2, (const int[]){x->t, f}, &a, &out->t)) return NO;
  give_factor(out, 1, x, 1);
  if (n->op != OP_ACCUM_MEAN) return OK;
  a = attrs_default(OP_MUL_SCALAR), a.scalar = 1.0 / (double)graph_iterations(s->old);
  return site_add(s, OP_MUL_SCALAR, 1, &out->t, &a, &out->t);
}

static int rule_accum(struct site *s, const struct node *n, struct scaled *x, struct scaled *out)
{
  if (n->op != OP_ACCUM && n->op != OP_ACCUM_SUM && n->op != OP_ACCUM_MEAN) return not_linear(s, n);
  int join = n->op == OP_ACCUM ? concatenates(s, n) : 0;
  if (join < 0) return give_up(s, "an accumulator sums over one axis and concatenates over another");
  if (join) return accum_concat(s, n, x, out);
  if ((op_rows[n->op].flags & REDUCES) && factor_settle(s, x, n->a.dim)) return NO;
  if (s->g->tensors[x->F].phase == VARYING || factor_running(s, x->F)) return accum_rescaled(s, n, x, out);
  if (copy_node(s, n, x, out)) return NO;
  give_factor(out, 1, x, x->degree);
  return OK;
}

// ---- the target, inputs, outputs, nested graphs ----

// Limits m to the finite numbers of its dtype.
static int bound(struct site *s, int *m)
{
  struct attrs a = attrs_default(OP_CLAMP);
  a.hi = dtype_largest(s->g->tensors[*m].dtype), a.lo = -a.hi;
  return site_once(s, OP_CLAMP, *m, -1, &a, m);
}

// Limits m from below to the lowest finite number of fp32.
static int clamp(struct site *s, int *m)
{
  struct attrs a = attrs_default(OP_CONST);
  int c = -1;
  a.scalar = -FLT_MAX;
  for (int i = 0; i < s->g->nnodes && c < 0; i++)
    if (s->g->nodes[i].op == OP_CONST && s->g->nodes[i].a.scalar == a.scalar) c = s->g->nodes[i].out;
  if (c < 0 && site_add(s, OP_CONST, 0, NULL, &a, &c)) return NO;
  return site_once(s, OP_MAXIMUM, *m, c, NULL, m);
}

static int rule_target(struct site *s, const struct node *n, const struct scaled *x, struct scaled *out)
{
  struct attrs a = attrs_default(OP_MAX);
  int m = x->t, diff;
  if (x->degree) return not_linear(s, n);
  for (a.dim = old_shape(s, n->in[0])->n - 1; a.dim >= 0; a.dim--)
    if ((s->a->dims >> a.dim & 1) && site_once(s, OP_MAX, m, -1, &a, &m)) return NO;
  if (s->a->bounded ? bound(s, &m) : s->a->clamped && clamp(s, &m)) return NO;
  if (s->a->running && site_once(s, OP_ACCUM_MAX, m, -1, NULL, &m)) return NO;
  if (site_add(s, OP_SUB, 2, (const int[]){x->t, m}, NULL, &diff) || site_add(s, OP_EXP, 1, &diff, NULL, &out->t)) return NO;
  out->degree = 1, out->F = m, out->stored = false;
  return OK;
}

static const struct node *block_of(const struct graph *kernels, const struct graph *sub)
{
  for (int i = 0; kernels && i < kernels->nnodes; i++)
    if (kernels->nodes[i].sub == sub) return &kernels->nodes[i];
  return NULL;
}

// Whether tile t of block a and tile u of block b are computed alike from the same tensors. *steps limits the number of nodes that are compared.
static bool same_value(const struct node *a, int t, const struct node *b, int u, int *steps)
{
  const struct node *n = &a->sub->nodes[a->sub->tensors[t].node], *m = &b->sub->nodes[b->sub->tensors[u].node];
  if (--*steps < 0 || n->op != m->op || n->nin != m->nin || t - n->out != u - m->out) return false;
  if (n->op == OP_ITER) return node_iterated(a, t) == node_iterated(b, u);
  bool same = !n->sub && attrs_same(&n->a, &m->a);
  for (int k = 0; k < n->nin && same; k++) same = same_value(a, n->in[k], b, m->in[k], steps);
  return same;
}

// Whether the exponential is the target, computed again in another block.
static bool is_again(const struct site *s, const struct node *exp)
{
  const struct graph *kernels = s->above ? s->above->old : NULL;
  const struct node *here = block_of(kernels, s->old), *there = block_of(kernels, s->a->target_graph);
  int steps = 256;
  return here && there && here != there && same_value(here, exp->in[0], there, s->a->target_graph->nodes[s->a->target_node].in[0], &steps);
}

// A rescaled tensor that the kernel loads, whose factor can be broadcast to the shape of t; NULL: there is none.
static const struct scaled *shared_factor(const struct site *s, int t)
{
  const struct shape *full = &s->g->tensors[t].shape;
  for (int i = 0; i < s->old->nnodes; i++) {
    const struct node *n = &s->old->nodes[i];
    const struct scaled *x = n->op == OP_ITER ? &s->v[n->out] : NULL;
    if (!x || x->degree != 1) continue;
    const struct shape *f = &s->g->tensors[x->F].shape;
    bool fits = true;
    for (int k = 1; k <= f->n && fits; k++) fits = f->d[f->n - k] == 1 || (k <= full->n && f->d[f->n - k] == full->d[full->n - k]);
    if (fits) return x;
  }
  return NULL;
}

// exp(x) is exp(F) exp(x - F), where F is the maximum over a row of the same x in another kernel.
static int rule_shared(struct site *s, const struct scaled *x, const struct scaled *of, struct scaled *out)
{
  int diff, F = of->F;
  if (site_add(s, OP_SUB, 2, (const int[]){x->t, F}, NULL, &diff) || site_add(s, OP_EXP, 1, &diff, NULL, &out->t)) return NO;
  out->degree = 1, out->F = F, out->stored = true;
  return OK;
}

static int rule_input(struct site *s, const struct node *n, struct scaled *out)
{
  struct err e = {0};
  if (n->op == OP_INPUT) {
    const struct tensor *t = &s->old->tensors[n->out];
    return graph_input_as(s->g, NULL, t->dtype, t, n->at, &out->t, &e) ? give_up(s, "%.150s", e.text) : OK;
  }
  const struct scaled *x = &s->above->v[s->holds[s->iter++]];
  if (graph_iter(s->g, s->above->g, x->t, &n->a, n->at, &out->t, &e)) return give_up(s, "%.150s", e.text);
  PUSH(s->a->mem, s->from, s->nfrom, s->from_cap) = x->t;
  return x->degree ? factor_iter(s, x, &n->a, out) : OK;
}

static int rule_output(struct site *s, const struct node *n, struct scaled *x)
{
  if (n->op == OP_OUTPUT) {
    if (x->degree) return give_up(s, "no division cancels its factor before an output");
  } else {
    struct saved here = {x->degree, -1};
    if (x->degree && factor_save(s, x, n->a.omap, &here.extra)) return NO;
    PUSH(s->a->mem, s->saves, s->nsaves, s->saves_cap) = here;
  }
  return site_add(s, n->op, 1, &x->t, &n->a, NULL);
}

static int rebuild_block(struct site *s, const struct node *n, struct site *in)
{
  in->g = graph_new(s->a->mem, n->sub->level, n->sub->name);
  graph_axes(in->g, n->sub->ngrid, n->sub->grid, n->sub->nloop, n->sub->loop);
  for (int i = 0; i < n->sub->nnodes; i++)
    if (stable_node(in, i)) return NO;
  for (int i = 0; i < in->nextra; i++) {
    struct attrs a = attrs_default(OP_SAVE);
    for (int k = 0; k < MAX_GRID; k++) a.omap[k] = in->extra[i].omap[k];
    if (site_add(in, OP_SAVE, 1, &in->extra[i].F, &a, NULL)) return NO;
  }
  return OK;
}

static int rule_graph(struct site *s, const struct node *n, const struct scaled *x, bool any, struct scaled *out)
{
  int in[64], t;
  struct err e = {0};
  if (n->sub->level == THREAD || (!any && n->sub != s->a->target_graph)) {
    if (any || n->nin > 64) return not_linear(s, n);
    for (int i = 0; i < n->nin; i++) in[i] = x[i].t;
    if (graph_nest(s->g, graph_copy(s->a->mem, n->sub), n->nin, in, n->at, &t, &e)) return give_up(s, "%.150s", e.text);
    for (int k = 0; k < n->nout; k++) out[k] = (struct scaled){.t = t + k};
    return OK;
  }
  struct site sub = {.a = s->a, .old = n->sub, .above = s, .holds = n->in, .v = NEWS(s->a->mem, struct scaled, n->sub->ntensors + 1)};
  if (rebuild_block(s, n, &sub)) return NO;
  if (graph_nest(s->g, sub.g, sub.nfrom, sub.from, n->at, &t, &e)) return give_up(s, "%.150s", e.text);
  for (int k = 0; k < n->nout; k++) {
    const struct saved *o = &sub.saves[k];
    out[k] = (struct scaled){.t = t + k, .degree = o->degree, .F = t + sub.nsaves + o->extra, .stored = true};
  }
  return OK;
}

static int rule_scaled(struct site *s, const struct node *n, struct scaled *x, struct scaled *out)
{
  switch (op_rows[n->op].rule) {
  case RULE_MAP: return rule_map(s, n, x, out);
  case RULE_CONTRACT: return rule_contract(s, n, x, out);
  case RULE_REDUCE: return rule_reduce(s, n, x, out);
  case RULE_VIEW: return rule_view(s, n, x, out);
  case RULE_CONCAT: return rule_concat(s, n, x, out);
  case RULE_SPLIT: return rule_split(s, n, x, out);
  case RULE_ACCUM: return rule_accum(s, n, x, out);
  case RULE_IO:
  case RULE_CONST:
  case RULE_AT:
  case RULE_INDEX:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_GRAPH: break;
  }
  return not_linear(s, n);
}

int stable_node(struct site *s, int i)
{
  const struct node *n = &s->old->nodes[i];
  struct scaled x[65] = {0}, *out = n->nout ? &s->v[n->out] : NULL;
  bool any = false;
  for (int k = 0; k < n->nin && k < 64; k++) x[k] = s->v[n->in[k]], any |= x[k].degree != 0;
  s->at = n->at, s->a->done++;
  int status;
  const struct scaled *of = n->op == OP_EXP && !any && is_again(s, n) ? shared_factor(s, x->t) : NULL;
  s->a->may_share |= of != NULL;
  if (n->op == OP_INPUT || n->op == OP_ITER)
    status = rule_input(s, n, out);
  else if (n->op == OP_OUTPUT || n->op == OP_SAVE)
    status = rule_output(s, n, x);
  else if (n->sub)
    status = rule_graph(s, n, x, any, out);
  else if (s->old == s->a->target_graph && i == s->a->target_node)
    status = rule_target(s, n, x, out);
  else if (of && s->a->sharing)
    status = rule_shared(s, x, of, out);
  else
    status = any ? rule_scaled(s, n, x, out) : copy_node(s, n, x, out);
  struct err ignored = {0};
  for (int k = 0; k < n->nout && !status; k++)
    if (s->old->tensors[n->out + k].name) (void)graph_name(s->g, out[k].t, s->old->tensors[n->out + k].name, n->at, &ignored);
  return status;
}
