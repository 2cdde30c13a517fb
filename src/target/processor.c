// A text that identifies the instruction set of this processor, for compiled code that is kept. Code compiled for it runs on every processor with
// the same text. Frequencies and cache sizes affect only speed and are not part of the text.
#include "target/target.h"

#include <stdlib.h>
#include <string.h>

void target_processor(char out[64])
{
  static const char *const rows[] = {"vendor_id", "CPU implementer", "flags", "Features"};
  char *row = NULL;
  size_t room = 0;
  uint64_t hash = 0;
  FILE *f = fopen("/proc/cpuinfo", "r");
  while (f && getline(&row, &room, f) > 1)
    for (size_t i = 0; i < COUNT(rows); i++)
      if (!strncmp(row, rows[i], strlen(rows[i]))) hash = hash_bytes(row, strlen(row), hash);
  if (f) fclose(f);
  free(row);
#if defined(__x86_64__)
  const char *family = "x86-64";
#elif defined(__aarch64__)
  const char *family = "aarch64";
#else
  const char *family = "processor";
#endif
  snprintf(out, 64, "%s %016llx", family, (unsigned long long)hash);
}
