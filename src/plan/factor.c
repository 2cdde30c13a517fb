// Factors of rescaled tensors: reuses them, views them, passes them between kernels, and brings parts with different maxima to a common maximum. The
// last is the step of FlashAttention and FlashDecoding (paper, section 3): sum_g o_g exp(m_g - M) with M = max_g m_g.
#include "plan/stable.h"

#include <string.h>

int give_up(struct site *s, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(s->a->why, sizeof s->a->why, fmt, ap);
  va_end(ap);
  return NO;
}

int site_add(struct site *s, enum op op, int nin, const int *in, const struct attrs *a, int *t)
{
  struct err e = {0};
  if (!graph_add(s->g, op, nin, in, a, s->at, t, &e)) return OK;
  return give_up(s, "%.150s", e.text);
}

int site_once(struct site *s, enum op op, int x, int y, const struct attrs *a, int *t)
{
  const struct attrs none = attrs_default(op);
  const int in[] = {x, y}, nin = y < 0 ? 1 : 2;
  if (!a) a = &none;
  for (int i = 0; i < s->g->nnodes; i++) {
    const struct node *n = &s->g->nodes[i];
    if (n->op != op || n->nin != nin || memcmp(n->in, in, sizeof *in * (size_t)nin) || !attrs_same(&n->a, a)) continue;
    return *t = n->out, OK;
  }
  return site_add(s, op, nin, in, a, t);
}

static const struct shape *shape_of(const struct site *s, int t) { return &s->g->tensors[t].shape; }

static const struct node *producer(const struct site *s, int t) { return &s->g->nodes[s->g->tensors[t].node]; }

int64_t factor_extent(const struct site *s, const struct scaled *x, int dim)
{
  const struct shape *f = shape_of(s, x->F);
  int k = dim - shape_of(s, x->t)->n + f->n;
  return k < 0 ? 1 : f->d[k];
}

bool factor_running(const struct site *s, int F) { return producer(s, F)->op == OP_ACCUM_MAX && producer(s, F)->out == F; }

// The tensor that F is a reshape of, seen through running maxima, which are counted.
static int root_of(const struct site *s, int F, int *running)
{
  for (*running = 0;; F = producer(s, F)->in[0]) {
    bool run = factor_running(s, F);
    if (!run && producer(s, F)->op != OP_RESHAPE) return F;
    *running += run;
  }
}

static struct shape without_leading_ones(const struct shape *s)
{
  struct shape r = {0};
  for (int i = 0; i < s->n; i++)
    if (r.n || s->d[i] != 1) r.d[r.n++] = s->d[i];
  return r;
}

bool factor_same(const struct site *s, int F, int G)
{
  int rf, rg;
  if (root_of(s, F, &rf) != root_of(s, G, &rg) || rf != rg) return false;
  struct shape f = without_leading_ones(shape_of(s, F)), g = without_leading_ones(shape_of(s, G));
  return shape_eq(&f, &g);
}

// ---- views ----

// A view of a running maximum is computed as the running maximum of the view, so that it has the same phase.
int factor_view(struct site *s, struct scaled *x, enum op op, const struct attrs *a)
{
  int F, source = x->F;
  bool run = factor_running(s, x->F);
  if (run) source = producer(s, x->F)->in[0];
  int status = site_once(s, op, source, -1, a, &F);
  if (!status && run) status = site_once(s, OP_ACCUM_MAX, F, -1, NULL, &F);
  x->F = F;
  return status;
}

static int reshape_to(struct site *s, struct scaled *x, const struct shape *to)
{
  struct attrs a = attrs_default(OP_RESHAPE);
  a.shape = *to;
  return shape_eq(shape_of(s, x->F), to) ? OK : factor_view(s, x, OP_RESHAPE, &a);
}

int factor_pad(struct site *s, struct scaled *x, int rank)
{
  const struct shape *f = shape_of(s, x->F);
  struct shape to = {.n = rank};
  for (int i = 0; i < rank; i++) to.d[i] = i < rank - f->n ? 1 : f->d[i - rank + f->n];
  return f->n >= rank ? OK : reshape_to(s, x, &to);
}

// The number of adjacent elements of dimensions i..j of `from`, seen as one, that share an element of F. 0 if it differs: F must have the outer
// dimensions whole, and the inner ones with extent 1.
static int64_t run_of(const struct shape *from, const int64_t *f, int i, int j)
{
  int64_t run = 1;
  bool inside = true; // all dimensions so far had extent 1
  for (int k = j; k >= i; k--) {
    if (from->d[k] == 1) continue;
    if (f[k] == 1 && inside)
      run *= from->d[k];
    else if (inside)
      run *= from->d[k] / f[k], inside = false;
    else if (f[k] != from->d[k])
      return 0;
  }
  return run;
}

