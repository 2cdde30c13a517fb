// The memory in which ranks meet (mica_meet.h). Threads of one process share a block; processes share an object of POSIX shared memory.
// Rank 0 makes the object and holds a lock on it (flock), the others wait for it, and once all have it the name goes away, so that nothing is left
// after a crash of a later call. An object that nobody holds was left by a process that is gone, and is replaced.
#include "base/memory.h"
#include "rt/rt.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME = 100, STEP = 2000000 }; // characters of a name; nanoseconds between looks
static const uint64_t MAGIC = 0x6863786561636966;

struct exchange_world { // block of this process, for threads
  struct exchange_world *next;
  int holders;
  struct m_exchange *x;
};
struct exchange {
  struct m_exchange *x;
  struct exchange_worlds *here; // where its world is, or NULL
  struct exchange_world *world;
  size_t bytes;
  int rank, ranks, fd; // fd: of the object that this process holds until all ranks have it, or -1
  double seconds;
  char name[160]; // of the object; "": there is none
};

struct m_exchange *exchange_memory(const struct exchange *x) { return x->x; }

static void begin(struct m_exchange *x, const struct exchange_wish *w)
{
  x->key = w->key, x->bytes = w->bytes, x->ranks = (uint32_t)w->ranks;
  x->patience = (uint64_t)(w->seconds * 1e9);
}

// ---- who is missing ----

static void ranks_text(char out[64], int ranks, uint32_t set)
{
  int n = 0;
  out[0] = 0;
  for (int r = 0; r < ranks; r++)
    if (set >> r & 1) n += snprintf(out + n, (size_t)(64 - n), "%s%d", n ? ", " : "", r);
}

int exchange_failed(const struct exchange *x, int status, struct err *e)
{
  const uint32_t why = __atomic_load_n(&x->x->failed, __ATOMIC_ACQUIRE);
  uint32_t last = 0, late = 0;
  char text[64];
  if (status == ENOMEM) return err_set(e, ERR_MEMORY, NOWHERE, "no memory for the workspace of rank %d", x->rank);
  if (why == EPIPE) return err_set(e, ERR_WORLD, NOWHERE, "another rank of the world was closed before the call of rank %d ended", x->rank);
  if (why && why != ETIMEDOUT) return err_set(e, ERR_WORLD, NOWHERE, "another rank of the world failed: %s", strerror((int)why));
  for (int r = 0; r < x->ranks; r++) last = MAX(last, __atomic_load_n(&x->x->at[r], __ATOMIC_RELAXED));
  for (int r = 0; r < x->ranks; r++) late |= (uint32_t)(__atomic_load_n(&x->x->at[r], __ATOMIC_RELAXED) < last) << r;
  ranks_text(text, x->ranks, late);
  err_set(e, ERR_WORLD, NOWHERE, "rank %s did not reach the collective operation within %g seconds", text, x->seconds);
  return err_hint(e, "every rank has to make the same calls; open the ranks again"), (int)e->status;
}

// ---- threads of this process ----

static int taken(int rank, struct err *e)
{
  err_set(e, ERR_WORLD, NOWHERE, "rank %d of this world is open already", rank);
  return err_hint(e, "each rank is opened once; another world has another name"), (int)e->status;
}

static struct exchange_world *new_world(const struct exchange_wish *w)
{
  struct exchange_world *s = calloc(1, sizeof *s);
  if (s && !(s->x = aligned_alloc(64, (w->bytes + 63) / 64 * 64))) return free(s), NULL;
  if (!s) return NULL;
  memset(s->x, 0, w->bytes), begin(s->x, w);
  return s->next = w->here->first, w->here->first = s;
}

// The first world of this program that waits for the rank, or a new one.
static int open_here(struct exchange *o, const struct exchange_wish *w, struct err *e)
{
  struct exchange_world *s = w->here->first;
  while (s && (s->x->key != w->key || s->x->joined >> w->rank & 1 || __atomic_load_n(&s->x->failed, __ATOMIC_ACQUIRE))) s = s->next;
  if (!s && !(s = new_world(w))) return err_set(e, ERR_MEMORY, NOWHERE, "no memory in which the ranks meet: %zu bytes", w->bytes);
  s->holders++, s->x->joined |= 1u << w->rank;
  return o->here = w->here, o->world = s, o->x = s->x, OK;
}

