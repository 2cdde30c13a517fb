// Pairs that are equal: a program and a muGraph that computes it in another way. Extents are small and differ, so that the
// pairs are tested as they stand and after shrinking, and mutants of them cost little.
#ifndef MICA_TEST_VERIFY_CASES_H
#define MICA_TEST_VERIFY_CASES_H

struct equal_case {
  const char *name, *program, *graph;
};
extern const struct equal_case equal_cases[];
extern const int equal_count;

#endif
