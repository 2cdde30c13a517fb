// Runs and times candidates.
//
// The first launches of a kernel may load it, so they are not captured in a graph.
//
// Outputs and workspace are NaN at the start of a run, so values that a candidate does not write, or reads too early, show in the result. A run is
// followed at once by a run on other inputs in the same workspace. This shows data of the first run that the second overwrites too early. Guard bytes
// around outputs and workspace must not change, and the zeroed part must be zero again.
//
// Times are those of a graph of many launches by the device's clock; candidates alternate, replay by replay.
#include "gpu/stage.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { ZEROS = 1 << 14, POISON = 0xff, MOST_TIMED = 256, MOST_REPLAYS = 1024 };

static int end_record(struct stage *s, int status, struct gpu_graph **out, struct err *e)
{
  struct err second = {0}; // a recording ends in any case; the first error is reported
  int end = gpu_record_end(s->g, out, status == OK ? e : &second);
  if (status == OK) return end;
  gpu_graph_close(*out);
  *out = NULL;
  return status;
}

int stage_record(struct stage *s, const struct loaded *l, int first, int end, int times, bool hot, struct gpu_graph **out, struct err *e)
{
  int status = gpu_record(s->g, e);
  *out = NULL;
  if (status != OK) return status;
  for (int i = 0; i < times && status == OK; i++) {
    int at = hot ? 0 : i;
    status = stage_launch(s, l, first, end, at % s->nsets, at % s->nring, at % s->nwork, e);
  }
  return end_record(s, status, out, e);
}

// ---- a run ----

static bool all(const char *p, int64_t n, unsigned char byte)
{
  const unsigned char *q = (const unsigned char *)p;
  for (int64_t i = 0; i < n; i++)
    if (q[i] != byte) return false;
  return true;
}

static int record_run(struct stage *s, const struct loaded *l, struct gpu_graph **graph, struct err *e)
{
  int n = l->code.nlaunch, status = gpu_record(s->g, e);
  if (status != OK) return status;
  status = stage_launch(s, l, 0, n, 0, 0, 0, e);
  if (s->nsets > 1 && s->nring > 1 && status == OK) status = stage_launch(s, l, 0, n, 1, 1, 0, e);
  return end_record(s, status, graph, e);
}

// A state replaces its output before.
static int put_states(struct stage *s, const struct code *c, struct err *e)
{
  for (int i = 0; i < c->nstate; i++)
    for (int k = 0; k < MIN(s->nring, 2); k++) {
      const struct lower_place in = {PLACE_INPUT, c->state[i].in, 0}, out = {PLACE_OUTPUT, c->state[i].out, 0};
      gpu_address from = stage_place(s, c, &in, k % s->nsets, k, 0), to = stage_place(s, c, &out, 0, k, 0);
      if (gpu_copy(s->g, to, from, (size_t)c->state[i].bytes, e)) return e->status;
    }
  return OK;
}

static int poison(struct stage *s, const struct code *c, struct err *e)
{
  if (gpu_fill(s->g, s->out, POISON, (size_t)(MIN(s->nring, 2) * s->out_bytes), e)) return e->status;
  if (put_states(s, c, e)) return e->status;
  return gpu_fill(s->g, s->work, POISON, (size_t)s->work_bytes, e);
}

static int trespassed(struct err *e, const char *what) { return err_set(e, ERR_WRONG, NOWHERE, "a kernel writes to memory %s", what); }

static int look_at_outputs(const struct stage *s, struct err *e)
{
  for (int i = 0; i <= s->map.nout; i++) {
    int64_t from = i ? s->out_at[i - 1] + s->map.out_bytes[i - 1] : 0, to = i < s->map.nout ? s->out_at[i] : s->out_bytes;
    if (!all(s->back + from, to - from, POISON)) return trespassed(e, i ? "after an output" : "before an output");
  }
  return OK;
}

// The guards of the workspace, and its part that must be zero.
static int look_at_work(struct stage *s, const struct loaded *l, struct err *e)
{
  char guard[GUARD], zeros[ZEROS];
  int64_t from, bytes;
  stage_work(&l->code, &from, &bytes);
  const int64_t at[2] = {from - GUARD, from + bytes};
  for (int i = 0; i < 2; i++) {
    if (gpu_read(s->g, guard, s->work + (uint64_t)at[i], GUARD, e)) return e->status;
    if (!all(guard, GUARD, POISON)) return trespassed(e, i ? "after its workspace" : "before its workspace");
  }
  for (int64_t k = 0; k < s->zero_bytes; k += ZEROS) {
    const int64_t n = MIN(ZEROS, s->zero_bytes - k);
    if (gpu_read(s->g, zeros, s->zero + (uint64_t)k, (size_t)n, e)) return e->status;
    if (!all(zeros, n, 0)) return err_set(e, ERR_WRONG, NOWHERE, "counters in the workspace, which a program leaves as zeros, are not zero after it");
  }
  return OK;
}

