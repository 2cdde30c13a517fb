// New arrays for results: of the library that the first input is of.
#include "ext.h"

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
  if (!l->empty && ext_library_open(st, family)) return NULL;
  if (!l->dtype[t->dtype] && family == FAMILY_NUMPY) ext_numpy_dtype(l, t->dtype);
  switch (family) {
  case FAMILY_NUMPY:
  case FAMILY_CUPY:
    if (!l->dtype[t->dtype])
      return ext_raise_argument(st, "%s has no %s: pass out=", family == FAMILY_NUMPY ? "numpy" : "cupy", num_rows[t->dtype].array);
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
