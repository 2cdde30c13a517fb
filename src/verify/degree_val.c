// Arithmetic on upper bounds. Denominators are kept as factors with an identity, so that a sum of quotients with one
// common denominator keeps it (softmax times a matrix), and only truly different ones multiply.
#include "verify/degree.h"

#include <math.h>

struct val val_fresh(double d) { return (struct val){.k = 1, .d = d, .covered = true}; }

bool val_lost(const struct val *x)
{
  bool exp = x->exp;
  for (int i = 0; i < x->nf; i++) exp |= x->f[i].exp;
  return exp;
}

static double power(double base, double n) { return base <= 1 ? 1 : MIN(pow(base, n), HUGE_COUNT); }

static struct factor *find(struct factor *f, int n, const struct factor *like)
{
  for (int i = 0; i < n; i++)
    if (f[i].id == like->id && f[i].vary == like->vary) return &f[i];
  return NULL;
}

static void append(struct val *x, bool root, const struct factor *f)
{
  int *n = root ? &x->nr : &x->nf;
  if (*n == MAX_FACTORS) x->covered = false;
  else (root ? x->r : x->f)[(*n)++] = *f;
}

static void merge_roots(struct val *x, const struct val *y)
{
  for (int i = 0; i < y->nr; i++) {
    struct factor *same = find(x->r, x->nr, &y->r[i]);
    if (same) same->count = MAX(same->count, y->r[i].count);
    else append(x, true, &y->r[i]);
  }
}

// The numerator times `count` elements of f.
static void times(struct val *x, const struct factor *f, double count)
{
  if (count <= 0) return;
  x->k = MIN(x->k * power(f->k, count), HUGE_COUNT);
  x->d += f->d * count, x->ed += f->ed * count;
  if (f->exp) x->exp = true, x->vary |= f->vary;
}

// Brings x over the least common denominator of x and y.
static struct val extended(const struct val *x, const struct val *y)
{
  struct val r = *x;
  for (int i = 0; i < y->nf; i++) {
    struct factor *same = find(r.f, r.nf, &y->f[i]);
    double missing = y->f[i].count - (same ? same->count : 0);
    times(&r, &y->f[i], missing);
    if (!same) append(&r, false, &y->f[i]);
    else same->count = MAX(same->count, y->f[i].count);
  }
  return r;
}

static struct val joined(const struct val *x, const struct val *y, bool both)
{
  struct val a = extended(x, y), b = extended(y, x);
  merge_roots(&a, &b);
  a.exp |= b.exp, a.covered &= b.covered;
  a.k = !a.exp ? 1 : both ? a.k + b.k : MAX(a.k, b.k);
  a.d = MAX(a.d, b.d), a.ed = MAX(a.ed, b.ed), a.vary |= b.vary;
  return a;
}
struct val val_add(const struct val *x, const struct val *y) { return joined(x, y, true); }
struct val val_either(const struct val *x, const struct val *y) { return joined(x, y, false); }

struct val val_mul(const struct val *x, const struct val *y)
{
  struct val r = *x;
  r.k = MIN(r.k * y->k, HUGE_COUNT), r.d += y->d, r.ed += y->ed;
  r.exp |= y->exp, r.covered &= y->covered, r.vary |= y->vary;
  for (int i = 0; i < y->nf; i++) {
    struct factor *same = find(r.f, r.nf, &y->f[i]);
    if (same) same->count += y->f[i].count;
    else append(&r, false, &y->f[i]);
  }
  merge_roots(&r, y);
  return r;
}

struct val val_inverse(const struct val *y, uint64_t id, unsigned vary)
{
  struct val r = val_fresh(0);
  r.covered = y->covered;
  for (int i = 0; i < y->nf; i++) times(&r, &y->f[i], y->f[i].count);
  append(&r, false, &(struct factor){id, vary, 1, y->k, y->d, y->ed, y->exp});
  merge_roots(&r, y);
  return r;
}

static double denominator_degree(const struct val *x)
{
  double d = 0;
  for (int i = 0; i < x->nf; i++) d += x->f[i].d * x->f[i].count;
  return d;
}

struct val val_exp(const struct val *x, unsigned vary)
{
  struct val r = val_fresh(0);
  r.exp = true, r.vary = vary, r.covered = x->covered && !val_lost(x);
  r.ed = MAX(x->d, denominator_degree(x));
  merge_roots(&r, x);
  return r;
}

struct val val_root(const struct val *x, uint64_t id, unsigned vary)
{
  struct val r = val_fresh(MAX(x->d, denominator_degree(x)));
  r.covered = x->covered && !val_lost(x);
  merge_roots(&r, x);
  append(&r, true, &(struct factor){.id = id, .vary = vary, .count = 1});
  return r;
}

struct val val_sum(const struct val *x, double n, unsigned along)
{
  struct val r = *x;
  if (n <= 1) return r;
  for (int i = 0; i < r.nf; i++) {
    struct factor *f = &r.f[i];
    if (!(f->vary & along)) continue;
    times(&r, f, (n - 1) * f->count);
    f->count *= n;
  }
  for (int i = 0; i < r.nr; i++)
    if (r.r[i].vary & along) r.r[i].count *= n;
  if (r.exp && (r.vary & along)) r.k = MIN(r.k * n, HUGE_COUNT);
  val_rename(&r, along, hash_mix(along, (uint64_t)n));
  r.vary &= ~along;
  for (int i = 0; i < r.nf; i++) r.f[i].vary &= ~along;
  for (int i = 0; i < r.nr; i++) r.r[i].vary &= ~along;
  return r;
}

void val_rename(struct val *x, unsigned dims, uint64_t with)
{
  for (int i = 0; i < x->nf; i++)
    if (!dims || (x->f[i].vary & dims)) x->f[i].id = hash_mix(x->f[i].id, with);
  for (int i = 0; i < x->nr; i++)
    if (!dims || (x->r[i].vary & dims)) x->r[i].id = hash_mix(x->r[i].id, with);
}

void val_vary(struct val *x, unsigned (*to)(const void *arg, unsigned vary), const void *arg)
{
  x->vary = to(arg, x->vary);
  for (int i = 0; i < x->nf; i++) x->f[i].vary = to(arg, x->f[i].vary);
  for (int i = 0; i < x->nr; i++) x->r[i].vary = to(arg, x->r[i].vary);
}

struct measure val_measure(const struct val *x)
{
  struct measure m = {x->k, x->d, 1, denominator_degree(x), x->ed, 0, val_lost(x), x->covered};
  for (int i = 0; i < x->nf; i++) m.dk = MIN(m.dk * power(x->f[i].k, x->f[i].count), HUGE_COUNT), m.ed += x->f[i].ed * x->f[i].count;
  for (int i = 0; i < x->nr; i++) m.roots += x->r[i].count;
  return m;
}
