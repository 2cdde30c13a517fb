// gpu: device programs (lower/lower.h) compiled, run, checked and timed on a GPU.
//
// Candidates run in a separate process, the worker. A candidate that fails, writes to wrong addresses or hangs affects only itself: the worker is
// ended and another one is started. Every candidate is compared with the program in float64 before it is timed.
//
// Glossary
//   code     a device program as it runs: machine code, launches, where their arguments are. It needs no graph, no tile
//            kernel and no compiler, so it can be sent to a worker or kept in the database
//   problem  sizes of the inputs and outputs that all candidates share, and the values of the inputs
//   set      a copy of the inputs on the device. Launches take turns on sets that together are more than twice the L2
//            cache: cold. On one set: hot
//   ring     copies of the outputs and of the workspace, which rotate with the sets
//   round    candidates timed in turns; the faster half goes on to the next one
//
//   gpu_code.c    device programs -> code, but for the machine code
//   compile.c    kernels -> machine code, in parallel; each source once, remembered in the database
//   compile_thread.c  the same in a thread
//   compilers.c  processes that compile, so that it can be given up
//   forge.c      what a whole run has compiled
//   wire.c       what goes between the processes, as bytes
//   code_wire.c  code as bytes
//   stage.c      in the worker: the problem on the device
//   gpu_load.c   in the worker: code -> modules and launches
//   gpu_product.c  in the worker: algorithms of products, chosen by timing them
//   act.c        in the worker: a candidate run on poisoned memory; candidates timed
//   serve.c      in the worker: requests and answers
//   worker.c     the other side: starts workers, asks, ends those that take too long
//   process.c    a process with a socket
//   find.c       which executable is a worker
//   turn.c       processes that share a GPU run and time candidates one after the other
//   problem.c    inputs and the float64 reference
//   ahead.c      kernels of references, compiled before they are needed
//   checkpoints.c  results within a deep program, from which single elements are computed
//   evaluator.c  references on the GPU: plain_text.c, plain.cuh kernels in double, plain_code.c a program of them, referee.c elements on the CPU
//   gpu_check.c  outputs against the reference
//   gpu_compare.c  the same on the device, for a quick race (compare.h, compare.cuh, stage_compare.c)
//   machine.c    whether this machine is fit for races, asked before long work
//   session.c    what races of one program share: worker, compiler, inputs, reference
//   batch.c      programs on their way to machine code while the caller goes on
//   race.c       all of it: check, rounds, the fastest
//   peers.c      a rank's way to the memory of the others (peers.h)
//   resident.c   a program that stays on a device, called in the caller's stream
//   rank.c       which candidates go on, which orders are sure
//   identity.c   the GPU and its driver by name, without opening them
//   gpu_keep.c   results in the database
//   race_text.c  results for people
#ifndef MICA_GPU_GPU_H
#define MICA_GPU_GPU_H

#include "base/memory.h"
#include "lower/lower.h"
#include "rt/rt.h"

// ---- gpu_code.c ----------------------------------------------------------------------------------------

struct code_arg { // a buffer, a tensor map of one, or a value
  struct lower_place at;
  bool is_map;
  struct gpu_map_shape map;
  const void *value; // NULL: it is none
  int64_t bytes;     // of the value, which the kernel takes as it is
};
struct code_kernel {
  const char *name, *source; // source: CUDA C++; NULL after it was sent to a worker
  const void *cubin;
  int64_t bytes, shared;
  int cluster, registers, spilled; // from the compiler; -1: unknown
};
struct code_launch {
  const char *name, *how;
  int kernel; // number in the code; -1: a product
  bool dependent;
  int64_t blocks;
  int threads, narg;
  struct code_arg *arg; // for a product: its operands
  struct blas_product mul;
  int algorithm;       // for a product: one of the library's proposals; -1: the fastest
  struct meeting meet; // a collective with two arguments, whose kernel also takes the access to the ranks; .ranks 0: it is none
};
struct code_state { // an input that is copied to the output before the first launch
  int in, out;
  int64_t bytes;
};
struct code {
  int nkernel, nlaunch;
  struct code_kernel *kernel;
  struct code_launch *launch;
  int64_t workspace, zeroed;
  int world;                // ranks
  struct meeting_room room; // layout of a rank's exchange memory
  int nstate;
  struct code_state *state;
};
enum { PRODUCT_PROPOSED = 8, PRODUCT_WORKSPACE = 32 << 20 }; // number of algorithms requested from the library; bytes that they may use
// Makes code without machine code. TILE if a kernel has sizes that are not constants, or writes to an input.
int code_make(struct arena *mem, const struct device_program *p, struct code *out, struct err *e);
// The same for people: kernels have the names of their launches, and operands those of the program's tensors.
int code_make_named(struct arena *mem, const struct device_program *p, struct code *out, struct err *e);
// Makes all of it in `mem`, with machine code.
void code_copy(struct arena *mem, const struct code *c, struct code *out);
int64_t code_exchange(const struct code *c);                          // bytes of a rank's exchange memory
uint64_t program_hash(const struct device_program *p, uint64_t seed); // hash of its kernels' texts, arguments and products

