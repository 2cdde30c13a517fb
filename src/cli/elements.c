// Elements of device tensors, from and to doubles.
#include "cli/cli.h"

void cli_encode(enum dtype t, const double *x, void *to, int64_t n)
{
  for (int64_t i = 0; i < n; i++) num_write(t, to, i, x[i]);
}

void cli_decode(enum dtype t, const void *from, double *x, int64_t n)
{
  for (int64_t i = 0; i < n; i++) x[i] = num_read(t, from, i);
}
