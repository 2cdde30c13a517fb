// The hill climb. Entrants wait with an expected time; a batch takes the most promising. While one batch is compiled, the GPU checks the previous one
// and times it in rounds of fewer and fewer. An entrant that is faster than the centre of its line by more than the noise becomes the next centre. At
// the end, the few fastest are timed exactly.
#include "drive/climb.h"
#include "drive/pass.h"

#include <math.h>
#include <string.h>

enum { FINALISTS = 8, LEAST_FINALISTS = 2, SURVIVORS = 6, KEPT = 24, LEAST_BATCH = 3 };
enum { IDLE = 3 };                  // consecutive batches without a faster program after which a climb ends
static const double OF_LEFT = 0.25; // share of the remaining time that a batch, and the finals, may take
static const double NEAR = 1.35;    // a line starts at a candidate whose fastest entrant takes at most this many times the best
static const double FAR = 2;        // entrants expected to take more than this many times the best are not tried
const double PLAN_RACE = 0.1;
static const double FINAL = 1, OF_FINALS = 0.15; // seconds of a last race, at most; share of the job's time for all of them
static const double PATIENCE = 2, LONGER = 1000; // time limit of a run in seconds, and as a multiple of the best

static void on_progress(void *arg, const char *stage, int done, int all)
{
  const struct entrants *f = arg;
  int best = entrants_fastest(f, -1, false);
  double part = f->nlines ? 1 - (f->until - now_seconds()) / f->j->opts->tune : all ? (double)done / all : 0;
  job_progress(f->j, f->nlines ? "tune" : stage, f->part, fmin(fmax(part, 0), 1), &f->c->stats, best < 0 ? 0 : 1e6 * f->x[best].seconds);
}

static double final_seconds(const struct entrants *f)
{
  if (f->c->plan) return PLAN_RACE;
  return fmin(FINAL, fmax(PLAN_RACE, OF_FINALS * clock_most(f->j) / race_gpu_races(f->j)));
}

// A run that hangs costs as much time as its limit.
static struct gpu_race_opts opts_of(struct entrants *f, bool quick)
{
  const struct job *j = f->j;
  int best = entrants_fastest(f, -1, true);
  double limit = f->nlines && best >= 0 ? fmax(PATIENCE, LONGER * f->x[best].seconds) : 0;
  return (struct gpu_race_opts){.limit = limit,
                                .seed = j->opts->seed,
                                .db = j->db,
                                .fresh = j->opts->fresh,
                                .stop = job_stop(j, STOP_WORK),
                                .progress = on_progress,
                                .progress_arg = f,
                                .forge = j->forge,
                                .compile_until = isfinite(f->compile_until) ? f->compile_until : 0,
                                .quick = quick,
                                .unchosen = f->c->plan,
                                .finalists = quick ? SURVIVORS : FINALISTS,
                                .seconds = final_seconds(f)};
}

// ---- batches ----

static double best_seconds(const struct entrants *f)
{
  int i = entrants_fastest(f, -1, false);
  return i < 0 ? INFINITY : f->x[i].seconds;
}

// Number of times that the compilers run to compile n programs. Each time they compile half as many programs as there are threads, because other jobs
// may use the other cores.
static int rounds_of(const struct entrants *f, int n)
{
  const int together = MAX(1, f->j->threads / 2);
  return (n + together - 1) / together;
}

// Batch size: as many as fit into a part of the time until `end`, judging from the last batch.
static int affordable(const struct entrants *f, double end, int least, int most)
{
  const double left = OF_LEFT * fmax(0, end - now_seconds());
  int n = most;
  while (n > least && isfinite(end) && fmax(f->round * rounds_of(f, n), f->each * n) > left) n--;
  return n;
}

// The first batch is small, so that some time is measured early.
static int batch_size(const struct entrants *f)
{
  int firsts = 0;
  for (int i = 0; i < f->n; i++) firsts += f->x[i].first && f->x[i].state == WAITING;
  return firsts ? MIN(firsts, f->most) : affordable(f, f->until, LEAST_BATCH, f->most);
}

static bool sooner(const struct entrant *x, const struct entrant *y) { return x->first != y->first ? x->first : x->expect < y->expect; }

