// Checks results for special inputs: NaN, infinities, rows that are -inf everywhere, numbers near the end of the dtype's range, -0, and subnormal
// numbers. Each result must be NaN, an infinity or a number, as it is in the program evaluated in float64.
//
// Correct code may differ where the same function in another order does: where an intermediate value leaves the range (1e30 squared), where infinities
// meet (inf - inf), or where a divisor is close to zero. So a differing element is wrong only if nine evaluations agree on it. They are: the program in float64; the program rounded to its
// dtypes at each operator, in blocks too; three times so with each value moved by some roundings in a random direction, which excludes elements that
// amplify rounding; the code's graph in float64; that graph in float32; with sums in which infinities of both signs give no NaN; and with products in
// which an infinity times a sum is NaN. The rounded ones and the one in float32 flush -0 and subnormal numbers to 0, which code may do too. Other
// differing elements are not counted.
//
// Code may multiply factors in any order: huge * huge * tiny * tiny is an infinity, 0 or a number in fp32. If the code's graph has products along a
// dimension, two more evaluations must agree: smallest factors first and largest factors first (eval/extreme.c).
//
// NaN spreads to all results that depend on it, so with NaN in every input most programs would have no number left. Therefore each round puts NaN,
// infinities and huge numbers into one input only.
#include "eval/eval.h"
#include "base/memory.h"
#include "rt/rt.h"

#include <math.h>
#include <string.h>

enum { ELEMENT = 8, MOST_ROUNDS = 3, SMALL = 3, MOST_DOUBTS = 1 << 20 };
static const double CHEAP = 1e7;                        // multiply-adds up to which every input gets its own round
static const double AFFORDABLE = 1e9;                   // most operations of a graph that is evaluated again
static const double AGREE = 0.25;                       // evaluations agree if they differ by less than this share of the tolerance
static const double HUGE_NUMBER = 1e15, HUGE_PART = 32; // HUGE_PART: the dtype's largest number is at least this times as large
static const double TINY_PART = 4;                      // share of the least normal number

static double huge(enum dtype t) { return fmin(HUGE_NUMBER, num_largest(&num_rows[t]) / HUGE_PART); }
double special_tiny(enum dtype t) { return num_normal(&num_rows[t]) / TINY_PART; }

// ---- inputs ----

enum special_kind { ONE_NAN, ONE_INF, ONE_LOW, ALL_LOW, MOST_LOW, ONE_HUGE, ALL_ZERO, ALL_TINY, KINDS };

static void fill_row(enum dtype t, void *p, int64_t from, int64_t n, enum special_kind kind, int64_t at)
{
  static const struct {
    double one, others; // 0: unchanged
  } values[KINDS] = {
      [ONE_NAN] = {NAN, 0}, [ONE_INF] = {INFINITY, 0}, [ONE_LOW] = {-INFINITY, 0}, [ALL_LOW] = {-INFINITY, -INFINITY}, [MOST_LOW] = {0, -INFINITY}};
  double one = values[kind].one, others = values[kind].others;
  if (kind == ONE_HUGE) one = huge(t);
  if (kind == ALL_TINY) one = others = special_tiny(t);
  if (kind == MOST_LOW) at = n - 1; // the first part along the row must be -inf everywhere
  for (int64_t j = 0; j < n; j++) {
    double x = j == at ? one : others;
    if (kind == ALL_ZERO)
      num_write(t, p, from + j, -0.0);
    else if (x != 0)
      num_write(t, p, from + j, x);
  }
}

