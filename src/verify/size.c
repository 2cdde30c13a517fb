// Bounds the error probability of one test. The theorem on exponentials (paper, section 5.1, with the bound of its later version: at most 8dk^4/q +
// q^(-1/k^2) a test) needs k, the number of different exponentials in the cross-multiplied difference of two outputs, and d, the largest degree of
// its polynomials. Both are bounded from above here by arithmetic on sizes of sums. Without exponentials the error is d/p (Schwartz, Zippel). A
// square root r of s is a new variable with r^2 = s of either sign. The norm over the m roots of an element has at most 2^m times the degree and 2^m
// factors, which gives 4^m. Arguments of unknown functions must not collide: one term d/p for each pair.
#include "verify/value.h"

#include <math.h>

struct size size_add(struct size x, struct size y) { return (struct size){x.h > 0 || y.h > 0 ? x.k + y.k : 1, MAX(x.d, y.d), MAX(x.h, y.h)}; }
struct size size_mul(struct size x, struct size y) { return (struct size){x.k * y.k, x.d + y.d, x.h + y.h}; }
struct size size_power(struct size x, double n) { return (struct size){pow(x.k, n), x.d * n, x.h * n}; }

struct value value_atom(double degree) { return (struct value){.num = {1, degree, 0}}; }

static void gap(struct bounder *b, const char *why)
{
  if (!b->out->gap) b->out->gap = why;
}

static struct den *find(struct value *v, int id, unsigned mask)
{
  for (int i = 0; i < v->ndens; i++)
    if (v->den[i].id == id && v->den[i].mask == mask) return &v->den[i];
  return NULL;
}

static void divide(struct bounder *b, struct value *v, struct den d)
{
  struct den *old = find(v, d.id, d.mask);
  if (old)
    old->power += d.power;
  else if (v->ndens < DENS)
    v->den[v->ndens++] = d;
  else
    gap(b, "too many different denominators");
}

static void add_root(struct bounder *b, struct value *v, struct root r)
{
  for (int i = 0; i < v->nroots; i++)
    if (v->root[i].id == r.id && v->root[i].mask == r.mask) {
      v->root[i].count = MAX(v->root[i].count, r.count);
      return;
    }
  if (v->nroots < ROOTS)
    v->root[v->nroots++] = r;
  else
    gap(b, "too many different square roots");
}

static void add_roots(struct bounder *b, struct value *v, const struct value *from)
{
  for (int i = 0; i < from->nroots; i++) add_root(b, v, from->root[i]);
}

struct size value_dens(const struct value *x)
{
  struct size s = {1, 0, 0};
  for (int i = 0; i < x->ndens; i++) s = size_mul(s, size_power(x->den[i].one, x->den[i].power));
  return s;
}

double value_roots(const struct value *x)
{
  double n = 0;
  for (int i = 0; i < x->nroots; i++) n += x->root[i].count;
  return n;
}

// Puts both over the least common denominator. *nx and *ny get the new numerators.
static struct value common(struct bounder *b, const struct value *x, const struct value *y, struct size *nx, struct size *ny)
{
  struct value r = *x;
  r.id = 0, *nx = x->num, *ny = y->num;
  for (int i = 0; i < y->ndens; i++) {
    struct den d = y->den[i], *old = find(&r, d.id, d.mask);
    double more = d.power - (old ? old->power : 0);
    if (more <= 0) continue;
    *nx = size_mul(*nx, size_power(d.one, more));
    d.power = more;
    divide(b, &r, d);
  }
  for (int i = 0; i < r.ndens; i++) {
    const struct den *old = find((struct value *)y, r.den[i].id, r.den[i].mask);
    *ny = size_mul(*ny, size_power(r.den[i].one, r.den[i].power - (old ? old->power : 0)));
  }
  add_roots(b, &r, y);
  return r;
}

struct value value_add(struct bounder *b, const struct value *x, const struct value *y)
{
  struct size nx, ny;
  struct value r = common(b, x, y, &nx, &ny);
  r.num = size_add(nx, ny);
  return r;
}

struct value value_either(struct bounder *b, const struct value *x, const struct value *y)
{
  struct size nx, ny;
  struct value r = common(b, x, y, &nx, &ny);
  r.num = (struct size){MAX(nx.k, ny.k), MAX(nx.d, ny.d), MAX(nx.h, ny.h)};
  return r;
}

struct value value_mul(struct bounder *b, const struct value *x, const struct value *y)
{
  struct value r = *x;
  r.id = 0, r.num = size_mul(x->num, y->num);
  for (int i = 0; i < y->ndens; i++) divide(b, &r, y->den[i]);
  add_roots(b, &r, y);
  return r;
}

struct value value_div(struct bounder *b, const struct value *x, const struct value *y, unsigned mask)
{
  struct value r = *x;
  r.id = 0, r.num = size_mul(x->num, value_dens(y));
  divide(b, &r, (struct den){y->id, mask, 1, y->num});
  add_roots(b, &r, y);
  return r;
}

static bool has_exps(const struct value *x) { return x->num.h > 0 || value_dens(x).h > 0; }
static double degree(const struct value *x) { return x->num.d + value_dens(x).d; }

struct value value_exp(struct bounder *b, const struct value *x)
{
  if (has_exps(x)) gap(b, "an exponential of an exponential");
  b->out->exps = true;
  struct value r = {.num = {1, 0, MAX(1, degree(x))}};
  add_roots(b, &r, x);
  return r;
}

struct value value_sqrt(struct bounder *b, const struct value *x, unsigned mask)
{
  if (has_exps(x)) gap(b, "a square root of an exponential");
  b->out->nested |= x->nroots > 0;
  struct value r = *x;
  r.id = 0, r.num = (struct size){1, degree(x), 0};
  add_root(b, &r, (struct root){x->id ? x->id : ++b->ids, mask, 1});
  return r;
}

struct value value_opaque(struct bounder *b, const struct value *x, double times)
{
  if (has_exps(x)) gap(b, "a function without laws of an exponential");
  b->out->inner = MAX(b->out->inner, 2 * MAX(1, degree(x)) * pow(4, 2 * value_roots(x)));
  b->out->pairs += times; // number of applications; size_pair computes pairs from it
  return value_atom(1);
}

struct value value_sum(struct bounder *b, const struct value *x, int bit, double n, bool keep)
{
  struct value r = *x;
  unsigned m = 1u << bit;
  r.id = 0;
  for (int i = 0; i < r.ndens; i++) {
    struct den *d = &r.den[i];
    if (!(d->mask & m) || n == 1) continue;
    r.num = size_mul(r.num, size_power(d->one, d->power * (n - 1)));
    d->one = size_power(d->one, n), d->id = ++b->ids;
  }
  for (int i = 0; i < r.nroots; i++)
    if (r.root[i].mask & m && n > 1) r.root[i].count *= n, r.root[i].id = ++b->ids;
  for (int i = 0; i < r.ndens && !keep; i++) r.den[i].mask &= ~m;
  for (int i = 0; i < r.nroots && !keep; i++) r.root[i].mask &= ~m;
  if (r.num.h > 0) r.num.k *= n;
  return r;
}

double size_error(const struct bound *b, uint64_t p, uint64_t q)
{
  double d = MAX(1, MAX(b->diff.d, b->diff.h)), k = b->diff.k, roots = pow(4, b->roots);
  double collide = b->pairs * b->inner / (double)p;
  double e = roots * d / (double)p;
  if (b->exps) e = roots * 8 * d * k * k * k * k / (double)q + pow((double)q, -1 / (k * k));
  e += collide;
  return b->gap || !(e < 1) ? 1 : e;
}
