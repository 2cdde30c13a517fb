// A machine for tests: the kernel's text compiled for a CPU, as a library that is loaded.
#ifndef MICA_TEST_SHIMS_H
#define MICA_TEST_SHIMS_H

#include "serve/serve.h"

bool shims_there(void); // g++ is
int shims_open(struct serve *s, const char *folder, struct serve_machine *out, struct err *e);

#endif
