// drive: the pipeline. A job searches the parts of a program, completes and compiles the candidates, races them, proves the leaders, and makes a
// report.
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
//   recut.c        searches a part in pieces, in addition to the search of the whole part
//   candidate.c    makes a compiled candidate of a found graph
//   price.c        the modelled time of a found graph on a GPU
//   verified.c     the certificate of a candidate, and which evidence is accepted
//   race_cpu.c     candidates against op-by-op: measure, prove, keep the fastest
//   prove_ahead.c  proofs of several parts at the same time
//   proof_time.c   which proofs can finish in time
//   race_run.c     times several candidates in one run
//   race_rank.c    the order of the candidates of several runs
//   device.c       kernels for GPUs of a candidate
//   launches.c     schemes and knobs of a candidate's kernels, as JSON and back
//   race_device.c  candidates for GPUs, by the model where there is no GPU; the whole program
//   race_gpu.c     candidates on a GPU
//   race_early.c   op-by-op on a GPU, while the search goes on
//   worker_lock.c  the lock of the GPU's worker
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
  const struct graph *found; // as the search gave it; for op-by-op the part itself
  const struct graph *g;     // the completed graph, which is compiled
  const struct graph *rank;  // for a whole program of several devices: the graph of one rank, which is compiled too; else NULL
  double cost;               // modelled seconds
  int kernels, block_ops, structure;
  const char *schedule;
  struct gen_info info;
  struct timing timing; // of its last run
  struct certificate cert;
  double rel;                        // numeric error
  bool overflows;                    // dropped because its exponentials could overflow
  bool measured, proven, tuned;      // tuned: a found graph with other tile sizes
  int line;                          // number of the climb over sizes in which it was a step, from 1; 0: none
  const char *dropped;               // reason for dropping it, or NULL
  bool unproved;                     // its last proof in the interpreter was not begun or not finished for lack of time
  bool late;                         // dropped because of other candidates or the time, so no command reproduces it alone
  int passed, by;                    // rows of pass.def: the last pass over candidates that it went through; the pass that dropped it
  const char *again;                 // the command that reproduces the reason, or NULL
  struct str source, header;         // C, until it is compiled
  const char *note;                  // of plan_stable, or ""
  const char *plan;                  // the origin of a candidate from a plan; else NULL
  const struct candidate_ways *ways; // choices for its kernels, and no others are tried; NULL: the model's best
  struct candidate **of;             // for a joined program: the candidates of its parts; else NULL
  struct {
    struct module *module; // NULL until compiled
    double score;          // its time relative to op-by-op in the same run, or through a candidate that was in both runs
    bool final;            // it took part in the last run
  } cpu;
  struct {
    uint64_t kernels_hash;
    struct lowered *lowered; // NULL for other targets, and if it cannot be lowered
  } gpu;
};

struct candidate_ways { // for each launch, as text (scheme_text)
  int n;
  const char *const *how;
  bool dependent; // launches overlap the previous ones
  bool measured;  // a race on a GPU found these choices to be the fastest
};

struct lowered { // kernels for a GPU
  struct lower_plan plan;
  struct choice *pick; // for each unit of the plan
  struct device_program program;
  struct device_proof proof;
  int *registers, *spilled; // for each launch, from the compiler; -1: unknown
  const char *compiled;     // "NVRTC 13.0", or the reason why it was not compiled
  struct code *code;        // CUDA C++, or NULL
};

struct course_step {      // one step of a climb
  int line;               // its line, from 1; 0: none
  const char *change;     // the change; at the start of a climb, its scheme and knobs
  double before, seconds; // measured; before: 0 at the start of a line, and at the end
  int measured;           // number of variants measured before
  bool exact;             // the last step: timed again beside the other fastest variants
};
struct course {
  int n, cap;
  struct course_step *step;
};

struct keeper { // finished units of a search that is under way
  struct job *job;
  char search[33]; // its key in the database
  struct search_store store;
  double start; // seconds
  bool used;    // the database may hold units
  struct err failed;
};

