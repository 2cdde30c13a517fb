// The machine of the interpreter; see sim.h for the glossary and the files.
//
// A block is a set of warps that run one after another, each until it has to wait. A warp executes steps: the statements of
// the kernel in a list, with jumps. Its 32 lanes run in lockstep under a mask; a loop ends when no lane is active.
//
// Order. All clocks come from one counter of the run. An epoch therefore also tells the block: epochs before the start of
// the block do not apply to its shared memory. A warp's knowledge has, for its own agent, the accesses before its last
// barrier, which all of its lanes know.
#ifndef MICA_SIM_MACHINE_H
#define MICA_SIM_MACHINE_H

#include "sim/compiled.h"
#include "sim/number.h"

#include <string.h>

enum {
  MOST_WARPS = 32,
  LANE_BITS = 6, // bits of the lane in an epoch
  WHOLE = 63,    // lane of an epoch: all lanes together
  STORED = 62,   // lane of an epoch: all lanes together, in a store
  NAMED = 16,    // named barriers of a block
  PARTIAL = 8,   // most recorded barriers of parts of a warp
  PARTS = 8,     // most recorded arrivals of parts of warps
  PENDING = 8,   // most register ranges of a buffer that wgmma still uses
  GROUPS = 64,   // most incomplete groups of copies of a warp
};
#define FULL UINT32_MAX
#define EPOCH(clock, lane) ((uint32_t)(clock) << LANE_BITS | (uint32_t)(lane))

// ---- memory ----

struct gcell {          // cell of a global buffer that the kernel writes
  uint32_t write, read; // epochs of the last write and read; 0: never
  uint16_t wagent, ragent;
  uint16_t site;     // atom and operand of the last write
  bool atomic, many; // the last write was atomic; earlier clusters have read too
};
struct gbuf {
  uint8_t *data;
  int64_t bytes;
  int shift; // log2 of the granule
  bool init;
  struct gcell *cells; // NULL: needs no checks
};
struct sbuf {
  int64_t offset, bytes;
  int64_t cell; // cell of the first byte of its component
  int64_t base; // offset of that byte
  int shift;
};
struct rbuf {
  int elements, bytes; // number of elements; bytes of an element
  int64_t at;          // byte offset in the register file
  int mark;            // index of its first mark
};
struct shadow { // shadow of a block's shared memory
  uint32_t *write;
  uint16_t *agent, *site;
  uint8_t *atomic;
  uint32_t **reads; // by agent, then by cell: epoch of its last read; NULL: the agent has not read
  int nreaders, nlive;
  int *reader;      // agents that have read
  uint32_t *latest; // by agent: epoch of its latest read
  int *live;        // readers that the current store must be checked against
};

// ---- waiting ----

// Vector clocks. all: accesses that happened before. async: those of them that the async proxy sees. gpu: those that a
// fence has made visible to the whole GPU. The three arrays are contiguous and joined as one. parts: accesses that only some
// lanes of a warp have published since the warp's last barrier, up to an epoch.
struct sim_part {
  int agent;
  uint32_t lanes, epoch;
};
struct parts {
  int n;
  struct sim_part part[PARTS];
};
struct known {
  uint32_t *all, *async, *gpu;
  struct parts *parts;
};
enum { KNOWN = 3 };
struct gather { // a barrier
  int threads;  // number of threads that have arrived
  uint32_t phase;
  struct known acc, done; // knowledge of the arrivals of this phase, and of the last complete phase
  int atom;               // atom of the first arrival
};
struct mbar {
  bool init, fenced; // fenced: the async proxy sees the initialization
  int agent;         // agent that initialized it
  uint32_t epoch;
  int64_t count, pending, tx;
  uint32_t phase, clock; // clock: of the copies that this phase counts
  uint32_t last, before; // epochs of the ends of the last phase, and of the one before; 0: there is none
  int copies;            // agent of these copies
  struct known acc, done;
};
struct group { // a group of copies
  uint32_t clock, lanes;
};
struct groups {
  int agent;
  uint32_t clock; // clock of the open group
  int n;
  bool used; // the open group has copies
  struct group g[GROUPS];
};
enum wait_kind { WAIT_NONE, WAIT_GATHER, WAIT_MBAR, WAIT_REGISTERS, WAIT_DONE };
struct wait {
  enum wait_kind kind;
  struct gather *gather;
  struct mbar *mbar;
  uint32_t phase; // GATHER: waits while the barrier has this phase; MBAR: the parity waited for; REGISTERS: the number waited for
  int atom;
  bool joins; // receives the knowledge of the barrier
};

