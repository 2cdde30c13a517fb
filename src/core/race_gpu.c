// Candidates on a GPU of this machine. First every candidate runs as the model likes it best and with some kernels made in other
// ways; from the fastest few the race climbs (climb.h). The fastest is proven: equal to the part over finite fields, its kernels
// right in the interpreter. What is not is out, and the next fastest takes its place.
#include "core/climb.h"

#include <math.h>
#include <string.h>

enum { FIRST_WAYS = 8, LEAST_WAYS = 2, MOST_TRIES = 4 };

// ---- starters ----

// The pick, and it with each unit alone made in other ways, about so many in all.
static void enter_ways(struct entrants *f, int cand, int ways)
{
  const struct lowered *l = f->c->cand[cand].lowered;
  struct climb_plan *p = l ? entrants_plan(f, cand, l->plan.dependent) : NULL;
  if (!p) return;
  struct choice *other = arena_copy(f->j->mem, l->pick, sizeof *l->pick * (size_t)(p->p.nunits + 1));
  entrants_enter(f, -1, p, l->pick, -1, 1);
  for (int u = 0; u < p->p.nunits; u++) {
    const struct lower_unit *x = &p->p.unit[u];
    int most = MIN(x->nchoices, MAX(LEAST_WAYS, ways / p->p.nunits));
    for (int k = 0; k < most && !lower_inside(&p->p, l->pick, u); k++) {
      other[u] = x->choice[k];
      entrants_enter(f, -1, p, other, -1, 1);
    }
    other[u] = l->pick[u];
  }
}

// As it was fastest in an earlier race.
static void enter_raced(struct entrants *f, int cand)
{
  struct lower_plan p;
  struct choice *pick;
  struct err e = {0};
  const struct candidate *c = &f->c->cand[cand];
  if (!f->c->raced || !graph_same(f->c->raced, c->found)) return;
  json_t *launches = json_loads(f->c->launches, 0, NULL);
  if (launches_read(f->j->mem, launches, c->g, &f->j->gpu, &p, &pick, &e) == OK) {
    bool fits = true;
    struct climb_plan *plan = entrants_plan(f, cand, p.dependent);
    for (int u = 0; plan && u < p.nunits && fits; u++)
      fits = lower_inside(&p, pick, u) || entrants_setting(f, plan, u, &pick[u]);
    if (plan && fits) entrants_enter(f, -1, plan, pick, -1, 1);
  }
  json_decref(launches);
}

static void set_timing(struct candidate *c, const struct gpu_time *t)
{
  c->timing = (struct timing){t->median, t->least, t->p90, t->low, t->high, t->replays};
  c->measured = true;
}

static void take_times(struct entrants *f)
{
  for (int k = 0; k < f->c->ncand; k++) {
    struct candidate *c = &f->c->cand[k];
    int i = entrants_fastest(f, k, true);
    if (i >= 0) set_timing(c, &f->x[i].result->cold), c->rel = f->x[i].result->check.relative;
    for (int n = 0; n < f->n && i < 0 && !c->dropped; n++)
      if (f->x[n].cand == k && f->x[n].result && f->x[n].result->verdict != GPU_FINE)
        c->dropped = arena_printf(f->j->mem, "%s: %s", gpu_verdict_name(f->x[n].result->verdict), f->x[n].result->err.text);
  }
}

// ---- the fastest that can be proven ----

// What is wrong with one way to make a candidate is not wrong with the others, but a candidate has only so many chances.
static bool stands(struct entrants *f, int i, int *tries)
{
  struct entrant *x = &f->x[i];
  struct candidate *k = &f->c->cand[x->cand];
  struct err e = {0};
  if (device_take(f->j, k, &x->plan->p, x->pick, &e) == OK) {
    if (device_candidate_proven(f->j, f->c, k)) return true;
  } else
    k->dropped = arena_strdup(f->j->mem, e.text);
  x->state = OUT;
  bool equal = x->cand == 0 || k->cert.equal;
  if (equal && ++tries[x->cand] < MOST_TRIES && entrants_fastest(f, x->cand, true) >= 0) k->dropped = NULL;
  return false;
}

