// peers: one rank's way to the others on GPUs. Each rank has exchange memory on its device. The others reach it by peer access, in this process
// or by a handle of another process; if some GPU does not reach some other, NCCL carries the data. To connect, ranks exchange addresses and
// handles in the memory in which they meet on the host (rt/exchange.c).
#ifndef MICA_GPU_PEERS_H
#define MICA_GPU_PEERS_H

#include "gpu/gpu.h"

enum { GPU_PEERS_ENTRY = 320 }; // bytes that a rank tells the others in a meeting on the host
struct gpu_peers_wish {
  struct m_exchange *host; // of all ranks
  int rank, ranks;
  int64_t bytes;    // of exchange memory, on each device
  int64_t gathered; // the most bytes that the operands of all ranks take
  double seconds;   // that a kernel waits for another rank
};
struct gpu_peers;
size_t gpu_peers_room(int ranks); // bytes of the memory on the host
// All ranks at once, each with its device; it waits for them. After an error all ranks have to be opened anew.
int gpu_peers_open(struct gpu *g, const struct gpu_peers_wish *w, struct gpu_peers **out, struct err *e);
// The rank's kernels must have ended. Kernels of other ranks that wait for it end when their time is over.
void gpu_peers_close(struct gpu_peers *p);
bool gpu_peers_direct(const struct gpu_peers *p); // by peer access; else by NCCL
const struct meet_world *gpu_peers_world(const struct gpu_peers *p);
// Into memory of the device: the operands of all ranks, one after the other. In the stream.
int gpu_peers_gather(struct gpu_peers *p, gpu_address operand, int64_t bytes, void *stream, gpu_address *all, struct err *e);
// An error where a kernel has told that a rank did not come, or that another rank failed.
int gpu_peers_told(const struct gpu_peers *p, struct err *e);

#endif
