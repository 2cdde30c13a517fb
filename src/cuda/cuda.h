// cuda: tile kernels on NVIDIA GPUs. A lowered kernel (tile/tile.h) is printed as readable CUDA C++, NVRTC compiles it to
// machine code, and the driver runs that. Both libraries are loaded when they are needed, so Mica is built and works
// without CUDA. A function that needs a missing library returns an error. docs/tile.md shows the generated code.
//
// Glossary
//   prelude  types and inline assembly that generated code uses (prelude.cuh). It includes no header of the vendor, because
//            including cuda_fp16.h takes longer than compiling most kernels
//   piece    one execution of an instruction row; the modes of an atom are loops around pieces
//   wide     an integer expression computed in 64 bits, because its range may exceed 32 bits
//
//   cu_print.c   kernel -> source: parameters, statements, control flow
//   cu_ex.c      integer expressions
//   cu_atom.c    atoms: loops, guards
//   cu_text.c    the texts of instr.def with operands
//   cu_place.c   addresses of operands: indices, shared addresses, descriptors
//   line_info.c  line tables that refer to the tile program
//   nvrtc.c      source -> cubin
//   cuda_library.c  finds the vendor's libraries (library.def, place.def)
//   driver.c     the driver's functions; devices, memory, events
//   topology.c   the GPUs of this machine, and which reach each other's memory
//   launch.c     modules, launches, graphs, tensor maps
//   bind.c       a tile kernel with sizes and buffers -> a launch
//   exec.c       runs a kernel once
//   meet.c       kernels of collective operators (meet.cuh)
//   nccl.c       calls of NCCL
//   time.c       runs a kernel repeatedly and measures the time of a launch
//   blas.c       matrix products as calls of the vendor's library, with epilogues (epilogue.def)
//   cublaslt.c   runs them with cuBLASLt
#ifndef MICA_CUDA_H
#define MICA_CUDA_H

#include "cuda/meeting.h"
#include "tile/tile.h"

// ---- cu_print.c ----

// Appends the source of a lowered kernel for one target, prelude included. `arch`: its compute capability, as in target/gpu.def. The source has
// line directives if the environment asks for line tables.
int cuda_print(const struct tile_program *p, const struct tile_kernel *k, int arch, struct str *out, struct err *e);
// The same, with the line of the kernel's text for each range of the source. Marks are in ascending order, each at the beginning of a line.
struct cuda_mark {
  size_t at; // offset in `out`, which must be empty before
  int line;  // line of the kernel's text, from 1; 0: none
};
struct cuda_marks {
  struct arena *mem;
  int n, cap;
  struct cuda_mark *mark;
};
int cuda_print_marked(const struct tile_program *p, const struct tile_kernel *k, int arch, struct str *out, struct cuda_marks *marks, struct err *e);
// ---- line_info.c ----
bool cuda_line_info(void); // does the environment ask for line tables (MICA_LINE_INFO)?
// The line of the tile program for the text at offset `at`; 0: none. *next must be 0 before the first call, and `at` must not decrease.
int cuda_marked(const struct cuda_marks *m, size_t at, int *next);
// Appends the text with a #line directive before each line that has a mark; it names that line of `file`.
void cuda_add_lines(const char *text, const struct cuda_marks *m, const char *file, struct str *out);
extern const char cuda_prelude_text[]; // base/order.h, base/parts.h and prelude.cuh; precedes every kernel
// The name of the kernel's function in the source; allocated in mem.
const char *cuda_kernel_name(struct arena *mem, const struct tile_kernel *k);

// ---- nvrtc.c ----

struct nvrtc;
struct cubin {
  const void *bytes; // machine code
  size_t n;
  const char *ptx, *log;  // its PTX; the compiler's log. Never NULL
  int registers, spilled; // registers of a thread; bytes of spill stores and loads. -1: unknown
};
int nvrtc_open(struct nvrtc **out, struct err *e); // ENV if the library is missing
void nvrtc_close(struct nvrtc *r);
void nvrtc_version(const struct nvrtc *r, int *major, int *minor);
const char *cuda_arch_name(int arch); // such as "sm_90a"; NULL if unknown
int cuda_arch_find(const char *name, int *arch, struct err *e);
// Compiles a source; `out` is allocated in mem. `name` is the file name in messages of the compiler, which are part of the error.
int nvrtc_compile(const struct nvrtc *r, struct arena *mem, const char *name, const char *source, int arch, struct cubin *out, struct err *e);

