// Finds loop iterations that a condition on indices masks completely, so that they may be skipped. A masked score is a constant so low that its
// exponential relative to any unmasked score is 0. If each row has an unmasked score, masked iterations add 0 to sums and leave maxima unchanged.
// A condition may contain a loaded number. Then the caller must know that it is an integer, and the kernel must check that each row has an unmasked
// score.
//
// In kernels without such a score, a mask of results hides all iterations of a block whose results are all masked, and a mask of an operand hides
// those in which all of the operand is masked, so that products and sums add 0.
#include "kern/kern.h"

#include <math.h>
#include <string.h>

static const double LOWEST_SHOWN = -1e4; // a masked score is at most this

enum hidden_class { ANY, LOW, ZERO, TOP }; // values in a masked iteration: any; very low; 0. TOP: a maximum over iterations

// ---- whether every row has an unmasked score ----

static int64_t least(const struct kern *k, const struct kern_sum *s, axis_set axes)
{
  int64_t r = s->constant;
  EACH_AXIS(a, axes) r += MIN(0, s->stride[a] * (k->extent[a] - 1));
  return r;
}

// The number of values of the sum over these axes, if they are all integers from 0 on; else 0.
static int64_t dense(const struct kern *k, const struct kern_sum *s, axis_set keys)
{
  int64_t n = 1;
  for (bool more = true; more;) {
    more = false;
    EACH_AXIS(a, keys)
      if (s->stride[a] == n) n *= k->extent[a], keys &= ~AXIS(a), more = true;
  }
  return keys ? 0 : n;
}

static axis_set axes_of(const struct kern *k, const struct kern_sum *s, axis_set of)
{
  axis_set r = kern_present(k, of);
  EACH_AXIS(a, r)
    if (!s->stride[a]) r &= ~AXIS(a);
  return r;
}

// 1 if s and `like` have the same strides along the keys, -1 if they are opposite, else 0.
static int sign_of(const struct kern *k, const struct kern_sum *s, const struct kern_sum *like, axis_set keys)
{
  int sign = 0;
  EACH_AXIS(a, kern_present(k, keys)) {
    int here = s->stride[a] == like->stride[a] ? 1 : s->stride[a] == -like->stride[a] ? -1 : 0;
    if (!here || (sign && here != sign)) return 0;
    sign = here;
  }
  return sign;
}

static bool reaches(const struct kern *k, const struct kern_hidden *h, axis_set keys)
{
  axis_set rows = ~keys;
  struct kern_sum all[KERN_BOUNDS + 2], like = {0};
  int n = 0, sign[KERN_BOUNDS + 2];
  for (int i = 0; i < h->nbounds; i++) {
    if (!axes_of(k, &h->bound[i], keys)) {
      if (least(k, &h->bound[i], rows) < 0) return false;
      continue;
    }
    all[n++] = h->bound[i];
  }
  if (!n) return false;
  kern_sum_add(&like, dense(k, &all[0], axes_of(k, &all[0], keys)) ? 1 : -1, &all[0]);
  keys = axes_of(k, &like, keys);
  int64_t extent = dense(k, &like, keys);
  all[n] = all[n + 1] = (struct kern_sum){0};
  EACH_AXIS(a, keys) all[n].stride[a] = like.stride[a], all[n + 1].stride[a] = -like.stride[a];
  all[n + 1].constant = extent - 1, n += 2;
  for (int i = 0; i < n; i++)
    if (!extent || !(sign[i] = sign_of(k, &all[i], &like, keys)) || axes_of(k, &all[i], ~rows & ~keys)) return false;
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n && sign[i] > 0; j++) {
      struct kern_sum both = all[i];
      kern_sum_add(&both, 1, &all[j]);
      if (sign[j] < 0 && least(k, &both, rows) < 0) return false;
    }
  return true;
}

// ---- values in a masked iteration ----

// Whether v is x where a condition is 1, and a low constant elsewhere.
static bool is_root(const struct kern *k, int v, struct kern_hidden *h)
{
  struct kern_keep keep;
  if (!kern_is_keep(k, &k->v[v], &keep) || keep.scalar > LOWEST_SHOWN) return false;
  h->root = v, h->shown = keep.x, h->condition = keep.condition;
  return true;
}

static bool is_number(const struct kern_value *v) { return v->kind == KERN_CONST || (v->kind == KERN_MAP && v->op == KERN_GUARD); }

