// The requesting side. A worker is started when it is needed: at first, and after a candidate has broken it or it was ended for taking too long. A
// new worker has no state, so the problem and the requested candidates are sent again. If no worker can be started, this process serves the requests,
// and a warning says so: a candidate that hangs or breaks the device then affects everything.
#include "gpu/compare.h"
#include "base/memory.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const double START = 120, LOAD = 60; // seconds for opening a device; for loading a candidate or a problem

struct candidate_there {
  const struct code *code; // NULL: dropped
  int start;               // the worker's start number when it was loaded; 0: not loaded
  int nlaunch;
  int *algorithm;
};
struct gpu_worker {
  char path[512], why[200];
  bool inside;
  int device;
  stop_flag stop;
  char **env; // of the process; owned, but not its strings
  struct child process;
  int fd, starts;
  bool greeted;        // HELLO was answered
  struct stage *stage; // inside
  struct gpu_facts facts;
  int64_t memory;
  bool have_facts;
  struct arena mem; // of the problem
  struct shared_map map;
  const bool *masks;
  int shared_fd, asked, sets;
  char *shared;                       // NULL: no problem
  int told;                           // start number of the worker that has the problem
  int problems;                       // dropped so far
  void **first, **other;              // for each output
  const struct compare_plan *compare; // NULL: outputs are not compared on the device
  int compare_told;                   // start number of the worker that has the comparison
  struct compare_sums *sums;          // for each output
  struct candidate_there *c;
  int n, cap;
};

static bool spawn(struct gpu_worker *w)
{
  if (!process_start(w->path, w->env, &w->process, &w->fd)) return false;
  return w->starts++, w->greeted = false, true;
}

static void end_process(struct gpu_worker *w)
{
  if (!w->process.pid) return;
  process_end(&w->process, w->fd);
  w->fd = -1;
}

static void go_inside(struct gpu_worker *w, const char *why)
{
  end_process(w);
  if (!w->inside) snprintf(w->why, sizeof w->why, "%.198s", why);
  w->inside = true;
  if (!w->stage) w->stage = stage_new(), w->starts++;
}

// ---- a request and its answer ----

static int over(struct gpu_worker *w, double seconds, struct err *e)
{
  end_process(w);
  err_set(e, ERR_GPU, NOWHERE, "it took more than %g seconds and was ended", seconds);
  err_hint(e, "a kernel that deadlocks, or a program that is very slow");
  return e->status;
}

// The contents of `out` are the answer behind the error.
static int read_answer(struct gpu_worker *w, struct wire *out, struct err *e)
{
  struct err said;
  bool lost = wire_get(out);
  wire_get_error(out, &said);
  if (lost && !w->inside) end_process(w);
  if (said.status != OK) return *e = said, (int)said.status;
  return OK;
}

static int receive(struct gpu_worker *w, struct wire *out, double seconds, struct err *e)
{
  int64_t kind;
  int carried = -1;
  double until = now_seconds() + seconds;
  int status = wire_wait(w->fd, &(struct patience){w->stop, NULL, until}, e);
  if (e->id == ERR_STOPPED) return end_process(w), status;
  if (status == OK) status = wire_receive(w->fd, &kind, out, &carried, fmax(until - now_seconds(), 0), e);
  if (carried >= 0) close(carried);
  if (status == NO) return over(w, seconds, e);
  if (status != OK) {
    end_process(w);
    *e = (struct err){0};
    return err_set(e, ERR_GPU, NOWHERE, "the worker process ended unexpectedly");
  }
  return read_answer(w, out, e);
}

static int exchange(struct gpu_worker *w, enum request kind, struct wire *in, int carry, double seconds, struct wire *out, struct err *e)
{
  if (w->inside) {
    out->s.n = 0, out->at = 0, out->bad = false, in->at = 0, in->bad = false;
    stage_serve(w->stage, kind, in, carry, out);
    return read_answer(w, out, e);
  }
  if (wire_send(w->fd, kind, in, carry, e)) {
    end_process(w);
    return e->status;
  }
  return receive(w, out, seconds, e);
}

// ---- restoring the state after a start ----

