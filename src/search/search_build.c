// Builds a block graph from a structure and sizes. Values have no order of dimensions, so each gets the order of its operands. Reshapes and
// transposes (views of the tile) are added only before a matrix product or a saver that needs another order. A product is transposed if that saves
// views.
#include "search/space.h"

#include <string.h>

struct tile {
  int t;           // tensor of the block graph
  struct labels l; // classes of each dimension; a class whose stored pieces have extent 1 still has its position
};
struct maker {
  struct graph *b; // block graph
  const struct space *s;
  const struct table *t;
  const struct sizes *z;
  const struct device *dev;
  mask target;     // classes of the program's first output, for the orientation of products
  struct tile *at; // by value
  struct err *e;
};

static bool holds(const struct dim *d, int c)
{
  for (int i = 0; i < d->n; i++)
    if (d->c[i] == c) return true;
  return false;
}

static bool same(const struct dim *x, const struct dim *y) { return x->n == y->n && !memcmp(x->c, y->c, (size_t)x->n); }

static struct dim flatten(const struct labels *l)
{
  struct dim f = {0};
  for (int i = 0; i < l->n; i++)
    for (int k = 0; k < l->d[i].n && f.n < (int)COUNT(f.c); k++) f.c[f.n++] = l->d[i].c[k];
  return f;
}

// Dimensions beyond the limit are dropped. The resulting graph fits no operator or is not equal, and is discarded.
static void append(struct labels *l, struct dim d)
{
  if (l->n < MAX_DIMS) l->d[l->n++] = d;
}

// Shape of labels l for a tile that stores `stored`.
static struct shape shape_of(const struct maker *m, const struct labels *l, mask stored)
{
  struct shape s = {l->n};
  for (int i = 0; i < l->n; i++) {
    s.d[i] = 1;
    for (int k = 0; k < l->d[i].n; k++) s.d[i] *= size_of(m->z, stored & all_of(l->d[i].c[k]));
  }
  return s;
}

static int view(struct maker *m, enum op op, const struct attrs *a, struct tile *x) { return graph_add(m->b, op, 1, &x->t, a, NOWHERE, &x->t, m->e); }

static int reshape(struct maker *m, struct tile *x, const struct labels *to, mask stored)
{
  struct attrs a = attrs_default(OP_RESHAPE);
  a.shape = shape_of(m, to, stored);
  x->l = *to;
  return shape_eq(&a.shape, &m->b->tensors[x->t].shape) ? OK : view(m, OP_RESHAPE, &a, x);
}

// Gives x the labels `to`, which contain the same classes as its own.
static int relayout(struct maker *m, struct tile *x, const struct labels *to, mask stored)
{
  struct dim from = flatten(&x->l), want = flatten(to);
  if (same(&from, &want)) return reshape(m, x, to, stored);
  struct labels split = {0}, turned = {0};
  for (int i = 0; i < from.n; i++) append(&split, (struct dim){1, {from.c[i]}});
  for (int i = 0; i < want.n; i++) append(&turned, (struct dim){1, {want.c[i]}});
  int s = reshape(m, x, &split, stored);
  struct attrs a = attrs_default(OP_TRANSPOSE);
  a.perm.n = want.n;
  for (int i = 0; i < want.n; i++)
    for (int k = 0; k < from.n; k++)
      if (from.c[k] == want.c[i]) a.perm.d[i] = k;
  if (!s) s = view(m, OP_TRANSPOSE, &a, x);
  x->l = turned;
  return s ? s : reshape(m, x, to, stored);
}

// The dimensions of `l` restricted to classes in `only` (as stored masks).
static struct labels restrict_to(const struct labels *l, mask only)
{
  struct labels r = {l->n};
  for (int i = 0; i < l->n; i++)
    for (int k = 0; k < l->d[i].n; k++)
      if (only & all_of(l->d[i].c[k])) r.d[i].c[r.d[i].n++] = l->d[i].c[k];
  return r;
}

static bool broadcasts(const struct labels *x, const struct labels *y)
{
  for (int i = 1; i <= MIN(x->n, y->n); i++) {
    const struct dim *a = &x->d[x->n - i], *b = &y->d[y->n - i];
    if (a->n && b->n && !same(a, b)) return false;
  }
  for (int i = 1; i <= x->n; i++) // no class in two places
    for (int k = 1; k <= y->n; k++)
      for (int c = 0; c < x->d[x->n - i].n && i != k; c++)
        if (holds(&y->d[y->n - k], x->d[x->n - i].c[c])) return false;
  return true;
}

