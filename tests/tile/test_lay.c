// The layout algebra: examples of Graphene with their shapes and strides, symbols, refusals, text, and a sample of the
// laws that test_lay_all.c checks at length.
#include "laws.h"
#include "tile/lay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct {
  const char *name;
  int64_t multiple;
} symbols[] = {{"M", 1}, {"N", 128}, {"K", 32}};
enum { SYMBOLS = COUNT(symbols) };

struct world {
  struct arena mem;
  struct lay_ctx c;
  ex symbol[SYMBOLS];
};

static void world_open(struct world *w)
{
  *w = (struct world){0};
  w->c.mem = &w->mem, w->c.ex = ex_open(&w->mem);
  for (int i = 0; i < SYMBOLS; i++) w->symbol[i] = ex_var(w->c.ex, symbols[i].name, symbols[i].multiple, INT64_MAX, symbols[i].multiple);
}

static ex named(void *arg, const char *name)
{
  struct world *w = arg;
  for (int i = 0; i < SYMBOLS; i++)
    if (!strcmp(name, symbols[i].name)) return w->symbol[i];
  return EX_C(-1);
}

static struct lay layout(struct world *w, const char *text, bool row)
{
  struct lay l = {0};
  if (!lay_parse(&w->c, text, row, named, w, &l)) fail_msg("%s: %s", text, w->c.why);
  return l;
}

static const char *text(struct world *w, struct lay l)
{
  struct str s = {0};
  lay_text(&w->c, l, &s);
  const char *kept = arena_strdup(&w->mem, str_text(&s));
  str_free(&s);
  return kept;
}

// ---- Graphene's layouts, drawn ----

static const struct {
  const char *layout, *table;
} tables[] = {
    {"[4,8:1,4]", " 0  4  8 12 16 20 24 28\n 1  5  9 13 17 21 25 29\n 2  6 10 14 18 22 26 30\n 3  7 11 15 19 23 27 31\n"},
    {"[4,8:8,1]", " 0  1  2  3  4  5  6  7\n 8  9 10 11 12 13 14 15\n16 17 18 19 20 21 22 23\n24 25 26 27 28 29 30 31\n"},
    {"[4,(2,4):2,(1,8)]", " 0  1  8  9 16 17 24 25\n 2  3 10 11 18 19 26 27\n 4  5 12 13 20 21 28 29\n 6  7 14 15 22 23 30 31\n"},
    {"[(2,2),(2,4):(1,4),(2,8)]", " 0  2  8 10 16 18 24 26\n 1  3  9 11 17 19 25 27\n 4  6 12 14 20 22 28 30\n 5  7 13 15 21 23 29 31\n"},
    {"3:2", "0 2 4\n"},
    {"(2,2,2)", "[_, _, 0]\n0 2\n1 3\n\n[_, _, 1]\n4 6\n5 7\n"},
    {"()", "0\n"},
};

static void layouts_are_drawn(void **state)
{
  (void)state;
  struct world w;
  world_open(&w);
  for (size_t i = 0; i < COUNT(tables); i++) {
    struct str out = {0};
    assert_true(lay_table(&w.c, layout(&w, tables[i].layout, false), (struct swizzle){0}, &out));
    assert_string_equal(str_text(&out), tables[i].table);
    str_free(&out);
  }
  arena_close(&w.mem);
}

static void swizzles_are_involutions(void **state)
{
  (void)state;
  static const struct swizzle s[] = {{3, 4, 3}, {2, 4, 3}, {1, 4, 3}, {3, 0, 3}, {2, 3, -2}, {0, 0, 0}};
  for (size_t i = 0; i < COUNT(s); i++)
    for (uint64_t x = 0; x < 4096; x++) {
      assert_true(swizzle_apply(s[i], swizzle_apply(s[i], x)) == x);
      assert_true(s[i].bits || swizzle_apply(s[i], x) == x);
    }
  assert_int_equal(swizzle_apply((struct swizzle){3, 4, 3}, 0x3ff), 0x38f);
}

// ---- operations on numbers and symbols ----

typedef bool operation(struct lay_ctx *c, struct lay a, struct lay b, struct lay *out);

