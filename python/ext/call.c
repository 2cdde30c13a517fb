// Module: a program that runs. A call looks at its arguments, makes results where none are given, and runs the kernels without the
// GIL. Nothing is looked up by name that could be kept, and small calls use the stack alone, so that a call costs less than a
// microsecond with numpy (bench/python_call.py).
#include "ext.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 12 }; // tensors of a call that need no memory of the heap

void ext_views_release(struct module *f, struct view *v)
{
  for (int i = 0; i < f->nin + f->nout; i++) ext_view_release(&v[i]);
}

static int take_one(struct module *f, PyObject *x, int i, struct call *c)
{
  if (ext_view_take(f->st, ext_family_of(f->st, x), x, c->stream, &c->v[i])) return -1;
  bool output = i >= f->nin;
  if (ext_view_check(f->st, &c->v[i], &f->in[i], output, output ? i - f->nin : i, f->gpu)) return -1;
  c->address[i] = c->v[i].data;
  return 0;
}

// The rest of a state's memory is where the state was, which nothing else may be.
static int states_take(struct module *f, struct call *c)
{
  for (int i = f->nresults; i < f->nout; i++) {
    const int from = f->out[i].state - 1;
    struct view *v = &c->v[f->nin + i];
    *v = c->v[from], v->hold = NULL, v->has_buffer = false;
    if (ext_view_check(f->st, v, &f->in[from], true, i, f->gpu)) return -1;
    c->address[f->nin + i] = v->data;
  }
  return f->nresults < f->nout ? ext_states_apart(f->st, f, c->v) : 0;
}

static int results_new(struct module *f, PyObject *like, struct call *c)
{
  if (f->nresults == 1) {
    c->result = ext_result_new(f, c->family, like, 0);
    return c->result ? take_one(f, c->result, f->nin, c) : -1;
  }
  if (!(c->result = PyTuple_New(f->nresults))) return -1;
  for (int i = 0; i < f->nresults; i++) {
    PyObject *x = ext_result_new(f, c->family, like, i);
    if (!x || PyTuple_SetItem(c->result, i, x) || take_one(f, x, f->nin + i, c)) return -1;
  }
  return 0;
}

static int results_given(struct module *f, PyObject *out, struct call *c)
{
  c->result = Py_NewRef(out);
  if (f->nresults == 1 && !PyTuple_Check(out) && !PyList_Check(out)) return take_one(f, out, f->nin, c) || ext_views_apart(f->st, f, c->v);
  Py_ssize_t n = PySequence_Size(out);
  if (n < 0) return PyErr_Clear(), ext_raise_argument(f->st, "out= takes a sequence of %d arrays", f->nresults), -1;
  if (n != f->nresults) return ext_raise_argument(f->st, "out has %zd arrays, and the program has %d outputs", n, f->nresults), -1;
  for (int i = 0; i < f->nresults; i++) {
    PyObject *x = PySequence_GetItem(out, i); // maybe made now: what keeps its memory is the view
    const int bad = !x || take_one(f, x, f->nin + i, c);
    Py_XDECREF(x);
    if (bad) return -1;
  }
  return ext_views_apart(f->st, f, c->v);
}

static int on_gpu(struct module *f, bool told, struct call *c)
{
  for (int i = 0; i < f->nin + f->nout; i++) {
    if (c->v[i].device != c->v[0].device) return ext_raise_argument(f->st, "the arrays are on several GPUs"), -1;
    if (!told && c->v[i].has_stream) c->stream = c->v[i].stream, told = true;
  }
  return ext_lane_find(f, c->v[0].device, c->stream, &c->workspace);
}

