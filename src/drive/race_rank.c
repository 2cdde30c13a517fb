// Ranks candidates by measurements. Scores of different heats are compared through candidates that were in both, so they have the noise of several
// measurements. So heats only select the finalists, and the last heat decides. The best of many noisy scores is partly luck, so no candidate wins by
// a score that was not repeated.
#include "drive/drive.h"

static const double ALIKE = 1.02; // ratio that noise may cause
static const double NEAR = 1.15;  // candidates this near to the best in earlier heats may be faster

static bool runs(const struct candidate *x) { return x->measured && !x->dropped && x->cpu.module; }

static bool among(const int *who, int n, int i)
{
  for (int k = 0; k < n; k++)
    if (who[k] == i) return true;
  return false;
}

int rank_finalists(const struct contest *c, int *who, int most)
{
  int n = 0;
  for (int best; n < most; who[n++] = best) {
    best = 0;
    for (int i = 1; i < c->ncand; i++)
      if (runs(&c->cand[i]) && !among(who, n, i) && (!best || c->cand[i].cpu.score < c->cand[best].cpu.score)) best = i;
    if (!best || (n && c->cand[best].cpu.score > NEAR * c->cand[who[0]].cpu.score)) break;
  }
  return n;
}

int rank_fastest(const struct contest *c)
{
  int best = 0;
  bool finals = false;
  for (int i = 1; i < c->ncand; i++) finals |= runs(&c->cand[i]) && c->cand[i].cpu.final;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 1; i < c->ncand; i++) {
      const struct candidate *x = &c->cand[i], *y = &c->cand[best];
      if (!runs(x) || (finals && !x->cpu.final)) continue;
      if (pass ? x->kernels < y->kernels && x->cpu.score < ALIKE * y->cpu.score : x->cpu.score < y->cpu.score) best = i;
    }
  return best;
}