static bool complement(struct lay_ctx *c, struct lay a, struct lay b, struct lay *out) { return lay_complement(c, a, lay_size(c, b), out); }
static bool coalesce(struct lay_ctx *c, struct lay a, struct lay b, struct lay *out) { return (void)b, lay_coalesce(c, a, out); }
static bool right(struct lay_ctx *c, struct lay a, struct lay b, struct lay *out) { return (void)b, lay_right_inverse(c, a, out); }
static bool left(struct lay_ctx *c, struct lay a, struct lay b, struct lay *out) { return (void)b, lay_left_inverse(c, a, out); }

static const struct {
  const char *name;
  operation *run;
  const char *a, *b, *result, *refused; // of b only the size matters to complement
} operations[] = {
    {"compose", lay_compose, "(4,2):(1,100)", "(2,2):(3,2)", NULL, "2:3 and 2:2"},
    {"compose", lay_compose, "(4,2):(1,100)", "(2,4):(4,1)", "(2,4):(100,1)", NULL},
    {"compose", lay_compose, "(6,2):(8,2)", "(4,3):(3,1)", "((2,2),3):((24,2),8)", NULL},
    {"compose", lay_compose, "20:2", "(5,4):(4,1)", "(5,4):(8,2)", NULL},
    {"compose", lay_compose, "(10,2):(16,4)", "(5,4):(1,5)", "(5,(2,2)):(16,(80,4))", NULL},
    {"compose", lay_compose, "(4,6):(1,10)", "6:1", NULL, "extent 6"},
    {"compose", lay_compose, "(4,6):(1,10)", "2:3", "2:3", NULL},
    {"compose", lay_compose, "(4,6):(1,10)", "4:3", NULL, "stride 3"},
    {"coalesce", coalesce, "(2,(1,6)):(1,(6,2))", "1", "12:1", NULL},
    {"coalesce", coalesce, "(M,N,K):(1,M,M*N)", "1", "M * N * K:1", NULL},
    {"coalesce", coalesce, "(M,N,K):(1,2*M,M*N)", "1", "(M,N,K):(1,M * 2,M * N)", NULL},
    {"complement", complement, "4:1", "24", "6:4", NULL},
    {"complement", complement, "6:4", "24", "4:1", NULL},
    {"complement", complement, "(2,2):(1,6)", "24", "(3,2):(2,12)", NULL},
    {"complement", complement, "(4,M):(1,4)", "4*M*N", "N:M * 4", NULL},
    {"complement", complement, "(2,2):(1,3)", "24", NULL, "stride 3 is not a multiple of 2"},
    {"complement", complement, "(2,2):(N,M)", "24", NULL, "strides N and M"},
    {"right", right, "(M,K):(K,1)", "1", "(K,M):(M,1)", NULL},
    {"right", right, "(3,7,5):(5,15,1)", "1", "(5,21):(21,1)", NULL},
    {"left", left, "(M,K):(K,1)", "1", "(K,M):(M,1)", NULL},
    {"left", left, "(4,2):(2,16)", "1", "(2,4,2,2):(8,1,16,4)", NULL},
    {"left", left, "4:0", "1", NULL, "stride 0"},
    {"divide", lay_divide, "N:1", "128:1", "(128,N / 128):(1,128)", NULL},
    {"divide", lay_divide, "M:3", "128:1", "(128,(M + 127) / 128):(3,384)", NULL},
    {"divide", lay_divide, "(4,2,3):(2,1,8)", "4:2", "((2,2),(2,3)):((4,1),(2,8))", NULL},
    {"zipped", lay_zipped_divide, "(9,(4,8)):(59,(13,1))", "(3,(2,4)):(3,(1,8))", "((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))", NULL},
    {"product", lay_product, "(2,2):(4,1)", "6:1", "((2,2),(2,3)):((4,1),(2,8))", NULL},
    {"product", lay_product, "(M,4):(4,1)", "K:1", "((M,4),K):((4,1),M * 4)", NULL},
    {"compose", lay_compose, "(N,K):(1,2*N)", "(128,N/128):(1,128)", "(128,N / 128):(1,128)", NULL},
    {"compose", lay_compose, "(N,K):(1,2*N)", "(N,32):(1,N)", "(N,32):(1,N * 2)", NULL},
    {"compose", lay_compose, "(M,K):(1,2*M)", "128:1", NULL, "128 neither fits into M"},
    {"compose", lay_compose, "(M,K):(1,2*M)", "K:M", "K:M * 2", NULL},
    {"compose", lay_compose, "(M,K):(1,2*M)", "K:N", NULL, "stride N the extent M"},
    {"reshape", lay_reshape, "4:8", "(2,2):(2,1)", "(2,2):(16,8)", NULL},
    {"reshape", lay_reshape, "M:1", "(M,2)", NULL, "reshaped"},
    {"reshape", lay_reshape, "N:1", "(N/2,2)", "(N / 2,2):(1,N / 2)", NULL},
};

