#include "fake.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Each function under its own name here and under the driver's in a library.
#define FUNCTION(field, symbol, parameters) __attribute__((visibility("default"))) int fake_##field parameters __asm__(symbol);
CU_FUNCTIONS
#undef FUNCTION

struct fake fake;
enum { HEAD = 256, OUT_OF_MEMORY = 2, FAILED = 700, NOT_IN_CAPTURE = 900, RELAXED = 2 };

double fake_clock(int replay) { return 1 + replay * 7 % 15; } // 1 to 15, not in order

static int say(const char **to, const char *text) { return *to = text, 0; }
int fake_error_name(int code, const char **text) { return say(text, code == FAILED ? "FAKE_FAILED" : "FAKE"); }
int fake_error_text(int code, const char **text) { return (void)code, say(text, "as the test wants it"); }

int fake_init(unsigned flags) { return (int)flags; }
int fake_device_count(int *n) { return *n = 1, 0; }
int fake_device_get(int *device, int i) { return *device = i, 0; }
int fake_device_peer(int *can, int device, int other) { return *can = device != other && !getenv("FAKE_APART"), 0; }
// One device has one context, so ranks of this process reach each other; another process reaches nothing.
int fake_peer_enable(cu_context c, unsigned flags) { return (void)c, (int)flags; }
int fake_ipc_get(struct cu_ipc *handle, gpu_address a) { return (void)a, memset(handle, 0, sizeof *handle), 0; }
int fake_ipc_open(gpu_address *a, struct cu_ipc handle, unsigned flags) { return (void)a, (void)handle, (void)flags, FAILED; }
int fake_ipc_close(gpu_address a) { return (void)a, 0; }
int fake_host_alloc(void **p, size_t bytes) { return *p = calloc(1, bytes), *p ? 0 : OUT_OF_MEMORY; }
int fake_host_free(void *p) { return free(p), 0; }
int fake_device_name(char *name, int room, int device) { return (void)device, snprintf(name, (size_t)room, "a fake"), 0; }
int fake_device_attribute(int *value, int attribute, int device)
{
  const char *arch = getenv("FAKE_ARCH"); // 90 unless told
  int is = arch ? atoi(arch) : 90;
  *value = attribute == 75 ? is / 10 : attribute == 76 ? is % 10 : attribute == 16 ? 4 : attribute == 38 ? FAKE_L2 : 232448;
  return device;
}
// With FAKE_SHIM there is a context, and what needs one fails where it is not current.
enum { NO_CONTEXT = 201 };
static _Thread_local cu_context current;
static int without_context(void) { return getenv("FAKE_SHIM") && !current ? NO_CONTEXT : 0; }
int fake_context_retain(cu_context *c, int device)
{
  static uintptr_t made;
  const uintptr_t apart = getenv("FAKE_APART") ? 2 + __atomic_add_fetch(&made, 1, __ATOMIC_SEQ_CST) : 0;
  return *c = (cu_context)(getenv("FAKE_SHIM") ? 1 : apart), device;
}
int fake_context_release(int device) { return device; }
int fake_context_set(cu_context c) { return current = c, 0; }
int fake_context_get(cu_context *c) { return *c = getenv("FAKE_SHIM") ? current : NULL, 0; }
int fake_context_device(int *device) { return *device = 0, 0; }
// A stream is a number; that which is recorded is only waited for after the end, and nothing but what is recorded is done meanwhile.
int fake_stream_create(cu_stream *s, unsigned flags) { return (void)flags, *s = (cu_stream)(uintptr_t)(1000 + ++fake.streams), 0; }
int fake_stream_destroy(cu_stream s) { return (void)s, 0; }
static bool is_recorded(cu_stream s) { return fake.capturing && s == fake.recording; }
static int refused(void) { return fake.capturing && fake.mode != RELAXED ? NOT_IN_CAPTURE : 0; }
int fake_stream_wait(cu_stream s) { return is_recorded(s) ? NOT_IN_CAPTURE : 0; }
__attribute__((visibility("default"))) int cuThreadExchangeStreamCaptureMode(int *mode);
int cuThreadExchangeStreamCaptureMode(int *mode)
{
  int was = fake.mode;
  return fake.mode = *mode, *mode = was, 0;
}

