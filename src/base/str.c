// Growable text.
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static void room(struct str *s, size_t more)
{
  if (s->n + more + 1 <= s->cap) return;
  s->cap = MAX(2 * s->cap, s->n + more + 64);
  s->p = realloc(s->p, s->cap);
  CHECK(s->p);
}

void str_raw(struct str *s, const char *p, size_t n)
{
  room(s, n);
  memcpy(s->p + s->n, p, n);
  s->n += n;
  s->p[s->n] = 0;
}

void str_add(struct str *s, const char *fmt, ...)
{
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  room(s, (size_t)n);
  vsnprintf(s->p + s->n, (size_t)n + 1, fmt, again);
  va_end(again);
  s->n += (size_t)n;
}

void str_free(struct str *s)
{
  free(s->p);
  *s = (struct str){0};
}

const char *str_text(const struct str *s)
{
  return s->p ? s->p : "";
}

void str_double(char out[32], double x)
{
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(out, 32, "%.*g", digits, x);
    if (strtod(out, NULL) == x) return;
  }
}
