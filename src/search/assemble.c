// Builds kernel graphs from plans. Inputs and device tensors get one class for each dimension where blocks read or write them (kernel-level reshapes,
// which cost nothing). Library operators use the program's own shapes.
#include "search/space.h"

#include <string.h>

struct joiner {
  const struct planner *pl;
  const struct space *s;
  struct graph *g;
  struct err *e;
  int *program;             // program tensor -> tensor of g, or -1
  struct search_placed *at; // by device tensor
};

// The labels of l with each class in a dimension of its own.
static struct labels spread(const struct labels *l)
{
  struct labels r = {0};
  for (int i = 0; i < l->n; i++) {
    if (!l->d[i].n) r.n++;
    for (int k = 0; k < l->d[i].n; k++) r.d[r.n++] = (struct dim){1, {l->d[i].c[k]}};
  }
  return r;
}

static int reshape(struct joiner *j, int from, const struct shape *to, int *out)
{
  *out = from;
  if (shape_eq(to, &j->g->tensors[from].shape)) return OK;
  struct attrs a = attrs_default(OP_RESHAPE);
  a.shape = *to;
  return graph_add(j->g, OP_RESHAPE, 1, &from, &a, NOWHERE, out, j->e);
}

// The kernel graph's tensor for program tensor t. Adds views as needed.
static int materialize(struct joiner *j, int t, int *out)
{
  const struct graph *p = j->s->p;
  const struct node *n = &p->nodes[p->tensors[t].node];
  int status = OK, x;
  if (j->program[t] < 0) {
    CHECK(op_rows[n->op].rule == RULE_VIEW || !n->nin);
    if (n->nin) status = materialize(j, n->in[0], &x);
    if (!status) status = graph_add(j->g, n->op, n->nin, &x, &n->a, NOWHERE, &j->program[t], j->e);
  }
  *out = j->program[t];
  return status;
}

// Makes device tensor d readable by blocks.
static int place(struct joiner *j, int d)
{
  const struct device *dev = &j->pl->m->dev[d];
  if (j->at[d].tensor >= 0 || device_constant(j->s, dev)) return OK;
  CHECK(dev->visit >= 0);
  const struct visit *v = &j->s->visit[dev->visit];
  int t, status = materialize(j, v->tensor, &t);
  struct labels l = spread(&v->l);
  struct shape s = {l.n};
  for (int i = 0; i < l.n; i++) s.d[i] = l.d[i].n ? j->s->classes[(int)l.d[i].c[0]].extent : 1;
  if (!status) status = reshape(j, t, &s, &j->at[d].tensor);
  j->at[d].l = l;
  return status;
}

// Whether kernel x reads device tensor d in the program's shape: it is a library operator, or it reads d under another labelling.
static bool reads_shown(const struct planner *pl, const struct option *x, int d)
{
  for (int k = 0; k < x->nneed && x->table < 0; k++)
    if (x->need[k] == d) return true;
  for (int i = 0; i < x->p.n && x->table >= 0; i++) {
    int leaf = x->p.deriv[i] < 0 ? pl->tables[x->table].v[x->p.value[i]].leaf : d;
    if (leaf != d && canonical_device(pl, leaf) == d) return true;
  }
  return false;
}

// Whether device tensor d must have the program's shape.
static bool shown(const struct joiner *j, const struct plan *p, int d)
{
  if (d >= j->pl->nfixed + j->pl->ncut) return true;
  for (int i = 0; i < p->n; i++)
    if (reads_shown(j->pl, p->k[i], d)) return true;
  return false;
}

static int add_block(struct joiner *j, const struct plan *p, const struct option *x)
{
  const struct table *t = &j->pl->tables[x->table];
  struct labels want[MAX_ROOTS];
  struct search_placed made[MAX_ROOTS];
  int status = OK;
  for (int i = 0; i < x->p.n && !status; i++)
    if (x->p.deriv[i] < 0) status = place(j, t->v[x->p.value[i]].leaf);
  for (int k = 0; k < x->nmake; k++) {
    int v = j->pl->m->dev[x->make[k]].visit;
    want[k] = v < 0 || !shown(j, p, x->make[k]) ? (struct labels){-1} : spread(&j->s->visit[v].l);
  }
  if (!status) status = build_block(j->g, j->s, t, &x->p, &x->z, j->pl->m->dev, j->at, x->root, x->nmake, want, made, j->e);
  for (int k = 0; k < x->nmake && !status; k++) {
    int d = x->make[k], v = j->pl->m->dev[d].visit;
    j->at[d] = made[k];
    if (want[k].n < 0) continue;
    int tensor = j->s->visit[v].tensor;
    status = reshape(j, made[k].tensor, &j->s->p->tensors[tensor].shape, &j->program[tensor]);
  }
  return status;
}

