// referee: checks elements of a float64 reference from a device on the CPU. Private to gpu.
#ifndef MICA_GPU_REFEREE_H
#define MICA_GPU_REFEREE_H

#include "rt/rt.h"

struct referee_answer {
  int64_t checked, differs; // elements; fewer are checked if one takes long
  int unchecked;            // outputs of which no element could be checked
};
// outputs[i]: output i of g, a graph without composites, on the inputs that `from` reads and, behind those, on `given`. `seed` selects the elements.
// steps: limit for an element; 0: about two seconds.
struct referee_answer referee(const struct graph *g, const struct reference64_from *from, double *const *given, double *const *outputs, uint64_t seed,
                              int64_t steps);

#endif
