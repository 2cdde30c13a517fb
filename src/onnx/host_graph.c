// Operators with subgraphs: If, Loop, Scan. Subgraphs run by simple functions, node by node. Values that one iteration passes to the next are in one
// of two arenas, alternately.
#include "onnx/host_graph.h"

#include <string.h>

enum { MOST_TURNS = 1 << 20 };

const char *onnx_graph_refused(struct arena *mem, const struct onnx_graph *g)
{
  for (int i = 0; i < g->nnodes; i++) {
    const struct onnx_node *n = &g->nodes[i];
    const struct onnx_row *row = onnx_row_find(n->domain, n->type);
    if (!row || !row->host) return arena_printf(mem, "the graph that it holds has %.60s, which has no simple function", n->type);
    if (n->nin < row->least || n->nin > row->most) return arena_printf(mem, "the graph that it holds has %.60s with %d inputs", n->type, n->nin);
    for (int k = 0; k < n->nattrs; k++) {
      const char *why = n->attrs[k].g ? onnx_graph_refused(mem, n->attrs[k].g) : NULL;
      if (*n->attrs[k].ref || n->attrs[k].graphs) return "the graph that it holds belongs to a function, or holds a list of graphs";
      if (why) return why;
    }
  }
  return NULL;
}

// ---- names ----

struct graph_value {
  const char *name;
  const struct onnx_cells *x;
};
struct graph_frame {
  struct arena *mem;
  struct graph_value *values;
  int n, cap;
};

static void set(struct graph_frame *f, const char *name, const struct onnx_cells *x)
{
  PUSH(f->mem, f->values, f->n, f->cap) = (struct graph_value){name, x};
}

static const struct onnx_cells *find(const struct graph_frame *f, const char *name)
{
  for (int i = f->n - 1; i >= 0; i--)
    if (!strcmp(f->values[i].name, name)) return f->values[i].x;
  return NULL;
}

// ---- one run of a graph ----

static bool run_node(struct onnx_host *h, struct graph_frame *f, struct onnx_node n)
{
  struct onnx_host one = {.mem = f->mem, .n = &n, .row = onnx_row_find(n.domain, n.type), .most = h->most, .nin = n.nin, .runs = true};
  n.opset = h->n->opset, n.row = one.row, n.captured_as = n.captured;
  one.in = NEWS(f->mem, const struct onnx_cells *, n.nin + 1), one.out = NEWS(f->mem, struct onnx_cells *, n.nout + 1);
  one.captured = NEWS(f->mem, const struct onnx_cells *, n.ncaptured + 1);
  for (int k = 0; k < n.nin; k++) {
    if (!*n.in_name[k]) continue;
    one.in[k] = find(f, n.in_name[k]);
    if (!one.in[k]) return host_fail(h, "in its graph nothing makes `%.100s`", n.in_name[k]), false;
  }
  for (int k = 0; k < n.ncaptured; k++) one.captured[k] = find(f, n.captured[k]);
  if (!onnx_host_run(&one)) return host_fail(h, "in its graph %.60s: %.150s", n.type, one.why), false;
  for (int k = 0; k < n.nout; k++)
    if (*n.out_name[k]) set(f, n.out_name[k], one.out[k]);
  return true;
}

bool graph_run(struct onnx_host *h, struct arena *mem, const struct onnx_graph *g, int nin, const struct onnx_cells *const *in,
               const struct onnx_cells **out)
{
  struct graph_frame f = {.mem = mem};
  if (nin != g->in.n) return host_fail(h, "its graph takes %d inputs, not %d", g->in.n, nin), false;
  for (int k = 0; k < h->n->ncaptured; k++)
    if (h->captured[k]) set(&f, h->n->captured_as[k], h->captured[k]);
  for (int i = 0; i < g->ninits; i++) {
    const struct onnx_tensor *t = g->inits[i];
    if (onnx_type_kind(t->type) == NEITHER) return host_fail(h, "its graph holds %s", onnx_type_name(t->type)), false;
    struct onnx_cells *c = onnx_cells_new(mem, t->type, &t->shape);
    if (onnx_elements(&t->shape)) onnx_cells_read(c, t->raw);
    set(&f, t->name, c);
  }
  for (int k = 0; k < nin; k++) set(&f, g->in.v[k], in[k]);
  for (int i = 0; i < g->nnodes; i++)
    if (!run_node(h, &f, g->nodes[i])) return false;
  for (int k = 0; k < g->out.n; k++) {
    out[k] = find(&f, g->out.v[k]);
    if (!out[k]) return host_fail(h, "in its graph nothing makes the output `%.100s`", g->out.v[k]), false;
  }
  return true;
}

const struct onnx_graph *graph_of(struct onnx_host *h, const char *name)
{
  const struct onnx_attr *a = onnx_attr(h->n, name);
  if (!a || !a->g) return host_fail(h, "it has no %s", name), NULL;
  if (!h->runs) return host_late(h, "its graph"), NULL;
  return a->g;
}