static int add_library(struct joiner *j, const struct option *x)
{
  const struct graph *p = j->s->p;
  const struct node *n = &p->nodes[x->node];
  int in[4], out, status = OK;
  if (n->op == OP_INPUT) return OK; // an input is an output
  if (op_rows[n->op].rule == RULE_VIEW) return materialize(j, n->out, &out);
  for (int i = 0; i < n->nin && !status; i++) status = materialize(j, n->in[i], &in[i]);
  if (!status) status = graph_add(j->g, n->op, n->nin, in, &n->a, NOWHERE, &out, j->e);
  if (!status) j->program[n->out] = out;
  return status;
}

static bool ready(const struct plan *p, const bool *done, int i)
{
  for (int k = 0; k < p->k[i]->nneed; k++)
    for (int o = 0; o < p->n; o++)
      for (int m = 0; m < p->k[o]->nmake; m++)
        if (!done[o] && p->k[o]->make[m] == p->k[i]->need[k]) return false;
  return true;
}

// Each kernel reads results of earlier kernels only.
bool plan_order(const struct plan *p, int *order)
{
  bool done[MAX_CHAIN] = {false};
  for (int count = 0; count < p->n; count++) {
    int i = p->n - 1;
    while (i >= 0 && (done[i] || !ready(p, done, i))) i--;
    if (i < 0) return false;
    done[order[count] = i] = true;
  }
  return true;
}

static int add_kernels(struct joiner *j, const struct plan *p)
{
  int order[MAX_CHAIN], status = OK;
  if (!plan_order(p, order)) return NO;
  for (int i = 0; i < p->n && status == OK; i++) {
    const struct option *x = p->k[order[i]];
    status = x->table < 0 ? add_library(j, x) : add_block(j, p, x);
  }
  return status;
}

static int add_outputs(struct joiner *j)
{
  const struct graph *p = j->s->p;
  for (int i = 0; i < p->nnodes; i++) {
    if (p->nodes[i].op != OP_OUTPUT) continue;
    int t, from = p->nodes[i].in[0], status = materialize(j, from, &t);
    const char *name = p->tensors[from].name;
    if (!status && name && !j->g->tensors[t].name) status = graph_name(j->g, t, name, NOWHERE, j->e);
    if (!status) status = graph_add(j->g, OP_OUTPUT, 1, &t, NULL, NOWHERE, &(int){0}, j->e);
    if (status) return status;
  }
  return OK;
}

int assemble(struct arena *mem, const struct planner *pl, const struct plan *p, struct graph **out, struct err *e)
{
  const struct space *s = pl->m->s;
  struct arena scratch = {0};
  struct joiner j = {
      pl, s, graph_new(mem, KERNEL, s->p->name), e, NEWS(&scratch, int, s->p->ntensors), NEWS(&scratch, struct search_placed, pl->ndev)};
  int status = OK;
  memset(j.program, -1, sizeof(int) * (size_t)s->p->ntensors);
  for (int d = 0; d < pl->ndev; d++) j.at[d].tensor = -1;
  for (int i = 0; i < s->p->nnodes && !status; i++) {
    const struct node *n = &s->p->nodes[i];
    const struct tensor *t = &s->p->tensors[n->out];
    if (n->op == OP_INPUT) status = graph_input_as(j.g, t->name, t->dtype, t, NOWHERE, &j.program[n->out], e);
  }
  if (!status) status = add_kernels(&j, p);
  if (!status) status = add_outputs(&j);
  if (!status) status = conditions_mask(mem, &j.g, s->p, e);
  *out = j.g;
  arena_close(&scratch);
  return status;
}

static size_t say(char *text, size_t n, size_t at, const char *fmt, ...) PRINTF(4, 5);
static size_t say(char *text, size_t n, size_t at, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  int more = at < n ? vsnprintf(text + at, n - at, fmt, ap) : 0;
  va_end(ap);
  return MIN(n, at + (size_t)MAX(0, more));
}

void plan_text(const struct planner *pl, const struct plan *p, char *text, size_t n)
{
  const struct space *s = pl->m->s;
  int order[MAX_CHAIN];
  size_t at = 0;
  *text = 0;
  for (int i = 0; i < p->n && plan_order(p, order); i++) {
    const struct option *x = p->k[order[i]];
    if (!x->kernels) continue;
    at = say(text, n, at, "%s", at ? " | " : "");
    if (x->table < 0) {
      at = say(text, n, at, "%s", op_rows[s->p->nodes[x->node].op].name);
      continue;
    }
    const struct search_schedule *sch = &pl->tables[x->table].sch;
    at = say(text, n, at, "grid");
    for (int k = 0; k < sch->ngrid; k++) at = say(text, n, at, " %c=%s", "xyz"[k], s -> classes[sch->grid[k]].name);
    if (sch->loop >= 0) at = say(text, n, at, " loop i=%s", s->classes[sch->loop].name);
  }
}
