// Functions of the passes over jobs and subprograms that have no file of their own.
#include "drive/climb.h"
#include "drive/pass.h"
#include "front/front.h"
#include "gpu/gpu.h"

#include <string.h>

int run_expand(const struct pass_on *on, struct err *e)
{
  struct job *j = on->j;
  struct graph *plain, *stable;
  TRY(graph_expand(j->mem, j->program, false, &plain, e));
  TRY(graph_expand(j->mem, j->program, true, &stable, e));
  j->rank = stable->world > 1 ? stable : NULL;
  TRY(graph_unfold(j->mem, stable, &stable, e));
  return j->plain = plain, j->stable = stable, OK;
}

static const int64_t MEET_OPS = 200000000; // operations of the tests at full size for one comparison without a proof

struct judging {
  const struct job *j;
  const struct verify_opts *o;
};

static bool equal(void *arg, const struct graph *was, const struct graph *is)
{
  const struct judging *by = arg;
  struct certificate c;
  struct err e = {0};
  return verify_equal(was, is, by->o, &c, &e) == OK && c.equal && c.scope <= by->j->accept;
}

// Rewrite laws for whole programs.
static const struct {
  int (*apply)(struct arena *mem, const struct graph *p, const struct lax_proof *proof, struct graph **out, struct err *e);
  bool gpu; // only for GPUs
} laws[] = {{lax_written, false}, {lax_parts, false}, {lax_products, true}};

static int change_by_laws(struct job *j, const struct verify_opts *o, struct err *e)
{
  struct judging by = {j, o};
  const struct lax_proof proof = {equal, &by};
  for (int i = 0; i < (int)COUNT(laws) && j->plain->world == 1; i++) {
    struct graph *to;
    if (laws[i].gpu && j->target.kind != TARGET_GPU) continue;
    const int status = laws[i].apply(j->mem, j->moved.g, &proof, &to, e);
    if (status == OK) j->moved.g = to;
    if (status != OK && status != NO) return status;
  }
  return OK;
}

int run_collectives(const struct pass_on *on, struct err *e)
{
  struct job *j = on->j;
  struct err inner = {0};
  const struct verify_opts o = {.seed = j->opts->seed, .full_size_ops = MEET_OPS, .threads = j->threads, .stop = job_stop(j, STOP_SEARCH)};
  int status = ranks_move(j->mem, j->plain, &j->target, &o, j->accept, &j->moved, &inner);
  if (status == OK) status = change_by_laws(j, &o, &inner);
  if (status != OK && inner.id == ERR_STOPPED) status = OK;
  if (status != OK) return *e = inner, status;
  const struct part program = {.g = (struct graph *)j->moved.g, .searchable = true};
  j->planned = j->plain->world == 1 ? plans_take(j, &program) : NULL;
  return OK;
}

// ---- search ----

static bool same_tensors(const struct graph *a, const struct graph *b, int (*list)(const struct graph *, int *), struct arena *mem)
{
  int n = list(a, NULL), *x = NEWS(mem, int, n + 1), *y = NEWS(mem, int, list(b, NULL) + 1);
  bool same = list(b, NULL) == n;
  list(a, x), list(b, y);
  for (int i = 0; i < n && same; i++) {
    const struct tensor *t = &a->tensors[x[i]], *u = &b->tensors[y[i]];
    same = t->dtype == u->dtype && t->shape.n == u->shape.n && !memcmp(t->shape.d, u->shape.d, sizeof *t->shape.d * (size_t)t->shape.n);
  }
  return same;
}

bool job_same_signature(const struct graph *a, const struct graph *b, struct arena *mem)
{
  return same_tensors(a, b, graph_inputs, mem) && same_tensors(a, b, graph_outputs, mem);
}

// Uses the given graph instead of a search.
static int take_given(struct job *j, struct contest *c, struct err *e)
{
  struct graph *g;
  const char *file = j->opts->candidate;
  TRY(load_file(j->mem, file, 0, NULL, &g, e));
  TRY(graph_expand(j->mem, g, false, &g, e));
  TRY(graph_check(g, e));
  if (!job_same_signature(c->part->g, g, j->mem))
    return err_set(e, ERR_MISMATCH, NOWHERE, "the candidate %.200s does not have the inputs and outputs of the program", file);
  c->found->found = NEW(j->mem, struct found);
  c->found->found[0] = (struct found){.g = g, .schedule = "given"};
  return c->found->n = 1, OK;
}

static const double BEFORE_PIECES = 0.6; // share of the time for the search of a part, if its pieces are searched after it

