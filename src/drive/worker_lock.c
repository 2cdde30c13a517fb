// The lock of the GPU's worker. Races of several subprograms run in threads, and the worker serves one of them at a time. A thread that waits for the
// lock does no work in the sense of turn_work_begin, because the owner of the lock may wait for its turn on the GPU.
#include "base/memory.h"
#include "drive/drive.h"
#include "gpu/gpu.h"

// A handle: if a job runs out of memory, its threads use the lock until their own handles are closed.
struct worker_lock {
  pthread_mutex_t mutex;
};

static void discard(void *p)
{
  struct worker_lock *l = p;
  pthread_mutex_destroy(&l->mutex);
  mem_free(l);
}
static const struct mem_kind kind = {.close = discard};

struct worker_lock *worker_lock_open(void)
{
  struct worker_lock *l = mem_handle(sizeof *l, &kind);
  pthread_mutex_init(&l->mutex, NULL);
  return l;
}

void worker_lock_close(struct worker_lock *l)
{
  if (l) discard(l);
}

void worker_lock_enter(struct worker_lock *l, struct undo *u)
{
  turn_work_end();
  guard_lock(u, &l->mutex);
  turn_work_begin();
}

void worker_lock_leave(struct worker_lock *l, const struct undo *u) { guard_unlock(u, &l->mutex); }

bool worker_lock_is_free(struct worker_lock *l)
{
  const bool is_free = pthread_mutex_trylock(&l->mutex) == 0;
  if (is_free) pthread_mutex_unlock(&l->mutex);
  return is_free;
}
