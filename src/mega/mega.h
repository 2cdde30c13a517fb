// mega: plans a model's decode step as one persistent kernel. It divides the step into tasks, derives the events between them, proves the plan, and
// runs the same schedule with threads of this machine. docs/mega.md describes it to users.
//
// Glossary
//   layer       a kind of operator: a row of layer.def
//   model       tensors, and operators in the order of a sequential program
//   node        one operator in one repetition ("attend of layer 3"); a step is a list of nodes
//   work tile   one part of the grid of a node
//   task        the consecutive work tiles of a node that one worker runs
//   worker      one persistent block; its threads consume pieces, its producer fills the pipeline
//   region      the elements that a work tile reads or writes, as boxes
//   write       a node that writes a tensor; the writes of a tensor in a step are numbered from 0
//   version     one of the copies of a tensor, which its writes use in rotation
//   event       a signal that tasks publish and others wait for; each set of producer tiles has one
//   seat        the place of a row in a step that serves requests: its position and its request's pages
//   epoch       number of a write of a tensor, or of a step for an event, counted across steps
//   rank        one of the devices of a world; each runs the same plan on its shard of the weights
//   slot        the part of a shared tensor that one rank writes on every rank: a receive buffer for each rank
//
// Files
//   mega_spec.c       layer.def -> accesses
//   mega_model.c      models: tensors, operators, their shapes
//   mega_config.c     config.json -> the numbers of a transformer;  mega_llama.c  these -> a model;  mega_load.c  a model from a file
//   mega_print.c, mega_parse.c, mega_json.c  the text form and JSON
//   mega_region.c     regions of work tiles, boxes;  mega_seat.c  places of rows that serve requests
//   mega_plan.c       nodes, writes, schedule;  mega_view.c  queries of a plan;  mega_dump.c  plans as text
//   mega_world.c      shards; which rank writes to and signals which
//   mega_event.c      events of data;  mega_version.c  versions, events of reuse and of pipelines;  mega_clock.c  vector clocks
//   mega_price.c      the modelled time of a step (fact.def);  mega_parts.c  chooses the number of parts of attention by it
//   mega_prove.c      the proof;  mega_fault.c  faults that it finds;  prove_*.c  its checks (mega_prove.h)
//   mega_body.c, mega_attend.c, mega_experts.c, mega_serve.c  task bodies in C (mega_bodies.h);  mega_noise.h  random numbers for sampling
//   mega_run.c        threads;  mega_pipe.c  their pipelines;  mega_wait.c  waits, the watchdog;  mega_move.c  copies of boxes (mega_threads.h)
//   mega_values.c     weights from a seed;  mega_reference.c  a transformer in float64, without tasks (mega_run.h)
#ifndef MICA_MEGA_H
#define MICA_MEGA_H

#include "base/base.h"
#include "mega/mega_world.h"

#include <jansson.h>

enum { MEGA_DIMS = 6, MEGA_AXES = 3, MEGA_ACCESSES = 8, MEGA_ARGS = 6, MEGA_SYMBOLS = 12 };
enum { MEGA_MOST_OPS = 64, MEGA_MOST_TENSORS = 256, MEGA_MOST_LAYERS = 512, MEGA_MOST_WORKERS = 512, MEGA_MOST_ROWS = 64, MEGA_MOST_TILES = 65535 };
enum { MEGA_MOST_VERSIONS = 4, MEGA_STAGE = 16384, MEGA_MOST_NUMBER = 1 << 24 }; // the last: positions and experts are exact in fp32

enum mega_kind {
#define TENSOR_KIND(id, ...) MEGA_##id,
#define EVENT_KIND(...)
#include "mega/kind.def"
  MEGA_KINDS
};
enum mega_signal {
#define TENSOR_KIND(...)
#define EVENT_KIND(id, ...) MEGA_##id,
#include "mega/kind.def"
  MEGA_SIGNALS
};
struct mega_name {
  const char *name;
  bool flag; // `written` of a kind of tensor, `ordering` of a kind of event
  const char *doc;
};
extern const struct mega_name mega_kinds[], mega_signals[];

// Attributes of operators: MEGA_ATTR(name).
#define MEGA_ATTRS(X) X(heads) X(kv) X(dim) X(eps) X(theta) X(rope_factor) X(rope_low) X(rope_high) X(rope_original)
enum mega_attr {
#define X(name) MEGA_ATTR_##name,
  MEGA_ATTRS(X)
#undef X
      MEGA_ATTR_COUNT
};
extern const char *const mega_attr_names[];

