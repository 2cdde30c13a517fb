// Index classes. Labels are propagated from outputs to inputs, like the index letters of an einsum. Elementwise operators pass them on, a matrix
// product adds one for its contracted dimension, a reduction one for the reduced dimension. Reshape and repeat split a class in two as needed.
//
// If each use of a tensor had its own labels, graphs would be lost, because distributivity joins uses. The products of a gated MLP share one loop,
// and (W + BA) X of LoRA needs one label for both uses of X. So a later use of a tensor keeps the labels of the first, with two exceptions:
//
//   - A class must not be both free and contracted. An MLP with a residual contracts X[m, k] and adds X[m, n] to the result: k and n stay apart.
//   - A tensor must not have one class twice. X times its transpose labels the two uses of X differently.
//
// Reductions may join any classes: softmax sums over a dimension that its result keeps.
#include "search/space.h"

#include <string.h>

enum { MAX_NODES = 512 };

struct cls {
  int64_t extent;
  unsigned kind;
  int parent;       // joined to another class, or -1
  int outer, inner; // the two classes that it was split into, or -1
  char name[24];
};
struct build {
  struct space *s;
  const struct graph *p;
  int n;
  struct cls c[MAX_NODES];
  int nv;
  struct {
    int tensor, in[2]; // the operands' visits
    struct labels l;
  } v[MAX_VISITS];
  char *why;
  bool failed;
};

static int fail(struct build *b, const char *why)
{
  if (!b->failed) snprintf(b->why, 160, "%s", why);
  b->failed = true;
  return -1;
}

static int root(const struct build *b, int c)
{
  while (b->c[c].parent >= 0) c = b->c[c].parent;
  return c;
}

static int fresh(struct build *b, int64_t extent, unsigned kind, const char *name, int dim)
{
  if (b->n == MAX_NODES) return fail(b, "too many index classes"), 0;
  b->c[b->n] = (struct cls){extent, kind, -1, -1, -1, ""};
  snprintf(b->c[b->n].name, sizeof b->c[b->n].name, "%.18s.%d", name ? name : "t", dim);
  return b->n++;
}

// Appends class c to d, or the classes that it was split into.
static void put(struct build *b, struct dim *d, int c)
{
  c = root(b, c);
  if (b->c[c].outer >= 0) {
    put(b, d, b->c[c].outer);
    put(b, d, b->c[c].inner);
  } else if (d->n < (int)COUNT(d->c) && c < 128) {
    d->c[d->n++] = (int8_t)c;
  } else {
    fail(b, "a dimension is made of too many index classes");
  }
}

static struct dim resolve(struct build *b, const struct dim *d)
{
  struct dim r = {0};
  for (int i = 0; i < d->n; i++) put(b, &r, d->c[i]);
  return r;
}

static struct labels resolve_all(struct build *b, const struct labels *l)
{
  struct labels r = {l->n};
  for (int i = 0; i < l->n; i++) r.d[i] = resolve(b, &l->d[i]);
  return r;
}

// Splits c into an outer and an inner class of the given extent.
static bool cut(struct build *b, int c, int64_t inner)
{
  c = root(b, c);
  if (inner <= 1 || b->c[c].extent % inner) return fail(b, "a reshape or repeat cuts a dimension unevenly"), false;
  int o = fresh(b, b->c[c].extent / inner, b->c[c].kind, b->c[c].name, 0);
  int i = fresh(b, inner, b->c[c].kind, b->c[c].name, 1);
  b->c[c].outer = o, b->c[c].inner = i;
  return !b->failed;
}

// Splits list d into an outer part and an inner part of extent `inner`; splits a class if necessary.
static bool split_at(struct build *b, const struct dim *d, int64_t inner, struct dim *outer, struct dim *in)
{
  for (int tries = 0; tries < 64 && !b->failed; tries++) {
    struct dim r = resolve(b, d);
    int64_t n = 1;
    int i = r.n;
    while (i > 0 && n < inner) n *= b->c[(int)r.c[--i]].extent;
    if (n == inner) {
      *outer = (struct dim){0}, *in = (struct dim){0};
      for (int k = 0; k < r.n; k++) put(b, k < i ? outer : in, r.c[k]);
      return !b->failed;
    }
    int64_t behind = n / b->c[(int)r.c[i]].extent;
    if (n < inner || inner % behind) return fail(b, "a reshape or repeat cuts a dimension unevenly"), false;
    cut(b, r.c[i], inner / behind);
  }
  return false;
}

