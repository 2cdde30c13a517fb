// Letters while they are found (letters.h), and views of a kernel graph.
#include "plan/letters.h"
#include "plan/layout.h"

#include <string.h>

int raw_fresh(struct raw_letters *r, int64_t extent)
{
  if (r->n == RAW_LETTERS) return r->full = true, 0;
  int id = r->n++;
  r->extent[id] = extent, r->same[id] = r->slow[id] = r->fast[id] = -1;
  return id;
}

// Appends the letters that id was resolved to; extents of 1 are no letters.
void raw_push(struct raw_letters *r, struct raw_list *l, int id)
{
  while (r->same[id] >= 0) id = r->same[id];
  if (r->slow[id] >= 0) {
    raw_push(r, l, r->slow[id]);
    raw_push(r, l, r->fast[id]);
  } else if (r->extent[id] > 1) {
    if (l->n == RAW_LIST)
      r->full = true;
    else
      l->id[l->n++] = id;
  }
}

struct raw_list raw_resolve(struct raw_letters *r, const struct raw_list *l)
{
  struct raw_list out = {0};
  for (int i = 0; i < l->n; i++) raw_push(r, &out, l->id[i]);
  return out;
}

static void split(struct raw_letters *r, int id, int64_t fast)
{
  int slow_id = raw_fresh(r, r->extent[id] / fast), fast_id = raw_fresh(r, fast);
  if (!r->full) r->slow[id] = slow_id, r->fast[id] = fast_id;
}

bool raw_unify(struct raw_letters *r, const struct raw_list *a, const struct raw_list *b)
{
  for (;;) {
    struct raw_list x = raw_resolve(r, a), y = raw_resolve(r, b);
    int i = 1;
    while (i <= x.n && i <= y.n && x.id[x.n - i] == y.id[y.n - i]) i++;
    if (i > x.n || i > y.n) return x.n == y.n;
    int s = x.id[x.n - i], t = y.id[y.n - i];
    int64_t m = r->extent[s], n = r->extent[t];
    if (m == n)
      r->same[t] = s;
    else if (m % n == 0)
      split(r, s, n);
    else if (n % m == 0)
      split(r, t, m);
    else
      return false;
    if (r->full) return false;
  }
}

bool raw_cut(struct raw_letters *r, const struct raw_list *l, int64_t fast, struct raw_list *slow_out, struct raw_list *fast_out)
{
  struct raw_list x = raw_resolve(r, l);
  int64_t have = 1;
  int i = x.n;
  while (i > 0 && have < fast) {
    int64_t extent = r->extent[x.id[i - 1]], want = fast / have;
    if (fast % have) return false;
    if (extent <= want) {
      have *= extent, i--;
      continue;
    }
    if (extent % want) return false;
    split(r, x.id[i - 1], want);
    return !r->full && raw_cut(r, l, fast, slow_out, fast_out);
  }
  *slow_out = *fast_out = (struct raw_list){0};
  for (int k = 0; k < x.n; k++) {
    struct raw_list *to = k < i ? slow_out : fast_out;
    to->id[to->n++] = x.id[k];
  }
  return have == fast;
}

void raw_strides(struct raw_letters *r, int id, int64_t stride, void *arg, void (*each)(void *arg, int letter, int64_t stride))
{
  while (r->same[id] >= 0) id = r->same[id];
  if (r->slow[id] >= 0) {
    int64_t fast = r->extent[r->fast[id]];
    raw_strides(r, r->slow[id], stride * fast, arg, each);
    raw_strides(r, r->fast[id], stride, arg, each);
  } else if (r->extent[id] > 1)
    each(arg, id, stride);
}

// ---- views of a kernel graph ----

static bool kview_push(struct kview_dim *d, int64_t extent, int64_t stride)
{
  if (extent == 1) return true;
  if (d->n && d->stride[d->n - 1] == extent * stride) { // one stride covers both
    d->extent[d->n - 1] *= extent, d->stride[d->n - 1] = stride;
    return true;
  }
  if (d->n == MAX_FACTORS) return false;
  d->extent[d->n] = extent, d->stride[d->n++] = stride;
  return true;
}

