// cp_print: what the files of this component share. Lines, names and comments are c_source.h's.
#ifndef MICA_CPRINT_CP_PRINT_H
#define MICA_CPRINT_CP_PRINT_H

#include "cprint/cprint.h"
#include "tile/c_source.h"

extern const char cprint_prelude_text[], cprint_warp_text[]; // prelude.h, prelude_warp.h

enum by { BY_LANE, BY_WARP, BY_BLOCK };                    // who does it; reach; where the printer stands
enum varies { V_BLOCK, V_WARP, V_LANE };                   // nothing differs in a block; warps do; lanes do
enum home { HOME_NONE, HOME_BLOCK, HOME_WARP, HOME_LANE }; // of registers: memory of the block, local to a loop over warps, lanes
enum number { NUM_F32, NUM_F64, NUM_I64, NUMBERS };        // in which operators are computed

struct cvar {
  ex var;
  ex def; // the definition, where `let`; full: in parameters, loops, warp and lane
  ex full;
  bool let, array;    // array: a value in memory, one a lane
  enum varies varies; // where not `let`
  const char *text;   // what it is called; NULL: not yet declared
  int frame;          // in which it is declared
};

struct cprint {
  struct c_source w; // names and lines; out, e, p, k, depth
  enum by by;
  int frame, mark[4 * TILE_NESTING]; // the brace that is open; names in use when it was
  int nvars;
  struct cvar *var; // by number in the pool
  enum home *home;  // by buffer
  bool *touched;    // by buffer: of HOME_BLOCK, used in this loop over warps; shared, used at all
  ex warp, lane;    // variables; constants where there is one
  int64_t threads, warps, lanes;
  const char *m, *wx, *lx; // the memory of a block, the number of a warp, of a lane in it
  struct str fields;       // its members
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
void cp_define(struct cprint *c, ex var, const char *text, enum varies v); // a variable that stands in the source
void cp_lets(struct cprint *c);                                            // all definitions of the kernel
ex cp_full(struct cprint *c, ex x);
enum varies cp_varies(struct cprint *c, ex x);
ex cp_known(struct cprint *c, ex x); // in variables that are known here, declaring those that are not
void cp_prepare(struct cprint *c,
                const struct tile_atom *a);    // declares those of its operands that are known already here
void cp_open(struct cprint *c);                // a brace: what is declared and named from here on
void cp_open_from(struct cprint *c, int mark); // with the names since mark, of the loop's counter
void cp_close(struct cprint *c);               // is forgotten here
void cp_shut(struct cprint *c);                // and its closing brace
ex cp_guards(struct cprint *c);                // all of them

// ---- cp_ex.c ----
const char *cp_value(struct cprint *c, ex x, enum tile_level least);

// ---- cp_reach.c ----
struct how {
  enum by by;
  bool known, silent;                                       // silent: nothing is done
  int (*warp)(struct cprint *c, const struct tile_spec *s); // of those by warp
};
const struct how *cp_how(enum sem sem);
enum by cp_reach(struct cprint *c, int stmt); // one statement with its bodies
int cp_refuse(struct cprint *c);              // what can not be printed at all
bool cp_vector(struct cprint *c,
               const struct tile_atom *a); // registers only, at places that are the same for all lanes
bool cp_private(struct cprint *c, int from,
                int to);                                 // do the registers and values of these statements live in them alone?
bool cp_used_later(struct cprint *c, int stmt, int buf); // in what follows stmt in its block

// ---- cp_stmt.c ----
void cp_allocate(struct cprint *c, int stmt);
int cp_inner(struct cprint *c, int stmt); // a block of statements and its closing brace
int cp_loop(struct cprint *c, const struct tile_stmt *st);
int cp_condition(struct cprint *c, const struct tile_stmt *st);
int cp_both_guarded(struct cprint *c, const struct tile_stmt *st);                // the sides of a condition in which threads differ
int cp_divergent(struct cprint *c, const struct tile_stmt *st, const char *what); // refuses a loop
enum varies cp_value_varies(struct cprint *c, const struct tile_stmt *st);        // of value(%v)
// beyond: the variable is known after this loop over warps too, in memory of the block.
int cp_value_of(struct cprint *c, const struct tile_stmt *st, bool beyond);

// ---- cp_flow.c ----
int cp_block(struct cprint *c, int stmt); // statements, where c->by stands
int cp_lanes_open(struct cprint *c,
                  bool vectors); // a loop over lanes with its guards; cp_lanes_close takes what it returns
void cp_lanes_close(struct cprint *c, int opened);

// ---- cp_atom.c ----
int cp_atom(struct cprint *c, const struct tile_spec *s);                                    // by lane, where c->by stands
int cp_modes_open(struct cprint *c, const struct tile_atom *a, int from, int to, ex *modes); // how many loops
void cp_modes_close(struct cprint *c, int opened);
ex cp_index(struct cprint *c, const struct tile_operand *o, const struct tile_atom *a, const ex *modes);
const char *cp_register(struct cprint *c, int buf, ex index); // its row of lanes
const char *cp_element(struct cprint *c, const struct tile_operand *o, ex index);
const char *cp_order(struct cprint *c, const struct tile_operand *o,
                     int n); // offsets of registers, as a compound literal

// ---- cp_op.c ----
const char *cp_type(enum tile_type t);
const char *cp_unary(struct cprint *c, int op, enum tile_type from, const char *x, enum tile_type to);
const char *cp_binary(struct cprint *c, int op, enum tile_type t, const char *x, const char *y);
const char *cp_fma(struct cprint *c, enum tile_type t, const char *x, const char *y, enum tile_type sum, const char *z);
const char *cp_constant(struct cprint *c, enum tile_type t, double x);
const char *cp_atomic(struct cprint *c, int op, enum tile_type t); // the function's name
void cp_operators(struct cprint *c, struct str *out);              // the functions that were used

// ---- cp_warp.c ----
int cp_shuffle(struct cprint *c, const struct tile_spec *s);
int cp_reduce_warp(struct cprint *c, const struct tile_spec *s);
int cp_matrices(struct cprint *c, const struct tile_spec *s);
int cp_product(struct cprint *c, const struct tile_spec *s);

#endif
