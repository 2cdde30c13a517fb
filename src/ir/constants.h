// constants: which numbers programs may hold.
#ifndef MICA_CONSTANTS_H
#define MICA_CONSTANTS_H

#include "ir/ir.h"

bool constant_fits(double c);                                             // float holds it: 0, or no smaller and no larger than its normal numbers
int constants_check(const struct graph *g, struct err *e);                // explains the first that does not
int constants_check_from(const struct graph *g, int node, struct err *e); // of that node and later ones
#endif
