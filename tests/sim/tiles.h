// Shared by tests of the interpreter: parses and lowers kernels, and runs them on given buffers.
#ifndef TESTS_SIM_TILES_H
#define TESTS_SIM_TILES_H

#include "sim/sim.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct tile_run {
  struct arena mem;
  struct tile_program *p;
  struct tile_kernel *k;
  struct sim_buffer buffers[16];
  void *owned[16];
  int nbuffers;
  int64_t params[16];
  struct sim_report r;
  struct err e;
  bool slow; // without shortcuts
};

// Parses, checks and lowers; fails the test where that fails. `set`: "NAME=VALUE,..." of constants and parameters.
void tile_open(struct tile_run *t, const char *file, const char *text, const char *set);
void tile_close(struct tile_run *t);
// Allocates all global buffers for the parameters, filled with random numbers of the seed; all count as written but
// those named in `fresh` ("C,D").
void tile_fill(struct tile_run *t, uint64_t seed, const char *fresh);
void *tile_data(struct tile_run *t, const char *name, int64_t *elements);
void tile_shift(struct tile_run *t, const char *name, int bytes); // the buffer begins so much later
double tile_get(struct tile_run *t, const char *name, int64_t element);
int tile_go(struct tile_run *t);     // the status; the report is t->r
void tile_clean(struct tile_run *t); // runs, and fails the test where anything is reported

#endif
