// Run-time extents. The shape of a tensor has the bound of a run-time extent, so code that works on shapes need not know about them; `runs` has the
// number of the extent. Run-time extents of results are inferred from those of the operands. front/masks.c handles the values.
#include "ir/ir.h"

#include <string.h>

int graph_extents(const struct graph *g)
{
  int n = 0;
  for (int i = 0; i < g->nnodes; i++) n += g->nodes[i].op == OP_INPUT && g->tensors[g->nodes[i].out].extent;
  return n;
}

int extent_input(const struct graph *g, int extent)
{
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == OP_INPUT && g->tensors[g->nodes[i].out].extent == extent) return g->nodes[i].out;
  return -1;
}

const char *extent_name(const struct graph *g, int extent)
{
  const int t = extent_input(g, extent);
  return t < 0 ? NULL : g->tensors[t].name;
}

const char *extent_called(const struct graph *g, int extent)
{
  const char *name = extent_name(g, extent);
  return name ? name : "of an input without a name";
}

// For other operators, run-time extents follow from the operands.
bool extent_told(enum op op) { return op == OP_INPUT || op_rows[op].rule == RULE_INDEX || op_rows[op].rule == RULE_VIEW; }

bool extent_tells(const struct tensor *t)
{
  bool some = false;
  for (int d = 0; d < MAX_DIMS; d++) some |= t->runs[d] != 0;
  return some;
}

int extent_along(const struct tensor *t, int extent)
{
  int dim = -1, n = 0;
  for (int d = 0; d < t->shape.n; d++)
    if (t->runs[d] == extent) dim = d, n++;
  return n == 1 ? dim : -1;
}

void extent_text(char out[512], const struct graph *g, const struct tensor *t)
{
  size_t n = (size_t)snprintf(out, 512, "[");
  for (int d = 0; d < t->shape.n; d++) {
    const char *name = t->runs[d] ? extent_name(g, t->runs[d]) : NULL;
    if (name)
      n += (size_t)snprintf(out + n, 512 - n, "%s%.*s", d ? ", " : "", 40, name);
    else
      n += (size_t)snprintf(out + n, 512 - n, "%s%lld", d ? ", " : "", (long long)t->shape.d[d]);
  }
  snprintf(out + n, 512 - n, "]");
}

// An error if a node already reads tensor t: declarations must come before.
static int unread(const struct graph *g, int t, struct loc at, struct err *e)
{
  for (int i = g->tensors[t].node + 1; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nin; k++)
      if (g->nodes[i].in[k] == t) return err_set(e, ERR_EXTENT, at, "tensor %d is read already: its run-time extents come before", t);
  return OK;
}

int graph_declare_extent(struct graph *g, int t, int64_t least, int64_t most, struct loc at, struct err *e)
{
  const int number = graph_extents(g) + 1;
  if (g->tensors[t].dtype != I32 || g->tensors[t].shape.n) return err_set(e, ERR_EXTENT, at, "a run-time extent is an i32 scalar");
  if (g->tensors[t].extent) return err_set(e, ERR_EXTENT, at, "tensor %d holds a run-time extent already", t);
  if (g->tensors[t].frozen) return err_set(e, ERR_EXTENT, at, "tensor %d is frozen, and a run-time extent changes between calls", t);
  TRY(unread(g, t, at, e));
  if (number > MOST_RUNTIME) return err_set(e, ERR_LIMIT, at, "a program has at most %d run-time extents", MOST_RUNTIME);
  if (g->world > 1) return err_set(e, ERR_WORLD, at, "a run-time extent in a program of several devices");
  if (least < 1 || most < 2 || least > most)
    return err_set(e, ERR_EXTENT, at, "a run-time extent from %lld to %lld: it is at least 1, and its bound at least 2", (long long)least,
                   (long long)most);
  TRY(graph_declare(g, t, &(struct whole_range){least, most, false}, false, at, e));
  return g->tensors[t].extent = number, OK;
}

