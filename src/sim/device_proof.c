// Checks the kernels of a device program in the interpreter, one by one (device_proof.h).
#include "sim/device_proof.h"
#include "sim/device_fed.h"
#include "verify/verify.h"

#include <math.h>
#include <string.h>

// Most element operations of a kernel that is run, and of one that is also run on special inputs. The interpreter does 1.0e9 a second in products
// (`mica tile run kernels/gemm_sm80.tile`), so the first limit is 0.8 s for them. Elementwise kernels take up to ten times as long.
static const double MOST_WORK = 8e8, MOST_SPECIAL = 2e7;
enum { SHRINKS = 3 }; // how often inputs are scaled down because exponentials amplify rounding

struct proving {
  struct arena *mem;
  const struct lower_plan *p;
  const struct choice *pick;
  uint64_t seed;
  stop_flag stop;
  struct device_proof *out;
  const char **why;
};

struct lone { // one kernel as a kernel graph
  struct graph *g;
  enum dtype *store, *dtype; // by tensor of g: its dtypes in memory and in the whole graph
  struct order *order;       // by tensor of g: its order in memory
  struct fed fed;            // its inputs
  bool *positive;            // by input: random values are positive. True for results of other kernels, except parts of f32 (legal/parts.c)
  double *size;              // by input: factor of random values. Each later part of f32 is smaller by 8 bits
  int *at;                   // by tensor of the whole graph: tensor of g, or -1
};

// ---- a kernel as a graph ----

static void same_types(struct lone *l, const struct lower_plan *p, int t)
{
  l->store[l->at[t]] = p->store[t], l->dtype[l->at[t]] = p->g->tensors[t].dtype;
  l->order[l->at[t]] = p->order ? p->order[t] : (struct order){-1, false};
}

// Adds a kernel's operand: an input, an index, or a view of one.
static int bring(struct lone *l, const struct lower_plan *p, int t, struct err *e)
{
  const struct node *n = &p->g->nodes[p->g->tensors[t].node];
  if (l->at[t] >= 0) return OK;
  if (op_rows[n->op].rule == RULE_VIEW) {
    TRY(bring(l, p, n->in[0], e));
    TRY(graph_add(l->g, n->op, 1, &l->at[n->in[0]], &n->a, n->at, &l->at[t], e));
  } else if (op_rows[n->op].rule == RULE_INDEX) {
    TRY(graph_add(l->g, n->op, 0, NULL, &n->a, n->at, &l->at[t], e));
  } else {
    l->size[l->fed.n] = ldexp(1, -8 * MAX(legal_part(p->g, t), 0));
    l->positive[l->fed.n] = legal_part(p->g, t) < 0 && (n->op != OP_INPUT || wants_positive(p->g, t));
    l->fed.from[l->fed.n] = t, l->fed.made[l->fed.n++] = n->op != OP_INPUT;
    TRY(graph_input_as(l->g, NULL, p->store[t], &p->g->tensors[t], n->at, &l->at[t], e));
  }
  same_types(l, p, t);
  return OK;
}

static int bring_kernel(struct lone *l, const struct lower_plan *p, int node, struct err *e)
{
  const struct node *n = &p->g->nodes[node];
  int *in = NEWS(l->g->mem, int, n->nin + 1), first = 0;
  for (int k = 0; k < n->nin; k++) {
    TRY(bring(l, p, n->in[k], e));
    in[k] = l->at[n->in[k]];
  }
  if (node_updated(n) >= 0) l->g->tensors[l->at[graph_root(p->g, node_updated(n))]].state = true; // updated in place
  TRY(graph_nest(l->g, graph_copy(l->g->mem, n->sub), n->nin, in, n->at, &first, e));
  for (int k = 0; k < n->nout; k++) l->at[n->out + k] = first + k, same_types(l, p, n->out + k);
  return OK;
}

