#include <stdlib.h>

// The workspace of the last call serves the next one; calls at the same time have their own.
static void *mica_ffi_kept;

static int mica_ffi_run(const struct mica_ffi_call *c, void **at, int (*run)(void *const *, void *const *, void *), size_t bytes)
{
  void *work = bytes ? __atomic_exchange_n(&mica_ffi_kept, NULL, __ATOMIC_ACQ_REL) : NULL;
  if (bytes && !work) work = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (bytes && !work) return mica_ffi_fail(c, "MemoryError", -1, "its workspace cannot be allocated");
  int status = run((void *const *)at, (void *const *)(at + c->nin), work);
  if (bytes) free(__atomic_exchange_n(&mica_ffi_kept, work, __ATOMIC_ACQ_REL));
  return status ? mica_ffi_fail(c, "RuntimeError", -1, "the kernels failed") : 0;
}
