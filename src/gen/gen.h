// gen: kernel graphs -> C. Every node of the kernel graph becomes one kernel. A BLOCK node is a loop nest over its grid (OpenMP threads, tiles in
// per-thread scratch). MATMUL is a call to OpenBLAS. Any other library operator is one vectorized loop. The support code, mica_cpu.h, is embedded in
// the library and printed first.
#ifndef MICA_GEN_H
#define MICA_GEN_H

#include "ir/ir.h"
#include "target/target.h"

struct gen_info {
  int64_t workspace; // bytes of device memory for tensors between kernels
  int64_t scratch;   // largest scratch of one thread, bytes
  int kernels;       // nodes that became kernels
  bool needs_blas;
};
// g: a checked kernel graph without composites; BLOCK nodes may hold THREAD nodes. `name` becomes part of the
// symbols and must be an identifier (gen_identifier makes one). The source defines
//   int mica_NAME(void *const *inputs, void *const *outputs, void *workspace);   0, or ENOMEM
//   size_t mica_NAME_workspace(void);
//   int mica_run_NAME(const T *in0, ..., T *out0, ...);    allocates the workspace itself; declared in `header`
// No symbol is NAME alone: programs may be called exp, int or main.
int gen_c(const struct graph *g, const char *name, const struct target *t, struct str *source, struct str *header, struct gen_info *info,
          struct err *e);
// The same with timing of kernels. Each call stores the seconds of its kernels, in execution order, in
//   double mica_NAME_seconds[kernels];
int gen_c_timed(const struct graph *g, const char *name, const struct target *t, struct str *source, struct gen_info *info, struct err *e);
// One rank of a program for several devices, appended to the output of gen_c for all ranks (graph_unfold) with the same name and target. g: a checked
// kernel graph without composites, not unfolded. The source defines
//   int mica_NAME_rank(int rank, void *const *inputs, void *const *outputs, void *workspace, struct m_exchange *exchange);
//   size_t mica_NAME_rank_workspace(void);
//   size_t mica_NAME_rank_exchange(void);   bytes that all ranks share (mica_meet.h)
//   int mica_NAME_rank_world(void);         number of ranks
// Divided inputs and outputs are the rank's parts. The function returns 0, or an error number of m_meet.
int gen_c_ranks(const struct graph *g, const char *name, const struct target *t, struct str *source, struct err *e);
void gen_identifier(char out[64], const char *name);
const char *gen_flags(void); // compiler flags of the source, such as "-O3 -march=native ..."
#endif
