// A job's reports about its passes: dumps, a line of time for each, a trace.
#include "drive/pass.h"

#include <stdlib.h>
#include <string.h>

// ---- requests ----

static int read_dump(struct watch *w, const char *names, struct err *e)
{
  if (names && !strcmp(names, "all")) return w->dump = UINT64_MAX >> (64 - PASSES), OK;
  while (names && *names) {
    size_t n = strcspn(names, ",");
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)MIN(n, sizeof name - 1), names);
    int pass = pass_find(names, n);
    if (pass == NO_PASS) return pass_unknown("--dump", name, e);
    w->dump |= UINT64_C(1) << pass;
    names += n + (names[n] == ',');
  }
  return OK;
}

static int read_options(struct watch *w, const struct mica_options *o, struct err *e)
{
  TRY(read_dump(w, o->dump, e));
  if (o->stop_after) {
    w->stop_after = pass_find(o->stop_after, strlen(o->stop_after));
    if (w->stop_after == NO_PASS) return pass_unknown("--stop-after", o->stop_after, e);
    w->dump |= UINT64_C(1) << w->stop_after;
  }
  w->lines = o->traced != NULL;
  w->check = o->check_passes;
#ifndef NDEBUG
  w->check = true;
#endif
  return o->dump_dir ? file_mkdirs(o->dump_dir, e) : OK;
}

int watch_open(struct job *j, struct err *e)
{
  struct watch *w = j->watch = NEW(j->mem, struct watch);
  w->stop_after = NO_PASS;
  pthread_mutex_init(&w->lock, NULL);
  TRY(read_options(w, j->opts, e));
  if (j->opts->trace) w->trace = trace_open();
  span_begin(&w->span, "job", j->program->name ? j->program->name : "program");
  return dropped_open(j, e);
}

void watch_free(struct job *j)
{
  struct watch *w = j->watch;
  if (!w) return;
  for (struct dump *d = w->dumps, *next; d; d = next) next = d->next, str_free(&d->text), mem_free(d);
  str_free(&w->dropped);
  span_end(&w->span);
  trace_close(w->trace);
  pthread_mutex_destroy(&w->lock);
  j->watch = NULL;
}

static bool dumped(const struct watch *w, int pass) { return w->dump >> pass & 1; }

bool watch_asked(const struct job *j, int pass)
{
  const struct watch *w = j->watch;
  return w->lines || (dumped(w, pass) && (w->stop_after == NO_PASS || pass <= w->stop_after));
}

bool watch_private(const struct job *j) { return j->watch->dump || j->watch->stop_after != NO_PASS || j->opts->candidate || j->opts->keep_dropped; }

// ---- values ----

static void title_of(const struct job *j, int pass, const struct ir_value *v, struct pass_place at, char out[192])
{
  char part[32] = "", cand[32] = "";
  if (j->split.n > 1 && at.part) snprintf(part, sizeof part, ", subprogram %d", at.part);
  if (v->on.x && v->on.c) snprintf(cand, sizeof cand, at.cand ? ", candidate %d" : ", operator by operator", at.cand);
  snprintf(out, 192, "%s%s%s%s%s", passes[pass].name, part, cand, *v->label ? ", " : "", v->label);
}

static int write_value(const struct job *j, int pass, const struct ir_value *v, struct pass_place at, const struct str *text, struct err *e)
{
  struct str path = {0};
  str_add(&path, "%s/%02d-%s", j->opts->dump_dir, pass, passes[pass].name);
  if (j->split.n > 1 && at.part) str_add(&path, "-part%d", at.part);
  if (v->on.x && v->on.c) str_add(&path, "-candidate%02d", at.cand);
  if (*v->label) str_add(&path, "-%s", v->label);
  str_add(&path, "%s", irs[pass_row(j, pass)->out].suffix);
  for (char *p = path.p + strlen(j->opts->dump_dir) + 1; *p; p++)
    if (*p == ' ' || *p == '/') *p = '_';
  int status = file_write(str_text(&path), str_text(text), text->n, e);
  return str_free(&path), status;
}

static void hold_value(const struct job *j, int pass, const struct ir_value *v, struct pass_place at, struct str *text)
{
  struct undo u;
  struct dump *d = mem_take(sizeof *d);
  *d = (struct dump){.pass = pass, .part = at.part, .cand = at.cand, .i = j->watch->told[pass], .text = *text};
  title_of(j, pass, v, at, d->title);
  *text = (struct str){0};
  guard_lock(&u, &j->watch->lock);
  d->next = j->watch->dumps, j->watch->dumps = d;
  guard_unlock(&u, &j->watch->lock);
}

