// match: shared declarations of lowering. A spec is matched against rows. A mismatch is recorded as a sentence, and the row that matched furthest
// explains the error.
//
//   axes.c          operands side by side: common loops with the strides of each
//   match.c         rows that may fit, memories, types, threads; the first row that fits
//   match_vec.c     vectors: contiguity, alignment, predicates
//   match_frag.c    fragments of tensor-core instructions, matrices of ldmatrix
//   match_bulk.c    tiles by descriptor (wgmma) and by tensor map (TMA)
//   match_sync.c    barriers, waits, fences, shuffles: what is not a loop over operands
//   tile_lower.c    all specs of a kernel        shared.c    offsets in shared memory
#ifndef MICA_TILE_MATCH_H
#define MICA_TILE_MATCH_H

#include "tile/tile.h"

enum { AXES = 24, ROLE_PLAIN = 0, ROLE_REDUCED = 1 };
struct axis { // a loop with a constant trip count
  int64_t extent;
  ex stride[TILE_OPERANDS]; // elements
  ex coord[TILE_OPERANDS][TILE_DIMS];
  bool reduced; // the output does not move: the loop is a reduction
};
struct tile_axes {
  int n;
  struct axis axis[AXES];
};

struct side { // an operand during matching
  int view;
  const struct tile_view *v;
  const struct tile_buffer *b;
  int from, outer; // loops: from <= level < outer; the levels from `outer` on belong to the instruction
};

struct lowering { // of a kernel
  struct tile_program *p;
  struct tile_kernel *k;
  const struct target *target;
  struct err *e;
  int ndefs, cap_defs;
  struct def {
    ex var, value;
  } * defs;   // definitions of variables, in order
  int nparts; // number of named-barrier families
  struct tile_part {
    int64_t threads;
    ex offset;        // offset of the group's threads if it is the only one, and `size` does not divide it
    int first, count; // barrier numbers
  } parts[16];
  int nmaps, cap_maps;
};

struct match {
  struct lowering *l;
  struct ex_pool *ex;
  struct lay_ctx *lay;
  struct loc at;
  const struct tile_spec *s;
  const struct instr *row;
  int nsides, nout;
  struct side side[TILE_OPERANDS]; // outputs first
  struct tile_atom atom;           // under construction
  struct tile_map map;             // of a box, before it is compared with other maps
  int score;                       // how far the row matched
  char why[512];                   // why it did not match further
  char hint[128];                  // suggestion, or empty
};
// Records the reason; returns false.
bool refuse(struct match *m, const char *fmt, ...) PRINTF(2, 3);
const struct instr_operand *match_pattern(const struct instr *row, int i); // of operand i, outputs first
int64_t match_bytes(const struct side *s);                                 // of an element
const char *match_text(struct match *m, int i);                            // "%x:[2,2].[1,2].fp16.RF"

// ---- axes.c: functions that make common loops of the levels before `outer` ----
bool axes_elementwise(struct match *m, bool broadcast, bool reduce, struct tile_axes *out);
bool axes_product(struct match *m, struct tile_axes *out);
// The constant leaves of a mode, with strides of the operand and its coordinates.
bool axes_of_levels(struct match *m, int operand, int from, int to, struct tile_axes *out);
void axes_merge(struct match *m, struct tile_axes *a); // reduces the number of loops; reduced loops come first

// ---- match_vec.c ----
bool match_vector(struct match *m, struct tile_axes *a); // operands of OPND_VECTOR
bool match_modes(struct match *m, struct tile_axes *a);  // the atom's loops; drops those of one iteration
bool match_guards(struct match *m, const struct tile_axes *a, const struct axis *lane, int64_t width);
// Whether the offset and the steps of operand i are multiples of `elements`.
bool match_aligned(struct match *m, int i, const struct tile_axes *a, int64_t elements);
bool match_together(struct match *m, int i, int64_t elements); // no swizzle separates that many elements

// ---- match_frag.c ----
bool match_fragment(struct match *m, int i, const struct instr_operand *want); // sets side.outer and operand.inner
bool match_mats(struct match *m, int i, const struct instr_operand *want);
bool match_row(struct match *m, int i);
void match_count_mats(struct match *m, int mats, int row); // the order of 2 x 2 matrices, from the addresses of the lanes

// ---- match_bulk.c ----
bool match_matrix(struct match *m, int i, const struct instr_operand *want);
bool match_descriptors(struct match *m, const struct tile_axes *a);
bool match_boxes(struct match *m, struct tile_axes *a); // makes the loops too

// ---- match_sync.c ----
bool match_threads(struct match *m);
bool match_barrier(struct match *m);
bool match_number(struct match *m);
bool match_lanes(struct match *m);
ex lower_expand(struct lowering *l,
                ex x); // x with variables of definitions replaced, down to thread, block and loop variables

// ---- match.c: finds a row for the spec, or sets the error ----
int match_spec(struct lowering *l, const struct tile_spec *s, struct loc at, struct tile_atom *out);

// ---- shared.c ----
int shared_place(struct lowering *l);

#endif
