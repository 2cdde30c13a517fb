// Writes a folder under a temporary name, flushes it, and exchanges it with the existing one (renameat2), which is then removed. If the file system
// cannot exchange, the old folder is renamed first. A process killed in between leaves it beside, where the next save and every load find it. Nothing
// is removed before its replacement is in place.
#include "export/folder.h"
#include "base/memory.h"
#include "base/own.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TRIES = 1000 };

struct writing {
  struct undo undo;
  const char *path; // as the caller gave it, for messages
  struct folder_place place;
  int fd, old; // descriptors of the new folder and of the existing one, or -1
  bool placed; // the new folder is in place and must stay
  char aside[64];
  const struct folder_files *files;
  struct err *e;
};

static int cannot(const struct writing *w, const char *what, const char *name)
{
  err_set(w->e, ERR_FILE, NOWHERE, "cannot save to %.300s: cannot %s%s%.200s: %s", w->path, what, *name ? " " : "", name, strerror(errno));
  if (errno == EACCES || errno == EBUSY || errno == EROFS || errno == EPERM)
    err_hint(w->e, "a folder is written beside the one that it replaces: name a folder whose parent you can write to");
  return (int)w->e->status;
}

static void close_all(struct writing *w)
{
  if (w->fd >= 0) close(w->fd);
  if (w->old >= 0) close(w->old);
  if (w->place.parent >= 0) close(w->place.parent);
}

static void give_up(void *arg)
{
  struct writing *w = arg;
  if (w->fd >= 0 && !w->placed) folder_empty(w->place.parent, w->aside, w->fd);
  close_all(w);
}

// ---- the temporary folder ----

