// Which options are kept: the lists by needs give what a scan over all options gives; and the pairs that are refused.
#include "examples.h"
#include "search/space.h"

#include <math.h>

// The rule as a scan.
enum { MOST = 256 };
struct walk {
  int n;
  struct option o[MOST];
};

struct lookalikes {
  int n, worst;
};
static void count(struct lookalikes *a, const struct walk *s, int i)
{
  if (!a->n++ || s->o[i].cost > s->o[a->worst].cost) a->worst = i;
}

static int size_of_needs(const struct walk *s, uint64_t needs)
{
  int n = 0;
  for (int i = 0; i < s->n; i++) n += s->o[i].needs == needs;
  return n;
}

static int most_needs(const struct walk *s)
{
  int most = 0;
  for (int i = 0; i < s->n; i++) most = MAX(most, size_of_needs(s, s->o[i].needs));
  return most;
}

// -1: a new place; -2: none; -3: that of one of the needs that have most options.
static int place(const struct walk *s, const struct option *x)
{
  struct lookalikes kin = {0}, near = {0}, twins = {0};
  for (int i = 0; i < s->n; i++) {
    if (s->o[i].needs != x->needs) continue;
    count(&kin, s, i);
    if (s->o[i].table == x->table) count(&near, s, i);
    if (s->o[i].structure == x->structure) count(&twins, s, i);
  }
  if (twins.n >= 2) return twins.worst;
  if (near.n >= 6) return near.worst;
  if (kin.n >= 8) return kin.worst;
  if (s->n < MOST) return -1;
  return most_needs(s) > kin.n + 1 ? -3 : kin.n ? kin.worst : -2;
}

// Takes over what keep_option did where it chose among several needs.
static void follow(struct walk *s, const struct options *to)
{
  s->n = to->n;
  memcpy(s->o, to->o, sizeof *s->o * (size_t)to->n);
}

static bool same(const struct walk *s, const struct options *to) { return s->n == to->n && !memcmp(s->o, to->o, sizeof *s->o * (size_t)to->n); }

static void one(struct walk *s, struct options *to, const struct option *x, int *given_way)
{
  bool near;
  int twins = 0;
  for (int i = 0; i < s->n; i++) twins += s->o[i].needs == x->needs && s->o[i].structure == x->structure;
  double below = keep_below(to, x->needs, x->table, &near);
  int at = place(s, x), largest = most_needs(s), before = size_of_needs(s, x->needs);
  keep_option(to, x);
  if (at == -3) { // one of the needs with most options gives way
    int found = 0;
    ++*given_way;
    for (int i = 0; i < s->n; i++)
      if (memcmp(&s->o[i], &to->o[i], sizeof *x)) {
        assert_int_equal(size_of_needs(s, s->o[i].needs), largest);
        assert_memory_equal(&to->o[i], x, sizeof *x);
        for (int k = 0; k < s->n; k++) assert_true(s->o[k].needs != s->o[i].needs || s->o[k].cost <= s->o[i].cost);
        found++;
      }
    assert_int_equal(found, 1);
    follow(s, to);
    assert_int_equal(size_of_needs(s, x->needs), before + 1);
    return;
  }
  if (at == -1)
    s->o[s->n++] = *x;
  else if (at >= 0 && x->cost < s->o[at].cost)
    s->o[at] = *x;
  assert_true(same(s, to));
  if (at == -2) assert_true(below <= 0);
  if (below <= 0)
    assert_int_equal(at, -2);
  else if (x->cost >= below && twins < 2)
    assert_true(at >= 0 && s->o[at].cost <= below); // it was not kept
}

static void test_keep(void **state)
{
  (void)state;
  int given_way = 0, full = 0;
  for (uint64_t seed = 1; seed <= 2; seed++) {
    struct arena mem = {0};
    struct walk *s = NEW(&mem, struct walk);
    struct options *to = NEW(&mem, struct options);
    struct rng r = {seed};
    uint64_t kinds = seed % 2 ? 60 : 400;
    keep_open(&mem, to);
    for (int i = 0; i < 1500; i++) {
      uint64_t needs = 1 + (i < 500 ? rng_below(&r, 40) : rng_below(&r, kinds));
      struct option x = {
          .table = (int)rng_below(&r, 4), .cost = (double)(1 + rng_below(&r, 500)), .structure = 1 + rng_below(&r, 30), .needs = needs};
      one(s, to, &x, &given_way);
    }
    full += to->n == MOST;
    arena_close(&mem);
  }
  assert_int_equal(full, 2);
  assert_true(given_way > 100);
}

// If all needs have one option, there is no room for other needs, but for a kernel that reads inputs only.
static void test_needs_nothing(void **state)
{
  (void)state;
  struct arena mem = {0};
  struct options *to = NEW(&mem, struct options);
  bool near;
  to->split = -1;
  keep_open(&mem, to);
  for (int i = 0; i < MOST; i++) keep_option(to, &(struct option){.cost = i, .needs = 1000 + (uint64_t)i});
  const struct option other = {.cost = 1, .needs = 7}, complete = {.cost = 2 * MOST, .needs = option_needs(&(struct option){.split = -1})};
  assert_int_equal(to->n, MOST);
  assert_true(keep_below(to, other.needs, 0, &near) <= 0);
  assert_true(isinf(keep_below(to, complete.needs, 0, &near)));
  keep_option(to, &other), keep_option(to, &complete);
  int kept = 0;
  for (int i = 0; i < to->n; i++) kept += to->o[i].needs == complete.needs, assert_true(to->o[i].needs != other.needs);
  assert_int_equal(kept, 1);
  arena_close(&mem);
}

static void test_pairs(void **state)
{
  (void)state;
  struct pairs p = {0};
  int a = pairs_number(&p, 17), b = pairs_number(&p, 5000), c = pairs_number(&p, 4);
  assert_int_equal(a, 0);
  assert_int_equal(pairs_number(&p, 17), a);
  assert_int_equal(pairs_number(&p, 5000), b);
  assert_true(a != b && b != c && a != c);
  *pairs_at(&p, a, b) |= PAIR_MUL;
  assert_int_equal(*pairs_at(&p, b, a), PAIR_MUL);
  assert_int_equal(*pairs_at(&p, a, c), 0);
  assert_int_equal(*pairs_at(&p, b, b), 0);
  int last = 0;
  for (nf e = 10000; last >= 0 && e < 100000; e++) last = pairs_number(&p, e);
  assert_int_equal(last, -1); // there are only so many
  assert_null(pairs_at(&p, last, a));
  assert_int_equal(pairs_number(&p, 5000), b);
  assert_int_equal(*pairs_at(&p, b, a), PAIR_MUL);
  arena_close(&p.mem);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_keep), cmocka_unit_test(test_needs_nothing), cmocka_unit_test(test_pairs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