static void close_here(struct exchange *o)
{
  struct exchange_world **p = &o->here->first;
  if (--o->world->holders) return;
  while (*p != o->world) p = &(*p)->next;
  *p = o->world->next;
  free(o->world->x), free(o->world);
}

// ---- processes ----

static int no_object(const char *what, const struct exchange_wish *w, struct err *e)
{
  return err_set(e, errno == ENOSPC || errno == ENOMEM ? ERR_MEMORY : ERR_FILE, NOWHERE, "shared memory for the world `%.100s`, %zu bytes: %s: %s",
                 w->name, w->bytes, what, strerror(errno));
}

static int others_object(int fd, const struct exchange_wish *w, struct err *e)
{
  close(fd), errno = EPERM;
  return no_object("it is another user's", w, e);
}

static void pause_briefly(void) { nanosleep(&(const struct timespec){0, STEP}, NULL); }

static struct m_exchange *map(int fd, size_t bytes)
{
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return p == MAP_FAILED ? NULL : p;
}

// Nobody else holds the object, and it has a name yet: who finds one without an owner takes its name away, before or after this.
static bool own(int fd)
{
  struct stat st;
  return !flock(fd, LOCK_EX) && !fstat(fd, &st) && st.st_nlink;
}

// One process at a time takes names away: a second one would take that of the object which the first has made since.
static bool alone(int fd)
{
  struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  return !fcntl(fd, F_OFD_SETLKW, &whole);
}

