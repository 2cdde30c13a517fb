// Combines a kernel (the head) and its tail, the kernel that reads its result, into one list of values. Axes of both step through the dimensions of
// that result. So along each dimension, the head's axes replace the tail's. Other reads and saves of the tail are expressed by them too: a
// uniform stride along a dimension becomes proportional strides of the head's axes. Axes that do not step through the result are the tail's alone.
#include "kern/kern.h"

enum { SETS = 4 };
struct kern_tailing {
  struct kern *k;            // the head; receives both
  const struct kern *t;      // the tail, whose axes are numbered after the head's
  int nhead;                 // number of axes of the head
  const struct shape *shape; // shape of the result
  int64_t stride[MAX_DIMS];
  int64_t at[KERN_AXES];          // stride of each axis in the result; 0: the axis does not step through it
  axis_set along[MAX_DIMS];       // the head's axes along a dimension
  axis_set tails[MAX_DIMS][SETS]; // the tail's axes along it; loads may differ
  int *to;                        // for each value of the tail: its number in k
};

// Records how an access steps through the result; false if another access does so differently.
static bool note(struct kern_tailing *x, const struct kern_access *a)
{
  if (a->offset) return false;
  for (int i = 0; i < x->t->naxes; i++) {
    if (!a->stride[i]) continue;
    if (x->at[i] && x->at[i] != a->stride[i]) return false;
    x->at[i] = a->stride[i];
  }
  return true;
}

static int saver_of(const struct kern_tailing *x, int tensor)
{
  for (int i = 0; i < x->k->nsaves; i++)
    if (x->k->save[i].at.tensor == tensor) return i;
  return -1;
}

static int64_t extent(const struct kern_tailing *x, int axis) { return axis < x->nhead ? x->k->extent[axis] : x->t->extent[axis]; }

// The dimension through which an axis steps; -1: none.
static int dim_of(const struct kern_tailing *x, int axis)
{
  for (int d = x->shape->n - 1; d >= 0 && x->at[axis]; d--)
    if (x->stride[d] && x->at[axis] >= x->stride[d] && x->at[axis] * extent(x, axis) <= x->stride[d] * x->shape->d[d]) return d;
  return -1;
}

// Checks that an access covers every dimension exactly once, and records its axes along each. Loads of the tail may differ in these axes.
static bool covers(struct kern_tailing *x, const struct kern_access *a, bool tail)
{
  axis_set own[MAX_DIMS] = {0};
  int64_t size[MAX_DIMS];
  for (int d = 0; d < x->shape->n; d++) size[d] = 1;
  for (int i = 0; i < x->t->naxes; i++) {
    int d = dim_of(x, i);
    if (!a->stride[i]) continue;
    if (d < 0) return false;
    size[d] *= extent(x, i), own[d] |= AXIS(i);
  }
  for (int d = 0; d < x->shape->n; d++) {
    int n = 0;
    if (size[d] != x->shape->d[d]) return false;
    if (!tail) x->along[d] |= own[d];
    while (tail && n < SETS && x->tails[d][n] && x->tails[d][n] != own[d]) n++;
    if (n == SETS) return false;
    if (tail) x->tails[d][n] = own[d];
  }
  return true;
}

// Replaces the tail's axes in s by the head's. False if s has only some of the axes of a load along a dimension.
static bool translate(const struct kern_tailing *x, axis_set s, axis_set *out)
{
  *out = 0;
  EACH_AXIS(i, s)
    if (i < x->nhead || !x->at[i]) *out |= AXIS(i);
  for (int d = 0; d < x->shape->n; d++) {
    axis_set here = 0;
    bool known = false;
    for (int i = x->nhead; i < x->t->naxes; i++)
      if (s >> i & 1 && dim_of(x, i) == d) here |= AXIS(i);
    for (int n = 0; n < SETS; n++) known |= x->tails[d][n] == here;
    if (here && !known) return false;
    if (here) *out |= x->along[d];
  }
  return true;
}

