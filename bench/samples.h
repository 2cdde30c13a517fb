// Samples: what a race measured of every program, a line a launch, for build/calibrate. Fields, between commas:
//
//   program, graph    as in the command, quoted
//   number            in the race
//   launches, launch  of the program; this one's number
//   how               scheme and knobs, quoted
//   cost, all         us by the model, of the launch and of the program
//   us                cold, of the program; empty: not timed
//   round, verdict    of the race
//   registers, spilled
//   dependent         0: each launch begins after the one before has ended
//   sizes             of a graph that the climb gave others: "NODE GRID.../LOOP...;" for each kernel whose axes are others
//   climbed           1: the climb came to it, from what was measured; 0: it was on the lists that the model orders
#ifndef MICA_BENCH_SAMPLES_H
#define MICA_BENCH_SAMPLES_H

#include "drive/climb.h"

#include <stdio.h>

struct raced {
  const char *what; // word of the program
  int n;
  const char *const *from; // word of each program's graph
  const struct device_program *const *program;
  bool dependent;
};
void samples_of_race(const struct raced *a, const struct gpu_race *r, FILE *out);
void samples_of_climb(const char *what, const struct entrants *f, FILE *out);
// Changes of the candidate's graph against the one it was made from.
int sizes_read(struct arena *mem, const char *text, const struct graph *was, const struct graph **now, struct err *e);

#endif
