// The algebra but for composition. Post-conditions, which tests/tile/test_lay.c checks coordinate by coordinate:
//
//   coalesce       R(i) = L(i), no leaf of extent 1, no two neighbours that are one
//   complement     of L in [0, size): offsets ascend with i, and L(j) + R(i) for j < |L|, i < |R| are all different and
//                  hold all of [0, size). L's modes of stride 0 count for nothing. (L, R) is compact where the unit,
//                  the extent times the stride of L's last mode, divides size; else it reaches beyond size
//   divide         ((tile), (rest)) = A o (B, complement(B, |A|))
//   product        (A, complement(A, |A| * cosize(B)) o B): as many copies of A, arranged as B
//   right inverse  L(R(i)) = i for i < |R|, and no larger R of this kind
//   left inverse   R(L(i)) = i for i < |L|, where L is injective
#include "tile/lay_flat.h"

// ---- lists of leaves ----

bool flat_of(struct lay_ctx *c, struct lay l, struct flat *f)
{
  f->n = lay_leaves(l, f->s, f->d, LAY_LEAVES);
  if (f->n < 0) return lay_refuse(c, "a layout has more than %d extents", LAY_LEAVES);
  for (int i = 0; i < f->n; i++) {
    if (ex_range(c->ex, f->s[i]).lo < 1) return lay_refuse(c, "extent %s is not known to be positive", lay_say(c, f->s[i]));
    if (ex_range(c->ex, f->d[i]).lo < 0) return lay_refuse(c, "stride %s may be negative", lay_say(c, f->d[i]));
  }
  return true;
}

bool flat_add(struct lay_ctx *c, struct flat *f, ex s, ex d)
{
  if (f->n == LAY_LEAVES) return lay_refuse(c, "a layout has more than %d extents", LAY_LEAVES);
  f->s[f->n] = s, f->d[f->n++] = d;
  return true;
}

struct lay flat_lay(struct lay_ctx *c, const struct flat *f)
{
  struct lay mode[LAY_LEAVES];
  if (f->n == 0) return lay_int(c, EX_C(1), EX_C(0));
  for (int i = 0; i < f->n; i++) mode[i] = lay_int(c, f->s[i], f->d[i]);
  return f->n == 1 ? mode[0] : lay_tuple(c, f->n, mode);
}

void flat_coalesce(struct lay_ctx *c, struct flat *f)
{
  int n = 0;
  for (int i = 0; i < f->n; i++) {
    if (f->s[i] == EX_C(1)) continue;
    if (n && f->d[i] == ex_mul(c->ex, f->s[n - 1], f->d[n - 1]))
      f->s[n - 1] = ex_mul(c->ex, f->s[n - 1], f->s[i]);
    else
      f->s[n] = f->s[i], f->d[n++] = f->d[i];
  }
  f->n = n;
}

bool lay_coalesce(struct lay_ctx *c, struct lay l, struct lay *out)
{
  struct flat f;
  if (!flat_of(c, l, &f)) return false;
  flat_coalesce(c, &f);
  *out = flat_lay(c, &f);
  return lay_kept(c);
}

// ---- complement ----

static void drop_still(struct flat *f) // modes of stride 0
{
  int n = 0;
  for (int i = 0; i < f->n; i++)
    if (f->s[i] != EX_C(1) && f->d[i] != EX_C(0)) f->s[n] = f->s[i], f->d[n++] = f->d[i];
  f->n = n;
}

static bool sort_by_stride(struct lay_ctx *c, struct flat *f)
{
  for (int i = 1; i < f->n; i++)
    for (int j = i; j > 0; j--) {
      ex a = f->d[j - 1], b = f->d[j], s = f->s[j];
      if (ex_true(c->ex, ex_le(c->ex, a, b))) break;
      if (!ex_true(c->ex, ex_le(c->ex, b, a)))
        return lay_refuse(c, "which of the strides %s and %s is larger is not known", lay_say(c, a), lay_say(c, b));
      f->d[j] = a, f->s[j] = f->s[j - 1];
      f->d[j - 1] = b, f->s[j - 1] = s;
    }
  return true;
}

