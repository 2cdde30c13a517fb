// Generated code against float64 (reference64.c). Inputs have mean 0 and variance 1, but for what is divided by (positive.c). A reference value may
// leave the range of the dtype it is stored in (exp of a long dot product). Then the inputs are made smaller until none does, because no arithmetic
// in that dtype could be right. Inputs that must be positive are reduced by less, for others are divided by them. The same where a result is too far
// off and so is the reference with each value rounded to its dtype: a softmax of scores in the hundreds makes a rounding of them a factor, and whose
// is wrong cannot be told.
#include "base/memory.h"
#include "rt/rt.h"

#include <math.h>

enum { SHRINKS = 8, PIECE = 1 << 16 };
static const double SMALLER = 0.25, SMALLER_POSITIVE = 0.5;
static const double ROUNDING = 0.5; // of the tolerance: what rounding may take
static const double LARGE = 1e9;    // multiply-adds of a reference from which on one comparison must do

// ---- inputs as the device has them ----

static enum dtype coarser(enum dtype a, enum dtype b) { return num_rows[a].tolerance >= num_rows[b].tolerance ? a : b; }

static bool computes(enum op op)
{
  enum rule r = op_rows[op].rule;
  return r != RULE_IO && r != RULE_CONST && r != RULE_INDEX && r != RULE_VIEW && r != RULE_CONCAT && r != RULE_SPLIT;
}

void numeric_dtypes(const struct graph *g, enum dtype *of)
{
  for (int t = 0; t < g->ntensors; t++) of[t] = F32; // the reference has inputs as they are
  for (const struct node *n = g->nodes; n < g->nodes + g->nnodes; n++) {
    enum dtype read = F32;
    for (int k = 0; k < n->nin; k++) read = coarser(read, of[n->in[k]]);
    for (int t = n->out; t < n->out + n->nout; t++) of[t] = computes(n->op) ? coarser(read, g->tensors[t].dtype) : read;
  }
  for (int t = 0; t < g->ntensors; t++) of[t] = coarser(of[t], g->tensors[t].dtype);
}

struct device_inputs {
  const struct graph *g;
  const int *ins;
  const struct buffers *b;
};

static void read_inputs(const void *arg, int input, int64_t from, int64_t to, double *out)
{
  const struct device_inputs *d = arg;
  num_read_all(d->g->tensors[d->ins[input]].dtype, d->b->in[input], from, to - from, out);
}

// ---- one comparison ----

struct numeric_shrinking {
  enum dtype t;
  void *x;
  int64_t n;
  double scale;
};

static void shrink_piece(void *arg, int piece, int worker)
{
  (void)worker;
  const struct numeric_shrinking *s = arg;
  for (int64_t k = (int64_t)piece * PIECE; k < MIN((int64_t)(piece + 1) * PIECE, s->n); k++)
    num_write(s->t, s->x, k, num_read(s->t, s->x, k) * s->scale);
}

static void shrink_inputs(const struct graph *g, const int *ins, struct buffers *b)
{
  for (int i = 0; i < b->nin; i++) {
    const struct tensor *t = &g->tensors[ins[i]];
    if (num_whole(t->dtype)) continue;
    struct numeric_shrinking s = {t->dtype, b->in[i], shape_size(&t->shape), wants_positive(g, ins[i]) ? SMALLER_POSITIVE : SMALLER};
    pool_run(pool_cores(), (int)((s.n + PIECE - 1) / PIECE), shrink_piece, &s);
  }
}

// floor: of the norm of the difference, what underflow explains. *rel: infinite where a value is not finite and ought to be.
static int compare(const struct tensor *t, enum dtype rounded, const double *ref, const void *out, int which, double floor, double *rel,
                   struct err *e)
{
  double diff = 0, norm = 0, largest = dtype_largest(t->dtype);
  int64_t n = shape_size(&t->shape);
  for (int64_t i = 0; i < n; i++) {
    double y = num_read(t->dtype, out, i);
    if (!isfinite(y) && fabs(ref[i]) <= largest) {
      *rel = INFINITY;
      return err_set(e, ERR_WRONG, NOWHERE, "output %d: element %lld is %g, and %g in float64", which, (long long)i, y, ref[i]);
    }
    if (!isfinite(y)) continue;
    diff += (y - ref[i]) * (y - ref[i]), norm += ref[i] * ref[i];
  }
  if (num_whole(t->dtype) && diff > 0) { // no rounding explains another whole number
    *rel = INFINITY;
    return err_set(e, ERR_WRONG, NOWHERE, "output %d differs from float64, and holds whole numbers", which);
  }
  double r = norm > 0 ? sqrt(diff / norm) : sqrt(diff);
  *rel = r;
  if (r <= num_rows[rounded].tolerance || sqrt(diff) <= num_rows[rounded].tolerance * sqrt(norm) + floor) return OK;
  return err_set(e, ERR_WRONG, NOWHERE, "output %d differs from float64 by %.3g (relative, %s allows %.0e)", which, r, dtype_name(rounded),
                 num_rows[rounded].tolerance);
}

