// referee: checks elements of a float64 reference from a device on the CPU. Private to gpu.
#ifndef MICA_GPU_REFEREE_H
#define MICA_GPU_REFEREE_H

#include "rt/rt.h"

struct referee_answer {
  int64_t checked, differs; // elements; fewer are checked if one takes long
};
// outputs[i]: output i of g, a graph without composites, on the inputs that `from` reads. `seed` selects the elements.
struct referee_answer referee(const struct graph *g, const struct reference64_from *from, double *const *outputs, uint64_t seed);

#endif
