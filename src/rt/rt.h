// rt: compiles, loads, runs, checks and measures generated C on this machine, and keeps results in the database.
#ifndef MICA_RT_H
#define MICA_RT_H

#include "gen/gen.h"
#include "gen/mica_meet.h"

// ---- module.c: the system's C compiler and dlopen ----
struct module;
int module_build(const char *source, const char *name, struct module **m, struct err *e); // compiles in a private temporary folder
// With other flags than gen_flags(). ERR_STOPPED if the limits `p` ended before the compiler did.
int module_build_with(const char *source, const char *flags, const char *name, const struct patience *p, struct module **m, struct err *e);
int module_load(const void *so, size_t n, const char *name, struct module **m, struct err *e); // from the bytes of a shared object in the database
const void *module_bytes(const struct module *m, size_t *n);                                   // the shared object
int module_call(struct module *m, void *const *inputs, void *const *outputs);                  // status of the generated function; from any thread
int module_failed(int status, const char *name, struct err *e);                                // the error of a call that gave this status
size_t module_exchange(const struct module *m); // bytes that ranks share, of a program of several devices (gen_c_ranks); 0: it is none
int module_world(const struct module *m);       // how many ranks its function of one rank is for; 1: it has none
// One rank of a world, with its parts of divided tensors. From one thread a rank.
int module_call_rank(struct module *m, int rank, struct m_exchange *x, void *const *inputs, void *const *outputs);
bool module_freezes(const struct module *m); // whether the program computes something of frozen inputs alone
// Computes that once, of these inputs. Calls of the new module do the rest, with frozen inputs of the same elements. m may be closed before. Only for
// a module that freezes.
int module_freeze(struct module *m, void *const *inputs, struct module **out, struct err *e);
const double *module_seconds(const struct module *m); // of each kernel in the last call, where gen_c_timed made it; else NULL
void module_rest(struct module *m);                   // gives workspaces back until the next call
void module_close(struct module *m);
const char *compiler_version(const struct patience *p); // "gcc 12.2.0", part of database keys; "" where there is none, or it does not answer

// module_call calls this with the form from now on; form NULL: the generated function again.
struct ranks_form;
typedef int call_ranks(struct module *m, const struct ranks_form *f, void *const *inputs, void *const *outputs);
void module_ranks(struct module *m, call_ranks *call, const struct ranks_form *f);

// ---- ranks_call.c: all ranks of a world as threads of this process ----
enum { RANKS_WAIT = 60 }; // seconds that a rank waits for the others unless told
struct ranks_tensor {     // a whole tensor has outer * ranks pieces of `inner` bytes where it is divided, and outer * inner bytes where not
  bool divided, written;  // written: an input that is a state
  int state;              // of an output: the number of the state that it leaves, plus 1; 0: it leaves none
  int64_t outer, inner;
};
struct ranks_form {
  int ranks, nin, nout;
  struct ranks_tensor *in, *out;
};
const struct ranks_form *ranks_form_of(struct arena *mem, const struct graph *g); // g: not unfolded
// The rank's part of a whole tensor, copied; back: into the whole.
void ranks_part(const struct ranks_tensor *x, int ranks, int rank, void *whole, void *part, bool back);
// With whole tensors. EBADMSG where a result that all ranks have has not the same bits on all of them.
int module_call_ranks(struct module *m, const struct ranks_form *f, void *const *inputs, void *const *outputs);
void module_as_ranks(struct module *m, const struct ranks_form *f); // module_call does the same from now on; NULL: no more

// ---- exchange.c: the shared memory through which ranks exchange data ----
struct exchange;
struct exchange_worlds {
  struct exchange_world *first; // NULL at first; those that are open
};
struct exchange_wish {
  const char *name;             // of a memory of this machine, for a process a rank; NULL: of this process, for a thread a rank
  struct exchange_worlds *here; // those of this process; used without a name. Whoever opens and closes them does so from one thread at a time
  int rank, ranks;
  uint64_t key;   // of the program: all ranks must have the same
  size_t bytes;   // module_exchange
  double seconds; // that a rank waits for the others, now and in each call
};
// Waits until all ranks have opened it, where it has a name. It can be closed while others use it; their calls fail then.
int exchange_open(const struct exchange_wish *w, struct exchange **out, struct err *e);
struct m_exchange *exchange_memory(const struct exchange *x);
int exchange_failed(const struct exchange *x, int status, struct err *e); // says who did not come
void exchange_close(struct exchange *x);

