// An atom accesses every element once. The elements by its loops, vectors and strides are compared with the definition of the spec, for every
// coordinate of random layouts. Fragments are compared with their rows. The order of ldmatrix's matrices is tested.
#include "lowered.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST = 4096 };
struct touch { // of an element of the output, or one term of it
  int64_t at[3];
};
struct touches {
  int n;
  struct touch t[MOST];
};

static int order(const void *a, const void *b) { return memcmp(a, b, sizeof(struct touch)); }

// All pieces of the atom, each element of their vectors.
static void touched(const struct tile_atom *a, struct touches *out)
{
  int64_t rounds = 1;
  out->n = 0;
  for (int m = 0; m < a->nmodes; m++) rounds *= a->extent[m];
  for (int64_t r = 0; r < rounds; r++)
    for (int lane = 0; lane < a->width; lane++) {
      struct touch t = {{0}};
      for (int o = 0; o < a->nout + a->nin; o++) {
        assert_true(ex_is_const(a->operand[o].offset));
        t.at[o] = ex_value(a->operand[o].offset) + (a->width > 1 ? lane : 0);
        int64_t rest = r;
        for (int m = 0; m < a->nmodes; rest /= a->extent[m++]) t.at[o] += rest % a->extent[m] * ex_value(a->operand[o].stride[m]);
      }
      assert_true(out->n < MOST);
      out->t[out->n++] = t;
    }
}

static void same_touches(const char *body, struct touches *is, struct touches *wanted)
{
  if (is->n != wanted->n) fail_msg("%s: %d elements, not %d", body, is->n, wanted->n);
  qsort(is->t, (size_t)is->n, sizeof is->t[0], order), qsort(wanted->t, (size_t)wanted->n, sizeof is->t[0], order);
  if (memcmp(is->t, wanted->t, (size_t)is->n * sizeof is->t[0])) fail_msg("%s: other elements", body);
}

// A mode with `extent` values drawn as one number or as a tuple; strides keep what was given out apart.
static int64_t draw_mode(struct rng *r, struct str *shape, struct str *stride, int64_t extent, int64_t *next)
{
  if (extent > 2 && extent % 2 == 0 && rng_below(r, 3) == 0) {
    int64_t pad = 1 + (int64_t)rng_below(r, 2), first = *next, second = *next * (extent / 2) * pad;
    if (rng_below(r, 2)) first = *next * 2, second = *next;
    str_add(shape, "(%d,2)", (int)extent / 2), str_add(stride, "(%d,%d)", (int)first, (int)second);
    return *next = *next * extent * pad;
  }
  str_add(shape, "%d", (int)extent), str_add(stride, "%d", (int)*next);
  *next *= extent;
  if (rng_below(r, 4) == 0) *next *= 2;
  return *next;
}

static void draw_tensor(struct rng *r, const char *name, const char *type, const int *extent, int rank, struct str *out)
{
  int64_t next = 1, ends[2] = {0};
  struct str shape[2] = {{0}}, stride[2] = {{0}};
  int first = (int)rng_below(r, 2);
  for (int i = 0; i < rank; i++) {
    int d = rank == 2 ? (i + first) % 2 : i;
    ends[d] = draw_mode(r, &shape[d], &stride[d], extent[d], &next);
  }
  str_add(out, "%s:[%s%s%s : %s%s%s].%s.RF ", name, str_text(&shape[0]), rank == 2 ? "," : "", rank == 2 ? str_text(&shape[1]) : "",
          str_text(&stride[0]), rank == 2 ? "," : "", rank == 2 ? str_text(&stride[1]) : "", type);
  for (int i = 0; i < 2; i++) str_free(&shape[i]), str_free(&stride[i]);
  (void)ends;
}

static int64_t element(const struct lowered *l, int operand, const struct tile_atom *a, const int64_t *c, int n)
{
  const struct tile_view *v = &l->k->views[a->operand[operand].view];
  int64_t at = ex_value(v->offset);
  for (int d = 0; d < n; d++) {
    struct lay mode = lay_mode(v->level[0], d);
    if (lay_size(&l->p->lay, mode) != EX_C(1)) at += lay_call(&mode, c[d]);
  }
  return at;
}

