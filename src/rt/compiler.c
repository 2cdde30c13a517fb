// The system's C compiler: found in CC or PATH and started without a shell, in a private folder that is removed whatever
// happens (base/child.h). Its message becomes part of the error.
#include "rt/compiler.h"
#include "rt/rt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAID = 400 }; // characters of its message kept

// ---- finding and starting the compiler ----

bool compiler_find(const char *name, char out[512])
{
  if (strchr(name, '/')) return snprintf(out, 512, "%s", name) < 512 && !access(out, X_OK);
  const char *path = getenv("PATH");
  for (const char *p = path ? path : "/usr/bin:/bin"; *p;) {
    size_t n = strcspn(p, ":");
    if (n && snprintf(out, 512, "%.*s/%s", (int)n, p, name) < 512 && !access(out, X_OK)) return true;
    p += n + (p[n] == ':');
  }
  return false;
}

// $CC, which may carry flags, else the first of cc, gcc, clang. Its words go to argv; returns how many, 0 for none.
static int find_compiler(struct arena *mem, char **argv)
{
  static const char *const usual[] = {"cc", "gcc", "clang"};
  const char *cc = getenv("CC");
  char path[512];
  if (cc && *cc) {
    int n = 0;
    for (char *words = arena_strdup(mem, cc), *w, *rest = words; (w = strtok_r(rest, " \t", &rest)) && n < MAX_ARGS / 2;) argv[n++] = w;
    if (!n || !compiler_find(argv[0], path)) return 0;
    argv[0] = arena_strdup(mem, path);
    return n;
  }
  for (size_t i = 0; i < COUNT(usual); i++)
    if (compiler_find(usual[i], path)) return argv[0] = arena_strdup(mem, path), 1;
  return 0;
}

// ---- running it in a folder of its own ----

int workshop_open(struct workshop *w, struct err *e)
{
  int s = scratch_open(&w->in, e);
  if (s) return s;
  snprintf(w->c, sizeof w->c, "%s/kernel.c", w->in.path);
  snprintf(w->so, sizeof w->so, "%s/kernel.so", w->in.path);
  snprintf(w->said, sizeof w->said, "%s/said", w->in.path);
  return OK;
}

int compiler_run(char *const *argv, const struct workshop *w, const struct patience *p)
{
  char tmp[340];
  int status = NOT_STARTED, null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  int said = null < 0 ? -1 : open(w->said, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), why = errno;
  snprintf(tmp, sizeof tmp, "TMPDIR=%s", w->in.path);
  char **env = child_environment((const char *const[]){tmp, NULL});
  struct child c;
  if (said >= 0 && !(why = child_start(&c, &(struct child_plan){argv[0], argv, env, {null, said, said, -1}})) && child_wait(&c, p, &status) == NO)
    status = ENDED;
  if (null >= 0) close(null);
  if (said >= 0) close(said);
  mem_free(env);
  errno = why;
  return status;
}

const char *compiler_version(const struct patience *until)
{
  static const double LONGEST = 5; // seconds for one line
  static _Thread_local char text[128];
  struct patience p = until ? *until : (struct patience){0};
  struct arena mem = {0};
  struct err e = {0};
  struct workshop w;
  size_t size;
  char *argv[MAX_ARGS] = {0}, *said;
  int n = find_compiler(&mem, argv);
  double most = now_seconds() + LONGEST;
  p.until = p.until > 0 ? MIN(p.until, most) : most;
  *text = 0;
  if (n && !workshop_open(&w, &e)) {
    argv[n] = (char *)"--version";
    if (!compiler_run(argv, &w, &p) && !file_read(&mem, w.said, &said, &size, &e))
      snprintf(text, sizeof text, "%.*s", (int)strcspn(said, "\n"), said);
    scratch_close(&w.in);
  }
  arena_close(&mem);
  return text;
}

// ---- compiling ----

// Messages of compilers that lacked memory, files or room.
static const struct {
  const char *word;
  enum errid id;
  const char *hint;
} lacks[] = {
    {"out of memory", ERR_MEMORY, "the compiler found too little memory: end other programs, or raise the limit that `ulimit -v` shows"},
    {"annot allocate memory", ERR_MEMORY, "the compiler found too little memory: end other programs, or raise the limit that `ulimit -v` shows"},
    {"memory exhausted", ERR_MEMORY, "the compiler found too little memory: end other programs, or raise the limit that `ulimit -v` shows"},
    {"Too many open files", ERR_FILE, "the compiler may open no more files: raise the limit, as by `ulimit -n 1024`"},
    {"File size limit exceeded", ERR_FILE, "files may not grow so large: raise the limit, as by `ulimit -f unlimited`"},
};

