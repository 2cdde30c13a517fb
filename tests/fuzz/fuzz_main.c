// The entry point of libFuzzer. Without libFuzzer this file is empty.
#ifdef MICA_FUZZ

#include "fuzz.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
  if (!MICA_FUZZ(data, n)) abort();
  return 0;
}

#else
typedef int fuzz_main_is_empty;
#endif
