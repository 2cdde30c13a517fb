// Placement of memory with lifetimes. Every placement is checked for overlaps. The exact method is compared with an enumeration of all orders, and each
// greedy method has a case in which it differs from the others.
#include "plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static bool meet(const struct plan_piece *a, const struct plan_piece *b) { return a->from <= b->to && b->from <= a->to; }

static void assert_placed(int n, const struct plan_piece *p, int64_t total)
{
  int64_t most = 0;
  for (int i = 0; i < n; i++) {
    assert_true(p[i].offset >= 0);
    most = MAX(most, p[i].offset + p[i].bytes);
    for (int k = 0; k < i; k++)
      assert_true(!meet(&p[i], &p[k]) || p[i].offset >= p[k].offset + p[k].bytes || p[k].offset >= p[i].offset + p[i].bytes);
  }
  assert_int_equal(total, most);
}

// The least total by trying every offset in units: slow and plain.
static int64_t brute(struct plan_piece *p, int n, int placed, int64_t limit)
{
  if (placed == n) {
    int64_t most = 0;
    for (int i = 0; i < n; i++) most = MAX(most, p[i].offset + p[i].bytes);
    return most;
  }
  int64_t best = limit;
  for (int64_t at = 0; at + p[placed].bytes < best; at++) {
    bool fits = true;
    for (int i = 0; i < placed && fits; i++) fits = !meet(&p[i], &p[placed]) || at >= p[i].offset + p[i].bytes || p[i].offset >= at + p[placed].bytes;
    if (!fits) continue;
    p[placed].offset = at;
    best = MIN(best, brute(p, n, placed + 1, best));
  }
  return best;
}

static int pieces(struct rng *r, int n, struct plan_piece *p)
{
  for (int i = 0; i < n; i++) {
    int from = (int)rng_below(r, 6);
    p[i] = (struct plan_piece){.bytes = 1 + (int64_t)rng_below(r, 4), .from = from, .to = from + (int)rng_below(r, 3)};
  }
  return n;
}

static void against_all_placements(void **state)
{
  (void)state;
  struct rng r = {7};
  struct arena mem = {0};
  for (int round = 0; round < 200; round++) {
    struct plan_piece p[6], b[6];
    int n = pieces(&r, 1 + (int)rng_below(&r, 6), p);
    memcpy(b, p, sizeof p);
    int64_t least = brute(b, n, 0, 100);
    assert_int_equal(plan_pack(&mem, n, p), least);
    assert_placed(n, p, least);
  }
  arena_close(&mem);
}

static void many_pieces_are_apart(void **state)
{
  (void)state;
  struct rng r = {8};
  struct arena mem = {0};
  for (int round = 0; round < 100; round++) {
    struct plan_piece p[24];
    int n = pieces(&r, 24, p);
    assert_placed(n, p, plan_pack(&mem, n, p));
  }
  arena_close(&mem);
}

static void nothing_and_one(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct plan_piece one = {.bytes = 256, .from = 3, .to = 3};
  assert_int_equal(plan_pack(&mem, 0, NULL), 0);
  assert_int_equal(plan_pack(&mem, 1, &one), 256);
  assert_int_equal(one.offset, 0);
  arena_close(&mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(against_all_placements),
      cmocka_unit_test(many_pieces_are_apart),
      cmocka_unit_test(nothing_and_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