static int alone(struct arena *mem, const struct lower_plan *p, const struct lower_unit *u, bool tail, struct lone *l, struct err *e)
{
  int nt = p->g->ntensors;
  *l = (struct lone){.g = graph_new(mem, KERNEL, u->name),
                     .store = NEWS(mem, enum dtype, nt + 1),
                     .dtype = NEWS(mem, enum dtype, nt + 1),
                     .fed = {.from = NEWS(mem, int, nt + 1), .made = NEWS(mem, bool, nt + 1)},
                     .positive = NEWS(mem, bool, nt + 1),
                     .size = NEWS(mem, double, nt + 1),
                     .at = NEWS(mem, int, nt + 1),
                     .order = NEWS(mem, struct order, nt + 1)};
  for (int t = 0; t < nt; t++) l->at[t] = -1, l->order[t] = (struct order){-1, false};
  TRY(bring_kernel(l, p, u->first, e));
  if (tail) TRY(bring_kernel(l, p, u->last, e));
  const struct node *n = &p->g->nodes[tail ? u->last : u->first];
  for (int k = 0; k < n->nout; k++) TRY(graph_add(l->g, OP_OUTPUT, 1, &l->at[n->out + k], NULL, n->at, NULL, e));
  return OK;
}

// ---- cost of a run ----

// Approximate number of element operations.
static double work(const struct graph *g)
{
  double sum = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct graph *b = g->nodes[i].sub;
    double once = 0, each = 0;
    for (int k = 0; b && k < b->nnodes; k++) {
      const struct node *n = &b->nodes[k];
      bool looped = op_rows[n->op].rule == RULE_ACCUM || (n->nout && (b->tensors[n->out].phase == VARYING || b->tensors[n->out].phase == RUN));
      const struct shape *x = n->nin && n->op != OP_ITER ? &b->tensors[n->in[0]].shape : NULL;
      double size = n->nout ? (double)shape_size(&b->tensors[n->out].shape) : 0;
      *(looped ? &each : &once) += op_rows[n->op].rule == RULE_CONTRACT && x->n ? size * (double)x->d[x->n - 1] : size;
    }
    if (b) sum += (once + each * (double)graph_iterations(b)) * (double)graph_blocks(b);
  }
  return sum;
}

// ---- the choice for fewer blocks ----

static int alike(const struct choice *a, const struct choice *b)
{
  int same = a->scheme == b->scheme && a->tail == b->tail ? 1 : -KNOBS;
  for (int k = 0; k < KNOBS; k++) same += a->k.v[k] == b->k.v[k];
  return same;
}

// A shorter loop has fewer iterations that blocks could share.
static const struct choice *fewer_parts(struct arena *mem, const struct lower_job *j, const struct choice *want)
{
  static const char *const knobs[] = {"parts", "split"};
  for (size_t i = 0; i < COUNT(knobs); i++) {
    struct choice *c = arena_copy(mem, want, sizeof *c);
    int *parts = scheme_knob_at(c, knobs[i]);
    while (parts && --*parts > 1)
      if (isfinite(scheme_cost(scheme_at(c->scheme), j, &c->k))) return c;
  }
  return NULL;
}

// The wanted choice, or the most similar one if its knobs do not suit the smaller number of blocks. NULL: none has its scheme.
static const struct choice *nearest(struct arena *mem, const struct lower_plan *p, const struct choice *want)
{
  const struct lower_unit *u = &p->unit[0];
  const struct choice *best = NULL;
  struct lower_job j = lower_unit_job(mem, p, u, want->tail);
  bool known = u->nchoices && (!want->tail || u->last != u->first);
  if (known && isfinite(scheme_cost(scheme_at(want->scheme), &j, &want->k))) return want;
  if (known && (best = fewer_parts(mem, &j, want))) return best;
  for (int i = 0; i < u->nchoices; i++)
    if (!best || alike(&u->choice[i], want) > alike(best, want)) best = &u->choice[i];
  return best && best->scheme == want->scheme && best->tail == want->tail ? best : NULL;
}

