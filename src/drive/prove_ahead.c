// At the end of a job for a GPU, the kernels of the fastest candidates of all waiting parts run in the interpreter at the same time. Most candidates have
// one or two kernels, so one candidate after the other would leave most processors idle. race_gpu.c decides the parts afterwards, and finds these results.
#include "base/memory.h"
#include "drive/climb.h"
#include "drive/pass.h"

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
};
struct leaders {
  struct job *j;
  int n;
  struct proof_ahead **one;
};

static void prove_one(void *arg, int i, int worker)
{
  (void)worker;
  const struct leaders *l = arg;
  struct proof_ahead *a = l->one[i];
  a->status = device_prove(&a->mem, a->plan, a->pick, -1, l->j->opts->seed, 1, job_stop(l->j, STOP_WORK), &a->proof, &a->why, &a->err);
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
    l.one[l.n++] = c->ahead = NEW(j->mem, struct proof_ahead);
    *c->ahead = (struct proof_ahead){.plan = &c->entrants->x[best].plan->p, .pick = c->entrants->x[best].pick, .why = ""};
    c->ahead->work = device_proof_work(c->ahead->plan, c->ahead->pick);
  }
  keep_fitting(&l);
  span_begin(&s, "stage", "proofs of several subprograms");
  pool_run(j->threads, l.n, prove_one, &l);
  for (int i = 0; i < l.n; i++)
    if (l.one[i]->err.id != ERR_STOPPED) proof_took(j, l.one[i]->work, l.one[i]->proof.seconds);
  span_note(&s, "%d candidates", l.n);
  span_end(&s);
}

bool proof_known(const struct contest *c) { return c->ahead && c->ahead->err.id != ERR_STOPPED; }

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
  if (c->ahead) arena_close(&c->ahead->mem);
  c->ahead = NULL;
}
