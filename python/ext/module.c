// The module: types, exceptions, constants of the library.
#include "ext.h"

#include <string.h>

extern const char build_fingerprint[]; // made by the build: a hash of the sources
extern double turn_waited(void);       // gpu/turn.c

static PyObject *version(PyObject *self, PyObject *none)
{
  (void)self, (void)none;
  return Py_BuildValue("(ssi)", mica_version(), build_fingerprint, mica_abi_version());
}

static PyObject *waited(PyObject *self, PyObject *none)
{
  (void)self, (void)none;
  return PyFloat_FromDouble(turn_waited());
}

static PyMethodDef methods[] = {
    {"optimize", ext_optimize, METH_VARARGS, "optimize(source, options, progress): (Report or None, what interrupted it or None)"},
    {"module_of", ext_module_of, METH_VARARGS, "module_of(class, report): the best of a report as one of the class, which is below Module"},
    {"module_load", ext_module_load, METH_VARARGS, "module_load(class, context, folder)"},
    {"module_freeze", ext_module_freeze, METH_VARARGS, "module_freeze(class, module, inputs)"},
    {"module_rank", ext_module_rank, METH_VARARGS, "module_rank(class, module, rank, name, seconds)"},
    {"version", version, METH_NOARGS, "(version, hash of the sources, version of the binary interface)"},
    {"turn_waited", waited, METH_NOARGS, "seconds in which races of this process waited for a turn on the GPU"},
    {0},
};

static int add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out)
{
  *out = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
  return *out ? PyModule_AddType(module, *out) : -1;
}

static int words_make(struct state *st)
{
  static const char *const texts[WORD_COUNT] = {
#define X(name) #name,
      WORDS(X)
#undef X
  };
  for (int i = 0; i < WORD_COUNT; i++)
    if (!(st->word[i] = PyUnicode_InternFromString(texts[i]))) return -1;
  return 0;
}

static int dtypes_add(PyObject *module)
{
  PyObject *all = ext_dtypes();
  int bad = !all || PyModule_AddObjectRef(module, "dtypes", all);
  Py_XDECREF(all);
  return bad ? -1 : 0;
}

static int limits_add(PyObject *module)
{
  PyObject *limit = PyLong_FromLongLong(EXTENT_LIMIT);
  int bad = !limit || PyModule_AddObjectRef(module, "extent_limit", limit);
  Py_XDECREF(limit);
  return bad ? -1 : 0;
}

static int module_exec(PyObject *module)
{
  struct state *st = PyModule_GetState(module);
  memset(st, 0, sizeof *st);
  return words_make(st) || dtypes_add(module) || limits_add(module) || ext_errors_add(module, st) ||
                 add_type(module, &ext_context_spec, &st->context) || add_type(module, &ext_source_spec, &st->source) ||
                 add_type(module, &ext_graph_spec, &st->graph) || add_type(module, &ext_report_spec, &st->report) ||
                 add_type(module, &ext_module_spec, &st->module) || add_type(module, &ext_bound_spec, &st->bound) ||
                 add_type(module, &ext_array_spec, &st->array) || add_type(module, &ext_mega_spec, &st->mega)
             ? -1
             : 0;
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
  struct state *st = PyModule_GetState(module);
  PyTypeObject *types[] = {st->context, st->source, st->graph, st->report, st->module, st->bound, st->array, st->mega};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) Py_VISIT(types[i]);
  for (int i = 0; i < st->nknown; i++) Py_VISIT(st->known[i].type);
  for (int i = 0; i < 4; i++) Py_VISIT(st->error[i]);
  Py_VISIT(st->argument);
  for (int i = 0; i < FAMILIES; i++) {
    struct library *l = &st->library[i];
    PyObject *all[] = {l->empty, l->current, l->grad, l->device, l->from, (PyObject *)l->exact, (PyObject *)l->parameter, l->strided};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) Py_VISIT(all[k]);
    for (int k = 0; k < DTYPES; k++) Py_VISIT(l->dtype[k]);
  }
  return 0;
}

static int clear(PyObject *module)
{
  struct state *st = PyModule_GetState(module);
  PyTypeObject **types[] = {&st->context, &st->source, &st->graph, &st->report, &st->module, &st->bound, &st->array, &st->mega};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) Py_CLEAR(*types[i]);
  for (; st->nknown; st->nknown--) Py_XDECREF((PyObject *)st->known[st->nknown - 1].type);
  for (int i = 0; i < 4; i++) Py_CLEAR(st->error[i]);
  Py_CLEAR(st->argument);
  for (int i = 0; i < WORD_COUNT; i++) Py_CLEAR(st->word[i]);
  for (int i = 0; i < FAMILIES; i++) {
    struct library *l = &st->library[i];
    PyObject **all[] = {&l->empty, &l->current, &l->grad, &l->device, &l->from};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) Py_CLEAR(*all[k]);
    Py_CLEAR(l->exact);
    Py_CLEAR(l->parameter);
    Py_CLEAR(l->strided);
    for (int k = 0; k < DTYPES; k++) Py_CLEAR(l->dtype[k]);
  }
  return 0;
}

static void module_end(void *module) { clear(module); }

static PyModuleDef_Slot slots[] = {{Py_mod_exec, module_exec}, {0, NULL}};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_mica", "The library of Mica (include/mica.h).", sizeof(struct state), methods, slots, traverse, clear, module_end};

PyMODINIT_FUNC PyInit__mica(void);
PyMODINIT_FUNC PyInit__mica(void) { return PyModuleDef_Init(&definition); }
