// Who can change a file or a folder (own.h). Paths are walked from the root by descriptors, one folder after the other, and each is asked
// of its descriptor; so no step depends on a name that somebody changes meanwhile. Nothing here takes memory.
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINKS = 40, PLACE = O_PATH | O_NOFOLLOW | O_CLOEXEC };

struct own_walk {
  int fd; // of `real`
  bool make;
  int links;
  char real[OWN_PATH], rest[OWN_PATH]; // "" is the root; what is yet to come
  struct err *e;
};

static int failed(struct err *e, const char *what, const char *path)
{
  return err_set(e, ERR_FILE, NOWHERE, "cannot %s %s: %s", what, path, strerror(errno));
}

// A group that has the user's name, is the user's own, and has no other member.
static bool private_group(uid_t uid, gid_t gid)
{
  struct passwd u, *user = NULL;
  struct group g, *group = NULL;
  char text[2][4096];
  if (!uid || getpwuid_r(uid, &u, text[0], sizeof text[0], &user) || !user || user->pw_gid != gid) return false;
  if (getgrgid_r(gid, &g, text[1], sizeof text[1], &group) || !group || strcmp(group->gr_name, user->pw_name)) return false;
  for (char **m = group->gr_mem; *m; m++)
    if (strcmp(*m, user->pw_name)) return false;
  return true;
}

static bool others_write(const struct stat *s) { return s->st_mode & S_IWOTH || (s->st_mode & S_IWGRP && !private_group(geteuid(), s->st_gid)); }

static int untrusted(struct err *e, const char *path, const char *why, const char *hint)
{
  err_set(e, ERR_UNTRUSTED, NOWHERE, "%.500s %s", path, why);
  return err_hint(e, hint, path), (int)e->status;
}

static int belongs(const struct stat *s, const char *path, bool roots, struct err *e)
{
  if (s->st_uid == geteuid() || (roots && !s->st_uid)) return OK;
  char why[80];
  snprintf(why, sizeof why, "belongs to user %ld, and this is user %ld", (long)s->st_uid, (long)geteuid());
  return untrusted(e, path, why, "only what belongs to this user is used; name another place, or make a copy");
}

static int closed(const struct stat *s, const char *path, struct err *e)
{
  if (!others_write(s)) return OK;
  return untrusted(e, path, "can be written by other users",
                   s->st_mode & S_ISVTX ? "name a folder of your own, such as %.400s/mine/" : "chmod go-w %.400s");
}

// A folder on the way: nobody else can rename what is in it.
static int passes(const struct stat *s, const char *path, struct err *e)
{
  TRY(belongs(s, path, true, e));
  return s->st_mode & S_ISVTX ? OK : closed(s, path, e);
}

int own_check(int fd, const char *path, unsigned how, struct err *e)
{
  struct stat s;
  if (fstat(fd, &s)) return failed(e, "look at", path);
  TRY(belongs(&s, path, how & OWN_ROOTS, e));
  if (how & OWN_SECRET && s.st_mode & (S_IRWXG | S_IRWXO))
    return untrusted(e, path, "is a secret that other users can read", "remove it: another one is made");
  return closed(&s, path, e);
}

// ---- the walk ----

static int walk_root(struct own_walk *w)
{
  struct stat s;
  if (w->fd >= 0) close(w->fd);
  *w->real = 0;
  if ((w->fd = open("/", PLACE | O_DIRECTORY)) < 0 || fstat(w->fd, &s)) return failed(w->e, "open", "/");
  return passes(&s, "/", w->e);
}

// `text` goes ahead of what is yet to come.
static int walk_ahead(struct own_walk *w, const char *text)
{
  char rest[OWN_PATH];
  memcpy(rest, w->rest, sizeof rest);
  if (snprintf(w->rest, sizeof w->rest, "%s/%s", text, rest) < (int)sizeof w->rest) return OK;
  return errno = ENAMETOOLONG, failed(w->e, "follow", text);
}

