// Candidates of a part that were nearly as fast as the best of a race on a GPU. They may be faster beside other parts (race_joined.c).
#include "drive/climb.h"

enum { MOST_NEAR = 6 };
static const double NEARLY = 1.15, SHORT = 0.5e-6; // ratio to the best, and additional seconds

static int next_fastest(const struct contest *c, const bool *taken)
{
  int best = -1;
  for (int k = 0; k < c->ncand; k++) {
    const struct candidate *x = &c->cand[k];
    bool open = k != c->best && !taken[k] && x->measured && x->gpu.lowered && !x->dropped;
    if (open && (best < 0 || x->timing.median < c->cand[best].timing.median)) best = k;
  }
  return best;
}

// A copy of the candidate with its fastest choices, independent of the contest.
static bool keep(struct entrants *f, int cand, struct candidate *out)
{
  struct err e = {0};
  int i = entrants_fastest(f, cand, true);
  if (i < 0) return false;
  *out = f->c->cand[cand];
  out->gpu.lowered = NEW(f->j->mem, struct lowered);
  if (device_take(f->j, out, &f->x[i].plan->p, f->x[i].pick, &e) != OK) return false;
  device_algorithms(&out->gpu.lowered->program, f->x[i].result->algorithm);
  return true;
}

void race_keep(struct entrants *f)
{
  struct contest *c = f->c;
  bool *taken = NEWS(f->j->mem, bool, c->ncand);
  if (!c->decided || !c->cand[c->best].measured) return;
  double most = NEARLY * c->cand[c->best].timing.median + SHORT;
  c->near = NEWS(f->j->mem, struct candidate, MOST_NEAR);
  for (int k; c->nnear < MOST_NEAR && (k = next_fastest(c, taken)) >= 0 && c->cand[k].timing.median <= most; taken[k] = true)
    c->nnear += keep(f, k, &c->near[c->nnear]);
}
