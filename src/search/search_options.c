// The kernels that make one set of device tensors: every structure that the values offer, with the best sizes by the cost model, and library
// operators. A few hundred of different kinds are kept.
#include "search/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 2, SIZINGS = 1024, LONG_SUM = 1024 };

static const double FAR = 1.2; // a structure whose cost at given sizes exceeds the limit by this factor gets no sizes of its own

int64_t part_count(int64_t extent, int i)
{
  int64_t near = (int64_t)2 << i;
  if (extent > near && extent % near == 0) return near;
  for (int64_t d = near / 2 + 1; d < 2 * near && extent >= LONG_SUM; d++)
    if (2 * d * d > near * near && d * d < 2 * near * near && d < extent && extent % d == 0) return d;
  return 0;
}

struct sizing { // sizes that were chosen for kernels with the same work
  uint64_t work;
  uint64_t too_large;
  int n;
  struct sized z[SIZES];
};
struct options_gather {
  const struct planner *pl;
  struct options *to;
  int table;
  struct arena *mem;
  struct ground *ground[1 + MAX_CLASSES][PART_COUNTS]; // sizes, by the class of partial sums that are read, and their number of parts
  struct sized best[1 + PART_COUNTS];                  // the best so far, by number of parts
  struct sizing *sizing;                               // recent sizes, by hash
  int taken;                                           // number of structures accepted in a row, for the first pass
  struct works works;                                  // of the current structure,
  struct option x;                                     // and its option
};

bool partial_class(const struct space *s, mask has, int *c)
{
  for (int k = 0; k < s->nclass; k++)
    if ((has & all_of(k)) == bit(k, GRID)) return *c = k, true;
  return false;
}

int canonical_device(const struct planner *pl, int d)
{
  const struct device *dev = pl->m->dev;
  const struct visit *v = pl->m->s->visit;
  int outputs = pl->nfixed + pl->ncut;
  if (dev[d].visit < 0) return d;
  for (int k = 0; k < pl->ndev; k++) { // outputs are preferred: they are made in any case
    int i = (outputs + k) % pl->ndev;
    if (dev[i].visit >= 0 && v[dev[i].visit].tensor == v[dev[d].visit].tensor) return i;
  }
  return d;
}

uint64_t option_needs(const struct option *x)
{
  return hash_mix(hash_bytes(x->need, sizeof(int) * (size_t)x->nneed, (uint64_t)x->nneed), hash_mix((uint64_t)x->parts, (uint64_t)x->split));
}

// Hashes the name, so an additional operator in the table does not change choices among equals.
static uint64_t op_hash(enum op op) { return hash_bytes(op_rows[op].name, strlen(op_rows[op].name), 0); }

uint64_t option_structure(const struct table *t, const struct pick *p)
{
  uint64_t h = hash_mix((uint64_t)t->sch.loop + 7, (uint64_t)t->sch.ngrid);
  for (int i = 0; i < t->sch.ngrid; i++) h = hash_mix(h, (uint64_t)t->sch.grid[i]);
  for (int i = 0; i < p->n; i++) {
    const struct search_value *v = &t->v[p->value[i]];
    h = hash_mix(h, v->hash ^ v->stored);
    if (p->deriv[i] >= 0) h = hash_mix(hash_mix(h, op_hash(t->d[p->deriv[i]].op)), t->v[t->d[p->deriv[i]].a].hash);
  }
  return h;
}

uint64_t option_kind(const struct option *x)
{
  uint64_t h = hash_mix((uint64_t)x->node, hash_bytes(x->make, sizeof(int) * (size_t)x->nmake, 0));
  return hash_mix(h, hash_bytes(x->need, sizeof(int) * (size_t)x->nneed, 1));
}

bool option_refused(const struct planner *pl, const struct option *x)
{
  const uint64_t kind = pl->nrefused ? option_kind(x) : 0;
  for (int i = 0; i < pl->nrefused; i++)
    if (pl->refused[i] == kind) return true;
  return false;
}

