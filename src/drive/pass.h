// pass: the rows of pass.def, and their observers: dumps, checks, times, dropped candidates.
//
// Glossary
//   pass      a row: from one IR to another
//   IR        a form of the program between two passes: a kernel graph, a tile program, C
//   value     one result of a pass: a pass over a subprogram may leave many
//   watch     what a job is asked to tell of its passes. If nothing is asked for, a pass costs a call by pointer
//
//   pass.c        the table; names
//   pass_run.c    runs a row for one thing that it works on, and what comes after it
//   pass_value.c  the results of each pass, one by one
//   pass_text.c   IRs as text, and back; their checks. pass_lower_text.c: those of a GPU's kernels
//   watch.c       what is asked for; dumps and lines of times
//   dropped.c     candidates that were dropped, each with the command that shows why
//   stages.c      the functions of rows that are no other file's
#ifndef MICA_DRIVE_PASS_H
#define MICA_DRIVE_PASS_H

#include "base/memory.h"
#include "base/trace.h"
#include "drive/drive.h"

enum pass_scope { OF_JOB, OF_PART, OF_CANDIDATE, OF_LEADER };
enum { ON_CPU = 1 << TARGET_CPU, ON_GPU = 1 << TARGET_GPU, ON_ALL = ON_CPU | ON_GPU };
enum ir_id {
#define IR(id, ...) IR_##id,
#include "drive/pass.def"
  IRS
};

struct pass_on { // the object that a pass works on
  struct job *j;
  struct contest *c;   // for a subprogram; else NULL
  struct candidate *x; // for a candidate; else NULL
};
struct ir_value {
  struct pass_on on;
  const struct graph *g; // for a kernel graph
  int i;                 // number of a kernel (a unit of the plan) or of a launch
  char label[64];        // distinguishes several results of a pass; "": there is only one
};
struct ir {
  const char *name, *suffix, *comment;
  void (*print)(const struct ir_value *v, struct str *out);
  int (*check)(const struct ir_value *v, struct err *e);
  int (*parse)(struct arena *mem, const struct ir_value *v, const char *text, size_t n, struct err *e);
};
extern const struct ir irs[IRS];

struct pass {
  const char *name;
  enum pass_scope scope;
  unsigned targets; // ON_CPU, ON_GPU
  enum ir_id in, out;
  // A status other than OK ends a candidate's pass and drops the candidate, with the message as the reason; in other passes it ends the job.
  int (*run)(const struct pass_on *on, struct err *e);
  bool (*values)(const struct pass_on *on, int i, struct ir_value *v); // false: there is no i-th value
  const char *doc;
};
enum pass_id {
#define PASS(id, ...) PASS_##id,
#include "drive/pass.def"
  PASSES
};
enum { NO_PASS = -1, LAST_OF_CANDIDATE = PASS_VERIFY - 1 };
extern const struct pass passes[PASSES];

struct dump { // one dumped value
  struct dump *next;
  int pass, part, cand, i;
  char title[192];
  struct str text;
};
struct tally { // counts of a pass's runs
  int runs, values, dropped;
  size_t bytes;
  double seconds;
};
struct watch {
  uint64_t dump;  // rows, as bits
  int stop_after; // a row, or NO_PASS
  bool check, lines;
  bool halted; // a pass over a leader was the last one of its subprogram
  struct trace *trace;
  struct span span;     // of the job
  pthread_mutex_t lock; // protects the fields below
  struct dump *dumps;
  struct err failed;          // an output that is not well-formed, or a dump that could not be written
  struct tally tally[PASSES]; // since its last line
  int told[PASSES];           // number of dumped values
  struct str dropped;         // commands, one a line
  int ndropped;
};

// ---- pass.c ----
const struct pass *pass_row(const struct job *j, int pass);            // of this job's table
int pass_find(const char *name, size_t n);                             // a row, or NO_PASS
int pass_unknown(const char *option, const char *name, struct err *e); // ERR_OPTION that lists the passes
// whether it is a row of this scope for the job's target, not after --stop-after
bool pass_is(const struct job *j, int pass, enum pass_scope scope);

