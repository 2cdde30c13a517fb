// Sizes, after structure: which extents the grid and loop axes get. A coarse lattice of divisors first, then steps to
// neighbouring divisors along one axis while that is cheaper. The cost model ranks; what exceeds scratch is out.
#include "search/space.h"

#include <math.h>
#include <string.h>

enum { MOST = 24, LATTICE = 64 };

struct axis {
  int c;
  bool grid;
  int n, step; // the lattice takes every step-th
  int64_t extent[MOST];
};

// Divisors of n from `least` up, at most MOST of them, evenly spread.
static void divisors(int64_t n, int64_t least, struct axis *a)
{
  int64_t all[256];
  int count = 0;
  for (int64_t d = 1; d * d <= n && count < 120; d++)
    if (n % d == 0) {
      all[count++] = d;
      if (d * d != n) all[count++] = n / d;
    }
  for (int i = 1; i < count; i++)
    for (int k = i; k > 0 && all[k] < all[k - 1]; k--) {
      int64_t x = all[k];
      all[k] = all[k - 1], all[k - 1] = x;
    }
  int from = 0;
  while (from < count && all[from] < least) from++;
  int have = count - from;
  for (int i = 0; i < MIN(have, MOST); i++) a->extent[a->n++] = all[from + (have <= MOST ? i : i * (have - 1) / (MOST - 1))];
}

struct choice {
  const struct model *m;
  const struct table *t;
  const struct works *w;
  int naxis;
  struct axis axis[MAX_AXES + 1];
  struct sizes z;
  struct sized *out;
  int n, most;
  uint64_t *too_large;
};

static void keep(struct choice *c, double cost)
{
  if (c->n == c->most && cost >= c->out[c->n - 1].cost) return;
  for (int i = 0; i < c->n; i++)
    if (!memcmp(c->out[i].z.ext, c->z.ext, sizeof c->z.ext)) return;
  int i = c->n < c->most ? c->n++ : c->n - 1;
  for (; i > 0 && c->out[i - 1].cost > cost; i--) c->out[i] = c->out[i - 1];
  c->out[i] = (struct sized){c->z, cost};
}

static void judge(struct choice *c)
{
  double cost = cost_kernel(c->m, c->t, c->w, &c->z);
  if (isfinite(cost)) keep(c, cost);
  else ++*c->too_large;
}

// Gives an axis its k-th extent; false where that does not divide what is left or makes too many blocks.
static bool set_axis(struct choice *c, const struct axis *a, int k)
{
  int64_t *ext = c->z.ext[a->c], *now = &ext[a->grid ? GRID : LOOP], *count = a->grid ? &c->z.blocks : &c->z.iterations;
  int64_t left = ext[TILE] * *now, before = *now;
  if (left % a->extent[k] || (a->grid && *count / before * a->extent[k] > 1 << 16)) return false;
  *count = *count / before * a->extent[k];
  *now = a->extent[k], ext[TILE] = left / a->extent[k];
  return true;
}

static void lattice(struct choice *c, int i)
{
  if (i == c->naxis || i > MAX_AXES) {
    judge(c);
    return;
  }
  const struct axis *a = &c->axis[i];
  struct sizes before = c->z;
  for (int k = 0; k < a->n; k += a->step) {
    if (set_axis(c, a, k)) lattice(c, i + 1);
    c->z = before;
  }
}

// Steps along one axis at a time from the best so far.
static void refine(struct choice *c)
{
  double best;
  do {
    if (!c->n) return;
    best = c->out[0].cost;
    struct sizes from = c->out[0].z;
    for (int i = 0; i < c->naxis; i++) {
      const struct axis *a = &c->axis[i];
      int at = 0;
      while (at < a->n - 1 && a->extent[at] < from.ext[a->c][a->grid ? GRID : LOOP]) at++;
      for (int k = MAX(0, at - 2); k <= MIN(a->n - 1, at + 2); k++) {
        c->z = from;
        if (k != at && set_axis(c, a, k)) judge(c);
      }
    }
  } while (c->out[0].cost < best);
}

// Every step-th divisor of each axis, so that the lattice stays small.
static void thin(struct choice *c)
{
  for (int64_t points = LATTICE + 1; points > LATTICE;) {
    points = 1;
    int widest = 0;
    for (int i = 0; i < c->naxis; i++) {
      int n = (c->axis[i].n + c->axis[i].step - 1) / c->axis[i].step;
      points *= MAX(n, 1);
      if (n > (c->axis[widest].n + c->axis[widest].step - 1) / c->axis[widest].step) widest = i;
    }
    if (points > LATTICE) c->axis[widest].step++;
  }
}

// Do the smallest tiles there can be fit?
static bool fits(const struct choice *c, int fixed)
{
  struct sizes least = c->z;
  const struct schedule *s = &c->t->sch;
  for (int i = 0; i < s->ngrid; i++)
    if (s->grid[i] != fixed) least.ext[s->grid[i]][TILE] = 1;
  if (s->loop >= 0) least.ext[s->loop][TILE] = 1;
  return cost_tiles(c->t, c->w, &least) <= (double)c->m->t->scratch;
}

int sizes_choose(const struct model *m, const struct table *t, const struct works *w, int fixed, int64_t extent,
                 struct sized *out, int most, uint64_t *too_large)
{
  struct choice c = {m, t, w, .out = out, .most = most, .too_large = too_large};
  c.z.blocks = c.z.iterations = 1;
  for (int k = 0; k < m->s->nclass; k++) {
    int64_t n = m->s->class[k].extent;
    int64_t g = k == fixed ? extent : 1;
    if (n % g) return 0;
    c.z.ext[k][GRID] = g, c.z.ext[k][LOOP] = 1, c.z.ext[k][TILE] = n / g;
  }
  if (!fits(&c, fixed)) return ++*too_large, 0;
  for (int i = 0; i < t->sch.ngrid; i++) {
    int k = t->sch.grid[i];
    if (k == fixed) {
      c.z.blocks *= extent;
      continue;
    }
    c.axis[c.naxis] = (struct axis){.c = k, .grid = true, .step = 1};
    divisors(m->s->class[k].extent, 2, &c.axis[c.naxis++]);
  }
  if (t->sch.loop >= 0) {
    c.axis[c.naxis] = (struct axis){.c = t->sch.loop, .step = 1};
    divisors(m->s->class[t->sch.loop].extent, 2, &c.axis[c.naxis++]);
  }
  thin(&c);
  lattice(&c, 0);
  refine(&c);
  return c.n;
}
