// Atoms and their digits: hashes that do not depend on names, free digits, and operations on the bound digits of a monomial: renaming, splitting into
// the parts that occur, and merging.
#include "verify/prove.h"

#include <stdlib.h>
#include <string.h>

// ---- atoms ----

static uint64_t double_hash(double x, uint64_t seed) { return hash_bytes(&x, sizeof x, seed); }
static uint64_t ratio_hash(struct ratio r) { return hash_mix(hash_mix(11, (uint64_t)r.n), (uint64_t)r.d); }

static uint64_t subscript_hash(const struct prover *p, struct subscript s)
{
  uint64_t h = 1;
  for (int i = 0; i < s.n; i++) {
    struct verify_piece x = s.p[i];
    bool output = x.digit >= 0 && p->digits[x.digit].output;
    h = hash_mix(hash_mix(h, x.digit < 0 ? 2 : output ? 3 : 4), output ? (uint64_t)x.digit : (uint64_t)x.at);
    h = hash_mix(hash_mix(h, (uint64_t)x.div), (uint64_t)x.extent);
  }
  return h;
}

uint64_t monomial_hash(const struct prover *p, const struct monomial *m)
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

uint64_t monomial_outline(const struct monomial *m)
{
  uint64_t h = 0;
  for (int i = 0; i < m->nfactors; i++) h += hash_mix(m->f[i].a->outline, ratio_hash(m->f[i].e));
  return hash_mix(9, h);
}

static uint64_t form_outline(const struct form *f)
{
  uint64_t h = 0;
  for (int i = 0; f && i < f->n; i++) h += hash_mix(monomial_outline(&f->m[i]), ratio_hash(f->m[i].c));
  return hash_mix(10, h);
}

static bool symmetric(const struct atom *a) { return a->kind == ATOM_OPAQUE && op_rows[a->tag].flags & COMMUTES; }

static uint64_t atom_hash(const struct prover *p, const struct atom *a)
{
  uint64_t h = hash_mix((uint64_t)a->kind, (uint64_t)a->tag), x = 0, y = 0;
  if (a->f[0]) x = form_hash(a->f[0]);
  if (a->f[1]) y = form_hash(a->f[1]);
  h = double_hash(a->value, h);
  for (int i = 0; i < a->nat; i++) h = hash_mix(h, subscript_hash(p, a->at[i]));
  for (int i = 0; i < a->nbound; i++) x += hash_mix(8, (uint64_t)p->digits[a->bound[i]].extent);
  return hash_mix(h, symmetric(a) ? x + y : hash_mix(x, y));
}

static uint64_t atom_outline(const struct atom *a)
{
  const uint64_t h = double_hash(a->value, hash_mix((uint64_t)a->kind, (uint64_t)a->tag)), x = form_outline(a->f[0]), y = form_outline(a->f[1]);
  return hash_mix(h, symmetric(a) ? x + y : hash_mix(x, y));
}

static int ascending(const void *x, const void *y)
{
  int a = *(const int *)x, b = *(const int *)y;
  return (a > b) - (a < b);
}

static bool among(int d, int n, const int *set)
{
  for (int i = 0; i < n; i++)
    if (set[i] == d) return true;
  return false;
}

void digits_add(struct prover *p, struct digits *s, int d)
{
  if (!among(d, s->n, s->d)) PUSH(p->mem, s->d, s->n, s->cap) = d;
}

static void collect_free(struct prover *p, struct digits *s, const struct atom *a)
{
  for (int i = 0; i < a->nat; i++)
    for (int k = 0; k < a->at[i].n; k++)
      if (a->at[i].p[k].digit >= 0) digits_add(p, s, a->at[i].p[k].digit);
  for (int f = 0; f < 2 && a->f[f]; f++)
    for (int i = 0; i < a->f[f]->n; i++) {
      const struct monomial *m = &a->f[f]->m[i];
      for (int k = 0; k < m->nfactors; k++)
        for (int d = 0; d < m->f[k].a->nfree; d++) {
          int x = m->f[k].a->free[d];
          if (!among(x, m->nbound, m->bound) && !among(x, a->nbound, a->bound)) digits_add(p, s, x);
        }
    }
}

static int weight(const struct atom *a)
{
  enum { HEAVY = 1 << 20 };
  int w = 1;
  for (int f = 0; f < 2 && a->f[f]; f++)
    for (int i = 0; i < a->f[f]->n; i++)
      for (int k = 0; k < a->f[f]->m[i].nfactors; k++) w = MIN(w + a->f[f]->m[i].f[k].a->weight, HEAVY);
  return w;
}

