// The machine inside the interpreter; see sim.h for the glossary and the files.
//
// A block is a set of warps that run one after another, each until it has to wait. A warp executes steps: the
// statements of the kernel in a row, with jumps. Its 32 lanes go in lockstep under a mask; a loop lasts until no lane
// is left in it.
//
// Order. Clocks are drawn from one counter of the run, so an epoch says the agent's clock and, by its size, the block
// too: what is older than the start of the block does not exist in shared memory. A warp's knowledge holds, for its own
// agent, what all of its lanes know of one another, which is what happened before its last barrier.
#ifndef MICA_SIM_MACHINE_H
#define MICA_SIM_MACHINE_H

#include "sim/compiled.h"
#include "sim/number.h"

#include <string.h>

enum {
  MOST_WARPS = 32,
  LANE_BITS = 6, // of an epoch
  WHOLE = 63,    // lane of an epoch: all lanes at once
  STORED = 62,   // the same, of a store
  NAMED = 16,    // barriers of a block
  PARTIAL = 8,   // remembered barriers of parts of a warp
  PARTS = 8,     // remembered arrivals of parts of warps
  PENDING = 8,   // register ranges of a buffer that wgmma still uses
  GROUPS = 64,   // uncompleted groups of copies of a warp
};
#define FULL UINT32_MAX
#define EPOCH(clock, lane) ((uint32_t)(clock) << LANE_BITS | (uint32_t)(lane))

// ---- memory ----

struct gcell {          // of a global buffer that the kernel writes
  uint32_t write, read; // epochs of the last; 0: never
  uint16_t wagent, ragent;
  uint16_t site;     // the atom and operand that wrote
  bool atomic, many; // the last write; clusters before this one have read too
};
struct gbuf {
  uint8_t *data;
  int64_t bytes;
  int shift; // log2 of the granule
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
  int nreaders, nlive;
  int *reader;      // agents with reads
  uint32_t *latest; // of an agent's reads
  int *live;        // readers that the present store has to look at
};

// ---- waiting ----

// Vector clocks: what happened before; what of it the async proxy may see; what of it a fence has made visible to the
// GPU. They lie behind one another and are joined as one. Beside them, of the first, what only some lanes of a warp
// have published since the warp's last barrier: their own doing up to an epoch.
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
struct gather { // a barrier that warps arrive at
  int threads;  // arrived
  uint32_t phase;
  struct known acc, done;
  int atom; // of the first to arrive
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
  bool used; // the open group has copies
  struct group g[GROUPS];
};
enum wait_kind { WAIT_NONE, WAIT_GATHER, WAIT_MBAR, WAIT_REGISTERS, WAIT_DONE };
struct wait {
  enum wait_kind kind;
  struct gather *gather;
  struct mbar *mbar;
  uint32_t phase; // GATHER: wait while the phase is this; MBAR: the parity waited for; REGISTERS: how many
  int atom;
  bool joins; // takes over the knowledge of the barrier
};

enum { KIND_WARP, KIND_CP, KIND_WGMMA, KIND_BULK, KINDS };
struct sim_frame {
  uint32_t saved, other;
};
struct warp {
  struct cta *cta;
  struct sim *s;
  int number, agent;
  uint32_t lanes, active; // that exist; that execute
  int pc, depth, cap;
  struct sim_frame *frames;
  struct wait wait;
  bool again; // the wait before an atom is over
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
  struct known some;   // what only some lanes know, who have waited for it alone, until the warp's next barrier
  uint32_t some_lanes; // 0: nothing
  struct groups cp, bulk, wgmma;
  uint32_t cpdone; // copies of these epochs are done, each for its own lane
  int npartial;
  struct {
    uint32_t lanes, clock;
  } partial[PARTIAL];
  uint32_t regfence; // wgmma.fence count
  uint32_t cluster_phase;
  int allotted; // registers that a thread may use
};
struct pending {
  int n;
  struct {
    int lo, hi;
    uint32_t clock;
    bool write;
  } range[PENDING];
  bool dirty; // written since the last wgmma.fence by something else
};

