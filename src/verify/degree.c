// Walks a graph, one bound a tensor, for bound.c. Everything errs upward: a factor or root whose elements might be
// others than before gets a new identity, so that nothing is taken for common that is not. Axes of a grid are like
// dimensions: what a block computed differs along the dimensions that its savers join.
#include "verify/degree.h"

struct walk {
  const struct graph *g;
  struct val *v;      // by tensor
  struct arena *mem;
  struct opaques *o;
  uint64_t seed;      // of identities, different for every nest
  double times;       // how often the graph runs: blocks times iterations of the nests around it
};

// Moving a mask from one tensor's dimensions to another's.
struct shift {
  const int *to;      // by dimension; -1 drops it
  int n;
};
static unsigned shifted(const void *arg, unsigned vary)
{
  const struct shift *s = arg;
  unsigned r = vary & (VARY_LOOP | VARY_SUMMED);
  for (int i = 0; i < s->n; i++)
    if ((vary >> i & 1) && s->to[i] >= 0) r |= 1u << s->to[i];
  return r;
}

static const struct shape *shape_of(const struct walk *w, int t) { return &w->g->tensors[t].shape; }

// Where elements of tensor t can differ at all.
static unsigned everywhere(const struct walk *w, int t)
{
  unsigned m = w->g->nloop && (w->g->tensors[t].phase == VARYING || w->g->tensors[t].phase == RUN) ? VARY_LOOP : 0;
  for (int i = 0; i < shape_of(w, t)->n; i++) m |= (unsigned)(shape_of(w, t)->d[i] > 1) << i;
  return m;
}

static uint64_t identity(const struct walk *w, int t) { return hash_mix(w->seed, (uint64_t)t); }

// Argument i with its masks under the output's dimensions; the last `own` dimensions are left to the caller.
static struct val aligned(const struct walk *w, const struct node *n, int i, int out_dims)
{
  struct val x = w->v[n->in[i]];
  const struct shape *s = shape_of(w, n->in[i]);
  int to[MAX_DIMS];
  for (int k = 0; k < s->n; k++) to[k] = s->d[k] > 1 ? k + out_dims - s->n : -1;
  val_vary(&x, shifted, &(struct shift){to, s->n});
  return x;
}

static struct val unknown(struct walk *w, const struct node *n, double evaluations)
{
  w->o->n += evaluations * w->times;
  for (int i = 0; i < n->nin; i++) {
    struct measure m = val_measure(&w->v[n->in[i]]), *a = &w->o->arg;
    a->k = MAX(a->k, m.k), a->d = MAX(a->d, m.d), a->dk = MAX(a->dk, m.dk), a->dd = MAX(a->dd, m.dd);
    a->ed = MAX(a->ed, m.ed), a->roots = MAX(a->roots, m.roots), a->exp |= m.exp, a->covered &= m.covered;
  }
  return val_fresh(1);
}

static struct val of_map(struct walk *w, const struct node *n)
{
  int dims = shape_of(w, n->out)->n;
  double size = (double)shape_size(shape_of(w, n->out));
  struct val x = aligned(w, n, 0, dims), y = n->nin > 1 ? aligned(w, n, 1, dims) : x, r;
  switch ((int)op_rows[n->op].abstract) {
  case AE_ADD:
  case AE_SUB: return val_add(&x, &y);
  case AE_MUL:
  case AE_SQUARE: return val_mul(&x, &y);
  case AE_DIV:
    y = val_inverse(&w->v[n->in[1]], identity(w, n->in[1]), everywhere(w, n->in[1]));
    w->v[n->out] = y; // aligned() reads a tensor's bound; the divisor's masks are those of the divisor
    {
      const struct shape *s = shape_of(w, n->in[1]);
      int to[MAX_DIMS];
      for (int k = 0; k < s->n; k++) to[k] = s->d[k] > 1 ? k + dims - s->n : -1;
      val_vary(&y, shifted, &(struct shift){to, s->n});
    }
    return val_mul(&x, &y);
  case AE_EXP:
    if (val_lost(&x)) return unknown(w, n, size);
    return val_exp(&x, everywhere(w, n->out));
  case AE_SQRT: return val_root(&x, identity(w, n->out), everywhere(w, n->out));
  case AE_RSQRT:
    r = val_root(&x, identity(w, n->out), everywhere(w, n->out));
    return val_inverse(&r, identity(w, n->out), everywhere(w, n->out));
  case AE_SILU: r = unknown(w, n, size); return val_mul(&x, &r);
  case AE_NEG:
  case AE_SCALE:
  case AE_SHIFT: return x;
  default: return unknown(w, n, size);
  }
}

