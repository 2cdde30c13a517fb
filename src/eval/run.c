// Kernel graphs: nodes run in order, with one function for each index rule. Block and thread graphs run in
// eval_nest.c, which uses the same functions within an iteration.
#include "eval/run.h"

#include <string.h>

static const double LARGEST = 0x1p34; // most bytes of all tensors

static const struct {
  const struct domain_row *row;
  void (*fold)(struct field *F, enum op op, bool fresh, const struct fold *f, void *o, const void *x); // NULL: row->fold
  void (*contract)(struct field *F, enum op op, bool exps, int threads, stop_flag stop, struct eval_value o, struct eval_value x,
                   struct eval_value y); // NULL: the row's
  bool rounds, apart, close;
} domains[] = {[DOM_F64] = {&domain_f64},
               [DOM_F32] = {&domain_f32},
               [DOM_FIELD] = {&domain_ff},
               [DOM_RISING] = {&domain_f64, fold_rising},
               [DOM_FALLING] = {&domain_f64, fold_falling},
               [DOM_MEETING] = {&domain_f64, fold_meeting, contract_meeting},
               [DOM_ROUNDED] = {&domain_f64, .rounds = true},
               [DOM_APART] = {&domain_f64, .apart = true},
               [DOM_CLOSE] = {&domain_close, .close = true}};

size_t domain_bytes(enum domain d) { return domains[d].row->bytes; }

bool eval_orders_count(const struct graph *g)
{
  bool yes = false;
  for (int i = 0; i < g->nnodes && !yes; i++)
    yes = op_rows[g->nodes[i].op].abstract == AE_PROD || (g->nodes[i].sub && eval_orders_count(g->nodes[i].sub));
  return yes;
}

struct eval_value frame_arg(const struct eval_frame *f, const struct node *n, int i) { return f->v[n->in[i]]; }

static bool has_exp(const struct graph *g)
{
  bool yes = false;
  for (int i = 0; i < g->nnodes && !yes; i++) yes = op_rows[g->nodes[i].op].abstract == AE_EXP || (g->nodes[i].sub && has_exp(g->nodes[i].sub));
  return yes;
}

static void mark_exps(const struct graph *g, const bool *saved, bool *exps)
{
  int saver = 0;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == OP_SAVE && saved[saver++]) exps[g->nodes[i].in[0]] = true;
  for (int i = g->nnodes - 1; i >= 0; i--) {
    const struct node *n = &g->nodes[i];
    bool yes = op_rows[n->op].abstract == AE_EXP || (n->sub && has_exp(n->sub));
    for (int k = 0; k < n->nout; k++) yes |= exps[n->out + k];
    for (int k = 0; k < n->nin && yes && n->op != OP_ITER; k++) exps[n->in[k]] = true;
  }
}

// The scan that the product n is, if any; thread graphs have no scans.
static struct scan scan_of(const struct eval_frame *f, const struct node *n)
{
  return f->kernel ? graph_scan(f->above, f->kernel, n) : f->g->level == KERNEL ? graph_scan(f->g, NULL, n) : (struct scan){0};
}

// Is the node a triangle that only scans use? Then no code reads its elements.
static bool is_unread(const struct eval_frame *f, int node)
{
  return f->kernel ? graph_scans(f->above, f->kernel, node) : f->g->level == KERNEL && graph_scans(f->g, NULL, node);
}

struct eval_frame *frame_new(struct run *r, const struct graph *g, const struct eval_frame *above, const struct node *kernel, const bool *saved)
{
  struct eval_frame *f = NEW(r->mem, struct eval_frame);
  f->g = g, f->above = above ? above->g : NULL, f->kernel = above && above->g->level == KERNEL ? kernel : NULL;
  f->v = NEWS(r->mem, struct eval_value, g->ntensors);
  f->nest = NEWS(r->mem, struct eval_frame *, g->nnodes);
  f->exps = NEWS(r->mem, bool, g->ntensors);
  mark_exps(g, saved, f->exps);
  for (int i = 0; i < g->ntensors; i++) {
    f->v[i].s = g->tensors[i].shape;
    bool given = g->level == KERNEL && g->nodes[g->tensors[i].node].op == OP_INPUT;
    if (!given && !is_unread(f, g->tensors[i].node)) f->v[i].p = tensor_room(r->mem, &g->tensors[i], r->dom->bytes);
  }
  return f;
}

bool run_stopped(const struct run *r) { return stop_set(r->stop) && err_set(r->e, ERR_STOPPED, NOWHERE, "stopped"); }