// The most promising waiting entrant; ties are broken by the order of entering.
static int next(const struct entrants *f, double limit, const int *taken, int n)
{
  int best = -1;
  for (int i = 0; i < f->n; i++) {
    const struct entrant *x = &f->x[i];
    bool open = x->state == WAITING && (x->first || !f->opening) && x->expect <= limit && !f->c->cand[x->cand].dropped;
    for (int k = 0; k < n && open; k++) open = taken[k] != i;
    if (open && (best < 0 || sooner(x, &f->x[best]))) best = i;
  }
  return best;
}

int climb_take(struct entrants *f, int most, double limit, int *who)
{
  int n = 0;
  while (n < most && now_seconds() < f->until && !job_stopping(f->j)) {
    int from = n;
    for (int i; n < most && (i = next(f, limit, who, n)) >= 0;) who[n++] = i;
    if (n == from) break;
    n = from + entrants_make(f, n - from, who + from);
  }
  return n;
}

static int fill(struct entrants *f, struct climb_batch *b, struct err *e)
{
  const struct device_program *d[BATCH];
  const int most = batch_size(f);
  *b = (struct climb_batch){0};
  if (f->idle >= IDLE) return OK;
  b->n = climb_take(f, most, f->nlines ? FAR * best_seconds(f) : INFINITY, b->who);
  for (int i = 0; i < b->n; i++) d[i] = f->x[b->who[i]].program;
  struct gpu_race_opts o = opts_of(f, !f->c->plan); // the race of a plan has one batch, which is its last
  return b->n ? gpu_batch_start(f->session, &o, b->n, d, &b->b, e) : OK;
}

// Releases the programs of all but the fastest, which may have to run once more.
static void give_back_slow(struct entrants *f, const struct climb_batch *b)
{
  for (int i = 0; i < b->n; i++) {
    int faster = 0;
    for (int k = 0; k < f->n; k++) faster += f->x[k].state == TIMED && f->x[k].seconds < f->x[b->who[i]].seconds;
    if (faster >= KEPT) entrants_give_back(f, b->who[i]);
  }
}

void entrants_drop(struct candidate *c, const struct entrant *x)
{
  c->dropped = x->why, c->again = x->again, c->by = x->by, c->late = x->result->err.id == ERR_STOPPED;
}

// Other sizes may compute different values: if one variant is wrong and none was right, no other is tried.
static void leave_wrong(struct entrants *f, const struct entrant *x)
{
  struct candidate *c = &f->c->cand[x->cand];
  if (c->tuned && !c->dropped && x->result && x->result->verdict == GPU_WRONG && entrants_fastest(f, x->cand, true) < 0) entrants_drop(c, x);
}

static enum entrant_state state_of(const struct gpu_result *r, bool cut)
{
  if (r->err.id == ERR_STOPPED) return cut ? WAITING : LEFT;
  if (r->verdict != GPU_FINE) return OUT;
  return r->cold.replays || !cut ? TIMED : WAITING;
}

// Records the fault of this variant of the candidate, and the command that reproduces it. A compiler's error belongs to its own pass.
static void tell_wrong(struct entrants *f, struct entrant *x)
{
  const struct gpu_result *r = x->result;
  const struct pass_on on = {f->j, f->c, &f->c->cand[x->cand]};
  bool late = r->err.id == ERR_STOPPED, compiler = r->verdict == GPU_NOT_COMPILED && !late;
  if (r->verdict == GPU_FINE) return;
  x->by = compiler ? PASS_NVRTC : PASS_RACE;
  x->why = arena_printf(f->j->mem, "%s: %.700s", compiler ? "compiler" : gpu_verdict_name(r->verdict), r->err.text);
  if (!late) x->again = dropped_way(&on, x->by, x->why, &x->plan->p, x->pick);
}

static void take_one(struct entrants *f, int i, struct gpu_result *r, bool cut)
{
  struct entrant *x = &f->x[i];
  x->state = state_of(r, cut);
  if (x->state == WAITING) return;
  x->result = r;
  x->seconds = x->state == TIMED && r->cold.replays ? r->cold.median : INFINITY;
  x->rough = r->rough;
  tell_wrong(f, x);
  if (x->state != TIMED) entrants_give_back(f, i);
}

static void be_exact(struct entrants *f, const struct climb_batch *b)
{
  for (int i = 0; i < b->n; i++) f->x[b->who[i]].last = true, f->x[b->who[i]].rough = false;
}

