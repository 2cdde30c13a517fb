// One random test (paper, section 5.2): fresh inputs, both graphs over the pair of fields, every output element
// compared; the p parts always, the q parts where both graphs still have them. Parts mod q are given only to
// inputs that reach an exponential, since elsewhere they cost time and add nothing to p.
#include "verify/trial.h"

#include <string.h>

bool op_is_max(enum op op)
{
  enum abstract a = op_rows[op].abstract;
  return a == AE_MAX || a == AE_ACCUM_MAX || a == AE_EWMAX || a == AE_EWMIN;
}

bool graph_has(const struct graph *g, bool (*what)(enum op op))
{
  for (int i = 0; i < g->nnodes; i++)
    if (what(g->nodes[i].op) || (g->nodes[i].sub && graph_has(g->nodes[i].sub, what))) return true;
  return false;
}

// need[t]: does tensor t reach an exponential? On entry the tensors given to OUTPUT or SAVE nodes are marked.
static void mark_needs(struct arena *mem, const struct graph *g, bool *need)
{
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const struct node *n = &g->nodes[i];
    bool any = op_rows[n->op].abstract == AE_EXP;
    for (int k = 0; k < n->nout; k++) any |= need[n->out + k];
    bool *sub = n->sub ? NEWS(mem, bool, n->sub->ntensors) : NULL;
    if (n->sub) {
      int saved[64], iters = 0, count = graph_outputs(n->sub, saved);
      for (int k = 0; k < count; k++) sub[saved[k]] |= need[n->out + k];
      mark_needs(mem, n->sub, sub);
      for (int k = 0; k < n->sub->nnodes; k++)
        if (n->sub->nodes[k].op == OP_ITER) need[n->in[iters++]] |= sub[n->sub->nodes[k].out];
      continue;
    }
    for (int k = 0; k < n->nin; k++) need[n->in[k]] |= any;
  }
}

static void add_needs(struct arena *mem, const struct graph *g, bool *by_input)
{
  bool *need = NEWS(mem, bool, g->ntensors);
  mark_needs(mem, g, need);
  int k = 0;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == OP_INPUT) by_input[k++] |= need[g->nodes[i].out];
}

void pair_open(struct arena *mem, struct pair *p, const struct graph *a, const struct graph *b, bool opaque_max)
{
  *p = (struct pair){a, b, NEWS(mem, bool, graph_inputs(a, NULL) + 1), opaque_max};
  add_needs(mem, a, p->need_q);
  add_needs(mem, b, p->need_q);
}

static void **fresh_inputs(struct arena *mem, const struct pair *p, const struct field *F, uint64_t seed)
{
  int n = graph_inputs(p->a, NULL), *tensors = NEWS(mem, int, n + 1);
  void **in = NEWS(mem, void *, n + 1);
  graph_inputs(p->a, tensors);
  eval_random(mem, p->a, DOM_FIELD, F, seed, in);
  for (int i = 0; i < n; i++) {
    struct ffv *x = in[i];
    int64_t size = p->need_q[i] ? 0 : shape_size(&p->a->tensors[tensors[i]].shape);
    for (int64_t k = 0; k < size; k++) x[k].q = FF_NONE;
  }
  return in;
}

static struct ffv plain(const struct field *F, struct ffv x)
{
  return (struct ffv){mod_from(&F->P, x.p), ff_lost(x) ? FF_NONE : mod_from(&F->Q, x.q)};
}

static void compare(struct arena *mem, const struct pair *p, const struct field *F, void **x, void **y, struct trial *t)
{
  int n = graph_outputs(p->a, NULL), *tensors = NEWS(mem, int, n + 1);
  graph_outputs(p->a, tensors);
  t->verdict = SAME;
  for (int i = 0; i < n; i++) {
    const struct ffv *u = x[i], *v = y[i];
    int64_t size = shape_size(&p->a->tensors[tensors[i]].shape);
    for (int64_t k = 0; k < size; k++) {
      if (u[k].p == v[k].p && (u[k].q == v[k].q || ff_lost2(u[k], v[k]))) continue;
      t->verdict = DIFFERENT, t->output = i, t->element = k;
      t->x = plain(F, u[k]), t->y = plain(F, v[k]);
      return;
    }
  }
}

static void attempt(const struct pair *p, int bits, uint64_t seed, stop_flag stop, struct trial *t)
{
  struct arena mem = {0};
  struct err e = {0};
  struct field *F = NEW(&mem, struct field);
  field_open(F, bits, seed);
  F->opaque_max = p->opaque_max;
  int n = graph_outputs(p->a, NULL);
  void **in = fresh_inputs(&mem, p, F, seed), **x = NEWS(&mem, void *, n + 1), **y = NEWS(&mem, void *, n + 1);
  int s = eval_run(&mem, p->a, DOM_FIELD, F, in, x, stop, &e);
  if (!s) s = eval_run(&mem, p->b, DOM_FIELD, F, in, y, stop, &e);
  CHECK(!s || e.id == ERR_STOPPED);
  t->lost_exps = F->lost_exps;
  if (s) t->verdict = STOPPED;
  else if (F->zero_divisions) t->verdict = DIVIDES_BY_ZERO;
  else compare(&mem, p, F, x, y, t);
  arena_close(&mem);
}

struct trial pair_test(const struct pair *p, int bits, uint64_t seed, int attempts, stop_flag stop)
{
  struct trial t = {.verdict = DIVIDES_BY_ZERO};
  for (int i = 0; i < attempts && t.verdict == DIVIDES_BY_ZERO; i++) attempt(p, bits, hash_mix(seed, (uint64_t)i), stop, &t);
  return t;
}

static double node_ops(const struct graph *g, const struct node *n);

static double graph_field_ops(const struct graph *g)
{
  double ops = 0;
  for (int i = 0; i < g->nnodes; i++) ops += node_ops(g, &g->nodes[i]);
  return ops;
}

// Elements touched; a power for every root, quotient and exponential.
static double node_ops(const struct graph *g, const struct node *n)
{
  if (n->sub) return (double)graph_blocks(n->sub) * (double)graph_iterations(n->sub) * graph_field_ops(n->sub);
  if (!n->nout) return 0;
  double size = (double)shape_size(&g->tensors[n->out].shape);
  for (int i = 0; i < n->nin; i++) size = MAX(size, (double)shape_size(&g->tensors[n->in[i]].shape));
  const struct op_row *row = &op_rows[n->op];
  if (row->rule == RULE_CONTRACT) {
    const struct shape *x = &g->tensors[n->in[0]].shape;
    return (double)shape_size(&g->tensors[n->out].shape) * (double)x->d[x->n - 1] * (n->nin / 2);
  }
  return size * (row->rule == RULE_MAP && row->cost > 1 ? 30 : 1);
}

double pair_ops(const struct pair *p) { return graph_field_ops(p->a) + graph_field_ops(p->b); }

static double graph_field_bytes(const struct graph *g)
{
  double n = 0;
  for (int i = 0; i < g->ntensors; i++) n += (double)shape_size(&g->tensors[i].shape);
  return n * (double)sizeof(struct ffv);
}

double pair_bytes(const struct pair *p) { return MAX(graph_field_bytes(p->a), graph_field_bytes(p->b)); }
