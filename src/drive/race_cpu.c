// The race: candidates against op-by-op and against the best so far, all in the same run, so that a slow phase of the machine affects all of them. A
// new leader is proved: equal to the part (verified.c), and its compiled code correct on random numbers.
#include "drive/pass.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double HEAT = 0.15;    // seconds of a comparison between candidates; see race_seconds()
static const double FINAL = 0.25;   // seconds of the last comparison, for each candidate
static const double HEATS = 40;     // seconds after which no further heat begins
static const double OF_HEATS = 0.5; // largest share of the remaining time for all heats, and then for the last comparison
enum { NUMERIC_REPEATS = 2, FINALISTS = 6, WHOLE_OPS = 20000000 };

static int special(struct job *j, struct candidate *k, const struct graph *stable, stop_flag stop, struct err *e)
{
  struct special_answer a;
  int status = check_special(k->cpu.module, stable, k->g, j->opts->seed, stop, &a, e);
  if (status == OK && a.all && !a.held)
    k->note = arena_printf(j->mem, "%s%sspecial inputs determine no element", k->note ? k->note : "", k->note && *k->note ? "; " : "");
  return status;
}

// One thread a rank, on the same numbers; results that are not divided must have the same bits.
static int ranks_of(struct job *j, struct candidate *k, const struct graph *stable, stop_flag stop, struct err *e)
{
  double rel;
  module_as_ranks(k->cpu.module, ranks_form_of(j->mem, k->rank));
  int status = check_numeric(k->cpu.module, stable, j->opts->seed, 1, stop, &rel, e);
  module_as_ranks(k->cpu.module, NULL);
  return k->rel = fmax(k->rel, rel), status;
}

static int numbers_of(struct job *j, struct candidate *k, const struct graph *stable, stop_flag stop, struct err *e)
{
  TRY(check_numeric(k->cpu.module, stable, j->opts->seed, NUMERIC_REPEATS, stop, &k->rel, e));
  if (k->rank) TRY(ranks_of(j, k, stable, stop, e));
  return special(j, k, stable, stop, e);
}

int run_numbers(const struct pass_on *on, struct err *e)
{
  struct err mine = {0};
  if (numbers_of(on->j, on->x, on->c->stable, job_stop(on->j, clock_proof(on->j)), &mine) == OK) return OK;
  if (mine.id == ERR_STOPPED) on->x->dropped = NOT_CHECKED;
  return err_set(e, mine.id, NOWHERE, "numbers: %.700s", mine.text);
}

bool race_lead(struct job *j, struct contest *c, int k)
{
  if (!c->cand[k].proven && !pass_leader(j, c, &c->cand[k])) return false;
  return c->best = k, true;
}

// Compares each candidate with the fastest so far, at first op-by-op. The first one that is faster is proved at once, so that a stop has a result.
static int run_heats(struct job *j, struct contest *c, int part, struct buffers *b, struct err *e)
{
  int fastest = 0;
  double start = now_seconds();
  TRY(race_run(j, c, &fastest, 1, b, race_seconds(j, HEAT, OF_HEATS / c->ncand), e));
  for (int k = 1; k < c->ncand && !job_stopping(j); k++) {
    struct candidate *x = &c->cand[k];
    bool over = k > 1 && clock_part_over(j);
    if (over || now_seconds() - start > HEATS) {
      if (!x->dropped) c->hurried |= over, x->dropped = "not measured: earlier candidates used the time of the heats", x->late = true;
      continue;
    }
    job_progress(j, "measure", part, (double)k / c->ncand, &c->stats, 1e6 * c->cand[fastest].timing.median);
    if (x->dropped || !x->cpu.module || race_hopeless(j, x, &c->cand[fastest], b)) continue;
    TRY(race_run(j, c, (int[]){fastest, k}, 2, b, race_seconds(j, HEAT, OF_HEATS / (c->ncand - k)), e));
    if (x->cpu.score >= c->cand[fastest].cpu.score) continue;
    if (!c->best && !race_lead(j, c, k)) continue;
    fastest = k;
  }
  return OK;
}

// Op-by-op and the best candidates, once more in one run.
static int finals(struct job *j, struct contest *c, struct buffers *b, struct err *e)
{
  int who[1 + FINALISTS] = {0}, n = 1 + rank_finalists(c, who + 1, FINALISTS);
  if (n <= 2) return OK;
  TRY(race_run(j, c, who, n, b, race_seconds(j, FINAL * n, OF_HEATS), e));
  for (int i = 1; i < n; i++) c->cand[who[i]].cpu.final = true;
  return OK;
}