static enum hidden_class of_map(const struct kern *k, const struct kern_value *v, const enum hidden_class *c)
{
  enum hidden_class x = c[v->in[0]], y = v->nin > 1 ? c[v->in[1]] : ANY;
  bool exponential = v->op == OP_EXP || (v->op == KERN_EXP2 && v->a.scalar >= 1);
  if (v->op == OP_MUL && (x == ZERO || y == ZERO)) return ZERO;
  if (v->op == OP_MUL && is_number(&k->v[v->in[1]])) return x;
  if (v->op == OP_MUL_SCALAR) return x == LOW && v->a.scalar < 1 ? ANY : x;
  if (v->op == OP_MAXIMUM && is_number(&k->v[v->in[1]])) return x;
  if (v->op == OP_SUB && x == LOW && y == TOP) return LOW;
  if (v->op == OP_ADD && (x == LOW || y == LOW)) return LOW; // a mask that is added to a score
  return exponential && x == LOW ? ZERO : ANY;
}

static enum hidden_class class_of(const struct kern *k, const struct kern_value *v, const enum hidden_class *c)
{
  enum hidden_class x = v->nin ? c[v->in[0]] : ANY;
  if (v->kind == KERN_MAP) return of_map(k, v, c);
  if (v->kind == KERN_RUN_MAX || (v->kind == KERN_MAX && v->folded & k->loops)) return TOP;
  if (v->kind == KERN_SPREAD || v->kind == KERN_MAX) return x;
  if (v->kind == KERN_SUM) return x == ZERO ? ZERO : ANY;
  return v->kind == KERN_PRODUCT && (x == ZERO || c[v->in[1]] == ZERO) ? ZERO : ANY;
}

// Whether the result of v, if it is reduced over the loop, does not depend on masked iterations.
static bool leaves(const struct kern *k, const struct kern_value *v, const enum hidden_class *c)
{
  if (!(v->folded & k->loops)) return true;
  if (v->kind == KERN_MAX || kern_has(v, KERN_KEEPS)) return c[v->in[0]] == LOW;
  if (v->kind == KERN_PRODUCT && c[v->in[1]] == ZERO) return true;
  return v->kind != KERN_PROD && !kern_tops(v) && c[v->in[0]] == ZERO; // a 0 changes a product, and may be among the largest
}

// Makes v the root. There may be one previous root, if v masks it once more and nothing else reads it.
static bool take_root(const struct kern *k, int v, const struct kern_hidden *here, struct kern_hidden *h)
{
  bool around = h->root >= 0 && here->shown == h->root && k->v[h->root].uses == 1;
  if (h->root >= 0 && !around) return false;
  if (!around) h->shown = here->shown;
  h->root = v, h->axes |= k->v[here->condition].axes;
  return true;
}

// The loop-invariant load that v compares with the constant `than`, as load > than (above) or load < than; -1: v is something else.
static int compared(const struct kern *k, int v, double than, bool above)
{
  const struct kern_value *x = &k->v[v], *c = x->nin > 1 ? &k->v[x->in[!above]] : x;
  bool is = x->kind == KERN_MAP && x->op == OP_LESS && c->kind == KERN_CONST && !(c->a.scalar < than) && !(c->a.scalar > than);
  return is && kern_is_fixed_load(k, x->in[above]) ? x->in[above] : -1;
}

// The only reader of the root, if that is an addition; else -1.
static int sum_with(const struct kern *k, int root)
{
  for (int v = root + 1; v < k->nvalues && k->v[root].uses == 1; v++) {
    const struct kern_value *sum = &k->v[v];
    if (sum->live && sum->kind == KERN_MAP && sum->op == OP_ADD && (sum->in[0] == root) != (sum->in[1] == root)) return v;
  }
  return -1;
}

// Finds a second mask, which only rows with a positive load (`more`) have: it is added to the root, or it is one more condition. Then `shown` becomes
// the score without both masks.
static void take_rows(const struct kern *k, struct kern_hidden *h)
{
  const struct kern_value *m = &k->v[h->shown];
  struct kern_hidden here;
  int sum = sum_with(k, h->root);
  if (m->kind != KERN_MAP || m->uses != 1) return;
  if (m->op == OP_MASK && sum >= 0 && (h->more = compared(k, m->in[1], 0, true)) >= 0)
    h->added = m->in[0], h->shown = k->v[sum].in[k->v[sum].in[0] == h->root], h->root = sum;
  else if (is_root(k, h->shown, &here)) {
    const struct kern_value *c = &k->v[here.condition];
    if (c->kind == KERN_MAP && c->op == OP_MAXIMUM && (h->more = compared(k, c->in[1], 1, false)) >= 0) h->added = c->in[0], h->shown = here.shown;
  }
}

