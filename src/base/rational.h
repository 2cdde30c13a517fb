// rational: the number that a constant of a graph stands for, and exact arithmetic on such numbers.
//
// A graph holds each constant as a double. The double is the nearest one to a number that somebody wrote, such as 0.1 or
// 1 / 48. rational_of gives every finite double one meaning, the first of these that rounds to it:
//
//   1. an integer below 2^53
//   2. a decimal of at most 9 digits
//   3. a fraction n / d in lowest terms with n d <= 2^46
//   4. a decimal of at most 15 digits
//   5. the double itself; `rounded` is set, because the written number may have been another one
//
// At most one fraction of rule 3 rounds to a double, and at most one decimal of rule 4 does, so the meaning is unique.
// The verifier, the fields of random tests and the parser's arithmetic all use this reading.
#ifndef MICA_RATIONAL_H
#define MICA_RATIONAL_H

#include "base/base.h"

// (negative ? -1 : 1) * n / d * 10^tens * 2^twos; n and d are coprime, d > 0; zero has n = 0.
struct rational {
  uint64_t n, d;
  int tens, twos;
  bool negative, rounded;
};

// x must be finite.
struct rational rational_of(double x);

// Is the decimal text of a literal the shortest one of x? Any other text with that nearest double is a number that x does not
// stand for: 0.1 and 0.100000000000000008 are one double.
bool rational_written(const char *text, double x);

// x op y for op one of + - * /, as the double nearest to the exact result; false where a numerator or denominator
// exceeds 127 bits, an operand is rounded, or the result is no double. y is not 0 for '/'.
bool rational_fold(int op, double x, double y, double *r);

// |x| as a fraction of 127-bit integers; false where one does not fit.
bool rational_fraction(struct rational x, __int128 *n, __int128 *d);

#endif
