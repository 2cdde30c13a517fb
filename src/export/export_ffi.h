// The calling convention of tvm-ffi (0.1, c_api.h): one function that takes the inputs and then the outputs, as DLPack tensors. Nothing of
// tvm-ffi is needed to build this: its library is looked for in the process, for error messages and for the current stream.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

struct mica_ffi_type {
  uint8_t code, bits;
  uint16_t lanes;
};
struct mica_ffi_dltensor {
  void *data;
  int32_t device, device_id, ndim;
  struct mica_ffi_type type;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct mica_ffi_any {
  int32_t kind;
  uint32_t zero;
  void *value;
};
struct mica_ffi_want { // a tensor of the program
  const char *text;
  uint8_t code, bits;
  int32_t ndim;
  int64_t bytes, shape[8];
};
struct mica_ffi_call {
  const char *name, *where;
  int nin, nout, gpu;
  const struct mica_ffi_want *want;
};
enum { MICA_FFI_DLTENSOR = 7, MICA_FFI_TENSOR = 70, MICA_FFI_HEADER = 24, MICA_FFI_ALIGNED = 16 };
enum { MICA_FFI_CPU = 1, MICA_FFI_CUDA = 2, MICA_FFI_PINNED = 3, MICA_FFI_MANAGED = 13 };

#ifdef __cplusplus
#define MICA_FFI_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define MICA_FFI_EXPORT __attribute__((visibility("default")))
#endif

// A function of tvm-ffi's library, which is in the process where tvm-ffi calls; NULL elsewhere.
static void *mica_ffi_find(const char *function)
{
  void *library = dlopen("libtvm_ffi.so", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) library = dlopen(NULL, RTLD_LAZY);
  return library ? dlsym(library, function) : NULL;
}

static int mica_ffi_fail(const struct mica_ffi_call *c, const char *kind, int number, const char *why)
{
  typedef void raise_fn(const char *kind, const char *message);
  raise_fn *raise = (raise_fn *)mica_ffi_find("TVMFFIErrorSetRaisedFromCStr");
  char text[600];
  if (number < 0)
    snprintf(text, sizeof text, "%s: %s", c->name, why);
  else
    snprintf(text, sizeof text, "%s: argument %d %s; it has to be %s %s, dense row by row, %s", c->name, number, why,
             number < c->nin ? "the input" : "the output", c->want[number].text, c->where);
  if (raise) raise(kind, text);
  return -1;
}

static const struct mica_ffi_dltensor *mica_ffi_tensor(const struct mica_ffi_any *a)
{
  if (a->kind == MICA_FFI_DLTENSOR) return (const struct mica_ffi_dltensor *)a->value;
  return a->kind == MICA_FFI_TENSOR ? (const struct mica_ffi_dltensor *)((const char *)a->value + MICA_FFI_HEADER) : NULL;
}

static int mica_ffi_on(int gpu, int device)
{
  return gpu ? device == MICA_FFI_CUDA || device == MICA_FFI_MANAGED : device == MICA_FFI_CPU || device == MICA_FFI_PINNED;
}

// NULL, or what is wrong with a tensor.
static const char *mica_ffi_wrong(const struct mica_ffi_dltensor *t, const struct mica_ffi_want *w, int gpu, int device)
{
  int64_t dense = 1;
  if (!t) return "is no tensor";
  if (t->type.code != w->code || t->type.bits != w->bits || t->type.lanes != 1) return "has another dtype";
  if (t->ndim != w->ndim) return "has another number of dimensions";
  for (int i = w->ndim; i-- > 0; dense *= w->shape[i]) {
    if (t->shape[i] != w->shape[i]) return "has another shape";
    if (t->strides && t->shape[i] > 1 && t->strides[i] != dense) return "is not dense row by row";
  }
  if (!mica_ffi_on(gpu, t->device)) return "is on another kind of device";
  if (gpu && t->device_id != device) return "is on another device than the first argument";
  const uintptr_t at = (uintptr_t)t->data + t->byte_offset;
  if (!t->data || at % (gpu ? MICA_FFI_ALIGNED : w->bits / 8)) return "has an address that is not aligned";
  return NULL;
}

// Addresses of all tensors, checked; *device: of the first.
static int mica_ffi_check(const struct mica_ffi_call *c, const struct mica_ffi_any *args, int32_t nargs, void **at, int *device)
{
  const int n = c->nin + c->nout;
  if (nargs != n) {
    char text[120];
    snprintf(text, sizeof text, "takes %d inputs and then %d outputs, and was given %d arguments", c->nin, c->nout, (int)nargs);
    return mica_ffi_fail(c, "TypeError", -1, text);
  }
  for (int i = 0; i < n; i++) {
    const struct mica_ffi_dltensor *t = mica_ffi_tensor(&args[i]);
    if (!i) *device = t ? t->device_id : 0;
    const char *why = mica_ffi_wrong(t, &c->want[i], c->gpu, *device);
    if (why) return mica_ffi_fail(c, t ? "ValueError" : "TypeError", i, why);
    at[i] = (char *)t->data + t->byte_offset;
    for (int k = 0; i >= c->nin && k < i; k++)
      if ((uintptr_t)at[i] < (uintptr_t)at[k] + (uintptr_t)c->want[k].bytes && (uintptr_t)at[k] < (uintptr_t)at[i] + (uintptr_t)c->want[i].bytes)
        return mica_ffi_fail(c, "ValueError", i, "shares memory with another argument");
  }
  return 0;
}
