// JSON: every example is written and read back; errors name what is wrong; no bytes crash the reader.
#include "front/front.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void round_trip(const char *path)
{
  struct arena mem = {0};
  struct err e = {0};
  struct str one = {0}, two = {0};
  struct graph *g, *back;
  if (front_load(&mem, path, 0, NULL, &g, &e)) fail_msg("%s: %s", path, e.text);
  graph_to_json(g, &one);
  if (graph_from_json(&mem, one.p, one.n, path, &back, &e)) fail_msg("%s: %s\n%s", path, e.text, one.p);
  assert_true(graph_same(g, back));
  graph_to_json(back, &two);
  assert_string_equal(str_text(&one), str_text(&two));
  str_free(&one), str_free(&two);
  arena_close(&mem);
}

static void round_trips(void **state)
{
  (void)state;
  static const char *const folders[] = {"examples", "examples/graphs", "examples/world"};
  int files = 0;
  for (size_t i = 0; i < COUNT(folders); i++) {
    DIR *dir = opendir(folders[i]);
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir));) {
      char path[512];
      if (!strstr(d->d_name, ".mica")) continue;
      snprintf(path, sizeof path, "%s/%s", folders[i], d->d_name);
      round_trip(path), files++;
    }
    closedir(dir);
  }
  assert_true(files > 10);
}

#define TOP "{\"mica\": \"mugraph\", \"version\": 1, \"level\": \"kernel\", \"nodes\": "
#define WORLD "{\"mica\": \"mugraph\", \"version\": 1, \"level\": \"kernel\", \"world\": 2, \"nodes\": "
#define N "{\"op\": \"input\", \"dtype\": \"i32\", \"shape\": [], \"range\": [1, 8], \"extent\": 1}"
#define X "{\"op\": \"input\", \"dtype\": \"f32\", \"shape\": [4, 8], \"out\": [\"X\"]}"
#define OUT "{\"op\": \"output\", \"in\": [\"X\"]}"
#define BLOCK_OF(axes, nodes) "{\"op\": \"block\", \"graph\": {\"level\": \"block\"" axes ", \"nodes\": [" nodes "]}, \"out\": [\"Y\"]}"

static const char block_text[] =
    TOP "[" X ", " BLOCK_OF(", \"grid\": {\"x\": 2}, \"loop\": {\"i\": 4}",
                            "{\"op\": \"iter\", \"in\": [\"X\"], \"imap\": {\"x\": 0}, \"fmap\": {\"i\": 1}, \"out\": [\"x\"]}, "
                            "{\"op\": \"accum_sum\", \"in\": [\"x\"], \"dim\": -1}, "
                            "{\"op\": \"clamp\", \"in\": [1], \"lo\": \"-inf\", \"hi\": 1e3}, {\"op\": \"save\", \"in\": [2], "
                            "\"omap\": {\"x\": 0}}") ", {\"op\": \"output\", \"in\": [\"Y\"]}]}";

