// A simulated GPU for the pipeline. It replaces gpu_identity and the races. It invents a time for every device program, and calls some of them wrong
// or stops. So the expected report is known: the fastest correct program of all that took part.
#ifndef TESTS_DRIVE_PRETENDED_GPU_H
#define TESTS_DRIVE_PRETENDED_GPU_H

#include "../graphs.h"
#include "drive/climb.h"
#include "export/export.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"

struct gpu_session {
  int number; // from 1
  const struct graph *reference;
};
// A batch, and the requests to it: here a list.
struct gpu_batch {
  int n;
  struct gpu_session of;
  bool quick, waits; // waits: nobody has waited for its machine code
  bool alone;        // the batch is the race of op-by-op during a search
  stop_flag stop;
  const struct device_program *const *programs;
};
typedef double pretended_clock(const struct device_program *d);

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER; // op-by-op is raced while other batches begin

static struct {
  pretended_clock *clock;
  int races, programs, wrong, open;            // open: batches and sessions that were not given back
  int sessions, compiling, beside;             // batches that nobody has waited for; sessions that were opened beside one
  int candidates, most;                        // batches of candidates that nobody has waited for; the most at a time
  double least, last;                          // of all that were right; of the first program of the last race
  int spoil;                                   // of so many one is wrong
  bool (*bad)(const struct device_program *d); // these are not fine, with this verdict; NULL: all are
  enum gpu_verdict verdict;
  int stop_at, told;             // the race in which a stop comes, from 1; programs that are measured in it until then
  bool quick;                    // that is a quick one, or the first that is none
  bool waits;                    // for a stop that is another's
  bool final;                    // the current race is the last one: the result and op-by-op
  volatile int stop;             // the user's flag
  int batches, size[8], of[16];  // that were begun; the programs, and the sessions, of the first ones
  double each;                   // seconds that a race says it took for each program
  bool ready;                    // machine code is there at once; else only after a wait
  int held;                      // the first race ends when so many batches were begun, or after PATIENCE seconds
  int fast[3], late;             // by session: the most programs that are compiled in time for a quick race, 0: any; races in which none was
  const struct graph *reference; // of the session of the last race
  int tame, wild;                // sessions whose exponentials have a maximum taken off, and others with exponentials
} seen;
static int pretended_threads = 2; // of jobs

int gpu_identity(int device, char out[160], struct err *e)
{
  (void)device, (void)e;
  return snprintf(out, 160, "a pretended GPU"), OK;
}

int gpu_machine_begin(struct gpu_forge *f, stop_flag stop, struct gpu_worker **out, struct err *e)
{
  (void)f, (void)stop, (void)e;
  return *out = NULL, OK;
}

int gpu_machine_check(struct gpu_worker *w, const struct gpu_forge *f, const struct gpu_need *n, struct err *e)
{
  (void)w, (void)f, (void)n;
  return err_set(e, ERR_GPU, NOWHERE, "there is no worker to ask");
}

int gpu_session_open(const struct graph *reference, const struct gpu_race_opts *o, struct gpu_session **out)
{
  bool grows = false, tamed = false;
  for (int i = 0; i < reference->nnodes; i++) grows |= reference->nodes[i].op == OP_EXP, tamed |= reference->nodes[i].op == OP_MAX;
  seen.tame += grows && tamed, seen.wild += grows && !tamed;
  (void)o;
  *out = malloc(sizeof **out);
  (*out)->number = ++seen.sessions, (*out)->reference = reference;
  seen.beside += seen.compiling > 0;
  return seen.open++, OK;
}

void gpu_session_close(struct gpu_session *s)
{
  seen.open -= s != NULL;
  free(s);
}

int gpu_batch_start(struct gpu_session *s, const struct gpu_race_opts *o, int n, const struct device_program *const *programs, struct gpu_batch **out,
                    struct err *e)
{
  (void)e;
  assert_non_null(s);
  const struct device_program **copy = malloc(sizeof(*copy) * (size_t)n);
  memcpy(copy, programs, sizeof(*copy) * (size_t)n);
  *out = malloc(sizeof **out);
  **out = (struct gpu_batch){.n = n, .of = *s, .quick = o->quick, .waits = true, .alone = o->finalists == 1, .stop = o->stop, .programs = copy};
  pthread_mutex_lock(&counting);
  seen.compiling++, seen.candidates += !(*out)->alone, seen.most = MAX(seen.most, seen.candidates);
  if (seen.batches < (int)COUNT(seen.size)) seen.size[seen.batches] = n;
  if (seen.batches < (int)COUNT(seen.of)) seen.of[seen.batches] = s->number;
  seen.batches++, seen.open++;
  pthread_mutex_unlock(&counting);
  return OK;
}

bool gpu_batch_ready(const struct gpu_batch *b) { return !b->waits || seen.ready; }

void gpu_batch_wait(struct gpu_batch *b)
{
  assert_non_null(b);
  pthread_mutex_lock(&counting);
  seen.compiling -= b->waits, seen.candidates -= b->waits && !b->alone;
  pthread_mutex_unlock(&counting);
  b->waits = false;
}

void gpu_batch_drop(struct gpu_batch *b)
{
  if (!b) return;
  pthread_mutex_lock(&counting);
  seen.compiling -= b->waits, seen.candidates -= b->waits && !b->alone, seen.open--;
  pthread_mutex_unlock(&counting);
  free((void *)b->programs);
  free(b);
}

