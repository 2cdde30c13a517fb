// onnx: reads models in the ONNX format, divides them into programs that Mica can express and single nodes, and runs both. docs/onnx.md describes it
// to users.
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
int64_t onnx_type_least(int type);          // least value of integers
int64_t onnx_type_most(int type);           // largest value of integers; INT64_MAX for uint64
enum onnx_kind onnx_type_kind(int type);
bool onnx_type_dtype(int type, enum dtype *t); // Mica's dtype; false: it has none

enum {
  ONNX_OLDEST = 7,
  ONNX_NEWEST = 28, // newest operator set of the default domain
  ONNX_NODES = 1 << 15,
  ONNX_VALUES = 1 << 17,
  ONNX_FILES = 256,
  ONNX_FUNCTIONS = 4096,
  ONNX_PROGRAM_TENSORS = 6000, // of one program
};
static const int64_t ONNX_KNOWN_CELLS = (int64_t)1 << 22; // cells of one value that is computed while a model is read
static const int64_t ONNX_MOST_KNOWN = (int64_t)1 << 24;  // cells of all such values together

// ---- map.c: a file mapped for reading -----------------------------------------------------------------------
struct onnx_map {
  const char *path;
  const uint8_t *p; // NULL for an empty file
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
  const char *bad; // what is malformed at p, or NULL
};
bool wire_next(struct onnx_wire *w, struct wire_field *f); // false at the end, and after an error
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
  const uint8_t *raw; // elements in ONNX's format, little-endian
  size_t bytes;
  int file;       // index in model->files of the file that holds raw; -1: raw was decoded into memory
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
  bool graphs;     // it holds a list of subgraphs
  const char *ref; // the attribute of the enclosing function that it refers to, or ""
};
struct onnx_graph {          // subgraph in an attribute: the body of a loop, a branch
  struct onnx_texts in, out; // names
  struct onnx_node *nodes;
  struct onnx_tensor **inits;
  int nnodes, nodes_cap, ninits, inits_cap;
};
enum onnx_fate {
  ONNX_FOLDED,      // known when the model is read
  ONNX_TAKEN,       // part of a program
  ONNX_LEFT,        // run by its simple function
  ONNX_UNSUPPORTED, // cannot run
};
struct onnx_row;
struct onnx_node {
  const char *name, *type, *domain, *overload;
  int64_t opset; // operator set of the default domain for this node
  int nin, nout, in_cap, out_cap;
  const char **in_name, **out_name; // "": absent
  int *in, *out;                    // values; -1: absent
  int ncaptured, captured_cap;      // names that its subgraphs take from the enclosing graph
  const char **captured;            // names in the model; "": no value of the model
  const char **captured_as;         // names in the subgraphs
  struct onnx_attr *attrs;
  int nattrs, attrs_cap;
  // plan.c and fuse.c
  const struct onnx_row *row; // NULL: no such row
  const char *as;             // fused: the operator that the group forms; else NULL
  int into;                   // fused: the node that runs instead of it; else -1
  enum onnx_fate fate;
  const char *why;   // reason for not being taken
  int group;         // for TAKEN; -1: part of another node, or unused
  int tensors, work; // for TAKEN: tensors in the graph, and operators that compute
  bool used;         // an output depends on it
  bool converts;     // left by convert.c
  bool made;         // made by writing out another node
};
struct onnx_value {
  const char *name;
  int type; // 0: unknown
  struct shape shape;
  bool shaped; // type and shape are known
  bool input, output;
  const struct onnx_tensor *init; // for an initializer
  const struct onnx_cells *known; // its elements, or NULL; for an initializer made at the first request
  int node;                       // node that computes it, or -1
  int uses;                       // number of uses by nodes and outputs
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
  int program, node; // one of them is -1
};
struct onnx_names;
struct onnx_function;
struct onnx_model {
  struct arena *mem;
  const char *path, *name, *producer;
  const char *folder; // folder that must contain external data; NULL: none allowed
  int64_t opset;      // operator set of the default domain; 0: not stated
  bool other_domain;  // the model states an operator set of another domain
  int nfiles;
  struct onnx_map files[ONNX_FILES]; // [0]: the model
  struct onnx_node *nodes;
  struct onnx_value *values;
  struct onnx_tensor **inits;
  struct onnx_dim *dims;
  int nnodes, nodes_cap, nvalues, values_cap, ninits, inits_cap, ndims, dims_cap;
  struct onnx_function *functions;
  int nfunctions, functions_cap;
  int *inputs, *outputs, ninputs, noutputs, inputs_cap, outputs_cap; // values; initializers are not inputs
  struct onnx_names *names;
  int nset;
  const struct setting *set;
  int64_t known_cells; // cells computed so far
  bool narrow_weights; // programs may hold widened weights in their original type
  int left_again;      // conversions that a program could not hold; programs are built again then
  int written;         // counter for generated names
  struct onnx_program *programs;
  struct onnx_step *steps;
  int nprograms, nsteps;
};

