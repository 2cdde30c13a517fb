// Mica: a superoptimizer for tensor programs. This is the whole C interface: read or build a program, inspect it,
// optimize it, run the result, save it and load it again. `mica optimize` is a thin layer over it. docs/library.md is a guide;
// the tests compile and run its example.
//
//   struct mica_context *m = mica_open();
//   struct mica_program *p;
//   struct mica_report *r;
//   if (mica_load(m, "softmax.mica", 0, NULL, &p) || mica_optimize(m, p, NULL, &r)) puts(mica_error(m));
//   else fputs(mica_report_text(r), stdout), mica_report_save(m, r, "out");
//   mica_close(m);
//
// Errors: functions that can fail return an enum mica_status; mica_error then has the message. Output arguments are set only if
// the status is MICA_OK, unless the function says otherwise. Wrong handles (NULL, of another context, closed) are bugs of the caller.
// All other arguments are checked, so text, folders and numbers may come from untrusted sources.
//
// Memory: programs, graphs, reports and texts belong to their context and live until it is closed; modules until they or their context
// are closed. Strings and arrays that are passed in are copied.
//
// Threads: one thread at a time uses a context and its objects. Exceptions are mica_module_call and mica_module_prepare, which any number
// of threads may call at once. Different contexts are independent. Nothing here prints, exits, or installs signal handlers.
//
// Out of memory: a call returns MICA_ENVIRONMENT and frees all that it has made. Objects that existed before are unchanged, and can be
// used and closed.
//
// Units: extents count elements, sizes are bytes; dimensions and tensors are numbered from 0. Tensors are dense and
// row-major (the last dimension is the fastest).
//
// Versions: a program that was built with an older mica.h of the same MICA_ABI_VERSION keeps working with a newer library.
// Handles are opaque, structs whose first member is their size may grow at their end, the others never change, and
// functions and constants are only added.
#ifndef MICA_H
#define MICA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MICA_ABI_VERSION 1 // that of libmica.so.N; the build reads it here

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
struct mica_graph;
struct mica_report;
struct mica_module;
struct mica_layout;
struct mica_model;
struct mica_mega;

enum mica_dtype { MICA_F16 = 0, MICA_BF16 = 1, MICA_F32 = 2, MICA_F8E4M3 = 3, MICA_F8E5M2 = 4, MICA_I32 = 5, MICA_I64 = 6, MICA_BOOL = 7 };
enum { MICA_MAX_DIMS = 8, MICA_MAX_GRID = 3, MICA_MAX_LOOPS = 4, MICA_REPLICA = -1 };

struct mica_tensor { // description of a tensor; dense, row-major
  const char *name;  // "" if it has none
  enum mica_dtype dtype;
  int ndim;         // 0: one number
  int64_t shape[8]; // shape[0 .. ndim - 1]
  // Range of whole numbers in an input, and whether no two are equal. least > most is never so; both 0 where nothing is known.
  int64_t least, most;
  int distinct;
  // A state is an input that is written in place: there `state` is its number among the inputs, plus 1. An output with a `state` is what the
  // program leaves there; such outputs come last, and their address is that of the input. 0: no state.
  int state;
  int frozen; // an input whose elements do not change between calls: mica_module_freeze
};

struct mica_progress {
  size_t size;                       // of this struct in the library that calls
  const char *stage;                 // name: "search", "compile", "measure", ...
  int part, parts;                   // number of the subprogram, from 1, and how many there are; while a program is divided: segments probed, and all
  uint64_t states, pruned, verified; // counters of the search so far
  double best_us;                    // time of the best candidate so far: modelled in the search, measured later; 0: none
  double done;                       // fraction of this stage, 0 to 1
};

