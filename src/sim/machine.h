// The machine inside the interpreter; see sim.h for the glossary and the files.
//
// A block is a set of warps that run one after another, each until it has to wait. A warp executes steps: the statements of
// the kernel in a row, with jumps. Its 32 lanes go in lockstep under a mask; a loop lasts until no lane is left in it.
//
// Order. Clocks are drawn from one counter of the run, so an epoch says the agent's clock and, by its size, the block too:
// what is older than the start of the block does not exist in shared memory. A warp's knowledge holds, for its own agent,
// what all of its lanes know of one another, which is what happened before its last barrier.
#ifndef MICA_SIM_MACHINE_H
#define MICA_SIM_MACHINE_H

#include "sim/number.h"
#include "sim/sim.h"

#include <string.h>

enum {
  LANES = 32,
  MOST_WARPS = 32,
  LANE_BITS = 6, // of an epoch; lane 63: all lanes at once
  WHOLE = 63,
  NAMED = 16,    // barriers of a block
  PARTIAL = 8,   // remembered barriers of parts of a warp
  PENDING = 8,   // register ranges of a buffer that wgmma still uses
  GROUPS = 64,   // uncompleted groups of copies of a warp
};
#define FULL UINT32_MAX
#define EPOCH(clock, lane) ((uint32_t)(clock) << LANE_BITS | (uint32_t)(lane))

struct vec { // an integer a lane
  int64_t v[LANES];
  bool uniform; // the same in all lanes; v is filled all the same
};

// ---- the program, compiled ----

enum { SLOT_CONST = -1 };
struct slot { // an expression
  int kind;   // enum ex_kind or SLOT_CONST
  int n;
  const int *arg;
  const struct vec **got; // room for the values of the arguments
  const int64_t *coef;
  int64_t c;
  int var;    // EX_VAR
  int latest; // the variable defined last of those it depends on; -1: none
};

enum step_kind { STEP_LET, STEP_VALUE, STEP_ALLOC, STEP_FOR, STEP_TEST, STEP_NEXT, STEP_IF, STEP_ELSE, STEP_ENDIF, STEP_ATOM, STEP_END };
struct step {
  enum step_kind kind;
  const struct tile_stmt *stmt;
  int jump;        // where to go when no lane is left; NEXT: to its TEST
  int nvars;       // LET
  const int *vars; // LET, VALUE, loops
  const int *slots;// LET: definitions. FOR: from; TEST: to; NEXT: step. IF: condition
  int atom;        // ATOM, VALUE
};

struct sim_guard {
  int value, limit, stride[TILE_MODES];
};
struct sim_operand {
  const struct tile_operand *t;
  const struct tile_buffer *buffer;
  enum tile_type type;
  enum tile_mem mem;
  int buf, bytes;         // of an element
  int offset, stride[TILE_MODES], peer; // slots; peer -1: the block's own memory
  int nguards;
  struct sim_guard guard[TILE_DIMS];
  int coord[TILE_DIMS], coord_stride[TILE_DIMS][TILE_MODES]; // of a box in global memory
  int ninner;
  const int32_t *inner;   // fragments, tiles: offsets of their elements
  bool written;           // an output
};
enum go { GO_ON, GO_WAIT, GO_AGAIN }; // done; done, but wait; wait, then do it
struct warp;
struct sim_atom {
  const struct tile_atom *t;
  const struct tile_spec *spec;
  struct loc at;
  int number, n, nout;    // in sim.atoms; operands
  struct sim_operand op[TILE_OPERANDS];
  int arg, barrier;       // slots; -1 none
  enum go (*run)(struct warp *w, const struct sim_atom *a);
  int nmembers;           // threads of the group: their numbers without the group's offset
  const int *member;
  int group;              // slot of the group's offset
  const int32_t *tv[TILE_OPERANDS]; // collective: where value v of thread t is in the tile, [v * threads + t]
  int64_t issued;
};

// ---- memory ----

struct gcell { // of a global buffer that the kernel writes
  uint32_t write, read;    // epochs; 0: never
  int32_t wblock, rblock;  // clusters; rblock -1: more than one
  uint16_t wagent, ragent;
  uint16_t site;           // the atom and operand that wrote
  bool atomic, shared_read; // the last write; several warps have read since
};
struct gbuf {
  uint8_t *data;
  int64_t bytes;
  int shift;           // log2 of the granule
  bool init;
  struct gcell *cells; // NULL: nothing to check
};
struct sbuf {
  int64_t offset, bytes;
  int64_t cell; // of its component's first byte
  int64_t base; // that byte
  int shift;
};
struct rbuf {
  int elements, bytes; // of an element
  int64_t at;          // bytes from the start of the register file
  int mark;            // first of its marks
};
struct shadow { // of a block's shared memory
  uint32_t *write;
  uint16_t *agent, *site;
  uint8_t *atomic;
  uint32_t **reads; // an agent: epochs of its last read; NULL: none ever
  int nreaders;
  int *reader;      // agents with reads
};

