// Kernels as edges. A program is computed by a chain of kernels, each of which makes device tensors from inputs and
// from what earlier kernels left. Plans are built from the outputs backwards, one kernel more at a time: take a
// device tensor that is still needed, try every kernel that makes it (alone, or with the others that the same
// schedule can make), and need what that kernel reads. A kernel's cost depends only on itself, and what is needed
// costs at least its cheapest chain of kernels: that bound ranks unfinished plans, of which the best go on.
#include "search/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPTIONS = 256, GROUPS = 1024, SAME_NEEDS = 8, SAME_TABLE = 4, SAME_STRUCTURE = 2, MAX_NEEDS = 12, WIDTH = 600, MOST_JOINT = 120, DONE = 1024, SIZES = 2, SAME_FAMILY = 4 };

static const double FAR = 1.2; // sizes of one's own gain less than this

// Partial sums come in one of these numbers of parts.
static const int64_t part_counts[] = {2, 4, 8, 16, 32};
enum { PART_COUNTS = COUNT(part_counts), WAYS = 1 + PART_COUNTS };

// ---- options ------------------------------------------------------------------------------------------------------

struct group {   // those that need the same
  uint64_t needs;
  int n;
  bool seen;
};
struct key {     // of an option, what is compared most
  uint64_t needs, structure;
  double cost;
  int table;
};
struct options { // kernels that make one set of device tensors
  int nmake, make[MAX_ROOTS];
  int split;     // given by who reads the partial sums
  int64_t parts;
  int n;
  struct option *o;
  struct key *key;
  struct group *group; // [GROUPS], by hash
  uint64_t graphs, too_large;
  bool complete;
  double bound;  // no chain of kernels that makes these is cheaper; of single device tensors
  int chain;     // nor shorter
};
struct gather {
  struct planner *pl;
  struct options *to;
  int table, roots[MAX_ROOTS];
  struct sized like[WAYS]; // the cheapest with these sizes so far, by parts of the partial sums that are read; cost 0: none
};

static bool partial_class(const struct space *s, mask has, int *c)
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

