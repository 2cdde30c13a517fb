// NVRTC by dlopen: compiles source text to machine code. The library is found by its versioned names and in the usual
// folders. Its prototypes are declared here, so building Mica needs no CUDA. The result holds PTX in
// addition to machine code, for readers and for tests that count instructions.
#include "cuda/cuda.h"
#include "base/memory.h"
#include "cuda/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct _nvrtcProgram *nvrtc_program;

struct nvrtc {
  void *so;
  int (*version)(int *major, int *minor);
  int (*create)(nvrtc_program *p, const char *source, const char *name, int n, const char *const *headers, const char *const *names);
  int (*destroy)(nvrtc_program *p);
  int (*compile)(nvrtc_program p, int n, const char *const *options);
  int (*log_size)(nvrtc_program p, size_t *n);
  int (*log)(nvrtc_program p, char *text);
  int (*ptx_size)(nvrtc_program p, size_t *n);
  int (*ptx)(nvrtc_program p, char *text);
  int (*cubin_size)(nvrtc_program p, size_t *n);
  int (*cubin)(nvrtc_program p, char *bytes);
  const char *(*error)(int code);
};

static const struct {
  const char *name;
  size_t at;
} symbols[] = {
    {"nvrtcVersion", offsetof(struct nvrtc, version)},
    {"nvrtcCreateProgram", offsetof(struct nvrtc, create)},
    {"nvrtcDestroyProgram", offsetof(struct nvrtc, destroy)},
    {"nvrtcCompileProgram", offsetof(struct nvrtc, compile)},
    {"nvrtcGetProgramLogSize", offsetof(struct nvrtc, log_size)},
    {"nvrtcGetProgramLog", offsetof(struct nvrtc, log)},
    {"nvrtcGetPTXSize", offsetof(struct nvrtc, ptx_size)},
    {"nvrtcGetPTX", offsetof(struct nvrtc, ptx)},
    {"nvrtcGetCUBINSize", offsetof(struct nvrtc, cubin_size)},
    {"nvrtcGetCUBIN", offsetof(struct nvrtc, cubin)},
    {"nvrtcGetErrorString", offsetof(struct nvrtc, error)},
};

const char *cuda_arch_name(int arch)
{
  const struct target *t = target_gpu(arch);
  return t ? t->name : NULL;
}

int cuda_arch_find(const char *name, int *arch, struct err *e)
{
  for (int i = 0; i < target_gpus(); i++)
    if (!strcmp(target_gpu_at(i)->name, name)) return *arch = target_gpu_at(i)->arch, OK;
  err_set(e, ERR_TARGET, NOWHERE, "there is no architecture %.40s", name);
  struct str all = {0};
  for (int i = 0; i < target_gpus(); i++) str_add(&all, i ? ", %s" : "%s", target_gpu_at(i)->name);
  err_hint(e, "there are %s", str_text(&all));
  return str_free(&all), e->status;
}

int nvrtc_open(struct nvrtc **out, struct err *e)
{
  *out = NULL;
  void *so = cuda_library(LIBRARY_NVRTC, NULL, e);
  if (!so) return (int)e->status;
  struct nvrtc *r = mem_lasting(sizeof *r);
  r->so = so;
  for (size_t i = 0; i < COUNT(symbols); i++) {
    void *f = dlsym(so, symbols[i].name);
    if (!f) {
      nvrtc_close(r);
      return err_set(e, ERR_LIBRARY, NOWHERE, "NVRTC has no function %s: a version before 11.1?", symbols[i].name);
    }
    memcpy((char *)r + symbols[i].at, &f, sizeof f);
  }
  *out = r;
  return OK;
}

void nvrtc_close(struct nvrtc *r)
{
  if (!r) return;
  dlclose(r->so);
  mem_free(r);
}

void nvrtc_version(const struct nvrtc *r, int *major, int *minor)
{
  if (r->version(major, minor)) *major = *minor = 0;
}

// Text or bytes of the program, from a pair of functions for size and content; "" if there are none.
static char *take(struct arena *mem, nvrtc_program p, int (*size)(nvrtc_program, size_t *), int (*get)(nvrtc_program, char *), size_t *n)
{
  *n = 0;
  if (size(p, n) || !*n) return arena_strdup(mem, "");
  char *text = arena_alloc(mem, *n + 1);
  if (get(p, text)) *n = 0, *text = 0;
  return text;
}

// The sum of the numbers before (with `after`: after) each occurrence of `words` in the log; -1 if there is none.
static int told(const char *log, const char *words, bool after)
{
  int sum = -1;
  for (const char *at = log; (at = strstr(at, words)); at++) {
    const char *number = at;
    if (after)
      number += strlen(words);
    else
      while (number > log && strchr("0123456789", number[-1])) number--;
    sum = MAX(sum, 0) + atoi(number);
  }
  return sum;
}

static int run(const struct nvrtc *r, nvrtc_program p, struct arena *mem, const char *name, const char *arch, bool lines, struct cubin *out,
               struct err *e)
{
  const char *const options[] = {arena_printf(mem, "--gpu-architecture=%s", arch), "--std=c++17", "--ptxas-options=-v",
                                 "--diag-suppress=177", // unused variables
                                 "--generate-line-info"};
  size_t n;
  int bad = r->compile(p, (int)COUNT(options) - !lines, options);
  out->log = take(mem, p, r->log_size, r->log, &n);
  if (bad) {
    err_set(e, ERR_COMPILER, NOWHERE, "NVRTC does not compile %s for %s (%s):\n%.600s", name, arch, r->error(bad), out->log);
    err_hint(e, "look at the source with `mica tile emit`; if Mica made it from a legal kernel, please report it");
    return e->status;
  }
  int stores = told(out->log, " bytes spill stores", false), loads = told(out->log, " bytes spill loads", false);
  out->registers = told(out->log, "Used ", true), out->spilled = stores < 0 ? -1 : stores + MAX(loads, 0);
  out->ptx = take(mem, p, r->ptx_size, r->ptx, &n);
  out->bytes = take(mem, p, r->cubin_size, r->cubin, &out->n);
  if (!out->n) return err_set(e, ERR_COMPILER, NOWHERE, "NVRTC made no machine code of %s for %s", name, arch);
  return OK;
}

int nvrtc_compile(const struct nvrtc *r, struct arena *mem, const char *name, const char *source, int arch, struct cubin *out, struct err *e)
{
  *out = (struct cubin){.ptx = "", .log = "", .registers = -1, .spilled = -1};
  const char *word = cuda_arch_name(arch);
  if (!word) return err_set(e, ERR_TARGET, NOWHERE, "there is no architecture sm_%d", arch);
  nvrtc_program p;
  int bad = r->create(&p, source, name, 0, NULL, NULL);
  if (bad) return err_set(e, ERR_COMPILER, NOWHERE, "NVRTC does not take %s: %s", name, r->error(bad));
  int status = run(r, p, mem, name, word, strstr(source, "\n#line ") != NULL, out, e);
  r->destroy(&p);
  return status;
}