static struct labels joined(const struct labels *x, const struct labels *y)
{
  struct labels r = {MAX(x->n, y->n)};
  for (int i = 1; i <= r.n; i++) {
    struct dim a = i <= x->n ? x->d[x->n - i] : (struct dim){0}, b = i <= y->n ? y->d[y->n - i] : (struct dim){0};
    r.d[r.n - i] = a.n ? a : b;
  }
  return r;
}

// Splits a dimension at each class that other operands have, because a dimension that an operand has only in part cannot broadcast.
static struct labels cut_alike(const struct labels *l, mask sx, mask sy)
{
  struct labels r = {0};
  for (int i = 0; i < l->n; i++) {
    int was = -1;
    if (!l->d[i].n) append(&r, l->d[i]);
    for (int k = 0; k < l->d[i].n; k++) {
      mask c = all_of(l->d[i].c[k]);
      int in = (sx & c ? 1 : 0) | (sy & c ? 2 : 0);
      if (in != was) append(&r, (struct dim){0});
      struct dim *to = &r.d[r.n - 1];
      if (to->n < (int)COUNT(to->c)) to->c[to->n++] = l->d[i].c[k]; // classes beyond the limit are dropped, as in append
      was = in;
    }
  }
  return r;
}

static int line_up(struct maker *m, struct tile *x, mask sx, struct tile *y, mask sy)
{
  if (broadcasts(&x->l, &y->l)) return OK;
  struct labels all = {0};
  if (!(sy & ~sx))
    all = x->l;
  else if (!(sx & ~sy))
    all = y->l;
  for (int c = 0; c < m->s->nclass && !all.n; c++) {
    if (!((sx | sy) & all_of(c))) continue;
    for (; c < m->s->nclass; c++)
      if ((sx | sy) & all_of(c)) append(&all, (struct dim){1, {(int8_t)c}});
  }
  all = cut_alike(&all, sx, sy);
  struct labels lx = restrict_to(&all, sx), ly = restrict_to(&all, sy);
  int s = relayout(m, x, &lx, sx);
  return s ? s : relayout(m, y, &ly, sy);
}

static int make_map(struct maker *m, const struct deriv *d, const struct attrs *a, struct tile *out)
{
  const struct search_value *vx = &m->t->v[d->a], *vy = d->b < 0 ? NULL : &m->t->v[d->b];
  struct tile x = m->at[d->a];
  if (!vy) {
    *out = x;
    return graph_add(m->b, d->op, 1, &x.t, a, NOWHERE, &out->t, m->e);
  }
  struct tile y = m->at[d->b];
  int s = line_up(m, &x, vx->stored, &y, vy->stored);
  out->l = joined(&x.l, &y.l);
  return s ? s : graph_add(m->b, d->op, 2, (int[]){x.t, y.t}, a, NOWHERE, &out->t, m->e);
}

static int make_fold(struct maker *m, const struct deriv *d, struct tile *out)
{
  mask stored = m->t->v[d->a].stored;
  struct tile x = m->at[d->a];
  struct attrs a = attrs_default(d->op);
  int at = -1, s = OK;
  for (int i = 0; i < x.l.n && d->cls >= 0; i++)
    if (holds(&x.l.d[i], d->cls)) at = i;
  if (at >= 0 && x.l.d[at].n > 1) { // the class shares a dimension: split it, so that the class has its own
    struct labels split = {0};
    for (int i = 0; i < x.l.n; i++)
      for (int k = 0; k < MAX(1, x.l.d[i].n); k++) append(&split, x.l.d[i].n ? (struct dim){1, {x.l.d[i].c[k]}} : x.l.d[i]);
    s = reshape(m, &x, &split, stored);
    for (int i = 0; i < x.l.n; i++)
      if (holds(&x.l.d[i], d->cls)) at = i;
  }
  a.dim = MAX(at, 0);
  out->l = x.l;
  if (at >= 0) out->l.d[at].n = 0;
  return s ? s : graph_add(m->b, d->op, 1, &x.t, &a, NOWHERE, &out->t, m->e);
}

// ---- products -------------------------------------------------------------------------------------------------

struct build_product {
  int c;
  mask batch, rows, cols;     // stored pieces
  struct labels lead, lx, ly; // wanted
  int views;                  // number of reshapes and transposes that this needs
};

static bool inside(const struct dim *d, mask only)
{
  for (int i = 0; i < d->n; i++)
    if (!(only & all_of(d->c[i]))) return false;
  return true;
}

