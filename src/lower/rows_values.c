// Normal form -> values over axes (rows.h). Letters, grid axes and loop axes become axes alike: an accumulator is a fold over
// loop axes, a reduction one over letters. Running maxima become final ones and what rescales by them plain sums, which
// rows_running.c has found to be the same.
#include "lower/rows.h"

#include <math.h>
#include <string.h>

// Parts that are joined: a value that is no value, but one for each index of an axis. What works on it works on each.
enum { MOST_PARTS = 16, MOST_STORES = 64 };
struct parts {
  int value, axis, n, part[MOST_PARTS];
  struct parts *next;
};

struct making {
  const struct norm *n;
  struct parts *parts;
  int saves; // nodes so far; one may be several stores
  const enum dtype *store;
  struct rows *r;
  int cap;
  int *of; // by tensor of the block graph: the value of a root
  char *why;
  struct arena *mem;
  int about; // node + 1 that is looked at
};

static int cannot(struct making *m, const struct node *n, const char *what) { return snprintf(m->why, 160, "%s: %s", op_rows[n->op].name, what), NO; }

static int grid_axis(int i) { return MAX_LETTERS + i; }
static int loop_axis(int i) { return MAX_LETTERS + MAX_GRID + i; }

// The axes that a loop axis is: itself, or the letters that it is in what joins its parts.
static axis_set axes_of_loop(const struct making *m, int i)
{
  axis_set s = 0;
  for (int l = 0; l < m->n->nletters; l++)
    if (m->n->step[i][l]) s |= AXIS(l);
  return s ? s : m->n->block->loop[i] > 1 ? AXIS(loop_axis(i)) : 0;
}

// What an accumulator folds: the loop axes that it does not join.
static axis_set loop_axes(const struct making *m, const struct node *n)
{
  axis_set s = 0;
  for (int i = 0; i < m->n->block->nloop; i++)
    if (n->op != OP_ACCUM || n->a.fmap[i] == REPLICA) s |= axes_of_loop(m, i);
  return s;
}

static int64_t extent(const struct making *m, axis_set s)
{
  int64_t x = 1;
  for (; s; s &= s - 1) x *= m->r->extent[__builtin_ctzll(s)];
  return x;
}

static int add(struct making *m, struct row_value v)
{
  struct rows *r = m->r;
  v.about = m->about;
  PUSH(m->mem, r->v, r->nvalues, m->cap) = v;
  return r->nvalues - 1;
}

// The value of an argument.
static int value(const struct making *m, int tensor) { return m->of[m->n->t[tensor].root]; }

static struct row_access access_of(const struct making *m, const struct access *a)
{
  const struct tensor *t = &m->n->kernels->tensors[a->tensor];
  struct row_access x = {
      .tensor = a->tensor, .type = m->store ? m->store[a->tensor] : t->dtype, .elements = norm_elements(m->n, a->tensor), .offset = a->offset};
  for (int i = 0; i < m->n->nletters; i++) x.stride[i] = a->stride[i];
  for (int i = 0; i < m->n->block->ngrid; i++) x.stride[grid_axis(i)] = a->grid[i];
  for (int i = 0; i < m->n->block->nloop; i++) {
    bool joined = !(axes_of_loop(m, i) & AXIS(loop_axis(i)));
    if (!joined) x.stride[loop_axis(i)] = a->loop[i];
    for (int l = 0; l < m->n->nletters && joined; l++) x.stride[l] += a->loop[i] * m->n->step[i][l];
  }
  for (int i = 0; i < ROW_AXES; i++)
    if (m->r->extent[i] <= 1) x.stride[i] = 0;
  return x;
}

static axis_set strided(const struct row_access *a)
{
  axis_set s = 0;
  for (int i = 0; i < ROW_AXES; i++)
    if (a->stride[i]) s |= AXIS(i);
  return s;
}