static void add_note(struct proving *w, const struct lower_unit *u, const char *what)
{
  w->out->note = arena_printf(w->mem, "%s%s%s %s", w->out->note, *w->out->note ? "; " : "", u->name, what);
}

// ---- running ----

// off: a result is too far from the reference.
static int check_unit(struct proving *w, struct device_host *h, const struct lower_unit *u, const char *how, bool *off, struct err *e)
{
  struct sim_report r;
  struct device_answer a[16];
  *off = false;
  TRY(device_host_launch(h, 0, &r, w->stop, e));
  w->out->blocks += r.blocks, w->out->elements += r.counts.elements;
  if (r.found) {
    const struct sim_error *x = &r.errors[0];
    return *w->why = arena_printf(w->mem, "%s (%s): %s: %s", u->name, how, sim_class_name[x->kind], x->text), NO;
  }
  int n = device_host_compare(h, 0, (int)COUNT(a), a);
  if (stop_set(w->stop)) return err_set(e, ERR_STOPPED, NOWHERE, "the comparison of %s was stopped", u->name);
  for (int i = 0; i < n; i++) {
    w->out->relative = MAX(w->out->relative, a[i].bound > 0 ? a[i].relative / a[i].bound : a[i].relative); // the bound of whole numbers is 0
    if (a[i].fine) continue;
    *off = true;
    *w->why = arena_printf(w->mem, "%s (%s): relative error %.3g, %lld elements wrong; element %lld is %g, not %g", u->name, how, a[i].relative,
                           (long long)a[i].wrong, (long long)a[i].worst, a[i].got, a[i].want);
    return NO;
  }
  if (device_host_counters_zero(h)) return OK;
  return *w->why = arena_printf(w->mem, "%s (%s) does not leave its counters at zero", u->name, how), NO;
}

// Checks the kernel on one set of special inputs.
static int check_unit_special(struct proving *w, struct arena *mem, const struct device_program *d, const struct graph *g, const struct buffers *b,
                              const struct lower_unit *u, struct err *e)
{
  struct device_host h = {0};
  struct device_host_opts o = {.program = g, .inputs = b, .stop = w->stop};
  struct reference64 r = {0};
  struct special_answer a = {0};
  struct sim_report said;
  struct err wrong = {0};
  int status = device_host_open(&h, mem, d, &o, e);
  if (status == OK) status = device_host_launch(&h, 0, &said, w->stop, e);
  bool all = true;
  for (int i = 0; i < b->nout && status == OK; i++) all &= device_host_output(&h, i, b->out[i]);
  device_host_close(&h);
  if (status == OK && said.found) {
    const struct sim_error *x = &said.errors[0];
    return *w->why = arena_printf(w->mem, "%s on special inputs (%s): %s: %s", u->name, d->launch[0].how, sim_class_name[x->kind], x->text), NO;
  }
  if (status == OK && all) status = special_reference(g, b, w->stop, &r, e);
  if (status == OK && all) status = special_compare(&r, g, b, b->out, w->stop, &a, &wrong);
  reference64_close(&r);
  w->out->held += a.held, w->out->special += a.all;
  if (wrong.id == ERR_WRONG) *w->why = arena_printf(w->mem, "%s (%s): %s", u->name, d->launch[0].how, wrong.text);
  if (wrong.status && wrong.id != ERR_WRONG) *e = wrong;
  return status;
}

static enum dtype coarser(enum dtype a, enum dtype b) { return num_rows[a].tolerance >= num_rows[b].tolerance ? a : b; }

// The graph with the coarser of each tensor's two dtypes, in memory and in the whole graph. It limits the size of numbers and gives the tolerance.
static const struct graph *rounded_most(struct arena *mem, const struct graph *from, const struct lone *l)
{
  struct graph *g = graph_copy(mem, from);
  for (int t = 0; t < g->ntensors; t++) g->tensors[t].dtype = coarser(g->tensors[t].dtype, coarser(l->store[t], l->dtype[t]));
  return g;
}

