// Detection of disturbed measurements and of their causes, on recorded and invented figures. No times are measured.
#include "base/memory.h"
#include "rt/rt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const double BEST = 52e-6; // of the reference loop

static const struct stretch quiet = {.rounds = 9, .wall = 1.74e-3, .waited = 12e-6, .reference = 53e-6};
// Recorded on two processors with 64 other busy threads: a call of 0.18 ms took 30 ms, because its second thread had to wait.
static const struct stretch busy = {.rounds = 1, .wall = 30.4e-3, .waited = 28.9e-3, .reference = 55e-6};

static void causes(void **state)
{
  (void)state;
  static const struct {
    struct stretch s;
    enum disturbance why;
  } rows[] = {
      {{9, 1.74e-3, 12e-6, 0, 53e-6}, DISTURBED_NOT},
      {{9, 1.80e-3, 90e-6, 0, 70e-6}, DISTURBED_NOT},   // a short task of the system's; a clock that fell by a quarter
      {{9, 1.10e-3, 0.24e-3, 0, 53e-6}, DISTURBED_NOT}, // threads that sleep between calls wake up
      {{1, 30.4e-3, 28.9e-3, 0, 55e-6}, DISTURBED_WAITED},
      {{4, 5.10e-3, 3.20e-3, 0, 730e-6}, DISTURBED_WAITED},
      {{9, 2.10e-3, 0, 0, 730e-6}, DISTURBED_SLOWED},
      {{9, 2.10e-3, 0, 0, 84e-6}, DISTURBED_SLOWED},
      {{1, 2.0, 0.3, 0, 53e-6}, DISTURBED_NOT}, // of a long call some waiting changes little
      {{1, 2.0, 0.9, 0, 53e-6}, DISTURBED_WAITED},
      {{1, 2.0, 0, 0.7, 53e-6}, DISTURBED_STOLEN},
      {{1, 2.0, 0, 0.02, 53e-6}, DISTURBED_NOT},        // two ticks of 10 ms
      {{9, 1.74e-3, 0, 5e-3, 53e-6}, DISTURBED_STOLEN}, // one tick of two processors
  };
  for (size_t i = 0; i < COUNT(rows); i++)
    if (stretch_cause(&rows[i].s, BEST) != rows[i].why) fail_msg("stretch %zu: %d", i, stretch_cause(&rows[i].s, BEST));
}

static struct disturbed verdict(int nquiet, int nother, const struct stretch *other, int enough)
{
  struct stretch s[64];
  int n = 0;
  for (int i = 0; i < nother; i++) s[n++] = *other;
  for (int i = 0; i < nquiet; i++) s[n++] = quiet;
  return stretches_verdict(s, n, BEST, enough);
}

// Disturbed stretches are no fault of a measurement that has enough others.
static void enough_is_left(void **state)
{
  (void)state;
  assert_int_equal(verdict(40, 0, NULL, 3).why, DISTURBED_NOT);
  assert_int_equal(verdict(1, 40, &busy, 3).why, DISTURBED_NOT);
  assert_int_equal(verdict(0, 40, &busy, 3).why, DISTURBED_WAITED);
  assert_int_equal(verdict(1, 40, &busy, 10).why, DISTURBED_WAITED);
  assert_int_equal(verdict(1, 0, NULL, 10).why, DISTURBED_NOT); // there are few, and nothing disturbed them
  struct stretch one = quiet;
  one.rounds = 1;
  assert_int_equal(stretches_verdict(&one, 1, BEST, 1).why, DISTURBED_NOT);
}

// The message names the cause that took the most time, and its share.
static void reasons(void **state)
{
  (void)state;
  char text[96];
  struct stretch s[5] = {{1, 10e-3, 8e-3, 0, 52e-6}, {1, 10e-3, 7e-3, 0, 52e-6}, {9, 1e-3, 0, 0, 728e-6}};
  assert_string_equal(disturbed_words(text, stretches_verdict(s, 3, BEST, 3)), "a thread waited for a processor 75% of the time");
  s[0].waited = s[1].waited = 0, s[1].reference = 520e-6, s[0].reference = 5200e-6;
  assert_string_equal(disturbed_words(text, stretches_verdict(s, 3, BEST, 3)), "the reference loop ran 14.0 times slower than its best");
  s[0].stolen = s[1].stolen = 6e-3;
  assert_string_equal(disturbed_words(text, stretches_verdict(s, 3, BEST, 3)), "the hypervisor took 60% of the processors' time");
  assert_string_equal(disturbed_words(text, (struct disturbed){DISTURBED_SCATTERED, 3.14}), "times of calls lie 3.1 times apart");
  assert_string_equal(disturbed_words(text, (struct disturbed){DISTURBED_NOT, 0}), "");
  s[3] = s[4] = busy;
  s[3].waited = s[4].waited = 1; // it began to wait before the stretch
  assert_string_equal(disturbed_words(text, stretches_verdict(s, 5, BEST, 3)), "a thread waited for a processor 100% of the time");
}

static void spread(void **state)
{
  (void)state;
  double even[] = {1, 1.01, 1.02, 1.1, 1.3, 1.6, 9}, apart[] = {1, 1.01, 1.1, 2.1, 2.5, 2.6, 9}, few[] = {1, 9, 9};
  struct timing t = timing_of(even, (int)COUNT(even));
  assert_int_equal(t.disturbed.why, DISTURBED_NOT);
  assert_int_equal(timing_verdict(&t).why, DISTURBED_NOT);
  t = timing_of(apart, (int)COUNT(apart));
  assert_int_equal(timing_verdict(&t).why, DISTURBED_SCATTERED);
  assert_true(timing_verdict(&t).by > 2.5 && timing_verdict(&t).by < 2.6);
  t = timing_of(few, (int)COUNT(few));
  assert_int_equal(timing_verdict(&t).why, DISTURBED_NOT);
}

// The recorder: what it leaves is within its bounds, whatever the machine does.
static void records(void **state)
{
  (void)state;
  struct gauge *g = gauge_open();
  struct stretch s;
  double first = gauge_reference(g);
  gauge_watch(g);
  for (int i = 0; i < 20; i++) {
    gauge_record(g, i + 1, &s);
    assert_int_equal(s.rounds, i + 1);
    assert_true(s.wall > 0 && s.waited >= 0 && s.stolen >= 0 && s.reference >= gauge_reference(g));
  }
  assert_true(gauge_reference(g) > 0 && gauge_reference(g) <= first);
  gauge_watch(g);
  gauge_close(g);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(causes), cmocka_unit_test(enough_is_left), cmocka_unit_test(reasons), cmocka_unit_test(spread),
                                     cmocka_unit_test(records)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
