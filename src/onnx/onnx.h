// onnx: models in the format of ONNX, read, divided into programs that Mica can express and single nodes that stay as
// they are, and run. docs/onnx.md describes it to users.
//
// Glossary
//   model      a file of protobuf's wire format (ModelProto), and the files that its external data lies in; all mapped
//   value      a tensor of the model's graph, by its name: an input, an initializer, or what a node makes
//   cells      elements in memory, 8 bytes each: double for reals, int64_t for integers and bools
//   known      of a value: its cells are the same whatever the inputs are (initializers, and what follows from them)
//   lowering   a node becomes operators of Mica in a kernel graph, by the function of its row in node.def
//   host       a node is run by a simple function on cells: shapes, indices, what moves or compares
//   taken, folded, left, unsupported   what becomes of a node, enum onnx_fate
//   program    a convex set of taken nodes (no path leaves it and comes back) as one kernel graph
//   step       what a run does one after the other: a program, or a left node
//
// Files
//   type.def   element types;   node.def  operators: a row says how one is lowered and run
//   map.c      files, mapped
//   onnx_wire.c  protobuf's wire format
//   fields.c   messages by tables of fields
//   model.c    ModelProto -> structs; read_node.c: NodeProto; tensor.c: TensorProto and external data; onnx_names.c: values by name
//   function.c functions of the model, written out where they are called
//   open.c     a model from its file or bytes: checked, symbolic extents set
//   cells.c    elements: from raw bytes and back, rounding, boxes of them
//   small.def, small_float.c   floating-point types of at most 8 bits
//   simple.def operators that only simple functions run;   act.def, fold.def, fn.def  activations, reductions, functions of elements
//   host_*.c   nodes on cells;   host_graph.c  graphs in attributes
//   onnx_lower.c  building the operators of a node; lower_*.c: lowerings
//   write_*.c  nodes that are written out as simpler ones: attention
//   fuse.c     several nodes that are one operator: gelu, silu
//   plan.c     the fate of every node
//   convert.c  conversions of types that no program can hold
//   onnx_group.c  taken nodes -> convex sets
//   onnx_program.c  sets -> kernel graphs and steps
//   onnx_report.c  what was taken and why not, as text and JSON
#ifndef MICA_ONNX_H
#define MICA_ONNX_H

#include "base/doc.h"
#include "front/front.h"

enum onnx_type {
#define TYPE(id, number, ...) ONNX_##id = number,
#include "onnx/type.def"
#undef TYPE
};
enum onnx_kind { NEITHER, REAL, WHOLE };
const char *onnx_type_name(int type);       // "float32"; "type 77" for others
int onnx_type_bits(int type);               // of an element; 0: unknown
size_t onnx_type_size(int type, int64_t n); // bytes of n elements as ONNX stores them
int64_t onnx_type_least(int type);          // of integers
int64_t onnx_type_most(int type);           // of integers; of uint64 what an int64_t holds
enum onnx_kind onnx_type_kind(int type);
bool onnx_type_dtype(int type, enum dtype *t); // Mica's; false: it has none

enum {
  ONNX_OLDEST = 7,
  ONNX_NEWEST = 28, // opsets of the default domain
  ONNX_NODES = 1 << 15,
  ONNX_VALUES = 1 << 17,
  ONNX_FILES = 256,
  ONNX_FUNCTIONS = 4096,
  ONNX_PROGRAM_TENSORS = 6000, // of one program
};
static const int64_t ONNX_KNOWN_CELLS = (int64_t)1 << 22; // of one value that is computed while a model is read
static const int64_t ONNX_MOST_KNOWN = (int64_t)1 << 24;  // of all of them together

// ---- map.c: a file mapped for reading -----------------------------------------------------------------------
struct onnx_map {
  const char *path;
  const uint8_t *p; // NULL: empty
  size_t n;
};
int onnx_map_open(struct arena *mem, const char *path, struct onnx_map *map, struct err *e);
void onnx_map_close(struct onnx_map *map);

// ---- onnx_wire.c: protobuf's wire format ---------------------------------------------------------------------------
struct onnx_bytes {
  const uint8_t *p;
  size_t n;
};
enum wire_kind { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5, WIRE_ANY = 8 };
struct wire_field {
  uint32_t number;
  enum wire_kind kind;
  uint64_t value;          // of VARINT, 64 and 32
  struct onnx_bytes bytes; // of BYTES
};
struct onnx_wire {
  const uint8_t *p, *end;
  const char *bad; // what is wrong at p, or NULL
};
bool wire_next(struct onnx_wire *w, struct wire_field *f); // false at the end, and where it is bad
bool wire_varint(struct onnx_wire *w, uint64_t *x);