// Options of mica_optimize. Start from mica_options_default and change the members that matter.
struct mica_options {
  size_t size;              // size of this struct as the caller knows it; mica_options_default sets it
  const char *target;       // "cpu", or a GPU of `mica targets`: "sm_90a"
  const char *dtype;        // NULL, or a dtype that replaces that of every input: "f32"
  int max_block_ops;        // most operators and accumulators in one block graph; 0: 11, or 16 for a program with two norms if that can be searched
  int max_kernel_ops;       // most kernels in a kernel graph
  int max_part_ops;         // most operators of a subprogram that is searched as a whole
  int max_values;           // most values built for one assignment of axes; the report says if this cut the search
  int threads;              // threads of search and kernels; 0: all cores
  int search_threads;       // threads of the search; its result does not depend on them; 0: the value of `threads`
  int measure;              // number of candidates of each subprogram that are compiled and measured
  double tune;              // seconds of tuning on a GPU: hill climbing over measured times, from the fastest kernels
  double time;              // deadline of the whole job in seconds; then the best result so far counts. 0: 60 for GPUs, none for CPUs
  double seconds;           // duration of the last comparison on a CPU, 1 by default; below that, earlier ones are shorter by the same factor
  uint64_t seed;            // seed of random inputs and tests
  const char *off;          // pruning rules to switch off, separated by commas; NULL: none
  bool remember, fresh;     // `remember`: read and write the database. `fresh`: write it, but do not read it
  const char *db;           // file of the database; NULL: $MICA_DB, else ~/.cache/mica/mica.db
  const volatile int *stop; // NULL, or a flag; the work ends soon after it is set, and keeps what was found
  void (*progress)(void *arg, const struct mica_progress *p); // NULL, or called during the work
  void *progress_arg;
  const char *accept; // the weakest evidence of equality that a result may have: "proved", "full" or "reduced" (docs/theory.md); NULL: "full"
  bool disturbed;     // accept an earlier result whose times were disturbed by other processes; else it is measured again
  // Output of the passes (docs/debugging.md); NULL: none.
  const char *dump;         // names of passes, separated by commas, or "all": their results are passed to `told` as text
  const char *dump_dir;     // a folder: one file for each result instead
  const char *stop_after;   // the last pass that is run; its results are passed to `told`, and there is no report
  const char *trace;        // a file for times of passes by thread, in the Trace Event Format
  const char *keep_dropped; // a folder for candidates that are dropped, each with the command that shows why
  const char *candidate;    // a file: this kernel graph in place of a search; MICA_NO where it is dropped
  const char *knobs; // schemes and knobs of the candidate's kernels on a GPU, by launch, separated by semicolons; last `independent`: no overlap
  bool check_passes; // check what each pass leaves; a debug build does that in any case
  // NULL, or called when the work ends, with each result of a pass. text is NULL where the last pass has none.
  void (*told)(void *arg, const char *pass, const char *title, const char *text);
  void (*traced)(void *arg, const char *line); // NULL, or called after a pass: its name, time, size, values
  void *told_arg;                              // of both
  const char *reference;                       // of a GPU: what computes float64 references, "auto", "cpu" or "gpu" (docs/gpu.md); NULL: "auto"
  int prepare; // candidates of each subprogram whose machine code for a GPU is put into the database, for a race elsewhere (docs/gpu.md); 0: none
  const char *f32_products; // of a GPU: how f32 is multiplied, "bf16x6" or "ieee" (docs/lower.md); NULL: "bf16x6"
};

MICA_API const char *mica_version(void); // "0.1.0"
MICA_API int mica_abi_version(void);     // MICA_ABI_VERSION of the library; it must equal that of the program's build

MICA_API struct mica_context *mica_open(void); // NULL: out of memory
MICA_API void mica_close(struct mica_context *m);
// Message of the last call that failed: place, what is wrong, and on a second line what to do.
MICA_API const char *mica_error(const struct mica_context *m);

// Reads a tensor program or a kernel graph (.mica or .json). set: "name=value" for integer parameters of the program, "entry=NAME" for an
// entry point.
MICA_API int mica_load(struct mica_context *m, const char *path, int nset, const char *const *set, struct mica_program **out);
// The same from text; `name` stands for the file in messages.
MICA_API int mica_load_text(struct mica_context *m, const char *text, const char *name, int nset, const char *const *set, struct mica_program **out);

