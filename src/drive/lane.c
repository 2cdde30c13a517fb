// The lock of the GPU's worker. Races of several subprograms run in threads, and the worker serves one at a time. Waiting for it counts as waiting, not
// as work, because the other thread may itself wait for its turn on the GPU.
#include "base/memory.h"
#include "drive/drive.h"
#include "gpu/gpu.h"

// A handle, because threads may use it until their own handles are closed.
struct lane {
  pthread_mutex_t lock;
};

static void close_lane(void *p)
{
  struct lane *l = p;
  pthread_mutex_destroy(&l->lock);
  mem_free(l);
}
static const struct mem_kind lane_kind = {.close = close_lane};

struct lane *lane_open(void)
{
  struct lane *l = mem_handle(sizeof *l, &lane_kind);
  pthread_mutex_init(&l->lock, NULL);
  return l;
}

void lane_close(struct lane *l)
{
  if (l) close_lane(l);
}

void lane_take(struct lane *l) { pthread_mutex_lock(&l->lock); }
void lane_give(struct lane *l) { pthread_mutex_unlock(&l->lock); }

void lane_enter(struct lane *l, struct undo *u)
{
  turn_work_end();
  guard_lock(u, &l->lock);
  turn_work_begin();
}

void lane_leave(struct lane *l, const struct undo *u) { guard_unlock(u, &l->lock); }

bool lane_is_free(struct lane *l)
{
  const bool is_free = pthread_mutex_trylock(&l->lock) == 0;
  if (is_free) pthread_mutex_unlock(&l->lock);
  return is_free;
}
