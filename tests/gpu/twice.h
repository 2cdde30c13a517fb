// The program that tests of src/gpu race and run: twice its input.
#ifndef TESTS_GPU_TWICE_H
#define TESTS_GPU_TWICE_H

#include "ir/ir.h"

static inline struct graph *twice(struct arena *mem, int64_t n)
{
  const struct shape shape = {1, {n}};
  struct err e = {0};
  struct attrs a = attrs_default(OP_MUL_SCALAR);
  struct graph *g = graph_new(mem, KERNEL, "twice");
  int x, y;
  a.scalar = 2;
  assert_int_equal(graph_input(g, "X", F32, &shape, NOWHERE, &x, &e), OK);
  assert_int_equal(graph_add(g, OP_MUL_SCALAR, 1, &x, &a, NOWHERE, &y, &e), OK);
  assert_int_equal(graph_add(g, OP_OUTPUT, 1, &y, NULL, NOWHERE, NULL, &e), OK);
  return g;
}

#endif