static struct onnx_cells *copy(struct onnx_host *h, int k, const struct onnx_cells *x)
{
  struct onnx_cells *y = host_out(h, k, x->type, &x->shape);
  if (!h->failed) memcpy(y->p, x->p, 8 * (size_t)onnx_elements(&x->shape));
  return y;
}

void host_if(struct onnx_host *h)
{
  const struct onnx_cells *which = host_in(h, 0);
  if (!h->failed && (which->type != ONNX_BOOL || onnx_elements(&which->shape) != 1)) host_fail(h, "its condition is no bool");
  const struct onnx_graph *g = h->failed ? NULL : graph_of(h, which->p && !which->i[0] ? "else_branch" : "then_branch");
  if (!g) return;
  const struct onnx_cells **out = NEWS(h->mem, const struct onnx_cells *, g->out.n + 1);
  if (g->out.n < h->n->nout) return host_fail(h, "its branch has %d outputs", g->out.n);
  if (!graph_run(h, h->mem, g, 0, NULL, out)) return;
  for (int k = 0; k < h->n->nout; k++) copy(h, k, out[k]);
}

// ---- loops ----

struct graph_loop {
  const struct onnx_graph *g;
  struct arena turn[2];
  int nstate, nscan, nin;              // carried values; collected outputs; inputs of the body
  const struct onnx_cells **in, **out; // inputs and outputs of the body
  const struct onnx_cells ***parts;    // for every collected output: its value in each iteration
  int64_t turns, cap;
};

static const struct onnx_cells *moved(struct arena *mem, const struct onnx_cells *x)
{
  struct onnx_cells *y = onnx_cells_new(mem, x->type, &x->shape);
  memcpy(y->p, x->p, 8 * (size_t)onnx_elements(&x->shape));
  return y;
}

static void keep_parts(struct onnx_host *h, struct graph_loop *l, int from)
{
  if (l->turns == l->cap) {
    l->cap = l->cap ? 2 * l->cap : 16;
    for (int k = 0; k < l->nscan; k++) {
      const struct onnx_cells **more = NEWS(h->mem, const struct onnx_cells *, (size_t)l->cap);
      if (l->turns) memcpy(more, l->parts[k], sizeof *more * (size_t)l->turns);
      l->parts[k] = more;
    }
  }
  for (int k = 0; k < l->nscan; k++) {
    const struct onnx_cells *x = l->out[from + k];
    l->parts[k][l->turns] = moved(h->mem, x);
  }
  l->turns++;
}

// Joins the values of collected output k along a new axis, one for each iteration, as output `to` of the node.
static void stack(struct onnx_host *h, const struct graph_loop *l, int k, int to, int64_t at, bool reverse)
{
  int axis;
  if (!l->turns) return host_fail(h, "it took no turns, so the shape of its output %d is not known", to);
  const struct onnx_cells *first = l->parts[k][0];
  struct shape s = {.n = first->shape.n + 1};
  if (s.n > MAX_DIMS) return host_fail(h, "it makes %d dimensions", s.n);
  if (!host_axis(h, at, s.n, &axis)) return;
  for (int i = 0, j = 0; i < s.n; i++) s.d[i] = i == axis ? l->turns : first->shape.d[j++];
  struct onnx_cells *y = host_out(h, to, first->type, &s);
  struct host_lanes lanes = host_lanes(&s, axis);
  for (int64_t t = 0; t < l->turns && !h->failed; t++) {
    const struct onnx_cells *x = l->parts[k][reverse ? l->turns - 1 - t : t];
    if (!shape_eq(&x->shape, &first->shape) || x->type != first->type)
      return host_fail(h, "its output %d has another shape in turn %lld", to, (long long)t);
    for (int64_t lane = 0; lane < lanes.n; lane++) y->i[host_lane(&lanes, lane) + t * lanes.step] = x->i[lane];
  }
}

// Runs one iteration in the arena that the previous one did not use. Values that pass through it unchanged are moved there.
static bool turn(struct onnx_host *h, struct graph_loop *l, int collected)
{
  struct arena *mem = &l->turn[l->turns % 2];
  if (l->turns == MOST_TURNS) return host_fail(h, "it takes more than %d turns", MOST_TURNS), false;
  arena_close(mem);
  *mem = (struct arena){0};
  if (!graph_run(h, mem, l->g, l->nin, l->in, l->out)) return false;
  for (int k = 0; k < collected; k++)
    for (int i = 0; i < l->nin; i++)
      if (l->out[k] == l->in[i]) {
        l->out[k] = moved(mem, l->out[k]);
        break;
      }
  keep_parts(h, l, collected);
  return true;
}

static struct onnx_cells *number(struct onnx_host *h, int type, int64_t x)
{
  struct onnx_cells *c = onnx_cells_new(h->mem, type, &(struct shape){0});
  return c->i[0] = x, c;
}

