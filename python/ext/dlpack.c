// Views of the tensors that DLPack describes.
#include "ext.h"
#include "dlpack.h"

#include <stdio.h>

static int dtype_of_dl(const struct dl_tensor *t)
{
  if (t->dtype.lanes != 1) return -1;
  for (int i = 0; i < DTYPES; i++)
    if (t->dtype.code == num_rows[i].dlpack && t->dtype.bits == num_rows[i].bits) return i;
  return -1;
}

static void name_of_dl(const struct dl_tensor *t, char out[24])
{
  static const char *const codes[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  const char *code = t->dtype.code < sizeof codes / sizeof *codes ? codes[t->dtype.code] : "?";
  snprintf(out, 24, "%s%d", code, t->dtype.bits);
}

bool ext_view_dense(int n, const int64_t *shape, const int64_t *steps, int64_t unit)
{
  for (int i = n - 1; i >= 0; i--) {
    if (shape[i] != 1 && steps[i] != unit) return false;
    unit *= shape[i];
  }
  return true;
}

void ext_view_dl(struct view *v, const struct dl_tensor *t)
{
  v->data = (char *)t->data + t->byte_offset;
  v->device = t->device.type == DL_CUDA || t->device.type == DL_CUDA_MANAGED ? t->device.id : CPU;
  v->ndim = t->ndim;
  v->dtype = dtype_of_dl(t);
  if (v->dtype < 0) name_of_dl(t, v->dtype_name);
  if (t->ndim > MICA_MAX_DIMS) return; // no program takes it: ext_view_check says so
  for (int i = 0; i < t->ndim; i++) v->shape[i] = t->shape[i];
  v->dense = !t->strides || ext_view_dense(t->ndim, t->shape, t->strides, 1);
}
