// Reads a saved folder through descriptors: of the folder, then of each file in it. The checked bytes are the bytes that are used, so later writes
// have no effect.
#include "export/folder.h"
#include "base/memory.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LARGEST = 64 << 20, MOST_FILES = 1 << 16, TRIES = 100, SUM = 2 * SHA256 };

const struct folder_file *folder_find(const struct folder_files *f, const char *name)
{
  for (int i = 0; i < f->n; i++)
    if (!strcmp(f->file[i].name, name)) return &f->file[i];
  return NULL;
}

struct opened {
  struct undo undo;
  int fd;
};

static void close_one(void *o) { close(((struct opened *)o)->fd); }

// ---- a file ----

static int changed(const char *folder, const char *name, const char *what, struct err *e)
{
  return err_set(e, ERR_CHANGED, NOWHERE, "%.300s/%.200s %s", folder, name, what);
}

static int read_open(struct arena *mem, int fd, const char *folder, const char *name, struct folder_file *out, struct err *e)
{
  const char *path = arena_printf(mem, "%s/%s", folder, name);
  struct stat s;
  TRY(own_check(fd, path, OWN_ROOTS, e));
  if (fstat(fd, &s) || !S_ISREG(s.st_mode)) return changed(folder, name, "is no regular file", e);
  if (s.st_size > LARGEST) return err_set(e, ERR_LIMIT, NOWHERE, "%.700s is larger than 64 MiB", path);
  char *bytes = arena_alloc(mem, (size_t)s.st_size + 1);
  size_t n = 0;
  for (ssize_t got = 1; got && n < (size_t)s.st_size; n += (size_t)MAX(got, 0))
    if ((got = read(fd, bytes + n, (size_t)s.st_size - n)) < 0 && errno != EINTR)
      return err_set(e, ERR_FILE, NOWHERE, "cannot read %.700s: %s", path, strerror(errno));
  *out = (struct folder_file){name, bytes, n};
  return OK;
}

static int read_file(struct arena *mem, int at, const char *folder, const char *name, struct folder_file *out, struct err *e)
{
  struct opened o = {.fd = openat(at, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  if (o.fd < 0 && errno == ENOENT) return changed(folder, name, "is missing", e);
  if (o.fd < 0) return err_set(e, ERR_FILE, NOWHERE, "cannot open %.300s/%.200s: %s", folder, name, strerror(errno));
  undo_push(&o.undo, close_one, &o);
  const int status = read_open(mem, o.fd, folder, name, out, e);
  undo_pop(&o.undo);
  return close(o.fd), status;
}

// ---- the list ----

// A line of sha256sum: the sum, two spaces (or one and a star), the name.
static bool line_of(char *line, struct folder_file *out)
{
  const size_t digits = strspn(line, "0123456789abcdef");
  if (digits != SUM || line[SUM] != ' ' || (line[SUM + 1] != ' ' && line[SUM + 1] != '*')) return false;
  line[SUM] = 0;
  *out = (struct folder_file){line + SUM + 2, line, SUM};
  return *out->name && *out->name != '.' && !strchr(out->name, '/') && strcmp(out->name, FOLDER_SUMS);
}

static int list_of(struct arena *mem, const struct folder_file *text, const char *folder, struct folder_files *out, struct err *e)
{
  struct folder_file *file = NULL;
  int cap = 0, line = 0;
  *out = (struct folder_files){0};
  for (char *p = arena_strdup(mem, text->bytes), *end; *p; p = end) {
    struct folder_file one;
    end = p + strcspn(p, "\n");
    if (*end) *end++ = 0;
    line++;
    if (!line_of(p, &one) || folder_find(out, one.name) || line > MOST_FILES)
      return changed(folder, FOLDER_SUMS, arena_printf(mem, "is no list of checksums: line %d", line), e);
    PUSH(mem, file, out->n, cap) = one;
    out->file = file;
  }
  return OK;
}

int folder_listed(struct arena *mem, int at, struct folder_files *out)
{
  struct folder_file text;
  struct err e = {0};
  *out = (struct folder_files){0};
  return read_file(mem, at, ".", FOLDER_SUMS, &text, &e) == OK && list_of(mem, &text, ".", out, &e) == OK ? OK : NO;
}

// ---- the folder ----

static int read_all(struct arena *mem, int at, const char *folder, struct folder_files *out, struct err *e)
{
  struct folder_file text;
  struct folder_files listed;
  char sum[SUM + 1];
  TRY(own_check(at, folder, OWN_ROOTS, e));
  TRY(read_file(mem, at, folder, FOLDER_SUMS, &text, e));
  TRY(list_of(mem, &text, folder, &listed, e));
  struct folder_file *file = NEWS(mem, struct folder_file, listed.n + 1);
  for (int i = 0; i < listed.n; i++) {
    TRY(read_file(mem, at, folder, listed.file[i].name, &file[i], e));
    sha256_text(file[i].bytes, file[i].n, sum);
    if (strcmp(sum, listed.file[i].bytes)) return changed(folder, file[i].name, "is not the file that was saved", e);
  }
  *out = (struct folder_files){listed.n, file};
  return OK;
}

// On a file system without exchanges, an interrupted save leaves the older folder beside.
static int open_older(struct arena *mem, const char *path)
{
  struct folder_place p = {.parent = -1};
  struct err none = {0};
  char older[64];
  int fd = -1;
  if (folder_place(mem, path, false, &p, &none) == OK && folder_older(&p, older))
    fd = openat(p.parent, older, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (p.parent >= 0) close(p.parent);
  return fd < 0 ? (errno = ENOENT, -1) : fd;
}

static int open_folder(struct arena *mem, const char *path)
{
  int fd = -1;
  for (int i = 0; i < TRIES && fd < 0; i++) {
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT) return fd;
    if (fd < 0) fd = open_older(mem, path);
  }
  return fd;
}

// Without exchanges the folder is missing for a moment during a save, so a missing folder is tried a second time.
static bool replaced(int fd, const char *path)
{
  struct stat was, is;
  if (stat(path, &is)) return errno == ENOENT;
  return !fstat(fd, &was) && (was.st_ino != is.st_ino || was.st_dev != is.st_dev);
}

// If the folder is removed while it is read, a save replaced it: the new folder is read then.
int folder_read(struct arena *mem, const char *path, struct folder_files *out, struct err *e)
{
  for (int tries = 1;; tries++) {
    struct opened o = {.fd = open_folder(mem, path)};
    if (o.fd < 0) return err_set(e, ERR_FILE, NOWHERE, "cannot open %.600s: %s", path, strerror(errno));
    undo_push(&o.undo, close_one, &o);
    const int status = read_all(mem, o.fd, path, out, e);
    const bool again = status != OK && tries < TRIES && replaced(o.fd, path);
    undo_pop(&o.undo);
    close(o.fd);
    if (!again) return status;
    *e = (struct err){0};
  }
}
