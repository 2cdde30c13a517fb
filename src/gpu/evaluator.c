// References on the GPU. The program becomes code of plain kernels, one code for each mode (plain.h). Inputs stay on the device while the same
// program is evaluated on them. The referee checks unmodified values once for each set of inputs, those of a deep program at checkpoints too
// (checkpoints.h). Rounded and perturbed values are taken from the GPU only for inputs that it accepted. After a disagreement the GPU is not used again in this job, and the CPU's numbers count.
#include "gpu/gpu.h"
#include "base/memory.h"
#include "base/trace.h"
#include "eval/eval.h"
#include "gpu/checkpoints.h"
#include "gpu/plain.h"
#include "gpu/referee.h"
#include "gpu/session.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

static const double LARGE = 5e8, LIMIT = 60; // operations from which the GPU pays; seconds of a run
static const double MOST_MEMORY = 0.9;
static const size_t PIECE = 1 << 20;
static const int64_t REST = INT64_C(1) << 30;       // bytes on the device from which they are freed between runs
static const double DEEP = 1 << 26, NEAR = 1 << 22; // steps of the referee for an element: from which there are checkpoints, and between them
enum { MOST_APPROVED = 4 };

struct variant { // of the program
  const struct graph *g;
  struct code code[PLAIN_MODES]; // with checkpoints: unmodified values alone
  int id[PLAIN_MODES];           // number in the worker; -1: not loaded
};

struct gpu_evaluator {
  struct reference64_device device; // must be first
  struct gpu_evaluator_opts o;
  struct gpu_worker *w;
  struct gpu_evidence seen;
  bool distrusted;
  struct arena mem; // of the program
  struct graph *g;  // NULL: none yet
  struct checkpoints points;
  struct variant plain, deep;       // deep: with checkpoints as further outputs
  struct variant *staged;           // NULL: none
  uint64_t inputs;                  // hash of the inputs on the device
  int64_t bytes;                    // bytes on the device while they are staged
  uint64_t approved[MOST_APPROVED]; // hashes of the program's inputs that the referee accepted, in a ring buffer
  int napproved;                    // number of them since the program was set
  char slow[GRAPH_KEY];             // the last program with a run that took too long; "": none
  struct gpu_ahead *ahead;          // compiles kernels, or NULL
};

int gpu_reference_read(const char *name, enum gpu_reference *out, struct err *e)
{
  static const char *const names[] = {
#define REFERENCE(id, name, doc) name,
      REFERENCES(REFERENCE)
#undef REFERENCE
  };
  *out = REFERENCE_AUTO;
  if (!name || !*name) return OK;
  for (size_t i = 0; i < COUNT(names); i++)
    if (!strcmp(names[i], name)) return *out = (enum gpu_reference)i, OK;
  err_set(e, ERR_OPTION, NOWHERE, "float64 references are not computed by `%.40s`", name);
  struct str all = {0};
  for (size_t i = 0; i < COUNT(names); i++) str_add(&all, "%s%s", i + 1 < COUNT(names) ? i ? ", " : "" : " and ", names[i]);
  err_hint(e, "the names are %s", str_text(&all));
  return str_free(&all), (int)e->status;
}

// ---- programs left to the CPU ----

static PRINTF(2, 3) int refuse(struct gpu_evaluator *v, const char *fmt, ...)
{
  va_list args;
  va_start(args, fmt);
  vsnprintf(v->seen.why, sizeof v->seen.why, fmt, args);
  va_end(args);
  return v->seen.refused++, NO;
}

// Approximate operations: multiply-adds of products and elements of all other operators.
static double operations(const struct graph *g)
{
  double sum = reference64_products(g);
  for (int t = 0; t < g->ntensors; t++) sum += (double)shape_size(&g->tensors[t].shape) * fmax(1, op_rows[g->nodes[g->tensors[t].node].op].cost);
  return sum;
}

static bool is_worth_it(const struct gpu_evaluator *v, const struct graph *g) { return v->o.which == REFERENCE_GPU || operations(g) >= LARGE; }

// ---- the program ----

static void forget(struct gpu_evaluator *v)
{
  if (v->w) gpu_worker_end(v->w);
  arena_close(&v->mem);
  v->mem = (struct arena){.lasting = true}, v->g = NULL, v->staged = NULL, v->napproved = 0;
}

