// Races op-by-op of a subprogram on a GPU during its search. The GPU would be idle otherwise, and this prepares what every race needs first: the
// inputs, the float64 reference and the driver's context. The race of the candidates continues in the same session and knows the cost of a candidate.
// Compilers and the searches of later subprograms need not wait for it. A job whose search takes all of its time still has a measured program.
#include "base/memory.h"
#include "drive/climb.h"
#include "drive/pass.h"

#include <math.h>

struct race_early {
  struct gpu_session *session;
  struct gpu_batch *batch;
  struct arena mem; // of the race, which runs in its own thread
  struct gpu_race race;
  struct err err;
  int status;
  pthread_t thread;
  struct guard *guard; // guard of the waiting thread
  struct trace_place place;
  struct worker_lock *lock;
  bool running, good; // good: no allocation failed
  int ended;          // atomic
  struct shortage lack;
};

static void race(void *arg)
{
  struct race_early *x = arg;
  gpu_batch_wait(x->batch);
  x->status = gpu_race_batch(&x->mem, x->batch, &x->race, &x->err);
}

static void *work(void *arg)
{
  struct race_early *x = arg;
  struct undo undo;
  struct span s;
  trace_share(&s, &x->place);
  turn_work_begin();
  worker_lock_enter(x->lock, &undo);
  x->good = guard_run(x->guard, race, x, &x->lack);
  worker_lock_leave(x->lock, &undo);
  turn_work_end();
  __atomic_store_n(&x->ended, 1, __ATOMIC_RELEASE);
  return trace_share_end(&s), NULL;
}

// The job's thread only waits then.
static void wait_for(struct race_early *x)
{
  if (!x->running) return;
  turn_work_end();
  pthread_join(x->thread, NULL);
  turn_work_begin();
  x->running = false;
}

// Batch and session are separate handles.
static void discard(void *p)
{
  struct race_early *x = p;
  wait_for(x);
  arena_close(&x->mem);
  mem_free(x);
}
static const struct mem_kind kind = {.close = discard};

static bool takes_part(struct job *j, struct contest *c)
{
  if (j->target.kind != TARGET_GPU || *j->unmeasured || !pass_is(j, PASS_RACE, OF_PART) || j->opts->candidate) return false;
  device_candidate(j, c, &c->cand[0]);
  return !c->cand[0].dropped && c->cand[0].gpu.lowered;
}

int race_early_begin(struct job *j, struct contest *c, struct err *e)
{
  if (!takes_part(j, c) || job_stopping(j)) return OK;
  struct gpu_race_opts o = race_gpu_opts(j);
  const double until = clock_starters(j);
  const struct device_program *d = &c->cand[0].gpu.lowered->program;
  struct gpu_session *s;
  struct gpu_batch *b = NULL;
  TRY(gpu_session_open(c->stable, &o, &s));
  o.quick = true, o.finalists = 1, o.compile_until = isfinite(until) ? until : 0;
  if (gpu_batch_start(s, &o, 1, &d, &b, e) != OK) return gpu_batch_drop(b), gpu_session_close(s), (int)e->status;
  struct race_early *x = c->early = mem_handle(sizeof *x, &kind); // made after both, as it is closed before them
  *x = (struct race_early){.session = s, .batch = b, .guard = guard_here(), .place = trace_here(), .lock = j->worker_lock, .good = true};
  x->running = pool_thread(&x->thread, work, x) == 0;
  if (x->running) return OK;
  struct undo undo;
  worker_lock_enter(j->worker_lock, &undo);
  race(x);
  return worker_lock_leave(j->worker_lock, &undo), OK;
}

bool race_early_ended(const struct contest *c) { return !c->early || !c->early->running || __atomic_load_n(&c->early->ended, __ATOMIC_ACQUIRE); }

struct gpu_session *race_early_session(const struct contest *c) { return c->early ? c->early->session : NULL; }

void race_early_end(struct job *j, struct contest *c, struct gpu_race *out, struct err *e)
{
  struct race_early *x = c->early;
  *out = (struct gpu_race){.best = -1};
  if (!x) return;
  wait_for(x);
  if (!x->good) mem_short(&x->lack);
  if (x->status == OK) {
    *out = x->race, out->result = arena_copy(j->mem, x->race.result, sizeof *out->result);
    const int *algorithm = out->result->algorithm;
    if (algorithm) out->result->algorithm = arena_copy(j->mem, algorithm, sizeof *algorithm * (size_t)c->cand[0].gpu.lowered->program.nlaunch);
  } else if (x->err.id != ERR_STOPPED)
    *e = x->err;
  gpu_batch_drop(x->batch);
  c->early = NULL, discard(x);
}

void race_early_drop(struct job *j, struct contest *c)
{
  struct race_early *x = c->early;
  struct undo undo;
  if (!x) return;
  wait_for(x);
  worker_lock_enter(j->worker_lock, &undo);
  gpu_batch_drop(x->batch), gpu_session_close(x->session);
  worker_lock_leave(j->worker_lock, &undo);
  c->early = NULL, discard(x);
}
