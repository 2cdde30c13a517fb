// Modules: generated C compiled into a shared object (compiler.c) and loaded with dlopen. A module owns workspaces: the first call
// allocates one, later calls use it again; as many as there are calls at the same time.
#include "rt/forked.h"
#include "rt/left.h"
#include "base/memory.h"
#include "rt/compiler.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { HUGE = 2 << 20 }; // bytes of a huge page

struct room { // a workspace that no call uses; the rest of its memory follows
  struct room *next;
};
struct module {
  void *so; // of dlopen
  int (*call)(void *const *, void *const *, void *);
  int (*rank)(int, void *const *, void *const *, void *, struct m_exchange *); // of a world, else NULL
  call_ranks *call_ranks;                                                      // of all ranks, where there is a form
  const struct ranks_form *ranks;
  const double *seconds; // of its kernels in the last call, or NULL
  size_t exchange;       // bytes that ranks share
  int world;             // ranks
  void *bytes;
  size_t size, need;    // bytes of the object, of a workspace
  int fd;               // of the object's file in memory
  pthread_mutex_t lock; // of rooms
  struct room *rooms;
  struct left_call *left; // a call that nobody waits for, or NULL
  // If the program has frozen inputs:
  int (*freeze)(void *const *, void *, void *);
  int (*call_frozen)(void *const *, void *const *, void *, const void *);
  size_t frozen_bytes;
  struct module *of; // of a frozen module: the one with the code, which lives as long
  struct room *frozen;
  int holders; // itself until it is closed, and its frozen modules; guarded by `lock`
};

int module_build(const char *source, const char *name, struct module **m, struct err *e)
{
  return module_build_with(source, gen_flags(), name, NULL, m, e);
}

int module_build_with(const char *source, const char *flags, const char *name, const struct patience *p, struct module **m, struct err *e)
{
  struct arena mem = {0};
  struct workshop w;
  int s = workshop_open(&w, e);
  if (s) return s;
  s = compile_c(source, flags, p, &w, &mem, e);
  char *bytes;
  size_t n;
  if (!s) s = file_read(&mem, w.so, &bytes, &n, e);
  scratch_close(&w.in);
  if (!s) s = module_load(bytes, n, name, m, e);
  arena_close(&mem);
  return s;
}

// ---- loading ----

// The threads of an OpenMP run time outlive the module that brought it in, so its code has to stay; and OpenBLAS is
// slow to start.
static void pin_threads(void)
{
  static const char *const names[] = {"libgomp.so.1", "libomp.so.5", "libomp.so", "libopenblas.so.0", "libblas.so.3"};
  for (size_t i = 0; i < COUNT(names); i++) dlopen(names[i], RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

// OpenBLAS repeats an allocation that fails forever, when it is loaded and when a thread first uses it. So the room for its buffers is tried
// before, in a process whose memory is limited.
static bool room_for_blas(const void *so, size_t n, size_t *bytes)
{
  static const char name[] = "cblas_sgemm";
  static const size_t BUFFER = 128 << 20; // bytes of a thread
  struct rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY || !memmem(so, n, name, sizeof name)) return true;
  void *loaded = dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_NOLOAD);
  if (loaded) return dlclose(loaded), true;
  *bytes = BUFFER * (size_t)(sysconf(_SC_NPROCESSORS_ONLN) + 2);
  void *room = mmap(NULL, *bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return room != MAP_FAILED && !munmap(room, *bytes);
}

// The object goes through a file that exists in memory only. It stays open as long as the module does: dlopen knows
// libraries by their path, and the descriptor's number is part of it.
static void *load_bytes(const void *so, size_t n, int *open_fd, char why[256])
{
  int fd = *open_fd = memfd_create("mica", MFD_CLOEXEC);
  if (fd < 0) return snprintf(why, 256, "memfd_create: %s", strerror(errno)), NULL;
  char path[64];
  const char *p = so;
  for (size_t done = 0; done < n;) {
    ssize_t w = write(fd, p + done, n - done);
    if (w <= 0 && errno == EINTR) continue;
    if (w <= 0) return snprintf(why, 256, "write: %s", strerror(errno)), NULL;
    done += (size_t)w;
  }
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  void *r = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!r)
    snprintf(why, 256, "%.255s", dlerror());
  else
    pin_threads();
  return r;
}

