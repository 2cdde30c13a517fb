// Normal forms of terms. A normal form is a non-empty multiset of monomials (k; A; X; S; Q; D), the sum
// of S_k A exp(X) sqrt(S) sq(Q) / D. Every operator of Table 1 is a function on normal forms:
//
//   add   unites            sum(k, .)  multiplies every k       exp(x)   (1; ; x; 1; 1; 1)
//   mul   distributes       div        multiplies every D       sqrt(x)  (1; ; ; x; 1; 1)
//
// Every axiom of A_eq (Table 2) holds between these functions, and by the axioms every term can be
// brought into the shape of its normal form; so A_eq proves s = t exactly when nf(s) = nf(t). D is kept
// expanded: X/(AC + BC) has the subexpression X/(A + B), which a D kept in factors would hide or not,
// depending on how it was written. There is no law for x/(y/z), and nothing cancels.
//
// With the laws of exp and sqrt (the later version of the paper has exp(x)exp(y) = exp(x+y)) they are
// components of a monomial; without, exp(x) and sqrt(x) are atoms.
//
// Operators beyond the paper. Adding an equation never prunes more, taking one away may lose graphs:
//
//   max      an atom max(k, x); nested ones merge, max(1, x) = x
//   ewmax    an atom with a set of arguments: commutative, associative, idempotent; ewmin likewise
//   neg      dropped. A sign atom with (-1)(-1) = 1 would make A - A a zero divisor, so that quotients
//            would not be unique, and x/(-y) = -(x/y) would need a sign for denominators that have
//            none, D = -D. Dropping it adds one equation, neg x = x, and the test stays exact for the
//            axioms with that equation; A - B is told from A + B by its fingerprint.
#include "expr/normal.h"

#include <string.h>

// Result of an operation with an operand that is UNKNOWN or NEVER.
static nf worse(nf x, nf y) { return x == EXPR_NEVER || y == EXPR_NEVER ? EXPR_NEVER : EXPR_UNKNOWN; }

nf expr_atom(struct expr *ex, uint32_t id)
{
  nf r;
  if (memo_find(ex, OP_ATOM, id, 0, &r)) return r;
  struct arena_mark top = arena_mark(&ex->tmp);
  r = poly_of_atom(ex, intern_atom(ex, draft_atom(ex, ATOM_INPUT, id, 0)));
  arena_reset(&ex->tmp, top);
  return memo_put(ex, OP_ATOM, id, 0, r);
}

static nf applied(struct expr *ex, enum atom_kind kind, uint64_t tag, uint32_t n, const nf *args)
{
  struct arena_mark top = arena_mark(&ex->tmp);
  struct expr_atom *a = draft_atom(ex, kind, tag, n);
  memcpy(a->arg, args, n * sizeof *args);
  nf r = poly_of_atom(ex, intern_atom(ex, a));
  arena_reset(&ex->tmp, top);
  return r;
}

nf expr_opaque(struct expr *ex, uint32_t fn, int n, const nf *args)
{
  nf known = NF_ONE;
  for (int i = 0; i < n; i++)
    if (!nf_known(args[i])) known = nf_known(known) ? args[i] : worse(known, args[i]);
  return nf_known(known) ? nf_settle(ex, applied(ex, ATOM_OPAQUE, fn, (uint32_t)n, args)) : known;
}

nf expr_add(struct expr *ex, nf x, nf y) { return nf_known(x) && nf_known(y) ? nf_settle(ex, poly_add(ex, x, y)) : worse(x, y); }

nf expr_neg(struct expr *ex, nf x)
{
  (void)ex;
  return x;
}

nf expr_mul(struct expr *ex, nf x, nf y) { return nf_known(x) && nf_known(y) ? nf_settle(ex, poly_mul(ex, x, y)) : worse(x, y); }

// The monomial whose only component is the one set in `part`.
static uint32_t lone(struct expr *ex, struct expr_mono part)
{
  DRAFT_MONO(draft);
  draft.m = (struct expr_mono){
      .k = part.k ? part.k : 1,
      .x = part.x ? part.x : NF_EMPTY,
      .s = part.s ? part.s : NF_ONE,
      .q = NF_ONE,
      .d = part.d ? part.d : NF_ONE,
  };
  return intern_mono(ex, &draft.m);
}

