// A terminal's columns and colours. https://no-color.org defines how a user refuses colours.
#include "base/visible.h"
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum paint { ERROR_PAINT, MARK_PAINT, HINT_PAINT, TITLE_PAINT };
static const char *const codes[] = {[ERROR_PAINT] = "\033[1;31m", [MARK_PAINT] = "\033[1;32m", [HINT_PAINT] = "\033[36m", [TITLE_PAINT] = "\033[1m"};

int terminal_columns(int fd)
{
  struct winsize w;
  if (!isatty(fd)) return 0;
  return ioctl(fd, TIOCGWINSZ, &w) || !w.ws_col ? 80 : w.ws_col;
}

bool terminal_colours(int fd)
{
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  return !(no && *no) && term && *term && strcmp(term, "dumb") && isatty(fd);
}

static void painted(FILE *f, const char *text, size_t n, enum paint p)
{
  struct str part = {0};
  str_raw(&part, text, n);
  fputs(codes[p], f);
  visible_print(f, str_text(&part));
  fputs("\033[0m", f);
  str_free(&part);
}

static void plain(FILE *f, const char *text, size_t n)
{
  struct str part = {0};
  str_raw(&part, text, n);
  visible_print(f, str_text(&part));
  str_free(&part);
}

// A line of a message: `error:` or `warning:` in the first, the mark below the source, the word `hint:`.
static void message_line(FILE *f, const char *line, size_t n, bool first)
{
  static const char hint[] = "  hint:";
  const char *word = first ? memmem(line, n, "error:", 6) : NULL;
  size_t blank = strspn(line, " ");
  if (word) {
    plain(f, line, (size_t)(word - line)), painted(f, word, 6, ERROR_PAINT), plain(f, word + 6, n - (size_t)(word - line) - 6);
  } else if (!first && blank < n && line[blank] == '|' && n > 2 && line[n - 2] == '^')
    painted(f, line, n - 1, MARK_PAINT), plain(f, line + n - 1, 1);
  else if (!strncmp(line, hint, strlen(hint)))
    painted(f, line, strlen(hint), HINT_PAINT), plain(f, line + strlen(hint), n - strlen(hint));
  else
    plain(f, line, n);
}

void terminal_error(const char *text)
{
  if (!terminal_colours(STDERR_FILENO)) {
    visible_print(stderr, text);
    return;
  }
  for (const char *line = text, *end; *line; line = end) {
    end = strchr(line, '\n');
    end = end ? end + 1 : line + strlen(line);
    message_line(stderr, line, (size_t)(end - line), line == text);
  }
}

void terminal_title(FILE *f, const char *text)
{
  if (terminal_colours(fileno(f)))
    painted(f, text, strlen(text), TITLE_PAINT);
  else
    fputs(text, f);
}
