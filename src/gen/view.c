// Strided views: slicing, transposing, reshaping and broadcasting without copies.
#include "gen/emit.h"

struct view view_dense(const char *ptr, int buf, enum dtype t, const struct shape *s)
{
  struct view v = {ptr, buf, t, *s};
  int64_t step = 1;
  for (int i = s->n - 1; i >= 0; i--) v.stride[i] = step, step *= s->d[i];
  return v;
}

bool view_is_dense(const struct view *v)
{
  int64_t step = 1;
  for (int i = v->shape.n - 1; i >= 0; i--) {
    if (v->shape.d[i] != 1 && v->stride[i] != step) return false;
    step *= v->shape.d[i];
  }
  return true;
}

struct view view_cut(struct arena *mem, const struct view *v, int dim, int64_t from, int64_t extent)
{
  struct view r = *v;
  r.shape.d[dim] = extent;
  if (from) r.ptr = arena_printf(mem, "%s + %lld", v->ptr, (long long)(from * v->stride[dim]));
  return r;
}

struct view view_permuted(const struct view *v, const struct shape *perm)
{
  struct view r = *v;
  int n = v->shape.n;
  for (int i = 0; i < n; i++) {
    int from = perm->n ? (int)perm->d[i] : i < n - 2 ? i : 2 * n - 3 - i;
    r.shape.d[i] = v->shape.d[from], r.stride[i] = v->stride[from];
  }
  return r;
}

// Drops dimensions of extent 1, and merges adjacent dimensions where one step of the outer equals all steps of the inner.
static int merged(const struct view *v, int64_t *d, int64_t *s)
{
  int n = 0;
  for (int i = 0; i < v->shape.n; i++) {
    if (v->shape.d[i] == 1) continue;
    if (n && s[n - 1] == v->stride[i] * v->shape.d[i])
      d[n - 1] *= v->shape.d[i], s[n - 1] = v->stride[i];
    else
      d[n] = v->shape.d[i], s[n++] = v->stride[i];
  }
  return n;
}

bool view_reshaped(const struct view *v, const struct shape *to, struct view *out)
{
  int64_t d[MAX_DIMS] = {0}, s[MAX_DIMS] = {0};
  int n = merged(v, d, s), k = n - 1;
  struct view r = *v;
  r.shape = *to;
  for (int i = to->n - 1; i >= 0; i--) { // the inner new dimensions are made of the innermost old one
    if (to->d[i] == 1) {
      r.stride[i] = 0;
      continue;
    }
    if (k >= 0 && d[k] == 1) k--;
    if (k < 0 || d[k] % to->d[i]) return false;
    r.stride[i] = s[k];
    d[k] /= to->d[i], s[k] *= to->d[i];
  }
  *out = r;
  return true;
}

struct view view_broadcast(const struct view *v, const struct shape *to)
{
  struct view r = *v;
  r.shape = *to;
  for (int i = 0; i < to->n; i++) {
    int from = i - (to->n - v->shape.n);
    r.stride[i] = from < 0 || v->shape.d[from] != to->d[i] || to->d[i] == 1 ? 0 : v->stride[from];
  }
  return r;
}
