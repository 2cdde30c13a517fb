// Addresses. An index counts the elements of several axes together; where an access steps through neighbouring axes
// evenly, they are one, so that most addresses are index times stride, and only odd ones divide.
#include "lower/skinny.h"

struct walk { // an access along a space: axes merged, strides in units of a vector
  int n;
  int64_t extent[SK_AXES], stride[SK_AXES];
};

void sk_space_push(struct sk_space *s, bool loop, int index, int64_t extent)
{
  if (s->n == SK_AXES) return; // sk_plan_make has counted
  if (!s->n && !s->size) s->size = 1;
  if (extent > 1) s->axis[s->n++] = (struct sk_axis){loop, index, extent};
  s->size *= extent;
}

struct sk_space sk_space_of(const struct norm *n, const struct norm_dim *d)
{
  struct sk_space s = {.size = 1};
  for (int i = 0; i < d->n; i++) sk_space_push(&s, false, d->letter[i], n->extent[(int)d->letter[i]]);
  return s;
}

uint32_t sk_space_letters(const struct sk_space *s)
{
  uint32_t m = 0;
  for (int i = 0; i < s->n; i++)
    if (!s->axis[i].loop) m |= 1u << s->axis[i].index;
  return m;
}

static bool walk_make(const struct access *a, const struct sk_space *s, int unit, bool along, struct walk *w)
{
  *w = (struct walk){0};
  for (int i = 0; i < s->n; i++) {
    const struct sk_axis *x = &s->axis[i];
    int64_t stride = x->loop ? a->loop[x->index] : a->stride[x->index];
    if (w->n && w->stride[w->n - 1] == stride * x->extent) w->extent[w->n - 1] *= x->extent, w->stride[w->n - 1] = stride;
    else w->extent[w->n] = x->extent, w->stride[w->n++] = stride;
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

static void walk_text(const struct walk *w, const char *index, struct str *out)
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

// Letters and loops by which the access moves are all among the coordinates.
static bool covered(const struct sk_plan *p, const struct access *a, int n, const struct sk_coord *at)
{
  uint32_t letters = 0, loops = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < at[i].space->n; k++)
      *(at[i].space->axis[k].loop ? &loops : &letters) |= 1u << at[i].space->axis[k].index;
  for (int l = 0; l < p->n->nletters; l++)
    if (a->stride[l] && p->n->extent[l] > 1 && !(letters >> l & 1)) return false;
  for (int k = 0; k < p->n->block->nloop; k++)
    if (a->loop[k] && p->n->block->loop[k] > 1 && !(loops >> k & 1)) return false;
  return true;
}

bool sk_address(const struct sk_plan *p, const struct access *a, int unit, int n, const struct sk_coord *at, struct str *out)
{
  if (a->offset % unit || !covered(p, a, n, at)) return false;
  if (out) str_add(out, "%lld", (long long)(a->offset / unit));
  for (int i = 0; i < p->n->block->ngrid; i++) {
    if (p->n->block->grid[i] == 1 || !a->grid[i]) continue;
    if (a->grid[i] % unit) return false;
    if (out) str_add(out, " + %c * %lld", "xyz"[i], (long long)(a->grid[i] / unit));
  }
  for (int i = 0; i < n; i++) {
    struct walk w;
    if (!walk_make(a, at[i].space, unit, at[i].along, &w)) return false;
    if (out) walk_text(&w, at[i].index, out);
  }
  return true;
}
