// Files that hold several graphs, one after the other: each begins with "graph NAME" or "program NAME" at the start of a line and ends with
// "}" at the start of a line. Comments that stand before a graph belong to it.
#ifndef TESTS_TABLES_H
#define TESTS_TABLES_H

#include "base/base.h"

#include <string.h>

struct table_graph {
  const char *name, *text;
  int line; // in the file, from 1
};

static inline const char *table_name(struct arena *mem, const char *text)
{
  for (const char *at = text; at; at = strchr(at, '\n')) {
    at += *at == '\n';
    size_t word = !strncmp(at, "graph ", 6) ? 6 : !strncmp(at, "program ", 8) ? 8 : 0;
    if (word) return arena_printf(mem, "%.*s", (int)strcspn(at + word, " ({"), at + word);
  }
  return NULL;
}

// The next graph at *at; false at the end of the file.
static inline bool table_next(struct arena *mem, const char **at, int *line, struct table_graph *out)
{
  for (; **at == '\n'; ++*at) ++*line;
  const char *end = strstr(*at, "\n}\n");
  if (!end) return false;
  out->text = arena_printf(mem, "%.*s", (int)(end + 3 - *at), *at);
  out->name = table_name(mem, out->text), out->line = *line;
  for (; *at < end + 3; ++*at) *line += **at == '\n';
  return out->name != NULL;
}

#endif