static struct val of_product(struct walk *w, const struct node *n, int ix, int iy)
{
  const struct shape *sx = shape_of(w, n->in[ix]), *sy = shape_of(w, n->in[iy]), *so = shape_of(w, n->out);
  struct val x = w->v[n->in[ix]], y = w->v[n->in[iy]];
  int tx[MAX_DIMS], ty[MAX_DIMS];
  for (int k = 0; k < sx->n; k++) tx[k] = sx->d[k] > 1 ? k + so->n - sx->n : -1;
  for (int k = 0; k < sy->n; k++) ty[k] = sy->d[k] > 1 ? k + so->n - sy->n : -1;
  tx[sx->n - 1] = ty[sy->n - 2] = 9; // VARY_SUMMED
  val_vary(&x, shifted, &(struct shift){tx, sx->n}), val_vary(&y, shifted, &(struct shift){ty, sy->n});
  struct val r = val_mul(&x, &y);
  return val_sum(&r, (double)sx->d[sx->n - 1], VARY_SUMMED);
}

static struct val of_contract(struct walk *w, const struct node *n)
{
  if (n->nin == 2) return of_product(w, n, 0, 1);
  struct val x = of_product(w, n, 0, 2), y = of_product(w, n, 1, 3);
  return val_add(&x, &y);
}

static struct val of_reduce(struct walk *w, const struct node *n)
{
  const struct shape *x = shape_of(w, n->in[0]);
  double len = (double)(x->d[n->a.dim] / shape_of(w, n->out)->d[n->a.dim]);
  if (op_is_max(n->op)) return unknown(w, n, (double)shape_size(x));
  bool groups = shape_of(w, n->out)->d[n->a.dim] > 1;
  struct val r = val_sum(&w->v[n->in[0]], len, 1u << n->a.dim);
  if (groups) { // the groups still differ
    struct val all = w->v[n->in[0]];
    val_rename(&r, 0, hash_mix(w->seed, (uint64_t)n->out));
    if (all.vary >> n->a.dim & 1) r.vary |= 1u << n->a.dim;
    for (int i = 0; i < r.nf; i++) r.f[i].vary |= 1u << n->a.dim;
    for (int i = 0; i < r.nr; i++) r.r[i].vary |= 1u << n->a.dim;
  }
  return r;
}

// A view: what varies may vary along every dimension afterwards, and its elements are others.
static unsigned spread(const void *arg, unsigned vary) { return vary & 0xffu ? vary | *(const unsigned *)arg : vary; }

static struct val of_view(struct walk *w, const struct node *n, int out)
{
  struct val r = w->v[n->in[0]];
  unsigned all = everywhere(w, out);
  if (n->op == OP_TRANSPOSE && !n->a.perm.n) {
    int dims = shape_of(w, out)->n, to[MAX_DIMS];
    for (int i = 0; i < dims; i++) to[i] = i < dims - 2 ? i : 2 * dims - 3 - i;
    val_vary(&r, shifted, &(struct shift){to, dims});
  } else if (n->op != OP_ALL_REDUCE) {
    val_vary(&r, spread, &all);
  }
  val_rename(&r, 0xff, hash_mix(w->seed, (uint64_t)out));
  return r;
}

static struct val of_concat(struct walk *w, const struct node *n)
{
  struct val r = w->v[n->in[0]];
  unsigned all = everywhere(w, n->out);
  for (int i = 1; i < n->nin; i++) r = val_either(&r, &w->v[n->in[i]]);
  val_vary(&r, spread, &all);
  val_rename(&r, 0xff, hash_mix(w->seed, (uint64_t)n->out));
  return r;
}

// What differs from iteration to iteration lies along the dimensions that the accumulator joins.
struct join {
  unsigned from, dims;
};
static unsigned join(const void *arg, unsigned vary)
{
  const struct join *j = arg;
  return vary & j->from || j->from == 0 ? vary | j->dims : vary;
}