// ---- fields.c, model.c, tensor.c --------------------------------------------------------------------------------------------
struct onnx_ints {
  int64_t *v;
  int n, cap;
};
struct onnx_texts {
  const char **v;
  int n, cap;
};
struct onnx_tensor {
  const char *name;
  int type;
  struct shape shape; // extents may be 0
  const uint8_t *raw; // elements as ONNX stores them, little-endian
  size_t bytes;
  int file;       // of model->files: where raw lies; -1: in no file, it was decoded
  int64_t offset; // in that file
};
struct onnx_attr {
  const char *name;
  int64_t i;
  double f;
  const char *s;
  struct onnx_ints ints;
  struct onnx_texts texts;
  double *floats;
  int nfloats, floats_cap;
  struct onnx_tensor *t;
  struct onnx_graph *g;
  bool graphs;     // it holds a list of graphs
  const char *ref; // it stands for an attribute of a function around; "": it does not
};
struct onnx_graph {          // in an attribute: the body of a loop, a branch
  struct onnx_texts in, out; // names
  struct onnx_node *nodes;
  struct onnx_tensor **inits;
  int nnodes, nodes_cap, ninits, inits_cap;
};
enum onnx_fate {
  ONNX_FOLDED,      // known when the model is read
  ONNX_TAKEN,       // part of a program
  ONNX_LEFT,        // run as it is
  ONNX_UNSUPPORTED, // cannot be run
};
struct onnx_row;
struct onnx_node {
  const char *name, *type, *domain, *overload;
  int64_t opset; // of the default domain, for this node
  int nin, nout, in_cap, out_cap;
  const char **in_name, **out_name; // "": absent
  int *in, *out;                    // values; -1: absent
  int ncaptured, captured_cap;      // of graphs in attributes: names that they take from around
  const char **captured;            // in the model; "": of no value of it
  const char **captured_as;         // in the graphs
  struct onnx_attr *attrs;
  int nattrs, attrs_cap;
  // plan.c and fuse.c
  const struct onnx_row *row; // NULL: there is none
  const char *as;             // fused: the operator that it stands for; else NULL
  int into;                   // fused: the node that does its work; else -1
  enum onnx_fate fate;
  const char *why;   // it was not taken
  int group;         // of TAKEN; -1: it is part of another node, or nothing uses it
  int tensors, work; // of TAKEN: tensors it makes in a graph, operators that compute
  bool used;         // an output follows from it
  bool converts;     // left by convert.c
  bool made;         // written out of another node
};
struct onnx_value {
  const char *name;
  int type; // 0: unknown
  struct shape shape;
  bool shaped; // type and shape are known
  bool input, output;
  const struct onnx_tensor *init; // of an initializer
  const struct onnx_cells *known; // its elements, or NULL; of an initializer made when asked for
  int node;                       // that makes it, or -1
  int uses;                       // by nodes and outputs
};
struct onnx_dim { // a symbolic extent of an input
  const char *name;
  int64_t is;
};
struct onnx_program {
  const char *name;
  struct graph *g;
  int nnodes, nin, nout;
  int *nodes, *in, *out; // nodes and values of the model
};
struct onnx_step {
  int program, node; // the other is -1
};
struct onnx_names;
struct onnx_function;
struct onnx_model {
  struct arena *mem;
  const char *path, *name, *producer;
  const char *folder; // that external data must lie in; NULL: there is none
  int64_t opset;      // of the default domain; 0: none is said
  bool other_domain;  // an operator set of another is
  int nfiles;
  struct onnx_map files[ONNX_FILES]; // [0]: the model
  struct onnx_node *nodes;
  struct onnx_value *values;
  struct onnx_tensor **inits;
  struct onnx_dim *dims;
  int nnodes, nodes_cap, nvalues, values_cap, ninits, inits_cap, ndims, dims_cap;
  struct onnx_function *functions;
  int nfunctions, functions_cap;
  int *inputs, *outputs, ninputs, noutputs, inputs_cap, outputs_cap; // values; initializers are no inputs
  struct onnx_names *names;
  int nset;
  const struct setting *set;
  int64_t known_cells; // computed so far
  bool narrow_weights; // programs may hold weights that were widened as they were before
  int left_again;      // conversions that a program had to leave; then programs are made anew
  int written;         // numbers in names that were made
  struct onnx_program *programs;
  struct onnx_step *steps;
  int nprograms, nsteps;
};

