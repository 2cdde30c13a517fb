// Private header: data that the threads of a run share.
#ifndef MICA_MEGA_THREADS_H
#define MICA_MEGA_THREADS_H

#include "mega/mega_bodies.h"
#include "mega/mega_run.h"

#include <stdalign.h>
#include <stdatomic.h>

struct mega_word { // on a cache line of its own
  alignas(128) _Atomic uint32_t value;
};
struct mega_memory {       // of a tensor
  float *plain;            // [version][element]
  _Atomic uint64_t *words; // [version][slot][element] of tagged data: epoch in the upper half
  int64_t elements;
};
struct mega_ring {
  float *stage; // [stages][stage_floats]
  alignas(128) _Atomic int64_t filled;
  alignas(128) _Atomic int64_t freed;
};
struct mega_running { // of a rank
  const struct mega_plan *p;
  int rank;
  struct mega_running *ranks;                       // all of the world
  int steps, *first_wait, *first_event, *events_of; // by node: first wait; first event that it publishes
  double deadline;
  int64_t stage_floats, scratch_floats;
  struct mega_memory memory[MEGA_MOST_TENSORS];
  struct mega_word *counter; // by event
  struct mega_word *flag;    // [event][worker]
  struct mega_ring *ring;    // by worker
  struct mega_word *met;     // [begin, end][rank]: signals of that rank
  float **scratch;           // by thread
  double *ended;             // [worker][node]: end of a task of the last step
  atomic_int done;           // workers that have run all steps
  atomic_int stop;           // all threads leave
  atomic_int recorded;       // a thread writes the record
  struct mega_answer *out;
};
struct mega_thread {
  struct mega_running *run;
  int worker, step, node, tile;
  bool producer;
  char note[400]; // its wait when the run ended; "": none
  struct arena own;
  float *scratch;
  // of a consumer: the stream of its tile
  int64_t taken, left; // pieces taken from the ring; pieces of the tile that remain
  bool holds;          // the last piece taken is not freed
  struct mega_region pieces;
  int piece_access, at;
};

// ---- mega_wait.c: waits return false if the run ends ----
bool mega_wait_tile(struct mega_thread *t);                // the events of the thread's current tile: those of its consumer, or of its producer
bool mega_wait_ring(struct mega_thread *t, int64_t until); // a producer waits for freed pieces, a consumer for filled ones
bool mega_meet_ranks(struct mega_thread *t, bool end);     // the first worker signals the other ranks and waits for the signals of all
bool mega_wait_word(struct mega_thread *t, _Atomic uint64_t *word, uint32_t epoch, const struct mega_tensor *of, float *out);
void mega_publish(struct mega_thread *t);
void mega_stop(struct mega_thread *t, bool hung, const char *fmt, ...) PRINTF(3, 4);

// ---- mega_pipe.c ----
void mega_produce(struct mega_thread *t);
const float *mega_next_piece(struct mega_task *task);
bool mega_finish_pieces(struct mega_thread *t, const struct mega_task *task);
void mega_list_pieces(struct mega_thread *t, int step); // of the current tile: into t->pieces

// ---- mega_move.c ----
// Copy the elements of a box of the access to or from a packed array. mega_gather waits for tagged words; false: the run ends.
bool mega_gather(struct mega_thread *t, int access, const struct mega_box *b, float *to);
void mega_scatter(struct mega_thread *t, int access, const struct mega_box *b, const float *from);

#endif
