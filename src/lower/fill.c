// Templates of tile text. lower_emit.h describes their language.
#include "lower/lower_emit.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { FILL_NESTING = 16 };

static const struct hole *hole_of(const struct hole *h, const char *name, size_t n)
{
  while (!h->name || strncmp(h->name, name, n) != 0 || h->name[n]) {
    CHECK(h->name || h->outer); // every hole of a template is in a list
    h = h->name ? h + 1 : h->outer;
  }
  return h;
}

static size_t name_length(const char *s)
{
  size_t n = 0;
  while (isalpha((unsigned char)s[n])) n++;
  return n;
}

// Skips the conditions at the start of a line. False: one does not hold.
static bool holds(const char **line, const struct hole *holes)
{
  const char *s = *line;
  bool all = true;
  while (*s == '?') {
    bool negated = s[1] == '!';
    s += 1 + negated;
    size_t n = name_length(s);
    const struct hole *h = hole_of(holes, s, n);
    all &= (h->s ? *h->s != 0 : h->n != 0) != negated;
    s += n + (s[n] == ' ');
  }
  *line = s;
  return all;
}

static void with_holes(const char *s, const char *end, const struct hole *holes, struct str *out)
{
  while (s < end) {
    const char *hole = memchr(s, '$', (size_t)(end - s));
    str_raw(out, s, (size_t)((hole ? hole : end) - s));
    if (!hole) return;
    bool braces = hole[1] == '{';
    size_t n = name_length(hole + 1 + braces);
    const struct hole *h = hole_of(holes, hole + 1 + braces, n);
    if (h->s)
      str_add(out, "%s", h->s);
    else
      str_add(out, "%lld", (long long)h->n);
    s = hole + 1 + n + 2 * braces;
  }
}

// "s:2 n:8"
static void each(struct text *t, const char *s)
{
  for (; *s; s += strcspn(s, " "), s += *s == ' ') {
    int n = (int)strcspn(s, ":");
    str_add(t->out, "%*sfor (%.*s = 0; %.*s < %d; %.*s += 1) unroll {\n", 2 * t->indent++, "", n, s, n, s, atoi(s + n + 1), n, s);
  }
}

// "%out:[4].fp32.RF <- Move#lanes(%in)": prints the declaration, then the spec with its threads.
static void statement(struct text *t, const char *s)
{
  const char *arrow = strstr(s, " <- "), *op = arrow ? arrow + 4 : s;
  size_t name = strcspn(op, "#("), by = op[name] == '#' ? strcspn(op + name, "(") : 0;
  const char *colon = arrow && s[strcspn(s, ":[. ")] == ':' ? strchr(s, ':') : NULL; // after a name, not in a reshaped view
  if ((!arrow && strncmp(s, "Sync<", 5) != 0) || strstr(s, "<<<")) {
    str_add(t->out, "%*s%s\n", 2 * t->indent, "", s);
    return;
  }
  if (colon) str_add(t->out, "%*s%.*s\n", 2 * t->indent, "", (int)(arrow - s), s);
  str_add(t->out, "%*s%.*s%s%.*s<<<#grid, %.*s>>>%s\n", 2 * t->indent, "", (int)(arrow ? (colon ? colon : arrow) - s : 0), s, arrow ? " <- " : "",
          (int)name, op, by ? (int)by : 3, by ? op + name : "#me", op + name + by);
}

// Returns whether the line opens a block.
static bool one_line(struct text *t, const char *s)
{
  size_t n = strlen(s);
  int indent = t->indent;
  if (!strncmp(s, "each ", 5))
    each(t, s + 5);
  else if (n > 2 && s[n - 1] == '{')
    str_add(t->out, "%*s%s\n", 2 * t->indent++, "", s);
  else
    statement(t, s);
  return t->indent > indent;
}

void text_until(struct text *t, int indent)
{
  while (t->indent > indent) text_close(t);
}

void text_begin(struct text *t, const char *template, const struct hole *holes)
{
  int open[FILL_NESTING], n = 0;
  struct str line = {0};
  for (const char *s = template, *end; *s; s = end + (*end == '\n')) {
    end = s + strcspn(s, "\n");
    if (!holds(&s, holes)) continue;
    line.n = 0, with_holes(s, end, holes, &line);
    open[n] = t->indent;
    if (!strcmp(str_text(&line), "}"))
      text_until(t, open[--n]);
    else
      n += one_line(t, str_text(&line));
    CHECK(n >= 0 && n < FILL_NESTING);
  }
  str_free(&line);
}

const char *text_of(struct arena *mem, const char *template, const struct hole *holes)
{
  struct str s = {0};
  with_holes(template, template + strlen(template), holes, &s);
  return str_keep(mem, &s);
}

void text_fill(struct text *t, const char *template, const struct hole *holes)
{
  int indent = t->indent;
  text_begin(t, template, holes);
  text_until(t, indent);
}
