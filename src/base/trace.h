// trace: what a job spent its time on, by thread, as a Chrome trace (the Trace Event Format, which Perfetto and chrome://tracing load).
//
//   trace   the events of one job. The thread that opens it is in it, and so are the threads of loops (pool.c) that it begins
//   span    an event: a name and the time from its beginning to its end. Spans of one thread nest
//
// Spans are also ranges of a profiler that watches the process (range.h). A thread that is in no trace pays two looks for a span.
#ifndef MICA_TRACE_H
#define MICA_TRACE_H

#include "base/base.h"

struct trace;
struct span {
  struct trace *trace; // NULL: nothing is noted
  const struct span *around;
  char name[64], note[160];
  const char *kind; // "pass", "thread", "stage" of a race on a GPU: a literal
  int thread;
  bool ranged; // a profiler knows of it (range.h)
  double start;
};
struct trace_place { // the trace that a thread is in, and its innermost span; all NULL: none
  struct trace *trace;
  const struct span *inner;
  int thread;
};

struct trace *trace_open(void);
void trace_close(struct trace *t); // NULL: nothing
void trace_text(const struct trace *t, struct str *out);

void span_begin(struct span *s, const char *kind, const char *name);
void span_note(struct span *s, const char *fmt, ...) PRINTF(2, 3); // is shown with the event
void span_end(struct span *s);

// For loops: where this thread is; another thread's share of the work at that place.
struct trace_place trace_here(void);
void trace_share(struct span *s, const struct trace_place *of);
void trace_share_end(struct span *s);

#endif
