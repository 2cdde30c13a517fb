// space: the private header of the search, which computes the paper's Algorithm 1. docs/search.md explains the method: index classes, symbolic sizes,
// saturation, kernels as edges.
//
// Glossary
//   class          the dimensions that one index letter of an einsum names: the program forces them to have one index. A class of extent n is divided
//                  into three pieces, n = grid * loop * tile, whose extents stay symbolic
//   mask           a set of pieces, bit 3 * class + piece
//   labels         the classes of each dimension of a tensor, in order. A dimension may have several classes (query heads = kv heads x group), or
//                  none (extent 1)
//   visit          a tensor of the program under one labelling; a tensor that is used in two roles has two visits
//   value          a tensor of a block graph as a function of pieces: those stored in the tile, and those that the block and iteration index fix. Two
//                  derivations of one value are two ways to compute it
//   schedule       the classes of the grid axes and of the loop axis
//   device tensor  data that one kernel stores in device memory for another: whole classes, or only the grid piece of a class (partial sums)
//   unit           a piece of work whose result depends only on its number: a schedule to saturate, a set of device tensors to find kernels for, a
//                  plan to verify
//
//   classes.c         program -> classes and visits
//   finger.c          values over small extents and a prime field: the identity of a value
//   finger_memo.c     fingerprints that were computed before
//   abstract.c        normal form of an operator's result
//   pairs.c           pairs of expressions that the oracle rejects
//   vocabulary.c      the operators worth trying for a program
//   values.c          all values of one schedule (saturation)
//   prefixes.c        the operators to try if no oracle prunes
//   cuts.c            tensors that earlier kernels store for later ones
//   extract.c         the graphs that compute given values
//   work.c            the kinds of work of a structure, for the cost model
//   cost.c            seconds of a sized kernel, by the rules of cost_cpu.c or cost_gpu.c
//   sizes.c           extents of grid, loop and tile for a structure
//   search_build.c    structure and sizes -> block graph
//   assemble.c        kernels -> kernel graph
//   conditions.c      products by conditions as the program has them
//   search_options.c  the kernels that make a set of device tensors
//   keep.c            the selection among these kernels
//   beam.c            the best partial plans
//   kernels.c         chains of kernels that end in the program's outputs
//   spread.c          plans with other tile sizes, between which measurement decides
//   trial.c           plans -> verified kernel graphs
//   units.c           units of work: stored for a later run, shared with other processes
//   search_pack.c     tables and options as bytes
//   covers.h          whether a given kernel graph is in the space
//   alike.c           equivalent forms of a given graph
//   excluded.c        which given graphs are in the space, and what excludes the others
//   stem.c            programs that read parts of inputs
//   apart.c           products that are split where the program slices an operand
//   calls.c           functions of one tensor as single operators
//   chain.c           row-wise programs of any length, by rule
//   fuse_parts.c      programs without products, by rule
//   free_dims.c       dimensions that no operator mixes
//   by_rule.c         results of these rules
//   setup.c           the start of a search and of a probe
//   probe.c           whether a program is too large for one search
//   search.c          search_run, which calls all of these
#ifndef MICA_SPACE_H
#define MICA_SPACE_H

#include "search/search.h"

#include <pthread.h>

enum { MAX_CLASSES = 20, MAX_VISITS = 256, MAX_AXES = MAX_GRID };
enum piece { GRID, LOOP, TILE };
typedef uint64_t mask;

static inline mask bit(int c, enum piece p) { return (mask)1 << (3 * c + (int)p); }
static inline mask all_of(int c) { return (mask)7 << (3 * c); }

// ---- classes.c -----------------------------------------------------------------------------------------

enum search_kind { FREE = 1, CONTRACTED = 2, REDUCED = 4 }; // uses of a class in the program; several may apply

struct index_class {
  int64_t extent; // in the program
  unsigned kind;
  int small[3];      // extents of the pieces in fingerprints
  uint64_t prime[3]; // the pieces' symbols in sum factors
  char name[24];     // "Q.1": a tensor and dimension where it occurs first
};
struct dim {
  int8_t n, c[7]; // outermost first
};
struct labels {
  int n;
  struct dim d[MAX_DIMS];
};
struct visit {
  int tensor; // of the program
  int in[2];  // visits of its producer's operands, or -1
  struct labels l;
  mask full; // all pieces of its classes
};
struct space {
  const struct graph *p;
  int nclass, nvisit;
  struct index_class classes[MAX_CLASSES];
  struct visit visit[MAX_VISITS];
  int nout;
  int out[64]; // visits of the program's outputs
};