static void run_loop(struct onnx_host *h, struct graph_loop *l)
{
  int64_t most = host_integer(h, 0, INT64_MAX);
  struct onnx_cells *count = number(h, ONNX_INT64, 0);
  bool goes_on = !host_has(h, 1) || host_scalar(h, 1, 1) != 0;
  l->in[0] = count, l->in[1] = number(h, ONNX_BOOL, 1);
  for (int k = 0; k < l->nstate; k++) l->in[2 + k] = host_in(h, 2 + k);
  while (!h->failed && goes_on && l->turns < most) {
    count->i[0] = l->turns;
    if (!turn(h, l, 1 + l->nstate)) return;
    if (onnx_type_kind(l->out[0]->type) != WHOLE || onnx_elements(&l->out[0]->shape) != 1) return host_fail(h, "its condition is no bool");
    goes_on = l->out[0]->i[0] != 0;
    for (int k = 0; k < l->nstate; k++) l->in[2 + k] = l->out[1 + k];
  }
  for (int k = 0; k < l->nstate && k < h->n->nout && !h->failed; k++) copy(h, k, l->in[2 + k]);
  for (int k = 0; k < l->nscan && l->nstate + k < h->n->nout && !h->failed; k++) stack(h, l, k, l->nstate + k, 0, false);
}

static bool loop_of(struct onnx_host *h, struct graph_loop *l, int nin, int control)
{
  *l = (struct graph_loop){.g = graph_of(h, "body"), .nin = nin};
  if (!l->g) return false;
  l->nscan = l->g->out.n - control;
  l->in = NEWS(h->mem, const struct onnx_cells *, nin + 1), l->out = NEWS(h->mem, const struct onnx_cells *, l->g->out.n + 1);
  l->parts = NEWS(h->mem, const struct onnx_cells **, MAX(l->nscan, 0) + 1);
  if (l->nscan < 0) host_fail(h, "its graph has %d outputs", l->g->out.n);
  return !h->failed;
}

void host_loop(struct onnx_host *h)
{
  struct graph_loop l;
  int nstate = MAX(h->nin - 2, 0);
  if (!loop_of(h, &l, 2 + nstate, 1 + nstate)) return;
  l.nstate = nstate;
  run_loop(h, &l);
  for (int i = 0; i < 2; i++) arena_close(&l.turn[i]);
}

static int64_t entry(const struct onnx_node *n, const char *name, int k)
{
  const struct onnx_attr *a = onnx_attr(n, name);
  return a && k < a->ints.n ? a->ints.v[k] : 0;
}

// Slice t of input k along its axis, without that axis.
static const struct onnx_cells *slice_of(struct onnx_host *h, int k, int which, int64_t t, int64_t turns)
{
  const struct onnx_cells *x = host_in(h, k);
  int axis;
  if (h->failed || !host_axis(h, entry(h->n, "scan_input_axes", which), x->shape.n, &axis)) return x;
  if (x->shape.d[axis] != turns) return host_fail(h, "its sequences are not of one length"), x;
  struct shape s = x->shape;
  memmove(s.d + axis, s.d + axis + 1, sizeof *s.d * (size_t)(s.n - axis - 1));
  s.n--;
  struct onnx_cells *y = onnx_cells_new(h->mem, x->type, &s);
  struct host_lanes l = host_lanes(&x->shape, axis);
  int64_t at = entry(h->n, "scan_input_directions", which) ? turns - 1 - t : t;
  for (int64_t lane = 0; lane < l.n; lane++) y->i[lane] = x->i[host_lane(&l, lane) + at * l.step];
  return y;
}

static void run_scan(struct onnx_host *h, struct graph_loop *l, int nseq)
{
  int axis;
  const struct onnx_cells *first = host_in(h, l->nstate);
  if (h->failed || !host_axis(h, entry(h->n, "scan_input_axes", 0), first->shape.n, &axis)) return;
  int64_t turns = first->shape.d[axis];
  for (int k = 0; k < l->nstate; k++) l->in[k] = host_in(h, k);
  for (int64_t t = 0; t < turns && !h->failed; t++) {
    for (int k = 0; k < nseq; k++) l->in[l->nstate + k] = slice_of(h, l->nstate + k, k, t, turns);
    if (h->failed || !turn(h, l, l->nstate)) return;
    for (int k = 0; k < l->nstate; k++) l->in[k] = l->out[k];
  }
  for (int k = 0; k < l->nstate && k < h->n->nout && !h->failed; k++) copy(h, k, l->in[k]);
  for (int k = 0; k < l->nscan && l->nstate + k < h->n->nout && !h->failed; k++)
    stack(h, l, k, l->nstate + k, entry(h->n, "scan_output_axes", k), entry(h->n, "scan_output_directions", k));
}

void host_scan(struct onnx_host *h)
{
  struct graph_loop l;
  int64_t nseq = onnx_attr_int(h->n, "num_scan_inputs", 0);
  if (nseq < 1 || nseq > h->nin) return host_fail(h, "it has %lld sequences of %d inputs", (long long)nseq, h->nin);
  if (!loop_of(h, &l, h->nin, h->nin - (int)nseq)) return;
  l.nstate = h->nin - (int)nseq;
  run_scan(h, &l, (int)nseq);
  for (int i = 0; i < 2; i++) arena_close(&l.turn[i]);
}
