// Candidates on this machine's GPU. First every candidate runs with the model's best choices, and with some kernels changed. The race climbs from the
// fastest few (climb.h). The fastest is proved: equal to the part (verified.c), and its kernels correct in the interpreter. If that fails it is
// dropped, and the next fastest takes its place.
#include "base/memory.h"
#include "drive/climb.h"
#include "drive/pass.h"

#include <math.h>
#include <string.h>

enum { FIRST_WAYS = 8, LEAST_WAYS = 2, MOST_TRIES = 4, LATE = 4, FIRST_CANDIDATES = 2 };

// ---- starters ----

// The model's pick, and variants with one unit changed, about that many in all; below 0: none.
static void enter_ways(struct entrants *f, int cand, int ways)
{
  const struct lowered *l = f->c->cand[cand].gpu.lowered;
  struct climb_plan *p = l ? entrants_plan(f, cand, l->plan.dependent) : NULL;
  if (!p) return;
  struct choice *other = arena_copy(f->j->mem, l->pick, sizeof *l->pick * (size_t)(p->p.nunits + 1));
  entrants_enter(f, -1, p, l->pick, -1, 1);
  for (int u = 0; u < p->p.nunits && !f->c->cand[cand].of && ways >= 0; u++) { // parts were raced with other choices
    const struct lower_unit *x = &p->p.unit[u];
    int most = MIN(x->nchoices, MAX(LEAST_WAYS, ways / p->p.nunits));
    for (int k = 0; k < most && !lower_inside(&p->p, l->pick, u); k++) {
      other[u] = x->choice[k];
      entrants_enter(f, -1, p, other, -1, 1);
    }
    other[u] = l->pick[u];
  }
}

// The choices that were fastest in an earlier race.
static void enter_raced(struct entrants *f, int cand)
{
  struct lower_plan p;
  struct choice *pick;
  struct err e = {0};
  const struct candidate *c = &f->c->cand[cand];
  if (!f->c->raced || !graph_same(f->c->raced, c->found)) return;
  json_t *launches = json_loads(f->c->launches, 0, NULL);
  if (launches_read(f->j->mem, launches, NULL, c->g, &f->j->target, &p, &pick, &e) == OK) {
    bool fits = true;
    struct climb_plan *plan = entrants_plan(f, cand, p.dependent);
    for (int u = 0; plan && u < p.nunits && fits; u++) fits = lower_inside(&p, pick, u) || entrants_setting(f, plan, u, &pick[u]);
    if (plan && fits) entrants_enter(f, -1, plan, pick, -1, 1);
  }
  json_decref(launches);
}

// Whether all its choices are the model's best.
static bool is_pick(const struct entrants *f, const struct entrant *x)
{
  const struct lowered *l = f->c->cand[x->cand].gpu.lowered;
  bool same = l && x->plan->p.nunits == l->plan.nunits;
  for (int u = 0; same && u < l->plan.nunits; u++) same = choice_same(&x->pick[u], &l->pick[u]);
  return same;
}

static int cheapest_pick(const struct entrants *f)
{
  int best = -1;
  for (int i = 0; i < f->n; i++) {
    const struct entrant *x = &f->x[i];
    if (x->cand && !x->first && is_pick(f, x) && (best < 0 || x->model < f->x[best].model)) best = i;
  }
  return best;
}

// Entrants that are timed first: op-by-op, the winner of an earlier race, and the picks of the model's best candidates.
static void mark_first(struct entrants *f, int nraced)
{
  for (int i = 0; i < f->n; i++) f->x[i].first = i < nraced || (!f->x[i].cand && is_pick(f, &f->x[i]));
  for (int k = 0, i; k < FIRST_CANDIDATES && (i = cheapest_pick(f)) >= 0; k++) f->x[i].first = true;
}

static int op_by_op(const struct entrants *f)
{
  for (int i = 0; i < f->n; i++)
    if (!f->x[i].cand && is_pick(f, &f->x[i])) return i;
  return -1;
}

static void set_timing(struct candidate *c, const struct gpu_time *t)
{
  c->timing = (struct timing){.median = t->median,
                              .least = t->least,
                              .most = t->p90,
                              .p25 = t->low,
                              .p75 = t->high,
                              .quiet = t->low,
                              .runs = t->replays,
                              .disturbed = gpu_disturbed(t)};
  c->measured = true;
}