static void take_stats(struct entrants *f, int n, const struct gpu_race *out)
{
  f->batches++, f->compiling += out->compile.seconds;
  f->round = out->compile.seconds / rounds_of(f, n), f->each = out->seconds / n;
  if (*out->warning) job_warn(f->j, out->warning);
}

// cut: the race was stopped, and its figures are incomplete
static void take(struct entrants *f, const struct climb_batch *b, const struct gpu_race *out, bool cut)
{
  for (int i = 0; i < b->n; i++) take_one(f, b->who[i], &out->result[i], cut);
  for (int i = 0; i < b->n; i++) leave_wrong(f, &f->x[b->who[i]]);
  take_stats(f, b->n, out);
  give_back_slow(f, b);
}

void climb_begun(struct entrants *f, int i)
{
  const struct device_program *d = &f->c->cand[f->x[i].cand].gpu.lowered->program;
  f->x[i].hash = hash_mix(program_hash(d, 1), program_hash(d, 2)), f->x[i].state = RACING;
}

void climb_known(struct entrants *f, int i, struct gpu_race *r)
{
  f->x[i].state = WAITING;
  if (!r->result) return;
  take_one(f, i, r->result, false);
  take_stats(f, 1, r);
}

// ---- lines ----

static bool same_operators(const struct graph *a, const struct graph *b)
{
  bool same = a->nnodes == b->nnodes;
  for (int i = 0; i < a->nnodes && same; i++) {
    const struct node *x = &a->nodes[i], *y = &b->nodes[i];
    same = x->op == y->op && (x->op != OP_BLOCK || same_operators(x->sub, y->sub));
  }
  return same;
}

// Other sizes are neighbours and need no line of their own.
static bool is_start(const struct entrants *f, int cand)
{
  for (int i = 0; i < f->nlines; i++)
    if (same_operators(f->c->cand[f->x[f->line[i].centre].cand].found, f->c->cand[cand].found)) return true;
  return false;
}

// The fastest entrant of each of the fastest candidates with different operators.
static void begin_lines(struct entrants *f)
{
  while (f->nlines < MOST_LINES) {
    int best = -1;
    for (int k = 0; k < f->c->ncand; k++) {
      int x = is_start(f, k) || f->c->cand[k].dropped ? -1 : entrants_fastest(f, k, true);
      if (x >= 0 && (best < 0 || f->x[x].seconds < f->x[best].seconds)) best = x;
    }
    if (best < 0 || (f->nlines && f->x[best].seconds > NEAR * f->x[f->line[0].centre].seconds)) break;
    f->x[best].line = f->nlines;
    f->line[f->nlines++].centre = best;
    climb_begins(f, f->nlines - 1);
  }
  for (int i = 0; i < f->nlines; i++) climb_near(f, f->line[i].centre);
}

static bool differs_at(const struct entrant *x, const struct entrant *centre, int unit)
{
  for (int u = 0; u < x->plan->p.nunits; u++) {
    bool same = choice_same(&x->pick[u], &centre->pick[u]);
    if (same != (u != unit)) return false;
  }
  return true;
}

// Combines the fastest variant of each kernel.
static void together(struct entrants *f, int line)
{
  const struct entrant *c = &f->x[f->line[line].centre];
  int units = c->plan->p.nunits, better = 0;
  struct choice *pick = arena_copy(f->j->mem, c->pick, sizeof *pick * (size_t)(units + 1));
  for (int u = 0; u < units; u++) {
    double least = c->seconds;
    for (int i = 0; i < f->n; i++) {
      const struct entrant *x = &f->x[i];
      if (x->plan != c->plan || x->state != TIMED || x->seconds >= least || !differs_at(x, c, u)) continue;
      pick[u] = x->pick[u], better += least == c->seconds, least = x->seconds;
    }
  }
  if (better > 1) entrants_enter(f, line, c->plan, pick, f->line[line].centre, GAIN * GAIN);
}

static void advance(struct entrants *f)
{
  const double best = best_seconds(f);
  f->idle = best < GAIN * f->best ? 0 : f->idle + 1;
  if (!f->idle) f->best = best;
  for (int k = 0; k < f->nlines; k++) {
    int at = f->line[k].centre, to = at;
    if (f->x[at].plan->p.nunits > 1) together(f, k);
    for (int i = 0; i < f->n; i++) {
      const struct entrant *x = &f->x[i];
      if (x->line == k && x->state == TIMED && !x->rough && !x->centre && x->seconds < GAIN * f->x[at].seconds && x->seconds < f->x[to].seconds)
        to = i;
    }
    if (to != at) climb_steps(f, k, to), f->line[k].centre = to, climb_near(f, to);
  }
  climb_expect(f);
}

