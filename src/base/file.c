// Whole files. Writing uses a temporary name beside the file, flushes it, and renames it. The writer locks the temporary file. An unlocked one was
// left by a killed process, and the next write of the same file removes it.
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LARGEST = 64 << 20, DIGITS = 16, TRIES = 100, DAY = 24 * 3600 };
static const char TEMPORARY[] = ".tmp";

static int failed(struct err *e, const char *what, const char *path)
{
  const int why = errno, status = err_set(e, why == ENOMEM ? ERR_MEMORY : ERR_FILE, NOWHERE, "cannot %s %s: %s", what, path, strerror(why));
  if (why == EISDIR) err_hint(e, "it is a folder: name a file in it");
  return status;
}

static int slurp(FILE *f, struct arena *a, const char *path, char **text, size_t *n, struct err *e)
{
  struct stat st;
  if (fstat(fileno(f), &st) || (S_ISDIR(st.st_mode) && (errno = EISDIR))) return failed(e, "read", path);
  struct str s = {0};
  char chunk[1 << 14];
  size_t got;
  while ((got = fread(chunk, 1, sizeof chunk, f)) > 0 && s.n <= LARGEST) str_raw(&s, chunk, got);
  int bad = ferror(f);
  if (!bad && s.n <= LARGEST) *text = arena_copy(a, str_text(&s), s.n + 1), *n = s.n;
  size_t size = s.n;
  str_free(&s);
  if (bad) return failed(e, "read", path);
  if (size > LARGEST) return err_set(e, ERR_LIMIT, NOWHERE, "%s is larger than 64 MiB", path);
  return OK;
}

static void drop(void *f) { fclose(f); }

int file_read(struct arena *a, const char *path, char **text, size_t *n, struct err *e)
{
  FILE *f = fopen(path, "rb");
  if (!f) return failed(e, "open", path);
  struct undo undo;
  undo_push(&undo, drop, f);
  int status = slurp(f, a, path, text, n, e);
  undo_pop(&undo);
  fclose(f);
  return status;
}

// ---- temporary files ----

// "base.0123456789abcdef.tmp"
static bool is_temporary(const char *name, const char *base)
{
  size_t n = strlen(base);
  if (strncmp(name, base, n) || name[n] != '.') return false;
  name += n + 1;
  return strspn(name, "0123456789abcdef") == DIGITS && !strcmp(name + DIGITS, TEMPORARY);
}

// On a file system without locks, a file younger than a day may still be in use. The name is checked again under the lock.
static bool is_left_over(int folder, const char *name, int fd)
{
  struct stat s, named;
  if (fstat(fd, &s) || !S_ISREG(s.st_mode) || s.st_uid != geteuid()) return false;
  if (flock(fd, LOCK_EX | LOCK_NB) && (errno == EWOULDBLOCK || time(NULL) - s.st_mtime <= DAY)) return false;
  return !fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) && s.st_ino == named.st_ino && s.st_dev == named.st_dev;
}

static void sweep_temporary(const char *path)
{
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  struct str folder = {0};
  str_raw(&folder, slash ? path : ".", slash ? (size_t)(slash - path) + 1 : 1);
  DIR *d = opendir(str_text(&folder));
  str_free(&folder);
  if (!d) return;
  for (const struct dirent *x; (x = readdir(d));) {
    if (!is_temporary(x->d_name, base)) continue;
    const int fd = openat(dirfd(d), x->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) continue;
    if (is_left_over(dirfd(d), x->d_name, fd)) unlinkat(dirfd(d), x->d_name, 0);
    close(fd);
  }
  closedir(d);
}

// Makes and locks it. If another process takes it for left over before it is locked, it is made again. -1: errno has the reason.
static int open_temporary(const char *path, struct str *name)
{
  for (int i = 0; i < TRIES; i++) {
    uint64_t number = 0; // threads write to the same file too
    struct stat s;
    if (getrandom(&number, sizeof number, 0) != sizeof number) return -1;
    name->n = 0;
    str_add(name, "%s.%016llx%s", path, (unsigned long long)number, TEMPORARY);
    const int fd = open(name->p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return -1;
    if ((!flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) && !fstat(fd, &s) && s.st_nlink) return fd;
    close(fd);
  }
  return errno = EEXIST, -1;
}

int file_write(const char *path, const char *text, size_t n, struct err *e)
{
  struct str tmp = {0};
  sweep_temporary(path);
  const int fd = open_temporary(path, &tmp);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
  int status = OK;
  if (!f) {
    status = failed(e, "write", path);
  } else {
    bool good = fwrite(text, 1, n, f) == n;
    good = !fflush(f) && !fsync(fileno(f)) && good;
    if (!good || rename(tmp.p, path)) { // under the lock
      status = failed(e, "write", path);
      unlink(tmp.p);
    }
    fclose(f);
  }
  str_free(&tmp);
  return status;
}

int file_mkdirs(const char *path, struct err *e)
{
  struct str s = {0};
  str_add(&s, "%s", path);
  int status = OK;
  for (size_t i = 1; i <= s.n && status == OK; i++) {
    if (s.p[i] != '/' && s.p[i]) continue;
    char kept = s.p[i];
    s.p[i] = 0;
    if (mkdir(s.p, 0777) && errno != EEXIST) status = failed(e, "make the folder", path);
    s.p[i] = kept;
  }
  struct stat st;
  if (status == OK && (stat(path, &st) || (!S_ISDIR(st.st_mode) && (errno = ENOTDIR)))) status = failed(e, "make the folder", path);
  str_free(&s);
  return status;
}