nf expr_div(struct expr *ex, nf x, nf y)
{
  if (!nf_known(x) || !nf_known(y)) return worse(x, y);
  nf r;
  if (!memo_find(ex, OP_DIV, x, y, &r)) r = memo_put(ex, OP_DIV, x, y, poly_scale(ex, x, lone(ex, (struct expr_mono){.d = y})));
  return nf_settle(ex, r);
}

nf expr_sum(struct expr *ex, uint64_t k, nf x)
{
  ASSERT(k > 0);
  if (!nf_known(x) || k == 1) return x;
  nf r;
  if (!memo_find(ex, OP_SUM, x, k, &r)) r = memo_put(ex, OP_SUM, x, k, poly_scale(ex, x, lone(ex, (struct expr_mono){.k = k})));
  return nf_settle(ex, r);
}

nf expr_exp(struct expr *ex, nf x)
{
  if (!nf_known(x)) return x;
  nf r;
  if (memo_find(ex, OP_EXP, x, 0, &r)) return nf_settle(ex, r);
  r = ex->exp_laws ? poly_of_mono(ex, lone(ex, (struct expr_mono){.x = x})) : applied(ex, ATOM_EXP, 0, 1, &x);
  return nf_settle(ex, memo_put(ex, OP_EXP, x, 0, r));
}

nf expr_sqrt(struct expr *ex, nf x)
{
  if (!nf_known(x)) return x;
  nf r;
  if (memo_find(ex, OP_SQRT, x, 0, &r)) return nf_settle(ex, r);
  r = ex->exp_laws ? poly_of_mono(ex, lone(ex, (struct expr_mono){.s = x})) : applied(ex, ATOM_SQRT, 0, 1, &x);
  return nf_settle(ex, memo_put(ex, OP_SQRT, x, 0, r));
}

static nf max_anew(struct expr *ex, uint64_t k, nf x)
{
  const struct expr_atom *inner = atom_at(ex, bare_atom(ex, x));
  if (!inner || inner->kind != ATOM_MAX) return applied(ex, ATOM_MAX, k, 1, &x);
  if (__builtin_mul_overflow(k, inner->tag, &k)) return 0;
  return applied(ex, ATOM_MAX, k, 1, inner->arg);
}

nf expr_max(struct expr *ex, uint64_t k, nf x)
{
  ASSERT(k > 0);
  if (!nf_known(x) || k == 1) return x;
  nf r;
  if (!memo_find(ex, OP_MAX, x, k, &r)) r = memo_put(ex, OP_MAX, x, k, max_anew(ex, k, x));
  return nf_settle(ex, r);
}

// The operands of an extremum: the arguments of an atom of that kind, else x alone.
static uint32_t members(const struct expr *ex, enum atom_kind kind, const nf *x, const nf **set)
{
  const struct expr_atom *a = atom_at(ex, bare_atom(ex, *x));
  bool nested = a && a->kind == kind;
  *set = nested ? a->arg : x;
  return nested ? a->n : 1;
}

static nf extremum(struct expr *ex, enum atom_kind kind, nf x, nf y)
{
  if (!nf_known(x) || !nf_known(y)) return worse(x, y);
  const nf *a, *b;
  uint32_t na = members(ex, kind, &x, &a), nb = members(ex, kind, &y, &b), fill = 0;
  struct arena_mark top = arena_mark(&ex->tmp);
  nf *both = NEWS(&ex->tmp, nf, na + nb);
  uint32_t n = multi_union(ex, order_poly, a, na, b, nb, both);
  for (uint32_t i = 0; i < n; i++)
    if (!fill || both[fill - 1] != both[i]) both[fill++] = both[i];
  nf r = fill == 1 ? both[0] : fill > MAX_ATOMS ? 0 : applied(ex, kind, 0, fill, both);
  arena_reset(&ex->tmp, top);
  return nf_settle(ex, r);
}

nf expr_ewmax(struct expr *ex, nf x, nf y) { return extremum(ex, ATOM_EWMAX, x, y); }
nf expr_ewmin(struct expr *ex, nf x, nf y) { return extremum(ex, ATOM_EWMIN, x, y); }