// ---- several programs in one text (docs/language.md) ----
// The entry points of a text, at most 64; a text with one program has none. mica_load with the setting "entry=NAME" reads one of them. Tensors that
// are declared for all entry points have one name in each program that uses them, and callers pass the same memory.
MICA_API int mica_model_load(struct mica_context *m, const char *path, struct mica_model **out);
MICA_API int mica_model_load_text(struct mica_context *m, const char *text, const char *name, struct mica_model **out);
MICA_API const char *mica_model_name(const struct mica_model *x); // "" where there are no entry points
MICA_API int mica_model_entries(const struct mica_model *x);      // how many
MICA_API int mica_model_shared(const struct mica_model *x);
MICA_API const char *mica_model_entry(const struct mica_model *x, int i);       // its name; NULL: there is no i-th
MICA_API const char *mica_model_shared_name(const struct mica_model *x, int i); // of a tensor or run-time extent that is declared for all

// ---- programs, inspected ----
MICA_API const char *mica_program_name(const struct mica_program *p);
MICA_API int mica_program_inputs(const struct mica_program *p); // how many
MICA_API int mica_program_outputs(const struct mica_program *p);
// One of them, in order; of a program of several devices the whole tensor. If there is no i-th, all members are 0 and the name is "".
MICA_API struct mica_tensor mica_program_input(const struct mica_program *p, int i);
MICA_API struct mica_tensor mica_program_output(const struct mica_program *p, int i);
// Devices that run it together (docs/language.md); 1: it is a program of one. The dimension along which each of them has a part, or -1: all have
// the whole tensor, or there is no i-th.
MICA_API int mica_program_world(const struct mica_program *p);
MICA_API int mica_program_input_shard(const struct mica_program *p, int i);
MICA_API int mica_program_output_shard(const struct mica_program *p, int i);
// Run-time extents (docs/language.md): the number of the input, an i32 scalar, that holds the extent of dimension `dim`; -1: the extent is what the
// shape says, or there is no such dimension. Shapes have the bound of a run-time extent.
MICA_API int mica_program_input_extent(const struct mica_program *p, int i, int dim);
MICA_API int mica_program_output_extent(const struct mica_program *p, int i, int dim);
// In the language (docs/language.md), so that mica_load_text reads it back. The text lives in the context.
MICA_API int mica_program_text(struct mica_context *m, const struct mica_program *p, const char **text);

