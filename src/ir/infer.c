// Shapes, dtypes and phases of a node's outputs, with one function for each index rule. Properties of a single node are
// checked here; messages have the operator and the shapes. check.c checks whole graphs.
#include "ir/ir.h"

#include <string.h>

// min(a * b, EXTENT_LIMIT), so that products of extents do not overflow and size_ok rejects large ones
static int64_t capped(int64_t a, int64_t b)
{
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) || r > EXTENT_LIMIT ? EXTENT_LIMIT : r;
}

struct ctx {
  const struct graph *g;
  const struct node *n;
  const struct op_row *row;
  struct err *e;
};

static const struct tensor *arg(const struct ctx *c, int i) { return &c->g->tensors[c->n->in[i]]; }

// An error at the node whose text starts with the operator and the shapes of its arguments.
static int bad(const struct ctx *c, enum errid id, const char *fmt, ...) PRINTF(3, 4);
static int bad(const struct ctx *c, enum errid id, const char *fmt, ...)
{
  char text[512], shapes[300] = "", one[128];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  size_t n = 0;
  for (int i = 0; i < c->n->nin && n + 140 < sizeof shapes; i++) {
    shape_text(one, &arg(c, i)->shape);
    n += (size_t)snprintf(shapes + n, sizeof shapes - n, "%s%s", i ? " and " : " of ", one);
  }
  return err_set(c->e, id, c->n->at, "%s%s: %s", c->row->name, shapes, text);
}

static int dim_ok(const struct ctx *c, int dim, const struct shape *s)
{
  if (dim >= 0 && dim < s->n) return OK;
  return bad(c, ERR_ATTRIBUTE, "dim=%d, but there are %d dimensions", dim, s->n);
}

static int size_ok(const struct ctx *c, const struct shape *s)
{
  int64_t n = 1;
  for (int i = 0; i < s->n; i++) {
    if (s->d[i] < 1 || s->d[i] >= EXTENT_LIMIT) return bad(c, ERR_EXTENT, "dimension %d has extent %lld", i, (long long)s->d[i]);
    if ((n = capped(n, s->d[i])) >= EXTENT_LIMIT) return bad(c, ERR_EXTENT, "the tensor would have 2^40 elements or more");
  }
  return OK;
}

// The dtype for two operands: one that adapts takes the other's dtype.
static enum dtype met(const struct tensor *x, const struct tensor *y)
{
  return x->adapts ? y->dtype : y->adapts ? x->dtype : dtype_join(x->dtype, y->dtype);
}

// Whether numbers that t chooses from can adapt: t itself has no dtype of floats.
static bool chooses(const struct tensor *t) { return num_whole(t->dtype) || t->adapts; }

static int infer_map(const struct ctx *c, struct tensor *out)
{
  *out = (struct tensor){.dtype = arg(c, 0)->dtype, .shape = arg(c, 0)->shape};
  if (c->row->flags & CASTS) dtype_parse(c->row->name, &out->dtype);
  if (c->n->nin == 1) return OK;
  const struct tensor *x = arg(c, 0), *y = arg(c, 1);
  if (!shape_broadcast(&x->shape, &y->shape, &out->shape)) return bad(c, ERR_SHAPE, "extents differ and neither is 1");
  out->dtype = met(x, y);
  if (c->n->op == OP_MASK) out->adapts = (x->adapts && chooses(y)) || (y->adapts && chooses(x)); // as for a composite that chooses
  if (c->n->op == OP_KEEP) out->adapts = x->adapts && chooses(y);
  return OK;
}

static int product_shape(const struct ctx *c, const struct shape *x, const struct shape *y, struct shape *out)
{
  if (x->n < 2 || y->n < 2) return bad(c, ERR_SHAPE, "matrices need at least two dimensions");
  if (x->d[x->n - 1] != y->d[y->n - 2]) {
    int s = bad(c, ERR_SHAPE, "the first has %lld columns, the second %lld rows", (long long)x->d[x->n - 1], (long long)y->d[y->n - 2]);
    if (x->d[x->n - 1] == y->d[y->n - 1])
      err_hint(c->e, "the second fits if it is transposed");
    else if (x->d[x->n - 2] == y->d[y->n - 2])
      err_hint(c->e, "the first fits if it is transposed");
    return s;
  }
  struct shape bx = *x, by = *y;
  bx.n -= 2, by.n -= 2;
  if (!shape_broadcast(&bx, &by, out)) return bad(c, ERR_SHAPE, "the leading dimensions differ and neither is 1");
  out->d[out->n++] = x->d[x->n - 2];
  out->d[out->n++] = y->d[y->n - 1];
  return OK;
}

