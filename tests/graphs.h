// Functions on graphs that tests of several rooms share.
#ifndef TESTS_GRAPHS_H
#define TESTS_GRAPHS_H

#include "front/front.h"
#include "verify/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// The graph or program that a text denotes.
static inline struct graph *graph_of(struct arena *mem, const char *text)
{
  struct err e = {0};
  struct graph *g = NULL;
  if (front_parse(mem, text, strlen(text), "test", 0, NULL, &g, &e)) {
    err_print(stderr, &e);
    fail_msg("%s", text);
  }
  return g;
}

// Its text holds each of up to n pieces, as far as they are given.
static inline void assert_holds(const char *name, const struct graph *g, const char *const *pieces, size_t n)
{
  struct str text = {0};
  graph_print(g, &text);
  for (size_t k = 0; k < n && pieces[k]; k++)
    if (!strstr(str_text(&text), pieces[k])) fail_msg("%s: no %s in\n%s", name, pieces[k], str_text(&text));
  str_free(&text);
}

static inline void assert_same_function(const char *name, const struct graph *a, const struct graph *b)
{
  struct err e = {0};
  struct certificate c;
  const struct verify_opts o = {.delta = 1e-3};
  if (verify_equal(a, b, &o, &c, &e)) fail_msg("%s: %s", name, e.text);
  if (!c.equal) fail_msg("%s: %s", name, c.note);
}
#endif
