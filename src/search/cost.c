// The cost of kernels: common code, which calls the rules of the target's kind.
#include "search/space.h"

#include <math.h>

static const struct cost_rules *const all[TARGET_KINDS] = {[TARGET_CPU] = &cost_cpu, [TARGET_GPU] = &cost_gpu};

const struct cost_rules *cost_rules(const struct target *t) { return all[t->kind]; }

int64_t size_of(const struct sizes *z, mask m)
{
  const int64_t *ext = z->ext[0]; // piece p of class c is bit 3 c + p
  int64_t n = 1;

  for (; m; m &= m - 1) n *= ext[__builtin_ctzll(m)];
  return n;
}

struct search_term cost_term(const struct model *m, const struct work *w, const struct sizes *z) { return cost_rules(m->t)->term(m, w, z); }

// If no divisor of a long loop is suitable, a GPU scheme takes steps of a suitable size and a shorter last step (plan/retile_step.c).
double cost_sizes(const struct model *m, const struct table *t, const struct sizes *z, struct sizes *paid)
{
  const struct cost_rules *r = cost_rules(m->t);
  *paid = *z;
  int64_t *ext = t->sch.loop < 0 ? NULL : paid->ext[t->sch.loop], own = ext ? ext[TILE] : 0, whole = own * (ext ? ext[LOOP] : 0);
  if (whole < 16 || !r->step || r->extent(whole, own, true)) return 1;
  ext[TILE] = MIN(whole, r->step), ext[LOOP] = paid->iterations = (whole + ext[TILE] - 1) / ext[TILE];
  return 1 + 1e-4 * fabs(log2((double)own / (double)r->step));
}

double cost_kernel(const struct model *m, const struct table *t, const struct works *w, const struct sizes *z)
{
  struct search_term sum = {0};
  struct sizes paid;
  double bias = cost_sizes(m, t, z, &paid);
  for (int i = 0; i < w->n; i++) {
    struct search_term x = cost_term(m, &t->work[w->id[i]], &paid);
    cost_add(&sum, &x);
  }
  return bias * cost_seconds(m, &sum, &paid);
}

double cost_seconds(const struct model *m, const struct search_term *sum, const struct sizes *z) { return cost_rules(m->t)->seconds(m, sum, z); }

double cost_library(const struct model *m, const struct node *n) { return cost_rules(m->t)->library(m->t, m->s->p, n); }

double search_library_seconds(const struct target *t, const struct graph *p)
{
  double sum = 0;
  for (int i = 0; i < p->nnodes; i++) {
    enum rule rule = op_rows[p->nodes[i].op].rule;
    if (!p->nodes[i].sub && rule != RULE_IO && rule != RULE_CONST && rule != RULE_INDEX && rule != RULE_VIEW)
      sum += cost_rules(t)->library(t, p, &p->nodes[i]);
  }
  return sum;
}