static int prepare(struct module *f, const struct arguments *a, struct call *c)
{
  PyObject *first = f->nin ? a->input[0] : NULL;
  c->family = first ? ext_family_of(f->st, first) : FAMILY_OWN;
  if (a->stream ? ext_stream_number(f->st, a->stream, &c->stream) : ext_stream_current(f, c->family, first, &c->stream)) return -1;
  bool told = a->stream || c->stream;
  for (int i = 0; i < f->nin; i++)
    if (take_one(f, a->input[i], i, c)) return -1;
  if (states_take(f, c)) return -1;
  if (a->out ? results_given(f, a->out, c) : results_new(f, first, c)) return -1;
  if (a->out && c->family == FAMILY_JAX) c->family = FAMILY_OWN; // what was given is given back as it is
  return f->gpu ? on_gpu(f, told, c) : 0;
}

int ext_call_prepare(struct module *f, const struct arguments *a, struct call *c)
{
  for (int i = 0; i < f->nin + f->nout; i++) c->v[i].hold = NULL, c->v[i].has_buffer = c->v[i].has_stream = false;
  c->result = NULL, c->stream = c->workspace = NULL;
  if (!prepare(f, a, c)) return 0;
  ext_views_release(f, c->v);
  Py_CLEAR(c->result);
  return -1;
}

int ext_call_run(struct module *f, const struct call *c)
{
  int status;
  Py_BEGIN_ALLOW_THREADS status = mica_module_call(f->x, (const void *const *)c->address, c->address + f->nin, c->workspace, c->stream);
  Py_END_ALLOW_THREADS return status;
}

static PyObject *run(struct module *f, const struct arguments *a, struct call *c)
{
  if (ext_call_prepare(f, a, c)) return NULL;
  int status = ext_call_run(f, c);
  ext_views_release(f, c->v);
  if (!status) return ext_result_finish(f, c->family, c->result);
  Py_DECREF(c->result);
  return ext_raise_context(f->c, status);
}

static PyObject *module_call(PyObject *self, PyObject *args, PyObject *keywords)
{
  struct module *f = (struct module *)self;
  int n = f->nin + f->nout;
  struct view few[FEW];
  void *few_address[FEW];
  PyObject *few_inputs[FEW];
  struct call c = {.v = few, .address = few_address};
  struct arguments a = {.input = few_inputs};
  void *more = NULL;
  if (n > FEW) {
    size_t each = sizeof *c.v + sizeof *c.address + sizeof *a.input;
    if (!(more = PyMem_Malloc((size_t)n * each))) return PyErr_NoMemory();
    c.v = more, c.address = (void **)(c.v + n), a.input = (PyObject **)(c.address + n);
  }
  PyObject *result = ext_arguments_take(f, args, keywords, &a) ? NULL : run(f, &a, &c);
  PyMem_Free(more);
  return result;
}

// ---- making and looking ----

static int describe(struct module *f)
{
  f->nin = mica_module_inputs(f->x), f->nout = mica_module_outputs(f->x);
  f->gpu = strcmp(mica_module_target(f->x), "cpu") != 0;
  f->in = PyMem_Calloc((size_t)(f->nin + f->nout) + 1, sizeof *f->in);
  f->shapes = PyMem_Calloc((size_t)f->nout + 1, sizeof *f->shapes);
  f->strides = PyMem_Calloc((size_t)f->nout + 1, sizeof *f->strides);
  if (!f->in || !f->shapes || !f->strides) return PyErr_NoMemory(), -1;
  f->out = f->in + f->nin;
  for (int i = 0; i < f->nin; i++) f->in[i] = mica_module_input(f->x, i);
  for (int i = 0; i < f->nout; i++) {
    f->out[i] = mica_module_output(f->x, i);
    if (!f->out[i].state) f->nresults = i + 1;
    if (f->out[i].state > f->nin) return PyErr_BadInternalCall(), -1;
    if (!(f->shapes[i] = ext_shape_tuple(&f->out[i])) || !(f->strides[i] = ext_strides_tuple(&f->out[i]))) return -1;
  }
  return 0;
}

