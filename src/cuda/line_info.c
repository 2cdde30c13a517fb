// Line tables of machine code. If MICA_LINE_INFO is set, lines of a kernel's CUDA text are preceded by #line directives that name the line of
// the tile program. NVRTC keeps them as line information, so profilers and compute-sanitizer show the tile program.
#include "cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

bool cuda_line_info(void)
{
  const char *asked = getenv("MICA_LINE_INFO");
  return asked && *asked && strcmp(asked, "0") != 0;
}

int cuda_marked(const struct cuda_marks *m, size_t at, int *next)
{
  while (*next < m->n && m->mark[*next].at <= at) ++*next;
  return *next ? m->mark[*next - 1].line : 0;
}

void cuda_add_lines(const char *text, const struct cuda_marks *m, const char *file, struct str *out)
{
  bool whole = true, told = false; // the previous line is not continued; a directive has been printed
  int next = 0;
  for (const char *p = text; *p;) {
    const size_t n = strcspn(p, "\n");
    const int line = cuda_marked(m, (size_t)(p - text), &next);
    if (line > 0 && whole) str_add(out, "#line %d \"%s\"\n", line, file), told = true;
    if (!line && told) str_add(out, "#line 1 \"kernel.cu\"\n"), told = false;
    whole = !n || p[n - 1] != '\\';
    str_raw(out, p, n);
    str_add(out, "\n");
    p += n + (p[n] == '\n');
  }
}