static void moves_touch_every_element_once(void **state)
{
  (void)state;
  struct rng r = {7};
  int vectors = 0;
  for (int i = 0; i < 600; i++) {
    struct str s = {0};
    int extent[] = {1 + (int)rng_below(&r, 8), 1 + (int)rng_below(&r, 8)};
    draw_tensor(&r, "%x", "fp16", extent, 2, &s), draw_tensor(&r, "%y", "fp16", extent, 2, &s);
    str_add(&s, "%%y <- Move" ME "(%%x)");
    struct lowered l;
    if (lowered_open(&l, "[1].i32.GL", "[1].i32.GL", str_text(&s), 80)) fail_msg("%s: %s", str_text(&s), l.e.text);
    const struct tile_atom *a = lowered_atom(&l, -1);
    struct touches is, wanted = {0};
    touched(a, &is);
    for (int64_t c[2] = {0}; c[0] < extent[0]; c[0]++)
      for (c[1] = 0; c[1] < extent[1]; c[1]++) wanted.t[wanted.n++] = (struct touch){{element(&l, 0, a, c, 2), element(&l, 1, a, c, 2)}};
    same_touches(str_text(&s), &is, &wanted);
    vectors += a->width > 1;
    str_free(&s), arena_close(&l.mem);
  }
  assert_true(vectors > 100);
}

static void broadcasts_and_reductions(void **state)
{
  (void)state;
  struct rng r = {8};
  for (int i = 0; i < 400; i++) {
    struct str s = {0};
    bool reduce = i % 2;
    int full[] = {2 + (int)rng_below(&r, 7), 2 + (int)rng_below(&r, 7)}, part[] = {rng_below(&r, 2) ? full[0] : 1, full[1]};
    if (rng_below(&r, 3) == 0) part[1] = 1;
    draw_tensor(&r, "%x", "fp32", full, 2, &s), draw_tensor(&r, "%y", "fp32", part, 2, &s);
    str_add(&s, reduce ? "%%y <- Reduction<+>" ME "(%%x)" : "%%x <- BinaryPointwise<+>" ME "(%%x, %%y)");
    struct lowered l;
    if (lowered_open(&l, "[1].i32.GL", "[1].i32.GL", str_text(&s), 80)) fail_msg("%s: %s", str_text(&s), l.e.text);
    const struct tile_atom *a = lowered_atom(&l, -1);
    struct touches is, wanted = {0};
    touched(a, &is);
    for (int64_t c[2] = {0}; c[0] < full[0]; c[0]++)
      for (c[1] = 0; c[1] < full[1]; c[1]++) {
        struct touch t = {{0}};
        for (int o = 0; o < a->nout + a->nin; o++) t.at[o] = element(&l, o, a, c, 2);
        wanted.t[wanted.n++] = t;
      }
    same_touches(str_text(&s), &is, &wanted);
    for (int m = 0; m < a->nmodes; m++) assert_int_equal(reduce && a->operand[0].stride[m] == EX_C(0), m < a->nreduce);
    str_free(&s), arena_close(&l.mem);
  }
}

static void products_touch_every_term_once(void **state)
{
  (void)state;
  struct rng r = {9};
  for (int i = 0; i < 300; i++) {
    struct str s = {0};
    int m = 1 + (int)rng_below(&r, 6), n = 1 + (int)rng_below(&r, 6), k = 1 + (int)rng_below(&r, 6);
    draw_tensor(&r, "%a", "fp32", (int[]){m, k}, 2, &s), draw_tensor(&r, "%bb", "fp32", (int[]){k, n}, 2, &s);
    draw_tensor(&r, "%c", "fp32", (int[]){m, n}, 2, &s);
    str_add(&s, "%%c <- MatMul" ME "(%%a, %%bb)");
    struct lowered l;
    if (lowered_open(&l, "[1].i32.GL", "[1].i32.GL", str_text(&s), 80)) fail_msg("%s: %s", str_text(&s), l.e.text);
    const struct tile_atom *a = lowered_atom(&l, -1);
    struct touches is, wanted = {0};
    touched(a, &is);
    for (int64_t x = 0; x < m; x++)
      for (int64_t y = 0; y < n; y++)
        for (int64_t z = 0; z < k; z++)
          wanted.t[wanted.n++] = (struct touch){
              {element(&l, 0, a, (int64_t[]){x, y}, 2), element(&l, 1, a, (int64_t[]){x, z}, 2), element(&l, 2, a, (int64_t[]){z, y}, 2)}};
    same_touches(str_text(&s), &is, &wanted);
    str_free(&s), arena_close(&l.mem);
  }
}

