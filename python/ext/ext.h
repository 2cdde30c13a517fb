// Names that files share begin with ext_: the library, which is linked in, has names of its own.
//
// The extension module `_mica`: the C interface (include/mica.h) as Python objects, on CPython's limited API of 3.11, so that one
// binary serves every later version. Policy (tracing, progress, names of options) is Python, in python/mica/; only what has to be
// C is here: handles, the search in a thread that Ctrl-C can end, and calls, which cost fractions of a microsecond.
//
//   module.c     the module: types, exceptions, strings that are looked up often
//   errors.c     a status and its message as an exception
//   context.c    Context, Source (a program as text or graph), and Report
//   graph.c      Graph: a program or a block graph being built
//   optimize.c   mica_optimize in a thread: signals, progress, options
//   array.c      Array: memory of our own, for results where nobody brought an array library
//   ndarray.c    arrays of numpy, looked at in memory; ndarray.h: the fields, as numpy's headers lay them out
//   dlpack.c     views of DLPack tensors; dlpack.h: the structs of DLPack, as its specification lays them out in memory
//   library.c    types and functions of numpy, torch, cupy and jax
//   view.c       memory of a Python object: DLPack, the array interfaces, buffers
//   torch.c      tensors of torch
//   check.c      compares views with the inputs and outputs of a program
//   result.c     new arrays of the family (numpy, torch, ...) that the inputs are of
//   arguments.c  positions, names, `out=` and `stream=` of a call
//   call.c       Module: a program that runs, and its call
//   bound.c      Bound: a call whose arguments are fixed; and times of calls
//   mega.c       Mega: a language model as one persistent kernel
//   cuda.c       memory for kernels that run in several streams
//
// A context is used by one thread at a time. Its objects share a lock, which is taken without the GIL by whatever works on the context
// for long; calls of modules do not take it.
//
// view: address, shape, dtype, device of an argument, valid until ext_view_release. family: the library that an array is of.
#ifndef EXT_H
#define EXT_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <structmember.h>

#include "base/num.h"
#include "mica.h"

#include <stdbool.h>
#include <stdint.h>

enum family { FAMILY_NUMPY, FAMILY_TORCH, FAMILY_CUPY, FAMILY_JAX, FAMILY_OWN, FAMILY_OTHER, FAMILIES };
enum { CPU = -1 };

// Strings that are interned once: word[WORD_data_ptr].
// clang-format off
#define WORDS(X) \
  X(__dlpack__) X(__dlpack_device__) X(__array_interface__) X(__cuda_array_interface__) X(data_ptr) X(dtype) X(shape) \
  X(is_contiguous) X(is_neg) X(get_device) X(requires_grad) X(new_empty) X(empty) X(data) X(typestr) X(strides) X(stream) X(out)
// clang-format on
enum word {
#define X(name) WORD_##name,
  WORDS(X)
#undef X
      WORD_COUNT
};

struct dl_tensor; // dlpack.h
struct dl_exchange;
struct library { // what is called of an array library; NULL until an array of it has been seen
  PyObject *empty, *dtype[DTYPES];
  PyObject *current; // torch: current stream of a device; grad: whether gradients are recorded
  PyObject *grad;
  PyObject *device;                   // torch: number of the current device
  PyObject *from;                     // jax: from_dlpack
  PyTypeObject *exact;                // numpy: ndarray, where its arrays can be looked at in memory; torch: Tensor
  PyTypeObject *parameter;            // torch
  const struct dl_exchange *exchange; // torch: its functions in C, or NULL
  PyObject *strided;                  // torch: empty_strided on the CPU
};
struct state {
  PyTypeObject *context, *source, *graph, *report, *module, *bound, *array, *mega;
  PyObject *error[4], *argument; // exceptions: by status (0: their base), of arguments of calls
  PyObject *word[WORD_COUNT];
  struct library library[FAMILIES];
  struct {
    PyTypeObject *type;
    enum family family;
  } known[32]; // types that were seen
  int nknown;
};