static bool restate(const struct kern_tailing *x, const struct kern_access *from, struct kern_access *out)
{
  int64_t stride[MAX_DIMS] = {0}, per[MAX_DIMS] = {0}; // for each dimension: the access moves by `stride` for each `per` elements of the result
  *out = *from;
  for (int i = x->nhead; i < x->t->naxes; i++) {
    int d = dim_of(x, i);
    if (d < 0 || !from->stride[i]) continue;
    if (per[d] && from->stride[i] * per[d] != stride[d] * x->at[i]) return false;
    stride[d] = from->stride[i], per[d] = x->at[i], out->stride[i] = 0;
  }
  for (int i = 0; i < x->nhead; i++) {
    int d = dim_of(x, i);
    if (d < 0 || !per[d]) continue;
    if (x->at[i] * stride[d] % per[d]) return false;
    out->stride[i] = x->at[i] * stride[d] / per[d];
  }
  return true;
}

static bool one(struct kern_tailing *x, int i)
{
  struct kern_value v = x->t->v[i];
  int saver = v.kind == KERN_LOAD ? saver_of(x, v.at.tensor) : -1;
  if (saver >= 0) return x->to[i] = x->k->save[saver].value, true;
  if (v.kind == KERN_LOAD && !restate(x, &x->t->v[i].at, &v.at)) return false;
  if (!translate(x, v.folded, &v.folded) || !translate(x, v.axes, &v.axes)) return false;
  for (int n = 0; n < v.nin; n++) v.in[n] = x->to[v.in[n]];
  return x->to[i] = kern_add(x->k, v), true;
}

static bool saves(struct kern_tailing *x)
{
  struct kern_save *save = NEWS(x->k->mem, struct kern_save, x->t->nsaves + 1);
  for (int i = 0; i < x->t->nsaves; i++) {
    save[i] = x->t->save[i], save[i].value = x->to[save[i].value];
    if (saver_of(x, save[i].at.tensor) >= 0 || !restate(x, &x->t->save[i].at, &save[i].at)) return false;
    if (!translate(x, save[i].axes, &save[i].axes) || x->k->v[save[i].value].axes != save[i].axes) return false;
  }
  x->k->save = save, x->k->nsaves = x->t->nsaves;
  return true;
}

bool kern_join_tail(struct kern *k, const struct kern *tail, const struct norm *head)
{
  struct kern_tailing x = {.k = k, .t = tail, .nhead = k->naxes, .to = NEWS(k->mem, int, tail->nvalues + 1)};
  int tensor = head->save[0].tensor;
  x.shape = &head->kernels->tensors[tensor].shape;
  order_strides(head->order ? &head->order[tensor] : NULL, x.shape, x.stride);
  for (int i = 0; i < k->nsaves; i++)
    if (!shape_eq(x.shape, &head->kernels->tensors[k->save[i].at.tensor].shape) || !note(&x, &k->save[i].at)) return false;
  for (int i = 0; i < tail->nvalues; i++)
    if (tail->v[i].kind == KERN_LOAD && saver_of(&x, tail->v[i].at.tensor) >= 0 && !note(&x, &tail->v[i].at)) return false;
  for (int i = 0; i < k->nsaves; i++)
    if (!covers(&x, &k->save[i].at, false)) return false;
  for (int i = 0; i < tail->nvalues; i++)
    if (tail->v[i].kind == KERN_LOAD && saver_of(&x, tail->v[i].at.tensor) >= 0 && !covers(&x, &tail->v[i].at, true)) return false;
  for (int a = x.nhead; a < tail->naxes; a++) k->extent[a] = x.at[a] ? 1 : tail->extent[a];
  k->naxes = tail->naxes, k->letters |= tail->letters;
  for (int i = 0; i < tail->nvalues; i++)
    if (!one(&x, i)) return false;
  return saves(&x);
}
