// Aligns operands. Corresponding dimensions of the operands are divided at every boundary of any of them, so that each piece is a loop with one
// stride for each operand and coordinate. For example [8] of (2,4):(1,8) with 8:1 gives two loops, 2 and 4.
#include "tile/match.h"

#include <stdarg.h>

enum { DIMS = 16, LEAVES = 16, TRACKS = TILE_OPERANDS * (1 + TILE_DIMS) };

struct axes_dim { // a dimension of an operand: a mode of a level
  int level, mode;
  int64_t extent;
};
struct dims {
  int n;
  struct axes_dim dim[DIMS];
};
struct track { // the leaves of one dimension of an operand, or of one of its coordinates
  int n, at;
  int64_t extent[LEAVES];
  ex stride[LEAVES];
  ex *out; // the field of the axis that it fills
};

bool refuse(struct match *m, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  vsnprintf(m->why, sizeof m->why, fmt, args);
  va_end(args);
  return false;
}

static bool constant_size(struct match *m, struct lay mode, int64_t *extent)
{
  ex size = lay_size(m->lay, mode);
  *extent = ex_is_const(size) ? ex_value(size) : 0;
  return ex_is_const(size);
}

static bool dims_of(struct match *m, int operand, int from, int to, struct dims *d)
{
  const struct side *s = &m->side[operand];
  for (int l = from; l < to; l++)
    for (int i = 0; i < lay_rank(s->v->level[l]); i++) {
      if (d->n == DIMS) return refuse(m, "%s has more than %d dimensions", match_text(m, operand), DIMS);
      struct axes_dim *one = &d->dim[d->n++];
      one->level = l, one->mode = i;
      if (!constant_size(m, lay_mode(s->v->level[l], i), &one->extent))
        return refuse(m, "the extents of %s are not constant: tile it first", match_text(m, operand));
    }
  return true;
}

static bool track_of(struct match *m, int operand, struct lay mode, struct track *t)
{
  ex shape[LEAVES];
  t->n = lay_leaves(mode, shape, t->stride, LEAVES), t->at = 0;
  if (t->n < 0) return refuse(m, "a dimension of %s has more than %d parts", match_text(m, operand), LEAVES);
  for (int i = 0; i < t->n; i++) {
    if (!ex_is_const(shape[i])) return refuse(m, "the extents of %s are not constant: tile it first", match_text(m, operand));
    t->extent[i] = ex_value(shape[i]);
  }
  return true;
}

static bool tracks_of(struct match *m, int operand, const struct axes_dim *d, struct axis *axis, struct track *t, int *n)
{
  const struct tile_view *v = m->side[operand].v;
  if (!track_of(m, operand, lay_mode(v->level[d->level], d->mode), &t[*n])) return false;
  t[(*n)++].out = &axis->stride[operand];
  for (int c = 0; c < v->ncoord; c++) {
    if (!track_of(m, operand, lay_mode(v->coord[c].level[d->level], d->mode), &t[*n])) return false;
    t[(*n)++].out = &axis->coord[operand][c];
  }
  return true;
}

static bool still(const struct track *t) // a leaf of extent 1 is skipped
{
  return t->at < t->n && t->extent[t->at] == 1;
}

// Divides all tracks at the same boundaries and appends the loops.
static bool cut(struct match *m, struct track *t, int n, struct axis *scratch, struct tile_axes *out)
{
  for (;;) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < n; i++) {
      while (still(&t[i])) t[i].at++;
      if (t[i].at < t[i].n) least = MIN(least, t[i].extent[t[i].at]);
    }
    if (least == INT64_MAX) return true;
    for (int i = 0; i < n; i++) {
      if (t[i].at == t[i].n || t[i].extent[t[i].at] % least) return refuse(m, "the operands' dimensions are divided differently");
      *t[i].out = t[i].stride[t[i].at];
      t[i].stride[t[i].at] = ex_mul(m->ex, t[i].stride[t[i].at], EX_C(least));
      t[i].extent[t[i].at] /= least;
    }
    if (out->n == AXES) return refuse(m, "more than %d loops", AXES);
    scratch->extent = least;
    out->axis[out->n++] = *scratch;
  }
}

// One loop nest over one dimension of each of several operands; NULL: the operand does not move.
static bool together(struct match *m, const struct axes_dim *const *d, bool reduced, struct tile_axes *out)
{
  struct axis axis = {.reduced = reduced};
  struct track t[TRACKS];
  int n = 0;
  for (int o = 0; o < m->nsides; o++)
    if (d[o] && d[o]->extent > 1 && !tracks_of(m, o, d[o], &axis, t, &n)) return false;
  return cut(m, t, n, &axis, out);
}

bool axes_of_levels(struct match *m, int operand, int from, int to, struct tile_axes *out)
{
  struct dims dims = {0};
  if (!dims_of(m, operand, from, to, &dims)) return false;
  for (int i = dims.n - 1; i >= 0; i--) { // innermost level first, each level first dimension fastest
    int first = i;
    while (first && dims.dim[first - 1].level == dims.dim[i].level) first--;
    for (int j = first; j <= i; j++) {
      const struct axes_dim *d[TILE_OPERANDS] = {0};
      d[operand] = &dims.dim[j];
      if (!together(m, d, false, out)) return false;
    }
    i = first;
  }
  return true;
}

static void drop_ones(struct dims *d)
{
  int n = 0;
  for (int i = 0; i < d->n; i++)
    if (d->dim[i].extent > 1) d->dim[n++] = d->dim[i];
  d->n = n;
}

static bool same(const struct dims *a, const struct dims *b)
{
  if (a->n != b->n) return false;
  for (int i = 0; i < a->n; i++)
    if (a->dim[i].extent != b->dim[i].extent) return false;
  return true;
}

