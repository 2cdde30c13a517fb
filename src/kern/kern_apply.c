// Elementwise operators over double: the FLOAT column of ir/op.def, and kern_op.def's own.
#include "kern/kern.h"
#define NUM double
#include "eval/real.h"

double kern_apply(int op, const struct attrs *a, double x, double y)
{
  const double r = 0;
  ATTR_LOCALS(a);
  (void)r;
  switch (op) {
#define OP(id, name, least, most, rule, levels, attrs, flags, code, field, abstract, range, cost, doc) \
  case OP_##id:                                                                                        \
    return code;
#include "ir/op.def"
#undef OP
#define KERN_OP(id, name, tile, nin, attrs, flags, cost, value) \
  case KERN_##id:                                               \
    return value;
#include "kern/kern_op.def"
#undef KERN_OP
  default: return 0;
  }
}
