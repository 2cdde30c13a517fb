// Chooses small values for the extents. Union-find forms classes of extents that must be equal. The other constraints are products (a tensor is its
// tile times the axes that divide it; both sides of a reshape) and sums (concatenation). Products that define the same class are compared first:
// common factors cancel, and two single variables that remain become one class. For example, the 16 of a reshape becomes the 16 blocks of the
// tensor's grid axis. Then every free class gets a small value, and values grow by least common multiples until all constraints hold. The result is
// only a proposal, which shape inference checks on the rebuilt graphs.
#include "verify/proof.h"

#include <stdlib.h>

int shrink_find(struct system *s, int v)
{
  while (s->parent[v] != v) v = s->parent[v] = s->parent[s->parent[v]];
  return v;
}

int64_t shrink_value(struct system *s, int v) { return s->small[shrink_find(s, v)]; }

int shrink_var(struct system *s, int64_t full)
{
  int v = s->nvars;
  PUSH(s->mem, s->full, s->full_n, s->full_cap) = full;
  PUSH(s->mem, s->fixed, s->fixed_n, s->fixed_cap) = full == 1;
  PUSH(s->mem, s->axis, s->axis_n, s->axis_cap) = false;
  PUSH(s->mem, s->least, s->least_n, s->least_cap) = 0;
  PUSH(s->mem, s->parent, s->nvars, s->parent_cap) = full == 1 ? ONE : v;
  return v;
}

int shrink_constant(struct system *s, int64_t value)
{
  int v = shrink_var(s, value);
  s->fixed[v] = true;
  return v;
}

void shrink_same(struct system *s, int u, int v)
{
  int x = shrink_find(s, u), y = shrink_find(s, v);
  if (x == y) return;
  if (s->full[x] != s->full[y]) {
    s->failed = true;
    return;
  }
  if (x > y) x ^= y, y ^= x, x ^= y;
  s->parent[y] = x, s->fixed[x] |= s->fixed[y], s->axis[x] |= s->axis[y], s->least[x] = MAX(s->least[x], s->least[y]);
}

void shrink_product(struct system *s, int nl, const int *l, int nr, const int *r)
{
  struct verify_product p = {0};
  for (int i = 0; i < nl; i++) p.v[0][p.n[0]++] = l[i];
  for (int i = 0; i < nr; i++) p.v[1][p.n[1]++] = r[i];
  PUSH(s->mem, s->products, s->nproducts, s->products_cap) = p;
}

// Replaces variables by their roots, drops ones and cancels common factors. True: two single variables remained and became one class.
static bool simplify(struct system *s, struct verify_product *p)
{
  for (int side = 0; side < 2; side++) {
    int n = 0;
    for (int i = 0; i < p->n[side]; i++) {
      int r = shrink_find(s, p->v[side][i]);
      if (r != ONE) p->v[side][n++] = r;
    }
    p->n[side] = n;
  }
  for (int i = 0; i < p->n[0]; i++)
    for (int j = 0; j < p->n[1]; j++)
      if (p->v[0][i] == p->v[1][j]) {
        p->v[0][i--] = p->v[0][--p->n[0]], p->v[1][j] = p->v[1][--p->n[1]];
        break;
      }
  if (p->n[0] != 1 || p->n[1] != 1) return false;
  shrink_same(s, p->v[0][0], p->v[1][0]);
  return true;
}

static struct verify_product turned(const struct verify_product *p)
{
  struct verify_product r = {{p->n[1], p->n[0]}, {{0}}};
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < p->n[!side]; i++) r.v[side][i] = p->v[!side][i];
  return r;
}

// Pairs factors with the same full value on both sides into one class. This is only a proposal too, but it keeps extents small if two views split an
// index alike.
static bool pair_up(struct system *s, const struct verify_product *p)
{
  int found = 0, n = p->n[0];
  if (n != p->n[1] || n < 2 || n > 8) return false;
  unsigned used = 0;
  int with[8];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      if (!(used >> j & 1) && s->full[p->v[0][i]] == s->full[p->v[1][j]]) {
        used |= 1u << j, with[i] = j, found++;
        break;
      }
  if (found != n) return false;
  for (int i = 0; i < n; i++) shrink_same(s, p->v[0][i], p->v[1][with[i]]);
  return true;
}

