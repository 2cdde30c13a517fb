// range: spans of time for profilers (NVTX): Nsight Systems and Nsight Compute show them around searches, races and launches. Nothing is linked: a
// profiler names its library in NVTX_INJECTION64_PATH, and asks for a table of functions, which it fills. Without one a range costs a look at a flag.
#ifndef MICA_RANGE_H
#define MICA_RANGE_H

#include <stdbool.h>

bool range_push(const char *name); // false: nobody listens, and nothing is to be popped
void range_pop(void);

#endif
