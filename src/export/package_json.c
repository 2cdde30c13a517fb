// Checked access to JSON values: each must exist, have the right type and be in its range. Otherwise the error names the value.
#include "export/package.h"

#include <string.h>

int reading_bad(const struct reading *r, const char *key, const char *wanted)
{
  err_set(r->e, ERR_JSON, NOWHERE, "program.json: `%s` of %s is not %s", key, r->what, wanted);
  return err_hint(r->e, "save the program again; docs/library.md says what a folder holds"), r->e->status;
}

int reading_whole(const struct reading *r, const json_t *o, const char *key, int64_t least, int64_t most, int64_t *out)
{
  const json_t *v = json_object_get(o, key);
  char wanted[96];
  *out = json_integer_value(v);
  if (json_is_integer(v) && *out >= least && *out <= most) return OK;
  snprintf(wanted, sizeof wanted, "an integer from %lld to %lld", (long long)least, (long long)most);
  return reading_bad(r, key, wanted);
}

int reading_text(const struct reading *r, const json_t *o, const char *key, const char **out)
{
  *out = json_string_value(json_object_get(o, key));
  return *out ? OK : reading_bad(r, key, "a text");
}

int reading_list(const struct reading *r, const json_t *o, const char *key, size_t most, size_t *n)
{
  const json_t *v = json_object_get(o, key);
  char wanted[96];
  *n = json_array_size(v);
  if (json_is_array(v) && *n <= most) return OK;
  snprintf(wanted, sizeof wanted, "a list of at most %zu entries", most);
  return reading_bad(r, key, wanted);
}

int reading_file(const struct reading *r, const json_t *o, const char *key, const char **out)
{
  int status = reading_text(r, o, key, out);
  if (status != OK) return status;
  return **out && **out != '.' && !strchr(*out, '/') ? OK : reading_bad(r, key, "the name of a file in the folder");
}
