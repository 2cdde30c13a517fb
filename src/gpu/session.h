// session: shared state of the races of one program, and programs that are being compiled. Private to gpu.
#ifndef MICA_GPU_SESSION_H
#define MICA_GPU_SESSION_H

#include "gpu/compare.h"

#include <pthread.h>

struct compiled_one {
  const char *key;
  struct cubin cubin;
};
struct compiled {       // kernels
  pthread_mutex_t lock; // protects the fields below: batches and reference kernels are compiled at the same time
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
  struct gpu_forge *forge, *own;    // own: closed with the session
  struct problem problem[PROBLEMS]; // g is NULL: not opened yet
  int staged, staged_at;            // staged: the problem last sent to the worker, -1: none; staged_at: its problem count then
  struct compare_plan *compare;     // for the worker's own inputs; NULL: not made, or not on the device
  bool comparing;                   // the worker compares on the device for the staged problem
};
int session_worker(struct gpu_session *s, struct err *e);
struct gpu_forge *session_forge(struct gpu_session *s);
// Makes inputs and reference once, not yet on the device.
int session_problem(struct gpu_session *s, int which, const struct problem **out, struct err *e);
// Puts a problem on the device. If it replaces another one, that one's candidates are gone and *replaced is set.
int session_stage(struct gpu_session *s, int which, bool *replaced, struct err *e);
int session_compare(struct gpu_session *s, struct err *e); // compares outputs of the session's own inputs on the device, if possible

// ---- compile.c: compile_codes in three steps; the second does not use the database ----
struct compilation;
struct compile_with {
  const struct gpu_compiler *c;
  struct compilers *processes; // or NULL
  struct db *db;               // or NULL
  bool known_only;             // newly compiled code is not stored in the database
  struct compiled *before;     // or NULL
  struct patience until;
};
int compile_begin(struct arena *mem, const struct compile_with *how, int arch, int n, const struct code *codes, struct compilation **out,
                  struct err *e);
void compile_work(struct compilation *w);
void compile_end(struct arena *mem, struct compilation *w, struct code *codes, struct compile_result *results, struct compile_stats *stats);

// ---- forge.c ----
int gpu_forge_begin(struct arena *mem, struct gpu_forge *f, struct db *db, const struct patience *until, int arch, int n, const struct code *codes,
                    struct compilation **out, struct err *e);

// ---- compile_thread.c ----
struct compile_thread;
// Does compile_work in a thread, or at once if there is none. name: of its span in a trace, or NULL.
struct compile_thread *compile_start(struct arena *mem, struct compilation *w, const char *name);
bool compile_ended(const struct compile_thread *t);                 // compile_wait would return at once
bool compile_wait(struct compile_thread *t, struct shortage *lack); // false: an allocation of the thread failed

// ---- compilers.c ----
struct compilers *compilers_open(const char *path); // path of a worker's executable; NULL: see find.c
void compilers_close(struct compilers *p);
void compilers_rest(struct compilers *p); // ends all processes; new ones may start later
// Thread-safe. NO without an error: the caller must compile. STOPPED: after a stop, or at the time limit.
int compilers_compile(struct compilers *p, const struct patience *until, struct arena *mem, const char *name, const char *source, int arch,
                      struct cubin *out, struct err *e);

// ---- batch.c ----
struct gpu_batch {
  struct arena mem;
  struct arena *each; // for each program: of its code, which several threads make
  struct gpu_session *s;
  struct gpu_race_opts o;
  int n;
  const struct device_program *const *programs;
  const char *key;       // NULL: nothing is stored
  const char **each_key; // for a quick race: for each program
  bool recalled;         // everything was
  bool *had;             // for each program: its result was recalled
  struct gpu_race *race; // recalled results
  struct code *codes;    // for each program
  struct err *err;       // for each program: reason why it has no code
  struct code *good;     // those without errors
  int *which, ngood;     // programs
  struct compile_result *results;
  struct compile_stats stats;
  struct compilation *work;
  volatile int dropped; // set when remaining compilations are not needed
  struct compile_thread *thread;
};
void batch_wait(struct gpu_batch *b); // waits for machine code

// ---- gpu_keep.c ----
bool keep_timed(const struct gpu_result *x);
// For a quick race that was not stopped. If nothing ran, the machine may be the cause, and nothing is stored.
void keep_each(const struct gpu_batch *b, struct gpu_race *r);

#endif