void race_gpu_times(struct entrants *f)
{
  for (int k = 0; k < f->c->ncand; k++) {
    struct candidate *c = &f->c->cand[k];
    int i = entrants_fastest(f, k, true);
    if (i >= 0) set_timing(c, &f->x[i].result->cold), c->rel = f->x[i].result->check.relative;
    for (int n = 0; n < f->n && i < 0 && !c->dropped; n++)
      if (f->x[n].cand == k && f->x[n].why) entrants_drop(c, &f->x[n]);
  }
}

// ---- the fastest that can be proven ----

// One wrong variant of a candidate does not condemn the others, but a candidate has a limited number of attempts.
static bool stands(struct entrants *f, int i, int *tries)
{
  struct entrant *x = &f->x[i];
  struct candidate *k = &f->c->cand[x->cand];
  const struct pass_on on = {f->j, f->c, k};
  struct err e = {0};
  if (device_take(f->j, k, &x->plan->p, x->pick, &e) == OK) {
    device_algorithms(&k->gpu.lowered->program, x->result ? x->result->algorithm : NULL);
    if (pass_leader(f->j, f->c, k)) return true;
  } else
    k->unproved = false, k->dropped = arena_strdup(f->j->mem, e.text), k->by = PASS_LOWER,
    k->again = dropped_way(&on, PASS_LOWER, e.text, &x->plan->p, x->pick);
  if (job_ending(f->j, STOP_PROOF)) return k->dropped = NULL, false; // the kernels were not at fault
  x->state = OUT;
  if (k->unproved) f->unproved++; // another entrant may take less time
  if (k->unproved && !x->cand) return k->dropped = NULL, false;
  bool equal = x->cand == 0 || k->cert.equal;
  if (equal && ++tries[x->cand] < MOST_TRIES && entrants_fastest(f, x->cand, true) >= 0) k->dropped = NULL;
  return false;
}

int race_gpu_prove(struct entrants *f, int *best, struct err *e)
{
  int *tries = NEWS(f->j->mem, int, f->c->ncand + 1);
  for (int i; !job_ending(f->j, STOP_PROOF) && (i = entrants_fastest(f, -1, true)) >= 0;) {
    if (!f->x[i].last && !job_stopping(f->j) && !clock_hurries(f->j)) { // a proof matters more than exact figures
      int status = climb_finals(f, e);
      if (status == NO)
        f->x[i].state = OUT;
      else if (status != OK)
        return status;
      continue;
    }
    job_progress(f->j, "prove", f->part, 0, &f->c->stats, 1e6 * f->x[i].seconds);
    if (stands(f, i, tries)) return climb_ends(f, i), *best = f->x[i].cand, OK;
  }
  return OK;
}

// No time was left for candidates from `cand` on: none was measured or found wrong.
static bool nothing_from(const struct entrants *f, int cand)
{
  bool open = false;
  for (int i = 0; i < f->n; i++) {
    const struct entrant *x = &f->x[i];
    if (x->cand >= cand && x->result && x->state != LEFT) return false;
    open |= x->state == WAITING || x->state == LEFT;
  }
  return open;
}

static bool came_to_nothing(const struct entrants *f) { return nothing_from(f, 0); }
// WORTH: share of a part's time, or of the program's; a smaller gain counts as none. MODEL_ERROR: the fastest variant may take less than the model's
// time of the best by this share. For most of thirteen products the model's first choice was within it (bench/turns_h200.csv).
static const double WORTH = 0.02, MODEL_ERROR = 0.1;

static bool only_op_by_op(const struct entrants *f) { return nothing_from(f, 1); }

