// Compares rows of the instruction table as C with the interpreter.
#ifndef TESTS_CPRINT_ROWS_H
#define TESTS_CPRINT_ROWS_H

#include <stdbool.h>

// All rows that GPUs of compute capability arch have and those of `beyond` (0: none) have not, on registers or, those that
// can, on global memory. Returns how many there were; fails the test where a row is not the one that was chosen, or a bit differs.
int rows_held(bool global, int arch, int beyond);

#endif