static bool reads_inputs(const struct lone *l)
{
  bool all = true;
  for (int i = 0; i < l->fed.n; i++) all &= !l->fed.made[i];
  return all;
}

static bool computes(const struct graph *g, enum abstract kind)
{
  bool yes = false;
  for (int i = 0; i < g->nnodes && !yes; i++) yes = op_rows[g->nodes[i].op].abstract == kind || (g->nodes[i].sub && computes(g->nodes[i].sub, kind));
  return yes;
}

// Does the kernel multiply exponentials in a product? An exponential may be 0 in its dtype and not in float64. Its product with an infinity is then
// NaN, which is no error of the kernel.
static bool weighs(const struct graph *g) { return computes(g, AE_EXP) && (computes(g, AE_MATMUL) || computes(g, AE_CONCAT_MATMUL)); }

// whole: the graph that computes the kernel's inputs; NULL if it reads only inputs of the program.
static int run_special(struct proving *w, struct arena *mem, const struct device_program *d, const struct lone *l, const struct graph *whole,
                       const struct lower_unit *u, struct err *e)
{
  const struct graph *g = rounded_most(mem, d->g, l);
  struct buffers *b;
  int status = OK;
  for (int round = 0, n = special_rounds(whole ? whole : g); round < n && status == OK; round++) {
    TRY(buffers_open_until(g, hash_mix(w->seed, (uint64_t)round), w->stop, &b, e));
    if (whole)
      status = fed_inputs(&l->fed, whole, g, w->seed, round, w->stop, b, e);
    else
      special_inputs(g, b, w->seed, round);
    if (status == OK) status = check_unit_special(w, mem, d, g, b, u, e);
    buffers_close(b);
  }
  return status;
}

// Only schemes that choose the step of a loop let blocks share its steps.
static struct shrink_steps steps_of(const struct choice *c)
{
  struct choice copy = *c;
  const bool by_steps = scheme_knob_at(&copy, "step");
  return (struct shrink_steps){scheme_knob(c, "step"), scheme_knob(c, "cols"), by_steps ? scheme_knob(c, "split") : 0, 0};
}

// Rows of a tile that a kernel takes at a time if they do not depend on each other. Its code is the same for any number of rows. 0: they may depend.
static int64_t rows_at_once(const struct choice *c)
{
  if (c->tail || !scheme_at(c->scheme)->by_rows) return 0;
  return (int64_t)MAX(scheme_knob(c, "join"), 1) * MAX(scheme_knob(c, "regs"), 1);
}

static int make_lone(struct proving *w, struct arena *mem, const struct lone *l, const struct graph *g, const struct choice *want,
                     struct lower_plan *p, const struct choice **chosen, struct device_program *d, struct err *e)
{
  struct lower_opts lo = {.tails = want->tail, .dependent = w->p->dependent, .order = l->order};
  TRY(lower_plan_of(mem, g, l->store, w->p->gpu, &lo, p, e));
  *chosen = p->nunits == 1 + want->tail ? nearest(mem, p, want) : NULL;
  return *chosen ? lower_make(mem, p, (struct choice[]){**chosen, {0}}, d, e) : OK;
}

// Most special values cannot be the result of a kernel: a sum of exponentials is never negative. A kernel that reads results of others is therefore
// run on the values that these compute from special inputs.
static int run_fed(struct proving *w, struct arena *mem, const struct lone *of_whole, const struct lower_unit *u, const struct choice *want,
                   struct err *e)
{
  struct lone l;
  struct lower_plan p;
  struct device_program d;
  const struct choice *c;
  const struct graph *whole = fed_graph(mem, w->p->g, &of_whole->fed, steps_of(want), e);
  if (!whole) return e->status;
  struct lower_plan small = *w->p;
  small.g = whole;
  TRY(alone(mem, &small, u, want->tail, &l, e));
  if (work(whole) + reference64_products(whole) > MOST_SPECIAL) return OK;
  TRY(make_lone(w, mem, &l, l.g, want, &p, &c, &d, e));
  return c ? run_special(w, mem, &d, &l, whole, u, e) : OK;
}

