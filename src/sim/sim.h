// sim: the interpreter of tile kernels. It runs a lowered kernel on the CPU exactly as written: blocks, warps of 32 lanes,
// registers, shared memory, barriers, asynchronous copies, and tensor-core instructions by the thread-value layouts of
// their rows. Generated CUDA is tested against it. It finds all errors of the classes in class.def that the kernel makes at
// the given sizes. It also counts events that make kernels slow. docs/sim.md lists the checks and their limits.
//
// Glossary
//   agent    a source of memory accesses: a warp, or one of its asynchronous engines
//   epoch    the time of an access: the clock of the agent, with the lane in the low bits. Clocks increase over the run
//   knowledge  a vector clock: for every agent, the last epoch that happened before the warp's current step
//   cell     shadow of one granule of memory: the last write, the last reads
//
//   sim_run.c    geometry, blocks in order
//   flow.c       statements -> steps, specs -> compiled atoms
//   sim_code.c   integer expressions over lanes
//   warp.c       steps of a warp, masks
//   sched.c      runs the warps one after the other; deadlocks
//   sync.c       barriers, fences;  groups.c  groups of copies;  mbar.c  mbarriers
//   walk.c       pieces of an atom, addresses, predicates
//   access.c     one access: bounds, alignment
//   shadow.c     uninitialized reads, races; shared and global;  quick.c  its fast paths for common accesses
//   clocks.c     vector clocks
//   regs.c       registers;  sim_pool.c  registers that setmaxnreg moves between warpgroups
//   sim_count.c  bank conflicts, sectors, the table of counts
//   sim_number.c fp16, bf16, fma
//   point.c      elementwise instructions;  lanes.c  shuffles, reductions over threads
//   sim_move.c   copies, atomics;  tma.c  bulk copies of tensors
//   sim_mma.c    ldmatrix, mma;  sim_wgmma.c  warpgroup products
//   sim_report.c errors as text
//
// Kernels run on this machine and compared with references
//   tile_host.c    a tile kernel with sizes and buffers, for the interpreter (tile_host.h); tile_words.c: its command-line syntax
//   tile_cpu.c     a tile kernel printed as C, compiled and run (tile_cpu.h)
//   compare.c      compares two results of a kernel
//   against.c      compares a kernel's results with a program in float64 (against.h)
//   device_host.c  runs a device program, launch by launch (device_host.h)
//   device_proof.c runs each of its kernels in the interpreter, with few blocks (device_proof.h)
//   device_fed.c   special inputs of these kernels (device_fed.h); device_small.c: fewer slices of indexed inputs
#ifndef MICA_SIM_H
#define MICA_SIM_H

#include "tile/tile.h"

enum sim_class {
#define CLASS(id, ...) SIM_##id,
#include "sim/class.def"
#undef CLASS
  SIM_CLASSES
};
extern const char *const sim_class_name[SIM_CLASSES];

struct sim_error {
  enum sim_class kind;
  struct loc at; // location of the spec
  int64_t block;
  int thread;
  int64_t times;  // number of occurrences, including those that are not kept
  char text[400]; // the message
};

struct sim_row { // number of times that warps issued an instruction
  const char *name;
  int64_t times;
};
enum { SIM_WIDTHS = 6 }; // widths of accesses in bytes per lane: 1, 2, 4, 8, 16, 32
struct sim_counts {
  int64_t issued;   // instructions issued by warps
  int64_t elements; // elements moved, multiplied and added, or computed: the work of the run
  int64_t flops;
  int64_t barriers;                     // arrivals of warps at barriers of any kind
  int64_t bytes[3][2][SIM_WIDTHS];      // bytes by memory (enum tile_mem), load or store, log2 of the bytes per lane
  int64_t bulk_bytes[2];                // bytes of TMA loads and stores
  int64_t sectors, sectors_least;       // 32-byte sectors of global memory; the least number for the same bytes
  int64_t wavefronts, wavefronts_least; // 128-byte wavefronts of shared memory; the difference is bank conflicts
  int64_t unwritten;                    // elements, never written, of buffers that had no values before
  int nrows;
  struct sim_row *rows; // in the order of the instruction table
};

struct sim_report {
  int64_t blocks;
  int nerrors;   // errors kept
  int64_t found; // errors found, including those that are only counted
  struct sim_error *errors;
  struct sim_counts counts;
  double seconds; // processor time
};

struct sim_buffer { // a kernel argument, in the order of declaration
  void *data;       // must be aligned as on the device: to 256 bytes for memory of cudaMalloc
  size_t bytes;
  bool written; // has values before the kernel starts; false: reads before writes are errors
};
struct sim_input {
  const int64_t *params;            // one for each parameter of the kernel
  const struct sim_buffer *buffers; // one for each global buffer of the kernel
  int nbuffers;
  int keep;  // most errors kept for one spec and class; 0 stands for 3
  bool slow; // without the fast paths of quick.c; results must be the same
  stop_flag stop;
};

// Runs the kernel. Errors of the kernel are in the report, and the status is OK. An error status means that the kernel
// cannot be run.
int sim_run(struct arena *mem, const struct tile_program *p, const struct tile_kernel *k, const struct sim_input *in, struct sim_report *out,
            struct err *e);
// Number of elements of a global buffer at these sizes, for allocation.
int sim_elements(const struct tile_program *p, const struct tile_kernel *k, const int64_t *params, int buf, int64_t *out, struct err *e);
void sim_print_errors(const struct sim_report *r, struct str *out);
void sim_print_counts(const struct sim_report *r, struct str *out);

// ---- compare.c ----
struct sim_difference {
  int64_t other, first; // number of elements with different bits; the first of them, or -1
  double a, b;          // values of the first
  double relative;      // norm of a - b divided by that of b
};
struct sim_difference sim_compare(enum tile_type t, const void *a, const void *b, int64_t n);

#endif
