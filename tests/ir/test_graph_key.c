// Keys of graphs (graph_key.c). They do not depend on names, the order of operators and unused operators, but on everything that determines the result.
// A key in this file shows that they are the same in every build.
#include "../graphs.h"

static const char *key_of(struct arena *mem, const char *text)
{
  char *key = arena_alloc(mem, GRAPH_KEY);
  graph_key(graph_of(mem, text), key);
  assert_int_equal(strlen(key), GRAPH_KEY - 1);
  return key;
}

#define PROGRAM(body) "program p() { X: f16[8, 16]; Y: f16[8, 16]; " body " }"
static const char base[] = PROGRAM("a = exp(X); b = sum(Y, dim=1); return a / b");

static void what_makes_no_difference(void **state)
{
  (void)state;
  struct arena mem = {0};
  static const char *const same[] = {
      "program other() { first: f16[8, 16]; second: f16[8, 16]; u = exp(first); v = sum(second, dim=1); return u / v }",
      PROGRAM("b = sum(Y, dim=1); a = exp(X); return a / b"),
      PROGRAM("return exp(X) / sum(Y, dim=-1)"),
      PROGRAM("unused = sqrt(X); return exp(X) / sum(Y, dim=1)"),
  };
  for (size_t i = 0; i < COUNT(same); i++) assert_string_equal(key_of(&mem, same[i]), key_of(&mem, base));
  arena_close(&mem);
}

static void what_makes_one(void **state)
{
  (void)state;
  struct arena mem = {0};
  static const char *const texts[] = {
      base,
      "program p() { Y: f16[8, 16]; X: f16[8, 16]; return exp(X) / sum(Y, dim=1) }", // inputs in another order
      "program p() { X: bf16[8, 16]; Y: bf16[8, 16]; return exp(X) / sum(Y, dim=1) }",
      "program p() { X: f16[8, 32]; Y: f16[8, 32]; return exp(X) / sum(Y, dim=1) }",
      "program p() { X: f16[8, 16]; Y: f16[8, 16]; Z: f16[8, 16]; return exp(X) / sum(Y, dim=1) }",
      PROGRAM("return exp(X) / sum(X, dim=1)"),
      PROGRAM("return exp(X) * sum(Y, dim=1)"),
      PROGRAM("return exp(X) / max(Y, dim=1)"),
      PROGRAM("return sum(Y, dim=1) / exp(X)"),
      PROGRAM("return exp(X * 2) / sum(Y, dim=1)"),
      PROGRAM("return exp(X * 2.0000001) / sum(Y, dim=1)"),
      PROGRAM("a = exp(X) / sum(Y, dim=1); return a, a"),
      "program p() { t: i32[8] < 16; X: f16[16, 4]; return gather(X, t, dim=0) }",
      "program p() { t: i32[8] < 15; X: f16[16, 4]; return gather(X, t, dim=0) }",
      "program p() { t: i32[8] < 16, distinct; X: f16[16, 4]; return gather(X, t, dim=0) }",
      "graph g { X: f16[8, 16]; t = block(x=8) { x = iter(X, imap={x:0}); save(exp(x), omap={x:0}) }; return t }",
      "graph g { X: f16[8, 16]; t = block(x=4) { x = iter(X, imap={x:0}); save(exp(x), omap={x:0}) }; return t }",
      "graph g { X: f16[8, 16]; t = block(x=8) { x = iter(X, imap={x:1}); save(exp(x), omap={x:1}) }; return t }",
  };
  for (size_t i = 0; i < COUNT(texts); i++)
    for (size_t k = 0; k < i; k++)
      if (!strcmp(key_of(&mem, texts[i]), key_of(&mem, texts[k]))) fail_msg("one key:\n%s\n%s", texts[i], texts[k]);
  arena_close(&mem);
}

// Files of plans that are installed hold such keys: a change of this one costs every plan its use.
static void other_builds_say_the_same(void **state)
{
  (void)state;
  struct arena mem = {0};
  assert_string_equal(key_of(&mem, base), "6be4e4118f1f0ac2c436350ca7e9abd3");
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_makes_no_difference),
      cmocka_unit_test(what_makes_one),
      cmocka_unit_test(other_builds_say_the_same),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
