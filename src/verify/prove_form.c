// Terms -> forms. Everything that distributes is multiplied out, so that a form is a sum of monomials; a sum's digits are
// bound by each of its monomials. A monomial is in order when
//   - no base in it has an exponent that can be multiplied out,
//   - every bound digit occurs (one that does not is a factor: its extent), and
//   - no two bound digits always occur side by side in the same order (they are one digit of the product's range).
// All digits have been cut as far as they will be before the first form is made.
#include "verify/prove.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_MONOMIALS = 3000, MOST_FACTORS = 64 };

// ---- atoms ----

static uint64_t double_hash(double x, uint64_t seed) { return hash_bytes(&x, sizeof x, seed); }
static uint64_t ratio_hash(struct ratio r) { return hash_mix(hash_mix(11, (uint64_t)r.n), (uint64_t)r.d); }

static uint64_t subscript_hash(const struct prover *p, struct subscript s)
{
  uint64_t h = 1;
  for (int i = 0; i < s.n; i++) {
    struct piece x = s.p[i];
    bool output = x.digit >= 0 && p->digits[x.digit].output;
    h = hash_mix(hash_mix(h, x.digit < 0 ? 2 : output ? 3 : 4), output ? (uint64_t)x.digit : (uint64_t)x.at);
    h = hash_mix(hash_mix(h, (uint64_t)x.div), (uint64_t)x.extent);
  }
  return h;
}

static uint64_t monomial_hash(const struct prover *p, const struct monomial *m)
{
  uint64_t h = 0;
  for (int i = 0; i < m->nbound; i++) h += hash_mix(5, (uint64_t)p->digits[m->bound[i]].extent);
  for (int i = 0; i < m->nfactors; i++) h += hash_mix(m->f[i].a->hash, ratio_hash(m->f[i].e));
  return hash_mix(6, h);
}

uint64_t form_hash(const struct form *f)
{
  uint64_t h = 0;
  for (int i = 0; i < f->n; i++) h += hash_mix(f->m[i].hash, ratio_hash(f->m[i].c));
  return hash_mix(7, h);
}

static bool symmetric(const struct atom *a) { return a->kind == ATOM_OPAQUE && op_rows[a->tag].flags & COMMUTES; }

static uint64_t atom_hash(const struct prover *p, const struct atom *a)
{
  uint64_t h = hash_mix((uint64_t)a->kind, (uint64_t)a->tag), x = a->f[0] ? form_hash(a->f[0]) : 0, y = a->f[1] ? form_hash(a->f[1]) : 0;
  h = double_hash(a->hi, double_hash(a->lo, h));
  for (int i = 0; i < a->nat; i++) h = hash_mix(h, subscript_hash(p, a->at[i]));
  for (int i = 0; i < a->nbound; i++) x += hash_mix(8, (uint64_t)p->digits[a->bound[i]].extent);
  return hash_mix(h, symmetric(a) ? x + y : hash_mix(x, y));
}

static int ascending(const void *x, const void *y) { return (*(const int *)x > *(const int *)y) - (*(const int *)x < *(const int *)y); }

static bool among(int d, int n, const int *set)
{
  for (int i = 0; i < n; i++)
    if (set[i] == d) return true;
  return false;
}

struct digits {
  int n, cap;
  int *d;
};

static void collect(struct prover *p, struct digits *s, int d)
{
  if (!among(d, s->n, s->d)) PUSH(p->mem, s->d, s->n, s->cap) = d;
}

static void collect_free(struct prover *p, struct digits *s, const struct atom *a)
{
  for (int i = 0; i < a->nat; i++)
    for (int k = 0; k < a->at[i].n; k++)
      if (a->at[i].p[k].digit >= 0) collect(p, s, a->at[i].p[k].digit);
  for (int f = 0; f < 2 && a->f[f]; f++)
    for (int i = 0; i < a->f[f]->n; i++) {
      const struct monomial *m = &a->f[f]->m[i];
      for (int k = 0; k < m->nfactors; k++)
        for (int d = 0; d < m->f[k].a->nfree; d++) {
          int x = m->f[k].a->free[d];
          if (!among(x, m->nbound, m->bound) && !among(x, a->nbound, a->bound)) collect(p, s, x);
        }
    }
}

const struct atom *atom_make(struct prover *p, struct atom a)
{
  struct digits s = {0};
  collect_free(p, &s, &a);
  if (s.n) qsort(s.d, (size_t)s.n, sizeof *s.d, ascending);
  a.nfree = s.n, a.free = s.d, a.hash = atom_hash(p, &a);
  return arena_copy(p->mem, &a, sizeof a);
}