// ---- driver.c: a device, its memory, events ----

typedef uint64_t gpu_address;
struct gpu; // a device with one stream, in which all work runs in order
struct gpu_facts {
  char name[128];
  int arch, processors;     // compute capability, such as 90; number of multiprocessors
  int64_t l2, shared;       // bytes of the L2 cache; most bytes of shared memory of a block
  int64_t shared_processor; // bytes of shared memory of a multiprocessor
  int driver;               // the CUDA version that the driver implements: 13000 is 13.0
};
// The GPUs of this machine. Bit k of `reaches`: the GPU can access the memory of GPU k. ENV without a driver or a device.
struct gpu_place {
  char name[100];
  uint64_t reaches;
};
enum { GPU_MOST_PLACES = 64 };
int gpu_topology(struct arena *mem, struct gpu_place **out, int *n, struct err *e);
int gpu_open(int device, struct gpu **out, struct err *e); // ENV without a driver or a device
void gpu_close(struct gpu *g);
// Uses the current context of the caller and its device. If there is none, makes the primary context of device 0 current. Creates no
// stream: work goes to the one set by gpu_follow (NULL: the default stream). gpu_return releases it.
int gpu_borrow(struct gpu **out, struct err *e);
bool gpu_is_current(const struct gpu *g); // is its context current? Makes it so if none is and it is the primary context taken by gpu_borrow
void gpu_follow(struct gpu *g, void *stream);
bool gpu_enter(struct gpu *g, void **before); // makes its context current until gpu_leave; *before: the previous one
void gpu_leave(struct gpu *g, void *before);
void gpu_return(struct gpu *g);
int gpu_look(int device, struct gpu_facts *out, struct err *e); // does not create a context
const struct gpu_facts *gpu_facts(const struct gpu *g);
int gpu_alloc(struct gpu *g, size_t bytes, gpu_address *out, struct err *e);
void gpu_free(struct gpu *g, gpu_address a);
// Page-locked host memory; copies from and to the device are several times as fast.
int gpu_host_alloc(struct gpu *g, size_t bytes, void **out, struct err *e);
void gpu_host_free(struct gpu *g, void *p);
int gpu_write(struct gpu *g, gpu_address to, const void *from, size_t bytes, struct err *e);
int gpu_read(struct gpu *g, void *to, gpu_address from, size_t bytes, struct err *e); // waits for earlier work
int gpu_fill(struct gpu *g, gpu_address to, uint8_t byte, size_t bytes, struct err *e);
int gpu_copy(struct gpu *g, gpu_address to, gpu_address from, size_t bytes, struct err *e); // on the device
int gpu_memory(struct gpu *g, size_t *bytes, struct err *e);                                // free memory
int gpu_wait(struct gpu *g, struct err *e);                                                 // also reports errors of kernels launched before

// ---- launch.c ----

struct gpu_module;
struct gpu_kernel; // lives as long as its module
struct gpu_use {   // resources of a thread, and the largest block of the kernel
  int registers, local_bytes, threads_most;
};
int gpu_load(struct gpu *g, const struct cubin *c, struct gpu_module **out, struct err *e);
void gpu_unload(struct gpu_module *m);
// `shared`: bytes of dynamic shared memory. `cluster`: blocks of a cluster; 1: no cluster.
int gpu_find(struct gpu_module *m, const char *name, int64_t shared, int cluster, struct gpu_kernel **out, struct err *e);
struct gpu_use gpu_use(const struct gpu_kernel *k);

struct gpu_launch {
  const struct gpu_kernel *kernel;
  int64_t blocks;
  int threads;
  bool dependent;   // may start before the previous kernel has ended (Sync<grid.wait>)
  void **args;      // addresses of the arguments, in the order of the kernel's parameters
  bool cooperative; // all blocks must be resident at once; otherwise the launch fails
};
int gpu_launch(struct gpu *g, const struct gpu_launch *l, struct err *e);
int gpu_launch_time(struct gpu *g, const struct gpu_launch *l, double *seconds, struct err *e);         // also waits for its end
int gpu_global(struct gpu_module *m, const char *name, gpu_address *out, size_t *bytes, struct err *e); // a variable of the module

