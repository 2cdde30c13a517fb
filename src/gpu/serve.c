// The worker's side: answers requests until the other side is gone. A thread watches for that, because the serving thread may wait for a kernel that
// never ends.
//
// An answer first says whether the device is lost. After an error the device is synchronized; if that fails, it cannot be used by this process again.
#include "gpu/stage.h"
#include "base/memory.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

struct stage *stage_new(void) { return mem_lasting(sizeof(struct stage)); }

void stage_free(struct stage *s)
{
  if (!s) return;
  void *before;
  stage_blas_started(s);
  if (s->g && gpu_enter(s->g, &before)) {
    stage_end(s);
    gpu_free(s->g, s->blas_work);
    blas_close(s->blas);
    gpu_leave(s->g, before);
  }
  gpu_close(s->g);
  nvrtc_close(s->nvrtc);
  mem_free(s->p);
  mem_free(s);
}

// ---- requests ----

static int same_build(struct wire *in, struct err *e)
{
  struct arena mem = {0};
  bool same = !strcmp(wire_get_text(&mem, in), build_fingerprint);
  arena_close(&mem);
  return same && !in->bad ? OK : err_set(e, ERR_LIBRARY, NOWHERE, "the worker is of another build of Mica");
}

static int hello(struct stage *s, struct wire *in, struct wire *out, struct err *e)
{
  if (same_build(in, e)) return e->status;
  int device = (int)wire_get(in);
  if (in->bad) return err_set(e, ERR_LIBRARY, NOWHERE, "the worker is of another build of Mica");
  if (!s->g && gpu_open(device, &s->g, e)) return e->status;
  if (s->early) stage_blas_begin(s);
  size_t memory;
  if (gpu_memory(s->g, &memory, e)) return e->status;
  wire_put_bytes(out, gpu_facts(s->g), sizeof *gpu_facts(s->g));
  wire_put(out, (int64_t)memory);
  return OK;
}

static int compile(struct stage *s, struct wire *in, struct wire *out, struct err *e)
{
  struct arena mem = {0};
  struct cubin c;
  int arch = (int)wire_get(in);
  const char *name = wire_get_text(&mem, in), *source = wire_get_text(&mem, in);
  int status = in->bad ? err_set(e, ERR_COMPILER, NOWHERE, "a source cannot be read") : OK;
  if (status == OK && !s->by && !s->nvrtc) status = nvrtc_open(&s->nvrtc, e);
  if (status == OK)
    status = s->by ? s->by->compile(s->by->arg, &mem, name, source, arch, &c, e) : nvrtc_compile(s->nvrtc, &mem, name, source, arch, &c, e);
  if (status == OK) wire_put(out, c.registers), wire_put(out, c.spilled), wire_put_bytes(out, c.bytes, c.n);
  arena_close(&mem);
  return status;
}

static int drop(struct stage *s, struct wire *in)
{
  stage_drop(s, (int)wire_get(in));
  return OK;
}

static int serve(struct stage *s, int64_t kind, struct wire *in, int carried, struct wire *out, struct err *e)
{
  if (kind == ASK_HELLO) return hello(s, in, out, e);
  if (kind == ASK_BUILD) return same_build(in, e);
  if (kind == ASK_COMPILE) return compile(s, in, out, e);
  if (!s->g) return err_set(e, ERR_GPU, NOWHERE, "the worker has no device");
  if (kind == ASK_PROBLEM) return stage_problem(s, in, carried, out, e);
  if (kind == ASK_DROP) return drop(s, in);
  if (!s->shared) return err_set(e, ERR_GPU, NOWHERE, "the worker has no problem");
  if (kind == ASK_LOAD) return stage_load(s, in, out, e);
  if (kind == ASK_COMPARE) return stage_compare(s, in, carried, e);
  if (kind == ASK_RUN) return stage_run(s, in, out, e);
  if (kind == ASK_OUTPUTS) return stage_outputs(s, in, e);
  if (kind == ASK_FIRST) return stage_first(s, e);
  if (kind == ASK_TIME) return stage_time(s, in, out, e);
  return err_set(e, ERR_GPU, NOWHERE, "the worker does not know the request %lld", (long long)kind);
}

void stage_serve(struct stage *s, int64_t kind, struct wire *in, int carried, struct wire *out)
{
  struct err e = {0}, waiting = {0};
  struct wire answer = {0};
  void *before = NULL;
  // Requests inside a process come from several threads, each with its own current context. The first one opens the device.
  const bool opened = s->g, entered = opened && gpu_enter(s->g, &before);
  int status = OK;
  if (opened && !entered) status = err_set(&e, ERR_GPU, NOWHERE, "the GPU's context cannot be used in this thread");
  if (status == OK) status = serve(s, kind, in, carried, &answer, &e);
  bool lost = status != OK && s->g && gpu_wait(s->g, &waiting) != OK;
  if (entered) gpu_leave(s->g, before);
  wire_put(out, lost);
  wire_put_error(out, &e);
  if (status == OK) str_raw(&out->s, str_text(&answer.s), answer.s.n);
  wire_free(&answer);
}

// ---- the process ----

static void *watch(void *arg)
{
  struct pollfd p = {.fd = *(const int *)arg, .events = POLLRDHUP};
  while (poll(&p, 1, -1) < 0 || !(p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL))) continue;
  _exit(0);
}

void stage_serve_all(struct stage *s, int fd)
{
  struct wire in = {0}, out = {0};
  struct err e = {0};
  pthread_t watcher;
  bool lost = false;
  if (pool_thread(&watcher, watch, &fd)) _exit(ENV);
  for (int status = OK; status == OK && !lost;) {
    int64_t kind;
    int carried;
    status = wire_receive(fd, &kind, &in, &carried, -1, &e);
    if (status != OK) break;
    out.s.n = 0;
    stage_serve(s, kind, &in, carried, &out);
    if (carried >= 0) close(carried);
    lost = str_text(&out.s)[0];
    status = wire_send(fd, kind, &out, -1, &e);
  }
  _exit(0); // the system frees a lost device faster
}

int gpu_worker_main(int fd)
{
  struct stage *s = stage_new();
  s->early = true;
  stage_serve_all(s, fd);
}
