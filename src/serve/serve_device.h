// Private to this component: a model in the memory of a machine that runs the kernel's text.
#ifndef MICA_SERVE_DEVICE_H
#define MICA_SERVE_DEVICE_H

#include "serve/serve.h"

struct device_tables { // rows of all workers, as mega_device.cuh has them
  void *node, *wait, *publish;
  size_t node_bytes, wait_bytes, publish_bytes;
  int words; // counters and flags
};
struct device_fault { // fault_row of mega_device.cuh
  uint32_t taken, kind, producer, step, node, which, seen, wanted;
};
struct device_seat { // seat_row
  int32_t live, moves, position, past, before;
};

// ---- device_rows.c ----
// planted: the waits for this event want one more than there is; -1: none.
void device_rows(struct arena *mem, const struct mega_plan *p, int planted, struct device_tables *out);
int device_planted(const struct mega_plan *p); // a counter, of the same step if there is one; -1: there is none

// ---- device_memory.c ----
int device_open(struct serve *s, struct err *e);                                           // memory, tables
void device_close(struct serve *s);                                                        // gives the memory back
int device_value(struct serve *s, int tensor, const void *data, int dtype, struct err *e); // packed, where it is streamed
int device_random(struct serve *s, int tensor, uint64_t seed, struct err *e);
int device_plant(struct serve *s, bool planted, struct err *e);
int device_forget(struct serve *s, struct err *e); // epochs begin anew
int device_launch(struct serve *s, const struct serve_launch *l, struct err *e);

// ---- device_fault.c ----
// The record of the earliest node, from those of all workers. False: there is none.
bool device_fault_text(const struct mega_plan *p, const struct device_fault *all, char out[SERVE_RECORD], bool *hung);

#endif