mask labels_mask(const struct labels *l);
// NO if no class structure exists; `why` has the reason. The program then runs operator by operator.
int classes_build(struct space *s, const struct graph *p, char why[160]);
void classes_shrink(struct space *s); // fingerprints over tiles alone: much smaller, and nearly as selective

// ---- finger.c: values over small extents and one pair of primes ----------------------------------------

struct fv { // an element: mod p, and mod q unless it depends on an exponential
  uint32_t p, q;
};
struct finger { // a tensor over the pieces in `has`, row-major in the order of bits
  mask has;
  bool q; // the q parts exist
  int64_t n;
  struct fv *v;
};
struct finger_prime {
  uint32_t n, carry; // carry: 2^32 mod n
  uint64_t inverse;  // floor(2^64 / n)
};
struct fctx { // one for each search; read-only after finger_open
  const struct space *s;
  struct finger_prime p, q; // drawn by the seed
  uint64_t key;             // for opaque functions
  uint32_t power[3][2048];  // omega^x by digits of x
};
void finger_open(struct fctx *f, const struct space *s, uint64_t seed);
int64_t finger_size(const struct space *s, mask has);
// Input tensor t of the program under its visit's labels.
void finger_input(const struct fctx *f, struct arena *mem, const struct visit *v, struct finger *out);
void finger_const(const struct fctx *f, struct arena *mem, double x, struct finger *out);
// Elementwise op on one or two operands (y NULL for one). False: an exponential of an exponential.
bool finger_map(const struct fctx *f, struct arena *mem, enum op op, const struct attrs *a, const struct finger *x, const struct finger *y,
                struct finger *out);
// Sum (or keyed maximum) over the pieces in `over`; scale: times 1 / this unless 1; squares: of the squares.
void finger_fold(const struct fctx *f, struct arena *mem, enum op op, const struct finger *x, mask over, int64_t scale, struct finger *out);
// Sum over `over` of x * y.
void finger_product(const struct fctx *f, struct arena *mem, const struct finger *x, const struct finger *y, mask over, struct finger *out);
uint64_t finger_hash(const struct finger *x);

// ---- finger_memo.c: fingerprints that were computed before -----------------------------------------------

struct finger_key { // an operator and its operands
  enum op op;
  int index;     // of the program's instance, or -1
  mask over;     // pieces that it sums over
  uint64_t a, b; // hashes of the operands' fingerprints; b is 0 for one operand
};
struct finger_row {
  struct finger_key key;
  struct finger f;
  uint64_t hash; // of f
};
struct finger_memo {
  struct arena *mem;
  int n, cap;
  struct finger_row *row;
  int nslot, *slot; // hash index, from 1
};
const struct finger_row *finger_memo_find(const struct finger_memo *m, const struct finger_key *k); // NULL: it is new
void finger_memo_put(struct finger_memo *m, const struct finger_row *row);                          // row->key is new

// ---- abstract.c: normal forms ----------------------------------------------------------------------------

// Atoms: the program's input tensors by index, and these.
uint32_t atom_scalar(double x); // a constant of the program
uint32_t atom_inverse(int c);   // 1 / extent of class c, the factor of a mean
// Normal form of an elementwise operator on x (and y).
nf abstract_map(struct expr *ex, enum op op, const struct attrs *a, nf x, nf y);
uint64_t abstract_factor(const struct space *s, mask over); // the sum factor of a reduction over these pieces

// The expressions and fingerprints of the program's own values, by visit. The search must reach those of the outputs.
struct reference {
  nf e[MAX_VISITS];
  struct finger f[MAX_VISITS];
  uint64_t hash[MAX_VISITS];
};
// NO if a path has a second exponential, which a fingerprint cannot represent.
int reference_build(struct reference *r, struct arena *mem, const struct fctx *f, struct expr *ex);

// ---- pairs.c: pairs of expressions that the oracle rejects --------------------------------------------------------------

// BACK: the expression with the higher number is the denominator. ALL: every elementwise operator of the vocabulary.
enum { PAIR_ADD = 1, PAIR_MUL = 2, PAIR_DIV = 4, PAIR_DIV_BACK = 8, PAIR_ALL = 16 };
struct pairs { // pairs of expressions of one context
  struct arena mem;
  int *number; // of a normal form, from 1; 0: none
  uint32_t nnumber;
  int n, cap;
  uint8_t **row; // row[a][b], b <= a: the operators whose result on a and b is rejected
};
int pairs_number(struct pairs *p, nf e);                // from 0; -1 if there are too many
uint8_t *pairs_at(const struct pairs *p, int a, int b); // NULL if one has no number

// ---- values.c: saturation ----------------------------------------------------------------------------------

struct search_schedule {
  int ngrid, grid[MAX_GRID]; // classes on the axes
  int loop;                  // class of the loop axis, or -1
};

