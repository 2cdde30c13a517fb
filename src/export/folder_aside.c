// Temporary folders beside a saved one while it is written or replaced: .mica-new-HASH-NUMBER and .mica-old-HASH-NUMBER. HASH is the hash of its
// name. A save holds locks (flock) on the folder that it writes and on the folder that it replaces. A lock ends with its process, so a temporary
// folder without a lock was left by a killed save.
#include "export/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DAY = 24 * 3600 };
static const char *const kinds[] = {[ASIDE_NEW] = "new", [ASIDE_OLD] = "old"};

static int cannot(struct err *e, const char *what, const char *path)
{
  return err_set(e, ERR_FILE, NOWHERE, "cannot %s %s: %s", what, path, strerror(errno));
}

// Opens the parent folder and gives the name in it. A link to a folder is followed.
int folder_place(struct arena *mem, const char *path, bool make, struct folder_place *out, struct err *e)
{
  char real[PATH_MAX];
  size_t n = strlen(path);
  while (n > 1 && path[n - 1] == '/') n--;
  char *text = arena_printf(mem, "%.*s", (int)n, path);
  if (realpath(text, real)) text = arena_strdup(mem, real);
  const char *slash = strrchr(text, '/'), *name = slash ? slash + 1 : text;
  const char *around = slash ? arena_printf(mem, "%.*s", (int)MAX(slash - text, 1), text) : ".";
  if (!*name || !strcmp(name, ".") || !strcmp(name, "..")) return errno = n ? EISDIR : ENOENT, cannot(e, "save to", path);
  if (strlen(name) > NAME_MAX) return errno = ENAMETOOLONG, cannot(e, "save to", path);
  if (make) TRY(file_mkdirs(around, e));
  snprintf(out->name, sizeof out->name, "%s", name);
  out->parent = open(around, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  return out->parent < 0 ? cannot(e, "open", around) : OK;
}

static void prefix(const struct folder_place *p, enum folder_aside kind, char out[40])
{
  snprintf(out, 40, ".mica-%s-%016llx-", kinds[kind], (unsigned long long)hash_bytes(p->name, strlen(p->name), 0));
}

void folder_aside(const struct folder_place *p, enum folder_aside kind, uint64_t number, char out[64])
{
  char head[40];
  prefix(p, kind, head);
  snprintf(out, 64, "%s%016llx", head, (unsigned long long)number);
}

// Iterates over the entries of `folder`. NULL after the last, which closes *d.
static const char *next(int folder, DIR **d)
{
  if (!*d) {
    const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return NULL;
    if (!(*d = fdopendir(fd))) return close(fd), NULL;
  }
  for (const struct dirent *x; (x = readdir(*d));)
    if (strcmp(x->d_name, ".") && strcmp(x->d_name, "..")) return x->d_name;
  closedir(*d);
  return NULL;
}

// In a folder that everybody may write to, folders of other users are ignored.
static bool is_ours(const struct folder_place *p, const char *name)
{
  struct stat s;
  return !fstatat(p->parent, name, &s, AT_SYMLINK_NOFOLLOW) && S_ISDIR(s.st_mode) && (s.st_uid == geteuid() || !s.st_uid);
}

bool folder_older(const struct folder_place *p, char out[64])
{
  struct stat s;
  DIR *d = NULL;
  char head[40];
  bool found = false;
  if (!fstatat(p->parent, p->name, &s, AT_SYMLINK_NOFOLLOW) || errno != ENOENT) return false;
  prefix(p, ASIDE_OLD, head);
  for (const char *name; (name = next(p->parent, &d));)
    if (!strncmp(name, head, strlen(head)) && strlen(name) < 64 && is_ours(p, name)) snprintf(out, 64, "%s", name), found = true;
  return found;
}

bool folder_unsupported(void) { return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP; }

// A rename never replaces a folder that is not empty.
int folder_rename(int parent, const char *from, const char *to, unsigned how)
{
  if (!renameat2(parent, from, parent, to, how)) return 0;
  return how == RENAME_NOREPLACE && folder_unsupported() ? renameat(parent, from, parent, to) : -1;
}

void folder_empty(int parent, const char *name, int folder)
{
  DIR *d = NULL;
  for (const char *x; (x = next(folder, &d));) unlinkat(folder, x, 0);
  unlinkat(parent, name, AT_REMOVEDIR);
}

bool folder_is(const struct folder_place *p, const char *name, int folder)
{
  struct stat s, named;
  return !fstat(folder, &s) && !fstatat(p->parent, name, &named, AT_SYMLINK_NOFOLLOW) && s.st_ino == named.st_ino && s.st_dev == named.st_dev;
}

// Without file locks, a folder younger than a day may still be in use by a save. The name is checked again under the lock: the save that wrote the
// folder may have put it in place between the opening and the lock.
static bool left_over(const struct folder_place *p, const char *name, int folder)
{
  struct stat s;
  if (fstat(folder, &s) || s.st_uid != geteuid()) return false;
  if (flock(folder, LOCK_EX | LOCK_NB) && (errno == EWOULDBLOCK || time(NULL) - s.st_mtime <= DAY)) return false;
  return folder_is(p, name, folder);
}

static void sweep_one(const struct folder_place *p, const char *name)
{
  const int fd = openat(p->parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  if (left_over(p, name, fd)) folder_empty(p->parent, name, fd);
  close(fd);
}

void folder_sweep(const struct folder_place *p)
{
  DIR *d = NULL;
  char old[64], heads[COUNT(kinds)][40];
  if (folder_older(p, old)) folder_rename(p->parent, old, p->name, RENAME_NOREPLACE);
  for (size_t k = 0; k < COUNT(kinds); k++) prefix(p, (enum folder_aside)k, heads[k]);
  for (const char *name; (name = next(p->parent, &d));)
    for (size_t k = 0; k < COUNT(kinds); k++)
      if (!strncmp(name, heads[k], strlen(heads[k]))) sweep_one(p, name);
}
