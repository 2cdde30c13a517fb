// The kernels that make one set of device tensors: every structure that the values offer, with the sizes that the cost
// model likes best, and library operators. Of thousands a few hundred are kept, of every kind some.
#include "search/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SAME_NEEDS = 8, SAME_TABLE = 4, SAME_STRUCTURE = 2, SIZES = 2 };

static const double FAR = 1.2; // sizes of one's own gain less than this

const int64_t part_counts[PART_COUNTS] = {2, 4, 8, 16, 32};

struct gather {
  const struct planner *pl;
  struct options *to;
  int table, roots[MAX_ROOTS], taken;
  struct sized like[1 + PART_COUNTS]; // the cheapest with these sizes so far, by parts of the partial sums that are read; cost 0: none
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
  for (int i = 0; i < d && dev[d].visit >= 0; i++)
    if (dev[i].visit >= 0 && pl->m->s->visit[dev[i].visit].tensor == pl->m->s->visit[dev[d].visit].tensor) return i;
  return d;
}

// What is kept that is like x: of its needs, of its schedule among those, of its structure; and the dearest of each.
struct likes {
  int kin, near, twins, worst_kin, worst_near, worst_twin;
};

static struct likes likes_of(const struct options *to, const struct option *x)
{
  struct likes l = {.worst_kin = -1, .worst_near = -1, .worst_twin = -1};
  for (int i = 0; i < to->n; i++) {
    const struct key *y = &to->key[i];
    if (y->needs != x->needs) continue;
    if (!l.kin++ || y->cost > to->key[l.worst_kin].cost) l.worst_kin = i;
    if (y->table == x->table && (!l.near++ || y->cost > to->key[l.worst_near].cost)) l.worst_near = i;
    if (y->structure == x->structure && (!l.twins++ || y->cost > to->key[l.worst_twin].cost)) l.worst_twin = i;
  }
  return l;
}

// Those that need the same; NULL where there is no place for them.
static struct group *group_of(struct options *to, uint64_t needs)
{
  int i = (int)(needs % GROUPS), steps = 0;
  while (to->group[i].seen && to->group[i].needs != needs && ++steps < GROUPS) i = (i + 1) % GROUPS;
  if (steps == GROUPS) return NULL;
  to->group[i].needs = needs, to->group[i].seen = true;
  return &to->group[i];
}

// The dearest option of the needs that have most of them.
static int dearest_of_most(const struct options *to, int *most)
{
  const struct group *largest = to->group;
  int worst = -1;
  for (int i = 1; i < GROUPS; i++)
    if (to->group[i].n > largest->n) largest = &to->group[i];
  for (int i = 0; i < to->n; i++)
    if (to->key[i].needs == largest->needs && (worst < 0 || to->key[i].cost > to->key[worst].cost)) worst = i;
  *most = largest->n;
  return worst;
}

// Keeps the cheapest of each kind: a few with the same needs, fewer of the same schedule, of the same structure. What a
// kernel needs may cost more than the kernel, so where there is no room those needs give way that have most options.
static void keep_option(struct options *to, const struct option *x)
{
  struct likes l = likes_of(to, x);
  int most, at = l.twins >= SAME_STRUCTURE ? l.worst_twin : l.near >= SAME_TABLE ? l.worst_near : l.kin >= SAME_NEEDS ? l.worst_kin : -1;
  if (at < 0 && to->n == MOST_OPTIONS) {
    at = dearest_of_most(to, &most);
    if (most <= l.kin + 1 && (at = l.worst_kin) < 0) return;
  }
  if (at >= 0 && to->key[at].needs == x->needs && to->key[at].cost <= x->cost) return;
  struct group *into = group_of(to, x->needs);
  if (!into) return;
  if (at < 0) at = to->n++;
  else group_of(to, to->key[at].needs)->n--;
  to->o[at] = *x, into->n++;
  to->key[at] = (struct key){x->needs, x->structure, x->cost, x->table};
}

bool options_append(struct options *to, const struct option *x)
{
  struct group *into = to->n < MOST_OPTIONS ? group_of(to, x->needs) : NULL;
  if (!into) return false;
  into->n++;
  to->key[to->n] = (struct key){x->needs, x->structure, x->cost, x->table};
  to->o[to->n++] = *x;
  return true;
}

uint64_t option_needs(const struct option *x)
{
  return hash_mix(hash_bytes(x->need, sizeof(int) * (size_t)x->nneed, (uint64_t)x->nneed), hash_mix((uint64_t)x->parts, (uint64_t)x->split));
}

static uint64_t pick_hash(const struct table *t, const struct pick *p)
{
  uint64_t h = hash_mix((uint64_t)t->sch.loop + 7, (uint64_t)t->sch.ngrid);
  for (int i = 0; i < t->sch.ngrid; i++) h = hash_mix(h, (uint64_t)t->sch.grid[i]);
  for (int i = 0; i < p->n; i++) {
    const struct value *v = &t->v[p->value[i]];
    h = hash_mix(h, v->hash ^ v->stored);
    if (p->deriv[i] >= 0) h = hash_mix(hash_mix(h, t->d[p->deriv[i]].op), t->v[t->d[p->deriv[i]].a].hash);
  }
  return h;
}

static void add_need(const struct planner *pl, struct option *x, int leaf)
{
  int d = canonical_device(pl, leaf), i = 0;
  while (i < x->nneed && x->need[i] < d) i++;
  if (i < x->nneed && x->need[i] == d) return;
  memmove(&x->need[i + 1], &x->need[i], sizeof(int) * (size_t)(x->nneed - i));
  x->need[i] = d, x->nneed++;
}

