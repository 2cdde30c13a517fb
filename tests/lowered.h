// A kernel graph as a device program, each kernel made in the way that the model likes best.
#ifndef TESTS_LOWERED_H
#define TESTS_LOWERED_H

#include "lower/lower.h"

static inline int lower_program(struct arena *mem, const struct graph *g, const struct target *gpu, const struct lower_opts *o,
                                struct device_program *d, struct err *e)
{
  struct lower_plan p;
  int status = lower_plan(mem, g, gpu, o, &p, e);
  if (status) return status;
  struct choice *pick = NEWS(mem, struct choice, p.nunits + 1);
  for (int i = 0; i < p.nunits; i++)
    if (p.unit[i].nchoices) pick[i] = p.unit[i].choice[0];
  return lower_make(mem, &p, pick, d, e);
}

#endif
