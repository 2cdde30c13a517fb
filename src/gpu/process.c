// A worker process: started with one end of a socket, without a shell and without copying this process, which may have
// many threads; ended whatever it is doing.
#include "gpu/wire.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum { CHILD_FD = 3 };

char **process_environment(const char *const *more)
{
  int n = 0, m = 0, k = 0;
  while (environ[n]) n++;
  while (more && more[m]) m++;
  char **all = MEM_NEWS(char *, n + m + 1);
  for (int i = 0; i < m; i++) all[k++] = (char *)(uintptr_t)more[i];
  for (int i = 0; i < n; i++) {
    bool replaced = false;
    for (int j = 0; j < m && !replaced; j++) replaced = !strncmp(environ[i], more[j], strcspn(more[j], "=") + 1);
    if (!replaced) all[k++] = environ[i];
  }
  return all;
}

bool process_start(char *path, char **env, pid_t *pid, int *fd)
{
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return false;
  posix_spawn_file_actions_t f;
  posix_spawn_file_actions_init(&f);
  posix_spawn_file_actions_adddup2(&f, pair[1], CHILD_FD);
  posix_spawn_file_actions_addopen(&f, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&f, 1, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t a;
  posix_spawnattr_init(&a);
  posix_spawnattr_setflags(&a, POSIX_SPAWN_SETPGROUP);
  char *argv[] = {path, (char *)"gpu-worker", (char *)"3", NULL};
  int bad = posix_spawn(pid, path, &f, &a, argv, env);
  posix_spawnattr_destroy(&a);
  posix_spawn_file_actions_destroy(&f);
  close(pair[1]);
  if (bad) return close(pair[0]), *pid = 0, false;
  return *fd = pair[0], true;
}

void process_end(pid_t pid, int fd)
{
  close(fd);
  kill(pid, SIGKILL);
  while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}
