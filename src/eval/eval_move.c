// Copies of boxes of elements, for elements of any type.
#include "eval/run.h"

#include <string.h>

void move_strides(const struct shape *s, int64_t st[MAX_DIMS])
{
  int64_t n = 1;
  for (int i = s->n - 1; i >= 0; i--) st[i] = n, n *= s->d[i];
}

static void move_row(size_t bytes, int64_t n, char *to, int64_t ts, const char *from, int64_t fs)
{
  if (ts == 1 && fs == 1) {
    memcpy(to, from, bytes * (size_t)n);
    return;
  }
  int64_t t = ts * (int64_t)bytes, f = fs * (int64_t)bytes;
#define EACH(b) \
  for (int64_t i = 0; i < n; i++, to += t, from += f) memcpy(to, from, b)
  switch (bytes) { // a copy of constant size is one instruction, not a call
  case 4: EACH(4); break;
  case 8: EACH(8); break;
  case 16: EACH(16); break;
  default: EACH(bytes);
  }
#undef EACH
}

void move_box(size_t bytes, const struct shape *box, char *to, const int64_t *ts, const char *from, const int64_t *fs)
{
  if (!box->n) {
    memcpy(to, from, bytes);
    return;
  }
  int last = box->n - 1;
  int64_t at[MAX_DIMS] = {0};
  for (int d = 0; d >= 0;) {
    move_row(bytes, box->d[last], to, ts[last], from, fs[last]);
    for (d = last - 1; d >= 0; d--) {
      to += ts[d] * (int64_t)bytes, from += fs[d] * (int64_t)bytes;
      if (++at[d] < box->d[d]) break;
      to -= ts[d] * box->d[d] * (int64_t)bytes, from -= fs[d] * box->d[d] * (int64_t)bytes;
      at[d] = 0;
    }
  }
}

static char *corner(size_t bytes, struct eval_value whole, const int64_t *at, const int64_t *st)
{
  int64_t n = 0;
  for (int i = 0; i < whole.s.n; i++) n += at[i] * st[i];
  return whole.p + n * (int64_t)bytes;
}

void move_cut(size_t bytes, struct eval_value whole, const int64_t *at, struct eval_value tile)
{
  int64_t ws[MAX_DIMS], ts[MAX_DIMS];
  move_strides(&whole.s, ws), move_strides(&tile.s, ts);
  move_box(bytes, &tile.s, tile.p, ts, corner(bytes, whole, at, ws), ws);
}

void move_paste(size_t bytes, struct eval_value whole, const int64_t *at, struct eval_value tile)
{
  int64_t ws[MAX_DIMS], ts[MAX_DIMS];
  move_strides(&whole.s, ws), move_strides(&tile.s, ts);
  move_box(bytes, &tile.s, corner(bytes, whole, at, ws), ws, tile.p, ts);
}

static void transpose(size_t bytes, const struct shape *perm, struct eval_value o, struct eval_value x)
{
  int64_t os[MAX_DIMS], xs[MAX_DIMS], ps[MAX_DIMS];
  move_strides(&o.s, os), move_strides(&x.s, xs);
  for (int i = 0; i < o.s.n; i++) ps[i] = xs[perm->n ? perm->d[i] : i];
  if (!perm->n) ps[o.s.n - 1] = xs[o.s.n - 2], ps[o.s.n - 2] = xs[o.s.n - 1];
  move_box(bytes, &o.s, o.p, os, x.p, ps);
}

// Copies x, seen as [slices, 1, rest], to o, seen as [slices, times, rest].
static void repeat(size_t bytes, const struct attrs *a, struct eval_value o, struct eval_value x)
{
  int64_t slices = 1, rest = 1;
  for (int i = 0; i < x.s.n; i++) *(i <= a->dim ? &slices : &rest) *= x.s.d[i];
  struct shape box = {3, {slices, a->times, rest}};
  int64_t os[] = {a->times * rest, rest, 1}, xs[] = {rest, 0, 1};
  move_box(bytes, &box, o.p, os, x.p, xs);
}

static void slice(size_t bytes, const struct attrs *a, struct eval_value o, struct eval_value x)
{
  int64_t os[MAX_DIMS], xs[MAX_DIMS];
  move_strides(&o.s, os), move_strides(&x.s, xs);
  move_box(bytes, &o.s, o.p, os, (const char *)x.p + bytes * (size_t)(a->start * xs[a->dim]), xs);
}

void move_view(size_t bytes, const struct node *n, struct eval_value o, struct eval_value x)
{
  if (n->op == OP_TRANSPOSE)
    transpose(bytes, &n->a.perm, o, x);
  else if (n->op == OP_REPEAT)
    repeat(bytes, &n->a, o, x);
  else if (n->op == OP_SLICE)
    slice(bytes, &n->a, o, x);
  else
    memcpy(o.p, x.p, bytes * (size_t)shape_size(&o.s)); // reshape
}
