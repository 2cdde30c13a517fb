// climb: hill climbing on a GPU. It starts from the settings that the cost model ranks first, and continues from measured times.
//
// Glossary
//   entrant  a candidate with one choice of scheme and knobs for each of its kernels
//   plan     the kernels of a candidate with all their choices; with dependent launches or without
//   near     a neighbour of an entrant: it differs in a knob, in two knobs by a step, in a scheme, a tail, or tile sizes
//   centre   an entrant whose neighbours were entered
//   line     the centres that follow from one start, each faster than the one before
//   rough    timed by a few launches only, because others of its batch were faster
//
//   climb.c        batches: while one is compiled, the one before is timed; new centres
//   climb_entrants.c  entrants, plans, and device programs of entrants
//   climb_near.c   the neighbours of an entrant
//   climb_expect.c the expected times of entrants that are not timed yet
//   climb_course.c the record of the climb for the report
#ifndef MICA_DRIVE_CLIMB_H
#define MICA_DRIVE_CLIMB_H

#include "drive/drive.h"
#include "gpu/gpu.h"

enum { MOST_VALUES = 48 };
struct values { // values of a knob, ascending
  int n, v[MOST_VALUES];
};
struct known_values { // that a scheme lists for the knobs of a unit
  int unit, scheme;
  bool tail;
  struct values knob[KNOBS];
};
struct climb_plan {
  int cand;
  struct lower_plan p;
  int nknown, knowncap;
  struct known_values *known;
};
enum entrant_state { WAITING, RACING, TIMED, LEFT, OUT }; // LEFT: no time was left to compile it
struct entrant {
  int cand, line; // line: -1 for starters without a line
  int near_to;    // the entrant it was derived from; -1 for starters
  struct climb_plan *plan;
  struct choice *pick; // for each unit of the plan
  enum entrant_state state;
  bool centre, rough;
  bool first;                     // in the first batch, which is small
  bool last;                      // in a race of the fastest, whose figures are exact
  double model;                   // seconds by the model
  double prior;                   // seconds by the model and by the entrant it was derived from
  double expect;                  // expected seconds, by all known times; decides who is tried first
  double seconds;                 // measured; INFINITY: not measured, or wrong
  struct arena mem;               // of the program
  struct device_program *program; // NULL: not made, or released
  uint64_t hash;                  // of the program
  struct gpu_result *result;
  const char *why, *again; // why: reason for dropping it and its candidate; again: the command that reproduces it, or NULL
  int by;                  // row of pass.def that found the fault
};
enum { MOST_LINES = 3, BATCH = 32, MOST_SIZED = 200 };
struct line {
  int centre; // the last one
};
struct climb_batch { // a batch of entrants with compiled programs; b NULL: none
  int n, who[BATCH];
  struct gpu_batch *b;
};
extern const double PLAN_RACE; // seconds of a race that only compares a plan with op-by-op
struct entrants {
  struct job *j;
  struct contest *c;
  int part;
  struct gpu_session *session;
  double until, compile_until; // values of now_seconds(): later no batch begins; later programs that are not compiled are skipped
  int most;                    // of a batch
  bool opening;                // runs only the first batch
  int unproved;                // entrants whose proof was not begun or not finished for lack of time
  int idle;                    // number of batches since the best time improved
  double best;                 // seconds of the best
  int n, cap, nplans, planscap, nlines, batches, sized;
  struct entrant *x;
  struct climb_plan **plan;
  struct line line[MOST_LINES];
  struct climb_batch ahead;  // a batch that climb_ahead began and that was not raced yet
  double compiling, waiting; // seconds of compilation, and seconds that the GPU waited for it
  double round, each;        // seconds of the last batch: of one round of its compilers; to check and time one program. 0: unknown
  struct arena scratch;
};

