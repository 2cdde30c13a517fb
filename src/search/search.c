// The whole search: index classes; the program's own values in each visit; all values of every schedule over the inputs; the device tensors that
// these offer to later kernels; all values again over those too; chains of kernels by cost; kernel graphs; the verifier's filter. docs/search.md
// explains the order.
#include "base/trace.h"
#include "search/space.h"
#include "verify/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CUTS = 160, MAX_PARTS = 32 };
// An early pass that finds a first graph. LOOK_FROM: number of operators from which it is made; LOOK_FROM_MANY: the same for a program of MANY_OPS
// operators or more, which has many structures. LOOK: graphs tried for a schedule. LOOK_MOST: results wanted.
enum { LOOK_FROM = 100000, MANY_OPS = 8, LOOK_FROM_MANY = 20000, LOOK = 64, LOOK_MOST = 4 };

const struct prune_row prune_rows[PRUNES] = {
#define PRUNE(id, name, switchable, doc) {#name, switchable, doc},
#include "search/prune.def"
#undef PRUNE
};

struct search_job {
  struct arena *mem, *out;   // of the search; of its results
  const struct stem *stem;   // of the program; may be NULL
  const struct calls *calls; // of its core; may be NULL
  struct space *s;
  struct fctx *f;
  const struct target *t;
  struct search_opts o;
  struct vocabulary voc;
  struct units units;
  double start; // seconds
  int nworker;
  struct worker *w;
  int ntable;
  struct table *table;
  struct arena *table_mem;
  struct search_stats *table_stats;
  int *by; // worker that made each table
  int nfixed, ncut, ndev;
  struct device dev[MAX_VISITS + MAX_CUTS + MAX_PARTS];
  int later_ops;                                  // of struct planner
  bool keep;                                      // keep fingerprints of values that may be cuts,
  bool parts;                                     // of partial sums only
  int nsplit, split[MAX_CLASSES];                 // schedules with one axis, over a class that may have partial sums
  int ncut_tables;                                // schedules with more values than the limit
  const struct question *asked;                   // answer this instead of searching plans
  bool all_cuts, all_parts, all_graphs, all_sets; // no limit was reached on device tensors, partial sums of these, graphs, sets
};

static bool stopped(const struct search_job *j) { return units_stopped(&j->units); }

// ---- schedules ----------------------------------------------------------------------------------------------------

// At most three grid axes and one loop axis, one class each. The loop axis is a summed class.
static void schedules(struct search_job *j)
{
  j->table = NULL, j->ntable = schedules_build(j->mem, j->s, &j->table);
  j->table_mem = NEWS(j->mem, struct arena, j->ntable);
  j->table_stats = NEWS(j->mem, struct search_stats, j->ntable);
  j->by = NEWS(j->mem, int, j->ntable);
}

// ---- saturation ---------------------------------------------------------------------------------------------------

static void empty_table(struct search_job *j, int i)
{
  arena_close(&j->table_mem[i]);
  j->table[i] = (struct table){.sch = j->table[i].sch};
  j->table_stats[i] = (struct search_stats){0};
}

// Fingerprints are freed with the worker's scratch memory, except those of values that may be cuts.
static void keep_fingers(struct search_job *j, int i)
{
  struct table *t = &j->table[i];
  for (int k = 0; k < t->n; k++) {
    struct finger *f = &t->v[k].f;
    bool want = j->keep && cut_offered(j->s, t, &t->v[k], j->parts);
    f->v = want ? arena_copy(&j->table_mem[i], f->v, sizeof *f->v * (size_t)f->n) : NULL;
  }
}

static bool make_table(void *arg, int i, int worker, double until)
{
  (void)until;
  struct search_job *j = arg;
  struct worker *w = &j->w[worker];
  empty_table(j, i);
  w->stats = (struct search_stats){0};
  saturate(&j->table[i], &j->table_mem[i], w, j->f, &j->voc, j->dev, j->nfixed + j->ncut, &j->o);
  j->by[i] = worker, j->table_stats[i] = w->stats;
  keep_fingers(j, i);
  arena_close(&w->scratch);
  return true;
}