// Launches between gpu_record and gpu_record_end are recorded in a graph instead of run.
struct gpu_graph;
int gpu_record(struct gpu *g, struct err *e);
int gpu_record_end(struct gpu *g, struct gpu_graph **out, struct err *e);
void gpu_graph_close(struct gpu_graph *r);
int gpu_replay(struct gpu *g, const struct gpu_graph *r, struct err *e);
// Seconds of one replay by the device's clock.
int gpu_time(struct gpu *g, const struct gpu_graph *r, double *seconds, struct err *e);
// Seconds of one replay of each of n graphs, one after the other. The first graph is replayed once before, untimed. The host does not
// wait between replays, so the device always has work and host time does not count. `flush`: address at which `bytes` bytes are
// written before each replay, to flush the cache; 0: none.
int gpu_times(struct gpu *g, int n, struct gpu_graph *const *r, gpu_address flush, size_t bytes, double *seconds, struct err *e);

struct gpu_map { // CUtensorMap, opaque
  _Alignas(128) uint64_t word[16];
};
struct gpu_map_shape {
  enum tile_type type;
  int rank;                    // 1 to 5; the fastest dimension is first
  uint64_t size[5], stride[5]; // sizes in elements; strides in bytes, stride[0] is not used
  uint32_t box[5];             // in elements
  int swizzle_bytes;           // 0, 32, 64, 128
};
int gpu_map(struct gpu *g, gpu_address base, const struct gpu_map_shape *s, struct gpu_map *out, struct err *e);

// ---- bind.c ----

// Sets the arguments and the grid of a launch; the caller sets `kernel`. `sizes`: values of k->params. `buffers`: one
// address for each of k->buffers; only those of buffers in global memory are read. The result is allocated in mem.
int cuda_bind(struct gpu *g, struct arena *mem, const struct tile_program *p, const struct tile_kernel *k, const int64_t *sizes,
              const gpu_address *buffers, struct gpu_launch *out, struct err *e);
// A lowered kernel, compiled and loaded on the device.
struct cuda_ready {
  const char *source;
  struct cubin cubin;
  double seconds; // compile time of NVRTC
  struct gpu_module *module;
  struct gpu_kernel *kernel;
};
// k must be lowered for the device. The result is allocated in mem, except for the module, which gpu_unload frees.
int cuda_prepare(struct gpu *g, const struct nvrtc *r, struct arena *mem, const struct tile_program *p, const struct tile_kernel *k,
                 struct cuda_ready *out, struct err *e);
// Number of elements of a global buffer at these sizes; -1 if they are more than memory can hold.
int64_t cuda_elements(struct arena *mem, const struct tile_program *p, const struct tile_kernel *k, int buffer, const int64_t *sizes);

// ---- meet.c ----

struct meeting { // a collective operator
  enum meeting_how how;
  int ranks; // 0: none
  enum tile_type type;
  int64_t outer, inner; // one rank's tensor is `outer` pieces of `inner` elements; in the whole tensor, the pieces of the ranks are interleaved
};
struct meeting_room { // sizes of the regions of a rank's exchange memory, in bytes
  int64_t word, slot, sums;
};
extern const char cuda_meet_text[];             // meeting.h and meet.cuh; follows the prelude
bool meeting_fits(const struct meeting *m);     // is the type supported, and do the elements fit in 32-bit indices?
bool meeting_small(const struct meeting *m);    // sent as words with epochs; otherwise by slots and flags
int64_t meeting_bytes(const struct meeting *m); // bytes of an operand
int64_t meeting_blocks(const struct meeting *m, int processors);
void meeting_room(const struct meeting *m, struct meeting_room *room); // enlarges the regions as needed
int64_t meeting_memory(int ranks, const struct meeting_room *room);    // bytes of exchange memory of a rank
// Two kernels: name(operand, result, struct meet_world), and name_local(operands of all ranks, result, rank).
void meeting_print(const struct meeting *m, const struct meeting_room *room, const char *name, struct str *out);

// ---- exec.c ----

