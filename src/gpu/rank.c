// Statistics and orders. The confidence interval of a median is given by order statistics: of n samples, those about sqrt(n) places to the left and
// right contain it with a probability of 95 %, for any distribution.
#include "gpu/rank.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void rank_time(double *s, int n, int launches, struct gpu_time *out)
{
  qsort(s, (size_t)n, sizeof *s, ascending);
  int reach = (int)ceil(0.98 * sqrt((double)n)), middle = n / 2;
  *out = (struct gpu_time){.median = s[middle],
                           .least = s[0],
                           .p90 = s[MIN(n - 1, n * 9 / 10)],
                           .low = s[MAX(0, middle - reach)],
                           .high = s[MIN(n - 1, middle + reach)],
                           .replays = n,
                           .launches = launches};
}

int rank_keep(int *who, int n, const double *seconds, int least, double far)
{
  for (int i = 1; i < n; i++) { // stable: equal candidates keep the search's order
    int x = who[i], k = i;
    for (; k > 0 && seconds[who[k - 1]] > seconds[x]; k--) who[k] = who[k - 1];
    who[k] = x;
  }
  int keep = MIN(n, MAX(least, (n + 1) / 2));
  while (keep > 1 && seconds[who[keep - 1]] > far * seconds[who[0]]) keep--;
  return keep;
}

bool rank_sure(const struct gpu_time *t, int n)
{
  static const double SAME = 0.01;
  for (int i = 1; i < n; i++)
    if (t[0].high >= t[i].low && fabs(t[i].median - t[0].median) > SAME * t[0].median) return false;
  return true;
}

struct disturbed gpu_disturbed(const struct gpu_time *t)
{
  enum { FEWEST = 20 };
  static const double APART = 1.5;
  if (t->replays < FEWEST || t->p90 <= APART * t->least) return (struct disturbed){DISTURBED_NOT, 0};
  return (struct disturbed){DISTURBED_SCATTERED, t->p90 / t->least};
}

int rank_launches(double each, double seconds, int sets, bool *flush)
{
  enum { LEAST = 4, MOST = 400 };
  int n = (int)fmin(fmax(ceil(seconds / fmax(each, 1e-7)), each < seconds ? LEAST : 1), MOST);
  *flush = n < sets;
  return *flush ? n : n / sets * sets;
}
