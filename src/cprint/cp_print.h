// cp_print: private declarations of cprint. Lines, names and comments come from c_source.h.
#ifndef MICA_CPRINT_CP_PRINT_H
#define MICA_CPRINT_CP_PRINT_H

#include "cprint/cprint.h"
#include "tile/c_source.h"

extern const char cprint_prelude_text[], cprint_warp_text[]; // prelude.h, prelude_warp.h

enum by { BY_LANE, BY_WARP, BY_BLOCK };                    // the level at which a statement is done, and the current level of the printer
enum varies { V_BLOCK, V_WARP, V_LANE };                   // a value is the same in the block; may differ between warps; between lanes
enum home { HOME_NONE, HOME_BLOCK, HOME_WARP, HOME_LANE }; // storage of registers: memory of the block; local to a loop over warps; over lanes
enum number { NUM_F32, NUM_F64, NUM_I64, NUMBERS };        // types in which operators are computed

struct cvar {
  ex var;
  ex def;             // its definition, if `let`
  ex full;            // its value in terms of parameters, loop counters, warp and lane
  bool let, array;    // array: stored in memory, with one value for each lane
  enum varies varies; // if not `let`
  const char *text;   // its name in C; NULL if not yet declared
  int frame;          // scope of its declaration
};

struct cprint {
  struct c_source w; // names and lines; out, e, p, k, depth
  enum by by;
  int frame, mark[4 * TILE_NESTING]; // the innermost open scope; by scope: number of names in use before it
  int nvars;
  struct cvar *var; // by number in the pool
  enum home *home;  // by buffer
  bool *touched;    // by buffer: registers of HOME_BLOCK used in this loop over warps; shared memory used at all
  ex warp, lane;    // variables; constants if there is only one
  int64_t threads, warps, lanes;
  const char *m, *wx, *lx; // names in C: the memory of a block, the warp's number, the lane's number
  struct str fields;       // members of the memory of a block
  ex guard[TILE_NESTING];
  int nguards;
  bool unary[UN_COUNT][NUMBERS], binary[BI_COUNT][NUMBERS]; // operators used
  struct str helpers;                                       // functions of this source
  const char **helper;
  int nhelpers, helper_cap;
};

static inline struct ex_pool *cp_pool(const struct cprint *c) { return c->w.p->ex; }

// ---- cp_scope.c ----
struct cvar *cp_var(struct cprint *c, ex var);
void cp_define(struct cprint *c, ex var, const char *text, enum varies v); // declares that a variable has this name in C
void cp_lets(struct cprint *c);                                            // registers all definitions of the kernel
ex cp_full(struct cprint *c, ex x);
enum varies cp_varies(struct cprint *c, ex x);
ex cp_known(struct cprint *c, ex x); // x in terms of variables that are declared here; declares missing ones
void cp_prepare(struct cprint *c,
                const struct tile_atom *a);    // declares the operands' variables that can be declared at this level
void cp_open(struct cprint *c);                // opens a scope
void cp_open_from(struct cprint *c, int mark); // opens a scope that includes the names since `mark`, such as a loop counter
void cp_close(struct cprint *c);               // ends the scope and its declarations
void cp_shut(struct cprint *c);                // the same, and prints the closing brace
ex cp_guards(struct cprint *c);                // conjunction of all guards

// ---- cp_ex.c ----
const char *cp_value(struct cprint *c, ex x, enum tile_level least);

// ---- cp_reach.c ----
struct how {
  enum by by;
  bool known, silent;                                       // known: can be printed; silent: has no effect here
  int (*warp)(struct cprint *c, const struct tile_spec *s); // prints it, if BY_WARP
};
const struct how *cp_how(enum sem sem);
enum by cp_reach(struct cprint *c, int stmt); // level of a statement with its bodies
int cp_refuse(struct cprint *c);              // an error if the kernel has statements that cannot be printed
bool cp_vector(struct cprint *c,
               const struct tile_atom *a); // uses only registers, at indices that are the same for all lanes
bool cp_private(struct cprint *c, int from,
                int to);                                 // are the registers and values of these statements used in them alone?
bool cp_used_later(struct cprint *c, int stmt, int buf); // is the buffer used after stmt in the same block of statements?

// ---- cp_stmt.c ----
void cp_allocate(struct cprint *c, int stmt);
int cp_inner(struct cprint *c, int stmt); // prints a block of statements and its closing brace
int cp_loop(struct cprint *c, const struct tile_stmt *st);
int cp_condition(struct cprint *c, const struct tile_stmt *st);
int cp_both_guarded(struct cprint *c, const struct tile_stmt *st);                // both branches of a condition that differs between threads
int cp_divergent(struct cprint *c, const struct tile_stmt *st, const char *what); // an error for a loop whose bounds differ between threads
enum varies cp_value_varies(struct cprint *c, const struct tile_stmt *st);        // how value(%v) varies
// Prints value(%v). beyond: the variable is also used after this loop over warps, so it is in the memory of the block.
int cp_value_of(struct cprint *c, const struct tile_stmt *st, bool beyond);

// ---- cp_flow.c ----
int cp_block(struct cprint *c, int stmt); // prints statements at level c->by
int cp_lanes_open(struct cprint *c,
                  bool vectors); // opens a loop over lanes with its guards; the result is for cp_lanes_close
void cp_lanes_close(struct cprint *c, int opened);

// ---- cp_atom.c ----
int cp_atom(struct cprint *c, const struct tile_spec *s);                                    // a spec that lanes do alone, at level c->by
int cp_modes_open(struct cprint *c, const struct tile_atom *a, int from, int to, ex *modes); // returns the number of loops opened
void cp_modes_close(struct cprint *c, int opened);
ex cp_index(struct cprint *c, const struct tile_operand *o, const struct tile_atom *a, const ex *modes);
const char *cp_register(struct cprint *c, int buf, ex index); // the row of lanes of a register
const char *cp_element(struct cprint *c, const struct tile_operand *o, ex index);
const char *cp_order(struct cprint *c, const struct tile_operand *o,
                     int n); // offsets of registers, as a compound literal

// ---- cp_op.c ----
const char *cp_type(enum tile_type t);
const char *cp_unary(struct cprint *c, int op, enum tile_type from, const char *x, enum tile_type to);
const char *cp_binary(struct cprint *c, int op, enum tile_type t, const char *x, const char *y);
const char *cp_keep(struct cprint *c, enum tile_type t, const char *x, const char *condition, const char *old);
const char *cp_fma(struct cprint *c, enum tile_type t, const char *x, const char *y, enum tile_type sum, const char *z);
const char *cp_constant(struct cprint *c, enum tile_type t, double x);
const char *cp_atomic(struct cprint *c, int op, enum tile_type t); // the function's name
void cp_operators(struct cprint *c, struct str *out);              // prints the functions that were used

// ---- cp_warp.c ----
int cp_shuffle(struct cprint *c, const struct tile_spec *s);
int cp_reduce_warp(struct cprint *c, const struct tile_spec *s);
int cp_matrices(struct cprint *c, const struct tile_spec *s);
int cp_product(struct cprint *c, const struct tile_spec *s);

#endif