// ---- waiting ----

// Vector clocks: what happened before; what of it the async proxy may see; what of it a fence has made visible to the GPU.
// They lie behind one another and are joined as one.
struct known {
  uint32_t *all, *async, *gpu;
};
enum { KNOWN = 3 };
struct gather { // a barrier that warps arrive at
  int threads;  // arrived
  uint32_t phase;
  struct known acc, done;
  int atom;     // of the first to arrive
  uint64_t who; // warps, bit by number
};
struct mbar {
  bool init, fenced; // fenced: the async proxy knows of the initialization
  int agent;         // who initialized it
  uint32_t epoch;
  int64_t count, pending, tx;
  uint32_t phase, clock; // clock: of copies that this phase counts
  int copies;            // the agent that these are
  struct known acc, done;
};
struct group { // of copies
  uint32_t clock, lanes;
};
struct groups {
  int agent;
  uint32_t clock; // of the open group
  int n;
  bool used;      // the open group has copies
  struct group g[GROUPS];
};
enum wait_kind { WAIT_NONE, WAIT_GATHER, WAIT_MBAR, WAIT_DONE };
struct wait {
  enum wait_kind kind;
  struct gather *gather;
  struct mbar *mbar;
  uint32_t phase; // GATHER: wait while the phase is this; MBAR: the parity waited for
  int atom;
  bool joins;     // takes over the knowledge of the barrier
};

enum { KIND_WARP, KIND_CP, KIND_WGMMA, KIND_BULK, KINDS };
struct frame {
  uint32_t saved, other;
};
struct warp {
  struct cta *cta;
  struct sim *s;
  int number, agent;
  uint32_t lanes, active; // that exist; that execute
  int pc, depth, cap;
  struct frame *frames;
  struct wait wait;
  bool again;              // the wait before an atom is over
  // expressions
  struct vec *values, *vars;   // of slots and variables
  uint64_t *stamp, *var_stamp; // a slot is valid while its stamp is that of its latest variable
  // registers
  uint8_t *regs;
  uint32_t *marks;         // lanes that have written, an element of a buffer
  struct pending *pending; // a buffer
  // order
  uint32_t clock;
  struct known known;
  struct groups cp, bulk, wgmma;
  int begun;               // groups of products, of those of its warpgroup
  uint32_t cpdone;         // copies of these epochs are done, each for its own lane
  int npartial;
  struct { uint32_t lanes, clock; } partial[PARTIAL];
  uint32_t regfence;       // wgmma.fence count
  uint32_t cluster_phase;
};
struct pending {
  int n;
  struct { int lo, hi; uint32_t clock; bool write; } range[PENDING];
  bool dirty;              // written since the last wgmma.fence by something else
};

struct quad { // a warpgroup: its products are issued by all four warps together and complete for all
  struct gather gather;
  int begun;      // groups of products
  uint32_t clock; // of the newest
};
struct cta {
  struct sim *s;
  int rank;      // in the cluster
  int64_t number;
  uint8_t *shared;
  struct shadow shadow;
  struct warp *warps;
  struct gather named[NAMED];
  struct quad quad[MOST_WARPS / 4];
  struct mbar *mbars;
  int left; // warps that have not ended
};

struct channel { // the address of an atomic in global memory, through which blocks tell one another what they did
  int buf;
  int64_t at;
  uint32_t **told; // a cluster: the clocks of its agents up to which its writes are visible to who reads the atomic
};
struct taken { // somebody of the running cluster has read it
  struct channel *from;
  int agent;
  uint32_t epoch;
};

