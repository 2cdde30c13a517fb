// Prints kernels as C, compiles and runs them, and compares all bits of the results with the interpreter's.
#ifndef TESTS_CPRINT_HELD_H
#define TESTS_CPRINT_HELD_H

#include "sim/tile_host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct held {
  struct arena mem;
  struct err e;
  struct tile_program *p;
  struct tile_host host; // after the interpreter
  struct sim_report report;
  void **data;             // what C computed, by buffer
  int64_t compared, other; // elements of written buffers; those that differ in their bits
  double relative;         // the largest norm of a difference, relative
};
// `words`: "name[,SIZE=VALUE]...[,%BUFFER=SCALE]..." Fails the test where something does not even run, and where the
// interpreter reports a mistake.
void held_text(struct held *h, const char *words, const char *text);
void held_file(struct held *h, const char *words); // the name is the file
void held_close(struct held *h);
void held_same(struct held *h); // fails the test where a bit differs, and closes
// The error of printing a text as C, which must be refused.
void refused(const char *words, const char *text, const char *says);

#endif