static int not_started(const char *compiler, int why, struct err *e)
{
  const bool memory = why == ENOMEM || why == EAGAIN;
  const int status = err_set(e,
                             memory           ? ERR_MEMORY
                             : why == ENOEXEC ? ERR_COMPILER
                                              : ERR_FILE,
                             NOWHERE, "%s cannot be started: %s", compiler, strerror(why));
  if (memory) err_hint(e, "end other programs, or raise the limits that `ulimit -u` and `ulimit -v` show");
  return status;
}

static int complain(const struct workshop *w, const char *compiler, int status, struct arena *mem, struct err *e)
{
  const int why = errno;
  struct err ignored = {0};
  char *text = (char *)"";
  size_t n = 0;
  if (file_read(mem, w->said, &text, &n, &ignored)) text = (char *)"";
  const char *error = strstr(text, "error");
  while (error && error > text && error[-1] != '\n') error--;
  if (!error) error = text;
  n = strlen(error);
  while (n && error[n - 1] == '\n') n--;
  errno = why; // err_set makes the hint of it
  if (status == ENDED) return err_set(e, ERR_STOPPED, NOWHERE, "%s was ended: after a stop, or because the time was over", compiler);
  if (status == NOT_STARTED) return not_started(compiler, why, e);
  if (scratch_full(&w->in)) return err_set(e, ERR_FILE, NOWHERE, "%s cannot compile: the disk of %s is full", compiler, w->in.path);
  if (status == KILLED) {
    status = err_set(e, ERR_COMPILER, NOWHERE, "%s was ended by a signal", compiler);
    return err_hint(e, "the system ends programs when memory runs out: end other programs, and try again"), status;
  }
  for (size_t i = 0; i < COUNT(lacks); i++)
    if (strstr(text, lacks[i].word)) {
      status = err_set(e, lacks[i].id, NOWHERE, "%s ended with status %d: %.*s", compiler, status, (int)MIN(n, SAID), error);
      return err_hint(e, "%s", lacks[i].hint), status;
    }
  status = err_set(e, ERR_COMPILER, NOWHERE, "%s ended with status %d: %.*s", compiler, status, (int)MIN(n, SAID), error);
  return err_hint(e, "`mica doctor` tries the compiler; CC names another one"), status;
}

// Flags of this source, behind those of the compiler; `parsed`: a file to include first, or NULL.
static int run_on(char *const *start, int n, const char *parsed, const char *source, const struct workshop *w, const struct patience *p)
{
  char *argv[MAX_ARGS] = {0};
  memcpy(argv, start, (size_t)n * sizeof *argv);
  if (parsed) argv[n++] = (char *)"-include", argv[n++] = (char *)parsed;
  const char *const more[] = {"-shared", w->c, "-o", w->so, "-lm", strstr(source, "cblas_sgemm(") ? "-lopenblas" : "-lm"};
  for (size_t i = 0; i < COUNT(more); i++) argv[n++] = (char *)more[i];
  return compiler_run(argv, w, p);
}

int compile_c(const char *source, const char *flags, const struct patience *p, const struct workshop *w, struct arena *mem, struct err *e)
{
  char *argv[MAX_ARGS] = {0}, *rest = arena_strdup(mem, flags), parsed[OWN_PATH];
  int n = find_compiler(mem, argv);
  const char *cc = getenv("CC");
  if (!n)
    return err_set(e, ERR_COMPILER, NOWHERE, cc && *cc ? "the compiler in CC cannot be executed: %s" : "no C compiler in PATH%s",
                   cc && *cc ? cc : "");
  for (char *word; (word = strtok_r(rest, " ", &rest)) && n < MAX_ARGS - 14;) argv[n++] = word;
  argv[n++] = (char *)"-w", argv[n++] = (char *)"-fPIC";
  TRY(file_write(w->c, source, strlen(source), e));
  const bool with = strstr(source, PARSED_LINE) && parsed_header(argv, n, w, p, parsed);
  int status = run_on(argv, n, with ? parsed : NULL, source, w, p);
  if (with && status && status != ENDED) {
    status = run_on(argv, n, NULL, source, w, p);
    if (!status) parsed_refused(parsed);
  }
  return status ? complain(w, argv[0], status, mem, e) : OK;
}
