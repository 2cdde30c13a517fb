// Addresses as text. An index counts the elements of several axes together, the last one fastest, and each axis has a stride in memory. Adjacent axes
// with the strides of one longer axis are joined, so that most addresses need no division.
#include "lower/lower_emit.h"

bool walk_add(struct lower_walk *w, int64_t extent, int64_t stride)
{
  if (extent == 1) return true;
  if (w->n && w->stride[w->n - 1] == extent * stride) // the two axes are one longer axis
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

void space_push(struct lower_space *s, const int64_t *extent, int axis)
{
  s->size = space_size(s);
  if (extent[axis] == 1 || space_axes(s) >> axis & 1) return;
  s->axis[s->n++] = (int8_t)axis, s->size *= extent[axis];
}

axis_set space_axes(const struct lower_space *s)
{
  axis_set all = 0;
  for (int i = 0; i < s->n; i++) all |= AXIS(s->axis[i]);
  return all;
}

bool space_walk(const struct lower_space *s, const int64_t *extent, const int64_t *stride, int unit, int by, struct lower_walk *w)
{
  *w = (struct lower_walk){0};
  for (int i = 0; i < s->n; i++)
    if (!walk_add(w, extent[s->axis[i]], stride[s->axis[i]])) return false;
  for (int i = 0; i < w->n; i++) {
    const int at_once = i == w->n - 1 ? by : 1;
    if (w->extent[i] % at_once || w->stride[i] * at_once % unit || (at_once > 1 && unit > 1 && w->stride[i] != 1)) return false;
    w->extent[i] /= at_once, w->stride[i] = w->stride[i] * at_once / unit;
  }
  const bool lies = by == 1 || w->n;
  if (w->n && w->extent[w->n - 1] == 1) w->n--; // one piece
  return lies;
}