static void operations_are_exact(void **state)
{
  (void)state;
  int bad = 0;
  for (size_t i = 0; i < COUNT(operations); i++) {
    struct world w;
    world_open(&w);
    struct lay out;
    bool done = operations[i].run(&w.c, layout(&w, operations[i].a, false), layout(&w, operations[i].b, false), &out);
    const char *want = operations[i].result, *got = done ? text(&w, out) : w.c.why;
    if (done != !!want || (want ? strcmp(got, want) != 0 : !strstr(got, operations[i].refused)))
      bad++, print_error("%s %s %s: %s, not %s\n", operations[i].name, operations[i].a, operations[i].b, got, want ? want : operations[i].refused);
    if (done) assert_true(lay_equal(layout(&w, got, false), out));
    arena_close(&w.mem);
  }
  assert_int_equal(bad, 0);
}

// Results for symbols hold for numbers in their place.
static struct lay at_values(struct world *w, struct lay l, const int64_t *v)
{
  struct lay_node *node = arena_copy(&w->mem, l.node, (size_t)l.n * sizeof *node);
  for (int i = 0; i < l.n; i++)
    node[i].shape = EX_C(ex_eval(w->c.ex, l.node[i].shape, v)), node[i].stride = EX_C(ex_eval(w->c.ex, l.node[i].stride, v));
  return (struct lay){l.n, node};
}

static void symbols_stand_for_numbers(void **state)
{
  (void)state;
  static const int64_t points[][SYMBOLS] = {{1, 128, 32}, {7, 128, 32}, {384, 256, 64}, {100, 384, 32}};
  int composed = 0;
  for (size_t i = 0; i < COUNT(operations); i++) {
    struct world w;
    world_open(&w);
    struct lay a = layout(&w, operations[i].a, false), b = layout(&w, operations[i].b, false), out;
    bool compose = operations[i].run == lay_compose || operations[i].run == lay_reshape;
    if (compose && operations[i].run(&w.c, a, b, &out)) {
      for (size_t p = 0; p < COUNT(points); p++) {
        struct lay na = at_values(&w, a, points[p]), nb = at_values(&w, b, points[p]), nr = at_values(&w, out, points[p]);
        for (int64_t x = 0; x < ex_value(lay_size(&w.c, nb)); x++) assert_int_equal(lay_call(&nr, x), lay_call(&na, lay_call(&nb, x)));
      }
      composed++;
    }
    arena_close(&w.mem);
  }
  assert_true(composed > 8);
}

// ---- tiles ----

static const struct {
  const char *tensor, *tiler, *outer, *inner, *partial;
} tilings[] = {
    {"4,8:1,4", "2,4:1,1", "(2,2):(2,16)", "(2,4):(1,4)", "nn"},
    {"4,8:1,4", "2,4:2,1", "(2,2):(1,16)", "(2,4):(2,4)", "nn"},
    {"4,8:1,4", "2,(2,2):2,(1,4)", "(2,2):(1,8)", "(2,(2,2)):(2,(4,16))", "nn"},
    {"32:1", "8:1", "4:8", "8:1", "n"},
    {"32:1", "4,2:1,16", "4:4", "((4,2)):((1,16))", "n"},
    {"1024,1024:1,1024", "128,_:1,0", "(8,1):(128,0)", "(128,1024):(1,1024)", "nn"},
    {"1024,1024:1024,1", "_,128", "(1,8):(0,128)", "(1024,128):(1024,1)", "nn"},
    {"16,16:16,1", "8,8:1,1", "(2,2):(128,8)", "(8,8):(16,1)", "nn"},
    {"100,8:1,100", "32,4:1,1", "(4,2):(32,400)", "(32,4):(1,100)", "yn"},
    {"M,K:1,M", "128,_:1,0", "((M + 127) / 128,1):(128,0)", "(128,K):(1,M)", "yn"},
    {"N,K:1,N", "128,_:1,0", "(N / 128,1):(128,0)", "(128,K):(1,N)", "nn"},
    {"M,K:K,1", "128,32:1,1", "((M + 127) / 128,K / 32):(K * 128,32)", "(128,32):(K,1)", "yn"},
    {"M,K:K,1", "128,64:1,1", "((M + 127) / 128,(K + 32) / 64):(K * 128,64)", "(128,64):(K,1)", "yy"},
    {"8,8", "2", NULL, NULL, "1 dimensions"},
    {"8:1", "(2,2):(1,3)", NULL, NULL, "stride 3"},
};

