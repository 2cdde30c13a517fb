// Kernel graphs made without a search: one block graph for the whole program, in a few sizes. They cover programs without products (fuse_parts.c),
// and long programs that work row by row (chain.c).
#include "search/space.h"
#include "verify/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FUSED_SIZES = 3, CHAIN_SIZES = 8 };

static double by_rule_cost(const struct graph *p, const struct target *t)
{
  double seconds = t->launch, bytes = 0;
  for (int i = 0; i < p->nnodes; i++) {
    const struct node *n = &p->nodes[i];
    const struct tensor *x = &p->tensors[n->op == OP_OUTPUT ? n->in[0] : n->out];
    double size = (double)shape_size(&x->shape);
    if (op_rows[n->op].rule == RULE_IO)
      bytes += size * dtype_bytes(x->dtype);
    else if (n->op == OP_MATMUL)
      seconds += op_rows[n->op].cost * size * (double)p->tensors[n->in[1]].shape.d[0] / target_products(t, p->tensors[n->in[1]].dtype == BF16);
    else
      seconds += cost_rules(t)->operate(t, size, op_rows[n->op].cost);
  }
  return seconds + bytes / t->bandwidth;
}

static void run_chain(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, struct search_result *r)
{
  int out;
  if (graph_outputs(p, NULL) != 1) return;
  graph_outputs(p, &out);
  int64_t rows = p->tensors[out].shape.n ? p->tensors[out].shape.d[0] : 1;
  r->found = NEWS(mem, struct found, CHAIN_SIZES);
  for (int64_t tile = 16; tile <= 256 && r->n < CHAIN_SIZES; tile *= 2) {
    struct graph *g = rows % tile || (double)(rows / tile) < cost_rules(t)->fill * t->cores ? NULL : chain_build(mem, p, rows / tile);
    struct err e = {0};
    if (!g || graph_check(g, &e) != OK || !verify_filter(p, g, o->seed)) continue;
    struct found *f = &r->found[r->n++];
    *f = (struct found){.g = g, .cost = by_rule_cost(p, t), .kernels = 1, .block_ops = graph_ops(p)};
    snprintf(f->schedule, sizeof f->schedule, "grid x=rows");
    r->stats.verified++;
  }
}

// Adds the kernel graphs that the verifier accepts and the pricer can price.
static void add_fused(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, struct search_result *r)
{
  const struct graph *last = NULL;
  const int structure = r->n; // a number that no existing result has
  for (int i = 0; i < FUSED_SIZES; i++) {
    struct graph *g = fuse_parts(mem, p, FUSE_TILE >> 2 * i);
    if (!g || (last && graph_same(last, g)) || !verify_filter(p, g, o->seed)) continue;
    double cost = by_rule_cost(p, t) * (1 + 0.01 * i);
    if (o->pricer) cost = o->pricer->price(o->pricer->arg, g, cost);
    r->stats.verified++, last = g;
    if (!isfinite(cost)) continue;
    struct found *f = &r->found[r->n++];
    *f = (struct found){.g = g, .cost = cost, .kernels = 1, .block_ops = graph_ops(p), .structure = structure};
    snprintf(f->schedule, sizeof f->schedule, "grid over what nothing mixes");
  }
}

void by_rule(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, bool rows, struct search_result *r)
{
  const bool parts = fuse_parts_can(p);
  r->found = NEWS(mem, struct found, FUSED_SIZES);
  if (parts || rows) add_fused(mem, p, t, o, r);
  const bool fused = r->n > 0;
  if (!fused) run_chain(mem, p, t, o, r);
  r->stats.graphs = (uint64_t)r->n, r->complete = r->n > 0;
  const char *what = !fused ? "that work row by row: chained into" : parts ? "around split and concat:" : "without products:";
  if (r->n) snprintf(r->why, sizeof r->why, "%d operators %s one kernel by rule", graph_ops(p), what);
}

bool by_rule_is_enough(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, struct search_result *r)
{
  double least = INFINITY;
  if (o->enough <= 0) return false;
  by_rule(mem, p, t, o, true, r);
  for (int i = 0; i < r->n; i++) least = fmin(least, r->found[i].cost);
  if (least <= o->enough) return true;
  return *r = (struct search_result){.stats = {.verified = r->stats.verified}}, false;
}

int found_order(const void *a, const void *b)
{
  const struct found *x = a, *y = b;
  return x->cost < y->cost ? -1 : x->cost > y->cost ? 1 : (x->structure > y->structure) - (x->structure < y->structure);
}

void also_by_rule(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, struct search_result *r)
{
  struct found *all = NEWS(mem, struct found, r->n + FUSED_SIZES);
  if (r->n) memcpy(all, r->found, sizeof *all * (size_t)r->n);
  r->found = all;
  add_fused(mem, p, t, o, r);
  qsort(r->found, (size_t)r->n, sizeof *r->found, found_order);
}
