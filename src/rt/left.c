// Calls that can be left (rt.h). A compiled kernel cannot be told to stop, so it runs in a thread of its caller. If the stop comes before it
// ends, the caller goes away, and the call keeps what it reads and writes: whoever closes the module or the buffers meanwhile leaves that to the
// thread, which closes them when the call has ended. A call that was brief before is made directly.
#include "base/memory.h"
#include "rt/left.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { SLICE = 20000000 };          // nanoseconds between looks at the stop flag
static const double PATIENCE = 0.1; // seconds that a call has to end in after a stop
static const double BRIEF = 0.05;   // seconds of a call that is not worth being left

// Belongs to the caller, its thread, and of a call that was left to its module and its buffers: who lets go last frees it.
struct left_call {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int holders;
  bool begun, over, quit, left; // a call waits for the thread; it has ended; the thread is to end; nobody waits
  bool drop_module, drop_buffers;
  struct module *m;
  struct buffers *b;
  int status;
  double seconds;
};
struct caller {
  struct left_call *c; // NULL before the first call that needs it
  pthread_t thread;
  stop_flag stop;
};

static void unhold(struct left_call *c)
{
  pthread_mutex_lock(&c->lock);
  const bool last = !--c->holders;
  pthread_mutex_unlock(&c->lock);
  if (!last) return;
  pthread_mutex_destroy(&c->lock);
  pthread_cond_destroy(&c->changed);
  free(c);
}

static int call_now(struct module *m, struct buffers *b, double *seconds)
{
  double start = now_seconds();
  int status = module_call(m, b->in, b->out);
  *seconds = now_seconds() - start;
  return status;
}

static void *serve(void *arg)
{
  struct left_call *c = arg;
  pthread_mutex_lock(&c->lock);
  for (;;) {
    while (!c->begun && !c->quit) pthread_cond_wait(&c->changed, &c->lock);
    if (!c->begun) break;
    c->begun = false;
    pthread_mutex_unlock(&c->lock);
    double seconds;
    int status = call_now(c->m, c->b, &seconds);
    pthread_mutex_lock(&c->lock);
    c->status = status, c->seconds = seconds, c->over = true;
    pthread_cond_broadcast(&c->changed);
    if (c->left) break;
  }
  const bool drop_module = c->drop_module, drop_buffers = c->drop_buffers;
  pthread_mutex_unlock(&c->lock);
  if (drop_module) module_drop(c->m), unhold(c);
  if (drop_buffers) buffers_drop(c->b), unhold(c);
  unhold(c);
  return NULL;
}

static void drop(void *c) { caller_close(c); }
static const struct mem_kind kind = {.close = drop};

struct caller *caller_open(stop_flag stop)
{
  struct caller *r = mem_handle(sizeof *r, &kind);
  r->stop = stop;
  return r;
}

// False: there is no thread, and the call is made without.
static bool start(struct caller *r)
{
  if (r->c) return true;
  struct left_call *c = calloc(1, sizeof *c);
  if (!c) return false;
  pthread_condattr_t steady; // the clock of the day may be set back while somebody waits
  pthread_condattr_init(&steady), pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
  pthread_mutex_init(&c->lock, NULL);
  pthread_cond_init(&c->changed, &steady);
  pthread_condattr_destroy(&steady);
  c->holders = 2;
  r->c = c;
  if (!pool_thread(&r->thread, serve, c)) return true;
  c->holders = 1;
  return unhold(c), r->c = NULL, false;
}

static void wait_slice(struct left_call *c)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_nsec += SLICE;
  if (t.tv_nsec >= 1000000000) t.tv_nsec -= 1000000000, t.tv_sec++;
  pthread_cond_timedwait(&c->changed, &c->lock, &t);
}

static void let_go(struct module *m, struct buffers *b)
{
  if (module_left(m)) unhold(module_left(m));
  if (b->left) unhold(b->left);
}

// The call has its end without us.
static void leave(struct caller *r)
{
  struct left_call *c = r->c;
  let_go(c->m, c->b); // of calls that have ended
  c->left = true, c->holders += 2;
  module_hold(c->m, c), buffers_hold(c->b, c);
  pthread_mutex_unlock(&c->lock);
  pthread_detach(r->thread);
  unhold(c);
  r->c = NULL;
}

static bool wait_for_end(struct caller *r)
{
  struct left_call *c = r->c;
  double stopped = 0;
  while (!c->over) {
    wait_slice(c);
    if (!stop_set(r->stop) || c->over) continue;
    if (stopped <= 0) stopped = now_seconds();
    if (now_seconds() >= stopped + PATIENCE) return leave(r), false;
  }
  return true;
}

static bool busy(struct left_call *c)
{
  if (!c) return false;
  pthread_mutex_lock(&c->lock);
  const bool yes = !c->over;
  pthread_mutex_unlock(&c->lock);
  return yes;
}

int caller_call(struct caller *r, struct module *m, struct buffers *b, double *seconds, struct err *e)
{
  int status;
  if (busy(module_left(m)) || busy(b->left)) return err_set(e, ERR_STOPPED, NOWHERE, "a kernel that was stopped is still running");
  if (stop_set(r->stop)) return err_set(e, ERR_STOPPED, NOWHERE, "stopped before a kernel was called");
  if (!r->stop || !start(r))
    status = call_now(m, b, seconds);
  else {
    struct left_call *c = r->c;
    pthread_mutex_lock(&c->lock);
    c->m = m, c->b = b, c->over = false, c->begun = true;
    pthread_cond_broadcast(&c->changed);
    if (!wait_for_end(r)) return err_set(e, ERR_STOPPED, NOWHERE, "stopped while a kernel was running");
    status = c->status, *seconds = c->seconds;
    pthread_mutex_unlock(&c->lock);
  }
  return module_failed(status, "a generated function", e);
}

int caller_call_again(struct caller *r, struct module *m, struct buffers *b, double *seconds, struct err *e)
{
  if (*seconds > BRIEF) return caller_call(r, m, b, seconds, e);
  return module_failed(call_now(m, b, seconds), "a generated function", e);
}

void caller_close(struct caller *r)
{
  struct left_call *c = r->c;
  if (c) {
    pthread_mutex_lock(&c->lock);
    c->quit = true;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    pthread_join(r->thread, NULL);
    unhold(c);
  }
  mem_free(r);
}

int caller_once(struct module *m, struct buffers *b, stop_flag stop, struct err *e)
{
  struct caller *c = caller_open(stop);
  double seconds;
  int status = caller_call(c, m, b, &seconds, e);
  return caller_close(c), status;
}

// True: a call that was left still uses it, and the thread closes it.
static bool taken(struct left_call *c, bool *drop)
{
  if (!c) return false;
  pthread_mutex_lock(&c->lock);
  const bool yes = !c->over;
  if (yes) *drop = true;
  pthread_mutex_unlock(&c->lock);
  if (!yes) unhold(c);
  return yes;
}

bool call_takes_module(struct left_call *c) { return taken(c, c ? &c->drop_module : NULL); }
bool call_takes_buffers(struct left_call *c) { return taken(c, c ? &c->drop_buffers : NULL); }
