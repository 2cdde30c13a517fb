// The race: candidates against op-by-op and against the best so far, all in the same run, so that a machine that slows
// down slows down all of them. Who takes the lead is proven: equal to the part (verified.c), and its compiled
// code right on random numbers.
#include "drive/drive.h"

#include <math.h>
#include <stdlib.h>

static const double HEAT = 0.15;                       // seconds of one comparison between candidates
static const double FINAL = 0.25;                      // and of the last, a candidate
static const double LONG = 0.3;                        // seconds of a call from which on every call counts
static const double HOPELESS = 2, HOPELESS_LONG = 1.4; // calls this many times slower than the best: no further one
static const double NEVER = 50, WAIT = 0.1; // no candidate is so many times slower, others had the cores: it is called again for so many seconds
static const double HEATS = 40;             // seconds after which no further heat is begun
enum { NUMERIC_REPEATS = 2, FINALISTS = 6, CHANCES = 4, WHOLE_OPS = 20000000 };

static void drop(struct job *j, struct candidate *c, const struct err *e, const char *what)
{
  c->dropped = arena_printf(j->mem, "%s: %s", what, e->text);
}

static int special(struct job *j, struct candidate *k, const struct graph *stable, struct err *e)
{
  struct special_answer a;
  int status = check_special(k->module, stable, k->g, j->opts->seed, &a, e);
  if (status == OK && a.all && !a.held)
    k->note = arena_printf(j->mem, "%s%sspecial inputs decide no element", k->note ? k->note : "", k->note && *k->note ? "; " : "");
  return status;
}

// The certificate, then the numbers. False and a reason when it fails either.
static bool prove(struct job *j, struct contest *c, struct candidate *k)
{
  struct err e = {0};
  if (!job_verified(j, c->part->g, k, STOP_WORK)) return false;
  if (check_numeric(k->module, c->stable, j->opts->seed, NUMERIC_REPEATS, &k->rel, &e) != OK || special(j, k, c->stable, &e) != OK)
    return drop(j, k, &e, "numbers"), false;
  return k->proven = true;
}

static double one_call(struct candidate *k, struct buffers *b)
{
  double start = now_seconds();
  return module_call(k->module, b->in, b->out) == 0 ? now_seconds() - start : INFINITY;
}

// Cold caches and fresh pages may explain brief calls that take long, so there are as many as tell whether others had the processors.
// If they had, nothing is said of the candidate.
bool race_hopeless(struct job *j, struct candidate *k, const struct candidate *best, struct buffers *b)
{
  struct stretch calls;
  if (!best->measured) return false;
  gauge_watch(j->gauge);
  double t = one_call(k, b), least = best->timing.median;
  bool brief = t < LONG;
  double start = now_seconds();
  for (int i = 1; brief && t > HOPELESS * least && (i < CHANCES || !gauge_due(j->gauge) || (t > NEVER * least && now_seconds() - start < WAIT)); i++)
    t = MIN(t, one_call(k, b));
  gauge_record(j->gauge, 1, &calls);
  module_rest(k->module);
  if (isinf(t)) return k->dropped = "too little memory", true;
  if (t <= (brief ? HOPELESS : HOPELESS_LONG) * least || stretch_cause(&calls, gauge_reference(j->gauge))) return false;
  k->timing = timing_of(&t, 1);
  k->dropped = arena_printf(j->mem, "slower: %.3g ms against %.3g ms", t * 1e3, best->timing.median * 1e3);
  return true;
}

bool race_lead(struct job *j, struct contest *c, int k)
{
  if (!c->cand[k].proven && !prove(j, c, &c->cand[k])) return false;
  return c->best = k, true;
}

int race_run(struct job *j, struct contest *c, const int *who, int n, struct buffers *b, double seconds, struct err *e)
{
  struct module *m[MOST_IN_A_RUN];
  struct timing t[MOST_IN_A_RUN];
  CHECK(n <= MOST_IN_A_RUN);
  for (int i = 0; i < n; i++) m[i] = c->cand[who[i]].module;
  TRY(measure(m, n, b, seconds, job_stop(j, STOP_WORK), j->gauge, t, e));
  if (t[0].disturbed.why && t[0].disturbed.why != DISTURBED_SCATTERED) c->disturbed = t[0].disturbed; // which is that of all
  double unit = who[0] ? c->cand[who[0]].score : 1;
  for (int i = 0; i < n; i++) {
    struct candidate *x = &c->cand[who[i]];
    x->timing = t[i], x->measured = true, x->score = unit * t[i].quiet / t[0].quiet;
  }
  return OK;
}