static void put_hello(const struct gpu_worker *w, struct wire *in)
{
  wire_put_text(in, build_fingerprint);
  wire_put(in, w->device);
}

static int take_facts(struct gpu_worker *w, struct wire *out, struct err *e)
{
  size_t n;
  const void *facts = wire_get_bytes(out, &n);
  if (n != sizeof w->facts) return err_set(e, ERR_GPU, NOWHERE, "the worker's answer cannot be read");
  memcpy(&w->facts, facts, n);
  w->memory = wire_get(out);
  w->have_facts = w->greeted = true;
  return OK;
}

// A process that is not a worker, or of another build, is no error: this process serves the requests.
static int greet(struct gpu_worker *w, struct err *e)
{
  struct wire in = {0}, out = {0};
  struct err mine = {0};
  double start = now_seconds();
  int status = OK;
  if (!w->inside && !w->process.pid && spawn(w)) {
    put_hello(w, &in);
    status = wire_send(w->fd, ASK_HELLO, &in, -1, &mine);
  }
  if (!w->inside && !w->process.pid) go_inside(w, "no process could be started to run candidates in");
  if (!w->inside && status == OK) status = receive(w, &out, START, &mine);
  bool hangs = now_seconds() - start >= START;
  if (!w->inside && status != OK && !hangs && mine.id != ERR_STOPPED && (mine.id == ERR_LIBRARY || (!w->have_facts && !w->process.pid))) {
    char why[256];
    snprintf(why, sizeof why, "%.120s: %.120s", w->path, mine.text);
    go_inside(w, why);
    mine = (struct err){0}, status = OK;
  }
  if (w->inside && status == OK) {
    wire_free(&in);
    put_hello(w, &in);
    status = exchange(w, ASK_HELLO, &in, -1, START, &out, &mine);
  }
  if (status == OK) status = take_facts(w, &out, &mine);
  if (status != OK) *e = mine, end_process(w); // the next one is greeted again
  wire_free(&in), wire_free(&out);
  return status;
}

static int tell_problem(struct gpu_worker *w, struct err *e)
{
  struct wire in = {0}, out = {0};
  wire_put(&in, w->map.nin);
  for (int i = 0; i < w->map.nin; i++) wire_put(&in, w->map.in_bytes[i]), wire_put(&in, w->masks[i]);
  wire_put(&in, w->map.nout);
  for (int i = 0; i < w->map.nout; i++) wire_put(&in, w->map.out_bytes[i]);
  wire_put(&in, w->asked);
  int status = exchange(w, ASK_PROBLEM, &in, w->shared_fd, LOAD + 1e-8 * (double)w->map.bytes, &out, e);
  if (status == OK) w->sets = (int)wire_get(&out), w->told = w->starts;
  wire_free(&in), wire_free(&out);
  return status;
}

// The file descriptor of memory with the expected values; -1: not available.
static int expected_values(const struct compare_plan *c)
{
  size_t bytes = 0, at = 0;
  for (int i = 0; i < c->nout; i++) bytes += sizeof(double) * (size_t)c->out[i].n;
  const int fd = memfd_create("mica", MFD_CLOEXEC);
  char *p = fd < 0 || ftruncate(fd, (off_t)bytes) ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (p == MAP_FAILED) return fd < 0 ? -1 : (close(fd), -1);
  for (int i = 0; i < c->nout; i++) {
    const size_t n = sizeof(double) * (size_t)c->out[i].n;
    large_copy(p + at, c->out[i].expected, n), at += n;
  }
  return munmap(p, bytes), fd;
}

// If it fails, outputs are compared on this side.
static int tell_compare(struct gpu_worker *w, struct err *e)
{
  struct wire in = {0}, out = {0};
  struct err mine = {0};
  const struct compare_plan *c = w->compare;
  const int fd = expected_values(c);
  wire_put_code(&in, c->code);
  wire_put(&in, c->nout);
  for (int i = 0; i < c->nout; i++) wire_put(&in, c->out[i].n), wire_put(&in, c->out[i].type), wire_put_real(&in, c->out[i].typical);
  int status = fd < 0 ? NO : exchange(w, ASK_COMPARE, &in, fd, LOAD, &out, &mine);
  if (fd >= 0) close(fd);
  wire_free(&in), wire_free(&out);
  if (mine.id == ERR_STOPPED) return *e = mine, (int)mine.status;
  if (status != OK) w->compare = NULL;
  return w->compare_told = w->starts, OK;
}

