// The driver by dlopen: one device, its primary context, one stream. Errors of kernels are asynchronous: the next call
// that waits returns them. They are environment errors too, as the device is unusable afterwards.
#include "cuda/driver.h"
#include "base/memory.h"
#include "cuda/library.h"

#include <dlfcn.h>
#include <string.h>

static const struct {
  const char *name;
  size_t at;
} symbols[] = {
#define FUNCTION(field, symbol, parameters) {symbol, offsetof(struct gpu, field)},
    CU_FUNCTIONS
#undef FUNCTION
};
enum { CC_MAJOR = 75, CC_MINOR = 76, PROCESSORS = 16, L2_BYTES = 38, SHARED_OPTIN = 97, SHARED_PROCESSOR = 81 }; // CUdevice_attribute
enum { STREAM_NON_BLOCKING = 1 };

int gpu_check(const struct gpu *g, int code, struct err *e, const char *fmt, ...)
{
  if (!code) return OK;
  char what[256];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(what, sizeof what, fmt, ap);
  va_end(ap);
  const char *name = NULL, *text = NULL;
  if (g->error_name(code, &name) || !name) name = "unknown error";
  if (g->error_text(code, &text) || !text) text = "";
  return err_set(e, code == 2 ? ERR_MEMORY : ERR_GPU, NOWHERE, "%s: %s (%s, %d)", what, text, name, code);
}

static int find(struct gpu *g, struct err *e)
{
  g->so = cuda_library(LIBRARY_DRIVER, NULL, e);
  if (!g->so) return (int)e->status;
  for (size_t i = 0; i < COUNT(symbols); i++) {
    void *f = dlsym(g->so, symbols[i].name);
    if (!f) return err_set(e, ERR_GPU, NOWHERE, "the driver has no %s: CUDA 12.0 or later is needed", symbols[i].name);
    memcpy((char *)g + symbols[i].at, &f, sizeof f);
  }
  return OK;
}

static int read_facts(struct gpu *g, struct err *e)
{
  struct gpu_facts *f = &g->facts;
  int major, minor, l2, shared, all;
  const struct {
    int id, *to;
  } wanted[] = {{CC_MAJOR, &major}, {CC_MINOR, &minor},      {PROCESSORS, &f->processors},
                {L2_BYTES, &l2},    {SHARED_OPTIN, &shared}, {SHARED_PROCESSOR, &all}};
  for (size_t i = 0; i < COUNT(wanted); i++)
    if (gpu_check(g, g->device_attribute(wanted[i].to, wanted[i].id, g->device), e, "asking about the device")) return e->status;
  f->arch = 10 * major + minor, f->l2 = l2, f->shared = shared, f->shared_processor = all;
  if (gpu_check(g, g->version(&f->driver), e, "asking for the driver's version")) return e->status;
  return gpu_check(g, g->device_name(f->name, (int)sizeof f->name, g->device), e, "asking for the device's name");
}

static int choose_device(struct gpu *g, int device, struct err *e)
{
  int n = 0;
  if (gpu_check(g, g->init(0), e, "starting the driver")) return e->status;
  if (gpu_check(g, g->device_count(&n), e, "counting devices")) return e->status;
  if (device < 0 || device >= n) return err_set(e, ERR_GPU, NOWHERE, "there is no GPU %d: this machine has %d", device, n);
  return gpu_check(g, g->device_get(&g->device, device), e, "opening GPU %d", device);
}

static int take_device(struct gpu *g, int device, struct err *e)
{
  cu_context context;
  if (choose_device(g, device, e) != OK) return e->status;
  if (gpu_check(g, g->context_retain(&context, g->device), e, "opening a context on GPU %d", device)) return e->status;
  g->retained = true, g->context = context;
  if (gpu_check(g, g->context_set(context), e, "using GPU %d", device)) return e->status;
  if (gpu_check(g, g->stream_create(&g->stream, STREAM_NON_BLOCKING), e, "making a stream")) return e->status;
  if (gpu_check(g, g->event_create(&g->from, 0), e, "making an event")) return e->status;
  if (gpu_check(g, g->event_create(&g->to, 0), e, "making an event")) return e->status;
  return read_facts(g, e);
}

int gpu_open(int device, struct gpu **out, struct err *e)
{
  struct gpu *g = mem_lasting(sizeof *g);
  *out = NULL;
  int status = find(g, e);
  if (status == OK) status = take_device(g, device, e);
  if (status != OK)
    gpu_close(g);
  else
    *out = g;
  return status;
}

// ---- the caller's context ----