static int decide(struct entrants *f, struct err *e)
{
  struct contest *c = f->c;
  int *tries = NEWS(f->j->mem, int, c->ncand + 1);
  for (int i; !job_stopping(f->j) && (i = entrants_fastest(f, -1, true)) >= 0;) {
    if (!f->x[i].last) {
      int status = climb_finals(f, e);
      if (status == NO) f->x[i].state = OUT;
      else if (status != OK) return status;
      continue;
    }
    job_progress(f->j, "prove", f->part, 0, &c->stats, 1e6 * f->x[i].seconds);
    if (stands(f, i, tries)) return take_times(f), c->best = f->x[i].cand, OK;
  }
  take_times(f);
  if ((f->j->stopped = job_stopping(f->j))) return OK;
  return err_set(e, ERR_TARGET, NOWHERE, "no kernels for %s came through; operator by operator: %s", f->j->target.name,
                 c->cand[0].dropped ? c->cand[0].dropped : "not proven");
}

// Of other sizes only the best is told and kept.
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

static double share(const struct job *j)
{
  int parts = 0;
  for (int i = 0; i < j->split.n; i++) parts += j->contests[i].twin < 0;
  return j->opts->tune / MAX(parts, 1);
}

struct entrants *race_gpu_climb(struct job *j, struct contest *c, int part, double seconds, struct gpu_session *s, struct err *e)
{
  tune_room(j, c, MOST_SIZED);
  struct entrants *f = entrants_open(j, c, part, s);
  for (int k = 0; k < c->ncand; k++)
    if (c->cand[k].lowered && !c->cand[k].dropped) enter_raced(f, k), enter_ways(f, k, k ? FIRST_WAYS : 0);
  if (climb_starters(f, e) != OK) return f;
  f->until = now_seconds() + seconds;
  if (seconds > 0) climb_run(f, e);
  return f;
}

int race_gpu_part(struct job *j, struct contest *c, int part, struct err *e)
{
  struct gpu_session *s;
  struct gpu_race_opts o = {.seed = j->opts->seed};
  TRY(gpu_session_open(c->part->g, &o, &s));
  struct entrants *f = race_gpu_climb(j, c, part, share(j), s, e);
  int status = e->status == OK ? decide(f, e) : (int)e->status;
  entrants_close(f);
  forget_sizes(c);
  if (j->single && status == OK) j->session = s;
  else gpu_session_close(s);
  return status;
}

// What is exported and remembered is as it was measured.
static void take_algorithms(struct candidate *c, const struct gpu_result *r)
{
  struct device_program *d = &c->lowered->program;
  for (int i = 0; i < d->nlaunch && r->algorithm; i++) d->launch[i].algorithm = r->algorithm[i];
}

int race_gpu_whole(struct job *j, struct err *e)
{
  struct candidate *c[2] = {&j->best, &j->base};
  const struct device_program *d[2];
  struct gpu_race_opts o = {.seed = j->opts->seed, .db = j->db, .stop = j->opts->stop, .seconds = j->opts->seconds, .finalists = 2};
  struct gpu_race out;
  struct gpu_batch *b = NULL;
  int n = 0, status = j->session ? OK : gpu_session_open(j->program, &o, &j->session);
  for (int i = 0; i < 2; i++)
    if (c[i]->lowered && (i == 0 || j->base.g != j->best.g)) c[n] = c[i], d[n++] = &c[i]->lowered->program;
  if (status == OK) status = gpu_batch_start(j->session, &o, n, d, &b, e);
  if (status == OK) status = gpu_race_batch(j->mem, b, &out, e);
  gpu_batch_drop(b);
  TRY(status);
  for (int i = 0; i < n; i++) {
    take_algorithms(c[i], &out.result[i]);
    if (out.result[i].verdict != GPU_FINE && c[i] == &j->best) return *e = out.result[i].err, (int)e->status;
    if (out.result[i].verdict != GPU_FINE) c[i]->dropped = arena_strdup(j->mem, out.result[i].err.text);
    else if (out.result[i].cold.replays) set_timing(c[i], &out.result[i].cold), c[i]->rel = out.result[i].check.relative;
  }
  if (j->base.g == j->best.g) j->base.timing = j->best.timing, j->base.measured = j->best.measured;
  return OK;
}