static void take_outputs(const struct stage *s, const int64_t *to)
{
  for (int i = 0; i < s->map.nout; i++) large_copy(s->shared + to[i], s->back + s->out_at[i], (size_t)s->map.out_bytes[i]);
}

static bool same_outputs(const struct stage *s)
{
  bool same = true;
  for (int i = 0; i < s->map.nout; i++) same &= large_same(s->shared + s->map.first[i], s->back + s->out_at[i], (size_t)s->map.out_bytes[i]);
  return same;
}

struct running {
  const struct loaded *l;
  struct gpu_graph *graph;
  bool differs, compares, stays; // compares: outputs stay on the device; stays: they are requested later
  double seconds;                // shortest time of a graph
};

static int replay_timed(struct stage *s, struct running *run, struct err *e)
{
  if (gpu_wait(s->g, e)) return e->status;
  double start = now_seconds();
  if (gpu_replay(s->g, run->graph, e) || gpu_wait(s->g, e)) return e->status;
  run->seconds = fmin(run->seconds, now_seconds() - start);
  return OK;
}

// Outputs with the guards around them, or the guards alone.
static int read_back(struct stage *s, bool guards, struct err *e)
{
  if (!guards) return gpu_read(s->g, s->back, s->out, (size_t)s->out_bytes, e);
  for (int i = 0; i <= s->map.nout; i++) {
    const int64_t from = i ? s->out_at[i - 1] + s->map.out_bytes[i - 1] : 0, to = i < s->map.nout ? s->out_at[i] : s->out_bytes;
    if (gpu_read(s->g, s->back + from, s->out + (uint64_t)from, (size_t)(to - from), e)) return e->status;
  }
  return OK;
}

static int take_from(struct stage *s, gpu_address from, const int64_t *to, struct err *e)
{
  if (gpu_read(s->g, s->back, from, (size_t)s->out_bytes, e)) return e->status;
  return take_outputs(s, to), OK;
}

int stage_first(struct stage *s, struct err *e)
{
  if (!s->compare.ran) return err_set(e, ERR_GPU, NOWHERE, "no outputs were compared on the device");
  return take_from(s, s->compare.first, s->map.first, e);
}

// Outputs are copied to the host only if two runs differ.
static int compare_run(struct stage *s, struct running *run, int r, struct err *e)
{
  bool same = true;
  if (!r) return stage_compare_first(s, e);
  if (run->differs || stage_compare_same(s, &same, e) || same) return (int)e->status;
  run->differs = true;
  if (take_from(s, s->out, s->map.other, e)) return e->status;
  return stage_first(s, e);
}

static int one_run(struct stage *s, struct running *run, int r, struct err *e)
{
  int status = poison(s, &run->l->code, e);
  if (status == OK) status = replay_timed(s, run, e);
  if (run->stays) return status;
  if (status == OK) status = read_back(s, run->compares, e);
  if (status == OK) status = look_at_outputs(s, e);
  if (status == OK) status = look_at_work(s, run->l, e);
  if (status != OK) return status;
  if (run->compares) return compare_run(s, run, r, e);
  if (!r) return take_outputs(s, s->map.first), OK;
  if (!run->differs && !same_outputs(s)) take_outputs(s, s->map.other), run->differs = true;
  return OK;
}

int stage_run(struct stage *s, struct wire *in, struct wire *out, struct err *e)
{
  struct running run = {.l = stage_find(s, wire_get(in)), .seconds = INFINITY};
  int repeats = (int)wire_get(in), both = s->nsets > 1 && s->nring > 1 ? 2 : 1;
  run.compares = wire_get(in) && s->compare.module;
  run.stays = wire_get(in);
  if (!run.l || in->bad) return err_set(e, ERR_GPU, NOWHERE, "there is no such candidate");
  int status = stage_launch(s, run.l, 0, run.l->code.nlaunch, 0, 0, 0, e);
  if (status == OK) status = gpu_wait(s->g, e);
  if (status == OK) status = record_run(s, run.l, &run.graph, e);
  for (int r = 0; r < repeats && status == OK; r++) status = one_run(s, &run, r, e);
  gpu_graph_close(run.graph);
  struct err second = {0}; // counters left nonzero must not affect the next candidate
  if (status != OK) gpu_fill(s->g, s->zero, 0, (size_t)(s->nwork * s->zero_bytes), &second);
  wire_put(out, run.differs);
  wire_put_real(out, run.seconds / both);
  wire_put(out, run.compares);
  if (run.compares && status == OK) status = stage_compare_all(s, out, e);
  return status;
}