static void pack_table(void *arg, int i, struct str *out)
{
  const struct search_job *j = arg;
  stats_pack(&j->table_stats[i], out);
  table_pack(&j->table[i], out);
}

static bool restore_offers(struct search_job *j, struct table *t, struct worker *w)
{
  for (int k = 0; j->keep && k < t->n; k++)
    if (cut_offered(j->s, t, &t->v[k], j->parts) && !value_restore(t, w, j->f, &j->o, k)) return false;
  return true;
}

static bool unpack_table(void *arg, int i, struct bytes *in, bool *whole)
{
  struct search_job *j = arg;
  struct worker *w = &j->w[0];
  empty_table(j, i);
  stats_unpack(&j->table_stats[i], in);
  table_open(&j->table[i], &j->table_mem[i], w, j->f, &j->voc, j->dev, j->nfixed + j->ncut, &j->o);
  *whole = table_unpack(&j->table[i], &j->table_mem[i], j->s, in) && restore_offers(j, &j->table[i], w);
  if (*whole)
    keep_fingers(j, i);
  else
    empty_table(j, i);
  j->by[i] = w->id;
  arena_close(&w->scratch);
  return *whole;
}

// ---- partial sums of results of earlier kernels ----

static bool make_split(void *arg, int i, int worker, double until) { return make_table(arg, ((struct search_job *)arg)->split[i], worker, until); }

static void pack_split(void *arg, int i, struct str *out) { pack_table(arg, ((struct search_job *)arg)->split[i], out); }

static bool unpack_split(void *arg, int i, struct bytes *in, bool *whole)
{
  return unpack_table(arg, ((struct search_job *)arg)->split[i], in, whole);
}

// Whether this class may have partial sums. If so, they are those of a schedule with this axis alone.
static bool may_split(const struct index_class *c)
{
  bool divides = false;
  for (int i = 0; i < PART_COUNTS; i++) divides |= part_count(c->extent, i) > 0;
  return divides && (c->kind & (CONTRACTED | REDUCED));
}

static void saturate_splits(struct search_job *j)
{
  j->nsplit = 0, j->parts = true;
  for (int i = 0; i < j->ntable; i++) {
    const struct search_schedule *s = &j->table[i].sch;
    empty_table(j, i);
    if (s->ngrid == 1 && s->loop < 0 && may_split(&j->s->classes[s->grid[0]])) j->split[j->nsplit++] = i;
  }
  units_run(&j->units, &(struct batch){UNIT_PARTS, 0, j->nsplit, true, j, make_split, pack_split, unpack_split});
}

static void saturate_all(struct search_job *j, int stage)
{
  units_run(&j->units, &(struct batch){stage, 0, j->ntable, true, j, make_table, pack_table, unpack_table});
}

static void add_visit(struct search_job *j, int v) { j->dev[j->ndev++] = visit_device(j->s, j->w, j->nworker, v); }

static void add_visits(struct search_job *j, bool fixed)
{
  for (int v = 0; v < j->s->nvisit; v++) {
    bool given = visit_given(j->s, v), out = false;
    enum op op = j->s->p->nodes[j->s->p->tensors[j->s->visit[v].tensor].node].op;
    for (int o = 0; o < j->s->nout; o++) out |= j->s->out[o] == v;
    if (given == fixed && (fixed || !(out || op_rows[op].rule == RULE_VIEW))) add_visit(j, v);
  }
}

static void add_outputs(struct search_job *j)
{
  for (int o = 0; o < j->s->nout; o++) add_visit(j, j->s->out[o]);
}

// Adds a tensor that a kernel makes and that the program does not have.
static void add_device(struct search_job *j, mask has, const struct finger *f, uint64_t hash, struct expr *from, nf e)
{
  struct device *d = &j->dev[j->ndev++];
  *d = (struct device){.has = has, .f = *f, .hash = hash, .ehash = expr_hash(from, e), .visit = -1, .input = -1};
  for (int w = 0; w < j->nworker; w++) d->e[w] = from == j->w[w].ex ? e : expr_copy(j->w[w].ex, from, e);
}

