// Programs of several devices against the same programs of one: every example is proved equal, whatever the number of ranks.
#include "front/front.h"
#include "verify/verify.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct graph *load(struct arena *mem, const char *path, int64_t ranks)
{
  struct graph *g;
  struct err e = {0};
  const struct setting set = {"ranks", ranks};
  if (front_load(mem, path, 1, &set, &g, &e)) fail_msg("%s: %s", path, e.text);
  assert_int_equal(g->world, ranks);
  return g;
}

static void ranks_do_what_one_does(void **state)
{
  (void)state;
  DIR *dir = opendir("examples/world");
  int files = 0;
  assert_non_null(dir);
  for (struct dirent *d; (d = readdir(dir));) {
    if (!strstr(d->d_name, ".mica")) continue;
    files++;
    for (int64_t ranks = 2; ranks <= 8; ranks *= 2) {
      struct arena mem = {0};
      struct certificate c;
      struct err e = {0};
      const char *path = arena_printf(&mem, "examples/world/%s", d->d_name);
      if (verify_equal(load(&mem, path, 1), load(&mem, path, ranks), NULL, &c, &e)) fail_msg("%s: %s", path, e.text);
      if (c.scope != EVIDENCE_PROVED) fail_msg("%s on %d ranks: %s, %s; %s", path, (int)ranks, finding_name(c.finding), c.note, c.proof);
      arena_close(&mem);
    }
  }
  closedir(dir);
  assert_true(files >= 3);
}

static struct certificate compare(const char *x, const char *y)
{
  struct arena mem = {0};
  struct certificate c;
  struct err e = {0};
  struct graph *a, *b;
  if (front_parse(&mem, x, strlen(x), "x", 0, NULL, &a, &e) || front_parse(&mem, y, strlen(y), "y", 0, NULL, &b, &e)) fail_msg("%s", e.text);
  if (verify_equal(a, b, NULL, &c, &e)) fail_msg("%s", e.text);
  arena_close(&mem);
  return c;
}

// An input that is cut along one dimension here and along another there stays whole in the formal check.
static void shards_of_two_dimensions(void **state)
{
  (void)state;
  const char *rows = "program p {\n world 2\n X: f32[4, 4] shard(0)\n return all_gather(exp(X), 0)\n}";
  const char *columns = "program p {\n world 4\n X: f32[4, 4] shard(1)\n return all_gather(exp(X), 1)\n}";
  const char *other = "program p {\n world 4\n X: f32[4, 4] shard(1)\n return all_gather(exp(X), 0)\n}";
  assert_int_equal(compare(rows, columns).finding, FOUND_EQUAL);
  const struct certificate c = compare(rows, "program p {\n X: f32[4, 4]\n return exp(transpose(X))\n}");
  assert_int_equal(c.finding, FOUND_UNEQUAL);
  struct arena mem = {0};
  struct err e = {0};
  struct graph *a, *b;
  struct certificate none;
  assert_int_equal(front_parse(&mem, rows, strlen(rows), "x", 0, NULL, &a, &e) + front_parse(&mem, other, strlen(other), "y", 0, NULL, &b, &e), OK);
  assert_int_equal(verify_equal(a, b, NULL, &none, &e), USER); // results of other shapes
  assert_int_equal(e.id, ERR_MISMATCH);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_do_what_one_does),
      cmocka_unit_test(shards_of_two_dimensions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
