// Kernels as edges. A program is computed by a chain of kernels, each of which makes device tensors from inputs and from results of earlier kernels.
// Plans are built backwards from the outputs, one kernel at a time. For a device tensor that is still needed, each kernel that makes it is tried,
// alone or with all others that the same schedule can make; its operands are then needed. A kernel's cost depends only on the kernel, and a needed
// tensor costs at least its cheapest chain of kernels. An estimate from these bounds ranks partial plans, and the best are extended.
//
// With many small tensors that can be stored in many ways, the estimate is too low for any actual chain, and the best partial plans are nearly equal.
// So plans are built a second time with kernels that store only the program's tensors. This time only a limited number of plans with the same
// expensive parts is extended.
#include "search/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 600, DONE = 1024, SAME_FAMILY = 4, WAYS = 1 + PART_COUNTS, SAME_HEAVY = 75 };

static const double LIGHT = 0.1; // needs below this share of the largest bound do not distinguish plans

struct search {
  struct planner *pl;
  int nsets, sets_cap, filled; // sets after the first `filled` have no options yet
  struct options **sets;
  int *alone;                            // the set that makes one device tensor: [device * WAYS + way], or -1
  int joint;                             // number of sets that make several
  bool own;                              // only chains of kernels that leave tensors of the program
  bool each;                             // estimates count each need in full, as if a separate kernel made it
  struct beam next, done[MAX_CHAIN + 1]; // done: by number of kernels
  struct arena scratch;
};

// ---- sets -------------------------------------------------------------------------------------------------------------

static struct options *options_of(struct search *se, const int *make, int nmake, int split, int64_t parts)
{
  struct arena *mem = se->pl->mem;
  for (int i = 0; i < se->nsets; i++) {
    struct options *x = se->sets[i];
    if (x->nmake == nmake && x->split == split && x->parts == parts && !memcmp(x->make, make, sizeof(int) * (size_t)nmake)) return x;
  }
  if (nmake > 1 && se->joint++ >= MOST_JOINT) return se->pl->all_sets = false, NULL;
  return PUSH(mem, se->sets, se->nsets, se->sets_cap) = options_open(mem, make, nmake, split, parts);
}

static bool fill_one(void *arg, int i, int worker, double until)
{
  (void)worker;
  struct search *se = arg;
  while (options_step(se->pl, se->sets[se->filled + i]))
    if (now_seconds() > until) return false;
  return true;
}

static void pack_one(void *arg, int i, struct str *out)
{
  const struct search *se = arg;
  options_pack(se->pl, se->sets[se->filled + i], out);
}

static bool unpack_one(void *arg, int i, struct bytes *in, bool *whole)
{
  struct search *se = arg;
  struct options *x = se->sets[se->filled + i];
  if (!options_unpack(se->pl, x, in)) return false;
  return *whole = x->step > se->pl->ntables, true;
}

