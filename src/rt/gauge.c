// Records what else went on while calls were timed: how long threads of this process waited for a processor, how much of the
// processors' time the hypervisor took, and how fast a loop of fixed work runs. disturbed.c says what follows from that.
#include "base/memory.h"
#include "rt/rt.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MOST_THREADS = 256, STEPS = 40000, FIRST = 8 };
static const double PART = 20; // a stretch takes at least so many times what recording it takes

struct gauge {
  int nthread, thread[MOST_THREADS]; // open files with each thread's times
  double waited[MOST_THREADS];       // seconds, until the last stretch
  int stat;                          // open file with the processors' times, or -1
  double stolen;                     // seconds a processor
  long switches;                     // involuntary, and
  double cpu;                        // seconds on a processor of the thread that measures
  double start, cost;                // of the stretch; of recording one
  double reference;                  // the least seconds that the loop ever took here
  volatile uint64_t result;          // of the loop, so that it is not left out
};

// ---- the loop ----

// Each step needs the one before, so that the loop takes as many cycles on every run: some 50 us.
static double reference_loop(struct gauge *g)
{
  uint64_t x = g->result | 1;
  double start = now_seconds();
  for (int i = 0; i < STEPS; i++) x = x * 6364136223846793005u + 1442695040888963407u;
  g->result = x;
  return now_seconds() - start;
}

// ---- what the system tells ----

static bool read_text(int file, char *text, size_t room)
{
  ssize_t n = file < 0 ? -1 : pread(file, text, room - 1, 0);
  text[MAX(n, 0)] = 0;
  return n > 0;
}

// The second figure of schedstat: nanoseconds for which the thread could have run and did not. A thread that has ended waits no longer.
static double thread_waited(int file, double before)
{
  char text[80], *end;
  if (!read_text(file, text, sizeof text)) return before;
  strtoull(text, &end, 10);
  return 1e-9 * (double)strtoull(end, NULL, 10);
}

// The eighth figure of the first line, in ticks of all processors.
static double stolen_seconds(const struct gauge *g)
{
  char text[256];
  unsigned long long ticks = 0;
  if (!read_text(g->stat, text, sizeof text)) return 0;
  char *p = text + strcspn(text, " ");
  for (int i = 0; i < 8; i++) ticks = strtoull(p, &p, 10);
  return (double)ticks / (double)sysconf(_SC_CLK_TCK) / (double)MAX(1, sysconf(_SC_NPROCESSORS_ONLN));
}

static double thread_seconds(void)
{
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static long thread_switches(void)
{
  struct rusage u;
  getrusage(RUSAGE_THREAD, &u);
  return u.ru_nivcsw;
}

// The longest of all threads since the last stretch.
static double longest_wait(struct gauge *g)
{
  double most = 0;
  for (int i = 0; i < g->nthread; i++) {
    double before = g->waited[i];
    g->waited[i] = thread_waited(g->thread[i], before);
    most = MAX(most, g->waited[i] - before);
  }
  return most;
}

// ---- threads ----

static void forget_threads(struct gauge *g)
{
  for (int i = 0; i < g->nthread; i++) close(g->thread[i]);
  g->nthread = 0;
}

static void list_threads(struct gauge *g)
{
  char path[300];
  struct dirent *d;
  DIR *tasks = opendir("/proc/self/task");
  while (tasks && g->nthread < MOST_THREADS && (d = readdir(tasks))) {
    if (*d->d_name == '.') continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", d->d_name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file >= 0) g->thread[g->nthread++] = file;
  }
  if (tasks) closedir(tasks);
}

// ---- stretches ----

static void drop(void *g) { gauge_close(g); }
static const struct mem_kind kind = {.close = drop};

struct gauge *gauge_open(void)
{
  struct gauge *g = mem_handle(sizeof *g, &kind);
  g->stat = open("/proc/stat", O_RDONLY | O_CLOEXEC);
  g->reference = INFINITY;
  for (int i = 0; i < FIRST; i++) g->reference = MIN(g->reference, reference_loop(g));
  return g;
}

void gauge_close(struct gauge *g)
{
  if (!g) return;
  forget_threads(g);
  if (g->stat >= 0) close(g->stat);
  mem_free(g);
}

double gauge_reference(const struct gauge *g) { return g->reference; }

static void read_all(struct gauge *g, struct stretch *s)
{
  double cpu = thread_seconds(), stolen = stolen_seconds(g), waited = longest_wait(g);
  long switches = thread_switches();
  if (!g->nthread && switches > g->switches) waited = MAX(0, s->wall - (cpu - g->cpu)); // where the system keeps no such times
  s->waited = waited, s->stolen = stolen - g->stolen;
  g->cpu = cpu, g->stolen = stolen, g->switches = switches;
}

void gauge_watch(struct gauge *g)
{
  struct stretch none = {0};
  forget_threads(g);
  list_threads(g);
  read_all(g, &none);
  g->cost = g->reference;
  g->start = now_seconds();
}

bool gauge_due(const struct gauge *g) { return now_seconds() - g->start >= PART * g->cost; }

void gauge_record(struct gauge *g, int rounds, struct stretch *s)
{
  double end = now_seconds();
  *s = (struct stretch){.rounds = rounds, .wall = end - g->start, .reference = reference_loop(g)};
  g->reference = MIN(g->reference, s->reference);
  read_all(g, s);
  g->start = now_seconds(), g->cost = g->start - end;
}
