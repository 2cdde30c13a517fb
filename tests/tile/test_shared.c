// Decisions of lowering on a whole kernel: layout of shared memory, numbers of named barriers, tensor maps, predicates, and written buffers.
#include "lowered.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void open_or_fail(struct lowered *l, const char *g, const char *body, int arch)
{
  if (lowered_open(l, g, "[1].i32.GL", body, arch)) fail_msg("%s: %s", body, l->e.text);
}

static const struct tile_buffer *buffer(const struct lowered *l, const char *name)
{
  for (int i = 0; i < l->k->nbuffers; i++)
    if (!strcmp(l->k->buffers[i].name, name)) return &l->k->buffers[i];
  fail_msg("no buffer %s", name);
  return NULL;
}

static bool apart(const struct lowered *l, const char *x, const char *y)
{
  const struct tile_buffer *a = buffer(l, x), *b = buffer(l, y);
  return a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
}

#define SCOPE(text) "Spec<<<#b, #t>>>() { " text " }\n"

static void scopes_that_follow_one_another_share(void **state)
{
  (void)state;
  struct lowered l;
  open_or_fail(&l, "[1].i32.GL",
               "%p:[100].fp16.SH\n" SCOPE("%x:[300].fp32.SH\n")
                   SCOPE("%y:[200].fp32.SH %z:[3].fp16.SH\n") "for (i9 = 0; i9 < 2; i9 += 1) { %u:[10].fp32.SH }\n"
                                                              "%q:[5].fp16.SH",
               80);
  assert_int_equal(buffer(&l, "p")->bytes, 200);
  assert_int_equal(buffer(&l, "x")->offset, 208); // aligned to 16 bytes
  assert_int_equal(buffer(&l, "y")->offset, 208);
  assert_int_equal(buffer(&l, "u")->offset, 208);
  assert_int_equal(buffer(&l, "q")->offset, 208);
  assert_true(apart(&l, "y", "z") && apart(&l, "p", "x"));
  assert_int_equal(l.k->shared_bytes, 208 + 1200);
  arena_close(&l.mem);
}

// Warps may be under different conditions at the same time, and an mbarrier stays one.
static void conditions_and_mbarriers_do_not_share(void **state)
{
  (void)state;
  struct lowered l;
  open_or_fail(&l, "[1].i32.GL",
               "if (@wi == 0) { %x:[100].fp32.SH } else { %y:[100].fp32.SH }\n if (@wi == 1) { %z:[100].fp32.SH }\n" SCOPE(
                   "%m:[2].mbar.SH %u:[4].fp32.SH") SCOPE("%n:[3].mbar.SH %v:[4].fp32.SH"),
               80);
  static const char *const all[] = {"x", "y", "z", "m", "n", "u"};
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < i; j++) assert_true(apart(&l, all[i], all[j]));
  assert_int_equal(buffer(&l, "u")->offset, buffer(&l, "v")->offset);
  assert_int_equal(buffer(&l, "m")->offset % 8, 0);
  arena_close(&l.mem);
}

static void alignments(void **state)
{
  (void)state;
  static const struct {
    const char *swizzle;
    int64_t align;
  } cases[] = {{"", 128}, {".swizzle(1,3,3)", 256}, {".swizzle(2,3,3)", 512}, {".swizzle(3,3,3)", 1024}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct lowered l;
    char body[512];
    int columns = i ? 8 << i : 64;
    snprintf(body, sizeof body, "%%s0:[1].fp16.SH %%s:[128,%d].fp16.SH%s %%b1:[].mbar.SH %%s <- Move<tma>" ME "(%%g.tile([128,%d])[@bid, 0], %%b1)",
             columns, cases[i].swizzle, columns);
    open_or_fail(&l, "[M, N].fp16.GL", body, 90);
    assert_int_equal(buffer(&l, "s")->offset % cases[i].align, 0);
    assert_true(buffer(&l, "s")->offset <= 2 * cases[i].align); // no more than that
    assert_int_equal(l.k->nmaps, 1);
    assert_int_equal(l.k->maps[0].swizzle_bytes, i ? 16 << i : 0);
    arena_close(&l.mem);
  }
}

static void a_block_has_so_much_and_no_more(void **state)
{
  (void)state;
  for (int i = 0; i < target_gpus(); i++)
    for (int over = 0; over < 2; over++) {
      struct lowered l;
      char body[64];
      snprintf(body, sizeof body, "%%s:[%d].fp16.SH", (int)target_gpu_at(i)->scratch / 2 + over);
      assert_int_equal(lowered_open(&l, "[1].i32.GL", "[1].i32.GL", body, target_gpu_at(i)->arch), over ? USER : OK);
      assert_true(!over || strstr(l.e.text, "bytes of shared memory"));
      arena_close(&l.mem);
    }
  struct lowered l;
  assert_int_equal(lowered_open(&l, "[1].i32.GL", "[1].i32.GL", "", 75), USER);
  assert_non_null(strstr(l.e.text, "unknown target 75"));
  arena_close(&l.mem);
}

