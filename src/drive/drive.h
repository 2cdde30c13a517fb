// drive: the pipeline. A job searches the parts of a program, completes and compiles what was found, races it, proves what leads,
// and makes a report of it.
//
// Glossary
//   program     the kernel graph that the user gave; it may contain composite operators
//   plain       program with composite operators expanded by their definitions. Searches start from it, and proofs compare with it. For a program
//               of several devices it describes one rank
//   stable      the same with the row maximum subtracted in softmax, and with the operators of every rank. It runs op by op, and is the reference
//               in floats
//   moved       plain with its collective operators in their cheapest places, and products of concatenations as sums. It is divided into parts
//   part        a subprogram that one search can handle (src/lax); a program has one part or several
//   candidate   a kernel graph for a part: found, completed (stabilized, thread graphs), compiled, measured, proven
//   op-by-op    the baseline: one kernel for each operator. It is a candidate of every part, so no result is slower
//   race        compares candidates by measured times
//   climb       hill climbing over measured times, from the fastest candidates to other knobs and tile sizes (climb.h)
//   report      a JSON document; its text and page are made from it, so a report from the database reads like a new one
//
// Files
//   pipe.c         runs the rows of pass.def; pass*.c, watch.c, dropped.c: the rows, dumps, traces and dropped candidates (pass.h)
//   stages.c       functions of the passes of a job and of subprograms
//   whole.c        the whole program, joined from its parts
//   job.c          a job: options, the two forms of the program, target, database and its keys
//   deadline.c     the time of a job, and how the components that it calls are told to end
//   agree.c        processes that share the searches of a job (MPI)
//   candidate.c    makes a compiled candidate of a found graph
//   price.c        the modelled time of a found graph on a GPU
//   verified.c     the certificate of a candidate, and which evidence is accepted
//   race_cpu.c     candidates against op-by-op: measure, prove, keep the fastest
//   race_run.c     times several candidates in one run
//   race_rank.c    the order of the candidates of several runs
//   device.c       kernels for GPUs of a candidate
//   launches.c     schemes and knobs of a candidate's kernels, as JSON and back
//   race_device.c  candidates for GPUs, by the model where there is no GPU; the whole program
//   race_gpu.c     candidates on a GPU
//   race_early.c   op-by-op on a GPU, while the search goes on
//   race_kept.c    candidates of a part that were nearly as fast as its best, for the race of the whole program
//   prepare.c      without a GPU: machine code of candidates in the database, for a race elsewhere
//   race_joined.c  races of the whole program on a GPU
//   climb.c        hill climbing on a GPU (climb.h)
//   climb_cpu.c    hill climbing over tile sizes on a CPU
//   drive_sizes.c  neighbouring tile sizes of a graph, for both
//   own_times.c    the time of each kernel of the result, on a CPU
//   course.c       the record of a climb for the report; climb_course.c
//   remember.c     the graphs that a search found for a part, in the database
//   plans.c        winners of other machines or builds (plans/), in place of a search
//   report_json.c  the report as JSON; certificate_json
#ifndef MICA_DRIVE_H
#define MICA_DRIVE_H

#include "base/doc.h"
#include "lax/lax.h"
#include "mica.h"
#include "ranks/ranks.h"
#include "rt/rt.h"
#include "search/search.h"
#include "sim/device_proof.h"
#include "verify/verify.h"

extern const char build_fingerprint[]; // of all sources, made by the build

enum { MOST_IN_A_RUN = 16 }; // candidates that are timed together