// Changes up to half of the rows, one for each kind. A vector counts as one row, or as several for every other seed.
static void make_special(const struct tensor *t, void *p, struct rng *r)
{
  int64_t size = shape_size(&t->shape), cols = t->shape.n ? t->shape.d[t->shape.n - 1] : 1, rows;
  bool parts = rng_below(r, 2) && size == cols;
  if (parts && size >= 4 * KINDS) cols = size / (2 * KINDS);
  rows = size / cols;
  int64_t count = MAX(1, MIN(KINDS, rows / 2)), first = (int64_t)rng_below(r, (uint64_t)rows), kind = (int64_t)rng_below(r, KINDS);
  for (int64_t i = 0; i < count; i++)
    fill_row(t->dtype, p, (first + i * rows / count) % rows * cols, cols, (enum special_kind)((kind + i) % KINDS),
             (int64_t)rng_below(r, (uint64_t)cols));
}

// Puts -0 and subnormal numbers at a few positions.
static void make_small(const struct tensor *t, void *p, struct rng *r)
{
  uint64_t size = (uint64_t)shape_size(&t->shape);
  if (size < 4 * SMALL) return;
  for (int i = 0; i < SMALL; i++) num_write(t->dtype, p, (int64_t)rng_below(r, size), i % 2 ? special_tiny(t->dtype) : -0.0);
}

int special_rounds(const struct graph *g) { return reference64_products(g) > CHEAP ? 1 : MIN(MOST_ROUNDS, graph_inputs(g, NULL)); }

void special_inputs(const struct graph *g, struct buffers *b, uint64_t seed, int round)
{
  int *ins = MEM_NEWS(int, b->nin + 1);
  struct rng r = {hash_mix(seed, 0x5bec1a1)};
  uint64_t chosen = b->nin ? (rng_below(&r, (uint64_t)b->nin) + (uint64_t)round) % (uint64_t)b->nin : 0;
  graph_inputs(g, ins);
  for (int i = 0; i < b->nin; i++) {
    const struct tensor *t = &g->tensors[ins[i]];
    if (num_whole(t->dtype)) continue;
    if ((uint64_t)i == chosen)
      make_special(t, b->in[i], &r);
    else if (!wants_positive(g, ins[i]))
      make_small(t, b->in[i], &r);
  }
  mem_free(ins);
}

// ---- evaluations ----

struct special_reading {
  const struct graph *g;
  const struct buffers *b;
  const int *ins;
  bool flushed; // subnormal numbers and -0 are read as 0
};

static double element(const struct special_reading *d, int input, int64_t i)
{
  enum dtype t = d->g->tensors[d->ins[input]].dtype;
  double x = num_read(t, d->b->in[input], i);
  return d->flushed && !num_whole(t) && fabs(x) <= special_tiny(t) ? 0 : x;
}

static void read_elements(const void *arg, int input, int64_t from, int64_t to, double *out)
{
  const struct special_reading *d = arg;
  for (int64_t i = from; i < to; i++) out[i - from] = element(d, input, i);
}

// moved: 0, or the number of an evaluation with values moved by roundings.
static int evaluate(struct reference64 *r, const struct graph *g, const struct buffers *b, bool rounds, int moved, stop_flag stop, struct err *e)
{
  int *ins = MEM_NEWS(int, b->nin + 1);
  graph_inputs(g, ins);
  struct special_reading d = {g, b, ins, rounds};
  struct reference64_from from = {.read = read_elements, .arg = &d, .b = b, .flushed = rounds, .rounds = rounds, .stop = stop};
  if (moved) from.nudge = NUDGE_ROUNDING, from.turn = hash_mix(0x30bed, (uint64_t)moved);
  int s = reference64_run(r, g, &from, e);
  r->from = NULL;
  mem_free(ins);
  return s;
}

int special_reference(const struct graph *g, const struct buffers *b, stop_flag stop, struct reference64 *r, struct err *e)
{
  return evaluate(r, g, b, false, 0, stop, e);
}

