// From plans to verified kernel graphs: each plan is put together and must pass the verifier's filter; units of work,
// so that threads and processes share them.
#include "search/space.h"
#include "verify/verify.h"

enum verdict { UNKNOWN, RIGHT, WRONG };
struct trial {
  const struct planner *pl;
  const struct plan *plan;
  char *verdict; // by plan
};

static bool graph_of(struct arena *mem, const struct trial *t, int i, struct graph **g)
{
  struct err e = {0};
  return assemble(mem, t->pl, &t->plan[i], g, &e) == OK && graph_check(*g, &e) == OK;
}

static bool try_plan(void *arg, int i, int worker, double until)
{
  (void)worker, (void)until;
  struct trial *t = arg;
  struct arena mem = {0};
  struct graph *g;
  bool right = graph_of(&mem, t, i, &g) && verify_filter(t->pl->m->s->p, g, t->pl->o->seed + (uint64_t)i);
  t->verdict[i] = right ? RIGHT : WRONG;
  arena_close(&mem);
  return true;
}

static void pack_verdict(void *arg, int i, struct str *out)
{
  const struct trial *t = arg;
  put_number(out, (uint64_t)t->verdict[i]);
}

static bool unpack_verdict(void *arg, int i, struct bytes *in, bool *whole)
{
  struct trial *t = arg;
  t->verdict[i] = (char)get_number(in, WRONG);
  return *whole = !in->bad && t->verdict[i];
}

static void add_found(struct arena *mem, const struct trial *t, int i, struct search_result *r)
{
  const struct plan *p = &t->plan[i];
  struct found *f = &r->found[r->n];
  *f = (struct found){.cost = p->cost, .structure = r->n};
  CHECK(graph_of(mem, t, i, &f->g));
  for (int k = 0; k < p->n; k++) {
    f->kernels += p->k[k]->kernels;
    f->block_ops = MAX(f->block_ops, p->k[k]->p.ops);
  }
  plan_text(t->pl, p, f->schedule, sizeof f->schedule);
  for (int k = 0; k < i; k++)
    if (t->plan[k].family == p->family) f->structure = MIN(f->structure, k);
  r->n++;
}

void plans_verified(struct arena *mem, struct planner *pl, int most, struct search_result *r)
{
  int room = most * (1 + cost_rules(pl->m->t)->spread), right = 0;
  struct plan *plans = NEWS(pl->mem, struct plan, room);
  int n = plan_kernels(pl, plans, most);
  if (!pl->few) n = plans_spread(pl, plans, n, room);
  struct trial t = {pl, plans, NEWS(pl->mem, char, n + 1)};
  units_run(pl->units, &(struct batch){UNIT_PLAN, 0, n, false, &t, try_plan, pack_verdict, unpack_verdict});
  for (int i = 0; i < n; i++) right += t.verdict[i] == RIGHT;
  for (int i = 0; i < n && !right; i++)
    if (t.verdict[i] == UNKNOWN) try_plan(&t, i, 0, 0), right += t.verdict[i] == RIGHT;
  r->found = NEWS(mem, struct found, right + 1);
  for (int i = 0; i < n; i++) {
    pl->stats->verified += t.verdict[i] == RIGHT, pl->stats->pruned[PRUNE_FINGER] += t.verdict[i] == WRONG;
    if (t.verdict[i] == RIGHT) add_found(mem, &t, i, r);
  }
}
