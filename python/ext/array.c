// Array: dense memory with a dtype and a shape, for people without an array library, and for libraries whose arrays cannot be
// written to (jax). Others read it without a copy: by DLPack, `__array_interface__`, or the buffer protocol. A dtype that
// numpy has not has no format in the latter two: there it is bits without a meaning.
#include "ext.h"
#include "dlpack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 }; // of memory: what jax wants to take it without a copy

static void sizes(struct array *a)
{
  Py_ssize_t step = ext_dtype_bytes(a->dtype);
  for (int i = a->ndim - 1; i >= 0; i--) {
    a->extents[i] = (Py_ssize_t)a->shape[i], a->strides[i] = step;
    step *= (Py_ssize_t)a->shape[i];
  }
  a->bytes = step;
}

struct array *ext_array_make(struct state *st, enum mica_dtype dtype, int ndim, const int64_t *shape)
{
  int64_t n = ext_dtype_bytes(dtype);
  for (int i = 0; i < ndim; i++)
    if (shape[i] < 1 || __builtin_mul_overflow(n, shape[i], &n) || n > INT64_MAX - ALIGN)
      return ext_raise_argument(st, "extents are from 1 on, and their product must fit into memory"), NULL;
  struct array *a = PyObject_New(struct array, st->array);
  if (!a) return NULL;
  a->dtype = dtype, a->ndim = ndim, a->memory = NULL;
  memcpy(a->shape, shape, (size_t)ndim * sizeof *shape);
  sizes(a);
  a->memory = aligned_alloc(ALIGN, (size_t)(n + ALIGN - 1) / ALIGN * ALIGN);
  if (a->memory) return a;
  Py_DECREF((PyObject *)a);
  return PyErr_NoMemory(), NULL;
}

static void array_free(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);
  free(((struct array *)self)->memory);
  PyObject_Free(self);
  Py_DECREF(type);
}

// ---- elements ----

static double get(const struct array *a, int64_t i) { return num_read((enum dtype)a->dtype, a->memory, i); }

static void set(struct array *a, int64_t i, double x) { num_write((enum dtype)a->dtype, a->memory, i, x); }

static int fill(struct state *st, struct array *a, PyObject *values)
{
  int64_t n = a->bytes / ext_dtype_bytes(a->dtype);
  if (values == Py_None) return memset(a->memory, 0, (size_t)a->bytes), 0;
  Py_ssize_t have = PySequence_Size(values);
  if (have < 0) return -1;
  if (have != n) return ext_raise_argument(st, "%zd values for %lld elements", have, (long long)n), -1;
  for (int64_t i = 0; i < n; i++) {
    PyObject *x = PySequence_GetItem(values, (Py_ssize_t)i);
    double d = x ? PyFloat_AsDouble(x) : 0;
    Py_XDECREF(x);
    if (PyErr_Occurred()) return -1;
    set(a, i, d);
  }
  return 0;
}

// Array(shape, dtype="f32", values=None): values row by row, zeros without.
static PyObject *array_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
  static char *names[] = {"shape", "dtype", "values", NULL};
  struct state *st = PyType_GetModuleState(type);
  PyObject *shape, *values = Py_None;
  const char *dtype_text = "f32";
  enum mica_dtype dtype;
  int64_t extents[MICA_MAX_DIMS];
  int n;
  if (!st || !PyArg_ParseTupleAndKeywords(args, keywords, "O|sO", names, &shape, &dtype_text, &values)) return NULL;
  if (!ext_dtype_find(dtype_text, &dtype)) return ext_raise_argument(st, "there is no dtype `%.40s`; dtypes are %s", dtype_text, num_names());
  if ((n = ext_numbers64(shape, MICA_MAX_DIMS, extents)) < 0) return NULL;
  struct array *a = ext_array_make(st, dtype, n, extents);
  if (a && fill(st, a, values)) Py_DECREF((PyObject *)a), a = NULL;
  return (PyObject *)a;
}

static PyObject *nested(const struct array *a, int dim, int64_t *at)
{
  if (dim == a->ndim) return PyFloat_FromDouble(get(a, (*at)++));
  PyObject *list = PyList_New((Py_ssize_t)a->shape[dim]);
  for (int64_t i = 0; list && i < a->shape[dim]; i++) {
    PyObject *x = nested(a, dim + 1, at);
    if (!x || PyList_SetItem(list, (Py_ssize_t)i, x)) return Py_DECREF(list), NULL;
  }
  return list;
}

static PyObject *array_tolist(PyObject *self, PyObject *none)
{
  (void)none;
  int64_t at = 0;
  return nested((struct array *)self, 0, &at);
}

// ---- how others read it ----

static struct mica_tensor described(const struct array *a)
{
  struct mica_tensor t = {.name = "", .dtype = a->dtype, .ndim = a->ndim};
  memcpy(t.shape, a->shape, sizeof t.shape);
  return t;
}