// Operations of a graph, counted over all blocks and iterations.
static double operations(const struct graph *g)
{
  double sum = 0;
  for (const struct node *n = g->nodes; n < g->nodes + g->nnodes; n++) {
    const struct shape *x = n->nin ? &g->tensors[n->in[0]].shape : NULL;
    for (int i = 0; i < n->nout; i++)
      sum += (double)shape_size(&g->tensors[n->out + i].shape) * (op_rows[n->op].rule == RULE_CONTRACT ? (double)x->d[x->n - 1] : 1);
    if (n->sub) sum += (double)graph_blocks(n->sub) * (double)graph_iterations(n->sub) * operations(n->sub);
  }
  return sum;
}

// Evaluates the outputs of g in the interpreter, with numbers of type d.
static int interpret(struct arena *mem, const struct graph *g, enum domain d, const struct buffers *b, stop_flag stop, void **out, struct err *e)
{
  int *ins = NEWS(mem, int, b->nin + 1);
  void **in = NEWS(mem, void *, b->nin + 1);
  graph_inputs(g, ins);
  struct special_reading r = {g, b, ins, d == DOM_F32};
  for (int i = 0; i < b->nin; i++) {
    const struct tensor *t = &g->tensors[ins[i]];
    int64_t n = shape_size(&t->shape);
    in[i] = arena_alloc(mem, domain_bytes(d) * (size_t)(n + 1));
    for (int64_t k = 0; k < n; k++) {
      if (d == DOM_F32)
        ((float *)in[i])[k] = (float)element(&r, i, k);
      else
        ((double *)in[i])[k] = element(&r, i, k);
    }
  }
  return eval_run(mem, g, d, NULL, in, out, stop, e);
}

// ---- comparing ----

static double typical(const double *x, int64_t n)
{
  double sum = 0;
  int64_t numbers = 0;
  for (int64_t i = 0; i < n; i++)
    if (isfinite(x[i])) sum += x[i] * x[i], numbers++;
  return sqrt(sum / (double)MAX(numbers, 1));
}

// Both NaN, the same infinity, or numbers whose relative difference is at most `off`.
static bool same(double x, double y, double usual, double off)
{
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  if (isinf(x) || isinf(y)) return x == y;
  return fabs(x - y) <= off * (fabs(y) + usual);
}

struct output {
  int which, tensor; // its number, and its tensor in the program's graph
  enum dtype t;
  int64_t n;
  const void *got;
  const double *want;
  double usual, off;
};

static bool is_right(const struct output *x, int64_t i) { return same(num_read(x->t, x->got, i), x->want[i], x->usual, x->off); }

struct doubt { // an element that differs
  int output;
  int64_t at;
};
struct special_comparison {
  struct arena mem;
  int nout;
  struct output *out;
  int64_t differ; // differing elements; the first MOST_DOUBTS are examined further
  int n, cap;
  struct doubt *doubt;
};

static void compare(struct special_comparison *c)
{
  for (int i = 0; i < c->nout; i++)
    for (int64_t k = 0; k < c->out[i].n; k++)
      if (!is_right(&c->out[i], k) && ++c->differ <= MOST_DOUBTS) PUSH(&c->mem, c->doubt, c->n, c->cap) = (struct doubt){i, k};
}

enum evaluation { ROUNDED, MOVED, MOVED_AGAIN, MOVED_LAST, OWN_F64, OWN_F32, OWN_MEETING, OWN_APART, OWN_RISING, OWN_FALLING, EVALUATIONS };
static const enum domain own_domain[EVALUATIONS] = {[OWN_F64] = DOM_F64,     [OWN_F32] = DOM_F32,       [OWN_MEETING] = DOM_MEETING,
                                                    [OWN_APART] = DOM_APART, [OWN_RISING] = DOM_RISING, [OWN_FALLING] = DOM_FALLING};

