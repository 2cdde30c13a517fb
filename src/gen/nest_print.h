// Shared by nest_print.c and nest_words.c.
#ifndef MICA_GEN_NEST_PRINT_H
#define MICA_GEN_NEST_PRINT_H

#include "gen/emit.h"

struct gen_printer {
  struct str *s;
  struct nest *f;
  int depth, unroll, threads;
  int64_t total, chunk;        // chunk: length of the pieces of the innermost dimension; 0: it is not divided
  int64_t bound;               // extent of the innermost loop if it is constant
  bool rest;                   // printing the masked remainder of a row
  bool inside;                 // the nest is a statement of a block whose rows threads share
  const struct operand *whole; // operand whose vectors are aligned for non-temporal stores, or NULL
};

static inline int last_dim(const struct nest *f) { return f->n - 1; }

// ---- nest_words.c ----------------------------------------------------------------------------------------

// Text of the address of operand o at the current point; with_inner: along the innermost dimension too.
const char *nest_address(const struct gen_printer *p, const struct operand *o, bool with_inner);
const char *nest_load_text(const struct gen_printer *p, const struct operand *o);
// Whether to store whole cache lines with non-temporal stores. Lines are then not read before they are written.
bool nest_goes_past(const struct gen_printer *p, const struct operand *o);
void nest_store_line(const struct gen_printer *p, int depth, const struct operand *o, const char *value);
const char *nest_storen(struct arena *mem, enum dtype t); // the function that stores the first lanes of a vector
// The operator's code with its variables: x and y are values, scalar, lo and hi attributes; K broadcasts a number.
const char *nest_code_text(const struct gen_printer *p, const struct gen_value *v);
// Prefetches the next tile while this one is processed, one access for each cache line. The hardware prefetcher only follows current reads.
void nest_prefetch(const struct gen_printer *p, int depth, const struct operand *o);

#endif
