// Processor seconds of this process and its descendants, to distinguish a working compiler from one that hangs. Ended processes count while their
// parent lives. Without /proc only this process counts.
#include "cli/cli.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4096 };
struct process {
  long pid, parent;
  unsigned long long ticks;
  bool ours;
};

// The fields of /proc/PID/stat after the name in parentheses: state, parent, ... user time is the 12th, then system time, then those of waited-for
// children.
static bool read_process(const char *pid, struct process *p)
{
  char path[64], text[1024];
  unsigned long long user, system, children, more;
  snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  FILE *f = fopen(path, "r");
  size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
  if (f) fclose(f);
  text[n] = 0;
  const char *at = strrchr(text, ')');
  *p = (struct process){.pid = strtol(pid, NULL, 10)};
  if (!at || sscanf(at + 1, " %*c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %llu %llu", &p->parent, &user, &system, &children, &more) != 5)
    return false;
  p->ticks = user + system + children + more;
  return true;
}

static int read_all(struct process *p)
{
  DIR *d = opendir("/proc");
  int n = 0;
  for (const struct dirent *x; d && n < MOST && (x = readdir(d));)
    if (x->d_name[0] >= '1' && x->d_name[0] <= '9') n += read_process(x->d_name, &p[n]);
  if (d) closedir(d);
  return n;
}

double work_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  double seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec, ticks = (double)MAX(1, sysconf(_SC_CLK_TCK));
  struct process *p = calloc(MOST, sizeof *p);
  int n = p ? read_all(p) : 0;
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < n; i++) {
      bool below = p[i].parent == getpid();
      for (int k = 0; k < n && !below; k++) below = p[k].ours && p[k].pid == p[i].parent;
      if (!below || p[i].ours) continue;
      p[i].ours = more = true, seconds += (double)p[i].ticks / ticks;
    }
  }
  free(p);
  return seconds;
}
