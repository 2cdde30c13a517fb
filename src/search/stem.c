// Programs that read parts of inputs. The search has no slices. It works on the core of the program, in which each part of an input, including the
// views before it, is an input. A graph of the core becomes a graph of the program by adding the parts and views in front; kernels read through them.
#include "search/space.h"

struct stem_making {
  const struct graph *p;
  struct stem *s;
  bool *view, *part; // for each tensor: a view of an input; a part of one, or a view of a part
  bool *needed;      // for each tensor: the core has it
  int *map;          // for each tensor of p: that of the core
  struct err e;
};

// Whether t is a part of an input. Such a tensor is an input of the core; its views belong to the core.
static bool is_end(const struct stem_making *m, int t) { return m->part[t] && node_has(&m->p->nodes[m->p->tensors[t].node], TAKES_PART); }

// Marks views and parts. False: no input is read in parts, or another tensor is too.
static bool find_parts(struct stem_making *m)
{
  bool any = false;
  for (int i = 0; i < m->p->nnodes; i++) {
    const struct node *n = &m->p->nodes[i];
    bool looks = n->op == OP_INPUT || node_has(n, TAKES_PART) || op_rows[n->op].rule == RULE_VIEW;
    if (node_has(n, TAKES_PART) && !m->view[n->in[0]]) return false;
    for (int k = 0; k < n->nout; k++) {
      m->view[n->out + k] = looks && (!n->nin || m->view[n->in[0]]);
      m->part[n->out + k] = m->view[n->out + k] && n->nin && (node_has(n, TAKES_PART) || m->part[n->in[0]]);
      any |= m->part[n->out + k];
    }
  }
  return any;
}

static bool makes_needed(const struct stem_making *m, const struct node *n)
{
  bool makes = n->op == OP_OUTPUT;
  for (int k = 0; k < n->nout; k++) makes |= m->needed[n->out + k] && !is_end(m, n->out + k);
  return makes;
}

static bool put_core(struct stem_making *m, const struct node *n)
{
  if (n->op != OP_INPUT && makes_needed(m, n)) return graph_take(m->s->core, NULL, -1, m->p, n, m->map, &m->e) == OK;
  for (int t = n->out; t < n->out + n->nout; t++) {
    const struct tensor *x = &m->p->tensors[t];
    if (!m->needed[t]) continue;
    if (graph_input_as(m->s->core, x->name, x->dtype, x, n->at, &m->map[t], &m->e)) return false;
    m->s->from[m->s->n++] = t;
  }
  return true;
}

bool stem_of(struct arena *mem, const struct graph *p, struct stem *out)
{
  p = sums_apart(mem, p);
  int nt = p->ntensors + 1;
  struct stem_making m = {p, out, NEWS(mem, bool, nt), NEWS(mem, bool, nt), NEWS(mem, bool, nt), NEWS(mem, int, nt), {0}};
  bool good = true;
  if (!find_parts(&m)) return false;
  *out = (struct stem){.p = p, .core = graph_new(mem, KERNEL, p->name), .from = NEWS(mem, int, nt)};
  for (int i = p->nnodes - 1; i >= 0; i--)
    for (int k = 0; k < p->nodes[i].nin && makes_needed(&m, &p->nodes[i]); k++) m.needed[p->nodes[i].in[k]] = true;
  for (int i = 0; i < p->nnodes && good; i++) good = put_core(&m, &p->nodes[i]);
  return good && graph_check(out->core, &m.e) == OK;
}

// The inputs of p, and the sources of the core's inputs.
static int put_stems(const struct stem *s, struct graph *to, int *map, struct err *e)
{
  bool *needed = NEWS(to->mem, bool, s->p->ntensors + 1);
  int status = OK;
  for (int i = 0; i < s->n; i++) needed[s->from[i]] = true;
  for (int i = s->p->nnodes - 1; i >= 0; i--) {
    const struct node *n = &s->p->nodes[i];
    for (int k = 0; k < n->nout; k++)
      if (needed[n->out + k] && n->nin) needed[n->in[0]] = true;
  }
  for (int i = 0; i < s->p->nnodes && !status; i++) {
    const struct node *n = &s->p->nodes[i];
    const struct tensor *t = n->nout ? &s->p->tensors[n->out] : NULL;
    bool wanted = false;
    for (int k = 0; k < n->nout; k++) wanted |= needed[n->out + k];
    if (n->op == OP_INPUT)
      status = graph_input_as(to, t->name, t->dtype, t, n->at, &map[n->out], e);
    else if (wanted)
      status = graph_take(to, NULL, -1, s->p, n, map, e);
  }
  return status;
}

struct graph *stem_put(struct arena *mem, const struct stem *s, const struct graph *g)
{
  struct graph *to = graph_new(mem, KERNEL, g->name);
  struct err e = {0};
  int *of = NEWS(mem, int, s->p->ntensors + 1), *map = NEWS(mem, int, g->ntensors + 1), inputs = 0;
  int status = put_stems(s, to, of, &e);
  for (int i = 0; i < g->nnodes && !status; i++) {
    const struct node *n = &g->nodes[i];
    if (n->op == OP_INPUT)
      map[n->out] = of[s->from[inputs++]];
    else
      status = graph_take(to, NULL, -1, g, n, map, &e);
  }
  return status == OK && graph_check(to, &e) == OK ? to : NULL;
}
