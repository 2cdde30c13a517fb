// A machine (serve.h) for tests: the emitted kernel, compiled for a CPU and loaded as a library.
#ifndef MICA_TEST_SHIMS_H
#define MICA_TEST_SHIMS_H

#include "serve/serve.h"

bool shims_there(void); // g++ is
int shims_open(struct serve *s, const char *folder, struct serve_machine *out, struct err *e);

#endif
