// The events of a job (trace.h). Each is a block of its own. One for which there is no memory is not noted.
#include "base/trace.h"
#include "base/doc.h"
#include "base/memory.h"
#include "base/range.h"
#include "base/visible.h"

#include <string.h>

enum { THREADS = 512 };

struct event {
  struct event *next;
  struct span of;
  double end;
};
struct trace {
  pthread_mutex_t lock; // of all below
  struct event *events; // the newest first
  double start;
  bool busy[THREADS];
  int threads; // that were ever in it
};

static _Thread_local struct trace_place tracing;

static void discard(void *p)
{
  struct trace *t = p;
  for (struct event *e = t->events, *next; e; e = next) next = e->next, mem_free(e);
  pthread_mutex_destroy(&t->lock);
  mem_free(t);
  tracing = (struct trace_place){0};
}
static const struct mem_kind kind = {.close = discard};

struct trace *trace_open(void)
{
  struct trace *t = mem_handle(sizeof *t, &kind);
  pthread_mutex_init(&t->lock, NULL);
  t->start = now_seconds(), t->busy[0] = true, t->threads = 1;
  tracing = (struct trace_place){.trace = t};
  return t;
}

void trace_close(struct trace *t)
{
  if (t) discard(t);
}

// ---- spans ----

void span_begin(struct span *s, const char *kind_of, const char *name)
{
  s->trace = tracing.trace, s->ranged = range_push(name);
  if (!s->trace) return;
  s->around = tracing.inner, s->kind = kind_of, s->thread = tracing.thread, s->start = now_seconds();
  snprintf(s->name, sizeof s->name, "%s", name);
  *s->note = 0;
  tracing.inner = s;
}

void span_note(struct span *s, const char *fmt, ...)
{
  va_list args;
  if (!s->trace) return;
  va_start(args, fmt);
  vsnprintf(s->note, sizeof s->note, fmt, args);
  va_end(args);
}

void span_end(struct span *s)
{
  struct trace *t = s->trace;
  if (s->ranged) range_pop();
  s->ranged = false, s->trace = NULL;
  if (!t) return;
  tracing.inner = s->around;
  double end = now_seconds();
  struct event *e = mem_try(sizeof *e);
  if (!e) return; // the job is what memory is for
  mem_keep(e);
  e->of = *s, e->end = end;
  pthread_mutex_lock(&t->lock);
  e->next = t->events, t->events = e;
  pthread_mutex_unlock(&t->lock);
}

// ---- threads ----

struct trace_place trace_here(void) { return tracing; }

static int take_thread(struct trace *t)
{
  int i = 0;
  pthread_mutex_lock(&t->lock);
  while (i < THREADS && t->busy[i]) i++;
  if (i < THREADS) t->busy[i] = true, t->threads = MAX(t->threads, i + 1);
  pthread_mutex_unlock(&t->lock);
  return i;
}

void trace_share(struct span *s, const struct trace_place *of)
{
  s->trace = NULL, s->ranged = false;
  int thread = of->trace ? take_thread(of->trace) : THREADS;
  if (thread == THREADS) return;
  tracing = (struct trace_place){.trace = of->trace, .thread = thread};
  span_begin(s, "thread", of->inner ? of->inner->name : "work");
}

// Spans that a lack of memory has left open are not noted.
void trace_share_end(struct span *s)
{
  struct trace *t = s->trace;
  if (!t) return;
  tracing.inner = s;
  span_end(s);
  pthread_mutex_lock(&t->lock);
  t->busy[s->thread] = false;
  pthread_mutex_unlock(&t->lock);
  tracing = (struct trace_place){0};
}

// ---- as text ----

static json_t *words(const char *s)
{
  struct str text = {0};
  visible_add(&text, s, strlen(s)); // cut somewhere, it need not be UTF-8
  json_t *v = json_string(str_text(&text));
  return str_free(&text), v;
}

static double micros(double seconds) { return (double)(int64_t)(1e9 * seconds) / 1e3; }

static void add_name(json_t *list, const char *what, int thread, const char *name)
{
  json_array_append_new(list,
                        json_pack("{s:s, s:s, s:i, s:i, s:{s:o}}", "name", what, "ph", "M", "pid", 1, "tid", thread, "args", "name", words(name)));
}

static void add_event(json_t *list, const struct trace *t, const struct event *e)
{
  double start = micros(e->of.start - t->start), end = micros(e->end - t->start);
  json_t *v = json_pack("{s:o, s:s, s:s, s:f, s:f, s:i, s:i}", "name", words(e->of.name), "cat", e->of.kind, "ph", "X", "ts", start, "dur",
                        end - start, "pid", 1, "tid", e->of.thread);
  if (*e->of.note) json_object_set_new(v, "args", json_pack("{s:o}", "note", words(e->of.note)));
  json_array_append_new(list, v);
}

void trace_text(const struct trace *t, struct str *out)
{
  json_t *list = json_array(), *root = json_pack("{s:s, s:o}", "displayTimeUnit", "ms", "traceEvents", list);
  add_name(list, "process_name", 0, "mica");
  for (int i = 0; i < t->threads; i++) {
    char name[32];
    snprintf(name, sizeof name, i ? "worker %d" : "job", i);
    add_name(list, "thread_name", i, name);
  }
  for (const struct event *e = t->events; e; e = e->next) add_event(list, t, e);
  char *text = json_dumps(root, JSON_COMPACT);
  str_add(out, "%s\n", text);
  mem_free(text);
  json_decref(root);
}
