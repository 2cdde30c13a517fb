// At the end of a job for a GPU, the kernels of the fastest candidates of all waiting parts run in the interpreter at the same time. Most candidates have
// one or two kernels, so one candidate after the other would leave most processors idle. The kernels of a plan are known before its race, so they run in
// the interpreter while the GPU checks and times them. race_gpu.c decides the parts afterwards, and finds these results.
#include "base/memory.h"
#include "drive/climb.h"
#include "drive/pass.h"

#include <pthread.h>
#include <stdlib.h>

struct proof_ahead {
  const struct lower_plan *plan; // of the entrant
  const struct choice *pick;     // its choice for each unit
  double work;                   // of the proof
  struct arena mem;              // of the proof
  struct device_proof proof;
  const char *why;
  int status;
  struct err err;
  struct proof_thread *thread; // runs the proof during a race; NULL: the proof runs elsewhere
};
struct proof_thread {
  struct job *j;
  struct proof_ahead *of;
  pthread_t id;
  struct guard *guard; // guard of the waiting thread
  struct trace_place place;
  bool running, good; // good: no allocation failed
  struct shortage lack;
};
struct leaders {
  struct job *j;
  int n;
  struct proof_ahead **one;
};

static struct proof_ahead *ahead_of(struct job *j, struct contest *c, int entrant)
{
  struct proof_ahead *a = c->ahead = NEW(j->mem, struct proof_ahead);
  *a = (struct proof_ahead){.plan = &c->entrants->x[entrant].plan->p, .pick = c->entrants->x[entrant].pick, .why = ""};
  return a->work = device_proof_work(a->plan, a->pick), a;
}

static void prove(struct job *j, struct proof_ahead *a, enum stop until)
{
  a->status = device_prove(&a->mem, a->plan, a->pick, -1, j->opts->seed, 1, job_stop(j, until), &a->proof, &a->why, &a->err);
}

// ---- during a race ----

static void prove_in_thread(void *arg)
{
  struct proof_thread *t = arg;
  struct span s;
  span_begin(&s, "stage", "proof during the race");
  prove(t->j, t->of, STOP_PROOF);
  span_end(&s);
}

static void *work(void *arg)
{
  struct proof_thread *t = arg;
  struct span s;
  trace_share(&s, &t->place);
  t->good = guard_run(t->guard, prove_in_thread, t, &t->lack);
  return trace_share_end(&s), NULL;
}

static void wait_for(struct proof_thread *t)
{
  if (t->running) pthread_join(t->id, NULL);
  t->running = false;
}

static void discard(void *p) { wait_for(p), mem_free(p); }
static const struct mem_kind kind = {.close = discard};

void proof_begin(struct job *j, struct contest *c)
{
  int only = -1;
  for (int i = 0; i < c->entrants->n; i++)
    if (c->entrants->x[i].cand) only = only < 0 ? i : c->entrants->n;
  if (c->ahead || only < 0 || only == c->entrants->n) return;
  const char *why;
  struct proof_ahead *a = ahead_of(j, c, only);
  if (!proof_fits(j, a->work, STOP_PROOF, &why)) {
    proof_drop(c);
    return;
  }
  struct proof_thread *t = a->thread = mem_handle(sizeof *t, &kind);
  *t = (struct proof_thread){.j = j, .of = a, .guard = guard_here(), .place = trace_here(), .good = true};
  t->running = pool_thread(&t->id, work, t) == 0;
  if (!t->running) proof_drop(c);
}

// Waits for the thread of the contest's proof, if there is one.
static struct proof_ahead *finished(const struct contest *c)
{
  struct proof_thread *t = c->ahead ? c->ahead->thread : NULL;
  if (t) wait_for(t);
  if (t && !t->good) mem_short(&t->lack);
  return c->ahead;
}

// ---- at the end of a job ----

static void prove_one(void *arg, int i, int worker)
{
  (void)worker;
  const struct leaders *l = arg;
  prove(l->j, l->one[i], STOP_WORK);
}

// Short ones first, so that most proofs finish.
static int by_work(const void *x, const void *y)
{
  const double a = (*(struct proof_ahead *const *)x)->work, b = (*(struct proof_ahead *const *)y)->work;
  return (a > b) - (a < b);
}

// Removes those that cannot finish in time. They are not known, so another candidate may be proved instead.
static void keep_fitting(struct leaders *l)
{
  int n = 0;
  const char *why;
  for (int i = 0; i < l->n; i++)
    if (proof_fits(l->j, l->one[i]->work, STOP_WORK, &why))
      l->one[n++] = l->one[i];
    else
      err_set(&l->one[i]->err, ERR_STOPPED, NOWHERE, "%s", why);
  l->n = n;
  if (n) qsort(l->one, (size_t)n, sizeof *l->one, by_work);
}

void prove_leaders(struct job *j, const bool *done)
{
  struct leaders l = {.j = j, .one = NEWS(j->mem, struct proof_ahead *, j->split.n)};
  struct span s;
  for (int k = 0; k < j->split.n; k++) {
    struct contest *c = &j->contests[j->order[k]];
    const int best = done[j->order[k]] || c->twin >= 0 || !c->entrants ? -1 : entrants_fastest(c->entrants, -1, true);
    if (best < 0) continue;
    if (!c->ahead) l.one[l.n++] = ahead_of(j, c, best);
  }
  keep_fitting(&l);
  span_begin(&s, "stage", "proofs of several subprograms");
  pool_run(j->threads, l.n, prove_one, &l);
  for (int i = 0; i < l.n; i++)
    if (l.one[i]->err.id != ERR_STOPPED) proof_took(j, l.one[i]->work, l.one[i]->proof.seconds);
  span_note(&s, "%d candidates", l.n);
  span_end(&s);
}

bool proof_known(const struct contest *c) { return finished(c) && c->ahead->err.id != ERR_STOPPED; }

static bool is_of(const struct proof_ahead *a, const struct lowered *d)
{
  bool same = a->plan->unit == d->plan.unit;
  for (int u = 0; u < d->plan.nunits && same; u++) same = choice_same(&a->pick[u], &d->pick[u]);
  return same;
}

bool proof_find(struct job *j, const struct contest *c, struct lowered *d, int *status, const char **why, struct err *e)
{
  if (!c || !proof_known(c) || !is_of(c->ahead, d)) return false;
  const struct proof_ahead *a = c->ahead;
  d->proof = a->proof, d->proof.note = arena_strdup(j->mem, a->proof.note);
  *status = a->status, *why = arena_strdup(j->mem, a->why), *e = a->err;
  if (e->at.file) e->at.file = arena_strdup(j->mem, e->at.file);
  return true;
}

void proof_drop(struct contest *c)
{
  struct proof_ahead *a = c->ahead;
  if (!a) return;
  if (a->thread) discard(a->thread);
  arena_close(&a->mem);
  c->ahead = NULL;
}
