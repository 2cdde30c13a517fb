// Prints the native frames of a thread that a signal ends: loaded before a process (LD_PRELOAD). Python's fault handler, which is installed later,
// prints its own frames first and hands the signal on.
#include <execinfo.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { FRAMES = 48 };

static void tell(int signal)
{
  void *frame[FRAMES];
  static const char head[] = "Native frames:\n";
  if (write(STDERR_FILENO, head, sizeof head - 1) < 0) _exit(128 + signal);
  backtrace_symbols_fd(frame, backtrace(frame, FRAMES), STDERR_FILENO);
  raise(signal); // the default action, which SA_RESETHAND has put back
}

__attribute__((constructor)) static void begin(void)
{
  static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  void *first[1];
  struct sigaction s;
  memset(&s, 0, sizeof s);
  s.sa_handler = tell, s.sa_flags = (int)(SA_RESETHAND | SA_NODEFER | SA_ONSTACK);
  backtrace(first, 1); // loads what the handler must not load
  for (unsigned i = 0; i < sizeof signals / sizeof *signals; i++) sigaction(signals[i], &s, NULL);
}
