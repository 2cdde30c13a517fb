// New arrays for results: of the library that the first input is of. Functions of a library are looked up once.
#include "ext.h"

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

// ml_dtypes may have been loaded since numpy was open.
static void look_again(struct library *numpy, enum mica_dtype t)
{
  PyObject *m = PyImport_ImportModule("numpy");
  if (m)
    numpy->dtype[t] = dtype_of_numpy(m, t);
  else
    PyErr_Clear();
  Py_XDECREF(m);
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
    l->exchange = l->exact ? ext_torch_exchange((PyObject *)l->exact) : NULL;
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

static PyObject *torch_new(struct module *f, PyObject *like, int output)
{
  struct state *st = f->st;
  enum mica_dtype dtype = f->out[output].dtype;
  struct library *torch = &st->library[FAMILY_TORCH];
  if (!f->gpu && torch->strided && ext_torch_plain(torch, like)) // the inputs are on the CPU: they were looked at
    return PyObject_CallFunctionObjArgs(torch->strided, f->shapes[output], f->strides[output], torch->dtype[dtype], NULL);
  if (f->nin && f->in[0].dtype == dtype) return PyObject_CallMethodObjArgs(like, st->word[WORD_new_empty], f->shapes[output], NULL);
  PyObject *method = PyObject_GetAttr(like, st->word[WORD_new_empty]), *args = PyTuple_Pack(1, f->shapes[output]);
  PyObject *keywords = PyDict_New(), *x = NULL;
  if (method && args && keywords && !PyDict_SetItem(keywords, st->word[WORD_dtype], torch->dtype[dtype])) x = PyObject_Call(method, args, keywords);
  Py_XDECREF(method), Py_XDECREF(args), Py_XDECREF(keywords);
  return x;
}

PyObject *ext_result_new(struct module *f, enum family family, PyObject *like, int output)
{
  struct state *st = f->st;
  const struct mica_tensor *t = &f->out[output];
  struct library *l = &st->library[family];
  if (!l->empty && modules[family] && ext_library_open(st, family)) return NULL;
  if (!l->dtype[t->dtype] && family == FAMILY_NUMPY) look_again(l, t->dtype);
  switch (family) {
  case FAMILY_NUMPY:
  case FAMILY_CUPY:
    if (!l->dtype[t->dtype]) return ext_raise_argument(st, "%s has no %s: pass out=", modules[family], num_rows[t->dtype].array);
    return PyObject_CallFunctionObjArgs(l->empty, f->shapes[output], l->dtype[t->dtype], NULL);
  case FAMILY_TORCH: return torch_new(f, like, output);
  case FAMILY_JAX:
  case FAMILY_OWN:
  case FAMILY_OTHER:
  case FAMILIES: break;
  }
  if (f->gpu) return ext_raise_argument(st, "results on a GPU are made for torch and cupy alone: pass out=");
  return (PyObject *)ext_array_make(st, t->dtype, t->ndim, t->shape);
}

static PyObject *to_jax(struct state *st, PyObject *array)
{
  PyObject *from = st->library[FAMILY_JAX].from;
  return from ? PyObject_CallFunctionObjArgs(from, array, NULL) : ext_raise_argument(st, "this jax has no jax.dlpack.from_dlpack");
}

PyObject *ext_result_finish(struct module *f, enum family family, PyObject *made)
{
  if (family != FAMILY_JAX || !made) return made;
  PyObject *x = NULL;
  if (f->nresults == 1)
    x = to_jax(f->st, made);
  else if ((x = PyTuple_New(f->nresults)))
    for (int i = 0; i < f->nresults; i++) {
      PyObject *one = to_jax(f->st, PyTuple_GetItem(made, i));
      if (one && !PyTuple_SetItem(x, i, one)) continue;
      Py_CLEAR(x);
      break;
    }
  Py_DECREF(made);
  return x;
}
