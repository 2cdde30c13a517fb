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
struct values { // of a knob, ascending
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
enum entrant_state { WAITING, RACING, TIMED, LEFT, OUT }; // left: there was no time to compile it
struct entrant {
  int cand, line; // line: -1 for starters that begin none
  int near_to;    // the entrant it was made from; -1 for starters
  struct climb_plan *plan;
  struct choice *pick; // by unit of the plan
  enum entrant_state state;
  bool centre, rough;
  bool first;                     // of the first batch, which is small
  bool last;                      // in a race of the fastest, whose figures are exact
  double model;                   // seconds by the model
  double prior;                   // seconds by the model and by what it is near to
  double expect;                  // seconds by all that is known: who is tried first
  double seconds;                 // measured; INFINITY: not, or not right
  struct arena mem;               // of the program
  struct device_program *program; // NULL: not made, or given back
  uint64_t hash;                  // of the program
  struct gpu_result *result;
  const char *why, *again; // what is wrong with it, as its candidate's reason; the command that shows it, or NULL
  int by;                  // the row of pass.def that found it
};
enum { MOST_LINES = 3, BATCH = 32, MOST_SIZED = 200 };
struct line {
  int centre; // the last one
};
struct climb_batch { // of entrants whose programs are compiled; b: NULL where there are none
  int n, who[BATCH];
  struct gpu_batch *b;
};
extern const double PLAN_RACE; // seconds of a race that decides nothing but between a plan and op-by-op
struct entrants {
  struct job *j;
  struct contest *c;
  int part;
  struct gpu_session *session;
  double until, compile_until; // by now_seconds(): no batch is begun later; what is not compiled then is left
  int most;                    // of a batch
  bool opening;                // only the first batch runs
  int idle;                    // batches since the best time fell
  double best;                 // seconds of the best
  int n, cap, nplans, planscap, nlines, batches, sized;
  struct entrant *x;
  struct climb_plan **plan;
  struct line line[MOST_LINES];
  struct climb_batch ahead;  // that was begun by climb_ahead, and is not raced yet
  double compiling, waiting; // seconds that the compiler took, and that the GPU waited for it
  double each;               // seconds that one entrant of the last batch took to be compiled, or to be checked and timed; 0: not known
  struct arena scratch;
};

// ---- climb_entrants.c ----
struct entrants *entrants_open(struct job *j, struct contest *c, int part, struct gpu_session *s);
void entrants_close(struct entrants *f);
struct climb_plan *entrants_plan(struct entrants *f, int cand, bool dependent); // NULL where nothing can be made of it
// Nothing where it is known, or where a scheme does not take its setting. near_to: an entrant, or -1. `handicap` is multiplied into
// what is expected of it.
void entrants_enter(struct entrants *f, int line, struct climb_plan *p, const struct choice *pick, int near_to, double handicap);
bool entrants_setting(struct entrants *f, const struct climb_plan *p, int unit, struct choice *c); // valid? Then its cost is set
int entrants_make(struct entrants *f, int n, int *who); // device programs of entrants, in parallel; keeps those that are, returns how many
void entrants_give_back(struct entrants *f, int i);
int entrants_fastest(const struct entrants *f, int cand, bool rough); // of a candidate; of all that are not dropped where cand < 0. -1: none

bool choice_same(const struct choice *a, const struct choice *b);

// ---- climb_near.c ----
void climb_near(struct entrants *f, int at);

// ---- climb_expect.c ----
void climb_expect(struct entrants *f);

// ---- climb_course.c ----
void climb_begins(struct entrants *f, int line);
void climb_steps(struct entrants *f, int line, int to); // before the line's centre is another
void climb_ends(struct entrants *f, int at);            // with the winner

// ---- climb.c ----
// Makes device programs of the waiting entrants with the least expected times, at most `most`, and none above `limit` seconds. Returns how many it
// made; `who` gets their numbers, at most BATCH.
int climb_take(struct entrants *f, int most, double limit, int *who);
// After a stop, or when the time of the job is over, OK: what was measured until then stands.
int climb_ahead(struct entrants *f, struct err *e);               // has the first batch of climb_starters compiled while the caller goes on
int climb_starters(struct entrants *f, struct err *e);            // times all that wait
void climb_begun(struct entrants *f, int i);                      // a race of the entrant alone is under way, of its candidate's own kernels
void climb_known(struct entrants *f, int i, struct gpu_race *r);  // and has ended; without a result the entrant waits again
int climb_run(struct entrants *f, struct err *e);                 // from the fastest, until f->until or until nothing near is faster
void entrants_drop(struct candidate *c, const struct entrant *x); // for what is wrong with this way to make it
int climb_finals(struct entrants *f, struct err *e);              // the fastest that have no exact figures yet; NO where there are none

// ---- race_early.c ----
int race_early_begin(struct job *j, struct contest *c, struct err *e); // where the subprogram will be raced
// Its session, for the races that follow, or NULL: it was not begun. Until the end other batches of the session may be compiled, but not raced.
struct gpu_session *race_early_session(const struct contest *c);
// *out has no results where it was stopped, or was not begun. *e has the fault.
void race_early_end(struct job *j, struct contest *c, struct gpu_race *out, struct err *e);

// ---- race_gpu.c ----
struct gpu_race_opts race_gpu_opts(const struct job *j);
struct entrants *race_gpu_starters(struct job *j, struct contest *c, int part, struct gpu_session *s); // all candidates of c wait. To be closed
struct entrants *race_gpu_open(struct job *j, struct contest *c, int part, struct gpu_session *s);     // the same with room for other sizes
int race_gpu_climb(struct entrants *f, double seconds, struct err *e);                                 // all that wait, then the climb
// The fastest that can be proven, -1: none. After a stop the figures are those that are there, and a moment is left to prove it.
int race_gpu_prove(struct entrants *f, int *best, struct err *e);
void race_gpu_times(struct entrants *f);    // of candidates, and what was wrong with them
double race_gpu_share(const struct job *j); // seconds of climbing, of a part or of the whole

// ---- prepare.c ----
void race_prepare(struct job *j, struct contest *c, int part); // machine code in the database, for a race elsewhere

// ---- race_kept.c ----
void race_keep(struct entrants *f); // what was nearly as fast as the best

#endif
