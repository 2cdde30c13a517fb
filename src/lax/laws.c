// Applies rewrite laws to a whole program. A law replaces the computation of one result. The operands of the replacement are earlier tensors of the
// program. The old and the new computation are extracted as two small graphs with these operands as inputs, and the verifier compares them. The size
// of a proof depends on the law, not on the program. The whole program is equal because each replaced computation is equal.
#include "lax/lax.h"

enum { MOST_NODES = 64 }; // of the part of the program that a law is compared with

struct law_pair { // two graphs with the same inputs
  const struct graph *p, *to;
  const int *map; // tensors of p -> of `to`
  struct graph *was, *is;
  int *of_p, *of_to; // tensors of p -> of `was`, of `to` -> of `is`; -1: not there yet
  int left;          // nodes that may still be added
};

// Adds an input to both graphs, with the shape of tensor t of g.
static bool add_input(struct law_pair *c, const struct graph *g, int t, int *was, int *is)
{
  const struct tensor *as = &g->tensors[t];
  char name[16];
  struct err e = {0};
  snprintf(name, sizeof name, "x%d", graph_inputs(c->was, NULL));
  return graph_input_as(c->was, name, as->dtype, as, NOWHERE, was, &e) == OK && graph_input_as(c->is, name, as->dtype, as, NOWHERE, is, &e) == OK;
}

// Adds tensor t of `to` to `is`. Tensors older than node `first` are inputs of both graphs, for all tensors of p that they stand for.
static bool add_new(struct law_pair *c, int t, int first)
{
  if (c->of_to[t] >= 0) return true;
  const int node = c->to->tensors[t].node;
  const struct node *n = &c->to->nodes[node];
  struct err e = {0};
  int was;
  if (node < first && (n->nin || n->op == OP_INPUT)) { // both have constants of their own
    if (!add_input(c, c->to, t, &was, &c->of_to[t])) return false;
    for (int i = 0; i < c->p->ntensors; i++)
      if (c->map[i] == t) c->of_p[i] = was;
    return true;
  }
  for (int i = 0; i < n->nin; i++)
    if (!add_new(c, n->in[i], first)) return false;
  return graph_take(c->is, NULL, -1, c->to, n, c->of_to, &e) == OK;
}

// Adds tensor t of p to `was`.
static bool add_old(struct law_pair *c, int t)
{
  if (c->of_p[t] >= 0) return true;
  const struct node *n = &c->p->nodes[c->p->tensors[t].node];
  struct err e = {0};
  int is;
  if (!c->left--) return false;
  if (n->op == OP_INPUT) return add_input(c, c->p, t, &c->of_p[t], &is);
  for (int i = 0; i < n->nin; i++)
    if (!add_old(c, n->in[i])) return false;
  struct arena mem = {0};
  int *known = arena_copy(&mem, &c->of_p[n->out], sizeof *known * (size_t)n->nout);
  const bool added = graph_take(c->was, NULL, -1, c->p, n, c->of_p, &e) == OK;
  for (int i = 0; i < n->nout; i++)
    if (known[i] >= 0) c->of_p[n->out + i] = known[i]; // other results of the node stay inputs
  return arena_close(&mem), added;
}

static bool end_with(struct graph *g, int t)
{
  struct err e = {0};
  return graph_add(g, OP_OUTPUT, 1, &t, NULL, NOWHERE, &(int){0}, &e) == OK && graph_check(g, &e) == OK;
}

// Whether tensor `is` of `to` is equal to tensor `was` of p. New nodes of `to` begin at `first`. map is correct for all earlier tensors.
static bool equal(const struct lax_proof *proof, const struct graph *p, int was, const struct graph *to, int is, int first, const int *map)
{
  struct arena mem = {0};
  struct law_pair c = {p, to, map, graph_new(&mem, KERNEL, "was"), graph_new(&mem, KERNEL, "is"), .left = MOST_NODES};
  c.of_p = NEWS(&mem, int, p->ntensors + 1), c.of_to = NEWS(&mem, int, to->ntensors + 1);
  for (int i = 0; i < p->ntensors; i++) c.of_p[i] = -1;
  for (int i = 0; i < to->ntensors; i++) c.of_to[i] = -1;
  bool proved = add_new(&c, is, first);
  c.of_p[was] = -1;
  proved = proved && add_old(&c, was) && end_with(c.was, c.of_p[was]) && end_with(c.is, c.of_to[is]) && proof->equal(proof->arg, c.was, c.is);
  arena_close(&mem);
  return proved;
}

int lax_by_law(struct arena *mem, const struct graph *p, lax_law *law, void *own, const struct lax_proof *proof, struct graph **out, struct err *e)
{
  struct graph *to = graph_new_as(mem, p);
  int *map = NEWS(mem, int, p->ntensors + 1), found = 0;
  for (int i = 0; i < p->ntensors; i++) map[i] = -1;
  for (int i = 0; i < p->nnodes; i++) {
    const struct node *n = &p->nodes[i];
    const int first = to->nnodes;
    int made = -1, status = n->nout == 1 ? law(own, to, p, n, map, &made, e) : NO;
    if (status == OK && proof && !equal(proof, p, n->out, to, made, first, map)) status = NO;
    if (status == OK)
      map[n->out] = made, found++;
    else if (status == NO)
      status = graph_take(to, NULL, -1, p, n, map, e);
    TRY(status);
    graph_keep_names(to, p, n, map);
  }
  if (!found) return NO;
  TRY(graph_without_unread(mem, to, false, out, e));
  return graph_check(*out, e);
}