static int ready(struct gpu_worker *w, struct err *e)
{
  int status = OK;
  if (!w->greeted || (!w->inside && !w->process.pid)) status = greet(w, e);
  if (status == OK && w->shared && w->told != w->starts) status = tell_problem(w, e);
  if (status == OK && w->shared && w->compare && w->compare_told != w->starts) status = tell_compare(w, e);
  return status;
}

static int take_loaded(struct gpu_worker *w, struct candidate_there *c, struct wire *out, struct err *e)
{
  int n = (int)wire_get_count(out, sizeof(int64_t));
  for (int i = 0; i < n; i++) {
    int algorithm = (int)wire_get(out);
    if (i < c->nlaunch) c->algorithm[i] = algorithm;
  }
  if (out->bad) return err_set(e, ERR_GPU, NOWHERE, "the worker's answer cannot be read");
  return c->start = w->starts, OK;
}

static int need(struct gpu_worker *w, int id, struct err *e)
{
  if (id < 0 || id >= w->n || !w->c[id].code) return err_set(e, ERR_GPU, NOWHERE, "there is no candidate %d", id);
  int status = ready(w, e);
  struct candidate_there *c = &w->c[id];
  if (status != OK || c->start == w->starts) return status;
  struct wire in = {0}, out = {0};
  wire_put(&in, id);
  wire_put_code(&in, c->code);
  status = exchange(w, ASK_LOAD, &in, -1, LOAD, &out, e);
  if (status == OK) status = take_loaded(w, c, &out, e);
  wire_free(&in), wire_free(&out);
  return status;
}

// ---- requests of callers ----

static void drop(void *w) { gpu_worker_close(w); }
static const struct mem_kind kind = {.close = drop};

int gpu_worker_open(const struct gpu_worker_opts *o, struct gpu_worker **out, struct err *e)
{
  struct gpu_worker *w = mem_handle(sizeof *w, &kind);
  (void)e;
  w->stop = o->stop;
  w->device = o->device, w->fd = w->shared_fd = -1;
  w->env = child_environment(o->more_env);
  w->inside = o->inside;
  char why[200];
  if (o->inside)
    w->stage = o->stage ? o->stage : stage_new(), w->starts = 1;
  else if (!worker_find(o->path, w->path, why))
    go_inside(w, why);
  else if (spawn(w)) {
    struct wire in = {0};
    struct err later = {0}; // reported by the first request
    put_hello(w, &in);
    wire_send(w->fd, ASK_HELLO, &in, -1, &later);
    wire_free(&in);
  }
  *out = w;
  return OK;
}

void gpu_worker_end(struct gpu_worker *w)
{
  w->problems++;
  for (int i = 0; i < w->n; i++) gpu_worker_drop(w, i);
  w->n = 0;
  if (w->shared) munmap(w->shared, (size_t)w->map.bytes);
  if (w->shared_fd >= 0) close(w->shared_fd);
  w->shared = NULL, w->shared_fd = -1, w->told = w->compare_told = 0, w->compare = NULL;
  arena_close(&w->mem);
  w->mem = (struct arena){0};
}

void gpu_worker_close(struct gpu_worker *w)
{
  if (!w) return;
  end_process(w);
  gpu_worker_end(w);
  stage_free(w->stage);
  mem_free(w->c), mem_free(w->env);
  mem_free(w);
}

void gpu_worker_heed(struct gpu_worker *w, stop_flag stop)
{
  if (w->stop != stop) w->stop = stop; // it may be used by another thread then
}
const char *gpu_worker_path(const struct gpu_worker *w) { return w->inside ? NULL : w->path; }
const char *gpu_worker_warning(const struct gpu_worker *w) { return w->why; }
int gpu_worker_sets(const struct gpu_worker *w) { return w->sets; }
int gpu_worker_problems(const struct gpu_worker *w) { return w->problems; }
const int *gpu_worker_algorithms(const struct gpu_worker *w, int id) { return w->c[id].algorithm; }

