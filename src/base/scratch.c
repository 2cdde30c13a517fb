// Folders "mica-PID-START-XXXXXX" below $TMPDIR. Whoever made one holds a lock on it (flock) until it is removed or the process ends,
// so whether one was left is asked of the kernel, and a number that two processes had, or two containers, misleads nobody. PID and
// START, when the process began, are for scratch_abandon.
#include "base/child.h"
#include "base/own.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char BEGINS[] = "mica-";

static const char *below(void)
{
  const char *tmp = getenv("TMPDIR");
  return tmp && *tmp ? tmp : "/tmp";
}

// In ticks since the system started: field 22, the twentieth behind the name in parentheses.
static unsigned long long began(void)
{
  char text[1024];
  unsigned long long ticks = 0;
  int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
  if (fd >= 0) close(fd);
  text[MAX(n, 0)] = 0;
  char *at = strrchr(text, ')');
  for (int i = 0; i < 20 && at; i++) at = strchr(at + 1, ' ');
  if (at) ticks = strtoull(at, NULL, 10);
  return ticks;
}

static void own_prefix(char out[64]) { snprintf(out, 64, "%s%ld-%llu-", BEGINS, (long)getpid(), began()); }

static int open_folder(int at, const char *path) { return openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }

// Takes the descriptor.
static void empty(int fd)
{
  DIR *d = fdopendir(fd);
  if (!d) {
    close(fd);
    return;
  }
  for (const struct dirent *x; (x = readdir(d));)
    if (strcmp(x->d_name, ".") && strcmp(x->d_name, "..")) unlinkat(fd, x->d_name, 0);
  closedir(d);
}

// ---- one ----

static void drop(void *p)
{
  struct scratch *s = p;
  int fd = open_folder(AT_FDCWD, s->path);
  if (fd >= 0) empty(fd);
  rmdir(s->path);
  close(s->lock);
}

// A sweeper may have found the folder before it was locked; it is gone then.
static bool lock_it(struct scratch *s)
{
  struct stat st;
  s->lock = open_folder(AT_FDCWD, s->path);
  if (s->lock < 0) return false;
  flock(s->lock, LOCK_EX); // where folders cannot be locked, nothing is swept
  if (!fstat(s->lock, &st) && st.st_nlink) return true;
  close(s->lock);
  return false;
}

// Says where the name of the folder comes from, unless the hint is of something else.
static void named(struct err *e)
{
  const char *tmp = getenv("TMPDIR");
  if (e->id != ERR_FILE || strcmp(e->hint, err_usual_hint(ERR_FILE))) return;
  if (tmp && *tmp)
    err_hint(e, "TMPDIR names the folder for temporary files: name one that exists and can be written, or unset it");
  else
    err_hint(e, "temporary files need a folder that exists and can be written: name one by TMPDIR");
}

int scratch_open(struct scratch *s, struct err *e)
{
  enum { TRIES = 100 };
  char mine[64];
  bool made = false;
  int status = own_above(below(), e); // nobody else can put another folder in the place of this one
  if (status != OK) return named(e), status;
  own_prefix(mine);
  errno = 0;
  for (int i = 0; i < TRIES && !made && (!errno || errno == ENOENT); i++) {
    if (snprintf(s->path, sizeof s->path, "%s/%sXXXXXX", below(), mine) >= (int)sizeof s->path)
      errno = ENAMETOOLONG;
    else if (mkdtemp(s->path))
      made = lock_it(s);
    else
      break;
  }
  if (!made) {
    status = err_set(e, ERR_FILE, NOWHERE, "cannot make a folder in %.200s: %s", below(), strerror(errno));
    return named(e), status;
  }
  undo_push(&s->undo, drop, s);
  return OK;
}

void scratch_close(struct scratch *s)
{
  undo_pop(&s->undo);
  drop(s);
}

// ---- all ----

static void for_each(const char *prefix, void (*f)(int folder, const char *name))
{
  DIR *d = opendir(below());
  for (const struct dirent *x; d && (x = readdir(d));)
    if (!strncmp(x->d_name, prefix, strlen(prefix))) f(dirfd(d), x->d_name);
  if (d) closedir(d);
}

// "mica-" and two numbers and a name of mkdtemp: what else begins alike is not Mica's.
static bool like_one(const char *name)
{
  static const char digits[] = "0123456789";
  const char *p = name + sizeof BEGINS - 1;
  for (int i = 0; i < 2; i++) {
    size_t n = strspn(p, digits);
    if (!n || p[n] != '-') return false;
    p += n + 1;
  }
  return strlen(p) == 6;
}

static void remove_at(int folder, const char *name, bool locked)
{
  struct stat st;
  int fd = like_one(name) ? open_folder(folder, name) : -1;
  if (fd < 0) return;
  bool mine = !fstat(fd, &st) && st.st_uid == geteuid();
  if (!mine || (!locked && flock(fd, LOCK_EX | LOCK_NB))) {
    close(fd);
    return;
  }
  int again = dup(fd); // holds the lock until the folder is gone
  empty(fd);
  unlinkat(folder, name, AT_REMOVEDIR);
  if (again >= 0) close(again);
}

static void remove_left(int folder, const char *name) { remove_at(folder, name, false); }
static void remove_own(int folder, const char *name) { remove_at(folder, name, true); }

bool scratch_full(const struct scratch *s)
{
  static const uint64_t LEAST = 1 << 20; // bytes
  struct statvfs disk;
  return !statvfs(s->path, &disk) && (uint64_t)disk.f_bavail * disk.f_frsize < LEAST;
}

void scratch_sweep(void) { for_each(BEGINS, remove_left); }

void scratch_abandon(void)
{
  char mine[64];
  own_prefix(mine);
  for_each(mine, remove_own);
}
