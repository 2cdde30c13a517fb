// mica_optimize in a thread of its own. The thread that asked wakes up twenty times a second: it lets Python handle signals (a
// library that is busy for minutes would otherwise not see Ctrl-C), and shows progress. So nothing in the library's threads needs
// the GIL: what it tells of its progress is copied, and read by the thread that waits.
#include "ext.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum kind { INT, REAL, FLAG, SEED, TEXT };
// The options of mica.h that are said by name. The names are those of the struct.
static const struct {
  const char *name;
  enum kind kind;
  size_t at;
} rows[] = {
#define ROW(name, kind)                              \
  {                                                  \
#name, kind, offsetof(struct mica_options, name) \
  }
    ROW(target, TEXT),    ROW(dtype, TEXT),         ROW(max_block_ops, INT), ROW(max_kernel_ops, INT), ROW(max_part_ops, INT),  ROW(max_values, INT),
    ROW(threads, INT),    ROW(search_threads, INT), ROW(measure, INT),       ROW(tune, REAL),          ROW(time, REAL),         ROW(seconds, REAL),
    ROW(seed, SEED),      ROW(off, TEXT),           ROW(remember, FLAG),     ROW(fresh, FLAG),         ROW(db, TEXT),           ROW(accept, TEXT),
    ROW(disturbed, FLAG), ROW(dump, TEXT),          ROW(dump_dir, TEXT),     ROW(trace, TEXT),         ROW(keep_dropped, TEXT), ROW(candidate, TEXT),
    ROW(knobs, TEXT),     ROW(check_passes, FLAG),  ROW(reference, TEXT),    ROW(prepare, INT),        ROW(f32_products, TEXT),
#undef ROW
};
enum { ROWS = sizeof rows / sizeof *rows };

struct work {
  struct source *s;
  struct mica_options o;
  struct mica_report *r;
  int status, stop;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool done, told;
  struct mica_progress progress;
  char stage[64];
};

static int option_take(struct mica_options *o, int i, PyObject *value)
{
  char *at = (char *)o + rows[i].at;
  switch (rows[i].kind) {
  case INT: {
    int64_t n = PyLong_AsLongLong(value);
    if (!PyErr_Occurred() && (n < INT32_MIN || n > INT32_MAX)) PyErr_SetNone(PyExc_OverflowError);
    *(int *)(void *)at = (int)n;
    break;
  }
  case REAL: *(double *)(void *)at = PyFloat_AsDouble(value); break;
  case FLAG: *(bool *)at = PyObject_IsTrue(value) > 0; break;
  case SEED: *(uint64_t *)(void *)at = PyLong_AsUnsignedLongLong(value); break;
  case TEXT: *(const char **)(void *)at = value == Py_None ? NULL : PyUnicode_AsUTF8AndSize(value, NULL); break;
  }
  return PyErr_Occurred() ? -1 : 0;
}

// Errors of Python about a value do not name the option, so this adds the name.
static int option_set(struct state *st, struct mica_options *o, int i, PyObject *value)
{
  static const char *const takes[] = {
      [INT] = "an integer", [REAL] = "a number", [FLAG] = "True or False", [SEED] = "an integer from 0", [TEXT] = "a string"};
  char message[256];
  if (!option_take(o, i, value)) return 0;
  PyErr_Clear();
  PyObject *said = PyObject_Repr(value);
  const char *text = said ? PyUnicode_AsUTF8AndSize(said, NULL) : NULL;
  snprintf(message, sizeof message, "the option %s is %s, not %.80s [bad-option]", rows[i].name, takes[rows[i].kind], text ? text : "this");
  Py_XDECREF(said);
  PyErr_Clear();
  return ext_raise_status(st, MICA_USER, message), -1;
}

// `given` keeps the strings alive.
static int options_read(struct state *st, PyObject *given, struct mica_options *o)
{
  PyObject *name, *value;
  Py_ssize_t at = 0;
  *o = mica_options_default();
  while (PyDict_Next(given, &at, &name, &value)) {
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text) return -1;
    int i = 0;
    while (i < ROWS && strcmp(rows[i].name, text)) i++;
    if (i < ROWS && option_set(st, o, i, value)) return -1;
    if (i < ROWS) continue;
    char message[1024] = "";
    size_t n = (size_t)snprintf(message, sizeof message, "there is no option `%.60s` [bad-option]\n  hint: the options are", text);
    for (i = 0; i < ROWS; i++) n += (size_t)snprintf(message + n, sizeof message - n, "%s %s", i ? "," : "", rows[i].name);
    return ext_raise_status(st, MICA_USER, message), -1;
  }
  return 0;
}