int gpu_worker_facts(struct gpu_worker *w, struct gpu_worker_facts *out, struct err *e)
{
  int status = w->have_facts ? OK : ready(w, e);
  *out = (struct gpu_worker_facts){w->facts, w->memory, w->inside, w->starts};
  return status;
}

static int64_t *lengths(struct arena *mem, int n, const size_t *bytes)
{
  int64_t *x = NEWS(mem, int64_t, n + 1);
  for (int i = 0; i < n; i++) x[i] = (int64_t)bytes[i];
  return x;
}

int gpu_worker_problem(struct gpu_worker *w, const struct buffers *b, int sets, struct err *e)
{
  gpu_worker_end(w);
  shared_layout(&w->mem, b->nin, lengths(&w->mem, b->nin, b->in_bytes), b->nout, lengths(&w->mem, b->nout, b->out_bytes), &w->map);
  w->asked = sets;
  w->shared_fd = memfd_create("mica", MFD_CLOEXEC);
  if (w->shared_fd < 0 || ftruncate(w->shared_fd, w->map.bytes))
    return err_set(e, ERR_MEMORY, NOWHERE, "no memory to share with the worker: %s", strerror(errno));
  void *p = mmap(NULL, (size_t)w->map.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->shared_fd, 0);
  if (p == MAP_FAILED) return err_set(e, ERR_MEMORY, NOWHERE, "no memory to share with the worker: %s", strerror(errno));
  w->shared = p;
  w->first = NEWS(&w->mem, void *, b->nout + 1), w->other = NEWS(&w->mem, void *, b->nout + 1);
  w->masks = arena_copy(&w->mem, b->masks, sizeof *b->masks * (size_t)b->nin);
  for (int i = 0; i < b->nin; i++) large_copy(w->shared + w->map.in[i], b->in[i], b->in_bytes[i]);
  for (int i = 0; i < b->nout; i++) w->first[i] = w->shared + w->map.first[i], w->other[i] = w->shared + w->map.other[i];
  return ready(w, e);
}

int gpu_worker_load(struct gpu_worker *w, const struct code *c, int *id, struct err *e)
{
  if (w->n == w->cap) {
    int cap = w->cap ? 2 * w->cap : 16;
    w->c = mem_more(w->c, sizeof *w->c * (size_t)w->n, sizeof *w->c * (size_t)cap), w->cap = cap;
  }
  *id = w->n++;
  w->c[*id] = (struct candidate_there){.code = c, .nlaunch = c->nlaunch};
  w->c[*id].algorithm = NEWS(&w->mem, int, c->nlaunch + 1);
  int status = need(w, *id, e);
  if (status != OK) w->c[*id].code = NULL;
  return status;
}

void gpu_worker_drop(struct gpu_worker *w, int id)
{
  struct candidate_there *c = &w->c[id];
  struct wire in = {0}, out = {0};
  struct err e = {0};
  bool there = c->code && c->start == w->starts && (w->inside || w->process.pid);
  if (there) wire_put(&in, id), exchange(w, ASK_DROP, &in, -1, LOAD, &out, &e);
  c->code = NULL;
  wire_free(&in), wire_free(&out);
}

int gpu_worker_compare(struct gpu_worker *w, const struct compare_plan *c, struct err *e)
{
  w->compare = c, w->compare_told = 0;
  w->sums = NEWS(&w->mem, struct compare_sums, c->nout + 1);
  return ready(w, e);
}

// The outputs of a run. They may be gigabytes; copying them to the host disturbs no times, so no lock is needed.
static int take_outputs(struct gpu_worker *w, int id, double seconds, struct err *e)
{
  struct wire in = {0}, out = {0};
  wire_put(&in, id);
  const int status = exchange(w, ASK_OUTPUTS, &in, -1, seconds, &out, e);
  wire_free(&in), wire_free(&out);
  return status;
}

