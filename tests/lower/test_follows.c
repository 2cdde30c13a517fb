// Any elementwise expression of a product's result, with vectors, columns and tensors of its shape, is part of the product's kernel: sigmoid,
// mish, residuals, gelu of a bias and others follow mma and wgmma, and results that leave by TMA.
#include "held.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void on_sm_90a(void **state)
{
  (void)state;
  hold("follows_mma");
  hold("follows_wgmma");
}

static void on_sm_80(void **state)
{
  (void)state;
  hold_sm80("follows_mma");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(on_sm_90a), cmocka_unit_test(on_sm_80)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
