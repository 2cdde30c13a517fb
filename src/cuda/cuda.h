// cuda: tile kernels on NVIDIA GPUs. A lowered kernel (tile/tile.h) becomes CUDA C++ that a person can read, NVRTC
// makes machine code of it, the driver runs that. Both libraries are looked for when they are needed, so Mica is built
// and works without CUDA: what needs a missing library says so. docs/tile.md shows the generated code.
//
// Glossary
//   prelude  what generated code is made of: types and inline assembly (prelude.cuh), no header of the vendor, because
//            including cuda_fp16.h takes longer than compiling most kernels
//   piece    one execution of an instruction row; the modes of an atom are loops around pieces
//   wide     an integer expression computed in 64 bits, because its range may exceed 32 bits
//
//   cu_print.c   kernel -> source: parameters, statements, control flow
//   cu_ex.c      integer expressions
//   cu_atom.c    atoms: loops, guards
//   cu_text.c    the texts of instr.def filled in
//   cu_place.c   where operands are: indices, shared addresses, descriptors
//   line_info.c  lines of the source as lines of the tile program
//   nvrtc.c      source -> cubin
//   cuda_library.c  where the vendor's libraries are (library.def, place.def)
//   driver.c     the driver's functions; devices, memory, events
//   launch.c     modules, launches, graphs, tensor maps
//   bind.c       a tile kernel with sizes and buffers -> a launch
//   exec.c       run once
//   meet.c       kernels of collective operators (meet.cuh)
//   time.c       runs a kernel often and measures the time of a launch
//   blas.c       matrix products as calls of the vendor's library, with epilogues (epilogue.def)
//   cublaslt.c   runs them by cuBLASLt
#ifndef MICA_CUDA_H
#define MICA_CUDA_H

#include "cuda/meeting.h"
#include "tile/tile.h"

// ---- cu_print.c
// ------------------------------------------------------------------------------------------------------

// The whole source of a lowered kernel for one target (its compute capability, as in target/gpu.def), prelude included; with line
// directives where the environment asks for line tables.
int cuda_print(const struct tile_program *p, const struct tile_kernel *k, int arch, struct str *out, struct err *e);
// The same with what each piece of it was printed for: in order of places, which are all at the beginning of a line.
struct cuda_mark {
  size_t at; // in what was added to `out`, which is empty before
  int line;  // of the kernel's own text, from 1; 0: of none
};
struct cuda_marks {
  struct arena *mem;
  int n, cap;
  struct cuda_mark *mark;
};
int cuda_print_marked(const struct tile_program *p, const struct tile_kernel *k, int arch, struct str *out, struct cuda_marks *marks, struct err *e);
// ---- line_info.c ----
bool cuda_line_info(void); // does the environment ask for line tables?
// The line of the tile program for which the text at `at` was printed, 0: of none. *next is 0 before the first call, and `at` only rises.
int cuda_marked(const struct cuda_marks *m, size_t at, int *next);
// The text with a directive before each line that has a mark, which names that line of `file`.
void cuda_add_lines(const char *text, const struct cuda_marks *m, const char *file, struct str *out);
extern const char cuda_prelude_text[]; // base/order.h, base/parts.h and prelude.cuh, which stand before every kernel
// The name of the function in that source; lives in mem.
const char *cuda_kernel_name(struct arena *mem, const struct tile_kernel *k);

// ---- nvrtc.c --------------------------------------------------------------------------------------------------------

struct nvrtc;
struct cubin {
  const void *bytes; // machine code
  size_t n;
  const char *ptx, *log;  // what it was made of; what the compiler said. Never NULL
  int registers, spilled; // of a thread; bytes stored and loaded because registers were too few. -1: not told
};
int nvrtc_open(struct nvrtc **out, struct err *e); // ENV where the library is missing
void nvrtc_close(struct nvrtc *r);
void nvrtc_version(const struct nvrtc *r, int *major, int *minor);
const char *cuda_arch_name(int arch); // "sm_90a"; NULL: not known
int cuda_arch_find(const char *name, int *arch, struct err *e);
// `name` stands in messages of the compiler, which are part of the error.
int nvrtc_compile(const struct nvrtc *r, struct arena *mem, const char *name, const char *source, int arch, struct cubin *out, struct err *e);

