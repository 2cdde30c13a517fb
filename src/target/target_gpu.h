// The rows of gpu.def, private to this component.
#ifndef MICA_TARGET_GPU_H
#define MICA_TARGET_GPU_H

#include "target/target.h"

const char *gpu_doc(int i);
struct target gpu_target(int i); // row i, completed by the rates that it leaves out
#endif
