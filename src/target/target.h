// target: capacities, capabilities and rates of machines. Targets are this host (target.def), which is queried and measured,
// and GPUs (gpu.def), which need not be present.
//
//   target.c   the list of targets
//   cpu.c      the host's capacities; rates.c: its rates
//   processor.c  identifies the host's instruction set
//   gpu.c      GPUs by their rows, or by a device's own data
//   mica_cpu.h vector functions of the host, used by generated C and to measure rates
//   f32_products.c  methods of multiplying f32 on GPUs
//   capability.c  capabilities of GPUs (capability.def), as bits and as text
#ifndef MICA_TARGET_H
#define MICA_TARGET_H

#include "base/base.h"

enum capability {
#define CAPABILITY(id, name, doc) CAP_##id,
#include "target/capability.def"
#undef CAPABILITY
  CAPABILITIES
};
enum can { // sets of capabilities
#define CAPABILITY(id, name, doc) CAN_##id = 1 << CAP_##id,
#include "target/capability.def"
#undef CAPABILITY
  CAN_BASE = 0
};
const char *capability_name(int i);
void capability_text(uint32_t can, struct str *out); // appends names such as "clusters, TMA"

// How generated GPU kernels multiply f32.
#define F32_PRODUCTS(ROW)                                                                      \
  ROW(BF16X6, "bf16x6", "as six products of bf16 parts on tensor cores, where that is faster") \
  ROW(IEEE, "ieee", "by fused multiply-adds of f32 alone, which only the library has")
enum f32_products {
#define ROW(id, name, doc) F32_##id,
  F32_PRODUCTS(ROW)
#undef ROW
};
const char *f32_products_name(enum f32_products x);
int f32_products_read(const char *name, enum f32_products *out, struct err *e); // NULL, "": BF16X6; ERR_OPTION

enum target_kind { TARGET_CPU, TARGET_GPU, TARGET_KINDS };

struct target {
  enum target_kind kind;
  char name[32];          // "cpu", "sm_90a"
  char device[96];        // model name, part of database keys
  int cores;              // of a GPU: multiprocessors
  int lanes;              // fp32 lanes of a vector; of a multiprocessor
  int64_t l1, l2, l3;     // bytes of data cache a core (l3: shared); of a GPU l2 is what all share, l3 is 0
  int64_t scratch;        // bytes of block tensors a block may keep ("shared memory"): l2 less what code and streams need
  int64_t memory;         // bytes of device memory usable
  double bandwidth;       // bytes/s of a copy, read and written bytes counted, all cores
  double cache_bandwidth; // bytes/s from l2, all cores
  double flops;           // fp32 operations/s of fused multiply-adds, all cores; of a GPU fp16 on its tensor cores
  double pair_flops;      // of a CPU: operations/s of products of bf16, by instructions that multiply pairs or tiles; 0: there are none
  double exp_rate;        // exponentials/s
  double launch;          // seconds to start and join one grid
  double link;            // bytes/s from one device to the others; on a CPU, whose ranks share one machine, the rate of a copy
  double meeting;         // latency in seconds of a collective operation among all devices
  bool fetches;           // CPU: lines of large results are prefetched and stored through the caches, which is faster here than storing past them
  // GPUs only
  int arch;                 // compute capability times 10, the key of the row. A name: it must not be compared for order
  int runs_on;              // `arch` of the row for which kernels are compiled and measured; differs from arch on another device
  uint32_t can;             // capabilities that kernels may use
  int64_t shared_processor; // bytes of shared memory of a multiprocessor, for all its blocks
  int64_t registers;        // 4-byte registers of a multiprocessor
  int threads, blocks;      // most resident threads and blocks of a multiprocessor
  int special;              // exponentials per clock of a multiprocessor
  int shared_width;         // bytes per clock of its shared memory
  int cluster;              // blocks of the largest cluster; 1 without clusters
  double reach[3];          // fraction of the multiprocessors that clusters of 4, 8 and 16 blocks can occupy
  double clock;             // Hz, under load
  double vector_rate;       // fp32 operations/s outside of tensor cores; a fused multiply-add counts as one
  double mma;               // fraction of `flops` that mma.sync reaches
  // Most blocks of a kernel, each of which computes work tiles one after the other; 0: one block for each tile. A budget set by the caller
  // (gpu_budget of lower.h), no property of the machine.
  int workers;
  // How f32 is multiplied: the user's choice, no property of the machine.
  enum f32_products f32_products;
  // Rates for the model of kernels, per second and multiprocessor: lane operations, exponentials, bytes of shared memory. mma_share: `mma` relative
  // to the GPU on which the model was fitted.
  double lane_rate, special_rate, shared_rate, mma_share;
};
// Operations/s of products; bf16: their second operand is.
static inline double target_products(const struct target *t, bool bf16) { return bf16 && t->pair_flops > t->flops ? t->pair_flops : t->flops; }
int target_count(void);
const char *target_name(int i);
const char *target_doc(int i);
// Fills *t for the target of that name. For this host, it measures the rates once (about 0.2 s); with `quick` it sets
// typical ones instead. Unknown names are ERR_TARGET with the list as hint.
int target_open(const char *name, int threads, bool quick, struct target *t, struct err *e);

void target_processor(char out[64]); // identifies the host's instruction set: "x86-64 4f0c..."; equal texts run the same machine code

// ---- gpu.c ----

int target_gpus(void);
const struct target *target_gpu_at(int i);
// The row of that compute capability, or NULL.
const struct target *target_gpu(int arch);
// Does machine code for the row run on a device of that compute capability? By CUDA's rule of binary compatibility, it does
// on the row's own. If the name of the row does not end in `a`, it also does on higher minor versions of the same major one.
bool target_code_runs(const struct target *row, int arch);
// The row for which code is compiled to run on such a device, or NULL.
const struct target *target_for_device(int arch);

// Data reported by a device; 0 if unknown.
struct target_facts {
  const char *device;
  int arch, processors;
  int64_t shared, shared_processor, l2, memory; // bytes, as in struct target
};
// Replaces the row's capacities by the device's, and scales rates by its number of multiprocessors. False, and t is unchanged, if code
// for the device is compiled for another row.
bool target_own(struct target *t, const struct target_facts *f);
// Adapts the target to a device on which its kernels will run. The device may be of another row if that has all
// capabilities of the target. Capacities are then the smaller of both, and rates are the device's. ERR_TARGET if a capability is
// missing, or the device has no row.
int target_fit(struct target *t, const struct target_facts *f, struct err *e);
// The name of the best target for this device; ERR_TARGET if none runs on it.
int target_on(const struct target_facts *f, const char **name, struct err *e);
#endif
