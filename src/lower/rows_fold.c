// Folds of rows.h: first the registers of a thread, the vector last since that leaves several chains, then lanes by shuffles,
// then warps through shared memory. The folds of one stage go together: one barrier for all. What lies past an extent is
// set to what changes nothing before.
#include "lower/rows.h"

#include <string.h>

const char *row_binary(enum kern_kind kind) { return kind == KERN_SUM ? "+" : kind == KERN_MAX ? "max" : "*"; }
const char *row_neutral(enum kern_kind kind) { return kind == KERN_SUM ? "0.0" : kind == KERN_MAX ? "-inf" : "1.0"; }

// Operators that make 0 of zeros.
// Is value i 0 where it lies past the axis? Loads are until a maximum has masked them, and what keeps zeros.
static bool zero_outside(const struct row_text *x, int i, int axis)
{
  const struct kern_value *v = &x->p->r->k.v[i];
  bool keeps = v->kind == KERN_MAP ? kern_op(v->op).flags & KEEPS_ZERO : v->kind == KERN_LOAD && v->axes >> axis & 1;
  for (int k = 0; k < v->nin; k++) keeps = keeps && zero_outside(x, v->in[k], axis);
  return keeps && !x->masked[i];
}

// Sets what lies past the extents of folded axes.
static void mask(struct row_text *x, const struct kern_value *v, const char *in)
{
  axis_set axes = x->p->r->k.v[v->in[0]].axes, past = 0;
  for (int a = 0; a < x->p->r->k.naxes; a++)
    if (v->folded >> a & 1 && row_overhangs(x->p, a) && !(v->kind == KERN_SUM && zero_outside(x, v->in[0], a))) past |= AXIS(a);
  if (!past) return;
  x->masked[v->in[0]] |= v->kind != KERN_SUM;
  bool vec = x->p->vec > 1;
  row_each_open(x, axes);
  text_open(&x->t, "if (!(%s))", row_inside(x, past));
  int width = vec && row_has_vec(x, axes) ? x->p->vec : 1;
  text_line(&x->t, "%%%s%s <- Init<%s><<<#grid, #me>>>()", in, row_at(x, axes, width, "0"), row_neutral(v->kind));
  text_close(&x->t);
  row_each_close(x, axes);
}

void row_fold_threads(struct row_text *x, int value, const char *out, bool keep_vector)
{
  const struct kern_value *v = &x->p->r->k.v[value];
  const char *in = row_name(x, v->in[0]), *op = row_binary(v->kind);
  text_about(&x->t, v->about - 1);
  axis_set before = x->p->r->k.v[v->in[0]].axes;
  bool vec = row_has_vec(x, v->folded) && x->p->vec > 1, regs = false;
  for (int a = 0; a < x->p->r->k.naxes; a++) regs |= v->folded >> a & 1 && x->p->regs[a] > 1;
  mask(x, v, in);
  if (regs && vec && !keep_vector) {
    const char *columns = arena_printf(x->mem, "columns%d", value);
    text_line(&x->t, "%%%s:[%s].fp32.RF", columns, row_dims(x, v->axes, row_has_vec(x, before)));
    text_line(&x->t, "%%%s <- Reduction<%s><<<#grid, #me>>>(%%%s)", columns, op, in);
    in = columns;
  }
  if (regs || (vec && !keep_vector))
    text_line(&x->t, "%%%s <- Reduction<%s><<<#grid, #me>>>(%%%s)", out, op, in);
  else
    text_line(&x->t, "%%%s <- Move<<<#grid, #me>>>(%%%s)", out, in);
}

// ---- over threads ----

// Places of the parts of one fold in shared memory: `kept` of them side by side, each of `parts` parts.
struct exchange {
  int kept, parts;
  const char *at, *part, *first; // the executing thread's, and the condition of being the one lane that has it
};

static const char *term(const struct row_text *x, const char *s, char what, int axis, int scale)
{
  return row_term(x, s, arena_printf(x->mem, "@%c%d", what, axis), scale);
}

static struct exchange exchange_of(const struct row_text *x, const struct kern_value *v)
{
  const struct row_plan *p = x->p;
  struct exchange e = {1, 1, "", "", ""};
  for (int a = 0; a < p->r->k.naxes; a++) {
    bool folded = v->folded >> a & 1;
    if (folded && p->lanes[a] > 1) e.first = arena_printf(x->mem, "%s%s@l%d == 0", e.first, *e.first ? " && " : "", a);
    if (!folded && p->lanes[a] > 1) e.at = term(x, e.at, 'l', a, e.kept), e.kept *= p->lanes[a];
    if (p->warps[a] == 1) continue;
    if (folded)
      e.part = term(x, e.part, 'w', a, e.parts), e.parts *= p->warps[a];
    else
      e.at = term(x, e.at, 'w', a, e.kept), e.kept *= p->warps[a];
  }
  if (!*e.at) e.at = "0";
  return e;
}

