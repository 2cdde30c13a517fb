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
  double quiet;                         // of a call that nothing disturbed: the third least
  int runs;
  struct disturbed disturbed; // it stayed so, however often it was repeated
};
struct timing timing_of(double *t, int n); // of n times in seconds, which it sorts
bool timing_quiet(const double *t, int n); // in any order: did enough of the calls go undisturbed for .quiet to be told?
// Another round? Until there were `least`, and `past`, the time so far, is over `seconds`; and up to four times as long while
// fewer than `least` are kept, or some module had no quiet calls among these. t: of n modules, each's `kept` times `apart` places
// behind those of the one before.
bool timing_goes_on(const double *t, int n, int apart, int kept, int rounds, int least, double past, double seconds);

// ---- disturbed.c: whether something else on the machine disturbed them, from recorded figures alone ----
struct stretch { // some rounds in a row
  int rounds;
  double wall;      // seconds
  double waited;    // seconds for which one thread of the process could have run, and had no processor
  double stolen;    // seconds a processor for which the hypervisor ran others
  double reference; // seconds of a loop of fixed work, right after the rounds
};
enum disturbance stretch_cause(const struct stretch *s, double reference); // reference: the least seconds of that loop
// The verdict on n stretches: DISTURBED_NOT if those that nothing disturbed have at least `enough` rounds.
struct disturbed stretches_verdict(const struct stretch *s, int n, double reference, int enough);
struct disturbed timing_verdict(const struct timing *t);       // by its spread
const char *disturbed_words(char out[96], struct disturbed d); // "" where nothing was disturbed

// ---- gauge.c: records stretches ----
struct gauge;
struct gauge *gauge_open(void);
void gauge_close(struct gauge *g);
double gauge_reference(const struct gauge *g);
void gauge_watch(struct gauge *g);                                 // a first stretch begins, with the threads that there are
bool gauge_due(const struct gauge *g);                             // it took long enough for recording it to cost little
void gauge_record(struct gauge *g, int rounds, struct stretch *s); // and the next one begins

// ---- measure.c ----
struct buffers { // device tensors of one kernel graph's inputs and outputs, in their dtypes, 64-byte aligned
  int nin, nout;
  void **in, **out;
  size_t *in_bytes, *out_bytes;
  struct left_call *left;            // a call that nobody waits for, or NULL (left.c)
  struct reference64_device *device; // computes float64 references on these inputs, or NULL: this processor does
};
int buffers_open(const struct graph *g, uint64_t seed, struct buffers **b, struct err *e);                       // random normal inputs
int buffers_open_until(const struct graph *g, uint64_t seed, stop_flag stop, struct buffers **b, struct err *e); // ERR_STOPPED soon after it is set
void buffers_close(struct buffers *b);

// ---- left.c: calls that can be left ----
// One after the other; not for several threads. After `stop` is set a call ends with ERR_STOPPED within a small part of a second. It may be under
// way then: it goes on, and the module and the buffers live until its end, also where they are closed before.
struct caller;
struct caller *caller_open(stop_flag stop); // stop may be NULL
void caller_close(struct caller *c);
int caller_call(struct caller *c, struct module *m, struct buffers *b, double *seconds, struct err *e);
int caller_once(struct module *m, struct buffers *b, stop_flag stop, struct err *e);
// *seconds: of the call before. A brief one is made directly, since it holds up no stop.
int caller_call_again(struct caller *c, struct module *m, struct buffers *b, double *seconds, struct err *e);

// Times n modules with the same signature round-robin in one run, at least `seconds` in all and 5 rounds. Disturbed rounds are
// repeated, for up to four times as long; where too few are left, all count, and the timings say so.
int measure(struct module *const *m, int n, struct buffers *b, double seconds, stop_flag stop, struct gauge *g, struct timing *t, struct err *e);

// For a module that gen_c_timed made: its n kernels, in as many calls.
int measure_kernels(struct module *m, int n, struct buffers *b, double seconds, stop_flag stop, struct gauge *g, struct timing *t, struct err *e);

// ---- positive.c ----
bool wants_positive(const struct graph *g, int input); // random values of the input should be above zero

// ---- mask_inputs.c ----
bool wants_mask(const struct graph *g, int input); // the input hides elements of rows: with odd seeds it shows a triangle

