// An argument's description of its memory. Each library is asked in the way that is fastest with it:
//
//   numpy     the array itself (ndarray.c); else __dlpack__; where that refuses (read-only memory) __array_interface__
//   torch     its functions in C, else attributes (torch.c): its __dlpack__ is Python and takes microseconds
//   cupy      __cuda_array_interface__, which also names the current stream
//   jax, any  __dlpack__, then the array interfaces, then the buffer protocol
//
// A capsule is read and not consumed: dropping it gives the memory back, and the view drops it.
#include "ext.h"
#include "dlpack.h"

#include <stdio.h>
#include <string.h>

// ---- families ----

static enum family of_name(const char *module)
{
  static const struct {
    const char *name;
    enum family family;
  } rows[] = {{"numpy", FAMILY_NUMPY}, {"torch", FAMILY_TORCH}, {"cupy", FAMILY_CUPY}, {"jax", FAMILY_JAX}, {"jaxlib", FAMILY_JAX}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    size_t n = strlen(rows[i].name);
    if (!strncmp(module, rows[i].name, n) && (!module[n] || module[n] == '.')) return rows[i].family;
  }
  return FAMILY_OTHER;
}

// By the module of the type, or of the nearest base whose module is a library's: subclasses of arrays are arrays.
static enum family family_look(struct state *st, PyTypeObject *type)
{
  if (type == st->array) return FAMILY_OWN;
  PyObject *bases = PyObject_GetAttrString((PyObject *)type, "__mro__");
  enum family f = FAMILY_OTHER;
  for (Py_ssize_t i = 0, n = bases ? PyTuple_Size(bases) : 0; i < n && f == FAMILY_OTHER; i++) {
    PyObject *module = PyObject_GetAttrString(PyTuple_GetItem(bases, i), "__module__");
    const char *name = module && PyUnicode_Check(module) ? PyUnicode_AsUTF8AndSize(module, NULL) : NULL;
    if (name) f = of_name(name);
    Py_XDECREF(module);
  }
  Py_XDECREF(bases);
  PyErr_Clear();
  return f;
}

enum family ext_family_of(struct state *st, PyObject *object)
{
  PyTypeObject *type = Py_TYPE(object);
  for (int i = 0; i < st->nknown; i++)
    if (st->known[i].type == type) return st->known[i].family;
  enum family f = family_look(st, type);
  if (st->nknown < (int)(sizeof st->known / sizeof *st->known)) {
    st->known[st->nknown].type = (PyTypeObject *)Py_NewRef((PyObject *)type);
    st->known[st->nknown++].family = f;
  }
  return f;
}

void ext_view_release(struct view *v)
{
  if (v->has_buffer) PyBuffer_Release(&v->buffer), v->has_buffer = false;
  Py_CLEAR(v->hold);
}

// ---- DLPack ----

static int from_capsule(struct view *v, PyObject *capsule)
{
  struct dl_managed *m = capsule ? PyCapsule_GetPointer(capsule, "dltensor") : NULL;
  if (!m) return Py_XDECREF(capsule), -1;
  v->hold = capsule;
  return ext_view_dl(v, &m->t), 0;
}

static int take_dlpack(struct state *st, PyObject *object, struct view *v)
{
  return from_capsule(v, PyObject_CallMethodObjArgs(object, st->word[WORD___dlpack__], NULL));
}

// On a GPU the producer is told in which stream its memory will be used.
static int take_dlpack_device(struct state *st, PyObject *object, void *stream, struct view *v)
{
  PyObject *device = PyObject_CallMethodObjArgs(object, st->word[WORD___dlpack_device__], NULL);
  if (!device) return -1;
  PyObject *kind = PySequence_GetItem(device, 0);
  long type = kind ? PyLong_AsLong(kind) : -1;
  Py_XDECREF(kind), Py_DECREF(device);
  if (PyErr_Occurred()) return -1;
  if (type == DL_CPU || type == DL_CUDA_HOST) return take_dlpack(st, object, v);
  if (type != DL_CUDA && type != DL_CUDA_MANAGED)
    return ext_raise_argument(st, "memory of a device of DLPack's kind %ld, which is neither the CPU nor a GPU of CUDA", type), -1;
  PyObject *method = PyObject_GetAttr(object, st->word[WORD___dlpack__]), *none = PyTuple_New(0);
  PyObject *keywords = Py_BuildValue("{s:K}", "stream", stream ? (unsigned long long)(uintptr_t)stream : 1ull); // 1: the default stream
  PyObject *capsule = method && none && keywords ? PyObject_Call(method, none, keywords) : NULL;
  Py_XDECREF(method), Py_XDECREF(none), Py_XDECREF(keywords);
  return from_capsule(v, capsule);
}

