// Chooses sizes for a structure: the extents of the grid and loop axes. A coarse lattice of divisors is tried first, then steps to adjacent divisors
// along one axis while the cost falls. Sizes that exceed scratch are excluded if smaller tiles fit. The schedule alone determines the possible extents
// and the cost of each kind of work. Both are kept, so a structure's cost for given sizes is a sum of known terms.
#include "search/space.h"

#include <math.h>
#include <string.h>

enum { MOST = 24, LATTICE = 160 };

struct point {               // one choice of sizes
  struct sizes z, paid;      // paid: as the cost model counts them
  double bias;               // a factor
  int k[MAX_AXES + 1];       // the axes' extents
  struct search_term *price; // for each work of the table; tile < 0: not computed yet
};
struct sizes_axis {
  int c;
  bool grid;
  int n, step; // the lattice takes every step-th extent
  int64_t extent[MOST];
};
struct ground {
  struct arena *mem;
  const struct model *m;
  const struct table *t;
  int naxis;
  struct sizes_axis axis[MAX_AXES + 1];
  struct sizes whole;   // before the axes have extents
  struct point *least;  // the smallest tiles
  void *at;             // points by their extents: nested arrays, one level for each axis, allocated on demand
  struct point nowhere; // marks invalid extents
  int nlattice;
  struct point *lattice[LATTICE];
};

// Moves the divisors that give good tiles to the front of all[0..n) and returns their number. Keeps all n if none is good.
static int good_ones(const struct cost_rules *r, int64_t extent, bool looped, int n, int64_t *all)
{
  int good = 0;
  for (int i = 0; i < n; i++) good += !r->extent || r->extent(extent, extent / all[i], looped);
  if (!good || good == n) return n;
  for (int i = 0, to = 0; i < n; i++)
    if (r->extent(extent, extent / all[i], looped)) all[to++] = all[i];
  return good;
}

// Divisors of n from `least` up, at most MOST of them, evenly spread.
static void divisors(const struct cost_rules *r, int64_t n, int64_t least, struct sizes_axis *a)
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
  int have = good_ones(r, n, !a->grid, count - from, all + from);
  for (int i = 0; i < MIN(have, MOST); i++) a->extent[a->n++] = all[from + (have <= MOST ? i : i * (have - 1) / (MOST - 1))];
}

// Every step-th divisor of each axis, so that the lattice stays small.
static void thin(struct ground *g)
{
  int most = MIN(cost_rules(g->m->t)->lattice, (int)LATTICE);
  for (int64_t points = most + 1; points > most;) {
    points = 1;
    int widest = 0;
    for (int i = 0; i < g->naxis; i++) {
      int n = (g->axis[i].n + g->axis[i].step - 1) / g->axis[i].step;
      points *= MAX(n, 1);
      if (n > (g->axis[widest].n + g->axis[widest].step - 1) / g->axis[widest].step) widest = i;
    }
    if (points > most) g->axis[widest].step++;
  }
}

static struct point *new_point(const struct ground *g, const struct sizes *z)
{
  struct point *p = NEW(g->mem, struct point);
  p->z = *z, p->bias = cost_sizes(g->m, g->t, z, &p->paid), p->price = NEWS(g->mem, struct search_term, g->t->nwork);
  for (int i = 0; i < g->t->nwork; i++) p->price[i].tile = -1;
  return p;
}

// Gives an axis its k-th extent; false if it does not divide the rest or gives too many blocks.
static bool set_axis(struct sizes *z, const struct sizes_axis *a, int k)
{
  int64_t *ext = z->ext[a->c], *count = a->grid ? &z->blocks : &z->iterations, n = a->extent[k];
  if (ext[TILE] % n || (a->grid && *count * n > 1 << 16)) return false;
  *count *= n, ext[a->grid ? GRID : LOOP] = n, ext[TILE] /= n;
  return true;
}

// The point with extent k[i] of each axis i; NULL if it is invalid.
static struct point *point_at(struct ground *g, const int *k)
{
  void **at = &g->at;
  for (int i = 0; i < g->naxis; i++) {
    if (!*at) *at = NEWS(g->mem, void *, g->axis[i].n);
    at = (void **)*at + k[i];
  }
  if (!*at) {
    struct sizes z = g->whole;
    bool can = true;
    for (int i = 0; i < g->naxis && can; i++) can = set_axis(&z, &g->axis[i], k[i]);
    struct point *p = can ? new_point(g, &z) : &g->nowhere;
    memcpy(p->k, k, sizeof p->k);
    *at = p;
  }
  return *at == &g->nowhere ? NULL : *at;
}

static void lattice(struct ground *g, int i, int *k)
{
  if (i == g->naxis || i > MAX_AXES) {
    struct point *p = point_at(g, k);
    if (p) g->lattice[g->nlattice++] = p;
    return;
  }
  for (k[i] = 0; k[i] < g->axis[i].n; k[i] += g->axis[i].step) lattice(g, i + 1, k);
}

