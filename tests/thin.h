// Long tables under the sanitizers. `make test` runs every test twice: as released, with all rows, which is where wrong answers
// show, and with the sanitizers, for accesses and arithmetic that are wrong whatever the answer is. These show in the code that
// rows share; so only every so-many-th row is run there, unless MICA_ALL is set, as `make check-all` does.
#ifndef TESTS_THIN_H
#define TESTS_THIN_H

#include <stdlib.h>

static inline int thinned(int step) { return getenv("MICA_SANITIZED") && !getenv("MICA_ALL") ? step : 1; }
#endif