enum { KIND_WARP, KIND_CP, KIND_WGMMA, KIND_BULK, KINDS };
struct sim_frame {
  uint32_t saved, other;
};
struct warp {
  struct cta *cta;
  struct sim *s;
  int number, agent;
  uint32_t lanes, active; // masks of the lanes that exist, and of the active ones
  int pc, depth, cap;
  struct sim_frame *frames;
  struct wait wait;
  bool again; // the wait before an atom has ended
  // expressions
  struct vec *values, *vars;   // values of slots and variables
  uint64_t *stamp, *var_stamp; // a slot is valid if it has the stamp of its latest variable
  // registers
  uint8_t *regs;
  uint32_t *marks;         // by element of each buffer: mask of the lanes that have written it
  struct pending *pending; // by buffer
  // order
  uint32_t clock;
  struct known known;
  struct known some;   // until the warp's next barrier: knowledge of only those lanes that have waited
  uint32_t some_lanes; // mask of these lanes; 0: none
  struct groups cp, bulk, wgmma;
  uint32_t cpdone; // copies up to this epoch are complete, each for its own lane
  int npartial;
  struct {
    uint32_t lanes, clock;
  } partial[PARTIAL];
  uint32_t regfence; // number of wgmma.fence
  uint32_t cluster_phase;
  int allotted; // registers allotted to a thread
};
struct pending {
  int n;
  struct {
    int lo, hi;
    uint32_t clock;
    bool write;
  } range[PENDING];
  bool dirty; // written since the last wgmma.fence by another instruction
};

struct quad { // a warpgroup; its four warps issue products together, and products complete for all four
  struct gather gather;
  bool open;      // there are products since the last commit
  uint32_t clock; // clock of the open group, or of the last one
};
struct cta {
  struct sim *s;
  int rank; // rank in the cluster
  int64_t number;
  uint8_t *shared;
  struct shadow shadow;
  struct warp *warps;
  struct gather named[NAMED];
  struct quad quad[MOST_WARPS / 4];
  struct mbar *mbars;
  int left;      // warps that have not ended
  int64_t spare; // registers that warps have given back
};

struct channel { // an address of atomics in global memory, by which blocks synchronize
  int buf;
  int64_t at;
  uint32_t **told; // by cluster, then by agent: clock up to which its writes are visible to readers of the atomic
};
struct taken { // a read of a channel by the running cluster
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
  int status;   // error status if the kernel cannot be run
  bool stopped; // the run cannot continue, as in a deadlock
  // code
  int nslots, slot_cap, nmap, nvars;
  struct slot *slots;
  int *map;     // by node of the pool: its slot, or -1
  int *var_pos; // by variable: position of its definition in the text
  int position;
  int nsteps, step_cap, natoms, atom_cap;
  struct sim_step *steps;
  struct sim_atom *atoms;
  int *site_buf; // by site, atom * TILE_OPERANDS + operand: buffer of the operand
  // geometry
  int64_t nblocks;
  int nthreads, nwarps, cluster, nmbars, nagents;
  // memory
  struct gbuf *gl;
  struct sbuf *sh;
  struct rbuf *rf;
  int64_t shared_bytes, ncells, reg_bytes;
  int nmarks;
  int *mbar_of;     // by shared byte / 8: the mbarrier, or -1
  uint32_t time;    // the last clock given out
  uint32_t start;   // epoch at the start of the running cluster
  uint32_t *starts; // the same for all clusters so far
  int nstarts;
  uint64_t stamps;
  struct cta *ctas;
  // In the running cluster: mbar.leave was used; threads read shared memory of other blocks; by agent, when it last wrote there.
  bool leaves, fetches;
  uint32_t *sent;
  int begun; // no agent: the clock of this number tells a warp that all blocks of the cluster have begun
  struct gather cluster_gather;
  struct {
    int size[TILE_DIMS], stride[TILE_DIMS];
  } * maps; // slots of tensor maps
  int nchannels, channel_cap;
  struct channel **channels;
  struct taken *taken; // reads by the running cluster
  int ntaken, taken_cap;
  int error_cap;
};

