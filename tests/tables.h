// Graphs in files: a file holds several, one after the other. Each begins with "graph NAME" or "program NAME" at the start of a line and
// ends with "}" at the start of a line. Comments before a graph belong to it: "# TITLE", and "#: FIELD VALUE" with what a test is to
// expect of the graph. A line that begins with "##" is about the whole file.
#ifndef TESTS_TABLES_H
#define TESTS_TABLES_H

#include "graphs.h"

#include <stdio.h>

enum { TABLE_FIELDS = 8 };
struct table_graph {
  const char *name, *title, *text; // the title is the name where none is written
  int line, nfields;               // of the file, from 1
  const char *field[TABLE_FIELDS], *value[TABLE_FIELDS];
};
struct table {
  struct arena mem;
  const char *path;
  int n, cap;
  struct table_graph *row;
};

static inline const char *table_piece(struct arena *mem, const char *from, size_t n)
{
  while (n && from[n - 1] == ' ') n--;
  return arena_printf(mem, "%.*s", (int)n, from);
}

// A line before the graph's text or the first of it.
static inline void table_line(struct table *t, struct table_graph *x, const char *at)
{
  size_t n = strcspn(at, "\n"), word = !strncmp(at, "graph ", 6) ? 6 : !strncmp(at, "program ", 8) ? 8 : 0;
  if (word) {
    x->name = table_piece(&t->mem, at + word, strcspn(at + word, " ({"));
  } else if (!strncmp(at, "#: ", 3)) {
    size_t key = strcspn(at + 3, " \n");
    if (x->nfields == TABLE_FIELDS) fail_msg("%s:%d: more than %d fields", t->path, x->line, TABLE_FIELDS);
    x->field[x->nfields] = table_piece(&t->mem, at + 3, key);
    x->value[x->nfields++] = n > 3 + key ? table_piece(&t->mem, at + 4 + key, n - 4 - key) : "";
  } else if (!strncmp(at, "# ", 2) && !x->title)
    x->title = table_piece(&t->mem, at + 2, n - 2);
}

// Reads tests/lower/graphs/NAME.mica.
static inline void table_open(struct table *t, const char *name)
{
  struct err e = {0};
  char *text;
  size_t n;
  *t = (struct table){0};
  t->path = arena_printf(&t->mem, "tests/lower/graphs/%s.mica", name);
  if (file_read(&t->mem, t->path, &text, &n, &e)) fail_msg("%s", e.text);
  int line = 1;
  for (const char *at = text, *end; (end = strstr(at, "\n}\n")); at = end + 3) {
    for (; *at == '\n'; at++) line++;
    struct table_graph x = {.line = line, .text = arena_printf(&t->mem, "%.*s", (int)(end + 3 - at), at)};
    for (const char *l = x.text; *l && !x.name; l += strcspn(l, "\n") + 1) table_line(t, &x, l);
    if (!x.name) fail_msg("%s:%d: no graph begins here", t->path, line);
    if (!x.title) x.title = x.name;
    for (const char *l = x.text; *l; l++) line += *l == '\n';
    PUSH(&t->mem, t->row, t->n, t->cap) = x;
  }
  if (!t->n) fail_msg("%s: no graphs", t->path);
}

static inline void table_close(struct table *t) { arena_close(&t->mem); }

// The value of a field; NULL where it is not written.
static inline const char *table_field(const struct table_graph *x, const char *field)
{
  for (int i = 0; i < x->nfields; i++)
    if (!strcmp(x->field[i], field)) return x->value[i];
  return NULL;
}

// Is the word one of those in the field?
static inline bool table_has(const struct table_graph *x, const char *field, const char *word)
{
  const char *v = table_field(x, field);
  for (size_t n; v && *v; v += n + (v[n] == ' ')) {
    n = strcspn(v, " ");
    if (n == strlen(word) && !strncmp(v, word, n)) return true;
  }
  return false;
}

static inline double table_number(const struct table_graph *x, const char *field)
{
  const char *v = table_field(x, field);
  double number = 0;
  if (!v || sscanf(v, "%lf", &number) != 1) fail_msg("%s: no number %s", x->title, field);
  return number;
}

static inline const struct table_graph *table_row(const struct table *t, const char *name)
{
  int i = 0;
  while (i < t->n && strcmp(t->row[i].name, name)) i++;
  if (i == t->n) fail_msg("%s: no graph %s", t->path, name);
  return &t->row[i];
}

static inline struct graph *table_graph(struct arena *mem, const char *table, const char *name)
{
  struct table t;
  table_open(&t, table);
  struct graph *g = graph_of(mem, table_row(&t, name)->text);
  return table_close(&t), g;
}

#endif