// Parses bytes into m (files[0].p points to them). Raw data is not copied.
int onnx_read_model(struct onnx_model *m, struct onnx_bytes b, struct err *e);
int onnx_bad(const struct onnx_model *m, struct err *e, const char *fmt, ...) PRINTF(3, 4);
// A text of the model, checked to be printable; NULL after an error.
const char *onnx_text(struct onnx_model *m, struct onnx_bytes b, struct err *e);
int onnx_read_tensor(struct onnx_model *m, struct onnx_bytes b, struct onnx_tensor *t, struct err *e);
int64_t onnx_elements(const struct shape *s); // 0 if an extent is 0

// ---- function.c ----
int onnx_inline(struct onnx_model *m, struct err *e); // replaces every call of a function of the model by its nodes

// ---- onnx_names.c ----
int onnx_find(const struct onnx_model *m, const char *name); // index of the value, or -1
int onnx_value_of(struct onnx_model *m, const char *name);   // adds it if it is missing

// ---- open.c ----
// Everything is allocated in mem but the mappings, which onnx_close ends. It may be called after an error too.
int onnx_open(struct arena *mem, const char *path, int nset, const struct setting *set, struct onnx_model **out, struct err *e);
// The same from bytes that must outlive the model. folder: where external data may be, or NULL.
int onnx_open_bytes(struct arena *mem, const uint8_t *p, size_t n, const char *path, const char *folder, int nset, const struct setting *set,
                    struct onnx_model **out, struct err *e);
void onnx_close(struct onnx_model *m);
bool onnx_looks(const char *path); // whether the file's first bytes are those of a model

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
const struct onnx_cells *onnx_known(struct onnx_model *m, int value);      // its elements if they are known and few, else NULL
double *onnx_cells_doubles(struct arena *mem, const struct onnx_cells *c); // elements as float64; for reals c's own memory
void onnx_cells_from_doubles(struct onnx_cells *c);                        // the elements are float64 and are converted to the cells' type
struct onnx_cells *onnx_cells_new(struct arena *mem, int type, const struct shape *s);
void onnx_cells_read(struct onnx_cells *c, const uint8_t *raw);  // reads elements in ONNX's format
void onnx_cells_round(struct onnx_cells *c);                     // rounds to the values of its type
uint64_t onnx_cells_bits(const struct onnx_cells *c, int64_t i); // bit pattern of element i, which must be rounded
void onnx_cells_from_bits(struct onnx_cells *c, int64_t i, uint64_t bits);

// ---- small_float.c ----
enum onnx_rounding { ROUND_NEAREST, ROUND_UP, ROUND_DOWN }; // for powers of two; other types round to nearest even
bool onnx_small(int type);                                  // a row of small.def
double onnx_small_read(int type, int bits);
// saturate: values that are too large become the largest number; else an infinity or NaN.
double onnx_small_round(int type, double x, bool saturate, enum onnx_rounding rounding);

// ---- nodes: rows of node.def ----
struct onnx_lower;
struct onnx_host;
struct onnx_write;
enum { MADE = 1 << 20 }; // value of `since` for operators that no operator set has
struct onnx_row {
  const char *domain, *type;
  int since, least, most;              // since: first operator set that has it, or MADE; least, most: inputs
  void (*lower)(struct onnx_lower *l); // NULL: it cannot be an operator of Mica
  enum op op;                          // argument of lower
  void (*host)(struct onnx_host *h);   // NULL: it has no simple function
  int fn;                              // argument of host
  const char *without;                 // why there is no lowering
  void (*write)(struct onnx_write *w); // writes it out as simpler nodes; it has no other function then
};
extern const struct onnx_row onnx_rows[];
extern const int onnx_row_count;
const struct onnx_row *onnx_row_find(const char *domain, const char *type);     // or NULL
bool onnx_domain_known(const char *domain);                                     // whether the table has operators of the domain
const struct onnx_attr *onnx_attr(const struct onnx_node *n, const char *name); // or NULL
int64_t onnx_attr_int(const struct onnx_node *n, const char *name, int64_t otherwise);
double onnx_attr_real(const struct onnx_node *n, const char *name, double otherwise);
const char *onnx_attr_text(const struct onnx_node *n, const char *name, const char *otherwise);