// One part of the program.
struct contest {
  const struct part *part;
  int twin;                   // an earlier part with the same graph, or -1
  const struct graph *stable; // stable form of the part: the reference in floats
  int block_ops;              // a lower limit than the search's own, so that it ends; 0: none
  struct search_stats stats;
  bool complete;        // as in search_result
  bool ended, searched; // ended: the search was not stopped; searched: it ran now and was not recalled
  const char *why;      // of search_result
  struct keeper keeper;
  struct search_result *found, *kept; // of this search; of an earlier search that was stopped
  bool recalled;                      // `found` is from an earlier run
  const char *plan;                   // origin of the plan that replaces the search, or NULL
  const struct graph *raced;          // the winner of an earlier race on a GPU, or NULL
  const char *launches;               // choices for its kernels, as JSON
  struct race_early *early;           // race of op-by-op on a GPU during the search; NULL: none
  struct gpu_session *session;        // session of a race on a GPU that was begun and waits to continue, or NULL
  struct entrants *entrants;          // of that race, or NULL
  struct proof_ahead *ahead;          // of its fastest entrant, or NULL
  double gain;                        // seconds that the part may gain by the model, before it is searched
  double deal;                        // number of equal shares of time for the climb
  bool overflows;                     // the part has exponentials that plan_stable stabilizes
  bool hurried;                       // CPU: its time ended before all candidates were compiled and measured
  struct disturbed disturbed;         // CPU: a comparison of candidates that stayed disturbed
  bool decided;                       // GPU: best is correct, and was measured if there is a GPU
  int nfound, ncand, best;            // cand[0] is op-by-op
  struct candidate *cand;
  int nnear; // GPU: others nearly as fast as the best, which may be faster beside other parts
  struct candidate *near;
  struct course course;
};

struct proof_pace { // finished proofs: their work (device_proof_work), and their time
  double work, seconds;
};
struct job {
  struct arena *mem;
  const struct mica_options *opts;
  const struct graph *program, *plain, *stable;
  const struct graph *rank; // stable as one rank of several devices runs it; NULL for one device
  struct ranks_moved moved; // plain with moved collectives; plain itself for one device
  struct target target;     // with typical rates, so that candidates are ranked alike on every run
  struct target host;       // with measured ones, for the report
  const char *unmeasured;   // reason why the model ranks candidates for a GPU; "": they are measured
  struct db *db;            // NULL: no database
  const char *key;
  const char *compiler; // compiler version; "": none
  int threads;          // of kernels
  int search_threads;
  const struct crew *crew; // processes that share the searches, or NULL
  unsigned off;            // pruning rules
  struct lax_split split;
  struct contest *contests;    // one for each part
  int *order;                  // the order in which parts are processed
  bool single;                 // the only part has the program's own signature, so its modules serve the whole program
  int part;                    // the current part, for progress
  struct candidate base, best; // of the whole program
  struct course course;        // of the whole program's race, if it had several parts
  int nown;                    // kernels of the best on a CPU with known own times: all or none
  struct timing *own;
  enum evidence accept;            // weakest evidence that is accepted
  struct gauge *gauge;             // records disturbances of times on a CPU
  struct certificate whole;        // certificate of the joined program; tests is 0 if it could not be tested
  bool stopped;                    // by the user, or by the time limit
  bool cut;                        // the time limit ended a search or the last compilation early: the next run continues
  const char *left;                // what was not done because of that, as sentences; "" for nothing
  struct clock *clock;             // NULL: no time limit
  struct proof_pace pace;          // of the proofs in the interpreter until now
  struct gpu_forge *forge;         // GPU: compiled kernels; owned by the caller, or NULL
  struct gpu_worker *worker;       // of races on a GPU, or NULL
  struct worker_lock *worker_lock; // held by the thread that uses the worker
  struct gpu_evaluator *evaluator; // of float64 references, or NULL
  struct gpu_session *session;     // races of the whole program on a GPU, or NULL
  struct candidate *planned;       // candidate for the whole program as one part, or NULL
  bool plans_off;                  // no plan is used: the job searches, or a plan was refuted
  const char *reason;              // reason why the best is op-by-op, or NULL
  const char *warning;             // warnings for the user, separated by semicolons, or NULL
  const struct pass *rows;         // NULL: those of pass.def
  struct watch *watch;             // observes the passes (pass.h)
  json_t *report;                  // NULL until it is made
  struct arena **arenas;           // arenas of candidates that several threads lowered; closed with the job
  int narenas, arenas_cap;
};

