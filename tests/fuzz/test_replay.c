// Runs the fuzz targets without libFuzzer, on earlier findings (tests/fuzz/found/TARGET/*) and on some mutants of the seeds.
#include "fuzz.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MUTANTS = 1500, LARGEST = 1 << 15 };

static const struct {
  const char *name, *seeds;
  fuzz_target *run;
} targets[] = {
#define FUZZ(name, seeds) {#name, seeds, fuzz_##name},
#include "targets.def"
#undef FUZZ
};

struct bytes {
  uint8_t *p;
  size_t n;
};
struct corpus {
  struct arena mem;
  struct bytes *files;
  int n, cap;
};

static void read_pattern(struct corpus *c, const char *pattern)
{
  glob_t found;
  struct err e = {0};
  if (!glob(pattern, 0, NULL, &found))
    for (size_t i = 0; i < found.gl_pathc; i++) {
      char *text;
      struct bytes b;
      assert_int_equal(file_read(&c->mem, found.gl_pathv[i], &text, &b.n, &e), OK);
      b.p = (uint8_t *)text;
      PUSH(&c->mem, c->files, c->n, c->cap) = b;
    }
  globfree(&found);
}

static void read_seeds(struct corpus *c, const char *patterns)
{
  while (*patterns) {
    size_t n = strcspn(patterns, " ");
    read_pattern(c, arena_printf(&c->mem, MICA_SOURCE_DIR "/%.*s", (int)n, patterns));
    patterns += n + (patterns[n] == ' ');
  }
}

static void try(int t, const uint8_t *p, size_t n, const char *what, int i)
{
  uint8_t *exact = malloc(n ? n : 1); // so that a read past the end is seen
  memcpy(exact, p, n);
  if (!targets[t].run(exact, n)) fail_msg("%s: %s %d", targets[t].name, what, i);
  free(exact);
}

static void test_found(void **state)
{
  (void)state;
  for (int t = 0; t < (int)COUNT(targets); t++) {
    struct corpus c = {0};
    read_seeds(&c, targets[t].seeds);
    assert_true(c.n > 1);
    read_pattern(&c, arena_printf(&c.mem, MICA_SOURCE_DIR "/tests/fuzz/found/%s/*", targets[t].name));
    for (int i = 0; i < c.n; i++) try(t, c.files[i].p, c.files[i].n, "file", i);
    arena_close(&c.mem);
  }
}

static size_t mutate(const struct corpus *c, struct rng *r, uint8_t *out)
{
  const struct bytes *from = &c->files[rng_below(r, (uint64_t)c->n)], *other = &c->files[rng_below(r, (uint64_t)c->n)];
  size_t n = MIN(from->n, (size_t)LARGEST);
  memcpy(out, from->p, n);
  for (uint64_t k = 1 + rng_below(r, 5); k && n; k--) {
    size_t at = rng_below(r, n), wide = 1 + rng_below(r, 24), span = MIN(wide, n - at), much = MIN(span, other->n);
    switch (rng_below(r, 5)) {
    case 0: out[at] = (uint8_t)rng_next(r); break;
    case 1: out[at] ^= (uint8_t)(1u << rng_below(r, 8)); break;
    case 2: memmove(out + at, out + at + span, n - at - span), n -= span; break;
    case 3: memcpy(out + at, other->p + rng_below(r, other->n - much + 1), much); break;
    default: n = rng_below(r, 6) ? n : at; break;
    }
  }
  return n;
}

static void test_mutants(void **state)
{
  (void)state;
  uint8_t *out = malloc(LARGEST);
  for (int t = 0; t < (int)COUNT(targets); t++) {
    struct corpus c = {0};
    struct rng r = {(uint64_t)t + 5};
    read_seeds(&c, targets[t].seeds);
    for (int i = 0; i < MUTANTS; i++) {
      size_t n = mutate(&c, &r, out);
      try(t, out, n, "mutant", i);
    }
    arena_close(&c.mem);
  }
  free(out);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_found), cmocka_unit_test(test_mutants)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