int fake_alloc(gpu_address *a, size_t bytes)
{
  if (refused() || without_context()) return refused() + without_context();
  const char *full = getenv("FAKE_FULL"); // one allocation of so many bytes fails
  if (full && bytes == (size_t)atol(full) && !__atomic_exchange_n(&fake.full, true, __ATOMIC_SEQ_CST)) return OUT_OF_MEMORY;
  char *p = malloc(bytes + HEAD);
  if (!p) return OUT_OF_MEMORY;
  memcpy(p, &bytes, sizeof bytes);
  if (getenv("FAKE_SHIM")) memset(p + HEAD, 0xff, bytes); // NaN, where nothing is written
  fake.allocated++;
  return *a = (gpu_address)(uintptr_t)(p + HEAD), 0;
}

static char *at(gpu_address a) { return (char *)(uintptr_t)a; }
int fake_release(gpu_address a) { return fake.released++, free(at(a) - HEAD), 0; }
int fake_write(gpu_address to, const void *from, size_t n, cu_stream s) { return (void)s, memcpy(at(to), from, n), 0; }
int fake_read(void *to, gpu_address from, size_t n, cu_stream s) { return (void)s, memcpy(to, at(from), n), 0; }
int fake_fill(gpu_address to, unsigned char b, size_t n, cu_stream s) { return is_recorded(s) ? 0 : (memset(at(to), b, n), 0); }
int fake_copy(gpu_address to, gpu_address from, size_t n, cu_stream s) { return (void)s, memcpy(at(to), at(from), n), 0; }
int fake_memory(size_t *left, size_t *all) { return *left = *all = (size_t)1 << 30, 0; }
int fake_version(int *version) { return *version = 13000, 0; }

int fake_event_create(cu_event *v, unsigned flags) { return (void)flags, *v = NULL, 0; }
int fake_event_destroy(cu_event v) { return (void)v, 0; }
int fake_event_record(cu_event v, cu_stream s) { return (void)v, (void)s, 0; }
int fake_event_wait(cu_event v) { return (void)v, 0; }
int fake_event_elapsed(float *milliseconds, cu_event from, cu_event to)
{
  (void)from, (void)to;
  return *milliseconds = (float)fake_clock(fake.replays++), 0;
}

// FAKE_SHIM names a library made of a persistent kernel's text for a CPU: its functions are the module's kernels, whatever the image is.
static void *shim;
static char shim_memory[1 << 16];
int fake_module_load(cu_module *m, const void *image)
{
  const char *path = getenv("FAKE_SHIM");
  if (path && !(shim = dlopen(path, RTLD_NOW | RTLD_LOCAL))) return FAILED;
  return (void)image, *m = NULL, refused() + without_context();
}
int fake_module_global(gpu_address *a, size_t *bytes, cu_module m, const char *name)
{
  if (strcmp(name, "M")) return FAILED;
  return (void)m, *a = (gpu_address)(uintptr_t)shim_memory, *bytes = sizeof shim_memory, without_context();
}
static int shim_launch(const struct cu_config *c, const char *name, void **args)
{
  void *f = dlsym(shim, !strcmp(name, "mega_kernel") ? "mega_launch" : name);
  if (!f || !c->stream) return FAILED;
  if (!strcmp(name, "mega_fill"))
    ((void (*)(void *, uint64_t, double, int, long long))f)(*(void **)args[0], *(uint64_t *)args[1], *(double *)args[2], *(int *)args[3],
                                                            *(long long *)args[4]);
  else if (!strcmp(name, "mega_pack"))
    ((void (*)(int, char *, const void *))f)(*(int *)args[0], *(char **)args[1], *(void **)args[2]);
  else if (c->nattributes != 1 || c->attributes[0].id != CU_COOPERATIVE || !c->attributes[0].value.flag)
    return FAILED;
  else
    ((void (*)(const void *, unsigned, int, int))f)(shim_memory, *(unsigned *)args[0], *(int *)args[1], *(int *)args[2]);
  return without_context();
}
int fake_module_unload(cu_module m) { return (void)m, fake.unloaded = fake.released, 0; }
int fake_module_function(cu_function *f, cu_module m, const char *name)
{
  return (void)m, *f = shim ? (cu_function)(uintptr_t)strdup(name) : NULL, 0;
}
int fake_function_attribute(int *value, int attribute, cu_function f)
{
  *value = attribute == CU_FUNC_THREADS ? 1024 : attribute == CU_FUNC_REGISTERS ? 33 : 0;
  return (void)f, 0;
}
int fake_function_set(cu_function f, int attribute, int value) { return (void)f, (void)attribute, (void)value, 0; }