struct candidate {
  const struct graph *found; // as the search gave it; of op-by-op the part itself
  const struct graph *g;     // complete: what is compiled
  const struct graph *rank;  // of a whole program of several devices: what one rank runs, which is compiled too; else NULL
  double cost;               // modelled seconds
  int kernels, block_ops, structure;
  const char *schedule;
  struct gen_info info;
  struct timing timing; // of its last run
  struct certificate cert;
  double rel;                        // numeric error
  bool overflows;                    // dropped because its exponentials would
  bool measured, proven, tuned;      // tuned: a found graph with other tile sizes
  int line;                          // of the climb by sizes in which it was a step, from 1; 0: none
  const char *dropped;               // why it is out of the race, or NULL
  bool late;                         // dropped because of others or of the time: no command shows it by itself
  int passed, by;                    // rows of pass.def: the last over candidates that it has had; that dropped it
  const char *again;                 // the command that shows why it was dropped, or NULL
  struct str source, header;         // in C, until they are compiled
  const char *note;                  // of plan_stable, or ""
  const char *plan;                  // the origin of a candidate from a plan; else NULL
  const struct candidate_ways *ways; // how its kernels are made, and no other way is tried; NULL: the fastest by the model
  struct candidate **of;             // of a joined program: the candidates of its parts, by part; else NULL
  struct {
    struct module *module; // NULL until compiled
    double score;          // time over that of op-by-op in the same run, or by way of one that was in both runs
    bool final;            // it was in the last run
  } cpu;
  struct {
    uint64_t kernels_hash;
    struct lowered *lowered; // NULL for other targets, and where it cannot be lowered
  } gpu;
};

struct candidate_ways { // by launch, as text (scheme_text)
  int n;
  const char *const *how;
  bool dependent; // launches begin before the ones ahead have ended
  bool measured;  // a race on a GPU took them for the fastest
};

struct lowered { // kernels for a GPU
  struct lower_plan plan;
  struct choice *pick; // by unit of the plan
  struct device_program program;
  struct device_proof proof;
  int *registers, *spilled; // by launch, of the compiler; -1: not told
  const char *compiled;     // "NVRTC 13.0", or why not
  struct code *code;        // in CUDA C++, or NULL
};

struct course_step {      // of a climb
  int line;               // that it belongs to, from 1; 0: none
  const char *change;     // what was changed; at the start of a climb, its scheme and knobs
  double before, seconds; // measured; before: 0 where a line begins, and at the end
  int measured;           // ways that the race had measured until then
  bool exact;             // the last: timed once more beside the others that were fastest
};
struct course {
  int n, cap;
  struct course_step *step;
};

struct keeper { // of what a search that is under way has finished
  struct job *job;
  char search[33]; // its key in the database
  struct search_store store;
  double start; // seconds
  bool used;    // there may be units in the database
  struct err failed;
};

// One part of the program.
struct contest {
  const struct part *part;
  int twin;                   // an earlier part with the same graph, or -1
  const struct graph *stable; // of the part: reference of floats
  int block_ops;              // a limit that is lower than the search's own, so that it ends; 0: none
  struct search_stats stats;
  bool complete;        // of search_result
  bool ended, searched; // the search was not stopped; it ran now and was not recalled
  const char *why;      // of search_result
  struct keeper keeper;
  struct search_result *found, *kept; // of this search; of an earlier one that was stopped
  bool recalled;                      // found is of an earlier run
  const char *plan;                   // where the plan is from that stands for a search, or NULL
  const struct graph *raced;          // the best of an earlier race on a GPU, or NULL
  const char *launches;               // how its kernels were made, as JSON
  struct race_early *early;           // of op-by-op on a GPU, while the search goes on; NULL: none is under way
  struct gpu_session *session;        // of a race on a GPU that was begun and waits for its turn to go on; NULL: of none
  struct entrants *entrants;          // of that race, or NULL
  int64_t spared;                     // bytes that the part writes operator by operator and would not write as one kernel
  double deal;                        // how many equal shares the climb has
  bool overflows;                     // the part has exponentials that plan_stable tames
  bool hurried;                       // of a CPU: its time was over before all was compiled and measured
  struct disturbed disturbed;         // of a CPU: a comparison of candidates that stayed disturbed
  bool decided;                       // of a GPU: best is right, and was measured where there is a GPU
  int nfound, ncand, best;            // cand[0] is op-by-op
  struct candidate *cand;
  int nnear; // of a GPU: others that were nearly as fast as the best, which may be faster beside other parts
  struct candidate *near;
  struct course course;
};