static int load(struct making *m, const struct access *a)
{
  struct row_access x = access_of(m, a);
  return add(m, (struct row_value){.kind = ROW_LOAD, .axes = strided(&x), .at = x});
}

static int constant(struct making *m, double c)
{
  struct row_value v = {.kind = ROW_CONST};
  v.a.scalar = c;
  return add(m, v);
}

// ---- parts ----

static const struct parts *parts_of(const struct making *m, int v)
{
  const struct parts *p = m->parts;
  while (p && p->value != v) p = p->next;
  return p;
}

static int joined(struct making *m, int axis, int n, const int *part)
{
  struct parts *p = NEW(m->mem, struct parts);
  struct row_value v = {.kind = ROW_CONST, .axes = AXIS(axis)}; // nothing reads it
  for (int k = 0; k < n; k++) p->part[k] = part[k], v.axes |= m->r->v[part[k]].axes;
  p->axis = axis, p->n = n, p->next = m->parts, p->value = add(m, v);
  m->parts = p;
  return p->value;
}

// v where the axis has this index: what it is made of, all of it once more.
static int at_index(struct making *m, int v, int axis, int64_t index, int *made)
{
  const struct parts *p = parts_of(m, v);
  if (!(m->r->v[v].axes >> axis & 1)) return v;
  if (p && p->axis == axis) return p->part[index];
  if (made[v]) return made[v];
  if (p) {
    int part[MOST_PARTS];
    for (int k = 0; k < p->n; k++) part[k] = at_index(m, p->part[k], axis, index, made);
    return made[v] = joined(m, p->axis, p->n, part);
  }
  struct row_value x = m->r->v[v];
  for (int k = 0; k < x.nin; k++) x.in[k] = at_index(m, x.in[k], axis, index, made);
  x.at.offset += x.at.stride[axis] * index, x.at.stride[axis] = 0, x.axes &= ~AXIS(axis);
  return made[v] = add(m, x);
}

static int part_at(struct making *m, int v, int axis, int64_t index)
{
  return at_index(m, v, axis, index, NEWS(m->mem, int, m->r->nvalues + 1)); // what is made has a number above 0
}

static int mapped(struct making *m, enum op op, int nin, int x, int y, const struct attrs *a)
{
  const struct parts *p = parts_of(m, x);
  if (!p && nin > 1) p = parts_of(m, y);
  if (p) {
    int part[MOST_PARTS];
    for (int k = 0; k < p->n; k++) part[k] = mapped(m, op, nin, part_at(m, x, p->axis, k), nin > 1 ? part_at(m, y, p->axis, k) : 0, a);
    return joined(m, p->axis, p->n, part);
  }
  if (op == OP_DIV && m->r->v[y].kind == ROW_MAP && m->r->v[y].op == OP_SQRT) // one instruction instead of a root, rounded, and a reciprocal
    return mapped(m, OP_MUL, 2, x, mapped(m, OP_RSQRT, 1, m->r->v[y].in[0], 0, NULL), NULL);
  struct row_value v = {.kind = ROW_MAP, .op = op, .nin = nin, .in = {x, y}, .axes = m->r->v[x].axes | (nin > 1 ? m->r->v[y].axes : 0)};
  if (a) v.a = *a;
  return add(m, v);
}

static int scaled(struct making *m, int x, double by)
{
  struct attrs a = {.scalar = by};
  return by == 1 ? x : mapped(m, OP_MUL_SCALAR, 1, x, 0, &a);
}

static int fold(struct making *m, enum row_kind kind, int x, axis_set over);

static int fold_parts(struct making *m, enum row_kind kind, const struct parts *p, axis_set over)
{
  int part[MOST_PARTS], all;
  for (int k = 0; k < p->n; k++) part[k] = fold(m, kind, p->part[k], over & ~AXIS(p->axis));
  if (!(over >> p->axis & 1)) return joined(m, p->axis, p->n, part);
  all = part[0];
  for (int k = 1; k < p->n; k++) all = mapped(m, kind == ROW_SUM ? OP_ADD : kind == ROW_MAX ? OP_MAXIMUM : OP_MUL, 2, all, part[k], NULL);
  return all;
}