// A device tensor that kernels may read: a program input, or a possible result of earlier kernels.
struct device {
  mask has; // whole classes, or only the grid piece of one
  nf e[64]; // in each worker's context
  uint64_t ehash;
  struct finger f;
  uint64_t hash;
  int visit; // visit of the program if it is one of its tensors, else -1
  int input; // program tensor if it is an input, else -1
};

struct deriv { // one way to compute a value
  enum op op;
  int a, b;  // values, b = -1 where unary
  int cls;   // class folded or contracted; for MUL_SCALAR the class whose 1/extent it is; else -1
  int attrs; // index into the program's instances, or -1
  int next;  // next derivation of the same value, or -1
};
struct search_value {
  mask has, stored;
  enum phase phase; // FIXED, VARYING or AFTER
  nf e;
  int number; // of e, in the worker's pairs
  uint64_t ehash, hash;
  struct finger f; // freed when the schedule is complete
  int leaf;        // device tensor it is loaded from, or -1
  int der;         // first derivation, or -1
};

// Operators worth trying for this program: elementwise ones with their attributes.
struct instance {
  enum op op;
  struct attrs a;
  int cls; // MUL_SCALAR by 1 / extent of this class, or -1
};
struct pairing { // an elementwise operator on a pair of values
  enum op op;
  int index;     // of the program's instance, or -1
  bool swapped;  // on y and x instead of x and y
  bool mirrored; // the result is that on x and y, so rule `canon` excludes it
};
struct vocabulary {
  int n;
  struct instance *i;
  struct instance plain[OPS];                                 // operators that are tried on all pairs and have no attributes
  bool add, sub, neg, mul, div, product, sum, mean, rms, max; // families present
  bool outer;                                                 // elementwise operators may broadcast both operands
  int npairing, pairing_cap;
  struct pairing *pairing; // in the order in which they are tried on a pair
};
void vocabulary_build(struct vocabulary *v, struct arena *mem, const struct space *s);

struct table { // all values of one schedule
  struct search_schedule sch;
  const struct vocabulary *voc;
  int n, cap;
  struct search_value *v;
  int nd, dcap;
  struct deriv *d;
  int *bucket; // hash index over values
  int nbucket;
  bool cut;          // more values than the limit
  int met;           // number of leading values that were paired with all before them
  uint8_t *least[2]; // for extract(): least number of operators for each value; [1]: results of earlier kernels are leaves
  int nwork;         // of work_open: number of kinds of work that occur
  struct work *work;
  int *load_work, *save_work, *deriv_work; // the kind of work that loads a device tensor, saves a value, computes a derivation
  int *computed_work;                      // the kind of work of a product of which the block computes both operands
};
struct worker { // data of one thread
  int id;
  struct expr *ex;
  struct reference ref;
  struct pairs pairs;
  struct arena scratch;
  struct finger_memo *memo; // of fingerprints in scratch; NULL: those of values that are not new are freed at once
  struct search_stats stats;
};
// All values of schedule t->sch over the given device tensors, in mem; fingerprints in w->scratch.
void saturate(struct table *t, struct arena *mem, struct worker *w, const struct fctx *f, const struct vocabulary *voc, const struct device *dev,
              int ndev, const struct search_opts *o);
// Continues with an opened table until `upto` values were paired with all before them. Returns whether more remains.
bool saturate_more(struct table *t, struct arena *mem, struct worker *w, const struct fctx *f, const struct search_opts *o, int upto);
// Whether a kernel may save value v of t. If so, *has is the mask of the device tensor.
bool value_saveable(const struct space *s, const struct table *t, const struct search_value *v, mask *has);

// The first steps of saturation: an empty table, then the values that its kernels can load.
void table_open(struct table *t, struct arena *mem, struct worker *w, const struct fctx *f, const struct vocabulary *voc, const struct device *dev,
                int ndev, const struct search_opts *o);
// Recomputes the expression and the fingerprint (in w->scratch) of value i by its first derivation. The table was read from bytes. False: the results
// differ from its hashes.
bool value_restore(struct table *t, struct worker *w, const struct fctx *f, const struct search_opts *o, int i);
// The result of one operator on values of t, as masks and phase; false if no operator fits.
bool value_derive(const struct space *s, const struct table *t, const struct deriv *d, struct search_value *v);

// ---- prefixes.c: the operators to try if no oracle prunes -------------------------------------------------------------

