// Candidates for a CPU timed together, in turns, so that a machine that slows down slows down all of them.
#include "drive/drive.h"

#include <math.h>

static const double LONG = 0.3;                        // seconds of a call from which on every call counts
static const double HOPELESS = 2, HOPELESS_LONG = 1.4; // calls this many times slower than the best: no further one
static const double NEVER = 50, WAIT = 0.1; // no candidate is so many times slower, others had the cores: it is called again for so many seconds
enum { CHANCES = 4 };

static double one_call(struct candidate *k, struct buffers *b)
{
  double start = now_seconds();
  return module_call(k->cpu.module, b->in, b->out) == 0 ? now_seconds() - start : INFINITY;
}

// Cold caches and fresh pages may explain brief calls that take long, so there are as many as tell whether others had the processors.
// If they had, nothing is said of the candidate.
bool race_hopeless(struct job *j, struct candidate *k, const struct candidate *best, struct buffers *b)
{
  struct stretch calls;
  if (!best->measured) return false;
  gauge_watch(j->gauge);
  double t = one_call(k, b), least = best->timing.median;
  bool brief = t < LONG;
  double start = now_seconds();
  for (int i = 1; brief && t > HOPELESS * least && (i < CHANCES || !gauge_due(j->gauge) || (t > NEVER * least && now_seconds() - start < WAIT)); i++)
    t = MIN(t, one_call(k, b));
  gauge_record(j->gauge, 1, &calls);
  module_rest(k->cpu.module);
  if (isinf(t)) return k->dropped = "too little memory", true;
  if (t <= (brief ? HOPELESS : HOPELESS_LONG) * least || stretch_cause(&calls, gauge_reference(j->gauge))) return false;
  k->timing = timing_of(&t, 1);
  k->late = true;
  k->dropped = arena_printf(j->mem, "slower: %.3g ms against %.3g ms", t * 1e3, best->timing.median * 1e3);
  return true;
}

int race_run(struct job *j, struct contest *c, const int *who, int n, struct buffers *b, double seconds, struct err *e)
{
  struct module *m[MOST_IN_A_RUN];
  struct timing t[MOST_IN_A_RUN];
  CHECK(n <= MOST_IN_A_RUN);
  for (int i = 0; i < n; i++) m[i] = c->cand[who[i]].cpu.module;
  TRY(measure(m, n, b, seconds, job_stop(j, STOP_WORK), j->gauge, t, e));
  if (t[0].disturbed.why && t[0].disturbed.why != DISTURBED_SCATTERED) c->disturbed = t[0].disturbed; // which is that of all
  double unit = who[0] ? c->cand[who[0]].cpu.score : 1;
  for (int i = 0; i < n; i++) {
    struct candidate *x = &c->cand[who[i]];
    x->timing = t[i], x->measured = true, x->cpu.score = unit * t[i].quiet / t[0].quiet;
  }
  return OK;
}
