// Compiles the candidates that a race would try first on a machine without a GPU. The machine code goes into the database, keyed by its source, the
// architecture and the compiler's version. A race on another machine with this database does not compile it again.
#include "drive/climb.h"

#include <math.h>

static void compile(struct entrants *f, int n, const int *who)
{
  struct job *j = f->j;
  struct arena mem = {0};
  struct code *codes = NEWS(&mem, struct code, n + 1);
  struct compile_result *results = NEWS(&mem, struct compile_result, n + 1);
  struct compile_stats stats;
  const struct patience until = {.stop = job_stop(j, STOP_WORK)};
  struct err e = {0};
  int good = 0;
  for (int i = 0; i < n; i++) good += code_make(&mem, f->x[who[i]].program, &codes[good], &(struct err){0}) == OK;
  if (gpu_forge_codes(&mem, j->forge, j->db, &until, gpu_runs_on(&j->target), good, codes, results, &stats, &e) != OK) job_warn(j, e.text);
  arena_close(&mem);
}

// Includes op-by-op, which every race measures.
void race_prepare(struct job *j, struct contest *c, int part)
{
  struct entrants *f = race_gpu_starters(j, c, part, NULL);
  int who[BATCH];
  for (int left = j->opts->prepare, n; left > 0 && (n = climb_take(f, MIN(left, BATCH), INFINITY, who)) > 0; left -= n) {
    job_progress(j, "compile", part, 1 - (double)left / j->opts->prepare, &c->stats, 0);
    compile(f, n, who);
    for (int i = 0; i < n; i++) entrants_give_back(f, who[i]);
  }
  entrants_close(f);
}
