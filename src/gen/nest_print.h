// Shared by nest_print.c and nest_words.c.
#ifndef MICA_GEN_NEST_PRINT_H
#define MICA_GEN_NEST_PRINT_H

#include "gen/emit.h"

struct gen_printer {
  struct str *s;
  struct nest *f;
  int depth, unroll, threads;
  int64_t total, chunk;        // chunk: the innermost dimension is cut into pieces of it, or 0
  int64_t bound;               // extent of the innermost loop where it is constant
  bool rest;                   // printing the masked rest of a row
  const struct operand *whole; // its vectors are where they can be stored past the caches whole, or NULL
};

static inline int last_dim(const struct nest *f) { return f->n - 1; }

// ---- nest_words.c ----------------------------------------------------------------------------------------

// Text of the address of operand o at the current point; with_inner: along the innermost dimension too.
const char *nest_address(const struct gen_printer *p, const struct operand *o, bool with_inner);
const char *nest_load_text(const struct gen_printer *p, const struct operand *o);
// Whole lines, where the tensor starts on one: they need not be read before they are written.
bool nest_goes_past(const struct gen_printer *p, const struct operand *o);
void nest_store_line(const struct gen_printer *p, int depth, const struct operand *o, const char *value);
const char *nest_storen(struct arena *mem, enum dtype t); // what stores the first lanes of a vector
// The row's code with its variables: x and y are values, scalar, lo and hi attributes, K makes a vector of a number.
const char *nest_code_text(const struct gen_printer *p, const struct gen_value *v);
// The next tile on its way while this one is worked on: the hardware only follows what is being read. Once a line.
void nest_prefetch(const struct gen_printer *p, int depth, const struct operand *o);

#endif
