// Machine primitives of the host program: memory, launches, times.
#ifdef MEGA_SHIM

#if WORLD == 1
static void launch(const kernel_memory &m, u32 first, int position, int steps)
{
  M = m;
  shim_run(WORKERS, BLOCK_THREADS, sizeof(block_memory), [=] { mega_kernel(first, position, steps); });
}
#endif

static void set_flight(u32 n, u32 calm) { FLIGHTS = n, CALM_FLIGHTS = calm; }

#else

#define MUST(x)                                                      \
  do {                                                               \
    cudaError_t e_ = (x);                                            \
    if (e_ != cudaSuccess) {                                         \
      fprintf(stderr, "%s: %s\n", #x, cudaGetErrorString(e_));       \
      exit(3);                                                       \
    }                                                                \
  } while (0)

template <class F> __global__ void each_kernel(long long n, F f)
{
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) f(i);
}
template <class F> static void each(long long n, F f)
{
  each_kernel<<<(unsigned)std::min<long long>((n + 127) / 128, 65536), 128>>>(n, f);
  MUST(cudaGetLastError());
}

static void *device_room(size_t n)
{
  void *p;
  MUST(cudaMalloc(&p, n ? n : 1));
  return p;
}
static void to_device(void *to, const void *from, size_t n) { MUST(cudaMemcpy(to, from, n, cudaMemcpyHostToDevice)); }
static void from_device(void *to, const void *from, size_t n) { MUST(cudaMemcpy(to, from, n, cudaMemcpyDeviceToHost)); }
static void copy_device(void *to, const void *from, size_t n) { MUST(cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToDevice)); }
static void zero_device(void *to, size_t n) { MUST(cudaMemset(to, 0, n)); }

static void set_flight(u32 n, u32 calm)
{
  MUST(cudaMemcpyToSymbol(FLIGHTS, &n, sizeof n));
  MUST(cudaMemcpyToSymbol(CALM_FLIGHTS, &calm, sizeof calm));
}

static void begin_device()
{
  int blocks = 0, device;
  cudaDeviceProp prop;
  MUST(cudaGetDevice(&device));
  MUST(cudaGetDeviceProperties(&prop, device));
  if (prop.major != 9) fprintf(stderr, "%s has compute capability %d.%d, and 9.0 is needed\n", prop.name, prop.major, prop.minor), exit(3);
  MUST(cudaFuncSetAttribute(mega_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(block_memory)));
  MUST(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, mega_kernel, BLOCK_THREADS, sizeof(block_memory)));
  if (blocks * prop.multiProcessorCount < WORKERS)
    fprintf(stderr, "%s holds %d blocks of this kernel at once, and %d are needed\n", prop.name, blocks * prop.multiProcessorCount, WORKERS), exit(3);
}

static void launch_cooperative(u32 first, int position, int steps)
{
  void *args[] = {&first, &position, &steps};
  MUST(cudaLaunchCooperativeKernel((const void *)mega_kernel, dim3(WORKERS), dim3(BLOCK_THREADS), args, sizeof(block_memory), 0));
}

#if WORLD > 1
static void use_rank(int rank) { MUST(cudaSetDevice(rank)); }
#else
static void launch(const kernel_memory &m, u32 first, int position, int steps)
{
  MUST(cudaMemcpyToSymbol(M, &m, sizeof m));
  launch_cooperative(first, position, steps);
  MUST(cudaDeviceSynchronize());
}
#endif

#endif

static void print_machine()
{
#ifdef MEGA_SHIM
  printf("fibers of a CPU, %zu bytes of memory a block\n", sizeof(block_memory));
#else
  cudaDeviceProp prop;
  cudaFuncAttributes a;
  MUST(cudaGetDeviceProperties(&prop, 0));
  MUST(cudaFuncGetAttributes(&a, mega_kernel));
  printf("%s, %zu bytes of shared memory, %d registers, %zu bytes of local memory\n", prop.name, sizeof(block_memory), a.numRegs, a.localSizeBytes);
#endif
}