// ---- programs, built ----
// Operators, their arguments and attributes are those of the language (docs/language.md; `mica ops` lists them), and so are
// the errors. After an error the graph is as it was before the call. Tensors are numbers that calls return; they
// belong to one graph.
MICA_API int mica_graph_open(struct mica_context *m, const char *name, struct mica_graph **g);
// An input; name: a name of the language, not taken, or NULL.
MICA_API int mica_graph_input(struct mica_graph *g, const char *name, enum mica_dtype dtype, int ndim, const int64_t *shape, int *t);
// Declares facts about an input, before it is used: the least and the largest of its whole numbers, whether no two are equal, and whether it is a
// state, which `update` writes in place. For other dtypes only `state` counts.
MICA_API int mica_graph_declare(struct mica_graph *g, int t, int64_t least, int64_t most, int distinct, int state);
// Declares an input frozen: its elements do not change between calls (mica_module_freeze). It is no state, and has no run-time extent.
MICA_API int mica_graph_freeze(struct mica_graph *g, int t);
// A program of several devices (docs/language.md): `ranks` of them, before the first input. Then: an input, before it is used, of which each rank
// has a part along `dim`; its declared shape is that of the whole tensor, and mica_graph_tensor has the part's from then on.
MICA_API int mica_graph_world(struct mica_graph *g, int ranks);
MICA_API int mica_graph_shard(struct mica_graph *g, int t, int dim);
// Run-time extents (docs/language.md): input t, an i32 scalar, holds one, from `least`, which is at least 1, to `most`. mica_graph_extend gives
// dimension `dim` of input t, whose shape has `most` there, the extent that input `extent` holds. No operator reads t yet. An input with such a
// dimension is no state, and its numbers are `distinct` from -1 on only; mica_graph_declare comes before. Texts of attributes may name extents.
MICA_API int mica_graph_extent(struct mica_graph *g, int t, int64_t least, int64_t most);
MICA_API int mica_graph_extend(struct mica_graph *g, int t, int dim, int extent);
// A call: op(args..., attributes). attributes: NULL, or text as in a call of the language: "dim=1, group=4", "[2, 8], perm=[1, 0]",
// or a number in place of a last tensor: "add" with one tensor and "0.5". *t is the first result; the others follow it
// (split has several): *count of them. count may be NULL where there is one result.
MICA_API int mica_graph_op(struct mica_graph *g, const char *op, int nargs, const int *args, const char *attributes, int *t, int *count);
MICA_API int mica_graph_tensor(const struct mica_graph *g, int t, struct mica_tensor *info); // shape and dtype as inferred
MICA_API int mica_graph_name(struct mica_graph *g, int t, const char *name);                 // names it; printers keep the name
MICA_API int mica_graph_output(struct mica_graph *g, int t);
// The program built so far, checked as a whole. The graph can be extended afterwards.
MICA_API int mica_graph_program(struct mica_graph *g, struct mica_program **p);

// Block graphs (docs/mugraph.md): the operations of one block of a kernel on tiles of tensors. `grid`: blocks along x, y, z;
// `loop`: iterations along i, j, k, l, the outermost first. mica_graph_op (accum, accum_sum, matmul, ...), mica_graph_tensor and
// mica_graph_name work on block graphs too.
MICA_API int mica_graph_block(struct mica_graph *g, int ngrid, const int64_t *grid, int nloop, const int64_t *loop, struct mica_graph **block);
// Thread graphs: the same over the threads of a block, for values in registers. `grid`: threads along x, y, z. The functions
// for blocks below are for thread graphs too, where "the enclosing graph" is the block.
MICA_API int mica_graph_thread(struct mica_graph *block, int ngrid, const int64_t *grid, int nloop, const int64_t *loop, struct mica_graph **thread);
// Loads tiles of tensor t of the enclosing graph: *bt is a tile, a tensor of the block. imap[a], fmap[a]: the dimension that grid axis (loop axis) a
// cuts into parts, MICA_REPLICA: none; ngrid and nloop of them, NULL: none at all.
MICA_API int mica_block_input(struct mica_graph *block, int t, const int *imap, const int *fmap, int *bt);
// Saves tiles: omap[a]: the dimension along which the tiles of grid axis a are joined. NULL where there is no axis.
MICA_API int mica_block_output(struct mica_graph *block, int bt, const int *omap);
// The block (thread graph) becomes an operator of the enclosing graph and cannot be extended. Its results are *t and those after it, *count of
// them, in the order of mica_block_output.
MICA_API int mica_block_end(struct mica_graph *block, int *t, int *count);

// ---- optimizing ----
// The best target for GPU number `device`, "sm_90a"; the text is the library's. MICA_ENVIRONMENT without a driver or such a GPU,
// MICA_USER where no target runs on it.
MICA_API int mica_gpu_target(struct mica_context *m, int device, const char **target);
// Fills o, of which the caller knows the first `size` bytes.
MICA_API void mica_options_init(struct mica_options *o, size_t size);
static inline struct mica_options mica_options_default(void)
{
  struct mica_options o;
  mica_options_init(&o, sizeof o);
  return o;
}

