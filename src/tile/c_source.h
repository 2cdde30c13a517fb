// c_source: text in C and C++ that is printed of kernels: lines, names and comments, and where operands are. The printers of cuda and
// cprint stand on it. Text is made in an arena piece by piece and put together in `out`.
#ifndef MICA_TILE_C_SOURCE_H
#define MICA_TILE_C_SOURCE_H

#include "tile/tile.h"

struct c_source {
  struct arena *mem;
  const struct tile_program *p;
  const struct tile_kernel *k;
  int depth; // of statements
  struct str *out;
  struct err *e;
  const char **buffers; // names, by buffer
  const char **taken;   // names in use
  int ntaken, taken_cap;
};

// How tightly operators bind, from the loosest.
enum tile_level { L_ANY, L_SELECT, L_EITHER, L_BOTH, L_OR, L_XOR, L_AND, L_EQUAL, L_LESS, L_SHIFT, L_SUM, L_TERM, L_UNARY, L_ATOM };

// ---- c_source.c ----
// An identifier out of any text that nothing else in the source is called by; `or_else` where nothing is left of it.
const char *c_name(struct c_source *w, const char *own, const char *or_else);
bool c_says(const char *text, const char *word); // as a whole word
void c_line(struct c_source *w, const char *fmt, ...) PRINTF(2, 3);
void c_comment(struct c_source *w, const char *text); // nothing in the text can end the comment

// ---- c_place.c: operands of a piece, before the swizzle ----
ex c_index(struct c_source *w, const struct tile_operand *o, const ex *modes, int nmodes);
ex c_guard(struct c_source *w, const struct tile_operand *o, const ex *modes, int nmodes); // EX_C(1): always inside

#endif