static void add_axis(struct ground *g, int c, bool grid)
{
  g->axis[g->naxis] = (struct sizes_axis){.c = c, .grid = grid, .step = 1};
  divisors(cost_rules(g->m->t), g->m->s->classes[c].extent, 2, &g->axis[g->naxis++]);
}

struct ground *sizes_open(struct arena *mem, const struct model *m, const struct table *t, int fixed, int64_t extent)
{
  struct ground *g = NEW(mem, struct ground);
  *g = (struct ground){.mem = mem, .m = m, .t = t, .whole = {.blocks = 1, .iterations = 1}};
  for (int c = 0; c < m->s->nclass; c++) {
    int64_t grid = c == fixed ? extent : 1;
    g->whole.ext[c][GRID] = grid, g->whole.ext[c][LOOP] = 1, g->whole.ext[c][TILE] = m->s->classes[c].extent / grid;
  }
  struct sizes least = g->whole;
  for (int i = 0; i < t->sch.ngrid; i++) {
    if (t->sch.grid[i] == fixed)
      g->whole.blocks *= extent;
    else
      add_axis(g, t->sch.grid[i], true), least.ext[t->sch.grid[i]][TILE] = 1;
  }
  if (t->sch.loop >= 0) add_axis(g, t->sch.loop, false), least.ext[t->sch.loop][TILE] = 1;
  g->least = new_point(g, &least);
  thin(g);
  lattice(g, 0, (int[MAX_AXES + 1]){0});
  return g;
}

static const struct search_term *price(const struct ground *g, struct point *p, int work)
{
  if (p->price[work].tile < 0) p->price[work] = cost_term(g->m, &g->t->work[work], &p->paid);
  return &p->price[work];
}

typedef bool (*sizes_allowed)(const struct model *m, const struct search_term *sum);

// Whether the smallest possible tiles are allowed.
static bool least_is(const struct ground *g, const struct works *w, sizes_allowed allowed)
{
  struct search_term sum = {0};
  for (int i = 0; i < w->n && allowed; i++) cost_add(&sum, price(g, g->least, w->id[i]));
  return allowed && allowed(g->m, &sum);
}

// small: whether the smallest tiles fit, -1 where nobody asked yet; it is the same at every point.
static double cost_at(const struct ground *g, struct point *p, const struct works *w, int *small)
{
  struct search_term sum = {0};
  for (int i = 0; i < w->n; i++) cost_add(&sum, price(g, p, w->id[i]));
  const struct cost_rules *r = cost_rules(g->m->t);
  if (r->spills && !r->fits(g->m, &sum)) {
    if (*small < 0) *small = least_is(g, w, r->fits);
    if (*small) return INFINITY;
  }
  return p->bias * cost_seconds(g->m, &sum, &p->paid);
}

double sizes_cost(const struct ground *g, struct point *p, const struct works *w) { return cost_at(g, p, w, &(int){-1}); }

struct sizes_choice {
  struct ground *g;
  const struct works *w;
  struct sized *out;
  int n, most, small;
  uint64_t *too_large;
};

static void evaluate(struct sizes_choice *c, struct point *p)
{
  double cost = cost_at(c->g, p, c->w, &c->small);
  if (!isfinite(cost)) ++*c->too_large;
  if (!isfinite(cost) || (c->n == c->most && cost >= c->out[c->n - 1].cost)) return;
  for (int i = 0; i < c->n; i++)
    if (c->out[i].at == p) return;
  int i = c->n < c->most ? c->n++ : c->n - 1;
  for (; i > 0 && c->out[i - 1].cost > cost; i--) c->out[i] = c->out[i - 1];
  c->out[i] = (struct sized){p, cost};
}

// Steps along one axis at a time from the best point.
static void refine(struct sizes_choice *c)
{
  for (double best = INFINITY; c->n && c->out[0].cost < best;) {
    const struct point *from = c->out[0].at;
    best = c->out[0].cost;
    for (int i = 0; i < c->g->naxis; i++) {
      int k[MAX_AXES + 1];
      memcpy(k, from->k, sizeof k);
      for (k[i] = MAX(0, from->k[i] - 2); k[i] <= MIN(c->g->axis[i].n - 1, from->k[i] + 2); k[i]++) {
        struct point *p = k[i] == from->k[i] ? NULL : point_at(c->g, k);
        if (p) evaluate(c, p);
      }
    }
  }
}

int sizes_choose(struct ground *g, const struct works *w, struct sized *out, int most, uint64_t *too_large)
{
  const struct cost_rules *r = cost_rules(g->m->t);
  struct sizes_choice c = {g, w, out, .most = most, .small = least_is(g, w, r->fits), .too_large = too_large};
  if (!c.small && !least_is(g, w, r->spills)) return ++*too_large, 0;
  for (int i = 0; i < g->nlattice; i++) evaluate(&c, g->lattice[i]);
  refine(&c);
  return c.n;
}

const struct sizes *sizes_of(const struct point *p) { return &p->z; }