// ---- sim_code.c ----
int code_slot(struct sim *s, ex x);
const struct vec *code_compute(struct warp *w, int slot);
static inline const struct vec *code_eval(struct warp *w, int slot)
{
  const struct slot *t = &w->s->slots[slot];
  if (t->kind == EX_VAR) return &w->vars[t->var];
  return w->stamp[slot] == (t->latest < 0 ? 1 : w->var_stamp[t->latest]) ? &w->values[slot] : code_compute(w, slot);
}
void code_set(struct warp *w, int var, const struct vec *value);
void code_add(struct warp *w, int var, const struct vec *value);
void code_set_all(struct warp *w, int var, int64_t value);
void code_reset(struct warp *w); // before a block

// ---- flow.c ----
int flow_compile(struct sim *s); // makes steps and atoms
typedef enum go (*sem_fn)(struct warp *w, const struct sim_atom *a);
sem_fn sem_find(enum sem sem); // semantics.c; NULL: not supported

// ---- warp.c, sched.c ----
void warp_run(struct warp *w); // runs a warp until it ends or waits
void sched_run(struct sim *s); // runs the blocks of a cluster

// ---- walk.c ----
struct walk {
  struct warp *w;
  const struct sim_atom *a;
  int64_t mode[TILE_MODES];
  bool done;
};
struct sim_place { // address of an operand's piece
  bool uniform;
  int64_t at[LANES]; // element offsets
  uint32_t mask;     // lanes whose guards hold
};
struct walk walk_begin(struct warp *w, const struct sim_atom *a);
void walk_next(struct walk *it);
void walk_place(const struct walk *it, int operand, struct sim_place *p);
// Loads `width` elements for each lane, [width][LANES]. The result may point to the registers. tmp: 32 * 32 * 8 bytes.
const void *walk_load(const struct walk *it, int operand, int width, void *tmp);
void walk_store(const struct walk *it, int operand, int width, const void *values);
bool walk_collective(struct warp *w, const struct sim_atom *a);          // are all threads of the group active? Reports an error if not
uint32_t walk_group(struct warp *w, const struct sim_atom *a, int lane); // mask of the lanes in this lane's group

// ---- access.c, shadow.c, quick.c ----
struct access {
  struct warp *w;
  const struct sim_atom *a;
  const struct sim_operand *op;
  bool write, atomic;
  int bytes;               // bytes per lane
  uint32_t mask;           // active lanes; bits of invalid accesses are cleared
  int64_t at[LANES];       // byte offsets in the buffer
  bool row;                // all lanes, with adjacent addresses
  bool near;               // shared memory of the block itself; otherwise `home` is used
  struct cta *home[LANES]; // the block whose shared memory is accessed
  struct cta *there;       // target block of a multicast in the cluster, or NULL
  int agent;               // the accessing agent
  uint32_t clock;
  bool async; // through the async proxy
  bool whole; // by all lanes together
  int one;    // the lane that makes the whole access; `at` then has pieces instead of lanes. -1: each lane its own
};
static inline int access_lane(const struct access *x, int piece) { return x->one < 0 ? piece : x->one; }
void access_init(struct access *x, struct warp *w, const struct sim_atom *a, int operand, int bytes);
void access_elements(struct access *x, const struct sim_place *p); // element offsets to swizzled byte offsets
bool access_reach(struct access *x);                               // checks peers, alignment, bounds; false: no lane is left
void access_check(struct access *x);                               // access_reach, then shadow and counts
void shadow_shared(struct access *x);
void shadow_global(struct access *x);
// quick.c: handles the common kind of access for the lanes `m` in order, up to the first lane of another kind. Returns the remaining lanes.
bool quick_may(const struct access *x);
uint32_t quick_reads(const struct access *x, const struct shadow *h, uint32_t *mine, uint32_t m);
uint32_t quick_writes(const struct access *x, struct shadow *h, uint32_t m);
uint32_t quick_global(const struct access *x, const struct gbuf *b, uint32_t m);
int shadow_stamp(const struct access *x, int piece); // the lane part of the access's epoch
uint16_t shadow_site(const struct access *x);
bool shadow_ordered(const struct access *x, int agent, uint32_t epoch, int lane);
int shadow_kind(const struct sim *s, int agent); // KIND_...; KINDS for an mbarrier
void shadow_who(const struct sim *s, int agent, uint32_t epoch, char out[96]);