bool kview_take(struct kview_dim *d, int64_t parts, int64_t *stride)
{
  *stride = 0;
  if (parts == 1) return true;
  if (!d->n || d->extent[0] % parts) return false;
  d->extent[0] /= parts;
  *stride = d->extent[0] * d->stride[0];
  if (d->extent[0] > 1) return true;
  d->n--;
  for (int i = 0; i < d->n; i++) d->extent[i] = d->extent[i + 1], d->stride[i] = d->stride[i + 1];
  return true;
}

// Elements start, ..., end - 1 of a dimension: a run of its slowest factor, or, within one index of it, a run of the others.
static bool kview_slice(struct kview_dim *d, int64_t start, int64_t end, int64_t *offset)
{
  while (d->n) {
    int64_t inner = 1, stride = d->stride[0];
    for (int k = 1; k < d->n; k++) inner *= d->extent[k];
    int64_t first = start / inner;
    bool one = (end - 1) / inner == first;
    if (!one && (start % inner || end % inner)) return false;
    *offset += first * stride;
    if (!one) return d->extent[0] = (end - start) / inner, true;
    if (!kview_take(d, d->extent[0], &stride)) return false;
    start -= first * inner, end -= first * inner;
  }
  return true;
}

static bool kview_reshape(const struct kview *x, const struct shape *to, struct kview *out)
{
  struct kview_dim flat = {0};
  for (int i = 0; i < x->ndims; i++)
    for (int k = 0; k < x->dim[i].n; k++)
      if (!kview_push(&flat, x->dim[i].extent[k], x->dim[i].stride[k])) return false;
  out->root = x->root, out->ndims = to->n, out->offset = x->offset;
  for (int i = 0; i < to->n; i++) {
    int64_t left = to->d[i];
    while (left > 1) {
      if (!flat.n) return false;
      int64_t first = flat.extent[0], take = first <= left ? first : left, stride;
      if (left % take || !kview_take(&flat, take, &stride) || !kview_push(&out->dim[i], take, stride)) return false;
      left /= take;
    }
  }
  return true;
}

int64_t order_strides(const struct order *o, const struct shape *s, int64_t stride[MAX_DIMS])
{
  struct tensor_layout l;
  int inner = o ? o->inner : -1;
  layout_strides(s, inner, o && o->padded ? 2 : 16, &l);
  memcpy(stride, l.stride, sizeof l.stride);
  return l.elements;
}

int64_t order_place(const struct order *o, const struct shape *s, int64_t i)
{
  int64_t stride[MAX_DIMS], at = 0;
  if (!o || (o->inner < 0 && !o->padded)) return i;
  order_strides(o, s, stride);
  for (int d = s->n - 1; d >= 0; i /= s->d[d--]) at += i % s->d[d] * stride[d];
  return at;
}

static void kview_root(const struct graph *g, const struct order *order, int tensor, struct kview *out)
{
  const struct shape *s = &g->tensors[tensor].shape;
  int64_t stride[MAX_DIMS];
  out->root = tensor, out->ndims = s->n;
  order_strides(order ? &order[tensor] : NULL, s, stride);
  for (int i = s->n - 1; i >= 0; i--) kview_push(&out->dim[i], s->d[i], stride[i]);
}

bool kview_in(const struct graph *g, const struct order *order, int tensor, struct kview *out)
{
  const struct node *n = &g->nodes[g->tensors[tensor].node];
  *out = (struct kview){0};
  if (op_rows[n->op].rule != RULE_VIEW) return kview_root(g, order, tensor, out), true;
  struct kview x;
  if (!kview_in(g, order, n->in[0], &x)) return false;
  switch ((int)n->op) {
  case OP_RESHAPE: return kview_reshape(&x, &g->tensors[tensor].shape, out);
  case OP_TRANSPOSE:
    *out = x;
    for (int i = 0; i < x.ndims; i++) {
      int from = perm_of(&n->a, x.ndims, i);
      out->dim[i] = x.dim[from];
    }
    return true;
  case OP_SLICE: *out = x; return kview_slice(&out->dim[n->a.dim], n->a.start, n->a.end, &out->offset);
  case OP_REPEAT: *out = x; return kview_push(&out->dim[n->a.dim], n->a.times, 0);
  default: return false;
  }
}

bool kview_of(const struct graph *g, int tensor, struct kview *out) { return kview_in(g, NULL, tensor, out); }
