// primes: pairs of primes p = 2 q + 1 for random tests, drawn from a large set by a seed.
//
// p and q are 7 mod 8, so that -1 is a non-residue, 2 is a residue, and x^((p + 1) / 4) is a square root in both fields.
// The odd primes up to 29 are residues of both (3 and 5 for pairs under 40 bits), and so are the numbers that the caller gives. The quadratic
// character of a rational constant whose factors are all among these is then its sign, as over the reals. So
// sqrt(c c x) = c sqrt(x) holds in the field for every such c > 0.
#ifndef MICA_PRIMES_H
#define MICA_PRIMES_H

#include "base/base.h"

struct primes {
  uint64_t p, q;
};

enum { PRIMES_FILTER = 32, PRIMES_TEST = 62 }; // bits of p

// p has `bits` bits, 24 to 62. residues[0 .. n) are numbers above 1 that should be quadratic residues of p and q. If no pair
// is found for all of them within a fixed number of tries, the last ones are left out.
struct primes primes_draw(int bits, uint64_t seed, int n, const uint64_t *residues);

bool prime_is(uint64_t x);          // x < 2^62
int jacobi(uint64_t a, uint64_t n); // the Jacobi symbol (a / n), n odd
// Appends the prime factors of x up to 2^16 and the remaining cofactor to out[0 .. *n), without repetition, up to `most`
// numbers in all.
void prime_factors(uint64_t x, int most, uint64_t *out, int *n);

#endif
