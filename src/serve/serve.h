// serve: a model of mega that is kept ready: weights, a cache that lives from launch to launch, launches for rows that stand anywhere. On threads
// of this machine (mega_run.h), or on a GPU: the text of megacuda, compiled by NVRTC. docs/mega.md describes it to users; mica.h is its face.
//
// Glossary
//   machine   where the kernel's text runs: memory, copies, launches. The driver's, or for tests a library made of the same text for a CPU
//   block     device memory of a model, and its tables
//   launch    one call of the kernel: as many steps as are asked for
//
// Files
//   serve_open.c     a text or configuration -> a proved plan
//   serve_values.c   weights by name, by a seed
//   serve_step.c     seats of rows, launches on either engine
//   serve_trace.c    when tasks of the last step ended, in the Trace Event Format
//   device_rows.c    a worker's tables;  device_memory.c  device memory, launches;  device_fault.c  what the kernel's watchdog wrote (serve_device.h)
//   machine_cuda.c   the driver and NVRTC
#ifndef MICA_SERVE_H
#define MICA_SERVE_H

#include "mega/mega_run.h"
#include "megacuda/megacuda.h"

typedef uint64_t device_address;
struct serve_machine {
  void *arg;
  int (*room)(void *arg, size_t bytes, device_address *out, struct err *e);
  int (*write)(void *arg, device_address to, const void *from, size_t bytes, struct err *e);
  int (*read)(void *arg, void *to, device_address from, size_t bytes, struct err *e);
  int (*zero)(void *arg, device_address to, size_t bytes, struct err *e);
  int (*fill)(void *arg, device_address to, uint64_t seed, double scale, int bytes, int64_t n, struct err *e); // numbers of a seed
  int (*pack)(void *arg, int op, device_address to, device_address from, struct err *e);
  // `memory`: the kernel's struct of addresses. Returns when the launch has ended.
  int (*launch)(void *arg, const uint64_t *memory, size_t bytes, uint32_t first, int position, int steps, struct err *e);
  double (*seconds)(void *arg); // of the last launch, by the machine's clock
  void (*drop)(void *arg, device_address a);
  void (*close)(void *arg);
};
// Compiles the text for device number `device`. ENV where there is none.
int serve_machine_cuda(const char *source, const struct mega_plan *p, int device, struct serve_machine *out, struct err *e);

struct serve_block;
enum { SERVE_RECORD = 400 };
struct serve_row { // what a row does in a launch
  int request;     // rows of one request stand one after another; -1: the row does nothing
  int32_t token;
  int64_t position;
  int npages;
  const int32_t *pages;
  float temperature; // 0: the largest logit
  int top;           // how many of the largest logits are chosen from; 0: all
  uint64_t seed;
};
struct serve {
  struct arena mem;
  struct mega_model *m;
  struct mega_config *config; // NULL: the model is a text
  struct mega_plan *p;
  bool served, gpu, hung;
  float **value;            // by tensor: weights, first state
  bool *given;              // by tensor: its values are set
  bool weights_ready;       // of the engine
  double deadline, seconds; // of one wait; of the last launch
  struct mega_running *run; // CPU
  struct serve_machine machine;
  struct serve_block *block; // GPU
  bool planted, traced;      // traced: tasks of the last step of each launch say when they ended
  double *ended;             // [worker][node] of the last step, in seconds from its first end on
  char record[SERVE_RECORD]; // why the last launch that failed did
};
struct serve_given {
  const char *text, *name; // a .mega text, or the JSON of a configuration
  size_t n;
  struct mega_sizes sizes;
  bool gpu;
  int device;
  double deadline;
  bool traced;
};
enum { SERVE_STEPS = 64, SERVE_WORKERS = 4 }; // most steps of a launch; workers on a CPU unless told

int serve_open(const struct serve_given *g, struct serve **out, struct err *e); // its plan is made; `mem` of the answer is its own
void serve_close(struct serve *s);
int serve_prove(struct serve *s, struct str *text, struct err *e);
// On a machine that is given instead of the driver's; serve_close closes it.
int serve_on(struct serve *s, const struct serve_machine *m, struct err *e);
int serve_source(struct serve *s, struct str *out, struct err *e); // the CUDA C++

// ---- serve_values.c ----
bool serve_floats(const struct mega_tensor *t); // its elements are floating-point numbers
// Elements of a weight or of first state, as floats, rounded to the tensor's type. Before the first launch.
int serve_value(struct serve *s, const char *name, const void *data, int dtype, int64_t elements, struct err *e);
int serve_random(struct serve *s, uint64_t seed, struct err *e); // all weights
int serve_complete(const struct serve *s, struct err *e);        // names all that are missing

// ---- serve_step.c ----
struct serve_launch {           // what an engine is told
  const struct mega_seat *seat; // by row; NULL: the model serves no requests
  const int *npages;
  uint16_t *order; // of attention's tiles; NULL: as they are numbered
  int tiles;       // of it
  const int32_t *token;
  const float *settings; // [row][6]
  int steps;
  int32_t *tokens; // [step][row]
  float *logits;   // or NULL
};
// rows: one a row of the model. tokens: [steps][rows]; logits: [rows][vocabulary] of the last step, or NULL.
int serve_step(struct serve *s, const struct serve_row *rows, int steps, int32_t *tokens, float *logits, struct err *e);
int serve_output(const struct serve *s);                    // number of the tensor of logits; -1: there is none
int serve_token(const struct serve *s);                     // of tokens
const struct mega_op *serve_ordered(const struct serve *s); // an operator whose tiles a launch gives an order; NULL: there is none
// With `planted` waits for one event want one more than there is: the next launch ends as hung. For tests of that path.
int serve_plant(struct serve *s, bool planted, struct err *e);

// ---- serve_trace.c ----
int serve_trace(const struct serve *s, const char *path, struct err *e);

#endif