// ---- mega_spec.c ----
// The elements that an access has of a dimension. MEGA_ANY: those that the values of another argument select.
enum mega_how { MEGA_WHOLE, MEGA_THIS_LAYER, MEGA_PART, MEGA_PAGE_NOW, MEGA_SLOT_NOW, MEGA_PAGE_PAST, MEGA_SLOT_PAST, MEGA_ANY };
struct mega_dim {
  enum mega_how how;
  int symbol;                             // of its extent; -1: the extent is `extent`
  int extent;                             // a number in the row
  int axis;                               // MEGA_PART: the axis that divides it; past positions: the axis that divides them, or -1
  int section;                            // MEGA_PART: the section that is divided; -1: the dimension has none
  int nsections, sections[MEGA_SECTIONS]; // their symbols, in order
  int decider;                            // MEGA_ANY: the argument whose values choose the elements; else -1
  bool cut;                               // pieces of a stream divide it
  bool table;                             // pages: those of the row's request, from the step's page table
};
// The shared memory in which a CUDA body keeps one row of an access: X(id, name). layer.def describes the names.
#define MEGA_ROOMS(X) X(ROW, "row") X(ALL, "all") X(ONE, "one") X(PAIRS, "pairs")
enum mega_room {
  MEGA_ROOM_NONE,
#define X(id, name) MEGA_ROOM_##id,
  MEGA_ROOMS(X)
#undef X
};
struct mega_access {
  int arg;
  enum mega_room room;
  bool out, stream;
  bool slots; // a read of the slots of all ranks
  int rank;
  struct mega_dim dim[MEGA_DIMS];
  int decider, decided; // of a stream: the access whose values choose elements of a dimension, and that dimension; else -1
};
struct mega_grid {
  int symbol; // the extent that is the number of parts; -1: the number that the operator requests
  char name[8];
};
struct mega_size { // symbol = product of two attributes
  int symbol, a, b;
};
struct mega_spec {
  int nsymbols, naxes, naccess, nargs, nsizes;
  char symbol[MEGA_SYMBOLS][12];
  struct mega_grid axis[MEGA_AXES];
  struct mega_access access[MEGA_ACCESSES];
  bool writes[MEGA_ARGS]; // by argument: whether it is written
  struct mega_size size[MEGA_SYMBOLS];
  uint32_t attrs; // bit a: the layer has attribute a
};
struct mega_task;
struct mega_layer {
  const char *name, *grid, *sizes, *attributes, *access, *program, *doc;
  void (*body)(struct mega_task *t);
};
extern const struct mega_layer mega_layers[];
extern const int mega_layer_count;
const struct mega_layer *mega_layer_find(const char *name);
// Parses a row. NO, with the place in `why`: a mistake in layer.def, which a test finds.
int mega_spec_read(const struct mega_layer *l, struct mega_spec *s, char why[160]);

// ---- mega_model.c ----
struct mega_tensor {
  const char *name;
  enum mega_kind kind;
  int type;               // row of mega_types
  int rank, versions;     // versions 0: as few as the proof accepts
  int64_t dim[MEGA_DIMS]; // on one rank
  bool shared;            // each rank writes a slot on every rank
  struct mega_shard shard;
  int like; // tensor, from 1, of whose values this is a shard; 0: it has its own values
};
struct mega_type {
  const char *name;
  int bits;
};
extern const struct mega_type mega_types[];
int mega_type_find(const char *name); // or -1
static inline int mega_bytes(int type) { return mega_types[type].bits / 8; }
int64_t mega_elements(const struct mega_tensor *t);

