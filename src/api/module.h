// module: what the files about programs that run share: api_module.c and api_ranks.c.
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
struct on_device { // the program in one context of the driver
  struct on_device *next;
  struct gpu_resident *r;
};
struct mica_module {
  struct mica_context *m;
  struct mica_module *next, **link; // in the context
  struct arena mem;
  struct package p;
  struct module *cpu;        // NULL: a GPU's
  int rank;                  // in a world, or -1: all ranks together, on whole tensors
  struct exchange *exchange; // of a rank, or NULL
  double seconds;            // that a rank waits for the others
  pthread_mutex_t turn;      // of devices and of what they have; of a rank: of its calls
  struct on_device *devices;
  pthread_mutex_t lock; // of said
  struct said *said;
  int nsaid;
};

// ---- api_module.c ----
struct mica_module *module_new(struct mica_context *m);
int module_failed_call(struct mica_module *x, const struct err *e); // keeps the message; its status
void module_enter(struct mica_module *x);                           // into its context, which closes it from then on

// ---- api_ranks.c ----
int rank_call(struct mica_module *x, const void *const *in, void *const *out, struct err *e); // one after the other
// For a program on a GPU: the way to the other ranks, which come at the same time. A program of one device needs none; one of several runs by its ranks alone.
int rank_connect(struct mica_module *x, struct gpu_resident *r, struct err *e);
int rank_able(const struct mica_module *x, struct err *e); // no rank of its world has failed or was closed

#endif