// ---- pipe.c ----
// *report belongs to the caller. It is also set after a stop if there is something to report. For an open job.
int pipe_line(struct job *j, json_t **report, bool *recalled, struct err *e);
int pipe_optimize(struct arena *mem, const struct graph *program, const struct mica_options *opts, json_t **report, bool *recalled, struct err *e);
// The same, and gives the compiled kernels to a caller that saves the report.
int pipe_optimize_by(struct arena *mem, const struct graph *program, const struct mica_options *opts, struct gpu_forge *forge, json_t **report,
                     bool *recalled, struct err *e);
// Runs only the passes before candidates: contests with their search results in r[part] (NULL if nothing was searched). The searches' entries in the
// database stay until pipe_search_done.
void pipe_search_done(struct job *j);
int job_split(struct job *j, struct err *e); // the rows up to subprograms
int pipe_search(struct job *j, struct search_result **r, struct err *e);
// A part's share of the time for openings, from 0 to 1. Half of the time is divided equally, the rest in proportion to `gain`. A part counts for
// its twins too. The shares of all parts that are not twins add up to 1.
double opening_weight(const struct job *j, int part);
int pipe_search_part(struct job *j, struct contest *c, struct search_result *r, struct err *e);

// ---- whole.c ----
int part_alike(const struct job *j, int part);                   // number of parts with the graph of this one, including it
const struct contest *whole_part(const struct job *j, int part); // the part that has its candidates: another one if their graphs are equal
// joins them into one kernel graph; `of` has an entry for each part
int whole_join(struct job *j, struct candidate **of, struct candidate *out, struct err *e);
void whole_proofs(struct job *j); // adds up the proofs of the parts, for a GPU

// ---- job.c ----
struct mica_options job_defaults(void);
int job_open(struct job *j, struct arena *mem, const struct graph *program, const struct mica_options *opts, struct err *e);
// Looks up this machine's GPU: its capacities, and whether it can run kernels for the target. Called after recalling and before all other passes.
int job_look(struct job *j, struct err *e);
const char *job_warning(const struct job *j);   // the warnings, or NULL
void job_warn(struct job *j, const char *what); // adds a warning; ignores one that is already there
void job_close(struct job *j);
void job_left(struct job *j, const char *what); // adds a sentence on what was not done
void job_progress(const struct job *j, const char *stage, int part, double done, const struct search_stats *s, double best_us);
const char *job_part_key(const struct job *j, const struct graph *part);
bool job_same_signature(const struct graph *a, const struct graph *b, struct arena *mem); // whether shapes and dtypes of inputs and outputs are equal
struct search_opts job_search_opts(struct job *j);
struct search_opts job_part_opts(struct job *j, const struct contest *c); // with the part's own limit
int prune_parse(const char *names, unsigned *off, struct err *e);         // parses "expr,canon"

// ---- deadline.c ----
enum stop { STOP_SEARCH, STOP_WORK, STOP_PROOF, STOPS };
stop_flag job_stop(const struct job *j, enum stop which); // the flag that ends a component
bool job_ending(const struct job *j, enum stop which);
bool job_stopping(const struct job *j);        // no work is begun any more
bool job_stopped_by_user(const struct job *j); // otherwise the time limit ended it
void clock_open(struct job *j);
void clock_close(struct job *j);
// Starts a part with this share of the remaining time. openings: the share of all openings that remain, if this part is opened; else 0.
void clock_part(struct job *j, double share, double openings);
// The search of the part ends after this share of its remaining time. Returns its end until now, for clock_end_search, which also lets it continue.
double clock_shorten_search(const struct job *j, double share);
void clock_end_search(const struct job *j, double end);
// Reserves time at the end of the job for compiling the whole program for a CPU. part: the seconds are of one part, and are added to those of other
// parts; else they are an estimate for the whole.
void clock_whole_compiles(struct job *j, double seconds, bool part);
bool clock_part_over(const struct job *j);
double clock_left(const struct job *j);     // remaining seconds of the part; INFINITY without a limit
double clock_lowering(const struct job *j); // seconds in which candidates may be lowered; the rest is for compiling and measuring
enum stop clock_proof(const struct job *j); // the flag that ends the proof of a leader
bool clock_hurries(const struct job *j);    // the remaining time is kept for the last race and the proof
// Ends as values of now_seconds(), INFINITY for none: of the first race that begins now, also without a result; of a climb; of everything. Then:
// seconds of the whole job.
double clock_starters(const struct job *j);
double clock_first(const struct job *j); // of the first batch of a part, which is compiled while later parts are searched
double clock_late(const struct job *j);
double clock_climb(const struct job *j);
double clock_end(const struct job *j);
double clock_most(const struct job *j);
double clock_until(const struct job *j, enum stop which);  // seconds until the job's time sets the flag; 0: it is set
struct patience clock_compiler(const struct job *j);       // for a compiler that may hang
struct patience clock_of(const struct mica_options *opts); // of a job that begins now: limits for its waits

