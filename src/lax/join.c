// Joins optimized parts into one kernel graph. Parts are copied in order; the tensors of the program replace the inputs of
// a part. Outputs that no part computes (an input, a view of one) are added at the end.
#include "lax/piece.h"

#include <string.h>

// A tensor of an optimized part's signature must agree with the part's own.
static int same_tensor(const struct graph *p, int t, const struct graph *g, int u, int part, const char *what, struct err *e)
{
  const struct tensor *x = &p->tensors[t], *y = &g->tensors[u];
  if (x->dtype == y->dtype && shape_eq(&x->shape, &y->shape)) return OK;
  char want[128], got[128];
  shape_text(want, &x->shape), shape_text(got, &y->shape);
  return err_set(e, ERR_MISMATCH, NOWHERE, "part %d: its %s %s is %s%s in the program, but %s%s in the optimized graph", part + 1, what,
                 x->name ? x->name : "tensor", dtype_name(x->dtype), want, dtype_name(y->dtype), got);
}

static int same_count(const struct part *part, const struct graph *g, int number, struct err *e)
{
  int nin = graph_inputs(g, NULL), nout = graph_outputs(g, NULL);
  if (nin == part->nin && nout == part->nout) return OK;
  return err_set(e, ERR_MISMATCH, NOWHERE, "part %d has %d inputs and %d outputs, its optimized graph %d and %d", number + 1, part->nin, part->nout,
                 nin, nout);
}

// Gives tensor t of `to` its name in the program. Equal parts share one optimized graph with the names of one part. So another tensor may have this
// name; that tensor loses it.
static void name_as(struct graph *to, int t, const char *name)
{
  if (!name || to->nodes[to->tensors[t].node].op == OP_INPUT) return;
  for (int i = 0; i < to->ntensors; i++)
    if (to->tensors[i].name && !strcmp(to->tensors[i].name, name)) to->tensors[i].name = NULL;
  to->tensors[t].name = arena_strdup(to->mem, name);
}

// Copies part number i, optimized as g; map: tensors of p in `to`.
static int add_part(struct graph *to, const struct graph *p, const struct lax_split *s, int i, const struct graph *g, int *map, struct err *e)
{
  const struct part *part = &s->parts[i];
  struct arena tmp = {0};
  int *local = NEWS(&tmp, int, g->ntensors + 1), in = 0, out = 0, status = same_count(part, g, i, e);
  for (int k = 0; k < g->nnodes && !status; k++) {
    const struct node *n = &g->nodes[k];
    if (n->op == OP_INPUT) {
      int t = part->in[in++];
      CHECK(map[t] >= 0);
      status = same_tensor(p, t, g, n->out, i, "input", e), local[n->out] = map[t];
    } else if (n->op == OP_OUTPUT) {
      int t = part->out[out++];
      status = same_tensor(p, t, g, n->in[0], i, "output", e), map[t] = local[n->in[0]];
      if (!status) name_as(to, map[t], p->tensors[t].name);
    } else {
      status = carve_node(to, g, n, local, e);
    }
  }
  arena_close(&tmp);
  return status;
}

// Adds the constants, tensors computed from constants and indices, and views behind returned tensors that no part computes.
static int add_views(struct graph *to, const struct graph *p, int *map, struct arena *tmp, struct err *e)
{
  bool *needed = NEWS(tmp, bool, p->ntensors + 1);
  int s = OK;
  for (int i = p->nnodes - 1; i >= 0; i--) {
    const struct node *n = &p->nodes[i];
    bool wanted = n->op == OP_OUTPUT || (n->nout && needed[n->out] && map[n->out] < 0);
    for (int k = 0; k < n->nin && wanted; k++) needed[n->in[k]] = true;
  }
  for (int i = 0; i < p->nnodes && !s; i++) {
    const struct node *n = &p->nodes[i];
    if (!n->nout || !needed[n->out] || map[n->out] >= 0) continue;
    CHECK(op_rows[n->op].rule == RULE_VIEW || !n->nin || node_has(n, TAKES_PART) || p->tensors[n->out].weak);
    s = carve_node(to, p, n, map, e);
  }
  return s;
}

// Adds collective operators whose operands have been computed.
static int add_meetings(struct graph *to, const struct graph *p, const struct lax_split *s, int *map, struct err *e)
{
  int status = OK;
  for (int i = 0; i < s->nmeetings && !status; i++) {
    const struct node *n = &p->nodes[s->meetings[i]];
    bool there = map[n->out] < 0;
    for (int k = 0; k < n->nin && there; k++) there = map[n->in[k]] >= 0;
    if (there) status = carve_node(to, p, n, map, e);
  }
  return status;
}

static int join_all(struct graph *g, const struct graph *p, const struct lax_split *s, struct graph *const *optimized, struct arena *tmp,
                    struct err *e)
{
  int *map = NEWS(tmp, int, p->ntensors + 1), status = OK, none;
  for (int t = 0; t < p->ntensors; t++) map[t] = -1;
  for (int i = 0; i < p->nnodes && !status; i++) {
    const struct node *n = &p->nodes[i];
    const struct tensor *x = &p->tensors[n->out];
    if (n->op == OP_INPUT) status = graph_input_as(g, x->name, x->dtype, x, n->at, &map[n->out], e);
  }
  for (int i = 0; i < s->n && !status; i++) {
    status = add_meetings(g, p, s, map, e);
    if (!status) status = add_part(g, p, s, i, optimized[i], map, e);
  }
  if (!status) status = add_meetings(g, p, s, map, e);
  if (!status) status = add_views(g, p, map, tmp, e);
  for (int i = 0; i < p->nnodes && !status; i++) {
    const struct node *n = &p->nodes[i];
    if (n->op == OP_OUTPUT) status = graph_add(g, OP_OUTPUT, 1, &map[n->in[0]], NULL, n->at, &none, e);
  }
  return status;
}

int lax_join(struct arena *mem, const struct graph *p, const struct lax_split *s, struct graph *const *optimized, struct graph **out, struct err *e)
{
  struct arena tmp = {0};
  *out = graph_new(mem, KERNEL, p->name);
  (*out)->world = p->world;
  int status = join_all(*out, p, s, optimized, &tmp, e);
  if (!status) status = state_order(mem, *out, out, e);
  if (!status) status = graph_check(*out, e);
  arena_close(&tmp);
  return status;
}
