// Did something else on the machine disturb calls while they were timed? Every answer follows from recorded figures alone.
//
// Calls are recorded in stretches, some rounds in a row. A stretch is disturbed where a thread of the process had to wait for a
// processor, where a loop of fixed work ran slowly right after it, or where the hypervisor ran others. Such a stretch is
// thrown away and repeated. A measurement is disturbed if too few rounds are left, or if the times of those left lie far apart.
#include "base/memory.h"
#include "rt/rt.h"

#include <stdlib.h>

static const double SHARE = 0.2;     // of a stretch's time that waiting, or others on the processors, may take
static const double BRIEF = 0.25e-3; // seconds that waking up threads may take in a stretch
static const double SLOWER = 1.6;    // than its best the reference loop may be: clocks differ that much on a quiet machine
static const double APART = 2;       // the quartiles of a measurement may lie
enum { FEWEST = 5 };                 // times that have quartiles

enum disturbance stretch_cause(const struct stretch *s, double reference)
{
  if (s->waited > BRIEF && s->waited > SHARE * s->wall) return DISTURBED_WAITED;
  if (s->stolen > SHARE * s->wall) return DISTURBED_STOLEN;
  return s->reference > SLOWER * reference ? DISTURBED_SLOWED : DISTURBED_NOT;
}

static int ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// How much that cause disturbed its stretches: a share of their time, or how many times slower the median was.
static double extent(const struct stretch *s, int n, double reference, enum disturbance why)
{
  double *slower = MEM_NEWS(double, n + 1), wall = 0, lost = 0;
  int m = 0;
  for (int i = 0; i < n; i++) {
    if (stretch_cause(&s[i], reference) != why) continue;
    wall += s[i].wall, lost += why == DISTURBED_STOLEN ? s[i].stolen : s[i].waited;
    slower[m++] = s[i].reference / reference;
  }
  qsort(slower, (size_t)m, sizeof *slower, ascending);
  double by = why == DISTURBED_SLOWED ? slower[m / 2] : MIN(1, lost / wall);
  mem_free(slower);
  return by;
}

struct disturbed stretches_verdict(const struct stretch *s, int n, double reference, int enough)
{
  double took[DISTURBANCES] = {0};
  int quiet = 0, all = 0;
  enum disturbance why = DISTURBED_WAITED;
  for (int i = 0; i < n; i++) {
    enum disturbance cause = stretch_cause(&s[i], reference);
    if (!cause) quiet += s[i].rounds;
    took[cause] += s[i].wall, all += s[i].rounds;
  }
  for (enum disturbance d = DISTURBED_WAITED; d < DISTURBANCES; d++)
    if (took[d] > took[why]) why = d;
  if (quiet >= enough || quiet == all) return (struct disturbed){DISTURBED_NOT, 0};
  return (struct disturbed){why, extent(s, n, reference, why)};
}

struct disturbed timing_verdict(const struct timing *t)
{
  if (t->runs < FEWEST || t->p75 <= APART * t->p25) return (struct disturbed){DISTURBED_NOT, 0};
  return (struct disturbed){DISTURBED_SCATTERED, t->p75 / t->p25};
}

const char *disturbed_words(char out[96], struct disturbed d)
{
  switch (d.why) {
  case DISTURBED_NOT:
  case DISTURBANCES: *out = 0; break;
  case DISTURBED_WAITED: snprintf(out, 96, "a thread waited for a processor %.0f%% of the time", 100 * d.by); break;
  case DISTURBED_STOLEN: snprintf(out, 96, "the hypervisor took %.0f%% of the processors' time", 100 * d.by); break;
  case DISTURBED_SLOWED: snprintf(out, 96, "the reference loop ran %.1f times slower than its best", d.by); break;
  case DISTURBED_SCATTERED: snprintf(out, 96, "times of calls lie %.1f times apart", d.by); break;
  }
  return out;
}
