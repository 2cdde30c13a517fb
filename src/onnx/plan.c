// Decides the fate of every node, in model order. A node is folded if all its inputs are known; else taken if it can be lowered; else left if a
// simple function can run it; else unsupported. The lowering is tried on the node alone in its own graph, which also infers the shapes of its
// results.
#include "onnx/onnx_lower.h"
#include "onnx/write.h"

#include <string.h>

enum { MOST_ROUNDS = 8 };

struct plan_planner {
  struct onnx_model *m;
  struct arena scratch;
  int *tensor, ntensor;    // of the lowering, for each value
  struct onnx_node *nodes; // planned nodes; a written-out node is replaced by its parts
  int nnodes, cap;
};

const char *onnx_node_title(struct arena *mem, const struct onnx_model *m, int node)
{
  const struct onnx_node *n = &m->nodes[node];
  const char *type = *n->domain ? arena_printf(mem, "%.60s.%.60s", n->domain, n->type) : n->type;
  if (*n->name) return arena_printf(mem, "\"%.100s\" (%.120s)", n->name, type);
  return arena_printf(mem, "number %d (%.120s)", node, type);
}

static const char *impossible(struct plan_planner *p, struct onnx_node *n)
{
  struct arena *mem = p->m->mem;
  if (!onnx_domain_known(n->domain)) return arena_printf(mem, "operators of the domain `%.60s` are not known", n->domain);
  for (int k = 0; k < n->nattrs; k++) {
    if (n->attrs[k].graphs) return "it holds a list of graphs";
    if (*n->attrs[k].ref) return "it belongs to a function";
    const char *why = n->attrs[k].g ? onnx_graph_refused(mem, n->attrs[k].g) : NULL;
    if (why) return why;
  }
  if (!n->row) n->row = onnx_row_find(n->domain, n->type);
  if (!n->row) return "there is no operator of this name that Mica knows";
  if (!n->as && !n->made && n->opset < n->row->since) return arena_printf(mem, "operator set %lld has no %s", (long long)n->opset, n->type);
  if (n->nin < n->row->least || n->nin > n->row->most) return arena_printf(mem, "it has %d inputs", n->nin);
  for (int k = 0; k < n->nin; k++)
    if (k < n->row->least && n->in[k] < 0) return arena_printf(mem, "input %d is missing", k);
  return NULL;
}

static bool is_known(const struct plan_planner *p, const struct onnx_node *n)
{
  for (int k = 0; k < n->nin; k++)
    if (n->in[k] >= 0 && !onnx_known(p->m, n->in[k])) return false;
  for (int k = 0; k < n->nattrs; k++)
    if (n->attrs[k].g) return false;
  return true;
}

// Runs n on known inputs. `elements`: all elements are known.
static bool simple(struct plan_planner *p, struct onnx_node *n, struct arena *mem, bool elements, struct onnx_host *h)
{
  *h = (struct onnx_host){.mem = mem, .n = n, .row = n->row, .nin = n->nin, .most = MIN(ONNX_KNOWN_CELLS, ONNX_MOST_KNOWN - p->m->known_cells)};
  h->in = NEWS(mem, const struct onnx_cells *, n->nin + 1), h->out = NEWS(mem, struct onnx_cells *, n->nout + 1);
  if (!n->row->host) host_fail(h, "%s", *n->row->without ? n->row->without : "it has no simple function");
  for (int k = 0; k < n->nin; k++) {
    if (n->in[k] < 0) continue;
    const struct onnx_value *v = &p->m->values[n->in[k]];
    const struct onnx_cells *known = onnx_known(p->m, n->in[k]);
    struct onnx_cells *shaped = NEW(mem, struct onnx_cells);
    *shaped = (struct onnx_cells){.type = v->type, .shape = v->shape};
    if (!v->shaped && v->node >= 0 && p->nodes[v->node].fate == ONNX_LEFT) host_late(h, arena_printf(mem, "the shape of `%.100s`", v->name));
    if (!v->shaped) host_fail(h, "the shape of `%.100s` is not known", v->name);
    h->in[k] = known ? known : shaped;
  }
  if (h->failed || !onnx_host_run(h)) return false;
  for (int k = 0; k < n->nout && elements; k++)
    if (n->out[k] >= 0 && !h->out[k]->p) return false;
  return true;
}

