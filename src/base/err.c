// Errors: the rows of err.def give status, name and hint; the call gives position and text.
#include "base/visible.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  enum status status;
  const char *name, *hint;
} rows[] = {
#define ERR(id, status, name, hint) [ERR_##id] = {status, name, hint},
#include "base/err.def"
#undef ERR
};

// Hints for files by the system's reason.
static const struct {
  int why;
  const char *hint;
} reasons[] = {
    {EMFILE, "this process may open no more files: raise the limit, as by `ulimit -n 1024`"},
    {ENFILE, "the machine has too many open files: end other programs"},
    {ENOSPC, "the disk is full: make room, or name a place on another disk"},
    {EDQUOT, "the disk quota is used up: make room, or name a place on another disk"},
    {EROFS, "the file system is read-only: name a place on another one"},
    {EFBIG, "files may not grow so large: raise the limit, as by `ulimit -f unlimited`"},
};

// A text that has the reason was made of this errno.
static const char *hint_of(enum errid id, const char *text, int why)
{
  for (size_t i = 0; id == ERR_FILE && i < COUNT(reasons); i++)
    if (reasons[i].why == why && strstr(text, strerror(why))) return reasons[i].hint;
  return rows[id].hint;
}

int err_set(struct err *e, enum errid id, struct loc at, const char *fmt, ...)
{
  const int why = errno;
  if (e->id != ERR_NONE) return (int)e->status;
  e->id = id, e->status = rows[id].status, e->at = at, e->source[0] = 0, e->mark = -1;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(e->text, sizeof e->text, fmt, ap);
  va_end(ap);
  snprintf(e->hint, sizeof e->hint, "%s", hint_of(id, e->text, why));
  return (int)e->status;
}

void err_hint(struct err *e, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(e->hint, sizeof e->hint, fmt, ap);
  va_end(ap);
}

const char *err_name(enum errid id) { return rows[id].name; }
const char *err_usual_hint(enum errid id) { return rows[id].hint; }

void err_text(char *out, size_t n, const struct err *e)
{
  char line[16] = "", col[16] = "", source[3 * ERR_SOURCE];
  if (e->at.line) snprintf(line, sizeof line, "%d:", e->at.line);
  if (e->at.line && e->at.col) snprintf(col, sizeof col, "%d:", e->at.col);
  err_source_text(source, sizeof source, e);
  snprintf(out, n, "%s%s%s%s%serror: %s [%s]\n%s%s%s%s", e->at.file ? e->at.file : "", e->at.file ? ":" : "", line, col,
           e->at.file || e->at.line ? " " : "mica: ", e->text, err_name(e->id), source, *e->hint ? "  hint: " : "", e->hint, *e->hint ? "\n" : "");
}

void err_print(FILE *f, const struct err *e)
{
  char text[ERR_TEXT];
  err_text(text, sizeof text, e);
  visible_print(f, text);
}

void base_bug(const char *file, int line, const char *what)
{
  fprintf(stderr, "mica: internal error at %s:%d: %s\n", file, line, what);
  abort();
}
