// Memory layout of a numpy array: the fields that numpy's inline functions read (PyArray_DATA and its like, numpy/ndarraytypes.h),
// which are compiled into every extension that uses them, so no version moves them. ext_ndarray_open holds them against an array all the same.
#ifndef NDARRAY_H
#define NDARRAY_H

#include "ext.h"

enum { ND_C_CONTIGUOUS = 0x1, ND_OWN_DATA = 0x4, ND_ALIGNED = 0x100, ND_WRITEABLE = 0x400 };

struct ndarray {
  PyObject_HEAD void *data;
  int nd;
  int64_t *dimensions, *strides; // strides in bytes
  PyObject *base, *descr;        // descr: numpy has one object for each of its own dtypes in the machine's order of bytes
  int flags;
};

#endif
