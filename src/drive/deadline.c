// The time of a job. Rooms are told to end by flags; a thread sets them, when the user stops the job or when a time is over: that of
// the search under way, that of the job, and last, a little later, that of proving what a race has found. The parts that are left
// share what time is left, so none comes too short because of those before it.
//
//   |---- search ----|---- first race ----|---- climb ----| proof |   of a part
//   |--------- part ---------|--------- part ---------| whole, if several |  of the job
#include "drive/drive.h"
#include "base/memory.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

enum { SLICE = 20000 };                           // microseconds
static const double OF_A_GPU = 105;               // seconds of a job for a GPU that is given none
static const double GRACE = 1, LATE = 1;          // seconds of proving after a stop, and after the end of the time
static const double SEARCH = 0.5, STARTERS = 0.5; // of what a part has, of what is left then
static const double END = 0.1, MOST_END = 10;     // for the last race, and for a proof
static const double LAST_COMPILE = 10; // seconds after the end, for a compiler without which there is no result; the command waits less (cli/end.c)

struct clock {
  stop_flag user;
  double start, until, part, stopped; // by now_seconds(); of the job, of the part; when the stop was seen, or INFINITY
  pthread_mutex_t lock;
  double search, work;  // locked; work: when nothing is begun any more
  int flag[STOPS], end; // atomic
  pthread_t thread;
};

static void raise_flag(struct clock *c, enum stop which) { __atomic_store_n(&c->flag[which], 1, __ATOMIC_RELAXED); }

static void look(struct clock *c)
{
  double now = now_seconds();
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

static void stop(void *p)
{
  struct clock *c = p;
  __atomic_store_n(&c->end, 1, __ATOMIC_RELAXED);
  pthread_join(c->thread, NULL);
  pthread_mutex_destroy(&c->lock);
  mem_free(c);
}
static const struct mem_kind kind = {.close = stop};

void clock_open(struct job *j)
{
  bool gpu = j->target.kind == TARGET_GPU;
  double most = j->opts->time > 0 ? j->opts->time : gpu ? OF_A_GPU : INFINITY;
  if (isinf(most)) return; // the user's flag is all there is
  struct clock *c = mem_handle(sizeof *c, &kind);
  c->user = j->opts->stop, c->start = now_seconds(), c->stopped = INFINITY;
  c->until = c->part = c->work = c->start + most, c->search = c->start + SEARCH * most;
  pthread_mutex_init(&c->lock, NULL);
  j->clock = c;
  if (pool_thread(&c->thread, watch, c)) {
    pthread_mutex_destroy(&c->lock);
    mem_free(c);
    j->clock = NULL;
  }
}

void clock_close(struct job *j)
{
  if (j->clock) stop(j->clock);
  j->clock = NULL;
}

stop_flag job_stop(const struct job *j, enum stop which) { return j->clock ? &j->clock->flag[which] : j->opts->stop; }

bool job_stopped_by_user(const struct job *j) { return stop_set(j->opts->stop); }

bool job_ending(const struct job *j, enum stop which)
{
  stop_flag f = job_stop(j, which);
  return stop_set(f) || (which != STOP_PROOF && job_stopped_by_user(j));
}

bool job_stopping(const struct job *j) { return job_ending(j, STOP_WORK); }

static double end_of(double all) { return fmin(END * all, MOST_END); }

void clock_part(struct job *j, int left)
{
  struct clock *c = j->clock;
  if (!c) return;
  double now = now_seconds(), end = c->until - end_of(c->until - c->start);
  c->part = now + fmax(0, end - now) / MAX(left, 1);
  pthread_mutex_lock(&c->lock);
  c->search = now + SEARCH * (c->part - now);
  if (!j->single && j->target.kind == TARGET_CPU) c->work = end; // the whole is compiled and measured in what is left
  __atomic_store_n(&c->flag[STOP_SEARCH], job_stopping(j), __ATOMIC_RELAXED);
  pthread_mutex_unlock(&c->lock);
}

bool clock_part_over(const struct job *j) { return j->clock && now_seconds() >= j->clock->part; }

double clock_starters(const struct job *j)
{
  const struct clock *c = j->clock;
  return c ? now_seconds() + STARTERS * fmax(0, c->part - now_seconds()) : INFINITY;
}

double clock_late(const struct job *j)
{
  const struct clock *c = j->clock;
  return c ? now_seconds() + STARTERS * fmax(0, c->until - now_seconds()) : INFINITY;
}

double clock_climb(const struct job *j) { return j->clock ? j->clock->part - end_of(j->clock->until - j->clock->start) : INFINITY; }
double clock_end(const struct job *j) { return j->clock ? j->clock->until : INFINITY; }
struct patience clock_compiler(const struct job *j)
{
  return (struct patience){.stop = j->opts->stop, .until = j->clock ? j->clock->until + LAST_COMPILE : 0};
}

double clock_most(const struct job *j) { return j->clock ? j->clock->until - j->clock->start : INFINITY; }