static void on_progress(void *arg, const struct mica_progress *p)
{
  struct work *w = arg;
  pthread_mutex_lock(&w->lock);
  w->progress = *p, w->told = true;
  snprintf(w->stage, sizeof w->stage, "%s", p->stage);
  pthread_mutex_unlock(&w->lock);
}

static void *work_run(void *arg)
{
  struct work *w = arg;
  int status = mica_optimize(w->s->c->m, w->s->p, &w->o, &w->r);
  pthread_mutex_lock(&w->lock);
  w->status = status, w->done = true;
  pthread_cond_signal(&w->changed);
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

// Waits a little for the end, without the GIL. Copies what is new of the progress, if anything is.
static bool wait_a_little(struct work *w, struct mica_progress *p, char stage[64], bool *told)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  t.tv_nsec += 50000000;
  if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
  bool done;
  Py_BEGIN_ALLOW_THREADS pthread_mutex_lock(&w->lock);
  while (!w->done && !pthread_cond_timedwait(&w->changed, &w->lock, &t)) continue;
  done = w->done, *told = w->told, w->told = false;
  if (*told) *p = w->progress, memcpy(stage, w->stage, sizeof w->stage);
  pthread_mutex_unlock(&w->lock);
  Py_END_ALLOW_THREADS return done;
}

static int show(PyObject *callback, const struct mica_progress *p, const char *stage)
{
  PyObject *said = PyObject_CallFunction(callback, "siiKKKdd", stage, p->part, p->parts, (unsigned long long)p->states, (unsigned long long)p->pruned,
                                         (unsigned long long)p->verified, p->best_us, p->done);
  Py_XDECREF(said);
  return said ? 0 : -1;
}

// The exception that interrupted the wait; NULL: none. The first reason counts.
static PyObject *interruption(void)
{
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace) PyException_SetTraceback(value, trace);
  Py_XDECREF(type), Py_XDECREF(trace);
  return value;
}

static PyObject *watch(struct work *w, PyObject *callback)
{
  struct mica_progress p;
  char stage[64];
  PyObject *why = NULL;
  for (bool done = false, told = false; !done;) {
    done = wait_a_little(w, &p, stage, &told);
    bool raised = PyErr_CheckSignals() || (told && !why && callback != Py_None && show(callback, &p, stage));
    if (!raised) continue;
    __atomic_store_n(&w->stop, 1, __ATOMIC_RELAXED);
    if (why)
      PyErr_Clear();
    else
      why = interruption();
  }
  return why;
}

static bool start(struct work *w, pthread_t *thread)
{
  enum { STACK = 16 << 20 }; // as a main thread has and more, whatever the limits of this process are
  pthread_attr_t a;
  pthread_condattr_t clock;
  pthread_mutex_init(&w->lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&w->changed, &clock);
  pthread_condattr_destroy(&clock);
  pthread_attr_init(&a);
  pthread_attr_setstacksize(&a, STACK);
  bool good = !pthread_create(thread, &a, work_run, w);
  pthread_attr_destroy(&a);
  return good;
}

// (Report or None, what interrupted it or None); an error without an interruption and a report is raised.
static PyObject *result(struct work *w, PyObject *why)
{
  struct context *c = w->s->c;
  if (w->status && !w->r && !why) return ext_raise_context(c, w->status);
  PyObject *r = w->r ? ext_report_new(c, w->r) : Py_NewRef(Py_None);
  return r ? Py_BuildValue("(NO)", r, why ? why : Py_None) : NULL;
}

PyObject *ext_optimize(PyObject *self, PyObject *args)
{
  struct state *st = PyModule_GetState(self);
  struct work w = {0};
  PyObject *options, *callback;
  pthread_t thread;
  if (!PyArg_ParseTuple(args, "O!O!O", st->source, &w.s, &PyDict_Type, &options, &callback)) return NULL;
  if (options_read(st, options, &w.o)) return NULL;
  w.o.stop = &w.stop, w.o.progress = on_progress, w.o.progress_arg = &w;
  if (ext_context_enter(w.s->c)) return NULL;
  PyObject *made = NULL;
  if (!start(&w, &thread))
    ext_raise_status(st, MICA_ENVIRONMENT, "no thread can be started");
  else {
    PyObject *why = watch(&w, callback);
    pthread_join(thread, NULL);
    made = result(&w, why);
    Py_XDECREF(why);
  }
  pthread_cond_destroy(&w.changed), pthread_mutex_destroy(&w.lock);
  ext_context_leave(w.s->c);
  return made;
}
