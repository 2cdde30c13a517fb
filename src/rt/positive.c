// Inputs that a program divides by, or takes the root or the logarithm of. Random numbers of both signs bring the divisor close to zero, and no dtype
// has a right result there. Part of a larger program may begin with such an input: the norms of rows, or the sums of keys of linear attention.
#include "base/memory.h"
#include "rt/rt.h"

struct sign {
  bool positive; // if all inputs are
  bool by_input; // and only then: of the input asked about
};

static bool keeps_sign(const struct node *n)
{
  if (n->op == OP_MUL_SCALAR) return n->a.scalar >= 0;
  return op_rows[n->op].flags & KEEPS_SIGN || op_rows[n->op].rule == RULE_VIEW || op_rows[n->op].rule == RULE_CONCAT;
}

static struct sign sign_of(const struct node *n, const struct sign *of)
{
  struct sign s = {true, false};
  if (n->op == OP_CONST) return (struct sign){n->a.scalar >= 0, false};
  if (op_rows[n->op].flags & NEVER_NEGATIVE || (n->op == OP_MUL && n->in[0] == n->in[1])) return s;
  if (op_rows[n->op].rule != RULE_IO && !keeps_sign(n)) return (struct sign){false, false};
  for (int i = 0; i < n->nin && n->op == OP_MAXIMUM; i++)
    if (of[n->in[i]].positive && !of[n->in[i]].by_input) return s;
  for (int i = 0; i < n->nin; i++) s.positive &= of[n->in[i]].positive, s.by_input |= of[n->in[i]].by_input;
  return s;
}

// The operand that must not be negative; -1: none.
static int guarded(const struct node *n)
{
  if (n->op == OP_DIV) return n->in[1];
  return n->op == OP_SQRT || n->op == OP_RSQRT || n->op == OP_LOG ? n->in[0] : -1;
}

// in: signs of the inputs, in their order; of a nested graph, of what its iterators read. out: of the outputs, or savers.
static bool wants(const struct graph *g, const struct sign *in, struct sign *out)
{
  struct sign *of = MEM_NEWS(struct sign, g->ntensors + 1);
  bool yes = false;
  int ins = 0, outs = 0;
  for (const struct node *n = g->nodes; n < g->nodes + g->nnodes && !yes; n++) {
    const int t = guarded(n);
    yes = t >= 0 && of[t].positive && of[t].by_input;
    if (n->sub) {
      struct sign *read = MEM_NEWS(struct sign, n->nin + 1);
      for (int i = 0; i < n->nin; i++) read[i] = of[n->in[i]];
      yes |= wants(n->sub, read, &of[n->out]);
      mem_free(read);
      continue;
    }
    const struct sign s = n->op == OP_INPUT || n->op == OP_ITER ? in[ins++] : sign_of(n, of);
    for (int i = 0; i < n->nout; i++) of[n->out + i] = s;
    if (n->op == OP_OUTPUT || n->op == OP_SAVE) out[outs++] = s;
  }
  return mem_free(of), yes;
}

bool wants_positive(const struct graph *g, int input)
{
  const int nin = graph_inputs(g, NULL), nout = graph_outputs(g, NULL);
  int *ins = MEM_NEWS(int, nin + 1);
  struct sign *in = MEM_NEWS(struct sign, nin + 1), *out = MEM_NEWS(struct sign, nout + 1);
  graph_inputs(g, ins);
  for (int i = 0; i < nin; i++) in[i] = (struct sign){true, ins[i] == input};
  const bool yes = wants(g, in, out);
  return mem_free(ins), mem_free(in), mem_free(out), yes;
}
