// NVIDIA's libraries where they are usually found: by name, as the dynamic linker looks for them, then in folders of the toolkit,
// the latest first.
#include "cuda/library.h"

#include <dlfcn.h>
#include <glob.h>

// Once loaded a library stays: it keeps memory of its own that unloading would leak, and loading takes longer than compiling.
enum { HOW = RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE };

void *cuda_library(size_t nnames, const char *const *names, size_t npatterns, const char *const *patterns)
{
  void *so = NULL;
  for (size_t i = 0; i < nnames && !so; i++) so = dlopen(names[i], HOW);
  for (size_t i = 0; i < npatterns && !so; i++) {
    glob_t found = {0};
    if (!glob(patterns[i], 0, NULL, &found))
      for (size_t j = found.gl_pathc; j-- > 0 && !so;) so = dlopen(found.gl_pathv[j], HOW);
    globfree(&found);
  }
  return so;
}