struct made { // values, by number
  int n, cap, *v;
};
struct prefixes {
  int leaves;         // number of loaded values, which come first
  int max_ops, roots; // most operators of a graph, and most results that it may end in
  int most;           // most prefixes of one length
  void *arg;
  // Applies all operators to value x, and to value y <= x if y >= 0. `left` more operators may follow. Useful results are appended to `made` in mem.
  // Returns false if a limit was reached.
  bool (*apply)(void *arg, int x, int y, int left, struct arena *mem, struct made *made);
  int (*least)(void *arg, int v); // least number of operators that must follow v before a graph can end
};
// Calls apply() once for every value and pair that occurs in some prefix of a graph. False: a limit was reached.
bool prefixes_walk(const struct prefixes *a);

// ---- setup.c: the start of a search and a probe ----

enum { SEARCH_LONG = 40 }; // most operators for which index classes are built
// Sets defaults for zeros. *later_ops: that of struct planner.
void search_defaults(struct search_opts *o, const struct graph *p, int *later_ops);
int workers_open(struct worker *w, int n, struct arena *mem, const struct fctx *f, const struct search_opts *o); // as reference_build
void workers_close(struct worker *w, int n);
int schedules_build(struct arena *mem, const struct space *s, struct table **all); // empty tables; returns how many
bool visit_given(const struct space *s, int v);                                    // whether it is an input or a constant of the program
const struct node *device_constant(const struct space *s, const struct device *d); // the program's constant for it, or NULL
struct device visit_device(const struct space *s, const struct worker *w, int nworker, int v);

// ---- units.c: units of work -----------------------------------------------------------------------------------

struct bytes { // input of a reader; invalid bytes read as 0
  const unsigned char *p, *end;
  bool bad;
};
// Units first to first + n - 1 of one stage. A unit is made at once, or continued several times until it is complete. Stages: a schedule over inputs;
// a schedule with one axis, for partial sums of cuts; a schedule over inputs and cuts; a set of device tensors; a plan; sets of later rounds.
enum { UNIT_INPUTS, UNIT_PARTS, UNIT_CUTS, UNIT_OPTIONS, UNIT_PLAN, UNIT_OPTIONS_AGAIN };
struct batch {
  int stage, first, n;
  bool kept; // whether its units are stored
  void *arg;
  bool (*make)(void *arg, int i, int worker, double until); // returns whether it is complete; should return soon after `until`
  void (*pack)(void *arg, int i, struct str *out);
  bool (*unpack)(void *arg, int i, struct bytes *in, bool *whole); // false: invalid bytes
};
struct units {
  const struct search_opts *o;
  struct search_stats *stats; // counts resumed units
  int batches;                // number of batches so far
  pthread_mutex_t lock;       // of the store
  bool stopped;               // some process of the crew was stopped, and every process received that
};
void units_open(struct units *w, const struct search_opts *o, struct search_stats *stats);
void units_close(struct units *w);
void units_run(struct units *w, const struct batch *b); // until all units are complete, or a stop
bool units_stopped(const struct units *w);              // equal in all processes of the crew

// ---- search_pack.c: tables and options as bytes -----------------------------------------------------------------------

void put_number(struct str *s, uint64_t x);
uint64_t get_number(struct bytes *b, uint64_t most); // values above `most` are invalid
void put_whole(struct str *s, const void *x, size_t n);
void get_whole(struct bytes *b, void *x, size_t n);
void stats_pack(const struct search_stats *s, struct str *out);
void stats_unpack(struct search_stats *s, struct bytes *in);
void table_pack(const struct table *t, struct str *out);
// Masks and phases are not stored, so operators are applied again. t has its schedule and leaves (table_open) and no other values.
bool table_unpack(struct table *t, struct arena *mem, const struct space *s, struct bytes *in);

// ---- extract.c: graphs -----------------------------------------------------------------------------------

enum { MAX_PICK = 64, MAX_LEAVES = 12 };
struct pick { // one block graph: values in order of computation, leaves first
  int n, ops; // ops: without leaves
  int value[MAX_PICK];
  int deriv[MAX_PICK]; // derivation taken, or -1 for a leaf
};
// Prepares t for extract(). Leaves numbered first_extra or more are made by earlier kernels.
void extract_open(struct arena *mem, struct table *t, int first_extra);
// Calls take() for every graph of at most max_ops operators that computes all roots from leaves, smallest first. At most max_extra leaves may be
// device tensors numbered first_extra or more. Stops when take() returns false, or at the step limit; then returns false.
bool extract(const struct table *t, const int *roots, int nroots, int max_ops, int first_extra, int max_extra,
             bool (*take)(void *arg, const struct pick *p), void *arg);

// ---- work.c: the work of a kernel that determines its cost ----

