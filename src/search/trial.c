// From plans to verified kernel graphs. Each plan is assembled, checked by the verifier's filter, and priced by lowering if the caller supports that.
// These are units of work, so threads and processes share them. The search's own model takes tiles as they are and does not know which kernels can be
// lowered, so its order is used only for graphs without a price.
#include "search/space.h"
#include "verify/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// WIDER: prices choose among this many times as many plans as the list has. RESIZED: number of plans tried with other sizes. SIZES: other sizes in
// total; the last plan may exceed it.
// ROUNDS: most times that plans are rebuilt. ENOUGH: number of refused structures from which on a kind is excluded.
enum { WIDER = 4, RESIZED = 12, SIZES = 64, ROUNDS = 4, ENOUGH = 2 };
static const double FAR = 1.5, NEAR = 1.1; // graphs that cost more than this times the best are not examined further

enum trial_verdict { UNKNOWN, RIGHT, WRONG };
struct tried {
  struct plan p;
  int seed;
  char verdict;
  double price; // price of a correct graph
};
struct search_trial {
  const struct planner *pl;
  int n;
  struct tried *t;
};

static bool graph_of(struct arena *mem, const struct search_trial *t, int i, struct graph **g)
{
  struct err e = {0};
  if (assemble(mem, t->pl, &t->t[i].p, g, &e) != OK || graph_check(*g, &e) != OK) return false;
  if (t->pl->calls && !(*g = calls_put(mem, t->pl->calls, *g))) return false;
  return !t->pl->stem || (*g = stem_put(mem, t->pl->stem, *g)) != NULL;
}

// The first pass has no time for prices.
static bool ranked(const struct planner *pl) { return !pl->few && pl->o->pricer && pl->o->pricer->ranks; }

static double price_of(const struct planner *pl, const struct graph *g, double model)
{
  const struct pricer *by = pl->o->pricer;
  return by && (ranked(pl) || !by->ranks) ? by->price(by->arg, g, model) : model;
}

static bool try_plan(void *arg, int i, int worker, double until)
{
  (void)worker, (void)until;
  const struct search_trial *t = arg;
  struct tried *x = &t->t[i];
  struct arena mem = {0};
  struct graph *g;
  const struct planner *pl = t->pl;
  const struct graph *p = pl->stem ? pl->stem->p : pl->calls ? pl->calls->p : pl->m->s->p;
  bool right = graph_of(&mem, t, i, &g) && verify_filter(p, g, pl->o->seed + (uint64_t)x->seed);
  x->price = right ? price_of(t->pl, g, x->p.cost) : x->p.cost;
  x->verdict = right ? RIGHT : WRONG;
  arena_close(&mem);
  return true;
}

static void pack_verdict(void *arg, int i, struct str *out)
{
  const struct search_trial *t = arg;
  put_number(out, (uint64_t)t->t[i].verdict);
  put_whole(out, &t->t[i].price, sizeof t->t[i].price);
}

static bool unpack_verdict(void *arg, int i, struct bytes *in, bool *whole)
{
  const struct search_trial *t = arg;
  struct tried *x = &t->t[i];
  x->verdict = (char)get_number(in, WRONG);
  get_whole(in, &x->price, sizeof x->price);
  return *whole = !in->bad && x->verdict;
}

static int by_order(double a, double b, const struct plan *p, const struct plan *q)
{
  if (a < b || a > b) return a < b ? -1 : 1;
  return p->structure < q->structure ? -1 : p->structure > q->structure;
}

static int cheaper_plan(const void *x, const void *y)
{
  const struct tried *a = x, *b = y;
  return by_order(a->p.cost, b->p.cost, &a->p, &b->p);
}

static int cheaper_graph(const void *x, const void *y)
{
  const struct tried *a = x, *b = y;
  return by_order(a->price, b->price, &a->p, &b->p);
}

static void append(struct search_trial *t, const struct plan *p) { t->t[t->n++] = (struct tried){.p = *p}; }

// Tries the plans from index `from` on.
static void try_all(struct search_trial *t, int from)
{
  struct search_trial rest = {t->pl, t->n - from, t->t + from};
  qsort(rest.t, (size_t)rest.n, sizeof *rest.t, cheaper_plan);
  for (int i = 0; i < rest.n; i++) rest.t[i].seed = from + i;
  units_run(t->pl->units, &(struct batch){UNIT_PLAN, from, rest.n, false, &rest, try_plan, pack_verdict, unpack_verdict});
}

static bool good(const struct tried *x) { return x->verdict == RIGHT && isfinite(x->price); }

static double best_price(const struct search_trial *t)
{
  double best = INFINITY;
  for (int i = 0; i < t->n; i++)
    if (good(&t->t[i])) best = fmin(best, t->t[i].price);
  return best;
}

static int kin_of(const struct search_trial *t, const struct plan *p)
{
  for (int i = 0; i < t->n; i++)
    if (t->t[i].p.family == p->family) return i;
  return -1;
}