struct sim {
  struct arena *mem;
  const struct tile_program *p;
  const struct tile_kernel *k;
  const struct sim_input *in;
  struct sim_report *r;
  struct err *e;
  int status;   // of what can not be run
  bool stopped; // the run can not go on: deadlock
  // code
  int nslots, slot_cap, nmap, nvars;
  struct slot *slots;
  int *map;     // node of the pool -> slot, -1
  int *var_pos; // where a variable is defined, in the order of the text
  int position;
  int nsteps, step_cap, natoms, atom_cap;
  struct step *steps;
  struct sim_atom *atoms;
  // geometry
  int64_t nblocks;
  int nthreads, nwarps, cluster, nmbars, nagents;
  // memory
  struct gbuf *gl;
  struct sbuf *sh;
  struct rbuf *rf;
  int64_t shared_bytes, ncells, reg_bytes;
  int nmarks;
  int *mbar_of;  // shared byte / 8 -> mbarrier, -1
  uint32_t time; // the last clock
  uint32_t start;// epoch at which the cluster's blocks began
  uint64_t stamps;
  struct cta *ctas;
  struct gather cluster_gather;
  struct { int size[TILE_DIMS], stride[TILE_DIMS]; } *maps; // slots of tensor maps
  int nchannels, channel_cap;
  struct channel **channels;
  struct taken *taken; // by the running cluster
  int ntaken, taken_cap;
  int error_cap;
};

// ---- code.c ----
int code_slot(struct sim *s, ex x);
const struct vec *code_eval(struct warp *w, int slot);
void code_set(struct warp *w, int var, const struct vec *value);
void code_set_all(struct warp *w, int var, int64_t value);
void code_reset(struct warp *w); // before a block

// ---- flow.c ----
int flow_compile(struct sim *s); // steps and atoms
typedef enum go (*sem_fn)(struct warp *w, const struct sim_atom *a);
sem_fn sem_find(enum sem sem); // semantics.c; NULL: the interpreter does not know it

// ---- warp.c, sched.c ----
void warp_run(struct warp *w); // until it ends or waits
void sched_run(struct sim *s); // the blocks of a cluster

// ---- walk.c ----
struct walk {
  struct warp *w;
  const struct sim_atom *a;
  int64_t mode[TILE_MODES];
  bool done;
};
struct place { // of an operand's piece
  bool uniform;
  int64_t at[LANES]; // elements
  uint32_t mask;     // lanes inside
};
struct walk walk_begin(struct warp *w, const struct sim_atom *a);
void walk_next(struct walk *it);
void walk_place(const struct walk *it, int operand, struct place *p);
// `width` elements a lane, [width][LANES]; the result may be the registers themselves. tmp: 32 * 32 * 8 bytes.
const void *walk_load(const struct walk *it, int operand, int width, void *tmp);
void walk_store(const struct walk *it, int operand, int width, const void *values);
bool walk_collective(struct warp *w, const struct sim_atom *a); // are all threads of the group here? reports
uint32_t walk_group(struct warp *w, const struct sim_atom *a, int lane); // lanes of the group of this lane

// ---- access.c, shadow.c ----
struct access {
  struct warp *w;
  const struct sim_atom *a;
  const struct sim_operand *op;
  bool write, atomic;
  int bytes;             // a lane
  uint32_t mask;         // lanes; cleared where the access can not be made
  int64_t at[LANES];     // bytes from the start of the buffer
  struct cta *home[LANES]; // shared memory
  int agent;             // who
  uint32_t clock;
  bool async;            // through the async proxy
  bool whole;            // by all lanes together
  int one;               // -1, or the one lane that does all of it: `at` are then pieces, not lanes
};
static inline int access_lane(const struct access *x, int piece) { return x->one < 0 ? piece : x->one; }
void access_init(struct access *x, struct warp *w, const struct sim_atom *a, int operand, int bytes);
void access_elements(struct access *x, const struct place *p); // element offsets -> bytes, swizzled
bool access_reach(struct access *x);                           // peers, alignment, bounds; false: no lane is left
void access_check(struct access *x);                           // that, the shadow, the counts
uint8_t *access_data(const struct access *x, int lane);
void shadow_shared(struct access *x);
void shadow_global(struct access *x);
bool shadow_ordered(const struct access *x, int agent, uint32_t epoch, int lane);
int shadow_kind(const struct sim *s, int agent); // KIND_..., KINDS for an mbarrier
void shadow_who(const struct sim *s, int agent, uint32_t epoch, char out[96]);

// ---- regs.c ----
void *regs_at(struct warp *w, const struct sim_operand *op, int64_t element); // [LANES]; checked by those below
bool regs_read(struct warp *w, const struct sim_atom *a, int o, int64_t element, int n, uint32_t mask);
bool regs_write(struct warp *w, const struct sim_atom *a, int o, int64_t element, int n, uint32_t mask);
void regs_alloc(struct warp *w, int buf);
void regs_done(struct warp *w, uint32_t clock); // wgmma groups up to this are complete
void regs_blend(void *to, const void *from, int bytes, uint32_t mask); // LANES elements

