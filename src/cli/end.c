// The end of a command. The first SIGINT or SIGTERM sets a flag that long work looks at, and the best until then is answered; so it is
// when the time of --time is over. Work that does not look at the flag, because it waits for a pipe, a lock or a disk or computes something
// that cannot be divided, is ended by a thread of its own: less than two seconds after the signal it removes what would be left and ends the
// process. After the end of the time it does so where the command waits. As long as it works, it may come to its result and write it: on a machine
// that others load, that can take longer. Waiting for a turn on a GPU is no time of the command (drive/deadline.c). The second signal, of whichever
// kind, is deadly at once. Children end with the process (base/child.c).
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

static const double PATIENCE = 1.8;         // seconds between asking for an end and making one
static const double BUSY = 0.015, IDLE = 3; // least share of processor time of a command that works; seconds of a measurement
static const double LONGEST = 20;           // seconds of processors that work after the end of the time may take

// The only mutable globals: signals have nowhere else to put what they say.
static volatile int stopped;
static struct {
  int changed;  // an event counter
  double until; // by turn_clock(), atomic; 0: there is no end
  bool alone;   // no thread could be started: the alarm clock ends the process, and the next one removes what is left
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

// Until something changes, or the moment has come.
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
  if (write(STDERR_FILENO, text, strlen(text)) < 0) errno = 0; // nobody is left to tell
  scratch_abandon();
  _exit(ENV);
}

struct watched {
  double asked;      // when a signal came, or INFINITY
  double since, cpu; // when it was looked whether the command works, and what it had used
  double begun;      // what it had used at the end of the time
};

// After the end of the time a command may go on only as long as it works. A compiler that others starve has all the time that it needs.
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

// Only this thread's work is interrupted by signals: others' waits go on undisturbed.
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
  signal(SIGPIPE, SIG_IGN); // a file that grew too large is an error of writing; a pipe that nobody reads ends nothing that is under way
  signal(SIGXFSZ, SIG_IGN);
  start_watch();
}