// A stop ends the search early; verified graphs are used.
int pipe_search_part(struct job *j, struct contest *c, struct search_result *r, struct err *e)
{
  struct search_opts o = job_part_opts(j, c);
  struct err inner = {0};
  struct pricing by = price_open(j->mem, &j->target, c->part->g);
  const struct pricer pricer = pricing_pricer(&by);
  o.pricer = &pricer;
  o.store = keeper_open(&c->keeper, j, c->part->g);
  struct recut *pieces;
  TRY(recut_open(j, c, &pieces, e));
  const double end = pieces ? clock_shorten_search(j, BEFORE_PIECES) : 0;
  int status = search_run(j->mem, c->part->g, &j->target, &o, r, &inner);
  if (status != OK && inner.id == ERR_STOPPED) status = OK, r->complete = false;
  if (status != OK) *e = inner;
  const bool stopped = job_ending(j, STOP_SEARCH);
  if (pieces) clock_end_search(j, end);
  if (pieces && status == OK) status = recut_search(pieces, &by, r, e);
  if (c->keeper.failed.status) job_warn(j, c->keeper.failed.text);
  c->stats = r->stats, c->complete = r->complete, c->ended = !stopped, c->searched = true;
  if (!c->ended && !job_stopped_by_user(j)) {
    j->cut = true;
    job_left(j, j->split.n > 1 ? arena_printf(j->mem, "subprogram %d: its search was ended early", j->part + 1) : "the search was ended early");
  }
  return status;
}

int run_search(const struct pass_on *on, struct err *e)
{
  struct job *j = on->j;
  struct contest *c = on->c;
  TRY(candidate_base(j, c, e));
  c->found = NEW(j->mem, struct search_result), c->kept = NEW(j->mem, struct search_result);
  if (j->opts->candidate) return take_given(j, c, e);
  if (!c->part->searchable) return OK;
  TRY(part_recall(j, c, c->kept, &c->recalled, e));
  if (c->recalled) return c->found = c->kept, OK;
  struct candidate *plan = j->planned ? j->planned : plans_take(j, c->part);
  if (plan) return plans_use(j, c, plan), OK;
  TRY(race_early_begin(j, c, e));
  return pipe_search_part(j, c, c->found, e);
}

// Names candidates that the pass itself has dropped, not those of nested passes.
static void name_dropped(const struct pass_on *on, int pass)
{
  for (int i = 1; i < on->c->ncand; i++) {
    struct candidate *x = &on->c->cand[i];
    if (!x->dropped || x->by) continue;
    x->by = pass;
    dropped_keep(&(struct pass_on){on->j, on->c, x}, pass);
  }
}

int run_pick(const struct pass_on *on, struct err *e)
{
  struct job *j = on->j;
  struct contest *c = on->c;
  if (c->plan) return OK;
  TRY(candidates_pick(j, c, c->found, c->recalled ? NULL : c->kept, e));
  name_dropped(on, PASS_PICK);
  if (c->searched) part_remember(j, c);
  if (c->searched && c->ended) keeper_drop(&c->keeper);
  return OK;
}

// ---- races ----

static const struct stages_race { // for each kind of target
  int (*part)(struct job *j, struct contest *c, int part, struct err *e);
  int (*whole)(struct job *j, struct err *e);
} races[TARGET_KINDS] = {
    [TARGET_CPU] = {race_part, race_whole},
    [TARGET_GPU] = {race_device_part, race_device_whole},
};

// A given candidate is examined even if it is slow.
int run_race(const struct pass_on *on, struct err *e)
{
  struct job *j = on->j;
  struct contest *c = on->c;
  struct candidate *given = j->opts->candidate && c->ncand > 1 ? &c->cand[1] : NULL;
  if (given && !given->dropped) pass_leader(j, c, given);
  if (given && (given->dropped || job_stopping(j))) return OK;
  TRY(races[j->target.kind].part(j, c, (int)(c - j->contests), e));
  name_dropped(on, PASS_RACE);
  if (c->best) part_remember(j, c);
  return OK;
}

int run_whole(const struct pass_on *on, struct err *e) { return races[on->j->target.kind].whole(on->j, e); }

// ---- the whole program ----

// Whether nothing was measured that counts for the whole program.
static int stopped_early(const struct job *j, struct err *e)
{
  int found = 0;
  for (int i = 0; i < j->split.n; i++) found += MAX(0, j->contests[i].ncand - 1);
  const char *what = *j->unmeasured ? "proven" : "measured";
  const char *why = job_stopped_by_user(j) ? "stopped" : arena_printf(j->mem, "the time, %.3g seconds, was over", clock_most(j));
  err_set(e, ERR_STOPPED, NOWHERE, "%s before anything was %s; %d verified graph%s found%s", why, what, found, found == 1 ? " was" : "s were",
          j->db && found ? " and kept" : "");
  if (!j->db) err_hint(e, "with a database the next run goes on from there");
  return ENV;
}