struct quad { // a warpgroup: its products are issued by all four warps together and complete for all
  struct gather gather;
  bool open;      // products since the last commit
  uint32_t clock; // of the open group, or the last
};
struct cta {
  struct sim *s;
  int rank; // in the cluster
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
  struct sim_step *steps;
  struct sim_atom *atoms;
  int *site_buf; // buffer of an atom's operand, [atom * TILE_OPERANDS + operand]
  // geometry
  int64_t nblocks;
  int nthreads, nwarps, cluster, nmbars, nagents;
  // memory
  struct gbuf *gl;
  struct sbuf *sh;
  struct rbuf *rf;
  int64_t shared_bytes, ncells, reg_bytes;
  int nmarks;
  int *mbar_of;     // shared byte / 8 -> mbarrier, -1
  uint32_t time;    // the last clock
  uint32_t start;   // epoch at which the cluster's blocks began
  uint32_t *starts; // the same of all clusters so far
  int nstarts;
  uint64_t stamps;
  struct cta *ctas;
  bool leaves, exchanges; // by mbar.leave; threads move data between blocks of the cluster
  struct gather cluster_gather;
  struct {
    int size[TILE_DIMS], stride[TILE_DIMS];
  } * maps; // slots of tensor maps
  int nchannels, channel_cap;
  struct channel **channels;
  struct taken *taken; // by the running cluster
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
struct sim_place { // of an operand's piece
  bool uniform;
  int64_t at[LANES]; // elements
  uint32_t mask;     // lanes inside
};
struct walk walk_begin(struct warp *w, const struct sim_atom *a);
void walk_next(struct walk *it);
void walk_place(const struct walk *it, int operand, struct sim_place *p);
// `width` elements a lane, [width][LANES]; the result may be the registers themselves. tmp: 32 * 32 * 8 bytes.
const void *walk_load(const struct walk *it, int operand, int width, void *tmp);
void walk_store(const struct walk *it, int operand, int width, const void *values);
bool walk_collective(struct warp *w, const struct sim_atom *a);          // are all threads of the group here? reports
uint32_t walk_group(struct warp *w, const struct sim_atom *a, int lane); // lanes of the group of this lane

// ---- access.c, shadow.c, quick.c ----
struct access {
  struct warp *w;
  const struct sim_atom *a;
  const struct sim_operand *op;
  bool write, atomic;
  int bytes;               // a lane
  uint32_t mask;           // lanes; cleared where the access can not be made
  int64_t at[LANES];       // bytes from the start of the buffer
  bool row;                // all lanes, side by side
  bool near;               // shared memory of the block itself; else:
  struct cta *home[LANES]; // whose shared memory
  struct cta *there;       // NULL, or the block of the cluster that a multicast goes to
  int agent;               // who
  uint32_t clock;
  bool async; // through the async proxy
  bool whole; // by all lanes together
  int one;    // -1, or the one lane that does all of it: `at` are then pieces, not lanes
};
static inline int access_lane(const struct access *x, int piece) { return x->one < 0 ? piece : x->one; }
void access_init(struct access *x, struct warp *w, const struct sim_atom *a, int operand, int bytes);
void access_elements(struct access *x, const struct sim_place *p); // element offsets -> bytes, swizzled
bool access_reach(struct access *x);                               // peers, alignment, bounds; false: no lane is left
void access_check(struct access *x);                               // that, the shadow, the counts
void shadow_shared(struct access *x);
void shadow_global(struct access *x);
// quick.c: of the lanes `m`, in their order, those whose access is as nearly every one is, until one is not: what is left.
bool quick_may(const struct access *x);
uint32_t quick_reads(const struct access *x, const struct shadow *h, uint32_t *mine, uint32_t m);
uint32_t quick_writes(const struct access *x, struct shadow *h, uint32_t m);
uint32_t quick_global(const struct access *x, const struct gbuf *b, uint32_t m);
int shadow_stamp(const struct access *x, int piece); // lane of an epoch
uint16_t shadow_site(const struct access *x);
bool shadow_ordered(const struct access *x, int agent, uint32_t epoch, int lane);
int shadow_kind(const struct sim *s, int agent); // KIND_..., KINDS for an mbarrier
void shadow_who(const struct sim *s, int agent, uint32_t epoch, char out[96]);

static inline struct cta *access_home(const struct access *x, int piece) { return x->near ? x->w->cta : x->home[piece]; }
static inline uint8_t *access_buffer(const struct access *x, int piece) // what `at` counts from
{
  const struct sim *s = x->w->s;
  if (x->op->mem == MEM_GL) return s->gl[x->op->buf].data;
  return access_home(x, piece)->shared + s->sh[x->op->buf].offset;
}
static inline uint8_t *access_data(const struct access *x, int piece) { return access_buffer(x, piece) + x->at[piece]; }

// ---- regs.c ----
void *regs_at(struct warp *w, const struct sim_operand *op, int64_t element); // [LANES]; checked by those below
bool regs_read(struct warp *w, const struct sim_atom *a, int o, int64_t element, int n, uint32_t mask);
bool regs_write(struct warp *w, const struct sim_atom *a, int o, int64_t element, int n, uint32_t mask);
void regs_alloc(struct warp *w, int buf);
void regs_done(struct warp *w, uint32_t clock);                        // wgmma groups up to this are complete
void regs_blend(void *to, const void *from, int bytes, uint32_t mask); // LANES elements

// ---- clocks.c, sync.c ----
void sync_tick(struct warp *w);
void sync_warp(struct warp *w, uint32_t lanes); // lanes of the warp know one another
void sync_join(const struct sim *s, struct known to, struct known from);
bool sync_quad(struct warp *w, const struct sim_atom *a, enum go *go); // are the four warps of the warpgroup here?
void sync_open(struct warp *w, struct groups *g);                      // a copy begins in the open group
void sync_bump(uint32_t *to, uint32_t epoch);
void sync_publish(struct warp *w, struct known to); // what w knows goes into `to`
void sync_take(struct warp *w, struct known from);  // the active lanes get to know it
void sync_some(struct warp *w);                     // the next things are known to the active lanes alone
bool sync_ready(struct warp *w);
void sync_clear(struct sim *s, struct known k); // to the start of the block
void sync_done(struct warp *w, uint32_t *to);   // what the warp has done itself, up to now, as others see it who take it over
void sync_copy(const struct sim *s, struct known to, struct known from);
void sync_own(struct warp *w, struct known to); // what the active lanes have done goes into `to`
void sync_tell(struct warp *w, const struct sim_atom *a, int lane, int64_t at,
               bool reads);                                             // an atomic in global memory
bool sync_told(struct warp *w, int cluster, int agent, uint32_t epoch); // did w hear of it from that cluster?
struct known sync_known(struct sim *s);

// ---- sim_pool.c: registers that setmaxnreg moves
int pool_at_start(const struct sim *s);        // of a thread
bool pool_take(struct warp *w, int registers); // false: not enough are left

// ---- the functions of semantics.def, in sim_move.c, point.c, lanes.c, sim_mma.c, sim_wgmma.c, tma.c, mbar.c, sync.c, groups.c
// ----
#define SEMANTIC(id, name) enum go name(struct warp *w, const struct sim_atom *a);
#include "sim/semantics.def"
#undef SEMANTIC

// ---- mbar.c ----
// Initialized; NULL: reported. There: NULL, or the block in which it is.
struct mbar *mbar_find(struct warp *w, const struct sim_atom *a, int operand, int lane, struct cta *there);
bool mbar_ready(const struct mbar *b, uint32_t parity);
void mbar_copied(struct warp *w, struct mbar *b, int64_t bytes); // a bulk copy that counts on it is done

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
