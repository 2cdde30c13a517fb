// Shared by the tests of the search: a machine that is the same everywhere, and the programs of examples/.
#ifndef TESTS_SEARCH_EXAMPLES_H
#define TESTS_SEARCH_EXAMPLES_H

#include "front/front.h"
#include "search/search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct target machine = {.name = "test",
                                      .cores = 2,
                                      .lanes = 16,
                                      .l1 = 32 << 10,
                                      .l2 = 1 << 20,
                                      .l3 = 32 << 20,
                                      .scratch = 768 << 10,
                                      .memory = (int64_t)16 << 30,
                                      .bandwidth = 40e9,
                                      .cache_bandwidth = 200e9,
                                      .flops = 220e9,
                                      .exp_rate = 7e9,
                                      .launch = 4e-6};

// The program of examples/name.mica in f32, without composites.
static inline struct graph *load(struct arena *mem, const char *name, int nset, const struct setting *set)
{
  struct err e = {0};
  struct graph *g = NULL, *f32 = NULL, *plain = NULL;
  char *path = arena_printf(mem, "%s/examples/%s.mica", MICA_SOURCE_DIR, name);
  if (front_load(mem, path, nset, set, &g, &e) || graph_cast(mem, g, F32, &f32, &e) || graph_expand(mem, f32, false, &plain, &e)) {
    err_print(stderr, &e);
    fail();
  }
  return plain;
}
#endif
