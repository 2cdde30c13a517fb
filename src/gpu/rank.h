// rank: inside gpu, figures of candidates and what follows from them.
#ifndef MICA_GPU_RANK_H
#define MICA_GPU_RANK_H

#include "gpu/gpu.h"

// Statistics of n samples in seconds, which are sorted.
void rank_time(double *samples, int n, int launches, struct gpu_time *out);
// Sorts candidates by their seconds and returns how many go on: the better half, at least `least`, none that takes more
// than `far` times the best.
int rank_keep(int *who, int n, const double *seconds, int least, double far);
// Is the first surely the fastest: does the interval of no other reach below its own, or are they as good as equal?
bool rank_sure(const struct gpu_time *t, int n);
// Launches in a graph of about so many seconds, of a candidate of `each` seconds. *flush: on so few sets that the cache
// has to be emptied before.
int rank_launches(double each, double seconds, int sets, bool *flush);

// ---- gpu_keep.c ----
const char *keep_key(struct arena *mem, int n, const struct device_program *const *programs, const struct graph *reference,
                     const struct gpu_race_opts *o, const char *identity);
bool keep_recall(struct arena *mem, struct db *db, const char *key, int n, struct gpu_race *out);
void keep_race(struct db *db, const char *key, int n, const struct device_program *const *programs, const struct gpu_race *r, char warning[256]);

#endif