int numeric_floors(const struct reference64 *r, const struct buffers *b, stop_flag stop, double *floor, struct err *e)
{
  int *ins = MEM_NEWS(int, b->nin + 1);
  graph_inputs(r->g, ins);
  struct device_inputs inputs = {r->g, ins, b};
  struct reference64_from from = {.read = read_inputs, .arg = &inputs, .b = b, .stop = stop};
  int s = underflow_floors(r, &from, floor, e);
  return mem_free(ins), s;
}

// Is x further from ref than `off` of it, and what underflow explains?
static bool further(const double *x, const double *ref, int64_t n, double off, double floor)
{
  double diff = 0, norm = 0;
  for (int64_t i = 0; i < n; i++) diff += (x[i] - ref[i]) * (x[i] - ref[i]), norm += ref[i] * ref[i];
  return !(sqrt(diff) <= off * (norm > 0 ? sqrt(norm) : 1) + floor);
}

static bool rounded_further(const struct reference64 *r, const struct reference64 *rounded, const double *floor)
{
  int n = graph_outputs(r->g, NULL), *outs = MEM_NEWS(int, n + 1);
  enum dtype *of = MEM_NEWS(enum dtype, r->g->ntensors);
  bool yes = false;
  graph_outputs(r->g, outs), numeric_dtypes(r->g, of);
  for (int i = 0; i < n; i++) {
    const int t = outs[i];
    yes |= further(rounded->value[t], r->value[t], shape_size(&r->g->tensors[t].shape), ROUNDING * num_rows[of[t]].tolerance, floor[t]);
  }
  return mem_free(outs), mem_free(of), yes;
}

// Whether on these inputs rounding alone, but for underflow, may be taken for a mistake. r: their reference.
static bool rounding_counts(const struct reference64 *r, const struct buffers *b, stop_flag stop)
{
  int *ins = MEM_NEWS(int, b->nin + 1);
  double *floor = MEM_NEWS(double, r->g->ntensors);
  graph_inputs(r->g, ins);
  struct device_inputs inputs = {r->g, ins, b};
  struct reference64_from from = {.read = read_inputs, .arg = &inputs, .b = b, .rounds = true, .stop = stop};
  struct reference64 rounded = {0};
  struct err e = {0};
  bool counts = reference64_run(&rounded, r->g, &from, &e) == OK && rounded_further(r, &rounded, floor);
  if (counts && numeric_floors(r, b, stop, floor, &e) == OK) counts = rounded_further(r, &rounded, floor);
  reference64_close(&rounded);
  return mem_free(ins), mem_free(floor), counts;
}

static int call_and_compare(struct module *m, const struct reference64 *r, struct buffers *b, stop_flag stop, double *rel, struct err *e)
{
  for (int i = 0; i < b->nout; i++) memset(b->out[i], 0xff, b->out_bytes[i]); // NaN in every dtype
  int s = caller_once(m, b, stop, e);
  if (s) return s;
  int *outs = MEM_NEWS(int, b->nout + 1);
  enum dtype *of = MEM_NEWS(enum dtype, r->g->ntensors);
  double *floor = MEM_NEWS(double, r->g->ntensors);
  graph_outputs(r->g, outs), numeric_dtypes(r->g, of);
  bool known = false;
  for (int i = 0; i < b->nout && !s; i++) {
    double own = 0;
    int t = outs[i];
    s = compare(&r->g->tensors[t], of[t], r->value[t], b->out[i], i, floor[t], &own, e);
    if (s == NO && isfinite(own) && !known) {
      *e = (struct err){0}, known = true;
      s = numeric_floors(r, b, stop, floor, e);
      if (!s) s = compare(&r->g->tensors[t], of[t], r->value[t], b->out[i], i, floor[t], &own, e);
    }
    *rel = fmax(*rel, own);
  }
  mem_free(outs), mem_free(of), mem_free(floor);
  return s;
}

