#include "laws.h"
#include "tile/lay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t extents[] = {1, 2, 3, 4, 6}, strides[] = {0, 1, 2, 3, 4, 6, 8, 12};
enum { ONE = COUNT(extents) * COUNT(strides), SMALL = ONE + ONE * ONE, VALUES = 1 << 16 };

struct world {
  struct arena mem;
  struct lay_ctx c;
  struct tally *t;
};

static void world_open(struct world *w, struct tally *t)
{
  *w = (struct world){.t = t};
  w->c.mem = &w->mem, w->c.ex = ex_open(&w->mem);
}

// ---- what operations are asked of ----

static struct lay one(struct world *w, int i)
{
  return lay_int(&w->c, EX_C(extents[i % (int)COUNT(extents)]), EX_C(strides[i / (int)COUNT(extents)]));
}

static struct lay small(struct world *w, int i)
{
  if (i < ONE) return one(w, i);
  return lay_tuple(&w->c, 2, (struct lay[]){one(w, (i - ONE) % ONE), one(w, (i - ONE) / ONE)});
}

static struct lay drawn(struct world *w, struct rng *r, int depth)
{
  static const int64_t far[] = {1, 1, 2, 2, 4, 8, 16, 32, 64, 3, 6, 12, 24, 0, 5};
  struct lay mode[3];
  int n = depth ? (int)rng_below(r, 4) : 0;
  if (!n) return lay_int(&w->c, EX_C(extents[rng_below(r, COUNT(extents))]), EX_C(far[rng_below(r, COUNT(far))]));
  for (int i = 0; i < n; i++) mode[i] = drawn(w, r, depth - 1);
  struct lay l = lay_tuple(&w->c, n, mode);
  return rng_below(r, 3) ? l : lay_compact(&w->c, l, rng_below(r, 2)); // more that have inverses and complements
}

static int64_t size_of(struct world *w, struct lay l) { return ex_value(lay_size(&w->c, l)); }
static int64_t cosize_of(struct world *w, struct lay l) { return ex_value(lay_cosize(&w->c, l)); }

static const char *text(struct world *w, struct lay l)
{
  struct str s = {0};
  lay_text(&w->c, l, &s);
  const char *kept = arena_strdup(&w->mem, str_text(&s));
  str_free(&s);
  return kept;
}

#define HOLDS(cond, ...)                \
  do {                                  \
    if (!(cond)) fail_msg(__VA_ARGS__); \
  } while (0)

// ---- sets of offsets ----

