// Mega: a model as one persistent kernel. Its rows, weights and answers as Python's numbers, tuples and arrays.
#include "ext.h"

#include <string.h>

enum { MOST_ROWS = 64, MOST_PAGES = 1 << 20 };

struct mega {
  PyObject_HEAD struct context *c;
  struct mica_mega *x;
};

// The end of a call within ext_context_enter: an exception, or `made`.
static PyObject *mega_answer(struct mega *g, int status, PyObject *made)
{
  if (status) Py_XDECREF(made), made = ext_raise_context(g->c, status);
  ext_context_leave(g->c);
  return made;
}

static PyObject *mega_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
  struct state *st = PyType_GetModuleState(type);
  struct context *c;
  const char *text, *name;
  struct mica_mega_options o;
  struct mica_mega *made;
  int trace, status;
  mica_mega_options_init(&o, sizeof o);
  if (!st) return NULL;
  if (keywords) return PyErr_SetString(PyExc_TypeError, "Mega takes no keywords"), NULL;
  if (!PyArg_ParseTuple(args, "O!ss(siiiidpi)", st->context, &c, &text, &name, &o.engine, &o.device, &o.rows, &o.pages, &o.workers, &o.deadline,
                        &trace, &o.attention_parts))
    return NULL;
  o.trace = trace;
  if (ext_context_enter(c)) return NULL;
  Py_BEGIN_ALLOW_THREADS status = mica_mega_open(c->m, text, name, &o, &made);
  Py_END_ALLOW_THREADS if (status) ext_raise_context(c, status);
  struct mega *g = status ? NULL : PyObject_New(struct mega, type);
  if (!status && !g) mica_mega_close(made);
  ext_context_leave(c);
  if (g) g->c = (struct context *)Py_NewRef((PyObject *)c), g->x = made;
  return (PyObject *)g;
}