static int open_worker(struct gpu_evaluator *v, stop_flag stop, struct err *e)
{
  const struct gpu_worker_opts o = {.device = v->o.device, .path = v->o.worker, .stop = stop};
  if (v->w) return gpu_worker_heed(v->w, stop), OK;
  v->w = v->o.with;
  if (v->w) return gpu_worker_heed(v->w, stop), OK;
  int status = gpu_worker_open(&o, &v->w, e);
  if (v->w) mem_keep(v->w); // the evaluator closes it
  return status;
}

// The kernels are in the forge then, and are not compiled twice.
static void await_ahead(struct gpu_evaluator *v)
{
  gpu_ahead_close(v->ahead);
  v->ahead = NULL;
}

// All modes have the same kernels.
static int compile(struct gpu_evaluator *v, struct variant *x, const struct gpu_facts *f, stop_flag stop, struct err *e)
{
  const int modes = x == &v->deep ? 1 : PLAIN_MODES;
  struct compile_result results[PLAIN_MODES];
  struct compile_stats stats;
  const struct patience until = {.stop = stop};
  struct span s;
  for (int m = 0; m < modes; m++) TRY(plain_code(&v->mem, x->g, (enum plain_mode)m, &x->code[m], e));
  span_begin(&s, "stage", "reference kernels");
  await_ahead(v);
  int status = gpu_forge_codes(&v->mem, v->o.forge, v->o.db, &until, f->arch, modes, x->code, results, &stats, e);
  for (int m = 0; m < modes && status == OK; m++)
    if (results[m].status != OK) *e = results[m].err, status = (int)e->status;
  if (status == OK) span_note(&s, "%d sources, %d known", stats.sources, stats.recalled);
  return span_end(&s), status;
}

static int64_t bytes_of(const struct variant *x, const struct buffers *b)
{
  int64_t sum = x->code[PLAIN_AS_IT_IS].workspace;
  for (int i = 0; i < b->nin; i++) sum += (int64_t)b->in_bytes[i];
  for (const struct node *n = x->g->nodes; n < x->g->nodes + x->g->nnodes; n++)
    if (n->op == OP_OUTPUT) sum += 8 * shape_size(&x->g->tensors[n->in[0]].shape);
  return sum;
}

static int take_program(struct gpu_evaluator *v, const struct graph *g, const struct buffers *b, stop_flag stop, struct err *e)
{
  struct gpu_worker_facts f;
  if (v->g && graph_same(v->g, g)) return OK;
  forget(v);
  v->g = graph_copy(&v->mem, g);
  TRY(checkpoints_of(&v->mem, v->g, DEEP, NEAR, &v->points, e));
  v->plain.g = v->g, v->deep.g = v->points.more;
  TRY(gpu_worker_facts(v->w, &f, e));
  for (struct variant *x = &v->plain; x; x = x == &v->plain && v->points.n ? &v->deep : NULL) {
    TRY(compile(v, x, &f.gpu, stop, e));
    if ((double)bytes_of(x, b) > MOST_MEMORY * (double)f.memory)
      return err_set(e, ERR_MEMORY, NOWHERE, "it takes %.1f GB of the GPU's memory, and %.1f GB are free", 1e-9 * (double)bytes_of(x, b),
                     1e-9 * (double)f.memory);
  }
  return OK;
}

// ---- its inputs ----

struct hashing { // of an input, in pieces
  const char *p;
  size_t bytes;
  uint64_t *piece;
};

static void hash_piece(void *arg, int i, int worker)
{
  (void)worker;
  const struct hashing *h = arg;
  const size_t from = (size_t)i * PIECE;
  h->piece[i] = hash_bytes(h->p + from, MIN(PIECE, h->bytes - from), (uint64_t)i);
}

static uint64_t hash_inputs(const struct buffers *b)
{
  uint64_t all = (uint64_t)b->nin;
  for (int i = 0; i < b->nin; i++) {
    const int pieces = (int)((b->in_bytes[i] + PIECE - 1) / PIECE);
    struct hashing h = {b->in[i], b->in_bytes[i], MEM_NEWS(uint64_t, pieces + 1)};
    pool_run(pool_cores(), pieces, hash_piece, &h);
    all = hash_bytes(h.piece, sizeof *h.piece * (size_t)pieces, all);
    mem_free(h.piece);
  }
  return all;
}

