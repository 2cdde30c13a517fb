// Who is ahead, by what was measured. Scores of different heats compare by way of those that were in both, so each has the
// noise of several; those of one heat have their own only. So who did well in heats only qualifies for the last one, and
// that one decides: of many the best score is a lucky one, and nobody wins by a score that did not come again.
#include "drive/drive.h"

static const double ALIKE = 1.02; // what noise may be
static const double NEAR = 1.15;  // who came so near the best in earlier heats may be faster

static bool runs(const struct candidate *x) { return x->measured && !x->dropped && x->module; }

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
      if (runs(&c->cand[i]) && !among(who, n, i) && (!best || c->cand[i].score < c->cand[best].score)) best = i;
    if (!best || (n && c->cand[best].score > NEAR * c->cand[who[0]].score)) break;
  }
  return n;
}

int rank_fastest(const struct contest *c)
{
  int best = 0;
  bool finals = false;
  for (int i = 1; i < c->ncand; i++) finals |= runs(&c->cand[i]) && c->cand[i].final;
  for (int pass = 0; pass < 2; pass++)
    for (int i = 1; i < c->ncand; i++) {
      const struct candidate *x = &c->cand[i], *y = &c->cand[best];
      if (!runs(x) || (finals && !x->final)) continue;
      if (pass ? x->kernels < y->kernels && x->score < ALIKE * y->score : x->score < y->score) best = i;
    }
  return best;
}
