// The parser accepts any bytes. Mutants and prefixes of every tile text give a program whose printed text is read back unchanged, or an error with a
// place and a hint, without a crash. With -DMICA_LIBFUZZER this file is a fuzz target instead.
#include "texts.h"

static bool again(struct arena *mem, const struct tile_program *p)
{
  struct tile_program *back;
  struct err e = {0};
  struct str once = {0}, twice = {0};
  tile_text(p, &once);
  int s = tile_parse(mem, "printed", str_text(&once), &back, &e);
  if (s == OK) tile_text(back, &twice);
  bool good = s == OK ? !strcmp(str_text(&once), str_text(&twice)) : e.id == ERR_LIMIT; // it may be longer than its source
  if (!good) {
    err_print(stderr, &e);
    fprintf(stderr, "--- once\n%s\n--- twice\n%s\n", str_text(&once), str_text(&twice));
  }
  str_free(&once);
  str_free(&twice);
  return good;
}

static bool one(const char *text)
{
  struct arena mem = {0};
  struct err e = {0};
  struct tile_program *p = NULL;
  int s = tile_parse(&mem, "mutant.tile", text, &p, &e);
  bool good = s == OK ? p && e.id == ERR_NONE && again(&mem, p) : e.id != ERR_NONE && *e.text && *e.hint && e.at.line > 0;
  if (!good) err_print(stderr, &e);
  arena_close(&mem);
  return good;
}

#ifdef MICA_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  char *text = malloc(n + 1);
  memcpy(text, data, n), text[n] = 0;
  if (!one(text)) abort();
  free(text);
  return 0;
}

#else

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { CASES = 4000, MOST = 8192 };

static size_t mutate(const struct texts *t, struct rng *r, char *out)
{
  static const char *const words[] = {
      "-1",
      "0",
      "2",
      "1099511627776",
      "9223372036854775807",
      "(",
      ")",
      "[",
      "]",
      "{",
      "}",
      "=",
      ":",
      ",",
      "<-",
      "<<<",
      ">>>",
      ".",
      "%",
      "#",
      "@",
      "_",
      "?",
      "/ 0",
      "%1",
      "#t",
      "@k",
      " M",
      "N",
      "ceil(",
      "min(",
      ".tile([8])",
      ".tile(4,2:1,16)",
      "[0]",
      "[0, 0]",
      ".reshape(0, [4,2])",
      ".scalar()",
      ".indices()",
      "for (k = 0; k < 4; k += 1) {",
      "if (M < 3) {",
      "else {",
      "%q:[2,4].fp16.RF",
      "Init<inf>",
      "<+>",
      "order column",
      "//",
      "\n",
      "(2,2)",
      "const T = 3",
      "cluster 4",
  };
  const char *from = t->text[rng_below(r, (uint64_t)t->n)];
  size_t n = MIN(strlen(from), (size_t)MOST - 1);
  memcpy(out, from, n);
  for (uint64_t k = 1 + rng_below(r, 4); k > 0 && n; k--) {
    size_t at = rng_below(r, n), span = 1 + rng_below(r, 40), len = MIN(span, n - at);
    const char *other = t->text[rng_below(r, (uint64_t)t->n)], *word = words[rng_below(r, COUNT(words))];
    size_t m = strlen(other), wide = strlen(word);
    switch (rng_below(r, 6)) {
    case 0: out[at] = (char)(rng_below(r, 4) ? 32 + rng_below(r, 95) : 1 + rng_below(r, 255)); break;        // a byte
    case 1: n = rng_below(r, 8) ? n : at; break;                                                             // truncated
    case 2: memmove(out + at, out + at + len, n - at - len), n -= len; break;                                // cut
    case 3: len = MIN(len, m), memcpy(out + at, other + rng_below(r, m - len + 1), MIN(len, n - at)); break; // spliced
    case 4:
      if (n + wide < MOST) memmove(out + at + wide, out + at, n - at), memcpy(out + at, word, wide), n += wide;
      break;
    default:
      if (n + len < MOST) memmove(out + at + len, out + at, n - at), n += len; // doubled
      break;
    }
  }
  return out[n] = 0, n;
}

static void test_mutants(void **state)
{
  (void)state;
  struct texts t;
  struct rng r = {20254};
  assert_true(texts_all(&t));
  for (int i = 0; i < CASES; i++) {
    char text[MOST + 1], *exact;
    size_t n = mutate(&t, &r, text);
    exact = malloc(n + 1); // so that ASan sees a read past the end
    memcpy(exact, text, n + 1);
    if (!one(exact)) fail_msg("case %d:\n%s", i, exact);
    free(exact);
  }
  arena_close(&t.mem);
}

static void test_random_bytes(void **state)
{
  (void)state;
  struct rng r = {7};
  for (int i = 0; i < 3000; i++) {
    char text[256];
    size_t n = rng_below(&r, sizeof text);
    for (size_t k = 0; k < n; k++) text[k] = i % 2 ? (char)(1 + rng_below(&r, 255)) : " ()[]{}<>,:=+-*/%#@.\nabk19"[rng_below(&r, 27)];
    text[n] = 0;
    assert_true(one(text));
  }
}

static void test_prefixes(void **state)
{
  (void)state;
  struct texts t;
  assert_true(texts_all(&t));
  for (int i = 0; i < t.n; i++) {
    size_t n = strlen(t.text[i]);
    for (size_t at = 0; at <= n; at += 1 + n / 200) {
      char *text = arena_printf(&t.mem, "%.*s", (int)at, t.text[i]);
      if (!one(text)) fail_msg("%s up to byte %zu", t.path[i], at);
    }
  }
  arena_close(&t.mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mutants),
      cmocka_unit_test(test_random_bytes),
      cmocka_unit_test(test_prefixes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
