// Plans with other sizes. On targets where hill climbing by measurement is too expensive, because kernels compile slowly and run briefly, the list
// itself contains a few widely spaced sizes of each good structure: its most expensive kernel with axes at least twice or half as long, and partial
// sums in other numbers of parts. Measurement then decides.
#include "search/space.h"

#include <math.h>
#include <stdlib.h>

enum { PLANS = 64, TRIED = 160, WAYS = 64 };
static const double FAR = 2;    // sizes that cost more than this times the plan's best are not listed
static const double STEP = 1.9; // least ratio of an axis between two listed sizes

static const int64_t splits[] = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128};

struct way { // a plan with other sizes
  double cost;
  int64_t parts;
  struct sizes z[MAX_CHAIN]; // for each kernel
  double each[MAX_CHAIN];
};
struct spread {
  struct planner *pl;
  struct arena mem;
  const struct plan *p;
  int n;
  struct way *way[WAYS * (COUNT(splits) + 1)];
  struct sized best[TRIED];
};

static int choose(struct spread *s, const struct option *x, int64_t parts, int most)
{
  const struct table *t = &s->pl->tables[x->table];
  struct works w;
  uint64_t too_large = 0;
  work_of(t, &x->p, x->root, x->nmake, &w);
  return sizes_choose(sizes_open(&s->mem, s->pl->m, t, x->split, parts), &w, s->best, most, &too_large);
}

static bool apart(const struct sizes *a, const struct sizes *b, int nclass)
{
  for (int c = 0; c < nclass; c++)
    for (int i = 0; i < 3; i++) {
      double x = (double)a->ext[c][i] / (double)b->ext[c][i];
      if (x >= STEP || 1 / x >= STEP) return true;
    }
  return false;
}

static bool ways_apart(const struct spread *s, const struct way *a, const struct way *b)
{
  for (int k = 0; k < s->p->n; k++)
    if (s->p->k[k]->table >= 0 && apart(&a->z[k], &b->z[k], s->pl->m->s->nclass)) return true;
  return false;
}

// The best sizes of all kernels for that number of parts of partial sums; false if they do not fit.
static bool size_plan(struct spread *s, int64_t parts, struct way *w)
{
  *w = (struct way){.parts = parts};
  for (int k = 0; k < s->p->n; k++) {
    const struct option *x = s->p->k[k];
    w->z[k] = x->z, w->each[k] = x->cost;
    if (x->table >= 0 && x->split >= 0 && x->parts != parts) {
      if (!choose(s, x, parts, 1)) return false;
      w->z[k] = *sizes_of(s->best[0].at), w->each[k] = s->best[0].cost;
    }
    w->cost += w->each[k];
  }
  return true;
}

static int dearest(const struct spread *s, const struct way *w)
{
  int worst = -1;
  for (int k = 0; k < s->p->n; k++)
    if (s->p->k[k]->table >= 0 && (worst < 0 || w->each[k] > w->each[worst])) worst = k;
  return worst;
}

// Adds the plan with this number of parts, in all sizes of its most expensive kernel that are not much worse.
static void add_ways(struct spread *s, int64_t parts)
{
  struct way first;
  if (!size_plan(s, parts, &first)) return;
  int k = dearest(s, &first), n = k < 0 ? 0 : choose(s, s->p->k[k], parts, TRIED), from = s->n;
  for (int i = 0; i < n && s->n < from + WAYS; i++) {
    struct way w = first;
    w.z[k] = *sizes_of(s->best[i].at), w.each[k] = s->best[i].cost, w.cost += w.each[k] - first.each[k];
    bool is_new = w.cost <= FAR * s->p->cost;
    for (int o = from; o < s->n && is_new; o++) is_new = ways_apart(s, &w, s->way[o]);
    if (is_new) s->way[s->n++] = arena_copy(&s->mem, &w, sizeof w);
  }
}

static int cheaper_way(const void *x, const void *y)
{
  const struct way *a = *(const struct way *const *)x, *b = *(const struct way *const *)y;
  return a->cost < b->cost ? -1 : a->cost > b->cost;
}

// The class whose partial sums pass between kernels of p, and the number of parts; -1: none, or several classes.
static int split_of(const struct plan *p, int64_t *parts)
{
  int c = -1;
  *parts = 0;
  for (int k = 0; k < p->n; k++) {
    const struct option *x = p->k[k];
    if (x->table < 0 || x->split < 0) continue;
    if (c >= 0 && (x->split != c || x->parts != *parts)) return -1;
    c = x->split, *parts = x->parts;
  }
  return c;
}

static struct plan resized(struct planner *pl, const struct plan *p, const struct way *w)
{
  struct plan q = *p;
  q.cost = w->cost;
  for (int k = 0; k < p->n; k++) {
    struct option *x = arena_copy(pl->mem, p->k[k], sizeof *x);
    x->z = w->z[k], x->cost = w->each[k];
    if (x->split >= 0 && x->table >= 0) x->parts = w->parts;
    q.k[k] = x;
  }
  return q;
}

// Lists the cheapest variants that differ enough from the plan and from each other.
static int take_ways(struct spread *s, struct plan *out, int most)
{
  const struct way *taken[WAYS];
  struct way own = {0};
  int n = 0;
  for (int k = 0; k < s->p->n; k++) own.z[k] = s->p->k[k]->z;
  taken[0] = &own;
  qsort(s->way, (size_t)s->n, sizeof *s->way, cheaper_way);
  for (int i = 0; i < s->n && n < most && n + 1 < WAYS; i++) {
    bool is_new = true;
    for (int k = 0; k <= n && is_new; k++) is_new = ways_apart(s, s->way[i], taken[k]);
    if (!is_new) continue;
    taken[n + 1] = s->way[i];
    out[n++] = resized(s->pl, s->p, s->way[i]);
  }
  return n;
}

static int spread_plan(struct planner *pl, const struct plan *p, struct plan *out, int most)
{
  struct spread s = {.pl = pl, .p = p};
  int64_t parts;
  int c = split_of(p, &parts), n;
  add_ways(&s, parts);
  for (size_t i = 0; i < COUNT(splits) && c >= 0; i++) {
    int64_t extent = pl->m->s->classes[c].extent;
    if (splits[i] != parts && splits[i] < extent && extent % splits[i] == 0) add_ways(&s, splits[i]);
  }
  n = take_ways(&s, out, most);
  arena_close(&s.mem);
  return n;
}

int plans_spread(struct planner *pl, const struct plan *plan, int n, struct plan *out, int each, int most)
{
  int all = 0;
  for (int i = 0; i < MIN(n, PLANS) && !units_stopped(pl->units); i++) {
    bool is_new = true; // one plan of each family: sizes matter more than the operators that compute a value
    for (int k = 0; k < i && is_new; k++) is_new = plan[k].family != plan[i].family;
    if (is_new) all += spread_plan(pl, &plan[i], out + all, MIN(each, most - all));
  }
  return all;
}
