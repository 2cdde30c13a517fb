// Recognizes groups of nodes that form one operator of Mica. Before operator set 20 a gelu is written x * 0.5 * (1 + erf(x / sqrt(2))) in some order;
// a silu is always x * sigmoid(x). The last node takes the operator's row and reads x; the other nodes are not run. No other node may use the values
// between.
#include "onnx/onnx.h"

#include <math.h>
#include <string.h>

struct fuser {
  struct onnx_model *m;
  int *reader; // by value: the last node that reads it
};

static bool is(const struct fuser *f, int node, const char *type)
{
  return node >= 0 && !strcmp(f->m->nodes[node].type, type) && !*f->m->nodes[node].domain && f->m->nodes[node].into < 0 && !f->m->nodes[node].as;
}

static int maker(const struct fuser *f, int value) { return value < 0 ? -1 : f->m->values[value].node; }
// The only node that reads a value; -1: there are several, or the value is an output.
static int only_reader(const struct fuser *f, int value)
{
  return value >= 0 && f->m->values[value].uses == 1 && !f->m->values[value].output ? f->reader[value] : -1;
}

static bool near(const struct fuser *f, int value, double c)
{
  const struct onnx_cells *x = onnx_known(f->m, value);
  return x && onnx_elements(&x->shape) == 1 && onnx_type_kind(x->type) == REAL && fabs(x->f[0] - c) <= 1e-3 * fabs(c);
}

// The other input of a binary node one of whose inputs is near c; else -1.
static int beside(const struct fuser *f, int node, const char *type, double c, bool either)
{
  if (!is(f, node, type) || f->m->nodes[node].nin != 2) return -1;
  const int *in = f->m->nodes[node].in;
  if (near(f, in[1], c)) return in[0];
  return either && near(f, in[0], c) ? in[1] : -1;
}

static int output_of(const struct fuser *f, int node) { return f->m->nodes[node].nout == 1 ? f->m->nodes[node].out[0] : -1; }

static void become(struct fuser *f, int node, const char *type, int x, const int *parts, int n)
{
  struct onnx_node *last = &f->m->nodes[node];
  last->as = type, last->row = onnx_row_find("", type), last->nattrs = 0, last->nin = 1, last->in[0] = x;
  for (int i = 0; i < n; i++) f->m->nodes[parts[i]].into = node;
}

// Adds one factor between 1 + erf and gelu: 0.5, x, or their product. False: it is neither.
static bool factor(const struct fuser *f, int node, int here, int x, bool *half, bool *whole, int *part)
{
  *part = -1;
  if (beside(f, node, "Mul", 0.5, true) == here || beside(f, node, "Div", 2, false) == here) return !*half && (*half = true);
  if (!is(f, node, "Mul") || f->m->nodes[node].nin != 2) return false;
  const int *in = f->m->nodes[node].in;
  int other = in[0] == here ? in[1] : in[0], by = maker(f, other);
  if (other == x) return !*whole && (*whole = true);
  bool both = beside(f, by, "Mul", 0.5, true) == x || beside(f, by, "Div", 2, false) == x;
  if (!both || *half || *whole || only_reader(f, other) != node) return false;
  return *part = by, *half = *whole = true;
}

static void gelu(struct fuser *f, int erf)
{
  struct onnx_node *n = &f->m->nodes[erf];
  bool half = false, whole = false;
  int parts[6], k = 0, part;
  if (n->nin != 1 || n->nout != 1) return;
  int scaled = maker(f, n->in[0]), x = beside(f, scaled, "Div", sqrt(2), false), node, here;
  if (x < 0) x = beside(f, scaled, "Mul", sqrt(0.5), true);
  if (x < 0 || only_reader(f, n->in[0]) != erf) return;
  int plus = only_reader(f, n->out[0]);
  if (plus < 0 || beside(f, plus, "Add", 1, true) != n->out[0]) return;
  parts[k++] = scaled, parts[k++] = erf, parts[k++] = plus;
  for (node = plus; !half || !whole;) {
    here = output_of(f, node), node = only_reader(f, here);
    if (node < 0 || k >= 5 || !factor(f, node, here, x, &half, &whole, &part)) return;
    if (part >= 0) parts[k++] = part;
    if (!half || !whole) parts[k++] = node;
  }
  become(f, node, "Gelu", x, parts, k);
}

static void silu(struct fuser *f, int sigmoid)
{
  struct onnx_node *n = &f->m->nodes[sigmoid];
  if (n->nin != 1 || n->nout != 1) return;
  int node = only_reader(f, n->out[0]);
  if (!is(f, node, "Mul") || f->m->nodes[node].nin != 2) return;
  const int *in = f->m->nodes[node].in;
  if ((in[0] == n->out[0] ? in[1] : in[0]) == n->in[0]) become(f, node, "Swish", n->in[0], &sigmoid, 1);
}

void onnx_fuse(struct onnx_model *m)
{
  struct fuser f = {m, NEWS(m->mem, int, m->nvalues + 1)};
  for (int i = 0; i < m->nnodes; i++)
    for (int k = 0; k < m->nodes[i].nin; k++)
      if (m->nodes[i].in[k] >= 0) f.reader[m->nodes[i].in[k]] = i;
  for (int i = 0; i < m->nnodes; i++) {
    if (is(&f, i, "Erf"))
      gelu(&f, i);
    else if (is(&f, i, "Sigmoid"))
      silu(&f, i);
  }
}
