// The time of a job. Components are stopped by flags. A thread sets them when the user stops the job, or when one of these ends: the search, the job,
// and last, a little later, the proof of the race's result. Remaining parts share the remaining time, so no part loses its time to earlier ones.
// Waiting for a turn on a GPU does not count; the time of its compilers does.
//
//   |---- search ----|---- first race ----|---- climb ----| proof |   of a part
//   |--------- part ---------|--------- part ---------| whole, if several |  of the job
//
// If several parts are raced on a GPU, each is opened before any race continues (pipe.c):
//
//   |-- search --|-- first batch --|  of an opening         |---- opening ----|---- opening ----|-- race --|-- race --| whole |  of the job
#include "drive/pass.h"
#include "base/memory.h"
#include "gpu/gpu.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

enum { SLICE = 20000 };            // microseconds
static const double OF_A_GPU = 60; // default seconds of a job for a GPU
// Seconds for checking the result after a stop, and after the end of the time. The command ends soon after that (cli/end.c).
static const double GRACE = 1, LATE = 1.2;
static const double SEARCH = 0.5, STARTERS = 0.5; // SEARCH: share of a part's time; STARTERS: share of the rest
// Shares for lowering candidates: of the time that the search leaves its part, but at least this share of the part's whole time.
static const double LOWERING = 0.5, LEAST_LOWERING = 0.25;
static const double LONG_SEARCH = 0.35;       // share of the remaining time that any search may take; most searches need less
static const double END = 0.1, MOST_END = 10; // for the last race, and for a proof
// Seconds kept on a CPU for compiling and checking the whole at the end: at least this many, but only a part of a short time.
static const double LEAST_END = 3, OF_SHORT = 0.4;
// Seconds kept on a GPU for the proof of the fastest, whose kernels run in the interpreter: at least this many, but only a part of a short time.
static const double LEAST_PROOF = 3, PROOF_OF_SHORT = 0.2;
static const double CLOSING = 1, OF_CLOSING = 0.05; // on a GPU, for ending its processes
// Multiply-adds of a float64 reference for each second and core, a low estimate. A tensor element counts as ELEMENT. The last is the largest share of
// the time.
static const double CHECKED = 3e8, ELEMENT = 4, OF_CHECK = 0.6;

struct clock {
  stop_flag user;
  double start, until, part, stopped; // values of turn_clock(): of the job; of the part; stopped: when the stop was seen, or INFINITY
  double share, length;               // share: the part's share of the remaining time; length: in seconds
  double openings;                    // end of all openings, if the part only gets its first batch; else 0
  double reserve, check, compile;     // seconds kept for the end; of them for the check and for compiling the whole, as far as they are known
  double parts;                       // seconds in which the parts were compiled
  pthread_mutex_t lock;
  double search, work;  // protected by the lock; work: time after which no work begins
  int flag[STOPS], end; // atomic
  pthread_t thread;
};

// For callers that use now_seconds().
static double of_now(double t) { return t + turn_waited(); }

static void raise_flag(struct clock *c, enum stop which) { __atomic_store_n(&c->flag[which], 1, __ATOMIC_RELAXED); }

static void look(struct clock *c)
{
  double now = turn_clock();
  bool user = stop_set(c->user);
  if (user && isinf(c->stopped)) c->stopped = now;
  pthread_mutex_lock(&c->lock);
  if (user || now >= c->search) raise_flag(c, STOP_SEARCH);
  if (user || now >= c->work) raise_flag(c, STOP_WORK);
  pthread_mutex_unlock(&c->lock);
  if (now >= c->until + LATE || now >= c->stopped + GRACE) raise_flag(c, STOP_PROOF);
}

static void *watch(void *arg)
{
  struct clock *c = arg;
  for (; !stop_set(&c->end); usleep(SLICE)) look(c);
  return NULL;
}

static void close_clock(void *p)
{
  struct clock *c = p;
  __atomic_store_n(&c->end, 1, __ATOMIC_RELAXED);
  pthread_join(c->thread, NULL);
  turn_work_end();
  pthread_mutex_destroy(&c->lock);
  mem_free(c);
}
static const struct mem_kind kind = {.close = close_clock};

static double check_of(const struct job *j)
{
  double work = reference64_products(j->program);
  for (int t = 0; t < j->program->ntensors; t++) work += ELEMENT * (double)shape_size(&j->program->tensors[t].shape);
  work *= j->program->world; // the reference computes the work of all ranks
  return work / (CHECKED * pool_cores());
}

// End of the first part of the time. On a CPU the result is compiled, checked and measured at the end; a program with a long reference needs more
// time for it.
static double end_of(const struct job *j, double all, double check)
{
  const double end = fmin(END * all, MOST_END);
  if (j->target.kind == TARGET_GPU) return fmax(end, fmin(LEAST_PROOF, PROOF_OF_SHORT * all));
  return fmax(end, fmax(fmin(LEAST_END, OF_SHORT * all), fmin(check, OF_CHECK * all)));
}

// Even without a time limit, the checks of a result get a short time after a stop.
void clock_open(struct job *j)
{
  bool gpu = j->target.kind == TARGET_GPU;
  double most = j->opts->time > 0 ? j->opts->time : gpu ? OF_A_GPU : INFINITY;
  if (isinf(most) && !j->opts->stop) return;
  struct clock *c = mem_handle(sizeof *c, &kind);
  c->user = j->opts->stop, c->start = turn_clock(), c->stopped = INFINITY;
  if (gpu) most -= fmin(CLOSING, OF_CLOSING * most);
  c->until = c->part = c->work = c->start + most, c->share = 1, c->length = most, c->search = c->start + SEARCH * most, c->check = check_of(j);
  c->reserve = end_of(j, most, c->check);
  pthread_mutex_init(&c->lock, NULL);
  j->clock = c;
  if (pool_thread(&c->thread, watch, c)) {
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
    j->clock = NULL;
    return;
  }
  turn_work_begin();
}

