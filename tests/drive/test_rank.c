// The winner of a race, by recorded measurements.
#include "drive/drive.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { MOST = 8 };
struct row {
  double score;
  int kernels;
  bool final;
};

static struct contest contest_of(struct candidate *c, const struct row *row, int n)
{
  c[0] = (struct candidate){.kernels = 5, .cpu.score = 1, .measured = true};
  for (int i = 0; i < n; i++)
    c[i + 1] = (struct candidate){
        .cpu.score = row[i].score, .kernels = row[i].kernels, .cpu.final = row[i].final, .measured = true, .cpu.module = (struct module *)c};
  return (struct contest){.cand = c, .ncand = n + 1};
}

// Near the best, best first, no more than asked for; what is far or out is not among them.
static void test_finalists(void **state)
{
  (void)state;
  struct candidate cand[MOST];
  int who[MOST];
  struct contest c = contest_of(cand, (struct row[]){{0.52, 1, false}, {0.5, 2, false}, {0.7, 2, false}, {0.4, 1, false}, {0.55, 1, false}}, 5);
  cand[4].dropped = "wrong";
  assert_int_equal(rank_finalists(&c, who, MOST), 3);
  assert_true(who[0] == 2 && who[1] == 1 && who[2] == 5);
  assert_int_equal(rank_finalists(&c, who, 2), 2);
  cand[2].cpu.module = NULL;
  assert_int_equal(rank_finalists(&c, who, 1), 1);
  assert_int_equal(who[0], 1);
}

// A better score of an earlier heat does not win over those of the last one, unless none of these is left.
static void test_last_heat(void **state)
{
  (void)state;
  struct candidate cand[MOST];
  struct contest c = contest_of(cand, (struct row[]){{0.45, 1, false}, {0.6, 2, true}, {0.5, 2, true}}, 3);
  assert_int_equal(rank_fastest(&c), 3);
  cand[3].dropped = "wrong";
  assert_int_equal(rank_fastest(&c), 2);
  cand[2].dropped = "wrong";
  assert_int_equal(rank_fastest(&c), 1);
  cand[1].dropped = "wrong";
  assert_int_equal(rank_fastest(&c), 0);
}

// Fewer kernels win if their times differ less than the noise.
static void test_ties(void **state)
{
  (void)state;
  struct candidate cand[MOST];
  struct contest c = contest_of(cand, (struct row[]){{0.507, 1, true}, {0.5, 2, true}, {0.515, 1, true}}, 3);
  assert_int_equal(rank_fastest(&c), 1);
  cand[1].cpu.score = 0.515;
  assert_int_equal(rank_fastest(&c), 2);
  c = contest_of(cand, (struct row[]){{1.2, 2, true}, {1.1, 1, true}}, 2);
  assert_int_equal(rank_fastest(&c), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_finalists), cmocka_unit_test(test_last_heat), cmocka_unit_test(test_ties)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