static bool atom_has(const struct atom *a, int d)
{
  return a->nfree && bsearch(&d, a->free, (size_t)a->nfree, sizeof d, ascending) != NULL;
}

// ---- renaming: digit u (followed by v, where v >= 0) becomes digit w ----

struct renaming {
  int u, v, w;
};

static const struct atom *rename_atom(struct prover *p, const struct atom *a, const struct renaming *r);

static struct monomial rename_monomial(struct prover *p, const struct monomial *m, const struct renaming *r)
{
  struct monomial x = *m;
  if (among(r->u, m->nbound, m->bound)) return x; // another digit of that name
  x.f = arena_copy(p->mem, m->f, sizeof *m->f * (size_t)m->nfactors), x.factors_cap = m->nfactors;
  for (int i = 0; i < x.nfactors; i++) x.f[i].a = rename_atom(p, x.f[i].a, r);
  x.hash = monomial_hash(p, &x);
  return x;
}

static const struct form *rename_form(struct prover *p, const struct form *f, const struct renaming *r)
{
  struct form *x = NEW(p->mem, struct form);
  *x = *f, x->cap = f->n, x->m = NEWS(p->mem, struct monomial, f->n + 1);
  for (int i = 0; i < f->n; i++) x->m[i] = rename_monomial(p, &f->m[i], r);
  return x;
}

static const struct atom *rename_atom(struct prover *p, const struct atom *a, const struct renaming *r)
{
  struct atom x = *a;
  if (!atom_has(a, r->u) || !prove_step(p)) return a;
  struct subscript *at = NEWS(p->mem, struct subscript, a->nat + 1);
  for (int i = 0; i < a->nat; i++) at[i] = subscript_rename(p, a->at[i], r->u, r->v, r->w);
  x.at = at;
  for (int i = 0; i < 2 && a->f[i]; i++) x.f[i] = rename_form(p, a->f[i], r);
  return atom_make(p, x);
}

static void rename_bound(struct prover *p, struct monomial *m, int i)
{
  struct renaming r = {m->bound[i], -1, digit_new(p, p->digits[m->bound[i]].extent, false)};
  struct monomial body = *m;
  body.nbound = 0;
  struct monomial x = rename_monomial(p, &body, &r);
  x.nbound = x.bound_cap = m->nbound;
  x.bound = arena_copy(p->mem, m->bound, sizeof *m->bound * (size_t)m->nbound);
  x.bound[i] = r.w;
  *m = x;
}

// ---- merging bound digits ----

static bool is_whole(const struct prover *p, const struct piece *x) { return x->extent == p->digits[x->digit].extent; }

// Does v follow u, both whole, wherever either of them occurs free?
static bool side_by_side(const struct prover *p, const struct atom *a, int u, int v)
{
  for (int i = 0; i < a->nat; i++)
    for (int k = 0; k < a->at[i].n; k++) {
      const struct piece *x = &a->at[i].p[k];
      if ((x->digit == u || x->digit == v) && !is_whole(p, x)) return false;
      if (x->digit == u && (k + 1 == a->at[i].n || x[1].digit != v)) return false;
      if (x->digit == v && (!k || x[-1].digit != u)) return false;
    }
  for (int f = 0; f < 2 && a->f[f]; f++)
    for (int i = 0; i < a->f[f]->n; i++) {
      const struct monomial *m = &a->f[f]->m[i];
      bool hides_u = among(u, m->nbound, m->bound) || among(u, a->nbound, a->bound);
      bool hides_v = among(v, m->nbound, m->bound) || among(v, a->nbound, a->bound);
      for (int k = 0; k < m->nfactors; k++) {
        bool has_u = !hides_u && atom_has(m->f[k].a, u), has_v = !hides_v && atom_has(m->f[k].a, v);
        if (has_u != has_v || (has_u && !side_by_side(p, m->f[k].a, u, v))) return false;
      }
    }
  return true;
}

// What follows the first free u in a; -1: nothing does, or no digit.
static int follower(const struct atom *a, int u)
{
  for (int i = 0; i < a->nat; i++)
    for (int k = 0; k < a->at[i].n; k++)
      if (a->at[i].p[k].digit == u) return k + 1 < a->at[i].n ? a->at[i].p[k + 1].digit : -1;
  for (int f = 0; f < 2 && a->f[f]; f++)
    for (int i = 0; i < a->f[f]->n; i++) {
      const struct monomial *m = &a->f[f]->m[i];
      for (int k = 0; k < m->nfactors && !among(u, m->nbound, m->bound); k++)
        if (atom_has(m->f[k].a, u)) return follower(m->f[k].a, u);
    }
  return -1;
}

