// Compares two results of a kernel.
#include "sim/number.h"
#include "sim/sim.h"

#include <math.h>

struct sim_difference sim_compare(enum tile_type t, const void *a, const void *b, int64_t n)
{
  size_t bytes = (size_t)tile_types[t].bytes;
  struct sim_difference d = {.first = -1};
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < n; i++) {
    const char *pa = (const char *)a + (size_t)i * bytes, *pb = (const char *)b + (size_t)i * bytes;
    if (!memcmp(pa, pb, bytes)) {
      double same = num_one(t, pb);
      norm += isinf(same) ? 0 : same * same; // equal infinities have no difference; NaN stays NaN
      continue;
    }
    double x = num_one(t, pa), y = num_one(t, pb);
    if (d.other++ == 0) d.first = i, d.a = x, d.b = y;
    difference += (x - y) * (x - y), norm += y * y;
  }
  d.relative = norm == 0 ? sqrt(difference) : sqrt(difference / norm);
  return d;
}
