// Graph: a program being built, or a block graph of one. Tensors are numbers here; python/mica/graph.py makes objects of them.
#include "ext.h"

enum { MOST_ARGS = 64 };

// A call that works on the graph's context, between ext_context_enter and ext_context_leave; an error of it as an exception.
static PyObject *answer(struct graph *g, int status, PyObject *made)
{
  if (status) Py_XDECREF(made), made = ext_raise_context(g->c, status);
  ext_context_leave(g->c);
  return made;
}

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
  struct state *st = PyType_GetModuleState(type);
  struct context *c;
  const char *name;
  if (!st) return NULL;
  if (keywords) return PyErr_SetString(PyExc_TypeError, "Graph takes no keywords"), NULL;
  if (!PyArg_ParseTuple(args, "O!s", st->context, &c, &name)) return NULL;
  struct mica_graph *made;
  if (ext_context_enter(c)) return NULL;
  int status = mica_graph_open(c->m, name, &made);
  if (status) ext_raise_context(c, status);
  ext_context_leave(c);
  struct graph *g = status ? NULL : PyObject_New(struct graph, type);
  if (g) g->c = (struct context *)Py_NewRef((PyObject *)c), g->around = NULL, g->g = made, g->ended = false;
  return (PyObject *)g;
}

static void graph_free(PyObject *self)
{
  struct graph *g = (struct graph *)self;
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF((PyObject *)g->around), Py_DECREF((PyObject *)g->c);
  PyObject_Free(self);
  Py_DECREF(type);
}

// An ended block is a closed handle, which the library does not look at.
static bool open_still(const struct graph *g)
{
  if (!g->ended) return true;
  ext_raise_status(g->c->st, MICA_USER, "the block has ended: it is an operator of the graph around and cannot be built on");
  return false;
}

static PyObject *graph_input(PyObject *self, PyObject *args)
{
  struct graph *g = (struct graph *)self;
  const char *name, *dtype_text;
  PyObject *shape;
  enum mica_dtype dtype;
  int64_t extents[MICA_MAX_DIMS];
  int n, t = -1;
  if (!PyArg_ParseTuple(args, "zsO", &name, &dtype_text, &shape)) return NULL;
  if (!ext_dtype_find(dtype_text, &dtype)) return ext_raise_argument(g->c->st, "there is no dtype `%.40s`; dtypes are %s", dtype_text, num_names());
  if ((n = ext_numbers64(shape, MICA_MAX_DIMS, extents)) < 0) return NULL;
  if (ext_context_enter(g->c)) return NULL;
  int status = mica_graph_input(g->g, name, dtype, n, extents, &t);
  return answer(g, status, PyLong_FromLong(t));
}

static PyObject *graph_freeze(PyObject *self, PyObject *number)
{
  struct graph *g = (struct graph *)self;
  const long t = PyLong_AsLong(number);
  if ((t == -1 && PyErr_Occurred()) || !open_still(g) || ext_context_enter(g->c)) return NULL;
  return answer(g, mica_graph_freeze(g->g, t < INT32_MIN || t > INT32_MAX ? -1 : (int)t), Py_NewRef(Py_None));
}

static PyObject *graph_declare(PyObject *self, PyObject *args)
{
  struct graph *g = (struct graph *)self;
  int t, distinct, state;
  long long least, most;
  if (!PyArg_ParseTuple(args, "iLLpp", &t, &least, &most, &distinct, &state)) return NULL;
  if (ext_context_enter(g->c)) return NULL;
  return answer(g, mica_graph_declare(g->g, t, least, most, distinct, state), Py_NewRef(Py_None));
}

static PyObject *graph_world(PyObject *self, PyObject *args)
{
  struct graph *g = (struct graph *)self;
  int ranks;
  if (!PyArg_ParseTuple(args, "i", &ranks)) return NULL;
  if (ext_context_enter(g->c)) return NULL;
  return answer(g, mica_graph_world(g->g, ranks), Py_NewRef(Py_None));
}

