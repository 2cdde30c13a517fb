// manifest: a device program for those who run it by the driver alone: machine code of its kernels, and program.json, which says
// how they are launched. bench/peers/mica.py is a reader; docs/lower.md says what the keys mean.
#ifndef MICA_EXPORT_MANIFEST_H
#define MICA_EXPORT_MANIFEST_H

#include "base/doc.h"
#include "export/folder.h"
#include "gpu/gpu.h"

struct manifest {
  struct str json;
  int n; // 0 where there is no compiler
  struct folder_file *cubin;
  const char *missing; // why there is no machine code; NULL: there is
};
struct manifest_by { // who compiles
  struct gpu_forge *forge;
  struct db *db;                    // or NULL
  double seconds;                   // that it may take; 0: as many as it takes
  const struct graph *whole, *rank; // of several devices: all ranks in one graph, for the tensors; one rank, for how they are divided. Else NULL
};
// To be freed after an error too; the rest lives in mem. A compiler that is missing or refuses a kernel is no error.
int manifest_make(struct arena *mem, const struct device_program *d, const char *name, const struct manifest_by *by, struct manifest *out,
                  struct err *e);
void manifest_readme(const struct manifest *m, struct str *out); // what README.md says of it
void manifest_shards(json_t *root, const struct graph *rank);    // each divided tensor gets the dimension along which ranks have parts
json_t *manifest_tensors(const struct graph *g, int (*list)(const struct graph *, int *)); // graph_inputs or graph_outputs, as JSON
void manifest_free(struct manifest *m);

#endif
