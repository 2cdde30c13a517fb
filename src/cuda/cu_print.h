// cu_print: what the files of the printer share.
#ifndef MICA_CUDA_CU_PRINT_H
#define MICA_CUDA_CU_PRINT_H

#include "cuda/cuda.h"
#include "tile/c_source.h"

struct printer {
  struct c_source s;
  int arch;
  bool unrolls;      // a loop
  const char **vars; // by number in the pool: the name in C++, NULL: none yet
  int vars_room;
  const char **maps;  // tensor maps
  const char *shared; // the dynamic shared memory
  int *held;          // buffers in scope that wgmma reads or writes in registers
  int nheld, held_cap;
  struct cuda_marks *marks; // or NULL
  const char *kernel;
};

// ---- cu_ex.c ----
struct words { // an expression as text
  const char *text;
  enum tile_level level; // of its outermost operator
  bool wide, truth;      // its type: i64, bool or int
};
struct words cu_ex(struct printer *w, ex x);
bool cu_is_truth(const struct printer *w, ex x);                      // is it a comparison in C++?
const char *cu_value(struct printer *w, ex x, enum tile_level least); // in parentheses where its operator binds less

// ---- cu_place.c: where operands are ----
const char *cu_element(struct printer *w, int buf, ex index);                                   // an lvalue, `t1[8 * i]`
const char *cu_shared(struct printer *w, const struct tile_operand *o, ex index, bool swizzle); // a 32-bit address
const char *cu_descriptor(struct printer *w, const struct tile_operand *o, ex index);           // of a matrix for wgmma

// ---- cu_print.c ----
bool cu_has(const struct tile_kernel *k, enum sem sem); // an instruction of this kind

// ---- cu_text.c: an instruction's text with its operands ----
struct cuda_piece {
  const struct tile_atom *atom;
  const ex *modes;          // variables of the loops around it
  ex index[TILE_OPERANDS];  // of the first element of each operand
  ex inside[TILE_OPERANDS]; // its guard
  int step;                 // of a reduction over threads: lane distance
};
// Prints the statement. Inputs that are not inside read as zeros.
int cu_piece(struct printer *w, const struct cuda_piece *q);
const char *cu_first(struct printer *w, const struct cuda_piece *q, int operand); // its first element
const char *cu_init(struct printer *w, const struct cuda_piece *q);               // the atom's value in the type of its output

// ---- cu_atom.c ----
void cu_var(struct printer *w, ex var, const char *name); // what it is called from now on
int cu_atom(struct printer *w, const struct tile_spec *s);
void cu_unroll(struct printer *w);        // before a loop
void cu_hold(struct printer *w, int buf); // a register buffer comes into scope

#endif