static int run_it(struct gpu_worker *w, int id, int repeats, bool compare, double seconds, struct run_answer *a, struct err *e)
{
  const bool stays = repeats == 1 && !compare;
  struct wire in = {0}, out = {0};
  *a = (struct run_answer){.first = w->first};
  int status = need(w, id, e);
  if (status == OK) {
    struct gpu_turn turn;
    turn_take(&turn, w->stop);
    wire_put(&in, id), wire_put(&in, repeats), wire_put(&in, compare && w->compare), wire_put(&in, stays);
    status = exchange(w, ASK_RUN, &in, -1, seconds, &out, e);
    turn_give(&turn);
  }
  if (status == OK && stays) status = take_outputs(w, id, seconds, e);
  if (status == OK) a->differs = wire_get(&out), a->seconds = wire_get_real(&out);
  if (a->differs) a->other = w->other;
  const bool compared = status == OK && wire_get(&out) && compare && w->compare;
  for (int i = 0; i < w->map.nout && compared; i++)
    w->sums[i].difference = wire_get_real(&out), w->sums[i].worst = wire_get_real(&out), w->sums[i].lost = wire_get(&out);
  if (compared && out.bad) status = err_set(e, ERR_GPU, NOWHERE, "the worker's answer cannot be read");
  if (compared && status == OK) a->compared = w->sums;
  wire_free(&in), wire_free(&out);
  return status;
}

int gpu_worker_first(struct gpu_worker *w, struct err *e)
{
  struct wire in = {0}, out = {0};
  const int status = exchange(w, ASK_FIRST, &in, -1, LOAD, &out, e);
  wire_free(&in), wire_free(&out);
  return status;
}

int gpu_worker_run(struct gpu_worker *w, int id, int repeats, double seconds, struct run_answer *a, struct err *e)
{
  return run_it(w, id, repeats, false, seconds, a, e);
}

int gpu_worker_run_compared(struct gpu_worker *w, int id, int repeats, double seconds, struct run_answer *a, struct err *e)
{
  return run_it(w, id, repeats, true, seconds, a, e);
}

static int time_them(struct gpu_worker *w, const struct time_request *q, int first, int end, double limit, double *seconds, struct err *e)
{
  struct wire in = {0}, out = {0};
  int status = OK;
  for (int i = first; i < end && status == OK; i++) status = need(w, q->id[i], e);
  // A worker that was started again meanwhile has lost the earlier ones.
  for (int i = first; i < end && status == OK; i++) status = need(w, q->id[i], e);
  wire_put(&in, q->hot), wire_put(&in, q->flush), wire_put(&in, q->replays), wire_put_real(&in, q->warm_up);
  wire_put(&in, end - first);
  for (int i = first; i < end; i++) wire_put(&in, q->id[i]), wire_put(&in, q->launches[i]);
  struct gpu_turn turn;
  turn_take(&turn, w->stop);
  if (status == OK) status = exchange(w, ASK_TIME, &in, -1, limit, &out, e);
  turn_give(&turn);
  for (int i = first * q->replays; i < end * q->replays && status == OK; i++) seconds[i] = wire_get_real(&out);
  if (out.bad) status = err_set(e, ERR_GPU, NOWHERE, "the worker's answer cannot be read");
  wire_free(&in), wire_free(&out);
  return status;
}

// If timing several candidates fails, each is timed alone to find the one at fault.
int gpu_worker_time(struct gpu_worker *w, const struct time_request *q, double limit, double *seconds, int *culprit, struct err *e)
{
  *culprit = -1;
  int status = time_them(w, q, 0, q->n, limit, seconds, e);
  for (int i = 0; i < q->n && status != OK && *culprit < 0; i++) {
    struct err mine = {0};
    if (e->id == ERR_STOPPED) return status;
    if (time_them(w, q, i, i + 1, limit, seconds, &mine) == OK) continue;
    if (mine.id == ERR_STOPPED) return *e = mine, (int)mine.status;
    return *culprit = i, *e = mine, (int)mine.status;
  }
  if (status != OK) *e = (struct err){0};
  return OK;
}
