// export: results in forms that need no Mica: folders (folder.h), CUDA C++ and C, machine code with its launches (manifest.h). Also reads such a
// folder back (package.h).
//
//   save.c         the folder of a report: which files it has
//   folder_*.c     folders as a whole, with checksums (folder.h)
//   export.c       a device program as CUDA C++ that needs nothing of Mica: kernels, a host function that launches them, a header for C
//   export_*.cuh   what such a source has of its own, embedded by the build
//   export_ffi.*   the program as a function of tvm-ffi, the last part of exported sources
//   lines.c        lines of the source as lines of tile programs and as nodes of the graph
//   manifest.c     machine code of a device program, and how it is launched (manifest.h)
//   package_*.c    program.json of a saved folder, read; that of CPUs, written (package.h)
#ifndef MICA_EXPORT_EXPORT_H
#define MICA_EXPORT_EXPORT_H

#include "base/doc.h"
#include "lower/lower.h"

struct code;
struct db;
struct gpu_forge;

// ---- export.c ----
struct exported { // texts
  struct str source, header, readme;
};
// `name` must be an identifier; the host functions are name_run, name_prepare and name_workspace. Free the texts after an error too.
int export_device(struct arena *mem, const struct device_program *d, const char *name, struct exported *out, struct err *e);
void export_free(struct exported *x);
const char *export_flags(struct arena *mem, int arch); // nvcc flags for kernel.cu
const char *export_libraries(const struct code *code); // libraries to link it with

// ---- export_ffi.c ----
// Appends the function to a source of C for the CPU or of CUDA C++, whose functions are named `name` as by gen_c and export_device.
void export_ffi(const struct graph *g, const char *name, bool gpu, struct str *out);

// ---- lines.c ----
// Writes lines.json of a saved folder with this kernel.cu.
void export_lines(struct arena *mem, const struct device_program *d, const char *source, struct str *out);

// ---- save.c ----
// forge: compiles kernels and keeps compiled ones; db: machine code of earlier runs, or NULL.
int report_save_by(struct arena *mem, const json_t *report, const char *folder, struct gpu_forge *forge, struct db *db, struct err *e);
// Saves a device program without a report.
int device_save(struct arena *mem, const struct graph *program, const struct device_program *d, const char *folder, struct err *e);

#endif
