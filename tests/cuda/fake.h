// A driver without a GPU. Memory is the host's, a launch copies the first buffer of the kernel to the second, and time
// passes as `clock` says. Linked into tests it is a device to be filled in by fake_gpu; compiled as libcuda.so.1
// (test_bench.sh, cli/test_device.sh) it is found by the command, of the compute capability in $FAKE_ARCH;
// With $FAKE_SHIM launches are those of a persistent kernel's text (python/test_mega_fake_gpu.py).
// with $FAKE_APART each context is one that reaches no other;
// with $FAKE_FULL the first allocation of so many bytes fails;
// where buffers are parts of allocations $FAKE_BYTES says how much a launch copies. A launch reads its arguments after $FAKE_PAUSE microseconds.
#ifndef MICA_TESTS_FAKE_H
#define MICA_TESTS_FAKE_H

#include "cuda/driver.h"

enum { FAKE_MOST = 4096, FAKE_L2 = 1 << 20 };
struct fake {
  int allocated, released, launches;
  int unloaded;                                    // `released` when a module was unloaded
  int replays, graphs;                             // graphs: that are not destroyed
  int fail_at;                                     // the launch of this number fails; 0: none
  gpu_address first[FAKE_MOST], second[FAKE_MOST]; // of a recorded launch: its arguments
  bool capturing;
  cu_stream recording; // the stream that is captured
  int mode;            // of the thread's captures: 2 is relaxed
  int recorded, streams;
  bool full; // the allocation of $FAKE_FULL bytes has failed
};
extern struct fake fake;
double fake_clock(int replay); // milliseconds
void fake_gpu(struct gpu *g);

#endif