// The fastest that can be proved becomes the leader; op-by-op needs no proof.
static void decide(struct job *j, struct contest *c)
{
  for (int k; !job_ending(j, clock_proof(j)) && (k = rank_fastest(c)) != c->best;) {
    if (!k)
      c->best = 0;
    else if (race_lead(j, c, k))
      break;
  }
}

// Op-by-op must build: without it there is no baseline, and the cause is the machine. The cause may have passed since, so it is built again.
static int base_again(struct job *j, struct contest *c, struct err *e)
{
  struct candidate *base = c->cand;
  if (!base->dropped) return OK;
  base->dropped = NULL;
  return candidate_build(j, base, "base", e);
}

// The next run measures the rest.
static void tell_hurry(struct job *j, int part)
{
  const char *what = "not all kernel graphs and sizes were measured";
  j->cut = true;
  job_left(j, j->single ? what : arena_printf(j->mem, "subprogram %d: %s", part + 1, what));
}

int race_part(struct job *j, struct contest *c, int part, struct err *e)
{
  struct buffers *b;
  if (job_stopping(j)) return j->stopped = true, OK; // Ctrl-C reaches the compiler too, so its failure is ignored
  TRY(base_again(j, c, e));
  TRY(buffers_open(c->part->g, j->opts->seed, &b, e));
  struct err inner = {0};
  int status = c->ncand > 1 ? run_heats(j, c, part, b, &inner) : OK;
  if (status == OK && c->ncand > 1) {
    climb_cpu(j, c, part, b);
    status = finals(j, c, b, &inner);
    decide(j, c);
    climb_cpu_ends(j, c);
  }
  buffers_close(b);
  j->stopped = job_stopping(j);
  if (c->hurried) tell_hurry(j, part);
  if (status != OK && inner.id == ERR_STOPPED) return OK;
  if (status != OK) *e = inner;
  return status;
}

// ---- the whole program ----

// The program as written and the best one are compiled at the same time.
struct whole_building {
  struct job *j;
  struct candidate *who[2];
  struct err errs[2];
};

static void build_whole(void *arg, int i, int worker)
{
  (void)worker;
  struct whole_building *b = arg;
  pass_candidate(b->j, NULL, b->who[i], LAST_OF_CANDIDATE, &b->errs[i]);
}

// If the user stops the job, nothing more is measured.
static int no_result(const char *what, struct err *e)
{
  err_set(e, ERR_STOPPED, NOWHERE, "stopped before %s, so there is no result", what);
  return err_hint(e, "run the command again: it continues from the saved state"), ENV;
}

static void fall_back(struct job *j, const char *reason)
{
  if (j->best.cpu.module != j->base.cpu.module) {
    const struct contest *c = &j->contests[0];
    bool shared = c->ncand && c->cand[c->best].cpu.module == j->best.cpu.module;
    if (!shared) module_close(j->best.cpu.module);
  }
  j->best = j->base;
  j->reason = reason;
}

// The time ended before the result was checked, or before it was measured: the program as written is the result, with a warning.
static int unsure(struct job *j, const char *what, struct err *e)
{
  if (job_stopped_by_user(j)) return no_result(what, e);
  const char *why = arena_printf(j->mem, "the time, %.3g seconds, was over before %s", clock_most(j), what);
  const bool told = j->warning && strstr(j->warning, "the program runs operator by operator");
  job_warn(j, told ? why : arena_printf(j->mem, "%s; the program runs operator by operator", why));
  j->base.rel = j->best.g == j->base.g ? j->best.rel : NAN;
  fall_back(j, why);
  return j->stopped = j->cut = true, OK;
}

// With one part its modules are reused, so a stop loses nothing.
static int whole_modules(struct job *j, struct err *e)
{
  struct contest *c = &j->contests[0];
  bool one = j->single, op_by_op = j->best.g == j->base.g;
  struct whole_building b = {.j = j};
  int n = 0;
  j->base.passed = j->best.passed = PASS_THREAD_GRAPHS;
  if (one && c->cand[0].g == j->base.g && c->cand[0].cpu.module)
    j->base = c->cand[0];
  else
    b.who[n++] = &j->base;
  if (!op_by_op && one && graph_same(j->best.g, c->cand[c->best].g))
    j->best = c->cand[c->best];
  else if (!op_by_op)
    b.who[n++] = &j->best;
  pool_run(j->threads, n, build_whole, &b);
  for (int i = 0; i < n; i++) {
    if (b.errs[i].status == OK) continue;
    if (b.who[i] == &j->base || b.errs[i].id != ERR_STOPPED) return *e = b.errs[i], (int)e->status;
    return unsure(j, "it was compiled", e);
  }
  if (op_by_op) j->best = j->base;
  return OK;
}

