// Operators that a program writes out: 0.5 x (1 + tanh(c (x + d x^3))) is gelu_tanh(x). One operator continues the product before it, and a search has
// room for it; the eight operators of this form are too many. A candidate is a function of one tensor. It is evaluated at sample points and compared
// with each operator of one argument. The result is proved equal (laws.c), so a coincidence changes nothing.
#include "eval/eval.h"
#include "lax/lax.h"

#include <math.h>

enum { LEAST = 4, MOST = 20, POINTS = 32 }; // LEAST, MOST: operators of a written-out one
static const double STEP = 0.25, CLOSE = 1e-12;

struct written {
  const struct graph *p;
  struct arena mem; // of one evaluation
  double x[POINTS], value[OPS][POINTS];
  bool known[OPS];
  int *map; // by tensor of p: -1, except during an evaluation
};

// A function of elements by one number each, without attributes, that a search does not see through.
static bool is_named(enum op op)
{
  const struct op_row *r = &op_rows[op];
  return r->rule == RULE_MAP && r->least == 1 && r->most == 1 && !r->attrs && r->flags & OPAQUE && !(r->flags & (CASTS | NARROW | CONVERTS));
}

static bool evaluate(struct written *w, struct graph *g, int result, double *out)
{
  struct err e = {0};
  void *in[] = {w->x}, *outs[1];
  if (graph_add(g, OP_OUTPUT, 1, &result, NULL, NOWHERE, &(int){0}, &e) || graph_check(g, &e)) return false;
  if (eval_run(&w->mem, g, DOM_F64, NULL, in, outs, NULL, &e)) return false;
  for (int i = 0; i < POINTS; i++) out[i] = ((double *)outs[0])[i];
  return true;
}

static struct graph *of_points(struct written *w, int *x)
{
  struct graph *g = graph_new(&w->mem, KERNEL, "points");
  const struct shape s = {1, {POINTS}};
  struct err e = {0};
  return graph_input(g, "x", F32, &s, NOWHERE, x, &e) == OK ? g : NULL;
}

static void evaluate_named(struct written *w)
{
  for (int i = 0; i < POINTS; i++) w->x[i] = STEP * (i - (POINTS - 1) / 2.0);
  for (int op = 0; op < OPS; op++) {
    struct err e = {0};
    int x, y;
    struct graph *g = is_named((enum op)op) ? of_points(w, &x) : NULL;
    w->known[op] = g && graph_add(g, (enum op)op, 1, &x, NULL, NOWHERE, &y, &e) == OK && evaluate(w, g, y, w->value[op]);
  }
}

// The operator that tensor t is of x; OPS: none.
static enum op named(struct written *w, int t, int x)
{
  double value[POINTS];
  int left = MOST;
  struct graph *g = of_points(w, &w->map[x]);
  if (!g || !unary_take(g, w->p, t, x, w->map, &left) || MOST - left < LEAST || !evaluate(w, g, w->map[t], value)) return OPS;
  for (int op = 0; op < OPS; op++) {
    bool same = w->known[op];
    for (int i = 0; i < POINTS && same; i++) same = fabs(value[i] - w->value[op][i]) <= CLOSE * (fabs(value[i]) + STEP);
    if (same) return (enum op)op;
  }
  return OPS;
}

static void forget(struct written *w, int t)
{
  const struct node *n = &w->p->nodes[w->p->tensors[t].node];
  w->map[t] = -1;
  for (int i = 0; i < n->nin; i++) w->map[n->in[i]] = -1;
}

// The operator that computes t, and its argument; OPS: none.
static enum op find(struct written *w, int t, int *x)
{
  int from[2 * MOST], n = unary_sources(w->p, t, 2 * MOST, from);
  for (int i = 1; i < n; i++) {
    const struct arena_mark mark = arena_mark(&w->mem);
    const enum op op = named(w, t, *x = from[i]);
    arena_reset(&w->mem, mark);
    for (int k = 0; k < n; k++) forget(w, from[k]);
    if (op != OPS) return op;
  }
  return OPS;
}

static int name_function(void *own, struct graph *to, const struct graph *p, const struct node *n, const int *map, int *made, struct err *e)
{
  int x;
  const enum op op = op_rows[n->op].rule == RULE_MAP ? find(own, n->out, &x) : OPS;
  (void)p;
  return op == OPS ? NO : graph_add(to, op, 1, &map[x], NULL, n->at, made, e);
}

int lax_written(struct arena *mem, const struct graph *p, const struct lax_proof *proof, struct graph **out, struct err *e)
{
  struct written *w = NEW(mem, struct written);
  w->p = p, w->map = NEWS(mem, int, p->ntensors + 1);
  for (int i = 0; i < p->ntensors; i++) w->map[i] = -1;
  evaluate_named(w);
  const int status = lax_by_law(mem, p, name_function, w, proof, out, e);
  arena_close(&w->mem);
  return status;
}
