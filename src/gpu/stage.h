// stage: a problem and candidates on the device; inside the worker.
#ifndef MICA_GPU_STAGE_H
#define MICA_GPU_STAGE_H

#include "gpu/compare.h"

#include <pthread.h>

struct loaded_kernel {
  struct gpu_module *module;
  struct gpu_kernel *kernel;
};
struct loaded { // a candidate
  bool there;
  struct arena mem;
  struct code code;
  struct loaded_kernel *kernel; // for each kernel of the code
  struct blas_plan **plan;      // for each launch; NULL: not a product
  struct blas_algorithm *how;   // for each launch
  int *algorithm;               // for each launch: the chosen proposal, -1
};
enum { KNOWN_PRODUCTS = 64 };
struct known_product { // a product whose algorithm was chosen
  struct blas_product mul;
  int algorithm;
};
struct stage_compare { // on the device; module NULL: outputs are not compared there
  struct gpu_module *module;
  struct gpu_kernel *kernel;
  struct compare_output *out;        // without expected values
  int64_t *at;                       // their offsets in `expected`
  gpu_address expected, first, left; // first: outputs of a candidate's first run; left: results of blocks
  bool ran;                          // such outputs exist
};
struct stage {
  struct gpu *g;
  struct blas *blas; // NULL until there is a product
  bool early;        // cuBLASLt is started with the device, because it takes a third of a second
  bool starting;     // a thread does that
  pthread_t starter;
  struct blas *started; // its result; NULL if it failed
  struct arena mem;     // of the problem
  struct shared_map map;
  char *shared;                   // NULL: no problem yet
  int64_t *in_at, *out_at;        // offsets in a set and in a ring
  bool *masks;                    // by input: all sets have the same bytes
  int64_t in_bytes, out_bytes;    // of a set, of a ring
  int64_t zero_bytes, work_bytes; // of a ring: the most that a candidate needs
  int nsets, nring, nwork;
  gpu_address in, out, zero, work, flush, blas_work;
  int64_t flush_bytes;
  struct stage_compare compare;
  char *back; // outputs of a ring, copied to the host
  bool fast;  // pinned memory from gpu_host_alloc
  struct loaded *p;
  int np, cap;
  struct known_product known[KNOWN_PRODUCTS];
  int nknown;
  const struct gpu_compiler *by; // of a test; NULL: NVRTC
  struct nvrtc *nvrtc;           // NULL until code is compiled
};

// ---- stage.c ----
int stage_problem(struct stage *s, struct wire *in, int carried, struct wire *out, struct err *e);
void stage_end(struct stage *s);                                      // ends the problem
int stage_room(struct stage *s, const struct code *c, struct err *e); // allocates the candidate's workspace
gpu_address stage_place(const struct stage *s, const struct code *c, const struct lower_place *at, int set, int ring, int work);
// The workspace of a candidate after its zeroed part: [from, from + bytes) of a ring, between guards.
void stage_work(const struct code *c, int64_t *from, int64_t *bytes);

// ---- gpu_load.c ----
int stage_load(struct stage *s, struct wire *in, struct wire *out, struct err *e);
void stage_drop(struct stage *s, int id);
struct loaded *stage_find(struct stage *s, int64_t id); // NULL: there is none
// Queues launches [first, end) of a candidate in the stream.
int stage_launch(struct stage *s, const struct loaded *l, int first, int end, int set, int ring, int work, struct err *e);

// ---- gpu_product.c ----
void stage_blas_begin(struct stage *s);   // starts cuBLASLt in a thread
void stage_blas_started(struct stage *s); // waits for that, if it was begun
int product_load(struct stage *s, struct loaded *l, int launch, struct err *e);

// ---- stage_compare.c ----
int stage_compare(struct stage *s, struct wire *in, int carried, struct err *e);
void stage_compare_end(struct stage *s);
int stage_compare_first(struct stage *s, struct err *e);                 // keeps the outputs of a first run
int stage_compare_same(struct stage *s, bool *same, struct err *e);      // whether this run's outputs have the same bits
int stage_compare_all(struct stage *s, struct wire *out, struct err *e); // compares the first run's outputs with the expected values

// ---- act.c ----
int stage_run(struct stage *s, struct wire *in, struct wire *out, struct err *e);
int stage_outputs(struct stage *s, struct wire *in, struct err *e); // of one run, whose outputs stayed on the device
int stage_first(struct stage *s, struct err *e);                    // copies outputs of the first compared run to the other side
int stage_time(struct stage *s, struct wire *in, struct wire *out, struct err *e);
// Captures launches [first, end), `times` times, on rotating sets or on one.
int stage_record(struct stage *s, const struct loaded *l, int first, int end, int times, bool hot, struct gpu_graph **out, struct err *e);
// Replays n graphs alternately, `replays` times each. The order rotates, so a change of the clock rate affects all graphs alike. Graph i has launches[i]
// launches. seconds[i * replays + r] is the time of one launch of graph i in replay r.
int stage_replay(struct stage *s, int n, struct gpu_graph *const *graph, const int *launches, int replays, bool flush, double *seconds,
                 struct err *e);

#endif
