// sim: runs a lowered kernel of the tile language on the CPU exactly as it is written: blocks, warps of 32 lanes,
// registers, shared memory, barriers, asynchronous copies, tensor-core instructions through the thread-value layouts of
// their rows. Generated CUDA is tested against it. It finds all mistakes of class.def
// that a kernel makes with the sizes that it is run with, and counts what makes kernels slow. docs/sim.md says what is checked and
// what is not.
//
// Glossary
//   agent    who accesses memory: a warp, or one of the asynchronous engines that work for it
//   epoch    when: the clock of the agent, with the lane in its low bits. Clocks grow over the whole run
//   knowledge  a vector clock: the last epoch of every agent that happened before what the warp does now
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
//   shadow.c     uninitialized reads, races; shared and global;  quick.c  the shadow of nearly every access
//   clocks.c     vector clocks
//   regs.c       registers;  sim_pool.c  registers that setmaxnreg moves between warpgroups
//   sim_count.c  bank conflicts, sectors, the table of counts
//   sim_number.c fp16, bf16, fma
//   point.c      elementwise instructions;  lanes.c  shuffles, reductions over threads
//   sim_move.c   copies, atomics;  tma.c  bulk copies of tensors
//   sim_mma.c    ldmatrix, mma;  sim_wgmma.c  warpgroup products
//   sim_report.c errors as text
//
// Kernels on this machine, compared with what they should compute
//   tile_host.c    a tile kernel with sizes and buffers, for the interpreter (tile_host.h); tile_words.c: of the command line
//   tile_cpu.c     the same printed as C, compiled and run (tile_cpu.h)
//   compare.c      two results of a kernel
//   against.c      a kernel's results against a program in float64 (against.h)
//   device_host.c  a device program, launch by launch (device_host.h)
//   device_proof.c each of its kernels in the interpreter, with few blocks (device_proof.h)
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
  struct loc at; // of the spec
  int64_t block;
  int thread;
  int64_t times;  // how often, with those that are not kept
  char text[400]; // what happened, in words
};

struct sim_row { // how often an instruction was issued by a warp
  const char *name;
  int64_t times;
};
enum { SIM_WIDTHS = 6 }; // bytes a lane: 1, 2, 4, 8, 16, 32
struct sim_counts {
  int64_t issued;   // instructions of warps
  int64_t elements; // moved, or multiplied and added, or computed: the work of the run
  int64_t flops;
  int64_t barriers;                     // of warps at barriers of any kind
  int64_t bytes[3][2][SIM_WIDTHS];      // by memory (enum tile_mem), loads and stores, log2 of the bytes a lane
  int64_t bulk_bytes[2];                // of TMA: loads, stores
  int64_t sectors, sectors_least;       // of 32 bytes in global memory; the least for the same bytes
  int64_t wavefronts, wavefronts_least; // of 128 bytes in shared memory; the difference are bank conflicts
  int64_t unwritten;                    // elements of buffers without values that nothing has written
  int nrows;
  struct sim_row *rows; // in the order of the instruction table
};

struct sim_report {
  int64_t blocks;
  int nerrors;   // kept
  int64_t found; // with those only counted
  struct sim_error *errors;
  struct sim_counts counts;
  double seconds; // of the processor
};

struct sim_buffer { // a kernel argument, in the order of declaration
  void *data;       // as aligned as it is on the device: 256 bytes where it comes from cudaMalloc
  size_t bytes;
  bool written; // holds values before the kernel starts; false: reads before writes are errors
};
struct sim_input {
  const int64_t *params;            // one for each of the kernel's
  const struct sim_buffer *buffers; // one for each global buffer of the kernel
  int nbuffers;
  int keep;  // errors kept with their text for one spec and class; 0: 3
  bool slow; // without the shortcuts of quick.c: nothing but the time may differ
  stop_flag stop;
};

// Runs the kernel. The kernel's own mistakes are in the report and the status is OK; an error says that it can not be
// run.
int sim_run(struct arena *mem, const struct tile_program *p, const struct tile_kernel *k, const struct sim_input *in, struct sim_report *out,
            struct err *e);
// Elements of a global buffer for these sizes, for those who allocate.
int sim_elements(const struct tile_program *p, const struct tile_kernel *k, const int64_t *params, int buf, int64_t *out, struct err *e);
void sim_print_errors(const struct sim_report *r, struct str *out);
void sim_print_counts(const struct sim_report *r, struct str *out);

// ---- compare.c ----
struct sim_difference {
  int64_t other, first; // elements that differ in their bits, the first of them or -1
  double a, b;          // its values
  double relative;      // norm of a - b over that of b
};
struct sim_difference sim_compare(enum tile_type t, const void *a, const void *b, int64_t n);

#endif
