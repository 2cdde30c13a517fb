// The axes of a block graph and of its tail, counted together. The tail reads what the savers leave, so most of its axes are
// the block graph's in other words: an axis of the tail steps through a dimension of what was saved, and so do axes of the
// block graph. What else the tail reads or saves is said by the block graph's axes: where it moves evenly along a dimension,
// it moves in proportion along the axes that make the dimension. Other axes are the tail's own.
#include "lower/skinny.h"

struct sk_space sk_space_of(const struct sk_plan *p, const struct sk_side *s, const struct norm_dim *d)
{
  struct sk_space out = {.size = 1};
  for (int i = 0; i < d->n; i++) sk_space_push(p, &out, s->letters + d->letter[i]);
  return out;
}

uint64_t sk_axes_of(const struct sk_plan *p, const struct sk_access *a)
{
  uint64_t m = 0;
  for (int i = 0; i < p->naxes; i++)
    if (a->stride[i] && p->extent[i] > 1) m |= 1ull << i;
  return m;
}

static bool add_axes(struct sk_plan *p, struct sk_side *s, const struct norm *n)
{
  const struct graph *b = n->block;
  s->n = n, s->letters = p->naxes, s->loops = s->letters + n->nletters, s->grid = s->loops + b->nloop, s->iters = p->niter;
  if (s->grid + b->ngrid > SK_AXES) return false;
  for (int i = 0; i < n->nletters; i++) p->extent[s->letters + i] = n->extent[i];
  for (int i = 0; i < b->nloop; i++) p->extent[s->loops + i] = b->loop[i];
  for (int i = 0; i < b->ngrid; i++) p->extent[s->grid + i] = b->grid[i];
  p->naxes = s->grid + b->ngrid, p->niter += n->niter;
  return true;
}

static struct sk_access own_axes(const struct sk_side *s, const struct access *a)
{
  struct sk_access out = {.tensor = a->tensor, .offset = a->offset};
  for (int i = 0; i < s->n->nletters; i++) out.stride[s->letters + i] = a->stride[i];
  for (int i = 0; i < s->n->block->nloop; i++) out.stride[s->loops + i] = a->loop[i];
  for (int i = 0; i < s->n->block->ngrid; i++) out.stride[s->grid + i] = a->grid[i];
  return out;
}

// Notes the strides by which an access moves through what was saved; false where another moves differently.
static bool note(struct sk_plan *p, const struct sk_access *a)
{
  if (a->offset) return false;
  for (int i = 0; i < p->naxes; i++) {
    if (!a->stride[i] || p->extent[i] == 1) continue;
    if (p->at[i] && p->at[i] != a->stride[i]) return false;
    p->at[i] = a->stride[i];
  }
  return true;
}

static const struct shape *saved_shape(const struct sk_plan *p) { return &p->head.n->kernels->tensors[p->head.n->save[0].tensor].shape; }

// The dimension of what was saved through which an axis steps; -1: none.
static int dim_of(const struct sk_plan *p, int axis)
{
  const struct norm *n = p->head.n;
  const struct shape *s = saved_shape(p);
  int64_t stride[MAX_DIMS];
  order_strides(n->order ? &n->order[n->save[0].tensor] : NULL, s, stride);
  for (int d = s->n - 1; d >= 0 && p->at[axis]; d--)
    if (stride[d] && p->at[axis] >= stride[d] && p->at[axis] * p->extent[axis] <= stride[d] * s->d[d]) return d;
  return -1;
}

// All of what was saved is read, not a part of it.
static bool reads_all(const struct sk_plan *p, const struct sk_access *a)
{
  const struct shape *s = saved_shape(p);
  int64_t left[MAX_DIMS];
  for (int d = 0; d < s->n; d++) left[d] = s->d[d];
  for (int i = 0; i < p->naxes; i++) {
    int d = a->stride[i] && p->extent[i] > 1 ? dim_of(p, i) : 0;
    if (d < 0) return false;
    if (a->stride[i] && p->extent[i] > 1) left[d] /= p->extent[i];
  }
  for (int d = 0; d < s->n; d++)
    if (left[d] != 1) return false;
  return true;
}

// An access of the tail by the axes of the head, and what the tail has for itself.
static bool restate(const struct sk_plan *p, const struct sk_access *from, struct sk_access *out)
{
  *out = (struct sk_access){.tensor = from->tensor, .offset = from->offset};
  int64_t stride[MAX_DIMS] = {0}, per[MAX_DIMS] = {0}; // by dimension: so much for so many elements of what was saved
  for (int i = p->tail.letters; i < p->naxes; i++) {
    int d = dim_of(p, i);
    if (!p->at[i]) out->stride[i] = from->stride[i];
    if (!p->at[i] || p->extent[i] == 1) continue;
    if (d < 0 || (per[d] && from->stride[i] * per[d] != stride[d] * p->at[i])) return false;
    stride[d] = from->stride[i], per[d] = p->at[i];
  }
  for (int i = 0; i < p->tail.letters; i++) {
    int d = dim_of(p, i);
    if (!p->at[i] || p->extent[i] == 1) continue;
    if (d < 0 || (per[d] && p->at[i] * stride[d] % per[d])) return false;
    if (per[d]) out->stride[i] = p->at[i] * stride[d] / per[d];
  }
  return true;
}

