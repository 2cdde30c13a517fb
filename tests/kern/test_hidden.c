// Which conditions on indices let iterations be left out (kern_hidden.c): those that show something in each row, of scores that only
// sums of exponentials and maxima see.
#include "kern/kern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Fails unless the kernel's text has so many inequalities.
static void expect(struct arena *mem, int bounds, const char *text)
{
  struct err e = {0};
  struct kern k;
  struct kern_hidden h;
  if (kern_parse(mem, text, &k, &e) != OK) fail_msg("%s\n%s", e.text, text);
  const int found = kern_hides(&k, &h) ? h.nbounds : 0;
  if (found != bounds) fail_msg("%d inequalities, not %d, of\n%s", found, bounds, text);
}

// Rows a0 of the block a3, keys a1 of iteration a2. The condition is %s, of keys v1 and rows v2.
static const char scores[] = "kern {\n  letters a0=4 a1=8\n  grid a3=3\n  loops a2=2\n"
                             "  v0 = load f32 t0[192] + 0 + a0*16 + a1*1 + a2*8 + a3*64\n"
                             "  v1 = load f32 i1[16] + 0 + a1*1 + a2*8\n"
                             "  v2 = load f32 i2[12] + 0 + a0*1 + a3*4\n%s"
                             "  v6 = mul_scalar(30000) v5\n  v7 = add_scalar(-30000) v6\n  v8 = mask v0 v5\n  v9 = add v8 v7\n%s"
                             "  save v%d f32 t3[12] + 0 + a0*1 + a3*4\n}\n";
static const char sum[] = "  v10 = exp v9\n  v11 = sum{a1,a2} v10\n";

static const struct {
  const char *condition, *reader;
  int saved, bounds; // 0: nothing is left out
} rows[] = {
    {"  v3 = less_equal v1 v2\n  v4 = neg v3\n  v5 = neg v4\n", sum, 11, 0}, // no product of comparisons
    {"  v3 = const 0\n  v4 = add v2 v3\n  v5 = less_equal v1 v4\n", sum, 11, 1},
    {"  v3 = const 0\n  v4 = add v2 v3\n  v5 = less v1 v4\n", sum, 11, 0}, // row 0 shows nothing
    {"  v3 = add_scalar(1) v2\n  v4 = neg v3\n  v5 = less v1 v3\n", sum, 11, 1},
    {"  v3 = less_equal v2 v1\n  v4 = less_equal v1 v2\n  v5 = mul v3 v4\n", sum, 11, 2},
    {"  v3 = sub v2 v1\n  v4 = const 2\n  v5 = less v3 v4\n", sum, 11, 1},
    {"  v3 = add_scalar(5) v2\n  v4 = const 2\n  v5 = less_equal v3 v1\n", sum, 11, 0},   // rows 11 and on have no such key
    {"  v3 = mul_scalar(0.5) v2\n  v4 = const 2\n  v5 = less_equal v1 v3\n", sum, 11, 0}, // halves
    {"  v3 = const 0\n  v4 = const 1\n  v5 = equal v1 v2\n", sum, 11, 2},
    {"  v3 = const 0\n  v4 = add v2 v3\n  v5 = less_equal v1 v4\n", "  v10 = exp v9\n  v11 = sum{a1,a2} v9\n", 11, 0}, // of scores themselves
    {"  v3 = const 0\n  v4 = add v2 v3\n  v5 = less_equal v1 v4\n", "  v10 = exp v9\n  v11 = max{a1,a2} v9\n", 11, 1},
    {"  v3 = const 0\n  v4 = add v2 v3\n  v5 = less_equal v1 v4\n", "  v10 = sub v9 v2\n  v11 = max{a1,a2} v10\n", 11, 0},
    {"  v3 = const 0\n  v4 = add v2 v3\n  v5 = less_equal v1 v4\n",
     "  v10 = max{a1} v9\n  v11 = runmax{a2} v10\n  v12 = sub v9 v11\n"
     "  v13 = exp v12\n  v14 = sum{a1,a2} v13\n",
     14, 1},
    // two conditions, one around the other
    {"  v3 = const 0\n  v4 = add v2 v3\n  v5 = less_equal v1 v4\n",
     "  v10 = add_scalar(-3) v2\n  v11 = less_equal v10 v1\n  v12 = mul_scalar(30000) v11\n  v13 = add_scalar(-30000) v12\n"
     "  v14 = mask v9 v11\n  v15 = add v14 v13\n  v16 = exp v15\n  v17 = sum{a1,a2} v16\n",
     17, 2},
    {"  v3 = const 0\n  v4 = add v2 v3\n  v5 = less_equal v1 v4\n", // which show nothing in common
     "  v10 = add_scalar(1) v2\n  v11 = less_equal v10 v1\n  v12 = mul_scalar(30000) v11\n  v13 = add_scalar(-30000) v12\n"
     "  v14 = mask v9 v11\n  v15 = add v14 v13\n  v16 = exp v15\n  v17 = sum{a1,a2} v16\n",
     17, 0},
};

