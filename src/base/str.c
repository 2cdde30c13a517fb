// Growable text.
#include "base/memory.h"
#include "base/visible.h"

#include <stdlib.h>
#include <string.h>

static void room(struct str *s, size_t more)
{
  if (s->n + more + 1 <= s->cap) return;
  size_t cap = MAX(2 * s->cap, s->n + more + 64);
  s->p = mem_more(s->p, s->cap, cap), s->cap = cap;
}

void str_raw(struct str *s, const char *p, size_t n)
{
  room(s, n);
  memcpy(s->p + s->n, p, n);
  s->n += n;
  s->p[s->n] = 0;
}

// Mostly there is room for it, and the text is formatted once.
void str_add(struct str *s, const char *fmt, ...)
{
  va_list ap, again;
  room(s, 64);
  va_start(ap, fmt);
  va_copy(again, ap);
  size_t n = (size_t)vsnprintf(s->p + s->n, s->cap - s->n, fmt, ap), have = s->cap - s->n;
  va_end(ap);
  if (n >= have) room(s, n), vsnprintf(s->p + s->n, n + 1, fmt, again);
  va_end(again);
  s->n += n;
}

void str_free(struct str *s)
{
  mem_free(s->p);
  *s = (struct str){0};
}

char *str_keep(struct arena *mem, struct str *s)
{
  char *text = arena_strdup(mem, str_text(s));
  str_free(s);
  return text;
}

const char *str_text(const struct str *s) { return s->p ? s->p : ""; }

void str_double(char out[32], double x)
{
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(out, 32, "%.*g", digits, x);
    if (strtod(out, NULL) == x) return;
  }
}

void visible_add(struct str *out, const char *s, size_t n)
{
  char room[16];
  const char *text;
  for (size_t len; n; s += len, n -= len) {
    int k = visible_shown(s, n, room, &text, &len);
    str_raw(out, text, (size_t)k);
  }
}