// Without the lock it goes with the context.
static void mega_free(PyObject *self)
{
  struct mega *g = (struct mega *)self;
  PyTypeObject *type = Py_TYPE(self);
  if (PyThread_acquire_lock(g->c->lock, NOWAIT_LOCK)) {
    mica_mega_close(g->x);
    PyThread_release_lock(g->c->lock);
  }
  Py_DECREF((PyObject *)g->c);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyObject *mega_tensors(PyObject *self, void *none)
{
  static const char *const kinds[] = {"weights", "state", "output"};
  struct mega *g = (struct mega *)self;
  int n = mica_mega_tensors(g->x);
  PyObject *all = PyTuple_New(n);
  (void)none;
  for (int i = 0; all && i < n; i++) {
    struct mica_mega_value t = mica_mega_tensor(g->x, i);
    PyObject *shape = ext_shape_tuple(&t.tensor),
             *one = shape ? Py_BuildValue("(sssN)", t.tensor.name, kinds[t.kind], ext_dtype_name(t.tensor.dtype), shape) : NULL;
    if (!one || PyTuple_SetItem(all, i, one)) Py_CLEAR(all);
  }
  return all;
}

static PyObject *mega_sizes(PyObject *self, void *none)
{
  struct mega *g = (struct mega *)self;
  int slots, pages = mica_mega_pages(g->x, &slots);
  (void)none;
  return Py_BuildValue("(iii)", mica_mega_rows(g->x), pages, slots);
}

static PyObject *mega_fault(PyObject *self, void *none) { return (void)none, PyUnicode_FromString(mica_mega_fault(((struct mega *)self)->x)); }
static PyObject *mega_seconds(PyObject *self, void *none) { return (void)none, PyFloat_FromDouble(mica_mega_seconds(((struct mega *)self)->x)); }

static PyObject *mega_tell(PyObject *self, PyObject *args)
{
  struct mega *g = (struct mega *)self;
  const char *what, *text = NULL;
  if (!PyArg_ParseTuple(args, "s", &what) || ext_context_enter(g->c)) return NULL;
  int status;
  Py_BEGIN_ALLOW_THREADS status = mica_mega_tell(g->x, what, &text);
  Py_END_ALLOW_THREADS return mega_answer(g, status, status ? NULL : PyUnicode_FromString(text));
}

// An array on the CPU, its elements one after another. Its shape is the caller's affair: the number of elements is checked.
static PyObject *mega_weights(PyObject *self, PyObject *args)
{
  struct mega *g = (struct mega *)self;
  struct state *st = g->c->st;
  const char *name;
  PyObject *object;
  struct view v = {0};
  if (!PyArg_ParseTuple(args, "sO", &name, &object)) return NULL;
  if (ext_view_take(st, ext_family_of(st, object), object, NULL, &v)) return NULL;
  int64_t n = 1;
  for (int i = 0; i < v.ndim && v.dense; i++) n *= v.shape[i]; // of more dimensions than programs have none is dense
  PyObject *made = NULL;
  if (v.device != CPU)
    ext_raise_argument(st, "weights %.60s are on GPU %d: copy them to the CPU first", name, v.device);
  else if (v.dtype < 0)
    ext_raise_argument(st, "weights %.60s are %.24s; dtypes are %s", name, v.dtype_name, num_names());
  else if (!v.dense)
    ext_raise_argument(st, "weights %.60s are not dense: make a contiguous copy", name);
  else if (!ext_context_enter(g->c)) {
    int status;
    Py_BEGIN_ALLOW_THREADS status = mica_mega_weights(g->x, name, (enum mica_dtype)v.dtype, n, v.data);
    Py_END_ALLOW_THREADS made = mega_answer(g, status, Py_NewRef(Py_None));
  }
  ext_view_release(&v);
  return made;
}

static PyObject *mega_random(PyObject *self, PyObject *args)
{
  struct mega *g = (struct mega *)self;
  unsigned long long seed;
  int status;
  if (!PyArg_ParseTuple(args, "K", &seed) || ext_context_enter(g->c)) return NULL;
  Py_BEGIN_ALLOW_THREADS status = mica_mega_random(g->x, seed);
  Py_END_ALLOW_THREADS return mega_answer(g, status, Py_NewRef(Py_None));
}

// ---- steps ----

// Numbers of a sequence of pages; PyMem_Free frees them.
static int pages_of(PyObject *sequence, int32_t **out)
{
  Py_ssize_t n = PySequence_Size(sequence);
  *out = NULL;
  if (n < 0) return -1;
  if (n > MOST_PAGES) return PyErr_SetString(PyExc_ValueError, "a page table is too long"), -1;
  if (!(*out = PyMem_Calloc((size_t)n + 1, sizeof **out))) return PyErr_NoMemory(), -1;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *x = PySequence_GetItem(sequence, i);
    long page = x ? PyLong_AsLong(x) : -1;
    Py_XDECREF(x);
    if (page == -1 && PyErr_Occurred()) return -1;
    (*out)[i] = page < 0 || page > INT32_MAX ? -1 : (int32_t)page;
  }
  return (int)n;
}

static int row_take(PyObject *given, struct mica_mega_row *r)
{
  PyObject *pages;
  long long position;
  unsigned long long seed;
  if (!PyTuple_Check(given)) return PyErr_SetString(PyExc_TypeError, "a row is a tuple"), -1;
  if (!PyArg_ParseTuple(given, "iiLOfiK", &r->request, &r->token, &position, &pages, &r->temperature, &r->top, &seed)) return -1;
  int32_t *table;
  int n = pages_of(pages, &table);
  r->position = position, r->seed = seed, r->npages = n, r->pages = table;
  return n < 0 ? -1 : 0;
}

static PyObject *tokens_list(const int32_t *tokens, int steps, int rows)
{
  PyObject *all = PyList_New(steps);
  for (int s = 0; all && s < steps; s++) {
    PyObject *one = PyList_New(rows);
    for (int r = 0; one && r < rows; r++)
      if (PyList_SetItem(one, r, PyLong_FromLong(tokens[s * rows + r]))) Py_CLEAR(one);
    if (!one || PyList_SetItem(all, s, one)) Py_CLEAR(all);
  }
  return all;
}

static struct array *logits_array(struct mega *g)
{
  for (int i = 0; i < mica_mega_tensors(g->x); i++) {
    struct mica_mega_value t = mica_mega_tensor(g->x, i);
    if (t.kind == MICA_MEGA_OUTPUT && t.tensor.dtype == MICA_F32) return ext_array_make(g->c->st, MICA_F32, t.tensor.ndim, t.tensor.shape);
  }
  return NULL;
}

