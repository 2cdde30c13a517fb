// The tokens that threads make by a plan are those of a sequential transformer in float64.
#include "megas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct tokens_row {
  const char *file;
  int rows, workers;
  int64_t context;
  int steps;
  uint64_t seed;
  int parts; // of attention
  enum mega_merge merge;
} rows[] = {
    {"examples/mega/tiny_llama.json", 1, 3, 0, 24, 1},
    {"examples/mega/tiny_llama.json", 1, 1, 5, 12, 2},
    {"examples/mega/tiny_llama.json", 3, 4, 70, 12, 3},
    {"examples/mega/tiny_llama.json", 12, 3, 9, 10, 4}, // too many rows for tagged data: counters and flags
    {"examples/mega/tiny_qwen3.json", 1, 3, 0, 24, 5},
    {"examples/mega/tiny_qwen3.json", 2, 5, 63, 12, 6},
    {"examples/mega/tiny_qwen3.json", 9, 2, 3, 8, 7},
    {"examples/mega/tiny_llama.json", 1, 3, 0, 24, 1, 2}, // parts that are empty at first
    {"examples/mega/tiny_llama.json", 3, 9, 70, 12, 3, 4},
    {"examples/mega/tiny_qwen3.json", 2, 5, 63, 12, 6, 3},
    {"examples/mega/tiny_qwen3.json", 9, 3, 3, 8, 7, 2},
    {"examples/mega/tiny_llama.json", 1, 3, 0, 24, 1, 2, MEGA_MERGE_OPERATOR}, // an operator merges the parts
    {"examples/mega/tiny_llama.json", 3, 9, 70, 12, 3, 4, MEGA_MERGE_OPERATOR},
    {"examples/mega/tiny_qwen3.json", 2, 5, 63, 12, 6, 3, MEGA_MERGE_OPERATOR},
    {"examples/mega/tiny_qwen3.json", 9, 3, 3, 8, 7, 2, MEGA_MERGE_OPERATOR},
    {"examples/mega/tiny_llama.json", 8, 5, 100, 12, 2, 16, MEGA_MERGE_OPERATOR}, // most parts have few positions
    {"examples/mega/tiny_qwen3_moe.json", 1, 3, 0, 24, 1},                        // experts
    {"examples/mega/tiny_qwen3_moe.json", 1, 1, 5, 12, 2},
    {"examples/mega/tiny_qwen3_moe.json", 3, 7, 63, 12, 3},
    {"examples/mega/tiny_qwen3_moe.json", 9, 4, 3, 8, 4, 2},
};

static void one_row(const struct tokens_row *r)
{
  struct megas x;
  struct mega_sizes s = mega_tiny(r->rows, r->workers, r->context, r->steps);
  s.parts = r->parts, s.merge = r->merge;
  struct mega_answer a = {0};
  struct mega_proof proof;
  float **first;
  int32_t *want;
  mega_open(&x, r->file, &s);
  int proved = mega_prove(x.p, &proof, &x.err);
  if (proved != OK) err_print(stderr, &x.err);
  assert_int_equal(proved, OK);
  assert_int_equal(mega_values_make(&x.mem, x.m, r->seed, &first, &x.err), OK);
  assert_int_equal(mega_reference(&x.mem, x.config, x.m, first, r->steps, &want, &x.err), OK);
  int status = mega_run(&x.mem, x.p, first, r->steps, 60, &a, &x.err);
  if (status != OK) err_print(stderr, &x.err);
  assert_int_equal(status, OK);
  assert_memory_equal(a.tokens, want, sizeof *want * (size_t)(r->rows * r->steps));
  int changes = 0;
  for (int i = r->rows; i < r->rows * r->steps; i++) changes += want[i] != want[i - r->rows];
  assert_true(changes >= 3); // otherwise equal tokens say little
  mega_close(&x);
}

static void tokens_of_both(void **state)
{
  (void)state;
  for (size_t i = 0; i < COUNT(rows); i++) one_row(&rows[i]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_of_both)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
