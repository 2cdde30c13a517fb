// Expected times of waiting entrants, from timed ones. A value of a knob is rated by the fastest entrant of the same plan that has it. If an entrant
// differs from the fastest in several knobs, their slowdowns multiply. Values that were not tried are estimated by the model (entrants_enter).
#include "drive/climb.h"

#include <math.h>

// The fastest entrant that uses that scheme and value for the kernel; INFINITY: none was timed.
static double fastest_with(const struct entrants *f, const struct entrant *like, int unit, int knob)
{
  double best = INFINITY;
  const struct choice *want = &like->pick[unit];
  for (int i = 0; i < f->n; i++) {
    const struct entrant *x = &f->x[i];
    if (x->state == TIMED && x->plan == like->plan && x->pick[unit].scheme == want->scheme && x->pick[unit].tail == want->tail &&
        x->pick[unit].k.v[knob] == want->k.v[knob])
      best = fmin(best, x->seconds);
  }
  return best;
}

static double fastest_of(const struct entrants *f, const struct climb_plan *p)
{
  double best = INFINITY;
  for (int i = 0; i < f->n; i++)
    if (f->x[i].state == TIMED && f->x[i].plan == p) best = fmin(best, f->x[i].seconds);
  return best;
}

static void expect(struct entrants *f, struct entrant *x)
{
  double base = fastest_of(f, x->plan), slower = 1;
  bool all = true;
  if (!isfinite(base)) return;
  for (int u = 0; u < x->plan->p.nunits; u++) {
    if (x->plan->p.unit[u].product || lower_inside(&x->plan->p, x->pick, u)) continue;
    const struct scheme *s = scheme_at(x->pick[u].scheme);
    for (int k = 0; k < KNOBS && s->knob[k]; k++) {
      double t = fastest_with(f, x, u, k);
      if (isfinite(t))
        slower *= t / base;
      else
        all = false;
    }
  }
  x->expect = slower * (all ? base : x->prior);
}

void climb_expect(struct entrants *f)
{
  for (int i = 0; i < f->n; i++)
    if (f->x[i].state == WAITING && f->x[i].line >= 0) expect(f, &f->x[i]);
}