// Searches for faster equivalents of p, proves, compiles and measures them against running p one operator at a time
// (L. Wu et al., "Mirage: A Multi-Level Superoptimizer for Tensor Programs", sections 3 to 5). The best may be the
// program itself; the report then says why. opts may be NULL. MICA_ENVIRONMENT after a stop: *out is then the report of the
// best result if something was measured and proven, else NULL; *out is NULL after stop_after. At the deadline the status is MICA_OK if there is a report.
MICA_API int mica_optimize(struct mica_context *m, const struct mica_program *p, const struct mica_options *opts, struct mica_report **out);

MICA_API const char *mica_report_text(const struct mica_report *r); // text for people
MICA_API const char *mica_report_json(const struct mica_report *r); // docs/report.md lists the keys
// The report as one HTML page that needs no other file and no network, in *html, which lives in the context. docs/report.md says
// what it shows.
MICA_API int mica_report_html(struct mica_context *m, const struct mica_report *r, const char **html);
MICA_API bool mica_report_recalled(const struct mica_report *r); // whether it came from the database
// Disturbance of its times, or of the comparison that chose it, even after repetitions; "": none.
MICA_API const char *mica_report_disturbed(const struct mica_report *r);
// Writes into a folder: the program, the graph as text and JSON, kernel.c with kernel.h (C without Mica; for a GPU kernel.cu, and
// program.json with machine code: docs/lower.md), the files that mica_module_load needs (program.json, kernel.so), the report, and
// SHA256SUMS of all these. The folder appears as a whole: a temporary folder is written and replaces the older one in one step. After an
// error the older one is there. Other files in it are kept; a folder in it is an error.
MICA_API int mica_report_save(struct mica_context *m, const struct mica_report *r, const char *folder);
// The default database, used if `db` of the options is NULL. MICA_NO: there is none, as none of MICA_DB, XDG_CACHE_HOME and HOME is set.
MICA_API int mica_database(struct mica_context *m, const char **path);

// ---- programs that run ----
// A module is a program that is ready to run: compiled kernels and their launches. Its inputs and outputs are the program's.

// Copies a saved folder after a check of all its files; the copy appears as a whole.
MICA_API int mica_folder_copy(struct mica_context *m, const char *from, const char *to);

// The best program of a report. CPU: the compiled kernel, compiled now if it was not kept; MICA_ENVIRONMENT without a C compiler. GPU: machine
// code by NVRTC; MICA_ENVIRONMENT without NVRTC.
MICA_API int mica_module_of(struct mica_context *m, const struct mica_report *r, struct mica_module **out);
// Loads a folder of mica_report_save; nothing is searched or measured. CPU: if the compiled kernel in the folder is for another processor, it is
// compiled again, and kept in the default database ($MICA_DB, else ~/.cache/mica/mica.db) for the next load. GPU: program.json with its
// machine code. MICA_USER: a file that SHA256SUMS lists is missing or changed. MICA_ENVIRONMENT: another user can write there.
// A folder holds code that this process will run: load only folders that you trust.
MICA_API int mica_module_load(struct mica_context *m, const char *folder, struct mica_module **out);
// Not while it is being called. The caller waits for GPU kernels that have not finished.
MICA_API void mica_module_close(struct mica_module *x);
MICA_API const char *mica_module_name(const struct mica_module *x);   // of the program
MICA_API const char *mica_module_target(const struct mica_module *x); // "cpu", "sm_90a"
MICA_API int mica_module_inputs(const struct mica_module *x);
MICA_API int mica_module_outputs(const struct mica_module *x);
MICA_API struct mica_tensor mica_module_input(const struct mica_module *x, int i); // as mica_program_input
MICA_API struct mica_tensor mica_module_output(const struct mica_module *x, int i);
MICA_API int64_t mica_module_workspace(const struct mica_module *x); // bytes of device memory that a call needs; 0 on the CPU
// Does the work of the first call in advance. Kernels are loaded onto the device of the current context (the primary context of device 0 if
// none is current). `workspace`, of mica_module_workspace bytes and aligned to 256, is zeroed on `stream`. Once for each workspace
// and device. NULL: the module's own workspace. On the CPU it does nothing.
MICA_API int mica_module_prepare(struct mica_module *x, void *workspace, void *stream);
// Runs the program. Addresses of inputs and outputs, in order; an output overlaps no other tensor.
// CPU: aligned to their dtype; the results are complete on return. `workspace` and `stream` are not used.
// GPU: device addresses, multiples of 16; the kernels are queued on `stream`, a CUstream or cudaStream_t (NULL: the default
// one), of the current context, and the call returns. workspace: a prepared one, for one call at a time; NULL: the
// module's own, and then calls in different streams must not overlap. The first call must not be captured into a CUDA graph,
// unless mica_module_prepare was called before.
MICA_API int mica_module_call(struct mica_module *x, const void *const *inputs, void *const *outputs, void *workspace, void *stream);
// A module of the same program that computes only once, now, what follows from frozen inputs alone, and packs those that products read. `inputs` as
// for a call; those that are not frozen may be NULL. Calls of the new module take all inputs, the frozen ones with the same elements: after a change
// of their elements, freeze again. The memory is the module's, and freed with it; x may be closed before. MICA_USER: the program has no frozen input,
// or x is for a GPU, where frozen inputs are like any others.
MICA_API int mica_module_freeze(struct mica_module *x, const void *const *inputs, struct mica_module **out);

