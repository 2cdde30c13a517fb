// The folder of the file that contains this code: the library, or the command. Installed files are found relative to it.
#include "base/base.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char mark;

bool file_here(char *out, size_t n)
{
  Dl_info info;
  char path[PATH_MAX];
  if (!dladdr(&mark, &info) || !info.dli_fname || !realpath(info.dli_fname, path)) return false;
  const char *slash = strrchr(path, '/');
  return slash && snprintf(out, n, "%.*s", (int)MAX(slash - path, 1), path) < (int)n;
}
