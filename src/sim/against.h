// against: a tensor program, evaluated in float64, as the reference of a tile kernel. Both see the same inputs,
// exactly: what the kernel's buffers hold is read as numbers. A buffer's elements are counted row by row, wherever its
// layout keeps them, and so are a tensor's, so that [2, 16, 384, 64] and [32, 384, 64] agree.
//
// Program inputs stand for the global buffers that the kernel reads: by their names where all of them are names of such
// buffers, else in the order of declaration. If there are more inputs than buffers, inputs whose names differ only by a
// number at the end (W1, W2, ..) are one after another in one buffer. Program outputs stand for the buffers that it
// writes.
#ifndef MICA_SIM_AGAINST_H
#define MICA_SIM_AGAINST_H

#include "rt/rt.h"
#include "tile/tile.h"

struct against {
  const struct graph *g; // without composites, softmax without overflow
  const struct tile_program *p;
  const struct tile_kernel *k;
  const void *const *data;       // by buffer of the kernel: copies of those that the program reads
  struct against_buffer *buffer; // by buffer of the kernel: where its elements are
  struct against_feed *feed;     // by program input
  int noutputs, *output;         // kernel buffers by program output
  struct reference64 reference;
  double seconds; // that the reference took
};
struct against_answer {
  const char *name;        // of the buffer
  int64_t elements, wrong; // beyond the tolerance of one element
  int64_t worst;           // the element that is furthest off, row by row
  double got, want;        // there
  double relative, bound;  // ||kernel - program|| / ||program||, and the most that is accepted
  double typical;          // root mean square of the program's values
  int64_t zeros;           // of them
  bool flat;               // the program gives one and the same value everywhere: nothing was shown
  bool fine;
};

// "FILE[,NAME=VALUE]...": a program at its sizes.
int against_program(struct arena *mem, const char *word, struct graph **out, struct err *e);
// Pairs tensors with buffers and evaluates the program. `params`: values of k->params; `data`: one for each of
// k->buffers, as before the kernel runs. To be closed after an error too.
int against_open(struct against *a, struct arena *mem, const struct graph *program, const struct tile_program *p, const struct tile_kernel *k,
                 const int64_t *params, void *const *data, struct err *e);
// Compares the buffer of program output `i`, as the kernel left it.
void against_compare(const struct against *a, int i, const void *data, struct against_answer *out);
void against_text(const struct against_answer *r, struct str *out); // a line
void against_close(struct against *a);

#endif
