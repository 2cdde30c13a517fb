// Private to this component.
//
//   group    block operators that become one thread graph; an operator that is not fused is a group of its own
//   thread.c        finds the groups, and rebuilds the block graph
//   thread_build.c  makes a THREAD node of a group
//   thread_again.c  computes values again instead of keeping them
#ifndef MICA_THREAD_FUSE_H
#define MICA_THREAD_FUSE_H

#include "thread/thread.h"

enum fuse {
#define FUSE(id, ...) FUSE_##id,
#include "thread/rule.def"
#undef FUSE
  FUSES
};

struct thread_block {
  struct arena *mem;
  const struct graph *g; // the old block graph
  struct graph *to;      // the new block graph
  int *group;            // by node: its group
  uint64_t *needs;       // bit matrix: row i has the nodes that node i depends on
  int words;             // words of a row of `needs`
  int *moved;            // by tensor of g: the tensor of `to`
  struct err *e;
};

void thread_needs(struct thread_block *b); // fills `needs`
bool node_needs(const struct thread_block *b, int node, int on);
int group_size(const struct thread_block *b, int group);
bool group_reads(const struct thread_block *b, int group, int tensor);  // the group reads it, and it is computed outside
bool group_result(const struct thread_block *b, int group, int tensor); // computed in the group, read outside
// thread_build.c: appends the THREAD node of a group to b->to, and sets b->moved of its results.
int build_thread(struct thread_block *b, int group);

#endif