// ---- sync.c ----
void sync_tick(struct warp *w);
void sync_warp(struct warp *w, uint32_t lanes); // lanes of the warp know one another
void sync_join(const struct sim *s, struct known to, struct known from);
bool sync_quad(struct warp *w, const struct sim_atom *a, enum go *go); // are the four warps of the warpgroup here?
void sync_open(struct warp *w, struct groups *g);  // a copy begins in the open group
void sync_bump(uint32_t *to, uint32_t epoch);
void sync_publish(struct warp *w, struct known to); // what w knows goes into `to`
void sync_take(struct warp *w, struct known from);
bool sync_ready(struct warp *w);
void sync_clear(struct sim *s, struct known k); // to the start of the block
void sync_tell(struct warp *w, const struct sim_atom *a, int lane, int64_t at, bool reads); // an atomic in global memory
bool sync_told(struct warp *w, int cluster, int agent, uint32_t epoch); // did w hear of it from that cluster?
struct known sync_known(struct sim *s);

// ---- groups.c ---- and others: the functions that semantics.c names
#define SEMANTICS(X)                                                                                                    \
  X(MOVE, sem_move) X(CP_ASYNC, sem_cp_async) X(RED, sem_atomic) X(ATOM, sem_atomic)                                     \
  X(LDMATRIX, sem_ldmatrix) X(STMATRIX, sem_stmatrix) X(MMA, sem_mma) X(WGMMA, sem_wgmma)                                \
  X(FMA, sem_fma) X(UNARY, sem_unary) X(BINARY, sem_binary) X(INIT, sem_init) X(REDUCE, sem_reduce)                      \
  X(SHFL, sem_shfl) X(REDUCE_WARP, sem_reduce_warp)                                                                      \
  X(TMA_LOAD, sem_tma_load) X(TMA_STORE, sem_tma_store) X(TMA_RED, sem_tma_store)                                        \
  X(MBAR_INIT, sem_mbar_init) X(MBAR_ARRIVE, sem_mbar_arrive) X(MBAR_EXPECT, sem_mbar_expect)                            \
  X(MBAR_WAIT, sem_mbar_wait) X(CP_MBAR_ARRIVE, sem_cp_mbar_arrive)                                                      \
  X(BARRIER, sem_barrier) X(SYNCWARP, sem_syncwarp)                                                                      \
  X(CLUSTER_ARRIVE, sem_cluster_arrive) X(CLUSTER_WAIT, sem_cluster_wait)                                                \
  X(CP_COMMIT, sem_cp_commit) X(CP_WAIT, sem_cp_wait) X(BULK_COMMIT, sem_bulk_commit) X(BULK_WAIT, sem_bulk_wait)        \
  X(WGMMA_FENCE, sem_wgmma_fence) X(WGMMA_COMMIT, sem_wgmma_commit) X(WGMMA_WAIT, sem_wgmma_wait)                        \
  X(FENCE_ASYNC, sem_fence_async) X(FENCE_BLOCK, sem_nothing) X(FENCE_GPU, sem_fence_gpu)                                \
  X(FENCE_MBAR_INIT, sem_fence_mbar) X(SETMAXNREG, sem_collective) X(GRID_WAIT, sem_nothing) X(GRID_TRIGGER, sem_nothing)
#define X(id, name) enum go name(struct warp *w, const struct sim_atom *a);
SEMANTICS(X)
#undef X

// ---- mbar.c ----
struct mbar *mbar_find(struct warp *w, const struct sim_atom *a, int operand, int lane); // initialized; NULL: reported
bool mbar_ready(const struct mbar *b, uint32_t parity);
void mbar_copied(struct warp *w, struct mbar *b, int64_t bytes); // a bulk copy that counts on it is done

// ---- count.c ----
void count_access(const struct access *x);
void count_finish(struct sim *s);

// ---- point.c ----
void point_binary(int op, enum tile_type t, const void *a, const void *b, void *out); // enum binary_op, LANES elements

// ---- mma.c ----
void mma_product(int m, int n, int k, const float *a, const float *b, float *c); // c[m + M n] += a[m + M k] b[n + N k]; M 8 or 16

// ---- report.c ----
void report(struct warp *w, const struct sim_atom *a, enum sim_class c, int lane, const char *fmt, ...) PRINTF(5, 6);
void report_place(const struct sim_operand *op, int64_t byte, char out[96]); // "%name element 17"

#endif