static PyObject *graph_shard(PyObject *self, PyObject *args)
{
  struct graph *g = (struct graph *)self;
  int t, dim;
  if (!PyArg_ParseTuple(args, "ii", &t, &dim)) return NULL;
  if (ext_context_enter(g->c)) return NULL;
  return answer(g, mica_graph_shard(g->g, t, dim), Py_NewRef(Py_None));
}

static PyObject *graph_op(PyObject *self, PyObject *args)
{
  struct graph *g = (struct graph *)self;
  const char *op, *attributes;
  PyObject *list;
  int arg[MOST_ARGS], n, t = -1, count = 0;
  if (!PyArg_ParseTuple(args, "sOz", &op, &list, &attributes) || !open_still(g)) return NULL;
  if ((n = ext_numbers(list, MOST_ARGS, arg)) < 0) return NULL;
  if (ext_context_enter(g->c)) return NULL;
  int status = mica_graph_op(g->g, op, n, arg, attributes, &t, &count);
  return answer(g, status, Py_BuildValue("(ii)", t, count));
}

static PyObject *graph_tensor(PyObject *self, PyObject *number)
{
  struct graph *g = (struct graph *)self;
  struct mica_tensor x;
  long t = PyLong_AsLong(number);
  if (t == -1 && PyErr_Occurred()) return NULL;
  if (t < INT32_MIN || t > INT32_MAX) t = -1;
  if (ext_context_enter(g->c)) return NULL;
  int status = mica_graph_tensor(g->g, (int)t, &x);
  return answer(g, status, status ? NULL : ext_tensor_tuple(&x));
}

static PyObject *graph_name(PyObject *self, PyObject *args)
{
  struct graph *g = (struct graph *)self;
  int t;
  const char *name;
  if (!PyArg_ParseTuple(args, "is", &t, &name) || !open_still(g)) return NULL;
  if (ext_context_enter(g->c)) return NULL;
  return answer(g, mica_graph_name(g->g, t, name), Py_NewRef(Py_None));
}

static PyObject *graph_output(PyObject *self, PyObject *args)
{
  struct graph *g = (struct graph *)self;
  int t;
  if (!PyArg_ParseTuple(args, "i", &t)) return NULL;
  if (ext_context_enter(g->c)) return NULL;
  return answer(g, mica_graph_output(g->g, t), Py_NewRef(Py_None));
}

static PyObject *graph_program(PyObject *self, PyObject *none)
{
  (void)none;
  struct graph *g = (struct graph *)self;
  struct mica_program *p = NULL;
  if (ext_context_enter(g->c)) return NULL;
  int status = mica_graph_program(g->g, &p);
  return answer(g, status, status ? NULL : ext_source_new(g->c, p));
}

static PyObject *graph_block(PyObject *self, PyObject *args)
{
  struct graph *g = (struct graph *)self;
  PyObject *grid_list, *loop_list;
  int64_t grid[MICA_MAX_GRID], loop[MICA_MAX_LOOPS];
  int ngrid, nloop;
  if (!PyArg_ParseTuple(args, "OO", &grid_list, &loop_list) || !open_still(g)) return NULL;
  if ((ngrid = ext_numbers64(grid_list, MICA_MAX_GRID, grid)) < 0 || (nloop = ext_numbers64(loop_list, MICA_MAX_LOOPS, loop)) < 0) return NULL;
  struct graph *b = PyObject_New(struct graph, g->c->st->graph);
  if (!b) return NULL;
  b->c = (struct context *)Py_NewRef((PyObject *)g->c), b->around = (struct graph *)Py_NewRef(self), b->g = NULL, b->ended = false;
  if (ext_context_enter(g->c)) return Py_DECREF((PyObject *)b), NULL;
  return answer(g, mica_graph_block(g->g, ngrid, grid, nloop, loop, &b->g), (PyObject *)b);
}