static int infer_contract(const struct ctx *c, struct tensor *out)
{
  *out = (struct tensor){.dtype = arg(c, 0)->dtype, .adapts = arg(c, 0)->adapts};
  for (int i = 1; i < c->n->nin; i++) out->dtype = met(out, arg(c, i)), out->adapts &= arg(c, i)->adapts;
  if (c->n->op == OP_MATMUL) return product_shape(c, &arg(c, 0)->shape, &arg(c, 1)->shape, &out->shape);
  struct shape left, right; // [A1 A2] [B1; B2] = A1 B1 + A2 B2
  int s = product_shape(c, &arg(c, 0)->shape, &arg(c, 2)->shape, &left);
  if (!s) s = product_shape(c, &arg(c, 1)->shape, &arg(c, 3)->shape, &right);
  if (!s && !shape_eq(&left, &right)) s = bad(c, ERR_SHAPE, "the two products have different shapes");
  out->shape = left;
  return s;
}

// Extent of `dim` after reducing groups of it: 1, or the number of groups.
static int reduced(const struct ctx *c, struct shape *s)
{
  const struct attrs *a = &c->n->a;
  int status = dim_ok(c, a->dim, s);
  if (status) return status;
  int64_t n = s->d[a->dim], groups = 1;
  if (c->row->attrs & A_EXTENT) groups = a->extent;
  if ((c->row->attrs & A_GROUP) && a->group) groups = a->group > 0 && n % a->group == 0 ? n / a->group : 0;
  if (groups < 1 || n % groups) return bad(c, ERR_ATTRIBUTE, "dimension %d of extent %lld has no equal groups of that size", a->dim, (long long)n);
  s->d[a->dim] = groups;
  return OK;
}

static int infer_reduce(const struct ctx *c, struct tensor *out)
{
  *out = (struct tensor){.dtype = arg(c, 0)->dtype, .shape = arg(c, 0)->shape};
  return reduced(c, &out->shape);
}

static int infer_reshape(const struct ctx *c, struct tensor *out)
{
  const struct shape *from = &arg(c, 0)->shape;
  int64_t known = 1;
  int open = -1;
  for (int i = 0; i < c->n->a.shape.n; i++) {
    int64_t d = c->n->a.shape.d[i];
    if (d == -1 && open >= 0) return bad(c, ERR_ATTRIBUTE, "only one extent may be -1");
    if (d == -1)
      open = i;
    else if (d < 1 || d >= EXTENT_LIMIT || (known = capped(known, d)) >= EXTENT_LIMIT)
      return bad(c, ERR_EXTENT, "extent %lld in shape", (long long)d);
  }
  out->shape = c->n->a.shape;
  if (open >= 0) out->shape.d[open] = shape_size(from) / known;
  if (shape_size(&out->shape) == shape_size(from)) return OK;
  char to[128];
  shape_text(to, &c->n->a.shape);
  return bad(c, ERR_SHAPE, "%s has another number of elements", to);
}

static int infer_transpose(const struct ctx *c, struct tensor *out)
{
  const struct shape *from = &arg(c, 0)->shape, *perm = &c->n->a.perm;
  if (from->n < 2 && !perm->n) return bad(c, ERR_SHAPE, "needs at least two dimensions");
  if (perm->n && perm->n != from->n) return bad(c, ERR_ATTRIBUTE, "perm has %d entries for %d dimensions", perm->n, from->n);
  out->shape = *from;
  if (!perm->n) {
    out->shape.d[from->n - 1] = from->d[from->n - 2], out->shape.d[from->n - 2] = from->d[from->n - 1];
    return OK;
  }
  unsigned seen = 0;
  for (int i = 0; i < perm->n; i++) {
    if (perm->d[i] < 0 || perm->d[i] >= from->n || seen >> perm->d[i] & 1) return bad(c, ERR_ATTRIBUTE, "perm is no permutation");
    seen |= 1u << perm->d[i];
    out->shape.d[i] = from->d[perm->d[i]];
  }
  return OK;
}

static int infer_slice(const struct ctx *c, struct tensor *out)
{
  const struct attrs *a = &c->n->a;
  TRY(dim_ok(c, a->dim, &out->shape));
  int64_t extent = out->shape.d[a->dim];
  if (a->start < 0 || a->start >= a->end || a->end > extent)
    return bad(c, ERR_ATTRIBUTE, "start=%lld, end=%lld of dimension %d of extent %lld", (long long)a->start, (long long)a->end, a->dim,
               (long long)extent);
  out->shape.d[a->dim] = a->end - a->start;
  return OK;
}