// The functions that gen_c_ranks made, if it did. A workspace serves calls of both kinds.
static void find_rank(struct module *m, const char *name)
{
  char symbol[96];
  size_t (*workspace)(void) = NULL, (*exchange)(void) = NULL;
  int (*world)(void) = NULL;
  snprintf(symbol, sizeof symbol, "mica_%.64s_rank", name);
  *(void **)&m->rank = dlsym(m->so, symbol);
  snprintf(symbol, sizeof symbol, "mica_%.64s_rank_workspace", name);
  *(void **)&workspace = dlsym(m->so, symbol);
  snprintf(symbol, sizeof symbol, "mica_%.64s_rank_exchange", name);
  *(void **)&exchange = dlsym(m->so, symbol);
  snprintf(symbol, sizeof symbol, "mica_%.64s_rank_world", name);
  *(void **)&world = dlsym(m->so, symbol);
  m->world = m->rank && workspace && exchange && world ? world() : 1;
  if (m->world > 1) m->need = MAX(m->need, workspace()), m->exchange = exchange();
}

static void find_frozen(struct module *m, const char *name)
{
  char symbol[96];
  size_t (*bytes)(void) = NULL;
  snprintf(symbol, sizeof symbol, "mica_%.70s_frozen", name);
  *(void **)&bytes = dlsym(m->so, symbol);
  snprintf(symbol, sizeof symbol, "mica_%.70s_freeze", name);
  *(void **)&m->freeze = dlsym(m->so, symbol);
  snprintf(symbol, sizeof symbol, "mica_%.70s_call", name);
  *(void **)&m->call_frozen = dlsym(m->so, symbol);
  m->frozen_bytes = bytes && m->freeze && m->call_frozen ? bytes() : 0;
}

static void drop(void *m) { module_close(m); }
static const struct mem_kind kind = {.close = drop};

int module_load(const void *so, size_t n, const char *name, struct module **out, struct err *e)
{
  char why[256] = "", symbol[96];
  size_t room;
  if (!room_for_blas(so, n, &room)) {
    const int status = err_set(e, ERR_MEMORY, NOWHERE, "no memory for OpenBLAS: %zu bytes", room);
    return err_hint(e, "raise the limit of this process's memory, which `ulimit -v` shows"), status;
  }
  struct module *m = mem_handle(sizeof *m, &kind);
  forked_watch();
  m->fd = -1;
  m->holders = 1;
  pthread_mutex_init(&m->lock, NULL);
  void *lib = m->so = load_bytes(so, n, &m->fd, why);
  if (!lib) {
    module_close(m);
    return err_set(e, ERR_LIBRARY, NOWHERE, "a compiled kernel cannot be loaded: %s", why);
  }
  m->size = n, m->bytes = mem_take(n + 1);
  memcpy(m->bytes, so, n);
  snprintf(symbol, sizeof symbol, "mica_%.80s", name);
  *(void **)&m->call = dlsym(lib, symbol);
  size_t (*workspace)(void) = NULL;
  snprintf(symbol, sizeof symbol, "mica_%.70s_workspace", name);
  *(void **)&workspace = dlsym(lib, symbol);
  if (!m->call || !workspace) {
    module_close(m);
    return err_set(e, ERR_LIBRARY, NOWHERE, "a compiled kernel has no function mica_%.80s", name);
  }
  m->need = workspace();
  find_rank(m, name);
  find_frozen(m, name);
  snprintf(symbol, sizeof symbol, "mica_%.70s_seconds", name);
  m->seconds = dlsym(lib, symbol);
  *out = m;
  return OK;
}

const void *module_bytes(const struct module *m, size_t *n)
{
  *n = m->size;
  return m->bytes;
}

static struct room *room_new(size_t need)
{
  size_t page = need < HUGE ? 4096 : HUGE, bytes = (need + page - 1) / page * page;
  struct room *r = aligned_alloc(page, bytes);
  if (r && page == HUGE) madvise(r, bytes, MADV_HUGEPAGE);
  return r;
}

static struct room *room_take(struct module *m)
{
  pthread_mutex_lock(&m->lock);
  struct room *r = m->rooms;
  if (r) m->rooms = r->next;
  pthread_mutex_unlock(&m->lock);
  return r ? r : room_new(m->need);
}

static void room_give(struct module *m, struct room *r)
{
  pthread_mutex_lock(&m->lock);
  r->next = m->rooms, m->rooms = r;
  pthread_mutex_unlock(&m->lock);
}

void module_rest(struct module *m)
{
  pthread_mutex_lock(&m->lock);
  struct room *all = m->rooms;
  m->rooms = NULL;
  pthread_mutex_unlock(&m->lock);
  for (struct room *next; all; all = next) next = all->next, free(all);
}

int module_world(const struct module *m) { return m->world; }

size_t module_exchange(const struct module *m) { return m->exchange; }