struct mega_after { // an event that the text names
  const char *op;
  int layer_back, step_back;
  int kind; // or -1
  struct loc at;
};
struct mega_op {
  const char *name;
  const struct mega_layer *layer;
  struct mega_spec spec;
  int repeat;           // number of layers; 0: it runs once
  int tiles;            // work tiles of a node
  int parts[MEGA_AXES]; // by axis: number of parts
  int64_t size[MEGA_SYMBOLS];
  int arg[MEGA_ARGS]; // tensors
  double attr[MEGA_ATTR_COUNT];
  int nafter;
  struct mega_after *after;
  struct loc at;
};
// The place of a row in a step that serves requests. A row that is not live works on the first page, which no request has.
struct mega_seat {
  bool live, moves;     // moves: the next step of the launch has its next position; else the row is idle in that step
  int64_t position;     // of the row's token in its request
  int64_t past;         // positions of the request, from 0, that earlier launches wrote
  int before;           // number of preceding rows of the same request, at the positions from `past`
  const int32_t *pages; // of the request, in the order of its positions; NULL: the row's share of the cache
};
struct mega_model {
  const char *name;
  int rows, workers, stages, stage_bytes, world;
  int input_bytes;              // shared memory of a block for pieces of the inputs of products with many rows; 0: not chosen yet
  int64_t context;              // positions of each row that the cache holds before the first step
  const struct mega_seat *seat; // of a step that serves requests, by row; NULL: each row is at `context`, with its own pages
  const uint16_t *order;        // of such a step: work tile i of an ordered operator computes tile order[i]; NULL: tile i
  int ntensors, nops;
  struct mega_tensor tensor[MEGA_MOST_TENSORS];
  struct mega_op op[MEGA_MOST_OPS];
};
int mega_tensor_find(const struct mega_model *m, const char *name); // or -1
int mega_op_find(const struct mega_model *m, const char *name);     // or -1
int mega_tensor_add(struct mega_model *m, const struct mega_tensor *t, struct loc at, struct err *e);
int mega_op_add(struct mega_model *m, const struct mega_op *op, struct err *e); // shapes are checked, `parts` and `size` are set
int mega_model_check(const struct mega_model *m, struct err *e);                // checks that concern several operators
// The part of a dimension that an access of this operator has: the offset and extent of a section, or 0 and the whole dimension.
int64_t mega_section(const struct mega_op *op, const struct mega_dim *d, int64_t *offset);

// ---- mega_config.c, mega_llama.c ----
struct mega_config {
  const char *name;
  int hidden, inner, layers, heads, kv, dim, vocab;
  int experts, choices; // of a layer; of a row. experts 0: one gated MLP. `inner` is that of an expert
  double eps, theta, rope_factor, rope_low, rope_high, rope_original;
  bool tied, qk_norm;
  int type; // of weights and cache
};
// The task that merges the parts of attention: chosen by the modelled time; an operator of its own; the next product when it loads its input.
#define MEGA_MERGES(X) X(ANY, "any") X(OPERATOR, "operator") X(PRODUCT, "product")
enum mega_merge {
#define X(id, name) MEGA_MERGE_##id,
  MEGA_MERGES(X)
#undef X
};
struct mega_sizes { // user settings besides the model. 0, or -1 for context: the value in the text, or else the default
  int rows, workers, stages, stage_bytes, steps, world;
  int parts; // parts of the positions in attention, one work tile each; 0: chosen by the modelled time
  enum mega_merge merge;
  int input_bytes;   // of struct mega_model
  int usual_workers; // default of a configuration instead of MEGA_WORKERS; 0: MEGA_WORKERS
  int64_t context;
  int pages; // of a cache that requests share; 0: each row has its own pages
};
enum { MEGA_MOST_CONTEXT = 1 << 20 }; // positions of a row before the first step; a plan lists their pieces
enum { MEGA_WORKERS = 132, MEGA_STAGES = 12, MEGA_CONTEXT = 128, MEGA_MOST_PARTS = 16 };
int mega_config_read(struct arena *mem, const char *text, size_t n, const char *file, struct mega_config *out, struct err *e);
int mega_from_config(struct arena *mem, const struct mega_config *c, const struct mega_sizes *s, struct mega_model **out, struct err *e);

// ---- mega_print.c, mega_parse.c, mega_json.c ----
struct mega_plan;
void mega_print(const struct mega_model *m, const struct mega_plan *p, struct str *out); // p: also prints its versions and events; or NULL
int mega_parse(struct arena *mem, const char *text, size_t n, const char *file, const struct mega_sizes *s, struct mega_model **out, struct err *e);
json_t *mega_model_json(const struct mega_model *m);
json_t *mega_plan_json(const struct mega_plan *p);
// Reads a model from a file: .mega text, or JSON with the fields of a transformer. *config is set for JSON, else NULL.
int mega_load(struct arena *mem, const char *path, const struct mega_sizes *s, struct mega_model **out, struct mega_config **config, struct err *e);

