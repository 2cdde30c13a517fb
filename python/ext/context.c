// Context, and what lives in one: Source, a program that was read or built, and Report, what optimizing it gave.
#include "ext.h"

#include <string.h>

const char *ext_dtype_name(int dtype) { return dtype >= 0 && dtype < DTYPES ? num_rows[dtype].dtype : "?"; }
int ext_dtype_bytes(enum mica_dtype t) { return num_rows[t].bytes; }

bool ext_dtype_find(const char *name, enum mica_dtype *out)
{
  for (int i = 0; i < DTYPES; i++)
    if (!strcmp(name, num_rows[i].dtype)) return *out = (enum mica_dtype)i, true;
  return false;
}

PyObject *ext_dtypes(void)
{
  PyObject *all = PyTuple_New(DTYPES);
  for (int i = 0; all && i < DTYPES; i++) {
    const struct num_row *f = &num_rows[i];
    PyObject *x = Py_BuildValue("{s:s,s:s,s:s,s:s,s:i,s:d,s:d}", "name", f->dtype, "array", f->array, "typestr", f->typestr, "format",
                                f->numpy ? f->format : "", "bytes", f->bytes, "tolerance", f->tolerance, "low", f->low);
    if (!x || PyTuple_SetItem(all, i, x)) return Py_DECREF(all), NULL;
  }
  return all;
}

PyObject *ext_shape_tuple(const struct mica_tensor *t)
{
  PyObject *shape = PyTuple_New(t->ndim);
  for (int i = 0; shape && i < t->ndim; i++) {
    PyObject *x = PyLong_FromLongLong(t->shape[i]);
    if (!x || PyTuple_SetItem(shape, i, x)) return Py_DECREF(shape), NULL;
  }
  return shape;
}

PyObject *ext_strides_tuple(const struct mica_tensor *t)
{
  struct mica_tensor steps = *t;
  int64_t step = 1;
  for (int i = t->ndim - 1; i >= 0; i--) steps.shape[i] = step, step *= t->shape[i];
  return ext_shape_tuple(&steps);
}

PyObject *ext_tensor_tuple(const struct mica_tensor *t)
{
  PyObject *shape = ext_shape_tuple(t);
  return shape ? Py_BuildValue("(ssN)", t->name ? t->name : "", ext_dtype_name(t->dtype), shape) : NULL;
}

int ext_numbers64(PyObject *sequence, int most, int64_t *out)
{
  Py_ssize_t n = PySequence_Size(sequence);
  if (n < 0) return -1;
  if (n > most) return PyErr_Format(PyExc_ValueError, "%zd numbers where at most %d are taken", n, most), -1;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *x = PySequence_GetItem(sequence, i), *index = x ? PyNumber_Index(x) : NULL;
    out[i] = index ? PyLong_AsLongLong(index) : -1;
    Py_XDECREF(x), Py_XDECREF(index);
    if (PyErr_Occurred()) return -1;
  }
  return (int)n;
}

int ext_numbers(PyObject *sequence, int most, int *out)
{
  int64_t wide[64];
  int n = ext_numbers64(sequence, most < 64 ? most : 64, wide);
  for (int i = 0; i < n; i++) {
    if (wide[i] < INT32_MIN || wide[i] > INT32_MAX) return PyErr_SetString(PyExc_OverflowError, "a number is too large"), -1;
    out[i] = (int)wide[i];
  }
  return n;
}

// ---- Context ----

// The thread that has the lock may come here again: from a progress function, a signal handler, or the garbage collector. It would wait for
// itself, so that is an error.
int ext_context_enter(struct context *c)
{
  unsigned long self = PyThread_get_thread_ident();
  if (!PyThread_acquire_lock(c->lock, NOWAIT_LOCK)) {
    if (c->busy && c->owner == self) {
      ext_raise_status(c->st, MICA_USER, "this program is being optimized by this thread: it can be used when that is done");
      return -1;
    }
    Py_BEGIN_ALLOW_THREADS PyThread_acquire_lock(c->lock, WAIT_LOCK);
    Py_END_ALLOW_THREADS
  }
  c->busy = true, c->owner = self;
  return 0;
}