// Maps are shorter than the axes of a block where what is left is replica; the library takes them whole.
static int map(PyObject *list, int most, int *out)
{
  for (int i = 0; i < most; i++) out[i] = MICA_REPLICA;
  return ext_numbers(list, most, out);
}

static PyObject *block_input(PyObject *self, PyObject *args)
{
  struct graph *g = (struct graph *)self;
  PyObject *imap_list, *fmap_list;
  int t, imap[MICA_MAX_GRID], fmap[MICA_MAX_LOOPS], bt = -1;
  if (!PyArg_ParseTuple(args, "iOO", &t, &imap_list, &fmap_list) || !open_still(g)) return NULL;
  if (map(imap_list, MICA_MAX_GRID, imap) < 0 || map(fmap_list, MICA_MAX_LOOPS, fmap) < 0) return NULL;
  if (ext_context_enter(g->c)) return NULL;
  int status = mica_block_input(g->g, t, imap, fmap, &bt);
  return answer(g, status, PyLong_FromLong(bt));
}

static PyObject *block_output(PyObject *self, PyObject *args)
{
  struct graph *g = (struct graph *)self;
  PyObject *list;
  int t, omap[MICA_MAX_GRID];
  if (!PyArg_ParseTuple(args, "iO", &t, &list) || !open_still(g) || map(list, MICA_MAX_GRID, omap) < 0) return NULL;
  if (ext_context_enter(g->c)) return NULL;
  return answer(g, mica_block_output(g->g, t, omap), Py_NewRef(Py_None));
}

static PyObject *block_end(PyObject *self, PyObject *none)
{
  (void)none;
  struct graph *g = (struct graph *)self;
  int t = -1, count = 0;
  if (!g->around) return ext_raise_status(g->c->st, MICA_USER, "this graph is no block");
  if (!open_still(g)) return NULL;
  if (ext_context_enter(g->c)) return NULL;
  int status = mica_block_end(g->g, &t, &count);
  g->ended = !status;
  return answer(g, status, Py_BuildValue("(ii)", t, count));
}

static PyObject *graph_context(PyObject *self, void *closure)
{
  (void)closure;
  return Py_NewRef((PyObject *)((struct graph *)self)->c);
}

static PyMethodDef methods[] = {
    {"input", graph_input, METH_VARARGS, "input(name, dtype, shape): number of the tensor"},
    {"freeze", graph_freeze, METH_O, "freeze(number): the input's elements do not change between calls"},
    {"declare", graph_declare, METH_VARARGS, "declare(number, least, most, distinct, state)"},
    {"world", graph_world, METH_VARARGS, "world(ranks)"},
    {"shard", graph_shard, METH_VARARGS, "shard(number, dim)"},
    {"op", graph_op, METH_VARARGS, "op(name, tensors, attributes): (first result, how many)"},
    {"tensor", graph_tensor, METH_O, "tensor(number): (name, dtype, shape)"},
    {"name", graph_name, METH_VARARGS, "name(number, name)"},
    {"output", graph_output, METH_VARARGS, "output(number)"},
    {"program", graph_program, METH_NOARGS, "program(): Source"},
    {"block", graph_block, METH_VARARGS, "block(grid, loop): Graph of a block"},
    {"block_input", block_input, METH_VARARGS, "block_input(tensor around, imap, fmap): number of the tile"},
    {"block_output", block_output, METH_VARARGS, "block_output(tile, omap)"},
    {"block_end", block_end, METH_NOARGS, "block_end(): (first result in the graph around, how many)"},
    {0},
};
static PyGetSetDef get[] = {{"context", graph_context, NULL, "where it lives", NULL}, {0}};
static PyType_Slot slots[] = {{Py_tp_new, graph_new}, {Py_tp_dealloc, graph_free}, {Py_tp_methods, methods}, {Py_tp_getset, get}, {0, NULL}};
PyType_Spec ext_graph_spec = {"mica._mica.Graph", sizeof(struct graph), 0, Py_TPFLAGS_DEFAULT, slots};