// A sum, maximum or product over `over`; of axes that x does not depend on, a sum or product takes as many times the same.
static int fold(struct making *m, enum row_kind kind, int x, axis_set over)
{
  if (parts_of(m, x)) return fold_parts(m, kind, parts_of(m, x), over);
  axis_set real = over & m->r->v[x].axes;
  if (real) {
    struct row_value v = {.kind = kind, .nin = 1, .in = {x}, .axes = m->r->v[x].axes & ~real, .folded = real};
    x = add(m, v);
  }
  double times = (double)extent(m, over & ~real);
  if (kind == ROW_PROD && times > 1) return mapped(m, OP_POW, 2, x, constant(m, times), NULL);
  return kind == ROW_SUM ? scaled(m, x, times) : x;
}

static axis_set letters_of(uint32_t has) { return has; }

// The letters that n folds, of extents above 1.
static axis_set letters_folded(const struct making *m, const struct node *n)
{
  axis_set s = letters_of(m->n->t[n->in[0]].has & ~m->n->t[n->out].has);
  for (int i = 0; i < m->n->nletters; i++)
    if (m->r->extent[i] <= 1) s &= ~AXIS(i);
  return s;
}

static int folding(struct making *m, const struct node *n, axis_set over)
{
  unsigned flags = op_rows[n->op].flags;
  int x = value(m, n->in[0]);
  if (n->op == OP_MAX || n->op == OP_ACCUM_MAX) return fold(m, ROW_MAX, x, over);
  if (op_rows[n->op].abstract == AE_PROD) return fold(m, ROW_PROD, x, over);
  if (flags & RMS) x = mapped(m, OP_SQUARE, 1, x, 0, NULL);
  x = fold(m, ROW_SUM, x, over);
  if (flags & MEAN) x = scaled(m, x, 1 / (double)extent(m, over));
  if (flags & RMS) x = mapped(m, OP_SQRT, 1, x, 0, NULL);
  return x;
}

static int accumulator(struct making *m, const struct node *n)
{
  axis_set over = loop_axes(m, n);
  if (op_rows[n->op].flags & REDUCES) over |= letters_folded(m, n);
  m->of[n->out] = folding(m, n, over);
  if (n->op == OP_ACCUM_MAX) m->of[n->out + 1] = constant(m, 0); // the final maximum moves no more
  return OK;
}

static int store(struct making *m, const struct node *n, int v, struct row_access x)
{
  const struct parts *p = parts_of(m, v);
  int status = OK;
  if (p) {
    int64_t stride = x.stride[p->axis];
    x.stride[p->axis] = 0;
    for (int k = 0; k < p->n && !status; k++, x.offset += stride) status = store(m, n, p->part[k], x);
    return status;
  }
  axis_set axes = strided(&x) | m->r->v[v].axes;
  if (m->r->nsaves == m->n->nsave + MOST_STORES) return cannot(m, n, "too many parts");
  if (axes != m->r->v[v].axes) v = add(m, (struct row_value){.kind = ROW_SPREAD, .nin = 1, .in = {v}, .axes = axes});
  m->r->save[m->r->nsaves++] = (struct row_save){v, axes, x, m->about};
  return OK;
}

// The letters of dimension dim that only `with` has, slowest first: of a part's number.
static int part_letters(const struct making *m, int with, int without, int dim, int letter[MAX_FACTORS])
{
  const struct norm_dim *d = &m->n->t[with].dim[dim];
  int n = 0;
  for (int k = 0; k < d->n; k++)
    if (!(m->n->t[without].has >> d->letter[k] & 1)) letter[n++] = d->letter[k];
  return n;
}