static PyObject *launch(struct mega *g, const struct mica_mega_row *rows, int n, int steps, int want)
{
  int32_t *tokens = PyMem_Calloc((size_t)(steps > 0 ? steps : 1) * (size_t)n, sizeof *tokens);
  struct array *logits = want ? logits_array(g) : NULL;
  PyObject *made = NULL;
  if (!tokens) PyErr_NoMemory();
  if (tokens && !PyErr_Occurred() && !ext_context_enter(g->c)) {
    int status;
    Py_BEGIN_ALLOW_THREADS status = mica_mega_step(g->x, rows, steps, tokens, logits ? logits->memory : NULL);
    Py_END_ALLOW_THREADS PyObject *list = status ? NULL : tokens_list(tokens, steps, n);
    made = mega_answer(g, status, list ? Py_BuildValue("(NO)", list, logits ? (PyObject *)logits : Py_None) : NULL);
  }
  Py_XDECREF((PyObject *)logits);
  PyMem_Free(tokens);
  return made;
}

static PyObject *mega_step(PyObject *self, PyObject *args)
{
  struct mega *g = (struct mega *)self;
  struct mica_mega_row rows[MOST_ROWS] = {{0}};
  PyObject *given, *made = NULL;
  int steps, want, n = mica_mega_rows(g->x), bad = 0;
  if (!PyArg_ParseTuple(args, "Oip", &given, &steps, &want)) return NULL;
  Py_ssize_t count = PySequence_Size(given);
  if (count < 0) return NULL;
  if (count != n) return ext_raise_argument(g->c->st, "%zd rows are given, and a step has %d", count, n);
  if (steps < 1 || steps > 64) return ext_raise_argument(g->c->st, "a launch has 1 to 64 steps, and %d are asked for", steps);
  for (int r = 0; r < n && !bad; r++) {
    PyObject *one = PySequence_GetItem(given, r);
    bad = !one || row_take(one, &rows[r]);
    Py_XDECREF(one);
  }
  if (!bad) made = launch(g, rows, n, steps, want);
  for (int r = 0; r < n; r++) PyMem_Free((void *)rows[r].pages);
  return made;
}

static PyObject *mega_trace(PyObject *self, PyObject *args)
{
  struct mega *g = (struct mega *)self;
  const char *path;
  if (!PyArg_ParseTuple(args, "s", &path) || ext_context_enter(g->c)) return NULL;
  return mega_answer(g, mica_mega_trace(g->x, path), Py_NewRef(Py_None));
}

static PyObject *mega_plant(PyObject *self, PyObject *args)
{
  struct mega *g = (struct mega *)self;
  int on;
  if (!PyArg_ParseTuple(args, "p", &on) || ext_context_enter(g->c)) return NULL;
  return mega_answer(g, mica_mega_plant(g->x, on), Py_NewRef(Py_None));
}

static PyMethodDef mega_methods[] = {
    {"tell", mega_tell, METH_VARARGS, "tell(what): a text, as mica_mega_tell has them"},
    {"weights", mega_weights, METH_VARARGS, "weights(name, array)"},
    {"random", mega_random, METH_VARARGS, "random(seed): all weights"},
    {"step", mega_step, METH_VARARGS,
     "step(rows, steps, logits): (tokens by step and row, Array of logits or None); a row is (request, token, position, pages, temperature, top, "
     "seed)"},
    {"trace", mega_trace, METH_VARARGS, "trace(path): the last step in the Trace Event Format"},
    {"plant", mega_plant, METH_VARARGS, "plant(on): launches end as hung"},
    {0},
};
static PyGetSetDef mega_fields[] = {
    {"tensors", mega_tensors, NULL, "(name, kind, dtype, shape) of weights, state and output", NULL},
    {"sizes", mega_sizes, NULL, "(rows, pages, positions of a page)", NULL},
    {"fault", mega_fault, NULL, "the record of the last launch; empty: it had no fault", NULL},
    {"seconds", mega_seconds, NULL, "seconds of the last launch", NULL},
    {0},
};
static PyType_Slot mega_slots[] = {
    {Py_tp_new, mega_new}, {Py_tp_dealloc, mega_free}, {Py_tp_methods, mega_methods}, {Py_tp_getset, mega_fields}, {0, NULL}};
PyType_Spec ext_mega_spec = {"mica._mica.Mega", sizeof(struct mega), 0, Py_TPFLAGS_DEFAULT, mega_slots};