// ---- underflow.c: values as their dtypes hold them, and what numbers too small for one do to results ----
enum nudge { NUDGE_NONE, NUDGE_DOWN, NUDGE_EITHER }; // all towards zero; each in a random direction
struct reference64;
struct reference64_from;
void round_values(double *x, int64_t n, enum dtype t); // each to the nearest of its dtype
// Moves each number by what underflow may take it. Zero stays, and no number changes its sign.
void nudge_values(double *x, int64_t n, enum dtype t, enum nudge how, uint64_t seed);
// floor[t] of each output tensor t of r: the norm by which underflow alone may take it from its float64 value. Every value that is computed is
// moved by half the spacing of the denormal numbers of its dtype, and the moves go on to the outputs; r was evaluated from `from`. Products along
// a dimension multiply the smallest factors first, and what is not normal in fp32 on the way is 0.
int underflow_floors(const struct reference64 *r, const struct reference64_from *from, double *floor, struct err *e);

// ---- reference64.c: a graph evaluated in float64, fast enough for programs of full size ----
// Another device that does it. outputs[i]: room for output i of g. NO, and no error: it does not compute this one.
struct reference64_device {
  int (*run)(struct reference64_device *d, const struct graph *g, const struct reference64_from *from, double *const *outputs, bool *overflow,
             struct err *e);
};
struct reference64_from {
  // Elements [from, to) of input number `input`, row-major; called by several threads.
  void (*read)(const void *arg, int input, int64_t from, int64_t to, double *out);
  const void *arg;
  const struct buffers *b; // the inputs that `read` reads, in their dtypes; NULL: it reads something else
  bool flushed;            // and what is not normal, and -0, as 0
  bool in_range; // stop where a value leaves the range of its dtype, or a product along a dimension that of fp32 in some order of its factors
  bool rounds;   // each value is rounded to its dtype as it is made: what a program that runs operator by operator does
  enum nudge nudge;
  stop_flag stop; // ends it with ERR_STOPPED, within a small part of a second; NULL: nothing does
};
struct reference64 {
  const struct graph *g;
  const struct reference64_from *from;
  double **value; // of every tensor; NULL before the first and after the last that needs it. Outputs stay
  int *readers;
  int *same;                     // by tensor: the one whose memory it is a view of, or -1
  struct reference64_room *room; // of large values: taken by tensors, or free
  int nroom;
  bool overflow; // stopped by in_range: outputs are missing
};
// g without composites. To be closed after an error too; a zeroed one may be closed.
int reference64_run(struct reference64 *r, const struct graph *g, const struct reference64_from *from, struct err *e);
void reference64_close(struct reference64 *r);
double reference64_products(const struct graph *g); // multiply-adds of matrix products

// ---- numeric.c ----
// Runs on fresh random inputs with poisoned outputs, against `reference` evaluated in float64. *rel = max over outputs
// of ||out - ref|| / ||ref||; ERR_WRONG beyond the tolerance of the dtype, or where a value is not finite though the reference is. If
// rounding alone takes the reference that far (scores of a softmax that are in the hundreds), the inputs are made smaller first. Beyond the
// tolerance a difference is wrong only as far as numbers too small for their dtypes do not explain it (underflow.c). ERR_STOPPED soon after
// `stop` is set: then nothing was checked.
int check_numeric(struct module *m, const struct graph *reference, uint64_t seed, int repeats, stop_flag stop, double *rel, struct err *e);

// g evaluated on the inputs of b, which are made smaller until no value leaves the range of its dtype; ERR_WRONG where
// nothing helps. r is to be closed after an error too.
int numeric_reference(const struct graph *g, struct buffers *b, stop_flag stop, struct reference64 *r, struct err *e);
// The same on inputs that are made smaller until rounding alone, where an exponential makes it a factor, may not be taken for a mistake, if
// that helps; check_numeric does so when it meets one.
int numeric_reference_apart(const struct graph *g, struct buffers *b, stop_flag stop, struct reference64 *r, struct err *e);
int numeric_floors(const struct reference64 *r, const struct buffers *b, stop_flag stop, double *floor,
                   struct err *e); // of r on these inputs (underflow.c)
// of[t]: the dtype whose tolerance tensor t of a kernel graph has: its own, or that of what it is computed from where that is rounded more.
void numeric_dtypes(const struct graph *g, enum dtype *of);

