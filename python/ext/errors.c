// Exceptions: Error, and one below it for each status of the library. The message is the library's; `code` is the stable word
// in brackets at the end of its first line (docs/language.md), "" where there is none; `status` the number.
#include "ext.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
  const char *name, *base, *doc;
} rows[] = {
    {"mica.Error", NULL, "What Mica could not do. str() says what is wrong and what to do; code is a stable word, status a number."},
    {"mica.NotEqualError", NULL, "The answer is no: not equal, or a kernel computes wrong values."},
    {"mica.UsageError", "ValueError", "A program, an option or an argument is wrong."},
    {"mica.MachineError", "RuntimeError", "No compiler, a full disk, too little memory, no GPU, or stopped."},
};

static PyObject *builtin(const char *name)
{
  PyObject *m = PyImport_ImportModule("builtins");
  PyObject *x = m ? PyObject_GetAttrString(m, name) : NULL;
  Py_XDECREF(m);
  return x;
}

// A class below `first` and, where given, the builtin exception `second`.
static PyObject *below(const char *name, const char *doc, PyObject *first, const char *second)
{
  if (!second) return PyErr_NewExceptionWithDoc(name, doc, first, NULL);
  PyObject *other = builtin(second);
  PyObject *bases = other ? PyTuple_Pack(2, first, other) : NULL;
  PyObject *x = bases ? PyErr_NewExceptionWithDoc(name, doc, bases, NULL) : NULL;
  Py_XDECREF(other), Py_XDECREF(bases);
  return x;
}

static int add(PyObject *module, const char *name, PyObject *x) { return x ? PyModule_AddObjectRef(module, strchr(name, '.') + 1, x) : -1; }

// The members of an exception that Python code raises: no word, and the number of its class.
static int defaults(PyObject *type, int status)
{
  PyObject *code = PyUnicode_FromString(""), *number = PyLong_FromLong(status);
  int failed = !code || !number || PyObject_SetAttrString(type, "code", code) || PyObject_SetAttrString(type, "status", number);
  Py_XDECREF(code), Py_XDECREF(number);
  return failed;
}

int ext_errors_add(PyObject *module, struct state *st)
{
  for (int i = 0; i < 4; i++) {
    st->error[i] = below(rows[i].name, rows[i].doc, i ? st->error[0] : NULL, rows[i].base);
    if (add(module, rows[i].name, st->error[i]) || defaults(st->error[i], i)) return -1;
  }
  st->argument =
      below("mica.ArgumentError",
            "An argument of a call has another dtype, shape or device than the program takes, or is not dense; or no operand of a traced function.",
            st->error[MICA_USER], "TypeError");
  return add(module, "mica.ArgumentError", st->argument);
}

// The word in brackets that ends the first line.
static PyObject *code_of(const char *message)
{
  const char *end = message + strcspn(message, "\n");
  if (end == message || end[-1] != ']') return PyUnicode_FromString("");
  const char *p = --end;
  while (p > message && ((p[-1] >= 'a' && p[-1] <= 'z') || (p[-1] >= '0' && p[-1] <= '9') || p[-1] == '-')) p--;
  return p > message && p[-1] == '[' && end > p ? PyUnicode_FromStringAndSize(p, end - p) : PyUnicode_FromString("");
}

static PyObject *raise_as(PyObject *type, int status, const char *message)
{
  // Messages quote files and names, which may be cut within a character or have other bytes than UTF-8.
  PyObject *text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
  PyObject *x = text ? PyObject_CallFunctionObjArgs(type, text, NULL) : NULL, *code = code_of(message), *number = PyLong_FromLong(status);
  if (x && code && number && !PyObject_SetAttrString(x, "code", code) && !PyObject_SetAttrString(x, "status", number)) PyErr_SetObject(type, x);
  Py_XDECREF(text), Py_XDECREF(x), Py_XDECREF(code), Py_XDECREF(number);
  return NULL;
}

PyObject *ext_raise_status(struct state *st, int status, const char *message)
{
  int i = status > 0 && status < 4 ? status : 0;
  return raise_as(st->error[i], status, message && *message ? message : "the library gave no reason");
}

// The command's "mica: " and the line end are not part of what an exception says.
PyObject *ext_raise_context(struct context *c, int status)
{
  char text[4096];
  const char *m = mica_error(c->m);
  if (!strncmp(m, "mica: ", 6)) m += 6;
  if (!strncmp(m, "error: ", 7)) m += 7;
  snprintf(text, sizeof text, "%s", m);
  size_t n = strlen(text);
  while (n && text[n - 1] == '\n') text[--n] = 0;
  return ext_raise_status(c->st, status, text);
}

PyObject *ext_raise_argument(struct state *st, const char *format, ...)
{
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return raise_as(st->argument, MICA_USER, text);
}
