// NCCL, loaded with dlopen like the other libraries.
#include "cuda/nccl.h"
#include "cuda/library.h"

#include <dlfcn.h>
#include <string.h>
#include <time.h>

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
    if (!f) return err_set(e, ERR_LIBRARY, NOWHERE, "NCCL has no function %s: a version before 2.14?", symbols[i].name);
    memcpy((char *)n + symbols[i].at, &f, sizeof f);
  }
  return OK;
}

int nccl_check(const struct nccl *n, int code, struct err *e, const char *what)
{
  return code ? err_set(e, ERR_GPU, NOWHERE, "%s: NCCL says %.200s (%d)", what, n->error_text(code), code) : OK;
}

// Calls do not block: a rank polls the communicator's state until it is final or the time limit is exceeded.
int nccl_taken(const struct nccl *n, void *comm, int code, const struct patience *p, struct err *e, const char *what)
{
  while (code == NCCL_IN_PROGRESS) {
    const int asked = n->get_state(comm, &code);
    if (asked) return nccl_check(n, asked, e, what);
    if (code != NCCL_IN_PROGRESS) break;
    if (patience_over(p)) {
      err_set(e, ERR_WORLD, NOWHERE, "%s: another rank did not come to NCCL in time, or failed", what);
      return err_hint(e, "every rank has to make the same calls; open the ranks again"), (int)e->status;
    }
    nanosleep(&(const struct timespec){0, 100000}, NULL);
  }
  return nccl_check(n, code, e, what);
}

int nccl_join(const struct nccl *n, int ranks, const struct nccl_id *id, int rank, const struct patience *p, void **comm, struct err *e)
{
  enum { MAGIC = 0xcafebeef, VERSION = 21400 };
  struct nccl_config c = {.size = sizeof c, .magic = MAGIC, .version = VERSION};
  *comm = NULL;
  const int code = n->init_rank(comm, ranks, *id, rank, &c), status = nccl_taken(n, *comm, code, p, e, "joining a world");
  if (status != OK && *comm) n->leave(*comm), *comm = NULL;
  return status;
}