static int follower_in(const struct monomial *m, int u)
{
  for (int k = 0; k < m->nfactors; k++)
    if (atom_has(m->f[k].a, u)) return follower(m->f[k].a, u);
  return -1;
}

static bool merge_pair(struct prover *p, struct monomial *m, int u, int v)
{
  if (v < 0 || v == u || !among(v, m->nbound, m->bound)) return false;
  for (int k = 0; k < m->nfactors; k++)
    if (atom_has(m->f[k].a, u) != atom_has(m->f[k].a, v) || !side_by_side(p, m->f[k].a, u, v)) return false;
  int w = digit_new(p, p->digits[u].extent * p->digits[v].extent, false), n = 0;
  for (int k = 0; k < m->nfactors; k++) m->f[k].a = rename_atom(p, m->f[k].a, &(struct renaming){u, v, w});
  for (int i = 0; i < m->nbound; i++)
    if (m->bound[i] != u && m->bound[i] != v) m->bound[n++] = m->bound[i];
  m->bound[n++] = w, m->nbound = n;
  return true;
}

struct ends {
  int n;
  int64_t at[16];
};

static void add_end(struct ends *s, int64_t at)
{
  int i = 0;
  while (i < s->n && s->at[i] < at) i++;
  if ((i < s->n && s->at[i] == at) || s->n == COUNT(s->at)) return;
  memmove(s->at + i + 1, s->at + i, sizeof *s->at * (size_t)(s->n++ - i));
  s->at[i] = at;
}

// Where the parts of digit d in a begin and end, in units of d, ascending.
static void find_ends(const struct prover *p, struct ends *s, const struct atom *a, int d)
{
  for (int i = 0; i < a->nat; i++)
    for (int k = 0; k < a->at[i].n; k++) {
      const struct piece *x = &a->at[i].p[k];
      if (x->digit == d && !is_whole(p, x)) add_end(s, x->div), add_end(s, x->div * x->extent);
    }
  for (int f = 0; f < 2 && a->f[f]; f++)
    for (int i = 0; i < a->f[f]->n; i++) {
      const struct monomial *m = &a->f[f]->m[i];
      for (int k = 0; k < m->nfactors && !among(d, m->nbound, m->bound); k++)
        if (atom_has(m->f[k].a, d)) find_ends(p, s, m->f[k].a, d);
    }
}

// A digit of which parts occur becomes several digits, where the parts nest.
static bool divide(struct prover *p, struct monomial *m, int i)
{
  struct ends s = {0};
  int d = m->bound[i], w;
  for (int k = 0; k < m->nfactors; k++)
    if (atom_has(m->f[k].a, d)) find_ends(p, &s, m->f[k].a, d);
  for (int k = 1; k < s.n; k++)
    if (s.at[k] % s.at[k - 1]) return false;
  if (!s.n) return false;
  w = digit_new(p, p->digits[d].extent, false);
  for (int k = s.n - 1, low = w; k >= 0; k--) {
    digit_cut(p, low, s.at[k]);
    if (p->digits[low].low >= 0) low = p->digits[low].low;
  }
  for (int k = 0; k < m->nfactors; k++) m->f[k].a = rename_atom(p, m->f[k].a, &(struct renaming){d, -1, w});
  struct subscript parts = subscript_of(p, w);
  m->bound[i] = m->bound[--m->nbound];
  for (int k = 0; k < parts.n; k++) PUSH(p->mem, m->bound, m->nbound, m->bound_cap) = parts.p[k].digit;
  return true;
}

static void merge(struct prover *p, struct monomial *m)
{
  for (int i = 0; i < m->nbound && !p->why;) i = divide(p, m, i) ? 0 : i + 1;
  for (int i = 0; i < m->nbound && !p->why;) i = merge_pair(p, m, m->bound[i], follower_in(m, m->bound[i])) ? 0 : i + 1;
}

// ---- monomials ----

struct monomial monomial_one(struct ratio c) { return (struct monomial){.c = c}; }

bool monomial_binds(const struct monomial *m, const struct atom *a)
{
  for (int i = 0; i < m->nbound; i++)
    if (atom_has(a, m->bound[i])) return true;
  return false;
}

