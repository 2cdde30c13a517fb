// One random test: both graphs get the same field elements, and every element of every output is compared, as in the paper's section 5.2. Inputs are
// new for every test and different for every tensor. 1/0 is 0. This keeps the laws, but the theorem does not cover it, so such a test is repeated
// with another seed.
#include "base/rational.h"
#include "verify/proof.h"

#include <math.h>
#include <stdlib.h>

enum { REDRAWS = 16 };

// Compares both parts if both sides have a q part.
static bool agree(struct ffv x, struct ffv y) { return x.p == y.p && (x.q == y.q || ff_lost2(x, y)); }

static const int *outputs(struct arena *mem, const struct graph *g, int *n)
{
  int *outs = NEWS(mem, int, graph_outputs(g, NULL) + 1);
  *n = graph_outputs(g, outs);
  return outs;
}

static bool compare(struct arena *mem, const struct graph *g, void *const *x, void *const *y, struct verify_place *where)
{
  int n;
  const int *outs = outputs(mem, g, &n);
  for (int i = 0; i < n; i++) {
    const struct ffv *u = x[i], *v = y[i];
    int64_t size = shape_size(&g->tensors[outs[i]].shape);
    for (int64_t k = 0; k < size; k++)
      if (!agree(u[k], v[k])) return *where = (struct verify_place){i, k}, false;
  }
  return true;
}

static enum verdict run(struct arena *mem, const struct trial *t, struct field *F, uint64_t seed, struct verify_place *where, struct err *e)
{
  int nin = graph_inputs(t->a, NULL), nout = graph_outputs(t->a, NULL);
  void **in = NEWS(mem, void *, nin + 1), **x = NEWS(mem, void *, nout + 1), **y = NEWS(mem, void *, nout + 1);
  eval_random(mem, t->a, DOM_FIELD, F, seed, in);
  int s = eval_run_on(t->threads, mem, t->a, DOM_FIELD, F, in, x, t->stop, e);
  if (!s) s = eval_run_on(t->threads, mem, t->b, DOM_FIELD, F, in, y, t->stop, e);
  if (s) return BROKEN;
  bool same = compare(mem, t->a, x, y, where);
  return F->zero_divisions ? ZERO_DIVISOR : same ? SAME : DIFFERENT;
}

struct primes trial_primes(const struct trial *t, uint64_t seed) { return primes_draw(t->bits, hash_mix(seed, 0), t->nresidues, t->residues); }

enum verdict trial_run(const struct trial *t, uint64_t seed, struct verify_place *where, struct err *e)
{
  struct arena mem = {0};
  struct field F;
  field_open(&F, primes_draw(t->bits, seed, t->nresidues, t->residues), seed);
  F.opaque_max = t->opaque_max;
  enum verdict v = run(&mem, t, &F, seed, where, e);
  arena_close(&mem);
  return v;
}

// ---- numbers that must be quadratic residues of the primes ----

static void factors_of(struct trial *t, double c)
{
  if (!isfinite(c) || c == 0) return;
  struct rational r = rational_of(c);
  prime_factors(r.n, MOST_RESIDUES, t->residues, &t->nresidues);
  prime_factors(r.d, MOST_RESIDUES, t->residues, &t->nresidues);
}

static void residues_of(struct trial *t, const struct graph *g)
{
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    const struct op_row *row = &op_rows[n->op];
    if (n->sub) residues_of(t, n->sub);
    if (row->attrs & A_SCALAR) factors_of(t, n->a.scalar);
    if (row->flags & MEAN) factors_of(t, (double)(g->tensors[n->in[0]].shape.d[n->a.dim] * graph_iterations(g)));
  }
}

static int ascending(const void *x, const void *y)
{
  uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
  return (a > b) - (a < b);
}

void trial_residues(struct trial *t)
{
  t->nresidues = 0;
  residues_of(t, t->a), residues_of(t, t->b);
  qsort(t->residues, (size_t)t->nresidues, sizeof *t->residues, ascending); // if there are too many, the largest are omitted
}

uint64_t trial_seed(uint64_t seed, int i) { return hash_mix(seed, (uint64_t)i); }

struct series {
  const struct trial *t;
  uint64_t seed;
  int at; // number of the first test of this batch
  struct outcome {
    enum verdict v;
    struct verify_place where;
    struct err e;
  } * out;
};

static void one(void *arg, int i, int worker)
{
  (void)worker;
  struct series *s = arg;
  struct outcome *o = &s->out[i];
  o->v = ZERO_DIVISOR;
  for (int draw = 0; draw < REDRAWS && o->v == ZERO_DIVISOR; draw++)
    o->v = trial_run(s->t, hash_mix(trial_seed(s->seed, i + s->at), (uint64_t)draw), &o->where, &o->e);
}

// Runs tests in batches, so a difference that is found early ends the series. The first difference counts, whichever thread found it.
enum verdict trial_many(const struct trial *t, int n, uint64_t seed, int threads, int *passed, struct verify_place *where, struct err *e)
{
  struct arena mem = {0};
  enum { BATCH = 64 };
  struct series s = {t, seed, 0, NEWS(&mem, struct outcome, BATCH)};
  enum verdict v = SAME;
  *passed = 0;
  for (int at = 0; at < n && v == SAME;) {
    int m = MIN(at ? BATCH : 1, n - at);
    s.at = at;
    pool_run(threads, m, one, &s);
    at += m;
    for (int i = 0; i < m && v == SAME; i++) {
      v = s.out[i].v;
      if (v == SAME)
        ++*passed;
      else
        *where = s.out[i].where, *e = v == BROKEN ? s.out[i].e : *e;
    }
  }
  arena_close(&mem);
  return v;
}

// "output 1 (O) differs at [0, 3, 2]"
void place_text(char out[160], const struct graph *g, const struct verify_place *w)
{
  struct arena mem = {0};
  int n;
  const struct tensor *t = &g->tensors[outputs(&mem, g, &n)[w->output]];
  arena_close(&mem);
  struct shape at = t->shape;
  int64_t rest = w->index;
  for (int d = at.n - 1; d >= 0; d--) at.d[d] = rest % t->shape.d[d], rest /= t->shape.d[d];
  char index[128];
  shape_text(index, &at);
  if (t->name)
    snprintf(out, 160, "output %d (%.30s) differs at %.60s", w->output + 1, t->name, index);
  else
    snprintf(out, 160, "output %d differs at %.90s", w->output + 1, index);
}