struct dropped { // a module that nothing uses any more
  struct mica_module *x;
  struct lane *lane;
  int nlane;
};
struct context {
  PyObject_HEAD struct state *st;
  struct mica_context *m;
  PyThread_type_lock lock;
  bool busy; // locked, by the thread `owner`
  unsigned long owner;
  struct dropped *dropped; // to be closed when the lock is given back
  int ndropped;
};
struct source {
  PyObject_HEAD struct context *c;
  struct mica_program *p;
};
struct report {
  PyObject_HEAD struct context *c;
  struct mica_report *r;
};
struct graph {
  PyObject_HEAD struct context *c;
  struct graph *around; // of a block graph
  struct mica_graph *g;
  bool ended;
};
struct array {
  PyObject_HEAD void *memory; // aligned to 64
  enum mica_dtype dtype;
  int ndim;
  int64_t shape[MICA_MAX_DIMS], bytes;
  Py_ssize_t extents[MICA_MAX_DIMS], strides[MICA_MAX_DIMS]; // of the buffer protocol
};
struct view {
  void *data;
  int device; // of CUDA, or CPU
  int dtype;  // -1: none of Mica's
  int ndim;
  bool dense, readonly, has_buffer, has_stream;
  int64_t shape[MICA_MAX_DIMS];
  void *stream; // in which the producer works, where it says so
  PyObject *hold;
  Py_buffer buffer;
  char dtype_name[24]; // for messages
};
struct lane { // a stream and the memory that its calls use
  int device;
  void *stream;
  uint64_t workspace;
};
struct module {
  PyObject_HEAD struct state *st;
  struct context *c;
  struct mica_module *x;
  int nin, nout, nresults;      // outputs of states come last and are no results
  struct mica_tensor *in, *out; // outputs follow the inputs in one array
  PyObject **shapes, **strides; // of outputs, as tuples
  bool gpu;
  int nlane;
  struct lane *lane;
};
struct bound {
  PyObject_HEAD struct module *f;
  struct view *view; // inputs, then outputs
  void **address;
  PyObject *inputs, *result;
  void *stream, *workspace;
};

// ---- errors.c ----
int ext_errors_add(PyObject *module, struct state *st);
PyObject *ext_raise_status(struct state *st, int status, const char *message); // NULL
PyObject *ext_raise_context(struct context *c, int status);                    // NULL, with mica_error
PyObject *ext_raise_argument(struct state *st, const char *format, ...);       // NULL

// ---- context.c ----
extern PyType_Spec ext_context_spec, ext_source_spec, ext_report_spec;
int ext_context_enter(struct context *c); // waits without the GIL until no other thread works on it; -1 with an exception
void ext_context_leave(struct context *c);
void ext_context_drop(struct context *c, struct dropped x);
PyObject *ext_source_new(struct context *c, struct mica_program *p);
PyObject *ext_report_new(struct context *c, struct mica_report *r);
PyObject *ext_shards(const void *x, int n, int (*at)(const void *, int)); // dimensions, or None
PyObject *ext_tensor_tuple(const struct mica_tensor *t);                  // (name, dtype, shape)
PyObject *ext_shape_tuple(const struct mica_tensor *t);
PyObject *ext_strides_tuple(const struct mica_tensor *t); // in elements, dense
const char *ext_dtype_name(int dtype);
bool ext_dtype_find(const char *name, enum mica_dtype *out);
int ext_dtype_bytes(enum mica_dtype t);
PyObject *ext_dtypes(void); // the rows of base/dtype.def that Python needs, as dictionaries
// Numbers of a sequence; -1 with an exception, also where there are more than `most`.
int ext_numbers64(PyObject *sequence, int most, int64_t *out);
int ext_numbers(PyObject *sequence, int most, int *out);

// ---- graph.c, optimize.c ----
extern PyType_Spec ext_graph_spec;
PyObject *ext_optimize(PyObject *self, PyObject *args);

// ---- array.c ----
extern PyType_Spec ext_array_spec;
struct array *ext_array_make(struct state *st, enum mica_dtype dtype, int ndim, const int64_t *shape);

