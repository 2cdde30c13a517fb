// Conditions on indices as linear inequalities. Indices are numbers of elements along axes, integer constants, and at most one loaded integer that
// does not change with the loop.
#include "kern/kern.h"

#include <math.h>
#include <string.h>

enum { MOST_DEPTH = 24 };

static bool whole(double x) { return x >= -0x1p40 && x <= 0x1p40 && x <= rint(x) && x >= rint(x); }

void kern_sum_add(struct kern_sum *to, int64_t by, const struct kern_sum *x)
{
  if (x->by) to->by = by * x->by, to->load = x->load;
  to->constant += by * x->constant;
  for (int a = 0; a < KERN_AXES; a++) to->stride[a] += by * x->stride[a];
}

bool kern_is_fixed_load(const struct kern *k, int v)
{
  const struct kern_value *x = &k->v[v];
  return x->kind == KERN_LOAD && !x->at.index && !(x->axes & k->loops);
}

static bool sum_of(const struct kern *k, int v, int depth, struct kern_sum *out)
{
  const struct kern_value *x = &k->v[v];
  struct kern_sum in[2] = {{0}};
  *out = (struct kern_sum){0};
  if (x->kind == KERN_LOAD && x->at.index) return out->constant = x->at.offset, memcpy(out->stride, x->at.stride, sizeof out->stride), true;
  if (kern_is_fixed_load(k, v)) return out->by = 1, out->load = v, true;
  if (x->kind == KERN_CONST) return out->constant = (int64_t)(whole(x->a.scalar) ? x->a.scalar : 0), whole(x->a.scalar);
  if (x->kind != KERN_MAP || !depth) return false;
  for (int i = 0; i < x->nin; i++)
    if (!sum_of(k, x->in[i], depth - 1, &in[i])) return false;
  if ((x->op == OP_ADD_SCALAR || x->op == OP_MUL_SCALAR) && !whole(x->a.scalar)) return false;
  if (x->op == OP_ADD_SCALAR) return *out = in[0], out->constant += (int64_t)x->a.scalar, true;
  if (x->op == OP_NEG || x->op == OP_MUL_SCALAR) return kern_sum_add(out, x->op == OP_NEG ? -1 : (int64_t)x->a.scalar, &in[0]), true;
  if ((x->op != OP_ADD && x->op != OP_SUB) || (in[0].by && in[1].by)) return false;
  return *out = in[0], kern_sum_add(out, x->op == OP_ADD ? 1 : -1, &in[1]), true;
}

// Adds the bound y - x - least >= 0.
static bool add_bound(struct kern_hidden *h, const struct kern_sum *x, const struct kern_sum *y, int64_t least)
{
  if (h->nbounds == KERN_BOUNDS || (x->by && y->by)) return false;
  struct kern_sum *b = &h->bound[h->nbounds++];
  *b = *y, kern_sum_add(b, -1, x), b->constant -= least;
  return true;
}

static bool bounds_of(const struct kern *k, int c, int depth, struct kern_hidden *h)
{
  const struct kern_value *v = &k->v[c];
  struct kern_sum x, y;
  if (v->kind != KERN_MAP || !depth) return false;
  if (v->op == OP_MUL || v->op == OP_MASK) return bounds_of(k, v->in[0], depth - 1, h) && bounds_of(k, v->in[1], depth - 1, h);
  if (v->op >= OPS || !(op_rows[v->op].flags & BRACKET) || !sum_of(k, v->in[0], depth, &x) || !sum_of(k, v->in[1], depth, &y)) return false;
  return add_bound(h, &x, &y, v->op == OP_LESS) && (v->op != OP_EQUAL || add_bound(h, &y, &x, 0));
}

bool kern_add_bounds(const struct kern *k, int c, struct kern_hidden *h)
{
  const int before = h->nbounds;
  if (bounds_of(k, c, MOST_DEPTH, h)) return true;
  return h->nbounds = before, false;
}