static int walk_link(struct own_walk *w, int link, const struct stat *s, const char *path)
{
  char text[OWN_PATH];
  TRY(belongs(s, path, true, w->e));
  const ssize_t n = readlinkat(link, "", text, sizeof text - 1);
  if (n < 0 || (++w->links > MOST_LINKS && (errno = ELOOP))) return failed(w->e, "follow", path);
  text[n] = 0;
  TRY(walk_ahead(w, text));
  return *text == '/' ? walk_root(w) : OK;
}

static int walk_up(struct own_walk *w)
{
  const int up = openat(w->fd, "..", PLACE | O_DIRECTORY);
  if (up < 0) return failed(w->e, "open", w->real);
  close(w->fd);
  w->fd = up;
  char *slash = strrchr(w->real, '/');
  if (slash) *slash = 0;
  return OK;
}

static int walk_make(const struct own_walk *w, const char *name, const char *path)
{
  if (mkdirat(w->fd, name, 0700)) return errno == EEXIST ? OK : failed(w->e, "make the folder", path);
  return fchmodat(w->fd, name, 0700, 0) ? failed(w->e, "make the folder", path) : OK;
}

// Into what `next` is a descriptor of, or to where it points.
static int walk_into(struct own_walk *w, int next, const char *path, bool *entered)
{
  struct stat s;
  *entered = false;
  if (fstat(next, &s)) return failed(w->e, "look at", path);
  if (S_ISLNK(s.st_mode)) return walk_link(w, next, &s, path);
  if (!S_ISDIR(s.st_mode)) return errno = ENOTDIR, failed(w->e, "open", path);
  TRY(passes(&s, path, w->e));
  close(w->fd);
  w->fd = next, *entered = true;
  memcpy(w->real, path, strlen(path) + 1);
  return OK;
}

static int walk_step(struct own_walk *w, const char *name)
{
  char path[OWN_PATH + NAME_MAX + 2];
  bool entered;
  if (!strcmp(name, "..")) return walk_up(w);
  if (snprintf(path, sizeof path, "%s/%s", w->real, name) >= OWN_PATH) return errno = ENAMETOOLONG, failed(w->e, "open", name);
  int next = openat(w->fd, name, PLACE);
  if (next < 0 && errno == ENOENT && w->make) {
    TRY(walk_make(w, name, path));
    next = openat(w->fd, name, PLACE);
  }
  if (next < 0) return failed(w->e, "open", path);
  const int status = walk_into(w, next, path, &entered);
  if (!entered) close(next);
  return status;
}

static int walk_on(struct own_walk *w)
{
  char name[NAME_MAX + 1];
  for (;;) {
    const size_t skip = strspn(w->rest, "/"), n = strcspn(w->rest + skip, "/");
    if (!n) return OK;
    if (n > NAME_MAX) return errno = ENAMETOOLONG, failed(w->e, "open", w->rest + skip);
    memcpy(name, w->rest + skip, n), name[n] = 0;
    memmove(w->rest, w->rest + skip + n, strlen(w->rest + skip + n) + 1);
    if (strcmp(name, ".")) TRY(walk_step(w, name));
  }
}

static int walk_path(struct own_walk *w, const char *path)
{
  char here[OWN_PATH] = "";
  if (*path != '/' && !getcwd(here, sizeof here)) return failed(w->e, "find", "the current folder");
  if (snprintf(w->rest, sizeof w->rest, "%s/%s", here, path) >= (int)sizeof w->rest) return errno = ENAMETOOLONG, failed(w->e, "open", path);
  TRY(walk_root(w));
  return walk_on(w);
}

int own_above(const char *path, struct err *e)
{
  struct own_walk w = {.fd = -1, .e = e};
  const int status = walk_path(&w, path);
  if (w.fd >= 0) close(w.fd);
  return status;
}

