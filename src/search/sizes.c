// Sizes, after structure: which extents the grid and loop axes get. All that divide are tried, thinned where a
// class has many divisors; the cost model ranks them, and what exceeds scratch is out.
#include "search/space.h"

#include <math.h>
#include <string.h>

enum { MOST = 14 };

struct axis {
  int c;
  bool grid;
  int n;
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
  const struct pick *p;
  const int *roots;
  int nroots, naxis;
  struct axis axis[MAX_AXES + 1];
  struct sizes z;
  struct sized *out;
  int n, most;
  uint64_t *too_large;
};

static void keep(struct choice *c, double cost)
{
  if (c->n == c->most && cost >= c->out[c->n - 1].cost) return;
  int i = c->n < c->most ? c->n++ : c->n - 1;
  for (; i > 0 && c->out[i - 1].cost > cost; i--) c->out[i] = c->out[i - 1];
  c->out[i] = (struct sized){c->z, cost};
}

static void try_axis(struct choice *c, int i)
{
  if (i == c->naxis || i > MAX_AXES) {
    double cost = cost_kernel(c->m, c->t, c->p, c->roots, c->nroots, &c->z);
    if (isfinite(cost)) keep(c, cost);
    else ++*c->too_large;
    return;
  }
  const struct axis *a = &c->axis[i];
  int64_t *ext = c->z.ext[a->c], tile = ext[TILE];
  for (int k = 0; k < a->n; k++) {
    int64_t e = a->extent[k];
    if (tile % e || (a->grid && c->z.blocks * e > 1 << 16)) continue;
    ext[a->grid ? GRID : LOOP] = e, ext[TILE] = tile / e;
    int64_t *count = a->grid ? &c->z.blocks : &c->z.iterations, before = *count;
    *count *= e;
    try_axis(c, i + 1);
    *count = before;
  }
  ext[a->grid ? GRID : LOOP] = 1, ext[TILE] = tile;
}

int sizes_choose(const struct model *m, const struct table *t, const struct pick *p, const int *roots, int nroots,
                 int fixed, int64_t extent, struct sized *out, int most, uint64_t *too_large)
{
  struct choice c = {m, t, p, roots, nroots, .out = out, .most = most, .too_large = too_large};
  c.z.blocks = c.z.iterations = 1;
  for (int k = 0; k < m->s->nclass; k++) {
    int64_t n = m->s->class[k].extent;
    int64_t g = k == fixed ? extent : 1;
    if (n % g) return 0;
    c.z.ext[k][GRID] = g, c.z.ext[k][LOOP] = 1, c.z.ext[k][TILE] = n / g;
  }
  for (int i = 0; i < t->sch.ngrid; i++) {
    int k = t->sch.grid[i];
    if (k == fixed) {
      c.z.blocks *= extent;
      continue;
    }
    c.axis[c.naxis] = (struct axis){.c = k, .grid = true};
    divisors(m->s->class[k].extent, 2, &c.axis[c.naxis++]);
  }
  if (t->sch.loop >= 0) {
    c.axis[c.naxis] = (struct axis){.c = t->sch.loop};
    divisors(m->s->class[t->sch.loop].extent, 2, &c.axis[c.naxis++]);
  }
  try_axis(&c, 0);
  return c.n;
}