struct job {
  struct arena *mem;
  const struct mica_options *opts;
  const struct graph *program, *plain, *stable;
  const struct graph *rank; // stable as one rank of several devices runs it; NULL in a world of one
  struct ranks_moved moved; // plain with operators of all ranks elsewhere; plain itself in a world of one
  struct target target;     // with typical rates, so that candidates are ranked alike on every run
  struct target host;       // with measured ones, for the report
  const char *unmeasured;   // why candidates for a GPU are ranked by the model; "": they are measured
  struct db *db;            // NULL without
  const char *key;
  const char *compiler; // its version, "": none
  int threads;          // of kernels
  int search_threads;
  const struct crew *crew; // processes that share the searches, or NULL
  unsigned off;            // pruning rules
  struct lax_split split;
  struct contest *contests;    // one a part
  int *order;                  // in which parts are worked on
  bool single;                 // the only part has the program's own signature, so its modules serve the whole
  int part;                    // being worked on, for the progress
  struct candidate base, best; // of the whole program
  struct course course;        // of the whole program's race, where it had one of several parts
  int nown;                    // kernels of the best on a CPU whose own times are known: all or none
  struct timing *own;
  enum evidence accept;            // the weakest evidence that a result may have
  struct gauge *gauge;             // of what disturbs times on a CPU
  struct certificate whole;        // of the parts put together; tests is 0 where that was not possible
  bool stopped;                    // by the user, or the time was over
  bool cut;                        // the time has ended a search early, or the last compiling: the next run goes on
  const char *left;                // what was not done because of that, sentences; ""
  struct clock *clock;             // NULL: there is no end
  struct gpu_forge *forge;         // of a GPU: what has compiled; the caller's, or NULL
  struct gpu_worker *worker;       // of races on a GPU, or NULL
  struct gpu_evaluator *evaluator; // of their float64 references, or NULL
  struct gpu_session *session;     // races of the whole program on a GPU, or NULL
  struct candidate *planned;       // of the whole program as one part, or NULL
  bool plans_off;                  // no plan is asked for: the job searches, or a plan was refuted
  const char *reason;              // why the best is op-by-op, or NULL
  const char *warning;             // what the user ought to know, with ; between them, or NULL
  const struct pass *rows;         // NULL: those of pass.def
  struct watch *watch;             // what is told of the passes (pass.h)
  json_t *report;                  // NULL until it is made
  struct arena **arenas;           // of candidates that several threads have lowered together; closed with the job
  int narenas, arenas_cap;
};

// ---- pipe.c ----
// The report in *report (borrowed from nothing: the caller's), also after a stop when there is something to report.
// For an open job.
int pipe_line(struct job *j, json_t **report, bool *recalled, struct err *e);
int pipe_optimize(struct arena *mem, const struct graph *program, const struct mica_options *opts, json_t **report, bool *recalled, struct err *e);
// With what has compiled, for whoever saves the report.
int pipe_optimize_by(struct arena *mem, const struct graph *program, const struct mica_options *opts, struct gpu_forge *forge, json_t **report,
                     bool *recalled, struct err *e);
// Only what comes before candidates: contests with their search results in r[part] (NULL where nothing was searched). The
// searches' entries in the database stay until pipe_search_done.
void pipe_search_done(struct job *j);
int job_split(struct job *j, struct err *e); // the rows up to the subprograms
int pipe_search(struct job *j, struct search_result **r, struct err *e);
// A part's share of the time for openings, between 0 and 1. Half of it is an equal share; the rest is in proportion to `spared`.
// A part counts for its twins too. The shares of all parts that are no twins add up to 1.
double opening_weight(const struct job *j, int part);
int pipe_search_part(struct job *j, struct contest *c, struct search_result *r, struct err *e);