static int infer_view(const struct ctx *c, struct tensor *out)
{
  *out = (struct tensor){.dtype = arg(c, 0)->dtype, .shape = arg(c, 0)->shape};
  const struct attrs *a = &c->n->a;
  if (c->n->op == OP_RESHAPE) return infer_reshape(c, out);
  if (c->n->op == OP_TRANSPOSE) return infer_transpose(c, out);
  if (c->n->op == OP_SLICE) return infer_slice(c, out);
  int s = dim_ok(c, a->dim, &out->shape); // repeat
  if (!s && (a->times < 1 || a->times >= EXTENT_LIMIT)) s = bad(c, ERR_ATTRIBUTE, "times=%lld", (long long)a->times);
  if (!s) out->shape.d[a->dim] = capped(out->shape.d[a->dim], a->times);
  return s;
}

static int infer_concat(const struct ctx *c, struct tensor *out)
{
  *out = (struct tensor){.dtype = arg(c, 0)->dtype, .shape = arg(c, 0)->shape};
  int dim = c->n->a.dim, s = dim_ok(c, dim, &out->shape);
  for (int i = 1; i < c->n->nin && !s; i++) {
    struct shape x = arg(c, i)->shape;
    out->dtype = met(out, arg(c, i)), out->adapts &= arg(c, i)->adapts;
    int64_t here = x.n == out->shape.n ? x.d[dim] : 0, total = out->shape.d[dim];
    if (here) x.d[dim] = total;
    if (!shape_eq(&x, &out->shape)) s = bad(c, ERR_SHAPE, "all dimensions but %d must agree", dim);
    out->shape.d[dim] = total + here;
  }
  return s;
}

static int infer_split(const struct ctx *c, struct tensor *out, int *nout)
{
  const struct attrs *a = &c->n->a;
  struct tensor part = {.dtype = arg(c, 0)->dtype, .shape = arg(c, 0)->shape};
  int s = dim_ok(c, a->dim, &part.shape);
  if (s) return s;
  if (a->parts < 1 || a->parts > 64 || part.shape.d[a->dim] % a->parts)
    return bad(c, ERR_ATTRIBUTE, "dimension %d of extent %lld has no %lld equal parts (at most 64)", a->dim, (long long)part.shape.d[a->dim],
               (long long)a->parts);
  if (c->row->attrs & A_INDEX && (a->index < 0 || a->index >= a->parts))
    return bad(c, ERR_ATTRIBUTE, "index=%lld of %lld parts", (long long)a->index, (long long)a->parts);
  part.shape.d[a->dim] /= a->parts;
  *nout = c->row->attrs & A_INDEX ? 1 : (int)a->parts;
  for (int i = 0; i < *nout; i++) out[i] = part;
  return OK;
}

static int infer_world(const struct ctx *c, struct tensor *out)
{
  const int dim = c->n->a.dim, ranks = c->g->world;
  *out = (struct tensor){.dtype = arg(c, 0)->dtype, .shape = arg(c, 0)->shape};
  if (ranks > 1 && arg(c, 0)->weak) {
    bad(c, ERR_WORLD, "of constants and indices all ranks have the same");
    return err_hint(c->e, "the sum over the ranks is x * %d", ranks), (int)c->e->status;
  }
  if (!(c->row->attrs & A_DIM)) return OK;
  TRY(dim_ok(c, dim, &out->shape));
  int64_t *extent = &out->shape.d[dim];
  if (!(c->row->flags & SCATTERS)) return *extent = capped(*extent, ranks), OK;
  if (*extent % ranks) return bad(c, ERR_SHAPE, "dimension %d of extent %lld has no %d equal parts, one a rank", dim, (long long)*extent, ranks);
  return *extent /= ranks, OK;
}

static int infer_accum(const struct ctx *c, struct tensor *out, int *nout)
{
  const struct tensor *x = arg(c, 0);
  *out = (struct tensor){.dtype = x->dtype, .shape = x->shape};
  if (x->phase == AFTER) return bad(c, ERR_GRAPH, "accumulates a tensor that exists only after the loop");
  int s = OK;
  if (c->row->flags & REDUCES) s = reduced(c, &out->shape);
  if (!s && (c->row->flags & RESCALES)) {
    struct shape both;
    if (arg(c, 1)->phase == AFTER) return bad(c, ERR_GRAPH, "the factor must exist inside the loop");
    if (!shape_broadcast(&out->shape, &arg(c, 1)->shape, &both) || !shape_eq(&both, &out->shape))
      s = bad(c, ERR_SHAPE, "the factor does not broadcast to the accumulator");
  }
  for (int i = 0; i < c->g->nloop && !s; i++) {
    int dim = c->n->a.fmap[i];
    if (!(c->row->attrs & A_FMAP) || dim == REPLICA) continue;
    if (!(s = dim_ok(c, dim, &out->shape))) out->shape.d[dim] = capped(out->shape.d[dim], c->g->loop[i]);
  }
  if (!s && (c->row->flags & RUNNING)) *nout = 2, out[1] = out[0];
  return s;
}