static bool disagree(struct match *m, int a, int b) { return refuse(m, "the shapes of %s and %s do not agree", match_text(m, a), match_text(m, b)); }

// Matches dimensions of equal extent. Extent 1 of an input broadcasts; extent 1 of the output is a reduction.
static bool positional(struct match *m, const struct dims *dims, bool broadcast, bool reduce, struct tile_axes *out)
{
  for (int i = dims[0].n - 1; i >= 0; i--) {
    const struct axes_dim *d[TILE_OPERANDS];
    int64_t most = 1;
    for (int o = 0; o < m->nsides; o++) d[o] = &dims[o].dim[i], most = MAX(most, d[o]->extent);
    for (int o = 0; o < m->nsides; o++)
      if (d[o]->extent != most && (d[o]->extent != 1 || !(o < m->nout ? reduce : broadcast))) return disagree(m, 0, MAX(o, 1));
    if (!together(m, d, reduce && d[0]->extent != most, out)) return false;
  }
  return true;
}

// Dimensions without extents of 1: equal in all operands, or none.
static bool dense(struct match *m, const struct dims *dims, bool broadcast, bool reduce, struct tile_axes *out)
{
  int most = 0;
  for (int o = 0; o < m->nsides; o++)
    if (dims[o].n > dims[most].n) most = o;
  for (int o = 0; o < m->nsides; o++) {
    bool nothing = !dims[o].n && (o < m->nout ? reduce : broadcast);
    if (!nothing && !same(&dims[o], &dims[most])) return disagree(m, MIN(o, most), MAX(o, most));
  }
  for (int i = dims[most].n - 1; i >= 0; i--) {
    const struct axes_dim *d[TILE_OPERANDS];
    for (int o = 0; o < m->nsides; o++) d[o] = dims[o].n ? &dims[o].dim[i] : NULL;
    if (!together(m, d, reduce && !d[0], out)) return false;
  }
  return true;
}

bool axes_elementwise(struct match *m, bool broadcast, bool reduce, struct tile_axes *out)
{
  struct dims dims[TILE_OPERANDS] = {0}, whole[TILE_OPERANDS];
  bool aligned = true;
  for (int o = 0; o < m->nsides; o++) {
    if (!dims_of(m, o, m->side[o].from, m->side[o].outer, &dims[o])) return false;
    whole[o] = dims[o];
    drop_ones(&dims[o]);
    aligned = aligned && whole[o].n == whole[0].n;
  }
  out->n = 0;
  if (dense(m, dims, broadcast, reduce, out)) return true;
  if (!aligned || !(broadcast || reduce)) return false;
  out->n = 0;
  return positional(m, whole, broadcast, reduce, out);
}

// [m,n] of the output, [m,k] and [k,n] of the inputs, at every level.
bool axes_product(struct match *m, struct tile_axes *out)
{
  struct dims dims[3] = {0};
  out->n = 0;
  for (int o = 0; o < 3; o++)
    if (!dims_of(m, o, 0, m->side[o].outer, &dims[o])) return false;
  if (dims[0].n != dims[1].n || dims[0].n != dims[2].n) return disagree(m, 0, dims[0].n != dims[1].n ? 1 : 2);
  for (int o = 0; o < 3; o++)
    for (int l = 0; l < m->side[o].outer; l++)
      if (lay_rank(m->side[o].v->level[l]) != 2) return refuse(m, "%s: the levels of a product's operands have two dimensions", match_text(m, o));
  for (int i = dims[0].n - 2; i >= 0; i -= 2) {
    const struct axes_dim *c = &dims[0].dim[i], *a = &dims[1].dim[i], *b = &dims[2].dim[i];
    if (c[0].extent != a[0].extent || c[1].extent != b[1].extent || a[1].extent != b[0].extent)
      return refuse(m, "[m,k] x [k,n] -> [m,n] does not hold: %s x %s -> %s", match_text(m, 1), match_text(m, 2), match_text(m, 0));
    const struct axes_dim *const rows[TILE_OPERANDS] = {&c[0], &a[0], NULL}, *const columns[TILE_OPERANDS] = {&c[1], NULL, &b[1]},
                                 *const sum[TILE_OPERANDS] = {NULL, &a[1], &b[0]};
    if (!together(m, rows, false, out) || !together(m, columns, false, out) || !together(m, sum, false, out)) return false;
  }
  return true;
}

static bool continues(struct match *m, const struct axis *a, const struct axis *b) // b continues a
{
  if (a->reduced != b->reduced) return false;
  ex n = EX_C(a->extent);
  for (int o = 0; o < m->nsides; o++) {
    if (b->stride[o] != ex_mul(m->ex, a->stride[o], n)) return false;
    for (int c = 0; c < m->side[o].v->ncoord; c++)
      if (m->side[o].v->coord[c].partial && b->coord[o][c] != ex_mul(m->ex, a->coord[o][c], n)) return false;
  }
  return true;
}

void axes_merge(struct match *m, struct tile_axes *a)
{
  for (bool again = true; again;) {
    again = false;
    for (int i = 0; i < a->n && !again; i++)
      for (int j = 0; j < a->n && !again; j++)
        if (i != j && continues(m, &a->axis[i], &a->axis[j])) {
          a->axis[i].extent *= a->axis[j].extent;
          for (int k = j; k + 1 < a->n; k++) a->axis[k] = a->axis[k + 1];
          a->n--;
          again = true;
        }
  }
  for (int i = 0, first = 0; i < a->n; i++)
    if (a->axis[i].reduced) {
      struct axis one = a->axis[i];
      for (int k = i; k > first; k--) a->axis[k] = a->axis[k - 1];
      a->axis[first++] = one;
    }
}