// ---- resident.c ------------------------------------------------------------------------------------

int64_t gpu_code_workspace(const struct code *c); // bytes, including the library's workspace
// Loads code with machine code for `arch` on the device of the current context (gpu_borrow). The code must live as long.
struct gpu_resident;
int gpu_resident_open(const struct code *c, int arch, struct gpu_resident **out, struct err *e);
void gpu_resident_close(struct gpu_resident *r);
bool gpu_resident_here(const struct gpu_resident *r); // whether its context is current
// Connects a rank to the others before its first call; all ranks call it at once. `host`: where they meet, gpu_peers_room bytes and the rest of
// mica_meet.h. It lives as long as the resident.
int gpu_resident_connect(struct gpu_resident *r, struct m_exchange *host, int rank, double seconds, struct err *e);
// Prepares a workspace for later calls in the stream; NULL: its own.
int gpu_resident_prepare(struct gpu_resident *r, void *workspace, void *stream, struct err *e);
int gpu_resident_run(struct gpu_resident *r, const void *const *in, void *const *out, void *workspace, void *stream, struct err *e);

// ---- wire.c ----------------------------------------------------------------------------------------

// ---- compile.c -------------------------------------------------------------------------------------

// Compiles one source; gpu_compiler_nvrtc, unless a test replaces it. Thread-safe.
struct gpu_compiler {
  int (*compile)(const void *arg, struct arena *mem, const char *name, const char *source, int arch, struct cubin *out, struct err *e);
  const void *arg;
  int major, minor; // of the compiler
};
struct gpu_compiler gpu_compiler_nvrtc(const struct nvrtc *r);
struct compile_result {
  int status; // of this code
  struct err err;
};
struct compile_stats {
  int kernels, sources, recalled; // kernels; distinct sources; those found in the database
  double seconds;
};
// Fills in the machine code of n codes, allocated in mem. db may be NULL. An error of one code is in its result.
int compile_codes(struct arena *mem, const struct gpu_compiler *c, struct db *db, int arch, int n, struct code *codes, struct compile_result *results,
                  struct compile_stats *stats, struct err *e);

// ---- forge.c ---------------------------------------------------------------------------------------

// Machine code of a whole run: each source is compiled once, in processes that can be ended. Used by one thread at a time.
struct gpu_forge;
struct gpu_forge_opts {
  const struct gpu_compiler *by; // NULL: NVRTC. Otherwise it compiles in this process
  const char *worker;            // path of the executable of compiler processes, or NULL
  bool apart;                    // processes compile although `by` is given, which then only has the version
};
struct gpu_forge *gpu_forge_open(const struct gpu_forge_opts *o);
void gpu_forge_close(struct gpu_forge *f);
void gpu_forge_rest(struct gpu_forge *f);                // ends its processes; compiled code stays
int gpu_forge_ready(struct gpu_forge *f, struct err *e); // ENV if there is no compiler
void gpu_forge_version(const struct gpu_forge *f, int *major, int *minor);
// As compile_codes. A code that could not be compiled in time has STOPPED in its result.
int gpu_forge_codes(struct arena *mem, struct gpu_forge *f, struct db *db, const struct patience *until, int arch, int n, struct code *codes,
                    struct compile_result *results, struct compile_stats *stats, struct err *e);

// ---- identity.c ------------------------------------------------------------------------------------

// "NVIDIA H200, driver 570.86.15": the identity that results depend on. The driver is not started if the system has the information.
int gpu_identity(int device, char out[160], struct err *e);

// ---- problem.c -------------------------------------------------------------------------------------