// ---- timing.c: what times of calls say ----
enum disturbance { DISTURBED_NOT, DISTURBED_WAITED, DISTURBED_STOLEN, DISTURBED_SLOWED, DISTURBED_SCATTERED, DISTURBANCES };
struct disturbed { // what disturbed a measurement, and how much: a share of the time, or how many times slower
  enum disturbance why;
  double by;
};
struct timing {
  double median, least, most, p25, p75; // seconds a call
  double quiet;                         // of a call that nothing disturbed: the first octile, at least the third least
  int runs;
  struct disturbed disturbed; // it stayed so, however often it was repeated
};
struct timing timing_of(double *t, int n); // of n times in seconds, which it sorts
bool timing_quiet(const double *t, int n); // in any order: did enough of the calls go undisturbed for .quiet to be told?
enum { MEASURE_PATIENCE = 4 };             // a measurement takes so many times the seconds that were asked, at most, and its least rounds
// Another round? Until there were `least`, and `past`, the time so far, is over `seconds`; and up to MEASURE_PATIENCE times as long while
// fewer than `least` are kept, or some module had no quiet calls among these. t: of n modules, each's `kept` times `apart` places
// behind those of the one before.
bool timing_goes_on(const double *t, int n, int apart, int kept, int rounds, int least, double past, double seconds);

// ---- disturbed.c: whether something else on the machine disturbed them, from recorded figures alone ----
struct stretch { // some rounds in a row
  int rounds;
  double wall;      // seconds
  double waited;    // seconds in which a thread of the process was runnable and had no processor
  double stolen;    // seconds per processor in which the hypervisor ran other guests
  double reference; // seconds that a loop of fixed work took right after the rounds
};
enum disturbance stretch_cause(const struct stretch *s, double reference); // reference: the loop's shortest time
// Evaluates n stretches. DISTURBED_NOT if the undisturbed ones have at least `enough` rounds together.
struct disturbed stretches_verdict(const struct stretch *s, int n, double reference, int enough);
struct disturbed timing_verdict(const struct timing *t);       // evaluates the spread of the times
const char *disturbed_words(char out[96], struct disturbed d); // "" for no disturbance

// ---- gauge.c: records stretches ----
struct gauge;
struct gauge *gauge_open(void);
void gauge_close(struct gauge *g);
double gauge_reference(const struct gauge *g);
void gauge_watch(struct gauge *g);                                 // starts the first stretch; watches the threads that exist now
bool gauge_due(const struct gauge *g);                             // whether the stretch is long enough that recording it costs little
void gauge_record(struct gauge *g, int rounds, struct stretch *s); // records the stretch and starts the next one

// ---- measure.c ----
struct buffers { // device tensors of a kernel graph's inputs and outputs, in their dtypes, 64-byte aligned
  int nin, nout;
  void **in, **out;
  size_t *in_bytes, *out_bytes;
  bool *masks;                       // by input: it hides scores, so its elements keep their places (mask_inputs.c)
  struct left_call *left;            // an abandoned call, or NULL (left.c)
  struct reference64_device *device; // computes float64 references on these inputs; NULL: the CPU does
};
int buffers_open(const struct graph *g, uint64_t seed, struct buffers **b, struct err *e); // random normal inputs
// ERR_STOPPED soon after `stop` is set
int buffers_open_until(const struct graph *g, uint64_t seed, stop_flag stop, struct buffers **b, struct err *e);
void buffers_close(struct buffers *b);

// ---- left.c: calls that can be abandoned ----
// Serves one call at a time, from one thread. After `stop` is set a call ends with ERR_STOPPED in a fraction of a second. If the generated code is
// still running, it continues, and the module and the buffers live until it ends, even if they are closed before.
struct caller;
struct caller *caller_open(stop_flag stop); // stop may be NULL
void caller_close(struct caller *c);
int caller_call(struct caller *c, struct module *m, struct buffers *b, double *seconds, struct err *e);
int caller_once(struct module *m, struct buffers *b, stop_flag stop, struct err *e);
// *seconds: time of the previous call. A short call is made directly, since it delays no stop.
int caller_call_again(struct caller *c, struct module *m, struct buffers *b, double *seconds, struct err *e);

// Times n modules with the same signature round-robin in one run, for at least `seconds` and 5 rounds. Disturbed rounds are repeated, for up to four
// times as long. If too few undisturbed rounds remain, all rounds count, and the timings say so.
int measure(struct module *const *m, int n, struct buffers *b, double seconds, stop_flag stop, struct gauge *g, struct timing *t, struct err *e);

// Times the n kernels of a module from gen_c_timed, all in the same calls.
int measure_kernels(struct module *m, int n, struct buffers *b, double seconds, stop_flag stop, struct gauge *g, struct timing *t, struct err *e);

// ---- positive.c ----
bool wants_positive(const struct graph *g, int input); // whether random values of the input should be positive