// ---- the whole climb ----

static void drop(struct entrants *f, struct climb_batch *b)
{
  gpu_batch_drop(b->b);
  for (int i = 0; i < b->n; i++)
    if (f->x[b->who[i]].state == RACING) f->x[b->who[i]].state = WAITING;
  *b = (struct climb_batch){0};
}

static bool was_stopped(struct err *e)
{
  bool stopped = e->id == ERR_STOPPED;
  if (stopped) *e = (struct err){0};
  return stopped;
}

// One batch is compiled while the previous one is timed. No two batches compile at once, which would slow down both.
static int race_all(struct entrants *f, struct err *e)
{
  struct climb_batch now = f->ahead, then = {0};
  f->ahead = (struct climb_batch){0};
  if (now.n && job_stopping(f->j)) return drop(f, &now), OK; // during the race of the previous batch
  int status = now.n ? OK : fill(f, &now, e);
  while (status == OK && now.n) {
    struct gpu_race *out = NEW(f->j->mem, struct gpu_race);
    double start = now_seconds();
    gpu_batch_wait(now.b);
    f->waiting += now_seconds() - start;
    status = fill(f, &then, e);
    if (status == OK) status = gpu_race_batch(f->j->mem, now.b, out, e);
    bool cut = was_stopped(e);
    if (status == OK || cut) take(f, &now, out, cut);
    if (status == OK && f->c->plan) be_exact(f, &now);
    drop(f, &now);
    if (cut || (status == OK && job_stopping(f->j))) return drop(f, &then), OK;
    if (status == OK && f->nlines) advance(f);
    now = then, then = (struct climb_batch){0};
    if (status == OK && !now.n) status = fill(f, &now, e); // from the results of the last batch
  }
  return drop(f, &now), status;
}

int climb_ahead(struct entrants *f, struct err *e) { return fill(f, &f->ahead, e); }
int climb_starters(struct entrants *f, struct err *e) { return race_all(f, e); }

int climb_run(struct entrants *f, struct err *e)
{
  begin_lines(f);
  f->idle = 0, f->best = best_seconds(f);
  return f->nlines ? race_all(f, e) : OK;
}

static int finalists(struct entrants *f, int *who)
{
  const int most = affordable(f, clock_end(f->j), LEAST_FINALISTS, FINALISTS);
  int n = 0;
  for (int best = 0; n < most && best >= 0;) {
    best = -1;
    for (int i = 0; i < f->n; i++) {
      const struct entrant *x = &f->x[i], *b = best < 0 ? NULL : &f->x[best];
      bool open = x->state == TIMED && !x->last && isfinite(x->seconds) && !f->c->cand[x->cand].dropped;
      for (int k = 0; k < n && open; k++) open = who[k] != i;
      if (open && (!b || (x->rough != b->rough ? b->rough : x->seconds < b->seconds))) best = i;
    }
    if (best >= 0) who[n++] = best;
  }
  return n;
}

// The figures of a stopped race are worse than earlier ones.
static void leave_bad(struct entrants *f, const struct climb_batch *b, struct gpu_race *out)
{
  for (int i = 0; i < b->n; i++)
    if (state_of(&out->result[i], false) == OUT) f->x[b->who[i]].state = OUT, f->x[b->who[i]].result = &out->result[i];
}

int climb_finals(struct entrants *f, struct err *e)
{
  struct climb_batch b = {0};
  const struct device_program *d[BATCH];
  struct gpu_race_opts o = opts_of(f, false);
  struct gpu_race *out = NEW(f->j->mem, struct gpu_race);
  b.n = entrants_make(f, finalists(f, b.who), b.who);
  for (int i = 0; i < b.n; i++) d[i] = f->x[b.who[i]].program;
  if (!b.n) return NO;
  int status = gpu_batch_start(f->session, &o, b.n, d, &b.b, e);
  if (status == OK) status = gpu_race_batch(f->j->mem, b.b, out, e);
  gpu_batch_drop(b.b);
  if (was_stopped(e)) return leave_bad(f, &b, out), OK;
  if (status != OK) return status;
  take(f, &b, out, false);
  be_exact(f, &b);
  return OK;
}
