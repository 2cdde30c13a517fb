// Results of the search for the programs of examples/, for the CPU and for sm_90a, with one change: mutants of found
// graphs must be rejected unless they are equal. The extents are small, so that real numbers (the interpreter in
// float64) tell whether a mutant differs. At least 5,000 different ones are held against the verifier, or, quick, a few
// of every eighth program.
#ifndef MICA_TEST_VERIFY_FOUND_H
#define MICA_TEST_VERIFY_FOUND_H

#include <stdbool.h>

void hunt_examples(bool quick);

#endif
