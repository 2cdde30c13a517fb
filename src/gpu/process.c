// A worker process: started with one end of a socket, and ended at any time.
#include "gpu/wire.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

bool process_start(const char *path, char **env, struct child *c, int *fd)
{
  int pair[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
  *c = (struct child){0, -1};
  if (null < 0) return false;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return close(null), false;
  char *argv[] = {(char *)(uintptr_t)path, (char *)"gpu-worker", (char *)"3", NULL};
  int bad = child_start(c, &(struct child_plan){path, argv, env, {null, null, -1, pair[1]}});
  close(pair[1]), close(null);
  if (bad) return close(pair[0]), false;
  return *fd = pair[0], true;
}

void process_end(struct child *c, int fd)
{
  close(fd);
  child_end(c);
}