// Reports the entrants that were not tried. If the time ended before a climb could begin, the next run continues.
static void tell_untried(struct entrants *f)
{
  int n[OUT + 1] = {0}, timed = 0;
  for (int i = 0; i < f->n; i++) n[f->x[i].state]++, timed += f->x[i].result && f->x[i].state != LEFT;
  bool early = !f->nlines && n[WAITING], nothing = came_to_nothing(f);
  if (early || nothing || f->unproved) f->j->cut = true;
  if (!job_stopping(f->j) && !early && !n[LEFT] && !f->unproved) return;
  const char *all = f->j->split.n > 1 ? arena_printf(f->j->mem, "subprogram %d: ", f->part + 1) : "";
  const char *slow = n[LEFT] ? arena_printf(f->j->mem, ", %d skipped because compiling them took too long", n[LEFT]) : "";
  const char *proofs = f->unproved ? arena_printf(f->j->mem, ", %d not proved for lack of time", f->unproved) : "";
  const char *climb = nothing ? "; it runs operator by operator" : !f->nlines && f->j->opts->tune > 0 ? "; the fastest was not tuned" : "";
  job_left(f->j, arena_printf(f->j->mem, "%s%d variants of kernels were measured, %d known ones were not%s%s%s", all, timed, n[WAITING], slow, proofs,
                              climb));
}

// Candidates that were skipped for lack of time get another chance.
static void take_left(struct entrants *f)
{
  for (int i = 0; i < f->n; i++) {
    struct entrant *x = &f->x[i];
    if (x->state == LEFT) x->state = WAITING, x->result = NULL, x->why = x->again = NULL;
  }
}

// A part whose time ended too soon gets the job's remaining time: the model's best is tried.
static void race_late(struct entrants *f, struct err *e)
{
  take_left(f);
  for (int i = 0; i < f->n; i++) f->x[i].hash = 0; // entrants dropped as duplicates of these must not be excluded
  f->most = LATE, f->until = f->compile_until = clock_late(f->j);
  climb_starters(f, e);
  f->compile_until = clock_end(f->j);
}

// The error of op-by-op counts: a missing library has another cause than a wrong kernel.
static int nothing_came(const struct entrants *f, struct err *e)
{
  const struct candidate *base = &f->c->cand[0];
  enum errid id = ERR_TARGET;
  for (int i = 0; i < f->n && id == ERR_TARGET; i++)
    if (!f->x[i].cand && f->x[i].result && f->x[i].result->err.id != ERR_NONE) id = f->x[i].result->err.id;
  return err_set(e, id, NOWHERE, "no kernels for %s passed the checks; the program operator by operator: %s", f->j->target.name,
                 base->dropped ? base->dropped : "nothing of it was measured");
}

static int decide(struct entrants *f, struct err *e)
{
  struct contest *c = f->c;
  struct job *j = f->j;
  int best = -1;
  TRY(race_gpu_prove(f, &best, e));
  tell_untried(f);
  race_gpu_times(f);
  j->stopped = job_stopping(j);
  if (came_to_nothing(f)) return c->cand[0].dropped = NULL, OK;
  if (best < 0 && (j->stopped || f->unproved) && c->cand[0].measured && !c->cand[0].dropped) best = 0; // it was correct, and is the program
  if (best >= 0) return c->best = best, c->decided = true, OK;
  if (j->stopped || f->unproved) return OK;
  return nothing_came(f, e);
}

// Only the best of other sizes is reported and kept.
static void forget_sizes(struct contest *c)
{
  int n = 0, best = c->best;
  for (int k = 0; k < c->ncand; k++) {
    if (c->cand[k].tuned && k != best) continue;
    if (k == best) c->best = n;
    c->cand[n++] = c->cand[k];
  }
  c->ncand = n;
}

// ---- a part, the whole ----

// Whether every part has a plan.
static bool planned(const struct job *j)
{
  for (int i = 0; i < j->split.n; i++)
    if (j->contests[i].twin < 0 && !j->contests[i].plan) return false;
  return true;
}

int race_gpu_races(const struct job *j)
{
  int races = !j->single;
  for (int i = 0; i < j->split.n; i++) races += j->contests[i].twin < 0;
  return MAX(races, 1);
}

double race_gpu_share(const struct job *j) { return planned(j) ? 0 : j->opts->tune / race_gpu_races(j); } // a plan is the result of a climb

static bool one_way(const struct job *j, const struct contest *c, int cand) { return cand < c->ncand && device_given(j, c, &c->cand[cand]); }

