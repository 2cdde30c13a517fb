// serve: keeps a model of mega ready to run. It holds the weights, and a cache whose content remains between launches. Rows of a launch may be at
// any position of any request. The engine is threads of this machine (mega_run.h), or a GPU that runs the CUDA C++ of megacuda, compiled by NVRTC.
// docs/mega.md is the page for users. The public functions are in mica.h.
//
// Glossary
//   machine   functions for memory, copies and launches of the emitted kernel: by the CUDA driver, or in tests by the same text compiled for a CPU
//   block     device memory of a model, and its tables
//   launch    one call of the kernel, of 1 to SERVE_STEPS steps
//
// Files
//   serve_open.c     a text or configuration -> a proved plan
//   serve_values.c   weights by name, by a seed
//   serve_step.c     seats of rows, launches on either engine
//   serve_trace.c    end times of the tasks of the last step, in the Trace Event Format
//   serve_device.h   functions of device_rows.c (a worker's tables), device_memory.c (device memory, launches) and device_fault.c (watchdog records)
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
  int (*fill)(void *arg, device_address to, uint64_t seed, double scale, int bytes, int64_t n,
              struct err *e); // n random numbers, of `bytes` bytes each
  int (*pack)(void *arg, int op, device_address to, device_address from, struct err *e);
  // memory: kernel_memory of mega_device.cuh, `bytes` long. first: number of the first step. Returns when the launch has ended.
  int (*launch)(void *arg, const uint64_t *memory, size_t bytes, uint32_t first, int position, int steps, struct err *e);
  double (*seconds)(void *arg); // duration of the last launch, by the machine's clock
  void (*drop)(void *arg, device_address a);
  void (*close)(void *arg);
};
// Compiles the CUDA C++ `source` for device number `device`. ENV if there is no such device.
int serve_machine_cuda(const char *source, const struct mega_plan *p, int device, struct serve_machine *out, struct err *e);

struct serve_block;
enum { SERVE_RECORD = 400 };
struct serve_row { // the work of a row in a launch
  int request;     // rows of one request are adjacent; -1: the row does nothing
  int32_t token;
  int64_t position;
  int npages;
  const int32_t *pages;
  float temperature; // 0: the token of the largest logit
  int top;           // sampling chooses among this many of the largest logits; 0: among all
  uint64_t seed;
};
struct serve {
  struct arena mem;
  struct mega_model *m;
  struct mega_config *config; // NULL: the model is a text
  struct mega_plan *p;
  bool served, gpu, hung;
  float **value;            // by tensor: weights, initial state; CPU only
  bool *given;              // by tensor: its values are set
  bool weights_ready;       // a launch was prepared; values can no longer be set
  double deadline, seconds; // limit of one wait; duration of the last launch
  struct mega_running *run; // CPU
  struct serve_machine machine;
  struct serve_block *block; // GPU
  bool planted, traced;      // planted: see serve_plant; traced: `ended` is recorded
  double *ended;             // [worker][node] of the last step: end time of the task in seconds, 0: none
  char record[SERVE_RECORD]; // reason why the last launch failed; "" if it did not
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
enum { SERVE_STEPS = 64, SERVE_WORKERS = 4 }; // maximum of steps of a launch; default number of workers on a CPU

int serve_open(const struct serve_given *g, struct serve **out, struct err *e); // close *out after an error, too
void serve_close(struct serve *s);
int serve_prove(struct serve *s, struct str *text, struct err *e);
// Makes s run on machine m. serve_close closes m.
int serve_on(struct serve *s, const struct serve_machine *m, struct err *e);
int serve_source(struct serve *s, struct str *out, struct err *e); // the CUDA C++

// ---- serve_values.c ----
bool serve_floats(const struct mega_tensor *t); // its elements are floating-point numbers
// Sets the elements of a weight or of initial state, rounded to the tensor's type. Allowed before the first launch only.
int serve_value(struct serve *s, const char *name, const void *data, int dtype, int64_t elements, struct err *e);
int serve_random(struct serve *s, uint64_t seed, struct err *e); // all weights
int serve_complete(const struct serve *s, struct err *e);        // the error names all weights that are not set

// ---- serve_step.c ----
struct serve_launch {           // arguments of a launch for either engine
  const struct mega_seat *seat; // by row; NULL: the model serves no requests
  const int *npages;
  uint16_t *order; // permutation of attention's work tiles; NULL: by number
  int tiles;       // length of `order`
  const int32_t *token;
  const float *settings; // [row][6]
  int steps;
  int32_t *tokens; // [step][row]
  float *logits;   // or NULL
};
// rows: as many as the model has rows. tokens: [steps][rows], or NULL. logits: [rows][vocabulary] of the last step, or NULL.
int serve_step(struct serve *s, const struct serve_row *rows, int steps, int32_t *tokens, float *logits, struct err *e);
int serve_output(const struct serve *s);                    // number of the tensor of logits; -1: none
int serve_token(const struct serve *s);                     // number of the tensor of tokens; -1: none
const struct mega_op *serve_ordered(const struct serve *s); // operator whose work tiles have an order by launch; NULL: none
// If `planted`, waits for one event require a count that is 1 too high, so the next launch ends as hung. For tests.
int serve_plant(struct serve *s, bool planted, struct err *e);

// ---- serve_trace.c ----
int serve_trace(const struct serve *s, const char *path, struct err *e);

#endif
