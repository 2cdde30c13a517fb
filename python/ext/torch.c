// Tensors of torch. Their functions in C (dlpack.h) tell in a few nanoseconds what five attributes tell in 0.3 us; they are asked about
// tensors and parameters themselves. Attributes are asked about subclasses, with a torch that has no such functions, and about what no
// program takes, because they name it as torch does.
#include "ext.h"
#include "dlpack.h"

#include <stdio.h>

static PyObject *call0(struct state *st, PyObject *object, enum word w) { return PyObject_CallMethodObjArgs(object, st->word[w], NULL); }

static bool said_yes(PyObject *x)
{
  bool yes = x && PyObject_IsTrue(x) > 0;
  Py_XDECREF(x);
  return yes;
}

static int torch_dtype(struct state *st, PyObject *object, struct view *v)
{
  PyObject *dtype = PyObject_GetAttr(object, st->word[WORD_dtype]);
  if (!dtype) return -1;
  v->dtype = -1;
  for (int i = 0; i < DTYPES; i++)
    if (dtype == st->library[FAMILY_TORCH].dtype[i]) v->dtype = i;
  if (v->dtype < 0) {
    PyObject *name = PyObject_Str(dtype);
    const char *text = name ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    snprintf(v->dtype_name, sizeof v->dtype_name, "%s", text ? text : "?");
    Py_XDECREF(name);
  }
  Py_DECREF(dtype);
  return PyErr_Occurred() ? -1 : 0;
}

static int torch_shape(struct state *st, PyObject *object, struct view *v)
{
  PyObject *shape = PyObject_GetAttr(object, st->word[WORD_shape]);
  if (!shape) return -1;
  v->ndim = (int)PyTuple_Size(shape);
  for (int i = 0; i < v->ndim && i < MICA_MAX_DIMS; i++) v->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
  Py_DECREF(shape);
  return PyErr_Occurred() ? -1 : 0;
}

static int attributes(struct state *st, PyObject *object, struct view *v)
{
  if (torch_dtype(st, object, v) || torch_shape(st, object, v)) return -1;
  PyObject *device = call0(st, object, WORD_get_device), *address = device ? call0(st, object, WORD_data_ptr) : NULL;
  v->device = device ? (int)PyLong_AsLong(device) : CPU;
  v->data = address ? PyLong_AsVoidPtr(address) : NULL;
  v->dense = address && said_yes(call0(st, object, WORD_is_contiguous));
  Py_XDECREF(device), Py_XDECREF(address);
  return PyErr_Occurred() ? -1 : 0;
}

bool ext_torch_plain(const struct library *torch, PyObject *object) { return Py_TYPE(object) == torch->exact || Py_TYPE(object) == torch->parameter; }

static bool told(const struct library *torch, PyObject *object, struct view *v)
{
  struct dl_tensor t;
  if (!torch->exchange || !ext_torch_plain(torch, object)) return false;
  if (torch->exchange->look(object, &t)) return PyErr_Clear(), false;
  if (t.device.type != DL_CPU && t.device.type != DL_CUDA_HOST && t.device.type != DL_CUDA && t.device.type != DL_CUDA_MANAGED) return false;
  ext_view_dl(v, &t);
  return v->dtype >= 0;
}

int ext_torch_take(struct state *st, PyObject *object, struct view *v)
{
  struct library *torch = &st->library[FAMILY_TORCH];
  if (!torch->empty && ext_library_open(st, FAMILY_TORCH)) return -1;
  if (!told(torch, object, v) && attributes(st, object, v)) return -1;
  if (said_yes(PyObject_GetAttr(object, st->word[WORD_requires_grad])) && said_yes(PyObject_CallNoArgs(torch->grad)))
    return ext_raise_argument(st, "a tensor that requires a gradient, which programs of Mica do not compute: call under "
                                  "torch.no_grad(), or pass tensor.detach()"),
           -1;
  if (said_yes(call0(st, object, WORD_is_neg)))
    return ext_raise_argument(st, "a tensor whose memory has the other sign (is_neg()): pass tensor.resolve_neg()"), -1;
  if (PyErr_Occurred()) return -1;
  v->hold = Py_NewRef(object);
  return 0;
}