int infer_tile(const struct graph *sub, const struct attrs *a, const struct shape *s, struct loc at, struct shape *tile, struct err *e)
{
  *tile = *s;
  for (int i = 0; i < sub->ngrid + sub->nloop; i++) {
    bool grid = i < sub->ngrid;
    int dim = grid ? a->imap[i] : a->fmap[i - sub->ngrid];
    int64_t parts = grid ? sub->grid[i] : sub->loop[i - sub->ngrid];
    if (dim == REPLICA) continue;
    char text[128];
    shape_text(text, s);
    if (dim < 0 || dim >= s->n) return err_set(e, ERR_ATTRIBUTE, at, "iter of %s: a map names dimension %d", text, dim);
    if (tile->d[dim] % parts)
      return err_set(e, ERR_SHAPE, at, "iter of %s: dimension %d has no %lld equal parts left for axis %c", text, dim, (long long)parts,
                     (grid ? "xyz" : "ijkl")[grid ? i : i - sub->ngrid]);
    tile->d[dim] /= parts;
  }
  return OK;
}

// The shape of a saver's tensor in the enclosing graph: its parts joined.
static struct shape joined(const struct graph *sub, const struct node *save)
{
  struct shape s = sub->tensors[save->in[0]].shape;
  for (int i = 0; i < sub->ngrid; i++)
    if (save->a.omap[i] != REPLICA) s.d[save->a.omap[i]] = capped(s.d[save->a.omap[i]], sub->grid[i]);
  return s;
}

static int infer_graph(const struct ctx *c, struct tensor *out, int *nout)
{
  *nout = 0;
  for (int i = 0; i < c->n->sub->nnodes; i++) {
    const struct node *save = &c->n->sub->nodes[i];
    if (save->op != OP_SAVE) continue;
    if (*nout == 64) return bad(c, ERR_LIMIT, "more than 64 outputs");
    const struct tensor *saved = &c->n->sub->tensors[save->in[0]];
    out[(*nout)++] = (struct tensor){.dtype = saved->dtype, .shape = joined(c->n->sub, save), .weak = saved->weak, .adapts = saved->adapts};
    out[*nout - 1].whole = saved->whole, out[*nout - 1].range = saved->range;
    out[*nout - 1].range.distinct = saved->range.distinct && graph_blocks(c->n->sub) == 1; // several blocks may compute the same numbers
  }
  return *nout ? OK : bad(c, ERR_GRAPH, "the %s graph saves nothing", level_name(c->n->sub->level));
}

static int infer_save(const struct ctx *c)
{
  const struct tensor *x = arg(c, 0);
  if (x->phase == VARYING) {
    int s = bad(c, ERR_GRAPH, "saves a tensor that changes with the for-loop");
    err_hint(c->e, "pass it through an accumulator first");
    return s;
  }
  for (int i = 0; i < c->g->ngrid; i++) {
    int dim = c->n->a.omap[i];
    if (dim != REPLICA && dim_ok(c, dim, &x->shape)) return (int)c->e->status;
  }
  return OK;
}

static int phase_of(const struct ctx *c, enum phase *p)
{
  bool after = false, varying = false, run = false;
  for (int i = 0; i < c->n->nin; i++) {
    enum phase x = arg(c, i)->phase;
    after |= x == AFTER, varying |= x == VARYING, run |= x == RUN;
  }
  if (after && varying) {
    int s = bad(c, ERR_GRAPH, "mixes a tensor of the loop with one that exists only after it");
    err_hint(c->e, "accumulate the first one");
    return s;
  }
  *p = after ? AFTER : varying || run ? VARYING : FIXED;
  return OK;
}

static int set_phases(const struct ctx *c, struct tensor *out, int nout)
{
  enum phase p = FIXED;
  if (c->g->level != KERNEL) {
    int s = OK;
    if (c->row->rule == RULE_ACCUM)
      p = c->row->flags & RUNNING ? RUN : AFTER;
    else
      s = phase_of(c, &p);
    if (s) return s;
  }
  for (int i = 0; i < nout; i++) out[i].phase = p;
  return OK;
}