// Rows a0 of the block a4, columns a1 of the block a5, and a2 in iteration a3. Indices are v2 of rows, v3 of columns, and v4 and v5 of iterations, as
// columns of the left operand and rows of the right one.
static const char products[] = "kern {\n  letters a0=8 a1=8 a2=8\n  grid a4=4 a5=4\n  loops a3=4\n"
                               "  v0 = load f16 t0[1024] + 0 + a0*32 + a2*1 + a3*8 + a4*256\n"
                               "  v1 = load f16 t1[1024] + 0 + a1*1 + a2*32 + a3*256 + a5*8\n"
                               "  v2 = load f32 i2[32] + 0 + a0*1 + a4*8\n  v3 = load f32 i3[32] + 0 + a1*1 + a5*8\n"
                               "  v4 = load f32 i4[32] + 0 + a2*1 + a3*8\n%s"
                               "  save v%d f16 t5[1024] + 0 + a0*32 + a1*1 + a4*256 + a5*8\n}\n";

static const struct {
  const char *values;
  int saved, bounds;
} masked[] = {
    {"  v5 = less_equal v3 v2\n  v6 = product{a2}{} v0 v1\n  v7 = sum{a3} v6\n  v8 = mask v7 v5\n", 8, 1},
    {"  v5 = less_equal v3 v2\n  v6 = product{a2}{} v0 v1\n  v7 = sum{a3} v6\n  v8 = mask v7 v5\n  v9 = add v8 v7\n", 9, 0}, // read elsewhere
    {"  v5 = less_equal v3 v2\n  v6 = product{a2}{} v0 v1\n  v7 = sum{a3} v6\n  v8 = exp v7\n  v9 = mask v8 v5\n  v10 = add_scalar(1) v9\n", 10, 1},
    {"  v5 = less_equal v4 v2\n  v6 = mask v0 v5\n  v7 = product{a2}{} v6 v1\n  v8 = sum{a3} v7\n", 8, 1},
    {"  v5 = less_equal v4 v2\n  v6 = mask v0 v5\n  v7 = exp v6\n  v8 = product{a2}{} v7 v1\n  v9 = sum{a3} v8\n", 9, 0}, // exp(0) is 1
    {"  v5 = less_equal v4 v2\n  v6 = mask v0 v5\n  v7 = product{a2}{} v6 v1\n  v8 = sum{a3} v7\n  v9 = less_equal v3 v4\n"
     "  v10 = mask v1 v9\n  v11 = product{a2}{} v6 v10\n  v12 = sum{a3} v11\n",
     12, 2},
    {"  v5 = less_equal v4 v2\n  v6 = mask v0 v5\n  v7 = product{a2}{} v6 v1\n  v8 = sum{a3} v7\n  v9 = less_equal v3 v4\n"
     "  v10 = mask v1 v9\n  v11 = product{a2}{} v0 v10\n  v12 = sum{a3} v11\n  v13 = add v8 v12\n",
     13, 0}, // each mask is of one of two products
    {"  v5 = less_equal v4 v2\n  v6 = mask v0 v5\n  v7 = product{a2}{} v6 v1\n  v8 = sum{a3} v7\n  v9 = max{a2,a3} v6\n  v10 = add v8 v9\n", 10,
     0}, // a maximum is at least 0
    {"  v5 = less_equal v4 v2\n  v6 = mask v0 v5\n  v7 = product{a2}{} v6 v1\n  v8 = sum{a3} v7\n  v9 = prod{a2,a3} v6\n  v10 = add v8 v9\n", 10,
     0}, // a product of elements is 0
    {"  v5 = less_equal v4 v2\n  v6 = mask v0 v5\n  v7 = product{a2}{} v6 v1\n  v8 = sum{a3} v7\n"
     "  v9 = top i32 i5[32] + 0 + a2*1 + a3*8 + at0*0 < 1{a2,a3} v6\n  save v9 f32 t6[32] + 0 + a0*1 + a4*8 + at0*0 < 1\n",
     8, 0}, // a 0 may be the largest
};

static void masks_of_results_and_operands(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(masked); i++) {
    struct arena mem = {0};
    expect(&mem, masked[i].bounds, arena_printf(&mem, products, masked[i].values, masked[i].saved));
    arena_close(&mem);
  }
}

static void conditions(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) {
    struct arena mem = {0};
    expect(&mem, rows[i].bounds, arena_printf(&mem, scores, rows[i].condition, rows[i].reader, rows[i].saved));
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(conditions), cmocka_unit_test(masks_of_results_and_operands)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
