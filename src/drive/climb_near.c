// Neighbours of an entrant: one knob with any value of its scheme; two knobs by one step; the best settings of the other schemes; tails and dependent
// launches switched; other sizes of its most expensive kernels (drive_sizes.c). The best settings of the single kernels are also combined.
#include "drive/climb.h"
#include "plan/plan.h"

#include <math.h>
#include <string.h>

enum { SETTINGS = 1024, OTHERS = 3, SAME = 4, MOST_SIZES = 16 };
static const double FIRST = 0.97, LATER = 1.02, LAST = 1.03; // handicaps
static const double WORSE = 3;                               // the model predicts this many times the time

static struct choice *picks(struct entrants *f, int at)
{
  const struct entrant *x = &f->x[at];
  return arena_copy(f->j->mem, x->pick, sizeof *x->pick * (size_t)(x->plan->p.nunits + 1));
}

// ---- knobs ----

static void add_value(struct values *d, int v)
{
  int i = 0;
  while (i < d->n && d->v[i] < v) i++;
  if (v < 0 || d->n == MOST_VALUES || (i < d->n && d->v[i] == v)) return;
  memmove(d->v + i + 1, d->v + i, sizeof *d->v * (size_t)(d->n - i));
  d->v[i] = v, d->n++;
}

static const struct values *listed(struct entrants *f, struct climb_plan *p, int unit, const struct choice *now)
{
  for (int i = 0; i < p->nknown; i++)
    if (p->known[i].unit == unit && p->known[i].scheme == now->scheme && p->known[i].tail == now->tail) return p->known[i].knob;
  struct arena_mark mark = arena_mark(&f->scratch);
  struct lower_job j = lower_unit_job(&f->scratch, &p->p, &p->p.unit[unit], now->tail);
  struct choice *all = NEWS(&f->scratch, struct choice, SETTINGS);
  struct known_values *out = &PUSH(f->j->mem, p->known, p->nknown, p->knowncap);
  *out = (struct known_values){.unit = unit, .scheme = now->scheme, .tail = now->tail};
  for (int i = 0, n = scheme_settings(&j, now->scheme, SETTINGS, all); i < n; i++)
    for (int k = 0; k < KNOBS; k++) add_value(&out->knob[k], all[i].k.v[k]);
  arena_reset(&f->scratch, mark);
  return out->knob;
}

// Values of a knob: those in the settings that the scheme lists, twice and half the current one; yes and no.
static void values_of(struct entrants *f, struct climb_plan *p, int unit, const struct choice *now, struct values out[KNOBS])
{
  memcpy(out, listed(f, p, unit, now), sizeof *out * KNOBS);
  for (int k = 0; k < KNOBS; k++) {
    int v = now->k.v[k];
    add_value(&out[k], v), add_value(&out[k], 2 * v);
    if (v % 2 == 0) add_value(&out[k], v / 2);
    if (v <= 1) add_value(&out[k], 1 - v);
  }
}

static void try_setting(struct entrants *f, int at, struct choice *pick, int unit, const struct knobs *k, double handicap)
{
  const struct entrant *x = &f->x[at];
  struct choice was = pick[unit];
  pick[unit].k = *k;
  if (entrants_setting(f, x->plan, unit, &pick[unit]) && pick[unit].cost < WORSE * was.cost) entrants_enter(f, x->line, x->plan, pick, at, handicap);
  pick[unit] = was;
}

static int place_of(const struct values *d, int v)
{
  int i = 0;
  while (i < d->n && d->v[i] != v) i++;
  return i;
}

static void near_knobs(struct entrants *f, int at, struct choice *pick, int unit)
{
  struct values d[KNOBS];
  struct knobs k = pick[unit].k, was = k;
  values_of(f, f->x[at].plan, unit, &pick[unit], d);
  for (int i = 0; i < KNOBS; i++, k = was)
    for (int v = 0; v < d[i].n; v++)
      if (d[i].v[v] != was.v[i]) k.v[i] = d[i].v[v], try_setting(f, at, pick, unit, &k, 1);
  for (int i = 0; i < KNOBS; i++)
    for (int o = 0; o < i; o++)
      for (int way = 0; way < 4; way++, k = was) {
        int a = place_of(&d[i], was.v[i]) + (way & 1 ? 1 : -1), b = place_of(&d[o], was.v[o]) + (way & 2 ? 1 : -1);
        if (a < 0 || b < 0 || a >= d[i].n || b >= d[o].n) continue;
        k.v[i] = d[i].v[a], k.v[o] = d[o].v[b];
        try_setting(f, at, pick, unit, &k, LAST);
      }
}

// The model's best, with and without a tail: SAME of this scheme, OTHERS of each other scheme; and this setting with its tail switched.
static void near_choices(struct entrants *f, int at, struct choice *pick, int unit)
{
  const struct entrant *x = &f->x[at];
  const struct lower_unit *u = &x->plan->p.unit[unit];
  struct choice was = pick[unit];
  int seen[64][2] = {{0}};
  for (int i = 0; i < u->nchoices; i++) {
    int s = u->choice[i].scheme;
    if (seen[s + 1][u->choice[i].tail]++ >= (s == was.scheme ? SAME : OTHERS)) continue;
    pick[unit] = u->choice[i];
    entrants_enter(f, x->line, x->plan, pick, at, LATER);
    x = &f->x[at];
  }
  pick[unit] = was, pick[unit].tail = !was.tail;
  if (entrants_setting(f, x->plan, unit, &pick[unit])) entrants_enter(f, x->line, x->plan, pick, at, FIRST);
  pick[unit] = was;
}

