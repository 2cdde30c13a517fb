// Whether two forms are equal up to the names of bound digits, the order of factors and the order of monomials. A positive answer is a proof: it
// pairs each bound digit with one of equal range that is bound at the corresponding place. Factors and monomials with equal hashes are paired by
// trial. Inside an atom the first pairing that fits is kept, so a negative answer may be wrong if a sum has two similar digits.
#include "verify/prove.h"

enum { MOST_NAMES = 200 };

struct prove_match_name {
  int digit, level, other; // other: its partner in the other list, or -1
};
struct matching {
  struct prover *p;
  struct prove_match_name side[2][MOST_NAMES];
  int n[2], level;
  int trail[MOST_NAMES], ntrail; // names of side 0 that were paired, in order
};

static int find(const struct matching *m, int side, int digit)
{
  int i = m->n[side] - 1;
  while (i >= 0 && m->side[side][i].digit != digit) i--;
  return i;
}

static void undo(struct matching *m, int to)
{
  while (m->ntrail > to) {
    struct prove_match_name *x = &m->side[0][m->trail[--m->ntrail]];
    m->side[1][x->other].other = -1, x->other = -1;
  }
}

static bool same_digit(struct matching *m, int x, int y)
{
  int i = find(m, 0, x), k = find(m, 1, y);
  if (i < 0 || k < 0) return i < 0 && k < 0 && x == y;
  struct prove_match_name *u = &m->side[0][i], *v = &m->side[1][k];
  if (u->other >= 0 || v->other >= 0) return u->other == k;
  if (u->level != v->level || m->p->digits[x].extent != m->p->digits[y].extent) return false;
  u->other = k, v->other = i;
  m->trail[m->ntrail++] = i;
  return true;
}

static bool enter(struct matching *m, int n, const int *x, const int *y)
{
  if (m->n[0] + n > MOST_NAMES || m->n[1] + n > MOST_NAMES) {
    prove_give_up(m->p, "too many bound indices");
    return false;
  }
  m->level++;
  for (int i = 0; i < n; i++) {
    m->side[0][m->n[0]++] = (struct prove_match_name){x[i], m->level, -1};
    m->side[1][m->n[1]++] = (struct prove_match_name){y[i], m->level, -1};
  }
  return true;
}

static void leave(struct matching *m, int n)
{
  int kept = 0;
  m->level--, m->n[0] -= n, m->n[1] -= n;
  for (int i = 0; i < m->ntrail; i++)
    if (m->trail[i] < m->n[0]) m->trail[kept++] = m->trail[i];
  m->ntrail = kept;
}

static bool subscripts(struct matching *m, struct subscript s, struct subscript t)
{
  bool same = s.n == t.n;
  for (int i = 0; i < s.n && same; i++) {
    const struct verify_piece *x = &s.p[i], *y = &t.p[i];
    same = x->at == y->at && x->div == y->div && x->extent == y->extent;
    if (x->digit >= 0 && y->digit >= 0)
      same = same && same_digit(m, x->digit, y->digit);
    else
      same = same && x->digit == y->digit;
  }
  return same;
}

static bool forms(struct matching *m, const struct form *f, const struct form *g);

static bool arguments(struct matching *m, const struct atom *a, const struct atom *b)
{
  int mark = m->ntrail;
  if (!a->f[0] || !a->f[1]) return !a->f[0] || forms(m, a->f[0], b->f[0]);
  if (forms(m, a->f[0], b->f[0]) && forms(m, a->f[1], b->f[1])) return true;
  undo(m, mark);
  return a->kind == ATOM_OPAQUE && op_rows[a->tag].flags & COMMUTES && forms(m, a->f[0], b->f[1]) && forms(m, a->f[1], b->f[0]);
}

