// A pool for one loop: workers take the next index until none is left. Jobs write only into their own
// slot, so results do not depend on who ran what.
#include "base/memory.h"
#include "base/trace.h"

#include <sched.h>
#include <stdatomic.h>

struct pool_loop {
  atomic_int next;
  int n;
  void (*job)(void *, int, int);
  void *arg;
  struct guard *guard;      // of who began it
  struct trace_place place; // the same
  atomic_bool failed;       // a worker found no memory
  struct shortage lack;     // the first one's
};
struct pool_worker {
  struct pool_loop *loop;
  int id;
};

static void share(void *p)
{
  const struct pool_worker *w = p;
  for (int i; (i = atomic_fetch_add(&w->loop->next, 1)) < w->loop->n;) w->loop->job(w->loop->arg, i, w->id);
}

// If one finds no memory the others end after their current index.
static void *work(void *p)
{
  const struct pool_worker *w = p;
  struct shortage lack;
  struct span span = {0};
  if (w->id) trace_share(&span, &w->loop->place);
  bool fine = guard_run(w->loop->guard, share, p, &lack);
  if (w->id) trace_share_end(&span);
  if (fine) return NULL;
  atomic_store(&w->loop->next, w->loop->n);
  if (!atomic_exchange(&w->loop->failed, true)) w->loop->lack = lack;
  return NULL;
}

void pool_run(int threads, int n, void (*job)(void *, int, int), void *arg)
{
  struct pool_loop loop = {.n = n, .job = job, .arg = arg, .guard = guard_here(), .place = trace_here()};
  threads = MAX(1, MIN(threads, n));
  struct pool_worker *w = MEM_NEWS(struct pool_worker, threads);
  pthread_t *t = MEM_NEWS(pthread_t, threads);
  int started = 0;
  for (int i = 0; i < threads; i++) w[i] = (struct pool_worker){&loop, i};
  while (started + 1 < threads && !pool_thread(&t[started], work, &w[started + 1])) started++;
  work(&w[0]);
  for (int i = 0; i < started; i++) pthread_join(t[i], NULL);
  mem_free(w), mem_free(t);
  if (loop.failed) mem_short(&loop.lack);
}

int pool_thread(pthread_t *t, void *(*f)(void *), void *arg)
{
  pthread_attr_t a;
  pthread_attr_init(&a);
  pthread_attr_setstacksize(&a, POOL_STACK);
  int why = pthread_create(t, &a, f, arg);
  pthread_attr_destroy(&a);
  return why;
}

static void *pass_gate(void *gate)
{
  pthread_mutex_lock(gate);
  pthread_mutex_unlock(gate);
  return NULL;
}

// Whether they can run is asked of the system by starting them: what limits them is a matter of users, groups, memory and containers.
int pool_most(int wanted)
{
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  int started = 0, most = MIN(wanted, MAX((int)POOL_MOST, 2 * pool_cores()));
  pthread_t *t = MEM_NEWS(pthread_t, MAX(most, 1));
  pthread_mutex_lock(&gate);
  while (started + 1 < most && !pool_thread(&t[started], pass_gate, &gate)) started++;
  pthread_mutex_unlock(&gate);
  for (int i = 0; i < started; i++) pthread_join(t[i], NULL);
  mem_free(t);
  pthread_mutex_destroy(&gate);
  return started + 1;
}

int pool_cores(void)
{
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}