// ---- pass_run.c ----
int pass_run(int pass, const struct pass_on *on, struct err *e);
// Runs the passes over a candidate that it still lacks, up to `last`; x->by is the row that failed. Thread-safe for different candidates.
int pass_candidate(struct job *j, struct contest *c, struct candidate *x, int last, struct err *e);
void pass_fell(struct job *j, struct contest *c, struct candidate *x, const struct err *e); // drops x with the error of that call in e
bool pass_leader(struct job *j, struct contest *c, struct candidate *x);                    // whether it passed all rows over leaders

// ---- watch.c ----
int watch_open(struct job *j, struct err *e);                // sets up what the options ask for
void watch_close(struct job *j, int *status, struct err *e); // reports the dumps and writes the trace
void watch_free(struct job *j);
bool watch_asked(const struct job *j, int pass); // whether its values are needed
bool watch_private(const struct job *j);         // the result must not be recalled or stored
int watch_value(int pass, const struct ir_value *v, size_t *bytes, struct err *e);
void watch_tally(const struct job *j, int pass, const struct tally *t);
void watch_lines(const struct job *j, int until); // prints lines of the rows before this one that have run
struct pass_place {                               // numbers from 1; 0: none
  int part, cand;
};
struct pass_place pass_place(const struct pass_on *on);

// ---- dropped.c ----
int dropped_open(struct job *j, struct err *e);
void dropped_keep(const struct pass_on *on, int pass); // the pass dropped on.x; sets x->again to the command
// One variant of on.x failed in that pass. Returns the command that reproduces it, or NULL.
const char *dropped_way(const struct pass_on *on, int pass, const char *why, const struct lower_plan *p, const struct choice *pick);

// ---- functions named by rows ----
int run_expand(const struct pass_on *on, struct err *e);      // stages.c
int run_collectives(const struct pass_on *on, struct err *e); // stages.c
int run_split(const struct pass_on *on, struct err *e);
int run_search(const struct pass_on *on, struct err *e);
int run_pick(const struct pass_on *on, struct err *e);
int run_race(const struct pass_on *on, struct err *e);
int run_join(const struct pass_on *on, struct err *e);
int run_whole(const struct pass_on *on, struct err *e);
int run_report(const struct pass_on *on, struct err *e);
int run_stable(const struct pass_on *on, struct err *e); // candidate.c
int run_thread_graphs(const struct pass_on *on, struct err *e);
int run_c(const struct pass_on *on, struct err *e);
int run_compile(const struct pass_on *on, struct err *e);
int run_norm(const struct pass_on *on, struct err *e); // device.c
int run_choices(const struct pass_on *on, struct err *e);
int run_lower(const struct pass_on *on, struct err *e);
int run_cuda(const struct pass_on *on, struct err *e);
int run_nvrtc(const struct pass_on *on, struct err *e);
int run_verify(const struct pass_on *on, struct err *e);    // verified.c
int run_numbers(const struct pass_on *on, struct err *e);   // race_cpu.c
int run_interpret(const struct pass_on *on, struct err *e); // race_device.c

typedef bool pass_values(const struct pass_on *on, int i, struct ir_value *v); // pass_value.c
pass_values value_program, values_expanded, value_moved, values_parts, values_found, values_picked, value_candidate, value_source, no_values,
    values_kernels, value_lowered, values_launches, value_certificate, value_numbers, values_cuda, values_use, value_times, value_joined, value_whole,
    value_report;

typedef void ir_print(const struct ir_value *v, struct str *out); // pass_text.c, pass_lower_text.c
ir_print print_graph, print_source, print_norm, print_chains, print_schedule, print_meta, print_threads, print_layouts, print_choices, print_kern,
    print_tile, print_memory, print_certificate, print_numbers, print_proof, print_cuda, print_use, print_times, print_whole, print_report;
int check_graph(const struct ir_value *v, struct err *e);
int check_kern(const struct ir_value *v, struct err *e);
int parse_kern(struct arena *mem, const struct ir_value *v, const char *text, size_t n, struct err *e);
int parse_graph(struct arena *mem, const struct ir_value *v, const char *text, size_t n, struct err *e);
int parse_tile(struct arena *mem, const struct ir_value *v, const char *text, size_t n, struct err *e);

#endif