// ---- driver.c: a device, its memory, its time
// ------------------------------------------------------------------------

typedef uint64_t gpu_address;
struct gpu; // a device with one stream, in which everything happens in order
struct gpu_facts {
  char name[128];
  int arch, processors;     // 90; multiprocessors
  int64_t l2, shared;       // bytes of the L2 cache, of shared memory a block may have,
  int64_t shared_processor; // of a multiprocessor
  int driver;               // the CUDA version that the driver implements: 13000 is 13.0
};
// The GPUs of this machine, one a number; bit k of `reaches`: it can access the memory of GPU k. ENV without a driver or a device.
struct gpu_place {
  char name[100];
  uint64_t reaches;
};
enum { GPU_MOST_PLACES = 64 };
int gpu_topology(struct arena *mem, struct gpu_place **out, int *n, struct err *e);
int gpu_open(int device, struct gpu **out, struct err *e); // ENV without a driver or a device
void gpu_close(struct gpu *g);
// The context that is current, another's, with its device; where there is none the primary one of device 0, which then is. No stream
// is made: work goes to the one that gpu_follow names (NULL: the default one). gpu_return gives it back.
int gpu_borrow(struct gpu **out, struct err *e);
bool gpu_is_current(const struct gpu *g); // makes it current where none is and it is our own
void gpu_follow(struct gpu *g, void *stream);
bool gpu_enter(struct gpu *g, void **before); // makes its context current, until gpu_leave
void gpu_leave(struct gpu *g, void *before);
void gpu_return(struct gpu *g);
int gpu_look(int device, struct gpu_facts *out, struct err *e); // without taking the device
const struct gpu_facts *gpu_facts(const struct gpu *g);
int gpu_alloc(struct gpu *g, size_t bytes, gpu_address *out, struct err *e);
void gpu_free(struct gpu *g, gpu_address a);
// Memory of the host that copies from and to the device need not touch twice: several times as fast.
int gpu_host_alloc(struct gpu *g, size_t bytes, void **out, struct err *e);
void gpu_host_free(struct gpu *g, void *p);
int gpu_write(struct gpu *g, gpu_address to, const void *from, size_t bytes, struct err *e);
int gpu_read(struct gpu *g, void *to, gpu_address from, size_t bytes, struct err *e); // waits for what came before
int gpu_fill(struct gpu *g, gpu_address to, uint8_t byte, size_t bytes, struct err *e);
int gpu_copy(struct gpu *g, gpu_address to, gpu_address from, size_t bytes, struct err *e); // on the device
int gpu_memory(struct gpu *g, size_t *bytes, struct err *e);                                // that can still be taken
int gpu_wait(struct gpu *g, struct err *e);                                                 // also reports what went wrong in kernels launched before

// ---- launch.c
// -----------------------------------------------------------------------------------------------------------

struct gpu_module;
struct gpu_kernel; // lives as long as its module
struct gpu_use {   // what a thread of the kernel takes
  int registers, local_bytes, threads_most;
};
int gpu_load(struct gpu *g, const struct cubin *c, struct gpu_module **out, struct err *e);
void gpu_unload(struct gpu_module *m);
// `shared`: bytes of dynamic shared memory; `cluster`: blocks of a cluster, 1: none.
int gpu_find(struct gpu_module *m, const char *name, int64_t shared, int cluster, struct gpu_kernel **out, struct err *e);
struct gpu_use gpu_use(const struct gpu_kernel *k);

struct gpu_launch {
  const struct gpu_kernel *kernel;
  int64_t blocks;
  int threads;
  bool dependent;   // may start before the kernel ahead of it has ended (Sync<grid.wait>)
  void **args;      // addresses of the arguments, in the order of the kernel's parameters
  bool cooperative; // all blocks are alive at once, or it is not started
};
int gpu_launch(struct gpu *g, const struct gpu_launch *l, struct err *e);
int gpu_launch_time(struct gpu *g, const struct gpu_launch *l, double *seconds, struct err *e);         // and waits for its end
int gpu_global(struct gpu_module *m, const char *name, gpu_address *out, size_t *bytes, struct err *e); // a variable of the module

