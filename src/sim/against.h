// against: a tensor program, evaluated in float64, as the reference of a tile kernel. Both have exactly the same inputs: the
// contents of the kernel's buffers. Elements of buffers and tensors are numbered in row-major order, whatever the layout,
// so shapes such as [2, 16, 384, 64] and [32, 384, 64] match.
//
// Program inputs correspond to the global buffers that the kernel reads. They are paired by name if all inputs have names of
// such buffers, otherwise in the order of declaration. If there are more inputs than buffers, inputs whose names differ only
// by a number at the end (W1, W2, ..) are stored one after another in one buffer. Program outputs correspond to the buffers
// that the kernel writes.
#ifndef MICA_SIM_AGAINST_H
#define MICA_SIM_AGAINST_H

#include "rt/rt.h"
#include "tile/tile.h"

struct against {
  const struct graph *g; // without composites, softmax without overflow
  const struct tile_program *p;
  const struct tile_kernel *k;
  const void *const *data;       // by buffer of the kernel: a copy, if the program reads it
  struct against_buffer *buffer; // by buffer of the kernel: offsets of its elements
  struct against_feed *feed;     // by program input
  int noutputs, *output;         // by program output: the kernel's buffer
  struct reference64 reference;
  double seconds; // time to evaluate the reference
};
struct against_answer {
  const char *name;        // of the buffer
  int64_t elements, wrong; // number of elements, and of those beyond the tolerance of one element
  int64_t worst;           // index of the element with the largest error, in row-major order
  double got, want;        // its values
  double relative, bound;  // ||kernel - program|| / ||program||, and its bound
  double typical;          // root mean square of the program's values
  int64_t zeros;           // number of zeros among them
  bool flat;               // the program's values are all equal, so the comparison shows nothing
  bool fine;               // within the tolerances
};

// Loads a program from "FILE[,NAME=VALUE]...".
int against_program(struct arena *mem, const char *word, struct graph **out, struct err *e);
// Pairs tensors with buffers and evaluates the program. `params`: values of k->params. `data`: contents of each of
// k->buffers before the kernel runs. Must be closed after an error too.
int against_open(struct against *a, struct arena *mem, const struct graph *program, const struct tile_program *p, const struct tile_kernel *k,
                 const int64_t *params, void *const *data, struct err *e);
// Compares the buffer of program output `i` after the kernel has run.
void against_compare(const struct against *a, int i, const void *data, struct against_answer *out);
void against_text(const struct against_answer *r, struct str *out); // a line
void against_close(struct against *a);

#endif
