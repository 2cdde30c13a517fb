// package: the content of program.json of a saved folder, for loaders (api_module.c). The file is made by manifest.c for GPUs and by package_cpu.c
// for CPUs; docs/lower.md and docs/library.md define the keys. Any content of the file is safe to read. The machine code beside it is run unchecked.
#ifndef MICA_EXPORT_PACKAGE_H
#define MICA_EXPORT_PACKAGE_H

#include "export/manifest.h"
#include "mica.h"

struct package_object {             // of a program for the CPU
  const char *source, *file;        // kernel.c; the shared object, or NULL
  const char *function, *processor; // the program's name, as in mica_NAME; the processor that the object was compiled for
};
struct package_extents {       // of one tensor
  int extent;                  // number of the run-time extent that the tensor holds, or 0
  uint8_t runs[MICA_MAX_DIMS]; // number of the run-time extent of each dimension, or 0
};
struct package {
  const char *name, *target;
  int nin, nout;
  struct mica_tensor *in, *out;
  struct package_extents *in_extents, *out_extents;
  int world;                 // number of devices
  int *in_shard, *out_shard; // for each input and output: the dimension along which ranks have parts, or -1
  bool gpu;
  struct package_object object;
  struct code code; // of a program for GPUs, with machine code
  int arch;         // 90
  uint64_t key;     // equal on all ranks of a world, for GPU programs
};

// ---- package_read.c ----
int package_read(struct arena *mem, const struct folder_files *files, struct package *out, struct err *e);
int package_file(struct arena *mem, const struct folder_files *files, const char *name, const void **bytes, size_t *n, struct err *e);
int64_t package_tensor_bytes(const struct mica_tensor *t);

// ---- package_code.c: launches of program.json ----
// Reads the launches into p->code. Workspace and tensors must have been read.
int package_code(struct arena *mem, const struct folder_files *files, const json_t *root, struct package *p, struct err *e);

// ---- package_json.c: checked access to values of an untrusted document ----
struct reading {
  const char *what; // the object's name in messages, such as "launch 2"
  struct err *e;
};
int reading_bad(const struct reading *r, const char *key, const char *wanted);
int reading_whole(const struct reading *r, const json_t *o, const char *key, int64_t least, int64_t most, int64_t *out);
int reading_text(const struct reading *r, const json_t *o, const char *key, const char **out);       // the text stays owned by the document
int reading_list(const struct reading *r, const json_t *o, const char *key, size_t most, size_t *n); // the length in *n
int reading_file(const struct reading *r, const json_t *o, const char *key, const char **out);       // a file name without folders

// ---- package_cpu.c ----
struct package_cpu {
  const char *name, *function, *source; // of the program; an identifier; C
  const struct graph *g;                // inputs and outputs
  const struct graph *rank;             // for several devices: the graph that one rank runs, or NULL
  const void *so;                       // may be NULL
  size_t bytes;
  bool blas; // the source calls a BLAS library for products
};
const char *package_libraries(bool blas); // libraries to link kernel.c with
void package_cpu_json(const struct package_cpu *c, struct str *out);
// Compiles the source. db: NULL, or a cache that is searched and updated. *so lives in mem.
int package_compile(struct arena *mem, const char *source, const char *function, struct db *db, const void **so, size_t *bytes, struct err *e);
// The same for a source from elsewhere: the output of any compiler for this processor is accepted.
int package_recompile(struct arena *mem, const char *source, const char *function, struct db *db, const void **so, size_t *bytes, struct err *e);

// ---- save.c ----
// The files needed to run the best graph of a report, in memory. db: NULL, or a cache of machine code that is searched and updated.
int report_package(struct arena *mem, const json_t *report, struct gpu_forge *forge, struct db *db, struct folder_files *out, struct err *e);

#endif
