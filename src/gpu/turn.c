// Processes that share a GPU take turns: with $MICA_GPU_LOCK one runs or times candidates at a time, while the others search and compile.
#include "gpu/gpu.h"
#include "base/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

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
  while (flock(t->fd, LOCK_EX | LOCK_NB) && (errno == EWOULDBLOCK || errno == EINTR) && !stop_set(stop)) nanosleep(&pause, NULL);
  span_end(&s);
}

void turn_give(struct gpu_turn *t)
{
  if (t->fd < 0) return;
  undo_pop(&t->undo);
  leave(t);
}
