// Addresses along spaces (lower_walk.c).
#include "lower/skinny.h"

bool sk_address(const struct sk_plan *p, const struct kern_access *a, int unit, int n, const struct sk_coord *at, struct str *out)
{
  axis_set given = space_axes(&p->blocks);
  for (int i = 0; i < n; i++) given |= space_axes(at[i].space);
  if (a->offset % unit || kern_strided(&p->kern, a) & ~given) return false;
  if (out) str_add(out, "%lld", (long long)(a->offset / unit));
  for (int i = 0; i < p->blocks.n; i++) {
    int64_t stride = a->stride[p->blocks.axis[i]];
    if (stride % unit) return false;
    if (out && stride) str_add(out, " + @place%d * %lld", i, (long long)(stride / unit));
  }
  for (int i = 0; i < n; i++) {
    struct lower_walk w;
    if (!space_walk(at[i].space, p->kern.extent, a->stride, unit, at[i].along ? unit : 1, &w)) return false;
    if (out) walk_text(&w, at[i].index, out);
  }
  return true;
}