// ---- mega_region.c ----
struct mega_box {
  int64_t lo[MEGA_DIMS], hi[MEGA_DIMS];
};
struct mega_region {
  int n, cap;
  struct mega_box *box;
};
// Appends the elements of an access of work tile `tile`, in layer `layer` and step number `step`, as boxes.
void mega_region(struct arena *mem, const struct mega_model *m, const struct mega_op *op, int access, int layer, int tile, int64_t step,
                 struct mega_region *out);
// The same for any positions of requests. It contains all past positions, also if a grid axis divides them.
void mega_reach(struct arena *mem, const struct mega_model *m, const struct mega_op *op, int access, int layer, int tile, int64_t step,
                struct mega_region *out);
// Appends the boxes of a state tensor that have values before the first step.
void mega_filled(struct arena *mem, const struct mega_model *m, int tensor, struct mega_region *out);
bool mega_meet(int rank, const struct mega_box *a, const struct mega_box *b); // whether the boxes have an element in common
int64_t mega_volume(int rank, const struct mega_box *b);                      // number of elements
// Whether the boxes of `r` cover `from`. If not, `left` gets an element that they miss.
bool mega_covered(struct arena *mem, int rank, const struct mega_box *from, const struct mega_region *r, struct mega_box *left);
enum { MEGA_PIECE_UNIT = 32 }; // widths of larger pieces of weights are multiples of it, as tensor cores need
// Pieces of a stream's box: their number, the i-th piece, and its bytes. If data choose elements, a box is one choice: one element of that dimension.
int64_t mega_pieces(const struct mega_model *m, const struct mega_op *op, int access, const struct mega_box *box);
void mega_piece(const struct mega_model *m, const struct mega_op *op, int access, const struct mega_box *box, int64_t i, struct mega_box *out);
int64_t mega_piece_bytes(const struct mega_model *m, const struct mega_op *op, int access, const struct mega_box *piece);
bool mega_paged(const struct mega_model *m, const struct mega_op *op, bool table); // whether op accesses a paged cache, by a page table or not
void mega_box_text(int rank, const struct mega_box *b, struct str *out);

// ---- mega_seat.c ----
enum { MEGA_TOP = 64 };                                                           // most tokens from which limited sampling chooses
bool mega_served(const struct mega_model *m);                                     // its rows have seats
struct mega_seat mega_seat_of(const struct mega_model *m, int row, int64_t step); // in step `step` of a launch
int64_t mega_pages_of(const struct mega_model *m, int64_t *slots);                // of the served cache; *slots: positions of a page
// Whether each step orders the work tiles of the operator: attention over the cache of requests. Its time grows with a request's length, so the order
// gives each worker tiles that take about equally long together.
bool mega_ordered(const struct mega_model *m, const struct mega_op *op);
// Sets the order of the tiles of all ordered operators by the seats: op->tiles numbers. All these operators have the same number of tiles.
void mega_order_make(struct arena *mem, const struct mega_model *m, const struct mega_op *op, const struct mega_seat *seat, uint16_t *order);
// Whether the proof covers a step with these seats. pages: the number of pages in each row's table.
int mega_seats_check(const struct mega_model *m, const struct mega_seat *seat, const int *pages, int steps, struct err *e);
// The seats for which a proof is repeated, by number. NULL: there are no more.
struct mega_seat *mega_seats_sample(struct arena *mem, const struct mega_model *m, int number);
const uint16_t *mega_order_sample(struct arena *mem, const struct mega_model *m, int number); // NULL: none