// Fills the options of all waiting sets; each set is filled by one thread.
static void fill(struct search *se)
{
  const int stage = se->pl->round ? UNIT_OPTIONS_AGAIN + se->pl->round - 1 : UNIT_OPTIONS;
  units_run(se->pl->units, &(struct batch){stage, se->filled, se->nsets - se->filled, true, se, fill_one, pack_one, unpack_one});
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
  while (way < PART_COUNTS && part_count(pl->m->s->classes[c].extent, way) != parts) way++;
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

// Bounds for n needs: the largest and the sum of their seconds, and the longest of their chains.
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

// Makes the options for all device tensors that may be needed, then raises bounds until they are stable.
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

// A hash of the kernel's kind and of its schedule.
static uint64_t family_of(const struct planner *pl, const struct option *x)
{
  uint64_t h = option_kind(x);
  return x->table < 0 ? h : hash_mix(h, hash_bytes(&pl->tables[x->table].sch, sizeof(struct search_schedule), 2));
}

// A hash of the needs that cost most. Most states differ only in small tensors that cost almost nothing.
static uint64_t heavy_of(struct search *se, const struct unfinished *s, double most)
{
  uint64_t h = hash_mix((uint64_t)s->split, (uint64_t)s->parts);
  for (int i = 0; i < s->nneed; i++)
    if (se->sets[set_of(se, s->need[i], s->split, s->parts)]->bound > LIGHT * most) h = hash_mix(h, (uint64_t)s->need[i]);
  return h;
}

// Whether x needs only tensors of the program.
static bool reads_own(const struct planner *pl, const struct option *x)
{
  for (int i = 0; i < x->nneed; i++)
    if (pl->m->dev[x->need[i]].visit < 0) return false;
  return true;
}

static void extend(struct search *se, const struct unfinished *s, const struct option *x)
{
  struct planner *pl = se->pl;
  if (se->own && !reads_own(pl, x)) return;
  struct unfinished t = *s;
  if (t.p.n == MAX_CHAIN || (t.kernels += x->kernels) > pl->o->max_kernel_ops) {
    pl->stats->pruned[PRUNE_SIZE]++;
    return;
  }
  t.nneed = 0;
  for (int i = 0; i < s->nneed; i++)
    if (!in(x->make, x->nmake, s->need[i])) t.need[t.nneed++] = s->need[i];
  for (int i = 0; i < x->nmake; i++) t.done[t.ndone++] = x->make[i];
  for (int i = 0; i < x->nneed; i++) {
    if (in(t.done, t.ndone, x->need[i])) return; // x or a later kernel makes that tensor
    if (in(t.need, t.nneed, x->need[i])) continue;
    if (t.nneed == MAX_NEEDS || t.ndone + 2 * MAX_ROOTS > (int)COUNT(t.done)) return;
    int at = t.nneed++;
    for (; at && t.need[at - 1] > x->need[i]; at--) t.need[at] = t.need[at - 1];
    t.need[at] = x->need[i];
  }
  if (x->split >= 0) t.split = x->split, t.parts = x->parts;
  t.p.k[t.p.n++] = x;
  t.p.cost += x->cost + 1e-12 * x->p.ops, t.p.structure = hash_mix(t.p.structure, x->structure);
  t.p.kind = hash_mix(t.p.kind, option_kind(x)), t.p.family = hash_mix(t.p.family, family_of(pl, x));
  struct least l = bound_of(se, t.need, t.nneed, t.split, t.parts);
  if (t.kernels + l.chain > pl->o->max_kernel_ops) {
    pl->stats->pruned[PRUNE_SIZE]++;
    return;
  }
  // between "one kernel makes everything needed" and "each is made alone"
  t.bound = t.p.cost + l.most + (isfinite(l.sum) ? (se->each ? 1 : 0.25) * (l.sum - l.most) : 0);
  if (!isfinite(t.bound)) return;
  t.heavy = heavy_of(se, &t, l.most);
  beam_push(pl->mem, t.nneed ? &se->next : &se->done[MIN(t.kernels, MAX_CHAIN)], &t);
}

// The needs of s that table t can make together, in ascending order. Returns their number; 0 if the last need is not among them.
static int together(const struct planner *pl, const struct unfinished *s, int t, int make[MAX_ROOTS])
{
  int n = 0;
  for (int i = s->nneed - 1; i >= 0 && n < MAX_ROOTS; i--) {
    bool can = pl->home[(t * pl->ndev + s->need[i]) * HOMES] >= 0;
    if (i == s->nneed - 1 && !can) return 0;
    if (can) make[n++] = s->need[i];
  }
  for (int i = 0; i < n / 2; i++) { // ascending
    int x = make[i];
    make[i] = make[n - 1 - i], make[n - 1 - i] = x;
  }
  return n;
}

// The options that make these; NULL if there are none.
static const struct options *options_for(struct search *se, const struct unfinished *s, const int *make, int nmake)
{
  const struct planner *pl = se->pl;
  int c, split = -1;
  for (int i = 0; i < nmake; i++)
    if (partial_class(pl->m->s, pl->m->dev[make[i]].has, &c)) split = c;
  if (split >= 0 && split != s->split) return NULL; // no reader has fixed the number of parts
  return options_of(se, make, nmake, split, split >= 0 ? s->parts : 0);
}

// Options for the last need alone, then for it and all others that the same schedule can make. Returns their number.
static int next_kernels(struct search *se, const struct unfinished *s, const struct options *out[MAX_SETS])
{
  struct planner *pl = se->pl;
  int make[MAX_ROOTS] = {s->need[s->nneed - 1]}, n = 0;
  const struct options *more = options_for(se, s, make, 1);
  if (more) out[n++] = more;
  for (int t = 0; t < pl->ntables && s->nneed > 1; t++) {
    int nmake = together(pl, s, t, make), i = 0;
    if (nmake < 2) continue;
    while (i < n && (out[i]->nmake != nmake || memcmp(out[i]->make, make, sizeof(int) * (size_t)nmake))) i++;
    if (i < n) continue;
    if (n == MAX_SETS) return pl->all_sets = false, n;
    if ((more = options_for(se, s, make, nmake))) out[n++] = more;
  }
  return n;
}

struct expansion {
  int n;
  const struct options *set[MAX_SETS];
};

static void expand_all(struct search *se, const struct beam *now)
{
  struct arena_mark mark = arena_mark(&se->scratch);
  struct expansion *x = NEWS(&se->scratch, struct expansion, now->n + 1);
  for (int i = 0; i < now->n; i++) x[i].n = next_kernels(se, now->s[i], x[i].set);
  fill(se);
  for (int i = 0; i < now->n; i++)
    for (int m = 0; m < x[i].n; m++)
      for (int k = 0; k < x[i].set[m]->n; k++) extend(se, now->s[i], &x[i].set[m]->o[k]);
  arena_reset(&se->scratch, mark);
}

// Whether `out` already has enough similar plans. Measuring tries other sizes of the same plan.
static bool crowded(const struct plan *out, int n, const struct plan *p, bool new_kind)
{
  int kin = 0;
  for (int i = 0; i < n; i++) {
    if (out[i].structure == p->structure || (new_kind && out[i].kind == p->kind)) return true;
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

// Appends plans of `done`, best first, until `out` has `most`. new_kinds: only plans of kinds that `out` lacks.
static int take_done(const struct beam *done, struct plan *out, int n, int most, bool new_kinds)
{
  for (int i = 0; i < done->n && n < most; i++)
    if (!crowded(out, n, &done->s[i]->p, new_kinds)) out[n++] = done->s[i]->p;
  return n;
}

// Chains of kernels backwards from the outputs, one kernel at a time.
static void walk(struct search *se, const struct unfinished *first, struct beam *now)
{
  struct planner *pl = se->pl;
  now->n = se->next.n = 0;
  beam_push(pl->mem, &se->next, first);
  for (int kernels = 0; kernels < MAX_CHAIN && se->next.n && !units_stopped(pl->units); kernels++) {
    struct beam swapped = *now;
    *now = se->next, se->next = swapped, se->next.n = 0;
    beam_sort(now);
    expand_all(se, now);
  }
}

// Selects plans of all lengths. The model errs most between numbers of kernels, and next between kinds. So each number of kernels gets half of the
// places that smaller numbers leave. Three quarters of these go to the best of each kind, the others to the best of any kind.
static int take_best(struct search *se, struct plan *out, int most)
{
  int longest = MIN(se->pl->o->max_kernel_ops, MAX_CHAIN), n = 0;
  for (int i = 0; i <= longest; i++) {
    int share = MAX(1, (most - n) / 2), upto = MIN(most, n + share);
    beam_sort(&se->done[i]);
    n = take_done(&se->done[i], out, n, MIN(upto, n + (3 * share + 3) / 4), true);
    n = take_done(&se->done[i], out, n, upto, false);
  }
  for (int i = 0; i <= longest; i++) n = take_done(&se->done[i], out, n, most, false);
  qsort(out, (size_t)n, sizeof *out, cheaper);
  return n;
}

int plan_kernels(struct planner *pl, struct plan *out, int most)
{
  struct search se = {.pl = pl, .alone = NEWS(pl->mem, int, pl->ndev *WAYS)};
  struct unfinished first = {.split = -1};
  memset(se.alone, -1, sizeof(int) * (size_t)(pl->ndev * WAYS));
  for (int i = 0; i < pl->ntables; i++) {
    extract_open(pl->mem, &pl->tables[i], pl->nfixed);
    work_open(pl->mem, pl->m, &pl->tables[i]);
  }
  for (int d = pl->nfixed + pl->ncut; d < pl->ndev; d++) {
    if (first.nneed < MAX_NEEDS) first.need[first.nneed++] = d;
    set_of(&se, d, -1, 0);
  }
  bounds(&se);
  struct beam now = beam_open(pl->mem, WIDTH);
  se.next = beam_open(pl->mem, WIDTH);
  for (int i = 0; i <= MAX_CHAIN; i++) se.done[i] = beam_open(pl->mem, DONE);
  walk(&se, &first, &now);
  se.own = true, se.next.same = now.same = SAME_HEAVY; // with many cuts, estimates may be too low for any actual chain
  walk(&se, &first, &now);
  int n = take_best(&se, out, most);
  if (!n) { // the beam dropped all states that lead to a complete plan, in favor of states that need many cheap tensors
    se.own = false, se.each = true, se.next.same = now.same = 0;
    walk(&se, &first, &now);
    n = take_best(&se, out, most);
  }
  arena_close(&se.scratch);
  return n;
}
