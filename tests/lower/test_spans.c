// Masks that are added to scores: a kernel before attention says what their rows show, and attention leaves out the rest, whatever the mask is.
// test: timeout 300
// test: quick release
#include "../thin.h"
#include "given.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// There are 128 rows in blocks of 64, or 100 single ones; four heads share keys. The mask is made of row numbers i, key numbers j and random numbers x.
// Conditions are 1 where they show a key.
static const char *const attention =
    "Q: f16[2, 4, %d, 64]\n K: f16[2, 1, %d, 64]\n V: f16[2, 1, %d, 64]\n X: f16[%d, %d]\n n = iota([%d])\n r = iota([%d, 1])\n"
    "C = block(x=%d) {\n i = iter(r, imap={x:0})\n j = iter(n)\n x = iter(X, imap={x:0})\n save(%s, omap={x:0})\n }\n"
    "O = block(x=2, y=%d; i=%d) {\n q = iter(Q, imap={x:0, y:2})\n k = iter(K, imap={x:0}, fmap={i:2})\n v = iter(V, imap={x:0}, fmap={i:2})\n"
    " m = iter(C, imap={y:0}, fmap={i:1})\n lowest = const(%g)\n shown = lowest <= m\n least = const(-3e38)\n"
    " s = %s\n"
    " most, moved = accum_max(maximum(max(s, dim=3), least))\n e = exp(s - most)\n f = exp(moved)\n"
    " save(accum_rescale(matmul(%s, v), f) / accum_sum_rescale(e, f, dim=3), omap={x:0, y:2})\n }\n return O";

static const struct {
  const char *name, *added, *shown;
} masks[] = {{"causal", "x * 0", "j <= i"},
             {"a window", "x * 0", "(j <= i) * (i <= j + 37)"},
             {"begins late", "x * 0", "i <= j"},
             {"rows that show nothing", "x * 0", "j <= i - 70"},
             {"nothing at all", "x * 0", "j + 1 <= i * 0"},
             {"a bias", "x", "j <= i"},
             {"a bias alone", "x", "i * 0 <= j"},
             {"a bias of some rows", "x * relu(i - 63) * 0.01", "j <= i"},
             {"holes", "x * 0", "(j <= i) * (x <= i * 0)"},
             {"holes and a bias", "x", "x <= (j - i) * 0"}};

static const struct {
  int rows, blocks, iterations;
} sizes[] = {{128, 2, 2}, {100, 100, 100}};

// weighs: exponentials are multiplied by the condition, so that a row that shows nothing is 0. Otherwise it is the mean of all values.
static const char *text_of(struct arena *mem, int mask, int size, bool adds, bool weighs)
{
  const int n = sizes[size].rows;
  const char *dims = arena_printf(mem, "[1, 1, %d, %d]", n / sizes[size].blocks, n / sizes[size].iterations);
  const char *added = "keep(clamp(m, lo=-15000, hi=inf), shown, scalar=-45000)";
  if (weighs) added = arena_printf(mem, "reshape(%s, %s)", added, dims);
  const char *s =
      adds ? arena_printf(mem, "matmul(q, transpose(k)) * 0.125 + %s", added) : "keep(matmul(q, transpose(k)) * 0.125, shown, scalar=-30000)";
  const char *c = adds ? arena_printf(mem, "keep(%s, %s, scalar=-60000)", masks[mask].added, masks[mask].shown)
                       : arena_printf(mem, "mask(x * 0 + 1, %s)", masks[mask].shown);
  return arena_printf(mem, attention, n, n, n, n, n, n, n, n, c, sizes[size].blocks, sizes[size].iterations, adds ? -50000 : 0.5, s,
                      !weighs ? "e"
                      : adds  ? arena_printf(mem, "e * reshape(shown, %s)", dims)
                              : "e * shown");
}

static struct graph *wrapped(struct arena *mem, const char *text)
{
  struct graph *g;
  struct err e = {0};
  must(wrap_library(mem, read(mem, text), &g, &e), text, &e);
  return g;
}

