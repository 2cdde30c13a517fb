// Destinations of output.
#include "base/child.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_through(const char *path, const char *text, size_t n, struct err *e)
{
  FILE *f = fopen(path, "wb");
  bool good = f && fwrite(text, 1, n, f) == n;
  int why = errno;
  if (f && fclose(f)) good = false, why = errno;
  return good ? OK : err_set(e, ERR_FILE, NOWHERE, "cannot write %s: %s", path, strerror(why));
}

bool output_unread(void)
{
  struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
  return poll(&p, 1, 0) == 1 && p.revents & POLLERR;
}

int output_write(const char *path, const char *text, size_t n, struct err *e)
{
  struct stat st;
  if (!strcmp(path, "-")) {
    fwrite(text, 1, n, stdout);
    return fflush(stdout) && !output_unread() ? err_set(e, ERR_FILE, NOWHERE, "cannot write to standard output: %s", strerror(errno)) : OK;
  }
  if (!stat(path, &st) && !S_ISREG(st.st_mode)) return write_through(path, text, n, e);
  return file_write(path, text, n, e);
}

int output_json(struct cli *c, const json_t *v)
{
  if (!c->json) return OK;
  struct str text = {0};
  json_text(v, &text);
  int status = output_write(c->json, str_text(&text), text.n, &c->err);
  str_free(&text);
  return status;
}

static bool to_stdout(const char *path) { return path && !strcmp(path, "-"); }

bool output_wants_text(const struct cli *c) { return !c->quiet && !to_stdout(c->json) && !to_stdout(c->html); }

int output_folder(const char *path, struct err *e)
{
  TRY(file_mkdirs(path, e));
  if (access(path, W_OK | X_OK)) return err_set(e, ERR_FILE, NOWHERE, "cannot write to the folder %s: %s", path, strerror(errno));
  return OK;
}

int output_check(const char *path, struct err *e)
{
  struct stat st;
  if (!strcmp(path, "-")) return OK;
  const char *slash = strrchr(path, '/');
  struct str folder = {0};
  if (slash) str_raw(&folder, path, slash == path ? 1 : (size_t)(slash - path));
  bool there = !stat(path, &st), device = there && !S_ISREG(st.st_mode);
  bool bad = (there && S_ISDIR(st.st_mode)) || access(device ? path : slash ? str_text(&folder) : ".", W_OK | (device ? 0 : X_OK));
  int why = there && S_ISDIR(st.st_mode) ? EISDIR : errno;
  str_free(&folder);
  return bad ? err_set(e, ERR_FILE, NOWHERE, "cannot write %s: %s", path, strerror(why)) : OK;
}

void output_said(const char *const *argv, char *out, size_t size)
{
  static const double LONGEST = 10; // seconds
  int said = memfd_create("mica", MFD_CLOEXEC), null = open("/dev/null", O_RDWR | O_CLOEXEC), status = -1;
  struct child c;
  if (said >= 0 && null >= 0 && !child_start(&c, &(struct child_plan){argv[0], (char *const *)(uintptr_t)argv, NULL, {null, said, null, -1}}))
    child_wait(&c, &(struct patience){.stop = cli_stop, .until = now_seconds() + LONGEST}, &status);
  ssize_t n = status ? 0 : pread(said, out, size - 1, 0);
  out[MAX(n, 0)] = 0;
  if (said >= 0) close(said);
  if (null >= 0) close(null);
  out[strcspn(out, "\n")] = 0;
}

void output_revision(char out[48])
{
  static const char *const describe[] = {"/usr/bin/env", "git", "describe", "--always", "--dirty", "--abbrev=12", NULL};
  output_said(describe, out, 48);
  if (!*out) snprintf(out, 48, "%s", build_fingerprint);
}