// An object that its owner left loses its name; NO where it has an owner. The lock is shared: with an exclusive one, another rank would take this process
// for the owner, and join the object that was left.
static int drop_left(const struct exchange *o, const struct exchange_wish *w, struct err *e)
{
  enum { TRIES = 20 };
  struct stat st;
  bool free = false;
  int fd = shm_open(o->name, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return errno == ENOENT ? OK : no_object("it cannot be opened", w, e);
  if (fstat(fd, &st) || st.st_uid != geteuid()) return others_object(fd, w, e);
  for (int i = 0; i < TRIES && !(free = !flock(fd, LOCK_SH | LOCK_NB)); i++) pause_briefly();
  if (free && alone(fd) && !fstat(fd, &st) && st.st_nlink) shm_unlink(o->name);
  return close(fd), free ? OK : NO;
}

// A new object, which this process holds until all ranks have it.
static int new_object(struct exchange *o, const struct exchange_wish *w, struct err *e)
{
  enum { TRIES = 100 };
  for (int i = 0; i < TRIES; i++) {
    const int fd = shm_open(o->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd >= 0 && own(fd)) return o->fd = fd, OK;
    if (fd >= 0)
      close(fd);
    else if (errno != EEXIST)
      return no_object("it cannot be made", w, e);
    else if (drop_left(o, w, e) != OK)
      return e->status ? (int)e->status : taken(0, e);
  }
  return taken(0, e);
}

static int make(struct exchange *o, const struct exchange_wish *w, struct err *e)
{
  TRY(new_object(o, w, e));
  errno = posix_fallocate(o->fd, 0, (off_t)w->bytes);
  if (errno || !(o->x = map(o->fd, w->bytes))) {
    int status = no_object("it has no room", w, e);
    return shm_unlink(o->name), status;
  }
  begin(o->x, w);
  o->x->joined = 1;
  __atomic_store_n(&o->x->magic, MAGIC, __ATOMIC_RELEASE);
  return OK;
}

// Has a process that is there made it?
static bool held(int fd)
{
  const bool free = !flock(fd, LOCK_SH | LOCK_NB);
  if (free) flock(fd, LOCK_UN);
  return !free;
}

// OK, NO where it is not there yet, or an error.
static int find(struct exchange *o, const struct exchange_wish *w, struct err *e)
{
  struct stat st;
  int fd = shm_open(o->name, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return errno == ENOENT ? NO : no_object("it cannot be opened", w, e);
  if (fstat(fd, &st) || st.st_uid != geteuid()) return others_object(fd, w, e);
  struct m_exchange *x = (size_t)st.st_size >= M_EXCHANGE && held(fd) ? map(fd, (size_t)st.st_size) : NULL;
  close(fd);
  if (!x) return NO;
  const bool there = __atomic_load_n(&x->magic, __ATOMIC_ACQUIRE) == MAGIC;
  const bool same = there && x->key == w->key && x->bytes == w->bytes && x->ranks == (uint32_t)w->ranks && (size_t)st.st_size == w->bytes;
  if (same && !(__atomic_fetch_or(&x->joined, 1u << w->rank, __ATOMIC_ACQ_REL) >> w->rank & 1)) return o->x = x, OK;
  if (there && !same) m_fail(x, EPROTO);
  munmap(x, (size_t)st.st_size);
  if (!there) return NO;
  if (same) return taken(w->rank, e);
  err_set(e, ERR_WORLD, NOWHERE, "rank %d has another program than rank 0 of the world `%.100s`", w->rank, w->name);
  return err_hint(e, "load one saved folder on all ranks: two searches need not find the same kernels"), (int)e->status;
}

static int none_came(const struct exchange *o, const struct exchange_wish *w, uint32_t missing, struct err *e)
{
  char text[64];
  ranks_text(text, w->ranks, missing);
  err_set(e, ERR_WORLD, NOWHERE, "rank %s of the world `%.100s` was not opened within %g seconds", text, w->name, o->seconds);
  return err_hint(e, "open all %d ranks, each in a process of its own, with the same name", w->ranks), (int)e->status;
}

static int wait_for_all(struct exchange *o, const struct exchange_wish *w, double until, struct err *e)
{
  const uint32_t every = (1u << w->ranks) - 1;
  uint32_t joined;
  while ((joined = __atomic_load_n(&o->x->joined, __ATOMIC_ACQUIRE)) != every) {
    const int why = (int)__atomic_load_n(&o->x->failed, __ATOMIC_ACQUIRE);
    if (why == EPROTO) return err_set(e, ERR_WORLD, NOWHERE, "the ranks of the world `%.100s` have different programs", w->name);
    if (why || now_seconds() > until) return m_fail(o->x, ETIMEDOUT), none_came(o, w, every & ~joined, e);
    pause_briefly();
  }
  return OK;
}

static int open_object(struct exchange *o, const struct exchange_wish *w, struct err *e)
{
  const double until = now_seconds() + w->seconds;
  int status = w->rank ? NO : make(o, w, e);
  o->bytes = w->bytes;
  while (status == NO && e->status == OK) {
    status = find(o, w, e);
    if (status == NO && now_seconds() > until) return none_came(o, w, 1, e);
    if (status == NO) pause_briefly();
  }
  if (status == OK) status = wait_for_all(o, w, until, e);
  if (o->fd >= 0 && o->x) shm_unlink(o->name);
  if (o->fd >= 0) close(o->fd), o->fd = -1;
  return status;
}

// ---- opening, closing ----

static int name_object(struct exchange *o, const struct exchange_wish *w, struct err *e)
{
  const size_t n = strlen(w->name);
  bool good = n > 0 && n <= NAME;
  for (size_t i = 0; i < n && good; i++) good = isalnum((unsigned char)w->name[i]) || strchr("._-", w->name[i]);
  if (!good) {
    err_set(e, ERR_OPTION, NOWHERE, "`%.100s` is no name of a world", w->name);
    return err_hint(e, "a name has up to %d letters, digits, dots, dashes and underscores", NAME), (int)e->status;
  }
  snprintf(o->name, sizeof o->name, "/mica-%u-%s", (unsigned)geteuid(), w->name);
  return OK;
}

static void drop(void *x) { exchange_close(x); }
static const struct mem_kind kind = {.close = drop};

int exchange_open(const struct exchange_wish *w, struct exchange **out, struct err *e)
{
  struct exchange *o = mem_handle(sizeof *o, &kind);
  o->rank = w->rank, o->ranks = w->ranks, o->fd = -1, o->seconds = w->seconds;
  int status = w->name ? name_object(o, w, e) : OK;
  if (status == OK) status = w->name ? open_object(o, w, e) : open_here(o, w, e);
  if (status != OK) return exchange_close(o), status;
  return *out = o, OK;
}

void exchange_close(struct exchange *o)
{
  if (!o) return;
  if (o->x) m_fail(o->x, EPIPE);
  if (o->here)
    close_here(o);
  else if (o->x)
    munmap(o->x, o->bytes);
  mem_free(o);
}
