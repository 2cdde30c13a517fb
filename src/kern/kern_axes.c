// Reduces the number of axes, in two ways:
//
//   merge    Two axes that every access traverses as digits of one index become one axis: rows within a tile and tiles, or letters and their loop.
//            The longer axis allows wider accesses.
//   rename   Two axes of equal extent that no value has together become the same axis. In a norm that reads its data by two iterators, one part sums
//            over a dimension and another traverses it; with one axis for both, the data are read once. Unrelated results share axes too: otherwise
//            one would be computed for each element of the other.
#include "kern/kern.h"

#include <string.h>

static bool both(axis_set s, int a, int b) { return (s >> a & 1) == (s >> b & 1); }
static bool nested(const struct kern_access *x, int slow, int fast, int64_t extent)
{
  return x->stride[slow] == x->stride[fast] * extent && x->rank[slow] == x->rank[fast] * extent;
}

// Whether all values and accesses depend on the two axes only through slow * extent[fast] + fast.
static bool together(const struct kern *k, int slow, int fast)
{
  for (int i = 0; i < k->nvalues; i++) {
    const struct kern_value *v = &k->v[i];
    if (!v->live) continue;
    if (!both(v->axes, slow, fast) || !both(v->folded, slow, fast)) return false;
    if ((kern_loads(v) || kern_tops(v)) && !nested(&v->at, slow, fast, k->extent[fast])) return false;
  }
  for (int i = 0; i < k->nsaves; i++)
    if (!both(k->save[i].axes, slow, fast) || !nested(&k->save[i].at, slow, fast, k->extent[fast])) return false;
  return true;
}

void kern_forget(struct kern *k, int axis)
{
  k->extent[axis] = 1;
  for (int i = 0; i < k->nvalues; i++) {
    k->v[i].axes &= ~AXIS(axis), k->v[i].folded &= ~AXIS(axis);
    k->v[i].at.stride[axis] = k->v[i].at.rank[axis] = 0;
  }
  for (int i = 0; i < k->nsaves; i++) k->save[i].axes &= ~AXIS(axis), k->save[i].at.stride[axis] = 0;
}

static bool merge_one(struct kern *k)
{
  for (int slow = 0; slow < k->naxes; slow++)
    for (int fast = 0; fast < k->naxes; fast++) {
      if (slow == fast || k->extent[slow] <= 1 || k->extent[fast] <= 1 || !together(k, slow, fast)) continue;
      k->extent[fast] *= k->extent[slow];
      return kern_forget(k, slow), true;
    }
  return false;
}

// ---- axes that no value has together ----

static bool meet(const struct kern *k, int a, int b)
{
  axis_set two = AXIS(a) | AXIS(b);
  for (int i = 0; i < k->nvalues; i++)
    if (k->v[i].live && ((k->v[i].axes | k->v[i].folded) & two) == two) return true;
  for (int i = 0; i < k->nsaves; i++)
    if ((k->save[i].axes & two) == two) return true;
  return false;
}

static bool rename_access(struct kern_access *a, int from, int to)
{
  bool clear = !a->stride[from] || !a->stride[to] || a->stride[from] == a->stride[to];
  if (a->stride[from]) a->stride[to] = a->stride[from];
  if (a->rank[from]) a->rank[to] = a->rank[from];
  a->stride[from] = a->rank[from] = 0;
  return clear;
}

bool kern_rename(struct kern *k, int from, int to)
{
  bool clear = true;
  for (int i = 0; i < k->nvalues; i++) {
    struct kern_value *v = &k->v[i];
    clear &= rename_access(&v->at, from, to);
    v->axes = axis_renamed(v->axes, from, to), v->folded = axis_renamed(v->folded, from, to), v->batch = axis_renamed(v->batch, from, to);
  }
  for (int i = 0; i < k->nsaves; i++) {
    clear &= rename_access(&k->save[i].at, from, to);
    k->save[i].axes = axis_renamed(k->save[i].axes, from, to);
  }
  return clear;
}

static bool same_load(const struct kern_value *a, const struct kern_value *b)
{
  return a->kind == b->kind && kern_loads(a) && kern_same_access(&a->at, &b->at) && a->nin == b->nin &&
         !memcmp(a->in, b->in, sizeof *a->in * (size_t)a->nin);
}

static void unite_loads(struct kern *k)
{
  for (int i = 0; i < k->nvalues; i++)
    for (int n = 0; n < i; n++) {
      if (!same_load(&k->v[i], &k->v[n])) continue;
      for (int u = 0; u < k->nvalues; u++)
        for (int x = 0; x < k->v[u].nin; x++)
          if (k->v[u].in[x] == i) k->v[u].in[x] = n;
      for (int u = 0; u < k->nsaves; u++)
        if (k->save[u].value == i) k->save[u].value = n;
      break;
    }
}

static bool contiguous(const struct kern *k, int a)
{
  for (int i = 0; i < k->nvalues; i++)
    if (k->v[i].live && k->v[i].at.stride[a] == 1) return true;
  for (int i = 0; i < k->nsaves; i++)
    if (k->save[i].at.stride[a] == 1) return true;
  return false;
}

// Renames one axis. Prefers pairs of which both are contiguous in some access, or neither.
static bool rename_one(struct kern *k)
{
  for (int any = 0; any < 2; any++)
    for (int a = 0; a < k->naxes; a++)
      for (int b = 0; b < k->naxes; b++) {
        if (a == b || k->extent[a] <= 1 || k->extent[a] != k->extent[b] || meet(k, a, b)) continue;
        if (!any && contiguous(k, a) != contiguous(k, b)) continue;
        kern_rename(k, a, b);
        return kern_forget(k, a), true;
      }
  return false;
}

// ---- all axes ----

static void forget_unused(struct kern *k)
{
  axis_set used = 0;
  for (int i = 0; i < k->nvalues; i++)
    if (k->v[i].live) used |= k->v[i].axes | k->v[i].folded;
  EACH_AXIS(a, kern_present(k, ~used)) kern_forget(k, a);
}

// Numbers the remaining axes without gaps.
static void number(struct kern *k)
{
  int n = 0;
  for (int a = 0; a < k->naxes; a++) {
    if (k->extent[a] <= 1) continue;
    if (n != a) {
      k->extent[n] = k->extent[a];
      kern_rename(k, a, n);
      kern_forget(k, a);
    }
    n++;
  }
  k->naxes = n;
}

void kern_join_axes(struct kern *k)
{
  kern_live(k);
  forget_unused(k);
  while (merge_one(k)) {
  }
  while (rename_one(k)) kern_live(k);
  unite_loads(k);
  kern_live(k);
  while (merge_one(k)) {
  }
  number(k);
  k->letters = k->loops = 0; // a joined axis may be of several kinds
  kern_live(k);
}
