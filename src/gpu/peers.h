// peers: connects a rank on a GPU to the others. Each rank has exchange memory on its device. The others access it as peers, in this process or by a
// handle of another process. If some GPU cannot reach another, NCCL carries the data. To connect, ranks exchange addresses and handles in host memory
// (rt/exchange.c).
#ifndef MICA_GPU_PEERS_H
#define MICA_GPU_PEERS_H

#include "gpu/gpu.h"

enum { GPU_PEERS_ENTRY = 320 }; // bytes that a rank sends to the others on the host
struct gpu_peers_wish {
  struct m_exchange *host; // shared by all ranks
  int rank, ranks;
  int64_t bytes;    // bytes of exchange memory on each device
  int64_t gathered; // largest total size of the operands of all ranks
  double seconds;   // time that a kernel waits for another rank
};
struct gpu_peers;
size_t gpu_peers_room(int ranks); // bytes of the host memory
// Called by all ranks at once, each with its device; waits for them. After an error all ranks must be opened again.
int gpu_peers_open(struct gpu *g, const struct gpu_peers_wish *w, struct gpu_peers **out, struct err *e);
// The rank's kernels must have ended. Kernels of other ranks that wait for it end when their time is over.
void gpu_peers_close(struct gpu_peers *p);
bool gpu_peers_direct(const struct gpu_peers *p); // by peer access; otherwise by NCCL
const struct meet_world *gpu_peers_world(const struct gpu_peers *p);
// Gathers the operands of all ranks, in rank order, into device memory; queued in the stream.
int gpu_peers_gather(struct gpu_peers *p, gpu_address operand, int64_t bytes, void *stream, gpu_address *all, struct err *e);
// An error if a kernel has reported a missing rank, or another rank failed.
int gpu_peers_told(const struct gpu_peers *p, struct err *e);

#endif