struct problem_floors { // the effect of underflow on outputs (rt/underflow.c); computed at the first request
  bool known;
  double *of; // for each tensor
};
struct problem {
  const struct graph *g; // composites expanded, stable form
  uint64_t seed;
  struct buffers *b; // inputs, scaled so that the reference stays in the range of its dtypes and rounding alone is not mistaken for a fault
  struct reference64 r;
  const int *outs;     // tensors
  enum dtype *rounded; // for each tensor: the dtype whose tolerance applies
  struct problem_floors *floors;
  double *norm;   // for each output: sum of squares of the values that its dtype can represent
  double seconds; // of the reference
  stop_flag stop; // ends its computations, or NULL
};
struct problem_wish {
  uint64_t seed;
  stop_flag stop;
  struct reference64_device *by; // computes the reference; NULL: the CPU does
};
int problem_open(struct problem *p, struct arena *mem, const struct graph *g, const struct problem_wish *w, struct err *e);
// NaN, infinities: rt.h
int problem_open_special(struct problem *p, struct arena *mem, const struct graph *g, const struct problem_wish *w, struct err *e);
void problem_close(struct problem *p); // also after an error

// ---- evaluator.c -----------------------------------------------------------------------------------

// Computes float64 references on the GPU, by one plain kernel in double for each operator (plain_text.c), in a separate worker. For new inputs the
// CPU computes eight elements of each output, and of each checkpoint (checkpoints.h), too, each from the elements that it depends on (eval_element). Only unmodified values are checked, not
// rounded or perturbed ones. The first use opens the worker. The CPU computes other references; the trace says why.
//
//   REFERENCE(id, name, doc)
#define REFERENCES(REFERENCE)                                                               \
  REFERENCE(AUTO, "auto", "on the GPU where it would take the CPU a good part of a second") \
  REFERENCE(CPU, "cpu", "on the CPU")                                                       \
  REFERENCE(GPU, "gpu", "on the GPU wherever that is possible")
enum gpu_reference {
#define REFERENCE(id, name, doc) REFERENCE_##id,
  REFERENCES(REFERENCE)
#undef REFERENCE
};
int gpu_reference_read(const char *name, enum gpu_reference *out, struct err *e); // NULL or "": AUTO
struct gpu_evaluator;
struct gpu_evaluator_opts {
  enum gpu_reference which;
  int device;
  const char *worker;      // path of an executable, or NULL
  struct gpu_worker *with; // an open worker, whose ownership is passed; or NULL
  struct gpu_forge *forge; // compiles; must live as long
  struct db *db;           // has compiled kernels of references, or NULL
  int64_t rest;            // bytes on the device above which gpu_evaluator_rest frees them; 0: 1 GiB
  int64_t steps;           // of the CPU for an element that it checks, at most; 0: about two seconds
};
struct gpu_evaluator *gpu_evaluator_open(const struct gpu_evaluator_opts *o);
void gpu_evaluator_close(struct gpu_evaluator *v);
void gpu_evaluator_expect(struct gpu_evaluator *v, const struct graph *g, stop_flag stop); // starts its worker if g is large enough
// Compiles the kernels of g's references in a thread, if g is large enough. They serve parts of g too. The evaluator waits for the thread before it
// compiles, and when it is closed.
void gpu_evaluator_ahead(struct gpu_evaluator *v, int arch, const struct graph *g, stop_flag stop);
void gpu_evaluator_rest(struct gpu_evaluator *v); // frees the device's memory until the next run
struct reference64_device *gpu_evaluator_device(struct gpu_evaluator *v);
struct gpu_evidence {       // about all references so far
  int computed, refused;    // computed on the GPU; by the CPU, because they are small or the GPU cannot
  int64_t checked, differs; // elements that the CPU computed too; differing ones
  double seconds;           // on the GPU, including checks and compilation
  char why[200];            // reason for the last refusal, or ""
};
struct gpu_evidence gpu_evaluator_evidence(const struct gpu_evaluator *v);

// ---- gpu_check.c ---------------------------------------------------------------------------------------

struct check_answer {
  double relative; // largest relative norm over the outputs
  double worst;    // largest difference of an element, relative to its allowed difference
  double repeats;  // relative norm of the difference between two runs on the same inputs; 0: the same bits
  bool lost;       // an element is not finite and should be
};
void check_norms(struct problem *p); // sets its norms, which do not depend on a candidate
// outputs[i] holds output i. ERR_WRONG with the figures.
int check_outputs(const struct problem *p, void *const *outputs, struct check_answer *a, struct err *e);
// Compares two runs on the same inputs: WRONG if they differ by more than rounding.
int check_repeats(const struct problem *p, void *const *one, void *const *other, struct check_answer *a, struct err *e);

// ---- turn.c ----------------------------------------------------------------------------------------

