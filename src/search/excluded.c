// Decides which of the given graphs are in the space, and what excludes the others. A graph that is not equal to the program is reported as such. An
// equal one is looked for as it is and in its equivalent forms (alike.c). If none is found, the search is repeated without limits and rules, and the
// message names those whose removal suffices.
#include "base/memory.h"
#include "search/space.h"
#include "verify/verify.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

// MANY_VALUES: values of a schedule if a rule is off. RMS_MORE: operators that replace an accum_rms without a loop.
enum { MANY_VALUES = 4000, RMS_MORE = 2 };

struct given {
  struct cover *c; // the answer
  int n;           // number of equivalent forms
  struct graph *g[MOST_ALIKE];
  enum alike_as as[MOST_ALIKE];
  int held;                                    // the first form that the last search found, or -1
  char why[sizeof((struct cover *)NULL)->why]; // the reason why the match of the last form ended
};
struct excluded_group { // graphs that are tested together
  int n;
  struct given **x;
};
struct asking {
  struct arena *mem;
  const struct graph *p;
  const struct target *t;
  const struct search_opts *o;
};

// Sets `held` of each graph. False: the program cannot be searched, or the search was stopped.
static bool ask(const struct asking *a, const struct search_opts *o, const struct excluded_group *all)
{
  struct search_result r;
  int n = 0, at = 0;
  for (int i = 0; i < all->n; i++) n += all->x[i]->n;
  struct graph **g = NEWS(a->mem, struct graph *, n + 1);
  struct cover *c = NEWS(a->mem, struct cover, n + 1);
  for (int i = 0; i < all->n; at += all->x[i++]->n) memcpy(&g[at], all->x[i]->g, sizeof *g * (size_t)all->x[i]->n);
  if (n) search_space(a->mem, a->p, a->t, o, &(struct question){n, g, c}, &r);
  at = 0;
  for (int i = 0; i < all->n; at += all->x[i++]->n) {
    struct given *x = all->x[i];
    x->held = -1;
    for (int k = x->n - 1; k >= 0; k--)
      if (c[at + k].held) x->held = k;
    if (!*x->why) memcpy(x->why, c[at + x->n - 1].why, sizeof x->why);
  }
  return n && r.stats.schedules && !stop_set(o->stop);
}

// Removes from *from the graphs that are (or are not) found.
static struct excluded_group taken(const struct asking *a, struct excluded_group *from, bool held)
{
  struct excluded_group to = {0, NEWS(a->mem, struct given *, from->n + 1)};
  int left = 0;
  for (int i = 0; i < from->n; i++) {
    if ((from->x[i]->held >= 0) == held)
      to.x[to.n++] = from->x[i];
    else
      from->x[left++] = from->x[i];
  }
  from->n = left;
  return to;
}

// ---- limits ---------------------------------------------------------------------------------------------------------

static int kernels_of(const struct excluded_group *all)
{
  int most = 1;
  for (int i = 0; i < all->n; i++) most = MAX(most, graph_ops(all->x[i]->g[0]));
  return most;
}

static int block_ops(const struct graph *b)
{
  int n = graph_ops(b);
  for (int i = 0; i < b->nnodes; i++) n += b->nodes[i].op == OP_ACCUM_RMS ? RMS_MORE : 0;
  return n;
}

static int block_ops_of(const struct excluded_group *all)
{
  int most = 1;
  for (int i = 0; i < all->n; i++)
    for (int k = 0; k < all->x[i]->n; k++) {
      const struct graph *g = all->x[i]->g[k];
      for (int j = 0; j < g->nnodes; j++)
        if (g->nodes[j].sub) most = MAX(most, block_ops(g->nodes[j].sub));
    }
  return most;
}

static const char *const limits[] = {"--max-block-ops", "--max-kernel-ops", "--max-values"};

static int *limit_of(struct search_opts *o, size_t i)
{
  int *const at[] = {&o->max_block_ops, &o->max_kernel_ops, &o->max_values};
  return at[i];
}

// Raises limit i as far as the graphs need. False: it already suffices.
static bool raise_limit(const struct asking *a, struct search_opts *o, const struct excluded_group *all, size_t i)
{
  struct search_opts full = *o;
  int later;
  search_defaults(&full, a->p, &later);
  const int is[] = {later, full.max_kernel_ops, full.max_values}, need[] = {block_ops_of(all), kernels_of(all), MANY_VALUES};
  if (need[i] <= is[i]) return false;
  *limit_of(o, i) = MAX(need[i], *limit_of(&full, i));
  return true;
}