static uint64_t needs_hash(const struct option *x)
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
  struct planner *pl = g->pl;
  const struct table *t = &pl->tables[g->table];
  struct sized z[SIZES];
  for (int i = 0; i < (reads >= 0 ? PART_COUNTS : 1); i++) {
    if (reads >= 0) {
      if (pl->m->s->class[reads].extent % part_counts[i] || pl->m->s->class[reads].extent == part_counts[i]) continue;
      x->split = reads, x->parts = part_counts[i];
    }
    x->needs = needs_hash(x);
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

static bool take_pick(void *arg, const struct pick *p)
{
  struct gather *g = arg;
  struct planner *pl = g->pl;
  const struct table *t = &pl->tables[g->table];
  struct option x = {.table = g->table, .node = -1, .p = *p, .nmake = g->to->nmake, .split = g->to->split,
                     .parts = g->to->parts, .kernels = 1};
  memcpy(x.make, g->to->make, sizeof x.make), memcpy(x.root, g->roots, sizeof x.root);
  int reads = -1, c;
  g->to->graphs++;
  for (int i = 0; i < p->n; i++) {
    int leaf = p->deriv[i] < 0 ? t->v[p->value[i]].leaf : -1;
    if (leaf < pl->nfixed) continue;
    add_need(pl, &x, leaf);
    if (!partial_class(pl->m->s, pl->m->dev[leaf].has, &c)) continue;
    if ((reads >= 0 && reads != c) || x.split >= 0) return true; // two classes in parts at once
    reads = c;
  }
  x.structure = pick_hash(t, p);
  size_option(g, &x, reads);
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

static void block_options(struct planner *pl, struct options *to)
{
  int extra = pl->o->max_kernel_ops > 1 ? 3 : 0;
  for (int t = 0; t < pl->ntables; t++) {
    struct gather g = {.pl = pl, .to = to, .table = t};
    for (int home = 0; home < HOMES && find_roots(&g, home); home++) {
      if (pl->o->stop && *pl->o->stop) return;
      to->complete &= extract(&pl->tables[t], g.roots, to->nmake, pl->o->max_block_ops, pl->nfixed, 0, take_pick, &g);
      if (extra) to->complete &= extract(&pl->tables[t], g.roots, to->nmake, pl->o->max_block_ops, pl->nfixed, extra, take_pick, &g);
    }
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

static void library_option(struct planner *pl, struct options *to)
{
  const struct device *d = &pl->m->dev[to->make[0]];
  if (to->nmake != 1 || d->visit < 0) return;
  const struct graph *p = pl->m->s->p;
  int t = pl->m->s->visit[d->visit].tensor;
  struct option x = {.table = -1, .node = p->tensors[t].node, .nmake = 1, .split = -1, .kernels = 1};
  x.make[0] = to->make[0];
  const struct node *n = &p->nodes[x.node];
  if (op_rows[n->op].rule == RULE_VIEW) {
    x.kernels = 0;
    if (!need_tensor(pl, &x, t)) return;
  }
  for (int i = 0; i < n->nin && x.kernels; i++)
    if (!need_tensor(pl, &x, n->in[i])) return;
  x.cost = x.kernels ? cost_library(pl->m, n) : 0;
  x.structure = hash_mix(hash_mix(0, (uint64_t)x.node), 99), x.needs = needs_hash(&x);
  keep_option(to, &x);
}

// ---- plans ------------------------------------------------------------------------------------------------------------

struct state {
  struct plan p;
  double bound;  // of the whole plan
  int kernels, nneed, need[MAX_NEEDS];
  int ndone, done[MAX_CHAIN * 2];
  int split;
  int64_t parts;
};
struct beam {    // the best states of one length; the worst of them on top of a heap
  int n, most;
  struct state **s;
  uint64_t *age; // ties by age
  uint64_t ages;
};
struct search {
  struct planner *pl;
  int nsets, sets_cap, filled; // those after the first `filled` wait for their options
  struct options **sets;
  int *alone;    // set that makes one device tensor: [device * WAYS + way], or -1
  int joint;     // sets that make several
  struct beam next, done[MAX_CHAIN + 1]; // done: by number of kernels
};

static struct beam beam_open(struct planner *pl, int most)
{
  struct beam b = {.most = most, .s = NEWS(pl->mem, struct state *, most), .age = NEWS(pl->mem, uint64_t, most)};
  return b;
}

static bool worse(const struct beam *b, int i, int k)
{
  double x = b->s[i]->bound, y = b->s[k]->bound;
  return x > y || (x >= y && b->age[i] > b->age[k]);
}

static void swap(struct beam *b, int i, int k)
{
  struct state *s = b->s[i];
  uint64_t a = b->age[i];
  b->s[i] = b->s[k], b->age[i] = b->age[k], b->s[k] = s, b->age[k] = a;
}

static void sink(struct beam *b, int n, int i)
{
  for (int k; (k = 2 * i + 1) < n; i = k) {
    if (k + 1 < n && worse(b, k + 1, k)) k++;
    if (!worse(b, k, i)) break;
    swap(b, i, k);
  }
}

static void push(struct planner *pl, struct beam *b, const struct state *s)
{
  if (b->n < b->most) {
    int i = b->n++;
    if (!b->s[i]) b->s[i] = NEW(pl->mem, struct state);
    *b->s[i] = *s, b->age[i] = b->ages++;
    for (; i && worse(b, i, (i - 1) / 2); i = (i - 1) / 2) swap(b, i, (i - 1) / 2);
  } else if (s->bound < b->s[0]->bound) {
    *b->s[0] = *s, b->age[0] = b->ages++;
    sink(b, b->n, 0);
  }
}

// Best first.
static void beam_sort(struct beam *b)
{
  for (int n = b->n - 1; n > 0; n--) {
    swap(b, 0, n);
    sink(b, n, 0);
  }
}

static struct options *options_of(struct search *se, const int *make, int nmake, int split, int64_t parts)
{
  struct arena *mem = se->pl->mem;
  for (int i = 0; i < se->nsets; i++) {
    struct options *x = se->sets[i];
    if (x->nmake == nmake && x->split == split && x->parts == parts && !memcmp(x->make, make, sizeof(int) * (size_t)nmake)) return x;
  }
  if (nmake > 1 && se->joint++ >= MOST_JOINT) return NULL;
  struct options *x = PUSH(mem, se->sets, se->nsets, se->sets_cap) = NEW(mem, struct options);
  *x = (struct options){.nmake = nmake, .split = split, .parts = parts, .complete = true};
  x->o = NEWS(mem, struct option, MOST_OPTIONS), x->key = NEWS(mem, struct key, MOST_OPTIONS), x->group = NEWS(mem, struct group, GROUPS);
  memcpy(x->make, make, sizeof(int) * (size_t)nmake);
  return x;
}

static void fill_one(void *arg, int i, int worker)
{
  (void)worker;
  struct search *se = arg;
  struct options *x = se->sets[se->filled + i];
  block_options(se->pl, x);
  library_option(se->pl, x);
}

// The options of all that wait for them, each set by one thread.
static void fill(struct search *se)
{
  pool_run(se->pl->o->threads, se->nsets - se->filled, fill_one, se);
  for (; se->filled < se->nsets; se->filled++) {
    const struct options *x = se->sets[se->filled];
    se->pl->stats->graphs += x->graphs, se->pl->stats->pruned[PRUNE_MEMORY] += x->too_large;
    se->pl->complete &= x->complete;
  }
}

// ---- bounds -----------------------------------------------------------------------------------------------------------

static int way_of(const struct planner *pl, int d, int split, int64_t parts)
{
  int c, way = 0;
  if (!partial_class(pl->m->s, pl->m->dev[d].has, &c)) return 0;
  while (way < PART_COUNTS && part_counts[way] != parts) way++;
  return c == split && way < PART_COUNTS ? way + 1 : -1;
}

static int set_of(struct search *se, int d, int split, int64_t parts)
{
  int way = way_of(se->pl, d, split, parts);
  if (way < 0) return -1;
  int *at = &se->alone[d * WAYS + way];
  if (*at < 0) {
    *at = se->nsets;
    options_of(se, &d, 1, way ? split : -1, way ? parts : 0);
  }
  return *at;
}

// What n needs take at least: seconds, the sum of each alone, and kernels.
struct least {
  double most, sum;
  int chain;
};
static struct least bound_of(struct search *se, const int *need, int n, int split, int64_t parts)
{
  struct least l = {0};
  for (int i = 0; i < n; i++) {
    int set = set_of(se, need[i], split, parts);
    double bound = set < 0 ? INFINITY : se->sets[set]->bound;
    l.most = fmax(l.most, bound), l.sum += bound, l.chain = MAX(l.chain, set < 0 ? MAX_CHAIN : se->sets[set]->chain);
  }
  return l;
}

// Makes the options of everything that can be needed, then raises bounds until they stand.
static void bounds(struct search *se)
{
  for (int i = 0; i < se->nsets; i++) {
    if (i >= se->filled) fill(se);
    for (int k = 0; k < se->sets[i]->n; k++) {
      const struct option *x = &se->sets[i]->o[k];
      for (int m = 0; m < x->nneed; m++) set_of(se, x->need[m], x->split, x->parts);
    }
  }
  for (bool changed = true, first = true; changed || first; first = false) {
    changed = false;
    for (int i = 0; i < se->nsets; i++) {
      struct options *s = se->sets[i];
      double best = INFINITY;
      int chain = MAX_CHAIN;
      for (int k = 0; k < s->n; k++) {
        struct least l = bound_of(se, s->o[k].need, s->o[k].nneed, s->o[k].split, s->o[k].parts);
        best = fmin(best, s->o[k].cost + l.most), chain = MIN(chain, s->o[k].kernels + l.chain);
      }
      if (best > s->bound * 1.0001 + 1e-9 && s->bound < 1) s->bound = best, changed = true;
      if (chain > s->chain) s->chain = chain, changed = true;
    }
  }
}

static bool in(const int *list, int n, int x)
{
  for (int i = 0; i < n; i++)
    if (list[i] == x) return true;
  return false;
}

// What a kernel reads and makes and what its axes run over; not how it computes that.
static uint64_t family_of(const struct planner *pl, const struct option *x)
{
  uint64_t h = hash_mix((uint64_t)x->node, hash_bytes(x->make, sizeof(int) * (size_t)x->nmake, 0));
  h = hash_mix(h, hash_bytes(x->need, sizeof(int) * (size_t)x->nneed, 1));
  return x->table < 0 ? h : hash_mix(h, hash_bytes(&pl->tables[x->table].sch, sizeof(struct schedule), 2));
}

static void extend(struct search *se, const struct state *s, const struct option *x)
{
  struct planner *pl = se->pl;
  struct state t = *s;
  if (t.p.n == MAX_CHAIN || (t.kernels += x->kernels) > pl->o->max_kernel_ops) {
    pl->stats->pruned[PRUNE_SIZE]++;
    return;
  }
  t.nneed = 0;
  for (int i = 0; i < s->nneed; i++)
    if (!in(x->make, x->nmake, s->need[i])) t.need[t.nneed++] = s->need[i];
  for (int i = 0; i < x->nmake; i++) t.done[t.ndone++] = x->make[i];
  for (int i = 0; i < x->nneed; i++) {
    if (in(t.done, t.ndone, x->need[i]) || in(t.need, t.nneed, x->need[i])) continue;
    if (t.nneed == MAX_NEEDS || t.ndone + 2 * MAX_ROOTS > (int)COUNT(t.done)) return;
    int at = t.nneed++;
    for (; at && t.need[at - 1] > x->need[i]; at--) t.need[at] = t.need[at - 1];
    t.need[at] = x->need[i];
  }
  if (x->split >= 0) t.split = x->split, t.parts = x->parts;
  t.p.k[t.p.n++] = x;
  t.p.cost += x->cost + 1e-12 * x->p.ops, t.p.structure = hash_mix(t.p.structure, x->structure);
  t.p.family = hash_mix(t.p.family, family_of(pl, x));
  struct least l = bound_of(se, t.need, t.nneed, t.split, t.parts);
  if (t.kernels + l.chain > pl->o->max_kernel_ops) {
    pl->stats->pruned[PRUNE_SIZE]++;
    return;
  }
  // between "one kernel makes all that is needed" and "each is made alone"
  t.bound = t.p.cost + l.most + (isfinite(l.sum) ? 0.25 * (l.sum - l.most) : 0);
  if (isfinite(t.bound)) push(pl, t.nneed ? &se->next : &se->done[MIN(t.kernels, MAX_CHAIN)], &t);
}

// Options for the last need alone (both: for everything that is needed at once); NULL where there are none.
static const struct options *next_kernels(struct search *se, const struct state *s, bool both)
{
  const struct planner *pl = se->pl;
  int make[MAX_ROOTS] = {s->need[s->nneed - 1]}, nmake = 1, c, split = -1;
  if (both) {
    if (s->nneed == 1 || s->nneed > MAX_ROOTS) return NULL;
    memcpy(make, s->need, sizeof(int) * (size_t)s->nneed);
    nmake = s->nneed;
  }
  for (int i = 0; i < nmake; i++)
    if (partial_class(pl->m->s, pl->m->dev[make[i]].has, &c)) split = c;
  if (split >= 0 && split != s->split) return NULL; // nobody said in how many parts
  return options_of(se, make, nmake, split, split >= 0 ? s->parts : 0);
}

static void expand_all(struct search *se, const struct beam *now)
{
  const struct options **x = NEWS(se->pl->mem, const struct options *, 2 * now->n + 1);
  for (int i = 0; i < 2 * now->n; i++) x[i] = next_kernels(se, now->s[i / 2], i % 2);
  fill(se);
  for (int i = 0; i < 2 * now->n; i++)
    for (int k = 0; x[i] && k < x[i]->n; k++) extend(se, now->s[i / 2], &x[i]->o[k]);
}

// Is there one like it already? Other sizes of the same come from measuring.
static bool crowded(const struct plan *out, int n, const struct plan *p)
{
  int kin = 0;
  for (int i = 0; i < n; i++) {
    if (out[i].structure == p->structure) return true;
    kin += out[i].family == p->family;
  }
  return kin >= SAME_FAMILY;
}

static int cheaper(const void *x, const void *y)
{
  const struct plan *a = x, *b = y;
  if (a->cost < b->cost || a->cost > b->cost) return a->cost < b->cost ? -1 : 1;
  return a->structure < b->structure ? -1 : a->structure > b->structure;
}

// Takes up to `most` plans of those with so many kernels, best first.
static int take_done(const struct beam *done, struct plan *out, int n, int most)
{
  for (int i = 0; i < done->n && n < most; i++)
    if (!crowded(out, n, &done->s[i]->p)) out[n++] = done->s[i]->p;
  return n;
}

int plan_kernels(struct planner *pl, struct plan *out, int most)
{
  struct search se = {.pl = pl, .alone = NEWS(pl->mem, int, pl->ndev * WAYS)};
  struct state first = {.split = -1};
  memset(se.alone, -1, sizeof(int) * (size_t)(pl->ndev * WAYS));
  for (int i = 0; i < pl->ntables; i++) extract_open(pl->mem, &pl->tables[i], pl->nfixed);
  for (int d = pl->nfixed + pl->ncut; d < pl->ndev; d++) {
    if (first.nneed < MAX_NEEDS) first.need[first.nneed++] = d;
    set_of(&se, d, -1, 0);
  }
  bounds(&se);
  se.next = beam_open(pl, WIDTH);
  int longest = MIN(pl->o->max_kernel_ops, MAX_CHAIN), n = 0;
  for (int i = 0; i <= longest; i++) se.done[i] = beam_open(pl, DONE);
  struct beam now = beam_open(pl, WIDTH);
  push(pl, &se.next, &first);
  for (int kernels = 0; kernels < MAX_CHAIN && se.next.n && !(pl->o->stop && *pl->o->stop); kernels++) {
    struct beam swapped = now;
    now = se.next, se.next = swapped, se.next.n = 0;
    beam_sort(&now);
    expand_all(&se, &now);
  }
  // the model errs most between numbers of kernels: each number gets its share of places, then what they leave
  int share = MAX(1, most / MAX(1, longest));
  for (int i = 0; i <= longest; i++) beam_sort(&se.done[i]), n = take_done(&se.done[i], out, n, MIN(most, n + share));
  for (int i = 0; i <= longest; i++) n = take_done(&se.done[i], out, n, most);
  qsort(out, (size_t)n, sizeof *out, cheaper);
  return n;
}
