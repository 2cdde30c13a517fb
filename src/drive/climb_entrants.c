// Entrants and plans. An entrant is a few numbers until its turn. All threads make the device programs of a batch together, and slow ones are
// released.
#include "drive/climb.h"

#include <math.h>
#include <string.h>

enum { TRUST = 2 }; // a modelled change is discounted to its square root

struct entrants *entrants_open(struct job *j, struct contest *c, int part, struct gpu_session *s)
{
  struct entrants *f = NEW(j->mem, struct entrants);
  *f = (struct entrants){.j = j, .c = c, .part = part, .session = s, .most = BATCH, .until = INFINITY, .compile_until = INFINITY};
  return f;
}

void entrants_close(struct entrants *f)
{
  gpu_batch_drop(f->ahead.b);
  for (int i = 0; i < f->n; i++) arena_close(&f->x[i].mem);
  arena_close(&f->scratch);
}

// ---- plans ----

struct climb_plan *entrants_plan(struct entrants *f, int cand, bool dependent)
{
  const struct lowered *l = f->c->cand[cand].gpu.lowered;
  dependent = dependent && f->j->target.can & CAN_PDL;
  for (int i = 0; i < f->nplans; i++)
    if (f->plan[i]->cand == cand && f->plan[i]->p.dependent == dependent) return f->plan[i];
  if (!l) return NULL;
  for (int u = 0; u < l->plan.nunits; u++)
    if (!l->plan.unit[u].nchoices && !lower_inside(&l->plan, l->pick, u)) return NULL;
  struct climb_plan *p = NEW(f->j->mem, struct climb_plan);
  *p = (struct climb_plan){.cand = cand, .p = l->plan};
  p->p.dependent = dependent;
  return PUSH(f->j->mem, f->plan, f->nplans, f->planscap) = p;
}

// ---- entrants ----

bool entrants_setting(struct entrants *f, const struct climb_plan *p, int unit, struct choice *c)
{
  struct arena_mark mark = arena_mark(&f->scratch);
  const bool valid = launches_settle(&f->scratch, &p->p, unit, c);
  return arena_reset(&f->scratch, mark), valid;
}

bool choice_same(const struct choice *a, const struct choice *b)
{
  return a->scheme == b->scheme && a->tail == b->tail && !memcmp(&a->k, &b->k, sizeof a->k);
}

static bool known(const struct entrants *f, const struct climb_plan *p, const struct choice *pick)
{
  for (int i = 0; i < f->n; i++) {
    bool same = f->x[i].plan == p;
    for (int u = 0; u < p->p.nunits && same; u++) same = choice_same(&f->x[i].pick[u], &pick[u]) || lower_inside(&p->p, pick, u);
    if (same) return true;
  }
  return false;
}

void entrants_enter(struct entrants *f, int line, struct climb_plan *p, const struct choice *pick, int near_to, double handicap)
{
  struct entrant x = {.cand = p->cand, .line = line, .near_to = near_to, .plan = p, .seconds = INFINITY};
  if (known(f, p, pick)) return;
  x.pick = arena_copy(f->j->mem, pick, sizeof *pick * (size_t)(p->p.nunits + 1));
  for (int u = 0; u < p->p.nunits; u++)
    if (!lower_inside(&p->p, pick, u)) x.model += pick[u].cost;
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

struct climb_entrants_making {
  struct entrants *f;
  const int *who;
};

static void make_one(void *arg, int i, int worker)
{
  struct climb_entrants_making *m = arg;
  struct entrant *x = &m->f->x[m->who[i]];
  struct err e = {0};
  (void)worker;
  if (x->program) return;
  struct device_program *d = NEW(&x->mem, struct device_program);
  if (lower_make(&x->mem, &x->plan->p, x->pick, d, &e) != OK) return;
  x->program = d, x->hash = hash_mix(program_hash(d, 1), program_hash(d, 2));
}

// Different settings may give the same program.
static bool twin(const struct entrants *f, int i)
{
  for (int k = 0; k < f->n; k++)
    if (k != i && f->x[k].state != WAITING && f->x[k].hash == f->x[i].hash) return true;
  return false;
}

int entrants_make(struct entrants *f, int n, int *who)
{
  struct climb_entrants_making m = {f, who};
  int kept = 0;
  pool_run(f->j->threads, n, make_one, &m);
  for (int i = 0; i < n; i++) {
    struct entrant *x = &f->x[who[i]];
    bool fine = x->program && (x->state == TIMED || !twin(f, who[i]));
    if (fine && x->state == WAITING) x->state = RACING;
    if (fine)
      who[kept++] = who[i];
    else
      entrants_give_back(f, who[i]), x->state = OUT;
  }
  return kept;
}

// Entrants with exact figures come before others.
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