// Removes from *open the graphs that a limit excludes, and raises the limits in *wide.
static bool take_limits(const struct asking *a, struct search_opts *wide, struct excluded_group *open)
{
  bool more = true, any = false;
  for (size_t i = 0; i < COUNT(limits) && more; i++) {
    struct search_opts one = *a->o;
    any |= raise_limit(a, wide, open, i);
    if (!raise_limit(a, &one, open, i)) continue;
    more = ask(a, &one, open);
    struct excluded_group held = taken(a, open, true);
    for (int k = 0; k < held.n; k++)
      snprintf(held.x[k]->c->why, sizeof held.x[k]->c->why, "%s is too low: with %d the space contains it", limits[i], *limit_of(&one, i));
  }
  if (!any || !more) return more;
  more = ask(a, wide, open);
  struct excluded_group held = taken(a, open, true);
  for (int k = 0; k < held.n; k++)
    snprintf(held.x[k]->c->why, sizeof held.x[k]->c->why, "several limits are too low: with higher ones the space contains it");
  return more;
}

// ---- rules ----------------------------------------------------------------------------------------------------------

// The options without these rules. Without the oracle only the number of operators bounds the space, so it is limited to that of the graphs.
static struct search_opts options_without(const struct search_opts *wide, const struct excluded_group *all, unsigned rules)
{
  struct search_opts o = *wide;
  o.off |= rules;
  if (kernels_of(all) == 1) o.max_kernel_ops = 1;
  if (o.off >> PRUNE_EXPR & 1) o.max_block_ops = block_ops_of(all), o.max_kernel_ops = kernels_of(all);
  return o;
}

static bool ask_without(const struct asking *a, const struct search_opts *wide, const struct excluded_group *all, unsigned rules)
{
  struct search_opts o = options_without(wide, all, rules);
  return ask(a, &o, all);
}

// Text such as "rules `expr` and `whole`", and "expr,whole".
static void rules_text(unsigned rules, struct str *words, struct str *list)
{
  int n = 0, many = __builtin_popcount(rules);
  str_add(words, many > 1 ? "rules" : "rule");
  for (int r = 0; r < PRUNES; r++) {
    if (!(rules >> r & 1)) continue;
    str_add(words, "%s`%s`", !n ? " " : n == many - 1 ? " and " : ", ", prune_rows[r].name);
    str_add(list, "%s%s", n++ ? "," : "", prune_rows[r].name);
  }
}

// Sets the message of each graph: the rules and limits that admit it.
static void name_rules(const struct asking *a, const struct excluded_group *all, struct search_opts o, unsigned rules)
{
  struct str words = {0}, list = {0};
  struct search_opts was = *a->o;
  rules_text(rules, &words, &list);
  for (size_t i = 0; i < COUNT(limits); i++)
    if (*limit_of(&o, i) != *limit_of(&was, i)) str_add(&list, " %s %d", limits[i], *limit_of(&o, i));
  for (int i = 0; i < all->n; i++) {
    struct cover *c = all->x[i]->c;
    c->rules = rules;
    snprintf(c->why, sizeof c->why, "%s: with --off %s the space contains it (%s)", str_text(&words), str_text(&list), all->x[i]->why);
  }
  str_free(&words), str_free(&list);
}

// All graphs are found with these rules off. Switches rules from r on back on as far as possible.
static bool take_fewest(const struct asking *a, const struct search_opts *wide, struct excluded_group all, unsigned rules, int r)
{
  while (r < PRUNES && !(rules >> r & 1)) r++;
  if (!all.n) return true;
  if (r == PRUNES) return name_rules(a, &all, options_without(wide, &all, rules), rules), true;
  if (!ask_without(a, wide, &all, rules & ~(1u << r))) return false;
  struct excluded_group fewer = taken(a, &all, true);
  return take_fewest(a, wide, fewer, rules & ~(1u << r), r + 1) && take_fewest(a, wide, all, rules, r + 1);
}

// Finds one rule that excludes each graph. The oracle removes most, so it is tried last.
static bool take_single(const struct asking *a, const struct search_opts *wide, struct excluded_group *open, unsigned all)
{
  for (int r = PRUNES - 1; r >= 0 && open->n; r--) {
    if (!(all >> r & 1)) continue;
    struct search_opts o = options_without(wide, open, 1u << r);
    if (!ask(a, &o, open)) return false;
    struct excluded_group held = taken(a, open, true);
    name_rules(a, &held, o, 1u << r);
  }
  return true;
}

// With several rules off, the space has too many values to raise the limits too.
static bool take_several(const struct asking *a, const struct search_opts *wide, struct excluded_group *open, unsigned all)
{
  struct search_opts o = *wide;
  o.max_values = a->o->max_values;
  if (!open->n) return true;
  if (!ask_without(a, &o, open, all)) return false;
  return take_fewest(a, &o, taken(a, open, true), all, 0);
}

