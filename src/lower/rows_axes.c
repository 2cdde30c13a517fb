// Fewer axes. Two axes that everything walks together, one within the other, are one longer axis: rows of tiles and of
// blocks, a loop and the letters of its tile; accesses along it get wider. Two axes of one extent that no value ever has both
// of may be called the same, because a folded axis is only a name within its fold: what one part of the graph sums over and
// another then walks, as in a norm whose data come by two iterators, is so read once and not twice; and two results that have
// nothing to do with each other are not each computed for every element of the other.
#include "lower/rows.h"

#include <string.h>

static bool same_access(const struct row_access *a, const struct row_access *b)
{
  return a->tensor == b->tensor && a->offset == b->offset && !memcmp(a->stride, b->stride, sizeof a->stride) &&
         !memcmp(a->rank, b->rank, sizeof a->rank) && !memcmp(a->base, b->base, sizeof a->base);
}

static bool both(axis_set s, int a, int b) { return (s >> a & 1) == (s >> b & 1); }
static bool nested(const struct row_access *x, int slow, int fast, int64_t extent)
{
  return x->stride[slow] == x->stride[fast] * extent && x->rank[slow] == x->rank[fast] * extent;
}

// Is slow * extent of fast + fast all that anything depends on?
static bool together(const struct rows *r, int slow, int fast)
{
  for (int i = 0; i < r->nvalues; i++) {
    const struct row_value *v = &r->v[i];
    if (!v->live) continue;
    if (!both(v->axes, slow, fast) || !both(v->folded, slow, fast)) return false;
    if (v->kind == ROW_LOAD && !nested(&v->at, slow, fast, r->extent[fast])) return false;
  }
  for (int i = 0; i < r->nsaves; i++)
    if (!both(r->save[i].axes, slow, fast) || !nested(&r->save[i].at, slow, fast, r->extent[fast])) return false;
  return true;
}

void rows_forget(struct rows *r, int axis)
{
  r->extent[axis] = 1;
  for (int i = 0; i < r->nvalues; i++) {
    r->v[i].axes &= ~AXIS(axis), r->v[i].folded &= ~AXIS(axis);
    r->v[i].at.stride[axis] = r->v[i].at.rank[axis] = 0;
  }
  for (int i = 0; i < r->nsaves; i++) r->save[i].axes &= ~AXIS(axis), r->save[i].at.stride[axis] = 0;
}

static bool merge_one(struct rows *r)
{
  for (int slow = 0; slow < r->naxes; slow++)
    for (int fast = 0; fast < r->naxes; fast++) {
      if (slow == fast || r->extent[slow] <= 1 || r->extent[fast] <= 1 || !together(r, slow, fast)) continue;
      r->extent[fast] *= r->extent[slow];
      return rows_forget(r, slow), true;
    }
  return false;
}

// ---- axes that never meet ----

static bool meet(const struct rows *r, int a, int b)
{
  axis_set two = AXIS(a) | AXIS(b);
  for (int i = 0; i < r->nvalues; i++)
    if (r->v[i].live && ((r->v[i].axes | r->v[i].folded) & two) == two) return true;
  for (int i = 0; i < r->nsaves; i++)
    if ((r->save[i].axes & two) == two) return true;
  return false;
}

static axis_set renamed(axis_set s, int from, int to) { return s >> from & 1 ? (s & ~AXIS(from)) | AXIS(to) : s; }

static void rename_axis(struct rows *r, int from, int to)
{
  for (int i = 0; i < r->nvalues; i++) {
    struct row_value *v = &r->v[i];
    if (v->at.stride[from]) v->at.stride[to] = v->at.stride[from];
    if (v->at.rank[from]) v->at.rank[to] = v->at.rank[from];
    v->axes = renamed(v->axes, from, to), v->folded = renamed(v->folded, from, to);
  }
  for (int i = 0; i < r->nsaves; i++) {
    struct row_save *s = &r->save[i];
    if (s->at.stride[from]) s->at.stride[to] = s->at.stride[from];
    s->axes = renamed(s->axes, from, to);
  }
}

static void unite_loads(struct rows *r)
{
  for (int i = 0; i < r->nvalues; i++)
    for (int k = 0; k < i; k++) {
      if (r->v[i].kind != ROW_LOAD || r->v[k].kind != ROW_LOAD || !same_access(&r->v[i].at, &r->v[k].at)) continue;
      for (int u = 0; u < r->nvalues; u++)
        for (int x = 0; x < r->v[u].nin; x++)
          if (r->v[u].in[x] == i) r->v[u].in[x] = k;
      for (int u = 0; u < r->nsaves; u++)
        if (r->save[u].value == i) r->save[u].value = k;
      break;
    }
}

static bool contiguous(const struct rows *r, int a)
{
  for (int i = 0; i < r->nvalues; i++)
    if (r->v[i].live && r->v[i].at.stride[a] == 1) return true;
  for (int i = 0; i < r->nsaves; i++)
    if (r->save[i].at.stride[a] == 1) return true;
  return false;
}

// Rather axes that are alike: both contiguous somewhere, or neither.
static bool rename_one(struct rows *r)
{
  for (int any = 0; any < 2; any++)
    for (int a = 0; a < r->naxes; a++)
      for (int b = 0; b < r->naxes; b++) {
        if (a == b || r->extent[a] <= 1 || r->extent[a] != r->extent[b] || meet(r, a, b)) continue;
        if (!any && contiguous(r, a) != contiguous(r, b)) continue;
        rename_axis(r, a, b);
        return rows_forget(r, a), true;
      }
  return false;
}

// ---- what is needed ----

void rows_live(struct rows *r)
{
  r->folded = 0;
  for (int i = 0; i < r->nvalues; i++) r->v[i].live = false;
  for (int i = 0; i < r->nsaves; i++) r->v[r->save[i].value].live = true;
  for (int i = r->nvalues - 1; i >= 0; i--) {
    if (!r->v[i].live) continue;
    for (int k = 0; k < r->v[i].nin; k++) r->v[r->v[i].in[k]].live = true;
    r->folded |= r->v[i].folded;
  }
}

static void forget_unused(struct rows *r)
{
  axis_set used = 0;
  for (int i = 0; i < r->nvalues; i++)
    if (r->v[i].live) used |= r->v[i].axes | r->v[i].folded;
  for (int a = 0; a < r->naxes; a++)
    if (r->extent[a] > 1 && !(used >> a & 1)) rows_forget(r, a);
}

// Numbers the axes that are left without gaps.
static void number(struct rows *r)
{
  int n = 0;
  for (int a = 0; a < r->naxes; a++) {
    if (r->extent[a] <= 1) continue;
    if (n != a) {
      r->extent[n] = r->extent[a];
      rename_axis(r, a, n);
      rows_forget(r, a);
    }
    n++;
  }
  r->naxes = n;
}

void rows_join_axes(struct rows *r)
{
  rows_live(r);
  forget_unused(r);
  while (merge_one(r)) {
  }
  while (rename_one(r)) rows_live(r);
  unite_loads(r);
  rows_live(r);
  while (merge_one(r)) {
  }
  number(r);
  rows_live(r);
}