static void learn(struct plan_planner *p, int value, int type, const struct shape *s)
{
  struct onnx_value *v = &p->m->values[value];
  v->type = type, v->shape = *s, v->shaped = true;
}

static bool fold(struct plan_planner *p, struct onnx_node *n)
{
  struct onnx_host h;
  bool shape = !strcmp(n->row->type, "Shape") || !strcmp(n->row->type, "Size");
  if (!n->row->host || (!shape && !is_known(p, n)) || !simple(p, n, p->m->mem, true, &h)) return false;
  for (int k = 0; k < n->nout; k++) {
    if (n->out[k] < 0) continue;
    learn(p, n->out[k], h.out[k]->type, &h.out[k]->shape);
    p->m->values[n->out[k]].known = h.out[k];
    p->m->known_cells += onnx_elements(&h.out[k]->shape);
  }
  return true;
}

// Number of the graph's operators that compute.
static int work_of(const struct graph *g)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) {
    enum rule r = op_rows[g->nodes[i].op].rule;
    n += node_has(&g->nodes[i], SELECTS) || r == RULE_MAP || r == RULE_CONTRACT || r == RULE_REDUCE || r == RULE_COMPOSITE;
  }
  return n;
}

static bool lowered(struct plan_planner *p, struct onnx_node *n, const char **why)
{
  struct onnx_lower l = {.m = p->m, .g = graph_new(&p->scratch, KERNEL, NULL), .tensor = p->tensor};
  bool good = onnx_lower_node(&l, n);
  for (int k = 0; k < n->nout && good; k++) {
    if (n->out[k] < 0 || p->tensor[n->out[k]] < 0) continue;
    const struct tensor *t = &l.g->tensors[p->tensor[n->out[k]]];
    learn(p, n->out[k], l.type ? l.type : t->dtype == I32 ? ONNX_INT64 : num_rows[t->dtype].onnx, &t->shape); // indices are int64
  }
  n->tensors = l.g->ntensors, n->work = work_of(l.g);
  for (int k = 0; k < l.nin; k++) p->tensor[l.in[k]] = -1;
  for (int k = 0; k < n->nout; k++)
    if (n->out[k] >= 0) p->tensor[n->out[k]] = -1;
  if (!good) *why = arena_strdup(p->m->mem, l.why);
  return good;
}

static bool left(struct plan_planner *p, struct onnx_node *n, const char **why)
{
  struct onnx_host h;
  bool good = simple(p, n, &p->scratch, false, &h);
  for (int k = 0; k < n->nout && good; k++)
    if (n->out[k] >= 0) learn(p, n->out[k], h.out[k]->type, &h.out[k]->shape);
  if (!good && h.late && n->row->host) return true; // its shapes follow at run time, and the shapes that the model states are checked then
  if (!good && (!n->row->lower || n->row->host)) *why = arena_strdup(p->m->mem, h.why);
  return good;
}

static void decide(struct plan_planner *p, struct onnx_node *n)
{
  const char *why = NULL;
  n->fate = ONNX_TAKEN;
  if (n->into >= 0) return;
  n->fate = ONNX_UNSUPPORTED, n->why = impossible(p, n);
  if (n->why) return;
  struct arena_mark mark = arena_mark(&p->scratch);
  if (fold(p, n))
    n->fate = ONNX_FOLDED;
  else if (lowered(p, n, &n->why))
    n->fate = ONNX_TAKEN;
  else if (left(p, n, &why))
    n->fate = ONNX_LEFT;
  else if (why)
    n->why = why;
  arena_reset(&p->scratch, mark);
}

static bool is_constant(const struct onnx_node *n) { return !*n->domain && !strcmp(n->type, "Constant"); }

// Marks nodes whose results a run needs, directly or not.
static void mark_used(struct onnx_model *m)
{
  bool *wanted = NEWS(m->mem, bool, m->nvalues + 1);
  for (int i = 0; i < m->noutputs; i++) wanted[m->outputs[i]] = true;
  for (int i = m->nnodes - 1; i >= 0; i--) {
    struct onnx_node *n = &m->nodes[i];
    for (int k = 0; k < n->nout; k++) n->used |= n->out[k] >= 0 && wanted[n->out[k]];
    if (!n->used || n->fate == ONNX_FOLDED || n->into >= 0) continue;
    for (int k = 0; k < n->nin; k++)
      if (n->in[k] >= 0 && !m->values[n->in[k]].known) wanted[n->in[k]] = true;
    for (int k = 0; k < n->ncaptured; k++)
      if (onnx_find(m, n->captured[k]) >= 0) wanted[onnx_find(m, n->captured[k])] = true;
  }
}