// The time of a job for a GPU ended before that. The program op-by-op is still a result, and the next run continues.
static void nothing_in_time(struct job *j)
{
  const char *what = *j->unmeasured ? "proven" : "measured";
  const char *why = arena_printf(j->mem, "the time, %.3g seconds, was over before anything was %s", clock_most(j), what);
  job_warn(j, arena_printf(j->mem, "%s; the program runs operator by operator, and its kernels were not run", why));
  if (!*j->unmeasured) j->unmeasured = why;
  j->stopped = j->cut = true;
}

static const double CHEAPER = 0.9; // a candidate that was not measured is this many times cheaper than op-by-op, at most

// The cheapest candidate by the model, if it is equal to the part; 0: none, or the program has one part. The race of the whole program checks its
// numbers, and compares it with op-by-op.
static int best_by_model(struct job *j, struct contest *c)
{
  const double most = CHEAPER * search_library_seconds(&j->target, c->part->g);
  for (int k = 1; k < c->ncand && !j->single; k++) {
    struct candidate *x = &c->cand[k];
    struct err e = {0};
    if (x->late) x->dropped = NULL;
    if (x->dropped || x->cost > most) continue;
    if (x->passed < PASS_THREAD_GRAPHS && pass_candidate(j, c, x, PASS_THREAD_GRAPHS, &e) != OK) continue;
    if (job_verified(j, c->part->g, x, STOP_PROOF)) return k;
  }
  return 0;
}

// A part that was not processed because of a stop or the time limit runs op-by-op. On a CPU the clock may have ended the compiler of the part alone;
// the whole program is compiled without a limit.
static int leave_part(struct job *j, struct contest *c, struct err *e)
{
  const bool gpu = j->target.kind == TARGET_GPU;
  if (!c->ncand) TRY(candidate_base(j, c, e));
  c->best = gpu ? 0 : best_by_model(j, c);
  if (c->best) return OK;
  if (gpu) device_candidate(j, c, &c->cand[0]);
  if (!c->cand[0].dropped) return OK;
  if (gpu || !job_stopping(j)) return err_set(e, ERR_TARGET, NOWHERE, "%s", c->cand[0].dropped);
  return job_stopped_by_user(j) ? stopped_early(j, e) : candidate_base(j, c, e);
}

// The GPU race reports the candidates it did not reach.
static int leave_parts(struct job *j, struct err *e)
{
  bool gpu = j->target.kind == TARGET_GPU;
  int left = 0, chosen = 0;
  for (int i = 0; i < j->split.n; i++) {
    struct contest *c = &j->contests[i];
    if (c->twin >= 0 || c->decided || (!gpu && c->ncand && (c->ncand == 1 || c->cand[0].measured))) continue;
    left += !gpu || !c->ncand;
    TRY(leave_part(j, c, e));
    chosen += c->best > 0;
  }
  const char *who = j->single ? "it was" : arena_printf(j->mem, "%d of %d subprograms were", left, j->split.n);
  const char *how = !chosen ? "" : chosen == left ? "as the model chose" : arena_printf(j->mem, "%d of them as the model chose, the others ", chosen);
  if (left) job_left(j, arena_printf(j->mem, "%s not measured: %s%s", who, how, chosen && chosen == left ? "" : "operator by operator"));
  return OK;
}

// The report after a stop. On a CPU, remaining parts are still compiled and measured after a time limit; a user who stops does not wait for it.
static bool something(const struct job *j)
{
  if (j->target.kind != TARGET_GPU) return !job_stopped_by_user(j) || (j->single && j->contests[0].cand[0].measured);
  for (int i = 0; i < j->split.n; i++)
    if (j->contests[i].decided) return true;
  return false;
}

// Joins the winners; if every part is op-by-op, so is the whole.
static int join(struct job *j, struct err *e)
{
  bool better = j->moved.g != j->plain;
  struct candidate **of = NEWS(j->mem, struct candidate *, j->split.n);
  for (int i = 0; i < j->split.n; i++) {
    const struct contest *c = whole_part(j, i);
    of[i] = &c->cand[c->best], better |= c->best > 0;
  }
  j->base.g = j->base.found = j->stable, j->base.rank = j->rank, j->base.of = of, j->best = j->base;
  return better ? whole_join(j, of, &j->best, e) : OK;
}

int run_join(const struct pass_on *on, struct err *e)
{
  struct job *j = on->j;
  const bool nothing = (j->stopped || j->target.kind == TARGET_GPU) && !something(j);
  if (nothing && job_stopped_by_user(j)) return stopped_early(j, e);
  if (nothing) nothing_in_time(j);
  TRY(leave_parts(j, e));
  return join(j, e);
}

int run_report(const struct pass_on *on, struct err *e)
{
  (void)e;
  return on->j->report = report_make(on->j), OK;
}
