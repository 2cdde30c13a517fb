// Races candidates on a GPU: they are compiled, compared with float64 and timed in rounds. The fastest correct one is compared with float64 again on
// other inputs.
//
// Early rounds are cheap and the last one is exact: a few launches of all candidates, then more launches of the faster half, and so on. The finalists
// are timed alternately by graphs of about 1.5 ms, until the order of the first and the others is certain or the time is over. The cold time decides;
// the hot time of finalists is reported too.
#include "base/trace.h"
#include "gpu/rank.h"
#include "gpu/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FINALISTS = 4, MOST_FINALISTS = 64, CHUNK = 32, REPEATS = 3, LAST_REPEATS = 8, QUICK = 8, REPLAYS = 20, MOST_SAMPLES = 1000 };
enum { QUICK_REPLAYS = 15 }; // of about LAST_QUICK seconds: the last round of a quick race
static const double SECONDS = 2, LIMIT = 10, FAR = 2, HOPELESS = 10, COARSE = 1e-4, PATIENT = 2e-2, REPLAY = 1.5e-3, SHORT_REPLAY = 0.5e-3,
                    FIRST = 1e-3, LAST_QUICK = 1e-3, LONGEST_REPLAY = 8e-3;
static const double CHEAP = 1e9, LONG_REFERENCE = 10, WARM_UP = 0.025; // CHEAP: multiply-adds of a reference that is evaluated twice; others: seconds

struct race {
  struct arena *mem;
  int n;
  const struct device_program *const *programs;
  const struct gpu_race_opts *o;
  struct gpu_race *out;
  struct gpu_batch *b;
  struct gpu_session *s;
  struct gpu_worker *w;
  const struct problem *problem;
  struct code *codes;
  int *id;         // number in the worker; -1: none
  int *who, nwho;  // candidates still in the race
  double *seconds; // for each candidate: of its last round
  int round;
};

static bool stopping(const struct race *r) { return stop_set(r->o->stop); }

static void progress(const struct race *r, const char *stage, int done, int all)
{
  if (r->o->progress) r->o->progress(r->o->progress_arg, stage, done, all);
}

static int stopped(struct err *e) { return err_set(e, ERR_STOPPED, NOWHERE, "stopped while measuring on the GPU"); }
static double limit(const struct race *r) { return r->o->limit > 0 ? r->o->limit : LIMIT; }

static void out_of_race(struct race *r, int k, enum gpu_verdict v, const struct err *why)
{
  r->out->result[k].verdict = v, r->out->result[k].err = *why;
  if (r->id[k] >= 0) gpu_worker_drop(r->w, r->id[k]);
  r->id[k] = -1;
}

// ---- before the race ----

static void take_codes(struct race *r)
{
  const struct gpu_batch *b = r->b;
  r->codes = b->codes, r->out->compile = b->stats;
  for (int i = 0; i < r->n; i++)
    if (!b->had[i] && b->err[i].status != OK) out_of_race(r, i, GPU_NOT_COMPILED, &b->err[i]);
  for (int i = 0; i < b->ngood; i++) {
    int k = b->which[i];
    struct gpu_result *x = &r->out->result[k];
    if (b->results[i].status != OK) {
      out_of_race(r, k, GPU_NOT_COMPILED, &b->results[i].err);
      continue;
    }
    for (int j = 0; j < b->good[i].nkernel; j++) {
      x->registers = MAX(x->registers, b->good[i].kernel[j].registers);
      x->spilled = MAX(x->spilled, b->good[i].kernel[j].spilled);
    }
    r->who[r->nwho++] = k;
  }
}

