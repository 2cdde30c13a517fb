// Bound: a call whose arguments were looked at once. A call then only gives up the GIL and runs. Its arrays are held, so that their
// memory stays where it is.
#include "ext.h"

#include <time.h>

static PyObject *bound_new(struct module *f, PyObject *inputs)
{
  size_t n = (size_t)(f->nin + f->nout);
  struct bound *b = PyObject_New(struct bound, f->st->bound);
  if (!b) return NULL;
  b->f = (struct module *)Py_NewRef((PyObject *)f), b->inputs = Py_NewRef(inputs), b->result = NULL;
  b->stream = b->workspace = NULL;
  b->view = PyMem_Calloc(n + 1, sizeof *b->view), b->address = PyMem_Calloc(n + 1, sizeof *b->address);
  if (b->view && b->address) return (PyObject *)b;
  Py_DECREF((PyObject *)b);
  return PyErr_NoMemory();
}

static void bound_free(PyObject *self)
{
  struct bound *b = (struct bound *)self;
  PyTypeObject *type = Py_TYPE(self);
  if (b->view) ext_views_release(b->f, b->view);
  PyMem_Free(b->view), PyMem_Free(b->address);
  Py_XDECREF(b->result), Py_DECREF(b->inputs), Py_DECREF((PyObject *)b->f);
  PyObject_Free(self);
  Py_DECREF(type);
}

// Arrays of jax cannot be written to: what is bound then gives arrays of our own.
PyObject *ext_module_bind(PyObject *self, PyObject *args, PyObject *keywords)
{
  struct module *f = (struct module *)self;
  struct arguments a = {.input = PyMem_Calloc((size_t)f->nin + 1, sizeof *a.input)};
  struct bound *b = a.input ? (struct bound *)bound_new(f, args) : NULL;
  bool good = false;
  if (b) {
    struct call c = {.v = b->view, .address = b->address};
    good = !ext_arguments_take(f, args, keywords, &a) && !ext_call_prepare(f, &a, &c);
    if (good) b->result = c.result, b->stream = c.stream, b->workspace = c.workspace;
  }
  PyMem_Free(a.input);
  if (good) return (PyObject *)b;
  Py_XDECREF((PyObject *)b);
  return PyErr_Occurred() ? NULL : PyErr_NoMemory();
}

static struct call call_of(const struct bound *b)
{
  return (struct call){.v = b->view, .address = b->address, .stream = b->stream, .workspace = b->workspace};
}

static PyObject *bound_call(PyObject *self, PyObject *args, PyObject *keywords)
{
  struct bound *b = (struct bound *)self;
  if (PyTuple_Size(args) || keywords) return PyErr_SetString(PyExc_TypeError, "a bound call takes no arguments"), NULL;
  struct call c = call_of(b);
  int status = ext_call_run(b->f, &c);
  return status ? ext_raise_context(b->f->c, status) : Py_NewRef(b->result);
}

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// time(n): seconds that n calls take from C, one after the other, without Python between them.
static PyObject *bound_time(PyObject *self, PyObject *number)
{
  struct bound *b = (struct bound *)self;
  long n = PyLong_AsLong(number);
  if (PyErr_Occurred()) return NULL;
  if (b->f->gpu) return ext_raise_argument(b->f->st, "a call on a GPU returns before it is done: time it by events of the stream");
  int status = 0;
  double start, end;
  Py_BEGIN_ALLOW_THREADS start = now();
  for (long i = 0; i < n && !status; i++)
    status = mica_module_call(b->f->x, (const void *const *)b->address, b->address + b->f->nin, b->workspace, b->stream);
  end = now();
  Py_END_ALLOW_THREADS return status ? ext_raise_context(b->f->c, status) : PyFloat_FromDouble(end - start);
}

static PyObject *bound_result(PyObject *self, void *closure)
{
  (void)closure;
  return Py_NewRef(((struct bound *)self)->result);
}

static PyMethodDef methods[] = {{"time", bound_time, METH_O, "time(n): seconds that n calls take, without Python between them"}, {0}};
static PyGetSetDef gets[] = {{"result", bound_result, NULL, "what a call gives: the arrays that it writes", NULL}, {0}};
static PyType_Slot slots[] = {{Py_tp_dealloc, bound_free}, {Py_tp_call, bound_call}, {Py_tp_methods, methods}, {Py_tp_getset, gets}, {0, NULL}};
PyType_Spec ext_bound_spec = {"mica._mica.Bound", sizeof(struct bound), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
