// The modelled time of a lowered kernel graph: it is stabilized and gets schemes, kernel by kernel. No kernel text is generated. For a CPU it is the
// time of the search's model, and of the operators that stabilizing adds between kernels.
#include "drive/drive.h"
#include "plan/plan.h"

#include <math.h>

// The first choice of each launch. Infinite if no scheme accepts a kernel.
static double cost_of(struct arena *mem, const struct lower_plan *p)
{
  struct choice *pick = NEWS(mem, struct choice, p->nunits + 1);
  double sum = 0;
  for (int i = 0; i < p->nunits; i++) {
    const struct lower_unit *u = &p->unit[i];
    if (u->nchoices) pick[i] = u->choice[0];
    if (!lower_inside(p, pick, i)) sum += u->nchoices ? pick[i].cost : INFINITY;
  }
  return sum;
}

static double price_in(struct arena *mem, const struct pricing *by, const struct graph *g, double model)
{
  const struct lower_opts o = {.tails = true, .dependent = true, .memo = by->memo};
  struct graph *stable;
  struct lower_plan plan;
  struct err e = {0};
  char note[256];
  if (stable_form(mem, g, by->overflows, &stable, note, &e) != OK) return INFINITY;
  if (by->target->kind != TARGET_GPU) return model + search_library_seconds(by->target, stable) - search_library_seconds(by->target, g);
  stable = graph_copy(mem, stable);
  if (!stable->name) stable->name = "program";
  return lower_plan(mem, stable, by->target, &o, &plan, &e) == OK ? cost_of(mem, &plan) : INFINITY;
}

double price_graph(const struct pricing *by, const struct graph *g, double model)
{
  struct arena mem = {0};
  double seconds = price_in(&mem, by, g, model);
  arena_close(&mem);
  return seconds;
}

// Lowers the kernels without the maxima that the stable form adds. A scheme that refuses a kernel then also refuses it with them.
static void refuse(void *arg, const struct graph *g, bool *refused)
{
  const struct pricing *by = arg;
  const struct lower_opts o = {.dependent = true, .memo = by->memo};
  struct arena mem = {0};
  struct lower_plan p;
  struct err e = {0};
  struct graph *own = graph_copy(&mem, g);
  if (!own->name) own->name = "program";
  if (lower_plan(&mem, own, by->target, &o, &p, &e) == OK)
    for (int i = 0; i < p.nunits; i++) {
      int at = 0;
      for (int k = 0; k < p.unit[i].first; k++) at += norm_computes(&p.g->nodes[k]);
      refused[at] |= !p.unit[i].nchoices;
    }
  arena_close(&mem);
}

struct pricing price_open(struct arena *mem, const struct target *target, const struct graph *part)
{
  struct pricing by = {.target = target, .memo = lower_memo_new(mem)};
  struct graph *stable;
  struct err e = {0};
  char note[256];
  if (plan_stable(mem, part, &stable, &by.overflows, note, &e) != OK) by.overflows = false;
  return by;
}

static double price(void *arg, const struct graph *g, double model) { return price_graph(arg, g, model); }

struct pricer pricing_pricer(struct pricing *by)
{
  const bool gpu = by->target->kind == TARGET_GPU;
  return (struct pricer){by, gpu, price, gpu ? refuse : NULL};
}