// Keeps the doubtful elements on which one more evaluation agrees with the first. If it cannot be made, none are kept. ERR_STOPPED after a stop.
static int ask(struct special_comparison *c, enum evaluation which, const struct graph *program, const struct graph *own, const struct buffers *b,
               stop_flag stop, struct err *e)
{
  struct arena mem = {0};
  struct reference64 r = {0};
  struct err why = {0};
  void **out = NEWS(&mem, void *, b->nout + 1);
  const bool by_program = which < OWN_F64;
  int left = 0, s = by_program ? evaluate(&r, program, b, true, (int)which, stop, &why) : interpret(&mem, own, own_domain[which], b, stop, out, &why);
  for (int i = 0; i < c->n && s == OK; i++) {
    const struct doubt d = c->doubt[i];
    const struct output *x = &c->out[d.output];
    double other = by_program         ? r.value[x->tensor][d.at]
                   : which == OWN_F32 ? (double)((float *)out[d.output])[d.at]
                                      : ((double *)out[d.output])[d.at];
    if (same(other, x->want[d.at], x->usual, AGREE * x->off)) c->doubt[left++] = d;
  }
  c->n = left;
  reference64_close(&r), arena_close(&mem);
  return why.id == ERR_STOPPED ? *e = why, s : OK;
}

int special_compare(const struct reference64 *r, const struct graph *own, const struct buffers *b, void *const *outputs, stop_flag stop,
                    struct special_answer *a, struct err *e)
{
  struct special_comparison c = {.nout = b->nout};
  int *outs = NEWS(&c.mem, int, b->nout + 1), s = OK;
  enum dtype *of = NEWS(&c.mem, enum dtype, r->g->ntensors);
  int64_t all = 0;
  c.out = NEWS(&c.mem, struct output, b->nout + 1);
  graph_outputs(r->g, outs), numeric_dtypes(r->g, of);
  for (int i = 0; i < b->nout; i++) {
    const struct tensor *t = &r->g->tensors[outs[i]];
    struct output *x = &c.out[i];
    *x = (struct output){.which = i, .tensor = outs[i], .t = t->dtype, .n = shape_size(&t->shape), .got = outputs[i], .want = r->value[outs[i]]};
    x->usual = typical(x->want, x->n), x->off = ELEMENT * num_rows[of[outs[i]]].tolerance;
    all += x->n;
  }
  compare(&c);
  a->all += all, a->held += all - c.differ;
  if (c.n && MAX(operations(own), operations(r->g)) > AFFORDABLE) c.n = 0;
  const enum evaluation end = eval_orders_count(own) ? EVALUATIONS : OWN_RISING;
  for (enum evaluation k = 0; k < end && c.n && !s; k++) s = ask(&c, k, r->g, own, b, stop, e);
  if (c.n && !s) {
    const struct output *x = &c.out[c.doubt->output];
    int64_t at = c.doubt->at;
    s = err_set(e, ERR_WRONG, NOWHERE, "output %d on special inputs: element %lld is %g, and %g in float64", x->which, (long long)at,
                num_read(x->t, x->got, at), x->want[at]);
  }
  arena_close(&c.mem);
  return s;
}

static int one_round(struct module *m, const struct graph *g, const struct graph *own, uint64_t seed, int round, stop_flag stop,
                     struct special_answer *a, struct err *e)
{
  struct buffers *b;
  struct reference64 r = {0};
  int s = buffers_open_until(g, hash_mix(seed, (uint64_t)round), stop, &b, e);
  if (s) return s;
  special_inputs(g, b, seed, round);
  for (int i = 0; i < b->nout; i++) memset(b->out[i], 0, b->out_bytes[i]);
  s = special_reference(g, b, stop, &r, e);
  if (!s) s = caller_once(m, b, stop, e);
  if (!s) s = special_compare(&r, own, b, b->out, stop, a, e);
  reference64_close(&r);
  buffers_close(b);
  return s;
}

int check_special(struct module *m, const struct graph *reference, const struct graph *own, uint64_t seed, stop_flag stop, struct special_answer *a,
                  struct err *e)
{
  int s = OK;
  *a = (struct special_answer){0};
  for (int i = 0, n = special_rounds(reference); i < n && !s; i++) s = one_round(m, reference, own, seed, i, stop, a, e);
  return s;
}
