// How a search scales: what its units take, measured on one thread, and from that how long K workers take that share
// them by the rule of src/search/units.c. Work outside of units is done by every process by itself and does not shrink.
//
//   cmake --build build --target scaling && build/scaling examples/qknorm_qk.mica
#include "drive/drive.h"
#include "front/front.h"

#include <stdlib.h>
#include <time.h>

static const double PERIOD = 1; // of units.c

struct unit {
  int batch;
  uint64_t id;
  double seconds, left;
};
struct log {
  struct arena mem;
  int n, cap;
  struct unit *u;
  double stretch; // the longest time between two marks at which a search can resume
};

static void on_unit(void *arg, int batch, uint64_t id, double seconds)
{
  struct log *l = arg;
  l->stretch = MAX(l->stretch, seconds);
  if (l->n && l->u[l->n - 1].id == id)
    l->u[l->n - 1].seconds += seconds; // a unit that was continued
  else
    PUSH(&l->mem, l->u, l->n, l->cap) = (struct unit){batch, id, seconds, 0};
}

// Seconds of one batch in processes that exchange results every PERIOD seconds, or when all of them are idle.
static double by_rounds(struct unit *u, int n, int workers)
{
  double t = 0;
  for (int i = 0; i < n; i++) u[i].left = u[i].seconds;
  for (int open = n; open;) {
    double longest = 0, *busy = calloc((size_t)workers, sizeof *busy);
    for (int i = 0, k = 0; i < n; i++) {
      if (u[i].left <= 0) continue;
      double *b = &busy[k++ % workers], take = MIN(u[i].left, MAX(0, PERIOD - *b));
      *b += take, u[i].left -= take;
      open -= u[i].left <= 0;
    }
    for (int i = 0; i < workers; i++) longest = MAX(longest, busy[i]);
    t += longest;
    free(busy);
  }
  return t;
}

// Seconds of the batch in threads of one process. A free thread takes the next unit.
static double by_threads(const struct unit *u, int n, int workers)
{
  double *busy = calloc((size_t)workers, sizeof *busy), longest = 0;
  for (int i = 0; i < n; i++) {
    int first = 0;
    for (int k = 1; k < workers; k++)
      if (busy[k] < busy[first]) first = k;
    busy[first] += u[i].seconds, longest = MAX(longest, busy[first]);
  }
  free(busy);
  return longest;
}

static void simulate(const struct log *l, int workers, double *rounds, double *threads)
{
  *rounds = *threads = 0;
  for (int from = 0, to; from < l->n; from = to) {
    for (to = from; to < l->n && l->u[to].batch == l->u[from].batch; to++) continue;
    *rounds += by_rounds(&l->u[from], to - from, workers), *threads += by_threads(&l->u[from], to - from, workers);
  }
}

static void print_stages(const struct log *l, double *sum)
{
  static const char *const names[] = {"schedules over inputs", "schedules for partial sums of cuts", "schedules over inputs and cuts",
                                      "sets of device tensors", "plans to verify"};
  for (uint64_t stage = 0; stage < COUNT(names); stage++) {
    int n = 0;
    double all = 0, longest = 0;
    for (int i = 0; i < l->n; i++)
      if (l->u[i].id >> 32 == stage) n++, all += l->u[i].seconds, longest = MAX(longest, l->u[i].seconds);
    printf("%4d %-30s %7.2f s, the longest %.2f s\n", n, names[stage], all, longest);
    *sum += all;
  }
}

int main(int argc, char **argv)
{
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g;
  struct job j;
  struct mica_options o = mica_options_default();
  o.remember = false, o.threads = 2, o.search_threads = 1;
  if (argc < 2) return fprintf(stderr, "scaling PROGRAM.mica\n"), USER;
  if (load_file(&mem, argv[1], 0, NULL, &g, &e) || job_open(&j, &mem, g, &o, &e) || job_split(&j, &e)) return err_print(stderr, &e), (int)e.status;
  for (int i = 0; i < j.split.n; i++) {
    struct log l = {0};
    struct search_opts s = job_search_opts(&j);
    struct search_result r;
    clock_t start = clock();
    s.progress = NULL, s.timed = on_unit, s.timed_arg = &l;
    if (!j.split.parts[i].searchable || search_run(&mem, j.split.parts[i].g, &j.target, &s, &r, &e) != OK) continue;
    double all = (double)(clock() - start) / CLOCKS_PER_SEC, sum = 0, rounds, threads;
    print_stages(&l, &sum);
    double rest = MAX(0, all - sum);
    printf("by every process for itself: %.2f s of %.2f s; lost by a kill: at most %.2f s of each thread\n\n", rest, all, l.stretch);
    printf("| workers | threads of one process | processes of one thread |\n| --- | --- | --- |\n");
    for (int k = 1; k <= 64; k *= 2) {
      simulate(&l, k, &rounds, &threads);
      printf("| %d | %.2f s, %.1f x | %.2f s, %.1f x |\n", k, rest + threads, all / (rest + threads), rest + rounds, all / (rest + rounds));
    }
    arena_close(&l.mem);
  }
  job_close(&j);
  arena_close(&mem);
  return OK;
}