static bool is_approved(const struct gpu_evaluator *v, uint64_t inputs)
{
  for (int i = 0; i < MIN(v->napproved, MOST_APPROVED); i++)
    if (v->approved[i] == inputs) return true;
  return false;
}

static int stage_inputs(struct gpu_evaluator *v, struct variant *x, const struct buffers *b, uint64_t hash, struct err *e)
{
  if (v->staged == x && v->inputs == hash) return OK;
  const int nout = graph_outputs(x->g, NULL);
  int *outs = MEM_NEWS(int, nout + 1);
  size_t *bytes = MEM_NEWS(size_t, nout + 1);
  graph_outputs(x->g, outs);
  for (int i = 0; i < nout; i++) bytes[i] = sizeof(double) * (size_t)shape_size(&x->g->tensors[outs[i]].shape);
  bytes[nout] = PLAIN_TOLD * sizeof(int);
  const struct buffers doubles = {.nin = b->nin, .nout = nout + 1, .in = b->in, .in_bytes = b->in_bytes, .out_bytes = bytes, .masks = b->masks};
  int status = gpu_worker_problem(v->w, &doubles, 1, e);
  for (int m = 0; m < PLAIN_MODES; m++) x->id[m] = -1;
  v->staged = status == OK ? x : NULL, v->inputs = hash, v->bytes = bytes_of(x, b);
  return mem_free(outs), mem_free(bytes), status;
}

// ---- a run ----

static enum plain_mode mode_of(const struct reference64_from *from)
{
  if (from->nudge != NUDGE_NONE) return from->nudge == NUDGE_DOWN ? PLAIN_NUDGED_DOWN : PLAIN_NUDGED_EITHER;
  return from->flushed ? PLAIN_ROUNDED_FLUSHED : from->rounds ? PLAIN_ROUNDED : PLAIN_AS_IT_IS;
}

// all: the outputs, until the next run.
static int run(struct gpu_evaluator *v, struct variant *x, enum plain_mode m, double **all, int told[PLAIN_TOLD], struct err *e)
{
  struct run_answer a;
  const int nout = graph_outputs(x->g, NULL);
  int status = OK;
  if (x->id[m] < 0) status = gpu_worker_load(v->w, &x->code[m], &x->id[m], e);
  if (status != OK) x->id[m] = -1;
  const double start = now_seconds();
  if (status == OK) status = gpu_worker_run(v->w, x->id[m], 1, LIMIT, &a, e);
  if (status != OK && now_seconds() - start >= LIMIT) graph_key(v->g, v->slow);
  for (int i = 0; i < nout && status == OK; i++) all[i] = a.first[i];
  if (status == OK) memcpy(told, a.first[nout], PLAIN_TOLD * sizeof *told);
  return status;
}

static int judge(struct gpu_evaluator *v, const struct reference64_from *from, double *const *all)
{
  const struct graph *g = v->points.n ? v->points.from : v->g;
  struct span s;
  span_begin(&s, "stage", "reference checked");
  const struct referee_answer a = referee(g, from, all + graph_outputs(v->g, NULL), all, v->inputs, v->o.steps);
  v->seen.checked += a.checked, v->seen.differs += a.differs;
  span_note(&s, "%lld elements on the CPU, %lld differ, %d checkpoints", (long long)a.checked, (long long)a.differs, v->points.n);
  span_end(&s);
  if (a.differs) {
    v->distrusted = true;
    return refuse(v, "%lld of %lld elements on the GPU differ from the CPU's", (long long)a.differs, (long long)a.checked);
  }
  if (a.unchecked) return stop_set(from->stop) ? NO : refuse(v, "the CPU could check no element of it in time");
  return v->approved[v->napproved++ % MOST_APPROVED] = v->inputs, OK;
}

