// mica fmt: formats programs and graphs in place.
#include "cli/cli.h"
#include "front/format.h"

#include <stdlib.h>
#include <string.h>

static int read_input(struct cli *c, const char *path, char **text, size_t *n)
{
  return file_read(&c->mem, strcmp(path, "-") ? path : "/dev/stdin", text, n, &c->err);
}

// *other: the file is not formatted.
static int format_file(struct cli *c, const char *path, bool *other)
{
  char *text;
  size_t n;
  struct str out = {0};
  TRY(read_input(c, path, &text, &n));
  int status = format_text(&c->mem, text, n, path, &out, &c->err);
  *other = status == OK && (out.n != n || memcmp(str_text(&out), text, n) != 0);
  const bool filter = !strcmp(path, "-");
  if (status == OK && !c->check_only && (*other || filter)) status = output_write(path, str_text(&out), out.n, &c->err);
  if (status == OK && *other && !filter && output_wants_text(c)) printf("%s\n", path);
  str_free(&out);
  return status;
}

int cmd_fmt(struct cli *c)
{
  int others = 0;
  for (int i = 0; i < c->nargs; i++) {
    bool other;
    TRY(format_file(c, c->args[i], &other));
    others += other;
  }
  return others && c->check_only ? NO : OK;
}