// All kernels are compiled for this device; a message names those of other targets.
static int check_target(struct race *r, int i, const struct gpu_facts *f, struct err *e)
{
  const struct target *gpu = r->programs[i]->gpu;
  int runs_on = gpu_runs_on(gpu);
  char target[32], *machine = r->out->machine;
  size_t n = strlen(machine), room = sizeof r->out->machine - n;
  const struct target *t = target_gpu(runs_on);
  if (!t || !target_code_runs(t, f->arch))
    return err_set(e, ERR_TARGET, NOWHERE, "the programs are for compute capability %d.%d, and %s has %d.%d", runs_on / 10, runs_on % 10, f->name,
                   f->arch / 10, f->arch % 10);
  snprintf(target, sizeof target, "kernels for %s", cuda_arch_name(gpu->arch));
  if (runs_on != gpu->arch && !strstr(machine, target)) snprintf(machine + n, room, ", %s", target);
  return OK;
}

static int check_device(struct race *r, struct err *e)
{
  struct gpu_worker_facts f;
  if (gpu_worker_facts(r->w, &f, e)) return e->status;
  snprintf(r->out->machine, sizeof r->out->machine, "%.100s, driver for CUDA %d.%d", f.gpu.name, f.gpu.driver / 1000, f.gpu.driver % 1000 / 10);
  snprintf(r->out->warning, sizeof r->out->warning, "%s", gpu_worker_warning(r->w));
  for (int i = 0; i < r->n; i++)
    if (check_target(r, i, &f.gpu, e)) return e->status;
  return OK;
}

// ---- correctness ----

static int check_candidate(struct race *r, int k, const struct problem *p, int repeats, struct err *e)
{
  struct run_answer a;
  struct check_answer *c = &r->out->result[k].check;
  struct span s;
  span_begin(&s, "stage", "run");
  int status = (r->o->quick ? gpu_worker_run_compared : gpu_worker_run)(r->w, r->id[k], repeats, limit(r), &a, e);
  if (status == OK && a.compared && compare_fine(p, a.compared, c)) {
    span_end(&s);
    r->seconds[k] = a.seconds;
    return a.differs ? check_repeats(p, a.first, a.other, c, e) : OK;
  }
  // The CPU compares outputs that the device calls wrong. It uses the same outputs, since another run of racing kernels may be correct.
  if (status == OK && a.compared && !a.differs) status = gpu_worker_first(r->w, e);
  span_end(&s);
  r->seconds[k] = a.seconds;
  span_begin(&s, "stage", "comparison on the CPU");
  if (status == OK) status = check_outputs(p, a.first, c, e);
  if (status == OK && a.differs) status = check_repeats(p, a.first, a.other, c, e);
  return span_end(&s), status;
}

// STOPPED, or the fault is in the result.
static int load_and_check(struct race *r, int k, struct err *stop)
{
  struct err e = {0};
  struct gpu_result *x = &r->out->result[k];
  struct span s;
  span_begin(&s, "stage", "load");
  int status = gpu_worker_load(r->w, &r->codes[k], &r->id[k], &e);
  span_end(&s);
  if (status == OK) {
    x->algorithm = arena_copy(r->mem, gpu_worker_algorithms(r->w, r->id[k]), sizeof(int) * (size_t)(r->codes[k].nlaunch + 1));
    status = check_candidate(r, k, r->problem, r->o->unchosen ? LAST_REPEATS : REPEATS, &e);
  }
  if (e.id == ERR_STOPPED) return stopped(stop);
  if (status != OK) out_of_race(r, k, e.id == ERR_WRONG ? GPU_WRONG : GPU_FAILED, &e);
  return OK;
}

// An error that prevents every run, such as too little memory, is reported for each candidate.
static int check_all(struct race *r, struct err *e)
{
  int n = 0;
  for (int i = 0; i < r->nwho; i++) {
    progress(r, "check", i, r->nwho);
    if (stopping(r)) return stopped(e);
    if (load_and_check(r, r->who[i], e)) return e->status;
    if (r->id[r->who[i]] >= 0) r->who[n++] = r->who[i];
  }
  r->nwho = n;
  return OK;
}

// Candidates that are many times slower than the best by the host's clock are not timed. slack: additional seconds, for disturbances.
static void leave_hopeless(struct race *r, double slack)
{
  double least = INFINITY;
  int n = 0;
  for (int i = 0; i < r->nwho; i++) least = fmin(least, r->seconds[r->who[i]]);
  for (int i = 0; i < r->nwho; i++)
    if (r->seconds[r->who[i]] <= HOPELESS * least + slack) r->who[n++] = r->who[i];
  r->nwho = n;
}

