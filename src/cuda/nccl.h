// nccl: the functions of NCCL that Mica calls, loaded with dlopen when they are needed. Prototypes follow its documented interface (2.14 and later).
// NCCL transfers data between GPUs that cannot access each other's memory. Mica computes sums itself, in the order of ranks.
#ifndef MICA_CUDA_NCCL_H
#define MICA_CUDA_NCCL_H

#include "cuda/cuda.h"

struct nccl_id { // ncclUniqueId
  char bytes[128];
};
enum { NCCL_BYTES = 0, NCCL_FLOAT = 7, NCCL_BF16 = 9, NCCL_SUM = 0, NCCL_IN_PROGRESS = 7 }; // values of its enumerations

struct nccl_config { // ncclConfig_t of 2.14, which later versions accept
  size_t size;
  unsigned magic, version;
  int blocking, unused;
};

// FUNCTION(field, symbol, parameters)
#define NCCL_FUNCTIONS                                                                                                        \
  FUNCTION(get_version, "ncclGetVersion", (int *version))                                                                     \
  FUNCTION(get_id, "ncclGetUniqueId", (struct nccl_id * id))                                                                  \
  FUNCTION(init_rank, "ncclCommInitRankConfig", (void **comm, int ranks, struct nccl_id id, int rank, struct nccl_config *c)) \
  FUNCTION(get_state, "ncclCommGetAsyncError", (void *comm, int *state))                                                      \
  FUNCTION(leave, "ncclCommAbort", (void *comm))                                                                              \
  FUNCTION(all_gather, "ncclAllGather", (const void *from, void *to, size_t count, int type, void *comm, void *stream))       \
  FUNCTION(all_reduce, "ncclAllReduce", (const void *from, void *to, size_t count, int type, int op, void *comm, void *stream))

struct nccl {
#define FUNCTION(field, symbol, parameters) int(*field) parameters;
  NCCL_FUNCTIONS
#undef FUNCTION
  const char *(*error_text)(int code);
};

int nccl_find(struct nccl *n, struct err *e); // ENV if it is missing; the library stays loaded
int nccl_check(const struct nccl *n, int code, struct err *e, const char *what);
// Joins the ranks that have the id. NCCL would wait forever for a rank that died; this returns ERR_WORLD and sets *comm to NULL when `p` is over.
int nccl_join(const struct nccl *n, int ranks, const struct nccl_id *id, int rank, const struct patience *p, void **comm, struct err *e);
// Waits until NCCL has accepted a call on this communicator that returned `code`, with the time limit of nccl_join. The caller keeps the communicator.
int nccl_taken(const struct nccl *n, void *comm, int code, const struct patience *p, struct err *e, const char *what);

#endif