// Each candidate with the fastest so far, at first op-by-op; the first that is faster than that is proven at once, so that a
// stop finds something to keep.
static int run_heats(struct job *j, struct contest *c, int part, struct buffers *b, struct err *e)
{
  int fastest = 0;
  double start = now_seconds();
  TRY(race_run(j, c, &fastest, 1, b, HEAT, e));
  for (int k = 1; k < c->ncand && !job_stopping(j); k++) {
    struct candidate *x = &c->cand[k];
    bool over = k > 1 && clock_part_over(j);
    if (over || now_seconds() - start > HEATS) {
      if (!x->dropped) c->hurried |= over, x->dropped = "not measured: those before it took the time of the heats";
      continue;
    }
    job_progress(j, "measure", part, (double)k / c->ncand, &c->stats, 1e6 * c->cand[fastest].timing.median);
    if (x->dropped || !x->module || race_hopeless(j, x, &c->cand[fastest], b)) continue;
    TRY(race_run(j, c, (int[]){fastest, k}, 2, b, HEAT, e));
    if (x->score >= c->cand[fastest].score) continue;
    if (!c->best && !race_lead(j, c, k)) continue;
    fastest = k;
  }
  return OK;
}

// Op-by-op and those that came out best, once more in one run.
static int finals(struct job *j, struct contest *c, struct buffers *b, struct err *e)
{
  int who[1 + FINALISTS] = {0}, n = 1 + rank_finalists(c, who + 1, FINALISTS);
  if (n <= 2) return OK;
  TRY(race_run(j, c, who, n, b, FINAL * n, e));
  for (int i = 1; i < n; i++) c->cand[who[i]].final = true;
  return OK;
}

// The lead goes to the fastest that can be proven; op-by-op needs no proof.
static void decide(struct job *j, struct contest *c)
{
  for (int k; !job_stopping(j) && (k = rank_fastest(c)) != c->best;) {
    if (!k)
      c->best = 0;
    else if (race_lead(j, c, k))
      break;
  }
}

// Op-by-op must build: without it there is nothing to compare with, and the reason is the machine's.
static int base_error(struct job *j, const struct contest *c, struct err *e)
{
  const char *why = c->cand[0].dropped;
  if (!why) return OK;
  struct err again = {0};
  struct candidate retry = c->cand[0];
  if (candidate_build(j, &retry, "base", &again) == OK) {
    module_close(retry.module);
    return err_set(e, ERR_COMPILER, NOWHERE, "%s", why);
  }
  *e = again;
  return (int)e->status;
}

// The next run has what was not measured.
static void tell_hurry(struct job *j, int part)
{
  const char *what = "not all kernel graphs and sizes were measured";
  j->cut = true;
  job_left(j, j->single ? what : arena_printf(j->mem, "subprogram %d: %s", part + 1, what));
}

int race_part(struct job *j, struct contest *c, int part, struct err *e)
{
  struct buffers *b;
  if (job_stopping(j)) return j->stopped = true, OK; // Ctrl-C reaches the compiler too: its failure is no news
  TRY(base_error(j, c, e));
  TRY(buffers_open(c->part->g, j->opts->seed, &b, e));
  struct err inner = {0};
  int status = c->ncand > 1 ? run_heats(j, c, part, b, &inner) : OK;
  if (status == OK && c->ncand > 1) {
    tune_part(j, c, part, b);
    status = finals(j, c, b, &inner);
    decide(j, c);
    tune_ends(j, c);
  }
  buffers_close(b);
  j->stopped = job_stopping(j);
  if (c->hurried) tell_hurry(j, part);
  if (status != OK && inner.id == ERR_STOPPED) return OK;
  if (status != OK) *e = inner;
  return status;
}

// ---- the whole program ----

// With one part the modules are there already; then a stop loses nothing.
static int whole_modules(struct job *j, struct err *e)
{
  struct contest *c = &j->contests[0];
  bool one = j->single, op_by_op = j->best.g == j->base.g;
  const char *name = j->program->name ? j->program->name : "program";
  if (one && c->cand[0].g == j->base.g && c->cand[0].module)
    j->base = c->cand[0];
  else
    TRY(candidate_build(j, &j->base, name, e));
  if (op_by_op)
    j->best = j->base;
  else if (one && graph_same(j->best.g, c->cand[c->best].g))
    j->best = c->cand[c->best];
  else
    TRY(candidate_build(j, &j->best, name, e));
  return OK;
}