// Whether an earlier round has tried the plan.
static bool is_tried(const struct search_trial *t, int before, const struct plan *p)
{
  for (int i = 0; i < before; i++)
    if (t->t[i].p.structure == p->structure && t->t[i].p.cost == p->cost) return true;
  return false;
}

// Plans of a family usually have similar prices, so the first of each family is priced first. If that price is near the best, the others are priced
// too. Sizes may still decide which scheme takes a kernel, so plans that the search's model ranks near the first one are priced anyway. If the first
// of a family cannot be lowered, the others are priced if the model does not rank them far behind or if no price is known.
static void try_families(struct search_trial *t, const struct plan *plan, int n)
{
  bool *first = NEWS(t->pl->mem, bool, n + 1);
  const int from = t->n;
  for (int i = 0; i < n; i++)
    if (kin_of(t, &plan[i]) < 0) first[i] = true, append(t, &plan[i]);
  try_all(t, from);
  int heads = t->n;
  double best = best_price(t), least = INFINITY;
  for (int i = 0; i < n; i++) least = fmin(least, plan[i].cost);
  for (int i = 0; i < n; i++) {
    const struct tried *head = &t->t[kin_of(t, &plan[i])];
    const bool ranked_high = plan[i].cost <= (good(head) ? NEAR : FAR) * least;
    if (!first[i] && !is_tried(t, from, &plan[i]) && (ranked_high || (good(head) ? head->price <= NEAR * best : isinf(best)))) append(t, &plan[i]);
  }
  try_all(t, heads);
}

// ---- kinds of kernels that no scheme takes ----

struct kind { // kernels that read and make the same tensors
  uint64_t kind;
  int refused, taken; // structures
  uint64_t seen[2 * ENOUGH];
};
struct kinds {
  struct kind *k;
  int n, cap;
};

static void count_kind(struct arena *mem, struct kinds *all, const struct option *x, bool refused)
{
  const uint64_t kind = option_kind(x);
  struct kind *k = NULL;
  for (int i = 0; i < all->n && !k; i++)
    if (all->k[i].kind == kind) k = &all->k[i];
  if (!k) PUSH(mem, all->k, all->n, all->cap) = (struct kind){.kind = kind}, k = &all->k[all->n - 1];
  const int n = MIN(k->refused + k->taken, (int)COUNT(k->seen));
  for (int i = 0; i < n; i++)
    if (k->seen[i] == x->structure) return;
  if (n < (int)COUNT(k->seen)) k->seen[n] = x->structure;
  *(refused ? &k->refused : &k->taken) += 1;
}

// Counts the kernels of plan i that can be made, and those that cannot.
static void ask_kernels(struct arena *mem, const struct search_trial *t, int i, struct kinds *all)
{
  const struct pricer *by = t->pl->o->pricer;
  const struct plan *p = &t->t[i].p;
  struct arena scratch = {0};
  struct graph *g;
  int order[MAX_CHAIN], at = 0;
  if (plan_order(p, order) && graph_of(&scratch, t, i, &g)) {
    bool *refused = NEWS(&scratch, bool, g->nnodes + 1);
    by->refuse(by->arg, g, refused);
    for (int k = 0; k < p->n; k++) {
      const struct option *x = p->k[order[k]];
      if (x->table >= 0) count_kind(mem, all, x, refused[at]);
      at += x->kernels;
    }
  }
  arena_close(&scratch);
}

// Whether plans that cannot be lowered are much cheaper by the model than the best that can.
static bool expects_more(const struct search_trial *t)
{
  double least = INFINITY;
  for (int i = 0; i < t->n; i++)
    if (t->t[i].verdict == RIGHT && isinf(t->t[i].price)) least = fmin(least, t->t[i].p.cost);
  return least * FAR < best_price(t);
}

static bool has_refused(const struct planner *pl, const struct plan *p)
{
  for (int k = 0; k < p->n; k++)
    if (option_refused(pl, p->k[k])) return true;
  return false;
}

// Adds kinds of which several structures were refused and none was taken; false: there are no more.
static bool refuse_kinds(struct search_trial *t, struct planner *pl)
{
  struct kinds all = {0};
  const int before = pl->nrefused;
  for (int i = 0; i < t->n; i++)
    if (t->t[i].verdict == RIGHT && isinf(t->t[i].price) && !has_refused(pl, &t->t[i].p)) ask_kernels(pl->mem, t, i, &all);
  for (int i = 0; i < all.n; i++)
    if (!all.k[i].taken && all.k[i].refused >= ENOUGH) PUSH(pl->mem, pl->refused, pl->nrefused, pl->refused_cap) = all.k[i].kind;
  return pl->nrefused > before;
}