static struct monomial copy(struct prover *p, const struct monomial *m)
{
  struct monomial x = *m;
  if (m->nfactors) x.f = arena_copy(p->mem, m->f, sizeof *m->f * (size_t)m->nfactors);
  if (m->nbound) x.bound = arena_copy(p->mem, m->bound, sizeof *m->bound * (size_t)m->nbound);
  x.factors_cap = m->nfactors, x.bound_cap = m->nbound;
  return x;
}

void monomial_factor(struct prover *p, struct monomial *m, const struct atom *a, struct ratio e)
{
  int i = 0;
  while (i < m->nfactors && !(m->f[i].a->hash == a->hash && atom_same(p, m->f[i].a, a))) i++;
  if (i < m->nfactors) {
    m->f[i].e = ratio_add(p, m->f[i].e, e);
    if (a->nonneg) m->f[i].a = a;
    if (m->f[i].e.n) return;
    for (m->nfactors--; i < m->nfactors; i++) m->f[i] = m->f[i + 1];
  } else if (m->nfactors == MOST_FACTORS) {
    prove_give_up(p, "a product has too many factors");
  } else if (e.n) {
    PUSH(p->mem, m->f, m->nfactors, m->factors_cap) = (struct factor){a, e};
  }
}

// How much of a factor's exponent can be multiplied out.
static whole expandable(const struct factor *f)
{
  if (f->a->kind != ATOM_BASE) return 0;
  whole e = ratio_floor(f->e);
  return f->a->primitive && e < 0 ? 0 : e;
}

static struct form *add_monomial(struct prover *p, struct form *f, const struct monomial *m)
{
  if (p->why || !m->c.n) return f;
  int i = 0;
  while (i < f->n && !(f->m[i].hash == m->hash && monomial_same(p, &f->m[i], m))) i++;
  if (i < f->n) {
    f->m[i].c = ratio_add(p, f->m[i].c, m->c);
    if (!f->m[i].c.n) f->m[i] = f->m[--f->n];
  } else if (f->n == MOST_MONOMIALS) {
    prove_give_up(p, "a sum has too many monomials");
  } else {
    PUSH(p->mem, f->m, f->n, f->cap) = *m;
  }
  return f;
}

static void add_all(struct prover *p, struct form *f, const struct form *x)
{
  for (int i = 0; x && i < x->n && !p->why; i++) add_monomial(p, f, &x->m[i]);
}

static void bind_one(struct prover *p, struct monomial *m, int digit)
{
  for (int i = 0; i < m->nbound; i++)
    if (m->bound[i] == digit) rename_bound(p, m, i); // another digit of that name
  PUSH(p->mem, m->bound, m->nbound, m->bound_cap) = digit;
}

// The sum of f over the digits.
static struct form *bind(struct prover *p, const struct form *f, int n, const int *digits)
{
  struct form *r = NEW(p->mem, struct form);
  for (int i = 0; f && i < f->n && !p->why; i++) {
    struct monomial m = copy(p, &f->m[i]);
    for (int k = 0; k < n; k++) bind_one(p, &m, digits[k]);
    add_all(p, r, form_finish(p, &m));
  }
  return p->why ? NULL : r;
}

struct form *form_finish(struct prover *p, const struct monomial *from)
{
  struct monomial m = copy(p, from);
  struct form *r = NEW(p->mem, struct form);
  int n = 0;
  for (int i = 0; i < m.nfactors; i++) {
    whole e = expandable(&m.f[i]);
    if (!e) continue;
    const struct atom *a = m.f[i].a;
    m.nbound = 0, monomial_factor(p, &m, a, (struct ratio){-e, 1});
    return bind(p, form_mul(p, form_finish(p, &m), form_power(p, a->f[0], e)), from->nbound, from->bound);
  }
  for (int i = 0; i < m.nbound; i++) {
    bool used = false;
    for (int k = 0; k < m.nfactors && !used; k++) used = atom_has(m.f[k].a, m.bound[i]);
    if (used) m.bound[n++] = m.bound[i];
    else m.c = ratio_mul(p, m.c, (struct ratio){p->digits[m.bound[i]].extent, 1});
  }
  m.nbound = n;
  merge(p, &m);
  m.hash = monomial_hash(p, &m);
  return prove_step(p) ? add_monomial(p, r, &m) : NULL;
}

// ---- sums and products ----

struct form *form_constant(struct prover *p, struct ratio c)
{
  struct monomial m = monomial_one(c);
  struct form *f = form_finish(p, &m);
  if (f) f->nonneg = c.n >= 0;
  return f;
}