// Where the time is over what was not measured, of several parts the whole, is measured all the same, briefly: nothing stands for it.
static int time_whole(struct job *j, struct buffers *b, struct err *e)
{
  stop_flag until = j->base.measured && j->best.measured ? job_stop(j, STOP_WORK) : j->opts->stop;
  double seconds = job_stopping(j) ? MIN(j->opts->seconds, 2 * FINAL) : j->opts->seconds;
  bool op_by_op = j->best.module == j->base.module;
  struct module *m[2] = {j->base.module, j->best.module};
  struct timing t[2];
  struct err inner = {0};
  int status = measure(m, op_by_op ? 1 : 2, b, seconds, until, j->gauge, t, &inner);
  if (inner.id == ERR_STOPPED) j->stopped = true;
  if (inner.id == ERR_STOPPED && j->base.measured && j->best.measured) return OK; // the race's figures serve
  if (status != OK) {
    *e = inner;
    return status;
  }
  j->base.timing = t[0], j->best.timing = t[op_by_op ? 0 : 1];
  j->base.measured = j->best.measured = true;
  return OK;
}

static const char *why_op_by_op(const struct job *j)
{
  const struct contest *c = &j->contests[0];
  int tried = 0;
  for (int i = 1; i < c->ncand; i++) tried += c->cand[i].measured;
  if (j->split.n > 1) return "in no subprogram was a candidate faster than op-by-op";
  if (j->stopped)
    return job_stopped_by_user(j) ? "stopped before a candidate was proven and measured"
                                  : "the time was over before a candidate was proven and measured";
  if (!c->part->searchable) return "the program has only operators that are not searched";
  if (!c->nfound) return arena_printf(j->mem, "the search found no other kernel graph. %s", c->why);
  if (!tried && c->ncand > 1 && c->cand[1].dropped) return arena_printf(j->mem, "no candidate came through; the first: %s", c->cand[1].dropped);
  return arena_printf(j->mem, "none of %d measured candidates was faster", tried);
}

static void fall_back(struct job *j, const char *reason)
{
  if (j->best.module != j->base.module) {
    const struct contest *c = &j->contests[0];
    bool shared = c->ncand && c->cand[c->best].module == j->best.module;
    if (!shared) module_close(j->best.module);
  }
  j->best = j->base;
  j->reason = reason;
}

// Of several parts the whole is tested once more, where fields can evaluate it: the parts might be joined wrongly.
static bool joined_rightly(struct job *j)
{
  struct verify_opts o = {.seed = j->opts->seed, .full_size_ops = WHOLE_OPS, .threads = j->threads, .stop = job_stop(j, STOP_WORK)};
  struct err e = {0};
  if (j->single || j->best.module == j->base.module || verify_equal(j->plain, j->best.g, &o, &j->whole, &e) != OK) return true;
  return j->whole.finding != FOUND_UNEQUAL;
}

static int best_numbers(struct job *j, struct err *e)
{
  int status = check_numeric(j->best.module, j->stable, j->opts->seed, NUMERIC_REPEATS, &j->best.rel, e);
  return status ? status : special(j, &j->best, j->stable, e);
}

static int numbers(struct job *j, struct err *e)
{
  struct err inner = {0};
  if (!joined_rightly(j)) fall_back(j, "the parts are right but the whole is not equal to the program");
  if (j->best.proven && j->best.g != j->base.g && j->single) return OK;
  if (j->stopped && (j->best.measured || job_stopped_by_user(j))) return OK;
  int status = best_numbers(j, &inner);
  if (status == OK) return OK;
  if (j->best.module == j->base.module || inner.id != ERR_WRONG) {
    *e = inner;
    return status;
  }
  fall_back(j, arena_printf(j->mem, "the parts are right but the whole is not: %s", inner.text));
  return best_numbers(j, e);
}

int race_whole(struct job *j, struct err *e)
{
  struct buffers *b;
  TRY(whole_modules(j, e));
  job_progress(j, "compare", j->split.n - 1, 0, NULL, 0);
  TRY(target_open(j->opts->target, j->threads, false, &j->host, e));
  if (j->best.g == j->base.g) j->reason = why_op_by_op(j);
  TRY(numbers(j, e));
  TRY(buffers_open(j->program, j->opts->seed, &b, e));
  int status = time_whole(j, b, e);
  double ours = j->best.timing.median, theirs = j->base.timing.median;
  bool slower = status == OK && j->best.g != j->base.g && ours > theirs;
  if (slower && j->best.timing.disturbed.why) j->contests[0].disturbed = j->best.timing.disturbed; // which may be why it lost
  if (slower) fall_back(j, arena_printf(j->mem, "the best candidate took %.4g ms, op-by-op %.4g ms", ours * 1e3, theirs * 1e3));
  if (status == OK) own_times(j, b);
  buffers_close(b);
  return status;
}
