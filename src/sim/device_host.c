// A device program on this machine (device_host.h).
//
// Tolerances are those of sim/against.c. The bound on the relative norm of the difference is in the row (`kernel` of base/num.h) of the tensor's
// dtype in the graph, in which operands of tensor cores are rounded, whatever the dtype in memory. The error of an element may be 8 times the
// bound, relative to itself plus the root mean square of all. If that fails, effects of underflow are allowed for (rt/underflow.c).
#include "sim/device_host.h"
#include "eval/eval.h"
#include "kern/kern.h"
#include "sim/tile_host.h"
#include "sim/number.h"

#include <math.h>
#include <string.h>

enum { ALIGN = 256, SHRINKS = 8 }; // alignment of GPU memory; how often the inputs are scaled down at most

static const double MOST_OFF = 8;     // an element's error, of the bound
static const double ROUNDING = 0.5;   // of a tolerance: what rounding may take
static const double ABOVE_ZERO = 0.1; // least value of positive inputs, so that quotients by them stay moderate; they are also scaled down by less

// ---- memory ----

static void *room(struct arena *mem, int64_t bytes)
{
  uintptr_t raw = (uintptr_t)arena_alloc(mem, (size_t)bytes + ALIGN);
  return (void *)((raw + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
}

static void *poisoned(struct arena *mem, int64_t bytes) { return memset(room(mem, bytes), 0xff, (size_t)bytes); }

// Offset in its buffer of element i of a tensor, in row-major order.
static int64_t place_of(const struct device_host *h, int tensor, int64_t i)
{
  return order_place(h->d->order ? &h->d->order[tensor] : NULL, &h->d->g->tensors[tensor].shape, i);
}

static int64_t bytes_of(const struct device_host *h, int tensor)
{
  const struct tensor *t = &h->d->g->tensors[tensor];
  int64_t stride[MAX_DIMS];
  return order_strides(h->d->order ? &h->d->order[tensor] : NULL, &t->shape, stride) * dtype_bytes(t->dtype);
}

static void *at(const struct device_host *h, const struct lower_place *p)
{
  return p->kind == PLACE_INPUT ? h->in[p->index] : p->kind == PLACE_OUTPUT ? h->out[p->index] : h->work + p->offset;
}

enum { LOOK = 1 << 16 }; // elements between two looks at the stop

// Whether a loop over elements ends at element i.
static bool ends(const struct device_host *h, int64_t i) { return i % LOOK == 0 && stop_set(h->stop); }

static int stopped(struct err *e) { return err_set(e, ERR_STOPPED, NOWHERE, "stopped"); }

// Unfinished after a stop.
static void fill(const struct device_host *h)
{
  const struct graph *g = h->d->g;
  int *ins = NEWS(h->mem, int, graph_inputs(g, NULL) + 1), n = graph_inputs(g, ins);
  for (int i = 0; i < n; i++) {
    const struct tensor *t = &g->tensors[ins[i]];
    struct rng r = {hash_mix(h->o->seed, (uint64_t)i)};
    char *p = h->in[i];
    int bytes = dtype_bytes(t->dtype);
    double *whole = num_whole(t->dtype) || t->whole ? tensor_room(h->mem, t, sizeof *whole) : NULL;
    if (whole) eval_whole_numbers(t, &r, 0, whole);
    for (int64_t k = 0, size = shape_size(&t->shape); k < size && whole && !ends(h, k); k++)
      num_set(tile_type_of(t->dtype), whole[k], p + place_of(h, ins[i], k) * bytes);
    if (whole) continue;
    bool positive = h->o->positive && h->o->positive[i];
    for (int64_t k = 0, size = shape_size(&t->shape); k < size && !ends(h, k); k++) {
      double x = rng_normal(&r) * (h->o->size ? h->o->size[i] : 1);
      num_set(tile_type_of(t->dtype), positive ? sqrt(h->scale) * (fabs(x) + ABOVE_ZERO) : h->scale * x, p + place_of(h, ins[i], k) * bytes);
    }
  }
}

// Copies the given input values (unfinished after a stop), which have the dtypes of o->program.
static void copy_inputs(struct device_host *h)
{
  const struct graph *g = h->d->g, *p = h->g = h->o->program;
  int n = graph_inputs(g, NULL), *ins = NEWS(h->mem, int, n + 1);
  graph_inputs(p, ins);
  for (int i = 0; i < n; i++) {
    const struct tensor *t = &g->tensors[h->in_tensor[i]];
    for (int64_t k = 0, size = shape_size(&t->shape); k < size && !ends(h, k); k++) {
      const double x = num_read(p->tensors[ins[i]].dtype, h->o->inputs->in[i], k);
      num_set(tile_type_of(t->dtype), x, (char *)h->in[i] + place_of(h, h->in_tensor[i], k) * dtype_bytes(t->dtype));
    }
  }
}

static void allocate(struct device_host *h)
{
  const struct graph *g = h->d->g;
  int nin = graph_inputs(g, NULL), nout = graph_outputs(g, NULL), *ins = NEWS(h->mem, int, nin + 1);
  graph_inputs(g, ins);
  h->in_tensor = ins;
  h->in = NEWS(h->mem, void *, nin + 1), h->out = NEWS(h->mem, void *, nout + 1);
  h->in_type = NEWS(h->mem, enum tile_type, nin + 1);
  for (int i = 0; i < nin; i++) h->in[i] = room(h->mem, bytes_of(h, ins[i])), h->in_type[i] = tile_type_of(g->tensors[ins[i]].dtype);
  for (int l = 0; l < h->d->nlaunch; l++)
    for (int k = 0; k < h->d->launch[l].nargs; k++) {
      const struct launch_arg *a = &h->d->launch[l].arg[k];
      if (a->at.kind == PLACE_OUTPUT && !h->out[a->at.index]) h->out[a->at.index] = poisoned(h->mem, a->elements * tile_types[a->type].bytes);
    }
  h->work = poisoned(h->mem, h->d->workspace);
  memset(h->work, 0, (size_t)h->d->zeroed);
}

// Copies the initial values of states to the buffers of their outputs, in which kernels update them.
static void put_states(const struct device_host *h)
{
  const struct graph *g = h->d->g;
  for (int i = 0, out = 0; i < g->nnodes; i++) {
    if (g->nodes[i].op != OP_OUTPUT) continue;
    int in = output_state(g, &g->nodes[i]);
    if (in >= 0 && h->out[out]) memcpy(h->out[out], h->in[in], (size_t)bytes_of(h, h->in_tensor[in]));
    out++;
  }
}

// ---- the reference ----

static void read_input(const void *arg, int input, int64_t from, int64_t to, double *out)
{
  const struct device_host *h = arg;
  enum tile_type t = h->in_type[input];
  for (int64_t i = from; i < to; i++) {
    int64_t at = place_of(h, h->in_tensor[input], i);
    out[i - from] = num_one(t, (const char *)h->in[input] + at * tile_types[t].bytes);
  }
}

// The reference is the kernel graph, with the results of all kernels as outputs.
static int own_reference(struct device_host *h, struct err *e)
{
  const struct graph *g = h->d->g;
  struct graph *r = graph_copy(h->mem, g);
  for (int i = 0; i < g->nnodes; i++)
    for (int k = 0; k < g->nodes[i].nout && (g->nodes[i].op == OP_BLOCK || g->nodes[i].op == OP_MATMUL); k++) {
      int t = g->nodes[i].out + k;
      TRY(graph_add(r, OP_OUTPUT, 1, &t, NULL, NOWHERE, NULL, e));
    }
  h->g = r, h->own = true;
  return OK;
}

static bool same_inputs(const struct graph *a, const struct graph *b)
{
  struct arena mem = {0};
  int n = graph_inputs(a, NULL), *x = NEWS(&mem, int, n + 1), *y = NEWS(&mem, int, graph_inputs(b, NULL) + 1);
  bool same = n == graph_inputs(b, y) && graph_outputs(a, NULL) == graph_outputs(b, NULL);
  graph_inputs(a, x);
  for (int i = 0; i < n && same; i++)
    same = a->tensors[x[i]].dtype == b->tensors[y[i]].dtype && shape_eq(&a->tensors[x[i]].shape, &b->tensors[y[i]].shape);
  arena_close(&mem);
  return same;
}

static int refer(struct device_host *h, const struct graph *program, struct err *e)
{
  struct graph *plain;
  if (!program)
    TRY(own_reference(h, e));
  else {
    TRY(graph_expand(h->mem, program, true, &plain, e));
    if (!same_inputs(h->d->g, plain)) return err_set(e, ERR_MISMATCH, NOWHERE, "the program and the graph have different inputs or outputs");
    h->g = plain;
  }
  struct reference64_from from = {.read = read_input, .arg = h, .in_range = true, .stop = h->stop};
  h->scale = h->o->most > 0 ? h->o->most : 1;
  for (int i = 0; i <= SHRINKS; i++, h->scale /= 4) {
    fill(h);
    if (stop_set(h->stop)) return stopped(e);
    reference64_close(&h->reference);
    TRY(reference64_run(&h->reference, h->g, &from, e));
    if (!h->reference.overflow) return OK;
  }
  return err_set(e, ERR_WRONG, NOWHERE, "no random inputs keep the reference in the range of its dtypes");
}

int device_host_open(struct device_host *h, struct arena *mem, const struct device_program *d, const struct device_host_opts *o, struct err *e)
{
  *h = (struct device_host){.mem = mem, .d = d, .o = o, .dtype = o->dtype, .stop = o->stop};
  int status = OK;
  allocate(h);
  if (o->inputs)
    copy_inputs(h);
  else
    status = refer(h, o->program, e);
  if (!status && stop_set(h->stop)) status = stopped(e);
  if (!status) put_states(h);
  h->o = NULL;
  return status;
}

void device_host_close(struct device_host *h)
{
  reference64_close(&h->reference);
  h->reference = (struct reference64){0};
}

// ---- launches ----

static double element(const struct device_host *h, const struct launch_arg *a, int64_t i)
{
  return num_one(a->type, (const char *)at(h, &a->at) + i * tile_types[a->type].bytes);
}

static double at_operand(const struct device_host *h, const struct launch *l, int o, int64_t batch, int64_t row, int64_t col)
{
  const int64_t *s = l->mul.stride[o];
  return element(h, &l->arg[blas_index(&l->mul, o)], batch * s[0] + row * s[1] + col * s[2]);
}

// Applies the library's epilogue to a sum of products.
static double ended(const struct device_host *h, const struct launch *l, double sum, int64_t batch, int64_t row, int64_t col)
{
  const enum op act = lower_epilogue_act(l->mul.epilogue);
  const struct blas_product *p = &l->mul;
  double x = (double)p->alpha * sum;
  if (blas_has(p, BLAS_C)) x += (double)p->beta * at_operand(h, l, BLAS_C, batch, row, col);
  if (blas_has(p, BLAS_BIAS)) x += at_operand(h, l, BLAS_BIAS, batch, row, col);
  return act == OP_SAVE ? x : kern_apply(act, &(struct attrs){0}, x, 0);
}

static int multiply(struct device_host *h, const struct launch *l, struct err *e)
{
  const struct blas_product *p = &l->mul;
  struct blas_arranged taken;
  if (!blas_arrange(p, &taken)) return err_set(e, ERR_TARGET, NOWHERE, "%s: the library takes no such product", l->name);
  const struct launch_arg *d = &l->arg[blas_index(p, BLAS_D)];
  struct arena mem = {0};
  double *row = NEWS(&mem, double, p->k);
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t m = 0; m < p->m; m++) {
      for (int64_t k = 0; k < p->k; k++) row[k] = at_operand(h, l, BLAS_A, b, m, k);
      for (int64_t n = 0; n < p->n; n++) {
        double sum = 0;
        for (int64_t k = 0; k < p->k; k++) sum += row[k] * at_operand(h, l, BLAS_B, b, k, n);
        int64_t to = b * p->stride[BLAS_D][0] + m * p->stride[BLAS_D][1] + n * p->stride[BLAS_D][2];
        num_set(d->type, ended(h, l, sum, b, m, n), (char *)at(h, &d->at) + to * tile_types[d->type].bytes);
      }
    }
  arena_close(&mem);
  return OK;
}

int device_host_launch(struct device_host *h, int i, struct sim_report *r, stop_flag stop, struct err *e)
{
  const struct launch *l = &h->d->launch[i];
  *r = (struct sim_report){0};
  if (l->product) return multiply(h, l, e);
  if (l->k->nparams) return err_set(e, ERR_TILE, l->k->at, "%s has sizes that are not constants", l->name);
  const bool *reads = tile_host_reads(h->mem, l->k);
  struct sim_buffer *b = NEWS(h->mem, struct sim_buffer, l->nargs + 1);
  for (int k = 0, n = 0; k < l->k->nbuffers; k++) {
    if (l->k->buffers[k].mem != MEM_GL) continue;
    const struct launch_arg *a = &l->arg[n];
    size_t bytes = (size_t)(a->elements * tile_types[a->type].bytes);
    b[n] = (struct sim_buffer){at(h, &a->at), bytes, reads[k] || !a->written || a->kept || a->tensor == ARG_COUNTERS};
    if (!b[n].written) memset(b[n].data, 0xff, bytes);
    n++;
  }
  struct sim_input in = {.params = NEWS(h->mem, int64_t, 1), .buffers = b, .nbuffers = l->nargs, .stop = stop};
  return sim_run(h->mem, l->p, l->k, &in, r, e);
}

static const struct launch_arg *writer_of(const struct device_host *h, int output)
{
  for (int l = 0; l < h->d->nlaunch; l++)
    for (int k = 0; k < h->d->launch[l].nargs; k++) {
      const struct launch_arg *a = &h->d->launch[l].arg[k];
      if (a->written && a->tensor >= 0 && a->at.kind == PLACE_OUTPUT && a->at.index == output) return a;
    }
  return NULL;
}

bool device_host_output(const struct device_host *h, int i, void *out)
{
  const struct launch_arg *a = writer_of(h, i);
  if (!a) return false;
  int *outs = NEWS(h->mem, int, graph_outputs(h->g, NULL) + 1);
  graph_outputs(h->g, outs);
  const struct tensor *t = &h->g->tensors[outs[i]];
  for (int64_t k = 0, n = shape_size(&t->shape); k < n; k++) num_write(t->dtype, out, k, element(h, a, place_of(h, a->tensor, k)));
  return true;
}

bool device_host_counters_zero(const struct device_host *h)
{
  for (int64_t i = 0; i < h->d->zeroed; i++)
    if (h->work[i]) return false;
  return true;
}

// ---- comparing ----

// floor: the part of the norm of the difference that underflow can explain.
static void compare(const struct device_host *h, const struct launch_arg *a, const double *want, double floor, struct device_answer *r)
{
  double norm = 0, difference = 0, furthest = -1;
  r->wrong = 0;
  for (int64_t x = 0; x < r->elements; x++) norm += want[x] * want[x];
  double count = (double)MAX(r->elements, 1), typical = sqrt(norm / count) + floor / sqrt(count) / r->bound;
  for (int64_t x = 0; x < r->elements && !ends(h, x); x++) {
    double got = element(h, a, place_of(h, a->tensor, x)), off = fabs(got - want[x]);
    if (isnan(off)) off = INFINITY;
    difference += off * off;
    if (off > 0 && !(off <= MOST_OFF * r->bound * (fabs(want[x]) + typical))) r->wrong++;
    if (off > furthest) furthest = off, r->worst = x, r->got = got, r->want = want[x];
  }
  r->relative = norm > 0 ? sqrt(difference / norm) : sqrt(difference);
  r->fine = sqrt(difference) <= r->bound * (norm > 0 ? sqrt(norm) : 1) + floor && !r->wrong;
}

// The floors by tensor of h->g; zeros if they cannot be computed.
static const double *find_floors(const struct device_host *h)
{
  double *floor = NEWS(h->mem, double, h->g->ntensors + 1);
  struct reference64_from from = {.read = read_input, .arg = h, .stop = h->stop};
  struct err e = {0};
  underflow_floors(&h->reference, &from, floor, &e);
  return floor;
}

// The tensor of h->g for a launch's argument; -1: none.
static int tensor_of(const struct device_host *h, const struct launch_arg *a)
{
  if (h->own) return a->tensor;
  if (a->at.kind != PLACE_OUTPUT) return -1;
  int *outs = NEWS(h->mem, int, graph_outputs(h->g, NULL) + 1);
  graph_outputs(h->g, outs);
  return outs[a->at.index];
}

int device_host_compare(const struct device_host *h, int i, int most, struct device_answer *out)
{
  const struct launch *l = &h->d->launch[i];
  const double *floor = NULL;
  int n = 0;
  for (int k = 0; k < l->nargs && n < most; k++) {
    const struct launch_arg *a = &l->arg[k];
    int tensor = a->written && a->tensor >= 0 ? tensor_of(h, a) : -1;
    const double *want = tensor < 0 ? NULL : h->reference.value[tensor];
    if (!want) continue;
    const struct tensor *t = &h->d->g->tensors[a->tensor];
    struct device_answer *r = &out[n++];
    *r = (struct device_answer){.name = t->name ? t->name : arena_printf(h->mem, "t%d", a->tensor),
                                .launch = i,
                                .tensor = a->tensor,
                                .output = a->at.kind == PLACE_OUTPUT ? a->at.index : -1,
                                .elements = shape_size(&t->shape),
                                .bound = num_rows[h->dtype ? h->dtype[a->tensor] : t->dtype].kernel};
    compare(h, a, want, 0, r);
    if (r->fine || stop_set(h->stop)) continue;
    if (!floor) floor = find_floors(h);
    compare(h, a, want, floor[tensor], r);
  }
  return n;
}

static double bound_of(const struct device_host *h, int tensor) { return num_rows[h->dtype ? h->dtype[tensor] : h->g->tensors[tensor].dtype].kernel; }

static bool is_apart(const double *x, const double *want, int64_t n, double bound)
{
  double norm = 0, difference = 0;
  for (int64_t i = 0; i < n; i++) norm += want[i] * want[i], difference += (x[i] - want[i]) * (x[i] - want[i]);
  if (!isfinite(difference)) return false; // a value has left its range, which is no rounding
  const double typical = sqrt(norm / (double)MAX(n, 1));
  bool apart = !(sqrt(difference) <= bound * sqrt(norm));
  for (int64_t i = 0; i < n && !apart; i++) apart = !(fabs(x[i] - want[i]) <= MOST_OFF * bound * (fabs(want[i]) + typical));
  return apart;
}

bool device_host_rounding_counts(const struct device_host *h)
{
  struct reference64_from from = {.read = read_input, .arg = h, .rounds = true, .stop = h->stop};
  struct reference64 rounded = {0};
  struct err e = {0};
  const int n = graph_outputs(h->g, NULL);
  int *outs = NEWS(h->mem, int, n + 1);
  graph_outputs(h->g, outs);
  bool counts = false;
  if (reference64_run(&rounded, h->g, &from, &e) == OK)
    for (int i = 0; i < n && !counts; i++)
      counts =
          is_apart(rounded.value[outs[i]], h->reference.value[outs[i]], shape_size(&h->g->tensors[outs[i]].shape), ROUNDING * bound_of(h, outs[i]));
  reference64_close(&rounded);
  return counts;
}

void device_answer_text(const struct device_answer *a, struct str *out)
{
  str_add(out, "  %s%s: %lld elements, relative norm of the difference %.3g (at most %.2g)%s\n", a->name, a->output >= 0 ? ", an output" : "",
          (long long)a->elements, a->relative, a->bound, a->fine ? "" : "  WRONG");
  if (!a->fine)
    str_add(out, "    %lld elements are off; most, number %lld: the kernel has %g, the graph %g\n", (long long)a->wrong, (long long)a->worst, a->got,
            a->want);
}
