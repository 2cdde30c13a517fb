// Finds tensors that both graphs compute with the same operators from the same inputs, and makes each an input of both. Only the parts that differ
// are then tested. For example, a product of large matrices before a norm in two forms is not evaluated. Random values of such an input are more
// general than the tensor's values. So this can only accept: a difference of the reduced pair says nothing about the original pair.
#include "verify/proof.h"

#include <string.h>

struct cut_side {
  const struct graph *g;
  int *group;   // for each tensor: a number that is equal in both graphs for equal computations
  bool *needed; // for each tensor: an output of the reduced graph depends on it
};
struct cut_known { // one computation: a node, identified by the classes of its inputs
  const struct node *n;
  int *in, first; // first: class of its first output
  bool side[2];   // it occurs in that graph
};
struct cut_cutting {
  struct arena *mem;
  struct cut_side s[2];
  struct cut_known *known;
  int nknown, known_cap, classes;
  bool *common, *wanted; // for each class: expensive, and in both graphs; an input of the reduced graphs
};

static bool same_operator(const struct node *x, const struct node *y)
{
  if (x->op != y->op || x->nin != y->nin || x->nout != y->nout || !x->sub != !y->sub) return false;
  return attrs_same(&x->a, &y->a) && (!x->sub || graph_same(x->sub, y->sub));
}

static struct cut_known *find(struct cut_cutting *c, const struct node *n, const int *in)
{
  for (int k = 0; k < c->nknown; k++) {
    struct cut_known *x = &c->known[k];
    if (same_operator(x->n, n) && (!n->nin || !memcmp(x->in, in, sizeof *in * (size_t)n->nin))) return x;
  }
  return NULL;
}

static void classify(struct cut_cutting *c, int side)
{
  struct cut_side *s = &c->s[side];
  int inputs = 0;
  for (int i = 0; i < s->g->nnodes; i++) {
    const struct node *n = &s->g->nodes[i];
    if (n->op == OP_INPUT) {
      s->group[n->out] = inputs++;
      continue;
    }
    int *in = NEWS(c->mem, int, n->nin + 1);
    for (int j = 0; j < n->nin; j++) in[j] = s->group[n->in[j]];
    struct cut_known *k = n->nout ? find(c, n, in) : NULL;
    if (!k && n->nout) {
      PUSH(c->mem, c->known, c->nknown, c->known_cap) = (struct cut_known){.n = n, .in = in, .first = c->classes};
      k = &c->known[c->nknown - 1], c->classes += n->nout;
    }
    for (int j = 0; j < n->nout; j++) s->group[n->out + j] = k->first + j;
    if (k) k->side[side] = true;
  }
}

static bool costly(const struct node *n) { return op_rows[n->op].rule == RULE_CONTRACT || op_rows[n->op].rule == RULE_GRAPH; }

// Marks the tensors that the outputs need, up to the new inputs.
static void mark(struct cut_cutting *c, const struct cut_side *s)
{
  for (int i = s->g->nnodes - 1; i >= 0; i--) {
    const struct node *n = &s->g->nodes[i];
    bool inside = n->op == OP_OUTPUT;
    for (int j = 0; j < n->nout; j++) {
      int t = n->out + j;
      if (s->needed[t] && c->common[s->group[t]])
        c->wanted[s->group[t]] = true;
      else
        inside |= s->needed[t];
    }
    for (int j = 0; j < n->nin && inside; j++) s->needed[n->in[j]] = true;
  }
}

// ---- the reduced graphs ----

struct cut_making {
  const struct cut_cutting *c;
  const struct cut_side *s;
  struct graph *to;
  int *at, *input; // at: new index of each tensor of s; input: for each class, the tensor of its input
};

static int add_input(struct graph *to, const struct tensor *t, int *out)
{
  struct err e = {0};
  return graph_input_as(to, NULL, t->dtype, t, NOWHERE, out, &e);
}

