// The rows of instr.def. Descriptions of operands are complete and consistent. Every thread-value layout covers its tile exactly once, and is that of
// the PTX manual. Every operator and every meaning has a row.
#include "instr_row.h"
#include "tile/tile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct instr_operand *pattern(const struct instr *r, int i) { return !i && r->nout ? r->out : &r->in[i - r->nout]; }

static int64_t thread_value(const struct instr_operand *o, int thread, int value)
{
  struct lay t = lay_mode(o->tv, 0), v = lay_mode(o->tv, 1);
  return lay_call(&t, thread) + lay_call(&v, value);
}

static int64_t part_size(const struct instr_operand *o, int mode)
{
  struct lay l = lay_mode(o->tv, mode);
  int64_t n = 1;
  for (int i = 0; i < l.n; i++)
    if (l.node[i].arity == LAY_LEAF) n *= ex_value(l.node[i].shape);
  return n;
}

static void names_are_unique_and_found(void **state)
{
  (void)state;
  int n;
  const struct instr *r = instr_rows(&n);
  assert_true(n > 400);
  for (int i = 0; i < n; i++) {
    assert_ptr_equal(instr_find(r[i].name), &r[i]);
    assert_true(*r[i].text && r[i].cost > 0);
  }
  assert_null(instr_find("mma"));
  int again;
  assert_ptr_equal(instr_rows(&again), r);
}

// The text mentions no operand that is not there, and outputs that are read say so.
static void texts_name_operands(void **state)
{
  (void)state;
  int n;
  const struct instr *r = instr_rows(&n);
  for (int i = 0; i < n; i++) {
    unsigned used = 0;
    for (const char *p = r[i].text; (p = strchr(p, '$')); p++) {
      size_t letters = strspn(p + 1, "vwagdtmc");
      if (letters > 1 || !strchr("0123456789", p[1 + letters])) {
        assert_non_null(strchr("bnNxzsWBT", p[1]));
        continue;
      }
      int operand = p[1 + letters] - '0';
      if (operand >= r[i].nout + r[i].nin) fail_msg("%s: no operand %d", r[i].name, operand);
      used |= 1u << operand;
    }
    if (r[i].sem == SEM_REDUCE_WARP) used |= 2; // the input is moved before the first step
    if (used != (1u << (r[i].nout + r[i].nin)) - 1) fail_msg("%s: an operand is not in its text", r[i].name);
  }
}

static void vectors_have_a_width(void **state)
{
  (void)state;
  int n;
  const struct instr *r = instr_rows(&n);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < r[i].nout + r[i].nin; j++) {
      const struct instr_operand *o = pattern(&r[i], j);
      if (o->kind != OPND_VECTOR) continue;
      assert_true(o->any_type ? o->bytes >= 1 : o->count >= 1);
      assert_true(o->any_type ? o->bytes == r[i].bytes : o->count == r[i].width);
      assert_true(!o->peer || o->mem == MEM_SH);
    }
}

static void covers_once(const struct instr *r, const struct instr_operand *o)
{
  int64_t threads = part_size(o, 0), values = part_size(o, 1);
  int wanted = o->kind == OPND_ROW ? 8 * r->n : r->threads; // of ldmatrix x1 and x2 only 8 or 16 lanes address rows
  if (threads != wanted) fail_msg("%s: %d threads", r->name, (int)threads);
  if (values != (o->kind == OPND_ROW ? 8 : o->count)) fail_msg("%s: %d values", r->name, (int)values);
  bool *seen = calloc((size_t)(threads * values), sizeof *seen);
  for (int t = 0; t < threads; t++)
    for (int v = 0; v < values; v++) {
      int64_t at = thread_value(o, t, v);
      if (at < 0 || at >= threads * values || seen[at]) fail_msg("%s: thread %d, value %d", r->name, t, v);
      seen[at] = true;
    }
  free(seen);
}