static int evaluate(struct gpu_evaluator *v, const struct graph *g, const struct reference64_from *from, double *const *outputs, bool *overflow,
                    struct err *e)
{
  const enum plain_mode m = mode_of(from);
  int told[PLAIN_TOLD] = {0};
  if (from->nudge == NUDGE_ROUNDING) return NO; // no mode computes it
  TRY(open_worker(v, from->stop, e));
  TRY(take_program(v, g, from->b, from->stop, e));
  const uint64_t inputs = hash_inputs(from->b);
  const bool approved = is_approved(v, inputs);
  if (!approved && m != PLAIN_AS_IT_IS) return refuse(v, "its inputs were not checked");
  struct variant *x = !approved && v->points.n ? &v->deep : &v->plain;
  TRY(stage_inputs(v, x, from->b, inputs, e));
  const int nout = graph_outputs(g, NULL), more = graph_outputs(x->g, NULL);
  double **all = MEM_NEWS(double *, more + 1);
  int *outs = MEM_NEWS(int, nout + 1), status = run(v, x, m, all, told, e);
  graph_outputs(g, outs);
  if (status == OK && told[TOLD_INDEX]) status = refuse(v, "an index is out of range");
  *overflow = status == OK && from->in_range && told[TOLD_RANGE];
  if (status == OK && !approved && !*overflow) status = judge(v, from, all); // a result out of range is not checked
  for (int i = 0; i < nout && status == OK; i++) large_copy(outputs[i], all[i], sizeof(double) * (size_t)shape_size(&g->tensors[outs[i]].shape));
  return mem_free(outs), mem_free(all), status;
}

static bool is_slow(const struct gpu_evaluator *v, const struct graph *g)
{
  char key[GRAPH_KEY];
  return *v->slow && (graph_key(g, key), !strcmp(key, v->slow));
}

static int on_gpu(struct reference64_device *d, const struct graph *g, const struct reference64_from *from, double *const *outputs, bool *overflow,
                  struct err *e)
{
  struct gpu_evaluator *v = (struct gpu_evaluator *)d;
  struct err mine = {0};
  const double start = now_seconds();
  if (v->distrusted) return v->seen.refused++, NO;
  if (!is_worth_it(v, g)) return refuse(v, "it is small");
  if (eval_orders_count(g)) return refuse(v, "it has products along a dimension, whose order counts");
  if (is_slow(v, g)) return refuse(v, "a run of it took more than %g seconds", LIMIT);
  struct span s;
  span_begin(&s, "stage", "reference on the GPU");
  int status = evaluate(v, g, from, outputs, overflow, &mine);
  v->seen.seconds += now_seconds() - start;
  if (mine.id == ERR_STOPPED)
    *e = mine, status = (int)mine.status, forget(v);
  else if (status == OK)
    v->seen.computed++;
  else if (mine.status != OK)
    status = refuse(v, "%.190s", mine.text), forget(v);
  if (status != OK) span_note(&s, "the CPU computes it: %.120s", v->seen.why);
  return span_end(&s), status;
}

// The first run reports an error of the worker.
void gpu_evaluator_expect(struct gpu_evaluator *v, const struct graph *g, stop_flag stop)
{
  struct err later = {0};
  if (v && is_worth_it(v, g)) open_worker(v, stop, &later);
}

void gpu_evaluator_ahead(struct gpu_evaluator *v, int arch, const struct graph *g, stop_flag stop)
{
  if (!v) return;
  await_ahead(v);
  if (is_worth_it(v, g) && !eval_orders_count(g)) v->ahead = gpu_ahead_open(v->o.forge, v->o.db, arch, g, stop);
  if (v->ahead) mem_keep(v->ahead); // the evaluator closes it
}

// Frees the device's memory until the next run.
void gpu_evaluator_rest(struct gpu_evaluator *v)
{
  const struct buffers none = {0};
  struct err e = {0};
  if (!v || !v->staged || v->bytes < (v->o.rest ? v->o.rest : REST)) return;
  gpu_worker_problem(v->w, &none, 1, &e);
  v->staged = NULL;
}

// ---- the whole evaluator ----

static void drop(void *v) { gpu_evaluator_close(v); }
static const struct mem_kind kind = {.close = drop};

struct gpu_evaluator *gpu_evaluator_open(const struct gpu_evaluator_opts *o)
{
  struct gpu_evaluator *v = mem_handle(sizeof *v, &kind);
  v->device.run = on_gpu, v->o = *o, v->mem.lasting = true;
  return v;
}

void gpu_evaluator_close(struct gpu_evaluator *v)
{
  if (!v) return;
  await_ahead(v);
  if (!v->w) v->w = v->o.with;
  gpu_worker_close(v->w);
  arena_close(&v->mem);
  mem_free(v);
}

struct reference64_device *gpu_evaluator_device(struct gpu_evaluator *v) { return v && v->o.which != REFERENCE_CPU ? &v->device : NULL; }
struct gpu_evidence gpu_evaluator_evidence(const struct gpu_evaluator *v) { return v ? v->seen : (struct gpu_evidence){0}; }
