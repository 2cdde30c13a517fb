// session: inside gpu, what races of one program share, and programs on their way to machine code.
#ifndef MICA_GPU_SESSION_H
#define MICA_GPU_SESSION_H

#include "gpu/compare.h"

#include <pthread.h>

struct compiled_one {
  const char *key;
  struct cubin cubin;
};
struct compiled {       // kernels
  pthread_mutex_t lock; // of what follows: batches and kernels of references are compiled side by side
  struct arena mem;
  int n, cap;
  struct compiled_one *one;
};
enum { OWN_INPUTS, OTHER_INPUTS, SPECIAL_INPUTS, PROBLEMS };
struct compilers;
struct gpu_forge {
  struct gpu_forge_opts o;
  struct nvrtc *nvrtc;
  struct gpu_compiler by;
  struct compilers *processes; // NULL: compiled in this process
  bool ready;
  struct compiled compiled;
};
struct gpu_session {
  struct arena mem;
  const struct graph *g;
  struct gpu_race_opts o;
  struct gpu_worker *w;             // NULL until it is needed
  struct gpu_forge *forge, *own;    // own: to be closed with the session
  struct problem problem[PROBLEMS]; // g is NULL: not opened yet
  int staged, staged_at;            // which one the worker was given last, -1: none; its number of problems then
  struct compare_plan *compare;     // of the worker's own inputs; NULL: not yet, or not on the device
  bool comparing;                   // the worker was asked to, for what is staged
};
int session_worker(struct gpu_session *s, struct err *e);
struct gpu_forge *session_forge(struct gpu_session *s);
// Inputs and reference, made once. Not on the device yet.
int session_problem(struct gpu_session *s, int which, const struct problem **out, struct err *e);
// Puts a problem on the device. If another one was there, its candidates are gone and *replaced is set.
int session_stage(struct gpu_session *s, int which, bool *replaced, struct err *e);
int session_compare(struct gpu_session *s, struct err *e); // outputs of the session's own inputs are compared on the device, if possible

// ---- compile.c: compile_codes in three steps, of which the second asks no database ----
struct compilation;
struct compile_with {
  const struct gpu_compiler *c;
  struct compilers *processes; // or NULL
  struct db *db;               // or NULL
  bool known_only;             // what is compiled here is not put into the database
  struct compiled *before;     // or NULL
  struct patience until;
};
int compile_begin(struct arena *mem, const struct compile_with *how, int arch, int n, const struct code *codes, struct compilation **out,
                  struct err *e);
void compile_work(struct compilation *w);
void compile_end(struct arena *mem, struct compilation *w, struct code *codes, struct compile_result *results, struct compile_stats *stats);

// ---- compilers.c ----
struct compilers *compilers_open(const char *path); // of an executable that is a worker; NULL: looked for (find.c)
void compilers_close(struct compilers *p);
void compilers_rest(struct compilers *p); // no process runs any more; new ones may
// By several threads. NO, and no error: the caller has to compile. STOPPED: after a stop, or when the time is over.
int compilers_compile(struct compilers *p, const struct patience *until, struct arena *mem, const char *name, const char *source, int arch,
                      struct cubin *out, struct err *e);

// ---- batch.c ----
struct gpu_batch {
  struct arena mem;
  struct arena *each; // by program: of its code, which is made by several threads
  struct gpu_session *s;
  struct gpu_race_opts o;
  int n;
  const struct device_program *const *programs;
  const char *key;        // NULL: nothing is remembered
  const char **each_key;  // of a quick race: by program
  bool recalled, running; // all of it; running: there is a thread
  bool *had;              // by program: its result was recalled
  struct gpu_race *race;  // what was recalled
  struct code *codes;     // by program
  struct err *err;        // by program: why it is no code
  struct code *good;      // those that are
  int *which, ngood;      // programs
  struct compile_result *results;
  struct compile_stats stats;
  struct compilation *work;
  volatile int dropped; // what is not compiled yet need not be
  struct job_thread *thread;
};
void batch_wait(struct gpu_batch *b); // for machine code

// ---- gpu_keep.c ----
bool keep_timed(const struct gpu_result *x);
// For a quick race that was not stopped. If nothing ran it may be the machine's fault, and nothing is kept.
void keep_each(const struct gpu_batch *b, struct gpu_race *r);

#endif
