// Constants of programs. Kernels compute in fp32, whatever the dtype of tensors. So a constant must be in the range of fp32. An infinity is
// allowed only as a bound of clamp.
#include "ir/constants.h"

#include <float.h>
#include <math.h>

bool constant_fits(double c) { return c == 0 || (fabs(c) <= (double)FLT_MAX && fabs(c) >= (double)FLT_MIN); }

static int unfit(const struct node *n, const char *what, double c, struct err *e)
{
  char text[32];
  str_double(text, c);
  err_set(e, ERR_ATTRIBUTE, n->at, "%s of %s is %s, which %s", what, op_rows[n->op].name, text,
          !isfinite(c)  ? "is no finite number"
          : fabs(c) > 1 ? "is too large for float"
                        : "is too small for float");
  if (isfinite(c))
    err_hint(e, "kernels compute in float: constants are 0, or between 1.2e-38 and 3.4e38 without their sign");
  else
    err_hint(e, "`inf` is for the bounds of clamp; a mask adds a large finite number, such as -1e9");
  return (int)e->status;
}

static int check_node(const struct node *n, struct err *e)
{
  for (int i = 0; i < ATTRS; i++) {
    if (!(op_rows[n->op].attrs >> i & 1) || attr_rows[i].kind != ATTR_REAL_KIND) continue;
    double c = attr_real(&n->a, i);
    bool bound = i == ATTR_LO || i == ATTR_HI;
    if (!constant_fits(c) && !(bound && isinf(c))) return unfit(n, attr_rows[i].name, c, e);
  }
  return OK;
}

int constants_check(const struct graph *g, struct err *e) { return constants_check_from(g, 0, e); }

int constants_check_from(const struct graph *g, int node, struct err *e)
{
  int s = OK;
  for (int i = node; i < g->nnodes && !s; i++) {
    s = check_node(&g->nodes[i], e);
    if (!s && g->nodes[i].sub) s = constants_check(g->nodes[i].sub, e);
  }
  return s;
}
