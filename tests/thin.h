// Long tables in the quick tier. `make test` runs most tests twice: as released, which is where wrong answers show, and with the sanitizers,
// for accesses and arithmetic that are wrong whatever the answer is. These show in the code that rows share, so only every step-th row is
// run there. Very long tables are thinned in both. With MICA_ALL set, as `make check-all` sets it, all rows are run: docs/testing.md.
#ifndef TESTS_THIN_H
#define TESTS_THIN_H

#include <stdlib.h>

static inline int quick_step(int step) { return getenv("MICA_ALL") ? 1 : step; }
static inline int thinned(int step) { return getenv("MICA_SANITIZED") ? quick_step(step) : 1; }
#endif
