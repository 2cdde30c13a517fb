// States. An update of a state makes a new version, and all versions share the same memory. So every read of a version must come before the next
// update. Graphs are in execution order, but rewrites that do not handle states may change it.
#include "ir/ir.h"

static const struct node *maker(const struct graph *g, int t) { return &g->nodes[g->tensors[t].node]; }

// The version whose memory t is, through reshapes.
static int version(const struct graph *g, int t)
{
  while (maker(g, t)->op == OP_RESHAPE) t = maker(g, t)->in[0];
  return t;
}

int node_updated(const struct node *n)
{
  if (node_has(n, WRITES_SLICES)) return n->in[0];
  const struct node *save = n->op == OP_BLOCK && n->nout == 1 ? &n->sub->nodes[n->sub->nnodes - 1] : NULL;
  const struct node *update = save && save->op == OP_SAVE ? maker(n->sub, save->in[0]) : NULL;
  return update && node_has(update, WRITES_SLICES) ? node_iterated(n, update->in[0]) : -1;
}

int graph_state(const struct graph *g, int t)
{
  for (;;) {
    t = version(g, t);
    const struct node *n = maker(g, t);
    if (n->op == OP_INPUT) return g->tensors[t].state ? t : -1;
    t = node_updated(n);
    if (t < 0) return -1;
  }
}

int state_number(const struct graph *g, int t)
{
  int s = graph_state(g, t), n = 0;
  for (int i = 0; s >= 0 && i < g->tensors[s].node; i++) n += g->nodes[i].op == OP_INPUT;
  return s < 0 ? -1 : n;
}

bool state_output(const struct graph *g, const struct node *n)
{
  return n->op == OP_OUTPUT && node_updated(maker(g, version(g, n->in[0]))) >= 0 && graph_state(g, n->in[0]) >= 0;
}

int output_state(const struct graph *g, const struct node *n) { return state_output(g, n) ? state_number(g, n->in[0]) : -1; }

static bool has_output(const struct graph *g, int state)
{
  for (int i = 0; i < g->nnodes; i++)
    if (state_output(g, &g->nodes[i]) && graph_state(g, g->nodes[i].in[0]) == state) return true;
  return false;
}

// The last version of a state, in the state's shape if there is such a tensor; -1 if it is not updated.
static int last_version(const struct graph *g, int state)
{
  int last = -1;
  for (int i = 0; i < g->nnodes; i++)
    if (node_has(&g->nodes[i], WRITES_SLICES) && graph_state(g, g->nodes[i].out) == state) last = g->nodes[i].out;
  for (int i = 0; i < g->nnodes && last >= 0; i++) // a reshape of it to the shape of the state
    if (g->nodes[i].op == OP_RESHAPE && g->nodes[i].in[0] == last && shape_eq(&g->tensors[g->nodes[i].out].shape, &g->tensors[state].shape))
      return g->nodes[i].out;
  return last;
}

int state_outputs(struct graph *g, struct err *e)
{
  for (int t = 0, n = g->ntensors; t < n; t++) {
    if (!g->tensors[t].state || has_output(g, t)) continue;
    int v = last_version(g, t), none;
    if (v < 0) continue;
    struct attrs a = attrs_default(OP_RESHAPE);
    a.shape = g->tensors[t].shape;
    if (!shape_eq(&g->tensors[v].shape, &a.shape)) TRY(graph_add(g, OP_RESHAPE, 1, (int[]){v}, &a, NOWHERE, &v, e));
    TRY(graph_add(g, OP_OUTPUT, 1, &v, NULL, NOWHERE, &none, e));
  }
  return OK;
}

static bool writes_state(const struct graph *g, const struct node *n)
{
  int x = node_updated(n);
  return x >= 0 && graph_state(g, x) >= 0;
}

// Does node n read elements of version v, possibly through views? A view itself reads nothing; its readers do.
static bool reads(const struct graph *g, const struct node *n, int v)
{
  if (op_rows[n->op].rule == RULE_VIEW || op_rows[n->op].rule == RULE_SPLIT) return false;
  for (int k = 0; k < n->nin; k++) {
    int t = n->in[k];
    while ((op_rows[maker(g, t)->op].rule == RULE_VIEW || op_rows[maker(g, t)->op].rule == RULE_SPLIT) && maker(g, t)->nin) t = maker(g, t)->in[0];
    if (t == v) return true;
  }
  return false;
}

static int late(const struct graph *g, int v, const struct node *update, const struct node *reader, struct err *e)
{
  const struct tensor *t = &g->tensors[v];
  const struct tensor *s = &g->tensors[graph_state(g, v)];
  const double bytes = (double)shape_size(&t->shape) * dtype_bytes(t->dtype);
  int status =
      err_set(e, ERR_STATE_COPY, reader->at, "%s reads `%s` as it was before the update%s%.0d, which is written in place: %.0f bytes would be copied",
              op_rows[reader->op].name, s->name ? s->name : "a state", update->at.line ? " at line " : "", update->at.line, bytes);
  return err_hint(e, "read it before the update, or what the update leaves"), status;
}

int state_check(const struct graph *g, struct err *e)
{
  for (int u = 0; u < g->nnodes; u++) {
    if (!writes_state(g, &g->nodes[u])) continue;
    int v = version(g, node_updated(&g->nodes[u]));
    for (int i = u + 1; i < g->nnodes; i++)
      if (reads(g, &g->nodes[i], v)) return late(g, v, &g->nodes[u], &g->nodes[i], e);
  }
  return OK;
}

// May node i come next, after the nodes marked in done[]?
static bool ready(const struct graph *g, int i, const bool *done)
{
  const struct node *n = &g->nodes[i];
  for (int k = 0; k < n->nin; k++)
    if (!done[g->tensors[n->in[k]].node]) return false;
  if (!writes_state(g, n)) return true;
  for (int r = 0; r < g->nnodes; r++)
    if (r != i && !done[r] && reads(g, &g->nodes[r], version(g, node_updated(n)))) return false;
  return true;
}

int state_order(struct arena *mem, const struct graph *g, struct graph **out, struct err *e)
{
  bool writes = false;
  for (int i = 0; i < g->nnodes; i++) writes |= writes_state(g, &g->nodes[i]);
  *out = (struct graph *)g;
  if (!writes) return OK;
  struct arena tmp = {0};
  bool *done = NEWS(&tmp, bool, g->nnodes + 1);
  int *map = NEWS(&tmp, int, g->ntensors + 1), left = g->nnodes, status = OK;
  *out = graph_new_as(mem, g);
  while (left && !status) {
    int i = 0;
    while (i < g->nnodes && (done[i] || !ready(g, i, done))) i++;
    if (i == g->nnodes) break;
    status = graph_take(*out, NULL, -1, g, &g->nodes[i], map, e);
    if (!status) graph_keep_names(*out, g, &g->nodes[i], map), done[i] = true, left--;
  }
  arena_close(&tmp);
  if (!status && left) status = state_check(g, e); // reports the read that comes too late
  return status ? status : left ? err_set(e, ERR_STATE_COPY, NOWHERE, "two updates of a state read each other's results") : OK;
}
