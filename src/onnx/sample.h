// Weighted elements around a coordinate along one dimension, for Resize and GridSample.
#ifndef MICA_ONNX_SAMPLE_H
#define MICA_ONNX_SAMPLE_H

#include <math.h>
#include <stdint.h>

static inline double sample_linear(double d) { return fmax(1 - fabs(d), 0); }

static inline double sample_cubic(double d, double a)
{
  d = fabs(d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

#endif
