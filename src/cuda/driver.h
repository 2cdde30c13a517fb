// driver: the functions of libcuda that Mica calls, by their names in the library. Prototypes follow the documented driver
// interface (CUDA 12.0 and later). `int` stands for CUresult and other enumerations.
#ifndef MICA_CUDA_DRIVER_H
#define MICA_CUDA_DRIVER_H

#include "cuda/cuda.h"

typedef struct CUctx_st *cu_context;
typedef struct CUmod_st *cu_module;
typedef struct CUfunc_st *cu_function;
typedef struct CUstream_st *cu_stream;
typedef struct CUevent_st *cu_event;
typedef struct CUgraph_st *cu_graph;
typedef struct CUgraphExec_st *cu_exec;

struct cu_ipc { // CUipcMemHandle
  char bytes[64];
};
struct cu_attribute { // CUlaunchAttribute
  int id;
  int pad;
  union {
    char bytes[64];
    struct {
      unsigned x, y, z;
    } cluster;
    int flag;
    uint64_t align;
  } value;
};
struct cu_config { // CUlaunchConfig
  unsigned grid[3], block[3], shared;
  cu_stream stream;
  struct cu_attribute *attributes;
  unsigned nattributes;
};
_Static_assert(sizeof(struct cu_attribute) == 72, "as in cuda.h");
_Static_assert(sizeof(struct cu_config) == 56 && offsetof(struct cu_config, stream) == 32, "as in cuda.h");
enum { CU_COOPERATIVE = 2, CU_CLUSTER_DIMENSION = 4, CU_PROGRAMMATIC_SERIALIZATION = 6 }; // ids of launch attributes
enum { CU_FUNC_THREADS = 0, CU_FUNC_LOCAL = 3, CU_FUNC_REGISTERS = 4, CU_FUNC_DYNAMIC_SHARED = 8, CU_FUNC_ODD_CLUSTERS = 14 };