// ---- array interfaces ----

static int dtype_of_format(const char *s)
{
  for (int i = 0; i < DTYPES; i++)
    if (num_rows[i].numpy && !strcmp(s + (*s == '<'), num_rows[i].format)) return i;
  return -1;
}

static int dtype_of_typestr(const char *s)
{
  for (int i = 0; i < DTYPES; i++)
    if (!strcmp(s, num_rows[i].typestr)) return i;
  return -1;
}

static int interface_shape(struct view *v, PyObject *shape, PyObject *strides)
{
  int64_t steps[MICA_MAX_DIMS];
  Py_ssize_t n = PySequence_Size(shape);
  if (n < 0) return -1;
  v->ndim = (int)n, v->dense = true;
  if (n > MICA_MAX_DIMS) return 0;
  if (ext_numbers64(shape, MICA_MAX_DIMS, v->shape) < 0) return -1;
  if (!strides || strides == Py_None) return 0;
  if (ext_numbers64(strides, MICA_MAX_DIMS, steps) != n) return PyErr_Occurred() ? -1 : 0;
  v->dense = ext_view_dense((int)n, v->shape, steps, v->dtype < 0 ? 1 : ext_dtype_bytes((enum mica_dtype)v->dtype));
  return 0;
}

static int interface_data(struct view *v, PyObject *data)
{
  PyObject *address = data ? PySequence_GetItem(data, 0) : NULL, *readonly = data ? PySequence_GetItem(data, 1) : NULL;
  v->data = address ? PyLong_AsVoidPtr(address) : NULL;
  v->readonly = readonly && PyObject_IsTrue(readonly);
  Py_XDECREF(address), Py_XDECREF(readonly);
  return PyErr_Occurred() ? -1 : 0;
}

// The dictionary of either interface. Keeps the object that owns the memory.
static int take_interface(struct state *st, PyObject *object, enum word which, struct view *v)
{
  PyObject *d = PyObject_GetAttr(object, st->word[which]);
  if (!d) return -1;
  if (!PyDict_Check(d)) return Py_DECREF(d), ext_raise_argument(st, "its array interface is no dictionary"), -1;
  PyObject *data = PyDict_GetItemWithError(d, st->word[WORD_data]), *type = PyDict_GetItemWithError(d, st->word[WORD_typestr]);
  PyObject *shape = PyDict_GetItemWithError(d, st->word[WORD_shape]), *stream = PyDict_GetItemWithError(d, st->word[WORD_stream]);
  const char *code = type ? PyUnicode_AsUTF8AndSize(type, NULL) : NULL;
  if (!data || !shape || !code || data == Py_None) {
    Py_DECREF(d);
    return PyErr_Occurred() ? -1 : (ext_raise_argument(st, "its array interface has no data, shape or typestr"), -1);
  }
  v->dtype = dtype_of_typestr(code);
  snprintf(v->dtype_name, sizeof v->dtype_name, "%s", code);
  int bad = interface_shape(v, shape, PyDict_GetItemWithError(d, st->word[WORD_strides])) || interface_data(v, data);
  if (!bad && stream && stream != Py_None) v->has_stream = true, v->stream = PyLong_AsVoidPtr(stream);
  if (v->has_stream && (uintptr_t)v->stream == 1) v->stream = NULL; // 1 is the default stream's name there
  v->device = CPU;
  v->hold = Py_NewRef(object);
  Py_DECREF(d);
  return bad || PyErr_Occurred() ? -1 : 0;
}