// ---- times ----

// Times candidates who[0..n) alternately; those that break the worker are dropped. samples: those of who[i] start at samples[i], q->replays each.
static int time_some(struct race *r, int *who, int *n, struct time_request *q, int *launches, double *samples, struct err *e)
{
  int *id = NEWS(r->mem, int, *n + 1);
  while (*n) {
    int culprit;
    struct err mine = {0};
    for (int i = 0; i < *n; i++) id[i] = r->id[who[i]];
    q->id = id, q->launches = launches, q->n = *n;
    if (stopping(r)) return stopped(e);
    int status = gpu_worker_time(r->w, q, 10 * limit(r), samples, &culprit, &mine);
    if (status == OK) return OK;
    if (culprit < 0) return *e = mine, status;
    out_of_race(r, who[culprit], GPU_FAILED, &mine);
    --*n;
    memmove(who + culprit, who + culprit + 1, sizeof *who * (size_t)(*n - culprit));
    memmove(launches + culprit, launches + culprit + 1, sizeof *launches * (size_t)(*n - culprit));
  }
  return OK;
}

static void note(struct race *r, int k, double *samples, int n, int launches)
{
  rank_time(samples, n, launches, &r->out->result[k].cold);
  r->seconds[k] = r->out->result[k].cold.median, r->out->result[k].round = r->round;
}

// The first round only has a bound by the host's clock: QUICK launches, fewer for slow candidates.
static int launches_of(const struct race *r, int k, double seconds, int sets, bool *flush)
{
  if (seconds > 0) return rank_launches(r->seconds[k], seconds, sets, flush);
  return rank_launches(1, fmin(QUICK, fmax(1, floor(FIRST / r->seconds[k]))), sets, flush);
}

// A round on r->who: `replays` graphs of about `seconds` each; 0: the first round.
static int play_round(struct race *r, double seconds, int replays, struct err *e)
{
  double samples[CHUNK * REPLAYS];
  int launches[CHUNK], kept = 0, sets = gpu_worker_sets(r->w);
  for (int from = 0, all = r->nwho; from < all; from += CHUNK) {
    int n = MIN(CHUNK, all - from), *who = r->who + from;
    struct time_request q = {.replays = replays, .warm_up = WARM_UP};
    progress(r, "time", from, all);
    for (int i = 0; i < n; i++) {
      bool flush = false;
      launches[i] = launches_of(r, who[i], seconds, sets, &flush);
      q.flush = q.flush || flush;
    }
    if (time_some(r, who, &n, &q, launches, samples, e)) return e->status;
    for (int i = 0; i < n; i++) note(r, who[i], samples + i * replays, replays, launches[i]), r->who[kept++] = who[i];
  }
  r->nwho = kept, r->round++;
  return OK;
}

// True if the slowest candidate takes more than FAR times as long as the fastest. rank_keep drops such candidates.
static bool apart(const struct race *r)
{
  double least = INFINITY, most = 0;
  for (int i = 0; i < r->nwho; i++) least = fmin(least, r->seconds[r->who[i]]), most = fmax(most, r->seconds[r->who[i]]);
  return most > FAR * least;
}

// few: all candidates could be finalists. They are timed a second time before one is dropped, because another process may disturb a few replays.
static int halve(struct race *r, int finalists, bool few, struct err *e)
{
  if (play_round(r, 0, 3, e)) return e->status;
  if (few && apart(r) && play_round(r, SHORT_REPLAY, 7, e)) return e->status;
  for (;;) {
    r->nwho = rank_keep(r->who, r->nwho, r->seconds, finalists, FAR);
    if (r->nwho <= finalists) return OK;
    if (play_round(r, SHORT_REPLAY, 7, e)) return e->status;
  }
}

