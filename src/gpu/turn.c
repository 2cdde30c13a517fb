// Processes that share a GPU take turns: with $MICA_GPU_LOCK one runs or times candidates at a time, while the others search and compile.
#include "gpu/gpu.h"
#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

// Seconds in which some thread of this process waited for a turn.
static struct {
  pthread_mutex_t lock;
  int waiting;       // threads
  double since, sum; // when the first of them began; seconds of those before
} waits = {.lock = PTHREAD_MUTEX_INITIALIZER};

static double waited(void) { return waits.sum + (waits.waiting ? now_seconds() - waits.since : 0); }

static void wait_begin(void)
{
  pthread_mutex_lock(&waits.lock);
  if (!waits.waiting++) waits.since = now_seconds();
  pthread_mutex_unlock(&waits.lock);
}

static void wait_end(void)
{
  pthread_mutex_lock(&waits.lock);
  waits.sum = waited();
  waits.waiting--, waits.since = now_seconds();
  pthread_mutex_unlock(&waits.lock);
}

double turn_waited(void)
{
  pthread_mutex_lock(&waits.lock);
  const double seconds = waited();
  pthread_mutex_unlock(&waits.lock);
  return seconds;
}

double turn_clock(void) { return now_seconds() - turn_waited(); }

// The lock is released before the file is closed: a child between fork and exec has the file too, and would keep the turn.
static void leave(void *turn)
{
  const struct gpu_turn *t = turn;
  flock(t->fd, LOCK_UN);
  close(t->fd);
}

void turn_take(struct gpu_turn *t, stop_flag stop)
{
  static const struct timespec pause = {.tv_nsec = 1000000};
  const char *path = getenv("MICA_GPU_LOCK");
  t->fd = path && *path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666) : -1;
  if (t->fd < 0) return;
  undo_push(&t->undo, leave, t);
  struct span s;
  span_begin(&s, "stage", "turn"); // what the job's trace shows of waiting
  wait_begin();
  while (flock(t->fd, LOCK_EX | LOCK_NB) && (errno == EWOULDBLOCK || errno == EINTR) && !stop_set(stop)) nanosleep(&pause, NULL);
  wait_end();
  span_end(&s);
}

void turn_give(struct gpu_turn *t)
{
  if (t->fd < 0) return;
  undo_pop(&t->undo);
  leave(t);
}