// Makes the folder and locks it. Another save may remove it as left over before it is locked; it is made again then.
static int open_aside(struct writing *w)
{
  uint64_t number;
  struct stat s;
  for (int i = 0; i < TRIES; i++) {
    if (getrandom(&number, sizeof number, 0) != sizeof number) return cannot(w, "find random numbers", "");
    folder_aside(&w->place, ASIDE_NEW, number, w->aside);
    if (mkdirat(w->place.parent, w->aside, 0755)) {
      if (errno == EEXIST) continue;
      return cannot(w, "make a folder beside it", "");
    }
    w->fd = openat(w->place.parent, w->aside, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (w->fd < 0 && errno != ENOENT) return cannot(w, "open", w->aside);
    if (w->fd >= 0 && (!flock(w->fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) && !fstat(w->fd, &s) && s.st_nlink) return OK;
    if (w->fd >= 0) close(w->fd), w->fd = -1;
  }
  return errno = EEXIST, cannot(w, "make a folder beside it", "");
}

static int write_file(struct writing *w, const struct folder_file *f)
{
  const int fd = openat(w->fd, f->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return cannot(w, "write", f->name);
  bool good = true;
  for (size_t done = 0; done < f->n && good;) {
    const ssize_t n = write(fd, (const char *)f->bytes + done, f->n - done);
    good = n > 0 || (n < 0 && errno == EINTR);
    if (n > 0) done += (size_t)n;
  }
  good = good && !fsync(fd);
  const int why = errno;
  good = !close(fd) && good;
  return good ? OK : (errno = why, cannot(w, "write", f->name));
}

static void sums(const struct folder_files *f, struct str *out)
{
  char sum[2 * SHA256 + 1];
  for (int i = 0; i < f->n; i++) {
    sha256_text(f->file[i].bytes, f->file[i].n, sum);
    str_add(out, "%s  %s\n", sum, f->file[i].name);
  }
}

static int write_files(struct arena *mem, struct writing *w)
{
  struct str text = {0};
  sums(w->files, &text);
  const struct folder_file all = {FOLDER_SUMS, arena_strdup(mem, str_text(&text)), text.n};
  str_free(&text);
  TRY(open_aside(w));
  for (int i = 0; i < w->files->n; i++) TRY(write_file(w, &w->files->file[i]));
  TRY(write_file(w, &all));
  return OK;
}

// ---- the existing folder ----

// Files that do not belong to the saved folder are copied to the new one. A folder among them is an error.
static int carry(const struct writing *w, const struct folder_files *listed, const char *name)
{
  struct stat s;
  if (!strcmp(name, FOLDER_SUMS) || folder_find(listed, name) || folder_find(w->files, name)) return OK;
  if (fstatat(w->old, name, &s, AT_SYMLINK_NOFOLLOW)) return errno == ENOENT ? OK : cannot(w, "look at", name);
  if (S_ISDIR(s.st_mode)) {
    err_set(w->e, ERR_FILE, NOWHERE, "cannot save to %.300s: it holds the folder %.200s, and a saved folder holds files alone", w->path, name);
    return err_hint(w->e, "name a folder that is for this program"), (int)w->e->status;
  }
  if (w->fd < 0 || !linkat(w->old, name, w->fd, name, 0) || errno == EEXIST || errno == ENOENT) return OK;
  return cannot(w, "keep", name);
}

static int carry_all(struct arena *mem, const struct writing *w)
{
  struct folder_files listed = {0};
  struct stat s;
  int status = OK;
  folder_listed(mem, w->old, &listed);
  const int fd = openat(w->old, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *d = fd < 0 ? NULL : fdopendir(fd);
  if (!d) return fd >= 0 ? close(fd), cannot(w, "read", w->place.name) : cannot(w, "read", w->place.name);
  for (const struct dirent *x; status == OK && (x = readdir(d));)
    if (strcmp(x->d_name, ".") && strcmp(x->d_name, "..")) status = carry(w, &listed, x->d_name);
  closedir(d);
  if (status == OK && w->fd >= 0 && !fstat(w->old, &s)) fchmod(w->fd, s.st_mode & 0755);
  return status;
}

static int open_old(struct writing *w, const char *name)
{
  struct stat s, here;
  if (w->old >= 0) close(w->old);
  w->old = openat(w->place.parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (w->old < 0) return errno == ENOENT ? OK : cannot(w, "open", name);
  if (fstat(w->old, &s) || stat(".", &here) || s.st_ino != here.st_ino || s.st_dev != here.st_dev) return OK;
  err_set(w->e, ERR_FILE, NOWHERE, "cannot save to %.300s: it is the current folder, which would be replaced", w->path);
  return err_hint(w->e, "name a folder in it"), (int)w->e->status;
}

// ---- putting it in place ----

static bool move(struct writing *w, const char *from, const char *to, unsigned how)
{
  if (folder_rename(w->place.parent, from, to, how)) return false;
  if (from == w->aside) w->placed = true;
  return true;
}

// Removes the replaced folder. Files that were added to it meanwhile are moved to the new folder first.
static bool retire(struct arena *mem, struct writing *w, const char *name)
{
  struct err ignored = {0}, *e = w->e;
  w->e = &ignored;
  if (folder_is(&w->place, name, w->old) && carry_all(mem, w) == OK) folder_empty(w->place.parent, name, w->old);
  return w->e = e, true;
}

// Takes the lock of the folder to replace, so that no two saves replace the same one. False: another save holds the lock, or has replaced it.
static bool lock_old(const struct writing *w)
{
  return (!flock(w->old, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) && folder_is(&w->place, w->place.name, w->old);
}

// False: another process was first, or the error is set.
static bool replace(struct arena *mem, struct writing *w)
{
  char away[64];
  if (move(w, w->aside, w->place.name, RENAME_EXCHANGE)) return retire(mem, w, w->aside);
  if (errno == ENOENT) return false;
  if (!folder_unsupported()) return cannot(w, "put it in the place of", w->place.name), false;
  memcpy(away, w->aside, sizeof away);
  memcpy(away + 6, "old", 3); // the same number
  if (!move(w, w->place.name, away, RENAME_NOREPLACE)) return false;
  if (move(w, w->aside, w->place.name, RENAME_NOREPLACE)) return retire(mem, w, away);
  return move(w, away, w->place.name, RENAME_NOREPLACE), false;
}

static int put(struct arena *mem, struct writing *w)
{
  static const struct timespec pause = {.tv_nsec = 10000000};
  for (int i = 0; i < TRIES; i++) {
    TRY(open_old(w, w->place.name));
    if (w->old < 0) {
      if (move(w, w->aside, w->place.name, RENAME_NOREPLACE)) return OK;
      if (errno != EEXIST && errno != ENOTEMPTY) return cannot(w, "put it in place as", w->place.name);
      continue;
    }
    if (!lock_old(w)) {
      nanosleep(&pause, NULL);
      continue;
    }
    TRY(carry_all(mem, w));
    if (fsync(w->fd)) return cannot(w, "write", w->aside);
    if (replace(mem, w)) return OK;
    if (w->e->status != OK) return (int)w->e->status;
  }
  return errno = EBUSY, cannot(w, "put it in place as", w->place.name);
}

static int write_whole(struct arena *mem, struct writing *w)
{
  TRY(folder_place(mem, w->path, true, &w->place, w->e));
  folder_sweep(&w->place);
  TRY(write_files(mem, w));
  if (fsync(w->fd)) return cannot(w, "write", w->aside);
  return put(mem, w);
}

int folder_write(struct arena *mem, const char *path, const struct folder_files *f, struct err *e)
{
  struct writing w = {.path = path, .place.parent = -1, .fd = -1, .old = -1, .files = f, .e = e};
  undo_push(&w.undo, give_up, &w);
  const int status = write_whole(mem, &w);
  undo_pop(&w.undo);
  if (status != OK) return give_up(&w), status;
  fsync(w.place.parent);
  return close_all(&w), OK;
}

int folder_check(struct arena *mem, const char *path, struct err *e)
{
  const struct folder_files none = {0};
  struct writing w = {.path = path, .place.parent = -1, .fd = -1, .old = -1, .files = &none, .e = e};
  int status = folder_place(mem, path, true, &w.place, e);
  if (status == OK && faccessat(w.place.parent, ".", W_OK | X_OK, 0)) status = cannot(&w, "make a folder beside it", "");
  if (status == OK) status = open_old(&w, w.place.name);
  if (status == OK && w.old >= 0) status = carry_all(mem, &w);
  return close_all(&w), status;
}