static void take_rules(const struct asking *a, const struct search_opts *wide, struct excluded_group *open)
{
  unsigned all = 0;
  for (int r = 0; r < PRUNES; r++) all |= (unsigned)(prune_rows[r].switchable && !(wide->off >> r & 1)) << r;
  if (!take_single(a, wide, open, all)) return;
  if (!take_several(a, wide, open, all & ~(1u << PRUNE_EXPR)) || !take_several(a, wide, open, all)) return;
  for (int i = 0; i < open->n; i++) snprintf(open->x[i]->c->why, sizeof open->x[i]->c->why, "%s; no rule explains it", open->x[i]->why);
}

// ---- all graphs -----------------------------------------------------------------------------------------------------

static bool equal(const struct graph *p, const struct graph *g, uint64_t seed)
{
  char why[160];
  return verify_prove(p, g, why) || verify_filter(p, g, seed);
}

static int open_one(const struct asking *a, const struct graph *g, struct excluded_group *open, struct cover *c, struct err *e)
{
  struct graph *plain;
  struct alike alike[MOST_ALIKE];
  if (graph_expand(a->mem, g, false, &plain, e) != OK) return (int)e->status;
  *c = (struct cover){.why = "it is not equal to the program"};
  if (!equal(a->p, plain, a->o->seed)) return OK;
  struct given *x = open->x[open->n++] = NEW(a->mem, struct given);
  x->c = c, x->n = graphs_alike(a->mem, a->p, plain, a->o->seed, alike);
  for (int i = 0; i < x->n; i++) x->g[i] = alike[i].g, x->as[i] = alike[i].as;
  return OK;
}

static void say_all(const struct excluded_group *all, const char *why)
{
  for (int i = 0; i < all->n; i++) snprintf(all->x[i]->c->why, sizeof all->x[i]->c->why, "%s", why);
}

// ---- the time limit for finding a reason ----

struct reason_limit { // sets its own flag after some seconds, or after a stop
  stop_flag user;
  double until;
  int flag, end; // atomic
  pthread_t thread;
};

static void *watch_reasons(void *arg)
{
  enum { SLICE_US = 20000 };
  struct reason_limit *l = arg;
  for (; !stop_set(&l->end); usleep(SLICE_US))
    if (stop_set(l->user) || now_seconds() >= l->until) __atomic_store_n(&l->flag, 1, __ATOMIC_RELAXED);
  return NULL;
}

static void close_reasons(void *arg)
{
  struct reason_limit *l = arg;
  __atomic_store_n(&l->end, 1, __ATOMIC_RELAXED);
  pthread_join(l->thread, NULL);
}

static void find_reasons(const struct asking *a, struct excluded_group *open)
{
  struct search_opts wide = *a->o;
  if (open->n && take_limits(a, &wide, open)) take_rules(a, &wide, open);
}

// If no thread can be made, there is no limit.
static void find_reasons_in_time(const struct asking *a, struct excluded_group *open)
{
  struct reason_limit l = {.user = a->o->stop, .until = now_seconds() + a->o->explain};
  struct search_opts o = *a->o;
  struct asking limited = {a->mem, a->p, a->t, &o};
  struct undo undo;
  if (a->o->explain <= 0 || pool_thread(&l.thread, watch_reasons, &l)) return find_reasons(a, open);
  o.stop = &l.flag;
  undo_push(&undo, close_reasons, &l);
  for (int i = 0; i < open->n; i++) {
    struct given *x = open->x[i];
    snprintf(x->c->why, sizeof x->c->why, "%s; what excludes it was not found in %.3g seconds", x->why, a->o->explain);
  }
  find_reasons(&limited, open);
  undo_pop(&undo);
  close_reasons(&l);
}

static void answer(const struct asking *a, struct excluded_group *open)
{
  say_all(open, "the program is not one that is searched");
  bool searched = ask(a, a->o, open);
  struct excluded_group held = taken(a, open, true);
  for (int i = 0; i < held.n; i++) *held.x[i]->c = (struct cover){.held = true, .as = held.x[i]->as[held.x[i]->held]};
  if (stop_set(a->o->stop)) say_all(open, "stopped before the space was searched");
  if (!searched) return;
  say_all(open, "not in the space, and stopped before the reason was found");
  find_reasons_in_time(a, open);
}

int search_covers(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, int n, struct graph *const *g,
                  struct cover *out, struct err *e)
{
  const struct asking a = {mem, p, t, o};
  struct excluded_group open = {0, NEWS(mem, struct given *, n + 1)};
  for (int i = 0; i < n; i++)
    if (open_one(&a, g[i], &open, &out[i], e) != OK) return (int)e->status;
  answer(&a, &open);
  return OK;
}