// ---- special.c: NaN, infinities, huge and tiny numbers among the inputs ----
struct special_answer {
  int64_t held, all; // elements of outputs that were compared, of all; others are NaN or not as rounding decides
};
int special_rounds(const struct graph *g); // in each, another input has NaN and infinities; fewer where the reference is dear
void special_inputs(const struct graph *g, struct buffers *b, uint64_t seed, int round);
// g on the inputs of b. r is to be closed after an error too.
double special_tiny(enum dtype t); // what is not normal: up to this size inputs may be taken for 0
int special_reference(const struct graph *g, const struct buffers *b, stop_flag stop, struct reference64 *r, struct err *e);
// outputs: of code that was made of the graph `own`, which computes the same function of the same inputs; the answer is added up.
// ERR_WRONG where an element is NaN, infinite or a number other than it has to be.
int special_compare(const struct reference64 *r, const struct graph *own, const struct buffers *b, void *const *outputs, stop_flag stop,
                    struct special_answer *a, struct err *e);
int check_special(struct module *m, const struct graph *reference, const struct graph *own, uint64_t seed, stop_flag stop, struct special_answer *a,
                  struct err *e);

// ---- db.c: SQLite; one row a (program, target, versions) ----
struct db;
int db_open(const char *path, struct db **db, struct err *e); // NULL path: the default
// Waits for other processes last no longer than p says, now and later; NULL: some seconds.
int db_open_until(const char *path, const struct patience *p, struct db **db, struct err *e);
// Without the default one work goes on: *db NULL and *why.
int db_open_or_none(const char *path, const struct patience *p, struct db **db, struct err *why, struct err *e);
bool db_default(char *out, size_t n);     // $MICA_DB, else mica/mica.db in $XDG_CACHE_HOME, else in ~/.cache; false: there is none
const char *db_note(const struct db *db); // of rows that were not used, or ""
void db_close(struct db *db);
int db_get(struct db *db, const char *key, struct arena *mem, char **json, void **so, size_t *so_bytes, struct err *e); // NO when absent
int db_put(struct db *db, const char *key, const char *json, const void *so, size_t so_bytes, struct err *e);
// Finished units of a search that is under way.
int db_unit_get(struct db *db, const char *search, uint64_t unit, struct arena *mem, void **bytes, size_t *n, struct err *e); // NO when absent
int db_unit_put(struct db *db, const char *search, uint64_t unit, const void *bytes, size_t n, struct err *e);
int db_units_drop(struct db *db, const char *search, struct err *e); // those of this search, and what is older than a week
// ---- db_travel.c: results from and to other databases ----
enum { DB_SUM = 32 };
struct db_row {
  const char *key, *json;
  uint8_t sum[DB_SUM]; // by the key of the user who made it
};
int db_each(struct db *db, int (*row)(void *arg, const struct db_row *r), void *arg, struct err *e); // without machine code, and whose sum holds
bool db_signed(const struct db *db, const struct db_row *r);                                         // this user has made it
int db_add(struct db *db, const struct db_row *r, bool *added, struct err *e);                       // what is there stays

// ---- plan_file.c: the fastest known kernels of programs, in a form that other builds of Mica read (docs/plans.md) ----
enum { PLANS_FORMAT = 1 };
struct plan_row {
  const char *from, *json; // where it is from, with its line; one JSON object
};
void plans_head(struct str *out);             // the first line of a file of plans
int plans_format(const char *line, size_t n); // that a first line names; 0: it is none of a file of plans
// The plans of a program (graph_key) for a target, at most PLANS_MOST: what was imported for this GPU ("": for any), then those of the
// installed file. How many. A sentence in `note`, of at most NOTE bytes, where a file cannot be used; else it is left alone.
enum { PLANS_MOST = 4, PLANS_NOTE = 400 };
int plans_find(struct db *db, const char *target, const char *gpu, const char *key, struct arena *mem, struct plan_row *out, char *note);
// Rows of the database: `won`, of this user's races, for `mica db export --portable`; else imported, which plans_find finds.
int plans_put(struct db *db, bool won, const char *target, const char *gpu, const char *key, const char *json, struct err *e);
// A line of a file of plans as an imported row. It is checked where it is used; here it only has to have a target, a GPU and a key, else NO.
int plans_import(struct db *db, const char *line, size_t n, struct err *e);
// Every plan of the database once, the races' before those that were imported.
int plans_each(struct db *db, int (*plan)(void *arg, const char *json), void *arg, struct err *e);

#endif
