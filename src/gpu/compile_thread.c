// The second step of a compilation (session.h) in a thread of its own, so that the caller goes on and keeps the database to itself.
#include "base/memory.h"
#include "base/trace.h"
#include "gpu/session.h"

struct compile_thread {
  pthread_t id;
  struct compilation *work;
  const char *name; // of its span, or NULL
  struct trace_place place;
  struct guard *guard; // of the waiting thread
  bool running, good;  // good: no allocation failed
  int ended;           // atomic
  struct shortage lack;
};

static void compile(void *work) { compile_work(work); }

static void *work(void *arg)
{
  struct compile_thread *t = arg;
  struct span share, s;
  trace_share(&share, &t->place);
  turn_work_begin();
  if (t->name) span_begin(&s, "stage", t->name);
  t->good = guard_run(t->guard, compile, t->work, &t->lack);
  if (t->name) span_end(&s);
  turn_work_end();
  __atomic_store_n(&t->ended, 1, __ATOMIC_RELEASE);
  return trace_share_end(&share), NULL;
}

struct compile_thread *compile_start(struct arena *mem, struct compilation *w, const char *name)
{
  struct compile_thread *t = NEW(mem, struct compile_thread);
  *t = (struct compile_thread){.work = w, .name = name, .place = trace_here(), .guard = guard_here(), .good = true};
  t->running = !pool_thread(&t->id, work, t);
  if (!t->running) compile_work(w);
  return t;
}

bool compile_ended(const struct compile_thread *t) { return !t->running || __atomic_load_n(&t->ended, __ATOMIC_ACQUIRE); }

bool compile_wait(struct compile_thread *t, struct shortage *lack)
{
  if (t->running) pthread_join(t->id, NULL);
  t->running = false, *lack = t->lack;
  return t->good;
}