int factor_reshape(struct site *s, struct scaled *x, const struct shape *from, const struct shape *to)
{
  int64_t f[MAX_DIMS];
  struct shape shape = {.n = to->n};
  for (int i = 0; i < from->n; i++) f[i] = factor_extent(s, x, i);
  for (int k = 0; k < to->n; k++) shape.d[k] = 1;
  for (int i = 0, k = 0; i < from->n && k < to->n;) {
    int i0 = i, k0 = k;
    int64_t a = from->d[i++], b = to->d[k++];
    while (a != b)
      if (a < b)
        a *= from->d[i++];
      else
        b *= to->d[k++];
    int64_t run = run_of(from, f, i0, i - 1);
    for (int d = k - 1; d >= k0 && run; d--) {
      int64_t n = to->d[d];
      if (run % n == 0)
        run /= n;
      else if (n % run == 0)
        shape.d[d] = n / run, run = 1;
      else
        run = 0;
    }
    if (!run) return give_up(s, "a reshape mixes the summed dimension with others");
  }
  return reshape_to(s, x, &shape);
}

// ---- boundaries between kernels ----

// The dimension of the factor that an axis divides if it divides dimension `dim` of the tensor, or REPLICA.
static int8_t cut(const struct site *up, const struct scaled *x, int8_t dim)
{
  int shift = shape_of(up, x->t)->n - shape_of(up, x->F)->n;
  return dim == REPLICA || factor_extent(up, x, dim) == 1 ? REPLICA : (int8_t)(dim - shift);
}

int factor_iter(struct site *s, const struct scaled *above, const struct attrs *a, struct scaled *x)
{
  const struct site *up = s->above;
  struct attrs b = *a;
  int k = 0;
  for (int i = 0; i < MAX_GRID; i++) b.imap[i] = cut(up, above, a->imap[i]);
  for (int i = 0; i < MAX_LOOPS; i++) b.fmap[i] = cut(up, above, a->fmap[i]);
  x->degree = above->degree, x->stored = true;
  for (int i = 0; i < s->g->nnodes; i++) {
    const struct node *n = &s->g->nodes[i];
    if (n->op != OP_ITER || s->from[k++] != above->F) continue;
    if (!memcmp(n->a.imap, b.imap, sizeof b.imap) && !memcmp(n->a.fmap, b.fmap, sizeof b.fmap)) return x->F = n->out, OK;
  }
  struct err e = {0};
  if (graph_iter(s->g, up->g, above->F, &b, s->at, &x->F, &e)) return give_up(s, "the maxima cannot be partitioned like the sums: %.100s", e.text);
  PUSH(s->a->mem, s->from, s->nfrom, s->from_cap) = above->F;
  return OK;
}

int factor_save(struct site *s, struct scaled *x, const int8_t *omap, int *extra)
{
  if (factor_pad(s, x, shape_of(s, x->t)->n)) return NO;
  for (*extra = 0; *extra < s->nextra; ++*extra) {
    const struct saver *o = &s->extra[*extra];
    if (!memcmp(o->omap, omap, sizeof o->omap) && shape_of(s, o->F)->n == shape_of(s, x->F)->n && factor_same(s, o->F, x->F)) return OK;
  }
  struct saver o = {.F = x->F};
  memcpy(o.omap, omap, sizeof o.omap);
  PUSH(s->a->mem, s->extra, s->nextra, s->extra_cap) = o;
  return OK;
}

// ---- common maxima ----

// Multiplies x by exp(F - G), where G is the new factor.
static int rescale(struct site *s, struct scaled *x, int G)
{
  int w;
  s->a->joined = true;
  if (site_once(s, OP_SUB, x->F, G, NULL, &w) || site_once(s, OP_EXP, w, -1, NULL, &w)) return NO;
  const struct shape *full = shape_of(s, x->t);
  for (int i = 0; i < full->n; i++) {
    int64_t f = factor_extent(s, x, i), n = shape_of(s, x->t)->d[i];
    struct attrs a = attrs_default(OP_REPEAT);
    a.dim = i - shape_of(s, x->t)->n + shape_of(s, w)->n, a.times = n / f;
    if (f != 1 && f != n && site_once(s, OP_REPEAT, w, -1, &a, &w)) return NO;
  }
  x->F = G;
  return site_add(s, OP_MUL, 2, (const int[]){x->t, w}, NULL, &x->t);
}

int factor_settle(struct site *s, struct scaled *x, int dim)
{
  if (!x->degree || factor_extent(s, x, dim) == 1) return OK;
  if (!x->stored) return give_up(s, "it is summed over elements with different maxima");
  if (x->degree != 1) return give_up(s, "it sums partial results that are not linear in it");
  struct attrs a = attrs_default(OP_MAX);
  int G;
  a.dim = dim - shape_of(s, x->t)->n + shape_of(s, x->F)->n;
  return site_once(s, OP_MAX, x->F, -1, &a, &G) ? NO : rescale(s, x, G);
}

int factor_settle_loop(struct site *s, struct scaled *x, int *f)
{
  if (x->degree != 1) return give_up(s, "a value that is not linear in it is accumulated");
  if (!factor_running(s, x->F)) {
    int G;
    if (!x->stored) return give_up(s, "it is accumulated over iterations with different maxima");
    if (site_once(s, OP_ACCUM_MAX, x->F, -1, NULL, &G) || rescale(s, x, G)) return NO;
  }
  return site_once(s, OP_EXP, x->F + 1, -1, NULL, f);
}
