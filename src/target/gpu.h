// The rows of gpu.def, inside the room.
#ifndef MICA_TARGET_GPU_H
#define MICA_TARGET_GPU_H

#include "target/target.h"

int gpu_count(void);
const struct target *gpu_row(int i);
const char *gpu_doc(int i);
#endif