static void more_tensors(struct plan_planner *p)
{
  if (p->ntensor >= p->m->nvalues) return;
  int n = 2 * p->m->nvalues, *to = NEWS(p->m->mem, int, n + 1);
  for (int v = 0; v < n; v++) to[v] = -1;
  p->tensor = to, p->ntensor = n;
}

static int plan_node(struct plan_planner *p, struct onnx_node n)
{
  for (int k = 0; k < n.nout; k++)
    if (n.out[k] >= 0) p->m->values[n.out[k]].node = p->nnodes;
  PUSH(p->m->mem, p->nodes, p->nnodes, p->cap) = n;
  more_tensors(p);
  if (!is_constant(&n)) decide(p, &p->nodes[p->nnodes - 1]);
  return p->nnodes - 1;
}

static void count_uses(struct onnx_model *m, const struct onnx_node *n, int by)
{
  for (int k = 0; k < n->nin; k++)
    if (n->in[k] >= 0) m->values[n->in[k]].uses += by;
}

static int plan_any(struct plan_planner *p, struct onnx_node n);

// Plans the nodes that replace a written-out node. If it cannot be written out, it is unsupported, with the reason.
static int plan_written(struct plan_planner *p, struct onnx_node n, const struct onnx_row *row)
{
  struct onnx_write w = {.m = p->m, .n = &n};
  n.row = row, n.fate = ONNX_UNSUPPORTED, n.why = impossible(p, &n);
  if (!n.why) row->write(&w);
  if (!n.why && !w.failed && p->nnodes + w.nnodes > ONNX_NODES) wr_fail(&w, "written out it would make more than %d nodes", ONNX_NODES);
  if (n.why || w.failed) {
    if (!n.why) n.why = arena_strdup(p->m->mem, w.why);
    for (int k = 0; k < n.nout; k++)
      if (n.out[k] >= 0) p->m->values[n.out[k]].node = p->nnodes;
    PUSH(p->m->mem, p->nodes, p->nnodes, p->cap) = n;
    return p->nnodes - 1;
  }
  count_uses(p->m, &n, -1);
  for (int i = 0; i < w.nnodes; i++) count_uses(p->m, &w.nodes[i], 1);
  for (int i = 0; i < w.nnodes; i++) plan_any(p, w.nodes[i]);
  return p->nnodes - 1;
}

static int plan_any(struct plan_planner *p, struct onnx_node n)
{
  const struct onnx_row *row = n.as ? NULL : onnx_row_find(n.domain, n.type);
  return row && row->write ? plan_written(p, n, row) : plan_node(p, n);
}

static void plan_nodes(struct plan_planner *p)
{
  struct onnx_model *m = p->m;
  int *at = NEWS(m->mem, int, m->nnodes + 1);
  for (int i = 0; i < m->nnodes; i++) at[i] = plan_any(p, m->nodes[i]);
  m->nodes = p->nodes, m->nnodes = p->nnodes, m->nodes_cap = p->cap;
  for (int i = 0; i < m->nnodes; i++)
    if (m->nodes[i].into >= 0) m->nodes[i].into = at[m->nodes[i].into];
}

// Builds programs with every conversion and with widened weights narrow again. If that fails, builds them with weights as they are. Further rounds
// leave the conversions that a program could not hold; the last round leaves all.
static int programs(struct onnx_model *m, struct err *e)
{
  int s = OK;
  for (int round = 0; s == OK && (!round || m->left_again); round++) {
    if (round == 1) onnx_take_again(m);
    if (round == MOST_ROUNDS) onnx_leave_all(m);
    m->narrow_weights = !round, m->left_again = 0;
    onnx_group(m);
    s = onnx_build(m, e);
  }
  return s;
}

int onnx_plan(struct onnx_model *m, struct err *e)
{
  struct plan_planner p = {.m = m};
  more_tensors(&p);
  for (int i = 0; i < m->nnodes; i++) // first, so that the constants of a gelu are known
    if (is_constant(&m->nodes[i])) decide(&p, &m->nodes[i]);
  onnx_fuse(m);
  plan_nodes(&p);
  arena_close(&p.scratch);
  mark_used(m);
  return programs(m, e);
}
