// A world of ranks: parts of tensors, and who tells whom (mega_world.c).
#ifndef MICA_MEGA_WORLD_H
#define MICA_MEGA_WORLD_H

#include "base/base.h"

enum { MEGA_MOST_WORLD = 8, MEGA_SECTIONS = 3 };

struct mega_shard {            // the part of a whole tensor that a rank has
  int n, dim;                  // sections of dimension dim; 0: every rank has the whole
  int64_t size[MEGA_SECTIONS]; // elements of a section on one rank
};
struct mega_world { // by source and target rank; by rank
  int n;
  bool push[MEGA_MOST_WORLD][MEGA_MOST_WORLD];                                         // the source writes its slots there
  bool begin[MEGA_MOST_WORLD][MEGA_MOST_WORLD], end[MEGA_MOST_WORLD][MEGA_MOST_WORLD]; // tells its epoch; that it has ended
  bool stop[MEGA_MOST_WORLD][MEGA_MOST_WORLD];                                         // a fault of the source ends the target
  uint8_t order[MEGA_MOST_WORLD][MEGA_MOST_WORLD];                                     // [rank]: in which it adds the slots of all
};

void mega_world_make(int n, struct mega_world *w); // everybody tells all, and adds in rank order

#endif
