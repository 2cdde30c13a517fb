// Mica: a superoptimizer for tensor programs. This is its whole C interface: load a program, optimize it, read and
// save the report. `mica optimize` is a thin layer over it.
//
//   struct mica_context *m = mica_open();
//   struct mica_program *p;
//   struct mica_report *r;
//   if (mica_load(m, "softmax.mica", 0, NULL, &p) || mica_optimize(m, p, NULL, &r)) puts(mica_error(m));
//   else fputs(mica_report_text(r), stdout), mica_report_save(m, r, "out");
//   mica_close(m);
//
// Functions that can fail return an enum mica_status; mica_error then has the message. Programs and reports belong
// to their context and live until it is closed. A context is used by one thread at a time; different contexts are
// independent. Nothing here prints, exits or installs signal handlers.
#ifndef MICA_H
#define MICA_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MICA_API __attribute__((visibility("default")))
#else
#define MICA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum mica_status {
  MICA_OK = 0,
  MICA_NO = 1,          // the answer is no: not equal, or a kernel computes wrong values
  MICA_USER = 2,        // the program or an option is wrong
  MICA_ENVIRONMENT = 3, // no compiler, a full disk, too little memory, stopped
};

struct mica_context;
struct mica_program;
struct mica_report;
struct mica_layout;

struct mica_progress {
  const char *stage;                 // "search", "compile", "measure", ...
  int part, parts;                   // which subprogram, from 1; while a program is divided, segments judged, and of how many
  uint64_t states, pruned, verified; // of the search so far
  double best_us;                    // of the best candidate so far: modelled in the search, measured later; 0 if none
  double done;                       // of this stage, 0 to 1
};

// What mica_optimize may do. Take mica_options_default and change what matters.
struct mica_options {
  const char *target;    // "cpu"
  const char *dtype;     // NULL, or a dtype that replaces that of every input: "f32"
  int max_block_ops;     // operators and accumulators in one block graph; 0: 11, or 16 for a program with two norms that can be searched so
  int max_kernel_ops;    // kernels in a kernel graph
  int max_part_ops;      // operators of a subprogram that is searched whole
  int max_values;        // values built for one assignment of axes; what needs more is cut and reported so
  int threads;           // of search and kernels; 0 means every core
  int search_threads;    // of the search alone, which changes nothing in the result; 0 means as many as `threads`
  int measure;           // candidates a subprogram that are compiled and measured
  double tune;           // on a GPU: seconds of looking for better ways to make the fastest kernel graphs
  double time;           // seconds of all; what is not done then is left. 0: 105 for GPUs, as many as it takes for others
  double seconds;        // of the last comparison
  uint64_t seed;         // of random inputs and tests
  const char *off;       // pruning rules to switch off, separated by commas; NULL: none
  bool remember, fresh;  // use a database of earlier results; do not read from it
  const char *db;        // its file; NULL: $MICA_DB, else ~/.cache/mica/mica.db
  const volatile int *stop; // NULL, or a flag that ends the work soon after it is set; what was found is kept
  void (*progress)(void *arg, const struct mica_progress *p); // NULL, or called now and then
  void *progress_arg;
};

MICA_API const char *mica_version(void); // "0.1.0"

MICA_API struct mica_context *mica_open(void);
MICA_API void mica_close(struct mica_context *m);
// Message of the last call that failed: place, what is wrong, and on a second line what to do.
MICA_API const char *mica_error(const struct mica_context *m);

// Reads a tensor program or a kernel graph (.mica or .json). set: "name=value" for integer parameters of the program.
MICA_API int mica_load(struct mica_context *m, const char *path, int nset, const char *const *set,
                       struct mica_program **out);
// The same from text; `name` stands for the file in messages.
MICA_API int mica_load_text(struct mica_context *m, const char *text, const char *name, int nset,
                            const char *const *set, struct mica_program **out);

MICA_API struct mica_options mica_options_default(void);

// Searches for faster equivalents of p, proves, compiles and measures them against running p one operator at a time
// (L. Wu et al., "Mirage: A Multi-Level Superoptimizer for Tensor Programs", sections 3 to 5). The best may be the
// program as it is; the report then says why. opts may be NULL. MICA_ENVIRONMENT after a stop; the report is then
// still there if something was measured and could be proven, NULL otherwise. Where the time was over it is MICA_OK if there is a report.
MICA_API int mica_optimize(struct mica_context *m, const struct mica_program *p, const struct mica_options *opts,
                           struct mica_report **out);