// ---- mask_inputs.c ----
bool wants_mask(const struct graph *g, int input); // whether the input masks elements of rows; its random values show a triangle for odd seeds

// ---- underflow.c: values rounded to their dtypes, and the effect of underflow on results ----
// No change; underflow towards zero; underflow in random directions; some roundings (underflow.c) in random directions.
enum nudge { NUDGE_NONE, NUDGE_DOWN, NUDGE_EITHER, NUDGE_ROUNDING };
struct reference64;
struct reference64_from;
void round_values(double *x, int64_t n, enum dtype t); // rounds each to the nearest value of the dtype
// Moves each number by the largest error of underflow, or by a share of itself. Zero stays, and no number changes its sign.
void nudge_values(double *x, int64_t n, enum dtype t, enum nudge how, uint64_t seed);
// Sets floor[t] for each output tensor t of r: the norm by which underflow alone may change it from its float64 value. Each computed value is moved
// by half the spacing of the subnormal numbers of its dtype, and the moves propagate to the outputs. Products along a dimension multiply the smallest
// factors first, and intermediate values that are subnormal in fp32 become 0. r was evaluated from `from`.
int underflow_floors(const struct reference64 *r, const struct reference64_from *from, double *floor, struct err *e);

// ---- reference64.c: fast evaluation of a graph of full size in float64 ----
// Another device that evaluates references. outputs[i]: memory for output i of g. Returns NO without an error if it does not support the graph.
struct reference64_device {
  int (*run)(struct reference64_device *d, const struct graph *g, const struct reference64_from *from, double *const *outputs, bool *overflow,
             struct err *e);
};
struct reference64_from {
  // Reads elements [from, to) of input number `input`, row-major. Called by several threads.
  void (*read)(const void *arg, int input, int64_t from, int64_t to, double *out);
  const void *arg;
  const struct buffers *b; // the inputs that `read` reads, in their dtypes; NULL: `read` has another source
  bool flushed;            // subnormal numbers and -0 are read as 0
  bool in_range; // stop if a value exceeds the range of its dtype, or a product along a dimension that of fp32 for some order of its factors
  bool rounds;   // round each value to its dtype, as a program does that runs operator by operator
  enum nudge nudge;
  uint64_t turn;  // selects the random directions
  stop_flag stop; // ends the evaluation with ERR_STOPPED in a fraction of a second; may be NULL
};
struct reference64 {
  const struct graph *g;
  const struct reference64_from *from;
  double **value; // values of each tensor; NULL before they are computed and after their last reader. Outputs stay
  int *readers;
  int *same;                     // for each tensor: the tensor whose memory it is a view of, or -1
  struct reference64_room *room; // memory blocks of large values, in use or free
  int nroom;
  bool overflow; // in_range stopped the evaluation: outputs are missing
};
// g must not contain composites. Close r after an error too; a zeroed r may be closed.
int reference64_run(struct reference64 *r, const struct graph *g, const struct reference64_from *from, struct err *e);
void reference64_close(struct reference64 *r);
double reference64_products(const struct graph *g); // multiply-adds of matrix products

// ---- numeric.c ----
// Runs on fresh random inputs with poisoned outputs, and compares with `reference` evaluated in float64. *rel = max over outputs of ||out - ref|| /
// ||ref||. ERR_WRONG if the tolerance of the dtype is exceeded, or if a value is not finite and the reference is. The inputs are scaled down first if
// rounding alone exceeds the tolerance, as for softmax scores in the hundreds. A difference that underflow explains is allowed (underflow.c).
// ERR_STOPPED soon after `stop` is set: nothing was checked then.
int check_numeric(struct module *m, const struct graph *reference, uint64_t seed, int repeats, stop_flag stop, double *rel, struct err *e);

// Evaluates g on the inputs of b. They are scaled down until every value is in the range of its dtype; ERR_WRONG if no scale suffices. Close r after
// an error too.
int numeric_reference(const struct graph *g, struct buffers *b, stop_flag stop, struct reference64 *r, struct err *e);
// The same. The inputs are also scaled down, if that helps, until rounding that an exponential amplifies is not mistaken for a fault. check_numeric
// calls it when it meets such a case.
int numeric_reference_apart(const struct graph *g, struct buffers *b, stop_flag stop, struct reference64 *r, struct err *e);
int numeric_floors(const struct reference64 *r, const struct buffers *b, stop_flag stop, double *floor,
                   struct err *e); // computed from r on these inputs (underflow.c)
// Sets of[t], the dtype whose tolerance applies to tensor t of a kernel graph: its own dtype, or a less accurate one that it is computed from.
void numeric_dtypes(const struct graph *g, enum dtype *of);

