// A kernel compiled for the interpreter: expressions as slots, statements as steps, specs as atoms with their addresses.
#ifndef MICA_SIM_COMPILED_H
#define MICA_SIM_COMPILED_H

#include "sim/sim.h"

enum { LANES = 32 };

struct vec { // an integer for each lane
  int64_t v[LANES];
  bool uniform; // all lanes have the same value; all of v is filled nevertheless
};

enum { SLOT_CONST = -1 };
struct slot { // an expression
  int kind;   // enum ex_kind or SLOT_CONST
  int n;
  const int *arg;
  const struct vec **got; // buffer for the values of the arguments
  const int64_t *coef;
  int64_t c;
  int var;    // EX_VAR
  int latest; // of the variables that it depends on, the one defined last; -1: none
};

enum step_kind { STEP_LET, STEP_VALUE, STEP_ALLOC, STEP_FOR, STEP_TEST, STEP_NEXT, STEP_IF, STEP_ELSE, STEP_ENDIF, STEP_ATOM, STEP_END };
struct sim_step {
  enum step_kind kind;
  const struct tile_stmt *stmt;
  int jump;         // next step if no lane is active; NEXT: its TEST
  int nvars;        // LET
  const int *vars;  // LET, VALUE, loops
  const int *slots; // LET: definitions. FOR: from; TEST: to; NEXT: step. IF: condition
  int atom;         // ATOM, VALUE
};

struct sim_guard {
  int value, limit, stride[TILE_MODES];
};
struct sim_operand {
  const struct tile_operand *t;
  const struct tile_buffer *buffer;
  enum tile_type type;
  enum tile_mem mem;
  int buf, bytes;                       // buffer; bytes of an element
  int offset, stride[TILE_MODES], peer; // slots; peer -1: the block's own memory
  int nguards;
  struct sim_guard guard[TILE_DIMS];
  int coord[TILE_DIMS], coord_stride[TILE_DIMS][TILE_MODES]; // coordinates of a box in global memory
  int ninner;
  const int32_t *inner; // fragments, tiles: offsets of their elements
  bool written;         // an output
};
enum go { GO_ON, GO_WAIT, GO_AGAIN }; // done; done, then wait; wait, then retry
struct warp;
struct sim_atom {
  const struct tile_atom *t;
  const struct tile_spec *spec;
  struct loc at;
  int number, n, nout; // index in sim.atoms; number of operands, and of outputs among them
  struct sim_operand op[TILE_OPERANDS];
  int arg, barrier; // slots; -1 none
  enum go (*run)(struct warp *w, const struct sim_atom *a);
  int nmembers; // number of threads of the group; member: their numbers relative to the group's offset
  const int *member;
  int group;                        // slot of the group's offset
  const int32_t *tv[TILE_OPERANDS]; // collective: index in the tile of value v of thread t, [v * threads + t]
  int64_t issued;
};

#endif
