// May running maxima be the final ones? Softmax over a loop takes exp(s - m) with the maximum m so far, and rescales what it
// has summed when m moves. That is exp(s - m) with the last m, if every varying tensor that m enters is a power of exp(m)
// times something free of it, and every accumulator of such a tensor is rescaled by the same power. This is checked here, by
// the power that each tensor has: rows.h then takes folds in any order, as it likes. Tensors after the loop have final maxima
// already.
#include "lower/rows.h"

#include <string.h>

struct power {                    // x = rest + add m, x = rest exp(deg m), or x = moved m's move; of maximum `of`
  int of;                         // node of the accum_max, -1: free of any
  double add, deg, moved, factor; // factor: exp(factor * how far the maximum moved)
};
static const struct power FREE = {.of = -1};

struct running {
  const struct norm *n;
  struct power *p; // by tensor
};

static bool is_free(const struct power *p) { return p->of < 0; }
static struct power settled(struct power p) { return p.add == 0 && p.deg == 0 && p.moved == 0 && p.factor == 0 ? FREE : p; }
static bool only_deg(const struct power *p) { return p->add == 0 && p->moved == 0 && p->factor == 0; }

static bool join(const struct power *x, const struct power *y, int *of)
{
  if (!is_free(x) && !is_free(y) && x->of != y->of) return false;
  *of = is_free(x) ? y->of : x->of;
  return true;
}

static bool two(enum op op, struct power x, struct power y, struct power *out)
{
  double sign = op == OP_SUB || op == OP_DIV ? -1 : 1;
  struct power p = FREE;
  if (!join(&x, &y, &p.of)) return false;
  if (is_free(&x) && is_free(&y)) return *out = FREE, true;
  if (op == OP_ADD || op == OP_SUB) {
    if (x.deg != y.deg || x.factor != 0 || y.factor != 0 || x.moved != 0 || y.moved != 0) return false;
    if (x.deg != 0 && (x.add != 0 || y.add != 0)) return false;
    p.add = x.add + sign * y.add, p.deg = x.deg;
  } else if (op == OP_MUL || op == OP_DIV) {
    if (!only_deg(&x) || !only_deg(&y)) return false;
    p.deg = x.deg + sign * y.deg;
  } else {
    return false;
  }
  return *out = settled(p), true;
}

// What n does to the power: c times it, where it is one of a power's.
static double times(const struct node *n)
{
  return n->op == OP_NEG ? -1 : n->op == OP_MUL_SCALAR ? n->a.scalar : n->op == OP_SQUARE ? 2 : n->op == OP_SQRT ? 0.5 : -0.5;
}

static bool one(const struct node *n, struct power x, struct power *out)
{
  struct power p = {.of = x.of};
  if (is_free(&x)) return *out = FREE, true;
  if (op_rows[n->op].flags & SCALES) {
    if (x.factor != 0) return false;
    p.add = times(n) * x.add, p.deg = x.deg, p.moved = times(n) * x.moved;
  } else if (n->op == OP_EXP) {
    if (x.deg != 0 || x.factor != 0) return false;
    p.deg = x.add, p.factor = x.moved;
  } else if (n->op == OP_SQUARE || n->op == OP_SQRT || n->op == OP_RSQRT) {
    if (!only_deg(&x)) return false;
    p.deg = times(n) * x.deg;
  } else if (n->op == OP_ADD_SCALAR) {
    if (x.deg != 0 || x.factor != 0 || x.moved != 0) return false;
    p = x;
  } else {
    return false;
  }
  return *out = settled(p), true;
}

// Does n fold a letter that the maximum has?
static bool folds_letters_of(const struct running *r, const struct node *n, int of)
{
  uint32_t folded = r->n->t[n->in[0]].has & ~r->n->t[n->out].has;
  return folded & r->n->t[r->n->block->nodes[of].out].has;
}

static bool folding(const struct running *r, const struct node *n, struct power x, struct power *out)
{
  *out = x;
  if (is_free(&x)) return true;
  return op_rows[n->op].abstract != AE_MAX && op_rows[n->op].abstract != AE_PROD && only_deg(&x) && !folds_letters_of(r, n, x.of);
}

static bool accumulator(const struct running *r, const struct node *n, struct power x)
{
  if (!(op_rows[n->op].flags & RESCALES)) return is_free(&x);
  struct power f = r->p[n->in[1]], made;
  if (is_free(&f)) // 1, or something that is no rescaling by a maximum
    return false;
  return !is_free(&x) && x.of == f.of && f.factor != 0 && f.deg == 0 && x.deg == -f.factor && folding(r, n, x, &made);
}

static bool one_node(struct running *r, int i)
{
  const struct node *n = &r->n->block->nodes[i];
  const struct tensor *t = r->n->block->tensors;
  struct power x = n->nin ? r->p[n->in[0]] : FREE, *out = &r->p[n->out];
  if (n->op == OP_ITER || n->op == OP_SAVE || n->op == OP_CONST) return n->op == OP_SAVE || (*out = FREE, true);
  if (n->op == OP_ACCUM_MAX) {
    out[0] = (struct power){.of = i, .add = 1}, out[1] = (struct power){.of = i, .moved = 1};
    return is_free(&x);
  }
  if (op_rows[n->op].rule == RULE_ACCUM) return *out = FREE, accumulator(r, n, x);
  if (t[n->out].phase == AFTER || t[n->out].phase == FIXED) {
    for (int k = 0; k < n->nout; k++) out[k] = FREE;
    return true;
  }
  if (op_rows[n->op].rule == RULE_VIEW) return *out = x, true;
  if (op_rows[n->op].rule == RULE_REDUCE) return folding(r, n, x, out);
  if (op_rows[n->op].rule != RULE_MAP) { // parts
    bool all = true;
    for (int k = 0; k < n->nin; k++) all = all && is_free(&r->p[n->in[k]]);
    for (int k = 0; k < n->nout; k++) out[k] = FREE;
    return all;
  }
  return n->nin == 2 ? two(n->op, x, r->p[n->in[1]], out) : one(n, x, out);
}

bool rows_running(struct arena *mem, const struct norm *n, char why[160])
{
  struct running r = {n, NEWS(mem, struct power, n->block->ntensors + 1)};
  for (int i = 0; i < n->block->nnodes; i++)
    if (!one_node(&r, i)) return snprintf(why, 160, "%s: depends on how a running maximum moves", op_rows[n->block->nodes[i].op].name), false;
  return true;
}