static void add_need(const struct planner *pl, struct option *x, int leaf)
{
  int d = canonical_device(pl, leaf), i = 0;
  while (i < x->nneed && x->need[i] < d) i++;
  if (i < x->nneed && x->need[i] == d) return;
  memmove(&x->need[i + 1], &x->need[i], sizeof(int) * (size_t)(x->nneed - i));
  x->need[i] = d, x->nneed++;
}

// Whether x is too expensive to be kept, at sizes that suited a structure of the same schedule. Most structures are longer ways to compute a result
// of a shorter one.
static bool hopeless(const struct options_gather *g, const struct ground *ground, const struct sized *best)
{
  bool near;
  double below = keep_below(g->to, g->x.needs, g->table, &near);
  if (below <= 0) return true;
  if (isinf(below) || !best->at) return false;
  double cost = sizes_cost(ground, best->at, &g->works);
  return cost > FAR * below && (near || isfinite(cost));
}

// Sizes for the current work, from the cache if the same work was sized before.
static const struct sizing *size_works(struct options_gather *g, struct ground *ground)
{
  const struct option *x = &g->x;
  uint64_t work = hash_bytes(g->works.id, sizeof(int) * (size_t)g->works.n, (uint64_t)g->table);
  work = hash_mix(work, hash_mix((uint64_t)x->split, (uint64_t)x->parts));
  struct sizing *s = &g->sizing[work % SIZINGS];
  if (s->work != work) {
    s->work = work, s->too_large = 0;
    s->n = sizes_choose(ground, &g->works, s->z, SIZES, &s->too_large);
  }
  g->to->too_large += s->too_large;
  return s;
}

// Sizes for a structure. Partial sums that it reads may come in any number of parts.
static void size_option(struct options_gather *g, const struct pick *p, int reads)
{
  const struct planner *pl = g->pl;
  const struct table *t = &pl->tables[g->table];
  struct option *x = &g->x;
  for (int i = 0; i < (reads >= 0 ? PART_COUNTS : 1); i++) {
    if (reads >= 0) {
      x->split = reads, x->parts = part_count(pl->m->s->classes[reads].extent, i);
      if (!x->parts) continue;
    }
    x->needs = option_needs(x);
    struct ground **ground = &g->ground[reads + 1][i];
    struct sized *best = &g->best[i + (reads >= 0)];
    if (!*ground) *ground = sizes_open(g->mem, pl->m, t, x->split, x->parts);
    if (hopeless(g, *ground, best)) continue;
    const struct sizing *s = size_works(g, *ground);
    if (s->n && (!best->at || s->z[0].cost < best->cost)) *best = s->z[0];
    for (int k = 0; k < s->n; k++) {
      x->p = *p, x->structure = option_structure(t, p);
      x->z = *sizes_of(s->z[k].at), x->cost = s->z[k].cost;
      keep_option(g->to, x);
    }
  }
}

bool option_reads(const struct planner *pl, struct option *x, const struct pick *p, int *reads)
{
  const struct table *t = &pl->tables[x->table];
  int c;
  *reads = -1, x->nneed = 0;
  for (int i = 0; i < p->n && p->deriv[i] < 0; i++) { // leaves come first
    int leaf = t->v[p->value[i]].leaf;
    if (leaf < pl->nfixed) continue;
    add_need(pl, x, leaf);
    if (!partial_class(pl->m->s, pl->m->dev[leaf].has, &c)) continue;
    if ((*reads >= 0 && *reads != c) || x->split >= 0) return false; // parts of two classes at once
    *reads = c;
  }
  return true;
}

static bool take_pick(void *arg, const struct pick *p)
{
  struct options_gather *g = arg;
  struct option *x = &g->x;
  int reads;
  if (g->pl->few && ++g->taken > g->pl->few) return false;
  x->split = g->to->split, x->parts = g->to->parts;
  g->to->graphs++;
  if (!option_reads(g->pl, x, p, &reads) || option_refused(g->pl, x)) return true;
  work_of(&g->pl->tables[g->table], p, x->root, x->nmake, &g->works);
  size_option(g, p, reads);
  return true;
}