// Parses bytes into m (files[0].p is where they lie); raw data stays there.
int onnx_read_model(struct onnx_model *m, struct onnx_bytes b, struct err *e);
int onnx_bad(const struct onnx_model *m, struct err *e, const char *fmt, ...) PRINTF(3, 4);
// A text of the model, checked to be printable; NULL after an error.
const char *onnx_text(struct onnx_model *m, struct onnx_bytes b, struct err *e);
int onnx_read_tensor(struct onnx_model *m, struct onnx_bytes b, struct onnx_tensor *t, struct err *e);
int64_t onnx_elements(const struct shape *s); // 0 where an extent is 0

// ---- function.c ----
int onnx_inline(struct onnx_model *m, struct err *e); // every call of a function of the model becomes its nodes

// ---- onnx_names.c ----
int onnx_find(const struct onnx_model *m, const char *name); // the value, or -1
int onnx_value_of(struct onnx_model *m, const char *name);   // made if need be

// ---- open.c ----
// Everything lives in mem but the mappings, which onnx_close ends; it may be called after an error too.
int onnx_open(struct arena *mem, const char *path, int nset, const struct setting *set, struct onnx_model **out, struct err *e);
// The same from bytes that outlive the model; folder: where external data may lie, or NULL.
int onnx_open_bytes(struct arena *mem, const uint8_t *p, size_t n, const char *path, const char *folder, int nset, const struct setting *set,
                    struct onnx_model **out, struct err *e);
void onnx_close(struct onnx_model *m);
bool onnx_looks(const char *path); // is the file a model, by what it begins with?

// ---- cells.c ----
struct onnx_cells {
  int type;
  struct shape shape;
  union {
    double *f;
    int64_t *i;
    void *p; // NULL: only type and shape are known
  };
};
const struct onnx_cells *onnx_known(struct onnx_model *m, int value);      // its elements where they are known and few, else NULL
double *onnx_cells_doubles(struct arena *mem, const struct onnx_cells *c); // elements as float64; of reals c's own
void onnx_cells_from_doubles(struct onnx_cells *c);                        // its elements are float64, whatever its type; then they are of it
struct onnx_cells *onnx_cells_new(struct arena *mem, int type, const struct shape *s);
void onnx_cells_read(struct onnx_cells *c, const uint8_t *raw);  // from elements as ONNX stores them
void onnx_cells_round(struct onnx_cells *c);                     // to what its type can hold
uint64_t onnx_cells_bits(const struct onnx_cells *c, int64_t i); // of element i, which is rounded
void onnx_cells_from_bits(struct onnx_cells *c, int64_t i, uint64_t bits);

// ---- small_float.c ----
enum onnx_rounding { ROUND_NEAREST, ROUND_UP, ROUND_DOWN }; // of powers of two; others are rounded to nearest, ties to even
bool onnx_small(int type);                                  // a row of small.def
double onnx_small_read(int type, int bits);
// saturate: what is too large becomes the largest number, else an infinity or NaN.
double onnx_small_round(int type, double x, bool saturate, enum onnx_rounding rounding);

// ---- nodes: rows of node.def ----
struct onnx_lower;
struct onnx_host;
struct onnx_write;
enum { MADE = 1 << 20 }; // since: no opset has it
struct onnx_row {
  const char *domain, *type;
  int since, least, most;              // since: the first opset in which it is, or MADE; inputs
  void (*lower)(struct onnx_lower *l); // NULL: it is never an operator of Mica's
  enum op op;                          // that lower uses
  void (*host)(struct onnx_host *h);   // NULL: it has no simple function
  int fn;                              // that host uses
  const char *without;                 // why there is no lowering
  void (*write)(struct onnx_write *w); // writes it out as others; then it has no function of its own
};
extern const struct onnx_row onnx_rows[];
extern const int onnx_row_count;
const struct onnx_row *onnx_row_find(const char *domain, const char *type);     // or NULL
bool onnx_domain_known(const char *domain);                                     // is an operator of it in the table?
const struct onnx_attr *onnx_attr(const struct onnx_node *n, const char *name); // or NULL
int64_t onnx_attr_int(const struct onnx_node *n, const char *name, int64_t otherwise);
double onnx_attr_real(const struct onnx_node *n, const char *name, double otherwise);
const char *onnx_attr_text(const struct onnx_node *n, const char *name, const char *otherwise);