// ---- view.c ----
enum family ext_family_of(struct state *st, PyObject *object);
// The object's description of its memory. stream: which the producer shall make ready, of objects on a GPU. -1 with an exception.
int ext_view_take(struct state *st, enum family f, PyObject *object, void *stream, struct view *v);
void ext_view_release(struct view *v);

// ---- dlpack.c ----
// Are elements of these extents (steps in units of `unit`) one after the other, row by row?
bool ext_view_dense(int n, const int64_t *shape, const int64_t *steps, int64_t unit);
void ext_view_dl(struct view *v, const struct dl_tensor *t);

// ---- ndarray.c ----
bool ext_ndarray_take(struct state *st, PyObject *object, struct view *v); // false: the object has to be asked
void ext_ndarray_open(struct state *st, PyObject *module);                 // once what is called of numpy is known

// ---- torch.c ----
int ext_torch_take(struct state *st, PyObject *object, struct view *v);
bool ext_torch_plain(const struct library *torch, PyObject *object); // a tensor or parameter, no subclass

// ---- check.c ----
// "input 1 (W)" is what the message begins with. -1 with an exception.
int ext_view_check(struct state *st, const struct view *v, const struct mica_tensor *want, bool output, int number, bool gpu);
int ext_states_apart(struct state *st, const struct module *f, const struct view *v);
int ext_views_apart(struct state *st, const struct module *f, const struct view *v); // outputs overlap nothing

// ---- library.c ----
int ext_library_open(struct state *st, enum family f);
void ext_numpy_dtype(struct library *numpy, enum mica_dtype t); // looks it up again: ml_dtypes may have been loaded since numpy was open

// ---- result.c ----
// A new array of the family; `like` is the first input, or NULL. Arrays of jax are made of our own when they are full: ext_result_finish.
PyObject *ext_result_new(struct module *f, enum family family, PyObject *like, int output);
PyObject *ext_result_finish(struct module *f, enum family family, PyObject *made); // takes `made`

// ---- arguments.c ----
struct arguments { // of one call
  Py_ssize_t n;
  PyObject **input; // borrowed
  PyObject *out;    // NULL: new ones
  PyObject *stream; // NULL: the current one
};
// Arguments by position and by the names of inputs. `input` has room for the inputs.
int ext_arguments_take(struct module *f, PyObject *args, PyObject *keywords, struct arguments *a);
int ext_stream_number(struct state *st, PyObject *stream, void **out); // a number, or a stream of torch, cupy, or with __cuda_stream__
int ext_stream_current(struct module *f, enum family family, PyObject *first, void **out);

// ---- call.c ----
extern PyType_Spec ext_module_spec;
PyObject *ext_module_of(PyObject *self, PyObject *args);     // (class, Report)
PyObject *ext_module_load(PyObject *self, PyObject *args);   // (class, Context, folder)
PyObject *ext_module_rank(PyObject *self, PyObject *args);   // (class, Module, rank, name or None, seconds)
PyObject *ext_module_freeze(PyObject *self, PyObject *args); // (class, Module, tuple of all inputs; None for one that is not frozen)
struct call {
  struct view *v; // inputs, then outputs
  void **address;
  enum family family;
  PyObject *result; // one array, or a tuple
  void *stream, *workspace;
};
// Looks at the arguments, and makes results where none are given. v and address have room for all. Nothing is held after -1.
int ext_call_prepare(struct module *f, const struct arguments *a, struct call *c);
int ext_call_run(struct module *f, const struct call *c); // without the GIL
void ext_views_release(struct module *f, struct view *v);

// ---- bound.c ----
extern PyType_Spec ext_bound_spec;
PyObject *ext_module_bind(PyObject *self, PyObject *args, PyObject *keywords);

// ---- mega.c ----
extern PyType_Spec ext_mega_spec;

// ---- cuda.c ----
// Makes the module ready on the device where it is not yet. -1 with an exception.
int ext_lane_find(struct module *f, int device, void *stream, void **workspace);
void ext_lanes_close(struct lane *lane, int n);

#endif
