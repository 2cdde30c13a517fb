// Layouts of tensors and tiles: choices on graphs with a known answer, the least cost against an enumeration of all choices, and swizzles against the
// banks of shared memory.
#include "../graphs.h"
#include "plan/layout.h"

#include <string.h>

static struct graph *read(struct arena *mem, const char *text) { return graph_of(mem, arena_printf(mem, "graph g {\n %s\n}\n", text)); }

static int named(const struct graph *g, const char *name)
{
  for (int t = 0; t < g->ntensors; t++)
    if (g->tensors[t].name && !strcmp(g->tensors[t].name, name)) return t;
  fail_msg("no tensor %s", name);
  return -1;
}

#define PRODUCT                                                                                                               \
  "A: f16[64, 128]\n B: f16[128, 64]\n O = block(x=2; i=4) { a = iter(A, imap={x:0}, fmap={i:1})\n b = iter(B, fmap={i:0})\n" \
  "save(accum(matmul(a, b)), omap={x:0}) }\n return O"
// The first kernel leaves a tensor that the second reads by columns only.
#define BY_COLUMNS                                                                                      \
  "X: f16[64, 64]\n T = block(x=4) { x = iter(X, imap={x:0})\n save(exp(transpose(x)), omap={x:1}) }\n" \
  "O = block(x=32) { t = iter(T, imap={x:1})\n save(sum(t, dim=0), omap={x:1}) }\n return O"

static const struct {
  const char *text, *tensor; // of the kernel graph, or "TILE" of the first block graph
  bool tile;
  int inner, swizzled;
} known[] = {
    {PRODUCT, "A", false, 1, -1},
    {PRODUCT, "a", true, 1, 0}, // as in device memory, rows swizzled for ldmatrix
    {PRODUCT, "b", true, 1, 0},
    {"A: f16[128, 64]\n B: f16[128, 64]\n T = transpose(A)\n O = block(; i=4) { a = iter(T, fmap={i:1})\n b = iter(B, fmap={i:0})\n"
     "save(accum(matmul(a, b))) }\n return O",
     "a", true, 0, 1}, // a transposed operand stays as it is in device memory
    {BY_COLUMNS, "X", false, 1, -1},
    {"X: f16[64, 256]\n O = block(x=64) { x = iter(X, imap={x:0})\n save(exp(x), omap={x:0}) }\n return O", "x", true, 1, -1},
};

static void chosen(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(known); i++) {
    struct arena mem = {0};
    struct graph *g = read(&mem, known[i].text);
    struct layouts l;
    struct err e = {0};
    int node = 0;
    while (g->nodes[node].op != OP_BLOCK) node++;
    const struct graph *in = known[i].tile ? g->nodes[node].sub : g;
    assert_int_equal(plan_layouts(&mem, g, false, &l, &e), OK);
    int t = named(in, known[i].tensor);
    const struct tensor_layout *x = known[i].tile ? &l.tile[node][t] : &l.device[t];
    if (x->inner != known[i].inner || x->swizzled != known[i].swizzled) {
      struct str text = {0};
      plan_layouts_text(&l, NULL, &text);
      fail_msg("%s of case %zu\n%s", known[i].tensor, i, str_text(&text));
    }
    arena_close(&mem);
  }
}

// A tensor between kernels takes the layout that both sides like: 128 bytes of a column in a row.
static void between(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct graph *g = read(&mem, "X: f16[64, 64]\n T = block(x=4) { x = iter(X, imap={x:1})\n save(exp(x), omap={x:1}) }\n"
                               "O = block(x=16) { t = iter(T, imap={x:1})\n save(transpose(t), omap={x:0}) }\n return O");
  struct layouts l;
  struct err e = {0};
  assert_int_equal(plan_layouts(&mem, g, false, &l, &e), OK);
  assert_int_equal(l.device[named(g, "T")].inner, 0);
  assert_int_equal(l.device[named(g, "T")].stride[1], 64);
  arena_close(&mem);
}

static void against_all(void **state)
{
  (void)state;
  static const char *const texts[] = {
      PRODUCT,
      BY_COLUMNS,
      "X: f16[32, 64]\n O = block(x=2) { x = iter(X, imap={x:0})\n s = sum(exp(x), dim=1)\n save(exp(x) / s, omap={x:0}) }\n return O",
      ("X: f16[2, 32, 64]\n Y: f16[2, 64, 32]\n O = block(x=2) { x = iter(X, imap={x:0})\n y = iter(Y, imap={x:0})\n save(x + transpose(y), "
       "omap={x:0}) }\n return O"),
      "X: f16[32, 64]\n W: f16[64, 32]\n Y = matmul(X, W)\n return exp(Y)",
  };
  for (size_t i = 0; i < COUNT(texts); i++) {
    struct arena mem = {0};
    struct graph *g = read(&mem, texts[i]);
    struct layouts fast, all;
    struct err e = {0};
    assert_int_equal(plan_layouts(&mem, g, false, &fast, &e), OK);
    assert_int_equal(plan_layouts(&mem, g, true, &all, &e), OK);
    assert_true(fast.cost == all.cost);
    arena_close(&mem);
  }
}

// 32 banks of 4 bytes: eight rows read at the same chunk of 16 bytes use every bank once.
static void banks(void **state)
{
  (void)state;
  for (int64_t row = 16; row <= 1024; row += 16) {
    struct swizzle_plan p = layout_swizzle(row);
    int64_t chunks = row / 16;
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
      int used[8] = {0};
      for (int64_t r = 0; r < 8; r++) {
        int64_t line = row + p.shift, number = r * line / 16 + chunk;
        if (p.bits) number ^= number >> p.from & ((1 << p.bits) - 1);
        used[number % 8]++;
      }
      for (int b = 0; b < 8; b++) assert_int_equal(used[b], 1);
    }
  }
}

static void strides(void **state)
{
  (void)state;
  struct tensor_layout l;
  struct shape s = {.n = 3, .d = {4, 3, 10}};
  layout_strides(&s, 2, 2, &l);
  assert_int_equal(l.stride[2], 1);
  assert_int_equal(l.stride[1], 16); // rows of 10 halves begin at 16 bytes
  assert_int_equal(l.stride[0], 48);
  layout_strides(&s, 0, 2, &l);
  assert_int_equal(l.stride[0], 1);
  assert_int_equal(l.stride[2], 8);
  assert_int_equal(l.stride[1], 80);
  assert_int_equal(l.elements, 240);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(chosen), cmocka_unit_test(between), cmocka_unit_test(against_all), cmocka_unit_test(banks),
                                     cmocka_unit_test(strides)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