static void copy(gpu_address to, gpu_address from)
{
  const char *bytes = getenv("FAKE_BYTES"); // of buffers that are parts of an allocation
  size_t n, most;
  if (bytes) {
    memcpy(at(to), at(from), (size_t)atol(bytes));
    return;
  }
  memcpy(&n, at(from) - HEAD, sizeof n);
  memcpy(&most, at(to) - HEAD, sizeof most);
  memcpy(at(to), at(from), MIN(n, most));
}

int fake_launch(const struct cu_config *c, cu_function f, void **args, void **extra)
{
  const char *pause = getenv("FAKE_PAUSE");
  gpu_address a[2];
  if (pause) usleep((useconds_t)atoi(pause));
  if (shim) return shim_launch(c, (const char *)(uintptr_t)f, args);
  memcpy(&a[0], args[0], sizeof a[0]), memcpy(&a[1], args[1], sizeof a[1]);
  (void)f, (void)extra;
  if (++fake.launches == fake.fail_at) return FAILED;
  if (!is_recorded(c->stream))
    copy(a[1], a[0]);
  else if (fake.recorded < FAKE_MOST)
    fake.second[fake.recorded] = a[1], fake.first[fake.recorded++] = a[0];
  return 0;
}

struct graph { // a recorded one; where FAKE_BYTES is told it does what was recorded
  int n;
  gpu_address from[FAKE_MOST], to[FAKE_MOST];
};

static void *graph_of_records(void)
{
  struct graph *g = malloc(sizeof *g);
  if (!g) return NULL;
  g->n = fake.recorded;
  memcpy(g->from, fake.first, sizeof g->from), memcpy(g->to, fake.second, sizeof g->to);
  return g;
}

int fake_capture(cu_stream s, int mode) { return (void)mode, fake.recording = s, fake.capturing = true, fake.recorded = 0, 0; }
int fake_capture_end(cu_stream s, cu_graph *g)
{
  (void)s;
  return *g = graph_of_records(), fake.graphs++, fake.capturing = false, 0;
}
int fake_graph_make(cu_exec *x, cu_graph g, unsigned long long flags)
{
  struct graph *copied = malloc(sizeof *copied);
  if (!copied) return OUT_OF_MEMORY;
  memcpy(copied, g, sizeof *copied);
  return (void)flags, *x = (cu_exec)copied, 0;
}
int fake_graph_launch(cu_exec x, cu_stream s)
{
  const struct graph *g = (const struct graph *)x;
  for (int i = 0; i < g->n && getenv("FAKE_BYTES"); i++) copy(g->to[i], g->from[i]);
  return (void)s, 0;
}
int fake_graph_upload(cu_exec x, cu_stream s) { return (void)x, (void)s, 0; }
int fake_graph_destroy(cu_graph g) { return free(g), fake.graphs--, 0; }
int fake_exec_destroy(cu_exec x) { return free(x), 0; }
int fake_tensor_map(struct gpu_map *out, int type, uint32_t rank, void *base, const uint64_t *size, const uint64_t *stride, const uint32_t *box,
                    const uint32_t *step, int interleave, int swizzle, int promotion, int fill)
{
  (void)type, (void)rank, (void)base, (void)size, (void)stride, (void)box, (void)step;
  (void)interleave, (void)swizzle, (void)promotion, (void)fill;
  return memset(out, 0, sizeof *out), 0;
}

// NVRTC asks a driver that it finds for this, and crashes where it is missing.
__attribute__((visibility("default"))) int cuGetExportTable(const void **table, const void *id);
int cuGetExportTable(const void **table, const void *id) { return *table = NULL, (void)id, FAILED; }

void fake_gpu(struct gpu *g)
{
  *g = (struct gpu){.facts = {.name = "a fake", .arch = 90, .processors = 4, .l2 = FAKE_L2, .shared = 232448}};
#define FUNCTION(field, symbol, parameters) g->field = fake_##field;
  CU_FUNCTIONS
#undef FUNCTION
  fake = (struct fake){0};
}