int stage_outputs(struct stage *s, struct wire *in, struct err *e)
{
  const struct loaded *l = stage_find(s, wire_get(in));
  if (!l || in->bad) return err_set(e, ERR_GPU, NOWHERE, "there is no such candidate");
  int status = read_back(s, false, e);
  if (status == OK) status = look_at_outputs(s, e);
  if (status == OK) status = look_at_work(s, l, e);
  if (status == OK) take_outputs(s, s->map.first);
  struct err second = {0}; // counters left nonzero must not affect the next candidate
  if (status != OK) gpu_fill(s->g, s->zero, 0, (size_t)(s->nwork * s->zero_bytes), &second);
  return status;
}

// ---- times ----

struct timing_job {
  bool hot, flush;
  int replays, n;
  double warm_up;
  const struct loaded *l[MOST_TIMED];
  int launches[MOST_TIMED];
  struct gpu_graph *graph[MOST_TIMED];
};

static int read_times(struct stage *s, struct wire *in, struct timing_job *t, struct err *e)
{
  t->hot = wire_get(in), t->flush = wire_get(in), t->replays = (int)wire_get(in), t->warm_up = wire_get_real(in);
  t->n = (int)wire_get_count(in, 2 * sizeof(int64_t));
  if (in->bad || t->n > MOST_TIMED || t->replays < 1 || t->replays > MOST_REPLAYS)
    return err_set(e, ERR_GPU, NOWHERE, "what is to be timed cannot be read");
  for (int i = 0; i < t->n; i++) {
    t->l[i] = stage_find(s, wire_get(in));
    t->launches[i] = (int)wire_get(in);
    if (!t->l[i] || t->launches[i] < 1) return err_set(e, ERR_GPU, NOWHERE, "there is no such candidate");
  }
  return OK;
}

// Clocks fall while the host compiles, and rise again under load.
static int warm_up(struct stage *s, const struct timing_job *t, struct err *e)
{
  double until = now_seconds() + t->warm_up;
  do
    for (int i = 0; i < t->n; i++)
      if (gpu_replay(s->g, t->graph[i], e) || gpu_wait(s->g, e)) return e->status;
  while (now_seconds() < until);
  return OK;
}

int stage_replay(struct stage *s, int n, struct gpu_graph *const *graph, const int *launches, int replays, bool flush, double *seconds, struct err *e)
{
  struct gpu_graph *turn[MOST_TIMED];
  double got[MOST_TIMED];
  CHECK(n <= MOST_TIMED);
  for (int r = 0; r < replays; r++) {
    for (int i = 0; i < n; i++) turn[i] = graph[(i + r) % n];
    if (gpu_times(s->g, n, turn, s->flush, flush ? (size_t)s->flush_bytes : 0, got, e)) return e->status;
    for (int i = 0; i < n; i++) {
      int k = (i + r) % n;
      seconds[k * replays + r] = got[i] / launches[k];
    }
  }
  return OK;
}

int stage_time(struct stage *s, struct wire *in, struct wire *out, struct err *e)
{
  struct timing_job t = {0};
  int status = read_times(s, in, &t, e);
  double *seconds = MEM_NEWS(double, t.n *t.replays + 1);
  for (int i = 0; i < t.n && status == OK; i++) status = stage_record(s, t.l[i], 0, t.l[i]->code.nlaunch, t.launches[i], t.hot, &t.graph[i], e);
  if (status == OK) status = warm_up(s, &t, e);
  if (status == OK) status = stage_replay(s, t.n, t.graph, t.launches, t.replays, t.flush, seconds, e);
  for (int i = 0; i < t.n; i++) gpu_graph_close(t.graph[i]);
  for (int i = 0; i < t.n * t.replays && status == OK; i++) wire_put_real(out, seconds[i]);
  mem_free(seconds);
  return status;
}
