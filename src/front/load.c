// Files are told apart by their content, so that their names do not matter.
#include "front/front.h"
#include "ir/constants.h"

static bool is_json(const char *text, size_t n)
{
  size_t i = 0;
  while (i < n && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n')) i++;
  return i < n && text[i] == '{';
}

int front_load(struct arena *mem, const char *path, int nset, const struct setting *set, struct graph **out, struct err *e)
{
  char *text;
  size_t n;
  int s = file_read(mem, path, &text, &n, e);
  if (s) return s;
  if (!is_json(text, n)) return front_parse(mem, text, n, path, nset, set, out, e);
  if (nset) return err_set(e, ERR_OPTION, (struct loc){path, 0, 0}, "a JSON graph has no parameters, so `%.64s` cannot be set", set[0].name);
  s = graph_from_json(mem, text, n, path, out, e);
  return s ? s : constants_check(*out, e);
}
