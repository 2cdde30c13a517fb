// Speed of the interpreter: element operations per second of one core, on the kernels of a list.
//
//   build/sim_speed [--times N] { FILE.tile[,NAME=VALUE...] | FILE.list }...      the best of N runs, 5
//
// An element operation is one element moved or computed, or one multiply-add (docs/sim.md). Seconds are of the processor, so other
// work on the machine counts little. Exit status 1: the interpreter found a mistake; 2: a kernel that is not well-formed.
#include "sim/tile_host.h"

#include <stdlib.h>
#include <string.h>

static int run(struct arena *mem, const char *word, struct sim_report *r, struct err *e)
{
  struct tile_words w;
  struct tile_program *p;
  struct tile_host h;
  char *text;
  size_t n;
  if (tile_host_words(mem, word, &w, e) || file_read(mem, w.path, &text, &n, e)) return e->status;
  if (tile_parse_set(mem, w.path, text, w.nset, w.set, &p, e)) return e->status;
  struct tile_kernel *k = p->kernels[0];
  if (tile_lower(p, k, k->arch, e) || tile_host_open(&h, mem, p, k, w.nset, w.set, e)) return e->status;
  if (tile_host_fill(&h, 42, w.nfills, w.fills, e)) return e->status;
  return tile_host_run(&h, r, NULL, e);
}

static int measure(const char *word, int times)
{
  struct err e = {0};
  struct sim_report r = {0};
  double best = 0;
  for (int i = 0; i < times; i++) {
    struct arena mem = {0};
    int status = run(&mem, word, &r, &e);
    arena_close(&mem);
    if (status) return err_print(stderr, &e), 2;
    if (!i || r.seconds < best) best = r.seconds;
  }
  printf("%-48s %12lld %8.3f %8.1f\n", word, (long long)r.counts.elements, best, (double)r.counts.elements / best / 1e6);
  return r.found ? fprintf(stderr, "%s: %lld errors\n", word, (long long)r.found), 1 : 0;
}

int main(int argc, char **argv)
{
  struct arena mem = {0};
  struct err e = {0};
  struct tile_list list = {0};
  int times = 5, first = 1, status = 0;
  if (argc > 2 && !strcmp(argv[1], "--times")) times = MAX(1, atoi(argv[2])), first = 3;
  if (tile_host_list(&mem, argc - first, (const char *const *)argv + first, &list, &e)) return err_print(stderr, &e), 2;
  printf("%-48s %12s %8s %8s\n", "kernel", "operations", "seconds", "M/s");
  for (int i = 0; i < list.n; i++) {
    int answer = measure(list.word[i], times);
    status = MAX(status, answer);
  }
  arena_close(&mem);
  return status;
}