// Adds tensors that earlier kernels may store in device memory besides the program's own, from the values of these tables.
static bool add_cuts(struct search_job *j, int most)
{
  struct cut *cut;
  struct model model = {j->s, j->t, j->dev};
  bool all;
  int ndev = j->ndev;
  if (stopped(j)) return true;
  add_outputs(j);
  struct cut_source from = {&model, j->f, &j->w[0].ref, j->table, j->ntable, j->ndev, j->parts};
  int n = cuts_choose(j->mem, &from, most, &cut, &all);
  j->ndev = ndev;
  for (int i = 0; i < n; i++) {
    const struct search_value *v = &j->table[cut[i].table].v[cut[i].value];
    struct finger f = v->f;
    f.v = arena_copy(j->mem, f.v, sizeof *f.v * (size_t)f.n);
    add_device(j, v->has, &f, v->hash, j->w[j->by[cut[i].table]].ex, v->e);
  }
  j->ncut = j->ndev - j->nfixed;
  return all;
}

// ---- the planner's input ----

// For each device tensor, the values of each table that equal it. They differ by the loop, or by expressions that the axioms do not equate.
static int *find_homes(struct search_job *j)
{
  int *home = NEWS(j->mem, int, j->ntable * j->ndev * HOMES);
  memset(home, -1, sizeof(int) * (size_t)(j->ntable * j->ndev * HOMES));
  for (int i = 0; i < j->ntable; i++)
    for (int k = 0; k < j->table[i].n; k++) {
      const struct search_value *v = &j->table[i].v[k];
      mask has;
      if (v->der < 0 || !value_saveable(j->s, &j->table[i], v, &has)) continue;
      for (int d = j->nfixed; d < j->ndev; d++)
        if (j->dev[d].has == has && j->dev[d].hash == v->hash) {
          int *h = &home[(i * j->ndev + d) * HOMES], n = 0;
          while (n < HOMES && h[n] >= 0) n++;
          if (n < HOMES) h[n] = k;
        }
    }
  return home;
}

static void count(struct search_job *j, struct search_stats *s)
{
  for (int i = 0; i < j->ntable; i++) {
    const struct search_stats *t = &j->table_stats[i];
    s->states += t->states, s->values += t->values;
    for (int k = 0; k < PRUNES; k++) s->pruned[k] += t->pruned[k];
  }
}

static void tell(const struct search_job *j, const struct search_result *r, double done)
{
  if (j->o.progress) j->o.progress(j->o.progress_arg, &r->stats, r->n ? r->found[0].cost * 1e6 : 0, done);
}

// Makes plans and keeps those that the verifier accepts. After a stop, results of the early pass remain if they are better.
static void finish(struct search_job *j, struct planner *pl, int most, double done, struct search_result *r)
{
  struct search_result all = {0};
  struct span s;
  span_begin(&s, "stage", pl->few ? "first graphs" : "graphs");
  plans_verified(j->out, pl, most, &all);
  span_end(&s);
  if (stopped(j) && r->n && (!all.n || r->found[0].cost < all.found[0].cost)) return;
  r->n = all.n, r->found = all.found;
  if (r->stats.first <= 0 && r->n && r->found[0].cost < search_library_seconds(pl->m->t, pl->m->s->p)) r->stats.first = now_seconds() - j->start;
  tell(j, r, done);
}

static bool is_long(const struct search_job *j, const struct search_stats *s)
{
  return s->states >= (uint64_t)(graph_ops(j->s->p) >= MANY_OPS ? LOOK_FROM_MANY : LOOK_FROM);
}

// Finds a verified graph early, from few graphs of each schedule, in case the search is stopped or watched. It affects the final result only after a
// stop.
static void look(struct search_job *j, struct search_result *r, double done)
{
  int ndev = j->ndev;
  bool first = !j->o.crew || !j->o.crew->rank; // the process that reports it
  struct search_stats stats = {0};
  struct search_opts o = j->o;
  struct units units;
  if (!first || j->asked || stopped(j) || !is_long(j, &r->stats) || r->stats.first > 0) return;
  o.store = NULL, o.crew = NULL, o.timed = NULL;
  units_open(&units, &o, &stats);
  add_outputs(j);
  struct model model = {j->s, j->t, j->dev};
  struct planner pl = {.stem = j->stem,
                       .calls = j->calls,
                       .m = &model,
                       .tables = j->table,
                       .ntables = j->ntable,
                       .home = find_homes(j),
                       .nfixed = j->nfixed,
                       .ncut = j->ncut,
                       .ndev = j->ndev,
                       .o = &o,
                       .later_ops = j->later_ops,
                       .stats = &stats,
                       .mem = j->mem,
                       .units = &units,
                       .few = LOOK};
  finish(j, &pl, LOOK_MOST, done, r);
  units_close(&units);
  j->ndev = ndev;
}

