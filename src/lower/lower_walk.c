// Addresses as text. An index counts elements of several axes together, the last the fastest; memory has a stride for each. Neighbours whose
// strides are those of one longer axis are one, so that most addresses are a product and no division.
#include "lower/lower_emit.h"

bool walk_add(struct lower_walk *w, int64_t extent, int64_t stride)
{
  if (extent == 1) return true;
  if (w->n && w->stride[w->n - 1] == extent * stride) // one stride serves both
    return w->extent[w->n - 1] *= extent, w->stride[w->n - 1] = stride, true;
  if (w->n == WALK_AXES) return false;
  return w->extent[w->n] = extent, w->stride[w->n++] = stride, true;
}

void walk_text(const struct lower_walk *w, const char *index, struct str *out)
{
  int64_t below = 1;
  for (int i = w->n - 1; i >= 0; below *= w->extent[i--]) {
    if (!w->stride[i]) continue;
    str_add(out, " + %s", index);
    if (below > 1) str_add(out, " / %lld", (long long)below);
    if (i > 0) str_add(out, " %% %lld", (long long)w->extent[i]);
    if (w->stride[i] != 1) str_add(out, " * %lld", (long long)w->stride[i]);
  }
}
