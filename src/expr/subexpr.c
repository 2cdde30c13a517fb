// The test. A_eq and A_sub (paper, Table 2) prove subexpr(e, target) exactly when for some position p of
// the target and some monomial m, e * m is contained in p as a multiset.
//
// Why. A chain of +, *, / and sum from e reaches exactly the normal forms k e Y / D + R. One monomial
// of Y is enough, since the rest can be pushed into R: so e * m is contained in what the chain has
// reached. An exp around it must find it in an exponent of the target, a sqrt in a radicand, an operator
// without laws in an argument, and standing below the bar in a denominator: those are the positions,
// and the same holds there (induction on the wraps). So pruning loses no program that the axioms prove
// equal to the target (Theorem 1), and keeps no other prefix.
//
// A term inside exp, sqrt, sq or a denominator counts as it stands: the monomial m divides exponents as
// multisets and radicands and denominators exactly, and what remains of these must be 1 or a term.
// The admissible order makes it quick: the largest monomial of e times m is one of p's, and the
// others follow it in order.
//
// Max-reductions and elementwise extrema can also grow by their own law: max(16, g) becomes max(64, g),
// ewmax(A, B) becomes ewmax(A, B, C). That can happen only to the bare atom, so it is a case of its own.
#include "expr/normal.h"

static void visit(struct expr *ex, nf e);

static bool is_position(const struct expr *ex, nf e)
{
  for (uint32_t i = 0; i < ex->npos; i++)
    if (ex->pos[i] == e) return true;
  return false;
}

static void add_position(struct expr *ex, nf e)
{
  uint32_t size = poly_at(ex, e)->n;
  PUSH(&ex->mem, ex->pos, ex->npos, ex->pos_cap) = e;
  uint32_t i = ex->npos - 1;
  for (; i > 0 && poly_at(ex, ex->pos[i - 1])->n < size; i--) ex->pos[i] = ex->pos[i - 1];
  ex->pos[i] = e;
}

static void visit_atom(struct expr *ex, uint32_t id)
{
  const struct expr_atom *a = atom_at(ex, id);
  for (uint32_t i = 0; i < a->n; i++) visit(ex, a->arg[i]);
  if (a->kind == ATOM_MAX || a->kind == ATOM_EWMAX || a->kind == ATOM_EWMIN) PUSH(&ex->mem, ex->lattice, ex->nlattice, ex->lattice_cap) = id;
}

static void visit_mono(struct expr *ex, uint32_t id)
{
  const struct expr_mono *m = mono_at(ex, id);
  for (uint32_t i = 0; i < m->n; i++) visit_atom(ex, m->a[i]);
  visit(ex, m->x);
  visit(ex, m->s);
  visit(ex, m->d);
  if (m->q != NF_ONE) visit(ex, square_inside(ex, id));
}

static void visit(struct expr *ex, nf e)
{
  if (!nf_known(e)) {
    ex->armed = false;
    return;
  }
  if (e == NF_EMPTY || e == NF_ONE || is_position(ex, e)) return;
  add_position(ex, e);
  const struct poly *p = poly_at(ex, e);
  for (uint32_t i = 0; i < p->n; i++) visit_mono(ex, p->m[i]);
}

// If the target itself is too big, nothing can be pruned: the context stays disarmed.
void expr_target(struct expr *ex, int n, const nf *targets)
{
  ex->npos = ex->nlattice = 0;
  ex->limit = MAX_MONOMIALS;
  ex->armed = n > 0;
  memo_clear(ex);
  for (int i = 0; i < n; i++) {
    CHECK(targets[i] != EXPR_NEVER);
    visit(ex, targets[i]);
  }
  if (ex->armed) ex->limit = poly_at(ex, ex->pos[0])->n;
  memo_clear(ex); // results under the old limit
}

// Whether e[i] * m, for all i from 1, is among p[at + 1 ..], each with its multiplicity.
static bool others_fit(struct expr *ex, const struct poly *e, uint32_t m, const struct poly *p, uint32_t at)
{
  for (uint32_t i = 1; i < e->n; i++) {
    uint32_t want = mono_mul(ex, e->m[i], m);
    if (!want) return false;
    do at++;
    while (at < p->n && p->m[at] != want);
    if (at >= p->n) return false;
  }
  return true;
}

static bool contained(struct expr *ex, const struct poly *e, const struct poly *p)
{
  if (e->h.mask & ~p->h.mask) return false;
  for (uint32_t at = 0; at + e->n <= p->n; at++) {
    if (at && p->m[at] == p->m[at - 1]) continue;
    uint32_t m = mono_div(ex, p->m[at], e->m[0]);
    if (m && others_fit(ex, e, m, p, at)) return true;
  }
  return false;
}

static bool is_subset(const struct expr_atom *a, const struct expr_atom *b)
{
  uint32_t found = 0;
  for (uint32_t j = 0; j < b->n && found < a->n; j++) found += a->arg[found] == b->arg[j];
  return found == a->n;
}

// Whether the law of its operator alone can turn atom a into an atom of the target.
static bool grows_by_law(const struct expr *ex, const struct expr_atom *a)
{
  for (uint32_t i = 0; i < ex->nlattice; i++) {
    const struct expr_atom *b = atom_at(ex, ex->lattice[i]);
    if (a->kind == b->kind && is_subset(a, b) && (a->kind != ATOM_MAX || b->tag % a->tag == 0)) return true;
  }
  return false;
}

static bool decide(struct expr *ex, nf e)
{
  const struct poly *p = poly_at(ex, e);
  const struct expr_atom *bare = atom_at(ex, bare_atom(ex, e));
  if (bare && grows_by_law(ex, bare)) return true;
  for (uint32_t i = 0; i < ex->npos; i++) {
    const struct poly *q = poly_at(ex, ex->pos[i]);
    if (q->n < p->n) return false;
    if (contained(ex, p, q)) return true;
  }
  return false;
}

static bool answer(struct expr *ex, bool keep)
{
  if (keep)
    ex->stats.kept++;
  else
    ex->stats.pruned++;
  return keep;
}

static bool decide_anew(struct expr *ex, nf e)
{
  if (e >= ex->nverdict) {
    uint32_t n = MAX(2 * ex->nverdict, ex->poly.cap);
    ex->verdict = arena_grow(&ex->mem, ex->verdict, ex->nverdict * sizeof(uint32_t), n * sizeof(uint32_t));
    ex->nverdict = n;
  }
  bool keep = decide(ex, e);
  ex->verdict[e] = ex->epoch << 1 | keep;
  return keep;
}

bool expr_sub(struct expr *ex, nf e)
{
  ex->stats.queries++;
  if (e == EXPR_NEVER) return answer(ex, false);
  if (!ex->armed || e == EXPR_UNKNOWN) return answer(ex, true);
  if (e < ex->nverdict && ex->verdict[e] >> 1 == ex->epoch) {
    ex->stats.memo_hits++;
    return answer(ex, ex->verdict[e] & 1);
  }
  return answer(ex, decide_anew(ex, e));
}