// Two products that define one class have equal other sides, which are simplified.
static bool compare(struct system *s, const struct verify_product *a, const struct verify_product *b, bool guess)
{
  for (int turn = 0; turn < 4; turn++) {
    struct verify_product x = turn & 1 ? turned(a) : *a, y = turn & 2 ? turned(b) : *b;
    if (x.n[0] != 1 || y.n[0] != 1 || x.v[0][0] != y.v[0][0] || x.n[1] < 2 || y.n[1] < 2) continue;
    struct verify_product both = {{x.n[1], y.n[1]}, {{0}}};
    for (int i = 0; i < x.n[1]; i++) both.v[0][i] = x.v[1][i];
    for (int i = 0; i < y.n[1]; i++) both.v[1][i] = y.v[1][i];
    if (simplify(s, &both) || (guess && pair_up(s, &both))) return true;
  }
  return false;
}

static void simplify_all(struct system *s)
{
  for (bool again = true; again && !s->failed;) {
    again = false;
    int n = 0;
    for (int i = 0; i < s->nproducts; i++) {
      again |= simplify(s, &s->products[i]);
      if (s->products[i].n[0] + s->products[i].n[1] > 2) s->products[n++] = s->products[i];
    }
    s->nproducts = n;
    for (int guess = 0; guess < 2 && !again; guess++)
      for (int i = 0; i < n && !again; i++)
        for (int j = 0; j < i && !again; j++) again = compare(s, &s->products[i], &s->products[j], guess);
  }
}

static int64_t value_of(struct system *s, const struct verify_product *p, int side)
{
  int64_t n = 1;
  for (int i = 0; i < p->n[side]; i++)
    if ((n *= shrink_value(s, p->v[side][i])) > s->largest) return s->largest + 1;
  return n;
}

static bool multiply(struct system *s, int v, int64_t factor)
{
  int r = shrink_find(s, v);
  if (factor == 1) return true;
  if (s->fixed[r]) return false;
  return (s->small[r] *= factor) <= s->largest;
}

// Multiplies one side of a product by `factor`, in the first variable that may grow: tiles and views before axes.
static bool grow(struct system *s, const struct verify_product *p, int side, int64_t factor, bool from_end)
{
  if (factor == 1) return true;
  for (int axes = 0; axes < 2; axes++)
    for (int k = 0; k < p->n[side]; k++) {
      int r = shrink_find(s, p->v[side][from_end ? p->n[side] - 1 - k : k]);
      if (!s->fixed[r] && s->axis[r] == axes) return multiply(s, r, factor);
    }
  return false;
}

static int64_t gcd(int64_t a, int64_t b) { return b ? gcd(b, a % b) : a; }

static bool balance(struct system *s, const struct verify_product *p, bool from_end, bool *changed)
{
  int64_t l = value_of(s, p, 0), r = value_of(s, p, 1);
  if (l == r) return true;
  if (l > s->largest || r > s->largest) return false;
  int64_t both = l / gcd(l, r) * r;
  *changed = true;
  return both <= s->largest && grow(s, p, 0, both / l, from_end) && grow(s, p, 1, both / r, from_end);
}

static bool balance_total(struct system *s, const struct total *t, bool *changed)
{
  int64_t out = shrink_value(s, t->out), sum = 0;
  for (int i = 0; i < t->n; i++) sum += shrink_value(s, t->in[i]);
  if (out == sum) return true;
  int64_t both = out / gcd(out, sum) * sum;
  *changed = true;
  if (both > s->largest || !multiply(s, t->out, both / out)) return false;
  for (int i = 0; i < t->n; i++) {
    bool before = false; // a class that occurs twice grows once
    for (int j = 0; j < i; j++) before |= shrink_find(s, t->in[j]) == shrink_find(s, t->in[i]);
    if (!before && shrink_find(s, t->in[i]) != ONE && !multiply(s, t->in[i], both / sum)) return false;
  }
  return true;
}

