// The row of instr.def with that name, or NULL.
#ifndef TESTS_INSTR_ROW_H
#define TESTS_INSTR_ROW_H

#include "tile/tile.h"

#include <string.h>

static inline const struct instr *instr_find(const char *name)
{
  int n;
  const struct instr *rows = instr_rows(&n);
  for (int i = 0; i < n; i++)
    if (!strcmp(rows[i].name, name)) return &rows[i];
  return NULL;
}

#endif
