// Loading, with parameters given as text.
#include "front/front.h"
#include "ir/print.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// "b=8"
static int parse(struct arena *mem, const char *text, struct setting *s, struct err *e)
{
  const char *eq = strchr(text, '=');
  char *end = NULL;
  errno = 0;
  if (!strncmp(text, "entry=", 6) && print_is_name(text + 6)) return *s = (struct setting){.name = "entry", .entry = arena_strdup(mem, text + 6)}, OK;
  if (eq && eq != text) s->value = strtoll(eq + 1, &end, 10);
  if (!end || end == eq + 1 || *end || errno) {
    err_set(e, ERR_OPTION, NOWHERE, "%.80s does not set a parameter", text);
    err_hint(e, errno == ERANGE ? "the integer is too large" : "write name=integer, for example b=8");
    return USER;
  }
  s->name = arena_printf(mem, "%.*s", (int)(eq - text), text);
  return OK;
}

int load_settings(struct arena *mem, int n, const char *const *set, struct setting **out, struct err *e)
{
  *out = NEWS(mem, struct setting, n);
  for (int i = 0; i < n; i++) TRY(parse(mem, set[i], &(*out)[i], e));
  return OK;
}

int load_file(struct arena *mem, const char *path, int nset, const char *const *set, struct graph **out, struct err *e)
{
  struct setting *s;
  TRY(load_settings(mem, nset, set, &s, e));
  return front_load(mem, path, nset, s, out, e);
}

int load_text(struct arena *mem, const char *text, const char *name, int nset, const char *const *set, struct graph **out, struct err *e)
{
  struct setting *s;
  TRY(load_settings(mem, nset, set, &s, e));
  return front_parse(mem, text, strlen(text), name, nset, s, out, e);
}