// ---- run-time extents ----
MICA_API bool mica_module_is_extent(const struct mica_module *x, int i); // input i holds a run-time extent
// As mica_program_input_extent.
MICA_API int mica_module_input_extent(const struct mica_module *x, int i, int dim);
MICA_API int mica_module_output_extent(const struct mica_module *x, int i, int dim);
// mica_module_call with arrays that are no larger than the extents: dense arrays whose shapes have the values in place of the bounds. They are
// copied into arrays of the bounds, and results back. packed: by tensor, inputs and then outputs, which are such arrays; NULL: all that have a
// run-time extent. The inputs that are extents hold the values. CPU only.
MICA_API int mica_module_call_packed(struct mica_module *x, const void *const *inputs, void *const *outputs, const bool *packed);

// ---- programs of several devices ----
// A module of such a program takes whole tensors and computes the operators of all ranks as one function. mica_module_world and the shards are
// those of the program.
MICA_API int mica_module_world(const struct mica_module *x);
MICA_API int mica_module_input_shard(const struct mica_module *x, int i);
MICA_API int mica_module_output_shard(const struct mica_module *x, int i);
// One rank of it: a module of its own, whose inputs and outputs have the shapes of the rank's parts. All ranks make the same calls; a call
// exchanges data with the others and ends when all have come to its end. Each rank has a caller of its own: a thread (`name` NULL: the ranks
// of this process meet, and this call does not wait) or a process (`name`: letters, digits, dots, dashes and underscores; the processes of one
// user on this machine that give the same name meet in shared memory, and this call waits for all of them). All ranks must have the same
// kernels: load one saved folder. seconds: how long a rank waits for the others, here and in calls; 0: 60. A rank that waited too long fails, and
// so do all calls of the others from then on. MICA_USER, also of such a call: no such rank, it is open already, another program, or a rank that
// did not come. `whole` may be closed before the rank.
// GPU: the ranks alone run the program, each on the device of the context that is current at its first call or mica_module_prepare. That one waits
// for those of all ranks, and must not be captured. A rank that does not come to a later call ends the kernels of all; the next calls return the
// error. Calls of a rank must not overlap on the device, also with workspaces of their own: queue them in one stream, or let streams wait for each
// other. Close a rank when its kernels have ended. If NCCL carries the data (docs/library.md), kernels wait without end for a rank that does not come,
// and closing their rank ends them.
MICA_API int mica_module_rank(struct mica_module *whole, int rank, const char *name, double seconds, struct mica_module **out);

