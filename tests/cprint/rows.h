// Rows of the instruction table as C, held against the interpreter.
#ifndef TESTS_CPRINT_ROWS_H
#define TESTS_CPRINT_ROWS_H

#include <stdbool.h>

// All rows of architectures from `least` to `most`, on registers or, those that can, on global memory. Returns how many
// there were; fails the test where a row is not the one that was chosen, or a bit differs.
int rows_held(bool global, int least, int most);

#endif