void module_ranks(struct module *m, call_ranks *call, const struct ranks_form *f) { m->call_ranks = call, m->ranks = f; }

struct one_call {
  const struct module *m;
  void *freeze; // frozen memory to write; NULL: the program runs
  int rank;     // of those that meet in x, where there is one
  struct m_exchange *x;
  void *const *in, *const *out;
  void *workspace;
};

static int call_code(void *arg)
{
  const struct one_call *c = arg;
  const struct module *m = c->m;
  if (c->freeze) return m->freeze(c->in, c->freeze, c->workspace);
  if (m->frozen) return m->call_frozen(c->in, c->out, c->workspace, m->frozen);
  return c->x ? m->rank(c->rank, c->in, c->out, c->workspace, c->x) : m->call(c->in, c->out, c->workspace);
}

static int call_here(struct one_call c) { return forked_here() ? forked_call(call_code, &c) : call_code(&c); }

int module_call_rank(struct module *m, int rank, struct m_exchange *x, void *const *inputs, void *const *outputs)
{
  struct room *r = m->need ? room_take(m) : NULL;
  const int status = m->need && !r ? ENOMEM : call_here((struct one_call){m, NULL, rank, x, inputs, outputs, r});
  if (r) room_give(m, r);
  if (status) m_fail(x, status); // the others need not wait for this rank
  return status;
}

int module_failed(int status, const char *name, struct err *e)
{
  switch (status) {
  case 0: return OK;
  case EBADMSG: return err_set(e, ERR_WRONG, NOWHERE, "%.80s: the ranks have results of different bits", name);
  case ETIMEDOUT:
  case ECANCELED: return err_set(e, ERR_STOPPED, NOWHERE, "%.80s: a rank waited too long for the others", name);
  case ENOMEM: return err_set(e, ERR_MEMORY, NOWHERE, "%.80s: no memory for its workspace", name);
  }
  return err_set(e, ERR_MEMORY, NOWHERE, "%.80s: %s", name, strerror(status));
}

int module_call(struct module *m, void *const *inputs, void *const *outputs)
{
  if (m->ranks) return m->call_ranks(m, m->ranks, inputs, outputs);
  if (!m->need) return call_here((struct one_call){m, NULL, 0, NULL, inputs, outputs, NULL});
  struct room *r = room_take(m);
  if (!r) return ENOMEM;
  int status = call_here((struct one_call){m, NULL, 0, NULL, inputs, outputs, r});
  return room_give(m, r), status;
}

// ---- frozen inputs ----

bool module_freezes(const struct module *m) { return m->frozen_bytes > 0 || m->of; }

int module_freeze(struct module *m, void *const *inputs, struct module **out, struct err *e)
{
  CHECK(module_freezes(m));
  if (m->of) m = m->of;
  struct module *f = mem_handle(sizeof *f, &kind);
  *f = (struct module){.call_frozen = m->call_frozen, .seconds = m->seconds, .world = 1, .fd = -1, .of = m, .holders = 1};
  f->need = m->need - m->frozen_bytes;
  pthread_mutex_init(&f->lock, NULL);
  pthread_mutex_lock(&m->lock);
  m->holders++;
  pthread_mutex_unlock(&m->lock);
  f->frozen = room_new(m->frozen_bytes);
  struct room *work = f->frozen ? room_take(m) : NULL;
  const int status = work ? call_here((struct one_call){m, f->frozen, 0, NULL, inputs, NULL, work}) : ENOMEM;
  if (work) room_give(m, work);
  if (!status) return *out = f, OK;
  module_close(f);
  return err_set(e, ERR_MEMORY, NOWHERE, "no memory for what is computed of frozen inputs: %zu bytes", m->frozen_bytes);
}

const double *module_seconds(const struct module *m) { return m->seconds; }

void module_hold(struct module *m, struct left_call *c)
{
  mem_keep(m);
  if (m->bytes) mem_keep(m->bytes);
  if (m->of) mem_keep(m->of), mem_keep(m->of->bytes);
  m->left = c;
}

struct left_call *module_left(const struct module *m) { return m->left; }

void module_close(struct module *m)
{
  if (m && !call_takes_module(m->left)) module_drop(m);
}

void module_drop(struct module *m)
{
  pthread_mutex_lock(&m->lock);
  const bool held = --m->holders > 0;
  pthread_mutex_unlock(&m->lock);
  module_rest(m);
  if (held) return;
  if (m->of) module_drop(m->of);
  if (m->so) dlclose(m->so);
  if (m->fd >= 0) close(m->fd);
  free(m->frozen);
  pthread_mutex_destroy(&m->lock);
  mem_free(m->bytes);
  mem_free(m);
}