static const struct {
  const char *json, *text;
} wrong[] = {
    {"", "not JSON"},
    {"[]", "top: should be an object, not an array"},
    {"{}", "`\"mica\": \"mugraph\"` is missing"},
    {"{\"mica\": \"mugraph\"}", "`version` should be an integer, not nothing"},
    {"{\"mica\": \"mugraph\", \"version\": 2}", "version 2, but this Mica reads version 1"},
    {"{\"mica\": \"mugraph\", \"version\": 1, \"colour\": 3}", "unknown field `colour`"},
    {"{\"mica\": \"mugraph\", \"version\": 1, \"level\": \"block\"}", "a file holds a kernel graph, not a block graph"},
    {"{\"mica\": \"mugraph\", \"mica\": 1}", "duplicate object key"},
    {"{\"mica\": \"mugraph\", \"version\": 1, \"level\": \"kernel\", \"world\": 3, \"nodes\": []}", "top: a world of 3 devices"},
    {"{\"mica\": \"mugraph\", \"version\": 1, \"level\": \"kernel\", \"world\": \"2\", \"nodes\": []}", "`world` should be an integer"},
    {"{\"mica\": \"mugraph\", \"version\": 1, \"level\": \"kernel\", \"nodes\": [{\"op\": \"input\", \"dtype\": \"f32\", \"shape\": [4], \"state\": "
     "true, \"frozen\": true, \"out\": [\"X\"]}]}",
     "a state is written: the input is not frozen"},
    {"{\"mica\": \"mugraph\", \"version\": 1, \"level\": \"kernel\", \"nodes\": [{\"op\": \"input\", \"dtype\": \"f32\", \"shape\": [4], \"frozen\": "
     "1, \"out\": [\"X\"]}]}",
     "`frozen` should be true or false"},
    {"{\"mica\": \"mugraph\", \"version\": 1, \"level\": \"kernel\", \"nodes\": [{\"op\": \"input\", \"dtype\": \"i32\", \"shape\": [], \"range\": "
     "[1, 8], \"extent\": 1, \"frozen\": true, \"out\": [\"n\"]}]}",
     "is frozen, and a run-time extent changes"},
    {WORLD "[{\"op\": \"input\", \"dtype\": \"f32\", \"shape\": [4], \"shard\": 1}]}", "nodes[0] (input): shard(1) of a tensor of 1"},
    {WORLD "[{\"op\": \"input\", \"dtype\": \"f32\", \"shape\": [5], \"shard\": 0}]}", "nodes[0] (input): dimension 0 of extent 5"},
    {WORLD "[{\"op\": \"input\", \"dtype\": \"f32\", \"shape\": [4], \"shard\": 0}, {\"op\": \"output\", \"in\": [0]}]}",
     "may be different on each of the 2 devices"},
    {TOP "[" N ", {\"op\": \"iota\", \"shape\": [4, 8], \"runs\": [0, 1]}]}", "nodes[1] (iota): indices that count over 4 rows"},
    {TOP "[" N ", {\"op\": \"input\", \"dtype\": \"f32\", \"shape\": [8], \"state\": true, \"runs\": [1]}]}", "a state has a run-time extent"},
    {TOP "[" N ", {\"op\": \"input\", \"dtype\": \"i32\", \"shape\": [8], \"range\": [0, 9], \"distinct\": true, \"runs\": [1]}]}", "need -1"},
    {TOP "3}", "`nodes` should be an array, not an integer"},
    {TOP "[3]}", "nodes[0]: a node should be an object, not an integer"},
    {TOP "[{}]}", "nodes[0]: `op` should be a string, not nothing"},
    {TOP "[{\"op\": \"mat\"}]}", "nodes[0]: `mat` is no operator"},
    {TOP "[{\"op\": \"save\"}]}", "nodes[0] (save): save is not an operator of kernel graphs"},
    {TOP "[{\"op\": \"input\", \"dtype\": \"f64\", \"shape\": []}]}", "`f64` is no dtype"},
    {TOP "[{\"op\": \"input\", \"dtype\": \"f32\", \"shape\": [0]}]}", "`shape` is 0, outside [1,"},
    {TOP "[{\"op\": \"input\", \"dtype\": \"f32\", \"shape\": [1099511627775, 2]}]}", "fewer than 2^40 elements"},
    {TOP "[{\"op\": \"input\", \"dtype\": \"f32\", \"shape\": [1,1,1,1,1,1,1,1,1]}]}", "more than 8 entries"},
    {TOP "[{\"op\": \"input\", \"dtype\": \"f32\", \"shape\": [99999999999999999999]}]}", "not JSON: too big integer"},
    {TOP "[{\"op\": \"input\", \"dtype\": \"f32\", \"shape\": [2], \"rows\": 2}]}", "input has no attribute `rows`"},
    {TOP "[" X "]}", "the kernel graph has no output"},
    {TOP "[" X ", " X "]}", "nodes[1] (input): the name `X` is taken"},
    {TOP "[" X ", {\"op\": \"output\", \"in\": [\"Y\"]}]}", "there is no tensor `Y` in the kernel graph"},
    {TOP "[" X ", {\"op\": \"output\", \"in\": [true]}]}", "`in` should be a string, not true"},
    {TOP "[" X ", {\"op\": \"matmul\", \"in\": [\"X\", \"Z\"], \"out\": [\"Y\"]}, {\"op\": \"exp\", \"in\": [\"Y\"], "
         "\"out\": [\"Z\"]}]}",
     "nodes[1] (matmul): tensor `Z` is used before it is made: the graph is cyclic or out of order"},
    {TOP "[" X ", {\"op\": \"exp\", \"in\": [1]}]}", "tensor 1 is used before it is made"},
    {TOP "[" X ", {\"op\": \"exp\", \"in\": [\"X\"], \"out\": [0]}]}", "tensor 0 would be made where tensor 1 is next"},
    {TOP "[" X ", {\"op\": \"exp\", \"in\": [\"X\"], \"out\": [\"a\", \"b\"]}]}", "`out` has 2 entries, but there are 1 results"},
    {TOP "[" X ", {\"op\": \"exp\", \"in\": \"X\"}]}", "`in` should be an array of tensors, not a string"},
    {TOP "[" X ", {\"op\": \"exp\", \"in\": []}]}", "exp takes 1 tensors, not 0"},
    {TOP "[" X ", {\"op\": \"sum\", \"in\": [\"X\"]}]}", "sum needs the attribute `dim`"},
    {TOP "[" X ", {\"op\": \"sum\", \"in\": [\"X\"], \"dim\": 2}]}", "nodes[1] (sum): sum of [4, 8]: dim=2"},
    {TOP "[" X ", {\"op\": \"sum\", \"in\": [\"X\"], \"dim\": 1.5}]}", "`dim` should be an integer, not a real"},
    {TOP "[" X ", {\"op\": \"exp\", \"in\": [\"X\"], \"dim\": 1}]}", "exp has no attribute `dim`"},
    {TOP "[" X ", {\"op\": \"repeat\", \"in\": [\"X\"], \"dim\": 1, \"times\": 1099511627776}]}", "`times` is 1099511627776, outside"},
    {TOP "[" X ", {\"op\": \"mul_scalar\", \"in\": [\"X\"], \"scalar\": \"nan\"}]}", "`scalar` should be a number"},
    {TOP "[" X ", {\"op\": \"block\", \"in\": [\"X\"]}]}", "`graph` should be an object, not nothing"},
    {TOP "[" X ", " BLOCK_OF(", \"grid\": {\"y\": 2}", "") "]}", "`grid` has 1 axes: they should be the first of xyz"},
    {TOP "[" X ", " BLOCK_OF(", \"grid\": {\"x\": 2097152, \"y\": 4}", "") "]}", "multiply to more than 2^22"},
    {TOP "[" X ", " BLOCK_OF(", \"loop\": {\"i\": 0}", "") "]}", "`loop` is 0, outside [1,"},
    {TOP "[" X ", " BLOCK_OF("", "") "]}", "nodes[1] (block)"},
    {TOP "[" X ", " BLOCK_OF("", "{\"op\": \"iter\", \"in\": [\"X\"], \"imap\": {\"x\": 0}}") "]}",
     "nodes[1].graph.nodes[0] (iter): `imap` names the axis `x`"},
    {TOP "[" X ", " BLOCK_OF("", "{\"op\": \"iter\", \"in\": [\"X\", \"X\"]}") "]}", "iter takes 1 tensor of the graph above, not 2"},
    {TOP "[" X ", " BLOCK_OF("", "{\"op\": \"output\", \"in\": [0]}") "]}", "output is not an operator of block graphs"},
    {TOP "[" X ", {\"op\": \"block\", \"in\": [], \"graph\": {\"level\": \"block\", \"nodes\": [{\"op\": \"iter\", "
         "\"in\": [\"X\"]}, {\"op\": \"save\", \"in\": [0]}]}}]}",
     "`in` should list the tensors of the iterators, in order"},
    {TOP "[" X ", {\"op\": \"block\", \"graph\": {\"level\": \"thread\", \"nodes\": []}}]}", "`level` is \"thread\" where \"block\" belongs"},
};