struct entrants *race_gpu_starters(struct job *j, struct contest *c, int part, struct gpu_session *s)
{
  struct entrants *f = entrants_open(j, c, part, s);
  for (int k = 0; k < c->ncand; k++)
    if (c->cand[k].gpu.lowered && !c->cand[k].dropped) enter_raced(f, k);
  const int nraced = f->n;
  for (int k = 0; k < c->ncand; k++)
    if (c->cand[k].gpu.lowered && !c->cand[k].dropped) enter_ways(f, k, c->plan || one_way(j, c, k) ? -1 : k ? FIRST_WAYS : 0);
  mark_first(f, nraced);
  return f;
}

struct entrants *race_gpu_open(struct job *j, struct contest *c, int part, struct gpu_session *s)
{
  candidates_room(j, c, MOST_SIZED);
  return race_gpu_starters(j, c, part, s);
}

int race_gpu_climb(struct entrants *f, double seconds, struct err *e)
{
  struct job *j = f->j;
  struct contest *c = f->c;
  f->until = f->compile_until = clock_starters(j);
  if (c->plan) proof_begin(j, c);
  TRY(climb_starters(f, e));
  f->until = fmin(now_seconds() + seconds, clock_climb(j));
  f->compile_until = fmin(f->until + seconds, clock_climb(j)); // limit for a batch that was begun
  if (seconds > 0 && f->until > now_seconds() && !job_stopping(j) && !c->plan && !one_way(j, c, 1)) climb_run(f, e);
  f->compile_until = clock_end(j);
  return (int)e->status;
}

struct gpu_race_opts race_gpu_opts(const struct job *j)
{
  return (struct gpu_race_opts){
      .seed = j->opts->seed, .stop = job_stop(j, STOP_WORK), .forge = j->forge, .with = j->worker, .evaluator = j->evaluator};
}

// All entrants wait, except op-by-op if a race was begun during the search.
static int open_race(struct job *j, struct contest *c, int part)
{
  struct gpu_race_opts o = race_gpu_opts(j);
  struct gpu_session *s = race_early_session(c);
  if (!s) TRY(gpu_session_open(c->stable, &o, &s));
  c->session = s, c->entrants = race_gpu_open(j, c, part, s);
  const int base = op_by_op(c->entrants);
  if (c->early && base >= 0) climb_begun(c->entrants, base);
  return OK;
}

// Waits for the race of op-by-op.
static int end_early(struct entrants *f, struct err *e)
{
  struct gpu_race early;
  if (!f->c->early) return OK;
  race_early_end(f->j, f->c, &early, e);
  const int base = op_by_op(f);
  if (e->status == OK && base >= 0) climb_known(f, base, &early);
  return (int)e->status;
}

int race_gpu_begin(struct job *j, struct contest *c, int part, struct err *e)
{
  TRY(open_race(j, c, part));
  struct entrants *f = c->entrants;
  f->until = f->compile_until = clock_first(j), f->opening = true;
  return climb_ahead(f, e);
}

bool race_gpu_ready(const struct contest *c)
{
  const struct entrants *f = c->entrants;
  return race_early_ended(c) && (!f->ahead.n || gpu_batch_ready(f->ahead.b)) && worker_lock_is_free(f->j->worker_lock);
}

int race_gpu_ahead(struct contest *c, double until, struct err *e)
{
  struct entrants *f = c->entrants;
  if (f->ahead.n) return OK;
  f->until = f->compile_until = until;
  return climb_ahead(f, e);
}

int race_gpu_first(struct contest *c, struct err *e)
{
  struct entrants *f = c->entrants;
  struct undo undo;
  TRY(end_early(f, e));
  worker_lock_enter(f->j->worker_lock, &undo);
  climb_starters(f, e);
  worker_lock_leave(f->j->worker_lock, &undo);
  if (e->status == OK) f->opening = false, take_left(f);
  return (int)e->status;
}

void race_gpu_drop(struct job *j, struct contest *c)
{
  struct undo undo;
  worker_lock_enter(j->worker_lock, &undo);
  proof_drop(c);
  if (c->entrants) entrants_close(c->entrants);
  gpu_session_close(c->session);
  worker_lock_leave(j->worker_lock, &undo);
  c->entrants = NULL, c->session = NULL;
}

