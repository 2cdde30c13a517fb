// Times candidates for a CPU together, in turns, so that a slow phase of the machine affects all of them.
#include "drive/drive.h"

#include <math.h>

static const double LONG = 0.3;                        // seconds of a call from which on every call counts
static const double HOPELESS = 2, HOPELESS_LONG = 1.4; // candidates this many times slower than the best get no further call
static const double NEVER = 50,
                    WAIT = 0.1;   // a ratio above NEVER means that other processes had the cores; the candidate is called again for WAIT seconds
static const double LEAST = 0.01; // least seconds of a comparison
enum { CHANCES = 4 };

// Cold caches and page faults may slow down short calls, so there are enough calls to see whether other processes had the processors. In that case
// nothing is concluded about the candidate.
bool race_hopeless(struct job *j, struct candidate *k, const struct candidate *best, struct buffers *b)
{
  struct stretch calls;
  if (!best->measured) return false;
  struct caller *caller = caller_open(job_stop(j, STOP_WORK));
  struct err e = {0};
  gauge_watch(j->gauge);
  double t = INFINITY, least = best->timing.median;
  struct module *m = k->cpu.module, *frozen = NULL;
  int status = module_freezes(m) ? module_freeze(m, b->in, &frozen, &e) : OK;
  if (frozen) m = frozen;
  if (!status) status = caller_call(caller, m, b, &t, &e);
  double start = now_seconds(), last = t;
  bool brief = t < LONG;
  for (int i = 1;
       !status && brief && t > HOPELESS * least && (i < CHANCES || !gauge_due(j->gauge) || (t > NEVER * least && now_seconds() - start < WAIT));
       i++) {
    status = caller_call_again(caller, m, b, &last, &e);
    t = MIN(t, last);
  }
  gauge_record(j->gauge, 1, &calls);
  caller_close(caller);
  module_close(frozen), module_rest(k->cpu.module);
  if (e.id == ERR_STOPPED) return k->dropped = "not measured: stopped while it ran", k->late = true;
  if (status) return k->dropped = "too little memory", true;
  if (t <= (brief ? HOPELESS : HOPELESS_LONG) * least || stretch_cause(&calls, gauge_reference(j->gauge))) return false;
  k->timing = timing_of(&t, 1);
  k->late = true;
  k->dropped = arena_printf(j->mem, "slower: %.3g ms against %.3g ms", t * 1e3, best->timing.median * 1e3);
  return true;
}

// Comparisons are shorter by the same factor as the measurement of the whole that was asked for, never longer. On a busy machine each goes on
// for MEASURE_PATIENCE times its seconds, so those of a part are as brief as its time is.
double race_seconds(const struct job *j, double wanted, double share)
{
  return fmax(LEAST, fmin(wanted * fmin(1, j->opts->seconds), share * clock_left(j) / MEASURE_PATIENCE));
}

int race_run(struct job *j, struct contest *c, const int *who, int n, struct buffers *b, double seconds, struct err *e)
{
  struct module *m[MOST_IN_A_RUN];
  struct timing t[MOST_IN_A_RUN];
  CHECK(n <= MOST_IN_A_RUN);
  for (int i = 0; i < n; i++) m[i] = c->cand[who[i]].cpu.module;
  TRY(measure(m, n, b, seconds, job_stop(j, STOP_WORK), j->gauge, t, e));
  if (t[0].disturbed.why && t[0].disturbed.why != DISTURBED_SCATTERED) c->disturbed = t[0].disturbed; // this applies to all
  double unit = who[0] ? c->cand[who[0]].cpu.score : 1;
  for (int i = 0; i < n; i++) {
    struct candidate *x = &c->cand[who[i]];
    x->timing = t[i], x->measured = true, x->cpu.score = unit * t[i].quiet / t[0].quiet;
  }
  return OK;
}