// Infers an operator that chooses between two values by a condition.
static int infer_choice(const struct ctx *c, struct tensor *out)
{
  const struct tensor *x = arg(c, 1), *y = arg(c, 2);
  struct shape both;
  *out = (struct tensor){.dtype = met(x, y), .adapts = x->adapts && y->adapts};
  out->dtype = met(out, arg(c, 0)), out->adapts &= chooses(arg(c, 0));
  bool fits = shape_broadcast(&x->shape, &y->shape, &both) && shape_broadcast(&both, &arg(c, 0)->shape, &out->shape);
  return fits ? OK : bad(c, ERR_SHAPE, "extents differ and neither is 1");
}

static int infer_encoded(const struct ctx *c, struct tensor *out)
{
  if (out->shape.n == MAX_DIMS) return bad(c, ERR_LIMIT, "a tensor has at most %d dimensions", MAX_DIMS);
  out->shape.d[out->shape.n++] = c->n->a.extent;
  return OK;
}

// Results are weak if all operands are, and adapt if all operands do.
static void inherit(const struct ctx *c, struct tensor *out, int n)
{
  bool weak = c->row->rule != RULE_GRAPH, adapts = weak && !(c->row->flags & CASTS);
  for (int i = 0; i < c->n->nin; i++) weak &= arg(c, i)->weak, adapts &= arg(c, i)->adapts;
  for (int i = 0; i < n; i++) out[i].weak |= weak, out[i].adapts |= adapts | out[i].weak;
}

int infer_node(const struct graph *g, const struct node *n, struct tensor *out, int *nout, struct err *e)
{
  const struct ctx c = {g, n, &op_rows[n->op], e};
  *nout = 1;
  int s = OK;
  switch (c.row->rule) {
  case RULE_IO: *nout = 0; return n->op == OP_SAVE ? infer_save(&c) : OK;
  case RULE_CONST: *out = (struct tensor){.dtype = F32}; break;
  case RULE_INDEX: *out = (struct tensor){.dtype = F32, .shape = n->a.shape}; break;
  case RULE_MAP: s = infer_map(&c, out); break;
  case RULE_CONTRACT: s = infer_contract(&c, out); break;
  case RULE_REDUCE: s = infer_reduce(&c, out); break;
  case RULE_VIEW: s = infer_view(&c, out); break;
  case RULE_AT: s = infer_at(g, n, out, nout, e); break;
  case RULE_CONCAT: s = infer_concat(&c, out); break;
  case RULE_SPLIT: s = infer_split(&c, out, nout); break;
  case RULE_WORLD: s = infer_world(&c, out); break;
  case RULE_ACCUM: s = infer_accum(&c, out, nout); break;
  case RULE_GRAPH: s = infer_graph(&c, out, nout); break;
  case RULE_COMPOSITE:
    *out = (struct tensor){.dtype = arg(&c, 0)->dtype, .shape = arg(&c, 0)->shape, .adapts = arg(&c, 0)->adapts};
    if (c.row->flags & (CHOOSES | WHOLES | ENCODES)) {
      s = c.row->flags & CHOOSES ? infer_choice(&c, out) : c.row->flags & WHOLES ? infer_map(&c, out) : infer_encoded(&c, out);
      break;
    }
    if (c.row->flags & REDUCES)
      s = reduced(&c, &out->shape);
    else if (c.row->attrs & A_DIM)
      s = dim_ok(&c, n->a.dim, &out->shape);
    else if (!out->shape.n)
      s = bad(&c, ERR_SHAPE, "needs at least one dimension");
    for (int i = 1; i < n->nin && !s; i++) {
      struct shape both;
      out->dtype = met(out, arg(&c, i)), out->adapts &= arg(&c, i)->adapts;
      if (!shape_broadcast(&out->shape, &arg(&c, i)->shape, &both) || !shape_eq(&both, &out->shape))
        s = bad(&c, ERR_SHAPE, "argument %d does not broadcast to the first", i + 1);
    }
    break;
  }
  for (int i = 0; i < *nout && !s; i++) s = size_ok(&c, &out[i].shape);
  if (!s) inherit(&c, out, *nout);
  if (!s && c.row->rule != RULE_GRAPH) s = infer_whole(g, n, out, *nout, e);
  if (!s) infer_extents(g, n, out, *nout);
  return s ? s : set_phases(&c, out, *nout);
}
