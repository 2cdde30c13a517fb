// constants: checks the constants of programs.
#ifndef MICA_CONSTANTS_H
#define MICA_CONSTANTS_H

#include "ir/ir.h"

bool constant_fits(double c);                                             // 0, or of a size within the normal numbers of fp32
int constants_check(const struct graph *g, struct err *e);                // an error for the first constant that does not fit
int constants_check_from(const struct graph *g, int node, struct err *e); // checks that node and later ones
#endif
