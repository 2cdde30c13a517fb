// Folds of rows.h. First the registers of a thread are folded, its vector last, because that leaves several independent chains. Then lanes by
// shuffles, then warps through shared memory. The folds of one stage share one barrier. Elements beyond an extent are set to the neutral value first.
#include "lower/rows.h"

#include <string.h>

bool row_exponential(const struct kern_value *v) { return v->kind == KERN_MAP && (v->op == OP_EXP || (v->op == KERN_EXP2 && v->a.scalar > 0)); }

// Whether the value is an exponential of x - max(x), where the maximum has set x to -inf beyond the extent of the axis.
static bool exponential_outside(const struct row_text *x, const struct kern_value *v, int axis)
{
  const struct rows *r = x->p->r;
  const struct kern_value *less = v->nin ? &r->k.v[v->in[0]] : NULL;
  if (!row_exponential(v)) return false;
  if (less->kind != KERN_MAP || less->op != OP_SUB || x->p->rounds) return false; // a round may load x again
  const struct kern_value *most = &r->k.v[less->in[1]];
  const int low = x->low[less->in[0]];
  return most->kind == KERN_MAX && most->in[0] == less->in[0] && most->folded >> axis & 1 && low && r->life[v->in[0]].stage >= low - 1;
}

// Whether value i is 0 beyond the extent of the axis. Loads are, unless a maximum has masked them, and so are operators that keep zeros.
static bool zero_outside(const struct row_text *x, int i, int axis)
{
  const struct kern_value *v = &x->p->r->k.v[i];
  if (v->kind == KERN_CHOSEN) return v->axes >> axis & 1 && !x->masked[i];
  if (exponential_outside(x, v, axis)) return !x->masked[i];
  if (x->p->anywhere && axis == x->p->role.across) return false; // vectors have elements of other rows
  bool keeps = v->kind == KERN_MAP ? kern_op(v->op).flags & KEEPS_ZERO : v->kind == KERN_LOAD && v->axes >> axis & 1;
  for (int k = 0; k < v->nin; k++) keeps = keeps && zero_outside(x, v->in[k], axis);
  return keeps && !x->masked[i];
}

// Sets elements beyond the extents of folded axes to the neutral value.
static void mask(struct row_text *x, int value, const char *in)
{
  const struct kern_value *v = &x->p->r->k.v[value];
  axis_set axes = x->p->r->k.v[v->in[0]].axes, past = 0;
  EACH_AXIS(a, v->folded)
    if (row_overhangs(x->p, a) && !(v->kind == KERN_SUM && zero_outside(x, v->in[0], a))) past |= AXIS(a);
  if (!past) return;
  x->masked[v->in[0]] |= v->kind != KERN_SUM;
  x->low[v->in[0]] = v->kind == KERN_MAX ? x->p->r->life[value].stage + 1 : 0;
  const bool anywhere = x->p->anywhere && past >> x->p->role.across & 1;
  if (anywhere) row_anywhere_mask(x, axes, in, fold_neutral(v->kind));
  TEXT_SCOPE(&x->t);
  int width = row_has_vec(x, axes) ? x->p->vec : 1;
  if (anywhere && past == AXIS(x->p->role.across)) x->from = row_reaching(x->p), x->to = x->p->regs[x->p->role.across];
  row_each_open(x, axes, arena_printf(x->mem, "!(%s)", row_inside(x, past)));
  x->to = 0;
  text_fill(&x->t, "%$in$at <- Init<$neutral>()",
            HOLES(NULL, STR(in, in), STR(at, row_at(x, axes, width, "0")), STR(neutral, fold_neutral(v->kind))));
}

void row_fold_threads(struct row_text *x, int value, const char *out, bool keep_vector)
{
  const struct kern_value *v = &x->p->r->k.v[value];
  const char *in = row_name(x, v->in[0]);
  text_about(&x->t, v->about);
  axis_set before = x->p->r->k.v[v->in[0]].axes;
  bool vec = row_has_vec(x, v->folded) && x->p->vec > 1, regs = false;
  EACH_AXIS(a, v->folded) regs |= x->p->regs[a] > 1;
  mask(x, value, in);
  const struct hole *holes =
      HOLES(NULL, INT(i, value), STR(out, out), STR(in, in), STR(op, fold_operator(v->kind)), INT(twice, regs && vec && !keep_vector),
            INT(once, regs || (vec && !keep_vector)), STR(dims, row_dims(x, v->axes, row_has_vec(x, before))));
  text_fill(&x->t,
            "?twice %columns$i:[$dims].fp32.RF <- Reduction<$op>(%$in)\n"
            "?twice %$out <- Reduction<$op>(%columns$i)\n"
            "?!twice ?once %$out <- Reduction<$op>(%$in)\n"
            "?!once %$out <- Move(%$in)",
            holes);
}

// ---- over threads ----

void row_fold_across(struct row_text *x, int n, const int *values, bool again)
{
  const struct row_plan *p = x->p;
  for (int i = 0; i < n; i++) {
    const struct kern_value *v = &p->r->k.v[values[i]];
    text_about(&x->t, v->about);
    EACH_AXIS(a, v->folded)
      if (p->lanes[a] > 1)
        text_fill(&x->t, "%v$v <- Reduction<$op>#lanes$a(%v$v)", HOLES(NULL, INT(v, values[i]), STR(op, fold_operator(v->kind)), INT(a, a)));
  }
  text_about(&x->t, 0);
  row_fold_parts(x, n, values, false, again);
  row_fold_parts(x, n, values, true, false);
}