// An object of `type`, which may be a subclass: python/mica adds what is no matter of speed.
static PyObject *module_new(PyTypeObject *type, struct context *c, struct mica_module *x)
{
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  struct module *f = (struct module *)alloc(type, 0);
  if (!f) return mica_module_close(x), NULL;
  f->st = c->st, f->c = (struct context *)Py_NewRef((PyObject *)c), f->x = x;
  if (!describe(f)) return (PyObject *)f;
  Py_DECREF((PyObject *)f);
  return NULL;
}

static PyObject *made(PyObject *type, struct context *c, int status, struct mica_module *x)
{
  PyObject *f = status ? ext_raise_context(c, status) : module_new((PyTypeObject *)type, c, x);
  ext_context_leave(c);
  return f;
}

static bool makes_modules(struct state *st, PyObject *type)
{
  if (PyType_IsSubtype((PyTypeObject *)type, st->module)) return true;
  PyErr_SetString(PyExc_TypeError, "this is no class below Module");
  return false;
}

PyObject *ext_module_of(PyObject *self, PyObject *args)
{
  struct state *st = PyModule_GetState(self);
  PyObject *type;
  struct report *r;
  struct mica_module *x = NULL;
  if (!PyArg_ParseTuple(args, "O!O!", &PyType_Type, &type, st->report, &r) || !makes_modules(st, type)) return NULL;
  if (ext_context_enter(r->c)) return NULL;
  int status;
  Py_BEGIN_ALLOW_THREADS status = mica_module_of(r->c->m, r->r, &x);
  Py_END_ALLOW_THREADS return made(type, r->c, status, x);
}

PyObject *ext_module_load(PyObject *self, PyObject *args)
{
  struct state *st = PyModule_GetState(self);
  PyObject *type;
  struct context *c;
  const char *folder;
  struct mica_module *x = NULL;
  if (!PyArg_ParseTuple(args, "O!O!s", &PyType_Type, &type, st->context, &c, &folder) || !makes_modules(st, type)) return NULL;
  if (ext_context_enter(c)) return NULL;
  int status;
  Py_BEGIN_ALLOW_THREADS status = mica_module_load(c->m, folder, &x);
  Py_END_ALLOW_THREADS return made(type, c, status, x);
}

PyObject *ext_module_rank(PyObject *self, PyObject *args)
{
  struct state *st = PyModule_GetState(self);
  PyObject *type;
  struct module *f;
  const char *name;
  int rank, status;
  double seconds;
  struct mica_module *x = NULL;
  if (!PyArg_ParseTuple(args, "O!O!izd", &PyType_Type, &type, st->module, &f, &rank, &name, &seconds) || !makes_modules(st, type)) return NULL;
  if (ext_context_enter(f->c)) return NULL;
  Py_BEGIN_ALLOW_THREADS status = mica_module_rank(f->x, rank, name, seconds, &x);
  Py_END_ALLOW_THREADS return made(type, f->c, status, x);
}

static int frozen_take(struct module *f, PyObject *inputs, struct call *c)
{
  if (PyTuple_Size(inputs) != f->nin)
    return ext_raise_argument(f->st, "%zd inputs are given, and the program takes %d", PyTuple_Size(inputs), f->nin), -1;
  for (int i = 0; i < f->nin; i++) {
    PyObject *x = PyTuple_GetItem(inputs, i);
    if (x == Py_None && f->in[i].frozen) return ext_raise_argument(f->st, "input %d (%.150s) is frozen, and missing", i, f->in[i].name), -1;
    if (x != Py_None && take_one(f, x, i, c)) return -1;
  }
  return 0;
}