MICA_API const char *mica_report_text(const struct mica_report *r); // for people
MICA_API const char *mica_report_json(const struct mica_report *r); // docs/report.md lists the keys
MICA_API bool mica_report_recalled(const struct mica_report *r);    // it came from the database
// Writes the program, the graph as text and JSON, kernel.c with kernel.h (C without Mica; for a GPU kernel.cu, and
// program.json with machine code: docs/lower.md), and the report into a folder, which is made if need be. Files are
// whole or absent.
MICA_API int mica_report_save(struct mica_context *m, const struct mica_report *r, const char *folder);

// Are two programs or kernel graphs with the same inputs and outputs equal? MICA_OK or MICA_NO, with the certificate
// as JSON in *json, which lives in the context.
MICA_API int mica_verify(struct mica_context *m, const struct mica_program *a, const struct mica_program *b,
                         uint64_t seed, const char **json);

// ---- layouts ----
// A layout is a function from an index to an offset: a tuple of extents, its first mode fastest, with a stride an
// extent. "(4,(2,4)):(2,(1,8))" sends index 6 = 2 + 4 * 1, coordinate (2, (1, 0)), to 2 * 2 + 1 * 1 = 5. Names stand for
// unknown positive integers, the same in all layouts of a context; what is not known to hold for all their values is
// refused. docs/layout.md states what each operation guarantees. Layouts belong to their context, and operations take
// layouts of their context only. MICA_USER: the text is wrong. MICA_NO: there is no such layout, or none is found.

// Strides may be left out of text: they are then compact, last mode fastest where row_major, else the first.
MICA_API int mica_layout_parse(struct mica_context *m, const char *text, bool row_major, struct mica_layout **out);
MICA_API const char *mica_layout_text(const struct mica_layout *l);   // "(4,(2,4)):(2,(1,8))"
MICA_API int64_t mica_layout_size(const struct mica_layout *l);       // indices; -1 where that has unknown names
MICA_API int64_t mica_layout_cosize(const struct mica_layout *l);     // largest offset + 1, or -1
MICA_API int64_t mica_layout_at(const struct mica_layout *l, int64_t index); // offset; -1 with unknown names or index < 0

MICA_API int mica_layout_coalesce(struct mica_context *m, const struct mica_layout *a, struct mica_layout **out);
// R(i) = A(B(i)).
MICA_API int mica_layout_compose(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *b,
                                 struct mica_layout **out);
// The offsets of 0 to size - 1 that A leaves out: A(i) + R(j) are all different, and all of them are there.
MICA_API int mica_layout_complement(struct mica_context *m, const struct mica_layout *a, int64_t size,
                                    struct mica_layout **out);
// ((tile),(rest)): A composed with (B, complement(B, |A|)); zipped: mode by mode, ((tiles),(rests)).
MICA_API int mica_layout_divide(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *b,
                                struct mica_layout **out);
MICA_API int mica_layout_zipped_divide(struct mica_context *m, const struct mica_layout *a,
                                       const struct mica_layout *b, struct mica_layout **out);
// (A, copies of A arranged as B).
MICA_API int mica_layout_product(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *b,
                                 struct mica_layout **out);
// A composed with B, whose size is A's.
MICA_API int mica_layout_reshape(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *b,
                                 struct mica_layout **out);
MICA_API int mica_layout_right_inverse(struct mica_context *m, const struct mica_layout *a, struct mica_layout **out);
MICA_API int mica_layout_left_inverse(struct mica_context *m, const struct mica_layout *a, struct mica_layout **out);
// Tiles of a (Hagedorn et al., "Graphene: An IR for Optimized Tensor Computations on GPUs", section 3.3): mode d of the
// tiler picks the elements of a tile in dimension d of a, or "_" all of them. outer: where tiles begin; inner: where
// the elements of one are from there. partial: at least one bool a dimension of a, true where the last tiles stick out.
MICA_API int mica_layout_tile(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *tiler,
                              struct mica_layout **outer, struct mica_layout **inner, bool *partial);

#ifdef __cplusplus
}
#endif
#endif