static int add_node(struct cut_making *m, const struct node *n)
{
  struct err e = {0};
  int *in = NEWS(m->c->mem, int, n->nin + 1), out;
  for (int j = 0; j < n->nin; j++) in[j] = m->at[n->in[j]];
  int status = n->sub ? graph_nest(m->to, n->sub, n->nin, in, n->at, &out, &e) : graph_add(m->to, n->op, n->nin, in, &n->a, n->at, &out, &e);
  for (int j = 0; j < n->nout && !status; j++) m->at[n->out + j] = out + j;
  return status;
}

static int make_inputs(struct cut_making *m)
{
  const struct graph *g = m->s->g;
  int status = OK;
  for (int i = 0; i < g->nnodes && !status; i++)
    if (g->nodes[i].op == OP_INPUT) status = add_input(m->to, &g->tensors[g->nodes[i].out], &m->at[g->nodes[i].out]);
  // Both graphs get the inputs in the order of classes. The shape is that of any node of the class.
  for (int k = 0; k < m->c->nknown && !status; k++)
    for (int j = 0; j < m->c->known[k].n->nout && !status; j++) {
      int group = m->c->known[k].first + j;
      for (int t = 0; m->c->wanted[group] && t < g->ntensors; t++)
        if (m->s->group[t] == group) {
          status = add_input(m->to, &g->tensors[t], &m->input[group]);
          break;
        }
    }
  return status;
}

static struct graph *make(const struct cut_cutting *c, int side, struct arena *mem)
{
  const struct graph *g = c->s[side].g;
  struct cut_making m = {c, &c->s[side], graph_new(mem, KERNEL, g->name), NEWS(c->mem, int, g->ntensors + 1), NEWS(c->mem, int, c->classes + 1)};
  struct err e = {0};
  int status = make_inputs(&m);
  for (int i = 0; i < g->nnodes && !status; i++) {
    const struct node *n = &g->nodes[i];
    bool inside = n->op == OP_OUTPUT;
    for (int j = 0; j < n->nout && n->op != OP_INPUT; j++) {
      int t = n->out + j;
      if (c->wanted[m.s->group[t]])
        m.at[t] = m.input[m.s->group[t]];
      else
        inside |= m.s->needed[t];
    }
    if (inside) status = add_node(&m, n);
    for (int j = 0; j < n->nout && inside && !status; j++) // an output in both graphs of a node that is kept because another output is needed
      if (c->wanted[m.s->group[n->out + j]]) m.at[n->out + j] = m.input[m.s->group[n->out + j]];
  }
  return status == OK && graph_check(m.to, &e) == OK ? m.to : NULL;
}

bool cut_common(struct arena *mem, const struct graph *a, const struct graph *b, struct graph **ca, struct graph **cb)
{
  struct arena scratch = {0};
  struct cut_cutting c = {.mem = &scratch, .s = {{.g = a}, {.g = b}}, .classes = graph_inputs(a, NULL)};
  for (int i = 0; i < 2; i++) {
    c.s[i].group = NEWS(&scratch, int, c.s[i].g->ntensors + 1);
    c.s[i].needed = NEWS(&scratch, bool, c.s[i].g->ntensors + 1);
    classify(&c, i);
  }
  c.common = NEWS(&scratch, bool, c.classes + 1), c.wanted = NEWS(&scratch, bool, c.classes + 1);
  bool some = false;
  for (int k = 0; k < c.nknown; k++)
    for (int j = 0; j < c.known[k].n->nout && c.known[k].side[0] && c.known[k].side[1] && costly(c.known[k].n); j++)
      c.common[c.known[k].first + j] = some = true;
  if (some) mark(&c, &c.s[0]), mark(&c, &c.s[1]);
  *ca = some ? make(&c, 0, mem) : NULL;
  *cb = *ca ? make(&c, 1, mem) : NULL;
  arena_close(&scratch);
  return *ca && *cb;
}
