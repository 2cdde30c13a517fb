// The parser accepts any bytes. Mutants of every example give a graph or an error with a text, without a crash. With -DMICA_LIBFUZZER this file is a
// fuzz target instead.
#include "front/front.h"

#include <stdlib.h>
#include <string.h>

static int one(const char *text, size_t n, const char *file)
{
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g = NULL;
  int s = front_parse(&mem, text, n, file, 1, &(struct setting){"b", 2}, &g, &e);
  bool good = s == OK ? g && e.id == ERR_NONE : e.id != ERR_NONE && *e.text && *e.hint;
  if (s == OK) {
    struct str out = {0};
    struct graph *again = NULL;
    graph_print(g, &out);
    int back = front_parse(&mem, str_text(&out), out.n, "printed", 0, NULL, &again, &e);
    good = good && (back ? e.id == ERR_LIMIT : graph_same(g, again)); // the text may be longer than its source
    out.n = 0;
    graph_draw(g, &out);
    str_free(&out);
  }
  arena_close(&mem);
  return good;
}

#ifdef MICA_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  if (!one((const char *)data, n, NULL)) abort();
  return 0;
}

#else

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { FILES = 64, CASES = 20000 };
struct corpus {
  struct arena mem;
  int n;
  char *text[FILES];
  size_t size[FILES];
};

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void read_folder(struct corpus *c, const char *folder)
{
  DIR *d = opendir(folder);
  assert_non_null(d);
  for (struct dirent *f; (f = readdir(d)) && c->n < FILES;) {
    struct err e = {0};
    size_t n;
    const char *dot = strrchr(f->d_name, '.');
    if (!dot || strcmp(dot, ".mica")) continue;
    if (!file_read(&c->mem, arena_printf(&c->mem, "%s/%s", folder, f->d_name), &c->text[c->n], &n, &e)) c->n++;
  }
  closedir(d);
}

static size_t mutate(const struct corpus *c, struct rng *r, char *out, size_t most)
{
  static const char *const words[] = {
      "-1", "0",      "9223372036854775807", "1099511627775", "1e308", "inf",    "(",    ")", "[",   "]", "{", "}", "=", ":", ",", ";",
      "\n", "return", "block(x=2) {",        "iter(",         "save(", "accum(", "sum(", "%", "/ 0", "_", "#", "\0"};
  const char *from = c->text[rng_below(r, (uint64_t)c->n)];
  size_t n = MIN(strlen(from), most);
  memcpy(out, from, n);
  for (uint64_t k = 1 + rng_below(r, 4); k > 0 && n; k--) {
    size_t at = rng_below(r, n), span = 1 + rng_below(r, 40), len = MIN(span, n - at);
    const char *other = c->text[rng_below(r, (uint64_t)c->n)], *word = words[rng_below(r, COUNT(words))];
    size_t m = strlen(other), wide = MAX(strlen(word), 1);
    switch (rng_below(r, 6)) {
    case 0: out[at] = (char)rng_next(r); break;                                                              // a byte
    case 1: n = rng_below(r, 8) ? n : at; break;                                                             // truncated
    case 2: memmove(out + at, out + at + len, n - at - len), n -= len; break;                                // cut
    case 3: len = MIN(len, m), memcpy(out + at, other + rng_below(r, m - len + 1), MIN(len, n - at)); break; // spliced
    case 4:
      if (n + wide <= most) memmove(out + at + wide, out + at, n - at), memcpy(out + at, word, wide), n += wide;
      break;
    default:
      if (n + len <= most) memmove(out + at + len, out + at, n - at), n += len;
      break; // doubled
    }
  }
  return n;
}

static void test_mutants(void **state)
{
  (void)state;
  struct corpus c = {0};
  struct rng r = {20251};
  read_folder(&c, MICA_SOURCE_DIR "/examples");
  read_folder(&c, MICA_SOURCE_DIR "/examples/graphs");
  qsort(c.text, (size_t)c.n, sizeof *c.text, by_text); // the same order on every file system
  for (int i = 0; i < CASES; i++) {
    char text[8192], *exact;
    size_t n = mutate(&c, &r, text, sizeof text);
    exact = malloc(MAX(n, 1)); // so that ASan sees a read past the end
    memcpy(exact, text, n);
    if (!one(exact, n, "mutant.mica")) fail_msg("case %d:\n%.*s", i, (int)n, exact);
    free(exact);
  }
  arena_close(&c.mem);
}

static void test_random_bytes(void **state)
{
  (void)state;
  struct rng r = {7};
  for (int i = 0; i < 3000; i++) {
    char text[256];
    size_t n = rng_below(&r, sizeof text);
    for (size_t k = 0; k < n; k++) text[k] = i % 2 ? (char)rng_next(&r) : " ()[]{},;:=+-*/%#.\nab19e"[rng_below(&r, 24)];
    assert_true(one(text, n, NULL));
  }
}

// Every prefix of a program with blocks and nested threads.
static void test_prefixes(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  char *text;
  size_t n;
  assert_int_equal(file_read(&mem, MICA_SOURCE_DIR "/examples/graphs/rms_fused.mica", &text, &n, &e), OK);
  for (size_t i = 0; i <= n; i++) assert_true(one(text, i, NULL));
  arena_close(&mem);
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
