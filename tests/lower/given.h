// What tests of whole programs are given: the H200 without one, graphs without their frame, statuses that must be OK.
#ifndef TESTS_LOWER_GIVEN_H
#define TESTS_LOWER_GIVEN_H

#include "../tables.h"
#include "lower/lower.h"

#include <stdio.h>
#include <string.h>

static inline struct gpu_limits h200(void)
{
  struct err e = {0};
  struct target t;
  assert_int_equal(target_open("sm_90a", 1, true, &t, &e), OK);
  return gpu_limits(&t);
}

static inline struct graph *read(struct arena *mem, const char *text)
{
  const char *kind = strstr(text, "block(") ? "graph g" : "program g()";
  return graph_of(mem, arena_printf(mem, "%s {\n %s\n}\n", kind, text));
}

static inline void must(int status, const char *name, const struct err *e)
{
  if (status == OK) return;
  err_print(stderr, e);
  fail_msg("%s: %s", name, e->text);
}

#endif