// Waits for the lock of $MICA_GPU_LOCK, or until the flag is set. Without the variable, or if the file cannot be opened, there is no lock.
struct gpu_turn {
  int fd; // of the file, or -1
  struct undo undo;
};
void turn_take(struct gpu_turn *t, stop_flag stop);
void turn_give(struct gpu_turn *t);
// A job's thread, and each thread that compiles for it, works from begin to end. All jobs of a process share one clock.
void turn_work_begin(void);
void turn_work_end(void);
double turn_waited(void); // seconds in which all working threads waited for a turn, including the current such wait
double turn_clock(void);  // now_seconds() minus those: it stands still while all working threads wait

// ---- worker.c --------------------------------------------------------------------------------------

struct stage;
struct gpu_worker; // a worker process, or this process if none can be started
struct gpu_worker_opts {
  int device;
  stop_flag stop;              // ends the worker and its work
  const char *path;            // path of an executable that is a worker when started with "gpu-worker"; NULL: see find.c
  bool inside;                 // in this process
  struct stage *stage;         // inside: with a test's device, whose ownership is passed; else NULL
  const char *const *more_env; // "NAME=VALUE", NULL-terminated; or NULL
};
struct gpu_worker_facts {
  struct gpu_facts gpu;
  int64_t memory; // free bytes when the device was opened
  bool inside;
  int starts; // number of processes started so far
};
// Starts the worker, which opens the device while the caller continues. gpu_worker_facts reports its errors.
int gpu_worker_open(const struct gpu_worker_opts *o, struct gpu_worker **out, struct err *e);
void gpu_worker_close(struct gpu_worker *w);
void gpu_worker_heed(struct gpu_worker *w, stop_flag stop); // sets its stop flag
const char *gpu_worker_path(const struct gpu_worker *w);    // path of its executable; NULL: it is this process
const char *gpu_worker_warning(const struct gpu_worker *w); // reason why candidates run in this process although that was not requested, or ""
int gpu_worker_facts(struct gpu_worker *w, struct gpu_worker_facts *out, struct err *e);
// Runs a worker process; fd is its end of the socket. Does not return.
int gpu_worker_main(int fd);

// Sets the inputs of all further requests, as in b. They are copied to the device `sets` times (0: as many as cold timing needs).
int gpu_worker_problem(struct gpu_worker *w, const struct buffers *b, int sets, struct err *e);
void gpu_worker_end(struct gpu_worker *w); // ends the problem: its candidates may be freed
// Loads a candidate for the current problem; its number in *id. The code must live as long as the candidate.
int gpu_worker_load(struct gpu_worker *w, const struct code *c, int *id, struct err *e);
void gpu_worker_drop(struct gpu_worker *w, int id);
struct run_answer {
  bool differs;                        // a run gave other bits than the first
  double seconds;                      // of one run, by the host's clock: an upper bound
  void *const *first, *const *other;   // outputs of the first run, and of the first differing one (or NULL); until the next call
  const struct compare_sums *compared; // for each output, if they were compared on the device. `first` is then set only if `other` is
};
// Runs on poisoned outputs and workspace, `repeats` times, each followed by a run on other inputs in the same workspace. WRONG if memory around the
// outputs was written to, or the zeroed part of the workspace is not zero afterwards.
int gpu_worker_run(struct gpu_worker *w, int id, int repeats, double seconds, struct run_answer *out, struct err *e);
// From now on, callers that request it compare outputs of the current problem on the device (compare.h). If that is impossible, outputs are copied to
// the host.
struct compare_sums;
struct compare_plan;
int gpu_worker_compare(struct gpu_worker *w, const struct compare_plan *c, struct err *e);
int gpu_worker_run_compared(struct gpu_worker *w, int id, int repeats, double seconds, struct run_answer *out, struct err *e);
int gpu_worker_first(struct gpu_worker *w, struct err *e); // fills `first` of the previous run, which was compared on the device
struct time_request {
  bool hot, flush; // hot: on one set; flush: the cache is flushed before each replay
  int replays, n;
  const int *id;       // candidates, timed alternately
  const int *launches; // launches of each in one graph
  double warm_up;      // seconds of warm-up
};
// seconds[k * replays + r]: time of one launch of candidate k in replay r. If one candidate breaks the worker, *culprit is its index in id, else -1.
int gpu_worker_time(struct gpu_worker *w, const struct time_request *q, double limit, double *seconds, int *culprit, struct err *e);
int gpu_worker_sets(const struct gpu_worker *w);                      // of the current problem
int gpu_worker_problems(const struct gpu_worker *w);                  // problems dropped so far: equal counts mean that the same problem is loaded
const int *gpu_worker_algorithms(const struct gpu_worker *w, int id); // algorithms of the candidate's products, for each launch

// ---- machine.c -------------------------------------------------------------------------------------