// The module first: giving memory back waits for kernels, and those that wait for a rank in NCCL end when the module is closed.
static void close_one(struct dropped x)
{
  mica_module_close(x.x);
  ext_lanes_close(x.lane, x.nlane);
}

static void close_dropped(struct context *c)
{
  for (int i = 0; i < c->ndropped; i++) close_one(c->dropped[i]);
  c->ndropped = 0;
}

void ext_context_leave(struct context *c)
{
  close_dropped(c);
  c->busy = false;
  PyThread_release_lock(c->lock);
}

// Closes a module that nothing uses any more: now, or when whoever works on the context is done.
void ext_context_drop(struct context *c, struct dropped x)
{
  if (PyThread_acquire_lock(c->lock, NOWAIT_LOCK)) {
    close_one(x);
    PyThread_release_lock(c->lock);
    return;
  }
  struct dropped *more = PyMem_Realloc(c->dropped, (size_t)(c->ndropped + 1) * sizeof *more);
  if (!more) return; // no memory: it goes with the context, and its workspaces with the process
  c->dropped = more;
  c->dropped[c->ndropped++] = x;
}

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
  if (PyTuple_Size(args) || keywords) return PyErr_SetString(PyExc_TypeError, "Context takes no arguments"), NULL;
  struct state *st = PyType_GetModuleState(type);
  struct context *c = st ? PyObject_New(struct context, type) : NULL;
  if (!c) return NULL;
  c->st = st, c->m = mica_open(), c->lock = PyThread_allocate_lock();
  c->busy = false, c->dropped = NULL, c->ndropped = 0;
  if (c->m && c->lock) return (PyObject *)c;
  Py_DECREF(c);
  return PyErr_NoMemory();
}

// Objects of heap types own a reference to their type.
static void gone(PyObject *self)
{
  PyTypeObject *type = Py_TYPE(self);
  PyObject_Free(self);
  Py_DECREF(type);
}

static void context_free(PyObject *self)
{
  struct context *c = (struct context *)self;
  if (c->m) mica_close(c->m); // and the modules in it
  PyMem_Free(c->dropped);
  if (c->lock) PyThread_free_lock(c->lock);
  gone(self);
}

// Lists "name=value" as the library takes them; *out is freed with PyMem_Free.
static int settings_of(PyObject *list, const char ***out)
{
  Py_ssize_t n = PySequence_Size(list);
  *out = n < 0 ? NULL : PyMem_Calloc((size_t)n + 1, sizeof **out);
  if (!*out) return PyErr_Occurred() ? -1 : (PyErr_NoMemory(), -1);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *x = PySequence_GetItem(list, i); // the list keeps it
    (*out)[i] = x ? PyUnicode_AsUTF8AndSize(x, NULL) : NULL;
    Py_XDECREF(x);
    if (!(*out)[i]) return PyMem_Free((void *)*out), -1;
  }
  return (int)n;
}

static PyObject *load(PyObject *self, PyObject *args, bool text)
{
  struct context *c = (struct context *)self;
  const char *what, *name = "", **set = NULL;
  PyObject *settings;
  if (text ? !PyArg_ParseTuple(args, "ssO!", &what, &name, &PyTuple_Type, &settings)
           : !PyArg_ParseTuple(args, "sO!", &what, &PyTuple_Type, &settings))
    return NULL;
  int n = settings_of(settings, &set);
  if (n < 0) return NULL;
  struct mica_program *p;
  if (ext_context_enter(c)) return PyMem_Free((void *)set), NULL;
  int status = text ? mica_load_text(c->m, what, name, n, set, &p) : mica_load(c->m, what, n, set, &p);
  PyObject *made = status ? ext_raise_context(c, status) : ext_source_new(c, p);
  ext_context_leave(c);
  PyMem_Free((void *)set);
  return made;
}

