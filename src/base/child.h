// child: programs that Mica starts, and their temporary folders. Neither outlives this process for long.
//
//   child    a process at the head of a group of its own, without a shell and without a copy of this process. The kernel kills the
//            whole group, a compiler's own children too, when this process is gone, however it ended: see child.c
//   scratch  a private folder below $TMPDIR. Its owner holds a lock on it; a folder of this user that nobody has locked was left
//            by a process that was killed, and is removed by the next one (scratch_sweep)
#ifndef MICA_CHILD_H
#define MICA_CHILD_H

#include "base/memory.h"

#include <sys/types.h>

struct child {
  pid_t pid; // 0: none runs
  int leash; // end of a pipe that only this process has
};
enum { CHILD_FDS = 4 };
struct child_plan {
  const char *path;
  char *const *argv;
  char *const *env;  // NULL: this process's
  int fd[CHILD_FDS]; // become descriptors 0 to 3; -1: none; 0 to 2 are then inherited
};
// Returns 0, or the errno of the failure.
int child_start(struct child *c, const struct child_plan *p);
// Waits for its end. OK and its exit status, -1 after a signal. NO: the limits were reached, and it was ended.
int child_wait(struct child *c, const struct patience *p, int *status);
void child_end(struct child *c);                   // ends it and its group
char **child_environment(const char *const *more); // this process's, with the given NAME=VALUE added; to be freed

struct scratch {
  struct undo undo;
  int lock;
  char path[320];
};
int scratch_open(struct scratch *s, struct err *e); // also removed when memory runs out
void scratch_close(struct scratch *s);
bool scratch_full(const struct scratch *s); // its disk has no room for a compiler's output
void scratch_sweep(void);                   // removes folders of killed processes; called when a process or context starts
void scratch_abandon(void);                 // removes this process's folders: it ends now, and its threads cannot

#endif