// Runs the early pass on the tables without cuts: kernels that read inputs only, and library operators.
static void first_look(struct search_job *j, struct search_result *r)
{
  if (j->keep) add_visits(j, false);
  j->ncut = j->ndev - j->nfixed;
  look(j, r, 0.25);
  j->ndev = j->nfixed, j->ncut = 0;
}

// Limits that were reached, and the options that raise them.
static void limits_met(const struct search_job *j, struct str *s)
{
  if (stopped(j))
    str_add(s, "the search was stopped");
  else if (j->ncut_tables)
    str_add(s, "%d of %d schedules have more than %d values (--max-values)", j->ncut_tables, j->ntable, j->o.max_values);
  if (!j->all_cuts) str_add(s, "%smore than %d tensors could be left for later kernels, of which the cheapest were", s->n ? "; " : "", MAX_CUTS);
  if (!j->all_parts) str_add(s, "%smore than %d partial sums of these could be left, of which the cheapest were", s->n ? "; " : "", MAX_PARTS);
  if (!j->all_graphs) str_add(s, "%ssome kernels can be computed in too many ways to try all", s->n ? "; " : "");
  if (!j->all_sets)
    str_add(s, "%skernels that make several tensors were tried for %d sets at a step, %d in all", s->n ? "; " : "", MAX_SETS, MOST_JOINT);
}

static void answer(struct search_job *j, const struct planner *pl)
{
  for (int i = 0; i < j->asked->n && !stopped(j); i++) {
    struct cover *c = &j->asked->out[i];
    c->held = space_covers(j->mem, pl, j->asked->g[i], c->why, sizeof c->why);
  }
}

static void explain(const struct search_job *j, struct search_result *r)
{
  struct str s = {0};
  int worst = 0;
  for (int k = 1; k < PRUNES; k++)
    if (r->stats.pruned[k] > r->stats.pruned[worst]) worst = k;
  if (r->complete)
    str_add(&s, "the space was searched to its end");
  else
    limits_met(j, &s);
  str_add(&s, "; rule `%s` removed most: %llu operators (%s)%s", prune_rows[worst].name, (unsigned long long)r->stats.pruned[worst],
          prune_rows[worst].doc, r->stats.pruned[PRUNE_SIZE] ? "; --max-block-ops and --max-kernel-ops cut deeper graphs" : "");
  snprintf(r->why, sizeof r->why, "%s", str_text(&s));
  str_free(&s);
}

// All values of every schedule over the inputs.
static void values_of_inputs(struct search_job *j, struct search_result *r)
{
  struct span s;
  span_begin(&s, "stage", "values of inputs");
  vocabulary_build(&j->voc, j->mem, j->s);
  schedules(j);
  r->stats.schedules = (uint64_t)j->ntable;
  add_visits(j, true);
  j->nfixed = j->ndev;
  j->keep = j->o.max_kernel_ops > 1;
  saturate_all(j, UNIT_INPUTS);
  count(j, &r->stats);
  span_end(&s);
}

// Chooses the tensors that these offer to later kernels, and finds all values again over those too.
static void values_of_later_kernels(struct search_job *j, struct search_result *r)
{
  struct span s;
  add_visits(j, false);
  span_begin(&s, "stage", "tensors for later kernels");
  j->all_cuts = add_cuts(j, MAX(0, MAX_CUTS - (j->ndev - j->nfixed)));
  saturate_splits(j);
  count(j, &r->stats);
  j->all_parts = add_cuts(j, MAX_PARTS);
  span_end(&s);
  j->keep = j->parts = false;
  span_begin(&s, "stage", "values of later kernels");
  saturate_all(j, UNIT_CUTS);
  count(j, &r->stats);
  span_end(&s);
}