// ---- agree.c ----
// Called after job_open in all processes of a crew; `status` is this process's result. All take the first one's target and must have the same
// program, limits and build. If one failed, all fail.
int job_agree(struct job *j, const struct crew *c, int status, struct err *e);

// ---- candidate.c ----
// r: new results; kept: those of an earlier run that was stopped, or NULL.
int candidates_pick(struct job *j, struct contest *c, const struct search_result *r, const struct search_result *kept, struct err *e);
void candidates_lower(struct job *j, struct contest *c, int n, const int *who); // for a GPU, on all cores; records the pass that drops one
void candidates_build(struct job *j, struct contest *c, int part, int from);    // those from that index on
// g with exponentials that cannot overflow. An error if some can and the part `overflows` without it. note: the exponentials that stay as written.
int stable_form(struct arena *mem, const struct graph *g, bool overflows, struct graph **out, char note[256], struct err *e);
// Generates and compiles C; for a single graph.
int candidate_build(const struct job *j, struct candidate *c, const char *name, struct err *e);
bool candidate_known(const struct contest *c, const struct graph *g);    // whether a candidate has this graph
int candidate_sized(struct contest *c, int from, const struct graph *g); // adds a variant with other sizes; returns its number
void candidates_room(struct job *j, struct contest *c, int room);        // makes room for that many more candidates
int candidate_base(struct job *j, struct contest *c, struct err *e);

// ---- price.c ----
struct pricing { // of one subprogram
  const struct target *target;
  struct lower_memo *memo;
  bool overflows; // its exponentials may overflow unless they are stabilized
};
struct pricing price_open(struct arena *mem, const struct target *t, const struct graph *part);
double price_graph(const struct pricing *by, const struct graph *g,
                   double model);                 // seconds, on a CPU by the search's model; infinite: it cannot be lowered
struct pricer pricing_pricer(struct pricing *by); // for the search

// ---- recut.c ----
struct recut; // a part in pieces
// *out: NULL if the part is not searched in pieces.
int recut_open(struct job *j, const struct contest *c, struct recut **out, struct err *e);
// Searches the pieces, and adds the joined results with their prices, the cheapest first.
int recut_search(struct recut *r, const struct pricing *by, struct search_result *to, struct err *e);

// ---- verified.c ----
int job_accepts(struct job *j, struct err *e); // sets j->accept from the options
// Whether k->g equals the part, by evidence that the job accepts. Sets k->cert; otherwise k is dropped with the reason.
extern const char NOT_CHECKED[]; // the reason to drop a candidate whose checks were stopped
bool job_verified(struct job *j, const struct graph *part, struct candidate *k, enum stop until);

// ---- race_cpu.c ----
int race_part(struct job *j, struct contest *c, int part, struct err *e);
int race_whole(struct job *j, struct err *e);
bool race_lead(struct job *j, struct contest *c, int k); // makes candidate k the leader if it can be proved

