// Reads the values of run-time extents from shapes of arrays, and copies between arrays of these shapes and arrays with the bounds as shapes, which
// programs take.
#include "ir/ir.h"

#include <string.h>

int extents_set(struct extent_values *x, const struct tensor *holder, int64_t value, const char *from, struct err *e)
{
  const char *name = holder->name ? holder->name : "a run-time extent";
  const int k = holder->extent;
  int s = OK;
  if (value < holder->range.least || value > holder->range.most) {
    const bool above = value > holder->range.most;
    return err_set(e, ERR_EXTENT_BOUND, NOWHERE, "%.60s is %lld in %.60s, at %s %lld", name, (long long)value, from, above ? "most" : "least",
                   (long long)(above ? holder->range.most : holder->range.least));
  }
  if (x->value[k] && x->value[k] != value) {
    s = err_set(e, ERR_EXTENT_BOUND, NOWHERE, "%.60s is %lld in %.60s and %lld in %.60s", name, (long long)x->value[k], x->from[k], (long long)value,
                from);
    return err_hint(e, "all tensors that name %.60s have the same extent there", name), s;
  }
  x->value[k] = value, x->from[k] = from;
  return OK;
}

int extents_take(struct extent_values *x, const struct graph *g, const struct tensor *t, const struct shape *s, struct err *e)
{
  const char *name = t->name ? t->name : "an input";
  bool fits = s->n == t->shape.n;
  for (int d = 0; d < s->n && fits; d++) fits = t->runs[d] || s->d[d] == t->shape.d[d];
  if (!fits) {
    char want[512], is[128];
    extent_text(want, g, t), shape_text(is, s);
    int status = err_set(e, ERR_SHAPE, NOWHERE, "input %.60s is %s, and what is given is %s", name, want, is);
    err_hint(e, "give an array of this shape");
    return status;
  }
  for (int d = 0; d < s->n; d++)
    if (t->runs[d]) TRY(extents_set(x, &g->tensors[extent_input(g, t->runs[d])], s->d[d], name, e));
  return OK;
}

struct shape extents_shape(const struct extent_values *x, const struct tensor *t)
{
  struct shape s = t->shape;
  for (int d = 0; d < s.n; d++)
    if (t->runs[d] && x->value[t->runs[d]]) s.d[d] = x->value[t->runs[d]];
  return s;
}

// Copies the contiguous runs of the part, which have the same order in both arrays.
static void each(const struct shape *whole, const struct shape *part, size_t bytes, char *w, char *p, bool gather)
{
  int last = whole->n; // dimensions from here on have the same extent in both
  int64_t run = (int64_t)bytes, index[MAX_DIMS] = {0};
  while (last > 0 && whole->d[last - 1] == part->d[last - 1]) run *= whole->d[--last];
  const int64_t unit = run;
  if (last > 0) run *= part->d[--last];
  for (int64_t done = 0, all = shape_size(part) * (int64_t)bytes; done < all; done += run) {
    int64_t at = 0;
    for (int d = 0; d < last; d++) at = (at + index[d]) * whole->d[d + 1];
    memcpy(gather ? p + done : w + at * unit, gather ? w + at * unit : p + done, (size_t)run);
    for (int d = last - 1; d >= 0 && ++index[d] == part->d[d]; d--) index[d] = 0;
  }
}

void extents_spread(const struct shape *whole, const struct shape *part, size_t bytes, void *to, const void *from)
{
  each(whole, part, bytes, to, (char *)from, false);
}

void extents_gather(const struct shape *whole, const struct shape *part, size_t bytes, void *to, const void *from)
{
  each(whole, part, bytes, (char *)from, to, true);
}
