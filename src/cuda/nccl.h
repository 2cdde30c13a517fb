// nccl: the functions of NCCL that Mica calls, found by dlopen when they are needed; prototypes after its documented interface (2.4 and later).
// NCCL carries data where GPUs do not reach each other's memory. Sums stay Mica's, in the order of ranks.
#ifndef MICA_CUDA_NCCL_H
#define MICA_CUDA_NCCL_H

#include "cuda/cuda.h"

struct nccl_id { // ncclUniqueId
  char bytes[128];
};
enum { NCCL_BYTES = 0, NCCL_FLOAT = 7, NCCL_BF16 = 9, NCCL_SUM = 0 }; // of its enumerations

// FUNCTION(field, symbol, parameters)
#define NCCL_FUNCTIONS                                                                                                  \
  FUNCTION(get_version, "ncclGetVersion", (int *version))                                                               \
  FUNCTION(get_id, "ncclGetUniqueId", (struct nccl_id * id))                                                            \
  FUNCTION(init_rank, "ncclCommInitRank", (void **comm, int ranks, struct nccl_id id, int rank))                        \
  FUNCTION(leave, "ncclCommAbort", (void *comm))                                                                        \
  FUNCTION(all_gather, "ncclAllGather", (const void *from, void *to, size_t count, int type, void *comm, void *stream)) \
  FUNCTION(all_reduce, "ncclAllReduce", (const void *from, void *to, size_t count, int type, int op, void *comm, void *stream))

struct nccl {
#define FUNCTION(field, symbol, parameters) int(*field) parameters;
  NCCL_FUNCTIONS
#undef FUNCTION
  const char *(*error_text)(int code);
};

int nccl_find(struct nccl *n, struct err *e); // ENV where it is missing; the library stays loaded
int nccl_check(const struct nccl *n, int code, struct err *e, const char *what);

#endif