static struct val of_accum(struct walk *w, const struct node *n)
{
  const struct graph *g = w->g;
  unsigned flags = op_rows[n->op].flags;
  struct val x = w->v[n->in[0]];
  double added = 1, len = 1;
  unsigned dims = 0;
  if (flags & RUNNING) return unknown(w, n, (double)shape_size(shape_of(w, n->out)));
  for (int i = 0; i < g->nloop; i++) {
    bool joins = (op_rows[n->op].attrs & A_FMAP) && n->a.fmap[i] != REPLICA;
    if (joins) dims |= 1u << n->a.fmap[i];
    else added *= (double)g->loop[i];
  }
  if (flags & RMS) x = val_mul(&x, &x);
  if (flags & REDUCES) {
    len = (double)(shape_of(w, n->in[0])->d[n->a.dim] / shape_of(w, n->out)->d[n->a.dim]);
    x = val_sum(&x, len, 1u << n->a.dim);
  }
  if (flags & RESCALES) {
    struct val f = aligned(w, n, 1, shape_of(w, n->out)->n);
    for (int i = 1; i < (int)MIN(added, 64); i++) x = val_mul(&x, &f);
    if (added > 64) x.covered = false;
  }
  if (dims) val_vary(&x, join, &(struct join){VARY_LOOP, dims});
  x = val_sum(&x, added, VARY_LOOP);
  val_rename(&x, 0, hash_mix(w->seed, (uint64_t)n->out));
  int drop[MAX_DIMS] = {0, 1, 2, 3, 4, 5, 6, 7};
  val_vary(&x, shifted, &(struct shift){drop, MAX_DIMS});
  return flags & RMS ? val_root(&x, identity(w, n->out), everywhere(w, n->out)) : x;
}

static void walk_graph(struct walk *w);

static struct val of_iter(const struct walk *above, const struct walk *w, const struct node *iter, int from)
{
  struct val x = above->v[from];
  unsigned cut = 0, looped = 0;
  for (int i = 0; i < w->g->ngrid; i++)
    if (iter->a.imap[i] != REPLICA) cut |= 1u << iter->a.imap[i];
  for (int i = 0; i < w->g->nloop; i++)
    if (iter->a.fmap[i] != REPLICA) looped |= 1u << iter->a.fmap[i];
  uint64_t maps = hash_bytes(iter->a.fmap, sizeof iter->a.fmap, hash_bytes(iter->a.imap, sizeof iter->a.imap, w->seed));
  val_rename(&x, 0xff, maps);
  if (looped) val_vary(&x, join, &(struct join){looped, VARY_LOOP});
  (void)cut;
  return x;
}

static void of_nest(struct walk *w, const struct node *n)
{
  struct walk sub = {n->sub, NEWS(w->mem, struct val, n->sub->ntensors + 1), w->mem, w->o,
                     hash_mix(w->seed, (uint64_t)n->out + 77), w->times * (double)(graph_blocks(n->sub) * graph_iterations(n->sub))};
  int iters = 0, saves = 0;
  for (int i = 0; i < n->sub->nnodes; i++)
    if (n->sub->nodes[i].op == OP_ITER) sub.v[n->sub->nodes[i].out] = of_iter(w, &sub, &n->sub->nodes[i], n->in[iters++]);
  walk_graph(&sub);
  for (int i = 0; i < n->sub->nnodes; i++) {
    const struct node *save = &n->sub->nodes[i];
    if (save->op != OP_SAVE) continue;
    struct join j = {0, 0};
    for (int k = 0; k < n->sub->ngrid; k++)
      if (save->a.omap[k] != REPLICA && n->sub->grid[k] > 1) j.dims |= 1u << save->a.omap[k];
    struct val x = sub.v[save->in[0]];
    val_vary(&x, join, &j);
    val_rename(&x, 0, hash_mix(sub.seed, (uint64_t)i));
    w->v[n->out + saves++] = x;
  }
}

static void of_node(struct walk *w, const struct node *n)
{
  struct val r = val_fresh(0);
  switch (op_rows[n->op].rule) {
  case RULE_IO: return;
  case RULE_CONST: break;
  case RULE_MAP: r = of_map(w, n); break;
  case RULE_CONTRACT: r = of_contract(w, n); break;
  case RULE_REDUCE: r = of_reduce(w, n); break;
  case RULE_VIEW:
  case RULE_SPLIT:
    for (int k = 0; k < n->nout; k++) w->v[n->out + k] = of_view(w, n, n->out + k);
    return;
  case RULE_CONCAT: r = of_concat(w, n); break;
  case RULE_ACCUM: r = of_accum(w, n); break;
  case RULE_GRAPH: of_nest(w, n); return;
  case RULE_COMPOSITE: r.covered = false; break;
  }
  for (int k = 0; k < n->nout; k++) w->v[n->out + k] = r;
}

static void walk_graph(struct walk *w)
{
  for (int i = 0; i < w->g->nnodes; i++) of_node(w, &w->g->nodes[i]);
}

void degree_outputs(struct arena *mem, const struct graph *g, struct measure *out, struct opaques *o)
{
  struct walk w = {g, NEWS(mem, struct val, g->ntensors + 1), mem, o, hash_mix(0, o->n > 0), 1};
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == OP_INPUT) w.v[g->nodes[i].out] = val_fresh(1);
  walk_graph(&w);
  int k = 0;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == OP_OUTPUT) out[k++] = val_measure(&w.v[g->nodes[i].in[0]]);
}