// ---- host_graph.c ----
const char *onnx_graph_refused(struct arena *mem, const struct onnx_graph *g); // why it cannot run, or NULL

// ---- host_*.c ----
struct onnx_host {
  struct arena *mem;
  const struct onnx_node *n;
  const struct onnx_row *row;
  int64_t most; // largest number of cells of one result
  int nin;
  const struct onnx_cells **in;       // NULL: absent; with p == NULL only type and shape are known
  struct onnx_cells **out;            // made by the function; with p == NULL if elements of an input are missing
  const struct onnx_cells **captured; // values that subgraphs take from the enclosing graph; NULL: not known
  bool runs;                          // true: run; false: plan
  bool failed;
  bool late; // it failed because a value is known only when the model runs
  char why[240];
};
// Runs n, or infers the shapes of its results. False: why has the reason.
bool onnx_host_run(struct onnx_host *h);
void host_fail(struct onnx_host *h, const char *fmt, ...) PRINTF(2, 3);
void host_late(struct onnx_host *h, const char *what);        // fails: `what` is computed only when the model runs, so a shape is unknown
const struct onnx_cells *host_in(struct onnx_host *h, int k); // fails if it is absent
bool host_ready(const struct onnx_host *h);                   // all elements are known
struct onnx_cells *host_out(struct onnx_host *h, int k, int type, const struct shape *s); // p where host_ready
bool host_axis(struct onnx_host *h, int64_t axis, int n, int *out);
// A list of integers: attribute `name`, or input k if its elements are known. False if neither is given (no failure) or after a failure.
bool host_list(struct onnx_host *h, const char *name, int k, struct onnx_ints *out);

// ---- onnx_lower.c ----
struct onnx_lower {
  struct onnx_model *m;
  const struct onnx_node *n;
  const struct onnx_row *row;
  struct graph *g;
  int *tensor;          // tensor of g for each value; -1: none yet
  int *in, nin, in_cap; // values that are inputs of g
  bool whole;           // true: the graph is a program; false: it is tried for one node
  enum dtype narrow;    // dtype to which a node of the program narrows; F32: none does
  int type;             // type of the node's result if the tensor has a narrower one; else 0
  bool failed;
  char why[240];
};
// Appends the operators of node n to l->g. False: why has the reason, and g must not be used further.
bool onnx_lower_node(struct onnx_lower *l, const struct onnx_node *n);

// ---- write.c ----
struct onnx_write {
  struct onnx_model *m;
  const struct onnx_node *n; // the node that is written out
  struct onnx_node *nodes;   // the nodes that replace it
  int nnodes, cap;
  bool failed;
  char why[240];
};

// ---- fuse.c, plan.c, onnx_group.c, onnx_program.c ----
void onnx_fuse(struct onnx_model *m);
int onnx_plan(struct onnx_model *m, struct err *e); // everything: fates, programs, steps
void onnx_group(struct onnx_model *m);              // sets node->group; groups are numbered from 0 by their first node
int onnx_build(struct onnx_model *m, struct err *e);
enum dtype onnx_narrowed(const struct onnx_model *m, const struct onnx_program *p); // dtype to which a node of p narrows; F32: none does
bool onnx_converts(const struct onnx_model *m, const struct onnx_node *n);          // whether a taken node converts between two of Mica's types
void onnx_take_again(struct onnx_model *m);                                         // takes the nodes again that were left here
void onnx_leave_all(struct onnx_model *m);                                          // leaves every conversion
// Leaves the widening nodes of a program that a value depends on, because a reader outside needs it wide. False: there are none.
bool onnx_leave_widening(struct onnx_model *m, const struct onnx_program *p, int value);
void onnx_leave(struct onnx_model *m, int node, const char *why);
const char *onnx_node_title(struct arena *mem, const struct onnx_model *m, int node); // "\"conv1\" (Conv)"

// ---- onnx_report.c ----
void onnx_report_text(const struct onnx_model *m, struct str *out);
json_t *onnx_report_json(const struct onnx_model *m, const char *version);

#endif