struct fold fold_of(const struct node *n, const struct shape *from, const struct shape *to)
{
  int dim = n->a.dim;
  struct fold f = {1, to->d[dim], from->d[dim] / to->d[dim], 1};
  for (int i = 0; i < dim; i++) f.outer *= from->d[i];
  for (int i = dim + 1; i < from->n; i++) f.inner *= from->d[i];
  if (op_rows[n->op].attrs & A_EXTENT) f.inner *= f.groups, f.groups = 1; // reduces every extent-th element instead of adjacent ones
  return f;
}

// A product with a triangle of ones, computed as a prefix sum. Without multiplication, infinities and NaN reach only later elements.
static void run_scan(struct run *r, int along, struct eval_value o, struct eval_value x)
{
  const int64_t len = x.s.d[along], inner = along == x.s.n - 1 ? 1 : x.s.d[x.s.n - 1], all = shape_size(&x.s);
  const int64_t line = inner * (int64_t)r->dom->bytes;
  const struct fold each = {1, 1, 1, inner};
  for (int64_t i = 0; i < all / inner; i++) {
    if (i % len == 0) {
      memcpy(o.p + i * line, x.p + i * line, (size_t)line);
      continue;
    }
    memcpy(o.p + i * line, o.p + (i - 1) * line, (size_t)line);
    r->dom->fold(r->F, OP_SUM, false, &each, o.p + i * line, x.p + i * line);
  }
}

static void run_contract(struct run *r, struct eval_frame *f, const struct node *n, struct eval_value o)
{
  const struct scan s = scan_of(f, n);
  if (s.triangle) {
    run_scan(r, s.along, o, frame_arg(f, n, s.x));
    return;
  }
  memset(o.p, 0, r->dom->bytes * (size_t)shape_size(&o.s));
  int terms = n->nin / 2; // [A1 A2] [B1; B2] = A1 B1 + A2 B2
  for (int i = 0; i < terms; i++) {
    const struct eval_value x = frame_arg(f, n, i), y = frame_arg(f, n, terms + i);
    r->dom->contract(r->F, n->op, f->exps[n->out], r->threads, r->stop, o, x, y);
    if (r->apart && f->kernel) contract_apart(r, f->g, n, i, o, x, y);
  }
}

static void run_reduce(struct run *r, const struct node *n, struct eval_value o, struct eval_value x)
{
  struct fold d = fold_of(n, &x.s, &o.s);
  r->dom->fold(r->F, n->op, true, &d, o.p, x.p);
  if (op_rows[n->op].flags & MEAN) r->dom->finish(r->F, false, d.len, shape_size(&o.s), o.p);
}

static void run_concat(struct run *r, struct eval_frame *f, const struct node *n, struct eval_value o)
{
  int64_t at[MAX_DIMS] = {0};
  for (int i = 0; i < n->nin; i++) {
    struct eval_value x = frame_arg(f, n, i);
    move_paste(r->dom->bytes, o, at, x);
    at[n->a.dim] += x.s.d[n->a.dim];
  }
}

static void run_split(struct run *r, struct eval_frame *f, const struct node *n, struct eval_value x)
{
  for (int i = 0; i < n->nout; i++) {
    struct eval_value o = f->v[n->out + i];
    int64_t at[MAX_DIMS] = {0};
    at[n->a.dim] = node_part(n, i) * o.s.d[n->a.dim];
    move_cut(r->dom->bytes, x, at, o);
  }
}

static void round_results(const struct eval_frame *f, const struct node *n)
{
  for (int i = 0; i < n->nout; i++) {
    const struct eval_value *o = &f->v[n->out + i];
    for (int64_t k = 0, all = shape_size(&o->s); k < all && o->p; k++) {
      double *x = (double *)o->p + k;
      *x = num_round(f->g->tensors[n->out + i].dtype, *x);
    }
  }
}