// Indices of the first of the register dimensions.
static const char *zeros(const struct row_text *x)
{
  const char *s = "";
  for (int a = 0; a < x->p->r->k.naxes; a++)
    if (x->p->regs[a] > 1) s = arena_printf(x->mem, "%s, 0", s);
  return x->p->vec > 1 ? arena_printf(x->mem, "%s, 0", s) : s;
}

static void send(struct row_text *x, int value, int shared, const struct exchange *e)
{
  const struct kern_value *v = &x->p->r->k.v[value];
  bool scalar = row_regs(x->p, v->axes) == 1;
  const char *dims = row_dims(x, v->axes, row_has_vec(x, v->axes));
  text_about(&x->t, v->about - 1);
  if (scalar)
    text_line(&x->t, "%%sh%d:[%d, %d].fp32.SH", shared, e->kept, e->parts);
  else
    text_line(&x->t, "%%sh%d:[%d,%s].fp32.SH", shared, e->kept * e->parts, dims);
  if (*e->first) text_open(&x->t, "if (%s)", e->first);
  if (scalar)
    text_line(&x->t, "%%sh%d.tile([1, 1])[%s, %s] <- Move<<<#grid, #me>>>(%%v%d)", shared, e->at, e->part, value);
  else
    text_line(&x->t, "%%sh%d.tile([1,%s])[(%s) * %d + %s%s] <- Move<<<#grid, #me>>>(%%v%d)", shared, dims, e->part, e->kept, e->at, zeros(x), value);
  if (*e->first) text_close(&x->t);
}

static void receive(struct row_text *x, int value, int shared, const struct exchange *e)
{
  const struct kern_value *v = &x->p->r->k.v[value];
  bool vec = row_has_vec(x, v->axes);
  const char *dims = row_dims(x, v->axes, vec), *op = row_binary(v->kind);
  text_about(&x->t, v->about - 1);
  if (row_regs(x->p, v->axes) == 1) {
    text_line(&x->t, "%%parts%d:[%s,%d].fp32.RF", shared, dims, e->parts);
    text_line(&x->t, "%%parts%d <- Move<<<#grid, #me>>>(%%sh%d.tile([1, %d])[%s, 0])", shared, shared, e->parts, e->at);
    text_line(&x->t, "%%v%d <- Reduction<%s><<<#grid, #me>>>(%%parts%d)", value, op, shared);
    return;
  }
  text_line(&x->t, "%%parts%d:[%s].fp32.RF", shared, dims);
  text_line(&x->t, "%%v%d <- Init<%s><<<#grid, #me>>>()", value, row_neutral(v->kind));
  text_open(&x->t, "for (w = 0; w < %d; w += 1) unroll", e->parts);
  text_line(&x->t, "%%parts%d <- Move<<<#grid, #me>>>(%%sh%d.tile([1,%s])[w * %d + %s%s])", shared, shared, dims, e->kept, e->at, zeros(x));
  text_line(&x->t, "%%v%d <- BinaryPointwise<%s><<<#grid, #me>>>(%%v%d, %%parts%d)", value, op, value, shared);
  text_close(&x->t);
}

void row_fold_across(struct row_text *x, int n, const int *values, bool again)
{
  const struct row_plan *p = x->p;
  struct exchange *e = NEWS(x->mem, struct exchange, n + 1);
  int first = x->fresh, many = 0;
  for (int i = 0; i < n; i++) {
    const struct kern_value *v = &p->r->k.v[values[i]];
    text_about(&x->t, v->about - 1);
    for (int a = 0; a < p->r->k.naxes; a++)
      if (v->folded >> a & 1 && p->lanes[a] > 1)
        text_line(&x->t, "%%v%d <- Reduction<%s><<<#grid, #lanes%d>>>(%%v%d)", values[i], row_binary(v->kind), a, values[i]);
    e[i] = exchange_of(x, v);
    many += e[i].parts > 1;
  }
  text_about(&x->t, -1);
  if (!many) return;
  for (int i = 0; i < n; i++)
    if (e[i].parts > 1) send(x, values[i], x->fresh++, &e[i]);
  text_about(&x->t, -1);
  text_line(&x->t, "Sync<barrier><<<#grid, #%s>>>()", x->team);
  for (int i = 0; i < n; i++)
    if (e[i].parts > 1) receive(x, values[i], first++, &e[i]);
  text_about(&x->t, -1);
  if (again) text_line(&x->t, "Sync<barrier><<<#grid, #%s>>>()", x->team);
}
