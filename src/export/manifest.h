// manifest: a device program for loaders that use only the driver: machine code of its kernels, and program.json, which describes the launches.
// bench/peers/mica.py is a reader; docs/lower.md defines the keys.
#ifndef MICA_EXPORT_MANIFEST_H
#define MICA_EXPORT_MANIFEST_H

#include "base/doc.h"
#include "export/folder.h"
#include "gpu/gpu.h"

struct manifest {
  struct str json;
  int n; // 0 without a compiler
  struct folder_file *cubin;
  const char *missing; // reason for missing machine code, or NULL
};
struct manifest_by { // how to compile
  struct gpu_forge *forge;
  struct db *db;  // or NULL
  double seconds; // time limit for compiling; 0: no limit
  // for several devices: the graph of all ranks, for the tensors, and the graph of one rank, for how they are divided; else NULL
  const struct graph *whole, *rank;
};
// Free m after an error too; the other data lives in mem. A missing compiler, or a kernel that it rejects, is no error.
int manifest_make(struct arena *mem, const struct device_program *d, const char *name, const struct manifest_by *by, struct manifest *out,
                  struct err *e);
void manifest_readme(const struct manifest *m, struct str *out); // the section of README.md on it
void manifest_shards(json_t *root, const struct graph *rank);    // adds to each divided tensor the dimension along which it is divided among ranks
json_t *manifest_tensors(const struct graph *g, int (*list)(const struct graph *, int *)); // graph_inputs or graph_outputs, as JSON
void manifest_free(struct manifest *m);

#endif
