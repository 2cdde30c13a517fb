// Prints a race: the machine, then one line for each candidate, the fastest first.
#include "gpu/rank.h"
#include "base/memory.h"

#include <string.h>

static void how(const struct device_program *p, const struct gpu_result *r, struct str *out)
{
  for (int i = 0; i < p->nlaunch; i++) {
    const struct launch *l = &p->launch[i];
    str_add(out, "%s%s", i ? " | " : "", l->how ? l->how : l->name ? l->name : "?");
    if (l->product && r->algorithm) str_add(out, " algorithm %d", r->algorithm[i]);
  }
}

static void line(const struct gpu_result *r, const struct device_program *p, int k, bool best, struct str *out)
{
  const struct gpu_time *t = &r->cold;
  str_add(out, "%c%4d ", best ? '*' : ' ', k);
  if (t->replays)
    str_add(out, "%9.2f %9.2f %9.2f ", 1e6 * t->median, 1e6 * t->least, 1e6 * t->p90);
  else
    str_add(out, "%9s %9s %9s ", "-", "-", "-");
  if (r->hot.replays)
    str_add(out, "%9.2f ", 1e6 * r->hot.median);
  else
    str_add(out, "%9s ", "-");
  str_add(out, "%8.1e %5d %4d %5d  ", r->check.relative, t->replays, r->registers, r->spilled);
  how(p, r, out);
  if (r->verdict != GPU_FINE) str_add(out, "\n       %s: %s", gpu_verdict_name(r->verdict), r->err.text);
  str_add(out, "\n");
}

// Correct candidates first, then later rounds, then by time.
static bool before(const struct gpu_result *a, const struct gpu_result *b)
{
  if ((a->verdict == GPU_FINE) != (b->verdict == GPU_FINE)) return a->verdict == GPU_FINE;
  if (a->round != b->round) return a->round > b->round;
  return a->cold.median < b->cold.median;
}

void gpu_race_text(const struct gpu_race *r, int n, const struct device_program *const *programs, struct str *out)
{
  int *order = MEM_NEWS(int, n + 1);
  for (int i = 0; i < n; i++) {
    int k = i;
    for (; k > 0 && before(&r->result[i], &r->result[order[k - 1]]); k--) order[k] = order[k - 1];
    order[k] = i;
  }
  str_add(out, "%s; %d sets of inputs; reference in float64 %.2f s\n", r->machine, r->sets, r->reference_seconds);
  str_add(out, "%d kernels, %d different, %d remembered, compiled in %.2f s; all in %.2f s%s\n", r->compile.kernels, r->compile.sources,
          r->compile.recalled, r->compile.seconds, r->seconds, r->recalled ? ", remembered" : "");
  if (*r->warning) str_add(out, "warning: %s\n", r->warning);
  str_add(out, "us a run in a graph of runs: cold on sets of more than twice the L2, hot on one set; off: against float64\n\n");
  str_add(out, "      %9s %9s %9s %9s %8s %5s %4s %5s\n", "cold", "least", "p90", "hot", "off", "runs", "regs", "spill");
  for (int i = 0; i < n; i++) line(&r->result[order[i]], programs[order[i]], order[i], order[i] == r->best, out);
  if (r->best < 0)
    str_add(out, "no candidate is right\n");
  else if (!r->sure)
    str_add(out, "the order of the first ones is uncertain\n");
  mem_free(order);
}