static int64_t barrier_of(const struct lowered *l, int atom, int64_t group) // with @gi = group
{
  const struct tile_atom *a = lowered_atom(l, atom);
  int64_t vars[64] = {0};
  for (int i = 0; i < l->k->nstmts; i++)
    for (int v = 0; l->k->stmts[i].kind == STMT_LET && v < l->k->stmts[i].nvars; v++)
      if (!ex_is_const(l->k->stmts[i].vars[v]) && !strcmp(ex_node(l->p->ex, l->k->stmts[i].vars[v])->name, "gi"))
        vars[ex_node(l->p->ex, l->k->stmts[i].vars[v])->c] = group;
  assert_true(ex_vars(l->p->ex) <= 64);
  return ex_eval(l->p->ex, a->barrier, vars);
}

static void parts_of_a_block_have_barriers_of_their_own(void **state)
{
  (void)state;
  struct lowered l;
  open_or_fail(&l, "[1].i32.GL",
               "Sync<barrier>" ALL "() Sync<barrier>" GROUP "() #pairs2 = #t.tile([64]) #last = #pairs2[3] #zero = #groups[0] #rest = #t.tile([96])\n"
               "#part = #rest[1] Sync<barrier><<<#b, #last>>>() Sync<barrier><<<#b, #zero>>>() Sync<barrier><<<#b, "
               "#part>>>() Sync<barrier>" GROUP "()",
               80);
  assert_int_equal(barrier_of(&l, 0, 1), 0);
  assert_int_equal(lowered_atom(&l, 0)->barrier_threads, 256);
  assert_int_equal(barrier_of(&l, 1, 0), 1);
  assert_int_equal(barrier_of(&l, 1, 1), 2);
  assert_int_equal(lowered_atom(&l, 1)->barrier_threads, 128);
  int64_t last = barrier_of(&l, 2, 0), part = barrier_of(&l, 4, 0);
  assert_true(last > 2 && part > 2 && last != part && part <= 15);
  assert_int_equal(barrier_of(&l, 3, 0), 1); // the first group of 128, like #group of its threads
  assert_int_equal(barrier_of(&l, 5, 1), 2);
  arena_close(&l.mem);
}

static void fifteen_barriers_are_the_most(void **state)
{
  (void)state;
  static const struct {
    int size;
    const char *why;
  } cases[] = {{128, NULL}, {96, NULL}, {64, "has 15 named barriers"}, {608, NULL}};
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct lowered l;
    char text[512];
    snprintf(text, sizeof text,
             "kernel k {\n%%x:[].i32.GL\n#b:[1].block\n#t:[1024].thread\n%%x <- Spec<<<#b, #t>>>() {\n"
             "#g = #t.tile([%d])\n #h = #g[0]\n Sync<barrier><<<#b, #h>>>()\n}\n}",
             cases[i].size);
    int status = lowered_text(&l, text, 80);
    if (cases[i].why ? status != USER || !strstr(l.e.text, cases[i].why) : status != OK) fail_msg("%s: %s", text, l.e.text);
    arena_close(&l.mem);
  }
}

static void a_part_lies_in_its_block(void **state)
{
  (void)state;
  struct lowered l;
  const char *body = "#g = #t.tile([160]) #last = #g[1] Sync<barrier><<<#b, #last>>>()"; // threads 160 to 319 of 256
  assert_int_equal(lowered_open(&l, "[1].i32.GL", "[1].i32.GL", body, 80), USER);
  assert_non_null(strstr(l.e.text, "past the block"));
  arena_close(&l.mem);
}

static void equal_maps_are_one(void **state)
{
  (void)state;
  struct lowered l;
  open_or_fail(&l, "[M, N].fp16.GL",
               "%s:[2].[64,64].fp16.SH.swizzle(3,3,3) %u:[32,64].fp16.SH %b1:[].mbar.SH\n"
               "%s[0] <- Move<tma>" ME "(%g.tile([64,64])[@bid, 0], %b1) %s[1] <- Move<tma>" ME "(%g.tile([64,64])[@bid, 1], %b1)\n"
               "%u <- Move<tma>" ME "(%g.tile([32,64])[@bid, 0], %b1)",
               90);
  assert_int_equal(l.k->nmaps, 2);
  assert_int_equal(lowered_atom(&l, 0)->operand[1].map, 0);
  assert_int_equal(lowered_atom(&l, 1)->operand[1].map, 0);
  assert_int_equal(lowered_atom(&l, 2)->operand[1].map, 1);
  const struct tile_map *map = &l.k->maps[0];
  assert_true(map->rank == 2 && map->box[0] == 64 && map->box[1] == 64 && map->stride[0] == EX_C(1) && map->stride[1] == map->size[0]);
  assert_true(lowered_atom(&l, 1)->operand[1].coord[0] == EX_C(64)); // fastest first
  arena_close(&l.mem);
}

