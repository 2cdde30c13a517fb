// Makes a part of a piece: a program of its own. Its inputs are the tensors that the piece reads from elsewhere. Its
// outputs are the tensors that other pieces read or the program returns. It has its own copy of every constant and view.
#include "lax/piece.h"

#include <string.h>

static bool taken(const struct graph *g, const char *name)
{
  for (int t = 0; t < g->ntensors; t++)
    if (g->tensors[t].name && !strcmp(g->tensors[t].name, name)) return true;
  return false;
}

int carve_node(struct graph *to, const struct graph *from, const struct node *n, int *map, struct err *e)
{
  struct arena tmp = {0};
  int *in = NEWS(&tmp, int, n->nin + 1), t = -1, s;
  for (int k = 0; k < n->nin; k++) in[k] = map[n->in[k]];
  if (n->sub)
    s = graph_nest(to, graph_copy(to->mem, n->sub), n->nin, in, n->at, &t, e);
  else
    s = graph_add(to, n->op, n->nin, in, &n->a, n->at, &t, e);
  arena_close(&tmp);
  for (int k = 0; k < n->nout && !s; k++) {
    const char *name = from->tensors[n->out + k].name;
    map[n->out + k] = t + k;
    if (name && !taken(to, name)) to->tensors[t + k].name = arena_strdup(to->mem, name);
  }
  return s;
}

// Is t computed by r (possibly through views), and either returned by the program or a root that another piece reads?
static bool is_output(const struct facts *f, const struct piece *r, int t)
{
  bool wanted = f->kept[t];
  if (facts_maker(f, r->id, t) < 0) return false;
  for (int u = f->first_user[t]; u < f->first_user[t + 1]; u++) wanted |= f->owner[f->user[u]] != r->id;
  return wanted;
}

// needed[t]: the part needs tensor t to compute its outputs.
static void find_needed(const struct facts *f, const struct piece *r, const struct part *part, bool *needed)
{
  const struct graph *p = f->p;
  for (int i = 0; i < part->nout; i++) needed[part->out[i]] = true;
  for (int i = p->nnodes - 1; i >= 0; i--) {
    const struct node *n = &p->nodes[i];
    bool wanted = false;
    for (int k = 0; k < n->nout; k++) wanted |= needed[n->out + k];
    if (!wanted || (f->kind[i] != LIGHT && f->owner[i] != r->id)) continue;
    for (int k = 0; k < n->nin; k++) needed[n->in[k]] = true;
  }
}

static void find_outputs(const struct facts *f, const struct piece *r, struct part *part)
{
  if (r->whole) {
    part->nout = graph_outputs(f->p, part->out);
    return;
  }
  for (int states = 0; states < 2; states++) // final values of states come last, as in every program
    for (int t = 0; t < f->p->ntensors; t++)
      if ((graph_state(f->p, t) >= 0) == states && is_output(f, r, t)) part->out[part->nout++] = t;
}

// The nodes of a part in their order within the part.
struct ordered {
  const struct facts *f;
  bool *has; // by node
  int n, *nodes;
};

static void order_node(struct ordered *o, int i)
{
  const struct graph *p = o->f->p;
  const struct node *n = &p->nodes[i];
  if (o->has[i] || n->op == OP_INPUT) return;
  for (int k = 0; k < n->nin; k++) {
    const int from = p->tensors[n->in[k]].node;
    if (o->f->kind[from] == LIGHT) order_node(o, from);
  }
  o->has[i] = true, o->nodes[o->n++] = i;
}

