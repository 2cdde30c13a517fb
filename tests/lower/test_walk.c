// Addresses (lower_walk.c): the text of a walk, evaluated at every index, is the place that the strides of its axes say; neighbours that
// one stride serves are one axis.
#include "given.h"
#include "lower/lower_emit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 4, ROUNDS = 400 };

// " + i / 4 % 2 * 8 + ..." at i, from left to right within a term.
static int64_t evaluated(const char *text, int64_t i)
{
  int64_t sum = 0, term = 0;
  for (const char *p = text; *p;) {
    if (!strncmp(p, " + i", 4)) sum += term, term = i, p += 4;
    if (!*p || !strncmp(p, " + ", 3)) continue;
    char op = p[1];
    int64_t x = strtoll(p + 3, (char **)&p, 10);
    assert_true(x > 0 && strchr("/%*", op));
    term = op == '/' ? term / x : op == '%' ? term % x : term * x;
  }
  return sum + term;
}

static int64_t place(int n, const int64_t *extent, const int64_t *stride, int64_t i)
{
  int64_t at = 0;
  for (int a = n - 1; a >= 0; i /= extent[a--]) at += i % extent[a] * stride[a];
  return at;
}

static void texts_are_places(void **state)
{
  (void)state;
  struct rng r = {5};
  for (int round = 0; round < ROUNDS; round++) {
    int n = 1 + (int)(rng_next(&r) % MOST);
    int64_t extent[MOST], stride[MOST], all = 1;
    struct lower_walk w = {0};
    struct str text = {0};
    for (int a = n - 1; a >= 0; all *= extent[a--]) {
      extent[a] = 1 + (int64_t)(rng_next(&r) % 4);
      stride[a] = rng_next(&r) % 3 ? a + 1 < n ? stride[a + 1] * extent[a + 1] : 1 : (int64_t)(rng_next(&r) % 20); // often of one axis with the next
    }
    for (int a = 0; a < n; a++) assert_true(walk_add(&w, extent[a], stride[a]));
    walk_text(&w, "i", &text);
    for (int64_t i = 0; i < all; i++)
      if (evaluated(str_text(&text), i) != place(n, extent, stride, i)) fail_msg("round %d: at %d:%s", round, (int)i, str_text(&text));
    str_free(&text);
  }
}

static void neighbours_are_one_axis(void **state)
{
  (void)state;
  struct lower_walk w = {0};
  struct str text = {0};
  assert_true(walk_add(&w, 3, 32) && walk_add(&w, 1, 7) && walk_add(&w, 4, 8) && walk_add(&w, 8, 1));
  assert_int_equal(w.n, 1);
  walk_text(&w, "i", &text);
  assert_string_equal(str_text(&text), " + i");
  str_free(&text);
  for (int a = w.n; a < WALK_AXES; a++) assert_true(walk_add(&w, 2, 1000 + a % 2));
  assert_false(walk_add(&w, 2, 5)); // there is no room
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(texts_are_places), cmocka_unit_test(neighbours_are_one_axis)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