static void run(struct search_job *j, struct search_result *r)
{
  values_of_inputs(j, r);
  tell(j, r, 0.2);
  first_look(j, r);
  j->all_cuts = j->all_parts = true;
  if (j->keep) {
    values_of_later_kernels(j, r);
    look(j, r, 0.5);
  }
  for (int i = 0; i < j->ntable; i++) j->ncut_tables += j->table[i].cut;
  tell(j, r, 0.6);
  add_outputs(j);
  struct model model = {j->s, j->t, j->dev};
  struct planner pl = {.stem = j->stem,
                       .calls = j->calls,
                       .m = &model,
                       .tables = j->table,
                       .ntables = j->ntable,
                       .home = find_homes(j),
                       .nfixed = j->nfixed,
                       .ncut = j->ncut,
                       .ndev = j->ndev,
                       .o = &j->o,
                       .later_ops = j->later_ops,
                       .stats = &r->stats,
                       .mem = j->mem,
                       .units = &j->units,
                       .complete = true,
                       .all_sets = true};
  if (!stopped(j) && j->asked)
    answer(j, &pl);
  else if (!stopped(j))
    finish(j, &pl, j->o.most, 1, r);
  j->all_graphs = pl.complete, j->all_sets = pl.all_sets;
  r->complete = j->all_cuts && j->all_parts && j->all_graphs && j->all_sets && !j->ncut_tables && !stopped(j);
}

static void set_options(struct search_job *j, const struct graph *p, const struct search_opts *o)
{
  j->o = *o;
  search_defaults(&j->o, p, &j->later_ops);
  j->nworker = j->o.threads;
  j->s = NEW(j->mem, struct space), j->f = NEW(j->mem, struct fctx);
}

static void close_all(struct search_job *j)
{
  workers_close(j->w, j->nworker);
  for (int i = 0; i < j->ntable; i++) arena_close(&j->table_mem[i]);
}

void search_space(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, const struct question *asked,
                  struct search_result *r)
{
  double start = now_seconds();
  const struct graph *whole = p;
  *r = (struct search_result){0};
  struct arena scratch = {0};
  struct search_job *j = NEW(&scratch, struct search_job);
  *j = (struct search_job){.asked = asked, .mem = &scratch, .out = mem, .t = t, .start = start};
  struct stem stem;
  struct calls calls;
  if (!asked && stem_of(&scratch, p, &stem)) p = stem.core, j->stem = &stem;
  if (!asked && calls_of(&scratch, p, &calls) && search_is_hard_as_is(p, o)) p = calls.core, j->calls = &calls;
  set_options(j, p, o);
  if (asked) j->o.store = NULL, j->o.crew = NULL; // a stored table has no expressions, which the answer needs
  units_open(&j->units, &j->o, &r->stats);
  char why[160] = "";
  bool rows = !asked && j->o.fuse && fuse_rows_can(whole, j->o.fuse);
  if (rows && by_rule_is_enough(mem, whole, t, &j->o, r)) {
    // nothing is searched
  } else if (graph_ops(p) > SEARCH_LONG || (rows && search_is_hard(p, o)) || classes_build(j->s, p, why) != OK) {
    if (!asked) by_rule(mem, whole, t, &j->o, rows, r);
    if (!r->n) snprintf(r->why, sizeof r->why, "not searched: %s", *why ? why : "too many operators");
  } else {
    finger_open(j->f, j->s, o->seed);
    j->w = NEWS(j->mem, struct worker, j->nworker);
    if (workers_open(j->w, j->nworker, j->mem, j->f, &j->o) != OK)
      snprintf(r->why, sizeof r->why, "not searched: a second exponential on a path");
    else
      run(j, r), explain(j, r);
    close_all(j);
    if (rows) also_by_rule(mem, whole, t, &j->o, r);
  }
  units_close(&j->units);
  arena_close(&scratch);
  r->stats.seconds = now_seconds() - start;
}

int search_run(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, struct search_result *r, struct err *e)
{
  (void)e;
  search_space(mem, p, t, o, NULL, r);
  return OK;
}
