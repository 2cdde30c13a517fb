// Candidates on a GPU of this machine. First every candidate runs as the model likes it best and with some kernels made in other
// ways; of the fastest two then every way to make each kernel is tried, one kernel at a time, and at last the best ways together.
// The fastest is proven: equal to the part over finite fields, its kernels right in the interpreter. What is not is out, and the
// next fastest takes its place.
#include "core/core.h"
#include "gpu/gpu.h"

#include <math.h>
#include <string.h>

enum { FIRST_WAYS = 8, LEAST_WAYS = 2, MOST_ENTRANTS = 512, FAVOURITES = 2 };

struct entrant { // a candidate with one way to make each of its kernels
  int cand;
  struct choice *pick;
  struct device_program *program;
  double seconds; // INFINITY: not right, or not timed
  struct gpu_result *result;
};
struct starters {
  struct job *j;
  struct contest *c;
  int part, n;
  struct entrant *x;
};

// ---- entrants ----

static bool same_choice(const struct choice *a, const struct choice *b)
{
  return a->scheme == b->scheme && a->tail == b->tail && !memcmp(&a->k, &b->k, sizeof a->k);
}

static bool known(const struct starters *f, int cand, const struct choice *pick, int units)
{
  for (int i = 0; i < f->n; i++) {
    bool same = f->x[i].cand == cand;
    for (int u = 0; u < units && same; u++)
      same = same_choice(&f->x[i].pick[u], &pick[u]);
    if (same) return true;
  }
  return false;
}

// What cannot be lowered in this way is no entrant.
static void enter(struct starters *f, int cand, const struct choice *pick)
{
  struct lowered *l = f->c->cand[cand].lowered;
  struct arena *mem = f->j->mem;
  struct err e = {0};
  int units = l->plan.nunits;
  if (f->n == MOST_ENTRANTS || known(f, cand, pick, units)) return;
  struct entrant *x = &f->x[f->n];
  *x = (struct entrant){cand, arena_copy(mem, pick, sizeof *pick * (size_t)(units + 1)), NEW(mem, struct device_program), INFINITY, NULL};
  if (lower_make(mem, &l->plan, x->pick, x->program, &e) == OK) f->n++;
}

// The pick, and it with each unit alone made in other ways, about so many in all.
static void enter_ways(struct starters *f, int cand, const struct choice *pick, int ways)
{
  const struct lower_plan *p = &f->c->cand[cand].lowered->plan;
  struct choice *other = arena_copy(f->j->mem, pick, sizeof *pick * (size_t)(p->nunits + 1));
  enter(f, cand, pick);
  for (int u = 0; u < p->nunits; u++) {
    int most = MIN(p->unit[u].nchoices, MAX(LEAST_WAYS, ways / p->nunits));
    for (int k = 0; k < most && !p->unit[u].product && !lower_inside(p, pick, u); k++) {
      other[u] = p->unit[u].choice[k];
      enter(f, cand, other);
    }
    other[u] = pick[u];
  }
}

// ---- racing ----

static void on_progress(void *arg, const char *stage, int done, int all)
{
  const struct starters *f = arg;
  job_progress(f->j, stage, f->part, all ? (double)done / all : 0, &f->c->stats, 1e6 * f->c->cand[f->c->best].timing.median);
}

static int race(struct starters *f, int from, struct err *e)
{
  const struct job *j = f->j;
  struct gpu_race out;
  struct gpu_race_opts o = {.seed = j->opts->seed, .db = j->db, .stop = j->opts->stop, .progress = on_progress, .progress_arg = f};
  const struct device_program **d = NEWS(j->mem, const struct device_program *, f->n - from + 1);
  for (int i = from; i < f->n; i++) d[i - from] = f->x[i].program;
  TRY(gpu_race(j->mem, f->n - from, d, f->c->part->g, &o, &out, e));
  for (int i = from; i < f->n; i++) {
    struct gpu_result *r = &out.result[i - from];
    f->x[i].result = r, f->x[i].seconds = r->verdict == GPU_FINE && r->cold.replays ? r->cold.median : INFINITY;
  }
  if (*out.warning) f->j->warning = arena_strdup(j->mem, out.warning);
  return OK;
}

static void set_timing(struct candidate *c, const struct gpu_time *t)
{
  c->timing = (struct timing){t->median, t->least, t->p90, t->low, t->high, t->replays};
  c->measured = true;
}

// The fastest entrant of the candidate; of all where cand is negative. -1: none.
static int fastest(const struct starters *f, int cand)
{
  int best = -1;
  for (int i = 0; i < f->n; i++)
    if ((cand < 0 ? !f->c->cand[f->x[i].cand].dropped : f->x[i].cand == cand) && isfinite(f->x[i].seconds) &&
        (best < 0 || f->x[i].seconds < f->x[best].seconds))
      best = i;
  return best;
}

