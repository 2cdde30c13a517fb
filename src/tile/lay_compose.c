// Composition R = A o B, R(i) = A(B(i)). B's leaves are composed one by one. A leaf s:d becomes the part of A that indices 0, d, ..., (s - 1) d
// visit. This is a layout if, at every mode n:b of A but the unbounded last one, the stride divides n or n divides the stride, and s fills whole
// modes. The leaves can be composed separately only if their sums do not carry: of any two leaves, the one of smaller stride ends before the other's
// stride.
//
// CuTe checks less, and composes (4,2):(1,100) with (2,2):(3,2) to a layout that is not A(B(i)). If the conditions above cannot be shown but all
// numbers are constant and small, a layout is derived from the values of A(B(i)) and used if it reproduces all of them; otherwise composition fails.
#include "tile/lay_flat.h"

enum { LARGEST = 65536 };

// One leaf s:d of B. m, the part that fits into mode n, is s if s <= n / d, else n / d.
static bool leaf_by_rules(struct lay_ctx *c, const struct flat *a, ex s, ex d, struct flat *r)
{
  if (d == EX_C(0)) return flat_add(c, r, s, d);
  for (int i = 0; i + 1 < a->n && s != EX_C(1); i++) {
    ex n = a->s[i];
    if (ex_divides(c->ex, n, d)) {
      d = ex_div(c->ex, d, n);
      continue;
    }
    if (ex_range(c->ex, d).lo < 1 || !ex_divides(c->ex, d, n))
      return lay_refuse(c, "neither divides stride %s the extent %s nor the extent the stride", lay_say(c, d), lay_say(c, n));
    ex room = ex_div(c->ex, n, d), stride = ex_mul(c->ex, d, a->d[i]);
    if (ex_true(c->ex, ex_le(c->ex, s, room))) return flat_add(c, r, s, stride);
    if (!ex_divides(c->ex, room, s))
      return lay_refuse(c, "extent %s neither fits into %s (%s by stride %s) nor is a multiple of it", lay_say(c, s), lay_say(c, room), lay_say(c, n),
                        lay_say(c, d));
    if (!flat_add(c, r, room, stride)) return false;
    s = ex_div(c->ex, s, room), d = EX_C(1);
  }
  return s == EX_C(1) || flat_add(c, r, s, ex_mul(c->ex, d, a->d[a->n - 1]));
}

static bool ends_before(struct lay_ctx *c, ex s, ex d, ex stride) { return ex_true(c->ex, ex_le(c->ex, ex_mul(c->ex, s, d), stride)); }

static bool no_carries(struct lay_ctx *c, const struct flat *b)
{
  for (int i = 0; i < b->n; i++)
    for (int j = 0; j < i; j++) {
      bool still = b->s[i] == EX_C(1) || b->s[j] == EX_C(1) || b->d[i] == EX_C(0) || b->d[j] == EX_C(0);
      if (still || ends_before(c, b->s[i], b->d[i], b->d[j]) || ends_before(c, b->s[j], b->d[j], b->d[i])) continue;
      return lay_refuse(c, "%s:%s and %s:%s of the right layout may overlap", lay_say(c, b->s[j]), lay_say(c, b->d[j]), lay_say(c, b->s[i]),
                        lay_say(c, b->d[i]));
    }
  return true;
}

// ---- by values ----

static int64_t at(const struct lay *a, int64_t i, int64_t d) { return lay_call(a, (int64_t)((uint64_t)i * (uint64_t)d)); }

// The layout of f(i) = A(i * d), i < s, if there is one: the longest first mode that divides s, and so on.
static bool leaf_by_values(struct lay_ctx *c, const struct lay *a, int64_t s, int64_t d, struct flat *r)
{
  while (s > 1) {
    int64_t stride = at(a, 1, d), n = 1;
    while (n < s && at(a, n, d) == (int64_t)((uint64_t)n * (uint64_t)stride)) n++;
    while (s % n) n--;
    if (n == 1) return false;
    if (!flat_add(c, r, EX_C(n), EX_C(stride))) return false;
    s /= n, d = (int64_t)((uint64_t)d * (uint64_t)n);
  }
  return true;
}

static bool leaf_of(struct lay_ctx *c, const struct lay *a, const struct flat *flat, ex s, ex d, bool values, struct flat *r)
{
  r->n = 0;
  if (s == EX_C(1)) return flat_add(c, r, s, lay_at(c, *a, d));
  return values ? leaf_by_values(c, a, ex_value(s), ex_value(d), r) : leaf_by_rules(c, flat, s, d, r);
}

// B with each leaf replaced.
static bool each_leaf(struct lay_ctx *c, const struct lay *a, const struct flat *flat, struct lay b, bool values, struct lay *out)
{
  struct lay_node *node = NULL;
  int n = 0, cap = 0;
  for (int i = 0; i < b.n; i++) {
    struct flat r;
    if (b.node[i].arity != LAY_LEAF) {
      PUSH(c->mem, node, n, cap) = b.node[i];
      continue;
    }
    if (!leaf_of(c, a, flat, b.node[i].shape, b.node[i].stride, values, &r)) return false;
    if (r.n > 1) PUSH(c->mem, node, n, cap) = (struct lay_node){.arity = r.n};
    for (int j = 0; j < r.n; j++) PUSH(c->mem, node, n, cap) = (struct lay_node){LAY_LEAF, r.s[j], r.d[j]};
  }
  *out = (struct lay){n, node};
  return true;
}

static bool by_values(struct lay_ctx *c, struct lay a, struct lay b, struct lay *out)
{
  if (!lay_constant(a) || !lay_constant(b)) return false;
  int64_t size = ex_value(lay_size(c, b));
  const char *why = c->why;
  bool tried = size > 0 && size <= LARGEST && lay_kept(c) && each_leaf(c, &a, NULL, b, true, out);
  c->why = why;
  for (int64_t i = 0; tried && i < size; i++)
    if (lay_call(out, i) != lay_call(&a, lay_call(&b, i))) tried = false;
  return tried;
}

bool lay_compose(struct lay_ctx *c, struct lay a, struct lay b, struct lay *out)
{
  struct flat fa, fb;
  if (!flat_of(c, a, &fa) || !flat_of(c, b, &fb)) return false;
  flat_coalesce(c, &fa);
  struct lay plain = flat_lay(c, &fa); // 1:0 if no leaf is left
  if (!fa.n) fa.s[0] = EX_C(1), fa.d[0] = EX_C(0), fa.n = 1;
  bool rules = fa.n == 1 || no_carries(c, &fb);
  if (rules && each_leaf(c, &plain, &fa, b, false, out)) return lay_kept(c);
  return by_values(c, plain, b, out);
}
