// Selects the kernels to keep for one set of device tensors: the cheapest of each kind, a few with the same needs, fewer of the same schedule, and
// fewest of the same structure.
#include "search/space.h"

#include <math.h>
#include <string.h>

enum { GROUPS = 1024, SAME_NEEDS = 8, SAME_TABLE = 6, SAME_STRUCTURE = 2 };

struct keep_group { // options with the same needs
  uint64_t needs;
  bool seen;
  int n, at[SAME_NEEDS]; // number of options, ascending
};
struct key { // the fields of an option that are compared most
  uint64_t needs, structure;
  double cost;
  int table;
};
struct kept {
  struct key key[MOST_OPTIONS];
  struct keep_group group[GROUPS];
  int of_size[SAME_NEEDS + 1]; // number of groups by size
};

// Numbers of kept options that are similar to x: with its needs; also with its schedule; also with its structure. The most expensive option of each
// group.
struct likes {
  int kin, near, twins, worst_kin, worst_near, worst_twin;
};

// The group with the same needs, or a free entry. NULL: the table is full.
static struct keep_group *group_of(const struct options *to, uint64_t needs)
{
  struct keep_group *group = to->kept->group;
  int i = (int)(needs % GROUPS), steps = 0;
  while (group[i].seen && group[i].needs != needs && ++steps < GROUPS) i = (i + 1) % GROUPS;
  return steps == GROUPS ? NULL : &group[i];
}

static struct likes likes_of(const struct options *to, uint64_t needs, int table, uint64_t structure)
{
  struct likes l = {.worst_kin = -1, .worst_near = -1, .worst_twin = -1};
  const struct keep_group *g = group_of(to, needs);
  for (int k = 0; g && k < g->n; k++) {
    int i = g->at[k];
    const struct key *y = &to->kept->key[i];
    if (!l.kin++ || y->cost > to->kept->key[l.worst_kin].cost) l.worst_kin = i;
    if (y->table == table && (!l.near++ || y->cost > to->kept->key[l.worst_near].cost)) l.worst_near = i;
    if (y->structure == structure && (!l.twins++ || y->cost > to->kept->key[l.worst_twin].cost)) l.worst_twin = i;
  }
  return l;
}

static void leave(struct kept *kept, struct keep_group *g, int at)
{
  int k = 0;
  while (g->at[k] != at) k++;
  kept->of_size[g->n]--, kept->of_size[--g->n]++;
  memmove(&g->at[k], &g->at[k + 1], sizeof(int) * (size_t)(g->n - k));
}

static void enter(struct kept *kept, struct keep_group *g, uint64_t needs, int at)
{
  kept->of_size[g->n]--, kept->of_size[++g->n]++;
  int k = g->n - 1;
  for (; k && g->at[k - 1] > at; k--) g->at[k] = g->at[k - 1];
  g->at[k] = at, g->needs = needs, g->seen = true;
}

// The number of options of the largest group.
static int most_of(const struct kept *kept)
{
  int most = SAME_NEEDS;
  while (most && !kept->of_size[most]) most--;
  return most;
}

// The most expensive option of the first group that has the most options.
static int dearest_of_most(const struct kept *kept)
{
  const struct keep_group *g = kept->group;
  for (int most = most_of(kept); g->n < most; g++) {
  }
  int worst = g->at[0];
  for (int k = 1; k < g->n; k++)
    if (kept->key[g->at[k]].cost > kept->key[worst].cost) worst = g->at[k];
  return worst;
}

enum { NEW_PLACE = -1, NO_PLACE = -2 };

// Whether the option reads inputs only, so that it ends a plan.
static bool needs_nothing(const struct options *to, uint64_t needs)
{
  return needs == option_needs(&(struct option){.split = to->split, .parts = to->parts});
}

// The position at which x may be kept. It replaces an option if it is cheaper or has other needs. Needs may cost more than the kernel itself, so if
// there is no room, the largest group loses an option. A kernel without needs gets a position even if all groups have one option.
static int place_of(const struct options *to, uint64_t needs, const struct likes *l)
{
  if (!group_of(to, needs)) return NO_PLACE;
  if (l->twins >= SAME_STRUCTURE) return l->worst_twin;
  if (l->near >= SAME_TABLE) return l->worst_near;
  if (l->kin >= SAME_NEEDS) return l->worst_kin;
  if (to->n < MOST_OPTIONS) return NEW_PLACE;
  if (most_of(to->kept) > l->kin + 1 || (!l->kin && needs_nothing(to, needs))) return dearest_of_most(to->kept);
  return l->kin ? l->worst_kin : NO_PLACE;
}

double keep_below(const struct options *to, uint64_t needs, int table, bool *near)
{
  struct likes l = likes_of(to, needs, table, 0);
  *near = l.near >= SAME_TABLE;
  if (place_of(to, needs, &l) == NO_PLACE) return 0;
  return *near ? to->kept->key[l.worst_near].cost : l.kin >= SAME_NEEDS ? to->kept->key[l.worst_kin].cost : INFINITY;
}

void keep_option(struct options *to, const struct option *x)
{
  struct likes l = likes_of(to, x->needs, x->table, x->structure);
  struct kept *kept = to->kept;
  int at = place_of(to, x->needs, &l);
  if (at == NO_PLACE || (at >= 0 && kept->key[at].needs == x->needs && kept->key[at].cost <= x->cost)) return;
  if (at == NEW_PLACE)
    at = to->n++;
  else
    leave(kept, group_of(to, kept->key[at].needs), at);
  enter(kept, group_of(to, x->needs), x->needs, at);
  to->o[at] = *x;
  kept->key[at] = (struct key){x->needs, x->structure, x->cost, x->table};
}

void keep_open(struct arena *mem, struct options *to) { to->o = NEWS(mem, struct option, MOST_OPTIONS), to->kept = NEW(mem, struct kept); }

void keep_clear(struct options *to)
{
  to->n = 0;
  *to->kept = (struct kept){0};
}

bool keep_append(struct options *to, const struct option *x)
{
  struct keep_group *g = to->n < MOST_OPTIONS ? group_of(to, x->needs) : NULL;
  if (!g || g->n == SAME_NEEDS) return false;
  enter(to->kept, g, x->needs, to->n);
  to->kept->key[to->n] = (struct key){x->needs, x->structure, x->cost, x->table};
  to->o[to->n++] = *x;
  return true;
}

void keep_pack(const struct options *to, struct str *out)
{
  for (int i = 0; i < GROUPS; i++) {
    const struct keep_group *g = &to->kept->group[i];
    put_number(out, g->seen);
    if (g->seen) put_whole(out, &g->needs, sizeof g->needs);
  }
}

bool keep_unpack(struct options *to, struct bytes *in)
{
  for (int i = 0; i < GROUPS; i++) {
    struct keep_group *g = &to->kept->group[i];
    if ((g->seen = get_number(in, 1))) get_whole(in, &g->needs, sizeof g->needs);
  }
  return !in->bad;
}
