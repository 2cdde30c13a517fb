// The key of a user's databases: 32 random bytes in a file that nobody else can read. It lies with the user and not with the database,
// because a database may come from elsewhere, with whatever lies beside it; what it holds then has no checksum of this user.
// Only where there is no folder of the user's own the key lies beside the database.
#include "rt/db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

bool cache_folder(char out[OWN_PATH])
{
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
  if (cache && *cache == '/') return snprintf(out, OWN_PATH, "%s/mica", cache) < OWN_PATH;
  return home && *home == '/' && snprintf(out, OWN_PATH, "%s/.cache/mica", home) < OWN_PATH;
}

// NO: there is none.
static int key_read(int folder, const char *name, const char *path, uint8_t key[SHA256], struct err *e)
{
  const int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  struct stat s;
  if (fd < 0 && errno == ENOENT) return NO;
  if (fd < 0) return err_set(e, ERR_UNTRUSTED, NOWHERE, "cannot open the key %s: %s", path, strerror(errno));
  int status = own_check(fd, path, OWN_SECRET, e);
  if (status == OK && (fstat(fd, &s) || !S_ISREG(s.st_mode) || s.st_size != SHA256 || read(fd, key, SHA256) != SHA256)) {
    status = err_set(e, ERR_UNTRUSTED, NOWHERE, "%s is no key, which has %d bytes", path, SHA256);
    err_hint(e, "remove it: another one is made");
  }
  close(fd);
  return status;
}

static int key_of(int folder, const char *name, const char *path, uint8_t key[SHA256], struct err *e)
{
  uint8_t fresh[SHA256];
  int status = key_read(folder, name, path, key, e);
  if (status != NO) return status;
  if (getrandom(fresh, sizeof fresh, 0) != sizeof fresh) return err_set(e, ERR_FILE, NOWHERE, "there are no random numbers: %s", strerror(errno));
  status = own_create(folder, name, fresh, sizeof fresh, e); // NO: another process made one meanwhile
  if (status != OK && status != NO) return status;
  status = key_read(folder, name, path, key, e);
  return status == NO ? err_set(e, ERR_FILE, NOWHERE, "the key %s went away", path) : status;
}

int key_open(const struct own_place *db, uint8_t key[SHA256], struct err *e)
{
  char folder[OWN_PATH], real[OWN_PATH], name[256] = "key", path[OWN_PATH + 300];
  struct err none = {0};
  int home = -1;
  const bool user = cache_folder(folder) && own_folder(folder, true, &home, real, &none) == OK;
  if (!user) snprintf(name, sizeof name, "%.250s.key", db->name);
  snprintf(path, sizeof path, "%s/%s", user ? real : db->path, name);
  const int status = key_of(user ? home : db->folder, name, path, key, e);
  if (user) close(home);
  return status;
}