static struct dim gathered(const struct labels *l, mask only)
{
  struct labels r = restrict_to(l, only);
  return flatten(&r);
}

static int effort(const struct labels *from, const struct labels *to)
{
  bool equal = from->n == to->n;
  for (int i = 0; i < from->n && equal; i++) equal = same(&from->d[i], &to->d[i]);
  struct dim a = flatten(from), b = flatten(to);
  return equal ? 0 : same(&a, &b) ? 1 : 3;
}

// The layout of x * y over class c, and its cost in views.
static struct build_product lay_product(const struct maker *m, const struct tile *x, mask sx, const struct tile *y, mask sy, int c)
{
  struct build_product p = {c, sx & sy & ~all_of(c), sx & ~sy & ~all_of(c), sy & ~sx & ~all_of(c), {0}, {0}, {0}, 0};
  // the pattern is the first operand whose leading dimensions are already in front
  const struct labels *pattern = NULL, *both[2] = {&x->l, &y->l};
  for (int k = 0; k < 2 && !pattern; k++) {
    bool fits = both[k]->n >= 2;
    for (int i = 0; i < both[k]->n - 2 && fits; i++) fits = inside(&both[k]->d[i], p.batch);
    for (int i = MAX(0, both[k]->n - 2); i < both[k]->n && fits; i++)
      for (int j = 0; j < both[k]->d[i].n; j++) fits &= !(p.batch & all_of(both[k]->d[i].c[j]));
    if (fits) pattern = both[k];
  }
  if (pattern) {
    for (int i = 0; i < pattern->n - 2; i++) append(&p.lead, pattern->d[i]);
  } else {
    struct dim batch = gathered(&x->l, p.batch);
    for (int i = 0; i < batch.n; i++) append(&p.lead, (struct dim){1, {batch.c[i]}});
  }
  p.lx = p.ly = p.lead;
  append(&p.lx, gathered(&x->l, p.rows)), append(&p.lx, (struct dim){1, {(int8_t)c}});
  append(&p.ly, (struct dim){1, {(int8_t)c}}), append(&p.ly, gathered(&y->l, p.cols));
  p.views = effort(&x->l, &p.lx) + effort(&y->l, &p.ly);
  (void)m;
  return p;
}

static int make_product(struct maker *m, const struct deriv *d, struct tile *out)
{
  struct tile x = m->at[d->a], y = m->at[d->b];
  mask sx = m->t->v[d->a].stored, sy = m->t->v[d->b].stored;
  struct build_product p = lay_product(m, &x, sx, &y, sy, d->cls), q = lay_product(m, &y, sy, &x, sx, d->cls);
  // The output's rows should be the target's rows, or there should be one row. The next sum then runs over the innermost dimension, and a softmax
  // takes its maximum along rows. An order that does not give such rows counts as two more views.
  const bool keep_rows = !p.rows || p.rows & m->target, turn_rows = !q.rows || q.rows & m->target;
  int keep_cost = p.views + 2 * (!keep_rows && turn_rows), turn_cost = q.views + 2 * (!turn_rows && keep_rows);
  bool turn = turn_cost != keep_cost ? turn_cost < keep_cost : (p.rows & -p.rows) > (q.rows & -q.rows);
  if (turn) {
    struct tile keep = x;
    x = y, y = keep, p = q;
    mask s = sx;
    sx = sy, sy = s;
  }
  int s = relayout(m, &x, &p.lx, sx);
  if (!s) s = relayout(m, &y, &p.ly, sy);
  out->l = p.lead;
  append(&out->l, p.lx.d[p.lx.n - 2]), append(&out->l, p.ly.d[p.ly.n - 1]);
  return s ? s : graph_add(m->b, OP_MATMUL, 2, (int[]){x.t, y.t}, NULL, NOWHERE, &out->t, m->e);
}

// ---- leaves and roots ---------------------------------------------------------------------------------------------

static int dim_of(const struct labels *l, int c)
{
  for (int i = 0; i < l->n; i++)
    if (holds(&l->d[i], c)) return i;
  return REPLICA;
}