enum work_kind { WORK_LOAD, WORK_PRODUCT, WORK_PASS, WORK_SAVE }; // PASS: elementwise operators, reductions, accumulators
struct work {                                                     // of one value; no padding, so that bytes can be compared
  double ops;                                                     // PASS: operations an element
  mask stored;                                                    // the tile that is filled
  mask over, batch, rows, cols;                                   // PRODUCT; PASS: rows are the elements that are visited, SAVE: that are written
  int kind, device;                                               // device: what LOAD reads
  int looped;                                                     // whether it is repeated in each iteration
  int elem;                                                       // bytes of an element of the tile; 0: no tile is filled
  int8_t feeds, folds;    // only if the rules have `feeds`. LOAD: a product reads the tile; PASS: elements are summed
  int8_t pairs, computed; // PRODUCT: pairs of bf16 numbers are multiplied; the block computes both operands
  int8_t frozen, zero[3]; // PRODUCT: the second operand is packed before
};
enum { MAX_ROOTS = 6 };
struct works { // works of a kernel, in the order of its values
  int n, id[MAX_PICK + MAX_ROOTS];
};
struct model {
  const struct space *s;
  const struct target *t;
  const struct device *dev;
};
// Whether products of these values multiply pairs of bf16 numbers (matmul.c of gen). Tiles are fp32.
bool values_make_pairs(const struct model *m, const struct search_value *a, const struct search_value *b);
void work_open(struct arena *mem, const struct model *m, struct table *t);
// The work of the kernel that computes `roots` according to p.
void work_of(const struct table *t, const struct pick *p, const int *roots, int nroots, struct works *w);

// ---- cost.c: seconds of one kernel -----------------------------------------------------------------------------------

struct sizes {
  int64_t ext[MAX_CLASSES][3]; // extents of the pieces; grid * loop * tile = the class
  int64_t blocks, iterations;
};
int64_t size_of(const struct sizes *z, mask m);
struct search_term { // the contribution of some work to a kernel's cost for given sizes
  double compute;    // seconds of one core for all blocks; on a GPU, in products
  double unique;     // bytes of device memory touched once
  double again;      // bytes read again by other blocks or iterations; on a GPU, all bytes from L2 to multiprocessors
  double streams;    // bytes that elementwise operators and reductions read and write in tiles; on a GPU, seconds of one
                     // multiprocessor for them, in all blocks
  double tile;       // bytes of tiles; on a GPU, those in shared memory that are loaded once
  double ring;       // GPU: bytes of shared memory that each iteration loads
  double registers;  // bytes of tiles in registers
  double steps;      // seconds that a block waits for its own results: barriers, consecutive products
  double once;       // the part of compute and streams that is outside of the loop
  double parts;      // partial sums that are read one after another, except the first
  double passed;     // GPU: tiles that a block computes for products, over all iterations
};
struct cost_rules { // rules of a kind of target
  struct search_term (*term)(const struct model *m, const struct work *w, const struct sizes *z);
  double (*seconds)(const struct model *m, const struct search_term *sum, const struct sizes *z);
  bool (*fits)(const struct model *m, const struct search_term *least); // whether a kernel with at least this work is possible
  bool (*spills)(const struct model *m, const struct search_term *sum); // whether tiles that do not fit may be in a slower memory; NULL: never
  double (*library)(const struct target *t, const struct graph *p, const struct node *n);
  double (*operate)(const struct target *t, double elements, double ops); // seconds of all cores for elementwise operators
  bool (*extent)(int64_t whole, int64_t tile, bool looped);               // whether a tile extent of a class is good; NULL: all are
  int64_t step;                                                           // loop step if no extent is good; 0: unchanged
  int lattice;                                                            // number of sizes that are tried first
  bool feeds;                                                             // works have `feeds` and `folds`
  bool pairs;                                                             // works have `pairs`
  int spread;                                                             // number of plans with other sizes that are listed for each plan
  double fill;                                                            // least number of blocks for each core in a chain
};
extern const struct cost_rules cost_cpu, cost_gpu;
const struct cost_rules *cost_rules(const struct target *t);
struct search_term cost_term(const struct model *m, const struct work *w, const struct sizes *z);
static inline void cost_add(struct search_term *sum, const struct search_term *x) // the most frequent addition of a search
{
  sum->compute += x->compute, sum->unique += x->unique, sum->again += x->again, sum->streams += x->streams;
  sum->tile += x->tile, sum->ring += x->ring, sum->registers += x->registers, sum->steps += x->steps, sum->once += x->once, sum->parts += x->parts;
  sum->passed += x->passed;
}
// Sizes as the cost model counts them. Returns a factor, slightly above 1, that orders sizes of equal cost.
double cost_sizes(const struct model *m, const struct table *t, const struct sizes *z, struct sizes *paid);
double cost_kernel(const struct model *m, const struct table *t, const struct works *w, const struct sizes *z);
// Cost of the kernel with this sum of works. Infinite if its tiles exceed the target's scratch.
double cost_seconds(const struct model *m, const struct search_term *sum, const struct sizes *z);
// Cost of a library operator for program node n.
double cost_library(const struct model *m, const struct node *n);

