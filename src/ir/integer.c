// Ranges of whole numbers. A tensor of an integer dtype, or computed from indices alone, has a range, which is inferred from the ranges of its
// operands. Kernels compute whole numbers in fp32, so a range beyond the numbers that are exact in fp32 is an error. A result that is not
// whole, such as a quotient, is f32.
#include "ir/ir.h"

#include <math.h>

struct operands {
  const struct graph *g;
  const struct node *n;
  struct whole_range x, y, z;
  int64_t terms; // number of terms of a sum
};

static struct whole_range between(double least, double most)
{
  const double far = 0x1p60;
  return (struct whole_range){(int64_t)fmax(-far, fmin(far, least)), (int64_t)fmax(-far, fmin(far, most)), false};
}

static struct whole_range hull(struct whole_range x, struct whole_range y)
{
  return (struct whole_range){MIN(x.least, y.least), MAX(x.most, y.most), false};
}

static struct whole_range corners(double a, double b, double c, double d)
{
  return between(fmin(fmin(a, b), fmin(c, d)), fmax(fmax(a, b), fmax(c, d)));
}

static struct whole_range times(struct whole_range x, struct whole_range y)
{
  const double a = (double)x.least, b = (double)x.most, c = (double)y.least, d = (double)y.most;
  return corners(a * c, a * d, b * c, b * d);
}

static const struct whole_range bit = {0, 1, false};

static bool is_whole(double c) { return c == rint(c) && fabs(c) <= WHOLE_MOST; }
static const struct tensor *operand(const struct operands *o, int i) { return &o->g->tensors[o->n->in[i]]; }

static bool keep(const struct operands *o, struct whole_range *r) { return *r = o->x, true; }
static bool pass(const struct operands *o, struct whole_range *r) { return *r = (struct whole_range){o->x.least, o->x.most, false}, true; }
static bool either(const struct operands *o, struct whole_range *r) { return *r = hull(o->x, o->y), true; }
static bool condition(const struct operands *o, struct whole_range *r) { return (void)o, *r = bit, true; }

static bool constant(const struct operands *o, struct whole_range *r)
{
  *r = between(o->n->a.scalar, o->n->a.scalar);
  return is_whole(o->n->a.scalar);
}

static bool numbers(const struct operands *o, struct whole_range *r)
{
  return *r = (struct whole_range){0, shape_size(&o->n->a.shape) - 1, true}, true;
}

static bool apart(const struct operands *o, int k);

// Is it a sum or difference of distinct numbers and a single number?
static bool still_distinct(const struct operands *o)
{
  bool x = shape_size(&operand(o, 0)->shape) == 1, y = shape_size(&operand(o, 1)->shape) == 1;
  return (apart(o, 0) && y) || (apart(o, 1) && x);
}