// Finds the value to save for each device tensor: the one at position `place`, or its first. False: no position is new.
static bool find_roots(struct options_gather *g, int place)
{
  const struct planner *pl = g->pl;
  bool anew = false;
  for (int k = 0; k < g->to->nmake; k++) {
    const int *home = &pl->home[(g->table * pl->ndev + g->to->make[k]) * HOMES];
    if (home[0] < 0) return false;
    g->x.root[k] = home[place] < 0 ? home[0] : home[place];
    anew |= home[place] >= 0;
  }
  return anew;
}

static void extract_options(struct options_gather *g, int max_ops, int extra)
{
  const struct planner *pl = g->pl;
  g->taken = 0;
  g->to->complete &= extract(&pl->tables[g->table], g->x.root, g->to->nmake, max_ops, pl->nfixed, extra, take_pick, g);
}

static void block_options(const struct planner *pl, struct options *to, int t)
{
  struct arena mem = {0};
  struct options_gather g = {.pl = pl, .to = to, .table = t, .mem = &mem, .sizing = NEWS(&mem, struct sizing, SIZINGS)};
  g.x = (struct option){.table = t, .node = -1, .nmake = to->nmake, .kernels = 1};
  memcpy(g.x.make, to->make, sizeof to->make);
  for (int home = 0; home < HOMES && find_roots(&g, home) && !stop_set(pl->o->stop); home++) {
    extract_options(&g, pl->o->max_block_ops, 0);
    if (pl->o->max_kernel_ops > 1) extract_options(&g, pl->later_ops, 3);
  }
  arena_close(&mem);
}

// Adds to x the needed device tensors whose data program tensor t is, or is a view of.
static bool need_tensor(const struct planner *pl, struct option *x, int t)
{
  const struct graph *p = pl->m->s->p;
  t = graph_root(p, t);
  if (!p->nodes[p->tensors[t].node].nin) return true;
  for (int d = pl->nfixed; d < pl->ndev; d++)
    if (pl->m->dev[d].visit >= 0 && pl->m->s->visit[pl->m->dev[d].visit].tensor == t) return add_need(pl, x, d), true;
  return false;
}

bool option_library(const struct planner *pl, const struct options *to, struct option *x)
{
  const struct device *d = &pl->m->dev[to->make[0]];
  if (to->nmake != 1 || d->visit < 0) return false;
  const struct graph *p = pl->m->s->p;
  int t = pl->m->s->visit[d->visit].tensor;
  *x = (struct option){.table = -1, .node = p->tensors[t].node, .nmake = 1, .split = -1, .kernels = 1};
  x->make[0] = to->make[0];
  const struct node *n = &p->nodes[x->node];
  enum rule rule = op_rows[n->op].rule;
  if (rule == RULE_VIEW || !n->nin) { // no kernel makes it
    x->kernels = 0;
    if (!need_tensor(pl, x, t)) return false;
  }
  for (int i = 0; i < n->nin && x->kernels; i++)
    if (!need_tensor(pl, x, n->in[i])) return false;
  x->cost = x->kernels ? cost_library(pl->m, n) : 0;
  x->structure = hash_mix(hash_mix(0, (uint64_t)x->node), 99), x->needs = option_needs(x);
  return true;
}

struct options *options_open(struct arena *mem, const int *make, int nmake, int split, int64_t parts)
{
  struct options *x = NEW(mem, struct options);
  *x = (struct options){.nmake = nmake, .split = split, .parts = parts, .complete = true};
  memcpy(x->make, make, sizeof(int) * (size_t)nmake);
  keep_open(mem, x);
  return x;
}

void options_clear(struct options *x)
{
  keep_clear(x);
  x->step = 0, x->graphs = x->too_large = 0, x->complete = true;
}

bool options_step(const struct planner *pl, struct options *to)
{
  struct option x;
  if (to->step < pl->ntables)
    block_options(pl, to, to->step);
  else if (option_library(pl, to, &x))
    keep_option(to, &x);
  return to->step++ < pl->ntables;
}
