// tile_host: a tile kernel with sizes and buffers in this machine's memory, ready for the interpreter.
#ifndef MICA_SIM_TILE_HOST_H
#define MICA_SIM_TILE_HOST_H

#include "sim/sim.h"

struct tile_fill { // contents of a buffer before the kernel runs
  const char *buffer;
  double scale;         // factor of random numbers; 0: zeros
  const double *values; // n values in memory order, or NULL
  int64_t n;
};
struct tile_words { // "FILE.tile[,NAME=VALUE]...[,%BUFFER=SCALE]..."
  const char *path;
  int nset, nfills;
  struct tile_setting *set;
  struct tile_fill *fills;
};
struct tile_host {
  struct arena *mem;
  struct tile_program *p;
  struct tile_kernel *k;
  int64_t *params;
  void **data; // by buffer of the kernel; NULL: not in global memory
  size_t *bytes;
  bool *filled; // by buffer: has values before the kernel runs
};
struct tile_list {
  const char **word;
  int n, cap;
};

// ---- tile_words.c ----
int tile_host_words(struct arena *mem, const char *word, struct tile_words *out, struct err *e);
// Parses words; a file *.list is replaced by the words in it, in which # starts a comment.
int tile_host_list(struct arena *mem, int n, const char *const *words, struct tile_list *out, struct err *e);

// ---- tile_host.c ----
// Allocates buffers for sizes given by name; every parameter needs one.
int tile_host_open(struct tile_host *h, struct arena *mem, struct tile_program *p, struct tile_kernel *k, int nset, const struct tile_setting *set,
                   struct err *e);
// By buffer: is it read, other than in branches that constants exclude?
const bool *tile_host_reads(struct arena *mem, const struct tile_kernel *k);
// An error if a fill names no global buffer.
int tile_host_names(const struct tile_kernel *k, int nfills, const struct tile_fill *fills, struct err *e);
// Fills the buffers. Buffers without a fill get random numbers, uniform in [-1, 1] times the scale, with 8 significant bits, so that every type
// represents them; integers are 0 to 7. Buffers that the kernel writes and does not read get NaN.
int tile_host_fill(struct tile_host *h, uint64_t seed, int nfills, const struct tile_fill *fills, struct err *e);
int tile_host_run(struct tile_host *h, struct sim_report *report, stop_flag stop, struct err *e);

#endif