// ---- whole.c ----
const struct contest *whole_part(const struct job *j, int part); // where a part's candidates are: another's, if it has the same graph
int whole_join(struct job *j, struct candidate **of, struct candidate *out, struct err *e); // one kernel graph again; of: by part

// ---- job.c ----
struct mica_options job_defaults(void);
int job_open(struct job *j, struct arena *mem, const struct graph *program, const struct mica_options *opts, struct err *e);
// The GPU that is here, where there is one: its capacities, and whether it can run kernels for the target. After recalling, before all else.
int job_look(struct job *j, struct err *e);
const char *job_warning(const struct job *j);   // the warnings, or NULL
void job_warn(struct job *j, const char *what); // one more; one that is there already is not repeated
void job_close(struct job *j);
void job_left(struct job *j, const char *what); // a sentence more of what was not done
void job_progress(const struct job *j, const char *stage, int part, double done, const struct search_stats *s, double best_us);
const char *job_part_key(const struct job *j, const struct graph *part);
bool job_same_signature(const struct graph *a, const struct graph *b, struct arena *mem); // shapes and dtypes of inputs and outputs
struct search_opts job_search_opts(struct job *j);
struct search_opts job_part_opts(struct job *j, const struct contest *c); // with the part's own limit
int prune_parse(const char *names, unsigned *off, struct err *e);         // "expr,canon"

// ---- deadline.c ----
enum stop { STOP_SEARCH, STOP_WORK, STOP_PROOF, STOPS };
stop_flag job_stop(const struct job *j, enum stop which); // for a component: what ends it
bool job_ending(const struct job *j, enum stop which);
bool job_stopping(const struct job *j);        // nothing is begun any more
bool job_stopped_by_user(const struct job *j); // else it is the time
void clock_open(struct job *j);
void clock_close(struct job *j);
// A part begins, with this share of the time that is left. opening: for the search and the first batch alone.
void clock_part(struct job *j, double share, bool opening);
bool clock_part_over(const struct job *j);
double clock_left(const struct job *j);    // seconds of the part, INFINITY without an end
enum stop clock_proof(const struct job *j); // ends the proof of a leader: what is kept for the end of a program of one part is for that too
bool clock_hurries(const struct job *j); // what is left is kept for the last race and the proof
// Ends by now_seconds(), INFINITY without one: of the first race that begins now, also without a result; of a climb; of everything. Seconds of all.
double clock_starters(const struct job *j);
double clock_late(const struct job *j);
double clock_climb(const struct job *j);
double clock_end(const struct job *j);
double clock_most(const struct job *j);
struct patience clock_compiler(const struct job *j);       // for a compiler that may hang
struct patience clock_of(const struct mica_options *opts); // of a job that begins now, for what it waits for

// ---- agree.c ----
// After job_open of all processes of a crew, which gave `status` in this one: all take the first one's target and must have
// the same program, limits and build. If one failed, all fail.
int job_agree(struct job *j, const struct crew *c, int status, struct err *e);

// ---- candidate.c ----
// r: new results; kept: those of an earlier run that was stopped, or NULL.
int candidates_pick(struct job *j, struct contest *c, const struct search_result *r, const struct search_result *kept, struct err *e);
void candidates_lower(struct job *j, struct contest *c, int n, const int *who); // for a GPU, on all cores; a pass that drops one is noted
void candidates_build(struct job *j, struct contest *c, int part, int from);    // those from that index on
// g with exponentials that cannot overflow; an error if it has others and its part `overflows` without that. note: what stays as written.
int stable_form(struct arena *mem, const struct graph *g, bool overflows, struct graph **out, char note[256], struct err *e);
// C, compiled; of a graph alone.
int candidate_build(const struct job *j, struct candidate *c, const char *name, struct err *e);
bool candidate_known(const struct contest *c, const struct graph *g);    // is there one with this graph?
int candidate_sized(struct contest *c, int from, const struct graph *g); // one of other sizes, made from another; its number
void candidates_room(struct job *j, struct contest *c, int room);        // for so many candidates more
int candidate_base(struct job *j, struct contest *c, struct err *e);

