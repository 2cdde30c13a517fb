// Writes out SwiGLU: the first input, times its sigmoid, times the second.
#include "onnx/write.h"

void onnx_write_swiglu(struct onnx_write *w)
{
  int gate = wr_in(w, 0), value = wr_in(w, 1);
  if (!w->failed && (wr_type(w, gate) != wr_type(w, value) || !shape_eq(wr_shape(w, gate), wr_shape(w, value))))
    wr_fail(w, "its inputs are not of one shape");
  int y = wr_op1(w, "Swish", gate);
  wr_real(w, "alpha", onnx_attr_real(w->n, "alpha", 1));
  wr_out(w, 0, wr_op2(w, "Mul", y, value));
}