// ---- cuts.c: tensors that earlier kernels store for later ones ----

struct cut {        // a tensor that later kernels may read
  int table, value; // the value that computes it
  double cost;      // lower bound in seconds for a plan through it, if computed
};
struct cut_source {
  const struct model *m;
  const struct fctx *f;
  const struct reference *ref;
  const struct table *tables;
  int ntables, ndev; // existing ones in m->dev
  bool parts;        // only partial sums of these
};
// Whether a later kernel may need v: it is partial sums or, unless `parts` is set, the result of a sum or product.
bool cut_offered(const struct space *s, const struct table *t, const struct search_value *v, bool parts);
// Offers the values whose fingerprints were kept and that are new, in the order of tables. If there are more than `most`, offers those with the
// cheapest plans and sets *all to false.
int cuts_choose(struct arena *mem, const struct cut_source *from, int most, struct cut **out, bool *all);

// ---- sizes.c --------------------------------------------------------------------------------------------------

struct ground; // all sizes of a schedule
struct point;  // one of them
struct sized {
  struct point *at;
  double cost;
};
// If `fixed` >= 0, the grid extent of that class is given; it divides the class.
struct ground *sizes_open(struct arena *mem, const struct model *m, const struct table *t, int fixed, int64_t extent);
// The cheapest sizes of the kernel with this work, at most `most`, best first; returns their number (0: nothing fits).
int sizes_choose(struct ground *g, const struct works *w, struct sized *out, int most, uint64_t *too_large);
double sizes_cost(const struct ground *g, struct point *p, const struct works *w);
const struct sizes *sizes_of(const struct point *p);

// ---- search_build.c: block graphs ---------------------------------------------------------------------------------------

// A tensor of the kernel graph under construction; where blocks read it, each dimension has at most one class.
struct search_placed {
  int tensor; // in the kernel graph; -1 while it is missing
  struct labels l;
};
// Adds the BLOCK node of p to kernel graph g. dev_at[i]: the tensor for device tensor i. The roots' device tensors are written to made[k], with
// dimensions in the order want[k] (n < 0: any).
int build_block(struct graph *g, const struct space *s, const struct table *t, const struct pick *p, const struct sizes *z, const struct device *dev,
                const struct search_placed *dev_at, const int *roots, int nroots, const struct labels *want, struct search_placed *made,
                struct err *e);

// ---- search_options.c: the kernels that make a set of device tensors -----------------------------------------------------

enum { MAX_CHAIN = 16, HOMES = 4, PART_COUNTS = 5, MOST_OPTIONS = 256 };

// A kernel that makes device tensors `make` from others.
struct option {
  int table; // -1: a library operator, program node `node`
  int node;
  struct pick p;
  struct sizes z;
  int nmake, make[MAX_ROOTS], root[MAX_ROOTS]; // device tensors, and the values that are saved for them
  int nneed, need[MAX_LEAVES];                 // device tensors from earlier kernels
  int split;                                   // class whose grid piece is kept in its partial sums, or -1
  int64_t parts;                               // and its extent
  double cost;
  int kernels;        // 0 for a view
  uint64_t structure; // hash without sizes
  uint64_t needs;     // hash of needs, split and parts
};
struct planner {
  const struct stem *stem;   // of the program, or NULL
  const struct calls *calls; // of its core; or NULL
  const struct model *m;
  struct table *tables;
  int ntables, *home;     // home[(table * ndev + device) * HOMES + i]: values to save for it, then -1
  int nfixed, ncut, ndev; // devices: inputs and constants, then cuts, then outputs
  const struct search_opts *o;
  int later_ops; // operators of a block graph that reads results of earlier kernels; o->max_block_ops is for the others
  struct search_stats *stats;
  struct arena *mem;
  struct units *units;
  int few;       // graphs taken of a schedule at a time in the early pass; 0: all
  bool complete; // whether no limit on graphs was reached
  bool all_sets; // whether no limit on sets of tensors that one kernel makes was reached
  int round;     // number of times that plans were rebuilt without refused kinds of kernels; nrefused: number of these kinds
  int nrefused, refused_cap;
  uint64_t *refused;
};
struct options {
  int nmake, make[MAX_ROOTS];
  int split; // class of the partial sums, which their reader fixes; or -1
  int64_t parts;
  int n;
  struct option *o;
  struct kept *kept; // of keep.c
  int step;          // number of tables examined; one more after library operators
  uint64_t graphs, too_large;
  bool complete;
  double bound; // of kernels.c, for single device tensors: lower bound on the cost of a chain of kernels that makes these
  int chain;    // lower bound on the number of its kernels
};
// The i-th number of parts of partial sums: 2, 4 ... 32, or the nearest divisor of the extent up to a factor of sqrt(2). 0: there is none.
int64_t part_count(int64_t extent, int i);
bool partial_class(const struct space *s, mask has, int *c); // whether a device tensor is partial sums, and over which class
struct options *options_open(struct arena *mem, const int *make, int nmake, int split, int64_t parts);
void options_clear(struct options *x);                           // to its state after options_open
bool options_step(const struct planner *pl, struct options *to); // processes one more table; false: it was the last. Changes only *to
// Adds the tensors that p reads and earlier kernels make to the needs of x. Sets *reads to the class of partial sums among them, or -1. False: p
// reads parts of two classes, or parts of a class while x stores parts of another.
bool option_reads(const struct planner *pl, struct option *x, const struct pick *p, int *reads);
uint64_t option_structure(const struct table *t, const struct pick *p);
uint64_t option_kind(const struct option *x); // hash of the tensors that it reads and makes, and of a library operator, but not of how it computes
bool option_refused(const struct planner *pl, const struct option *x); // is its kind among those that no scheme takes?
uint64_t option_needs(const struct option *x);
bool option_library(const struct planner *pl, const struct options *to, struct option *x); // false: there is none
int canonical_device(const struct planner *pl, int d); // the representative of all device tensors of one program tensor
void options_pack(const struct planner *pl, const struct options *x, struct str *out); // search_pack.c
bool options_unpack(const struct planner *pl, struct options *x, struct bytes *in);    // x as options_open made it, or changed