// Decides whether two programs or kernel graphs with the same inputs and outputs are equal. MICA_OK or MICA_NO, with the certificate
// as JSON in *json, which lives in the context. `finding` is "equal", "not equal" or "undecided", and `scope` the evidence:
// "proved", "full" (tests at full size) or "reduced" (tests at smaller extents only).
MICA_API int mica_verify(struct mica_context *m, const struct mica_program *a, const struct mica_program *b, uint64_t seed, const char **json);

// ---- persistent kernels of language models (docs/mega.md) ----
// A model whose decode step is one persistent kernel: its plan is proved, its weights and its cache are kept, and launches make steps. All
// functions below use the context; one thread at a time.
enum mica_mega_kind { MICA_MEGA_WEIGHTS = 0, MICA_MEGA_STATE = 1, MICA_MEGA_OUTPUT = 2 };
struct mica_mega_options {
  size_t size;         // of this struct as the caller knows it; mica_mega_options_init sets it
  const char *engine;  // "cpu": threads of this machine, in float32; "gpu": one launch of the emitted kernel
  int device;          // number of the GPU
  int rows;            // of a step: tokens of requests that are computed together; 0: 1, or what the text says
  int pages;           // of the cache, 64 positions each; the first is no request's. 0: 64, of a configuration
  int workers;         // 0: all multiprocessors of an H100, or 4 threads; or what the text says
  double deadline;     // seconds that one wait may take, before a launch ends as hung; 0: 2
  bool trace;          // GPU: record when tasks end
  int attention_parts; // of the cached positions, each a work tile; 0: the fastest by the model, for requests that fill half of their share
};
struct mica_mega_value {
  struct mica_tensor tensor;
  enum mica_mega_kind kind;
};
struct mica_mega_row { // what a row does in a launch
  int request;         // number of the caller's; rows of one request stand one after another. -1: the row does nothing
  int32_t token;       // that is read
  int64_t position;    // of that token in the request
  int npages;
  const int32_t *pages; // of the request, in the order of its positions: numbers from 1 on
  float temperature;    // 0: the token of the largest logit is next
  int top;              // of how many of the largest logits one is chosen, up to 64; 0: of all
  uint64_t seed;        // of the request: the same numbers give the same tokens on every machine
};
MICA_API void mica_mega_options_init(struct mica_mega_options *o, size_t size);
// Opens a model from the text of a transformer's config.json (Llama, Qwen3, Qwen3 with experts) or a .mega text; `name` stands for the file in
// messages. The plan is proved here: MICA_NO if the proof fails. o may be NULL.
MICA_API int mica_mega_open(struct mica_context *m, const char *text, const char *name, const struct mica_mega_options *o, struct mica_mega **out);
MICA_API void mica_mega_close(struct mica_mega *x);
MICA_API int mica_mega_rows(const struct mica_mega *x);
MICA_API int mica_mega_pages(const struct mica_mega *x, int *slots); // of the cache that requests share, and positions of one; 0: there is none
MICA_API int mica_mega_tensors(const struct mica_mega *x);           // weights, state of numbers, output
MICA_API struct mica_mega_value mica_mega_tensor(const struct mica_mega *x, int i);
// Texts that live in the context, by `what`: the plan ("plan", "text", "regions", "events", "schedule", "model"), the proof ("proof"), the CUDA C++
// ("cuda").
MICA_API int mica_mega_tell(struct mica_mega *x, const char *what, const char **text);
// The elements of a weight (or of state, before the first step), copied: `count` of a dtype, which are rounded to the tensor's.
MICA_API int mica_mega_weights(struct mica_mega *x, const char *name, enum mica_dtype dtype, int64_t count, const void *data);
MICA_API int mica_mega_random(struct mica_mega *x, uint64_t seed); // all weights, by a seed
// One launch of `steps` steps, up to 64. rows: one for each row. Between steps a row goes on with the token that it has made; rows of a prompt take
// one step a launch. tokens: [steps][rows], what was made; logits: [rows][vocabulary] of the last step, or NULL. MICA_NO where a wait took too
// long: mica_mega_fault then has the record, and the next call works.
MICA_API int mica_mega_step(struct mica_mega *x, const struct mica_mega_row *rows, int steps, int32_t *tokens, float *logits);
MICA_API const char *mica_mega_fault(const struct mica_mega *x); // of the last launch; "": it had none
MICA_API double mica_mega_seconds(const struct mica_mega *x);    // of the last launch, on a GPU by its clock
// The last step as a file in the Trace Event Format: when each worker's tasks ended.
MICA_API int mica_mega_trace(struct mica_mega *x, const char *path);
// A mistake on purpose: with `on` launches wait for more than there is, and end as hung. For tests of what happens then.
MICA_API int mica_mega_plant(struct mica_mega *x, bool on);