static void take_times(struct starters *f)
{
  for (int k = 0; k < f->c->ncand; k++) {
    int i = fastest(f, k);
    if (i >= 0) set_timing(&f->c->cand[k], &f->x[i].result->cold), f->c->cand[k].rel = f->x[i].result->check.relative;
  }
  for (int i = 0; i < f->n; i++) {
    struct candidate *c = &f->c->cand[f->x[i].cand];
    if (!c->dropped && !c->measured && f->x[i].result && f->x[i].result->verdict != GPU_FINE)
      c->dropped = arena_printf(f->j->mem, "%s: %s", gpu_verdict_name(f->x[i].result->verdict), f->x[i].result->err.text);
  }
}

// The best two candidates in all ways; then the best way of each kernel together, if that is another.
static int refine(struct starters *f, struct err *e)
{
  int from = f->n, favourite[FAVOURITES], n = 0;
  for (int i = 0; i < from && n < FAVOURITES; i++) { // entrants of other candidates, fastest first
    int best = -1;
    for (int k = 0; k < f->c->ncand; k++) {
      int x = fastest(f, k);
      bool taken = x < 0 || f->c->cand[k].dropped;
      for (int m = 0; m < n; m++) taken = taken || f->x[favourite[m]].cand == k;
      if (!taken && (best < 0 || f->x[x].seconds < f->x[best].seconds)) best = x;
    }
    if (best < 0) break;
    favourite[n++] = best;
  }
  for (int i = 0; i < n; i++) enter_ways(f, f->x[favourite[i]].cand, f->x[favourite[i]].pick, 2 * CHOICES);
  return f->n > from ? race(f, from, e) : OK;
}

static int together(struct starters *f, struct err *e)
{
  int best = fastest(f, -1), from = f->n;
  if (best < 0) return OK;
  const struct lower_plan *p = &f->c->cand[f->x[best].cand].lowered->plan;
  struct choice *pick = arena_copy(f->j->mem, f->x[best].pick, sizeof *pick * (size_t)(p->nunits + 1));
  for (int u = 0; u < p->nunits; u++) {
    double least = INFINITY;
    for (int i = 0; i < from; i++) {
      bool alone = f->x[i].cand == f->x[best].cand && f->x[i].seconds < least;
      for (int o = 0; o < p->nunits && alone; o++) alone = o == u || same_choice(&f->x[i].pick[o], &f->x[best].pick[o]);
      if (alone) least = f->x[i].seconds, pick[u] = f->x[i].pick[u];
    }
  }
  enter(f, f->x[best].cand, pick);
  if (f->n == from) return OK;
  return race(f, from, e);
}

// ---- the fastest that can be proven ----

static int decide(struct starters *f, struct err *e)
{
  struct contest *c = f->c;
  for (int i; (i = fastest(f, -1)) >= 0 && !job_stopping(f->j);) {
    struct candidate *k = &c->cand[f->x[i].cand];
    k->lowered->pick = f->x[i].pick, k->lowered->program = *f->x[i].program;
    if (device_candidate_proven(f->j, c, k)) return c->best = f->x[i].cand, OK;
  }
  if ((f->j->stopped = job_stopping(f->j))) return OK;
  return err_set(e, ERR_TARGET, NOWHERE, "no kernels for %s came through; operator by operator: %s", f->j->target.name,
                 c->cand[0].dropped ? c->cand[0].dropped : "not proven");
}

int race_gpu_part(struct job *j, struct contest *c, int part, struct err *e)
{
  struct starters f = {j, c, part, 0, NEWS(j->mem, struct entrant, MOST_ENTRANTS)};
  for (int k = 0; k < c->ncand; k++)
    if (c->cand[k].lowered && !c->cand[k].dropped) enter_ways(&f, k, c->cand[k].lowered->pick, k ? FIRST_WAYS : 0);
  if (f.n) TRY(race(&f, 0, e));
  TRY(refine(&f, e));
  TRY(together(&f, e));
  take_times(&f);
  return decide(&f, e);
}

int race_gpu_whole(struct job *j, struct err *e)
{
  struct candidate *c[2] = {&j->best, &j->base};
  const struct device_program *d[2];
  struct gpu_race_opts o = {.seed = j->opts->seed, .db = j->db, .stop = j->opts->stop, .seconds = j->opts->seconds, .finalists = 2};
  struct gpu_race out;
  int n = 0;
  for (int i = 0; i < 2; i++)
    if (c[i]->lowered && (i == 0 || j->base.g != j->best.g)) c[n] = c[i], d[n++] = &c[i]->lowered->program;
  TRY(gpu_race(j->mem, n, d, j->program, &o, &out, e));
  for (int i = 0; i < n; i++) {
    if (out.result[i].verdict != GPU_FINE && c[i] == &j->best) return *e = out.result[i].err, (int)e->status;
    if (out.result[i].verdict != GPU_FINE) c[i]->dropped = arena_strdup(j->mem, out.result[i].err.text);
    else if (out.result[i].cold.replays) set_timing(c[i], &out.result[i].cold), c[i]->rel = out.result[i].check.relative;
  }
  if (j->base.g == j->best.g) j->base.timing = j->best.timing, j->base.measured = j->best.measured;
  return OK;
}