static int run(struct proving *w, struct arena *mem, const struct lone *l, const struct graph *g, const struct lower_unit *u,
               const struct choice *want, struct err *e)
{
  struct lower_plan p;
  struct device_program d;
  struct device_host h = {0};
  const struct choice *c;
  struct device_host_opts o = {.positive = l->positive, .size = l->size, .dtype = l->dtype, .seed = w->seed, .stop = w->stop};
  TRY(make_lone(w, mem, l, g, want, &p, &c, &d, e));
  if (!c) return add_note(w, u, "was not run: its scheme does not take fewer blocks"), OK;
  if (alike(c, want) <= KNOBS) add_note(w, u, "was run with other knobs");
  bool off = true;
  int status = OK;
  for (int i = 0; i <= SHRINKS && off; i++) {
    o.most = h.scale / 4;
    status = device_host_open(&h, mem, &d, &o, e);
    if (status == OK) status = check_unit(w, &h, u, d.launch[0].how, &off, e);
    w->out->run += !i && !e->status;
    off = off && status == NO && device_host_rounding_counts(&h);
    device_host_close(&h);
  }
  if (status || weighs(g) || work(g) > MOST_SPECIAL) return status;
  return reads_inputs(l) ? run_special(w, mem, &d, l, NULL, u, e) : run_fed(w, mem, l, u, want, e);
}

// Fewer rows of tiles, if the kernel can be made by the very same choice; else with full tiles. NULL: it cannot be made smaller.
static struct graph *smaller(struct proving *w, struct arena *mem, const struct lone *l, const struct graph *g, const struct choice *want)
{
  struct shrink_steps steps = steps_of(want);
  struct graph *full = NULL, *few;
  struct lower_plan p;
  struct device_program d;
  const struct choice *c;
  struct err e = {0};
  if (!verify_shrink_axes(mem, g, steps, &full)) full = NULL;
  steps.rows = rows_at_once(want);
  if (!steps.rows || !verify_shrink_axes(mem, g, steps, &few) || work(few) >= work(full ? full : g)) return full;
  return make_lone(w, mem, l, few, want, &p, &c, &d, &e) == OK && c && alike(c, want) > KNOBS ? few : full;
}

static int prove_unit(struct proving *w, int i, struct err *e)
{
  struct arena mem = {0};
  struct lone l;
  struct graph *small;
  const struct lower_unit *u = &w->p->unit[i];
  int status = alone(&mem, w->p, u, w->pick[i].tail, &l, e);
  if (status == OK) {
    struct graph *few = device_fewer_slices(&mem, l.g), *g = few;
    if ((small = smaller(w, &mem, &l, few, &w->pick[i]))) g = small;
    const bool full = graph_same(g, l.g);
    if (work(g) > MOST_WORK)
      add_note(w, u, full ? "was not run: it cannot be made smaller" : "was not run: its tiles are large");
    else
      status = run(w, &mem, &l, g, u, &w->pick[i], e), w->out->full += full;
  }
  if (e->status && e->at.file) e->at.file = arena_strdup(w->mem, e->at.file); // the name would be freed with the text
  arena_close(&mem);
  return status;
}

// ---- cost of a proof ----

// Whether unit i is checked; only: as in device_prove.
static bool is_checked(const struct lower_plan *p, const struct choice *pick, int i, int only)
{
  return !p->unit[i].product && !p->unit[i].meet.m.ranks && (only < 0 ? !lower_inside(p, pick, i) : only == i);
}

// Inputs are made, and the reference reads them.
static double unit_work(const struct graph *g)
{
  double sum = work(g);
  if (sum > MOST_WORK) return 0;
  for (int i = 0; i < g->nnodes; i++)
    if (g->nodes[i].op == OP_INPUT) sum += (double)shape_size(&g->tensors[g->nodes[i].out].shape);
  return sum;
}

