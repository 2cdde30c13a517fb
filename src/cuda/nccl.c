// NCCL, found by dlopen like the other libraries.
#include "cuda/nccl.h"
#include "cuda/library.h"

#include <dlfcn.h>
#include <string.h>

static const struct {
  const char *name;
  size_t at;
} symbols[] = {
#define FUNCTION(field, symbol, parameters) {symbol, offsetof(struct nccl, field)},
    NCCL_FUNCTIONS
#undef FUNCTION
    {"ncclGetErrorString", offsetof(struct nccl, error_text)},
};

int nccl_find(struct nccl *n, struct err *e)
{
  void *so = cuda_library(LIBRARY_NCCL, NULL, e);
  if (!so) return (int)e->status;
  for (size_t i = 0; i < COUNT(symbols); i++) {
    void *f = dlsym(so, symbols[i].name);
    if (!f) return err_set(e, ERR_LIBRARY, NOWHERE, "NCCL has no function %s: a version before 2.4?", symbols[i].name);
    memcpy((char *)n + symbols[i].at, &f, sizeof f);
  }
  return OK;
}

int nccl_check(const struct nccl *n, int code, struct err *e, const char *what)
{
  return code ? err_set(e, ERR_GPU, NOWHERE, "%s: NCCL says %.200s (%d)", what, n->error_text(code), code) : OK;
}