static bool plus(const struct operands *o, struct whole_range *r)
{
  return *r = (struct whole_range){o->x.least + o->y.least, o->x.most + o->y.most, still_distinct(o)}, true;
}
static bool minus(const struct operands *o, struct whole_range *r)
{
  return *r = (struct whole_range){o->x.least - o->y.most, o->x.most - o->y.least, still_distinct(o)}, true;
}
static bool product(const struct operands *o, struct whole_range *r) { return *r = times(o->x, o->y), true; }
static bool negative(const struct operands *o, struct whole_range *r)
{
  return *r = (struct whole_range){-o->x.most, -o->x.least, apart(o, 0)}, true;
}
static bool absolute(const struct operands *o, struct whole_range *r)
{
  *r = (struct whole_range){MAX(0, MAX(o->x.least, -o->x.most)), MAX(-o->x.least, o->x.most), false};
  return true;
}
static bool squared(const struct operands *o, struct whole_range *r)
{
  struct whole_range a;
  absolute(o, &a);
  return *r = times(a, a), true;
}
static bool smaller(const struct operands *o, struct whole_range *r)
{
  return *r = (struct whole_range){MIN(o->x.least, o->y.least), MIN(o->x.most, o->y.most), false}, true;
}
static bool larger(const struct operands *o, struct whole_range *r)
{
  return *r = (struct whole_range){MAX(o->x.least, o->y.least), MAX(o->x.most, o->y.most), false}, true;
}
static bool positive(const struct operands *o, struct whole_range *r)
{
  return *r = (struct whole_range){MAX(0, o->x.least), MAX(0, o->x.most), false}, true;
}
static bool scaled(const struct operands *o, struct whole_range *r)
{
  const double c = o->n->a.scalar;
  *r = times(o->x, between(c, c)), r->distinct = apart(o, 0) && c != 0;
  return is_whole(c);
}
static bool shifted(const struct operands *o, struct whole_range *r)
{
  const double c = o->n->a.scalar;
  *r = between((double)o->x.least + c, (double)o->x.most + c), r->distinct = apart(o, 0);
  return is_whole(c);
}
static bool limited(const struct operands *o, struct whole_range *r)
{
  const double lo = o->n->a.lo, hi = o->n->a.hi;
  *r = between(fmin(hi, fmax(lo, (double)o->x.least)), fmin(hi, fmax(lo, (double)o->x.most)));
  return (isinf(lo) || is_whole(lo)) && (isinf(hi) || is_whole(hi));
}
static bool masked(const struct operands *o, struct whole_range *r) { return *r = hull(times(o->x, o->y), (struct whole_range){0, 0, false}), true; }
static bool kept(const struct operands *o, struct whole_range *r)
{
  const double c = o->n->a.scalar;
  *r = hull(o->x, between(c, c));
  struct shape both;
  const struct shape *x = &operand(o, 0)->shape;
  const bool condition = o->y.least >= 0 && o->y.most <= 1 && shape_broadcast(x, &operand(o, 1)->shape, &both) && shape_eq(&both, x);
  r->distinct = o->x.distinct && o->x.least >= -1 && c == -1 && condition; // -1 marks dropped slices and may repeat
  return is_whole(c);
}
static bool chosen(const struct operands *o, struct whole_range *r) { return *r = hull(o->y, o->z), true; }
static bool summed(const struct operands *o, struct whole_range *r)
{
  const double n = (double)o->terms;
  return *r = between(n * (double)o->x.least, n * (double)o->x.most), true;
}
// Sums of one number, of two, and so on.
static bool scanned(const struct operands *o, struct whole_range *r)
{
  const struct whole_range one = o->x;
  summed(o, r);
  r->least = MIN(r->least, one.least), r->most = MAX(r->most, one.most);
  return true;
}
static bool quotient(const struct operands *o, struct whole_range *r)
{
  const double a = (double)o->x.least, b = (double)o->x.most, c = (double)o->y.least, d = (double)o->y.most;
  return *r = corners(floor(a / c), floor(a / d), floor(b / c), floor(b / d)), true;
}
static bool remainder_of(const struct operands *o, struct whole_range *r) { return *r = (struct whole_range){0, o->y.most - 1, false}, true; }
static bool position(const struct operands *o, struct whole_range *r)
{
  return *r = (struct whole_range){0, operand(o, 0)->shape.d[o->n->a.dim] - 1, false}, true;
}

// The range of an operator whose results are whole for any operands.
static bool converted(const struct operands *o, struct whole_range *r) { return *r = between(o->n->a.lo, o->n->a.hi), true; }

static bool none(const struct operands *o, struct whole_range *r) { return (void)o, (void)r, false; }

static bool (*const ranges[OPS])(const struct operands *o, struct whole_range *r) = {
#define OP(id, name, least, most, rule, levels, attrs, flags, code, law, abstract, range, cost, doc) [OP_##id] = range,
#include "ir/op.def"
#undef OP
};

// Are no two elements of operand k equal? In declared tensors and results of keep, `distinct` permits several -1, also after operators that only
// move numbers. Then the answer is false.
static bool apart(const struct operands *o, int k)
{
  const struct tensor *x = operand(o, k);
  const struct node *n = &o->g->nodes[x->node];
  while (ranges[n->op] == keep) n = &o->g->nodes[o->g->tensors[n->in[0]].node];
  const enum op from = n->op;
  return x->range.distinct && (x->range.least >= 0 || (from != OP_INPUT && from != OP_ITER && from != OP_KEEP && op_rows[from].rule != RULE_GRAPH));
}

struct whole_range range_default(enum dtype t) { return t == BOOL ? bit : (struct whole_range){0, WHOLE_MOST, false}; }

bool range_is_default(const struct tensor *t)
{
  struct whole_range d = range_default(t->dtype);
  return !num_whole(t->dtype) || (t->range.least == d.least && t->range.most == d.most && !t->range.distinct);
}

void range_text(char out[96], const struct tensor *t)
{
  struct whole_range d = range_default(t->dtype);
  size_t n = 0;
  out[0] = 0;
  if (range_is_default(t)) return;
  if (t->range.least != d.least) n += (size_t)snprintf(out, 96, " >= %lld", (long long)t->range.least);
  if (t->range.most != d.most) n += (size_t)snprintf(out + n, 96 - n, " < %lld", (long long)t->range.most + 1);
  if (t->range.distinct) snprintf(out + n, 96 - n, ", distinct");
}

static bool fits(struct whole_range r) { return r.least >= -WHOLE_MOST && r.most <= WHOLE_MOST; }

static int too_large(const struct node *n, const struct tensor *out, struct whole_range r, struct err *e)
{
  int64_t far = r.most > WHOLE_MOST ? r.most : r.least;
  int s = err_set(e, ERR_INTEGER_RANGE, n->at, "%s may reach %lld in %s, and whole numbers are exact up to %d", op_rows[n->op].name, (long long)far,
                  dtype_name(out->dtype), WHOLE_MOST);
  return err_hint(e, "declare what the inputs are at most, as in t: i32[8] < 1000, or convert: x * 1.5 is f32"), s;
}

