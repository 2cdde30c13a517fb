// Conversions between float32, float16 and bfloat16. Within a program they cost nothing: a widened value keeps its narrow storage and is computed
// with in 32 bits, and a value that is narrowed must already be narrow. If that does not hold, the node is left to its simple function, and programs
// are built again. This concerns a program that would round a wide value, and one whose result leaves it as a wide value.
#include "onnx/onnx_lower.h"

bool onnx_converts(const struct onnx_model *m, const struct onnx_node *n)
{
  if (n->fate != ONNX_TAKEN || !n->row || n->row->lower != onnx_as_cast || n->into >= 0 || n->nout < 1 || n->out[0] < 0) return false;
  return m->values[n->in[0]].type != m->values[n->out[0]].type;
}

enum dtype onnx_narrowed(const struct onnx_model *m, const struct onnx_program *p)
{
  enum dtype t = F32;
  for (int i = 0; i < p->nnodes && t == F32 && m->narrow_weights; i++)
    if (onnx_converts(m, &m->nodes[p->nodes[i]])) onnx_type_dtype(m->values[m->nodes[p->nodes[i]].out[0]].type, &t);
  return t;
}

void onnx_leave(struct onnx_model *m, int node, const char *why)
{
  struct onnx_node *n = &m->nodes[node];
  n->fate = ONNX_LEFT, n->why = arena_strdup(m->mem, why), n->group = -1;
  n->converts = true, m->left_again++;
}

void onnx_take_again(struct onnx_model *m)
{
  for (int i = 0; i < m->nnodes; i++)
    if (m->nodes[i].converts) m->nodes[i].converts = false, m->nodes[i].fate = ONNX_TAKEN, m->nodes[i].why = NULL;
}

void onnx_leave_all(struct onnx_model *m)
{
  for (int i = 0; i < m->nnodes; i++)
    if (onnx_converts(m, &m->nodes[i])) onnx_leave(m, i, "it converts types, and the programs around need too many of that kind");
}

bool onnx_leave_widening(struct onnx_model *m, const struct onnx_program *p, int value)
{
  bool *wanted = NEWS(m->mem, bool, m->nvalues + 1), any = false;
  wanted[value] = true;
  for (int i = p->nnodes - 1; i >= 0; i--) {
    const struct onnx_node *n = &m->nodes[p->nodes[i]];
    bool used = false;
    for (int k = 0; k < n->nout; k++) used |= n->out[k] >= 0 && wanted[n->out[k]];
    for (int k = 0; k < n->nin && used; k++)
      if (n->in[k] >= 0) wanted[n->in[k]] = true;
    if (!used || !onnx_converts(m, n)) continue;
    onnx_leave(m, p->nodes[i], "what it widens is read outside of the program as wide, and Mica has no conversions");
    any = true;
  }
  return any;
}
