// The GPU and its driver by name. Linux's driver has both in files, which are fast to read. If they are missing, or GPUs of different kinds are
// installed, the driver is queried, which takes longer.
#include "gpu/wire.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

// The rest of the line after `words`; false: there is no such line.
static bool line_of(const char *path, const char *words, char *out, size_t room)
{
  char line[512];
  FILE *f = fopen(path, "r");
  bool found = false;
  while (f && !found && fgets(line, sizeof line, f)) {
    const char *at = strstr(line, words);
    if (!(found = at != NULL)) continue;
    at += strlen(words);
    at += strspn(at, " \t:");
    snprintf(out, room, "%.*s", (int)strcspn(at, "\n"), at);
  }
  if (f) fclose(f);
  return found;
}

bool identity_by_files(const char *root, char out[160])
{
  char model[64] = "", other[64], version[64];
  char path[512];
  glob_t found = {0};
  snprintf(path, sizeof path, "%.400s/gpus/*/information", root);
  bool good = !glob(path, 0, NULL, &found) && found.gl_pathc > 0;
  for (size_t i = 0; i < found.gl_pathc && good; i++) {
    good = line_of(found.gl_pathv[i], "Model:", other, sizeof other) && (!i || !strcmp(model, other));
    snprintf(model, sizeof model, "%s", other);
  }
  globfree(&found);
  snprintf(path, sizeof path, "%.400s/version", root);
  if (!good || !line_of(path, "Kernel Module", version, sizeof version)) return false;
  const char *number = version; // the first word in the form of 570.86.15
  while (*number && !(number[strspn(number, "0123456789")] == '.' && strspn(number, "0123456789")))
    number += strcspn(number, " "), number += strspn(number, " ");
  snprintf(out, 160, "%s, driver %.*s", model, (int)strcspn(number, " "), number);
  return *number != 0;
}

int gpu_identity(int device, char out[160], struct err *e)
{
  struct gpu *g;
  if (identity_by_files("/proc/driver/nvidia", out)) return OK;
  if (gpu_open(device, &g, e)) return e->status;
  snprintf(out, 160, "%.100s, driver for CUDA %d", gpu_facts(g)->name, gpu_facts(g)->driver);
  gpu_close(g);
  return OK;
}