static int compare(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

// Sorted values of a at the offsets of b (or of a alone).
static int64_t *values(struct world *w, struct lay a, const struct lay *b, int64_t *n)
{
  *n = size_of(w, b ? *b : a);
  int64_t *v = NEWS(&w->mem, int64_t, *n);
  for (int64_t i = 0; i < *n; i++) v[i] = lay_call(&a, b ? lay_call(b, i) : i);
  qsort(v, (size_t)*n, sizeof *v, compare);
  return v;
}

static bool all_different(struct world *w, struct lay l)
{
  int64_t n, *v = values(w, l, NULL, &n);
  bool same = true;
  for (int64_t i = 1; i < n; i++) same = same && v[i] != v[i - 1];
  bool injective;
  if (!lay_injective(&w->c, l, &injective) || injective != same) fail_msg("injective: %s", text(w, l));
  return same;
}

static bool same_values(struct world *w, struct lay a, struct lay b)
{
  int64_t n, m, *v = values(w, a, NULL, &n), *u = values(w, b, NULL, &m);
  return n == m && !memcmp(u, v, (size_t)n * sizeof *u);
}

// ---- laws ----

static bool tried(struct world *w, enum law law, bool accepted)
{
  w->t->cases[law]++, w->t->held[law] += accepted;
  HOLDS(accepted || (w->c.why && *w->c.why), "a refusal without a reason");
  return accepted;
}

static void coalesces(struct world *w, struct lay a)
{
  struct lay r;
  HOLDS(tried(w, COALESCE, lay_coalesce(&w->c, a, &r)), "coalesce refuses %s", text(w, a));
  HOLDS(size_of(w, r) == size_of(w, a), "coalesce %s is %s", text(w, a), text(w, r));
  for (int64_t i = 0; i < 2 * size_of(w, a); i++) HOLDS(lay_call(&r, i) == lay_call(&a, i), "coalesce %s is %s", text(w, a), text(w, r));
}

// Is s:d of B, seen through A, a layout at all? Every way to cut s is tried.
static bool cut(struct lay a, int64_t s, int64_t d)
{
  if (s == 1) return true;
  for (int64_t n = 2; n <= s; n++) {
    bool good = s % n == 0;
    for (int64_t i = 0; i < s && good; i++) good = lay_call(&a, i * d) == i % n * lay_call(&a, d) + lay_call(&a, i / n * n * d);
    if (good && cut(a, s / n, d * n)) return true;
  }
  return false;
}

static bool a_layout(struct world *w, struct lay a, struct lay b)
{
  int64_t size = size_of(w, b);
  for (int i = 0; i < b.n; i++)
    if (b.node[i].arity == LAY_LEAF && !cut(a, ex_value(b.node[i].shape), ex_value(b.node[i].stride))) return false;
  for (int64_t i = 0; i < size; i++) {
    int64_t rest = i, sum = 0;
    for (int n = 0; n < b.n; n++) {
      if (b.node[n].arity != LAY_LEAF) continue;
      int64_t s = ex_value(b.node[n].shape);
      sum += lay_call(&a, rest % s * ex_value(b.node[n].stride));
      rest /= s;
    }
    if (sum != lay_call(&a, lay_call(&b, i))) return false;
  }
  return true;
}

static void composes(struct world *w, struct lay a, struct lay b)
{
  struct lay r, plain;
  bool accepted = tried(w, COMPOSE, lay_compose(&w->c, a, b, &r));
  lay_coalesce(&w->c, a, &plain); // what lies beyond A's domain is that of its last mode that has an extent
  if (!accepted) {
    HOLDS(!a_layout(w, plain, b), "%s o %s is a layout and refused: %s", text(w, a), text(w, b), w->c.why);
    return;
  }
  HOLDS(lay_rank(r) == lay_rank(b) || b.node->arity == LAY_LEAF, "%s o %s is %s", text(w, a), text(w, b), text(w, r));
  HOLDS(size_of(w, r) == size_of(w, b), "%s o %s is %s", text(w, a), text(w, b), text(w, r));
  for (int m = 0; b.node->arity != LAY_LEAF && m < lay_rank(b); m++)
    HOLDS(size_of(w, lay_mode(r, m)) == size_of(w, lay_mode(b, m)), "%s o %s is %s", text(w, a), text(w, b), text(w, r));
  for (int64_t i = 0; i < size_of(w, b); i++)
    HOLDS(lay_call(&r, i) == lay_call(&plain, lay_call(&b, i)), "%s o %s is %s", text(w, a), text(w, b), text(w, r));
}

// Without what does not move.
static struct lay moving(struct world *w, struct lay a)
{
  struct lay mode[LAY_LEAVES];
  int n = 0;
  for (int i = 0; i < a.n; i++)
    if (a.node[i].arity == LAY_LEAF && a.node[i].stride != 0) mode[n++] = lay_int(&w->c, a.node[i].shape, a.node[i].stride);
  return lay_tuple(&w->c, n, mode);
}

static void complements(struct world *w, struct lay a, int64_t size)
{
  struct lay r, both[2] = {moving(w, a)}, whole;
  if (!tried(w, COMPLEMENT, lay_complement(&w->c, a, EX_C(size), &r))) return;
  for (int64_t i = 1; i < size_of(w, r); i++)
    HOLDS(lay_call(&r, i) > lay_call(&r, i - 1), "complement %s in %lld is %s", text(w, a), (long long)size, text(w, r));
  both[1] = r;
  whole = lay_tuple(&w->c, 2, both);
  int64_t n, *v = values(w, whole, NULL, &n);
  HOLDS(n >= size, "complement %s in %lld is %s", text(w, a), (long long)size, text(w, r));
  for (int64_t i = 0; i < n; i++) // compact: all of 0..n - 1, so all different
    HOLDS(v[i] == i, "complement %s in %lld is %s", text(w, a), (long long)size, text(w, r));
}

static void divides(struct world *w, struct lay a, struct lay b)
{
  struct lay r, part[2] = {b}, plain, whole;
  if (!tried(w, DIVIDE, lay_divide(&w->c, a, b, &r))) return;
  lay_coalesce(&w->c, a, &plain);
  HOLDS(lay_rank(r) == 2 && lay_complement(&w->c, b, lay_size(&w->c, a), &part[1]), "%s / %s", text(w, a), text(w, b));
  whole = lay_tuple(&w->c, 2, part);
  for (int64_t i = 0; i < size_of(w, whole); i++)
    HOLDS(lay_call(&r, i) == lay_call(&plain, lay_call(&whole, i)), "%s / %s is %s", text(w, a), text(w, b), text(w, r));
  if (size_of(w, whole) == size_of(w, a) && all_different(w, b))
    HOLDS(same_values(w, r, a), "%s / %s loses elements: %s", text(w, a), text(w, b), text(w, r));
}

static void zips(struct world *w, struct lay a, struct lay b)
{
  struct lay r, one_mode;
  if (!tried(w, ZIPPED, lay_zipped_divide(&w->c, a, b, &r))) return;
  for (int m = 0; m < lay_rank(b); m++) {
    HOLDS(lay_divide(&w->c, lay_mode(a, m), lay_mode(b, m), &one_mode), "zipped %s / %s", text(w, a), text(w, b));
    for (int side = 0; side < 2; side++)
      HOLDS(lay_equal(lay_mode(lay_mode(r, side), m), lay_mode(one_mode, side)), "zipped %s / %s", text(w, a), text(w, b));
  }
}

static void multiplies(struct world *w, struct lay a, struct lay b)
{
  struct lay r;
  if (!tried(w, PRODUCT, lay_product(&w->c, a, b, &r))) return;
  HOLDS(lay_equal(lay_mode(r, 0), a), "%s x %s is %s", text(w, a), text(w, b), text(w, r));
  HOLDS(size_of(w, r) == size_of(w, a) * size_of(w, b), "%s x %s is %s", text(w, a), text(w, b), text(w, r));
  if (all_different(w, a) && all_different(w, b)) HOLDS(all_different(w, r), "%s x %s is %s", text(w, a), text(w, b), text(w, r));
}

static void inverts(struct world *w, struct lay a)
{
  struct lay r;
  HOLDS(tried(w, RIGHT_INVERSE, lay_right_inverse(&w->c, a, &r)), "no right inverse of %s", text(w, a));
  for (int64_t i = 0; i < size_of(w, r); i++) HOLDS(lay_call(&a, lay_call(&r, i)) == i, "right inverse of %s is %s", text(w, a), text(w, r));
  bool compact = all_different(w, a) && size_of(w, a) == cosize_of(w, a);
  HOLDS(!compact || size_of(w, r) == size_of(w, a), "right inverse of %s is only %s", text(w, a), text(w, r));
  if (!tried(w, LEFT_INVERSE, lay_left_inverse(&w->c, a, &r))) {
    HOLDS(!compact, "no left inverse of %s: %s", text(w, a), w->c.why);
    return;
  }
  for (int64_t i = 0; i < size_of(w, a); i++) HOLDS(lay_call(&r, lay_call(&a, i)) == i, "left inverse of %s is %s", text(w, a), text(w, r));
}

// Together tile and rest visit what A has, each element as often, or more where partial.
static void tiles(struct world *w, struct lay a, struct lay b)
{
  struct lay outer, inner, plain;
  bool partial[LAY_LEAVES] = {0}, any = false;
  if (!tried(w, TILE, lay_tile(&w->c, a, b, &outer, &inner, partial))) return;
  int rank = lay_rank(a);
  HOLDS(lay_rank(outer) == rank && lay_rank(inner) == rank, "tile %s by %s: %s of %s", text(w, a), text(w, b), text(w, outer), text(w, inner));
  for (int d = 0; d < rank; d++) {
    struct lay t = lay_rank(b) == rank ? lay_mode(b, d) : b;
    lay_coalesce(&w->c, lay_mode(a, d), &plain);
    struct lay in = lay_mode(inner, d);
    for (int64_t i = 0; i < size_of(w, t); i++)
      HOLDS(lay_call(&in, i) == lay_call(&plain, lay_call(&t, i)), "tile %s by %s has %s", text(w, a), text(w, b), text(w, inner));
    struct lay rest, out = lay_mode(outer, d);
    HOLDS(lay_complement(&w->c, t, lay_size(&w->c, plain), &rest), "tile %s by %s", text(w, a), text(w, b));
    for (int64_t i = 0; i < size_of(w, rest); i++)
      HOLDS(lay_call(&out, i) == lay_call(&plain, lay_call(&rest, i)), "tile %s by %s of %s", text(w, a), text(w, b), text(w, outer));
    any = any || partial[d];
  }
  struct lay whole = lay_tuple(&w->c, 2, (struct lay[]){inner, outer});
  bool exact = size_of(w, whole) == size_of(w, a);
  if (!any && all_different(w, b)) HOLDS(exact, "tile %s by %s is not partial and covers more", text(w, a), text(w, b));
  if (any) HOLDS(size_of(w, whole) > size_of(w, a), "tile %s by %s is partial and covers no more", text(w, a), text(w, b));
  if (exact && all_different(w, b))
    HOLDS(same_values(w, whole, a), "tile %s by %s: %s of %s", text(w, a), text(w, b), text(w, outer), text(w, inner));
}

static void all_laws(struct world *w, struct lay a, struct lay b, bool alone)
{
  if (alone) {
    static const int64_t sizes[] = {1, 6, 24, 30};
    coalesces(w, a);
    inverts(w, a);
    for (size_t i = 0; i < COUNT(sizes); i++) complements(w, a, sizes[i]);
  }
  composes(w, a, b);
  divides(w, a, b);
  multiplies(w, a, b);
  zips(w, a, b);
  tiles(w, a, b);
}

void laws_of_pairs(long first, long step, struct tally *t)
{
  struct world w;
  world_open(&w, t);
  struct arena_mark mark = arena_mark(&w.mem);
  for (long i = first; i < (long)SMALL * SMALL; i += step) {
    struct lay a = small(&w, (int)(i / SMALL)), b = small(&w, (int)(i % SMALL));
    all_laws(&w, a, b, i % SMALL < step);
    arena_reset(&w.mem, mark);
  }
  arena_close(&w.mem);
}

void laws_of_random(long n, struct tally *t)
{
  struct world w;
  world_open(&w, t);
  struct arena_mark mark = arena_mark(&w.mem);
  for (long i = 0; i < n; i++) {
    struct rng r = {(uint64_t)i};
    struct lay a = drawn(&w, &r, 2), b = drawn(&w, &r, 2);
    if (size_of(&w, a) * size_of(&w, b) < 4096) all_laws(&w, a, b, true);
    arena_reset(&w.mem, mark);
  }
  arena_close(&w.mem);
}
