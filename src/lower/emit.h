// emit: inside lower, what schemes share in writing tile text.
//
// text.c: lines of a tile program, indented.
// pointwise.c: an elementwise operator over register tensors of one shape, as one or several specs.
#ifndef MICA_LOWER_EMIT_H
#define MICA_LOWER_EMIT_H

#include "kern/kern.h"
#include "lower/lower.h"

struct text_mark {
  size_t at; // from that place in the text on
  bool tail;
  int node; // of the block graph of the kernel or its tail, as the scheme has it; -1: none
};
struct text_marks {
  struct arena *mem;
  const struct graph *block; // whose nodes are meant
  int n, cap;
  struct text_mark *mark; // in order of places
};
struct text {
  struct str *out;
  int indent;
  int fresh;                // numbers given to temporaries so far
  struct text_marks *marks; // or NULL
  bool tail;                // what is written is of the tail
  int about;                // node + 1 that it is about
};
// What follows computes, loads or saves this node, or none (-1): for people who look at the text beside the graph (line_about in
// lower.h). Returns what it was about before.
int text_about(struct text *t, int node);
void about_lines(struct arena *mem, const struct graph *kernels, const struct text_marks *m, struct launch *l); // about.c
int text_about_tensor(struct text *t, const struct graph *block, int tensor);                                   // the node that makes it
void text_line(struct text *t, const char *fmt, ...) PRINTF(2, 3);                                              // one line at the indentation
void text_open(struct text *t, const char *fmt, ...) PRINTF(2, 3);                                              // "... {", then indents
void text_close(struct text *t);                                                                                // "}"
// "order row", "kernel NAME {"; the directive `target` where the kernel may use capabilities that not every GPU has, and this one does.
void text_kernel(struct text *t, const char *name, const char *comment, const struct gpu_limits *gpu, uint32_t may_use);
// Names for tensors: those of the graph where they are identifiers, made unique; lives in mem.
const char **text_names(struct arena *mem, const struct graph *g);

const char *tile_dtype(enum dtype t); // "fp16"

// out = op(in...) over register tensors in fp32 (names with their indices, without the %; extents of 1 in the second are
// broadcast), by the executing thread ("<<<#grid, #me>>>"). True where op has a row; constants are given as attributes of the operator.
bool emit_pointwise(struct text *t, enum op op, const struct attrs *a, const char *out, const char *x, const char *y);
bool emit_has_pointwise(enum op op);
void emit_map(struct text *t, const struct kern_value *v, const char *out, const char *x, const char *y); // of a KERN_MAP

#endif