bool lay_complement_unit(struct lay_ctx *c, struct lay l, ex size, struct lay *out, ex *unit)
{
  struct flat f, r = {0};
  if (!flat_of(c, l, &f)) return false;
  drop_still(&f);
  if (!sort_by_stride(c, &f)) return false;
  *unit = EX_C(1);
  for (int i = 0; i < f.n; i++) {
    if (!ex_divides(c->ex, *unit, f.d[i]))
      return lay_refuse(c, "%s has no complement: stride %s is not a multiple of %s, where the mode below ends", lay_show(c, l), lay_say(c, f.d[i]),
                        lay_say(c, *unit));
    if (!flat_add(c, &r, ex_div(c->ex, f.d[i], *unit), *unit)) return false;
    *unit = ex_mul(c->ex, f.s[i], f.d[i]);
  }
  if (!flat_add(c, &r, ex_ceil_div(c->ex, size, *unit), *unit)) return false;
  flat_coalesce(c, &r);
  *out = flat_lay(c, &r);
  return lay_kept(c);
}

bool lay_complement(struct lay_ctx *c, struct lay l, ex size, struct lay *out)
{
  ex unit;
  if (ex_range(c->ex, size).lo < 1) return lay_refuse(c, "size %s is not known to be positive", lay_say(c, size));
  return lay_complement_unit(c, l, size, out, &unit);
}

// ---- divide and product ----

bool lay_divide(struct lay_ctx *c, struct lay a, struct lay b, struct lay *out)
{
  struct lay part[2] = {b};
  if (!lay_complement(c, b, lay_size(c, a), &part[1])) return false;
  return lay_compose(c, a, lay_tuple(c, 2, part), out);
}

bool lay_zipped_divide(struct lay_ctx *c, struct lay a, struct lay b, struct lay *out)
{
  struct lay tile[LAY_LEAVES], rest[LAY_LEAVES], divided;
  int n = lay_rank(a), m = lay_rank(b);
  if (m > n || n > LAY_LEAVES) return lay_refuse(c, "%d modes cannot be divided by %d", n, m);
  for (int i = 0; i < m; i++) {
    if (!lay_divide(c, lay_mode(a, i), lay_mode(b, i), &divided)) return false;
    tile[i] = lay_mode(divided, 0), rest[i] = lay_mode(divided, 1);
  }
  for (int i = m; i < n; i++) rest[i] = lay_mode(a, i);
  struct lay both[2] = {lay_tuple(c, m, tile), lay_tuple(c, n, rest)};
  *out = lay_tuple(c, 2, both);
  return lay_kept(c);
}

bool lay_product(struct lay_ctx *c, struct lay a, struct lay b, struct lay *out)
{
  struct lay rest, part[2] = {a};
  if (!lay_complement(c, a, ex_mul(c->ex, lay_size(c, a), lay_cosize(c, b)), &rest)) return false;
  if (!lay_compose(c, rest, b, &part[1])) return false;
  *out = lay_tuple(c, 2, part);
  return lay_kept(c);
}

// ---- inverses ----

static int with_stride(const struct flat *f, ex d)
{
  for (int i = 0; i < f->n; i++)
    if (f->d[i] == d && f->s[i] != EX_C(1)) return i;
  return -1;
}

bool lay_right_inverse(struct lay_ctx *c, struct lay l, struct lay *out)
{
  struct flat f, r = {0};
  if (!flat_of(c, l, &f)) return false;
  flat_coalesce(c, &f);
  ex reached = EX_C(1);
  for (int i; (i = with_stride(&f, reached)) >= 0;) {
    ex below = EX_C(1);
    for (int j = 0; j < i; j++) below = ex_mul(c->ex, below, f.s[j]);
    if (!flat_add(c, &r, f.s[i], below)) return false;
    reached = ex_mul(c->ex, f.s[i], f.d[i]);
  }
  flat_coalesce(c, &r);
  *out = flat_lay(c, &r);
  return lay_kept(c);
}

bool lay_left_inverse(struct lay_ctx *c, struct lay l, struct lay *out)
{
  struct flat f;
  struct lay part[2] = {l}, whole;
  if (!flat_of(c, l, &f)) return false;
  for (int i = 0; i < f.n; i++)
    if (f.d[i] == EX_C(0) && f.s[i] != EX_C(1))
      return lay_refuse(c, "%s has no left inverse: extent %s has stride 0", lay_show(c, l), lay_say(c, f.s[i]));
  if (!lay_complement(c, l, lay_cosize(c, l), &part[1])) return false;
  whole = lay_tuple(c, 2, part);
  if (!lay_right_inverse(c, whole, out)) return false;
  ex wanted = lay_size(c, whole), got = lay_size(c, *out);
  if (wanted != got) return lay_refuse(c, "%s has no left inverse: it reaches %s of %s offsets", lay_show(c, l), lay_say(c, got), lay_say(c, wanted));
  return true;
}