// ---- mega_plan.c ----
struct mega_node {
  int op, layer;
};
struct mega_span { // work tiles lo .. hi - 1
  int lo, hi;
};
struct mega_event {
  int node; // the node whose tiles publish it
  int nspans;
  struct mega_span *span; // these tiles, ascending
  enum mega_signal kind;
  int tensor;            // the tensor that its producers wrote; for reuse, the one that they read
  bool reuse;            // it orders the reuse of a version, and carries no data
  int ranks;             // ranks whose tiles publish it: 1, the own rank; or all of the world
  int64_t count;         // the increment by a step: tiles of a counter, tasks of a flag, tiles of tagged data
  bool release, acquire; // memory order of the publication and of the wait
  bool barrier;          // of the block, between its stores and the publication
};
// Whether all that was written before the event is visible to all who waited for it.
static inline bool mega_event_orders(const struct mega_event *ev) { return mega_signals[ev->kind].flag && ev->release && ev->acquire && ev->barrier; }
struct mega_wait {
  int node, lo, hi; // these tiles of the node wait
  int event;
  int back;    // steps: 0: the event of this step, 1: of the previous step
  int write;   // tagged data: the write whose epoch the words must have
  bool stream; // the producer of the pipeline waits, not the consumers
};
struct mega_implied { // a derived wait that was dropped because others imply it
  int op, from;       // the waiting operator, and the one that it waits for
  int layer_back, step_back;
};
enum mega_load { MEGA_LOAD_PLAIN, MEGA_LOAD_CONST, MEGA_LOAD_WORDS, MEGA_LOAD_BULK }; // BULK: bulk copies of pieces into shared memory, by products
struct mega_held {                                                                    // the storage of a tensor in a plan
  int nwrites, *write;                                                                // nodes of a step that write it, in order
  int versions;
  bool tagged;
  int word_bytes;     // of tagged data, with the epoch
  int64_t word_group; // elements after which a new word begins: all tiles begin and end at multiples of it
  enum mega_load load;
};
struct mega_feed { // how a block copies the input of a product with many rows. slots 0: a part of it together with each piece of the weights
  int slots;       // most pieces of the input in shared memory
  int pieces;      // pieces of the input
  int group;       // most work tiles that are multiplied with each piece
};
struct mega_plan {
  const struct mega_model *m;
  int nnodes;
  struct mega_node *node;
  int *pipe;         // nodes in the order in which producers fill the pipeline
  uint16_t *lo, *hi; // [node][worker]
  bool *fence;       // by node: its tasks have a proxy fence after their waits
  int nevents, events_cap, nwaits, waits_cap;
  struct mega_event *event;
  struct mega_wait *wait; // ascending by node
  int nimplied, implied_cap;
  struct mega_implied *implied; // without duplicates
  struct mega_held held[MEGA_MOST_TENSORS];
  struct mega_feed feed[MEGA_MOST_OPS]; // by operator; for the modelled time alone
  bool whole_words;                     // the target never tears words of 16 bytes
  struct mega_world world;
};
// Stores the nodes of a step in sequential order, unless `to` is NULL. Returns their number.
int mega_nodes_make(const struct mega_model *m, struct mega_node *to);
int mega_plan_make(struct arena *mem, const struct mega_model *m, struct mega_plan **out, struct err *e);

// ---- mega_world.c ----
// The whole tensor of which ranks have shards. The second function maps element `at` of a rank's shard to its element.
void mega_whole(const struct mega_model *m, const struct mega_tensor *t, struct mega_tensor *out);
int64_t mega_whole_at(const struct mega_model *m, const struct mega_tensor *t, int rank, int64_t at);
static inline int mega_slots(const struct mega_model *m, const struct mega_tensor *t) { return t->shared ? m->world : 1; }

// ---- mega_values.c ----
// Scale of a tensor's weights; 0: it is a gain. *table_rows: for tokens, the rows of the table that they index; else 0.
double mega_value_scale(const struct mega_model *m, int tensor, int64_t *table_rows);

// ---- mega_view.c ----
static inline const struct mega_op *mega_op_of(const struct mega_plan *p, int node) { return &p->m->op[p->node[node].op]; }
static inline struct mega_span mega_share(const struct mega_plan *p, int node, int worker)
{
  size_t at = (size_t)node * (size_t)p->m->workers + (size_t)worker;
  return (struct mega_span){p->lo[at], p->hi[at]};
}
int64_t mega_shared_tiles(const struct mega_event *ev, struct mega_span s); // tiles of a task that publish the event
// The write that an access reads: the last one before the node, else the last of the previous step (*back = 1). -1: no node writes the tensor.
int mega_read_write(const struct mega_plan *p, int node, int tensor, int *back);
int *mega_first_waits(struct arena *mem, const struct mega_plan *p); // by node: index of its first wait; nnodes + 1 of them
void mega_node_name(const struct mega_plan *p, int node, char out[80]);
int mega_event_tasks(const struct mega_plan *p, const struct mega_event *ev);     // tasks that publish it
int64_t mega_event_count(const struct mega_plan *p, const struct mega_event *ev); // increment by a step
// Bytes of weights that an operator streams in a step, in all its layers. Experts count as often as rows choose them.
int64_t mega_weight_bytes(const struct mega_model *m, const struct mega_op *op);
enum { MEGA_COPY_GB = 4280 }; // rate of a copy on an H200, GB/s: the bound of docs/mega.md