static void tilings_are_graphenes(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(tilings); i++) {
    struct world w;
    world_open(&w);
    struct lay outer, inner;
    bool partial[LAY_LEAVES] = {0};
    bool done = lay_tile(&w.c, layout(&w, tilings[i].tensor, false), layout(&w, tilings[i].tiler, false), &outer, &inner, partial);
    assert_int_equal(done, tilings[i].outer != NULL);
    if (done) {
      assert_string_equal(text(&w, outer), tilings[i].outer);
      assert_string_equal(text(&w, inner), tilings[i].inner);
      for (int d = 0; tilings[i].partial[d]; d++) assert_int_equal(partial[d], tilings[i].partial[d] == 'y');
    } else {
      assert_non_null(strstr(w.c.why, tilings[i].partial));
    }
    arena_close(&w.mem);
  }
}

// Groups of a warp, reshaped: threadIdx.x / 16 % 2, threadIdx.x / 8 % 2, threadIdx.x % 8 of Graphene, section 4.
static void thread_groups(void **state)
{
  (void)state;
  struct world w;
  world_open(&w);
  struct lay groups, group, squares, thread = layout(&w, "(2,2,8):(16,8,1)", false);
  bool partial;
  assert_true(lay_tile(&w.c, layout(&w, "32:1", true), layout(&w, "8:1", true), &groups, &group, &partial));
  assert_true(lay_reshape(&w.c, groups, layout(&w, "2,2", true), &squares));
  assert_string_equal(text(&w, squares), "(2,2):(16,8)");
  struct lay both = lay_tuple(&w.c, 2, (struct lay[]){squares, group}), inverse;
  assert_true(lay_right_inverse(&w.c, thread, &inverse));
  for (int64_t t = 0; t < 32; t++) {
    int64_t m = t / 16 % 2, n = t / 8 % 2, i = t % 8;
    assert_int_equal(lay_call(&both, m + 2 * n + 4 * i), t);
    assert_int_equal(lay_call(&inverse, t), m + 2 * n + 4 * i);
  }
  ex tid = ex_var(w.c.ex, "tid", 0, 31, 1);
  struct str s = {0};
  ex_text(w.c.ex, lay_at(&w.c, inverse, tid), &s);
  assert_string_equal(str_text(&s), "tid % 8 * 4 + tid / 8 % 2 * 2 + tid / 16");
  str_free(&s);
  arena_close(&w.mem);
}

// ---- values and text ----

static void coordinates(void **state)
{
  (void)state;
  struct world w;
  world_open(&w);
  struct lay l = layout(&w, "(4,(2,4)):(2,(1,8))", false), m = layout(&w, "(M,K):(K,1)", false);
  ex i = ex_var(w.c.ex, "i", 0, 3, 1), j = ex_var(w.c.ex, "j", 0, 7, 1);
  struct str s = {0};
  ex_text(w.c.ex, lay_at_coords(&w.c, l, 2, (ex[]){i, j}), &s);
  assert_string_equal(str_text(&s), "i * 2 + j % 2 + j / 2 * 8");
  assert_true(lay_at_coords(&w.c, l, 2, (ex[]){EX_C(0), EX_C(3)}) == EX_C(9));
  assert_true(lay_at(&w.c, l, EX_C(12)) == EX_C(9));
  assert_true(lay_at_coords(&w.c, m, 2, (ex[]){i, j}) == ex_add(w.c.ex, ex_mul(w.c.ex, i, w.symbol[2]), j));
  assert_true(lay_size(&w.c, m) == ex_mul(w.c.ex, w.symbol[0], w.symbol[2]));
  assert_true(lay_cosize(&w.c, m) == lay_size(&w.c, m));
  assert_true(lay_cosize(&w.c, l) == EX_C(32));
  str_free(&s);
  arena_close(&w.mem);
}