// ---- layouts ----
// A layout is a function from an index to an offset: a tuple of extents, its first mode fastest, with a stride an
// extent. "(4,(2,4)):(2,(1,8))" sends index 6 = 2 + 4 * 1, coordinate (2, (1, 0)), to 2 * 2 + 1 * 1 = 5. Names stand for
// unknown positive integers, the same in all layouts of a context. An operation that is not valid for all their values is
// refused. docs/layout.md states what each operation guarantees. Layouts belong to their context, and operations take
// layouts of their context only. MICA_USER: the text is wrong. MICA_NO: there is no such layout, or none is found.

// Strides may be left out of text: they are then compact, last mode fastest where row_major, else the first.
MICA_API int mica_layout_parse(struct mica_context *m, const char *text, bool row_major, struct mica_layout **out);
MICA_API const char *mica_layout_text(const struct mica_layout *l);          // "(4,(2,4)):(2,(1,8))"
MICA_API int64_t mica_layout_size(const struct mica_layout *l);              // number of indices; -1 if it has unknown names
MICA_API int64_t mica_layout_cosize(const struct mica_layout *l);            // largest offset + 1, or -1
MICA_API int64_t mica_layout_at(const struct mica_layout *l, int64_t index); // offset; -1 with unknown names or index < 0

MICA_API int mica_layout_coalesce(struct mica_context *m, const struct mica_layout *a, struct mica_layout **out);
// R(i) = A(B(i)).
MICA_API int mica_layout_compose(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *b, struct mica_layout **out);
// R completes A to all offsets from 0 to size - 1: the sums A(i) + R(j) are these offsets, each once.
MICA_API int mica_layout_complement(struct mica_context *m, const struct mica_layout *a, int64_t size, struct mica_layout **out);
// ((tile),(rest)): A composed with (B, complement(B, |A|)); zipped: mode by mode, ((tiles),(rests)).
MICA_API int mica_layout_divide(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *b, struct mica_layout **out);
MICA_API int mica_layout_zipped_divide(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *b, struct mica_layout **out);
// (A, copies of A arranged as B).
MICA_API int mica_layout_product(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *b, struct mica_layout **out);
// A composed with B, whose size is A's.
MICA_API int mica_layout_reshape(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *b, struct mica_layout **out);
MICA_API int mica_layout_right_inverse(struct mica_context *m, const struct mica_layout *a, struct mica_layout **out);
MICA_API int mica_layout_left_inverse(struct mica_context *m, const struct mica_layout *a, struct mica_layout **out);
// Tiles of a (Hagedorn et al., "Graphene: An IR for Optimized Tensor Computations on GPUs", section 3.3): mode d of the
// tiler picks the elements of a tile in dimension d of a, or "_" all of them. outer: where tiles begin; inner: where
// the elements of one are from there. partial: at least one bool a dimension of a, true where the last tiles stick out.
MICA_API int mica_layout_tile(struct mica_context *m, const struct mica_layout *a, const struct mica_layout *tiler, struct mica_layout **outer,
                              struct mica_layout **inner, bool *partial);

#ifdef __cplusplus
}
#endif
#endif