// ---- host_graph.c ----
const char *onnx_graph_refused(struct arena *mem, const struct onnx_graph *g); // why it cannot be run, or NULL

// ---- host_*.c ----
struct onnx_host {
  struct arena *mem;
  const struct onnx_node *n;
  const struct onnx_row *row;
  int64_t most; // most cells that one result may have
  int nin;
  const struct onnx_cells **in;       // NULL: absent; with p == NULL only its type and shape are there
  struct onnx_cells **out;            // made by the function; with p == NULL where elements of an input are not there
  const struct onnx_cells **captured; // what graphs in attributes take from around; NULL: it is not known
  bool runs;                          // else the model is planned
  bool failed;
  bool late; // it failed because something is known only when the model runs
  char why[240];
};
// Runs n, or infers the shapes of what it makes. false: why says why not.
bool onnx_host_run(struct onnx_host *h);
void host_fail(struct onnx_host *h, const char *fmt, ...) PRINTF(2, 3);
void host_late(struct onnx_host *h, const char *what);        // fails: what is computed when the model runs, so that a shape is not known
const struct onnx_cells *host_in(struct onnx_host *h, int k); // fails where it is absent
bool host_ready(const struct onnx_host *h);                   // all elements are there
struct onnx_cells *host_out(struct onnx_host *h, int k, int type, const struct shape *s); // p where host_ready
bool host_axis(struct onnx_host *h, int64_t axis, int n, int *out);
// A list of integers: attribute `name`, or input k where it has elements; false: neither is given (not failed) or it fails.
bool host_list(struct onnx_host *h, const char *name, int k, struct onnx_ints *out);

// ---- onnx_lower.c ----
struct onnx_lower {
  struct onnx_model *m;
  const struct onnx_node *n;
  const struct onnx_row *row;
  struct graph *g;
  int *tensor;          // of g, by value; -1: none yet
  int *in, nin, in_cap; // values that are inputs of g
  bool whole;           // the graph is a program; else it is tried for one node
  enum dtype narrow;    // of a program: what a node of it narrows to; F32: none does
  int type;             // of what the node makes, where the tensor has a narrower one; else 0
  bool failed;
  char why[240];
};
// The operators of node n, into l->g; false: why says why it has none, and g is of no use any more.
bool onnx_lower_node(struct onnx_lower *l, const struct onnx_node *n);

// ---- write.c ----
struct onnx_write {
  struct onnx_model *m;
  const struct onnx_node *n; // which is written out
  struct onnx_node *nodes;   // as these
  int nnodes, cap;
  bool failed;
  char why[240];
};

// ---- fuse.c, plan.c, onnx_group.c, onnx_program.c ----
void onnx_fuse(struct onnx_model *m);
int onnx_plan(struct onnx_model *m, struct err *e); // all of it: fates, programs, steps
void onnx_group(struct onnx_model *m);              // sets node->group; groups are numbered from 0 in the order of their first node
int onnx_build(struct onnx_model *m, struct err *e);
enum dtype onnx_narrowed(const struct onnx_model *m, const struct onnx_program *p); // what a node of p narrows to; F32: none does
bool onnx_converts(const struct onnx_model *m, const struct onnx_node *n);          // a taken node between two of Mica's types
void onnx_take_again(struct onnx_model *m);                                         // nodes that were left here
void onnx_leave_all(struct onnx_model *m);                                          // every node that converts
// Leaves the widening nodes of a program that a value follows from, because something outside reads it as wide; false: there are none.
bool onnx_leave_widening(struct onnx_model *m, const struct onnx_program *p, int value);
void onnx_leave(struct onnx_model *m, int node, const char *why);
const char *onnx_node_title(struct arena *mem, const struct onnx_model *m, int node); // "\"conv1\" (Conv)"

// ---- onnx_report.c ----
void onnx_report_text(const struct onnx_model *m, struct str *out);
json_t *onnx_report_json(const struct onnx_model *m, const char *version);

#endif