// Seconds of the fastest program so far, for a part and its twins. 0: none was measured.
static double part_seconds(const struct job *j, int part)
{
  const struct contest *c = &j->contests[part];
  const int best = c->entrants ? entrants_fastest(c->entrants, -1, true) : -1;
  if (c->twin >= 0) return 0;
  return part_alike(j, part) * (best >= 0 ? c->entrants->x[best].seconds : c->ncand ? c->cand[c->best].timing.median : 0);
}

double race_gpu_gain(const struct job *j, int part)
{
  const struct entrants *f = j->contests[part].entrants;
  const double now = f ? part_seconds(j, part) : 0;
  double model = INFINITY, program = 0;
  if (!f || entrants_fastest(f, -1, true) < 0) return INFINITY;
  for (int i = 0; i < f->n; i++) model = fmin(model, part_alike(j, part) * f->x[i].model);
  for (int i = 0; i < j->split.n; i++) program += part_seconds(j, i);
  const double gain = now - (1 - MODEL_ERROR) * model;
  return now - model >= WORTH * now || gain >= WORTH * program ? gain : 0;
}

double race_gpu_lead(const struct contest *c)
{
  const struct entrants *f = c->entrants;
  const int best = entrants_fastest(f, -1, true), base = entrants_fastest(f, 0, true);
  return best < 0 ? 0 : base < 0 ? INFINITY : f->x[base].seconds - f->x[best].seconds;
}

// The first batch is compiled while the race of op-by-op ends, which takes most of a short time for a large program.
static int open_alone(struct job *j, struct contest *c, int part, struct err *e)
{
  struct err ahead = {0};
  TRY(open_race(j, c, part));
  if (!c->early) return OK;
  c->entrants->until = c->entrants->compile_until = clock_starters(j);
  climb_ahead(c->entrants, &ahead);
  if (end_early(c->entrants, e) == OK) *e = ahead;
  return (int)e->status;
}

// A part that was opened and has no expected gain is final.
int race_gpu_part(struct job *j, struct contest *c, int part, struct err *e)
{
  const bool over = c->entrants && !race_gpu_gain(j, part);
  if (!c->entrants) TRY(open_alone(j, c, part, e));
  struct entrants *f = c->entrants;
  struct gpu_session *s = c->session;
  int status = over ? OK : race_gpu_climb(f, race_gpu_share(j) * c->deal, e);
  if (!over && status == OK && only_op_by_op(f) && !job_stopping(j)) race_late(f, e);
  status = e->status == OK ? decide(f, e) : (int)e->status;
  if (status == OK && !j->single) race_keep(f);
  proof_drop(c), entrants_close(f), c->entrants = NULL, c->session = NULL;
  forget_sizes(c);
  if (j->single && status == OK)
    j->session = s;
  else
    gpu_session_close(s);
  return status;
}

// Copies the algorithms of an equal program.
static void copy_algorithms(struct candidate *to, const struct candidate *from)
{
  const struct device_program *d = from->gpu.lowered ? &from->gpu.lowered->program : NULL;
  if (!to->gpu.lowered || !d || program_hash(d, 1) != program_hash(&to->gpu.lowered->program, 1)) return;
  for (int i = 0; i < d->nlaunch; i++) to->gpu.lowered->program.launch[i].algorithm = d->launch[i].algorithm;
}

// If one part is the whole, its race's figures are the result.
static void by_parts(struct job *j)
{
  const struct contest *c = &j->contests[0];
  if (!j->single) {
    j->unmeasured = "there was no time to measure the whole program; its subprograms were";
    j->cut = true;
    job_left(j, "the whole program was not measured");
    return;
  }
  const struct candidate *from[2] = {&c->cand[0], &c->cand[c->best]};
  struct candidate *to[2] = {&j->base, &j->best};
  for (int i = 0; i < 2; i++)
    copy_algorithms(to[i], from[i]), to[i]->timing = from[i]->timing, to[i]->measured = from[i]->measured, to[i]->rel = from[i]->rel;
}

