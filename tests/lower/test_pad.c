// Sums and columns that 8, the elements of a chunk of 16 bytes, does not divide, by mma: at many layouts of warps, and at what the scheme
// chooses. Padding must be zero where products read it, and neutral for sums and maxima.
// test: timeout 300
// test: quick release
#include "held.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { FEW = 4 }; // rows of a table that are tried at all that the scheme chooses

static void test_products(void **state)
{
  (void)state;
  assert_true(hold_layouts("pad_products") > 80);
}

static void test_anywhere(void **state)
{
  (void)state;
  hold("pad_anywhere");
  assert_true(hold_layouts("pad_anywhere") > 30);
  hold_choices("pad_anywhere", 2 * FEW);
  hold_bf16("pad_anywhere");
  hold_sm80("pad_anywhere");
}

static void test_store(void **state)
{
  (void)state;
  hold("pad_store");
  assert_true(hold_layouts("pad_store") > 40);
  hold_choices("pad_store", FEW);
  hold_bf16("pad_store");
  hold_sm80("pad_store");
  assert_true(hold_workers("pad_store", "mma") > 0);
}

static void test_joined(void **state)
{
  (void)state;
  assert_true(hold_layouts("pad_joined") > 60);
}

static void test_softmax(void **state)
{
  (void)state;
  assert_true(hold_layouts("pad_softmax") > 50);
}

static void test_sides(void **state)
{
  (void)state;
  assert_true(hold_layouts("pad_sides") > 20);
}

static void test_boxes(void **state)
{
  (void)state;
  hold("pad_boxes");
  hold_choices("pad_boxes", FEW);
  hold_bf16("pad_boxes");
}

static void test_choices(void **state)
{
  (void)state;
  hold_choices("pad_products", FEW);
  hold_choices("pad_joined", FEW);
  hold_choices("pad_softmax", FEW);
  hold_choices("pad_sides", FEW);
}

static void test_others(void **state)
{
  (void)state;
  hold("pad_refused");
  hold_bf16("pad_joined");
  hold_sm80("pad_products");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_products), cmocka_unit_test(test_joined),   cmocka_unit_test(test_softmax),
                                     cmocka_unit_test(test_sides),    cmocka_unit_test(test_boxes),    cmocka_unit_test(test_choices),
                                     cmocka_unit_test(test_others),   cmocka_unit_test(test_anywhere), cmocka_unit_test(test_store)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
