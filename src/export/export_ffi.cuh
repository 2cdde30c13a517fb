#include <map>
#include <mutex>
#include <utility>

typedef int mica_ffi_prepare(void *workspace, cudaStream_t stream);
typedef int mica_ffi_kernels(const void *const *inputs, void *const *outputs, void *workspace, cudaStream_t stream);

// The workspace of a device and stream, made at the first call. The call may be captured in a CUDA graph: neither the allocation nor what the
// workspace starts with is part of the graph.
static int mica_ffi_workspace(int device, cudaStream_t stream, size_t bytes, mica_ffi_prepare *prepare, void **out)
{
  static std::mutex lock;
  static std::map<std::pair<int, cudaStream_t>, void *> made;
  const std::lock_guard<std::mutex> held(lock);
  const auto old = made.find({device, stream});
  if (old != made.end()) return *out = old->second, 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaStream_t own = nullptr;
  *out = nullptr;
  int status = (int)cudaThreadExchangeStreamCaptureMode(&mode);
  if (status) return status;
  status = (int)cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
  if (!status && bytes) status = (int)cudaMalloc(out, bytes);
  if (!status) status = prepare(*out, own);
  if (!status) status = (int)cudaStreamSynchronize(own);
  if (own) cudaStreamDestroy(own);
  cudaThreadExchangeStreamCaptureMode(&mode);
  if (!status) made[{device, stream}] = *out;
  if (status) cudaFree(*out), *out = nullptr;
  return status;
}

static cudaStream_t mica_ffi_stream(int device)
{
  typedef void *stream_fn(int32_t device, int32_t device_id);
  static stream_fn *const current = (stream_fn *)mica_ffi_find("TVMFFIEnvGetStream");
  return current ? (cudaStream_t)current(MICA_FFI_CUDA, device) : nullptr;
}

static int mica_ffi_run(const mica_ffi_call *c, int device, void **at, size_t bytes, mica_ffi_prepare *prepare, mica_ffi_kernels *kernels)
{
  int before = device, status = (int)cudaGetDevice(&before);
  void *work = nullptr;
  const cudaStream_t stream = mica_ffi_stream(device);
  if (!status && before != device) status = (int)cudaSetDevice(device);
  if (!status) status = mica_ffi_workspace(device, stream, bytes, prepare, &work);
  if (!status) status = kernels((const void *const *)at, (void *const *)(at + c->nin), work, stream);
  if (before != device) cudaSetDevice(before);
  return status ? mica_ffi_fail(c, "RuntimeError", -1, cudaGetErrorString((cudaError_t)status)) : 0;
}