// Launches in a graph, as other programs are timed on the same GPU: whole rotations over all sets, of about 1.5 ms, at most 8 rotations.
static int cold_launches(double hot, int sets)
{
  double each = fmax(hot, 1e-7), n = sets * fmax(1, ceil(REPLAY / each / sets));
  return (int)fmax(2, fmin(n, ceil(LONGEST_REPLAY / each)));
}

static int time_hot(struct race *r, struct err *e)
{
  double *samples = NEWS(r->mem, double, r->nwho *REPLAYS + 1);
  int *launches = NEWS(r->mem, int, r->nwho + 1);
  struct time_request q = {.hot = true, .replays = REPLAYS, .warm_up = WARM_UP};
  for (int i = 0; i < r->nwho; i++) launches[i] = (int)fmax(2, fmin(400, ceil(REPLAY / fmax(r->seconds[r->who[i]], 5e-7))));
  if (time_some(r, r->who, &r->nwho, &q, launches, samples, e)) return e->status;
  for (int i = 0; i < r->nwho; i++) rank_time(samples + i * REPLAYS, REPLAYS, launches[i], &r->out->result[r->who[i]].hot);
  return OK;
}

static bool order(struct race *r)
{
  struct gpu_time t[MOST_FINALISTS];
  rank_keep(r->who, r->nwho, r->seconds, r->nwho, INFINITY);
  for (int i = 0; i < r->nwho; i++) t[i] = r->out->result[r->who[i]].cold;
  return rank_sure(t, r->nwho);
}

static bool disturbed(const struct race *r)
{
  for (int i = 0; i < r->nwho; i++)
    if (gpu_disturbed(&r->out->result[r->who[i]].cold).why) return true;
  return false;
}

// Times all finalists until the order is certain. A candidate keeps its samples when another drops out. Disturbed rounds are repeated.
static int time_final(struct race *r, struct err *e)
{
  double start = now_seconds(), budget = r->o->seconds > 0 ? r->o->seconds : SECONDS, *got = NEWS(r->mem, double, r->nwho *REPLAYS + 1);
  double **all = NEWS(r->mem, double *, r->n + 1), *sorted = NEWS(r->mem, double, MOST_SAMPLES + REPLAYS);
  int *launches = NEWS(r->mem, int, r->nwho + 1), n = 0;
  bool more;
  if (time_hot(r, e)) return e->status;
  for (int i = 0; i < r->nwho; i++) all[r->who[i]] = NEWS(r->mem, double, MOST_SAMPLES + REPLAYS);
  do {
    struct time_request q = {.replays = REPLAYS, .warm_up = n ? 0 : WARM_UP};
    for (int i = 0; i < r->nwho; i++) launches[i] = cold_launches(r->out->result[r->who[i]].hot.median, gpu_worker_sets(r->w));
    progress(r, "final", n, MOST_SAMPLES);
    if (time_some(r, r->who, &r->nwho, &q, launches, got, e)) return e->status;
    for (int i = 0; i < r->nwho; i++) {
      int k = r->who[i];
      memcpy(all[k] + n, got + i * REPLAYS, sizeof *got * REPLAYS);
      memcpy(sorted, all[k], sizeof *sorted * (size_t)(n + REPLAYS));
      note(r, k, sorted, n + REPLAYS, launches[i]);
    }
    n += REPLAYS;
    r->out->sure = order(r);
    more = now_seconds() - start < budget && n < MOST_SAMPLES && (!r->out->sure || disturbed(r));
    if (more && disturbed(r)) n = 0;
  } while (more);
  return OK;
}

// ---- the second check of the fastest ----

static bool again(struct race *r, int k, const struct problem *p, struct err *stop)
{
  struct err e = {0};
  int status = r->id[k] >= 0 ? OK : gpu_worker_load(r->w, &r->codes[k], &r->id[k], &e);
  if (status == OK && check_candidate(r, k, p, LAST_REPEATS, &e) == OK) return true;
  if (e.id == ERR_STOPPED)
    stopped(stop);
  else
    out_of_race(r, k, e.id == ERR_WRONG ? GPU_WRONG : GPU_FAILED, &e);
  return false;
}