// Checks the operands of // and %.
static int check_divided(const struct node *n, const struct operands *o, struct err *e)
{
  int s = OK;
  if (o->y.least < 1) {
    s = err_set(e, ERR_INTEGER_RANGE, n->at, "%s by what may be %lld", op_rows[n->op].name, (long long)MIN(0, o->y.least));
    return err_hint(e, "declare the divisor >= 1"), s;
  }
  if (o->x.least >= -WHOLE_DIVIDED && o->x.most <= WHOLE_DIVIDED) return OK;
  s = err_set(e, ERR_INTEGER_RANGE, n->at, "%s of what may be %lld; it takes at most %d", op_rows[n->op].name,
              (long long)(o->x.most > WHOLE_DIVIDED ? o->x.most : o->x.least), WHOLE_DIVIDED);
  return err_hint(e, "declare what the inputs are at most, as in t: i32[8] < 1000"), s;
}

static int64_t terms_of(const struct graph *g, const struct node *n, const struct tensor *out)
{
  if (!n->nin) return 1;
  const struct shape *x = &g->tensors[n->in[0]].shape;
  if (op_rows[n->op].rule == RULE_COMPOSITE) return op_rows[n->op].attrs & A_DIM ? x->d[n->a.dim] : 1;
  if (op_rows[n->op].rule == RULE_WORLD) return g->world;
  int64_t loops = 1;
  for (int i = 0; i < g->nloop && op_rows[n->op].rule == RULE_ACCUM; i++)
    if (!(op_rows[n->op].attrs & A_FMAP) || n->a.fmap[i] == REPLICA) loops *= g->loop[i]; // otherwise it concatenates parts
  return MAX(1, shape_size(x) / MAX(1, shape_size(&out->shape))) * loops;
}

// Are all operands with values whole numbers? Indices of slices and the condition of `where` do not count.
static bool operands_whole(const struct graph *g, const struct node *n)
{
  bool yes = true;
  for (int i = 0; i < n->nin && yes; i++) {
    bool decides = !(node_has(n, BY_INDEX) && i == 1) && !(node_has(n, CHOOSES) && i == 0);
    yes = !decides || g->tensors[n->in[i]].whole;
  }
  return yes;
}

static struct operands operands_of(const struct graph *g, const struct node *n, const struct tensor *out)
{
  struct operands o = {.g = g, .n = n, .terms = terms_of(g, n, out)};
  if (n->nin > 0) o.x = g->tensors[n->in[0]].range;
  if (n->nin > 1) o.y = g->tensors[n->in[node_has(n, WRITES_SLICES) ? 2 : 1]].range;
  if (n->nin > 2) o.z = g->tensors[n->in[2]].range;
  for (int i = 2; i < n->nin && op_rows[n->op].rule == RULE_CONCAT; i++) o.y = hull(o.y, g->tensors[n->in[i]].range);
  if (op_rows[n->op].rule == RULE_CONCAT && n->nin == 1) o.y = o.x;
  return o;
}

static int one(const struct graph *g, const struct node *n, struct tensor *t, struct err *e)
{
  struct operands o = operands_of(g, n, t);
  struct whole_range r = {0};
  const struct op_row *row = &op_rows[n->op];
  t->whole = false;
  const bool always = row->flags & (CONVERTS | INDEXES); // for any operand
  if (always || row->flags & ENCODES)
    t->dtype = row->flags & ENCODES ? BOOL : I32;
  else if (num_whole(t->dtype) && row->flags & BRACKET)
    t->dtype = BOOL;
  bool whole = always || operands_whole(g, n);
  if (row->flags & (WHOLES | ENCODES) && !whole) {
    int s = err_set(e, ERR_DTYPE, n->at, "%s takes whole numbers", row->name);
    return err_hint(e, "declare them as i32, or round: floor(x / y)"), s;
  }
  if (!num_whole(t->dtype) && !t->weak) return OK;
  if (row->flags & WHOLES) TRY(check_divided(n, &o, e));
  if (whole) whole = ranges[n->op](&o, &r);
  if (whole && num_whole(t->dtype) && !fits(r)) return too_large(n, t, r, e);
  t->whole = whole && fits(r), t->range = t->whole ? r : (struct whole_range){0};
  if (!t->whole && num_whole(t->dtype)) t->dtype = F32;
  if (t->dtype == BOOL && (r.least < 0 || r.most > 1)) t->dtype = I32;
  return OK;
}

int infer_whole(const struct graph *g, const struct node *n, struct tensor *out, int nout, struct err *e)
{
  if (node_has(n, SELECTS)) {
    out[1].whole = true, out[1].range = (struct whole_range){0, g->tensors[n->in[0]].shape.d[n->a.dim] - 1, false};
    nout = 1;
  }
  for (int i = 0; i < nout; i++) TRY(one(g, n, &out[i], e));
  return OK;
}