static bool together(struct build *b, int x, int y)
{
  for (int v = 0; v < b->nv; v++) {
    bool hx = false, hy = false;
    struct labels l = resolve_all(b, &b->v[v].l);
    for (int i = 0; i < l.n; i++)
      for (int k = 0; k < l.d[i].n; k++) hx |= l.d[i].c[k] == x, hy |= l.d[i].c[k] == y;
    if (hx && hy) return true;
  }
  return false;
}

static bool may_join(struct build *b, int x, int y)
{
  if (x == y) return true;
  unsigned both = b->c[x].kind | b->c[y].kind;
  if (b->c[x].extent != b->c[y].extent || ((both & FREE) && (both & CONTRACTED))) return false;
  return !together(b, x, y);
}

static bool same_list(const struct dim *x, const struct dim *y) { return x->n == y->n && !memcmp(x->c, y->c, (size_t)x->n); }

// Splits classes until both lists, of equal total extent, have pieces of the same extents.
static bool refine(struct build *b, const struct dim *x, const struct dim *y)
{
  for (int tries = 0; tries < 64; tries++) {
    struct dim a = resolve(b, x), c = resolve(b, y);
    int i = a.n - 1, k = c.n - 1;
    while (i >= 0 && k >= 0 && b->c[(int)a.c[i]].extent == b->c[(int)c.c[k]].extent) i--, k--;
    if (i < 0 || k < 0) return i == k;
    int64_t ex = b->c[(int)a.c[i]].extent, ey = b->c[(int)c.c[k]].extent;
    if (ex > ey ? ex % ey : ey % ex) return false;
    if (!(ex > ey ? cut(b, a.c[i], ey) : cut(b, c.c[k], ex))) return false;
  }
  return false;
}

// Gives visit v the labels l, if the rules at the head of this file permit.
static bool join(struct build *b, int v, const struct labels *l)
{
  for (int i = 0; i < l->n; i++) {
    struct dim x = resolve(b, &b->v[v].l.d[i]), y = resolve(b, &l->d[i]);
    if (same_list(&x, &y)) continue;
    if (x.n != y.n && !refine(b, &x, &y)) return false;
  }
  struct labels x = resolve_all(b, &b->v[v].l), y = resolve_all(b, l);
  for (int i = 0; i < l->n; i++)
    for (int k = 0; k < x.d[i].n; k++)
      if (!may_join(b, x.d[i].c[k], y.d[i].c[k])) return false;
  for (int i = 0; i < l->n; i++)
    for (int k = 0; k < x.d[i].n; k++) {
      int rx = root(b, x.d[i].c[k]), ry = root(b, y.d[i].c[k]);
      if (rx == ry) continue;
      b->c[rx].kind |= b->c[ry].kind;
      b->c[ry].parent = rx;
    }
  return true;
}

static int visit(struct build *b, int t, const struct labels *l);

static struct dim one(int c) { return (struct dim){1, {(int8_t)c}}; }

// Labels of an operand of shape s that broadcasts to labels l.
static struct labels broadcast(const struct labels *l, const struct shape *s)
{
  struct labels r = {s->n};
  for (int i = 1; i <= s->n; i++)
    if (s->d[s->n - i] > 1 && i <= l->n) r.d[s->n - i] = l->d[l->n - i];
  return r;
}

static void visit_product(struct build *b, const struct node *n, const struct labels *l, int in[2])
{
  const struct tensor *x = &b->p->tensors[n->in[0]], *y = &b->p->tensors[n->in[1]];
  struct labels lx = broadcast(l, &x->shape), ly = broadcast(l, &y->shape);
  int64_t k = x->shape.d[x->shape.n - 1];
  struct dim c = {0};
  if (k > 1) c = one(fresh(b, k, CONTRACTED, y->name, y->shape.n - 2));
  lx.d[lx.n - 2] = l->d[l->n - 2], lx.d[lx.n - 1] = c;
  ly.d[ly.n - 2] = c, ly.d[ly.n - 1] = l->d[l->n - 1];
  in[0] = visit(b, n->in[0], &lx);
  in[1] = visit(b, n->in[1], &ly);
}

static int visit_reduce(struct build *b, const struct node *n, const struct labels *l)
{
  const struct tensor *x = &b->p->tensors[n->in[0]];
  struct labels lx = *l;
  int64_t from = x->shape.d[n->a.dim], to = b->p->tensors[n->out].shape.d[n->a.dim];
  if (from > to) put(b, &lx.d[n->a.dim], fresh(b, from / to, REDUCED, x->name, n->a.dim));
  return visit(b, n->in[0], &lx);
}

