// package: what program.json of a saved folder says, for those who run it: api_module.c. The file is made by manifest.c for GPUs and
// by package_cpu.c for CPUs; docs/lower.md and docs/library.md say what the keys mean. Whatever the file holds is safe to
// read; the machine code beside it is run as it is.
#ifndef MICA_EXPORT_PACKAGE_H
#define MICA_EXPORT_PACKAGE_H

#include "export/manifest.h"
#include "mica.h"

struct package_object {             // of a program for the CPU
  const char *source, *file;        // kernel.c; the shared object, or NULL
  const char *function, *processor; // mica_FUNCTION; that the object was compiled for
};
struct package_extents {       // of one tensor
  int extent;                  // the number of the run-time extent that it holds, or 0
  uint8_t runs[MICA_MAX_DIMS]; // by dimension: of its run-time extent, or 0
};
struct package {
  const char *name, *target;
  int nin, nout;
  struct mica_tensor *in, *out;
  struct package_extents *in_extents, *out_extents;
  int world;                 // devices
  int *in_shard, *out_shard; // by input, by output: the dimension along which ranks have parts, or -1
  bool gpu;
  struct package_object object;
  struct code code; // of a program for GPUs, with machine code
  int arch;         // 90
  uint64_t key;     // of a program for GPUs: all ranks of a world have the same
};

// ---- package_read.c ----
int package_read(struct arena *mem, const struct folder_files *files, struct package *out, struct err *e);
int package_file(struct arena *mem, const struct folder_files *files, const char *name, const void **bytes, size_t *n, struct err *e);
int64_t package_tensor_bytes(const struct mica_tensor *t);

// ---- package_code.c: launches of program.json ----
// Into p->code; workspace and tensors are there.
int package_code(struct arena *mem, const struct folder_files *files, const json_t *root, struct package *p, struct err *e);

// ---- package_json.c: values of a document that may hold anything ----
struct reading {
  const char *what; // in messages: "launch 2"
  struct err *e;
};
int reading_bad(const struct reading *r, const char *key, const char *wanted);
int reading_whole(const struct reading *r, const json_t *o, const char *key, int64_t least, int64_t most, int64_t *out);
int reading_text(const struct reading *r, const json_t *o, const char *key, const char **out);       // borrowed of the document
int reading_list(const struct reading *r, const json_t *o, const char *key, size_t most, size_t *n); // how many
int reading_file(const struct reading *r, const json_t *o, const char *key, const char **out);       // a name without folders

// ---- package_cpu.c ----
struct package_cpu {
  const char *name, *function, *source; // of the program; an identifier; C
  const struct graph *g;                // inputs and outputs
  const struct graph *rank;             // of several devices: what one rank runs, or NULL
  const void *so;                       // or NULL
  size_t bytes;
  bool blas; // the source calls a library for products
};
const char *package_libraries(bool blas); // that kernel.c is linked with
void package_cpu_json(const struct package_cpu *c, struct str *out);
// The source compiled; db: NULL, or where it is looked for and kept. *so lives in mem.
int package_compile(struct arena *mem, const char *source, const char *function, struct db *db, const void **so, size_t *bytes, struct err *e);
// The same for a source that comes from elsewhere: what any compiler made of it for this processor will do.
int package_recompile(struct arena *mem, const char *source, const char *function, struct db *db, const void **so, size_t *bytes, struct err *e);

// ---- save.c ----
// The files that run the best of a report, in memory; db: NULL, or where machine code is looked for and kept.
int report_package(struct arena *mem, const json_t *report, struct gpu_forge *forge, struct db *db, struct folder_files *out, struct err *e);

#endif