static int run_exactly(struct run *r, struct eval_frame *f, int node)
{
  const struct node *n = &f->g->nodes[node];
  struct eval_value o = n->nout ? f->v[n->out] : (struct eval_value){0}, x = n->nin ? frame_arg(f, n, 0) : o;
  switch (op_rows[n->op].rule) {
  case RULE_CONST: r->dom->constant(r->F, n->a.scalar, o.p); break;
  case RULE_INDEX:
    for (int64_t i = 0; i < shape_size(&o.s); i++) r->dom->constant(r->F, (double)i, o.p + i * (int64_t)r->dom->bytes);
    break;
  case RULE_MAP:
    if (o.p) r->dom->map(r->F, n->op, &n->a, o, x, n->nin > 1 ? frame_arg(f, n, 1) : x);
    break;
  case RULE_CONTRACT: run_contract(r, f, n, o); break;
  case RULE_REDUCE: run_reduce(r, n, o, x); break;
  case RULE_VIEW: move_view(r->dom->bytes, n, o, x); break;
  case RULE_AT: return run_at(r, f, n);
  case RULE_CONCAT: run_concat(r, f, n, o); break;
  case RULE_SPLIT: run_split(r, f, n, x); break;
  case RULE_GRAPH:
    if (!f->nest[node]) f->nest[node] = frame_new(r, n->sub, f, n, f->exps + n->out);
    return run_nest(r, f, n, f->nest[node]);
  case RULE_WORLD: return err_set(r->e, ERR_GRAPH, n->at, "%s is of all ranks: unfold the graph before it is evaluated", op_rows[n->op].name);
  case RULE_COMPOSITE: return err_set(r->e, ERR_GRAPH, n->at, "%s is a composite: expand the graph before it is evaluated", op_rows[n->op].name);
  case RULE_IO:
  case RULE_ACCUM: break;
  }
  return run_stopped(r) ? (int)r->e->status : OK;
}

int run_node(struct run *r, struct eval_frame *f, int node)
{
  const int status = run_exactly(r, f, node);
  if (status == OK && r->rounds) round_results(f, &f->g->nodes[node]);
  return status;
}

static void take_outputs(struct run *r, struct arena *mem, const struct eval_frame *f, void **outputs)
{
  int k = 0;
  for (int i = 0; i < f->g->nnodes; i++) {
    const struct node *n = &f->g->nodes[i];
    if (n->op != OP_OUTPUT) continue;
    struct eval_value x = frame_arg(f, n, 0);
    outputs[k] = tensor_room(mem, &f->g->tensors[n->in[0]], r->dom->bytes);
    memcpy(outputs[k++], x.p, r->dom->bytes * (size_t)shape_size(&x.s));
  }
}

// Number of elements of all tensors. The tensors of a block graph count once, as all blocks use the same frame.
static double elements(const struct graph *g)
{
  double n = 0;
  for (int i = 0; i < g->ntensors; i++)
    if (g->level != KERNEL || !graph_scans(g, NULL, g->tensors[i].node)) n += (double)shape_size(&g->tensors[i].shape);
  for (int i = 0; i < g->nnodes; i++) n += g->nodes[i].sub ? elements(g->nodes[i].sub) : 0;
  return n;
}

static int fits(const struct graph *g, enum domain d, struct err *e)
{
  double bytes = elements(g) * (double)domain_bytes(d);
  if (bytes <= LARGEST) return OK;
  return err_set(e, ERR_MEMORY, NOWHERE, "the interpreter would need %.1f GiB for the tensors of %s; it takes at most %.0f", bytes / 0x1p30,
                 g->name ? g->name : "this graph", LARGEST / 0x1p30);
}

int eval_run(struct arena *mem, const struct graph *g, enum domain d, struct field *F, void *const *inputs, void **outputs, stop_flag stop,
             struct err *e)
{
  return eval_run_on(1, mem, g, d, F, inputs, outputs, stop, e);
}

int eval_run_on(int threads, struct arena *mem, const struct graph *g, enum domain d, struct field *F, void *const *inputs, void **outputs,
                stop_flag stop, struct err *e)
{
  CHECK(g->level == KERNEL && (d == DOM_FIELD) == (F != NULL));
  if (world_refuse(g, "the interpreter", e) || fits(g, d, e)) return (int)e->status;
  struct arena tmp = {0};
  struct domain_row row = *domains[d].row;
  if (domains[d].fold) row.fold = domains[d].fold;
  if (domains[d].contract) row.contract = domains[d].contract;
  struct run r = {&row, F, &tmp, MAX(1, threads), domains[d].rounds, domains[d].apart, domains[d].close, stop, e};
  struct eval_frame *f = frame_new(&r, g, NULL, NULL, NULL);
  int in = 0, s = OK;
  for (int i = 0; i < g->nnodes && !s; i++) {
    if (g->nodes[i].op == OP_INPUT)
      f->v[g->nodes[i].out].p = inputs[in++];
    else
      s = run_node(&r, f, i);
  }
  if (!s) take_outputs(&r, mem, f, outputs);
  arena_close(&tmp);
  return s;
}
