// Data-dependent indices: gather, update and topk. An index out of range is an error in the inputs. Over fields, so is an index computed by an
// operator that fields do not have, such as a comparison.
#include "eval/run.h"

#include <math.h>
#include <string.h>

// A tensor seen as [outer, extent, inner], with a dimension in the middle.
struct along {
  int64_t outer, extent, inner;
};

static struct along along_of(const struct shape *s, int dim)
{
  struct along a = {1, s->d[dim], 1};
  for (int i = 0; i < dim; i++) a.outer *= s->d[i];
  for (int i = dim + 1; i < s->n; i++) a.inner *= s->d[i];
  return a;
}

// Element i as a whole number; false if it is none.
static bool whole_at(const struct run *r, const char *p, int64_t i, int64_t *out)
{
  if (r->F) return ff_small(r->F, ((const struct ffv *)(const void *)p)[i], WHOLE_MOST, out);
  const double x = r->dom->bytes == sizeof(double) ? ((const double *)(const void *)p)[i] : (double)((const float *)(const void *)p)[i];
  *out = fabs(x) <= WHOLE_MOST ? (int64_t)x : 0;
  return fabs(x) <= WHOLE_MOST && x == rint(x);
}

static int wrong_index(const struct run *r, const struct node *n, int64_t i, bool whole, int64_t at, int64_t extent)
{
  if (!whole)
    return err_set(r->e, ERR_INDEX_RANGE, n->at, "%s: index number %lld is no whole number%s", op_rows[n->op].name, (long long)i,
                   r->F ? " of this field" : "");
  return err_set(r->e, ERR_INDEX_RANGE, n->at, "%s: index number %lld is %lld, limit %lld", op_rows[n->op].name, (long long)i, (long long)at,
                 (long long)extent);
}

// Reads the indices of n, which must be in [least, extent).
static int indices(struct run *r, const struct node *n, struct eval_value at, int64_t least, int64_t extent, int64_t *out)
{
  for (int64_t i = 0, size = shape_size(&at.s); i < size; i++) {
    bool whole = whole_at(r, at.p, i, &out[i]);
    if (!whole || out[i] < least || out[i] >= extent) return wrong_index(r, n, i, whole, out[i], extent);
  }
  return OK;
}

static int run_gather(struct run *r, const struct node *n, struct eval_value o, struct eval_value x, struct eval_value at)
{
  const struct along a = along_of(&x.s, n->a.dim);
  const int64_t many = shape_size(&at.s);
  const size_t row = r->dom->bytes * (size_t)a.inner;
  int64_t *index = NEWS(r->mem, int64_t, many + 1);
  TRY(indices(r, n, at, 0, a.extent, index));
  for (int64_t i = 0; i < a.outer; i++)
    for (int64_t k = 0; k < many; k++) memcpy(o.p + (size_t)(i * many + k) * row, x.p + (size_t)(i * a.extent + index[k]) * row, row);
  return OK;
}

static int run_update(struct run *r, const struct node *n, struct eval_value o, struct eval_value x, struct eval_value at, struct eval_value y)
{
  const struct along a = along_of(&x.s, n->a.dim);
  const int64_t many = shape_size(&at.s);
  const size_t row = r->dom->bytes * (size_t)a.inner;
  int64_t *index = NEWS(r->mem, int64_t, many + 1);
  TRY(indices(r, n, at, -1, a.extent, index));
  memcpy(o.p, x.p, row * (size_t)(a.outer * a.extent));
  for (int64_t i = 0; i < a.outer; i++)
    for (int64_t k = 0; k < many; k++)
      if (index[k] >= 0) memcpy(o.p + (size_t)(i * a.extent + index[k]) * row, y.p + (size_t)(i * many + k) * row, row);
  return OK;
}

// Does element i come before element k in topk? Larger ones do. NaN is the largest, as in torch; ties go to the lower index.
static bool before(const struct run *r, const char *p, int64_t i, int64_t k)
{
  if (r->F) { // an arbitrary order of field elements that depends on the values alone
    const uint64_t x = ((const struct ffv *)(const void *)p)[i].p, y = ((const struct ffv *)(const void *)p)[k].p;
    return x != y ? x > y : i < k;
  }
  const bool wide = r->dom->bytes == sizeof(double);
  const double x = wide ? ((const double *)(const void *)p)[i] : (double)((const float *)(const void *)p)[i];
  const double y = wide ? ((const double *)(const void *)p)[k] : (double)((const float *)(const void *)p)[k];
  if (isnan(x) || isnan(y)) return isnan(x) && (!isnan(y) || i < k);
  if (r->close && eval_close(x, y)) return i < k;
  return x > y || (!(x < y) && i < k);
}

static void run_topk(struct run *r, const struct node *n, struct eval_value values, struct eval_value index, struct eval_value x)
{
  const struct along a = along_of(&x.s, n->a.dim);
  const int64_t count = n->a.k;
  const size_t bytes = r->dom->bytes;
  int64_t *best = NEWS(r->mem, int64_t, count + 1);
  for (int64_t o = 0; o < a.outer * a.inner; o++) {
    const int64_t first = o / a.inner * a.extent * a.inner + o % a.inner;
    int64_t have = 0;
    for (int64_t i = 0; i < a.extent; i++) {
      int64_t at = first + i * a.inner, k = have;
      if (have == count && !before(r, x.p, at, best[have - 1])) continue;
      if (have < count) have++;
      for (k = have - 1; k > 0 && before(r, x.p, at, best[k - 1]); k--) best[k] = best[k - 1];
      best[k] = at;
    }
    for (int64_t k = 0; k < count; k++) {
      const size_t to = (size_t)(o / a.inner * count * a.inner + k * a.inner + o % a.inner) * bytes;
      memcpy(values.p + to, x.p + (size_t)best[k] * bytes, bytes);
      r->dom->constant(r->F, (double)((best[k] - first) / a.inner), index.p + to);
    }
  }
}

int run_at(struct run *r, struct eval_frame *f, const struct node *n)
{
  struct eval_value o = f->v[n->out], x = frame_arg(f, n, 0);
  struct arena_mark mark = arena_mark(r->mem);
  int s = OK;
  if (node_has(n, SELECTS))
    run_topk(r, n, o, f->v[n->out + 1], x);
  else if (node_has(n, READS_SLICES))
    s = run_gather(r, n, o, x, frame_arg(f, n, 1));
  else
    s = run_update(r, n, o, x, frame_arg(f, n, 1), frame_arg(f, n, 2));
  arena_reset(r->mem, mark);
  return s;
}