static bool is_saved(const struct sk_plan *p, int tensor)
{
  for (int i = 0; i < p->head.n->nsave; i++)
    if (p->head.n->save[i].tensor == tensor) return true;
  return false;
}

static bool tail_accesses(struct sk_plan *p)
{
  const struct norm *h = p->head.n, *n = p->tail.n;
  for (int i = 0; i < h->nsave; i++) {
    struct sk_access a = own_axes(&p->head, &h->save[i]);
    if (!shape_eq(saved_shape(p), &h->kernels->tensors[h->save[i].tensor].shape) || !note(p, &a)) return false;
  }
  for (int i = 0; i < n->niter; i++) {
    struct sk_access a = own_axes(&p->tail, &n->iter[i]);
    if (is_saved(p, a.tensor) && (!note(p, &a) || !reads_all(p, &a))) return false;
  }
  for (int i = 0; i < n->niter + n->nsave; i++) {
    bool saves = i >= n->niter;
    struct sk_access a = own_axes(&p->tail, saves ? &n->save[i - n->niter] : &n->iter[i]);
    struct sk_access *to = saves ? &p->save[p->nsave++] : &p->iter[p->tail.iters + i];
    *to = a;
    if (!is_saved(p, a.tensor) && !restate(p, &a, to)) return false;
  }
  return true;
}

bool sk_sides(struct sk_plan *p)
{
  const struct norm *n = p->j->n, *tail = p->j->tail;
  struct arena *mem = p->j->mem;
  if (!add_axes(p, &p->head, n) || (tail && !add_axes(p, &p->tail, tail))) return false;
  p->tail.tail = true;
  if (tail && graph_iterations(tail->block) > 1) return false;
  p->iter = NEWS(mem, struct sk_access, p->niter + 1), p->save = NEWS(mem, struct sk_access, n->nsave + (tail ? tail->nsave : 0) + 1);
  for (int i = 0; i < n->niter; i++) p->iter[i] = own_axes(&p->head, &n->iter[i]);
  if (tail) return tail_accesses(p);
  for (int i = 0; i < n->nsave; i++) p->save[p->nsave++] = own_axes(&p->head, &n->save[i]);
  return true;
}

// Dimensions of the saved tensor that the letters of `d` make up whole; along them the head has only grid axes.
bool sk_tail_sums(struct sk_plan *p, const struct norm_dim *d)
{
  struct sk_space s = sk_space_of(p, &p->tail, d);
  uint64_t parts = 0;
  for (int i = 0; i < s.n; i++) {
    int dim = dim_of(p, s.axis[i]);
    int64_t covered = 1;
    if (dim < 0) return false;
    for (int k = 0; k < s.n; k++)
      if (dim_of(p, s.axis[k]) == dim) covered *= p->extent[s.axis[k]];
    if (covered != saved_shape(p)->d[dim]) return false;
    for (int a = 0; a < p->tail.letters; a++)
      if (p->extent[a] > 1 && dim_of(p, a) == dim) parts |= 1ull << a;
  }
  if (parts & ((1ull << p->head.grid) - 1) || (p->parts && p->parts != parts)) return false;
  p->parts = parts;
  return true;
}

static bool rename_axis(struct sk_plan *p, int from, int to)
{
  for (int i = 0; i < p->niter + p->nsave; i++) {
    struct sk_access *a = i < p->niter ? &p->iter[i] : &p->save[i - p->niter];
    if (a->stride[from] && a->stride[to] && a->stride[from] != a->stride[to]) return false;
    if (a->stride[from]) a->stride[to] = a->stride[from];
    a->stride[from] = 0;
  }
  for (int i = 0; i < p->nvalues; i++)
    if (p->v[i].has >> from & 1) p->v[i].has = (p->v[i].has & ~(1ull << from)) | 1ull << to;
  return true;
}

bool sk_same_columns(struct sk_plan *p)
{
  for (int i = 0; i < p->nproducts; i++) {
    struct sk_space *c = &p->product[i].cols;
    if (!p->product[i].wide || sk_space_axes(c) == sk_space_axes(&p->cols)) continue;
    if (c->n != p->cols.n || sk_space_axes(c) & sk_space_axes(&p->cols)) return false;
    for (int k = 0; k < c->n; k++)
      if (p->extent[c->axis[k]] != p->extent[p->cols.axis[k]]) return false;
    for (int k = 0; k < c->n; k++)
      if (!rename_axis(p, c->axis[k], p->cols.axis[k])) return false;
    *c = p->cols;
  }
  return true;
}