PyObject *ext_module_freeze(PyObject *self, PyObject *args)
{
  struct state *st = PyModule_GetState(self);
  PyObject *type, *inputs, *made_of = NULL;
  struct module *f;
  struct mica_module *x = NULL;
  if (!PyArg_ParseTuple(args, "O!O!O!", &PyType_Type, &type, st->module, &f, &PyTuple_Type, &inputs) || !makes_modules(st, type)) return NULL;
  const size_t n = (size_t)(f->nin + f->nout) + 1;
  struct call c = {.v = PyMem_Calloc(n, sizeof *c.v), .address = PyMem_Calloc(n, sizeof *c.address)};
  if (!c.v || !c.address) PyErr_NoMemory();
  if (c.v && c.address && !frozen_take(f, inputs, &c) && !ext_context_enter(f->c)) {
    int status;
    Py_BEGIN_ALLOW_THREADS status = mica_module_freeze(f->x, (const void *const *)c.address, &x);
    Py_END_ALLOW_THREADS made_of = made(type, f->c, status, x);
  }
  if (c.v) ext_views_release(f, c.v);
  PyMem_Free(c.v), PyMem_Free(c.address);
  return made_of;
}

static void module_free(PyObject *self)
{
  struct module *f = (struct module *)self;
  PyTypeObject *type = Py_TYPE(self);
  freefunc give_back = (freefunc)PyType_GetSlot(type, Py_tp_free);
  if (f->x) ext_context_drop(f->c, (struct dropped){f->x, f->lane, f->nlane});
  for (int i = 0; f->shapes && i < f->nout; i++) Py_XDECREF(f->shapes[i]);
  for (int i = 0; f->strides && i < f->nout; i++) Py_XDECREF(f->strides[i]);
  PyMem_Free(f->in), PyMem_Free(f->shapes), PyMem_Free(f->strides);
  Py_XDECREF((PyObject *)f->c);
  give_back(self);
  Py_DECREF(type);
}

static PyObject *described(const struct mica_tensor *t, int n)
{
  PyObject *list = PyTuple_New(n);
  for (int i = 0; list && i < n; i++) {
    PyObject *x = ext_tensor_tuple(&t[i]);
    if (!x || PyTuple_SetItem(list, i, x)) return Py_DECREF(list), NULL;
  }
  return list;
}

static PyObject *module_inputs(PyObject *self, void *closure)
{
  (void)closure;
  struct module *f = (struct module *)self;
  return described(f->in, f->nin);
}

static PyObject *module_outputs(PyObject *self, void *closure)
{
  (void)closure;
  struct module *f = (struct module *)self;
  return described(f->out, f->nout);
}

static int input_shard(const void *x, int i) { return mica_module_input_shard(x, i); }
static int output_shard(const void *x, int i) { return mica_module_output_shard(x, i); }

static PyObject *module_shards(PyObject *self, void *closure)
{
  (void)closure;
  const struct module *f = (struct module *)self;
  return Py_BuildValue("(NN)", ext_shards(f->x, f->nin, input_shard), ext_shards(f->x, f->nout, output_shard));
}

// By tensor: for each dimension the number of the input that holds its run-time extent, or -1.
static PyObject *extents_of(const struct mica_module *x, int n, const struct mica_tensor *t, int (*at)(const struct mica_module *, int, int))
{
  PyObject *list = PyTuple_New(n);
  for (int i = 0; list && i < n; i++) {
    PyObject *one = PyTuple_New(t[i].ndim);
    for (int d = 0; one && d < t[i].ndim; d++)
      if (PyTuple_SetItem(one, d, PyLong_FromLong(at(x, i, d)))) Py_CLEAR(one);
    if (!one || PyTuple_SetItem(list, i, one)) return Py_DECREF(list), NULL;
  }
  return list;
}

// The numbers behind the values of extents in each input; None: the input is an extent itself.
static PyObject *fills_of(const struct module *f)
{
  PyObject *list = PyTuple_New(f->nin);
  for (int i = 0; list && i < f->nin; i++) {
    const struct mica_tensor *t = &f->in[i];
    const int64_t fill = t->distinct ? -1 : t->least > 0 ? t->least : t->most < 0 ? t->most : 0;
    PyObject *x = mica_module_is_extent(f->x, i) ? Py_NewRef(Py_None) : PyLong_FromLongLong(fill);
    if (!x || PyTuple_SetItem(list, i, x)) return Py_DECREF(list), NULL;
  }
  return list;
}