// ---- dependent launches ----

// The entrant's choice for kernels that the plan also has, the model's k-th best for others. False: no choice is left.
static bool like(struct entrants *f, int at, const struct climb_plan *p, int k, struct choice *pick)
{
  const struct entrant *x = &f->x[at];
  bool other = false;
  for (int u = 0; u < p->p.nunits; u++) {
    const struct lower_unit *to = &p->p.unit[u];
    int from = 0;
    while (from < x->plan->p.nunits && x->plan->p.unit[from].first != to->first) from++;
    bool same = from < x->plan->p.nunits && to->product == x->plan->p.unit[from].product;
    if (!to->nchoices) continue; // it is part of another launch
    pick[u] = same ? x->pick[from] : to->choice[MIN(k, to->nchoices - 1)];
    if (same && !entrants_setting(f, p, u, &pick[u])) same = false, pick[u] = to->choice[MIN(k, to->nchoices - 1)];
    other |= !same && !to->product && k < to->nchoices;
  }
  return !k || other;
}

static void near_plan(struct entrants *f, int at, struct climb_plan *p)
{
  if (!p || p == f->x[at].plan) return;
  struct choice *pick = NEWS(f->j->mem, struct choice, p->p.nunits + 1);
  for (int k = 0; k < OTHERS; k++)
    if (like(f, at, p, k, pick)) entrants_enter(f, f->x[at].line, p, pick, at, FIRST);
}

// ---- sizes ----

// Whether two units are the same kernel; products by the library are excluded.
static bool same_kernel(const struct lower_plan *p, const struct lower_unit *x, const struct lower_plan *q, const struct lower_unit *y)
{
  const struct graph *a = p->g->nodes[x->first].sub, *b = q->g->nodes[y->first].sub;
  return a && b && graph_same(a, b);
}

// A knob that suits one size may not suit another, so the model's best are tried with it.
static void enter_sized(struct entrants *f, int at, int cand)
{
  const struct entrant *x = &f->x[at];
  struct climb_plan *p = entrants_plan(f, cand, x->plan->p.dependent);
  if (!p) return;
  struct choice *pick = NEWS(f->j->mem, struct choice, p->p.nunits + 1);
  for (int k = -1; k < OTHERS - 1; k++) {
    like(f, at, p, 0, pick);
    for (int u = 0; u < p->p.nunits && k >= 0; u++) {
      const struct lower_unit *to = &p->p.unit[u], *from = u < x->plan->p.nunits ? &x->plan->p.unit[u] : NULL;
      bool same = from && same_kernel(&p->p, to, &x->plan->p, from);
      if (!to->product && to->nchoices && !same) pick[u] = to->choice[MIN(k, to->nchoices - 1)];
    }
    entrants_enter(f, f->x[at].line, p, pick, at, LATER);
    x = &f->x[at];
  }
}

struct near_sizes {
  struct entrants *f;
  int at, made, cand[MOST_SIZES];
};

// False if the graph is invalid or known.
static bool add_sized(void *arg, int node, const struct axes *to)
{
  struct near_sizes *s = arg;
  struct entrants *f = s->f;
  int cand = f->x[s->at].cand;
  struct err e = {0};
  struct graph *g;
  if (plan_resize(f->j->mem, f->c->cand[cand].found, node, to, &g, &e) != OK || candidate_known(f->c, g) || f->sized >= MOST_SIZED) return false;
  f->sized++;
  return s->cand[s->made++] = candidate_sized(f->c, cand, g), true;
}

static bool more_sizes(void *arg)
{
  const struct near_sizes *s = arg;
  return s->made < MOST_SIZES && now_seconds() < s->f->until;
}

// Lowers all of them together.
static void near_sizes(struct entrants *f, int at)
{
  struct near_sizes s = {f, at, 0, {0}};
  sizes_near(f->c->cand[f->x[at].cand].found, add_sized, more_sizes, &s);
  candidates_lower(f->j, f->c, s.made, s.cand);
  for (int i = 0; i < s.made; i++) enter_sized(f, at, s.cand[i]);
}

void climb_near(struct entrants *f, int at)
{
  f->x[at].centre = true;
  struct choice *pick = picks(f, at);
  for (int u = 0; u < f->x[at].plan->p.nunits; u++) {
    if (lower_inside(&f->x[at].plan->p, pick, u)) continue;
    if (!f->x[at].plan->p.unit[u].product) near_knobs(f, at, pick, u);
    near_choices(f, at, pick, u);
  }
  near_plan(f, at, entrants_plan(f, f->x[at].cand, !f->x[at].plan->p.dependent));
  if (!f->c->cand[f->x[at].cand].of) near_sizes(f, at); // otherwise it is proved by its parts
}