// Allocates device memory a[i] for each global buffer k->buffers[i], and copies bytes[i] bytes of host[i] there. `a` must be
// zero before. The caller must release it after an error too.
int cuda_upload(struct gpu *g, const struct tile_kernel *k, void *const *host, const size_t *bytes, gpu_address *a, struct err *e);
void cuda_release(struct gpu *g, const struct tile_kernel *k, const gpu_address *a);
// Runs the kernel once. host[i], bytes[i]: host memory for each global buffer k->buffers[i]. It is copied to the device, and
// back if the kernel writes the buffer.
int cuda_once(struct gpu *g, struct arena *mem, const struct tile_program *p, const struct tile_kernel *k, const struct cuda_ready *r,
              const int64_t *sizes, void *const *host, const size_t *bytes, struct err *e);

// ---- time.c ----

struct cuda_time { // seconds of a launch, from replays of a graph of launches
  double median, least, most;
  int64_t bytes; // bytes of all global buffers
  int sets;      // sets of buffers that the launches use in turn
};
// The arguments are those of cuda_once; host memory is not changed.
int cuda_time(struct gpu *g, struct arena *mem, const struct tile_program *p, const struct tile_kernel *k, const struct cuda_ready *r,
              const int64_t *sizes, void *const *host, const size_t *bytes, struct cuda_time *out, struct err *e);
// A row of CSV without the end of line, and the names of its columns. `flops`: operations of a launch; 0: unknown.
extern const char cuda_time_columns[];
void cuda_time_csv(const char *kernel, const char *sizes, const struct cuda_time *t, double flops, struct str *out);

// ---- blas.c, cublaslt.c ----

struct blas;
enum epilogue { // epilogue.def
#define EPILOGUE(id, name, number, act, vectors, doc) EPILOGUE_##id,
#include "cuda/epilogue.def"
#undef EPILOGUE
  EPILOGUES
};
// Operands. A launch takes them in this order, without the absent ones.
enum { BLAS_A, BLAS_B, BLAS_D, BLAS_C, BLAS_BIAS, BLAS_OPERANDS };
struct blas_product { // D = act(alpha A B + beta C + bias), batched. stride[operand]: distances in elements along batch, rows and columns
  enum tile_type type[BLAS_OPERANDS];
  int64_t batch, m, n, k;
  int64_t stride[BLAS_OPERANDS][3];
  enum epilogue epilogue;
  float alpha, beta; // beta 0: there is no C
};
struct blas_matrix { // column-major, as in the library
  enum tile_type type;
  int64_t rows, cols, ld, batch; // as stored; ld and batch are strides in elements
  bool transposed;               // its transpose is multiplied
};
struct blas_arranged {
  struct blas_matrix x[4]; // the library's a, b, d, c
  bool swapped;            // the library's a is the product's B
};
struct blas_algorithm { // opaque description of an algorithm; equal bytes mean the same within one version of the library
  uint64_t words[8];
  size_t workspace; // bytes of workspace that it needs
};
struct blas_plan;                                               // a product with its descriptors for the library
int blas_open(struct gpu *g, struct blas **out, struct err *e); // ENV if the library is missing
void blas_close(struct blas *b);
const char *blas_epilogue_name(enum epilogue e); // "relu_bias"
const char *blas_epilogue_doc(enum epilogue e);
int blas_epilogue_number(enum epilogue e);
bool blas_epilogue_find(const char *name, enum epilogue *out);
bool blas_has(const struct blas_product *p, int operand);
int blas_index(const struct blas_product *p, int operand); // its index among the operands that the product has; -1 if it has not
int blas_operands(const struct blas_product *p);           // number of operands
bool blas_same(const struct blas_product *p, const struct blas_product *q);
bool blas_multiplies(enum tile_type t);         // can A and B have this type?
bool blas_places(const struct blas_product *p); // does the library take the strides of A, B and D?
// Expresses the product in the library's terms. False if the library does not take the strides or types.
bool blas_arrange(const struct blas_product *p, struct blas_arranged *out);
// TARGET if blas_arrange fails.
int blas_plan(struct blas *b, const struct blas_product *p, struct blas_plan **out, struct err *e);
void blas_plan_close(struct blas_plan *p);
// Algorithms that the library recommends for at most `workspace` bytes of workspace, best first; between 1 and `most`.
int blas_algorithms(const struct blas_plan *p, size_t workspace, int most, struct blas_algorithm *out, int *n, struct err *e);
// Runs the product in the device's stream. `workspace` must have the bytes that the algorithm needs. operand: the addresses of the operands that
// the product has, in order.
int blas_run(const struct blas_plan *p, const struct blas_algorithm *how, const gpu_address *operand, gpu_address workspace, struct err *e);

#endif