int numeric_reference(const struct graph *g, struct buffers *b, stop_flag stop, struct reference64 *r, struct err *e)
{
  int *ins = MEM_NEWS(int, b->nin + 1), s = OK;
  graph_inputs(g, ins);
  struct device_inputs inputs = {g, ins, b};
  struct reference64_from from = {.read = read_inputs, .arg = &inputs, .b = b, .in_range = true, .stop = stop};
  for (int shrunk = 0; shrunk <= SHRINKS && !s; shrunk++) {
    if (shrunk) shrink_inputs(g, ins, b);
    reference64_close(r);
    s = reference64_run(r, g, &from, e);
    if (!r->overflow) break;
  }
  r->from = NULL;
  mem_free(ins);
  if (s || !r->overflow) return s;
  err_set(e, ERR_WRONG, NOWHERE, "no random inputs keep the reference in the range of its dtypes");
  return err_hint(e, "a value of the program is too large for its dtype: smaller constants or another dtype (--dtype) help"), e->status;
}

static bool has_exp(const struct graph *g)
{
  bool has = false;
  for (int i = 0; i < g->nnodes; i++) has |= g->nodes[i].op == OP_EXP;
  return has;
}

// Inputs of b go to `to`, or come back.
static void copy_inputs(struct buffers *b, void **to, bool back)
{
  for (int i = 0; i < b->nin; i++) memcpy(back ? b->in[i] : to[i], back ? to[i] : b->in[i], b->in_bytes[i]);
}

static int shrink_until_apart(const struct graph *g, struct buffers *b, stop_flag stop, struct reference64 *r, struct err *e)
{
  int s = OK, *ins = MEM_NEWS(int, b->nin + 1);
  void **first = MEM_NEWS(void *, b->nin + 1);
  bool counts = true;
  graph_inputs(g, ins);
  for (int i = 0; i < b->nin; i++) first[i] = mem_take(b->in_bytes[i] + 1);
  copy_inputs(b, first, false);
  for (int shrunk = 0; !s && counts && shrunk < SHRINKS; shrunk++) {
    shrink_inputs(g, ins, b);
    s = numeric_reference(g, b, stop, r, e);
    counts = !s && rounding_counts(r, b, stop);
  }
  if (!s && counts) { // it is not for their size
    copy_inputs(b, first, true);
    s = numeric_reference(g, b, stop, r, e);
  }
  for (int i = 0; i < b->nin; i++) mem_free(first[i]);
  mem_free(first), mem_free(ins);
  return s;
}

int numeric_reference_apart(const struct graph *g, struct buffers *b, stop_flag stop, struct reference64 *r, struct err *e)
{
  int s = numeric_reference(g, b, stop, r, e);
  return s || !has_exp(g) || !rounding_counts(r, b, stop) ? s : shrink_until_apart(g, b, stop, r, e);
}

static int check_once(struct module *m, const struct graph *g, uint64_t seed, stop_flag stop, double *rel, struct err *e)
{
  struct buffers *b;
  int s = buffers_open_until(g, seed, stop, &b, e), *ins;
  if (s) return s;
  struct reference64 r = {0};
  double mine = 0;
  graph_inputs(g, ins = MEM_NEWS(int, b->nin + 1));
  for (int shrunk = 0;; shrunk++) {
    s = numeric_reference(g, b, stop, &r, e);
    if (!s) s = call_and_compare(m, &r, b, stop, &mine, e);
    if (s != NO || !r.g || r.overflow || isinf(mine) || shrunk == SHRINKS || !rounding_counts(&r, b, stop))
      break; // what is not finite is no rounding
    shrink_inputs(g, ins, b);
    *e = (struct err){0}, mine = 0;
  }
  if (s == NO && stop_set(stop)) s = err_set(e, ERR_STOPPED, NOWHERE, "stopped before it was known whether rounding explains a difference");
  if (isfinite(mine)) *rel = fmax(*rel, mine);
  mem_free(ins);
  reference64_close(&r);
  buffers_close(b);
  return s;
}

int check_numeric(struct module *m, const struct graph *reference, uint64_t seed, int repeats, stop_flag stop, double *rel, struct err *e)
{
  int s = OK;
  *rel = 0;
  if (reference64_products(reference) > LARGE) repeats = 1;
  for (int i = 0; i < repeats && !s; i++) s = check_once(m, reference, hash_mix(seed, (uint64_t)i), stop, rel, e);
  return s;
}