// Launches between start and end are recorded, not done; a graph does them all at once.
struct gpu_graph;
int gpu_record(struct gpu *g, struct err *e);
int gpu_record_end(struct gpu *g, struct gpu_graph **out, struct err *e);
void gpu_graph_close(struct gpu_graph *r);
int gpu_replay(struct gpu *g, const struct gpu_graph *r, struct err *e);
// Seconds of one replay by the device's clock.
int gpu_time(struct gpu *g, const struct gpu_graph *r, double *seconds, struct err *e);
// Seconds of a replay of each of n graphs, one after the other. The first is replayed once before, uncounted, and nothing is
// waited for in between, so that the device always has work and no time of the host's is counted. `flush`: so many bytes
// there are written before each; 0: nothing.
int gpu_times(struct gpu *g, int n, struct gpu_graph *const *r, gpu_address flush, size_t bytes, double *seconds, struct err *e);

struct gpu_map { // CUtensorMap, opaque
  _Alignas(128) uint64_t word[16];
};
struct gpu_map_shape {
  enum tile_type type;
  int rank;                    // 1 to 5, the fastest dimension first
  uint64_t size[5], stride[5]; // elements; bytes, stride[0] is not used
  uint32_t box[5];             // elements
  int swizzle_bytes;           // 0, 32, 64, 128
};
int gpu_map(struct gpu *g, gpu_address base, const struct gpu_map_shape *s, struct gpu_map *out, struct err *e);

// ---- bind.c
// --------------------------------------------------------------------------------------------------------------

// The arguments and the extent of a launch; `kernel` is left to the caller. `sizes`: values of k->params; `buffers`:
// one address for each of k->buffers, looked at where the buffer is in global memory. The result lives in mem.
int cuda_bind(struct gpu *g, struct arena *mem, const struct tile_program *p, const struct tile_kernel *k, const int64_t *sizes,
              const gpu_address *buffers, struct gpu_launch *out, struct err *e);
// A lowered kernel as code on the device.
struct cuda_ready {
  const char *source;
  struct cubin cubin;
  double seconds; // of NVRTC
  struct gpu_module *module;
  struct gpu_kernel *kernel;
};
// k is lowered for the device. The result lives in mem, except for the module, which gpu_unload gives back.
int cuda_prepare(struct gpu *g, const struct nvrtc *r, struct arena *mem, const struct tile_program *p, const struct tile_kernel *k,
                 struct cuda_ready *out, struct err *e);
// Elements of a global buffer at these sizes; -1 when they are more than memory can hold.
int64_t cuda_elements(struct arena *mem, const struct tile_program *p, const struct tile_kernel *k, int buffer, const int64_t *sizes);

// ---- meet.c
// --------------------------------------------------------------------------------------------------------------

struct meeting { // an operator of all ranks
  enum meeting_how how;
  int ranks; // 0: none
  enum tile_type type;
  int64_t outer, inner; // of an operand, of a result that is scattered: pieces, elements of each. Pieces of ranks take turns in the whole
};
struct meeting_room { // bytes in the exchange memory of a rank
  int64_t word, slot, sums;
};
extern const char cuda_meet_text[];             // meeting.h and meet.cuh, which stand behind the prelude
bool meeting_fits(const struct meeting *m);     // a type that ranks exchange, and fewer elements than a kernel counts
bool meeting_small(const struct meeting *m);    // words with their epochs carry it; else slots and flags
int64_t meeting_bytes(const struct meeting *m); // of an operand
int64_t meeting_blocks(const struct meeting *m, int processors);
void meeting_room(const struct meeting *m, struct meeting_room *room); // the room becomes large enough
int64_t meeting_memory(int ranks, const struct meeting_room *room);    // bytes of exchange memory of a rank
// Two kernels: name(operand, result, struct meet_world), and name_local(operands of all ranks, result, rank).
void meeting_print(const struct meeting *m, const struct meeting_room *room, const char *name, struct str *out);

// ---- exec.c
// --------------------------------------------------------------------------------------------------------------

