// Messages: a sequence of numbers and bytes. Reading checks the message's length, so a truncated or foreign message is only an error.
#include "gpu/wire.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void wire_free(struct wire *w)
{
  str_free(&w->s);
  *w = (struct wire){0};
}

void wire_put(struct wire *w, int64_t x) { str_raw(&w->s, (const char *)&x, sizeof x); }
void wire_put_real(struct wire *w, double x) { str_raw(&w->s, (const char *)&x, sizeof x); }

void wire_put_bytes(struct wire *w, const void *p, size_t n)
{
  wire_put(w, (int64_t)n);
  str_raw(&w->s, p, n);
}

void wire_put_text(struct wire *w, const char *s) { wire_put_bytes(w, s ? s : "", s ? strlen(s) : 0); }

static bool take(struct wire *w, void *to, size_t n)
{
  if (w->bad || n > w->s.n - w->at) return w->bad = true, memset(to, 0, n), false;
  memcpy(to, w->s.p + w->at, n);
  w->at += n;
  return true;
}

int64_t wire_get(struct wire *w)
{
  int64_t x;
  take(w, &x, sizeof x);
  return x;
}

int64_t wire_get_count(struct wire *w, size_t each)
{
  int64_t n = wire_get(w);
  if (!w->bad && (n < 0 || (uint64_t)n > (w->s.n - w->at) / each)) w->bad = true;
  return w->bad ? 0 : n;
}

double wire_get_real(struct wire *w)
{
  double x;
  take(w, &x, sizeof x);
  return x;
}

const void *wire_get_bytes(struct wire *w, size_t *n)
{
  *n = (size_t)wire_get_count(w, 1);
  if (w->bad || !*n) return *n = 0, "";
  w->at += *n;
  return w->s.p + w->at - *n;
}

const char *wire_get_text(struct arena *mem, struct wire *w)
{
  size_t n;
  const char *p = wire_get_bytes(w, &n);
  char *s = arena_alloc(mem, n + 1);
  memcpy(s, p, n);
  return s;
}

void wire_put_error(struct wire *w, const struct err *e)
{
  wire_put(w, e->status);
  wire_put(w, e->id);
  wire_put_text(w, e->text);
  wire_put_text(w, e->hint);
}

static void copy_text(char *to, size_t room, struct wire *w)
{
  size_t n;
  const char *p = wire_get_bytes(w, &n);
  n = MIN(n, room - 1);
  memcpy(to, p, n);
  to[n] = 0;
}

void wire_get_error(struct wire *w, struct err *e)
{
  *e = (struct err){0};
  e->status = (enum status)wire_get(w);
  e->id = (enum errid)wire_get(w);
  copy_text(e->text, sizeof e->text, w);
  copy_text(e->hint, sizeof e->hint, w);
  if (!w->bad && (e->id < ERR_N)) return;
  *e = (struct err){0};
  err_set(e, ERR_GPU, NOWHERE, "the worker's answer cannot be read");
}

// ---- on a socket ----

struct wire_head {
  int64_t kind, n;
};

static int gone(struct err *e) { return err_set(e, ERR_GPU, NOWHERE, "the worker has ended"); }

static int send_all(int fd, const char *p, size_t n, struct err *e)
{
  for (size_t done = 0; done < n;) {
    ssize_t k = send(fd, p + done, n - done, MSG_NOSIGNAL);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return gone(e);
    done += (size_t)k;
  }
  return OK;
}

