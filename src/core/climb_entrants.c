// Entrants and plans. An entrant is a few numbers until its turn comes; the device programs of a batch are made together by all
// threads, and those that turn out slow are given back.
#include "core/climb.h"

#include <math.h>
#include <string.h>

enum { TRUST = 2 }; // what the model says of a change counts as its square root

struct entrants *entrants_open(struct job *j, struct contest *c, int part, struct gpu_session *s)
{
  struct entrants *f = NEW(j->mem, struct entrants);
  *f = (struct entrants){.j = j, .c = c, .part = part, .session = s, .until = INFINITY};
  return f;
}

void entrants_close(struct entrants *f)
{
  for (int i = 0; i < f->n; i++) arena_close(&f->x[i].mem);
  arena_close(&f->scratch);
}

// ---- plans ----

static const bool *tails_of(struct arena *mem, const struct lower_plan *p)
{
  bool *tail = NEWS(mem, bool, p->g->nnodes + 1);
  for (int u = 0; u < p->nunits; u++) tail[p->unit[u].first] = p->unit[u].first != p->unit[u].last;
  return tail;
}

static const struct climb_plan *known_plan(const struct entrants *f, int cand, const bool *tail, bool dependent)
{
  for (int i = 0; i < f->nplans; i++) {
    const struct climb_plan *p = f->plan[i];
    if (p->cand == cand && p->p.dependent == dependent && !memcmp(p->tail, tail, (size_t)p->p.g->nnodes)) return p;
  }
  return NULL;
}

// Only what the model's plan has not is lowered again.
static bool plan_with(struct entrants *f, const struct lower_plan *model, const bool *tail, bool dependent, struct lower_plan *out)
{
  struct err e = {0};
  *out = *model, out->dependent = dependent && f->j->gpu.arch >= 90;
  if (!memcmp(tails_of(f->j->mem, model), tail, (size_t)model->g->nnodes)) return true;
  const struct lower_opts o = {.tail = tail, .dependent = dependent};
  return lower_plan_of(f->j->mem, model->g, model->store, &f->j->gpu, &o, out, &e) == OK;
}

const struct climb_plan *entrants_plan(struct entrants *f, int cand, const bool *tail, bool dependent)
{
  const struct lowered *l = f->c->cand[cand].lowered;
  struct climb_plan made = {.cand = cand};
  if (!l) return NULL;
  if (!tail) tail = tails_of(f->j->mem, &l->plan);
  const struct climb_plan *known = known_plan(f, cand, tail, dependent);
  if (known) return known;
  if (!plan_with(f, &l->plan, tail, dependent, &made.p)) return NULL;
  for (int u = 0; u < made.p.nunits; u++)
    if (!made.p.unit[u].nchoices) return NULL;
  made.tail = (bool *)tails_of(f->j->mem, &made.p); // a scheme may have refused one
  known = known_plan(f, cand, made.tail, made.p.dependent);
  if (known) return known;
  PUSH(f->j->mem, f->plan, f->nplans, f->planscap) = arena_copy(f->j->mem, &made, sizeof made);
  return f->plan[f->nplans - 1];
}

// ---- entrants ----

bool entrants_setting(struct entrants *f, const struct climb_plan *p, int unit, struct choice *c)
{
  const struct lower_unit *u = &p->p.unit[unit];
  struct arena_mark mark = arena_mark(&f->scratch);
  struct lower_job j = lower_unit_job(&f->scratch, &p->p, u);
  const struct scheme *s = scheme_at(c->scheme);
  bool takes = !(j.tail && !s->tails) && !(j.n->joins && !s->joins);
  c->cost = takes ? s->cost(&j, &c->k) : INFINITY;
  arena_reset(&f->scratch, mark);
  return isfinite(c->cost);
}

static bool known(const struct entrants *f, const struct climb_plan *p, const struct choice *pick)
{
  for (int i = 0; i < f->n; i++) {
    bool same = f->x[i].plan == p;
    for (int u = 0; u < p->p.nunits && same; u++)
      same = p->p.unit[u].product || (f->x[i].pick[u].scheme == pick[u].scheme && !memcmp(&f->x[i].pick[u].k, &pick[u].k, sizeof pick[u].k));
    if (same) return true;
  }
  return false;
}

void entrants_enter(struct entrants *f, int line, const struct climb_plan *p, const struct choice *pick, int near_to, double handicap)
{
  struct entrant x = {.cand = p->cand, .line = line, .plan = p, .seconds = INFINITY};
  if (known(f, p, pick)) return;
  x.pick = arena_copy(f->j->mem, pick, sizeof *pick * (size_t)(p->p.nunits + 1));
  for (int u = 0; u < p->p.nunits; u++) x.model += p->p.unit[u].product ? p->p.unit[u].choice->cost : pick[u].cost;
  x.prior = x.model;
  if (near_to >= 0) x.prior = handicap * f->x[near_to].seconds * pow(x.model / f->x[near_to].model, 1.0 / TRUST);
  x.expect = x.prior;
  PUSH(f->j->mem, f->x, f->n, f->cap) = x;
}

void entrants_give_back(struct entrants *f, int i)
{
  arena_close(&f->x[i].mem);
  f->x[i].mem = (struct arena){0}, f->x[i].program = NULL;
}

// ---- device programs ----

struct making {
  struct entrants *f;
  const int *who;
};

static void make_one(void *arg, int i, int worker)
{
  struct making *m = arg;
  struct entrant *x = &m->f->x[m->who[i]];
  struct err e = {0};
  (void)worker;
  if (x->program) return;
  struct device_program *d = NEW(&x->mem, struct device_program);
  if (lower_make(&x->mem, &x->plan->p, x->pick, d, &e) != OK) return;
  x->program = d, x->hash = hash_mix(program_hash(d, 1), program_hash(d, 2));
}

// Settings may come to the same.
static bool twin(const struct entrants *f, int i)
{
  for (int k = 0; k < f->n; k++)
    if (k != i && f->x[k].state != WAITING && f->x[k].hash == f->x[i].hash) return true;
  return false;
}

int entrants_make(struct entrants *f, int n, int *who)
{
  struct making m = {f, who};
  int kept = 0;
  pool_run(f->j->threads, n, make_one, &m);
  for (int i = 0; i < n; i++) {
    struct entrant *x = &f->x[who[i]];
    bool fine = x->program && (x->state == TIMED || !twin(f, who[i]));
    if (fine && x->state == WAITING) x->state = RACING;
    if (fine) who[kept++] = who[i];
    else entrants_give_back(f, who[i]), x->state = OUT;
  }
  return kept;
}

// Those with exact figures before others.
int entrants_fastest(const struct entrants *f, int cand, bool rough)
{
  int best = -1;
  for (int i = 0; i < f->n; i++) {
    const struct entrant *x = &f->x[i], *b = best < 0 ? NULL : &f->x[best];
    bool theirs = cand < 0 ? !f->c->cand[x->cand].dropped : x->cand == cand;
    if (!theirs || x->state != TIMED || !isfinite(x->seconds) || (x->rough && !rough)) continue;
    bool better = !b || (x->last != b->last ? x->last : x->rough != b->rough ? !x->rough : x->seconds < b->seconds);
    if (better) best = i;
  }
  return best;
}