static PyObject *strings(const struct mica_model *x, int n, const char *(*at)(const struct mica_model *, int))
{
  PyObject *list = PyTuple_New(n);
  for (int i = 0; list && i < n; i++) {
    PyObject *s = PyUnicode_FromString(at(x, i));
    if (!s || PyTuple_SetItem(list, i, s)) return Py_DECREF(list), NULL;
  }
  return list;
}

static PyObject *model(PyObject *self, PyObject *args, bool text)
{
  struct context *c = (struct context *)self;
  const char *what, *name = "";
  struct mica_model *x = NULL;
  if (text ? !PyArg_ParseTuple(args, "ss", &what, &name) : !PyArg_ParseTuple(args, "s", &what)) return NULL;
  if (ext_context_enter(c)) return NULL;
  int status = text ? mica_model_load_text(c->m, what, name, &x) : mica_model_load(c->m, what, &x);
  PyObject *made = status ? ext_raise_context(c, status)
                          : Py_BuildValue("(sNN)", mica_model_name(x), strings(x, mica_model_entries(x), mica_model_entry),
                                          strings(x, mica_model_shared(x), mica_model_shared_name));
  ext_context_leave(c);
  return made;
}

static PyObject *context_model(PyObject *self, PyObject *args) { return model(self, args, false); }
static PyObject *context_model_text(PyObject *self, PyObject *args) { return model(self, args, true); }

static PyObject *context_load(PyObject *self, PyObject *args) { return load(self, args, false); }
static PyObject *context_load_text(PyObject *self, PyObject *args) { return load(self, args, true); }

static PyObject *context_verify(PyObject *self, PyObject *args)
{
  struct context *c = (struct context *)self;
  struct source *a, *b;
  unsigned long long seed;
  const char *json = NULL;
  if (!PyArg_ParseTuple(args, "O!O!K", c->st->source, &a, c->st->source, &b, &seed)) return NULL;
  if (a->c != c || b->c != c) return ext_raise_status(c->st, MICA_USER, "programs of different contexts");
  if (ext_context_enter(c)) return NULL;
  int status;
  Py_BEGIN_ALLOW_THREADS status = mica_verify(c->m, a->p, b->p, seed, &json);
  Py_END_ALLOW_THREADS PyObject *said = status > MICA_NO ? ext_raise_context(c, status) : Py_BuildValue("(Oz)", status ? Py_False : Py_True, json);
  ext_context_leave(c);
  return said;
}

// Starting the driver takes a moment, without the GIL.
static PyObject *context_gpu_target(PyObject *self, PyObject *number)
{
  struct context *c = (struct context *)self;
  const char *target = NULL;
  int64_t device;
  if ((device = PyLong_AsLongLong(number)) == -1 && PyErr_Occurred()) return NULL;
  if (device < INT32_MIN || device > INT32_MAX) return PyErr_SetString(PyExc_OverflowError, "the number of a GPU is too large"), NULL;
  if (ext_context_enter(c)) return NULL;
  int status;
  Py_BEGIN_ALLOW_THREADS status = mica_gpu_target(c->m, (int)device, &target);
  Py_END_ALLOW_THREADS PyObject *name = status ? ext_raise_context(c, status) : PyUnicode_FromString(target);
  ext_context_leave(c);
  return name;
}

static PyObject *context_database(PyObject *self, PyObject *none)
{
  (void)none;
  struct context *c = (struct context *)self;
  if (ext_context_enter(c)) return NULL;
  const char *path;
  const int status = mica_database(c->m, &path);
  PyObject *text = status > MICA_NO ? ext_raise_context(c, status) : path ? PyUnicode_DecodeFSDefault(path) : Py_NewRef(Py_None);
  ext_context_leave(c);
  return text;
}

