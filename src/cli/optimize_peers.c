// mica optimize --peers: runs the installed peers (torch, jax, onnxruntime) beside the result, by `python3 -m mica.peers` in a separate process.
#include "cli/cli.h"
#include "base/child.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double LONGEST_PEERS = 300, WRITING = 10; // seconds; of a folder or a report

// The folder of the Python package that belongs to this command: in a wheel it contains the command, in a build folder it is python/.
static const char *package_folder(struct arena *mem)
{
  char own[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
  if (n <= 0) return NULL;
  own[n] = 0;
  char *slash = strrchr(own, '/');
  *slash = 0;
  const char *in_build = arena_printf(mem, "%s/python", own);
  if (!access(arena_printf(mem, "%s/mica/peers.py", in_build), R_OK)) return in_build;
  if (!access(arena_printf(mem, "%s/peers.py", own), R_OK) && (slash = strrchr(own, '/'))) return *slash = 0, arena_strdup(mem, own);
  return NULL;
}

static int compare(struct cli *c, const char *folder)
{
  const char *const argv[] = {"/usr/bin/env", "python3", "-m", "mica.peers", folder, NULL};
  const char *package = package_folder(&c->mem), *path = getenv("PYTHONPATH");
  const char *more[] = {NULL, NULL};
  if (package) more[0] = arena_printf(&c->mem, "PYTHONPATH=%s%s%s", package, path ? ":" : "", path ? path : "");
  char **env = child_environment(more);
  const struct child_plan plan = {argv[0], (char *const *)(uintptr_t)argv, env, {-1, output_wants_text(c) ? -1 : STDERR_FILENO, -1, -1}};
  struct child child;
  int status = -1;
  fflush(stdout);
  if (!child_start(&child, &plan)) child_wait(&child, &(struct patience){.stop = cli_stop, .until = now_seconds() + LONGEST_PEERS}, &status);
  mem_free(env);
  return status;
}

int cli_peers(struct cli *c, struct mica_context *m, const struct mica_report *r)
{
  struct scratch s;
  TRY(scratch_open(&s, &c->err));
  if (c->time) end_by(LONGEST_PEERS + WRITING); // --time is the job's, which has ended
  const char *folder = arena_printf(&c->mem, "%s/program", s.path);
  int status = mica_report_save(m, r, folder);
  if (status != OK)
    terminal_error(mica_error(m));
  else if (compare(c, folder))
    fprintf(stderr, "warning: nothing was compared with peers; they need the package `mica` in python3, and torch (docs/report.md)\n");
  else if (output_wants_text(c))
    printf("\n");
  if (c->time) end_by(WRITING);
  return scratch_close(&s), status;
}