struct form *form_add(struct prover *p, const struct form *x, const struct form *y)
{
  struct form *r = NEW(p->mem, struct form);
  if (!x || !y) return NULL;
  add_all(p, r, x), add_all(p, r, y);
  r->nonneg = x->nonneg && y->nonneg;
  return p->why ? NULL : r;
}

struct form *form_scale(struct prover *p, const struct form *x, struct ratio c)
{
  return form_mul(p, x, form_constant(p, c));
}

static bool mentions(const struct monomial *m, int d)
{
  if (among(d, m->nbound, m->bound)) return true;
  for (int i = 0; i < m->nfactors; i++)
    if (atom_has(m->f[i].a, d)) return true;
  return false;
}

// The product; bound digits of one that the other has too, bound or free, get other names.
static struct form *product(struct prover *p, const struct monomial *x, const struct monomial *y)
{
  struct monomial a = copy(p, x), b = copy(p, y);
  for (int i = 0; i < b.nbound; i++)
    if (mentions(&a, b.bound[i])) rename_bound(p, &b, i);
  for (int i = 0; i < a.nbound; i++)
    if (mentions(&b, a.bound[i])) rename_bound(p, &a, i);
  for (int i = 0; i < b.nfactors; i++) monomial_factor(p, &a, b.f[i].a, b.f[i].e);
  for (int i = 0; i < b.nbound; i++) PUSH(p->mem, a.bound, a.nbound, a.bound_cap) = b.bound[i];
  a.c = ratio_mul(p, a.c, b.c);
  return form_finish(p, &a);
}

struct form *form_mul(struct prover *p, const struct form *x, const struct form *y)
{
  struct form *r = NEW(p->mem, struct form);
  if (!x || !y) return NULL;
  for (int i = 0; i < x->n; i++)
    for (int k = 0; k < y->n && !p->why; k++) add_all(p, r, product(p, &x->m[i], &y->m[k]));
  r->nonneg = x->nonneg && y->nonneg;
  return p->why ? NULL : r;
}

// ---- terms ----

static struct form *form_atom(struct prover *p, struct atom a, struct ratio c)
{
  struct monomial m = monomial_one(c);
  monomial_factor(p, &m, atom_make(p, a), (struct ratio){1, 1});
  struct form *f = form_finish(p, &m);
  if (f) f->nonneg = a.nonneg && c.n > 0;
  return f;
}

static struct form *of_constant(struct prover *p, struct term *t)
{
  struct ratio r;
  double c = t->constant;
  if (ratio_meant(c, &r)) return form_constant(p, r);
  if (!(c - c == 0)) return prove_give_up(p, "a constant is no number");
  return form_atom(p, (struct atom){.kind = ATOM_CONSTANT, .lo = c < 0 ? -c : c, .nonneg = true}, (struct ratio){c < 0 ? -1 : 1, 1});
}

static struct form *element(struct prover *p, int array, int n, const struct subscript *from)
{
  struct subscript *at = NEWS(p->mem, struct subscript, n + 1);
  for (int i = 0; i < n; i++) {
    at[i] = subscript_expand(p, from[i]);
    if (subscript_composite(p, at[i])) return prove_give_up(p, "an index is cut where none of its parts ends");
  }
  return form_atom(p, (struct atom){.kind = ATOM_ELEMENT, .tag = array, .nat = n, .at = at}, (struct ratio){1, 1});
}

static struct form *of_element(struct prover *p, struct term *t) { return element(p, t->array, t->n, t->at); }

static struct form *of_opaque(struct prover *p, struct term *t)
{
  const struct form *x = form_of(p, t->x), *y = t->y ? form_of(p, t->y) : NULL;
  bool nonneg = t->op == OP_SIGMOID || t->op == OP_RELU || t->op == OP_ABS;
  if (!x || p->why) return NULL;
  if (y && (t->op == OP_MAXIMUM || t->op == OP_MINIMUM) && form_same(p, x, y)) return form_scale(p, x, (struct ratio){1, 1});
  struct atom a = {.kind = ATOM_OPAQUE, .tag = (int)t->op, .lo = t->lo, .hi = t->hi, .f = {x, y}, .nonneg = nonneg};
  return form_atom(p, a, (struct ratio){1, 1});
}