static void layouts_cover_their_tiles_once(void **state)
{
  (void)state;
  int n, layouts = 0;
  const struct instr *r = instr_rows(&n);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < r[i].nout + r[i].nin; j++) {
      const struct instr_operand *o = pattern(&r[i], j);
      bool fragment = o->kind == OPND_FRAGMENT || o->kind == OPND_MATS || o->kind == OPND_ROW;
      assert_int_equal(o->tv.n > 0, fragment);
      if (!fragment) continue;
      covers_once(&r[i], o), layouts++;
      int64_t tile = part_size(o, 0) * part_size(o, 1);
      int sizes[] = {r[i].m * r[i].n, r[i].m * r[i].k, r[i].k * r[i].n};
      if (r[i].spec == SPEC_MATMUL)
        assert_int_equal(tile, sizes[j]);
      else
        assert_int_equal(tile, 64 * r[i].n);
    }
  assert_true(layouts > 200);
}

static void orders_number_each_element_once(void **state)
{
  (void)state;
  int n;
  const struct instr *r = instr_rows(&n);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < r[i].nout + r[i].nin; j++) {
      const struct instr_operand *o = pattern(&r[i], j);
      if (o->kind != OPND_FRAGMENT) continue;
      bool seen[256] = {0};
      for (int c = 0; c < o->count; c++) {
        int64_t e = lay_call(&o->order, c);
        assert_true(e >= 0 && e < o->count && !seen[e]);
        seen[e] = true;
      }
    }
}

// ---- the layouts against the drawings of the PTX manual, written out; g = lane / 4, t = lane % 4 ----

static void is_mma(const char *name, int operand, int64_t (*at)(int lane, int i))
{
  const struct instr *r = instr_find(name);
  assert_non_null(r);
  const struct instr_operand *o = pattern(r, operand);
  for (int lane = 0; lane < r->threads; lane++)
    for (int i = 0; i < o->count; i++)
      if (thread_value(o, lane, i) != at(lane, i)) fail_msg("%s, operand %d: lane %d, element %d", name, operand, lane, i);
}

static int64_t a16(int l, int i) { return l / 4 + 8 * (i >> 1 & 1) + 16 * (2 * (l % 4) + (i & 1) + 8 * (i >> 2)); }
static int64_t b16(int l, int i) { return l / 4 + 8 * (2 * (l % 4) + (i & 1) + 8 * (i >> 1)); }
static int64_t c8(int l, int i) { return l / 4 + 8 * (i >> 1) + 16 * (2 * (l % 4) + (i & 1)); }
static int64_t a8(int l, int i) { return l / 4 + 8 * (i >> 1) + 16 * (2 * (l % 4) + (i & 1)); }
static int64_t b8(int l, int i) { return l / 4 + 8 * (2 * (l % 4) + i); }
static int64_t volta_c(int t, int i) { return (t & 1) + (i & 2) + 4 * (t >> 2) + 8 * ((i & 1) + (t & 2) + (i & 4)); }
static int64_t volta_a(int t, int i) { return t + 8 * i; }
static int64_t group_c(int t, int i) { return 16 * (t / 32) + t % 32 / 4 + 8 * (i >> 1 & 1) + 64 * (8 * (i >> 2) + 2 * (t % 4) + (i & 1)); }

static void layouts_are_the_manual_s(void **state)
{
  (void)state;
  static const char *const sixteen[] = {"mma.m16n8k16.fp32.fp16", "mma.m16n8k16.fp32.bf16", "mma.m16n8k16.fp16.fp16"};
  static const char *const eight[] = {"mma.m16n8k8.fp32.fp16", "mma.m16n8k8.fp32.bf16", "mma.m16n8k8.fp16.fp16"};
  for (int i = 0; i < 3; i++) {
    is_mma(sixteen[i], 0, c8), is_mma(sixteen[i], 1, a16), is_mma(sixteen[i], 2, b16);
    is_mma(eight[i], 0, c8), is_mma(eight[i], 1, a8), is_mma(eight[i], 2, b8);
  }
  is_mma("mma.m8n8k4.fp32.fp16", 0, volta_c);
  is_mma("mma.m8n8k4.fp32.fp16", 1, volta_a), is_mma("mma.m8n8k4.fp32.fp16", 2, volta_a);
  for (int n = 8; n <= 256; n += 8) {
    char name[64];
    snprintf(name, sizeof name, "wgmma.m64n%dk16.fp32.fp16", n);
    is_mma(name, 0, group_c);
    snprintf(name, sizeof name, "wgmma.m64n%dk16.fp32.bf16.rs", n);
    is_mma(name, 0, group_c), is_mma(name, 1, group_c); // A of 16 columns is C of N = 16
    assert_int_equal(instr_find(name)->n, n);
  }
  assert_null(instr_find("wgmma.m64n264k16.fp32.fp16"));
}

