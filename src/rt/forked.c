// Calls in a child of fork. The child has the thread that forked and no other. OpenMP does not know that: where this thread called generated
// code before, OpenMP keeps a team for it, and the next call would wait for the team's threads, which are gone. A new thread has no team. So
// the thread that forked makes its calls in threads of their own.
#include "rt/forked.h"
#include "base/base.h"

static _Thread_local bool in_child;
static pthread_once_t watched = PTHREAD_ONCE_INIT;

static void child(void) { in_child = true; }

static void register_child(void) { pthread_atfork(NULL, NULL, child); }

void forked_watch(void) { pthread_once(&watched, register_child); }

bool forked_here(void) { return in_child; }

struct forked_one {
  int (*f)(void *);
  void *arg;
  int status;
};

static void *run(void *arg)
{
  struct forked_one *c = arg;
  c->status = c->f(c->arg);
  return NULL;
}

int forked_call(int (*f)(void *), void *arg)
{
  struct forked_one c = {f, arg, 0};
  pthread_t thread;
  const int why = pool_thread(&thread, run, &c);
  return why ? why : (pthread_join(thread, NULL), c.status);
}
