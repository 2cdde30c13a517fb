#include "referenced.h"
#include "each_op.h"

#include <math.h>

static const struct {
  const char *name;
  bool in_range, rounds, flushed;
  enum nudge nudge;
} modes[] = {{"in range", .in_range = true},
             {"as it is"}, // which has to be checked before what follows is computed, and is not where a value left its range
             {"rounded", .rounds = true},
             {"rounded and flushed", .rounds = true, .flushed = true},
             {"moved down", .nudge = NUDGE_DOWN},
             {"moved either way", .nudge = NUDGE_EITHER}};

void referenced_read(const void *arg, int input, int64_t from, int64_t to, double *out)
{
  const struct referenced_reading *r = arg;
  const enum dtype t = r->g->tensors[r->ins[input]].dtype;
  for (int64_t i = from; i < to; i++) {
    const double x = num_read(t, r->b->in[input], i);
    out[i - from] = r->flushed && !num_whole(t) && fabs(x) <= special_tiny(t) ? 0 : x;
  }
}

static double typical(const double *x, int64_t n)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    if (isfinite(x[i])) sum += x[i] * x[i];
  return sqrt(sum / (double)MAX(n, 1));
}

// Rounding to another neighbour of the dtype needs sums that differ in their last bits on both sides of a tie: one in a million elements.
static void compare(const char *name, const char *mode, const struct reference64 *a, const struct reference64 *b, const struct graph *g)
{
  int outs[8];
  const int n = graph_outputs(g, outs);
  assert_int_equal(a->overflow, b->overflow);
  for (int k = 0; k < n; k++) {
    const double *x = a->value[outs[k]], *y = b->value[outs[k]];
    const int64_t size = shape_size(&g->tensors[outs[k]].shape);
    const double usual = typical(y, size);
    for (int64_t i = 0; i < size; i++)
      if (!(fabs(x[i] - y[i]) <= 1e-12 * (fabs(y[i]) + usual) || x[i] == y[i] || (isnan(x[i]) && isnan(y[i]))))
        fail_msg("%s, %s: element %lld of output %d is %.17g, and %.17g on the CPU", name, mode, (long long)i, k, x[i], y[i]);
  }
}

void referenced_as_on_cpu(struct referenced *f, const struct graph *g, const char *name, bool special)
{
  struct buffers *b;
  if (buffers_open(g, 5, &b, &f->e)) fail_msg("%s: %s", name, f->e.text);
  if (special) special_inputs(g, b, 3, 0);
  struct referenced_reading r = {.g = g, .b = b};
  assert_true(graph_inputs(g, NULL) <= 8 && graph_outputs(g, NULL) <= 8);
  graph_inputs(g, r.ins);
  for (size_t m = 0; m < COUNT(modes); m++) {
    struct reference64 cpu = {0}, gpu = {0};
    struct reference64_from from = {.read = referenced_read, .arg = &r, .b = b};
    from.in_range = modes[m].in_range && !special, from.rounds = modes[m].rounds, from.nudge = modes[m].nudge;
    from.flushed = r.flushed = modes[m].flushed;
    b->device = NULL;
    if (reference64_run(&cpu, g, &from, &f->e)) fail_msg("%s: %s", name, f->e.text);
    const int before = gpu_evaluator_evidence(f->v).computed;
    b->device = gpu_evaluator_device(f->v);
    if (reference64_run(&gpu, g, &from, &f->e)) fail_msg("%s: %s", name, f->e.text);
    const struct gpu_evidence seen = gpu_evaluator_evidence(f->v);
    if (seen.computed == before) fail_msg("%s: %s", name, seen.why);
    if (!cpu.overflow) compare(name, modes[m].name, &gpu, &cpu, g);
    reference64_close(&cpu), reference64_close(&gpu);
  }
  buffers_close(b);
}

static bool orders(enum op op) { return op_rows[op].abstract == AE_PROD; }

int referenced_operators(struct referenced *f)
{
  int graphs = 0;
  for (int op = 0; op < OPS; op++)
    for (int form = 0; form < EACH_OP_FORMS; form++) {
      const struct graph *g = orders((enum op)op) ? NULL : each_op_graph(&f->mem, (enum op)op, F32, form);
      if (g) graphs++, referenced_as_on_cpu(f, g, op_rows[op].name, false);
    }
  return graphs;
}

void referenced_dtypes(struct referenced *f)
{
  for (int t = 0; t < DTYPES; t++) {
    const enum dtype is = (enum dtype)t;
    referenced_as_on_cpu(f, each_op_graph(&f->mem, num_whole(is) ? OP_TRANSPOSE : OP_EXP, is, 0), dtype_name(is), false);
    if (!num_whole(is)) referenced_as_on_cpu(f, each_op_graph(&f->mem, OP_ADD, is, 1), dtype_name(is), true);
  }
}