static int visit_reshape(struct build *b, const struct node *n, const struct labels *l)
{
  const struct shape *from = &b->p->tensors[n->in[0]].shape;
  struct dim flat = {0};
  for (int i = 0; i < l->n; i++)
    for (int k = 0; k < l->d[i].n; k++) put(b, &flat, l->d[i].c[k]);
  struct labels lx = {from->n};
  for (int i = from->n - 1; i >= 0 && !b->failed; i--) {
    struct dim outer = {0};
    if (from->d[i] > 1 && split_at(b, &flat, from->d[i], &outer, &lx.d[i])) flat = outer;
  }
  return b->failed ? -1 : visit(b, n->in[0], &lx);
}

static int visit_view(struct build *b, const struct node *n, const struct labels *l)
{
  struct labels lx = *l;
  int last = l->n - 1;
  if (n->op == OP_RESHAPE) return visit_reshape(b, n, l);
  if (n->op == OP_TRANSPOSE) {
    for (int i = 0; i <= last; i++) lx.d[n->a.perm.n ? n->a.perm.d[i] : i < last - 1 ? i : 2 * last - 1 - i] = l->d[i];
  } else if (n->op == OP_REPEAT) {
    struct dim rep;
    if (n->a.times > 1 && !split_at(b, &l->d[n->a.dim], n->a.times, &lx.d[n->a.dim], &rep)) return -1;
  } else {
    return fail(b, "a part of a tensor");
  }
  return visit(b, n->in[0], &lx);
}

// The visit of tensor t under labels l; an earlier visit if they can be joined.
static int visit(struct build *b, int t, const struct labels *l)
{
  for (int v = b->nv - 1; v >= 0 && !b->failed; v--)
    if (b->v[v].tensor == t && join(b, v, l)) return v;
  if (b->failed) return -1;
  if (b->nv == MAX_VISITS) return fail(b, "too many uses of tensors");
  int me = b->nv++, in[2] = {-1, -1};
  b->v[me].tensor = t, b->v[me].l = *l;
  const struct node *n = &b->p->nodes[b->p->tensors[t].node];
  switch (op_rows[n->op].rule) {
  case RULE_IO:
  case RULE_CONST:
  case RULE_INDEX: break;
  case RULE_AT: return fail(b, "data-dependent indices");
  case RULE_MAP:
    for (int i = 0; i < n->nin; i++) {
      struct labels lx = broadcast(l, &b->p->tensors[n->in[i]].shape);
      in[i] = visit(b, n->in[i], &lx);
    }
    break;
  case RULE_CONTRACT: visit_product(b, n, l, in); break;
  case RULE_REDUCE: in[0] = visit_reduce(b, n, l); break;
  case RULE_VIEW: in[0] = visit_view(b, n, l); break;
  case RULE_CONCAT:
  case RULE_SPLIT:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_ACCUM:
  case RULE_GRAPH: return fail(b, "an operator that has no index classes");
  }
  b->v[me].in[0] = in[0], b->v[me].in[1] = in[1];
  return me;
}

mask labels_mask(const struct labels *l)
{
  mask m = 0;
  for (int i = 0; i < l->n; i++)
    for (int k = 0; k < l->d[i].n; k++) m |= all_of(l->d[i].c[k]);
  return m;
}

static bool same_labels(const struct labels *x, const struct labels *y)
{
  bool same = x->n == y->n;
  for (int i = 0; i < x->n && same; i++) same = same_list(&x->d[i], &y->d[i]);
  return same;
}

static int renumber(struct build *b, int *map, int c)
{
  if (map[c] >= 0) return map[c];
  if (b->s->nclass == MAX_CLASSES) return fail(b, "more index classes than the search can hold"), 0;
  struct index_class *k = &b->s->classes[b->s->nclass];
  *k = (struct index_class){.extent = b->c[c].extent, .kind = b->c[c].kind};
  memcpy(k->name, b->c[c].name, sizeof k->name);
  return map[c] = b->s->nclass++;
}