// FUNCTION(field, symbol, parameters)
#define CU_FUNCTIONS                                                                                                                      \
  FUNCTION(init, "cuInit", (unsigned flags))                                                                                              \
  FUNCTION(device_count, "cuDeviceGetCount", (int *n))                                                                                    \
  FUNCTION(device_get, "cuDeviceGet", (int *device, int i))                                                                               \
  FUNCTION(device_name, "cuDeviceGetName", (char *name, int room, int device))                                                            \
  FUNCTION(device_attribute, "cuDeviceGetAttribute", (int *value, int attribute, int device))                                             \
  FUNCTION(device_peer, "cuDeviceCanAccessPeer", (int *can, int device, int other))                                                       \
  FUNCTION(peer_enable, "cuCtxEnablePeerAccess", (cu_context c, unsigned flags))                                                          \
  FUNCTION(ipc_get, "cuIpcGetMemHandle", (struct cu_ipc * handle, gpu_address a))                                                         \
  FUNCTION(ipc_open, "cuIpcOpenMemHandle_v2", (gpu_address * a, struct cu_ipc handle, unsigned flags))                                    \
  FUNCTION(ipc_close, "cuIpcCloseMemHandle", (gpu_address a))                                                                             \
  FUNCTION(host_alloc, "cuMemAllocHost_v2", (void **p, size_t bytes))                                                                     \
  FUNCTION(host_free, "cuMemFreeHost", (void *p))                                                                                         \
  FUNCTION(context_retain, "cuDevicePrimaryCtxRetain", (cu_context * c, int device))                                                      \
  FUNCTION(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                                                                 \
  FUNCTION(context_get, "cuCtxGetCurrent", (cu_context * c))                                                                              \
  FUNCTION(context_device, "cuCtxGetDevice", (int *device))                                                                               \
  FUNCTION(context_set, "cuCtxSetCurrent", (cu_context c))                                                                                \
  FUNCTION(error_name, "cuGetErrorName", (int code, const char **text))                                                                   \
  FUNCTION(error_text, "cuGetErrorString", (int code, const char **text))                                                                 \
  FUNCTION(alloc, "cuMemAlloc_v2", (gpu_address * a, size_t bytes))                                                                       \
  FUNCTION(release, "cuMemFree_v2", (gpu_address a))                                                                                      \
  FUNCTION(write, "cuMemcpyHtoDAsync_v2", (gpu_address to, const void *from, size_t bytes, cu_stream s))                                  \
  FUNCTION(read, "cuMemcpyDtoHAsync_v2", (void *to, gpu_address from, size_t bytes, cu_stream s))                                         \
  FUNCTION(copy, "cuMemcpyDtoDAsync_v2", (gpu_address to, gpu_address from, size_t bytes, cu_stream s))                                   \
  FUNCTION(memory, "cuMemGetInfo_v2", (size_t * free, size_t * all))                                                                      \
  FUNCTION(version, "cuDriverGetVersion", (int *version))                                                                                 \
  FUNCTION(fill, "cuMemsetD8Async", (gpu_address to, unsigned char byte, size_t bytes, cu_stream s))                                      \
  FUNCTION(stream_create, "cuStreamCreate", (cu_stream * s, unsigned flags))                                                              \
  FUNCTION(stream_destroy, "cuStreamDestroy_v2", (cu_stream s))                                                                           \
  FUNCTION(stream_wait, "cuStreamSynchronize", (cu_stream s))                                                                             \
  FUNCTION(event_create, "cuEventCreate", (cu_event * v, unsigned flags))                                                                 \
  FUNCTION(event_destroy, "cuEventDestroy_v2", (cu_event v))                                                                              \
  FUNCTION(event_record, "cuEventRecord", (cu_event v, cu_stream s))                                                                      \
  FUNCTION(event_wait, "cuEventSynchronize", (cu_event v))                                                                                \
  FUNCTION(event_elapsed, "cuEventElapsedTime", (float *milliseconds, cu_event from, cu_event to))                                        \
  FUNCTION(module_load, "cuModuleLoadData", (cu_module * m, const void *image))                                                           \
  FUNCTION(module_unload, "cuModuleUnload", (cu_module m))                                                                                \
  FUNCTION(module_function, "cuModuleGetFunction", (cu_function * f, cu_module m, const char *name))                                      \
  FUNCTION(module_global, "cuModuleGetGlobal_v2", (gpu_address * a, size_t * bytes, cu_module m, const char *name))                       \
  FUNCTION(function_attribute, "cuFuncGetAttribute", (int *value, int attribute, cu_function f))                                          \
  FUNCTION(function_set, "cuFuncSetAttribute", (cu_function f, int attribute, int value))                                                 \
  FUNCTION(launch, "cuLaunchKernelEx", (const struct cu_config *c, cu_function f, void **args, void **extra))                             \
  FUNCTION(capture, "cuStreamBeginCapture_v2", (cu_stream s, int mode))                                                                   \
  FUNCTION(capture_end, "cuStreamEndCapture", (cu_stream s, cu_graph * g))                                                                \
  FUNCTION(graph_make, "cuGraphInstantiateWithFlags", (cu_exec * x, cu_graph g, unsigned long long flags))                                \
  FUNCTION(graph_launch, "cuGraphLaunch", (cu_exec x, cu_stream s))                                                                       \
  FUNCTION(graph_upload, "cuGraphUpload", (cu_exec x, cu_stream s))                                                                       \
  FUNCTION(graph_destroy, "cuGraphDestroy", (cu_graph g))                                                                                 \
  FUNCTION(exec_destroy, "cuGraphExecDestroy", (cu_exec x))                                                                               \
  FUNCTION(tensor_map, "cuTensorMapEncodeTiled",                                                                                          \
           (struct gpu_map * out, int type, uint32_t rank, void *base, const uint64_t *size, const uint64_t *stride, const uint32_t *box, \
            const uint32_t *step, int interleave, int swizzle, int promotion, int fill))

struct gpu {
  void *so;
#define FUNCTION(field, symbol, parameters) int(*field) parameters;
  CU_FUNCTIONS
#undef FUNCTION
  int device;
  bool retained;
  cu_context context;
  cu_stream stream;
  cu_event from, to;
  struct gpu_facts facts;
};

// OK if code is 0; otherwise an error with the formatted text and the driver's name for the code.
int gpu_check(const struct gpu *g, int code, struct err *e, const char *fmt, ...) PRINTF(4, 5);

#endif