// ---- climb_entrants.c ----
struct entrants *entrants_open(struct job *j, struct contest *c, int part, struct gpu_session *s);
void entrants_close(struct entrants *f);
struct climb_plan *entrants_plan(struct entrants *f, int cand, bool dependent); // NULL if no kernels can be made
// Adds an entrant, unless it is known or its scheme does not take its setting. near_to: an entrant, or -1. `handicap` is a factor of the expected
// time.
void entrants_enter(struct entrants *f, int line, struct climb_plan *p, const struct choice *pick, int near_to, double handicap);
bool entrants_setting(struct entrants *f, const struct climb_plan *p, int unit, struct choice *c); // whether the setting is valid; sets its cost
int entrants_make(struct entrants *f, int n, int *who); // makes device programs in parallel; keeps those that can be made and returns their number
void entrants_give_back(struct entrants *f, int i);
int entrants_fastest(const struct entrants *f, int cand, bool rough); // of a candidate; with cand < 0 of all that are not dropped; -1: none

bool choice_same(const struct choice *a, const struct choice *b);

// ---- climb_near.c ----
void climb_near(struct entrants *f, int at);

// ---- climb_expect.c ----
void climb_expect(struct entrants *f);

// ---- climb_course.c ----
void climb_begins(struct entrants *f, int line);
void climb_steps(struct entrants *f, int line, int to); // called before the line's centre changes
void climb_ends(struct entrants *f, int at);            // records the winner

// ---- climb.c ----
// Makes device programs of the waiting entrants with the least expected times: at most `most`, and none above `limit` seconds. Returns their number;
// `who` gets their numbers, at most BATCH.
int climb_take(struct entrants *f, int most, double limit, int *who);
// These return OK after a stop or at the end of the job's time; the results so far stand.
int climb_ahead(struct entrants *f, struct err *e);               // compiles the first batch of climb_starters while the caller continues
int climb_starters(struct entrants *f, struct err *e);            // times all waiting entrants
void climb_begun(struct entrants *f, int i);                      // a race of this entrant alone, with its candidate's own kernels, has begun
void climb_known(struct entrants *f, int i, struct gpu_race *r);  // that race has ended; without a result the entrant waits again
int climb_run(struct entrants *f, struct err *e);                 // from the fastest, until f->until or until no neighbour is faster
void entrants_drop(struct candidate *c, const struct entrant *x); // drops a candidate because of a fault in this variant
int climb_finals(struct entrants *f, struct err *e);              // times the fastest entrants without exact figures; NO if there are none

// ---- race_early.c ----
int race_early_begin(struct job *j, struct contest *c, struct err *e); // if the subprogram will be raced
bool race_early_ended(const struct contest *c);                        // true also if it was not begun
// Its session for the later races, or NULL if it was not begun. Until it ends, other batches of the session may be compiled, but not raced.
struct gpu_session *race_early_session(const struct contest *c);
// *out has no results if it was stopped or not begun. *e has the fault.
void race_early_end(struct job *j, struct contest *c, struct gpu_race *out, struct err *e);

// ---- race_gpu.c ----
struct gpu_race_opts race_gpu_opts(const struct job *j);
struct entrants *race_gpu_starters(struct job *j, struct contest *c, int part, struct gpu_session *s); // all candidates of c wait; to be closed
struct entrants *race_gpu_open(struct job *j, struct contest *c, int part, struct gpu_session *s);     // the same, with room for other sizes
int race_gpu_climb(struct entrants *f, double seconds, struct err *e);                                 // times all that wait, then climbs
// The fastest that can be proved; -1: none. After a stop the figures so far are used, and a short time remains for its proof.
int race_gpu_prove(struct entrants *f, int *best, struct err *e);
void race_gpu_times(struct entrants *f);    // copies times and faults to the candidates
double race_gpu_share(const struct job *j); // seconds of climbing for a part or the whole
int race_gpu_races(const struct job *j);    // number of races of the job: of its parts, and of the whole

// ---- prepare.c ----
void race_prepare(struct job *j, struct contest *c, int part); // puts machine code into the database, for a race elsewhere

// ---- race_kept.c ----
void race_keep(struct entrants *f); // keeps candidates that were nearly as fast as the best

#endif