static void explains_what_is_wrong(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(wrong); i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g;
    assert_int_not_equal(graph_from_json(&mem, wrong[i].json, strlen(wrong[i].json), "f.json", &g, &e), OK);
    if (!strstr(e.text, wrong[i].text)) fail_msg("case %zu: \"%s\" does not hold \"%s\"", i, e.text, wrong[i].text);
    assert_string_equal(e.at.file, "f.json");
    arena_close(&mem);
  }
}

static void reads_every_form(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g;
  if (graph_from_json(&mem, block_text, strlen(block_text), NULL, &g, &e)) fail_msg("%s", e.text);
  const struct graph *sub = g->nodes[1].sub;
  assert_int_equal(sub->nodes[1].a.dim, 1);
  assert_true(sub->nodes[2].a.lo < -1e308 && sub->nodes[2].a.hi == 1000);
  assert_int_equal(g->tensors[1].shape.d[0], 4);
  arena_close(&mem);
}

static void tells_the_place_of_a_syntax_error(void **state)
{
  (void)state;
  static const char text[] = "{\"mica\": \"mugraph\",\n \"version\" 1}";
  struct arena mem = {0};
  struct err e = {0};
  struct graph *g;
  assert_int_equal(graph_from_json(&mem, text, strlen(text), "f.json", &g, &e), USER);
  assert_int_equal(e.at.line, 2);
  assert_true(e.at.col > 0);
  arena_close(&mem);
}

// Cut everywhere, and changed at random: an error or a graph, never a crash.
static void survives_any_bytes(void **state)
{
  (void)state;
  struct rng r = {7};
  char text[sizeof block_text];
  size_t n = sizeof block_text - 1;
  for (size_t i = 0; i < 20000 + n; i++) {
    struct arena mem = {0};
    struct err e = {0};
    struct graph *g;
    size_t len = i < n ? i : n;
    memcpy(text, block_text, sizeof text);
    for (uint64_t k = i < n ? 0 : 1 + rng_below(&r, 3); k; k--) text[rng_below(&r, n)] = "0123456789-{}[]\",:xyzijk \1\377"[rng_below(&r, 28)];
    int s = graph_from_json(&mem, text, len, NULL, &g, &e);
    assert_true(s == OK || s == USER);
    assert_true(i >= n || s == USER);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(round_trips),        cmocka_unit_test(explains_what_is_wrong),
      cmocka_unit_test(reads_every_form),   cmocka_unit_test(tells_the_place_of_a_syntax_error),
      cmocka_unit_test(survives_any_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
