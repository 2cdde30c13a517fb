// Values of kernels in float64, by which tests hold rewrite rules.
#ifndef TESTS_KERN_EVAL_H
#define TESTS_KERN_EVAL_H

#include "kern/kern.h"

void kern_eval(const struct kern *k, double *const *buffer); // by tensor: where loads read and saves write

#endif