static int check_input_runs(const struct tensor *x, struct loc at, struct err *e)
{
  int s = OK;
  if (x->state) {
    s = err_set(e, ERR_EXTENT, at, "a state has a run-time extent");
    return err_hint(e, "declare it with the bound, and read its first elements: K[:, :n]"), s;
  }
  if (x->frozen) {
    s = err_set(e, ERR_EXTENT, at, "a frozen input has a run-time extent");
    return err_hint(e, "declare it with the bound, or without `frozen`"), s;
  }
  if (!x->range.distinct || x->range.least == -1) return OK;
  s = err_set(e, ERR_EXTENT, at, "distinct numbers along a run-time extent need -1 for the elements behind it");
  return err_hint(e, "declare them >= -1"), s;
}

// iota numbers elements in row-major order. If a dimension other than the first has a run-time extent, the numbers would depend on its value.
static int check_index_runs(const struct tensor *x, const int64_t *runs, struct loc at, struct err *e)
{
  int64_t before = 1;
  for (int d = 0; d < x->shape.n; before *= x->shape.d[d++]) {
    if (!runs[d] || before == 1) continue;
    int s = err_set(e, ERR_EXTENT, at, "indices that count over %lld rows of a run-time extent", (long long)before);
    return err_hint(e, "count the rows and the columns apart: n * iota([4, 1]) + iota([n])"), s;
  }
  return OK;
}

int graph_declare_runs(struct graph *g, int t, int n, const int64_t *runs, struct loc at, struct err *e)
{
  struct tensor *x = &g->tensors[t];
  const enum op op = g->nodes[x->node].op;
  bool some = false;
  if (n != x->shape.n) return err_set(e, ERR_EXTENT, at, "%d run-time extents of %d dimensions", n, x->shape.n);
  for (int d = 0; d < n; d++) some |= runs[d] != 0;
  if (some) TRY(unread(g, t, at, e));
  if (some && op == OP_INPUT) TRY(check_input_runs(x, at, e));
  if (op_rows[op].rule == RULE_INDEX) TRY(check_index_runs(x, runs, at, e));
  for (int d = 0; d < n; d++) {
    const int holder = runs[d] > 0 && runs[d] <= MOST_RUNTIME ? extent_input(g, (int)runs[d]) : -1;
    if (runs[d] && (holder < 0 || g->tensors[holder].range.most != x->shape.d[d]))
      return err_set(e, ERR_EXTENT, at, "dimension %d of %lld has run-time extent %lld, which is not declared or has another bound", d,
                     (long long)x->shape.d[d], (long long)runs[d]);
    x->runs[d] = (uint8_t)runs[d];
  }
  return OK;
}

void graph_extents_as(struct graph *g, const struct graph *as)
{
  struct arena tmp = {0};
  int (*const lists[])(const struct graph *, int *) = {graph_inputs, graph_outputs};
  for (int k = 0; k < 2; k++) {
    const int n = lists[k](g, NULL);
    int *to = NEWS(&tmp, int, n + 1), *from = NEWS(&tmp, int, lists[k](as, NULL) + 1);
    if (lists[k](as, NULL) != n) continue;
    lists[k](g, to), lists[k](as, from);
    for (int i = 0; i < n; i++) {
      struct tensor *x = &g->tensors[to[i]];
      const struct tensor *y = &as->tensors[from[i]];
      if (!shape_eq(&x->shape, &y->shape)) continue;
      if (!k) x->extent = y->extent;
      memcpy(x->runs, y->runs, sizeof x->runs);
    }
  }
  arena_close(&tmp);
}

// ---- results ----

static const struct tensor *arg(const struct graph *g, const struct node *n, int i) { return &g->tensors[n->in[i]]; }

// Copies run-time extents of dimensions 0 .. end - 1 of x to out; dimension end - 1 corresponds to dimension `last` of out.
static void merge(struct tensor *out, int last, const struct tensor *x, int end)
{
  for (int d = end - 1, to = last; d >= 0 && to >= 0; d--, to--)
    if (x->runs[d] && x->shape.d[d] == out->shape.d[to]) out->runs[to] = x->runs[d];
}

