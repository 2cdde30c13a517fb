// Addresses. An index counts the elements of several axes together; where an access steps through neighbouring axes
// evenly, they are one, so that most addresses are index times stride, and only odd ones divide.
#include "lower/skinny.h"

struct skinny_walk { // an access along a space: axes merged, strides in units of a vector
  int n;
  int64_t extent[KERN_AXES], stride[KERN_AXES];
};

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

static bool walk_make(const struct sk_plan *p, const struct kern_access *a, const struct sk_space *s, int unit, bool along, struct skinny_walk *w)
{
  w->n = 0;
  for (int i = 0; i < s->n; i++) {
    int64_t stride = a->stride[s->axis[i]], extent = p->kern.extent[s->axis[i]];
    if (w->n && w->stride[w->n - 1] == stride * extent)
      w->extent[w->n - 1] *= extent, w->stride[w->n - 1] = stride;
    else
      w->extent[w->n] = extent, w->stride[w->n++] = stride;
  }
  for (int i = 0; i < w->n; i++) {
    if (along && unit > 1 && i == w->n - 1) {
      if (w->stride[i] != 1 || w->extent[i] % unit) return false;
      w->extent[i] /= unit;
    } else if (w->stride[i] % unit) {
      return false;
    } else {
      w->stride[i] /= unit;
    }
  }
  return !along || unit == 1 || w->n;
}

static void walk_text(const struct skinny_walk *w, const char *index, struct str *out)
{
  int64_t inner = 1;
  for (int i = w->n - 1; i >= 0; inner *= w->extent[i--]) {
    if (!w->stride[i]) continue;
    str_add(out, " + %s", index);
    if (inner > 1) str_add(out, " / %lld", (long long)inner);
    if (i > 0) str_add(out, " %% %lld", (long long)w->extent[i]);
    if (w->stride[i] != 1) str_add(out, " * %lld", (long long)w->stride[i]);
  }
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
    struct skinny_walk w;
    if (!walk_make(p, a, at[i].space, unit, at[i].along, &w)) return false;
    if (out) walk_text(&w, at[i].index, out);
  }
  return true;
}
