// normal: the representation of normal forms; private to this component.
//
// There are three kinds of node. Each is interned in its own pool and named by its index there. A node is its head, followed by its content; two
// nodes are equal if their contents agree byte for byte. Sequences inside nodes are sorted by the order of expr_order.c, largest first, equal ones
// repeated.
#ifndef MICA_EXPR_NORMAL_H
#define MICA_EXPR_NORMAL_H

#include "expr/expr.h"

// Hard caps, so that no term can exhaust memory or stack. They limit only the target: a term that exceeds them cannot be part of a target that does
// not.
enum {
  MAX_MONOMIALS = 4096, // of a normal form
  MAX_ATOMS = 128,      // of a monomial
  MAX_DEPTH = 48,       // of nesting
};

// Normal forms that are not terms but components of monomials.
enum {
  NF_EMPTY = 2, // the empty multiset: no exponent
  NF_ONE = 3,   // the empty product: no radicand, square or denominator
};

struct head {
  uint64_t hash;  // of the content, independent of ids
  uint64_t mask;  // Bloom filter of the atoms in it at any depth
  uint32_t bytes; // of the node
  uint32_t depth;
};

enum atom_kind { ATOM_INPUT, ATOM_OPAQUE, ATOM_EXP, ATOM_SQRT, ATOM_MAX, ATOM_EWMAX, ATOM_EWMIN };

struct expr_atom {
  struct head h;
  uint64_t tag; // INPUT: id; OPAQUE: function; MAX: length of the reduction
  enum atom_kind kind;
  uint32_t n; // arguments; of EWMAX and EWMIN a set
  nf arg[];
};

struct expr_mono {
  struct head h;
  uint64_t k; // sum factor
  nf x;       // exponent, or NF_EMPTY
  nf s;       // radicand, or NF_ONE
  nf q;       // argument of sq, of at least two monomials without common factor, or NF_ONE
  nf d;       // denominator, expanded, or NF_ONE
  uint32_t n;
  uint32_t a[]; // atoms
};

struct poly {
  struct head h;
  uint32_t n;
  uint32_t m[]; // monomials
};

struct pool {
  void **node; // node[0] is NULL in the pools of atoms and monomials: "none"
  uint32_t n, cap;
  uint64_t *slot; // open addressing over indices, 0: empty; the upper bits hold half of the hash
  uint32_t slots; // a power of two
};

enum expr_op { OP_ATOM, OP_ADD, OP_MUL, OP_QUOT, OP_QUOT_LAX, OP_DIV, OP_SUM, OP_EXP, OP_SQRT, OP_SQUARE, OP_MAX };

struct memo_row {
  uint64_t b;
  uint32_t a;
  uint32_t epoch; // differs from the context's epoch: the row is empty
  enum expr_op op;
  nf result;
};
struct memo {
  struct memo_row *row;
  uint32_t n, cap; // cap a power of two
};

struct expr {
  struct arena mem, tmp; // memory of the context; of one operation
  struct pool atom, mono, poly;
  struct memo memo;
  bool exp_laws, expand_squares;

  bool armed;     // a target is set and known
  uint32_t limit; // monomials that a normal form may have: those of the largest position, else MAX_MONOMIALS
  nf *pos;        // positions, largest first
  uint32_t npos, pos_cap;
  uint32_t *lattice; // MAX, EWMAX and EWMIN atoms at the positions
  uint32_t nlattice, lattice_cap;

  uint32_t epoch;    // counts targets, from 1
  uint32_t *verdict; // of a normal form: epoch << 1 | keep
  uint32_t nverdict;
  struct expr_stats stats;
};

static const uint32_t MONO_UNIT = 1; // the monomial 1

static inline bool nf_known(nf x) { return x > EXPR_NEVER; }
static inline const struct expr_atom *atom_at(const struct expr *ex, uint32_t i) { return ex->atom.node[i]; }
static inline const struct expr_mono *mono_at(const struct expr *ex, uint32_t i) { return ex->mono.node[i]; }
static inline const struct poly *poly_at(const struct expr *ex, nf i) { return ex->poly.node[i]; }

// A normal form of one monomial 1 * atom gives the atom, all others 0.
uint32_t bare_atom(const struct expr *ex, nf e);
// Whether the monomial has a numerator besides its sum factor. The monomials of every term have one.
bool has_numerator(const struct expr_mono *m);

// ---- expr.c: a result for the caller, and the memo of operations ----
nf nf_settle(struct expr *ex, nf r); // converts 0 (a limit was exceeded) to EXPR_NEVER under a target, else to EXPR_UNKNOWN
bool memo_find(const struct expr *ex, enum expr_op op, uint32_t a, uint64_t b, nf *result);
nf memo_put(struct expr *ex, enum expr_op op, uint32_t a, uint64_t b, nf result); // returns result
void memo_clear(struct expr *ex);                                                 // begins a new epoch

// ---- intern.c: drafts are complete except for their heads; 0 means too deep ----
#define DRAFT_MONO(name)                                                \
  union {                                                               \
    struct expr_mono m;                                                 \
    char room[sizeof(struct expr_mono) + MAX_ATOMS * sizeof(uint32_t)]; \
  } name
struct expr_atom *draft_atom(struct expr *ex, enum atom_kind kind, uint64_t tag, uint32_t n); // in ex->tmp
struct poly *draft_poly(struct expr *ex, uint32_t n);                                         // in ex->tmp
uint32_t intern_atom(struct expr *ex, struct expr_atom *draft);
uint32_t intern_mono(struct expr *ex, struct expr_mono *draft);
nf intern_poly(struct expr *ex, struct poly *draft);
nf poly_of_mono(struct expr *ex, uint32_t m);
nf poly_of_atom(struct expr *ex, uint32_t a);

// ---- expr_order.c: positive when a comes before b ----
typedef int order_fn(const struct expr *ex, uint32_t a, uint32_t b);
order_fn order_atom, order_mono, order_poly;
// Sorted multisets: union, intersection and difference; the result's size, or -1 if b is not in a.
uint32_t multi_union(const struct expr *ex, order_fn *order, const uint32_t *a, uint32_t na, const uint32_t *b, uint32_t nb, uint32_t *out);
uint32_t multi_meet(const struct expr *ex, order_fn *order, const uint32_t *a, uint32_t na, const uint32_t *b, uint32_t nb, uint32_t *out);
int multi_minus(const uint32_t *a, uint32_t na, const uint32_t *b, uint32_t nb, uint32_t *out);

// ---- poly.c: 0 means too big, or no quotient ----
nf poly_add(struct expr *ex, nf a, nf b);
nf poly_mul(struct expr *ex, nf a, nf b);
nf poly_scale(struct expr *ex, nf a, uint32_t m);
nf poly_quot(struct expr *ex, nf t, nf e);     // q with t = e * q; q is 1 or a term
nf poly_quot_lax(struct expr *ex, nf t, nf e); // any q
uint32_t mono_mul(struct expr *ex, uint32_t a, uint32_t b);
uint32_t mono_div(struct expr *ex, uint32_t t, uint32_t e);

// ---- square.c ----
nf square_inside(struct expr *ex, uint32_t t); // a candidate for the square root of t's sq part; 0: too big

#endif