static void of_map(const struct graph *g, const struct node *n, struct tensor *out)
{
  for (int i = 0; i < n->nin; i++) merge(out, out->shape.n - 1, arg(g, n, i), arg(g, n, i)->shape.n);
}

static void of_contract(const struct graph *g, const struct node *n, struct tensor *out)
{
  const struct tensor *x = arg(g, n, 0), *y = arg(g, n, n->nin / 2);
  merge(out, out->shape.n - 3, x, x->shape.n - 2), merge(out, out->shape.n - 3, y, y->shape.n - 2);
  out->runs[out->shape.n - 2] = x->runs[x->shape.n - 2], out->runs[out->shape.n - 1] = y->runs[y->shape.n - 1];
}

// A dimension keeps its run-time extent if a dimension of the result has the same extent and the same number of slices before it.
static void of_reshape(const struct tensor *x, struct tensor *out)
{
  int64_t before = 1;
  for (int d = 0; d < x->shape.n; before *= x->shape.d[d++]) {
    int64_t here = 1;
    for (int to = 0; to < out->shape.n && x->runs[d]; here *= out->shape.d[to++])
      if (here == before && out->shape.d[to] == x->shape.d[d]) out->runs[to] = x->runs[d];
  }
}

static void of_view(const struct node *n, const struct tensor *x, struct tensor *out)
{
  if (n->op == OP_RESHAPE) {
    of_reshape(x, out);
    return;
  }
  for (int d = 0; d < out->shape.n; d++) {
    const int from = n->op == OP_TRANSPOSE ? perm_of(&n->a, x->shape.n, d) : d;
    if (out->shape.d[d] == x->shape.d[from]) out->runs[d] = x->runs[from];
  }
}

static void of_gather(const struct node *n, const struct tensor *x, const struct tensor *at, struct tensor *out)
{
  for (int d = 0; d < out->shape.n; d++) {
    const bool chosen = d >= n->a.dim && d < n->a.dim + at->shape.n;
    out->runs[d] = chosen ? at->runs[d - n->a.dim] : x->runs[d < n->a.dim ? d : d - at->shape.n + 1];
  }
}

// Copies the run-time extents of x for dimensions whose extent is unchanged.
static void same(const struct tensor *x, struct tensor *out)
{
  for (int d = 0; d < MIN(x->shape.n, out->shape.n); d++)
    if (x->runs[d] && x->shape.d[d] == out->shape.d[d]) out->runs[d] = x->runs[d];
}

static void as_first(const struct graph *g, const struct node *n, struct tensor *out) { same(arg(g, n, 0), out); }

static void as_all(const struct graph *g, const struct node *n, struct tensor *out)
{
  for (int i = 0; i < n->nin; i++) same(arg(g, n, i), out);
}

void infer_extents(const struct graph *g, const struct node *n, struct tensor *out, int nout)
{
  bool some = false;
  for (int i = 0; i < n->nin && !some; i++) some = extent_tells(arg(g, n, i));
  if (!some || g->level != KERNEL) return;
  for (int i = 0; i < nout; i++) {
    switch (op_rows[n->op].rule) {
    case RULE_MAP: of_map(g, n, &out[i]); break;
    case RULE_CONTRACT: of_contract(g, n, &out[i]); break;
    case RULE_VIEW: of_view(n, arg(g, n, 0), &out[i]); break;
    case RULE_AT:
      if (n->op == OP_GATHER)
        of_gather(n, arg(g, n, 0), arg(g, n, 1), &out[i]);
      else
        as_first(g, n, &out[i]);
      break;
    case RULE_COMPOSITE:
      if (op_rows[n->op].flags & ENCODES)
        as_first(g, n, &out[i]);
      else
        of_map(g, n, &out[i]);
      break;
    case RULE_CONCAT: as_all(g, n, &out[i]); break;
    case RULE_REDUCE:
    case RULE_SPLIT:
    case RULE_ACCUM:
    case RULE_WORLD: as_first(g, n, &out[i]); break;
    case RULE_IO:
    case RULE_CONST:
    case RULE_INDEX:
    case RULE_GRAPH: break;
    }
  }
}
