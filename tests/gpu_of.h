/* A GPU target by its name, from its row: it lives as long as the process. */
#ifndef TESTS_GPU_OF_H
#define TESTS_GPU_OF_H

#include "lower/lower.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline const struct target *gpu_of(const char *name)
{
  static struct target made[32];
  struct err e = {0};
  for (int i = 0; i < target_count() && i < (int)COUNT(made); i++) {
    if (strcmp(name, target_name(i)) != 0 || (!made[i].arch && target_open(name, 1, true, &made[i], &e))) continue;
    return &made[i];
  }
  fprintf(stderr, "there is no target %s\n", name);
  exit(1);
}
#endif
