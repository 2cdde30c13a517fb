// Finds the libraries of NVIDIA (library.def) in the places of place.def.
#ifndef MICA_CUDA_LIBRARY_H
#define MICA_CUDA_LIBRARY_H

#include "base/own.h"

enum cuda_library_id {
#define LIBRARY(id, ...) LIBRARY_##id,
#include "cuda/library.def"
  LIBRARIES
};
struct cuda_found {
  char path[OWN_PATH];
  const char *place; // description of the place in which it was found
};

// A handle of dlopen; NULL and an error with a hint if no place has the library. `found` may be NULL.
void *cuda_library(enum cuda_library_id id, struct cuda_found *found, struct err *e);
void cuda_library_places(struct str *out); // the searched places in order, separated by commas

#endif