double device_proof_work(const struct lower_plan *p, const struct choice *pick)
{
  double sum = 0;
  for (int i = 0; i < p->nunits; i++) {
    struct arena mem = {0};
    struct proving w = {.p = p, .pick = pick};
    struct lone l;
    struct err e = {0};
    if (is_checked(p, pick, i, -1) && alone(&mem, p, &p->unit[i], pick[i].tail, &l, &e) == OK) {
      struct graph *few = device_fewer_slices(&mem, l.g), *small = smaller(&w, &mem, &l, few, &pick[i]);
      sum += unit_work(small ? small : few);
    }
    arena_close(&mem);
  }
  return sum;
}

// ---- all units ----

struct proofs {  // of several units; each has an arena, results and an error of its own
  int n, failed; // failed: the first unit that is known to be wrong or was not checked, n: none; atomic
  const int *unit;
  struct proving *of;
  struct device_proof *out;
  struct arena *mem;
  struct err *err;
  const char **why;
  int *status;
};

// A unit behind a failed one does not count.
static void prove_one(void *arg, int k, int worker)
{
  (void)worker;
  struct proofs *x = arg;
  if (k > __atomic_load_n(&x->failed, __ATOMIC_RELAXED)) return;
  x->status[k] = prove_unit(&x->of[k], x->unit[k], &x->err[k]);
  for (int was = __atomic_load_n(&x->failed, __ATOMIC_RELAXED); x->status[k] != OK && k < was;)
    if (__atomic_compare_exchange_n(&x->failed, &was, k, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) break;
}

static void add_proof(struct arena *mem, const struct device_proof *one, struct device_proof *sum)
{
  sum->run += one->run, sum->full += one->full, sum->blocks += one->blocks, sum->elements += one->elements;
  sum->held += one->held, sum->special += one->special, sum->relative = MAX(sum->relative, one->relative);
  if (*one->note) sum->note = arena_printf(mem, "%s%s%s", sum->note, *sum->note ? "; " : "", one->note);
}

static void proofs_open(struct proofs *x, struct arena *mem, const struct proving *w, int n, const int *unit)
{
  *x = (struct proofs){.n = n,
                       .failed = n,
                       .unit = unit,
                       .of = NEWS(mem, struct proving, n + 1),
                       .out = NEWS(mem, struct device_proof, n + 1),
                       .mem = NEWS(mem, struct arena, n + 1),
                       .err = NEWS(mem, struct err, n + 1),
                       .why = NEWS(mem, const char *, n + 1),
                       .status = NEWS(mem, int, n + 1)};
  for (int k = 0; k < n; k++) {
    x->out[k].note = x->why[k] = "";
    x->of[k] = *w, x->of[k].mem = &x->mem[k], x->of[k].out = &x->out[k], x->of[k].why = &x->why[k];
  }
}

int device_prove(struct arena *mem, const struct lower_plan *p, const struct choice *pick, int only, uint64_t seed, int threads, stop_flag stop,
                 struct device_proof *out, const char **why, struct err *e)
{
  const double start = now_seconds();
  const struct proving w = {.p = p, .pick = pick, .seed = seed, .stop = stop};
  int *unit = NEWS(mem, int, p->nunits + 1), n = 0, status = OK;
  struct proofs x;
  for (int i = 0; i < p->nunits; i++)
    if (is_checked(p, pick, i, only)) unit[n++] = i;
  proofs_open(&x, mem, &w, n, unit);
  pool_run(threads, n, prove_one, &x);
  *out = (struct device_proof){.note = ""};
  for (int k = 0; k < n && status == OK; k++) {
    out->kernels++, status = x.status[k];
    add_proof(mem, &x.out[k], out);
    if (status != OK) *why = arena_strdup(mem, x.why[k]), *e = x.err[k];
    if (status != OK && e->at.file) e->at.file = arena_strdup(mem, e->at.file);
  }
  for (int k = 0; k < n; k++) arena_close(&x.mem[k]);
  out->seconds = now_seconds() - start;
  return status;
}
