// A world of ranks: shards of tensors, and tables of writes and signals between ranks (mega_world.c).
#ifndef MICA_MEGA_WORLD_H
#define MICA_MEGA_WORLD_H

#include "base/base.h"

enum { MEGA_MOST_WORLD = 8, MEGA_SECTIONS = 3 };

struct mega_shard {            // the part of a whole tensor that a rank has
  int n, dim;                  // sections of dimension dim; 0: every rank has the whole
  int64_t size[MEGA_SECTIONS]; // elements of a section on one rank
};
struct mega_world { // indexed by source and target rank, or by rank
  int n;
  bool push[MEGA_MOST_WORLD][MEGA_MOST_WORLD];                                         // the source writes its slots on the target
  bool begin[MEGA_MOST_WORLD][MEGA_MOST_WORLD], end[MEGA_MOST_WORLD][MEGA_MOST_WORLD]; // begin: the source sends its epoch; end: it signals its end
  bool stop[MEGA_MOST_WORLD][MEGA_MOST_WORLD];                                         // a fault of the source ends the target
  uint8_t order[MEGA_MOST_WORLD][MEGA_MOST_WORLD];                                     // [rank]: the order in which it adds the slots of all
};

void mega_world_make(int n, struct mega_world *w); // all ranks signal all others, and add in rank order

#endif