static PyObject *array_shape(PyObject *self, void *closure)
{
  (void)closure;
  struct mica_tensor t = described((struct array *)self);
  return ext_shape_tuple(&t);
}

static PyObject *array_dtype(PyObject *self, void *closure)
{
  (void)closure;
  return PyUnicode_FromString(ext_dtype_name(((struct array *)self)->dtype));
}

static PyObject *array_interface(PyObject *self, void *closure)
{
  (void)closure;
  struct array *a = (struct array *)self;
  const struct num_row *f = &num_rows[a->dtype];
  char words[16]; // what numpy takes for a type that it has not
  snprintf(words, sizeof words, "|V%d", f->bytes);
  PyObject *shape = array_shape(self, NULL), *address = PyLong_FromVoidPtr(a->memory);
  if (!shape || !address) return Py_XDECREF(shape), Py_XDECREF(address), NULL;
  return Py_BuildValue("{s:N,s:s,s:(NO),s:i}", "shape", shape, "typestr", f->numpy ? f->typestr : words, "data", address, Py_False, "version", 3);
}

struct lent { // what a consumer of DLPack holds
  struct dl_managed m;
  PyObject *owner;
};

static void lent_end(struct dl_managed *m)
{
  struct lent *l = (struct lent *)m;
  PyGILState_STATE s = PyGILState_Ensure(); // consumers call from any thread
  Py_DECREF(l->owner);
  PyGILState_Release(s);
  free(l);
}

static void capsule_end(PyObject *capsule)
{
  if (!PyCapsule_IsValid(capsule, "dltensor")) return; // consumed: it was renamed
  struct dl_managed *m = PyCapsule_GetPointer(capsule, "dltensor");
  m->deleter(m);
}

static PyObject *array_dlpack(PyObject *self, PyObject *args, PyObject *keywords)
{
  (void)args, (void)keywords; // stream, max_version, dl_device, copy: memory of the CPU, in the first version of the protocol
  struct array *a = (struct array *)self;
  struct lent *l = calloc(1, sizeof *l);
  if (!l) return PyErr_NoMemory();
  l->m.t = (struct dl_tensor){.data = a->memory, .device = {DL_CPU, 0}, .ndim = a->ndim, .shape = a->shape};
  l->m.t.dtype.code = (uint8_t)num_rows[a->dtype].dlpack;
  l->m.t.dtype.bits = (uint8_t)(8 * ext_dtype_bytes(a->dtype)), l->m.t.dtype.lanes = 1;
  l->m.deleter = lent_end, l->owner = Py_NewRef(self);
  PyObject *capsule = PyCapsule_New(l, "dltensor", capsule_end);
  if (!capsule) lent_end(&l->m);
  return capsule;
}

static PyObject *array_dlpack_device(PyObject *self, PyObject *none)
{
  (void)self, (void)none;
  return Py_BuildValue("(ii)", DL_CPU, 0);
}

static int array_buffer(PyObject *self, Py_buffer *b, int flags)
{
  struct array *a = (struct array *)self;
  *b = (Py_buffer){.obj = Py_NewRef(self), .buf = a->memory, .len = a->bytes, .itemsize = ext_dtype_bytes(a->dtype), .ndim = a->ndim};
  if (flags & PyBUF_FORMAT) b->format = (char *)(uintptr_t)num_rows[a->dtype].format; // nobody writes to it
  if ((flags & PyBUF_ND) == PyBUF_ND) b->shape = a->extents;
  if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) b->strides = a->strides;
  return 0;
}

static PyObject *array_repr(PyObject *self)
{
  PyObject *shape = array_shape(self, NULL);
  return shape ? PyUnicode_FromFormat("<mica.Array %s%S>", ext_dtype_name(((struct array *)self)->dtype), shape) : NULL;
}

static PyMethodDef methods[] = {
    {"tolist", array_tolist, METH_NOARGS, "its elements as lists of numbers (a number where it has no dimensions)"},
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack_device__", array_dlpack_device, METH_NOARGS, NULL},
    {0},
};
static PyGetSetDef gets[] = {
    {"shape", array_shape, NULL, "its extents", NULL},
    {"dtype", array_dtype, NULL, "its name in programs: f32", NULL},
    {"__array_interface__", array_interface, NULL, NULL, NULL},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc, "Array(shape, dtype='f32', values=None): dense memory on the CPU; values row by row, zeros without. numpy.asarray(a),\n"
                "torch.from_dlpack(a) and memoryview(a) share it."},
    {Py_tp_new, array_new},
    {Py_tp_dealloc, array_free},
    {Py_tp_repr, array_repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, gets},
    {Py_bf_getbuffer, array_buffer},
    {0, NULL}};
PyType_Spec ext_array_spec = {"mica.Array", sizeof(struct array), 0, Py_TPFLAGS_DEFAULT, slots};