// ---- special.c: inputs with NaN, infinities, huge and tiny numbers ----
struct special_answer {
  int64_t held, all; // output elements compared, and their total; the others depend on rounding
};
int special_rounds(const struct graph *g); // number of rounds; each puts NaN and infinities into another input. Fewer if the reference is expensive
void special_inputs(const struct graph *g, struct buffers *b, uint64_t seed, int round);
// Evaluates g on the inputs of b. Close r after an error too.
double special_tiny(enum dtype t); // inputs up to this size may be flushed to 0: the subnormal numbers
int special_reference(const struct graph *g, const struct buffers *b, stop_flag stop, struct reference64 *r, struct err *e);
// Checks outputs of code made from the graph `own`, which computes the same function of the same inputs. Adds to the counts. ERR_WRONG if an element
// is NaN, infinite or a number and must not be.
int special_compare(const struct reference64 *r, const struct graph *own, const struct buffers *b, void *const *outputs, stop_flag stop,
                    struct special_answer *a, struct err *e);
int check_special(struct module *m, const struct graph *reference, const struct graph *own, uint64_t seed, stop_flag stop, struct special_answer *a,
                  struct err *e);

// ---- db.c: SQLite; one row for each (program, target, versions) ----
struct db;
int db_open(const char *path, struct db **db, struct err *e); // path NULL: the default path
// Limits waits for other processes, now and later, to those of p; NULL: some seconds.
int db_open_until(const char *path, const struct patience *p, struct db **db, struct err *e);
// Opens the default database. If that fails, work continues without one: *db is NULL and *why says why.
int db_open_or_none(const char *path, const struct patience *p, struct db **db, struct err *why, struct err *e);
bool db_default(char *out, size_t n);     // $MICA_DB, else mica/mica.db in $XDG_CACHE_HOME, else in ~/.cache; false: none of these is set
const char *db_note(const struct db *db); // which rows were not used, or ""
void db_close(struct db *db);
int db_get(struct db *db, const char *key, struct arena *mem, char **json, void **so, size_t *so_bytes, struct err *e); // NO if there is no such row
int db_put(struct db *db, const char *key, const char *json, const void *so, size_t so_bytes, struct err *e);
// Finished units of a search that is under way.
int db_unit_get(struct db *db, const char *search, uint64_t unit, struct arena *mem, void **bytes, size_t *n, struct err *e);
int db_unit_put(struct db *db, const char *search, uint64_t unit, const void *bytes, size_t n, struct err *e);
int db_units_drop(struct db *db, const char *search, struct err *e); // removes those of this search, and all older than a week
// ---- db_travel.c: export to and import from other databases ----
enum { DB_SUM = 32 };
struct db_row {
  const char *key, *json;
  uint8_t sum[DB_SUM]; // checksum with its author's key
};
// calls `row` for rows with a valid checksum, without machine code
int db_each(struct db *db, int (*row)(void *arg, const struct db_row *r), void *arg, struct err *e);
bool db_signed(const struct db *db, const struct db_row *r);                   // whether this user wrote the row
int db_add(struct db *db, const struct db_row *r, bool *added, struct err *e); // does not replace an existing row

// ---- plan_file.c: the fastest known kernels of programs, in a form that other builds of Mica read (docs/plans.md) ----
enum { PLANS_FORMAT = 1 };
struct plan_row {
  const char *from, *json; // its source with the line number; one JSON object
};
void plans_head(struct str *out);             // writes the first line of a file of plans
int plans_format(const char *line, size_t n); // the format number in a first line; 0: this is no file of plans
// Finds plans of a program (graph_key) for a target, at most PLANS_MOST: first those imported for this GPU ("": for any), then those of the installed
// file. Returns their number. If a file cannot be used, `note` gets a sentence of at most NOTE bytes; else it is unchanged.
enum { PLANS_MOST = 4, PLANS_NOTE = 400 };
int plans_find(struct db *db, const char *target, const char *gpu, const char *key, struct arena *mem, struct plan_row *out, char *note);
// Writes a plan to the database. `won`: found by this user's races, for `mica db export --portable`; else imported, for plans_find.
int plans_put(struct db *db, bool won, const char *target, const char *gpu, const char *key, const char *json, struct err *e);
// Imports one line of a file of plans. The plan is checked when it is used; here only target, GPU and key must be present, else NO.
int plans_import(struct db *db, const char *line, size_t n, struct err *e);
// Calls back once for every plan of the database, those of races before imported ones.
int plans_each(struct db *db, int (*plan)(void *arg, const char *json), void *arg, struct err *e);

#endif
