// stage: inside the worker, a problem and candidates on the device.
#ifndef MICA_GPU_STAGE_H
#define MICA_GPU_STAGE_H

#include "gpu/compare.h"

struct loaded_kernel {
  struct gpu_module *module;
  struct gpu_kernel *kernel;
};
struct loaded { // a candidate
  bool there;
  struct arena mem;
  struct code code;
  struct loaded_kernel *kernel; // by kernel of the code
  struct blas_plan **plan;      // by launch; NULL: not a product
  struct blas_algorithm *how;   // by launch
  int *algorithm;               // by launch: which of those proposed, -1
};
enum { KNOWN_PRODUCTS = 64 };
struct known_product { // whose algorithm was chosen
  struct blas_product mul;
  int algorithm;
};
struct stage_compare { // on the device; module NULL: outputs are not compared here
  struct gpu_module *module;
  struct gpu_kernel *kernel;
  struct compare_output *out;        // without expected values
  int64_t *at;                       // of those, in `expected`
  gpu_address expected, first, left; // first: outputs of a candidate's first run; left: of blocks
  bool ran;                          // there are such outputs
};
struct stage {
  struct gpu *g;
  struct blas *blas; // NULL until there is a product
  struct arena mem;  // of the problem
  struct shared_map map;
  char *shared;                   // NULL: there is no problem yet
  int64_t *in_at, *out_at;        // in a set, in a ring
  int64_t in_bytes, out_bytes;    // of a set, of a ring
  int64_t zero_bytes, work_bytes; // of a ring: of the most that a candidate wants
  int nsets, nring, nwork;
  gpu_address in, out, zero, work, flush, blas_work;
  int64_t flush_bytes;
  struct stage_compare compare;
  char *back; // a ring's outputs, read back
  bool fast;  // gpu_host_alloc made it
  struct loaded *p;
  int np, cap;
  struct known_product known[KNOWN_PRODUCTS];
  int nknown;
  const struct gpu_compiler *by; // of a test; NULL: NVRTC
  struct nvrtc *nvrtc;           // NULL until something is compiled
};

// ---- stage.c ----
int stage_problem(struct stage *s, struct wire *in, int carried, struct wire *out, struct err *e);
void stage_end(struct stage *s);                                      // of the problem
int stage_room(struct stage *s, const struct code *c, struct err *e); // for the candidate's workspace
gpu_address stage_place(const struct stage *s, const struct code *c, const struct lower_place *at, int set, int ring, int work);
// The workspace of a candidate behind its zeroed part: [from, from + bytes) of a ring, guards around it.
void stage_work(const struct code *c, int64_t *from, int64_t *bytes);

// ---- gpu_load.c ----
int stage_load(struct stage *s, struct wire *in, struct wire *out, struct err *e);
void stage_drop(struct stage *s, int id);
struct loaded *stage_find(struct stage *s, int64_t id); // NULL: there is none
// Launches [first, end) of a candidate, in the stream.
int stage_launch(struct stage *s, const struct loaded *l, int first, int end, int set, int ring, int work, struct err *e);

// ---- gpu_product.c ----
int product_load(struct stage *s, struct loaded *l, int launch, struct err *e);

// ---- stage_compare.c ----
int stage_compare(struct stage *s, struct wire *in, int carried, struct err *e);
void stage_compare_end(struct stage *s);
int stage_compare_first(struct stage *s, struct err *e);                 // keeps the outputs of a first run
int stage_compare_same(struct stage *s, bool *same, struct err *e);      // are those of this run the same bits?
int stage_compare_all(struct stage *s, struct wire *out, struct err *e); // the first run's against what is expected

// ---- act.c ----
int stage_run(struct stage *s, struct wire *in, struct wire *out, struct err *e);
int stage_outputs(struct stage *s, struct wire *in, struct err *e); // of one run, whose outputs stayed here
int stage_first(struct stage *s, struct err *e);                    // outputs of the first of the runs that were compared here, to the other side
int stage_time(struct stage *s, struct wire *in, struct wire *out, struct err *e);
// A graph of launches [first, end) again and again, `times` times, on sets in turn or all on one.
int stage_record(struct stage *s, const struct loaded *l, int first, int end, int times, bool hot, struct gpu_graph **out, struct err *e);

#endif