// Number of n programs that are measured until the stop that comes in this race.
static int until_the_stop(const struct gpu_batch *b)
{
  bool here = seen.stop_at && (seen.quick ? seen.races == seen.stop_at : seen.races >= seen.stop_at && !b->quick);
  if (!here) return b->n;
  seen.stop_at = 0;
  if (!seen.waits) __atomic_store_n(&seen.stop, 1, __ATOMIC_RELAXED);
  while (!stop_set(b->stop)) usleep(1000); // a job hears of it a little later
  return MIN(seen.told, b->n);
}

// The compiler came to none of the programs.
static bool came_late(const struct gpu_batch *b, struct gpu_race *out)
{
  int most = b->of.number <= (int)COUNT(seen.fast) ? seen.fast[b->of.number - 1] : 0;
  if (!b->quick || !most || b->n <= most || (seen.stop_at && seen.races == seen.stop_at)) return false;
  seen.late++;
  for (int i = 0; i < b->n; i++) {
    out->result[i].verdict = GPU_NOT_COMPILED, out->result[i].round = -1;
    err_set(&out->result[i].err, ERR_STOPPED, NOWHERE, "%s was skipped: no time was left to compile it", b->programs[i]->launch[0].name);
  }
  return true;
}

enum { PATIENCE = 20 };

// Batches that were begun when the first race ends.
static int batches_begun(void)
{
  pthread_mutex_lock(&counting);
  const int n = seen.batches;
  pthread_mutex_unlock(&counting);
  return n;
}

static void hold_first(void)
{
  for (double end = now_seconds() + PATIENCE; seen.races == 1 && batches_begun() < seen.held && now_seconds() < end;) usleep(1000);
}

// A race tells who is fast; a quick one tells the fastest few better than the others.
int gpu_race_batch(struct arena *mem, struct gpu_batch *b, struct gpu_race *out, struct err *e)
{
  *out = (struct gpu_race){.best = -1, .result = NEWS(mem, struct gpu_result, b->n + 1)};
  seen.reference = b->of.reference, seen.races++, seen.programs += b->n, out->seconds = seen.each * b->n;
  seen.final = b->n == 2 && !b->quick;
  assert_false(stop_set(b->stop)); // after a stop there is no race
  hold_first();
  if (came_late(b, out)) return OK;
  int told = until_the_stop(b);
  for (int i = 0; i < told; i++) {
    struct gpu_result *r = &out->result[i];
    double t = seen.clock(b->programs[i]);
    bool bad = seen.bad && seen.bad(b->programs[i]);
    if (bad || (seen.spoil && program_hash(b->programs[i], 6) % (unsigned)seen.spoil == 0)) {
      r->verdict = bad ? seen.verdict : GPU_WRONG, r->round = -1, seen.wrong++;
      err_set(&r->err, ERR_WRONG, NOWHERE, "made up");
      continue;
    }
    int *algorithm = NEWS(mem, int, b->programs[i]->nlaunch + 1);
    for (int l = 0; l < b->programs[i]->nlaunch; l++) algorithm[l] = b->programs[i]->launch[l].product ? 3 : -1;
    r->algorithm = algorithm;
    r->cold = (struct gpu_time){t, t, t, t, t, 20, 1};
    r->check.relative = 1e-4;
    if (out->best < 0 || t < out->result[out->best].cold.median) out->best = i;
    seen.least = fmin(seen.least, t);
  }
  for (int i = 0; i < b->n && b->quick; i++) {
    int faster = 0;
    for (int k = 0; k < b->n; k++) faster += out->result[k].cold.replays && out->result[k].cold.median < out->result[i].cold.median;
    if (out->result[i].cold.replays) out->result[i].rough = faster >= 6;
  }
  if (told < b->n) return err_set(e, ERR_STOPPED, NOWHERE, "stopped while measuring on the GPU");
  seen.last = out->result[0].verdict == GPU_FINE ? out->result[0].cold.median : NAN;
  return OK;
}

static double made_up(const struct device_program *d) { return d->cost * (1 + (double)(program_hash(d, 5) % 64) / 64); }

enum { ENDLESS = 1000000 }; // no clock ends the climb

static const char *database; // or NULL
static int measured = 2;     // candidates
static double most_time;     // of a job, in seconds; 0: the default

static inline json_t *optimize(struct arena *mem, const char *text, int spoil, pretended_clock *clock, double tune)
{
  struct mica_options o = mica_options_default();
  struct err e = {0};
  json_t *report = NULL;
  bool recalled;
  memset(&seen, 0, sizeof seen);
  seen.least = INFINITY, seen.spoil = spoil, seen.clock = clock;
  o.target = "sm_90a", o.remember = database, o.db = database, o.measure = measured, o.threads = pretended_threads, o.tune = tune, o.time = most_time;
  if (pipe_optimize(mem, graph_of(mem, text), &o, &report, &recalled, &e) != OK) fail_msg("%s", e.text);
  assert_int_equal(seen.open, 0);
  assert_non_null(report);
  return report;
}

static inline double number(const json_t *r, const char *a, const char *b)
{
  const json_t *v = json_object_get(json_object_get(r, a), b);
  assert_true(json_is_number(v));
  return json_number_value(v);
}

static const char *const texts[] = {
    "program soft() {\n X: f16[64, 256]\n return softmax(X, dim=1)\n}\n",
    "program norm() {\n X: f16[8, 128]\n W: f16[128, 64]\n return matmul(rms_norm(X), W)\n}\n",
};

static inline int save_report(struct arena *mem, const json_t *report, const char *to, struct err *e)
{
  struct gpu_forge *forge = gpu_forge_open(&(struct gpu_forge_opts){0});
  int status = report_save_by(mem, report, to, forge, NULL, e);
  return gpu_forge_close(forge), status;
}

#endif
