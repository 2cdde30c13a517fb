// Compiler processes. NVRTC cannot be interrupted, and some kernels take it minutes. A process can be ended after a stop, or when the time of a batch
// is over. Each compiles one source at a time, and as many run as sources are requested at once. If no executable is a worker of this build, the
// caller compiles in its own process.
#include "gpu/session.h"
#include "base/memory.h"
#include "gpu/wire.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 256 };
static const double START = 30; // seconds for a process to answer as a worker

struct compilers_maker {
  struct child process;
  int fd;
  bool busy;
};
struct compilers {
  char path[512];
  char **env;
  pthread_mutex_t lock; // protects the fields below
  bool unfit;           // the started executable is not a worker of this build
  struct compilers_maker m[MOST];
};

struct compilers *compilers_open(const char *path)
{
  char why[200], **env = child_environment(NULL);
  struct compilers *p = mem_lasting(sizeof *p);
  mem_keep(p->env = env);
  pthread_mutex_init(&p->lock, NULL);
  p->unfit = !worker_find(path, p->path, why);
  return p;
}

static void end(struct compilers_maker *m)
{
  if (m->process.pid) process_end(&m->process, m->fd);
}

void compilers_rest(struct compilers *p)
{
  for (int i = 0; i < MOST; i++) end(&p->m[i]);
}

void compilers_close(struct compilers *p)
{
  if (!p) return;
  compilers_rest(p);
  pthread_mutex_destroy(&p->lock);
  mem_free(p->env);
  mem_free(p);
}

// ---- one process ----

static int ask(struct compilers_maker *m, enum request kind, const struct wire *in, const struct patience *until, struct wire *out, struct err *e)
{
  int64_t back;
  int carried = -1;
  if (wire_send(m->fd, kind, in, -1, e)) return e->status;
  int status = wire_wait(m->fd, until, e);
  if (status == OK) status = wire_receive(m->fd, &back, out, &carried, -1, e);
  if (carried >= 0) close(carried);
  return status;
}

static int answer(struct wire *out, struct err *e)
{
  struct err said;
  wire_get(out); // whether the device is lost: this worker has none
  wire_get_error(out, &said);
  if (said.status != OK) *e = said;
  return (int)said.status;
}

static bool is_worker(struct compilers_maker *m)
{
  struct wire in = {0}, out = {0};
  struct err e = {0};
  const struct patience until = {.until = now_seconds() + START};
  wire_put_text(&in, build_fingerprint);
  bool good = ask(m, ASK_BUILD, &in, &until, &out, &e) == OK && answer(&out, &e) == OK;
  wire_free(&in), wire_free(&out);
  return good;
}

// An idle process, else a new one; NULL: none is available.
static struct compilers_maker *take(struct compilers *p)
{
  struct compilers_maker *m = NULL;
  pthread_mutex_lock(&p->lock);
  for (int pass = 0; pass < 2 && !m && !p->unfit; pass++)
    for (int i = 0; i < MOST && !m; i++)
      if (!p->m[i].busy && (pass || p->m[i].process.pid)) m = &p->m[i];
  if (m) m->busy = true;
  pthread_mutex_unlock(&p->lock);
  return m;
}

static void put_back(struct compilers *p, struct compilers_maker *m, bool unfit)
{
  pthread_mutex_lock(&p->lock);
  m->busy = false, p->unfit = p->unfit || unfit;
  pthread_mutex_unlock(&p->lock);
}

// ---- one source ----

static int read_cubin(struct arena *mem, struct wire *out, struct cubin *c, struct err *e)
{
  size_t n;
  *c = (struct cubin){.ptx = "", .log = ""};
  c->registers = (int)wire_get(out), c->spilled = (int)wire_get(out);
  const void *bytes = wire_get_bytes(out, &n);
  if (out->bad || !n) return err_set(e, ERR_COMPILER, NOWHERE, "the answer of the process that compiles cannot be read");
  c->bytes = arena_copy(mem, bytes, n), c->n = n;
  return OK;
}

static int compile(struct compilers_maker *m, const struct patience *until, struct arena *mem, const char *name, const char *source, int arch,
                   struct cubin *out, struct err *e)
{
  struct wire in = {0}, back = {0};
  wire_put(&in, arch), wire_put_text(&in, name), wire_put_text(&in, source);
  double start = now_seconds();
  int status = ask(m, ASK_COMPILE, &in, until, &back, e);
  bool talks = status == OK;
  if (talks) status = answer(&back, e);
  if (talks && status == OK) status = read_cubin(mem, &back, out, e);
  if (status == NO)
    status = err_set(e, ERR_STOPPED, NOWHERE, "%s was not compiled in %.0f seconds and was skipped", name, now_seconds() - start);
  else if (!talks && e->id != ERR_STOPPED)
    *e = (struct err){0}, status = err_set(e, ERR_COMPILER, NOWHERE, "the process that compiled %s ended unexpectedly", name);
  if (!talks) end(m);
  wire_free(&in), wire_free(&back);
  return status;
}

int compilers_compile(struct compilers *p, const struct patience *until, struct arena *mem, const char *name, const char *source, int arch,
                      struct cubin *out, struct err *e)
{
  struct compilers_maker *m = take(p);
  bool fits = m && (m->process.pid || (process_start(p->path, p->env, &m->process, &m->fd) && is_worker(m)));
  if (m && !fits) end(m);
  int status = fits ? compile(m, until, mem, name, source, arch, out, e) : NO;
  if (m) put_back(p, m, !fits);
  return status;
}
