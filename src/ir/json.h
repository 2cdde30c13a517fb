// Shared by the JSON writer and reader.
#ifndef MICA_IR_JSON_H
#define MICA_IR_JSON_H

#include "ir/ir.h"

enum { JSON_VERSION = 1 };
#define GRID_AXES "xyz"
#define LOOP_AXES "ijkl"

#endif