// Two boxes by one spec: the level around the box is a loop.
static void boxes_are_repeated(void **state)
{
  (void)state;
  struct lowered l;
  open_or_fail(&l, "[M, N].fp16.GL",
               "%s:[1,2].[64,64].fp16.SH.swizzle(3,3,3) %b1:[].mbar.SH %s <- Move<tma>" ME "(%g.tile([64,128])[@bid, 0].tile([64,64]), %b1)", 90);
  const struct tile_atom *a = lowered_atom(&l, 0);
  assert_int_equal(a->nmodes, 1);
  assert_int_equal(a->extent[0], 2);
  assert_true(a->operand[0].stride[0] == EX_C(4096) && a->operand[1].coord_stride[0][0] == EX_C(64) && a->operand[1].coord_stride[1][0] == EX_C(0));
  arena_close(&l.mem);
}

static void short_tiles_are_guarded(void **state)
{
  (void)state;
  struct lowered l;
  open_or_fail(&l, "[M, N].fp16.GL", "%r:[4,8].fp16.RF %r <- Move" ME "(%g.tile([128,64])[@bid, 1].tile([4,8])[@wi, @in4])", 80);
  const struct tile_operand *o = &lowered_atom(&l, 0)->operand[1];
  assert_int_equal(o->nguards, 2);
  assert_int_equal(lowered_atom(&l, 0)->width, 8);
  assert_true(o->guard[0].stride[0] == EX_C(1) && o->guard[1].stride[0] == EX_C(0)); // the loop goes down the rows
  assert_true(o->guard[0].limit == l.k->params[0] && o->guard[1].limit == l.k->params[1]);
  arena_close(&l.mem);
  open_or_fail(&l, "[512, 64].fp16.GL", "%r:[4,8].fp16.RF %r <- Move" ME "(%g.tile([128,64])[0, 0].tile([4,8])[@wi, @in4])", 80);
  assert_int_equal(lowered_atom(&l, 0)->operand[1].nguards, 0);
  arena_close(&l.mem);
  open_or_fail(&l, "[100, 64].fp16.GL", "%r:[1,8].fp16.RF %r <- Move" ME "(%g.tile([30,64])[1, 0].tile([2,64])[@wi, 0].tile([1,8])[0, @in4])", 80);
  assert_int_equal(lowered_atom(&l, 0)->operand[1].nguards, 0); // rows 30 .. 45 of 100
  arena_close(&l.mem);
}

static void outputs_are_what_is_written(void **state)
{
  (void)state;
  static const struct {
    const char *spec, *body, *why;
  } cases[] = {
      {"%y <- Spec<<<#b, #t>>>(%x)", "%y <- Move<<<#b, #t>>>(%x)", NULL},
      {"%y <- Spec<<<#b, #t>>>()", "%y <- Move<<<#b, #t>>>(%x)", "%x is read here"},
      {"%x <- Spec<<<#b, #t>>>(%y)", "%y <- Move<<<#b, #t>>>(%x)", "%y is written here"},
      {"Spec<<<#b, #t>>>(%x, %y)", "%y <- Move<<<#b, #t>>>(%x)", "%y is written here"},
      {"%y, %x <- Spec<<<#b, #t>>>()", "%r:[].i32.RF %r <- Move<atom.add><<<#b, #t>>>(%x, %r)", NULL},
      {"%y <- Spec<<<#b, #t>>>(%x)", "%r:[].i32.RF %r <- Move<atom.add><<<#b, #t>>>(%x, %r)", "%x is written here"},
  };
  for (size_t i = 0; i < COUNT(cases); i++) {
    struct lowered l;
    char text[512];
    snprintf(text, sizeof text, "kernel k {\n%%x:[].i32.GL\n%%y:[].i32.GL\n#b:[1].block\n#t:[1].thread\n%s {\n%s\n}\n}", cases[i].spec,
             cases[i].body);
    int status = lowered_text(&l, text, 80);
    if (cases[i].why ? status != USER || !strstr(l.e.text, cases[i].why) : status != OK) fail_msg("%s: %s", text, l.e.text);
    if (!status) assert_int_equal(buffer(&l, "x")->written, i == 4);
    arena_close(&l.mem);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scopes_that_follow_one_another_share),
      cmocka_unit_test(conditions_and_mbarriers_do_not_share),
      cmocka_unit_test(alignments),
      cmocka_unit_test(a_block_has_so_much_and_no_more),
      cmocka_unit_test(parts_of_a_block_have_barriers_of_their_own),
      cmocka_unit_test(fifteen_barriers_are_the_most),
      cmocka_unit_test(a_part_lies_in_its_block),
      cmocka_unit_test(equal_maps_are_one),
      cmocka_unit_test(boxes_are_repeated),
      cmocka_unit_test(short_tiles_are_guarded),
      cmocka_unit_test(outputs_are_what_is_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
