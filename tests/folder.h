// A folder of one's own for a test that writes files.
#ifndef TESTS_FOLDER_H
#define TESTS_FOLDER_H

#include "base/base.h"

#include <stdlib.h>

static char folder[] = "/tmp/mica-test-XXXXXX";

static inline int folder_enter(void **state)
{
  (void)state;
  return mkdtemp(folder) ? 0 : 1;
}

static inline int folder_leave(void **state)
{
  (void)state;
  struct str s = {0};
  str_add(&s, "rm -rf '%s'", folder);
  int status = system(s.p);
  str_free(&s);
  return status;
}
#endif
