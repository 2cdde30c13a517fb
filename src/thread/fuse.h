// Private to this component.
//
//   group    block operators that become one thread graph; every operator is in one, mostly alone
//   thread.c        finds the groups, and builds the block graph again
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
  const struct graph *g; // the block graph as it was
  struct graph *to;      // and as it becomes
  int *group;            // of every node
  uint64_t *needs;       // bit matrix: nodes that a node depends on
  int words;             // of a row of `needs`
  int *moved;            // where each tensor went
  struct err *e;
};

void thread_needs(struct thread_block *b); // fills `needs`
bool node_needs(const struct thread_block *b, int node, int on);
int group_size(const struct thread_block *b, int group);
bool group_reads(const struct thread_block *b, int group, int tensor);  // from outside
bool group_result(const struct thread_block *b, int group, int tensor); // made inside, read outside
// thread_build.c: appends the THREAD node of a group to b->to and notes where its results went.
int build_thread(struct thread_block *b, int group);

#endif