// Loads other inputs on the device, and the candidates again.
static int put(struct race *r, int which, const struct problem **p, struct err *e)
{
  bool replaced;
  if (session_problem(r->s, which, p, e) || session_stage(r->s, which, &replaced, e)) return e->status;
  for (int i = 0; i < r->n && replaced; i++) r->id[i] = -1;
  return OK;
}

static int run_special(struct race *r, int k, const struct problem *p, struct err *e)
{
  const struct graph *own = r->programs[k]->g ? r->programs[k]->g : p->g;
  struct run_answer a;
  int status = r->id[k] >= 0 ? OK : gpu_worker_load(r->w, &r->codes[k], &r->id[k], e);
  if (status == OK) status = gpu_worker_run(r->w, r->id[k], 1, limit(r), &a, e);
  return status ? status : special_compare(&p->r, own, p->b, a.first, r->o->stop, &r->out->result[k].special, e);
}

// Special inputs (NaN, infinities), unless the reference is slow.
static bool special(struct race *r, int k, struct err *stop)
{
  const struct problem *p;
  struct err e = {0};
  if (r->problem->seconds > LONG_REFERENCE) return true;
  if (put(r, SPECIAL_INPUTS, &p, stop)) return false;
  if (run_special(r, k, p, &e) == OK) return true;
  if (e.id == ERR_STOPPED)
    stopped(stop);
  else
    out_of_race(r, k, e.id == ERR_WRONG ? GPU_WRONG : GPU_FAILED, &e);
  return false;
}

// Special inputs, then other inputs if the reference is fast, else the same inputs. Special inputs find most faults, and candidates that fail on them
// need no other inputs on the device.
static int choose(struct race *r, struct err *e)
{
  const bool by_gpu = gpu_evaluator_evidence(r->s->o.evaluator).computed > 0;
  bool cheap = (by_gpu || reference64_products(r->problem->g) <= CHEAP) && r->problem->seconds < SECONDS;
  for (int i = 0; i < r->nwho && r->out->best < 0 && e->status == OK; i++) {
    const struct problem *p = r->problem;
    if (!special(r, r->who[i], e)) continue;
    if (put(r, cheap ? OTHER_INPUTS : OWN_INPUTS, &p, e)) break;
    if (again(r, r->who[i], p, e)) r->out->best = r->who[i];
  }
  return (int)e->status;
}

static int first_right(struct race *r, struct err *e)
{
  for (int i = 0; i < r->nwho && r->out->best < 0 && e->status == OK; i++)
    if (special(r, r->who[i], e)) r->out->best = r->who[i];
  return (int)e->status;
}

// ---- quick races: approximate times ----

static int time_quickly(struct race *r, struct err *e)
{
  if (play_round(r, LAST_QUICK, QUICK_REPLAYS, e)) return e->status;
  r->out->sure = order(r);
  for (int i = 0; i < r->n; i++)
    if (!r->b->had[i]) r->out->result[i].rough = r->out->result[i].round < r->round - 1;
  return OK;
}

// The fastest of all with accurate times, now or earlier.
static int fastest(const struct race *r)
{
  int best = -1;
  for (int i = 0; i < r->n; i++) {
    const struct gpu_result *x = &r->out->result[i], *y = best < 0 ? NULL : &r->out->result[best];
    if (keep_timed(x) && (!y || (x->rough != y->rough ? y->rough : x->cold.median < y->cold.median))) best = i;
  }
  return best;
}

// ---- the whole race ----

static int make_reference(struct race *r, struct err *e)
{
  progress(r, "reference", 0, 1);
  if (session_problem(r->s, OWN_INPUTS, &r->problem, e)) return e->status;
  return r->out->reference_seconds = r->problem->seconds, OK;
}

static int wait_for_code(struct race *r, struct err *e)
{
  bool replaced;
  progress(r, "compile", 0, r->n);
  batch_wait(r->b);
  take_codes(r);
  if (check_device(r, e) || session_stage(r->s, OWN_INPUTS, &replaced, e)) return e->status;
  if (r->o->quick && session_compare(r->s, e)) return e->status;
  return r->out->sets = gpu_worker_sets(r->w), OK;
}

