// The time of a job. Components are told to end by flags; a thread sets them, when the user stops the job or when a time is over: that of
// the search under way, that of the job, and last, a little later, that of proving what a race has found. The parts that are left
// share what time is left, so none comes too short because of those before it. Time in which the job only waits for a turn on a GPU
// is not counted: its compilers' time is.
//
//   |---- search ----|---- first race ----|---- climb ----| proof |   of a part
//   |--------- part ---------|--------- part ---------| whole, if several |  of the job
//
// If several parts are raced on a GPU, each is opened before the race of any goes on (pipe.c):
//
//   |-- search --|-- first batch --|  of an opening         |---- opening ----|---- opening ----|-- race --|-- race --| whole |  of the job
#include "drive/pass.h"
#include "base/memory.h"
#include "gpu/gpu.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

enum { SLICE = 20000 };            // microseconds
static const double OF_A_GPU = 60; // seconds of a job for a GPU that is given none
// Seconds of checking the result after a stop, and after the end of the time. The command ends soon after that (cli/end.c).
static const double GRACE = 1, LATE = 1.2;
static const double SEARCH = 0.5, STARTERS = 0.5; // of what a part has, of what is left then
static const double END = 0.1, MOST_END = 10;     // for the last race, and for a proof
// Seconds kept on a CPU for compiling and checking the whole at the end: at least so many, but only a part of a short time.
static const double LEAST_END = 3, OF_SHORT = 0.4;
// Seconds kept on a GPU for the proof of the fastest, whose kernels run in the interpreter: at least so many, but only a part of a short time.
static const double LEAST_PROOF = 3, PROOF_OF_SHORT = 0.2;
static const double CLOSING = 1, OF_CLOSING = 0.05; // of a GPU, for the end of its processes
// Multiply-adds of a float64 reference a second and core, on the low side; an element of a tensor counts for ELEMENT; at most this part of the time.
static const double CHECKED = 5e8, ELEMENT = 4, OF_CHECK = 0.5;

struct clock {
  stop_flag user;
  double start, until, part, stopped; // by turn_clock(); of the job, of the part; when the stop was seen, or INFINITY
  double share, length;               // of the time that was left, what the part has; in seconds
  bool opening;                       // the part has its first batch, no more
  double reserve;                     // seconds kept for the end
  pthread_mutex_t lock;
  double search, work;  // locked; work: when nothing is begun any more
  int flag[STOPS], end; // atomic
  pthread_t thread;
};

// For others, who read now_seconds().
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

// End of the first part of the time. A result of a CPU is compiled, checked and measured at the end; a program whose reference takes long needs more.
static double end_of(const struct job *j, double all)
{
  double end = fmin(END * all, MOST_END), work = reference64_products(j->program);
  for (int t = 0; t < j->program->ntensors; t++) work += ELEMENT * (double)shape_size(&j->program->tensors[t].shape);
  work *= j->program->world; // the reference computes what all ranks do
  double check = work / (CHECKED * pool_cores());
  if (j->target.kind == TARGET_GPU) return fmax(end, fmin(LEAST_PROOF, PROOF_OF_SHORT * all));
  return fmax(end, fmax(fmin(LEAST_END, OF_SHORT * all), fmin(check, OF_CHECK * all)));
}

// Without an end it still gives the checks of a result their moment after a stop.
void clock_open(struct job *j)
{
  bool gpu = j->target.kind == TARGET_GPU;
  double most = j->opts->time > 0 ? j->opts->time : gpu ? OF_A_GPU : INFINITY;
  if (isinf(most) && !j->opts->stop) return;
  struct clock *c = mem_handle(sizeof *c, &kind);
  c->user = j->opts->stop, c->start = turn_clock(), c->stopped = INFINITY;
  if (gpu) most -= fmin(CLOSING, OF_CLOSING * most);
  c->until = c->part = c->work = c->start + most, c->share = 1, c->length = most, c->search = c->start + SEARCH * most, c->reserve = end_of(j, most);
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

void clock_part(struct job *j, double share, bool opening)
{
  struct clock *c = j->clock;
  if (!c) return;
  double now = turn_clock(), end = c->until - c->reserve;
  if (isinf(c->until)) return;
  c->share = share, c->opening = opening;
  c->length = share * fmax(0, end - now), c->part = now + c->length;
  pthread_mutex_lock(&c->lock);
  c->search = now + SEARCH * (c->part - now);
  if (j->target.kind == TARGET_CPU) c->work = end; // the whole is compiled, checked and measured in what is left
  __atomic_store_n(&c->flag[STOP_SEARCH], job_stopping(j), __ATOMIC_RELAXED);
  pthread_mutex_unlock(&c->lock);
}

bool clock_part_over(const struct job *j) { return j->clock && turn_clock() >= j->clock->part; }

double clock_left(const struct job *j) { return j->clock ? fmax(0, j->clock->part - turn_clock()) : INFINITY; }

enum stop clock_proof(const struct job *j) { return j->single || j->target.kind == TARGET_GPU ? STOP_PROOF : STOP_WORK; }

double clock_starters(const struct job *j)
{
  const struct clock *c = j->clock;
  const double now = turn_clock();
  if (!c) return INFINITY;
  return of_now(c->opening ? fmax(c->part, now + c->length) : now + STARTERS * fmax(0, c->part - now));
}

double clock_late(const struct job *j)
{
  const struct clock *c = j->clock;
  return c ? of_now(turn_clock() + STARTERS * fmax(0, c->until - turn_clock())) : INFINITY;
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