static PyObject *module_ranges(PyObject *self, void *closure)
{
  (void)closure;
  const struct module *f = (struct module *)self;
  PyObject *list = PyTuple_New(f->nin);
  for (int i = 0; list && i < f->nin; i++) {
    PyObject *x = Py_BuildValue("(LL)", (long long)f->in[i].least, (long long)f->in[i].most);
    if (!x || PyTuple_SetItem(list, i, x)) return Py_DECREF(list), NULL;
  }
  return list;
}

static PyObject *module_frozen(PyObject *self, void *closure)
{
  (void)closure;
  const struct module *f = (struct module *)self;
  PyObject *list = PyTuple_New(f->nin);
  for (int i = 0; list && i < f->nin; i++)
    if (PyTuple_SetItem(list, i, PyBool_FromLong(f->in[i].frozen))) return Py_DECREF(list), NULL;
  return list;
}

static PyObject *module_states(PyObject *self, void *closure)
{
  (void)closure;
  const struct module *f = (struct module *)self;
  PyObject *list = PyTuple_New(f->nout - f->nresults);
  for (int i = f->nresults; list && i < f->nout; i++)
    if (PyTuple_SetItem(list, i - f->nresults, PyLong_FromLong(f->out[i].state - 1))) return Py_DECREF(list), NULL;
  return list;
}

static PyObject *module_extents(PyObject *self, void *closure)
{
  (void)closure;
  const struct module *f = (struct module *)self;
  return Py_BuildValue("(NNN)", extents_of(f->x, f->nin, f->in, mica_module_input_extent),
                       extents_of(f->x, f->nout, f->out, mica_module_output_extent), fills_of(f));
}

static PyObject *module_world(PyObject *self, void *closure)
{
  (void)closure;
  return PyLong_FromLong(mica_module_world(((struct module *)self)->x));
}

static PyObject *module_target(PyObject *self, void *closure)
{
  (void)closure;
  return PyUnicode_FromString(mica_module_target(((struct module *)self)->x));
}

static PyObject *module_name(PyObject *self, void *closure)
{
  (void)closure;
  return PyUnicode_FromString(mica_module_name(((struct module *)self)->x));
}

static PyMethodDef methods[] = {
    {"bind", (PyCFunction)(void (*)(void))ext_module_bind, METH_VARARGS | METH_KEYWORDS,
     "bind(*inputs, out=None, stream=None): the call with these arrays, looked at once. Calling it runs the program on what the\n"
     "arrays hold then, and gives its results, which are the same arrays each time. The stream is that of the time of binding."},
    {0},
};
static PyGetSetDef gets[] = {
    {"_inputs", module_inputs, NULL, "((name, dtype, shape), ...)", NULL},
    {"_outputs", module_outputs, NULL, "((name, dtype, shape), ...)", NULL},
    {"_shards", module_shards, NULL, "of inputs and of outputs: the dimension along which each is divided, or None", NULL},
    {"_extents", module_extents, NULL, "of inputs and of outputs: by dimension the input that holds its run-time extent, or -1; padding of inputs",
     NULL},
    {"_frozen", module_frozen, NULL, "for each input, whether it is frozen", NULL},
    {"_states", module_states, NULL, "numbers of the inputs that are states", NULL},
    {"_ranges", module_ranges, NULL, "of inputs: the least and the largest of their whole numbers", NULL},
    {"world", module_world, NULL, "how many devices run it together", NULL},
    {"target", module_target, NULL, "what it runs on: cpu, sm_90a, ...", NULL},
    {"name", module_name, NULL, "of the program", NULL},
    {0},
};
static PyType_Slot slots[] = {{Py_tp_dealloc, module_free}, {Py_tp_call, module_call}, {Py_tp_methods, methods}, {Py_tp_getset, gets}, {0, NULL}};
PyType_Spec ext_module_spec = {"mica._mica.Module", sizeof(struct module), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