static int split(struct making *m, const struct node *n)
{
  int letter[MAX_FACTORS], letters = part_letters(m, n->in[0], n->out, n->a.dim, letter);
  for (int i = 0; i < n->nout; i++) {
    int64_t index = n->op == OP_CHUNK ? n->a.index : i;
    int v = value(m, n->in[0]);
    for (int k = letters; k-- > 0; index /= m->r->extent[letter[k]]) v = part_at(m, v, letter[k], index % m->r->extent[letter[k]]);
    m->of[n->out + i] = v;
  }
  return OK;
}

static int concat(struct making *m, const struct node *n)
{
  int letter[MAX_FACTORS], part[MOST_PARTS], letters = part_letters(m, n->out, n->in[0], n->a.dim, letter);
  if (n->nin == 1) return m->of[n->out] = value(m, n->in[0]), OK;
  if (letters != 1 || n->nin > MOST_PARTS) return cannot(m, n, "too many parts, or parts that are cut in groups");
  for (int k = 0; k < n->nin; k++) part[k] = value(m, n->in[k]);
  return m->of[n->out] = joined(m, letter[0], n->nin, part), OK;
}

static int one_node(struct making *m, const struct node *n)
{
  const struct norm *norm = m->n;
  switch (op_rows[n->op].rule) {
  case RULE_IO:
    if (n->op == OP_ITER) m->of[n->out] = load(m, &norm->iter[norm->iter_of[n->out]]);
    return n->op == OP_SAVE ? store(m, n, value(m, n->in[0]), access_of(m, &norm->save[m->saves++])) : OK;
  case RULE_CONST: return m->of[n->out] = constant(m, n->a.scalar), OK;
  case RULE_MAP:
    if (!emit_has_pointwise(n->op)) return cannot(m, n, "no elementwise operator of tiles");
    return m->of[n->out] = mapped(m, n->op, n->nin, value(m, n->in[0]), n->nin > 1 ? value(m, n->in[1]) : 0, &n->a), OK;
  case RULE_REDUCE: return m->of[n->out] = folding(m, n, letters_folded(m, n)), OK;
  case RULE_ACCUM: return accumulator(m, n);
  case RULE_VIEW: return OK;
  case RULE_CONTRACT: return cannot(m, n, "a product");
  case RULE_CONCAT: return concat(m, n);
  case RULE_SPLIT: return split(m, n);
  case RULE_COMPOSITE:
  case RULE_GRAPH: return cannot(m, n, "not done in rows");
  }
  return cannot(m, n, "not done in rows");
}

int rows_values(const struct lower_job *j, struct rows *out, char why[160])
{
  const struct norm *n = j->n;
  const struct graph *b = n->block;
  *out = (struct rows){.naxes = ROW_AXES};
  struct making m = {.n = n, .store = j->store, .r = out, .of = NEWS(j->mem, int, b->ntensors + 1), .why = why, .mem = j->mem};
  for (int i = 0; i < ROW_AXES; i++) out->extent[i] = 1;
  for (int i = 0; i < n->nletters; i++) out->extent[i] = n->extent[i];
  for (int i = 0; i < b->ngrid; i++) out->extent[grid_axis(i)] = b->grid[i];
  for (int i = 0; i < b->nloop; i++) out->extent[loop_axis(i)] = b->loop[i];
  out->save = NEWS(j->mem, struct row_save, n->nsave + MOST_STORES);
  for (int i = 0; i < b->nnodes; i++) {
    m.about = i + 1;
    if (one_node(&m, &b->nodes[i])) return NO;
  }
  return rows_running(j->mem, n, why) ? OK : NO;
}

int rows_make(const struct lower_job *j, struct rows *out, char why[160])
{
  if (rows_values(j, out, why)) return NO;
  rows_moments(j->mem, out);
  rows_join_axes(out);
  return rows_ready(j->mem, out), OK;
}
