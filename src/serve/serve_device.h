// Private to this component: a model in the memory of a machine that runs the emitted kernel.
#ifndef MICA_SERVE_DEVICE_H
#define MICA_SERVE_DEVICE_H

#include "serve/serve.h"

struct device_tables { // rows of all workers, in the structs of mega_device.cuh
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
// planted: the waits for this event require a count that is 1 too high; -1: none.
void device_rows(struct arena *mem, const struct mega_plan *p, int planted, struct device_tables *out);
int device_planted(const struct mega_plan *p); // the event that serve_plant changes: a counter, preferably waited for in its own step; -1: none

// ---- device_memory.c ----
int device_open(struct serve *s, struct err *e);                                           // memory, tables
void device_close(struct serve *s);                                                        // gives the memory back
int device_value(struct serve *s, int tensor, const void *data, int dtype, struct err *e); // also packs it for operators that stream it
int device_random(struct serve *s, int tensor, uint64_t seed, struct err *e);
int device_plant(struct serve *s, bool planted, struct err *e);
int device_forget(struct serve *s, struct err *e); // resets counters, flags and records after a fault; the next step is 0
int device_launch(struct serve *s, const struct serve_launch *l, struct err *e);

// ---- device_fault.c ----
// all: 2 records a worker. Writes the record of the earliest step and node, of consumers first, as a sentence. False: no record.
bool device_fault_text(const struct mega_plan *p, const struct device_fault *all, char out[SERVE_RECORD], bool *hung);

#endif
