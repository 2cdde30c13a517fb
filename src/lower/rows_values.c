// Normal form -> values over axes (rows.h). Letters, grid axes and loop axes become axes alike: an accumulator is a fold over
// loop axes, a reduction one over letters. Running maxima become final ones and what rescales by them plain sums, which
// rows_running.c has found to be the same.
#include "lower/rows.h"

#include <math.h>
#include <string.h>

struct making {
  const struct norm *n;
  const enum dtype *store;
  struct rows *r;
  int cap;
  int *of; // by tensor of the block graph: the value of a root
  char *why;
  struct arena *mem;
};

static int cannot(struct making *m, const struct node *n, const char *what)
{
  return snprintf(m->why, 160, "%s: %s", op_rows[n->op].name, what), NO;
}

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
  PUSH(m->mem, r->v, r->nvalues, m->cap) = v;
  return r->nvalues - 1;
}

// The value of an argument.
static int value(const struct making *m, int tensor) { return m->of[m->n->t[tensor].root]; }

static struct row_access access_of(const struct making *m, const struct access *a)
{
  const struct tensor *t = &m->n->kernels->tensors[a->tensor];
  struct row_access x = {a->tensor, m->store ? m->store[a->tensor] : t->dtype, shape_size(&t->shape), a->offset, {0}};
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

static int scaled(struct making *m, int x, double by)
{
  struct row_value v = {.kind = ROW_MAP, .op = OP_MUL_SCALAR, .nin = 1, .in = {x}, .axes = m->r->v[x].axes};
  v.a.scalar = by;
  return by == 1 ? x : add(m, v);
}

static int mapped(struct making *m, enum op op, int nin, int x, int y, const struct attrs *a)
{
  struct row_value v = {.kind = ROW_MAP, .op = op, .nin = nin, .in = {x, y}, .axes = m->r->v[x].axes | (nin > 1 ? m->r->v[y].axes : 0)};
  if (a) v.a = *a;
  if (op == OP_POW && m->r->v[x].axes != v.axes) // of which x is raised step by step
    v.in[0] = add(m, (struct row_value){.kind = ROW_SPREAD, .nin = 1, .in = {x}, .axes = v.axes});
  return add(m, v);
}

// A sum or maximum over `over`; of axes that x does not depend on, a sum takes as many times the same.
static int fold(struct making *m, enum row_kind kind, int x, axis_set over)
{
  axis_set real = over & m->r->v[x].axes;
  if (real) {
    struct row_value v = {.kind = kind, .nin = 1, .in = {x}, .axes = m->r->v[x].axes & ~real, .folded = real};
    x = add(m, v);
  }
  return kind == ROW_SUM ? scaled(m, x, (double)extent(m, over & ~real)) : x;
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

static void save(struct making *m, int v, const struct access *a)
{
  struct row_access x = access_of(m, a);
  axis_set axes = strided(&x) | m->r->v[v].axes;
  if (axes != m->r->v[v].axes) v = add(m, (struct row_value){.kind = ROW_SPREAD, .nin = 1, .in = {v}, .axes = axes});
  m->r->save[m->r->nsaves++] = (struct row_save){v, axes, x};
}

static int one_node(struct making *m, const struct node *n)
{
  const struct norm *norm = m->n;
  switch (op_rows[n->op].rule) {
  case RULE_IO:
    if (n->op == OP_ITER) m->of[n->out] = load(m, &norm->iter[norm->iter_of[n->out]]);
    else if (n->op == OP_SAVE) save(m, value(m, n->in[0]), &norm->save[m->r->nsaves]);
    return OK;
  case RULE_CONST: return m->of[n->out] = constant(m, n->a.scalar), OK;
  case RULE_MAP:
    if (!emit_has_pointwise(n->op)) return cannot(m, n, "no elementwise operator of tiles");
    return m->of[n->out] = mapped(m, n->op, n->nin, value(m, n->in[0]), n->nin > 1 ? value(m, n->in[1]) : 0, &n->a), OK;
  case RULE_REDUCE: return m->of[n->out] = folding(m, n, letters_folded(m, n)), OK;
  case RULE_ACCUM: return accumulator(m, n);
  case RULE_VIEW: return OK;
  case RULE_CONTRACT: return cannot(m, n, "a product");
  case RULE_CONCAT: case RULE_SPLIT: case RULE_COMPOSITE: case RULE_GRAPH: return cannot(m, n, "not done in rows");
  }
  return cannot(m, n, "not done in rows");
}

int rows_make(const struct lower_job *j, struct rows *out, char why[160])
{
  const struct norm *n = j->n;
  const struct graph *b = n->block;
  *out = (struct rows){.naxes = ROW_AXES};
  struct making m = {.n = n, .store = j->store, .r = out, .of = NEWS(j->mem, int, b->ntensors + 1), .why = why, .mem = j->mem};
  for (int i = 0; i < ROW_AXES; i++) out->extent[i] = 1;
  for (int i = 0; i < n->nletters; i++) out->extent[i] = n->extent[i];
  for (int i = 0; i < b->ngrid; i++) out->extent[grid_axis(i)] = b->grid[i];
  for (int i = 0; i < b->nloop; i++) out->extent[loop_axis(i)] = b->loop[i];
  out->save = NEWS(j->mem, struct row_save, b->nnodes);
  for (int i = 0; i < b->nnodes; i++)
    if (one_node(&m, &b->nodes[i])) return NO;
  if (!rows_running(j->mem, n, why)) return NO;
  rows_join_axes(out);
  return OK;
}