// ---- mega_event.c, mega_version.c ----
// An activation is tagged, in words of MEGA_WORD bytes, if a step has at most MEGA_TAGGED_ROWS rows and the activation at most MEGA_TAGGED_VALUES
// values. The activation of a step of one row may have MEGA_TAGGED_ROW values. A larger activation of so few rows is tagged too if each reading tile
// reads at most MEGA_TAGGED_VALUES values, which at most MEGA_TAGGED_TILES tiles wrote. With more rows, an event of MEGA_FLAG_TASKS or more tasks is
// a flag.
enum { MEGA_TAGGED_ROWS = 8, MEGA_TAGGED_VALUES = 4096, MEGA_TAGGED_ROW = 16384, MEGA_TAGGED_TILES = 16, MEGA_WORD = 16, MEGA_FLAG_TASKS = 256 };
// Whether the access is the input of a product with several rows: [rows, k] or [rows, parts, k], whole, and the operator also streams weights.
bool mega_input_of_rows(const struct mega_model *m, const struct mega_op *op, int access);
bool mega_few_values(int rows, int64_t values); // whether such an activation of fp32 values is tagged
void mega_events_derive(struct arena *mem, struct mega_plan *p);
void mega_events_stream(struct arena *mem, struct mega_plan *p, int node); // adds waits of the node's pipeline for state of the previous step
int mega_event_add(struct arena *mem, struct mega_plan *p, const struct mega_event *ev); // returns an equal event if there is one
int mega_versions_choose(struct arena *mem, struct mega_plan *p, struct err *e);
int mega_after_check(const struct mega_plan *p, struct err *e); // checks the `after` lines of the text

// ---- mega_clock.c ----
// Vector clocks of two steps. A task is numbered by its instance, step * nnodes + node. For each worker, a clock has the number of instances that are
// known to have ended. In a world, as many numbers follow for the workers of any other rank, since all ranks run the same plan. ALL: by chains in
// which every event has release and acquire semantics, so all memory is visible. SOME: by chains in which one event has them. CHAIN: by any chain.
enum mega_order { MEGA_ALL, MEGA_SOME, MEGA_CHAIN, MEGA_ORDERS };
struct mega_known { // by kind of clock: a number for each worker
  uint32_t *of[MEGA_ORDERS];
};
struct mega_clocks {
  const struct mega_plan *p;
  int steps, *first_wait;   // by node: index of its first wait; nnodes + 1 of them
  struct mega_known *begun; // [instance][worker]: after all waits of the task
  struct mega_known *event; // [step][event]: after the end of all tasks that publish it
  int *fenced;              // [instance][worker]: the last instance up to this one with a proxy fence, or -1
};
enum { MEGA_STEPS = 2 };
bool mega_clocks_make(struct arena *mem, const struct mega_plan *p, struct mega_clocks *out); // false: out of memory
static inline const struct mega_known *mega_begun(const struct mega_clocks *c, int instance, int worker)
{
  return &c->begun[(size_t)instance * (size_t)c->p->m->workers + (size_t)worker];
}
// The clock of a task before its first tile. The second function adds the waits of tile `tile`, after the tiles before it.
void mega_clock_start(const struct mega_clocks *c, int instance, int worker, struct mega_known *k);
void mega_clock_tile(const struct mega_clocks *c, int instance, int worker, int tile, struct mega_known *k);
struct mega_known mega_known_new(struct arena *mem, const struct mega_plan *p);
// Drops waits for events that order memory if other waits already order all that they cover.
bool mega_waits_prune(struct arena *mem, struct mega_plan *p); // false: out of memory

// ---- mega_price.c, mega_parts.c ----
struct mega_fact {
  const char *name;
  double value;
  const char *unit, *doc;
};
extern const struct mega_fact mega_facts[];
struct mega_price {  // ns
  double step, busy; // busy: time of memory transfers in a step
  double *end;       // by node: the end of its last task, from the end of the previous step
};
void mega_price(struct arena *mem, const struct mega_plan *p, struct mega_price *out); // simulates a step
// Sets parts and merge of *s, where they are open, to those with the least modelled time. Only a few of the layers are simulated.
int mega_parts_choose(const struct mega_config *c, struct mega_sizes *s, struct err *e);

#include "mega/mega_proof.h"

// ---- mega_dump.c ----
void mega_plan_text(const struct mega_plan *p, struct str *out);
// what: regions, events, schedule or model. Another name is an error.
int mega_dump(struct arena *mem, const struct mega_plan *p, const char *what, struct str *out, struct err *e);

#endif