static int narrow(struct race *r, struct err *e)
{
  const int finalists = MAX(1, MIN(r->o->finalists > 0 ? r->o->finalists : FINALISTS, MOST_FINALISTS));
  const bool few = !r->o->quick && r->nwho <= finalists;
  leave_hopeless(r, few ? PATIENT : COARSE);
  return halve(r, finalists, few, e);
}

// A stage is a span of the job's trace.
static int stage(struct race *r, const char *name, int (*work)(struct race *, struct err *), struct err *e)
{
  struct span s;
  span_begin(&s, "stage", name);
  const int status = work(r, e);
  span_note(&s, "%d candidates", r->nwho);
  return span_end(&s), status;
}

static int run(struct race *r, struct err *e)
{
  TRY(stage(r, "reference", make_reference, e));
  TRY(stage(r, "code", wait_for_code, e));
  TRY(stage(r, "check", check_all, e));
  if (!r->nwho) return OK;
  if (r->o->untimed) return stage(r, "special inputs", first_right, e);
  TRY(stage(r, "rounds", narrow, e));
  if (r->o->quick) return stage(r, "last round", time_quickly, e);
  TRY(stage(r, "final", time_final, e));
  if (r->o->unchosen) return stage(r, "special inputs", first_right, e);
  return stage(r, "other inputs", choose, e);
}

static int start(struct race *r, struct err *e)
{
  int n = r->n;
  r->id = NEWS(r->mem, int, n + 1), r->who = NEWS(r->mem, int, n + 1), r->seconds = NEWS(r->mem, double, n + 1);
  for (int i = 0; i < n; i++) r->id[i] = -1;
  int status = run(r, e);
  for (int i = 0; i < n; i++)
    if (r->id[i] >= 0) gpu_worker_drop(r->w, r->id[i]);
  return status;
}

int gpu_race_batch(struct arena *mem, struct gpu_batch *b, struct gpu_race *out, struct err *e)
{
  struct race r = {.mem = mem, .n = b->n, .programs = b->programs, .o = &b->o, .out = out, .b = b, .s = b->s, .w = b->s->w};
  double start_at = now_seconds();
  *out = (struct gpu_race){.best = -1, .result = NEWS(mem, struct gpu_result, b->n + 1)};
  if (b->n < 1) return OK;
  if (b->recalled && b->key) return keep_recall(mem, b->o.db, b->key, b->n, out), OK;
  for (int i = 0; i < b->n; i++) {
    out->result[i] = (struct gpu_result){.verdict = GPU_FINE, .round = -1, .registers = -1, .spilled = -1};
    if (b->had[i]) out->result[i] = b->race->result[i], out->result[i].algorithm = NULL; // its memory belongs to the batch
  }
  out->recalled = b->recalled, out->sets = b->race->sets;
  snprintf(out->machine, sizeof out->machine, "%s", b->race->machine);
  int status = b->recalled ? OK : start(&r, e);
  if (b->o.quick || status != OK) out->best = fastest(&r);
  out->seconds = now_seconds() - start_at;
  if (status == OK && b->key) keep_race(b->o.db, b->key, b->n, b->programs, out, out->warning);
  if (status == OK && b->each_key) keep_each(b, out);
  return status;
}

int gpu_race(struct arena *mem, int n, const struct device_program *const *programs, const struct graph *reference, const struct gpu_race_opts *o,
             struct gpu_race *out, struct err *e)
{
  struct gpu_session *s;
  struct gpu_batch *b = NULL;
  double start_at = now_seconds();
  int status = gpu_session_open(reference, o, &s);
  if (status == OK) status = gpu_batch_start(s, o, n, programs, &b, e);
  if (status == OK) status = gpu_race_batch(mem, b, out, e);
  if (status == OK && !out->recalled) out->seconds = now_seconds() - start_at;
  gpu_batch_drop(b);
  gpu_session_close(s);
  return status;
}