// Finds the only masked score of the loop.
static bool hides_score(const struct kern *k, struct kern_hidden *h)
{
  struct arena mem = {0};
  enum hidden_class *c = NEWS(&mem, enum hidden_class, k->nvalues + 1);
  axis_set folded = 0;
  bool good = true;
  *h = (struct kern_hidden){.root = -1, .more = -1};
  for (int v = 0; v < k->nvalues && good; v++) {
    struct kern_hidden here = {0};
    if (!k->v[v].live) continue;
    folded |= k->v[v].folded;
    c[v] = class_of(k, &k->v[v], c);
    if (!is_root(k, v, &here) || !kern_add_bounds(k, here.condition, h)) continue;
    good = take_root(k, v, &here, h), c[v] = LOW;
  }
  for (int v = 0; v < k->nvalues && good; v++) good = !k->v[v].live || leaves(k, &k->v[v], c);
  arena_close(&mem);
  if (!good || h->root < 0) return false;
  take_rows(k, h);
  for (int i = 0; i < h->nbounds; i++) h->loads |= h->bound[i].by != 0;
  return h->loads || reaches(k, h, folded & h->axes);
}

// ---- masks of results and of operands ----

// The condition of a mask; -1: v is something else. *zero: masked elements are 0.
static int mask_of(const struct kern *k, int v, bool *zero)
{
  const struct kern_value *x = &k->v[v];
  struct kern_keep keep;
  if (*zero = x->kind == KERN_MAP && x->op == OP_MASK, *zero) return x->in[1];
  return kern_is_keep(k, x, &keep) ? keep.condition : -1;
}

// Whether all results of the loop that are saved are masked by this condition.
static bool masks_results(const struct kern *k, int condition, bool *of_loop)
{
  bool all = true, zero;
  for (int v = 0; v < k->nvalues && all; v++) {
    const struct kern_value *x = &k->v[v];
    of_loop[v] = x->live && x->folded & k->loops;
    for (int i = 0; i < x->nin && x->live; i++) of_loop[v] |= of_loop[x->in[i]];
    if (x->live && mask_of(k, v, &zero) == condition) of_loop[v] = false;
    all = !x->live || x->folded & k->loops || x->kind == KERN_MAP || !of_loop[v]; // no running values
  }
  for (int i = 0; i < k->nsaves && all; i++) all = !of_loop[k->save[i].value] && !(k->v[k->save[i].value].axes & k->loops);
  return all;
}

// Whether iterations add nothing in which masks of this condition are 0.
static bool masks_operands(const struct kern *k, int condition, enum hidden_class *c)
{
  bool all = true, zero;
  for (int v = 0; v < k->nvalues && all; v++) {
    const struct kern_value *x = &k->v[v];
    c[v] = !x->live ? ANY : mask_of(k, v, &zero) == condition && zero ? ZERO : class_of(k, x, c);
    all = !x->live || leaves(k, x, c);
  }
  return all;
}

// Adds the bounds of every condition that hides iterations by itself.
static bool hides_masked(const struct kern *k, struct kern_hidden *h)
{
  struct arena mem = {0};
  bool *of_loop = NEWS(&mem, bool, k->nvalues + 1), *known = NEWS(&mem, bool, k->nvalues + 1), zero;
  enum hidden_class *c = NEWS(&mem, enum hidden_class, k->nvalues + 1);
  *h = (struct kern_hidden){.root = -1, .more = -1};
  for (int v = 0; v < k->nvalues; v++) {
    const int condition = k->v[v].live ? mask_of(k, v, &zero) : -1, before = h->nbounds;
    if (condition < 0 || known[condition]) continue;
    known[condition] = true;
    if (!masks_results(k, condition, of_loop) && !masks_operands(k, condition, c)) continue;
    kern_add_bounds(k, condition, h);
    for (int i = before; i < h->nbounds; i++)
      if (h->bound[i].by) h->nbounds = before;
  }
  arena_close(&mem);
  return h->nbounds;
}

bool kern_hides(const struct kern *k, struct kern_hidden *h) { return k->loops && (hides_score(k, h) || hides_masked(k, h)); }