static int whole_race(struct job *j, int n, const struct device_program *const *d, bool fresh, struct gpu_race *out, struct err *e)
{
  struct gpu_race_opts o = {.seed = j->opts->seed,
                            .db = j->db,
                            .fresh = fresh,
                            .stop = job_stop(j, STOP_WORK),
                            .seconds = planned(j) ? fmin(PLAN_RACE, j->opts->seconds) : j->opts->seconds,
                            .finalists = 2,
                            .forge = j->forge,
                            .with = j->worker,
                            .evaluator = j->evaluator,
                            .compile_until = isfinite(clock_end(j)) ? clock_end(j) : 0};
  struct gpu_batch *b = NULL;
  int status = j->session ? OK : gpu_session_open(j->program, &o, &j->session);
  if (status == OK) status = gpu_batch_start(j->session, &o, n, d, &b, e);
  if (status == OK) status = gpu_race_batch(j->mem, b, out, e);
  gpu_batch_drop(b);
  return status;
}

enum { AGAIN = 2 }; // how often a disturbed last race is repeated

static bool disturbed(const struct gpu_race *out, int n)
{
  bool any = false;
  for (int i = 0; i < n; i++) any |= out->result[i].cold.replays && gpu_disturbed(&out->result[i].cold).why;
  return any;
}

// The last race, again if it was disturbed and there is time.
static int last_race(struct job *j, int n, const struct device_program *const *d, struct gpu_race *out, struct err *e)
{
  int status = whole_race(j, n, d, j->opts->fresh, out, e);
  for (int again = 0; again < AGAIN && status == OK && disturbed(out, n) && !out->recalled && !job_stopping(j) && !clock_hurries(j); again++)
    status = whole_race(j, n, d, true, out, e);
  return status;
}

// Candidates are chosen in races with others, and at other times. The last race compares the result with op-by-op alone.
static bool base_won(const struct gpu_race *out)
{
  const struct gpu_result *best = &out->result[0], *base = &out->result[1];
  if (base->verdict != GPU_FINE || !base->cold.replays) return false;
  return !best->cold.replays || base->cold.median < best->cold.median; // without replays it was far slower
}

// Makes op-by-op the result if it can be proved and compiled in time.
static void take_base(struct job *j)
{
  struct err none = {0};
  for (int i = 0; i < j->split.n; i++) {
    struct contest *c = &j->contests[i];
    if (c->twin >= 0 || !c->best || (c->cand[0].gpu.lowered && pass_leader(j, c, &c->cand[0]))) continue;
    if (job_ending(j, STOP_PROOF) || c->cand[0].unproved) c->cand[0].dropped = NULL; // no time was left for the check; the candidate is not wrong
    return;
  }
  device_compile(j, j->base.gpu.lowered, &none);
  if (none.status != OK) return;
  for (int i = 0; i < j->split.n; i++) j->contests[i].best = 0;
  j->best = j->base, j->reason = "op-by-op was faster in the last race";
  whole_proofs(j);
}

int race_gpu_whole(struct job *j, struct err *e)
{
  struct candidate *c[2] = {&j->best, &j->base};
  const struct device_program *d[2];
  struct gpu_race out;
  int n = 0;
  if (j->single && planned(j)) return by_parts(j), OK; // that race was of the whole
  for (int i = 0; i < 2; i++)
    if (c[i]->gpu.lowered && (i == 0 || j->base.g != j->best.g)) c[n] = c[i], d[n++] = &c[i]->gpu.lowered->program;
  const bool hurries = !j->single && clock_hurries(j); // the reference of the whole alone takes longer
  int status = hurries || job_stopping(j) ? NO : last_race(j, n, d, &out, e);
  bool late = status == NO || e->id == ERR_STOPPED || (status == OK && out.result[0].err.id == ERR_STOPPED); // compilation took too long
  if (late) return *e = (struct err){0}, j->stopped = j->stopped || job_stopping(j), by_parts(j), OK;
  TRY(status);
  for (int i = 0; i < n; i++) {
    device_algorithms(&c[i]->gpu.lowered->program, out.result[i].algorithm);
    if (out.result[i].verdict != GPU_FINE && c[i] == &j->best) return *e = out.result[i].err, (int)e->status;
    if (out.result[i].verdict != GPU_FINE)
      c[i]->dropped = arena_strdup(j->mem, out.result[i].err.text);
    else if (out.result[i].cold.replays)
      set_timing(c[i], &out.result[i].cold), c[i]->rel = out.result[i].check.relative;
  }
  if (n == 2 && base_won(&out)) take_base(j);
  if (j->base.g == j->best.g) j->base.timing = j->best.timing, j->base.measured = j->best.measured;
  return OK;
}
