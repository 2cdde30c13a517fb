// Sums and products of matrices in which infinities of both signs do not make NaN. Over the reals x (A B) is (x A) B, and code takes either. If
// A B has an infinity in two rows, the first may add inf to -inf where the second has one infinity. Here an infinity counts as a number that
// is larger than all others, so NaN comes of NaN alone, and what is not the same as with infinities depends on the order.
// The other way round, an infinity of x gives x (A B) an infinity, and (x A) B adds infinities of both signs. So there is an evaluation too in
// which an infinity makes NaN of its product with a sum.
#include "eval/run.h"

#include <math.h>

static const double LARGER = 0x1p500, LEAST = 0x1p300; // than any number of a dtype; of what has one of these as a factor or a term

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

// Is it a sum of what a product by it may be distributed over?
static bool is_sum(const struct graph *g, int t)
{
  const struct node *n = &g->nodes[g->tensors[t].node];
  const struct op_row *row = &op_rows[n->op];
  if (row->rule == RULE_CONTRACT || row->abstract == AE_ADD || row->abstract == AE_SUB) return true;
  return (row->rule == RULE_VIEW || row->abstract == AE_ACCUM || row->flags & SCALES) && is_sum(g, n->in[0]);
}

// NaN in place of infinities, and 0 in place of numbers, or 0 everywhere.
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
