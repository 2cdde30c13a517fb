// Two evaluations that find results which depend on the order of operations if there are infinities. Over the reals x (A B) is (x A) B, and generated
// code may compute either.
//
// DOM_MEETING: sums and matrix products in which infinities of both signs give no NaN. If A B has infinities in two rows, x (A B) may add inf to
// -inf, while (x A) B has one infinity. Here an infinity counts as a number larger than all others, so only NaN gives NaN. A result that differs
// from that of DOM_F64 depends on the order.
//
// DOM_APART: the opposite case. For an infinity in x, x (A B) may be an infinity, while (x A) B adds infinities of both signs. Here the
// product of an infinity and a sum is NaN.
#include "eval/run.h"

#include <math.h>

// LARGER stands for infinity: it is larger than any number of a dtype. Results from LEAST on have it as a factor or a term, and become infinite.
static const double LARGER = 0x1p500, LEAST = 0x1p300;

static void make_finite(double *x, int64_t n)
{
  for (int64_t i = 0; i < n; i++)
    if (isinf(x[i])) x[i] = copysign(LARGER, x[i]);
}

static void make_infinite(double *x, int64_t n)
{
  for (int64_t i = 0; i < n; i++)
    if (fabs(x[i]) >= LEAST) x[i] = copysign(INFINITY, x[i]);
}

static double *finite_copy(struct arena *mem, const void *x, int64_t n)
{
  double *copy = arena_copy(mem, x, sizeof(double) * (size_t)n);
  make_finite(copy, n);
  return copy;
}

void fold_meeting(struct field *F, enum op op, bool fresh, const struct fold *f, void *o, const void *x)
{
  struct arena mem = {0};
  const int64_t lines = f->outer * f->groups * f->inner;
  const double *from = finite_copy(&mem, x, lines * f->len);
  if (!fresh) make_finite(o, lines);
  domain_f64.fold(F, op, fresh, f, o, from);
  make_infinite(o, lines);
  arena_close(&mem);
}

void contract_meeting(struct field *F, enum op op, bool exps, int threads, stop_flag stop, struct eval_value o, struct eval_value x,
                      struct eval_value y)
{
  struct arena mem = {0};
  const int64_t n = shape_size(&o.s);
  x.p = (char *)finite_copy(&mem, x.p, shape_size(&x.s)), y.p = (char *)finite_copy(&mem, y.p, shape_size(&y.s));
  make_finite((double *)o.p, n);
  domain_f64.contract(F, op, exps, threads, stop, o, x, y);
  make_infinite((double *)o.p, n);
  arena_close(&mem);
}

// Is t a sum over whose terms a product may be distributed?
static bool is_sum(const struct graph *g, int t)
{
  const struct node *n = &g->nodes[g->tensors[t].node];
  const struct op_row *row = &op_rows[n->op];
  if (row->rule == RULE_CONTRACT || row->abstract == AE_ADD || row->abstract == AE_SUB) return true;
  return (row->rule == RULE_VIEW || row->abstract == AE_ACCUM || row->flags & SCALES) && is_sum(g, n->in[0]);
}

// A tensor of the shape of x, with NaN for infinities of x and 0 elsewhere; all 0 if `infinities` is false.
static struct eval_value marked(struct arena *mem, struct eval_value x, bool infinities)
{
  const int64_t n = shape_size(&x.s);
  double *mark = NEWS(mem, double, n + 1);
  for (int64_t i = 0; i < n && infinities; i++) mark[i] = isinf(((const double *)x.p)[i]) ? NAN : 0;
  return (struct eval_value){x.s, (char *)mark};
}

void contract_apart(const struct run *r, const struct graph *g, const struct node *n, int term, struct eval_value o, struct eval_value x,
                    struct eval_value y)
{
  struct arena mem = {0};
  const bool left = is_sum(g, n->in[n->nin / 2 + term]), right = is_sum(g, n->in[term]);
  if (left || right) domain_f64.contract(r->F, n->op, false, r->threads, r->stop, o, marked(&mem, x, left), marked(&mem, y, right));
  arena_close(&mem);
}