void clock_close(struct job *j)
{
  if (j->clock) close_clock(j->clock);
  j->clock = NULL;
}

stop_flag job_stop(const struct job *j, enum stop which) { return j->clock ? &j->clock->flag[which] : j->opts->stop; }

bool job_stopped_by_user(const struct job *j) { return stop_set(j->opts->stop); }

bool job_ending(const struct job *j, enum stop which)
{
  stop_flag f = job_stop(j, which);
  if (j->watch && j->watch->halted) return true;
  return stop_set(f) || (which != STOP_PROOF && job_stopped_by_user(j));
}

bool job_stopping(const struct job *j) { return job_ending(j, STOP_WORK); }

void clock_part(struct job *j, double share, double openings)
{
  struct clock *c = j->clock;
  if (!c) return;
  double now = turn_clock(), end = c->until - c->reserve;
  if (isinf(c->until)) return;
  c->share = share, c->openings = openings > 0 ? now + openings * fmax(0, end - now) : 0;
  c->length = share * fmax(0, end - now), c->part = now + c->length;
  pthread_mutex_lock(&c->lock);
  c->search = now + fmax(SEARCH * (c->part - now), LONG_SEARCH * fmax(0, end - now));
  if (j->target.kind == TARGET_CPU) c->work = end; // the whole is compiled, checked and measured in the remaining time
  __atomic_store_n(&c->flag[STOP_SEARCH], job_stopping(j), __ATOMIC_RELAXED);
  pthread_mutex_unlock(&c->lock);
}

double clock_shorten_search(const struct job *j, double share)
{
  struct clock *c = j->clock;
  if (!c) return INFINITY;
  const double now = turn_clock();
  pthread_mutex_lock(&c->lock);
  const double end = c->search;
  c->search = now + share * fmax(0, end - now);
  pthread_mutex_unlock(&c->lock);
  return end;
}

void clock_end_search(const struct job *j, double end)
{
  struct clock *c = j->clock;
  if (!c) return;
  pthread_mutex_lock(&c->lock);
  c->search = end;
  __atomic_store_n(&c->flag[STOP_SEARCH], job_stopping(j) || turn_clock() >= end, __ATOMIC_RELAXED);
  pthread_mutex_unlock(&c->lock);
}

// The whole program takes at least as long to compile as its parts together.
void clock_whole_compiles(struct job *j, double seconds, bool part)
{
  struct clock *c = j->clock;
  if (!c || isinf(c->until)) return;
  c->parts += part ? seconds : 0;
  c->compile = fmax(c->compile, part ? c->parts : seconds);
  c->reserve = fmax(c->reserve, fmin(OF_CHECK * (c->until - c->start), c->compile + c->check));
}

bool clock_part_over(const struct job *j) { return j->clock && turn_clock() >= j->clock->part; }

double clock_left(const struct job *j) { return j->clock ? fmax(0, j->clock->part - turn_clock()) : INFINITY; }

double clock_lowering(const struct job *j) { return j->clock ? fmax(LOWERING * clock_left(j), LEAST_LOWERING * j->clock->length) : INFINITY; }

enum stop clock_proof(const struct job *j) { return j->single || j->target.kind == TARGET_GPU ? STOP_PROOF : STOP_WORK; }

double clock_starters(const struct job *j)
{
  const struct clock *c = j->clock;
  const double now = turn_clock();
  if (!c) return INFINITY;
  return of_now(c->openings ? fmax(c->part, now + c->length) : now + STARTERS * fmax(0, c->part - now));
}

double clock_first(const struct job *j)
{
  const struct clock *c = j->clock;
  return c && c->openings ? of_now(fmax(c->openings, turn_clock() + c->length)) : clock_starters(j);
}

double clock_late(const struct job *j)
{
  const struct clock *c = j->clock;
  return c ? of_now(turn_clock() + STARTERS * fmax(0, c->until - turn_clock())) : INFINITY;
}

double clock_until(const struct job *j, enum stop which)
{
  if (job_ending(j, which)) return 0;
  return j->clock ? fmax(0, j->clock->until + (which == STOP_PROOF ? LATE : 0) - turn_clock()) : INFINITY;
}

bool clock_hurries(const struct job *j) { return j->clock && turn_clock() >= j->clock->until - j->clock->reserve; }
double clock_climb(const struct job *j) { return j->clock ? of_now(j->clock->part - j->clock->share * j->clock->reserve) : INFINITY; }
double clock_end(const struct job *j) { return j->clock ? of_now(j->clock->until) : INFINITY; }
struct patience clock_compiler(const struct job *j)
{
  return (struct patience){.stop = j->opts->stop, .until = j->clock && isfinite(j->clock->until) ? of_now(j->clock->until) + LATE : 0};
}

struct patience clock_of(const struct mica_options *o)
{
  return (struct patience){.stop = o->stop, .until = o->time > 0 ? now_seconds() + o->time + LATE : 0};
}

double clock_most(const struct job *j) { return j->opts->time > 0 ? j->opts->time : j->clock ? j->clock->until - j->clock->start : INFINITY; }
