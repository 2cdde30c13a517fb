// The end of a command. The first SIGINT or SIGTERM sets a flag that long work polls; the best result so far is reported. The end of --time does the
// same. Work that does not poll the flag (it waits for a pipe, a lock or a disk, or computes in one piece) is ended by a separate thread. Less than
// two seconds after the signal, the thread removes temporary files and ends the process. After the end of --time it ends the process only if the
// command waits. A working command may finish its result and write it, which takes longer on a loaded machine. Waiting for a turn on a GPU does not
// count (drive/deadline.c). The second signal of either kind kills the process at once. Children end with the process (base/child.c).
#include "base/child.h"
#include "cli/cli.h"
#include "gpu/gpu.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const double PATIENCE = 1.8;         // seconds from a request to end until the process is ended
static const double BUSY = 0.015, IDLE = 3; // least share of processor time of a working command; seconds of a measurement
static const double LONGEST = 20;           // limit for processor seconds after the end of the time

// The only mutable globals, because signal handlers need them.
static volatile int stopped;
static struct {
  int changed;  // an event counter
  double until; // a value of turn_clock(), atomic; 0: no end
  bool alone;   // no thread could be started: the alarm clock ends the process, and the next process removes temporary files
} end;
const volatile int *const cli_stop = &stopped;

static void tell(void)
{
  int before = errno;
  if (write(end.changed, &(uint64_t){1}, sizeof(uint64_t)) < 0) errno = before;
}

static void on_signal(int sig)
{
  (void)sig;
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  stopped = 1;
  if (end.alone) alarm((unsigned)ceil(PATIENCE));
  tell();
}

// Until a change, or until that time.
static void wait_for(double until)
{
  struct pollfd p = {.fd = end.changed, .events = POLLIN};
  uint64_t told;
  double left = until - now_seconds();
  if (poll(&p, 1, isinf(until) ? -1 : (int)fmin(fmax(1e3 * left + 1, 0), 1e9)) > 0 && read(end.changed, &told, sizeof told) < 0) errno = 0;
}

_Noreturn static void strike(bool by_user)
{
  static const char *const why[] = {"the time limit was reached before the command finished", "stopped before the command finished"};
  struct err e = {0};
  err_set(&e, ERR_STOPPED, NOWHERE, "%s", why[by_user]);
  char text[ERR_TEXT];
  err_text(text, sizeof text, &e);
  if (write(STDERR_FILENO, text, strlen(text)) < 0) errno = 0; // the error cannot be reported
  scratch_abandon();
  _exit(ENV);
}

struct watched {
  double asked;      // time of a signal, or INFINITY
  double since, cpu; // time of the last check whether the command works, and its processor time then
  double begun;      // processor time at the end of --time
};

// After the end of --time a command may continue only while it works. A compiler that other processes starve gets the time that it needs.
static double look_late(struct watched *w, double now)
{
  if (!w->since) w->since = now, w->cpu = w->begun = work_seconds();
  if (now >= w->since + IDLE) {
    const double cpu = work_seconds();
    if (cpu - w->cpu < BUSY * (now - w->since) || cpu - w->begun >= LONGEST) strike(false);
    w->since = now, w->cpu = cpu;
  }
  return w->since + IDLE;
}

static void *watch(void *arg)
{
  struct watched w = {.asked = INFINITY};
  (void)arg;
  for (;;) {
    double until, now = now_seconds();
    __atomic_load(&end.until, &until, __ATOMIC_RELAXED);
    if (stopped && isinf(w.asked)) w.asked = now;
    if (now >= w.asked + PATIENCE) strike(true);
    if (until > 0) until += now - turn_clock();
    double next = until <= 0 ? INFINITY : now < until ? until : look_late(&w, now);
    wait_for(fmin(next, w.asked + PATIENCE));
  }
  return NULL;
}

void end_by(double seconds)
{
  double until = turn_clock() + seconds;
  if (seconds <= 0) return;
  __atomic_store(&end.until, &until, __ATOMIC_RELAXED);
  if (end.alone) alarm((unsigned)ceil(seconds + PATIENCE));
  tell();
}

// Only this thread receives signals, so other threads' waits are not interrupted.
static void start_watch(void)
{
  pthread_t t;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  end.alone = pool_thread(&t, watch, NULL);
  if (!end.alone) pthread_detach(t);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void end_open(void)
{
  struct sigaction stop = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  end.changed = eventfd(0, EFD_CLOEXEC);
  sigaction(SIGINT, &stop, NULL);
  sigaction(SIGTERM, &stop, NULL);
  signal(SIGPIPE, SIG_IGN); // a file that grew too large is a write error; a closed pipe ends no work
  signal(SIGXFSZ, SIG_IGN);
  start_watch();
}