// Copies visits with final class numbers, merges equal ones, and finds the visits of the outputs.
static void finish(struct build *b, const int *out, int nout)
{
  int map[MAX_NODES], to[MAX_VISITS];
  memset(map, -1, sizeof map);
  for (int v = 0; v < b->nv && !b->failed; v++) {
    struct labels l = resolve_all(b, &b->v[v].l);
    int tensor = b->v[v].tensor, at = -1;
    for (int i = 0; i < l.n; i++)
      for (int k = 0; k < l.d[i].n; k++) l.d[i].c[k] = (int8_t)renumber(b, map, l.d[i].c[k]);
    for (int k = 0; k < b->s->nvisit && at < 0; k++)
      if (b->s->visit[k].tensor == tensor && same_labels(&b->s->visit[k].l, &l)) at = k;
    if (at < 0) b->s->visit[at = b->s->nvisit++] = (struct visit){tensor, {b->v[v].in[0], b->v[v].in[1]}, l, labels_mask(&l)};
    to[v] = at;
  }
  for (int v = 0; v < b->s->nvisit && !b->failed; v++)
    for (int i = 0; i < 2; i++)
      if (b->s->visit[v].in[i] >= 0) b->s->visit[v].in[i] = to[b->s->visit[v].in[i]];
  for (int o = 0; o < nout && !b->failed; o++) b->s->out[b->s->nout++] = to[out[o]];
}

// Chooses extents of pieces in fingerprints: small, at least 2, different for adjacent pieces, and equal for classes that label the same dimension.
// Only summed classes can be looped over.
static bool small_extents(struct space *s)
{
  static const int grid[] = {2, 3, 2, 2}, tile[] = {2, 2, 3, 2, 3};
  static const int primes[] = {2,   3,   5,   7,   11,  13,  17,  19,  23,  29,  31,  37,  41,  43,  47,  53,  59,  61,  67,  71,
                               73,  79,  83,  89,  97,  101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167, 173,
                               179, 181, 191, 193, 197, 199, 211, 223, 227, 229, 233, 239, 241, 251, 257, 263, 269, 271, 277, 281};
  int tie[MAX_CLASSES];
  for (int i = 0; i < s->nclass; i++) tie[i] = i;
  for (int a = 0; a < s->nvisit; a++)
    for (int b = 0; b < a; b++) {
      const struct visit *x = &s->visit[a], *y = &s->visit[b];
      for (int i = 0; i < x->l.n && x->tensor == y->tensor; i++) {
        if (x->l.d[i].n != y->l.d[i].n) return false;
        for (int k = 0; k < x->l.d[i].n; k++) {
          int from = tie[(int)x->l.d[i].c[k]], to = tie[(int)y->l.d[i].c[k]];
          for (int c = 0; c < s->nclass; c++) tie[c] = tie[c] == from ? to : tie[c];
        }
      }
    }
  for (int i = 0; i < s->nclass; i++) {
    struct index_class *c = &s->classes[i];
    bool loops = false;
    for (int k = 0; k < s->nclass; k++) loops |= tie[k] == tie[i] && (s->classes[k].kind & ~(unsigned)FREE);
    c->small[GRID] = grid[tie[i] % 4], c->small[LOOP] = loops ? 2 : 1, c->small[TILE] = tile[tie[i] % 5];
    for (int k = 0; k < 3; k++) c->prime[k] = (uint64_t)primes[3 * i + k];
    if (!loops) c->prime[LOOP] = 1;
  }
  return true;
}

void classes_shrink(struct space *s)
{
  for (int c = 0; c < s->nclass; c++) s->classes[c].small[GRID] = s->classes[c].small[LOOP] = 1;
}

int classes_build(struct space *s, const struct graph *p, char why[160])
{
  static const char clash[] = "a tensor is used under two ways of cutting its dimensions";
  *s = (struct space){.p = p};
  struct arena mem = {0};
  struct build *b = NEW(&mem, struct build);
  b->s = s, b->p = p, b->why = why;
  int tensors[64], out[64], nout = 0;
  *why = 0;
  for (int i = 0; i < p->nnodes; i++) nout += p->nodes[i].op == OP_OUTPUT;
  if (nout > 64) fail(b, "more than 64 outputs"), nout = 0;
  graph_outputs(p, nout ? tensors : NULL);
  for (int o = 0; o < nout && !b->failed; o++) {
    const struct tensor *t = &p->tensors[tensors[o]];
    struct labels l = {t->shape.n};
    for (int i = 0; i < t->shape.n; i++)
      if (t->shape.d[i] > 1) l.d[i] = one(fresh(b, t->shape.d[i], FREE, t->name ? t->name : "out", i));
    out[o] = visit(b, tensors[o], &l);
  }
  if (!b->failed) finish(b, out, nout);
  if (!b->failed && !small_extents(s)) fail(b, clash);
  bool failed = b->failed;
  arena_close(&mem);
  return failed ? NO : OK;
}
