// Statistics of call times. Other activity on the machine only slows calls down, possibly most of them; quantiles then measure how busy the machine
// was. Therefore the third least time is compared. The two least may be too short by chance, through the clock or the content of a cache.
#include "rt/rt.h"

#include <math.h>
#include <stdlib.h>

enum { FLATTERED = 2 };
static const double ALIKE = 1.02; // largest ratio between undisturbed calls

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

struct timing timing_of(double *t, int n)
{
  qsort(t, (size_t)n, sizeof *t, ascending);
  return (struct timing){
      .median = t[n / 2], .least = t[0], .most = t[n - 1], .p25 = t[n / 4], .p75 = t[(3 * n) / 4], .quiet = t[MIN(FLATTERED, n - 1)], .runs = n};
}

bool timing_quiet(const double *t, int n)
{
  double least = INFINITY;
  int alike = 0;
  for (int i = 0; i < n; i++) least = MIN(least, t[i]);
  for (int i = 0; i < n; i++) alike += t[i] <= ALIKE * least;
  return alike > FLATTERED;
}

bool timing_goes_on(const double *t, int n, int apart, int kept, int rounds, int least, double past, double seconds)
{
  if (rounds < least || past < seconds) return true;
  if (past >= MEASURE_PATIENCE * seconds) return false;
  if (kept < least) return true;
  for (int k = 0; k < n; k++)
    if (!timing_quiet(t + (size_t)k * (size_t)apart, kept)) return true;
  return false;
}