// ---- keep.c: the selection among these kernels ----

void keep_open(struct arena *mem, struct options *to);
void keep_clear(struct options *to);
void keep_option(struct options *to, const struct option *x);
// An option with these needs and schedule is kept if it costs less than this, or if it replaces an option of its own structure. 0: it is never kept.
// near: enough options of its schedule are kept.
double keep_below(const struct options *to, uint64_t needs, int table, bool *near);
// Adds a kept option that was read from bytes. False: there is no room.
bool keep_append(struct options *to, const struct option *x);
void keep_pack(const struct options *to, struct str *out);
bool keep_unpack(struct options *to, struct bytes *in); // the needs that were ever seen: their entries stay in use

// ---- beam.c: the best partial plans ------------------------------------------------------------------------------

struct plan { // kernels, the last one first
  int n;
  const struct option *k[MAX_CHAIN];
  double cost;
  uint64_t structure, family, kind; // family: the same kernels, regardless of how they compute; kind: the same axes too
};
enum { MAX_NEEDS = 12 };
struct unfinished { // a partial plan
  struct plan p;
  double bound; // estimated cost of the complete plan
  int kernels, nneed, need[MAX_NEEDS];
  int ndone, done[MAX_CHAIN * 2];
  int split;
  int64_t parts;
  uint64_t heavy; // hash of the needs that are most of the remaining cost
};
struct beam { // the best states of one length; a heap with the worst on top
  int n, most;
  struct unfinished **s;
  uint64_t *age; // breaks ties
  uint64_t ages;
  int same; // number of states that may have the same `heavy`; 0: any
};
struct beam beam_open(struct arena *mem, int most);
void beam_push(struct arena *mem, struct beam *b, const struct unfinished *s); // copies s if there is room or it replaces a worse state
// Sorts the states, best first. The result is no heap: empty it before the next beam_push.
void beam_sort(struct beam *b);

// ---- kernels.c: chains of kernels --------------------------------------------------------------------------------

enum { MAX_SETS = 8, MOST_JOINT = 120 }; // sets of tensors that one kernel makes: most tried in a step; most in total
// The cheapest plans, at most `most`, best first.
int plan_kernels(struct planner *pl, struct plan *out, int most);

// ---- spread.c: plans with other sizes ----

// Copies plans plan[0..n) with other sizes to `out`, at most `most` in all and `each` for the first plan of each family. Returns their number.
int plans_spread(struct planner *pl, const struct plan *plan, int n, struct plan *out, int each, int most);

// ---- assemble.c: plans as kernel graphs -----------------------------------------------------------------------------

int assemble(struct arena *mem, const struct planner *pl, const struct plan *p, struct graph **out, struct err *e);
bool plan_order(const struct plan *p, int *order); // kernels in their order in the graph; false: they depend on each other
void plan_text(const struct planner *pl, const struct plan *p, char *text, size_t n);

// ---- conditions.c ---------------------------------------------------------------------------------------------------