// Choices of the last kernel; how many leave iterations out, and in *walk how many of them have blocks that walk. The target has few multiprocessors,
// so that there are such choices.
static int run_all(struct arena *mem, const char *name, const struct graph *g, int *walk)
{
  struct target gpu = h200();
  gpu.cores = 3;
  struct lower_plan p;
  struct err e = {0};
  int leave = 0;
  must(lower_plan_of(mem, g, store_types(mem, g, NULL), &gpu, &(struct lower_opts){.dependent = true}, &p, &e), name, &e);
  struct choice *pick = NEWS(mem, struct choice, p.nunits + 1);
  for (int u = 0; u < p.nunits; u++) pick[u] = p.unit[u].choice[0];
  const struct lower_unit *last = &p.unit[p.nunits - 1];
  for (int c = 0; c < last->nchoices; c += 7 * quick_step(8)) {
    struct device_program d;
    pick[p.nunits - 1] = last->choice[c];
    must(lower_make(mem, &p, pick, &d, &e), name, &e);
    run_launches(mem, name, &d, 0);
    const char *text = d.launch[d.nlaunch - 1].text;
    leave += strstr(text, "@count") != NULL, *walk += strstr(text, "@count") && strstr(text, "round < ");
  }
  return leave;
}

static void any_mask(void **state)
{
  (void)state;
  int walk = 0;
  for (int s = 0; s < (int)COUNT(sizes) * 4; s++)
    for (int i = s % 4; i < (int)COUNT(masks); i += 4 * thinned(3)) {
      struct arena mem = {0};
      struct graph *g;
      struct err e = {0};
      must(legal_spans(&mem, wrapped(&mem, text_of(&mem, i, s / 4, s / 2 % 2, s % 2 == 0)), &g, &e), masks[i].name, &e);
      assert_true(run_all(&mem, masks[i].name, g, &walk) > 0);
      arena_close(&mem);
    }
  assert_true(walk > 0);
}

#define SCORES                                                                                                                        \
  "Q: f16[2, 64, 64]\n K: f16[2, 128, 64]\n V: f16[2, 128, 64]\n M: f16[%s, 128]\n O = block(x=2; i=2) {\n q = iter(Q, imap={x:0})\n" \
  " k = iter(K, imap={x:0}, fmap={i:1})\n v = iter(V, imap={x:0}, fmap={i:1})\n m = iter(M, fmap={i:1})\n lowest = const(-50000)\n"   \
  " shown = lowest <= m\n e = exp(matmul(q, transpose(k)) + %s)\n"

// Rows that are all alike say little, and the condition may do nothing but weigh exponentials that are 0 where it hides.
static void others(void **state)
{
  (void)state;
  static const struct {
    const char *rows, *added, *saved;
    bool taken;
  } cases[] = {{"64", "%s", "accum(matmul(e * shown, v)) / accum_sum(e, dim=2)", true},
               {"64", "reshape(%s, [1, 64, 64])", "accum(matmul(e * shown, v)) / accum_sum(e, dim=2)", true},
               {"64", "reshape(reshape(%s, [32, 128]), [1, 64, 64])", "accum(matmul(e * shown, v)) / accum_sum(e, dim=2)", false},
               {"64", "reshape(%s, [1, 64, 64])", "accum(matmul(reshape(shown, [1, 64, 64]) * e, v)) / accum_sum(e, dim=2)", true},
               {"64", "%s", "accum(matmul(reshape(shown, [64, 64]) * e, v)) / accum_sum(e + reshape(shown, [1, 64, 64]), dim=2)", false},
               {"64", "%s", "accum(matmul(e, v)) / accum_sum(e, dim=2)", true},
               {"1", "%s", "accum(matmul(e * shown, v)) / accum_sum(e, dim=2)", false},
               {"64", "%s", "accum(matmul(e, v)) / accum_sum(e + shown, dim=2)", false},
               {"64", "%s", "accum(matmul(exp(matmul(q, transpose(k))) * shown, v)) / accum_sum(e, dim=2)", false}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct arena mem = {0};
    struct graph *g;
    struct err e = {0};
    const char *added = arena_printf(&mem, cases[i].added, "keep(m, shown, scalar=-45000)"), *head = arena_printf(&mem, SCORES, cases[i].rows, added),
               *text = arena_printf(&mem, "%s save(%s, omap={x:0})\n }\n return O", head, cases[i].saved);
    assert_int_equal(legal_spans(&mem, wrapped(&mem, text), &g, &e), cases[i].taken ? OK : NO);
    arena_close(&mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(any_mask), cmocka_unit_test(others)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