// Rebuilds the plans without the excluded kinds. The reason of a refusal is what the kernel computes, so most structures of a kind are refused. They may
// fill the list of plans.
static void try_others(struct search_trial *t, struct planner *pl, struct plan *plan, int most)
{
  if (!pl->o->pricer->refuse) return;
  while (pl->round < ROUNDS && !units_stopped(pl->units) && expects_more(t) && refuse_kinds(t, pl)) {
    pl->round++;
    try_families(t, plan, plan_kernels(pl, plan, most));
  }
}

// A hash of the results, operands and axes of the most expensive kernel: plans with the same hash benefit from the same sizes.
static uint64_t heart_of(const struct plan *p)
{
  const struct option *x = p->k[0];
  for (int i = 1; i < p->n; i++)
    if (p->k[i]->cost > x->cost) x = p->k[i];
  uint64_t h = hash_bytes(x->make, sizeof *x->make * (size_t)x->nmake, (uint64_t)x->node);
  return hash_mix(hash_bytes(x->need, sizeof *x->need * (size_t)x->nneed, h), (uint64_t)x->table);
}

// Tries other sizes of the cheapest graphs.
static void try_sizes(struct search_trial *t, struct planner *pl, int most)
{
  struct plan best[RESIZED], *others = NEWS(pl->mem, struct plan, most + 1);
  double far = FAR * best_price(t);
  int n = 0, from = t->n;
  qsort(t->t, (size_t)t->n, sizeof *t->t, cheaper_graph);
  for (int i = 0; i < t->n && n < RESIZED; i++) {
    bool is_new = good(&t->t[i]) && t->t[i].price <= far;
    for (int k = 0; k < n && is_new; k++) is_new = heart_of(&best[k]) != heart_of(&t->t[i].p);
    if (is_new) best[n++] = t->t[i].p;
  }
  n = plans_spread(pl, best, n, others, MAX(cost_rules(pl->m->t)->spread, SIZES / MAX(n, 1)), most - t->n);
  for (int i = 0; i < n; i++) append(t, &others[i]);
  try_all(t, from);
}

// By the search's model alone: all plans, and other sizes of the best ones.
static void try_unpriced(struct search_trial *t, struct planner *pl, const struct plan *plan, int n, int most)
{
  struct plan *others = NEWS(pl->mem, struct plan, most + 1);
  int more = pl->few ? 0 : plans_spread(pl, plan, n, others, cost_rules(pl->m->t)->spread, most - n);
  for (int i = 0; i < n; i++) append(t, &plan[i]);
  for (int i = 0; i < more; i++) append(t, &others[i]);
  try_all(t, 0);
}

static void add_found(struct arena *mem, const struct search_trial *t, int i, struct search_result *r)
{
  const struct plan *p = &t->t[i].p;
  struct found *f = &r->found[r->n];
  *f = (struct found){.cost = t->t[i].price, .structure = r->n};
  CHECK(graph_of(mem, t, i, &f->g));
  for (int k = 0; k < p->n; k++) {
    f->kernels += p->k[k]->kernels;
    f->block_ops = MAX(f->block_ops, p->k[k]->p.ops);
  }
  plan_text(t->pl, p, f->schedule, sizeof f->schedule);
  for (int k = 0; k < i; k++)
    if (t->t[k].p.family == p->family) f->structure = MIN(f->structure, k);
  r->n++;
}

// If none can be lowered, all are reported in the order of the search's model; later stages report the reason.
static void without_prices(struct search_trial *t)
{
  for (int i = 0; i < t->n; i++) t->t[i].price = t->t[i].p.cost;
}

void plans_verified(struct arena *mem, struct planner *pl, int most, struct search_result *r)
{
  int wide = ranked(pl) ? WIDER * most : most, room = wide * (1 + ROUNDS) + most * cost_rules(pl->m->t)->spread, can = 0, right = 0;
  struct plan *plans = NEWS(pl->mem, struct plan, room);
  struct search_trial t = {pl, 0, NEWS(pl->mem, struct tried, room + 1)};
  int n = plan_kernels(pl, plans, wide);
  if (ranked(pl))
    try_families(&t, plans, n), try_others(&t, pl, plans, wide), try_sizes(&t, pl, room);
  else
    try_unpriced(&t, pl, plans, n, room);
  for (int i = 0; i < t.n; i++) right += t.t[i].verdict == RIGHT, can += good(&t.t[i]);
  for (int i = 0; i < t.n && !right; i++)
    if (t.t[i].verdict == UNKNOWN) try_plan(&t, i, 0, 0), right += t.t[i].verdict == RIGHT, can += good(&t.t[i]);
  if (!can) without_prices(&t);
  qsort(t.t, (size_t)t.n, sizeof *t.t, cheaper_graph);
  r->found = NEWS(mem, struct found, right + 1);
  for (int i = 0; i < t.n; i++) {
    pl->stats->verified += t.t[i].verdict == RIGHT, pl->stats->pruned[PRUNE_FINGER] += t.t[i].verdict == WRONG;
    if (good(&t.t[i])) add_found(mem, &t, i, r);
  }
}
