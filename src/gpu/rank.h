// rank: statistics of candidates. Private to gpu.
#ifndef MICA_GPU_RANK_H
#define MICA_GPU_RANK_H

#include "gpu/gpu.h"

// Statistics of n samples in seconds; sorts them.
void rank_time(double *samples, int n, int launches, struct gpu_time *out);
// Sorts candidates by time, and returns how many continue: the better half, at least `least`, and none that takes more than `far` times the best.
int rank_keep(int *who, int n, const double *seconds, int least, double far);
// Whether the first is certainly the fastest: no other interval reaches below its own, or they are practically equal.
bool rank_sure(const struct gpu_time *t, int n);
// Number of launches in a graph of about that many seconds, for a candidate of `each` seconds. *flush: there are so few sets that the cache must be
// flushed before.
int rank_launches(double each, double seconds, int sets, bool *flush);

// ---- gpu_keep.c ----
const char *keep_key(struct arena *mem, int n, const struct device_program *const *programs, const struct graph *reference,
                     const struct gpu_race_opts *o, const char *identity);
bool keep_recall(struct arena *mem, struct db *db, const char *key, int n, struct gpu_race *out);
void keep_race(struct db *db, const char *key, int n, const struct device_program *const *programs, const struct gpu_race *r, char warning[256]);

#endif