static int take_cuda_interface(struct state *st, PyObject *object, struct view *v)
{
  if (take_interface(st, object, WORD___cuda_array_interface__, v)) return -1;
  v->device = 0;
  PyObject *device = PyObject_GetAttrString(object, "device"), *id = device ? PyObject_GetAttrString(device, "id") : NULL;
  if (id && PyLong_Check(id)) v->device = (int)PyLong_AsLong(id);
  Py_XDECREF(device), Py_XDECREF(id);
  PyErr_Clear();
  return 0;
}

// ---- the buffer protocol ----

static int take_buffer(PyObject *object, struct view *v)
{
  if (PyObject_GetBuffer(object, &v->buffer, PyBUF_RECORDS_RO)) return -1;
  const Py_buffer *b = &v->buffer;
  const char *code = b->format ? b->format : "B";
  int64_t steps[MICA_MAX_DIMS];
  v->has_buffer = true;
  v->data = b->buf, v->readonly = b->readonly, v->device = CPU, v->ndim = b->ndim;
  v->dtype = dtype_of_format(code);
  snprintf(v->dtype_name, sizeof v->dtype_name, "format %s", code);
  for (int i = 0; i < b->ndim && b->ndim <= MICA_MAX_DIMS; i++) v->shape[i] = b->shape[i], steps[i] = b->strides[i];
  v->dense = b->ndim <= MICA_MAX_DIMS && ext_view_dense(b->ndim, v->shape, steps, b->itemsize);
  return 0;
}

static int take_own(PyObject *object, struct view *v)
{
  const struct array *a = (struct array *)object;
  v->data = a->memory, v->device = CPU, v->dtype = (int)a->dtype, v->ndim = a->ndim, v->dense = true;
  memcpy(v->shape, a->shape, sizeof v->shape);
  v->hold = Py_NewRef(object);
  return 0;
}

// ---- all ----

static bool has(struct state *st, PyObject *object, enum word w)
{
  PyObject *x = PyObject_GetAttr(object, st->word[w]);
  if (!x) PyErr_Clear();
  Py_XDECREF(x);
  return x;
}

static int take_numpy(struct state *st, PyObject *object, struct view *v)
{
  if (!st->library[FAMILY_NUMPY].empty && ext_library_open(st, FAMILY_NUMPY)) PyErr_Clear(); // a type that calls itself numpy's
  if (ext_ndarray_take(st, object, v) || !take_dlpack(st, object, v)) return 0;
  PyErr_Clear();
  return take_interface(st, object, WORD___array_interface__, v);
}

static int take_other(struct state *st, PyObject *object, void *stream, struct view *v)
{
  if (has(st, object, WORD___dlpack_device__)) return take_dlpack_device(st, object, stream, v);
  if (has(st, object, WORD___cuda_array_interface__)) return take_cuda_interface(st, object, v);
  if (has(st, object, WORD___array_interface__)) return take_interface(st, object, WORD___array_interface__, v);
  if (PyObject_CheckBuffer(object)) return take_buffer(object, v);
  PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__name__");
  const char *name = type ? PyUnicode_AsUTF8AndSize(type, NULL) : NULL;
  ext_raise_argument(st, "%.100s is no array: it has neither __dlpack__ nor __array_interface__ nor a buffer", name ? name : "this");
  Py_XDECREF(type);
  return -1;
}

static int take(struct state *st, enum family f, PyObject *object, void *stream, struct view *v)
{
  switch (f) {
  case FAMILY_NUMPY: return take_numpy(st, object, v);
  case FAMILY_TORCH: return ext_torch_take(st, object, v);
  case FAMILY_CUPY: return take_cuda_interface(st, object, v);
  case FAMILY_OWN: return take_own(object, v);
  case FAMILY_JAX:
  case FAMILY_OTHER:
  case FAMILIES: break;
  }
  return take_other(st, object, stream, v);
}

int ext_view_take(struct state *st, enum family f, PyObject *object, void *stream, struct view *v)
{
  v->hold = NULL, v->has_buffer = v->has_stream = v->readonly = false, v->dtype_name[0] = 0;
  if (!take(st, f, object, stream, v)) return 0;
  ext_view_release(v);
  return -1;
}