// ---- race_run.c ----
// Seconds of a comparison: `wanted`, or less if a busy machine would need more than that share of the remaining time.
double race_seconds(const struct job *j, double wanted, double share);
// Times candidates who[0..n) in turns. Their scores are relative to that of who[0].
int race_run(struct job *j, struct contest *c, const int *who, int n, struct buffers *b, double seconds, struct err *e);
// Drops k if one call shows that it is far slower than `best`, or that it cannot run.
bool race_hopeless(struct job *j, struct candidate *k, const struct candidate *best, struct buffers *b);

// ---- device.c: candidates on GPUs ----
// The candidate with this plan and these choices for its kernels.
int device_take(const struct job *j, struct candidate *c, const struct lower_plan *p, const struct choice *pick, struct err *e);
// Kernels of a joined program, with the choices of its parts.
int device_joined(struct job *j, struct candidate *c, struct err *e);
void device_algorithms(struct device_program *d, const int *algorithm); // sets the measured algorithms for each launch; NULL: none were measured
// Compiles with NVRTC if it is installed. STOPPED if no time is left.
void device_compile(const struct job *j, struct lowered *d, struct err *e);
void device_candidate(struct job *j, struct contest *c, struct candidate *x); // lowers the candidate, or drops it
// last word of --knobs: each launch waits for the end of the previous one
#define INDEPENDENT "independent"
// Whether it is the given candidate with one choice of kernels; no other is tried then.
bool device_given(const struct job *j, const struct contest *c, const struct candidate *x);
json_t *lowered_json(const struct job *j, const struct lowered *d);

// ---- launches.c ----
json_t *launches_json(const struct lowered *d);
json_t *stored_json(const struct lowered *d); // names of tensors that are stored in the type that the graph gives (lower_opts)
// The target of the report's kernels, and the method for f32 products.
int launches_target(const json_t *report, const struct target *t, struct target *out, struct err *e);
// stored: from stored_json, or NULL.
int launches_read(struct arena *mem, const json_t *launches, const json_t *stored, const struct graph *g, const struct target *gpu,
                  struct lower_plan *p, struct choice **pick, struct err *e);
// The choice for each launch, in order, as picks of a plan. False: they do not fit.
bool launches_pick(const struct lower_plan *p, int n, const char *const *how, struct choice *pick);
void launches_algorithms(const json_t *launches, struct device_program *d); // the measured algorithms of products
// Whether the choice is valid for the unit; sets its cost. A product uses the library with its epilogue.
bool launches_settle(struct arena *scratch, const struct lower_plan *p, int unit, struct choice *c);
// The graph that the kernels of a report for a GPU compute: for several devices, that of one rank.
int launches_graph(struct arena *mem, const json_t *report, struct graph **out, struct err *e);

// ---- race_device.c: candidates on GPUs, ranked by the model ----
int race_device_part(struct job *j, struct contest *c, int part, struct err *e);
int race_device_whole(struct job *j, struct err *e);

// ---- race_gpu.c: candidates on this machine's GPU ----
// Starts the first batch of a part whose race continues later, in race_gpu_part. It is compiled while the caller continues, and race_gpu_first times
// it.
int race_gpu_begin(struct job *j, struct contest *c, int part, struct err *e);
int race_gpu_first(struct contest *c, struct err *e);
bool race_gpu_ready(const struct contest *c); // race_gpu_first would not wait
// Compiles the next batch of a race that was begun, while the caller continues. until: value of now_seconds() after which nothing more is compiled.
int race_gpu_ahead(struct contest *c, double until, struct err *e);
void race_gpu_drop(struct job *j, struct contest *c); // ends a race that was begun
// Seconds by which the begun race may make the program faster: the part's measured time minus the model's time of its best, less the model's error,
// for the part and its twins. 0: not worth a race. INFINITY: nothing was measured.
double race_gpu_gain(const struct job *j, int part);
double race_gpu_lead(const struct contest *c); // seconds by which it is already faster than op-by-op; INFINITY: not measured
int race_gpu_part(struct job *j, struct contest *c, int part, struct err *e);
int race_gpu_whole(struct job *j, struct err *e);

// ---- proof_time.c ----
double proof_seconds(const struct job *j, double work);      // expected seconds of device_prove; work: as device_proof_work
void proof_took(struct job *j, double work, double seconds); // tells how long a finished proof took
// Whether a proof that begins now ends before `until`; if not, *why tells it.
bool proof_fits(struct job *j, double work, enum stop until, const char **why);

