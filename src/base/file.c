// Whole files. Writing goes to a temporary name beside the file, is flushed, and is then renamed.
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGEST = 64 << 20 };

static int failed(struct err *e, const char *what, const char *path)
{
  return err_set(e, errno == ENOMEM ? ERR_MEMORY : ERR_FILE, NOWHERE, "cannot %s %s: %s", what, path, strerror(errno));
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

int file_write(const char *path, const char *text, size_t n, struct err *e)
{
  struct str tmp = {0};
  uint64_t number = 0; // threads write to the same file too
  if (getrandom(&number, sizeof number, 0) != sizeof number) return failed(e, "write", path);
  str_add(&tmp, "%s.%016llx.tmp", path, (unsigned long long)number);
  const int fd = open(tmp.p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
  int status = OK;
  if (!f) {
    status = failed(e, "write", path);
  } else {
    bool good = fwrite(text, 1, n, f) == n;
    good = !fflush(f) && !fsync(fileno(f)) && good;
    good = !fclose(f) && good;
    if (!good || rename(tmp.p, path)) {
      status = failed(e, "write", path);
      unlink(tmp.p);
    }
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