// Views and constants come just before their first reader, so that equal layers become equal parts. The whole program keeps its own order.
static void find_order(const struct facts *f, const struct piece *r, const struct part *part, const bool *needed, struct ordered *o)
{
  const struct graph *p = f->p;
  *o = (struct ordered){f, NEWS(f->tmp, bool, p->nnodes + 1), 0, NEWS(f->tmp, int, p->nnodes + 1)};
  for (int i = 0; i < p->nnodes; i++) {
    const struct node *n = &p->nodes[i];
    bool held = f->owner[i] == r->id || (r->whole && f->kind[i] == LIGHT), made = false;
    for (int k = 0; k < n->nout; k++) made |= needed[n->out + k];
    if (held && made && (r->whole || f->kind[i] != LIGHT)) order_node(o, i);
  }
  for (int i = 0; i < part->nout; i++) {
    const int maker = p->tensors[part->out[i]].node;
    if (f->kind[maker] == LIGHT) order_node(o, maker);
  }
}

// Lists inputs in the order of their first use. The whole program keeps its own order.
static void find_inputs(const struct facts *f, const struct piece *r, const struct ordered *o, struct part *part)
{
  const struct graph *p = f->p;
  if (r->whole) {
    part->nin = graph_inputs(p, part->in);
    return;
  }
  bool *listed = NEWS(f->tmp, bool, p->ntensors + 1);
  for (int i = 0; i < o->n; i++) {
    const struct node *n = &p->nodes[o->nodes[i]];
    for (int k = 0; k < n->nin; k++) {
      int t = n->in[k], node = p->tensors[t].node;
      bool input = p->nodes[node].op == OP_INPUT, others = f->kind[node] != LIGHT && f->owner[node] != r->id;
      if (listed[t] || !(input || others)) continue;
      listed[t] = true, part->in[part->nin++] = t;
    }
  }
}

static int add_input(const struct facts *f, struct graph *g, int t, int *map, struct err *e)
{
  const struct tensor *x = &f->p->tensors[t];
  const char *name = x->name;
  struct tensor own = *x;
  own.shard = 0; // the part is a program of one device
  if (!name) {
    name = arena_printf(g->mem, "t%d", t);
    while (taken(f->p, name)) name = arena_printf(g->mem, "%s_", name);
  }
  return graph_input_as(g, name, x->dtype, &own, f->p->nodes[x->node].at, &map[t], e);
}

// Lists inputs, outputs and nodes of r.
static void find_signature(struct arena *mem, const struct facts *f, const struct piece *r, struct part *part, struct ordered *o)
{
  bool *needed = NEWS(f->tmp, bool, f->p->ntensors + 1);
  part->out = NEWS(f->tmp, int, MAX(f->p->ntensors, f->p->nnodes) + 1), part->in = NEWS(f->tmp, int, f->p->ntensors + 1);
  find_outputs(f, r, part);
  find_needed(f, r, part, needed);
  find_order(f, r, part, needed, o);
  find_inputs(f, r, o, part);
  part->in = arena_copy(mem, part->in, sizeof(int) * (size_t)part->nin);
  part->out = arena_copy(mem, part->out, sizeof(int) * (size_t)part->nout);
}

static int build(const struct facts *f, const struct part *part, const struct ordered *o, struct err *e)
{
  const struct graph *p = f->p;
  int *map = NEWS(f->tmp, int, p->ntensors + 1), s = OK, none;
  for (int i = 0; i < part->nin && !s; i++) s = add_input(f, part->g, part->in[i], map, e);
  for (int i = 0; i < o->n && !s; i++) s = carve_node(part->g, p, &p->nodes[o->nodes[i]], map, e);
  for (int i = 0; i < part->nout && !s; i++) s = graph_add(part->g, OP_OUTPUT, 1, &map[part->out[i]], NULL, NOWHERE, &none, e);
  return s;
}

int carve(struct arena *mem, const struct facts *f, const struct piece *r, struct part *part, struct err *e)
{
  struct arena_mark mark = arena_mark(f->tmp);
  *part = (struct part){.searchable = r->searchable, .row_chain = r->row_chain};
  memcpy(part->why, r->why, sizeof part->why);
  struct ordered o;
  find_signature(mem, f, r, part, &o);
  part->g = graph_new(mem, KERNEL, f->p->name);
  int s = build(f, part, &o, e);
  arena_reset(f->tmp, mark);
  return s;
}
