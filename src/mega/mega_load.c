// A model from a file: the text form, or the configuration of a transformer.
#include "mega/mega.h"

#include <string.h>

static const char *stem(struct arena *mem, const char *path)
{
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  char *name = arena_printf(mem, "%.*s", (int)strcspn(base, "."), base);
  for (char *c = name; *c; c++)
    if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9'))) *c = '_';
  return (*name >= '0' && *name <= '9') || !*name ? arena_printf(mem, "m%s", name) : name;
}

int mega_load(struct arena *mem, const char *path, const struct mega_sizes *s, struct mega_model **out, struct mega_config **config, struct err *e)
{
  char *text;
  size_t n;
  *config = NULL;
  TRY(file_read(mem, path, &text, &n, e));
  size_t at = strspn(text, " \t\r\n");
  if (text[at] != '{') return mega_parse(mem, text, n, path, s, out, e);
  *config = NEW(mem, struct mega_config);
  TRY(mega_config_read(mem, text, n, path, *config, e));
  (*config)->name = stem(mem, path);
  return mega_from_config(mem, *config, s, out, e);
}