static const struct {
  const char *written, *text; // or the reason
  bool row, read;
} readings[] = {
    {"4,(2,4):2,(1,8)", "(4,(2,4)):(2,(1,8))", false, true},
    {" ( 4 , ( 2,4 ) ) : (2,(1,8)) ", "(4,(2,4)):(2,(1,8))", false, true},
    {"[4,8]", "(4,8):(1,4)", false, true},
    {"[4,8]", "(4,8):(8,1)", true, true},
    {"(4,(2,4))", "(4,(2,4)):(8,(4,1))", true, true},
    {"8", "8:1", false, true},
    {"(8)", "(8):(1)", false, true},
    {"()", "():()", false, true},
    {"[]", "():()", false, true},
    {"((M + 127) / 128,K*2):((1+1)*K,1)", "((M + 127) / 128,K * 2):(K * 2,1)", false, true},
    {"(128,_)", "(128,_):(1,128)", false, true},
    {"", "ends too early", false, false},
    {"4,", "ends too early", false, false},
    {"(4,8", "')' or ','", false, false},
    {"(4,8):(1)", "same form", false, false},
    {"(4,8):1,2,3", "same form", false, false},
    {"4:1:1", "ends here", false, false},
    {"[4:1", "']'", false, false},
    {"0:1", "positive", false, false},
    {"4:_", "not a stride", false, false},
    {"4x", "letter", false, false},
    {"Q:1", "not known", false, false},
    {"4 - 4", "positive", false, false},
    {"M - 5", "positive", false, false},
    {"4:0 - 1", "negative", false, false},
    {"99999999999999999999", "2^40", false, false},
    {"(1099511627775,1099511627775)", "62 bits", false, false},
    {"4 / (M - 1)", "divisor", false, false},
    {"(4,2) + 1", "no number", false, false},
    {"((((((((((1))))))))))", "deep", false, false},
};

static void text_is_read(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(readings); i++) {
    struct world w;
    world_open(&w);
    struct lay l;
    bool read = lay_parse(&w.c, readings[i].written, readings[i].row, named, &w, &l);
    if (read != readings[i].read) fail_msg("%s: %s", readings[i].written, read ? text(&w, l) : w.c.why);
    if (read)
      assert_string_equal(text(&w, l), readings[i].text);
    else if (!strstr(w.c.why, readings[i].text))
      fail_msg("%s: %s", readings[i].written, w.c.why);
    arena_close(&w.mem);
  }
}

static void noise_is_refused(void **state)
{
  (void)state;
  static const char some[] = "0123456789()[],:_MNKQ+-*/% ";
  struct rng r = {7};
  for (int i = 0; i < 20000; i++) {
    char noise[40];
    size_t n = rng_below(&r, sizeof noise - 1);
    for (size_t k = 0; k < n; k++) noise[k] = some[rng_below(&r, sizeof some - 1)];
    noise[n] = 0;
    struct world w;
    world_open(&w);
    struct lay l, again, out;
    if (lay_parse(&w.c, noise, i % 2, named, &w, &l)) {
      assert_true(lay_parse(&w.c, text(&w, l), false, named, &w, &again) && lay_equal(l, again));
      lay_compose(&w.c, l, l, &out);
      lay_left_inverse(&w.c, l, &out);
      lay_product(&w.c, l, l, &out);
    } else {
      assert_true(*w.c.why);
    }
    arena_close(&w.mem);
  }
}

static void a_sample_of_the_laws(void **state)
{
  (void)state;
  bool slow = getenv("MICA_SANITIZED");
  struct tally t = {0};
  laws_of_pairs(slow ? 11 : 5, slow ? 997 : 47, &t);
  laws_of_random(slow ? 1000 : 20000, &t);
  for (int law = 0; law < LAWS; law++) assert_true(t.held[law] > 100);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(layouts_are_drawn),     cmocka_unit_test(swizzles_are_involutions),
      cmocka_unit_test(operations_are_exact),  cmocka_unit_test(symbols_stand_for_numbers),
      cmocka_unit_test(tilings_are_graphenes), cmocka_unit_test(thread_groups),
      cmocka_unit_test(coordinates),           cmocka_unit_test(text_is_read),
      cmocka_unit_test(noise_is_refused),      cmocka_unit_test(a_sample_of_the_laws),
  };
  return cmocka_run_group_tests_name("layouts", tests, NULL, NULL);
}