static bool numbered(const struct atom *a)
{
  bool found = false;
  for (int i = 0; i < a->nat; i++)
    for (int k = 0; k < a->at[i].n; k++) found |= a->at[i].p[k].digit < 0;
  for (int f = 0; f < 2 && a->f[f]; f++)
    for (int i = 0; i < a->f[f]->n; i++)
      for (int k = 0; k < a->f[f]->m[i].nfactors; k++) found |= a->f[f]->m[i].f[k].a->numbered;
  return found;
}

const struct atom *atom_make(struct prover *p, struct atom a)
{
  struct digits s = {0};
  collect_free(p, &s, &a);
  if (s.n) qsort(s.d, (size_t)s.n, sizeof *s.d, ascending);
  a.nfree = s.n, a.free = s.d, a.hash = atom_hash(p, &a), a.outline = atom_outline(&a), a.weight = weight(&a), a.numbered = numbered(&a);
  return arena_copy(p->mem, &a, sizeof a);
}

bool atom_has(const struct atom *a, int d) { return a->nfree && bsearch(&d, a->free, (size_t)a->nfree, sizeof d, ascending) != NULL; }

// ---- renaming: digit u, followed by v if v >= 0, becomes digit w. If u is NUMBER, the number 0 below w's extent becomes w ----

enum { NUMBER = -1 };
struct renaming {
  int u, v, w;
};

static const struct atom *rename_atom(struct prover *p, const struct atom *a, const struct renaming *r);

static struct monomial rename_monomial(struct prover *p, const struct monomial *m, const struct renaming *r)
{
  struct monomial x = *m;
  if (among(r->u, m->nbound, m->bound)) return x; // another digit of the same name
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
  if (!(r->u == NUMBER ? a->numbered : atom_has(a, r->u)) || !prove_step(p)) return a;
  struct subscript *at = NEWS(p->mem, struct subscript, a->nat + 1);
  for (int i = 0; i < a->nat; i++) at[i] = subscript_rename(p, a->at[i], r->u, r->v, r->w);
  x.at = at;
  for (int i = 0; i < 2 && a->f[i]; i++) x.f[i] = rename_form(p, a->f[i], r);
  return atom_make(p, x);
}

void monomial_rename(struct prover *p, struct monomial *m, int i)
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

struct monomial monomial_vary(struct prover *p, const struct monomial *m, int w) { return rename_monomial(p, m, &(struct renaming){NUMBER, -1, w}); }

struct monomial monomial_renew(struct prover *p, const struct monomial *m, int digit)
{
  return rename_monomial(p, m, &(struct renaming){digit, -1, digit});
}

// ---- merging bound digits ----

static bool is_whole(const struct prover *p, const struct verify_piece *x) { return x->extent == p->digits[x->digit].extent; }

// Whether v follows u, both whole, wherever u or v occurs free.
static bool side_by_side(const struct prover *p, const struct atom *a, int u, int v)
{
  for (int i = 0; i < a->nat; i++)
    for (int k = 0; k < a->at[i].n; k++) {
      const struct verify_piece *x = &a->at[i].p[k];
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

// The digit after the first free u in a. -1: u does not occur, or no digit follows.
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

// Positions at which parts of digit d in a begin and end, in units of d, ascending.
static void find_ends(const struct prover *p, struct ends *s, const struct atom *a, int d)
{
  for (int i = 0; i < a->nat; i++)
    for (int k = 0; k < a->at[i].n; k++) {
      const struct verify_piece *x = &a->at[i].p[k];
      if (x->digit == d && !is_whole(p, x)) add_end(s, x->div), add_end(s, x->div * x->extent);
    }
  for (int f = 0; f < 2 && a->f[f]; f++)
    for (int i = 0; i < a->f[f]->n; i++) {
      const struct monomial *m = &a->f[f]->m[i];
      for (int k = 0; k < m->nfactors && !among(d, m->nbound, m->bound); k++)
        if (atom_has(m->f[k].a, d)) find_ends(p, s, m->f[k].a, d);
    }
}

// Splits a digit of which only parts occur into several digits, if the parts nest.
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

void monomial_merge(struct prover *p, struct monomial *m)
{
  for (int i = 0; i < m->nbound && !p->why;) i = divide(p, m, i) ? 0 : i + 1;
  for (int i = 0; i < m->nbound && !p->why;) i = merge_pair(p, m, m->bound[i], follower_in(m, m->bound[i])) ? 0 : i + 1;
}

bool monomial_binds(const struct monomial *m, const struct atom *a)
{
  for (int i = 0; i < m->nbound; i++)
    if (atom_has(a, m->bound[i])) return true;
  return false;
}
