// Finds the worker's executable: the given one, that of $MICA_WORKER, `mica` beside this library or executable or in the bin folder next to it, or
// `mica` in PATH. The library may be loaded by any program, such as Python, which is not a worker itself.
#include "gpu/wire.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool good(const char *folder, size_t n, const char *rest, char out[512])
{
  int k = snprintf(out, 512, "%.*s%s", (int)n, folder, rest);
  return k > 0 && k < 512 && !access(out, X_OK);
}

static bool beside(char out[512])
{
  Dl_info d;
  char real[4096];
  void (*here)(struct wire *) = wire_free;
  void *address;
  memcpy(&address, &here, sizeof address);
  if (!dladdr(address, &d) || !d.dli_fname || !realpath(d.dli_fname, real)) return false;
  const char *slash = strrchr(real, '/');
  size_t n = slash ? (size_t)(slash - real) : 0;
  return good(real, n, "/mica", out) || good(real, n, "/../bin/mica", out) || good(real, n, "/../../bin/mica", out); // lib/<architecture>
}

static bool in_path(char out[512])
{
  const char *path = getenv("PATH");
  for (const char *p = path ? path : ""; *p;) {
    size_t n = strcspn(p, ":");
    if (n && good(p, n, "/mica", out)) return true;
    p += n + (p[n] == ':');
  }
  return false;
}

bool worker_find(const char *given, char out[512], char why[200])
{
  const char *env = getenv("MICA_WORKER");
  const char *named = given && *given ? given : env && *env ? env : NULL;
  if (named && good(named, strlen(named), "", out)) return true;
  if (named) return snprintf(why, 200, "the worker %.120s cannot be executed", named), false;
  if (beside(out) || in_path(out)) return true;
  return snprintf(why, 200, "no executable `mica` was found to run candidates in (MICA_WORKER names one)"), false;
}