int wire_send(int fd, int64_t kind, const struct wire *w, int carry, struct err *e)
{
  struct wire_head head = {kind, (int64_t)w->s.n};
  struct iovec part = {&head, sizeof head};
  union {
    char room[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control = {{0}};
  struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
  if (carry >= 0) {
    m.msg_control = control.room, m.msg_controllen = sizeof control.room;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof carry);
    memcpy(CMSG_DATA(c), &carry, sizeof carry);
  }
  ssize_t k;
  do k = sendmsg(fd, &m, MSG_NOSIGNAL);
  while (k < 0 && errno == EINTR);
  if (k < 0) return gone(e);
  if ((size_t)k < sizeof head && send_all(fd, (const char *)&head + k, sizeof head - (size_t)k, e)) return e->status;
  return send_all(fd, str_text(&w->s), w->s.n, e);
}

// OK: there is data to read, or the end of it.
static int wait_for(int fd, double until, struct err *e)
{
  for (;;) {
    double left = until - now_seconds();
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (until > 0 && left <= 0) return NO;
    int k = poll(&p, 1, until > 0 ? (int)MIN(1e3 * left + 1, 1e9) : -1);
    if (k > 0) return OK;
    if (k < 0 && errno != EINTR) return gone(e);
  }
}

int wire_wait(int fd, const struct patience *p, struct err *e)
{
  static const double SLICE = 0.02;
  for (;;) {
    int status = wait_for(fd, now_seconds() + SLICE, e);
    if (status != NO) return status;
    if (stop_set(p->stop) || stop_set(p->drop)) return err_set(e, ERR_STOPPED, NOWHERE, "stopped");
    if (patience_over(p)) return NO;
  }
}

// One read. A file descriptor that is received is kept in *carried; there is at most one.
static ssize_t read_some(int fd, char *to, size_t n, int *carried)
{
  struct iovec part = {to, n};
  union {
    char room[CMSG_SPACE(sizeof(int))];
    struct cmsghdr align;
  } control;
  struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
  ssize_t k = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
  struct cmsghdr *c = k > 0 ? CMSG_FIRSTHDR(&m) : NULL;
  if (c && c->cmsg_type == SCM_RIGHTS && *carried < 0) memcpy(carried, CMSG_DATA(c), sizeof *carried);
  return k;
}

static int read_all(int fd, char *to, size_t n, int *carried, double until, struct err *e)
{
  for (size_t done = 0; done < n;) {
    int status = wait_for(fd, until, e);
    if (status != OK) return status;
    ssize_t k = read_some(fd, to + done, n - done, carried);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return gone(e);
    done += (size_t)k;
  }
  return OK;
}

int wire_receive(int fd, int64_t *kind, struct wire *w, int *carried, double seconds, struct err *e)
{
  enum { PIECE = 1 << 20 };
  static const int64_t MOST = INT64_C(1) << 32;
  double until = seconds < 0 ? 0 : now_seconds() + seconds;
  struct wire_head head;
  *carried = -1;
  w->s.n = 0, w->at = 0, w->bad = false;
  int status = read_all(fd, (char *)&head, sizeof head, carried, until, e);
  if (status != OK) return status;
  if (head.n < 0 || head.n > MOST) return err_set(e, ERR_GPU, NOWHERE, "the worker's answer cannot be read");
  struct arena mem = {0};
  char *piece = arena_alloc(&mem, PIECE);
  for (int64_t done = 0; done < head.n && status == OK;) {
    size_t n = (size_t)MIN(head.n - done, PIECE);
    status = read_all(fd, piece, n, carried, until, e);
    if (status == OK) str_raw(&w->s, piece, n), done += (int64_t)n;
  }
  arena_close(&mem);
  *kind = head.kind;
  return status;
}

// ---- memory shared by both sides ----

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

int64_t guarded_layout(int n, const int64_t *bytes, int64_t *offset)
{
  int64_t at = GUARD;
  for (int i = 0; i < n; i++) offset[i] = at, at = round_up(at + bytes[i], GUARD) + GUARD;
  return at;
}

void shared_layout(struct arena *mem, int nin, const int64_t *in_bytes, int nout, const int64_t *out_bytes, struct shared_map *m)
{
  *m = (struct shared_map){.nin = nin, .nout = nout};
  m->in_bytes = arena_copy(mem, in_bytes, sizeof *in_bytes * (size_t)nin);
  m->out_bytes = arena_copy(mem, out_bytes, sizeof *out_bytes * (size_t)nout);
  m->in = NEWS(mem, int64_t, nin + 1), m->first = NEWS(mem, int64_t, nout + 1), m->other = NEWS(mem, int64_t, nout + 1);
  int64_t at = 0;
  for (int i = 0; i < nin; i++) m->in[i] = at, at = round_up(at + in_bytes[i], GUARD);
  for (int i = 0; i < nout; i++) m->first[i] = at, at = round_up(at + out_bytes[i], GUARD);
  for (int i = 0; i < nout; i++) m->other[i] = at, at = round_up(at + out_bytes[i], GUARD);
  m->bytes = MAX(round_up(at, PAGE), PAGE);
}