static PyObject *context_folder_copy(PyObject *self, PyObject *args)
{
  struct context *c = (struct context *)self;
  const char *from, *to;
  if (!PyArg_ParseTuple(args, "ss", &from, &to) || ext_context_enter(c)) return NULL;
  int status;
  Py_BEGIN_ALLOW_THREADS status = mica_folder_copy(c->m, from, to);
  Py_END_ALLOW_THREADS if (status) ext_raise_context(c, status);
  ext_context_leave(c);
  return status ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef context_methods[] = {
    {"load", context_load, METH_VARARGS, "load(path, settings): the Source in a file"},
    {"model", context_model, METH_VARARGS, "model(path): name, entry points, and what is declared for all of them"},
    {"model_text", context_model_text, METH_VARARGS, "model_text(text, name): the same of a text"},
    {"load_text", context_load_text, METH_VARARGS, "load_text(text, name, settings): the Source that a text is"},
    {"gpu_target", context_gpu_target, METH_O, "gpu_target(device): the best target for the GPU of that number"},
    {"database", context_database, METH_NOARGS, "database(): the file of remembered results; None: there is none"},
    {"folder_copy", context_folder_copy, METH_VARARGS, "folder_copy(from, to): a copy of a saved folder, checked, put in place as a whole"},
    {"verify", context_verify, METH_VARARGS, "verify(a, b, seed): (equal, certificate as JSON)"},
    {0},
};
static PyType_Slot context_slots[] = {{Py_tp_new, context_new}, {Py_tp_dealloc, context_free}, {Py_tp_methods, context_methods}, {0, NULL}};
PyType_Spec ext_context_spec = {"mica._mica.Context", sizeof(struct context), 0, Py_TPFLAGS_DEFAULT, context_slots};

// ---- Source ----

PyObject *ext_source_new(struct context *c, struct mica_program *p)
{
  struct source *s = PyObject_New(struct source, c->st->source);
  if (s) s->c = (struct context *)Py_NewRef((PyObject *)c), s->p = p;
  return (PyObject *)s;
}

static void source_free(PyObject *self)
{
  Py_DECREF(((struct source *)self)->c);
  gone(self);
}

static PyObject *tensors(const struct mica_program *p, int n, struct mica_tensor (*at)(const struct mica_program *, int))
{
  PyObject *list = PyTuple_New(n);
  for (int i = 0; list && i < n; i++) {
    struct mica_tensor t = at(p, i);
    PyObject *x = ext_tensor_tuple(&t);
    if (!x || PyTuple_SetItem(list, i, x)) return Py_DECREF(list), NULL;
  }
  return list;
}

static PyObject *source_inputs(PyObject *self, void *closure)
{
  (void)closure;
  const struct mica_program *p = ((struct source *)self)->p;
  return tensors(p, mica_program_inputs(p), mica_program_input);
}

static PyObject *source_outputs(PyObject *self, void *closure)
{
  (void)closure;
  const struct mica_program *p = ((struct source *)self)->p;
  return tensors(p, mica_program_outputs(p), mica_program_output);
}

PyObject *ext_shards(const void *x, int n, int (*at)(const void *, int))
{
  PyObject *list = PyTuple_New(n);
  for (int i = 0; list && i < n; i++) {
    const int dim = at(x, i);
    PyObject *number = dim < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(dim);
    if (!number || PyTuple_SetItem(list, i, number)) return Py_DECREF(list), NULL;
  }
  return list;
}

static int input_shard(const void *p, int i) { return mica_program_input_shard(p, i); }
static int output_shard(const void *p, int i) { return mica_program_output_shard(p, i); }

static PyObject *source_shards(PyObject *self, void *closure)
{
  (void)closure;
  const struct mica_program *p = ((struct source *)self)->p;
  return Py_BuildValue("(NN)", ext_shards(p, mica_program_inputs(p), input_shard), ext_shards(p, mica_program_outputs(p), output_shard));
}

static PyObject *source_world(PyObject *self, void *closure)
{
  (void)closure;
  return PyLong_FromLong(mica_program_world(((struct source *)self)->p));
}

static PyObject *source_name(PyObject *self, void *closure)
{
  (void)closure;
  return PyUnicode_FromString(mica_program_name(((struct source *)self)->p));
}

static PyObject *source_context(PyObject *self, void *closure)
{
  (void)closure;
  return Py_NewRef((PyObject *)((struct source *)self)->c);
}

static PyObject *source_text(PyObject *self, void *closure)
{
  (void)closure;
  struct source *s = (struct source *)self;
  const char *text;
  if (ext_context_enter(s->c)) return NULL;
  int status = mica_program_text(s->c->m, s->p, &text);
  PyObject *x = status ? ext_raise_context(s->c, status) : PyUnicode_FromString(text);
  ext_context_leave(s->c);
  return x;
}

static PyGetSetDef source_get[] = {
    {"inputs", source_inputs, NULL, "((name, dtype, shape), ...)", NULL},
    {"outputs", source_outputs, NULL, "((name, dtype, shape), ...)", NULL},
    {"shards", source_shards, NULL, "of inputs and of outputs: the dimension along which each is divided, or None", NULL},
    {"world", source_world, NULL, "devices", NULL},
    {"name", source_name, NULL, "its name", NULL},
    {"text", source_text, NULL, "in the language", NULL},
    {"context", source_context, NULL, "where it lives", NULL},
    {0},
};
static PyType_Slot source_slots[] = {{Py_tp_dealloc, source_free}, {Py_tp_getset, source_get}, {0, NULL}};
PyType_Spec ext_source_spec = {"mica._mica.Source", sizeof(struct source), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, source_slots};

// ---- Report ----

PyObject *ext_report_new(struct context *c, struct mica_report *r)
{
  struct report *x = PyObject_New(struct report, c->st->report);
  if (x) x->c = (struct context *)Py_NewRef((PyObject *)c), x->r = r;
  return (PyObject *)x;
}

static void report_free(PyObject *self)
{
  Py_DECREF(((struct report *)self)->c);
  gone(self);
}

static PyObject *report_save(PyObject *self, PyObject *folder)
{
  struct report *r = (struct report *)self;
  const char *path = PyUnicode_AsUTF8AndSize(folder, NULL);
  if (!path) return NULL;
  if (ext_context_enter(r->c)) return NULL;
  int status;
  Py_BEGIN_ALLOW_THREADS status = mica_report_save(r->c->m, r->r, path);
  Py_END_ALLOW_THREADS if (status) ext_raise_context(r->c, status);
  ext_context_leave(r->c);
  return status ? NULL : Py_NewRef(Py_None);
}

static PyObject *report_text(PyObject *self, void *closure)
{
  (void)closure;
  return PyUnicode_FromString(mica_report_text(((struct report *)self)->r));
}

static PyObject *report_json(PyObject *self, void *closure)
{
  (void)closure;
  return PyUnicode_FromString(mica_report_json(((struct report *)self)->r));
}

static PyObject *report_html(PyObject *self, void *closure)
{
  (void)closure;
  struct report *r = (struct report *)self;
  const char *html;
  if (ext_context_enter(r->c)) return NULL;
  int status = mica_report_html(r->c->m, r->r, &html);
  PyObject *x = status ? ext_raise_context(r->c, status) : PyUnicode_FromString(html);
  ext_context_leave(r->c);
  return x;
}

static PyObject *report_recalled(PyObject *self, void *closure)
{
  (void)closure;
  return PyBool_FromLong(mica_report_recalled(((struct report *)self)->r));
}

static PyMethodDef report_methods[] = {{"save", report_save, METH_O, "save(folder)"}, {0}};
static PyGetSetDef report_get[] = {
    {"text", report_text, NULL, "for people", NULL},
    {"json", report_json, NULL, "docs/report.md lists the keys", NULL},
    {"html", report_html, NULL, "one page that needs nothing else", NULL},
    {"recalled", report_recalled, NULL, "it came from the database", NULL},
    {0},
};
static PyType_Slot report_slots[] = {{Py_tp_dealloc, report_free}, {Py_tp_methods, report_methods}, {Py_tp_getset, report_get}, {0, NULL}};
PyType_Spec ext_report_spec = {"mica._mica.Report", sizeof(struct report), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, report_slots};