static inline struct cta *access_home(const struct access *x, int piece) { return x->near ? x->w->cta : x->home[piece]; }
static inline uint8_t *access_buffer(const struct access *x, int piece) // start of the memory that `at` is relative to
{
  const struct sim *s = x->w->s;
  if (x->op->mem == MEM_GL) return s->gl[x->op->buf].data;
  return access_home(x, piece)->shared + s->sh[x->op->buf].offset;
}
static inline uint8_t *access_data(const struct access *x, int piece) { return access_buffer(x, piece) + x->at[piece]; }

// ---- regs.c ----
void *regs_at(struct warp *w, const struct sim_operand *op, int64_t element); // [LANES] elements; the functions below check the access
bool regs_read(struct warp *w, const struct sim_atom *a, int o, int64_t element, int n, uint32_t mask);
bool regs_write(struct warp *w, const struct sim_atom *a, int o, int64_t element, int n, uint32_t mask);
void regs_alloc(struct warp *w, int buf);
void regs_done(struct warp *w, uint32_t clock);                        // wgmma groups up to this clock are complete
void regs_blend(void *to, const void *from, int bytes, uint32_t mask); // copies the lanes of the mask

// ---- clocks.c, sync.c ----
void sync_tick(struct warp *w);
void sync_warp(struct warp *w, uint32_t lanes); // a barrier of these lanes of the warp
void sync_join(const struct sim *s, struct known to, struct known from);
bool sync_quad(struct warp *w, const struct sim_atom *a, enum go *go); // have all four warps of the warpgroup arrived?
void sync_open(struct warp *w, struct groups *g);                      // a copy begins in the open group
void sync_bump(uint32_t *to, uint32_t epoch);
void sync_publish(struct warp *w, struct known to); // adds the knowledge of w to `to`
void sync_take(struct warp *w, struct known from);  // adds `from` to the knowledge of the active lanes
void sync_some(struct warp *w);                     // knowledge added to w->some from here on is that of the active lanes
bool sync_ready(struct warp *w);
void sync_clear(struct sim *s, struct known k); // resets to the start of the block
void sync_done(struct warp *w, uint32_t *to);   // adds the warp's own accesses up to now to the clocks `to`
void sync_copy(const struct sim *s, struct known to, struct known from);
void sync_own(struct warp *w, struct known to); // adds the accesses of the active lanes to `to`
void sync_tell(struct warp *w, const struct sim_atom *a, int lane, int64_t at,
               bool reads);                                             // an atomic in global memory
bool sync_told(struct warp *w, int cluster, int agent, uint32_t epoch); // has w synchronized with that access of an earlier cluster?
struct known sync_known(struct sim *s);

// ---- sim_pool.c: registers that setmaxnreg moves
int pool_at_start(const struct sim *s);        // registers of a thread at the start
bool pool_take(struct warp *w, int registers); // sets the registers of a thread; false: not enough are free

// ---- the functions of semantics.def, in sim_move.c, point.c, lanes.c, sim_mma.c, sim_wgmma.c, tma.c, mbar.c, sync.c, groups.c
// ----
#define SEMANTIC(id, name) enum go name(struct warp *w, const struct sim_atom *a);
#include "sim/semantics.def"
#undef SEMANTIC

// ---- mbar.c ----
// Finds an initialized mbarrier. NULL: an error has been reported. there: the block that has it, or NULL.
struct mbar *mbar_find(struct warp *w, const struct sim_atom *a, int operand, int lane, struct cta *there);
bool mbar_ready(const struct mbar *b, uint32_t parity);
void mbar_copied(struct warp *w, struct mbar *b, int64_t bytes); // a bulk copy that signals it is complete

// ---- sim_count.c ----
void count_access(const struct access *x);
void count_finish(struct sim *s);

// ---- point.c ----
void point_binary(int op, enum tile_type t, const void *a, const void *b, void *out); // enum binary_op, LANES elements

// ---- sim_mma.c ----
void mma_product(int m, int n, int k, const float *a, const float *b,
                 float *c); // c[m + M n] += a[m + M k] b[n + N k]; M 8 or 16

// ---- sim_report.c ----
void report(struct warp *w, const struct sim_atom *a, enum sim_class c, int lane, const char *fmt, ...) PRINTF(5, 6);
void report_place(const struct sim_operand *op, int64_t byte, char out[96]); // "%name element 17"

#endif