// ---- prove_ahead.c ----
// Runs the kernels of the fastest entrant of each part that is not done in the interpreter, several parts at the same time, short proofs first. Ends
// with the time. A proof that takes longer is not begun.
void prove_leaders(struct job *j, const bool *done);
// Begins a proof of the only candidate of a race in a thread of its own, while it races.
void proof_begin(struct job *j, struct contest *c);
bool proof_known(const struct contest *c); // whether there is a result, also that a kernel is wrong; waits for its thread
// The result for these kernels: as device_prove. False: there is none.
bool proof_find(struct job *j, const struct contest *c, struct lowered *d, int *status, const char **why, struct err *e);
void proof_drop(struct contest *c);

// ---- worker_lock.c: one thread at a time uses the GPU's worker ----
struct undo;
struct worker_lock *worker_lock_open(void);
void worker_lock_close(struct worker_lock *l);
void worker_lock_enter(struct worker_lock *l, struct undo *u); // waits; between turn_work_begin and turn_work_end
void worker_lock_leave(struct worker_lock *l, const struct undo *u);
bool worker_lock_is_free(struct worker_lock *l);

// ---- race_early.c: op-by-op on this machine's GPU during the search ----
void race_early_drop(struct job *j, struct contest *c); // ends it if it is under way

// ---- race_joined.c: programs joined from parts, on this machine's GPU ----
// The fastest program that can be joined from the contests' candidates becomes j->best. NO: none was proved.
int race_joined(struct job *j, struct err *e);

// ---- own_times.c ----
void own_times(struct job *j, struct buffers *b);
json_t *own_times_json(const struct job *j);

// ---- race_rank.c ----
int rank_finalists(const struct contest *c, int *who, int most); // the candidates nearest to the best, best first; returns their number
int rank_fastest(const struct contest *c);                       // of the last heat, or an equally fast one with fewer kernels; 0: op-by-op

// ---- climb_cpu.c ----
void climb_cpu(struct job *j, struct contest *c, int part, struct buffers *b);
void climb_cpu_ends(struct job *j, struct contest *c); // records the winner, after the finals

// ---- drive_sizes.c ----
static const double GAIN = 0.985; // largest time ratio that counts as a step of a climb
// Calls add for sizes of node `node` around those of the graph, while more() is true. If add returns false, the next factor is tried.
void sizes_near(const struct graph *g, bool (*add)(void *arg, int node, const struct axes *to), bool (*more)(void *arg), void *arg);

// ---- course.c ----
void course_add(struct arena *mem, struct course *c, struct course_step s);
const char *course_sizes(struct arena *mem, const struct graph *from,
                         const struct graph *to); // "kernel 1: x 8 to 16, i 4 to 2"; "" if all are equal
json_t *course_json(const struct course *c);

// ---- remember.c ----
const struct search_store *keeper_open(struct keeper *k, struct job *j, const struct graph *part); // NULL without a database
void keeper_drop(struct keeper *k); // the search has ended, and its result was stored or shown
int part_recall(struct job *j, struct contest *c, struct search_result *r, bool *ended, struct err *e);
void part_remember(struct job *j, const struct contest *c);

// ---- plans.c ----
// A candidate from a plan for the graph of a part, or NULL: lowered, valid, and equal by evidence that the job accepts. It may be op-by-op.
struct candidate *plans_take(struct job *j, const struct part *part);
void plans_use(struct job *j, struct contest *c, struct candidate *x); // uses it instead of a search
// A plan that replaced a search was refuted: the job searches from now on.
bool plans_fell(struct job *j);
void plans_record(struct job *j); // records the winners in the database

// ---- report_json.c ----
json_t *report_make(const struct job *j);
json_t *certificate_json(const struct certificate *c);
json_t *graph_json(const struct graph *g);
json_t *schedule_json(const char *schedule, const struct graph *g);
json_t *stats_json(const struct search_stats *s);
void stats_add(struct search_stats *sum, const struct search_stats *s); // adds the statistics of a further search

#endif
