// Pieces of memory with lives: every placement is held against what it promises, the exact one against all orders there are, and
// each greedy one against a case that it alone does well or badly.
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
    int64_t least = brute(b, n, 0, 100), exact = plan_pack_by(&mem, FIT_EXACT, n, p);
    assert_placed(n, p, exact);
    assert_int_equal(exact, least);
    assert_int_equal(plan_pack(&mem, n, p), least);
    assert_placed(n, p, least);
  }
  arena_close(&mem);
}

static void every_strategy_is_right(void **state)
{
  (void)state;
  struct rng r = {8};
  struct arena mem = {0};
  for (int round = 0; round < 100; round++) {
    struct plan_piece p[24];
    int n = pieces(&r, 24, p);
    int64_t best = INT64_MAX;
    for (enum plan_fit how = FIT_FIRST; how <= FIT_RANDOM; how++) {
      int64_t total = plan_pack_by(&mem, how, n, p);
      assert_placed(n, p, total);
      best = MIN(best, total);
    }
    int64_t total = plan_pack(&mem, n, p);
    assert_placed(n, p, total);
    assert_true(total <= best);
  }
  arena_close(&mem);
}

// They are different strategies: each gives another total somewhere.
static void strategies_differ(void **state)
{
  (void)state;
  struct rng r = {9};
  struct arena mem = {0};
  int differ[FIT_RANDOM + 1] = {0};
  for (int round = 0; round < 300; round++) {
    struct plan_piece p[12];
    int n = pieces(&r, 12, p);
    int64_t first = plan_pack_by(&mem, FIT_FIRST, n, p);
    for (enum plan_fit how = FIT_BEST; how <= FIT_RANDOM; how++) differ[how] += plan_pack_by(&mem, how, n, p) != first;
  }
  assert_true(differ[FIT_BEST] > 0 && differ[FIT_LAST] > 0 && differ[FIT_RANDOM] > 0);
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
      cmocka_unit_test(every_strategy_is_right),
      cmocka_unit_test(strategies_differ),
      cmocka_unit_test(nothing_and_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