static bool atoms(struct matching *m, const struct atom *a, const struct atom *b)
{
  if (a == b && !m->n[0] && !m->n[1]) return true;
  if (a->hash != b->hash || a->kind != b->kind || a->tag != b->tag || a->value != b->value || a->nat != b->nat || a->nbound != b->nbound ||
      !a->f[0] != !b->f[0] || !a->f[1] != !b->f[1] || !prove_step(m->p))
    return false;
  for (int i = 0; i < a->nat; i++)
    if (!subscripts(m, a->at[i], b->at[i])) return false;
  if (!enter(m, a->nbound, a->bound, b->bound)) return false;
  bool same = arguments(m, a, b);
  leave(m, a->nbound);
  return same;
}

// ---- pairing ----

static bool same_ratio(struct ratio x, struct ratio y) { return x.n == y.n && x.d == y.d; }

// The factor to pair after i. Elements of arrays come first, since they have the fewest candidates.
static int next_factor(const struct monomial *a, int i)
{
  for (i++; i < 2 * a->nfactors; i++)
    if ((a->f[i % a->nfactors].a->kind == ATOM_ELEMENT) == (i < a->nfactors)) break;
  return i;
}

static bool factors(struct matching *m, const struct monomial *a, const struct monomial *b, int i, bool *used)
{
  if (i == 2 * a->nfactors) return true;
  const struct factor *x = &a->f[i % a->nfactors];
  for (int k = 0; k < b->nfactors; k++) {
    if (used[k] || x->a->hash != b->f[k].a->hash || !same_ratio(x->e, b->f[k].e)) continue;
    int mark = m->ntrail;
    used[k] = true;
    if (atoms(m, x->a, b->f[k].a) && factors(m, a, b, next_factor(a, i), used)) return true;
    used[k] = false;
    undo(m, mark);
  }
  return false;
}

static bool monomials(struct matching *m, const struct monomial *a, const struct monomial *b)
{
  if (a->hash != b->hash || a->nbound != b->nbound || a->nfactors != b->nfactors || !prove_step(m->p)) return false;
  if (!enter(m, a->nbound, a->bound, b->bound)) return false;
  struct arena_mark mark = arena_mark(m->p->mem);
  bool same = factors(m, a, b, next_factor(a, -1), NEWS(m->p->mem, bool, b->nfactors + 1));
  arena_reset(m->p->mem, mark);
  leave(m, a->nbound);
  return same;
}

static bool monomials_from(struct matching *m, const struct form *f, const struct form *g, int i, bool *used)
{
  if (i == f->n) return true;
  for (int k = 0; k < g->n; k++) {
    if (used[k] || f->m[i].hash != g->m[k].hash || !same_ratio(f->m[i].c, g->m[k].c)) continue;
    int mark = m->ntrail;
    used[k] = true;
    if (monomials(m, &f->m[i], &g->m[k]) && monomials_from(m, f, g, i + 1, used)) return true;
    used[k] = false;
    undo(m, mark);
  }
  return false;
}

static bool forms(struct matching *m, const struct form *f, const struct form *g)
{
  if (f->n != g->n || form_hash(f) != form_hash(g)) return false;
  struct arena_mark mark = arena_mark(m->p->mem);
  bool same = monomials_from(m, f, g, 0, NEWS(m->p->mem, bool, g->n + 1));
  arena_reset(m->p->mem, mark);
  return same;
}

// ---- entries ----

static void start(struct matching *m, struct prover *p) { m->p = p, m->n[0] = m->n[1] = m->level = m->ntrail = 0; }

bool atom_same(struct prover *p, const struct atom *a, const struct atom *b)
{
  struct matching m;
  if (a == b) return true;
  start(&m, p);
  return atoms(&m, a, b);
}

bool monomial_same(struct prover *p, const struct monomial *a, const struct monomial *b)
{
  struct matching m;
  start(&m, p);
  return monomials(&m, a, b);
}

bool form_same(struct prover *p, const struct form *a, const struct form *b)
{
  struct matching m;
  if (a == b) return true;
  start(&m, p);
  return forms(&m, a, b);
}
