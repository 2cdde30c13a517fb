/* The limits of a target by its name, from its row: they live as long as the process. */
#ifndef TESTS_GPU_OF_H
#define TESTS_GPU_OF_H

#include "lower/lower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline const struct gpu_limits *gpu_of(const char *name)
{
  static struct gpu_limits made[32];
  struct target t;
  struct err e = {0};
  for (int i = 0; i < target_count() && i < (int)COUNT(made); i++) {
    if (strcmp(name, target_name(i)) != 0 || target_open(name, 1, true, &t, &e)) continue;
    if (!made[i].arch) made[i] = gpu_limits(&t);
    return &made[i];
  }
  fprintf(stderr, "there is no target %s\n", name);
  exit(1);
}
#endif