int watch_value(int pass, const struct ir_value *v, size_t *bytes, struct err *e)
{
  const struct job *j = v->on.j;
  struct watch *w = j->watch;
  const struct ir *ir = &irs[pass_row(j, pass)->out];
  struct pass_place at = pass_place(&v->on);
  struct str text = {0};
  int status = OK;
  if (!ir->print) return OK;
  ir->print(v, &text);
  *bytes += text.n;
  if (dumped(w, pass)) {
    __atomic_fetch_add(&w->told[pass], 1, __ATOMIC_RELAXED);
    if (j->opts->dump_dir) status = write_value(j, pass, v, at, &text, e);
    if (!j->opts->dump_dir && j->opts->told) hold_value(j, pass, v, at, &text);
  }
  return str_free(&text), status;
}

// ---- at the end ----

static int by_pass(const void *a, const void *b)
{
  const struct dump *x = *(struct dump *const *)a, *y = *(struct dump *const *)b;
  const int key[][2] = {{x->pass, y->pass}, {x->part, y->part}, {x->cand, y->cand}, {x->i, y->i}};
  for (size_t i = 0; i < COUNT(key); i++)
    if (key[i][0] != key[i][1]) return key[i][0] < key[i][1] ? -1 : 1;
  return 0;
}

static void tell_dumps(struct job *j, bool fine)
{
  const struct watch *w = j->watch;
  const struct mica_options *o = j->opts;
  int n = 0, last = w->stop_after;
  for (const struct dump *d = w->dumps; d; d = d->next) n++;
  struct dump **all = NEWS(j->mem, struct dump *, n);
  n = 0;
  for (struct dump *d = w->dumps; d; d = d->next) all[n++] = d;
  qsort(all, (size_t)n, sizeof(struct dump *), by_pass);
  for (int i = 0; i < n; i++) o->told(o->told_arg, passes[all[i]->pass].name, all[i]->title, str_text(&all[i]->text));
  if (fine && last != NO_PASS && !w->told[last])
    o->told(o->told_arg, passes[last].name, irs[pass_row(j, last)->out].print ? "no data reached it" : "it has no text output", NULL);
}

static int write_trace(struct job *j, struct err *e)
{
  struct watch *w = j->watch;
  struct str text = {0};
  span_end(&w->span);
  trace_text(w->trace, &text);
  int status = file_write(j->opts->trace, str_text(&text), text.n, e);
  trace_close(w->trace), w->trace = NULL;
  return str_free(&text), status;
}

void watch_close(struct job *j, int *status, struct err *e)
{
  if (!j->watch) return;
  if (j->watch->lines) watch_lines(j, PASSES);
  if (j->opts->told) tell_dumps(j, *status == OK);
  struct err mine = {0};
  if (j->watch->trace && write_trace(j, &mine) != OK && *status == OK) *e = mine, *status = (int)mine.status;
}

// ---- lines ----

void watch_tally(const struct job *j, int pass, const struct tally *t)
{
  struct undo u;
  struct tally *sum = &j->watch->tally[pass];
  guard_lock(&u, &j->watch->lock);
  sum->runs += t->runs, sum->values += t->values, sum->dropped += t->dropped, sum->bytes += t->bytes, sum->seconds += t->seconds;
  guard_unlock(&u, &j->watch->lock);
}

void watch_lines(const struct job *j, int until)
{
  char line[160];
  for (int p = 0; p < until; p++) {
    struct tally *t = &j->watch->tally[p];
    const struct pass *row = pass_row(j, p);
    if (!t->runs) continue;
    char time[32] = "with the above";
    if (row->run) snprintf(time, sizeof time, "%.3f ms", 1e3 * t->seconds);
    int n = snprintf(line, sizeof line, "%-13s %14s  %9zu bytes  %4d value%s", row->name, time, t->bytes, t->values, t->values == 1 ? "" : "s");
    if (row->scope == OF_PART) n += snprintf(line + n, sizeof line - (size_t)n, "  subprogram %d", j->part + 1);
    if (row->scope >= OF_CANDIDATE) n += snprintf(line + n, sizeof line - (size_t)n, "  %d candidate%s", t->runs, t->runs == 1 ? "" : "s");
    if (t->dropped) snprintf(line + n, sizeof line - (size_t)n, ", %d dropped", t->dropped);
    j->opts->traced(j->opts->told_arg, line);
    *t = (struct tally){0};
  }
}
