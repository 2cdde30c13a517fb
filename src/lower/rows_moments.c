// Mean and variance of one row in one pass. As it is written, sum (x - mean)^2, the second sum waits for the first: two folds, or
// two walks over a row that does not fit. With any number c
//   sum (x - mean)^2  =  sum (x - c)^2  -  n (mean - c)^2
// and both sums are of the same stage. c is the row's first element: then (mean - c)^2 is at most n - 1 times the variance, because c
// itself is of the row. So what cancels costs at most log2(n) of the 24 bits of fp32, whatever the data, and little
// where c is like the others; with c = 0, a large mean would cost all of them.
#include "lower/rows.h"

#include <math.h>

struct moving {
  struct arena *mem;
  const struct rows *r;
  struct row_value *v;
  int n, cap, *to; // to: by value before
};

static int64_t extent_of(const struct rows *r, axis_set s)
{
  int64_t n = 1;
  for (int a = 0; a < r->naxes; a++)
    if (s >> a & 1) n *= r->extent[a];
  return n;
}

static bool is_map(const struct rows *r, int i, enum op op) { return r->v[i].kind == ROW_MAP && r->v[i].op == op; }

// Is value i the sum of squared differences of what is loaded to its mean over the same axes? x and mean: values.
static bool is_spread(const struct rows *r, int i, int *x, int *mean)
{
  const struct row_value *sum = &r->v[i];
  if (sum->kind != ROW_SUM || !is_map(r, sum->in[0], OP_SQUARE)) return false;
  int difference = r->v[sum->in[0]].in[0];
  if (!is_map(r, difference, OP_SUB)) return false;
  *x = r->v[difference].in[0], *mean = r->v[difference].in[1];
  if (r->v[*x].kind != ROW_LOAD || !is_map(r, *mean, OP_MUL_SCALAR)) return false;
  const struct row_value *total = &r->v[r->v[*mean].in[0]];
  double n = (double)extent_of(r, sum->folded);
  return total->kind == ROW_SUM && total->in[0] == *x && total->folded == sum->folded && fabs(r->v[*mean].a.scalar * n - 1) < 1e-12;
}

static int add(struct moving *m, struct row_value v)
{
  PUSH(m->mem, m->v, m->n, m->cap) = v;
  return m->n - 1;
}

static int map(struct moving *m, enum op op, int nin, int a, int b, double scalar)
{
  struct row_value v = {.kind = ROW_MAP, .op = op, .nin = nin, .in = {a, b}, .axes = m->v[a].axes | (nin > 1 ? m->v[b].axes : 0)};
  v.a.scalar = scalar;
  return add(m, v);
}

static int first_of(struct moving *m, int x, axis_set folded)
{
  struct row_value v = m->v[x];
  v.axes &= ~folded;
  for (int a = 0; a < m->r->naxes; a++)
    if (folded >> a & 1) v.at.stride[a] = 0;
  return add(m, v);
}

static int spread(struct moving *m, int i, int x, int mean)
{
  axis_set folded = m->r->v[i].folded;
  int c = first_of(m, x, folded), square = map(m, OP_SQUARE, 1, map(m, OP_SUB, 2, x, c, 0), 0, 0);
  int sum = add(m, (struct row_value){.kind = ROW_SUM, .nin = 1, .in = {square}, .axes = m->v[square].axes & ~folded, .folded = folded});
  int far = map(m, OP_SQUARE, 1, map(m, OP_SUB, 2, mean, c, 0), 0, 0);
  int rest = map(m, OP_SUB, 2, sum, map(m, OP_MUL_SCALAR, 1, far, 0, (double)extent_of(m->r, folded)), 0);
  return map(m, OP_MAXIMUM, 2, rest, add(m, (struct row_value){.kind = ROW_CONST}), 0); // rounding may leave less than 0
}

void rows_moments(struct arena *mem, struct rows *r)
{
  struct moving m = {.mem = mem, .r = r, .to = NEWS(mem, int, r->nvalues + 1)};
  for (int i = 0; i < r->nvalues; i++) {
    struct row_value v = r->v[i];
    int x, mean;
    if (is_spread(r, i, &x, &mean)) {
      m.to[i] = spread(&m, i, m.to[x], m.to[mean]);
      continue;
    }
    for (int k = 0; k < v.nin; k++) v.in[k] = m.to[v.in[k]];
    m.to[i] = add(&m, v);
  }
  for (int i = 0; i < r->nsaves; i++) r->save[i].value = m.to[r->save[i].value];
  r->v = m.v, r->nvalues = m.n;
}