// The digits that a sum or a maximum binds, cut as they are now.
static struct digits bound_by(struct prover *p, struct term *t)
{
  struct digits d = {0};
  struct subscript s = subscript_expand(p, *t->at);
  for (int i = 0; i < s.n; i++)
    if (s.p[i].digit >= 0) PUSH(p->mem, d.d, d.n, d.cap) = s.p[i].digit;
  return d;
}

static struct form *of_sum(struct prover *p, struct term *t)
{
  const struct form *x = form_of(p, t->x);
  struct digits d = bound_by(p, t);
  struct form *r = x ? bind(p, x, d.n, d.d) : NULL;
  if (r) r->nonneg = x->nonneg;
  return r;
}

// Is f nothing but one maximum?
static const struct atom *lone_maximum(const struct form *f)
{
  if (f->n != 1 || !ratio_is(f->m[0].c, 1) || f->m[0].nbound || f->m[0].nfactors != 1) return NULL;
  const struct factor *x = &f->m[0].f[0];
  return x->a->kind == ATOM_MAX && ratio_is(x->e, 1) ? x->a : NULL;
}

// A maximum of maxima is one; digits that do not occur do not matter; neighbours merge as those of a sum do.
static struct form *of_max(struct prover *p, struct term *t)
{
  const struct form *x = form_of(p, t->x);
  if (!x) return NULL;
  struct monomial m = monomial_one((struct ratio){1, 1});
  struct digits d = bound_by(p, t);
  const struct atom *inner = lone_maximum(x);
  for (int i = 0; inner && i < inner->nbound; i++) collect(p, &d, inner->bound[i]);
  struct atom a = {.kind = ATOM_MAX, .f = {inner ? inner->f[0] : x}, .nonneg = x->nonneg};
  const struct atom *body = atom_make(p, a);
  for (int i = 0; i < d.n; i++)
    if (atom_has(body, d.d[i])) PUSH(p->mem, m.bound, m.nbound, m.bound_cap) = d.d[i];
  if (!m.nbound) return form_scale(p, a.f[0], (struct ratio){1, 1});
  monomial_factor(p, &m, body, (struct ratio){1, 1});
  merge(p, &m);
  a = *m.f[0].a, a.nbound = m.nbound, a.bound = m.bound;
  return form_atom(p, a, (struct ratio){1, 1});
}

// The second argument fixes the order of the loop's axes: an element of an array that no graph has.
static struct form *of_running(struct prover *p, struct term *t)
{
  enum { NO_ARRAY = -1 };
  struct digits d = {0};
  int n = t->n / 2;
  const struct form *x = form_of(p, t->x), *order = x ? element(p, NO_ARRAY, n, t->at + n) : NULL;
  const struct form *now = order ? element(p, NO_ARRAY, n, t->at) : NULL;
  if (!now) return NULL;
  const struct atom *axes = order->m[0].f[0].a, *here = now->m[0].f[0].a;
  for (int i = 0; i < axes->nfree; i++) collect(p, &d, axes->free[i]);
  struct atom a = {.kind = ATOM_RUNNING, .tag = t->change, .nat = n, .at = here->at, .f = {x, order}, .nbound = d.n, .bound = d.d};
  return form_atom(p, a, (struct ratio){1, 1});
}

static struct form *of_product(struct prover *p, struct term *t)
{
  const struct form *x = form_of(p, t->x), *y = x ? form_of(p, t->y) : NULL;
  struct form *r = form_mul(p, x, y);
  if (r) r->nonneg |= x == y || form_same(p, x, y);
  return r;
}

static struct form *made(struct prover *p, struct term *t)
{
  switch (t->kind) {
  case TERM_NUMBER: return form_constant(p, t->number);
  case TERM_CONSTANT: return of_constant(p, t);
  case TERM_ELEMENT: return of_element(p, t);
  case TERM_ADD: return form_add(p, form_of(p, t->x), form_of(p, t->y));
  case TERM_MUL: return of_product(p, t);
  case TERM_INVERSE: return form_inverse(p, form_of(p, t->x));
  case TERM_EXP: return form_exp(p, form_of(p, t->x));
  case TERM_SQRT: return form_root(p, form_of(p, t->x));
  case TERM_OPAQUE: return of_opaque(p, t);
  case TERM_SUM: return of_sum(p, t);
  case TERM_MAX: return of_max(p, t);
  case TERM_RUNNING: return of_running(p, t);
  }
  return NULL;
}

const struct form *form_of(struct prover *p, struct term *t)
{
  if (p->why || !t) return NULL;
  if (!t->form) t->form = made(p, t);
  return p->why ? NULL : t->form;
}