// Lane l gives the address of row l % 8 of matrix l / 8, and receives M[g][2t + h]; with .trans M[2t + h][g].
static void matrices_are_the_manual_s(void **state)
{
  (void)state;
  static const char *const rows[] = {"ldmatrix.x1", "ldmatrix.x2", "ldmatrix.x4", "stmatrix.x1", "stmatrix.x2", "stmatrix.x4"};
  for (int i = 0; i < 12; i++) {
    char name[64];
    snprintf(name, sizeof name, "%.8s%s%s", rows[i % 6], i < 6 ? "" : ".trans", rows[i % 6] + 8);
    const struct instr *r = instr_find(name);
    assert_non_null(r);
    assert_int_equal(r->trans, i >= 6);
    bool load = r->sem == SEM_LDMATRIX;
    const struct instr_operand *mats = pattern(r, load ? 0 : 1), *row = pattern(r, load ? 1 : 0);
    for (int lane = 0; lane < 32; lane++)
      for (int e = 0; e < mats->count; e++) {
        int down = lane / 4, along = 2 * (lane % 4) + e % 2;
        assert_int_equal(thread_value(mats, lane, e), (r->trans ? along : down) + 8 * (r->trans ? down : along) + 64 * (e / 2));
      }
    for (int lane = 0; lane < 8 * r->n; lane++)
      for (int e = 0; e < 8; e++) assert_int_equal(thread_value(row, lane, e), lane % 8 + 8 * e + 64 * (lane / 8));
  }
}

static bool any_row(enum spec_kind spec, const char *op, enum tile_type t)
{
  int n;
  const struct instr *r = instr_rows(&n);
  for (int i = 0; i < n; i++)
    if (r[i].spec == spec && r[i].op && !strcmp(r[i].op, op) && !r[i].chosen && r[i].in[0].type == t && r[i].width == 1) return true;
  return false;
}

// Keys of topk are one type.
static bool of_keys(enum spec_kind spec, const char *op) { return any_row(spec, op, TT_I64) && !any_row(spec, op, TT_F32); }

static void every_operator_has_rows(void **state)
{
  (void)state;
  static const enum tile_type types[] = {TT_F32, TT_F16, TT_BF16};
  for (int t = 0; t < 3; t++) {
    for (int op = 0; op < UN_COUNT; op++)
      if (!of_keys(SPEC_UNARY, unary_name[op]) && !any_row(SPEC_UNARY, unary_name[op], types[t]))
        fail_msg("no %s of %s", unary_name[op], tile_types[types[t]].name);
    for (int op = 0; op < BI_COUNT; op++)
      if (!of_keys(SPEC_BINARY, binary_name[op]) && !any_row(SPEC_BINARY, binary_name[op], types[t]))
        fail_msg("no %s of %s", binary_name[op], tile_types[types[t]].name);
  }
}

static void every_meaning_has_a_row(void **state)
{
  (void)state;
  bool have[SEM_GRID_TRIGGER + 1] = {0};
  int n;
  const struct instr *r = instr_rows(&n);
  for (int i = 0; i < n; i++) have[r[i].sem] = true;
  for (int s = 0; s <= SEM_GRID_TRIGGER; s++)
    if (!have[s]) fail_msg("no row means %d", s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_unique_and_found),
      cmocka_unit_test(texts_name_operands),
      cmocka_unit_test(vectors_have_a_width),
      cmocka_unit_test(layouts_cover_their_tiles_once),
      cmocka_unit_test(orders_number_each_element_once),
      cmocka_unit_test(layouts_are_the_manual_s),
      cmocka_unit_test(matrices_are_the_manual_s),
      cmocka_unit_test(every_operator_has_rows),
      cmocka_unit_test(every_meaning_has_a_row),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