static int make_leaf(struct maker *m, const struct graph *above, const struct search_value *v, const struct search_placed *from, struct tile *out)
{
  const struct device *d = &m->dev[v->leaf];
  const struct node *constant = device_constant(m->s, d);
  if (constant) return graph_add(m->b, OP_CONST, 0, NULL, &constant->a, NOWHERE, &out->t, m->e);
  struct attrs a = attrs_default(OP_ITER);
  for (int i = 0; i < m->t->sch.ngrid; i++) {
    int c = m->t->sch.grid[i];
    if (d->has & ~v->stored & bit(c, GRID) && (d->has & all_of(c)) == all_of(c)) a.imap[i] = (int8_t)dim_of(&from->l, c);
  }
  int l = m->t->sch.loop;
  if (l >= 0 && (d->has & ~v->stored & bit(l, LOOP))) a.fmap[0] = (int8_t)dim_of(&from->l, l);
  out->l = from->l;
  return graph_iter(m->b, above, from->tensor, &a, NOWHERE, &out->t, m->e);
}

// The device layout of a root: `want` if given, else the tile's layout with one class for each dimension, partial sums in front.
static struct labels saved_labels(const struct maker *m, const struct tile *x, const struct search_value *v, const struct labels *want)
{
  if (want->n >= 0) return *want;
  struct labels l = {0};
  for (int c = 0; c < m->s->nclass; c++)
    if ((v->has & all_of(c)) == bit(c, GRID) && !(v->stored & all_of(c))) append(&l, (struct dim){1, {(int8_t)c}});
  for (int i = 0; i < x->l.n; i++) { // dimensions of extent 1 stay, so that the dimensions of one kernel's tensors correspond in the next kernel
    if (!x->l.d[i].n) append(&l, (struct dim){0});
    for (int k = 0; k < x->l.d[i].n; k++) append(&l, (struct dim){1, {x->l.d[i].c[k]}});
  }
  return l;
}

static int save(struct maker *m, int value, const struct labels *want, struct search_placed *made)
{
  const struct search_value *v = &m->t->v[value];
  struct tile x = m->at[value];
  made->l = saved_labels(m, &x, v, want);
  struct labels tile = restrict_to(&made->l, v->stored);
  int s = relayout(m, &x, &tile, v->stored);
  struct attrs a = attrs_default(OP_SAVE);
  for (int i = 0; i < m->t->sch.ngrid; i++) a.omap[i] = (int8_t)dim_of(&made->l, m->t->sch.grid[i]);
  return s ? s : graph_add(m->b, OP_SAVE, 1, &x.t, &a, NOWHERE, &(int){0}, m->e);
}

static int make_value(struct maker *m, const struct deriv *d, struct tile *out)
{
  struct attrs a = attrs_default(d->op);
  if (op_rows[d->op].rule == RULE_MAP) {
    if (d->attrs >= 0) a = m->t->voc->i[d->attrs].a;
    return make_map(m, d, &a, out);
  }
  return d->op == OP_MATMUL ? make_product(m, d, out) : make_fold(m, d, out);
}

int build_block(struct graph *g, const struct space *s, const struct table *t, const struct pick *p, const struct sizes *z, const struct device *dev,
                const struct search_placed *dev_at, const int *roots, int nroots, const struct labels *want, struct search_placed *made,
                struct err *e)
{
  struct graph *b = graph_new(g->mem, BLOCK, NULL);
  int64_t grid[MAX_GRID];
  for (int i = 0; i < t->sch.ngrid; i++) grid[i] = z->ext[t->sch.grid[i]][GRID];
  graph_axes(b, t->sch.ngrid, grid, t->sch.loop >= 0, t->sch.loop >= 0 ? &z->ext[t->sch.loop][LOOP] : NULL);
  struct arena mem = {0};
  struct maker m = {b, s, t, z, dev, s->visit[s->out[0]].full, NEWS(&mem, struct tile, t->n), e};
  int in[MAX_PICK], nin = 0, status = OK, first;
  for (int i = 0; i < p->n && !status; i++) {
    int v = p->value[i], leaf = t->v[v].leaf;
    if (p->deriv[i] >= 0) {
      status = make_value(&m, &t->d[p->deriv[i]], &m.at[v]);
    } else {
      status = make_leaf(&m, g, &t->v[v], &dev_at[leaf], &m.at[v]);
      if (!device_constant(s, &dev[leaf])) in[nin++] = dev_at[leaf].tensor;
    }
  }
  for (int k = 0; k < nroots && !status; k++) status = save(&m, roots[k], &want[k], &made[k]);
  if (!status) status = graph_nest(g, b, nin, in, NOWHERE, &first, e);
  for (int k = 0; k < nroots && !status; k++) made[k].tensor = first + k;
  arena_close(&mem);
  return status;
}
