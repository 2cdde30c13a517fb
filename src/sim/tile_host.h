// tile_host: a tile kernel with sizes and buffers in this machine's memory, ready for the interpreter.
#ifndef MICA_SIM_TILE_HOST_H
#define MICA_SIM_TILE_HOST_H

#include "sim/sim.h"

struct tile_fill { // what a buffer holds before the kernel runs
  const char *buffer;
  double scale;         // of random numbers; 0: zeros
  const double *values; // n of them in the order of memory, or NULL
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
  bool *filled; // holds values before the kernel runs
};
struct tile_list {
  const char **word;
  int n, cap;
};

// ---- tile_words.c ----
int tile_host_words(struct arena *mem, const char *word, struct tile_words *out, struct err *e);
// The words, with those of files *.list in their places; # starts a comment there.
int tile_host_list(struct arena *mem, int n, const char *const *words, struct tile_list *out, struct err *e);

// ---- tile_host.c ----
// Sizes by name; every parameter needs one.
int tile_host_open(struct tile_host *h, struct arena *mem, struct tile_program *p, struct tile_kernel *k, int nset, const struct tile_setting *set,
                   struct err *e);
// By buffer: does something read it, that is not in a branch that constants leave out?
const bool *tile_host_reads(struct arena *mem, const struct tile_kernel *k);
// Buffers that nothing is said about hold random numbers, uniform in [-1, 1] times the scale, with 8 significant bits,
// so that every type holds them; integers 0 to 7. Buffers that the kernel writes and does not read hold nothing
// (not-a-number). Is there a global buffer of the name, for each?
int tile_host_names(const struct tile_kernel *k, int nfills, const struct tile_fill *fills, struct err *e);
int tile_host_fill(struct tile_host *h, uint64_t seed, int nfills, const struct tile_fill *fills, struct err *e);
int tile_host_run(struct tile_host *h, struct sim_report *report, stop_flag stop, struct err *e);

#endif