// Most structures are longer ways to compute what a shorter one does. Does x, with sizes that were good for one of the
// same schedule, come nowhere near the worst that is kept of its needs?
static bool hopeless(const struct gather *g, const struct option *x, const struct sized *like)
{
  const struct options *to = g->to;
  struct likes l = likes_of(to, x);
  bool near = l.near >= SAME_TABLE, kin = l.kin >= SAME_NEEDS;
  if (like->cost <= 0 || (!near && !kin)) return false;
  double cost = cost_kernel(g->pl->m, &g->pl->tables[g->table], &x->p, g->roots, x->nmake, &like->z);
  return cost > FAR * to->key[near ? l.worst_near : l.worst_kin].cost && (near || isfinite(cost));
}

// Sizes for a structure. Partial sums that it reads may come in any number of parts.
static void size_option(struct gather *g, struct option *x, int reads)
{
  const struct planner *pl = g->pl;
  const struct table *t = &pl->tables[g->table];
  struct sized z[SIZES];
  for (int i = 0; i < (reads >= 0 ? PART_COUNTS : 1); i++) {
    if (reads >= 0) {
      if (pl->m->s->class[reads].extent % part_counts[i] || pl->m->s->class[reads].extent == part_counts[i]) continue;
      x->split = reads, x->parts = part_counts[i];
    }
    x->needs = option_needs(x);
    struct sized *like = &g->like[i + 1 - (reads < 0)];
    if (hopeless(g, x, like)) continue;
    int n = sizes_choose(pl->m, t, &x->p, g->roots, x->nmake, x->split, x->parts, z, SIZES, &g->to->too_large);
    if (n && (like->cost <= 0 || z[0].cost < like->cost)) *like = z[0];
    for (int k = 0; k < n; k++) {
      x->z = z[k], x->cost = z[k].cost;
      keep_option(g->to, x);
    }
  }
}

bool option_describe(const struct planner *pl, struct option *x, int *reads)
{
  const struct table *t = &pl->tables[x->table];
  int c;
  *reads = -1;
  for (int i = 0; i < x->p.n; i++) {
    int leaf = x->p.deriv[i] < 0 ? t->v[x->p.value[i]].leaf : -1;
    if (leaf < pl->nfixed) continue;
    add_need(pl, x, leaf);
    if (!partial_class(pl->m->s, pl->m->dev[leaf].has, &c)) continue;
    if ((*reads >= 0 && *reads != c) || x->split >= 0) return false;
    *reads = c;
  }
  x->structure = pick_hash(t, &x->p);
  return true;
}

static bool take_pick(void *arg, const struct pick *p)
{
  struct gather *g = arg;
  struct option x = {.table = g->table, .node = -1, .p = *p, .nmake = g->to->nmake, .split = g->to->split,
                     .parts = g->to->parts, .kernels = 1};
  memcpy(x.make, g->to->make, sizeof x.make), memcpy(x.root, g->roots, sizeof x.root);
  int reads;
  if (g->pl->few && ++g->taken > g->pl->few) return false;
  g->to->graphs++;
  if (option_describe(g->pl, &x, &reads)) size_option(g, &x, reads);
  return true;
}

// The values to save: of each device tensor the one at that place, or its first; false where no place is new.
static bool find_roots(struct gather *g, int place)
{
  const struct planner *pl = g->pl;
  bool anew = false;
  for (int k = 0; k < g->to->nmake; k++) {
    const int *home = &pl->home[(g->table * pl->ndev + g->to->make[k]) * HOMES];
    if (home[0] < 0) return false;
    g->roots[k] = home[place] < 0 ? home[0] : home[place];
    anew |= home[place] >= 0;
  }
  return anew;
}

static void block_options(const struct planner *pl, struct options *to, int t)
{
  int extra = pl->o->max_kernel_ops > 1 ? 3 : 0;
  struct gather g = {.pl = pl, .to = to, .table = t};
  for (int home = 0; home < HOMES && find_roots(&g, home); home++) {
    if (pl->o->stop && *pl->o->stop) return;
    to->complete &= extract(&pl->tables[t], g.roots, to->nmake, pl->o->max_block_ops, pl->nfixed, 0, take_pick, &g);
    if (pl->few) g.taken = 0;
    if (extra) to->complete &= extract(&pl->tables[t], g.roots, to->nmake, pl->later_ops, pl->nfixed, extra, take_pick, &g);
  }
}

// Device tensors that program tensor t is a view of (itself, where it is no view): needed ones into x.
static bool need_tensor(const struct planner *pl, struct option *x, int t)
{
  const struct graph *p = pl->m->s->p;
  while (op_rows[p->nodes[p->tensors[t].node].op].rule == RULE_VIEW) t = p->nodes[p->tensors[t].node].in[0];
  if (op_rows[p->nodes[p->tensors[t].node].op].rule == RULE_IO || op_rows[p->nodes[p->tensors[t].node].op].rule == RULE_CONST) return true;
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
  if (op_rows[n->op].rule == RULE_VIEW) {
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
  x->o = NEWS(mem, struct option, MOST_OPTIONS), x->key = NEWS(mem, struct key, MOST_OPTIONS), x->group = NEWS(mem, struct group, GROUPS);
  memcpy(x->make, make, sizeof(int) * (size_t)nmake);
  return x;
}

void options_clear(struct options *x)
{
  memset(x->group, 0, sizeof(struct group) * GROUPS);
  x->n = x->step = 0, x->graphs = x->too_large = 0, x->complete = true;
}

bool options_step(const struct planner *pl, struct options *to)
{
  struct option x;
  if (to->step < pl->ntables) block_options(pl, to, to->step);
  else if (option_library(pl, to, &x)) keep_option(to, &x);
  return to->step++ < pl->ntables;
}
