// The source line of an error, printed below its message, with a mark under the column.
#include "base/base.h"

#include <string.h>

enum { BEFORE = 70 }; // bytes of a long line shown before the column

static bool inside_character(char c) { return ((unsigned char)c & 0xc0) == 0x80; }

void err_source(struct err *e, const char *text, size_t n)
{
  const char *end = text + n, *line = text;
  if (e->id == ERR_NONE || e->at.line < 1 || *e->source) return;
  for (int i = 1; i < e->at.line && line; i++) line = memchr(line, '\n', (size_t)(end - line)), line = line ? line + 1 : NULL;
  if (!line || line >= end) return;
  const char *stop = memchr(line, '\n', (size_t)(end - line));
  if (!stop) stop = end;
  if (stop > line && stop[-1] == '\r') stop--;
  const ptrdiff_t col = e->at.col - 1;
  if (line == stop || col > stop - line || memchr(line, 0, (size_t)(stop - line))) return;
  const char *from = line + (stop - line < ERR_SOURCE ? 0 : MAX(col - BEFORE, 0));
  while (from < stop && inside_character(*from)) from++;
  stop = MIN(stop, from + ERR_SOURCE - 1);
  while (stop > from && stop < end && inside_character(*stop)) stop--;
  memcpy(e->source, from, (size_t)(stop - from));
  e->mark = col < 0 ? -1 : (int)(line + col - from);
}

// "   3 |   return exp(X" and below it "     |            ^".
int err_source_text(char *out, size_t n, const struct err *e)
{
  if (!*e->source) return *out = 0;
  char mark[ERR_SOURCE + 1];
  int k = 0, width = snprintf(NULL, 0, "%d", e->at.line);
  for (int i = 0; i < e->mark && e->source[i]; i++) // tabs have the same width in both lines
    if (!inside_character(e->source[i])) mark[k++] = e->source[i] == '\t' ? '\t' : ' ';
  mark[k] = 0;
  if (e->mark < 0) return snprintf(out, n, "  %d | %s\n", e->at.line, e->source);
  return snprintf(out, n, "  %d | %s\n  %*s | %s^\n", e->at.line, e->source, width, "", mark);
}
