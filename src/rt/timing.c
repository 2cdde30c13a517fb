// Statistics of call times. Other activity on the machine only slows calls down, possibly most of them; the median then measures how busy the machine
// was. Therefore a low quantile is compared, the first octile. The two least times are never compared, as a clock or a cache may have made them too
// short. An extreme quantile is wrong for kernels of several threads, which start together only if all are awake: one kernel took 25 us in its
// fastest calls, and 138 in most.
#include "base/memory.h"
#include "rt/rt.h"

#include <stdlib.h>
#include <string.h>

enum { FLATTERED = 2, OCTILE = 8 };
static const double ALIKE = 1.02; // largest ratio between undisturbed calls

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int low_of(int n) { return MIN(MAX(FLATTERED, n / OCTILE), n - 1); }

struct timing timing_of(double *t, int n)
{
  qsort(t, (size_t)n, sizeof *t, ascending);
  const int low = low_of(n);
  return (struct timing){.median = t[n / 2], .least = t[0], .most = t[n - 1], .p25 = t[n / 4], .p75 = t[(3 * n) / 4], .quiet = t[low], .runs = n};
}

bool timing_quiet(const double *t, int n)
{
  int alike = 0;
  if (n <= FLATTERED) return false;
  double *x = memcpy(MEM_NEWS(double, n), t, sizeof *t * (size_t)n);
  qsort(x, (size_t)n, sizeof *x, ascending);
  const double low = x[low_of(n)];
  for (int i = 0; i < n; i++) alike += x[i] <= ALIKE * low && low <= ALIKE * x[i];
  return mem_free(x), alike > FLATTERED;
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