// Products by conditions in *g become masks if p has masks alone.
int conditions_mask(struct arena *mem, struct graph **g, const struct graph *p, struct err *e);

// ---- trial.c: verified kernel graphs ---------------------------------------------------------------------------------

// Makes graphs of at most `most` plans, and of their other sizes. Keeps the best that the verifier accepts and the pricer can price, best first, in
// mem. Counts them in pl->stats. After a stop it returns at least one, if there is one.
void plans_verified(struct arena *mem, struct planner *pl, int most, struct search_result *r);

// ---- covers.c: is a graph in the space? -----------------------------------------------------------------------------

// False: *why is the reason why the match of g ended.
bool space_covers(struct arena *mem, const struct planner *pl, const struct graph *g, char *why, size_t room);

// ---- alike.c: equivalent graphs ----

enum { MOST_ALIKE = 4 };
struct alike {
  struct graph *g;
  enum alike_as as;
};
// Forms of g, which equals p: without parts that compute nothing, then with other axes. Returns the number of forms.
int graphs_alike(struct arena *mem, const struct graph *p, const struct graph *g, uint64_t seed, struct alike out[MOST_ALIKE]);
enum op op_without_loop(enum op op); // the reduction that replaces an accumulator without a loop

// ---- search.c: the whole search ----

struct question { // the graphs to decide: whether the space contains each
  int n;
  struct graph *const *g;
  struct cover *out;
};
// asked: decide these graphs instead of searching plans. NULL: search plans.
void search_space(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, const struct question *asked,
                  struct search_result *r);

// ---- chain.c: programs of any length that work row by row ------------------------------------------------------------

// One block graph for the whole program, its rows divided into `blocks` parts; NULL if an operator mixes rows.
struct graph *chain_build(struct arena *mem, const struct graph *p, int64_t blocks);

// ---- by_rule.c: one block graph for the whole program ------------------------------------------------------------------

// rows: programs without products are included. Makes no search.
void by_rule(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, bool rows, struct search_result *r);
// The same if one of its graphs takes at most o->enough seconds. Otherwise false and no results.
bool by_rule_is_enough(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, struct search_result *r);
// Adds the graphs of by_rule to the results of a search, in the order of cost.
void also_by_rule(struct arena *mem, const struct graph *p, const struct target *t, const struct search_opts *o, struct search_result *r);

// ---- stem.c: programs that read parts of inputs --------------------------------------------------------------------------

struct stem {
  const struct graph *p; // p with its sums split
  struct graph *core;    // p with parts of inputs as inputs
  int n, *from;          // the source tensors of p for the core's inputs, in order
};
bool stem_of(struct arena *mem, const struct graph *p, struct stem *out);               // false: p needs no change
struct graph *stem_put(struct arena *mem, const struct stem *s, const struct graph *g); // a graph of p from a graph of the core

// ---- calls.c: functions of one tensor as single operators ----

enum { MOST_CALLS = 3 };
struct calls {
  const struct graph *p;
  struct graph *core; // p with a single operator in place of each of these functions
  int n;
  enum op as[MOST_CALLS];             // operators that p does not have
  const struct graph *of[MOST_CALLS]; // and the functions that they stand for: graphs of one input
};
bool calls_of(struct arena *mem, const struct graph *p, struct calls *out);               // false: there are none
bool search_is_hard_as_is(const struct graph *p, const struct search_opts *o);            // probe.c, without such operators and stems
struct graph *calls_put(struct arena *mem, const struct calls *c, const struct graph *g); // a graph of p from a graph of the core; NULL: it fails

// ---- apart.c: products that are split where the program slices an operand ----

const struct graph *sums_apart(struct arena *mem, const struct graph *p); // returns p if there are none

// ---- free_dims.c, fuse_parts.c: programs without products ----------------------------------------------------------------

struct free_dims {          // classes of dimensions that no operator mixes, in the order of the first output
  int n, *of;               // indexed by tensor * MAX_DIMS + dimension: its class, or -1
  int64_t extent[MAX_DIMS]; // largest number of parts that each of its dimensions has
};
bool free_dims_of(struct arena *mem, const struct graph *p, struct free_dims *out); // false: an operator cannot be fused

enum { FUSE_TILE = 1 << 14 }; // elements
// One block graph for the whole program, with tiles of about that many elements; NULL if an operator does not belong in a kernel without products.
struct graph *fuse_parts(struct arena *mem, const struct graph *p, int64_t tile);
bool fuse_parts_can(const struct graph *p);           // p has a split or concat, and such a graph exists
bool fuse_rows_can(const struct graph *p, int least); // such a graph exists, with at least that many blocks or little work

#endif
