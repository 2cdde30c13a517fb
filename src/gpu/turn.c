// Processes that share a GPU take turns: with $MICA_GPU_LOCK one at a time runs or times candidates, while the others search and compile.
#include "gpu/gpu.h"
#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

// Counts of working threads and of those that wait for a turn, and the seconds in which all of them waited.
static struct {
  pthread_mutex_t lock;
  int working, waiting;
  double since, sum; // since: last change of either count; sum: seconds before it
} turns = {.lock = PTHREAD_MUTEX_INITIALIZER};

// A waiting thread outside of jobs stops the clock alone.
static bool stands_still(void) { return turns.waiting && turns.waiting >= turns.working; }
static double waited(void) { return turns.sum + (stands_still() ? now_seconds() - turns.since : 0); }

static void change(int working, int waiting)
{
  pthread_mutex_lock(&turns.lock);
  turns.sum = waited(), turns.since = now_seconds();
  turns.working += working, turns.waiting += waiting;
  pthread_mutex_unlock(&turns.lock);
}

void turn_work_begin(void) { change(1, 0); }
void turn_work_end(void) { change(-1, 0); }

double turn_waited(void)
{
  pthread_mutex_lock(&turns.lock);
  const double seconds = waited();
  pthread_mutex_unlock(&turns.lock);
  return seconds;
}

double turn_clock(void) { return now_seconds() - turn_waited(); }

// The lock is released before the file is closed: a child between fork and exec has the file too, and would keep the lock.
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
  span_begin(&s, "stage", "turn"); // shows waiting in the job's trace
  change(0, 1);
  while (flock(t->fd, LOCK_EX | LOCK_NB) && (errno == EWOULDBLOCK || errno == EINTR) && !stop_set(stop)) nanosleep(&pause, NULL);
  change(0, -1);
  span_end(&s);
}

void turn_give(struct gpu_turn *t)
{
  if (t->fd < 0) return;
  undo_pop(&t->undo);
  leave(t);
}
