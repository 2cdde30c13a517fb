// module: modules, that is, programs that run. Shared by api_module.c, api_extents.c and api_ranks.c.
#ifndef MICA_API_MODULE_H
#define MICA_API_MODULE_H

#include "api/api.h"
#include "export/package.h"

#include <pthread.h>

struct gpu_resident;

struct said {
  struct said *next;
  char text[1400];
};
struct on_device { // the program loaded in one context of the CUDA driver
  struct on_device *next;
  struct gpu_resident *r;
};
struct mica_module {
  struct mica_context *m;
  struct mica_module *next, **link; // list of the context
  struct arena mem;
  struct package p;
  struct module *cpu;        // NULL for a program on a GPU
  int rank;                  // rank in a world; -1: all ranks together, on whole tensors
  struct exchange *exchange; // memory shared by the ranks; NULL unless this is a rank
  double seconds;            // time limit of a rank that waits for the others
  pthread_mutex_t turn;      // guards `devices`, and calls of a rank
  struct on_device *devices;
  pthread_mutex_t lock; // guards `said`
  struct said *said;    // messages of failed calls
  int nsaid;
};

// ---- api_module.c ----
struct mica_module *module_new(struct mica_context *m);
int module_failed_call(struct mica_module *x, const struct err *e); // stores the message; returns its status
void module_enter(struct mica_module *x);                           // adds it to its context, which owns it from then on

// ---- api_ranks.c ----
// Copies the description of the program, as whole or with the shapes of a rank's parts.
void module_describe(struct mica_module *x, const struct mica_module *of, bool rank);
int rank_call(struct mica_module *x, const void *const *in, void *const *out,
              struct err *e); // runs one rank on a CPU; calls of the same rank are serialized
// Connects a rank on a GPU to the other ranks, which must call at the same time. Nothing to do for a program of one device. An error for a program of
// several devices that is not opened as a rank.
int rank_connect(struct mica_module *x, struct gpu_resident *r, struct err *e);
int rank_able(const struct mica_module *x, struct err *e); // an error if a rank of its world has failed or was closed

#endif
