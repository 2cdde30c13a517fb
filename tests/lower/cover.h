// Few settings of a scheme in which every value of every knob occurs: for the tests of this room and bench/gpu_every.c.
#ifndef TESTS_COVER_H
#define TESTS_COVER_H

#include "lower/lower.h"

// Few of the scheme's settings and of what the climb may make of them, such that every value of every knob occurs, or with `pairs` every two
// values of two knobs that occur in one setting. Returns how many, at most `most`.
int scheme_cover(const struct lower_job *j, int scheme, bool pairs, int most, struct choice *out);

#endif