// Copies of host[i], bytes[i] for k->buffers[i] where that is global. `a` holds zeros before, and is to be released
// after an error too.
int cuda_upload(struct gpu *g, const struct tile_kernel *k, void *const *host, const size_t *bytes, gpu_address *a, struct err *e);
void cuda_release(struct gpu *g, const struct tile_kernel *k, const gpu_address *a);
// Runs it once. host[i], bytes[i]: memory for k->buffers[i] where that is global, copied there and, where it is
// written, back.
int cuda_once(struct gpu *g, struct arena *mem, const struct tile_program *p, const struct tile_kernel *k, const struct cuda_ready *r,
              const int64_t *sizes, void *const *host, const size_t *bytes, struct err *e);

// ---- time.c
// --------------------------------------------------------------------------------------------------------------

struct cuda_time { // seconds of a launch, of replays of a graph
  double median, least, most;
  int64_t bytes; // of all global buffers
  int sets;      // of buffers, on which launches take turns
};
// The arguments are those of cuda_once; host stays as it is.
int cuda_time(struct gpu *g, struct arena *mem, const struct tile_program *p, const struct tile_kernel *k, const struct cuda_ready *r,
              const int64_t *sizes, void *const *host, const size_t *bytes, struct cuda_time *out, struct err *e);
// A row of CSV without the end of its line, and what is in its columns. `flops` of a launch; 0: not known.
extern const char cuda_time_columns[];
void cuda_time_csv(const char *kernel, const char *sizes, const struct cuda_time *t, double flops, struct str *out);

// ---- blas.c, cublaslt.c
// ----------------------------------------------------------------------------------------------------------

struct blas;
enum epilogue { // epilogue.def
#define EPILOGUE(id, name, number, act, vectors, doc) EPILOGUE_##id,
#include "cuda/epilogue.def"
#undef EPILOGUE
  EPILOGUES
};
// Operands; of a launch in this order, without those that it has not.
enum { BLAS_A, BLAS_B, BLAS_D, BLAS_C, BLAS_BIAS, BLAS_OPERANDS };
struct blas_product { // D = act(alpha A B + beta C + bias), batched; elements at batch, row and column are stride[.][0..2] apart
  enum tile_type type[BLAS_OPERANDS];
  int64_t batch, m, n, k;
  int64_t stride[BLAS_OPERANDS][3];
  enum epilogue epilogue;
  float alpha, beta; // beta 0: there is no C
};
struct blas_matrix { // column-major, as the library counts
  enum tile_type type;
  int64_t rows, cols, ld, batch; // as it lies in memory; elements
  bool transposed;               // what is multiplied is its transpose
};
struct blas_arranged {
  struct blas_matrix x[4]; // the library's a, b, d, c
  bool swapped;            // the library's a is our b
};
struct blas_algorithm { // how to do it, as the library describes it; the same bytes mean the same in the same version
  uint64_t words[8];
  size_t workspace; // bytes that it needs
};
struct blas_plan;                                               // a product with what the library wants to know about it
int blas_open(struct gpu *g, struct blas **out, struct err *e); // ENV where the library is missing
void blas_close(struct blas *b);
const char *blas_epilogue_name(enum epilogue e); // "relu_bias"
const char *blas_epilogue_doc(enum epilogue e);
int blas_epilogue_number(enum epilogue e);
bool blas_epilogue_find(const char *name, enum epilogue *out);
bool blas_has(const struct blas_product *p, int operand);
int blas_index(const struct blas_product *p, int operand); // among those that it has; -1: it has not
int blas_operands(const struct blas_product *p);           // how many
bool blas_same(const struct blas_product *p, const struct blas_product *q);
// False where the library does not take such strides or types.
bool blas_multiplies(enum tile_type t); // operands of this type
bool blas_arrange(const struct blas_product *p, struct blas_arranged *out);
// TARGET in that case.
int blas_plan(struct blas *b, const struct blas_product *p, struct blas_plan **out, struct err *e);
void blas_plan_close(struct blas_plan *p);
// Algorithms that the library thinks good with so much workspace, best first; at least one, at most `most`.
int blas_algorithms(const struct blas_plan *p, size_t workspace, int most, struct blas_algorithm *out, int *n, struct err *e);
// In the stream of the device; `workspace` has what the algorithm needs. operand: as many as the product has.
int blas_run(const struct blas_plan *p, const struct blas_algorithm *how, const gpu_address *operand, gpu_address workspace, struct err *e);

#endif