int own_folder(const char *path, bool make, int *folder, char real[OWN_PATH], struct err *e)
{
  struct own_walk w = {.fd = -1, .make = make, .e = e};
  int status = walk_path(&w, path);
  *folder = -1;
  if (status == OK && (*folder = openat(w.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0) status = failed(e, "open", path);
  if (status == OK) status = own_check(*folder, w.real, 0, e);
  if (w.fd >= 0) close(w.fd);
  if (status != OK && *folder >= 0) close(*folder), *folder = -1;
  memcpy(real, w.real, sizeof w.real);
  return status;
}

// ---- files ----

int own_file(int folder, const char *name, const char *path, unsigned how, off_t *size, struct err *e)
{
  struct stat s;
  const int fd = openat(folder, name, PLACE); // which no lock that SQLite holds in this process ends with
  if (fd < 0) return errno == ENOENT ? NO : failed(e, "open", path);
  int status = fstat(fd, &s)        ? failed(e, "look at", path)
               : S_ISREG(s.st_mode) ? own_check(fd, path, how, e)
                                    : err_set(e, ERR_FILE, NOWHERE, "%.500s is no regular file", path);
  close(fd);
  *size = s.st_size;
  return status;
}

static int split(const char *path, char folder[OWN_PATH], char name[256], struct err *e)
{
  const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;
  if (!*last || !strcmp(last, ".") || !strcmp(last, "..")) return errno = EISDIR, failed(e, "open", path);
  if (strlen(path) >= OWN_PATH - 2 || strlen(last) > NAME_MAX) return errno = ENAMETOOLONG, failed(e, "open", path);
  snprintf(name, 256, "%s", last);
  snprintf(folder, OWN_PATH, "%.*s", slash ? (int)MAX(slash - path, 1) : 1, slash ? path : ".");
  return OK;
}

int own_place(const char *path, bool make, struct own_place *out, struct err *e)
{
  char folder[OWN_PATH], next[OWN_PATH], text[OWN_PATH];
  if (snprintf(next, sizeof next, "%s", path) >= (int)sizeof next) return errno = ENAMETOOLONG, failed(e, "open", path);
  for (int links = 0; links <= MOST_LINKS; links++) {
    struct stat s;
    TRY(split(next, folder, out->name, e));
    TRY(own_folder(folder, make, &out->folder, out->path, e));
    const ssize_t n = readlinkat(out->folder, out->name, text, sizeof text - 1);
    if (n < 0) return OK; // no link, or nothing
    text[n] = 0;
    int status = fstatat(out->folder, out->name, &s, AT_SYMLINK_NOFOLLOW) ? failed(e, "look at", next) : belongs(&s, next, true, e);
    close(out->folder), out->folder = -1;
    if (status != OK) return status;
    if (snprintf(next, sizeof next, "%s%s%s", *text == '/' ? "" : out->path, *text == '/' ? "" : "/", text) >= (int)sizeof next) break;
  }
  return errno = ELOOP, failed(e, "follow", path);
}

static bool filled(int fd, const void *bytes, size_t n)
{
  for (size_t done = 0; done < n;) {
    const ssize_t w = write(fd, (const char *)bytes + done, n - done);
    if (w < 0 && errno != EINTR) return false;
    if (w > 0) done += (size_t)w;
  }
  return !fchmod(fd, 0600) && !fsync(fd);
}

// A file without a name, or where the file system has none of those, one with a name of its own, which is then free again.
static bool create(int folder, const char *name, const void *bytes, size_t n)
{
  char from[64], aside[NAME_MAX + 1];
  int fd = openat(folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  const bool nameless = fd >= 0;
  if (!nameless) {
    snprintf(aside, sizeof aside, "%.200s.%ld.tmp", name, (long)getpid());
    fd = openat(folder, aside, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  }
  if (fd < 0) return false;
  snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
  bool good = filled(fd, bytes, n);
  if (good && nameless)
    good = !linkat(AT_FDCWD, from, folder, name, AT_SYMLINK_FOLLOW);
  else if (good)
    good = !renameat2(folder, aside, folder, name, RENAME_NOREPLACE) || !linkat(folder, aside, folder, name, 0);
  const int why = errno;
  close(fd);
  if (!nameless) unlinkat(folder, aside, 0);
  return errno = why, good;
}

int own_create(int folder, const char *name, const void *bytes, size_t n, struct err *e)
{
  if (create(folder, name, bytes, n)) return fsync(folder), OK;
  return errno == EEXIST ? NO : failed(e, "make", name);
}
