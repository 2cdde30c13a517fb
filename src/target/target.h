// target: what a machine can do. One row a target: this host (target.def), whose capacities are asked of it, and GPUs
// (gpu.def), which need not be there.
//
//   target.c   the table
//   cpu.c      the host's capacities; rates.c its rates
//   processor.c  which instructions the host has
//   gpu.c      GPUs by their rows, or by the facts of a device
//   mica_cpu.h vector operations of the host: generated C is made of them, and rates are measured with them
//   f32_products.c  how GPUs multiply f32
//   capability.c  what a GPU can do (capability.def), as bits and as words
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
void capability_text(uint32_t can, struct str *out); // "clusters, TMA"

// How GPUs multiply f32 in kernels that Mica makes.
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
  double pair_flops;      // of a CPU: operations/s of products of bf16, by the instruction that multiplies pairs; 0: there is none
  double exp_rate;        // exponentials/s
  double launch;          // seconds to start and join one grid
  double link;            // bytes/s from one device to the others; on a CPU, whose ranks share one machine, the rate of a copy
  double meeting;         // seconds of an exchange among all devices, without its bytes
  bool fetches; // of a CPU: lines of results that leave the caches are fetched ahead of their stores, which takes less than stores past the caches
  // of GPUs
  int arch;                 // compute capability times 10, the key of the row: a name, not an order
  int runs_on;              // the row for which kernels are compiled to be measured; arch unless the device is another
  uint32_t can;             // capabilities that kernels may use
  int64_t shared_processor; // bytes of shared memory of a multiprocessor, for all blocks on it
  int64_t registers;        // of a multiprocessor, 4 bytes each
  int threads, blocks;      // that a multiprocessor holds at a time, at most
  int special;              // exponentials of a multiprocessor a clock
  int shared_width;         // bytes of its shared memory a clock
  int cluster;              // blocks of the largest cluster; 1 without clusters
  double reach[3];          // share of the multiprocessors where clusters of 4, 8 and 16 blocks find room
  double clock;             // Hz, under load
  double vector_rate;       // fp32 operations/s outside of tensor cores, a fused multiply-add is one
  double mma;               // share of `flops` that mma.sync reaches
  // A budget, not the machine's (gpu_budget of lower.h): most blocks of a kernel, which take work tiles one after the other; 0: a block a tile.
  int workers;
  // How f32 is multiplied: the user's choice, not the machine's.
  enum f32_products f32_products;
  // Rates for the model of kernels: lanes, exponentials and bytes of shared memory of a multiprocessor a second, and `mma`
  // over that of the GPU on which the model was fitted.
  double lane_rate, special_rate, shared_rate, mma_share;
};
// Operations/s of products; bf16: their second operand is.
static inline double target_products(const struct target *t, bool bf16) { return bf16 && t->pair_flops > t->flops ? t->pair_flops : t->flops; }
int target_count(void);
const char *target_name(int i);
const char *target_doc(int i);
// Fills *t for the target of that name; of this host measures the rates once (about 0.2 s) unless quick, where
// it fills typical ones. Unknown names are ERR_TARGET with the list as hint.
int target_open(const char *name, int threads, bool quick, struct target *t, struct err *e);

void target_processor(char out[64]); // the host's instructions: "x86-64 4f0c...", equal where the same machine code runs

// ---- gpu.c ----

int target_gpus(void);
const struct target *target_gpu_at(int i);
// The row of that compute capability; NULL: there is none.
const struct target *target_gpu(int arch);
// Machine code for the row runs on a device of that compute capability: it is the row's own, or of the same major version
// and no lower minor one where the name of the row does not end in an a (CUDA's rule of binary compatibility).
bool target_code_runs(const struct target *row, int arch);
// The row for which code is compiled that is to run on such a device; NULL: there is none.
const struct target *target_for_device(int arch);

// A device's own data; 0 if not known.
struct target_facts {
  const char *device;
  int arch, processors;
  int64_t shared, shared_processor, l2, memory; // bytes, as in struct target
};
// The device's capacities in place of the row's, where code for the device is the row's; rates go with its multiprocessors.
bool target_own(struct target *t, const struct target_facts *f);
// The target for kernels that run on this device. It may be of another row that has all capabilities of the target:
// blocks then have the smaller of both capacities, rates are the device's. ERR_TARGET where it lacks one, or has no row.
int target_fit(struct target *t, const struct target_facts *f, struct err *e);
// The name of the best target for this device; ERR_TARGET where none runs on it.
int target_on(const struct target_facts *f, const char **name, struct err *e);
#endif