static int take_current(struct gpu *g, struct err *e)
{
  if (gpu_check(g, g->init(0), e, "starting the driver")) return e->status;
  if (gpu_check(g, g->context_get(&g->context), e, "asking for the current context")) return e->status;
  if (g->context) return gpu_check(g, g->context_device(&g->device), e, "asking for the current device");
  if (choose_device(g, 0, e) != OK) return e->status;
  if (gpu_check(g, g->context_retain(&g->context, g->device), e, "opening a context on GPU 0")) return e->status;
  g->retained = true;
  return gpu_check(g, g->context_set(g->context), e, "using GPU 0");
}

int gpu_borrow(struct gpu **out, struct err *e)
{
  struct gpu *g = mem_lasting(sizeof *g);
  *out = NULL;
  int status = find(g, e);
  if (status == OK) status = take_current(g, e);
  if (status == OK) status = read_facts(g, e);
  if (status != OK)
    gpu_close(g);
  else
    *out = g;
  return status;
}

bool gpu_is_current(const struct gpu *g)
{
  cu_context now;
  if (g->context_get(&now)) return false;
  return now == g->context || (!now && g->retained && !g->context_set(g->context));
}

void gpu_follow(struct gpu *g, void *stream) { g->stream = stream; }

bool gpu_enter(struct gpu *g, void **before)
{
  cu_context now;
  if (g->context_get(&now)) return false;
  *before = now;
  return now == g->context || !g->context_set(g->context);
}

void gpu_leave(struct gpu *g, void *before)
{
  cu_context was = before;
  if (was != g->context) g->context_set(was);
}

void gpu_return(struct gpu *g)
{
  if (g) g->stream = NULL; // belongs to the caller
  gpu_close(g);
}

void gpu_close(struct gpu *g)
{
  if (!g) return;
  if (g->from) g->event_destroy(g->from);
  if (g->to) g->event_destroy(g->to);
  if (g->stream) g->stream_destroy(g->stream);
  if (g->retained) g->context_release(g->device);
  if (g->so) dlclose(g->so);
  mem_free(g);
}

int gpu_look(int device, struct gpu_facts *out, struct err *e)
{
  struct gpu *g = mem_lasting(sizeof *g);
  int status = find(g, e);
  if (status == OK) status = choose_device(g, device, e);
  if (status == OK) status = read_facts(g, e);
  *out = g->facts;
  gpu_close(g);
  return status;
}

const struct gpu_facts *gpu_facts(const struct gpu *g) { return &g->facts; }

int gpu_alloc(struct gpu *g, size_t bytes, gpu_address *out, struct err *e)
{
  *out = 0;
  return gpu_check(g, g->alloc(out, bytes ? bytes : 1), e, "taking %zu bytes of device memory", bytes);
}

int gpu_host_alloc(struct gpu *g, size_t bytes, void **out, struct err *e)
{
  *out = NULL;
  return gpu_check(g, g->host_alloc(out, bytes ? bytes : 1), e, "taking %zu bytes of the host's memory that the device reads fast", bytes);
}

void gpu_host_free(struct gpu *g, void *p)
{
  if (p) g->host_free(p);
}

void gpu_free(struct gpu *g, gpu_address a)
{
  if (a) g->release(a);
}

int gpu_memory(struct gpu *g, size_t *bytes, struct err *e)
{
  size_t all;
  *bytes = 0;
  return gpu_check(g, g->memory(bytes, &all), e, "asking how much device memory is left");
}

int gpu_wait(struct gpu *g, struct err *e) { return gpu_check(g, g->stream_wait(g->stream), e, "running on the GPU"); }

int gpu_write(struct gpu *g, gpu_address to, const void *from, size_t bytes, struct err *e)
{
  if (!bytes) return OK;
  if (gpu_check(g, g->write(to, from, bytes, g->stream), e, "copying %zu bytes to the GPU", bytes)) return e->status;
  return gpu_wait(g, e);
}

int gpu_read(struct gpu *g, void *to, gpu_address from, size_t bytes, struct err *e)
{
  if (!bytes) return OK;
  if (gpu_check(g, g->read(to, from, bytes, g->stream), e, "copying %zu bytes from the GPU", bytes)) return e->status;
  return gpu_wait(g, e);
}

int gpu_fill(struct gpu *g, gpu_address to, uint8_t byte, size_t bytes, struct err *e)
{
  if (!bytes) return OK;
  return gpu_check(g, g->fill(to, byte, bytes, g->stream), e, "filling %zu bytes on the GPU", bytes);
}

int gpu_copy(struct gpu *g, gpu_address to, gpu_address from, size_t bytes, struct err *e)
{
  if (!bytes) return OK;
  return gpu_check(g, g->copy(to, from, bytes, g->stream), e, "copying %zu bytes on the GPU", bytes);
}