struct gpu_need {
  int arch;
  int64_t bytes; // of inputs and outputs
};
// Starts a worker for the races, and looks up a compiler. The worker opens the device while the caller continues. Close *out after an error too.
int gpu_machine_begin(struct gpu_forge *f, stop_flag stop, struct gpu_worker **out, struct err *e);
// Waits for the worker, and checks that races are possible: a driver that loads the compiler's output, the GPU, its memory.
int gpu_machine_check(struct gpu_worker *w, const struct gpu_forge *f, const struct gpu_need *n, struct err *e);

// ---- race.c ----------------------------------------------------------------------------------------

struct gpu_time {                       // seconds of one run of the program, over the replays
  double median, least, p90, low, high; // low, high: the 95 % confidence interval of the median
  int replays, launches;
};
enum gpu_verdict { GPU_FINE, GPU_WRONG, GPU_FAILED, GPU_NOT_COMPILED };
struct gpu_result {
  enum gpu_verdict verdict;
  struct err err; // of a program that failed
  struct check_answer check;
  struct special_answer special; // for the best; .all is 0 if special inputs were not tried
  struct gpu_time cold, hot;     // replays is 0 if it was not timed
  int round;                     // last round in which it was timed; -1: none
  bool rough;                    // others of a quick race have more accurate times
  int registers, spilled;        // largest of any kernel
  const int *algorithm;          // chosen, for each launch; -1 for kernels
};
struct gpu_race_opts {
  uint64_t seed;
  int device, finalists;               // finalists 0: 4
  double seconds;                      // seconds of the last rounds; 0: 2
  double limit;                        // seconds that one candidate may run; 0: 10
  bool quick;                          // few replays; the fastest is not checked on other inputs
  bool untimed;                        // only checks correctness; the best is the first correct one
  bool unchosen;                       // the programs were not selected by their results on these inputs, so the fastest needs no other inputs
  const char *worker;                  // path, or NULL
  struct gpu_worker *with;             // an open worker, or NULL
  const struct gpu_compiler *compiler; // NULL: NVRTC
  struct gpu_forge *forge;             // code compiled so far, or NULL
  struct gpu_evaluator *evaluator;     // computes references; NULL: the CPU does
  double compile_until;                // a value of now_seconds(): code that is not compiled then is skipped; 0: no limit
  struct db *db;                       // NULL: nothing is stored
  bool fresh;                          // stored races are not read
  stop_flag stop;
  void (*progress)(void *arg, const char *stage, int done, int all);
  void *progress_arg;
};
struct gpu_race {
  int best;  // fastest correct one; -1: none
  bool sure; // no other is likely to be as fast, or they differ by less than 1 %
  bool recalled;
  char machine[160]; // identity, and how times were measured
  char warning[256]; // "" for none
  struct compile_stats compile;
  double reference_seconds, seconds;
  int sets;
  struct gpu_result *result; // for each program; allocated in mem
};
// All programs compute `reference` (a program, not expanded). Returns OK even if no program is correct: see `best`. After STOPPED the results so far
// are valid: correct and timed programs have a verdict and replays.
int gpu_race(struct arena *mem, int n, const struct device_program *const *programs, const struct graph *reference, const struct gpu_race_opts *o,
             struct gpu_race *out, struct err *e);
// Several races of one program, whose reference is made once. `o`: options for the worker and the compiler.
struct gpu_session;
int gpu_session_open(const struct graph *reference, const struct gpu_race_opts *o, struct gpu_session **out);
void gpu_session_close(struct gpu_session *s);
// Compiles kernels while the caller continues; then they are raced. The programs must live as long as the batch. Drop the batch, after an error too,
// before the session is closed.
struct gpu_batch;
int gpu_batch_start(struct gpu_session *s, const struct gpu_race_opts *o, int n, const struct device_program *const *programs, struct gpu_batch **out,
                    struct err *e);
bool gpu_batch_ready(const struct gpu_batch *b); // machine code is there
void gpu_batch_wait(struct gpu_batch *b);        // waits for machine code and the reference
int gpu_race_batch(struct arena *mem, struct gpu_batch *b, struct gpu_race *out, struct err *e);
void gpu_batch_drop(struct gpu_batch *b);
// Judges by the spread of as many replays as finalists have whether others used the GPU, or its clock changed. In rank.c.
struct disturbed gpu_disturbed(const struct gpu_time *t);
const char *gpu_verdict_name(enum gpu_verdict v);
void gpu_race_text(const struct gpu_race *r, int n, const struct device_program *const *programs, struct str *out);

#endif