// ---- price.c ----
struct pricing { // of one subprogram
  const struct target *target;
  struct lower_memo *memo;
  bool overflows; // its exponentials would, unless they are made stable
};
struct pricing price_open(struct arena *mem, const struct target *t, const struct graph *part);
double price_graph(const struct pricing *by, const struct graph *g, double model); // seconds, on a CPU as the model says; infinite: it cannot be made
struct pricer pricing_pricer(struct pricing *by);                                  // for the search

// ---- verified.c ----
int job_accepts(struct job *j, struct err *e); // sets j->accept from the options
// Is k->g equal to the part, by evidence that the job accepts? Sets k->cert; else k is dropped with the reason.
extern const char NOT_CHECKED[]; // the reason to drop a candidate whose checks were stopped
bool job_verified(struct job *j, const struct graph *part, struct candidate *k, enum stop until);

// ---- race_cpu.c ----
int race_part(struct job *j, struct contest *c, int part, struct err *e);
int race_whole(struct job *j, struct err *e);
bool race_lead(struct job *j, struct contest *c, int k); // candidate k leads if it can be proven

// ---- race_run.c ----
// Times candidates who[0..n) in turns; their scores follow from that of who[0].
double race_seconds(const struct job *j, double wanted, double share); // of a comparison: as wanted, or so that a busy machine takes that share of the time
int race_run(struct job *j, struct contest *c, const int *who, int n, struct buffers *b, double seconds, struct err *e);
// One call tells that k is far slower than `best`, or cannot run: it is dropped.
bool race_hopeless(struct job *j, struct candidate *k, const struct candidate *best, struct buffers *b);

// ---- device.c: candidates on GPUs ----
// The candidate with this plan and these ways to make its kernels.
int device_take(const struct job *j, struct candidate *c, const struct lower_plan *p, const struct choice *pick, struct err *e);
// Kernels of a program put together, in the ways of its parts.
int device_joined(struct job *j, struct candidate *c, struct err *e);
void device_algorithms(struct device_program *d, const int *algorithm); // as they were measured, by launch; NULL: none were
// By NVRTC where there is one. STOPPED where there is no time.
void device_compile(const struct job *j, struct lowered *d, struct err *e);
void device_candidate(struct job *j, struct contest *c, struct candidate *x); // lowered, or dropped
#define INDEPENDENT "independent"                                             // last in --knobs: each launch waits for the end of the one ahead
// Is it the candidate that is given, with one way to make it? No other way is tried then.
bool device_given(const struct job *j, const struct contest *c, const struct candidate *x);
json_t *lowered_json(const struct job *j, const struct lowered *d);

// ---- launches.c ----
json_t *launches_json(const struct lowered *d);
json_t *stored_json(const struct lowered *d); // names of tensors that lie in the type that the graph says (lower_opts)
// The target that the report's kernels were made for, and how f32 is multiplied.
int launches_target(const json_t *report, const struct target *t, struct target *out, struct err *e);
// stored: as stored_json gives it, or NULL.
int launches_read(struct arena *mem, const json_t *launches, const json_t *stored, const struct graph *g, const struct target *gpu,
                  struct lower_plan *p, struct choice **pick, struct err *e);
// How each launch was made, in order, as picks of a plan. False: it does not fit.
bool launches_pick(const struct lower_plan *p, int n, const char *const *how, struct choice *pick);
void launches_algorithms(const json_t *launches, struct device_program *d); // of products, as they were measured
// Is the choice a valid one for the unit? Then its cost is set. A product's is the library's with its epilogue.
bool launches_settle(struct arena *scratch, const struct lower_plan *p, int unit, struct choice *c);
// The graph that the kernels of a report for a GPU compute: that of one rank if several devices run the program.
int launches_graph(struct arena *mem, const json_t *report, struct graph **out, struct err *e);

