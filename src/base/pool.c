// A pool for one loop: workers take the next index until none is left. Jobs write only into their own
// slot, so results do not depend on who ran what.
#include "base/base.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct loop {
  atomic_int next;
  int n;
  void (*job)(void *, int, int);
  void *arg;
};
struct worker {
  struct loop *loop;
  int id;
};

static void *work(void *p)
{
  struct worker *w = p;
  for (int i; (i = atomic_fetch_add(&w->loop->next, 1)) < w->loop->n;) w->loop->job(w->loop->arg, i, w->id);
  return NULL;
}

void pool_run(int threads, int n, void (*job)(void *, int, int), void *arg)
{
  struct loop loop = {0, n, job, arg};
  threads = MAX(1, MIN(threads, n));
  struct worker *w = calloc((size_t)threads, sizeof *w);
  pthread_t *t = calloc((size_t)threads, sizeof *t);
  CHECK(w && t);
  int started = 0;
  for (int i = 0; i < threads; i++) w[i] = (struct worker){&loop, i};
  while (started + 1 < threads && !pthread_create(&t[started], NULL, work, &w[started + 1])) started++;
  work(&w[0]);
  for (int i = 0; i < started; i++) pthread_join(t[i], NULL);
  free(w);
  free(t);
}

int pool_cores(void)
{
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}
