// product64: inside rt, c = a b in float64 on all cores, for each matrix of a batch.
#ifndef MICA_RT_PRODUCT64_H
#define MICA_RT_PRODUCT64_H

#include "base/base.h"

struct product64 {
  const double *a, *b; // m x k and k x n, with any strides
  double *c;           // m x n, row by row, one matrix after another
  int64_t m, n, k, batch;
  int64_t a_row, a_col, b_row, b_col;
  const int64_t *a_at, *b_at; // where the operands of each product of the batch begin
  stop_flag stop;             // c is incomplete then
};
void product64_run(const struct product64 *p);

#endif
