// Looking for a library of NVIDIA's.
#ifndef MICA_CUDA_LIBRARY_H
#define MICA_CUDA_LIBRARY_H

#include "base/base.h"

// A handle of dlopen, or NULL. Patterns are those of glob.
void *cuda_library(size_t nnames, const char *const *names, size_t npatterns, const char *const *patterns);

#endif
