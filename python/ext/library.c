// Types and functions of numpy, torch, cupy and jax, which are looked up once.
#include "ext.h"
#include "dlpack.h"

#include <string.h>

static const char *const modules[FAMILIES] = {[FAMILY_NUMPY] = "numpy", [FAMILY_TORCH] = "torch", [FAMILY_CUPY] = "cupy", [FAMILY_JAX] = "jax"};

// a.b.c of a module; NULL without an exception where it is absent.
static PyObject *look(PyObject *module, const char *path)
{
  PyObject *x = Py_NewRef(module);
  char part[64];
  for (const char *p = path; x && *p; p += *p == '.') {
    size_t n = strcspn(p, ".");
    memcpy(part, p, n), part[n] = 0;
    PyObject *next = PyObject_GetAttrString(x, part);
    Py_DECREF(x);
    x = next, p += n;
  }
  if (!x) PyErr_Clear();
  return x;
}

// An object of numpy.dtype, which is what arrays have. Types that numpy has not are those of ml_dtypes, where it is loaded. NULL without an
// exception else.
static PyObject *dtype_of_numpy(PyObject *numpy, enum mica_dtype t)
{
  PyObject *home = num_rows[t].numpy ? numpy : PyDict_GetItemString(PyImport_GetModuleDict(), "ml_dtypes");
  PyObject *scalar = home ? look(home, num_rows[t].array) : NULL, *type = scalar ? look(numpy, "dtype") : NULL;
  PyObject *x = type ? PyObject_CallFunctionObjArgs(type, scalar, NULL) : NULL;
  Py_XDECREF(scalar), Py_XDECREF(type);
  if (!x) PyErr_Clear();
  return x;
}

void ext_numpy_dtype(struct library *numpy, enum mica_dtype t)
{
  PyObject *m = PyImport_ImportModule("numpy");
  if (m)
    numpy->dtype[t] = dtype_of_numpy(m, t);
  else
    PyErr_Clear();
  Py_XDECREF(m);
}

static const struct dl_exchange *exchange_of(PyObject *type)
{
  PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
  const struct dl_exchange *x = capsule ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api") : NULL; // stays as long as the process
  Py_XDECREF(capsule);
  PyErr_Clear();
  return x && x->version.major == 1 && x->look ? x : NULL;
}

int ext_library_open(struct state *st, enum family f)
{
  struct library *l = &st->library[f];
  if (!modules[f]) return 0;
  PyObject *m = PyImport_ImportModule(modules[f]);
  if (!m) return -1;
  for (int i = 0; i < DTYPES; i++)
    if (!l->dtype[i]) l->dtype[i] = f == FAMILY_NUMPY ? dtype_of_numpy(m, (enum mica_dtype)i) : look(m, num_rows[i].array);
  if (f == FAMILY_TORCH) {
    l->current = look(m, "_C._cuda_getCurrentRawStream"); // what torch's own compiler calls; absent without CUDA
    l->grad = look(m, "is_grad_enabled"), l->device = look(m, "cuda.current_device");
    l->strided = look(m, "_C._dynamo.guards._empty_strided_cpu"); // as above; takes a third of new_empty's time
    l->exact = (PyTypeObject *)look(m, "Tensor"), l->parameter = (PyTypeObject *)look(m, "nn.Parameter");
    l->exchange = l->exact ? exchange_of((PyObject *)l->exact) : NULL;
  }
  if (f == FAMILY_JAX) {
    PyObject *dlpack = PyImport_ImportModule("jax.dlpack");
    l->from = dlpack ? look(dlpack, "from_dlpack") : NULL;
    Py_XDECREF(dlpack);
    PyErr_Clear();
  }
  l->empty = look(m, "empty"); // last: it says that the library is open
  if (!l->empty && f == FAMILY_JAX) l->empty = Py_NewRef(m);
  if (l->empty && f == FAMILY_NUMPY) ext_ndarray_open(st, m);
  Py_DECREF(m);
  return l->empty && (f != FAMILY_TORCH || l->grad) ? 0 : (PyErr_Format(PyExc_ImportError, "%s is not what it was", modules[f]), -1);
}
