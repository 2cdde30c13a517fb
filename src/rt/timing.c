// Meaning of the times of calls. Whatever else runs on the machine only makes a call slower, and it may do so to most calls:
// then quantiles tell how busy the machine was. So what is compared is the third least time: two calls may have been
// flattered, by the clock or by what a cache happened to hold.
#include "rt/rt.h"

#include <math.h>
#include <stdlib.h>

enum { FLATTERED = 2, PATIENT = 4 };
static const double ALIKE = 1.02; // times of calls that nothing disturbed

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
  if (past >= PATIENT * seconds) return false;
  if (kept < least) return true;
  for (int k = 0; k < n; k++)
    if (!timing_quiet(t + (size_t)k * (size_t)apart, kept)) return true;
  return false;
}
