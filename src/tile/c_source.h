// c_source: C and C++ text of kernels: lines, names, comments, and positions of operands. The printers of cuda and cprint use it. Text is made in
// pieces in an arena and joined in `out`.
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

// Operator precedence, lowest first.
enum tile_level { L_ANY, L_SELECT, L_EITHER, L_BOTH, L_OR, L_XOR, L_AND, L_EQUAL, L_LESS, L_SHIFT, L_SUM, L_TERM, L_UNARY, L_ATOM };

// ---- c_source.c ----
// Makes an identifier from any text that is unique in the source; `or_else` if no valid character remains.
const char *c_name(struct c_source *w, const char *own, const char *or_else);
bool c_says(const char *text, const char *word); // whether `text` contains `word` as a whole word
void c_line(struct c_source *w, const char *fmt, ...) PRINTF(2, 3);
void c_comment(struct c_source *w, const char *text); // the text cannot end the comment

// ---- c_place.c: positions in operands of a piece, before the swizzle ----
ex c_index(struct c_source *w, const struct tile_operand *o, const ex *modes, int nmodes);
ex c_guard(struct c_source *w, const struct tile_operand *o, const ex *modes, int nmodes); // EX_C(1): always in bounds

#endif
