// Spaces, and addresses along them (lower_walk.c).
#include "lower/skinny.h"

void sk_space_push(const struct sk_plan *p, struct sk_space *s, int axis)
{
  if (!s->size) s->size = 1;
  if (p->kern.extent[axis] > 1) s->axis[s->n++] = axis;
  s->size *= p->kern.extent[axis];
}

axis_set sk_space_axes(const struct sk_space *s)
{
  axis_set m = 0;
  for (int i = 0; i < s->n; i++) m |= 1ull << s->axis[i];
  return m;
}

// An access along a space, strides in units of a vector.
static bool walk_make(const struct sk_plan *p, const struct kern_access *a, const struct sk_space *s, int unit, bool along, struct lower_walk *w)
{
  w->n = 0;
  for (int i = 0; i < s->n; i++)
    if (!walk_add(w, p->kern.extent[s->axis[i]], a->stride[s->axis[i]])) return false;
  for (int i = 0; i < w->n; i++) {
    int64_t *of = along && i == w->n - 1 ? &w->extent[i] : &w->stride[i];
    if (*of % unit || (of == &w->extent[i] && unit > 1 && w->stride[i] != 1)) return false;
    *of /= unit;
  }
  return !along || unit == 1 || w->n;
}

bool sk_address(const struct sk_plan *p, const struct kern_access *a, int unit, int n, const struct sk_coord *at, struct str *out)
{
  axis_set given = sk_space_axes(&p->blocks);
  for (int i = 0; i < n; i++) given |= sk_space_axes(at[i].space);
  if (a->offset % unit || kern_strided(&p->kern, a) & ~given) return false;
  if (out) str_add(out, "%lld", (long long)(a->offset / unit));
  for (int i = 0; i < p->blocks.n; i++) {
    int64_t stride = a->stride[p->blocks.axis[i]];
    if (stride % unit) return false;
    if (out && stride) str_add(out, " + @place%d * %lld", i, (long long)(stride / unit));
  }
  for (int i = 0; i < n; i++) {
    struct lower_walk w;
    if (!walk_make(p, a, at[i].space, unit, at[i].along, &w)) return false;
    if (out) walk_text(&w, at[i].index, out);
  }
  return true;
}