// ---- race_device.c: candidates on GPUs, ranked by the model ----
int race_device_part(struct job *j, struct contest *c, int part, struct err *e);
int race_device_whole(struct job *j, struct err *e);

// ---- race_gpu.c: candidates on this machine's GPU ----
// The first batch of a part whose race goes on later, in race_gpu_part. It is compiled while the caller goes on, and timed by race_gpu_first.
int race_gpu_begin(struct job *j, struct contest *c, int part, struct err *e);
int race_gpu_first(struct contest *c, struct err *e);
void race_gpu_drop(struct contest *c); // a race that was begun, where it is under way
// Seconds by which the race that was begun may make the part faster: measured, less what the model says of its best. 0: nothing worth a race.
// INFINITY: nothing was measured.
double race_gpu_gain(const struct contest *c);
double race_gpu_lead(const struct contest *c); // seconds that it already is faster than operator by operator; INFINITY: that was not measured
int race_gpu_part(struct job *j, struct contest *c, int part, struct err *e);
int race_gpu_whole(struct job *j, struct err *e);

// ---- race_early.c: op-by-op on this machine's GPU, while the search goes on ----
void race_early_drop(struct contest *c); // ends it, where it is under way

// ---- race_joined.c: programs put together of parts, on this machine's GPU ----
// The fastest program that the contests' candidates can make together becomes j->best. NO: nothing of it was proven.
int race_joined(struct job *j, struct err *e);

// ---- own_times.c ----
void own_times(struct job *j, struct buffers *b);
json_t *own_times_json(const struct job *j);

// ---- race_rank.c ----
int rank_finalists(const struct contest *c, int *who, int most); // those nearest the best so far, best first; how many
int rank_fastest(const struct contest *c); // of the last heat, or one with fewer kernels that is as fast as can be told; 0: op-by-op

// ---- climb_cpu.c ----
void climb_cpu(struct job *j, struct contest *c, int part, struct buffers *b);
void climb_cpu_ends(struct job *j, struct contest *c); // with the winner, after the finals

// ---- drive_sizes.c ----
static const double GAIN = 0.985; // of the time, at most, is a step of a climb
// Calls add for sizes of node `node` around those that the graph has, while more() is true. If add is false the next factor is tried.
void sizes_near(const struct graph *g, bool (*add)(void *arg, int node, const struct axes *to), bool (*more)(void *arg), void *arg);

// ---- course.c ----
void course_add(struct arena *mem, struct course *c, struct course_step s);
const char *course_sizes(struct arena *mem, const struct graph *from,
                         const struct graph *to); // "kernel 1: x 8 to 16, i 4 to 2"; "" where all are the same
json_t *course_json(const struct course *c);

// ---- remember.c ----
const struct search_store *keeper_open(struct keeper *k, struct job *j, const struct graph *part); // NULL without a database
void keeper_drop(struct keeper *k); // the search has ended, and its result is kept or was shown
int part_recall(struct job *j, struct contest *c, struct search_result *r, bool *ended, struct err *e);
void part_remember(struct job *j, const struct contest *c);

// ---- plans.c ----
// A candidate by a plan for the graph of a part, or NULL: lowered, valid, and equal by evidence that the job accepts. It may be op-by-op.
struct candidate *plans_take(struct job *j, const struct part *part);
void plans_use(struct job *j, struct contest *c, struct candidate *x); // in place of a search
// A plan that stood for a search is out of the race because of what it is: the job searches from now on.
bool plans_fell(struct job *j);
void plans_record(struct job *j); // who won, in the database

// ---- report_json.c ----
json_t *report_make(const struct job *j);
json_t *certificate_json(const struct certificate *c);
json_t *graph_json(const struct graph *g);
json_t *schedule_json(const char *schedule, const struct graph *g);
json_t *stats_json(const struct search_stats *s);
void stats_add(struct search_stats *sum, const struct search_stats *s); // of a search after those before

#endif
