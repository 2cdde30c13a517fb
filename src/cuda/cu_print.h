// cu_print: private declarations of the printer of CUDA C++.
#ifndef MICA_CUDA_CU_PRINT_H
#define MICA_CUDA_CU_PRINT_H

#include "cuda/cuda.h"
#include "tile/c_source.h"

struct cuda_held {
  int buf, last; // last: the statement after which it is free, -1: at the end of its scope
};

struct printer {
  struct c_source s;
  int arch;
  bool unrolls;      // the kernel has an unrolled loop
  const char **vars; // by number in the pool: the name in C++; NULL if not declared yet
  int vars_room;
  const char **maps;      // names of the tensor maps
  const char *shared;     // name of the dynamic shared memory
  struct cuda_held *held; // buffers in scope that wgmma reads or writes in registers
  int nheld, held_cap;
  struct cuda_marks *marks; // or NULL
  const char *kernel;
};

// ---- cu_ex.c ----
struct words { // an expression as text
  const char *text;
  enum tile_level level; // precedence of its outermost operator
  bool wide, truth;      // its type: wide is i64, truth is bool, neither is int
};
struct words cu_ex(struct printer *w, ex x);
bool cu_is_truth(const struct printer *w, ex x);                      // is its type in C++ bool?
const char *cu_value(struct printer *w, ex x, enum tile_level least); // in parentheses if its operator binds less tightly than `least`

// ---- cu_place.c: addresses of operands ----
const char *cu_element(struct printer *w, int buf, ex index);                                   // an lvalue, `t1[8 * i]`
const char *cu_shared(struct printer *w, const struct tile_operand *o, ex index, bool swizzle); // a 32-bit address
const char *cu_descriptor(struct printer *w, const struct tile_operand *o, ex index);           // descriptor of a matrix for wgmma

// ---- cu_print.c ----
bool cu_has(const struct tile_kernel *k, enum sem sem); // has the kernel an instruction of this kind?

// ---- cu_text.c: the text of an instruction with its operands ----
struct cuda_piece {
  const struct tile_atom *atom;
  const ex *modes;          // variables of the enclosing loops
  ex index[TILE_OPERANDS];  // index of the first element of each operand
  ex inside[TILE_OPERANDS]; // guard of each operand
  int step;                 // lane distance, for a reduction over threads
};
// Prints the statement. Inputs whose guard is false read as zeros.
int cu_piece(struct printer *w, const struct cuda_piece *q);
const char *cu_first(struct printer *w, const struct cuda_piece *q, int operand); // the first element of an operand
const char *cu_init(struct printer *w, const struct cuda_piece *q);               // the atom's initial value in the type of its output

// ---- cu_atom.c ----
void cu_var(struct printer *w, ex var, const char *name); // sets the name of a variable
int cu_atom(struct printer *w, const struct tile_spec *s);
void cu_unroll(struct printer *w);                  // before a loop
void cu_hold(struct printer *w, int buf, int stmt); // a register buffer comes into scope at this statement
void cu_free(struct printer *w, int stmt);          // after this statement

#endif
