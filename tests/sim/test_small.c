// Types of 8 bits in tile programs: loads, stores and conversions of single elements and vectors in the interpreter. Expected numbers are by
// base/num.h, which tests/base/test_num.c tests.
#include "tiles.h"

#include "sim/number.h"

#include <math.h>

enum { N = 512 };

static const char kernel[] =
    "order row\nkernel convert { target sm_89 param N multiple 16\n %%X:[N].%s.GL\n %%Y:[N].%s.GL\n #g:[1].block\n #t:[32].thread\n"
    " %%Y <- Spec<<<#g, #t>>>(%%X) {\n  @i = #t.indices()\n  #me = #t.scalar()\n"
    "  for (@k = 0; @k < N / %d; @k += 32) {\n   if (@k + @i < N / %d) {\n"
    "    %%from:[%d].%s.RF\n    %%to:[%d].%s.RF\n    %%from <- Move<<<#g, #me>>>(%%X.tile([%d])[@k + @i])\n"
    "    %%to <- UnaryPointwise<cast><<<#g, #me>>>(%%from)\n    %%Y.tile([%d])[@k + @i] <- Move<<<#g, #me>>>(%%to)\n   }\n  }\n }\n}\n";

static const char *text(struct arena *mem, enum tile_type from, enum tile_type to, int width)
{
  const char *x = tile_types[from].name, *y = tile_types[to].name;
  return arena_printf(mem, kernel, x, y, width, width, width, x, width, y, width, width);
}

static bool same(double a, double b) { return a == b ? signbit(a) == signbit(b) : a != a && b != b; }

// Every pattern; numbers of all sizes, infinities and NaN.
static void fill(enum tile_type t, void *p, struct rng *r)
{
  for (int i = 0; i < N; i++)
    if (tile_types[t].bits == 8)
      ((uint8_t *)p)[i] = (uint8_t)i;
    else
      num_set(t, i < 4 ? (const double[]){NAN, INFINITY, -INFINITY, -0.0}[i] : ldexp(rng_normal(r), (int)rng_below(r, 40) - 20),
              (char *)p + i * tile_types[t].bytes);
}

static void converts(enum tile_type from, enum tile_type to, int width)
{
  struct tile_run t;
  struct arena mem = {0};
  struct rng r = {7};
  tile_open(&t, "small", text(&mem, from, to, width), "N=512");
  tile_fill(&t, 1, "Y");
  fill(from, tile_data(&t, "X", NULL), &r);
  tile_clean(&t);
  for (int i = 0; i < N; i++) {
    uint64_t want = 0;
    num_set(to, (double)(float)tile_get(&t, "X", i), &want);
    assert_true(same(tile_get(&t, "Y", i), num_one(to, &want)));
  }
  tile_close(&t);
  arena_close(&mem);
}

static void conversions(void **state)
{
  (void)state;
  static const enum tile_type others[] = {TT_F32, TT_F16, TT_BF16};
  for (int t = 0; t < DTYPES; t++)
    for (size_t i = 0; num_rows[t].bits == 8 && !num_whole((enum dtype)t) && i < COUNT(others); i++)
      for (int width = 1; width <= 16; width *= 2) {
        converts(tile_type_of((enum dtype)t), others[i], width);
        converts(others[i], tile_type_of((enum dtype)t), width);
      }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(conversions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
