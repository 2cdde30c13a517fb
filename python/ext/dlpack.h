// The structure that a DLPack capsule points to: the layout is fixed by the specification (dmlc.github.io/dlpack, "C API", version 0.x, which
// producers give unless a newer one is asked for).
#ifndef DLPACK_H
#define DLPACK_H

#include <stdint.h>

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };

struct dl_tensor {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides; // strides in elements; NULL: dense
  uint64_t byte_offset;
};
struct dl_managed {
  struct dl_tensor t;
  void *context;
  void (*deleter)(struct dl_managed *self);
};

// The structure that a type has as __dlpack_c_exchange_api__, in a capsule "dlpack_exchange_api": functions of the library (version 1.2 and later).
struct dl_exchange {
  struct {
    uint32_t major, minor;
  } version;
  struct dl_exchange *previous; // of an older major version
  void (*allocate)(void), (*from_object)(void), (*to_object)(void);
  int (*look)(void *object, struct dl_tensor *out); // owns nothing: valid as long as the object is. May be NULL; not 0 with an exception
  void (*stream)(void);
};

#endif
