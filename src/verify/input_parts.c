// Rewrites a pair of graphs that read parts of an input: the parts become inputs, and the input becomes their concatenation. The new pair is equal if
// and only if the old one is, because every input is a concatenation of its parts. Sums over ranks become sums over separate inputs, which the formal
// check can compare.
#include "verify/proof.h"

struct input_parts { // one input. parts: 1: no part of it is read; 0: it stays whole, as a state or since its parts do not nest
  int dim;
  int64_t parts;
};

static const struct node *maker(const struct graph *g, int t) { return &g->nodes[g->tensors[t].node]; }

static int input_number(const struct graph *g, int t)
{
  int k = 0;
  for (int i = 0; i < g->tensors[t].node; i++) k += g->nodes[i].op == OP_INPUT;
  return k;
}

static bool cuts_input(const struct graph *g, const struct node *n) { return n->op == OP_CHUNK && maker(g, n->in[0])->op == OP_INPUT; }

// For each input, finds the finest division into equal parts that the graph reads. Every part that is read is a concatenation of such parts.
static void find_parts(const struct graph *g, struct input_parts *of)
{
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (!cuts_input(g, n)) continue;
    struct input_parts *p = &of[input_number(g, n->in[0])];
    const int64_t most = MAX(p->parts, n->a.parts);
    const bool alike = p->parts && p->dim == n->a.dim && most % p->parts == 0 && most % n->a.parts == 0;
    const bool fits = !g->tensors[n->in[0]].state && (p->parts == 1 || alike);
    *p = (struct input_parts){n->a.dim, fits ? most : 0};
  }
}

static int joined(struct graph *to, int dim, int n, const int *part, int *out, struct err *e)
{
  struct attrs a = attrs_default(OP_CONCAT);
  a.dim = dim;
  return n == 1 ? (*out = part[0], OK) : graph_add(to, OP_CONCAT, n, part, &a, NOWHERE, out, e);
}

static int add_parts(struct graph *to, const struct tensor *x, struct input_parts p, int *part, int *whole, struct err *e)
{
  struct tensor one = *x;
  one.shape.d[p.dim] /= p.parts;
  for (int k = 0; k < p.parts; k++) TRY(graph_input_as(to, NULL, x->dtype, &one, NOWHERE, &part[k], e));
  return joined(to, p.dim, (int)p.parts, part, whole, e);
}

static int with_parts(struct arena *mem, const struct graph *g, const struct input_parts *of, struct graph **out, struct err *e)
{
  int *map = NEWS(mem, int, g->ntensors + 1), **part = NEWS(mem, int *, g->ntensors + 1), input = 0;
  *out = graph_new(mem, KERNEL, g->name);
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    const struct input_parts p = n->op == OP_INPUT ? of[input++] : cuts_input(g, n) ? of[input_number(g, n->in[0])] : (struct input_parts){0, 0};
    if (p.parts < 2) {
      TRY(graph_take(*out, NULL, -1, g, n, map, e));
    } else if (n->op == OP_INPUT) {
      part[n->out] = NEWS(mem, int, p.parts);
      TRY(add_parts(*out, &g->tensors[n->out], p, part[n->out], &map[n->out], e));
    } else {
      const int64_t each = p.parts / n->a.parts;
      TRY(joined(*out, p.dim, (int)each, part[n->in[0]] + n->a.index * each, &map[n->out], e));
    }
  }
  return OK;
}

bool parts_as_inputs(struct arena *mem, const struct graph *a, const struct graph *b, struct graph **pa, struct graph **pb)
{
  struct err e = {0};
  bool any = false;
  int n = graph_inputs(a, NULL);
  struct input_parts *of = NEWS(mem, struct input_parts, n + 1);
  for (int i = 0; i < n; i++) of[i].parts = 1;
  find_parts(a, of), find_parts(b, of);
  for (int i = 0; i < n; i++) any |= of[i].parts > 1;
  return any && with_parts(mem, a, of, pa, &e) == OK && with_parts(mem, b, of, pb, &e) == OK;
}
