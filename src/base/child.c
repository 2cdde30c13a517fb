// A child and its descendants are one process group. A pipe, the leash, kills the group when this process ends. This process has the write end. The
// child and its descendants inherit the read end, whose owner is the group and whose signal is SIGKILL (fcntl F_SETOWN, F_SETSIG, O_ASYNC). The
// kernel closes the write end even after SIGKILL, and then signals the group. PR_SET_PDEATHSIG does not suffice: it belongs to the thread that made
// the child, and cc1 below gcc does not inherit it.
#include "base/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum { HIGH = 10, NOT_STARTED = 127, FIRST_PAUSE = 200, LONGEST_PAUSE = 5000 }; // microseconds

char **child_environment(const char *const *more)
{
  int n = 0, m = 0, k = 0;
  while (environ[n]) n++;
  while (more && more[m]) m++;
  char **all = MEM_NEWS(char *, n + m + 1);
  for (int i = 0; i < m; i++) all[k++] = (char *)(uintptr_t)more[i];
  for (int i = 0; i < n; i++) {
    bool replaced = false;
    for (int j = 0; j < m && !replaced; j++) replaced = !strncmp(environ[i], more[j], strcspn(more[j], "=") + 1);
    if (!replaced) all[k++] = environ[i];
  }
  return all;
}

// ---- on the child's side: it shares this process's memory until exec ----

static int tie(int leash)
{
  struct pollfd gone = {.fd = leash, .events = POLLIN};
  if (setpgid(0, 0) || fcntl(leash, F_SETFD, 0) || fcntl(leash, F_SETOWN, -getpid()) || fcntl(leash, F_SETSIG, SIGKILL) ||
      fcntl(leash, F_SETFL, O_ASYNC | O_NONBLOCK))
    return errno;
  return poll(&gone, 1, 0) ? ECHILD : 0; // the parent was killed before the leash was set
}

static void usual_signals(void)
{
  static const int ours[] = {SIGINT, SIGTERM, SIGALRM, SIGPIPE, SIGXFSZ};
  sigset_t none;
  sigemptyset(&none);
  for (size_t i = 0; i < COUNT(ours); i++) signal(ours[i], SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

_Noreturn static void become(const struct child_plan *p, const int *fd, int leash, volatile int *why)
{
  *why = tie(leash);
  for (int k = 0; k < CHILD_FDS && !*why; k++)
    if (fd[k] >= 0 && dup2(fd[k], k) < 0) *why = errno;
  usual_signals();
  if (!*why) execve(p->path, p->argv, p->env ? p->env : environ);
  if (!*why) *why = errno;
  _exit(NOT_STARTED);
}

// ---- on this side ----

static int start(struct child *c, const struct child_plan *p, const int *fd, int leash)
{
  volatile int why = 0;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before); // no signal handler of this process runs in the child
  pid_t pid = vfork();
  if (!pid) become(p, fd, leash, &why);
  int failed = pid < 0 ? errno : 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) return failed;
  if (why)
    waitpid(pid, NULL, 0);
  else
    c->pid = pid;
  return why;
}

// Uses descriptors above the final ones, so that none is overwritten before it is copied.
static bool raise_fds(const struct child_plan *p, int *fd)
{
  bool good = true;
  for (int k = 0; k < CHILD_FDS; k++) {
    fd[k] = p->fd[k] >= 0 ? fcntl(p->fd[k], F_DUPFD_CLOEXEC, HIGH) : -1;
    good = good && (fd[k] >= 0) == (p->fd[k] >= 0);
  }
  return good;
}

int child_start(struct child *c, const struct child_plan *p)
{
  int ends[2], fd[CHILD_FDS], why;
  *c = (struct child){0, -1};
  if (pipe2(ends, O_CLOEXEC)) return errno;
  int leash = fcntl(ends[0], F_DUPFD_CLOEXEC, HIGH);
  why = raise_fds(p, fd) && leash >= 0 ? start(c, p, fd, leash) : errno == EINVAL ? EMFILE : errno; // EINVAL: the limit is below HIGH
  for (int k = 0; k < CHILD_FDS; k++)
    if (fd[k] >= 0) close(fd[k]);
  if (leash >= 0) close(leash);
  close(ends[0]);
  if (why)
    close(ends[1]);
  else
    c->leash = ends[1];
  return why;
}

// Ends the rest of the group before the child is reaped, while the group's number cannot be reused.
static int reap(struct child *c)
{
  int status = 0;
  kill(-c->pid, SIGKILL);
  close(c->leash);
  while (waitpid(c->pid, &status, 0) < 0)
    if (errno != EINTR) return c->pid = 0, -1;
  return c->pid = 0, WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void child_end(struct child *c)
{
  if (!c->pid) return;
  kill(c->pid, SIGKILL);
  reap(c);
}

int child_wait(struct child *c, const struct patience *p, int *status)
{
  for (useconds_t pause = FIRST_PAUSE;; pause = MIN(2 * pause, LONGEST_PAUSE)) {
    siginfo_t end = {0};
    int failed = waitid(P_PID, (id_t)c->pid, &end, WEXITED | WNOHANG | WNOWAIT);
    if ((!failed && end.si_pid) || (failed && errno != EINTR)) return *status = reap(c), OK;
    if (patience_over(p)) return child_end(c), NO;
    usleep(pause);
  }
}
