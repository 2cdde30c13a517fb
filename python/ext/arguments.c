// The arguments of a call: inputs by position or by name, `out=`, `stream=`; and which stream is the current one.
#include "ext.h"

#include <stdio.h>
#include <string.h>

static int by_name(struct module *f, const char *name, PyObject *value, struct arguments *a)
{
  for (int i = 0; i < f->nin; i++) {
    if (strcmp(f->in[i].name, name)) continue;
    if (a->input[i]) return ext_raise_argument(f->st, "input %s is given twice", name), -1;
    return a->input[i] = value, 0;
  }
  char all[600] = "";
  size_t n = 0;
  for (int i = 0; i < f->nin && n < sizeof all; i++) n += (size_t)snprintf(all + n, sizeof all - n, "%s%.60s", i ? ", " : "", f->in[i].name);
  return ext_raise_argument(f->st, "there is no input `%.100s`; the inputs are %s, and `out` and `stream` are the other names", name, all), -1;
}

static int keywords_take(struct module *f, PyObject *keywords, struct arguments *a)
{
  PyObject *name, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(keywords, &at, &name, &value)) {
    if (name == f->st->word[WORD_out])
      a->out = value == Py_None ? NULL : value;
    else if (name == f->st->word[WORD_stream])
      a->stream = value == Py_None ? NULL : value;
    else {
      const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
      if (!text || by_name(f, text, value, a)) return -1;
    }
  }
  return 0;
}

int ext_arguments_take(struct module *f, PyObject *args, PyObject *keywords, struct arguments *a)
{
  Py_ssize_t n = PyTuple_Size(args);
  a->out = a->stream = NULL;
  if (n > f->nin) return ext_raise_argument(f->st, "%zd inputs are given, and the program takes %d", n, f->nin), -1;
  for (Py_ssize_t i = 0; i < f->nin; i++) a->input[i] = i < n ? PyTuple_GetItem(args, i) : NULL;
  if (keywords && keywords_take(f, keywords, a)) return -1;
  for (int i = 0; i < f->nin; i++)
    if (!a->input[i]) return ext_raise_argument(f->st, "input %d (%.150s) is missing: the program takes %d", i, f->in[i].name, f->nin), -1;
  return 0;
}

// ---- streams ----

static int number(PyObject *x, void **out)
{
  *out = x ? PyLong_AsVoidPtr(x) : NULL;
  Py_XDECREF(x);
  return PyErr_Occurred() ? -1 : 0;
}

int ext_stream_number(struct state *st, PyObject *stream, void **out)
{
  static const char *const names[] = {"cuda_stream", "ptr"}; // of torch, of cupy
  if (PyLong_Check(stream)) return number(Py_NewRef(stream), out);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    PyObject *x = PyObject_GetAttrString(stream, names[i]);
    if (x) return number(x, out);
    PyErr_Clear();
  }
  PyObject *pair = PyObject_CallMethod(stream, "__cuda_stream__", NULL);
  if (!pair) return PyErr_Clear(), ext_raise_argument(st, "stream= takes a number, or a stream of torch or cupy"), -1;
  PyObject *x = PySequence_GetItem(pair, 1);
  Py_DECREF(pair);
  return number(x, out);
}

static int long_of(PyObject *x, long *out)
{
  *out = x ? PyLong_AsLong(x) : -1;
  Py_XDECREF(x);
  return PyErr_Occurred() ? -1 : 0;
}

// torch: the stream of the device that the first input is on, which has to be the current one: kernels are launched there.
int ext_stream_current(struct module *f, enum family family, PyObject *first, void **out)
{
  struct library *torch = &f->st->library[FAMILY_TORCH];
  long device, current;
  *out = NULL;
  if (!f->gpu || family != FAMILY_TORCH) return 0;
  if (!torch->empty && ext_library_open(f->st, FAMILY_TORCH)) return -1;
  if (!torch->device || long_of(PyObject_CallMethodObjArgs(first, f->st->word[WORD_get_device], NULL), &device)) return -1;
  if (device < 0) return 0; // ext_view_check says what is wrong
  if (long_of(PyObject_CallNoArgs(torch->device), &current)) return -1;
  if (device != current)
    return ext_raise_argument(f->st, "the tensors are on cuda:%ld, and the current device is cuda:%ld: call under torch.cuda.device(%ld)", device,
                              current, device),
           -1;
  if (!torch->current) return 0;
  PyObject *index = PyLong_FromLong(device);
  PyObject *x = index ? PyObject_CallFunctionObjArgs(torch->current, index, NULL) : NULL;
  Py_XDECREF(index);
  return number(x, out);
}