// After the deadline the rest is still measured briefly. With several parts the whole is measured too, as no other figure exists for it.
static int time_whole(struct job *j, struct buffers *b, struct err *e)
{
  stop_flag until = job_stop(j, j->base.measured && j->best.measured ? STOP_WORK : STOP_PROOF);
  double seconds = job_stopping(j) ? MIN(j->opts->seconds, 2 * FINAL) : j->opts->seconds;
  bool op_by_op = j->best.cpu.module == j->base.cpu.module;
  struct module *m[2] = {j->base.cpu.module, j->best.cpu.module};
  struct timing t[2];
  struct err inner = {0};
  int status = measure(m, op_by_op ? 1 : 2, b, seconds, until, j->gauge, t, &inner);
  if (inner.id == ERR_STOPPED) j->stopped = true;
  if (inner.id == ERR_STOPPED && j->base.measured && j->best.measured) return OK;          // the race's figures are used
  if (inner.id == ERR_STOPPED && isnan(j->best.rel) && !job_stopped_by_user(j)) return OK; // the warning says that it was not checked
  if (inner.id == ERR_STOPPED) return unsure(j, "it was measured", e);
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
  if (!tried && c->ncand > 1 && c->cand[1].dropped)
    return arena_printf(j->mem, "no candidate passed the checks; the first was dropped: %s", c->cand[1].dropped);
  return arena_printf(j->mem, "none of %d measured candidates was faster", tried);
}

// A program joined from several parts is tested once more, if fields can evaluate it, since joining may be wrong.
static bool joined_rightly(struct job *j)
{
  struct verify_opts o = {.seed = j->opts->seed, .full_size_ops = WHOLE_OPS, .threads = j->threads, .stop = job_stop(j, STOP_PROOF)};
  struct err e = {0};
  if (j->single || j->best.cpu.module == j->base.cpu.module) return true;
  if (verify_equal(j->plain, j->best.g, &o, &j->whole, &e) == OK) return j->whole.finding != FOUND_UNEQUAL;
  if (e.id == ERR_STOPPED) job_left(j, "the verifier proved the subprograms, but not the program assembled from them");
  return true;
}

static int numbers(struct job *j, struct err *e)
{
  struct err inner = {0};
  const stop_flag stop = job_stop(j, STOP_PROOF);
  if (!joined_rightly(j)) fall_back(j, "the subprograms are right, but the program assembled from them is not equal");
  if (j->best.proven && j->best.g != j->base.g && j->single) return OK;
  int status = numbers_of(j, &j->best, j->stable, stop, &inner);
  if (inner.id == ERR_WRONG && j->best.cpu.module != j->base.cpu.module) {
    fall_back(j, arena_printf(j->mem, "the subprograms are right, but the program assembled from them is not: %s", inner.text));
    inner = (struct err){0}, status = numbers_of(j, &j->best, j->stable, stop, &inner);
  }
  if (status == OK) return OK;
  if (inner.id == ERR_STOPPED) return j->base.rel = j->best.rel = NAN, unsure(j, "its numbers were checked against float64", e);
  *e = inner;
  return status;
}

// The result was checked, so only a checked program may replace it.
static bool base_is_right(struct job *j)
{
  struct err e = {0};
  if (numbers_of(j, &j->base, j->stable, job_stop(j, STOP_PROOF), &e) == OK) return true;
  job_left(j, "operator by operator was faster, but its numbers were not checked");
  return false;
}

int race_whole(struct job *j, struct err *e)
{
  struct buffers *b;
  TRY(whole_modules(j, e));
  job_progress(j, "compare", j->split.n - 1, 0, NULL, 0);
  TRY(target_open(j->opts->target, j->threads, false, &j->host, e));
  if (j->best.g == j->base.g && !j->reason) j->reason = why_op_by_op(j);
  TRY(numbers(j, e));
  TRY(buffers_open(j->stable, j->opts->seed, &b, e));
  int status = time_whole(j, b, e);
  double ours = j->best.timing.median, theirs = j->base.timing.median;
  bool slower = status == OK && j->best.g != j->base.g && ours > theirs;
  if (slower && j->best.timing.disturbed.why) j->contests[0].disturbed = j->best.timing.disturbed; // a possible reason for losing
  if (slower && base_is_right(j)) fall_back(j, arena_printf(j->mem, "the best candidate took %.4g ms, op-by-op %.4g ms", ours * 1e3, theirs * 1e3));
  if (status == OK) own_times(j, b);
  buffers_close(b);
  return status;
}
