// The rule `scan`. A cumulative sum is written as a product with a triangle of ones: x[k] (k <= n), summed over k. Its element n is the prefix sum of
// x[0] to x[n]. The rule makes it a scan of x along n, without multiplications.
#include "kern/kern_rule.h"

// The axis of which the value is the index; -1: none.
static int index_axis(const struct kern *k, int v)
{
  const struct kern_value *x = &k->v[v];
  if (x->kind != KERN_LOAD || !x->at.index || x->at.offset || !x->axes || x->axes & (x->axes - 1)) return -1;
  const int a = __builtin_ctzll(x->axes);
  return x->at.stride[a] == 1 ? a : -1;
}

// The value with axis `to` instead of `from`; -1: impossible. done: for each value, its replacement, or -1.
static int walked(struct kern *k, int v, int from, int to, int *done)
{
  struct kern_value x = k->v[v];
  if (!(x.axes >> from & 1)) return v;
  if (done[v] >= 0) return done[v];
  if ((x.axes | x.folded) >> to & 1 || kern_has(&x, KERN_RUNS)) return -1;
  for (int i = 0; i < x.nin; i++) {
    x.in[i] = walked(k, x.in[i], from, to, done);
    if (x.in[i] < 0) return -1;
  }
  x.axes = axis_renamed(x.axes, from, to), x.folded = axis_renamed(x.folded, from, to), x.batch = axis_renamed(x.batch, from, to);
  x.at.stride[to] = x.at.stride[from], x.at.stride[from] = 0;
  return done[v] = kern_add(k, x);
}

bool rule_scan(struct kern *k, const struct kern_value *v, int *out)
{
  if (v->kind != KERN_PRODUCT || v->folded & (v->folded - 1)) return false;
  for (int i = 0; i < 2; i++) {
    const struct kern_value *is = &k->v[v->in[i]];
    if (!kern_is_map(is, OP_LESS_EQUAL)) continue;
    const int from = index_axis(k, is->in[0]), to = index_axis(k, is->in[1]), terms = v->in[!i];
    if (from < 0 || to < 0 || v->folded != AXIS(from) || k->extent[from] != k->extent[to] || !(k->v[terms].axes >> from & 1)) continue;
    int *done = NEWS(k->mem, int, k->nvalues);
    for (int x = 0; x < k->nvalues; x++) done[x] = -1;
    const int x = walked(k, terms, from, to, done);
    if (x < 0) continue;
    return *out = kern_fold(k, KERN_SCAN, x, AXIS(to), v->about), true;
  }
  return false;
}
