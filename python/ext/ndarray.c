// Arrays of numpy, looked at in memory: a few loads, where __dlpack__ takes 0.1 us. Only of numpy.ndarray itself, and only of dtypes that
// programs take; for all else take() refuses, and view.c asks the array. An array is looked at so once numpy is open and one of its arrays
// was found to lie in memory as ndarray.h says.
#include "ext.h"
#include "ndarray.h"

#include <string.h>

static int dtype_of(const struct library *numpy, const PyObject *descr)
{
  for (int i = 0; i < DTYPES; i++)
    if (numpy->dtype[i] == descr) return i;
  return -1;
}

bool ext_ndarray_take(struct state *st, PyObject *object, struct view *v)
{
  const struct library *numpy = &st->library[FAMILY_NUMPY];
  const struct ndarray *a = (const struct ndarray *)object;
  if (Py_TYPE(object) != numpy->exact || (v->dtype = dtype_of(numpy, a->descr)) < 0 || a->nd > MICA_MAX_DIMS) return false;
  v->data = a->data, v->device = CPU, v->ndim = a->nd, v->readonly = !(a->flags & ND_WRITEABLE);
  for (int i = 0; i < a->nd; i++) v->shape[i] = a->dimensions[i];
  v->dense = ext_view_dense(a->nd, v->shape, a->strides, ext_dtype_bytes((enum mica_dtype)v->dtype));
  v->hold = Py_NewRef(object);
  return true;
}

// ---- whether they lie in memory so ----

static bool says(PyObject *object, const char *name, long least, long most)
{
  PyObject *x = PyObject_GetAttrString(object, name);
  long n = x ? PyLong_AsLong(x) : -1;
  Py_XDECREF(x);
  return !PyErr_Occurred() && n >= least && n <= most;
}

static bool sized(const struct library *numpy)
{
  for (int i = 0; i < DTYPES; i++) {
    long n = ext_dtype_bytes((enum mica_dtype)i);
    if (numpy->dtype[i] && !says(numpy->dtype[i], "itemsize", n, n)) return false;
  }
  return true;
}

// x: float32[3, 5], new.
static bool lies_so(const struct library *numpy, PyObject *x)
{
  enum { FLAGS = ND_C_CONTIGUOUS | ND_OWN_DATA | ND_ALIGNED | ND_WRITEABLE };
  const struct ndarray *a = (const struct ndarray *)x;
  Py_buffer b;
  if (PyObject_GetBuffer(x, &b, PyBUF_STRIDES)) return false;
  bool same = a->data == b.buf && a->nd == 2 && a->descr == numpy->dtype[MICA_F32] && (a->flags & FLAGS) == FLAGS && a->dimensions[0] == 3 &&
              a->dimensions[1] == 5 && a->strides[0] == 20 && a->strides[1] == 4;
  PyBuffer_Release(&b);
  PyObject *none = same ? PyObject_CallMethod(x, "setflags", "i", 0) : NULL; // write=
  Py_XDECREF(none);
  return none && (a->flags & FLAGS) == (FLAGS & ~ND_WRITEABLE);
}

void ext_ndarray_open(struct state *st, PyObject *module)
{
  struct library *numpy = &st->library[FAMILY_NUMPY];
  PyObject *type = PyObject_GetAttrString(module, "ndarray");
  PyObject *x = type ? PyObject_CallFunction(numpy->empty, "(ii)O", 3, 5, numpy->dtype[MICA_F32]) : NULL;
  bool good = x && (PyObject *)Py_TYPE(x) == type && says(type, "__basicsize__", sizeof(struct ndarray), 1 << 16);
  good = good && sized(numpy) && lies_so(numpy, x);
  if (good) numpy->exact = (PyTypeObject *)Py_NewRef(type);
  Py_XDECREF(x), Py_XDECREF(type);
  PyErr_Clear();
}
