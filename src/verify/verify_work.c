// Cost of one evaluation over a field: multiply-adds, where expensive operations count as the multiplications that they take; and the memory of the
// tensors between kernels.
#include "base/rational.h"
#include "verify/proof.h"

#include <math.h>

static int64_t weight(enum op op)
{
  const struct op_row *row = &op_rows[op];
  bool power = row->abstract == AE_DIV || row->abstract == AE_SQRT || row->abstract == AE_RSQRT;
  return power ? 100 : row->abstract == AE_EXP ? 16 : row->abstract == AE_OPAQUE || row->abstract == AE_DEFINED ? 8 : 1;
}

int64_t work_ops(const struct graph *g)
{
  int64_t total = 0;
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    if (n->sub) {
      total += graph_blocks(n->sub) * graph_iterations(n->sub) * work_ops(n->sub);
      continue;
    }
    int64_t size = n->nout ? shape_size(&g->tensors[n->out].shape) : 0;
    if (n->nin && op_rows[n->op].rule != RULE_SPLIT) size = MAX(size, shape_size(&g->tensors[n->in[0]].shape));
    if (op_rows[n->op].rule == RULE_CONTRACT)
      for (int k = 0; k < n->nin / 2; k++) {
        const struct shape *x = &g->tensors[n->in[k]].shape;
        total += shape_size(&g->tensors[n->out].shape) * x->d[x->n - 1];
      }
    else
      total += size * weight(n->op);
  }
  return total;
}

int64_t work_bytes(const struct graph *g) { return graph_tile_bytes(g, (int)domain_bytes(DOM_FIELD)); }

// ---- whether a difference over fields implies one over the reals ----

static bool field_operation(const struct op_row *row)
{
  switch (row->abstract) {
  case AE_NONE:
  case AE_ID:
  case AE_CONST:
  case AE_ADD:
  case AE_SUB:
  case AE_NEG:
  case AE_MUL:
  case AE_DIV:
  case AE_EXP:
  case AE_SQUARE:
  case AE_SCALE:
  case AE_SHIFT:
  case AE_MATMUL:
  case AE_CONCAT_MATMUL:
  case AE_SUM:
  case AE_MEAN:
  case AE_PROD:
  case AE_CONCAT:
  case AE_ACCUM:
  case AE_GRAPH: return !(row->flags & (RMS | OPAQUE));
  case AE_SQRT:
  case AE_RSQRT:
  case AE_DEFINED:
  case AE_OPAQUE:
  case AE_EWMAX:
  case AE_EWMIN:
  case AE_MAX:
  case AE_ACCUM_MAX: break;
  }
  return false;
}

bool work_faithful(const struct graph *g)
{
  for (int i = 0; i < g->nnodes; i++) {
    const struct node *n = &g->nodes[i];
    const struct op_row *row = &op_rows[n->op];
    if (n->op == OP_INPUT && g->tensors[n->out].whole) return false;
    if (!field_operation(row) || (n->sub && !work_faithful(n->sub))) return false;
    if ((row->attrs & A_SCALAR) && (!isfinite(n->a.scalar) || rational_of(n->a.scalar).rounded)) return false;
  }
  return true;
}