// A grid of fragments: A [2,3], B [3,2], C [2,2] of m16n8k16, twelve instructions.
static void products_of_fragments_are_repeated(void **state)
{
  (void)state;
  struct lowered l;
  assert_int_equal(lowered_open(&l, "[1].i32.GL", "[1].i32.GL",
                                "%a:[2,3].[2,2].[1,2].fp16.RF %bb:[3,2].[2,1].[2,1].fp16.RF %c:[2,2].[2,1].[1,2].fp32.RF "
                                "%c <- MatMul" WARP "(%a, %bb)",
                                80),
                   OK);
  const struct tile_atom *a = lowered_atom(&l, -1);
  struct touches is, wanted = {0};
  touched(&(struct tile_atom){.nmodes = a->nmodes,
                              .nout = 1,
                              .nin = 2,
                              .width = 1,
                              .operand = {a->operand[0], a->operand[1], a->operand[2]},
                              .extent = {a->extent[0], a->extent[1], a->extent[2]}},
          &is);
  for (int m = 0; m < 2; m++)
    for (int n = 0; n < 2; n++)
      for (int k = 0; k < 3; k++) wanted.t[wanted.n++] = (struct touch){{4 * (2 * m + n), 8 * (3 * m + k), 4 * (2 * k + n)}};
  same_touches("mma", &is, &wanted);
  arena_close(&l.mem);
}

// Register element i of A is at m = i >> 1 & 1, k = (i & 1) + 2 * (i >> 2) of the thread's part, wherever that lies.
static void fragments_find_their_elements(void **state)
{
  (void)state;
  struct lowered l;
  assert_int_equal(lowered_open(&l, "[1].i32.GL", "[1].i32.GL",
                                "%a:[2,2:2,4].[1,2:1,1].fp16.RF %bb:[2,1].[2,1].fp16.RF %c:[2,1].[1,2].fp32.RF %c <- MatMul" WARP "(%a, %bb) "
                                "%v:[2,4].fp32.RF %x:[4,1].fp16.RF %y:[1,4].fp16.RF %v <- MatMul<<<#b, #pair>>>(%x, %y)",
                                80),
                   OK);
  const struct tile_operand *a = &lowered_atom(&l, 0)->operand[1], *c = &lowered_atom(&l, 1)->operand[0];
  for (int i = 0; i < 8; i++) {
    assert_int_equal(lay_call(&a->inner, i), (i & 1) + 2 * (i >> 1 & 1) + 4 * (i >> 2));
    assert_int_equal(lay_call(&c->inner, i),
                     4 * (i >> 1 & 1) + (i & 1) + 2 * (i >> 2)); // [m, n] in rows; n = (i & 1) + 2 (i >> 2)
  }
  arena_close(&l.mem);
}

// The matrix that follows down (row = lane % 16) or beside (Graphene's example) lands where it belongs.
static void matrices_are_counted_as_they_are_addressed(void **state)
{
  (void)state;
  static const struct {
    const char *fragment, *row, *name;
    int second; // offset of the second matrix's first element
  } cases[] = {
      {"[2,2].[1,2]", "@lane % 16, @lane / 16", "ldmatrix", 4},
      {"[2,2].[1,2]", "@lane / 16 * 8 + @lane % 8, @lane / 8 % 2", "ldmatrix", 2},
      {"[2,2].[2,1]", "@lane % 16, @lane / 16", "ldmatrix.trans", 4},
      {"[2,2].[2,1]", "@lane / 16 * 8 + @lane % 8, @lane / 8 % 2", "ldmatrix.trans", 2},
      {"[1,2].[2,1].[2,1]", "@lane % 16, @lane / 16", "ldmatrix.trans", 2},
      {"[2,1].[1,2].[2,1]", "@lane % 16, @lane / 16", "ldmatrix.trans", 4},
      {"[4,1].[1,2]", "@lane % 16, @lane / 16", "ldmatrix", 2},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct lowered l;
    char body[512];
    snprintf(body, sizeof body, "%%s:[16,16].fp16.SH %%r:%s.fp16.RF %%r <- Move<%s>" WARP "(%%s.tile([1,8])[%s])", cases[i].fragment, cases[i].name,
             cases[i].row);
    if (lowered_open(&l, "[1].i32.GL", "[1].i32.GL", body, 80)) fail_msg("%s: %s", body, l.e.text);
    int64_t at = lay_call(&lowered_atom(&l, -1)->operand[0].inner, 2);
    if (at != cases[i].second) fail_msg("%s: the second matrix is at %d", body, (int)at);
    arena_close(&l.mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(moves_touch_every_element_once), cmocka_unit_test(broadcasts_and_reductions),
      cmocka_unit_test(products_touch_every_term_once), cmocka_unit_test(products_of_fragments_are_repeated),
      cmocka_unit_test(fragments_find_their_elements),  cmocka_unit_test(matrices_are_counted_as_they_are_addressed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