static bool balance_margin(struct system *s, const struct margin *m, bool *changed)
{
  const int whole = shrink_find(s, m->whole);
  const int64_t want = shrink_value(s, m->part) + m->rest;
  if (s->small[whole] == want) return true;
  if (s->fixed[whole] || want > s->largest) return false;
  return s->small[whole] = want, *changed = true;
}

static bool margins_aligned(struct system *s)
{
  bool all = true;
  for (int i = 0; i < s->nmargins; i++) {
    const struct margin *m = &s->margins[i];
    all &= shrink_value(s, m->part) % m->aligned == s->full[shrink_find(s, m->part)] % m->aligned;
  }
  return all;
}

static int by_extent(const void *x, const void *y)
{
  int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return (a > b) - (a < b);
}

// Free classes get 2, 3, ... in the order of their full extents, so that equal values mean equal extents.
static void set_apart(struct system *s, const bool *defined)
{
  int64_t *full = NEWS(s->mem, int64_t, s->nvars), value = 1;
  int n = 0;
  for (int v = 0; v < s->nvars; v++)
    if (s->parent[v] == v && !s->fixed[v] && !defined[v]) full[n++] = s->full[v];
  if (n) qsort(full, (size_t)n, sizeof *full, by_extent);
  for (int i = 0; i < n; i++) {
    if (i && full[i] == full[i - 1]) continue;
    value++;
    for (int v = 0; v < s->nvars; v++)
      if (s->parent[v] == v && !s->fixed[v] && !defined[v] && s->full[v] == full[i]) s->small[v] = value;
  }
}

// A class that a product or a sum defines starts at 1 and gets its value from its factors.
static void first_values(struct system *s, enum shrink_style style)
{
  bool *defined = NEWS(s->mem, bool, s->nvars);
  for (int v = 0; v < s->nvars; v++) shrink_find(s, v);
  for (int i = 0; i < s->nproducts; i++)
    for (int side = 0; side < 2; side++)
      if (s->products[i].n[side] == 1) defined[shrink_find(s, s->products[i].v[side][0])] = true;
  for (int i = 0; i < s->ntotals; i++) defined[shrink_find(s, s->totals[i].out)] = true;
  for (int i = 0; i < s->nmargins; i++) defined[shrink_find(s, s->margins[i].whole)] = true;
  int turn = 0;
  for (int v = 0; v < s->nvars; v++) {
    if (shrink_find(s, v) != v) continue;
    if (s->fixed[v])
      s->small[v] = s->full[v];
    else if (s->least[v])
      s->small[v] = s->least[v];
    else if (defined[v])
      s->small[v] = 1;
    else if (style == APART)
      continue;
    else if (style == TINY || s->full[v] == 2)
      s->small[v] = 2;
    else if (s->axis[v])
      s->small[v] = style == OTHER ? 3 : 2;
    else
      s->small[v] = style == OTHER ? 3 + turn++ % 2 : 3 - turn++ % 2;
  }
  if (style == APART) set_apart(s, defined);
}

static bool settle(struct system *s, enum shrink_style style, bool from_end)
{
  first_values(s, style);
  bool changed = true, good = true;
  for (int round = 0; round < 100 && changed && good; round++) {
    changed = false;
    for (int i = 0; i < s->nproducts && good; i++) good = balance(s, &s->products[i], from_end, &changed);
    for (int i = 0; i < s->ntotals && good; i++) good = balance_total(s, &s->totals[i], &changed);
    for (int i = 0; i < s->nmargins && good; i++) good = balance_margin(s, &s->margins[i], &changed);
  }
  return good && !changed && margins_aligned(s);
}

bool shrink_solve(struct system *s, enum shrink_style style)
{
  simplify_all(s);
  if (s->failed) return false;
  s->small = NEWS(s->mem, int64_t, s->nvars);
  if (settle(s, style, false) || settle(s, style, true)) return true;
  return style != APART && (settle(s, TINY, false) || settle(s, TINY, true));
}
