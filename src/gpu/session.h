// session: inside gpu, what races of one program share, and programs on their way to machine code.
#ifndef MICA_GPU_SESSION_H
#define MICA_GPU_SESSION_H

#include "gpu/gpu.h"

struct compiled_one {
  const char *key;
  struct cubin cubin;
};
struct compiled { // kernels
  struct arena mem;
  int n, cap;
  struct compiled_one *one;
};
enum { OWN_INPUTS, OTHER_INPUTS, PROBLEMS };
struct gpu_session {
  struct arena mem;
  const struct graph *g;
  struct gpu_race_opts o;
  struct gpu_worker *w; // NULL until it is needed
  struct nvrtc *nvrtc;
  struct gpu_compiler compiler;
  bool can_compile;
  struct compiled compiled;
  struct problem problem[PROBLEMS]; // g is NULL: not opened yet
  int staged;                       // which one the worker has, -1: none
};
int session_worker(struct gpu_session *s, struct err *e);
int session_compiler(struct gpu_session *s, struct err *e);
// Inputs and reference, made once. Not on the device yet.
int session_problem(struct gpu_session *s, int which, const struct problem **out, struct err *e);
// On the device. Where another one was, its candidates are gone, and *anew is set.
int session_stage(struct gpu_session *s, int which, bool *anew, struct err *e);

// ---- compile.c: compile_codes in three steps, of which the second asks no database ----
struct compilation;
int compile_begin(struct arena *mem, const struct gpu_compiler *c, struct db *db, struct compiled *before, int arch, int n,
                  const struct code *codes, struct compilation **out, struct err *e);
void compile_work(struct compilation *w);
void compile_end(struct arena *mem, struct compilation *w, struct code *codes, struct compile_result *results,
                 struct compile_stats *stats);

// ---- batch.c ----
struct gpu_batch {
  struct arena mem;
  struct arena *each; // by program: of its code, which is made by several threads
  struct gpu_session *s;
  struct gpu_race_opts o;
  int n;
  const struct device_program *const *programs;
  const char *key;         // NULL: nothing is remembered
  bool recalled, running;  // running: there is a thread
  struct gpu_race *race;   // what was recalled
  struct code *codes;      // by program
  struct err *err;         // by program: why it is no code
  struct code *good;       // those that are
  int *which, ngood;       // programs
  struct compile_result *results;
  struct compile_stats stats;
  struct compilation *work;
  struct job_thread *thread;
};
void batch_wait(struct gpu_batch *b); // for machine code

#endif
