// Cost of an operator under the layouts of its operands: bytes times a factor. The factors are ratios of instructions. One access of 16 bytes
// replaces eight of 2 bytes, and a bank conflict of eight rows takes eight accesses. ldmatrix with and without .trans costs the same.
#include "plan/layout_cost.h"

#include <math.h>

static const double BY_ELEMENT = 8; // fewer than 16 contiguous bytes on a side
static const double CONFLICT = 8;   // a tile read across its rows without a swizzle
static const double SWIZZLE = 0.01; // integer work that a swizzle adds
static const double ACROSS = 1.5;   // an operand read across its rows, swizzled
static const double SECTOR = 32;    // least bytes of a device memory access

static double bytes_of(const struct graph *g, int t) { return 2 * (double)shape_size(&g->tensors[t].shape); }

double cost_move(const struct shape *tile, int64_t elem, int unit, struct placed p)
{
  double bytes = (double)(elem * shape_size(tile)), run = unit < 0 ? (double)elem : (double)(elem * tile->d[unit]);
  double waste = fmax(1, SECTOR / run);
  bool chunks = unit >= 0 && unit == p.inner && elem * tile->d[unit] % 16 == 0;
  return bytes * (waste + (chunks ? 1 : BY_ELEMENT / fmin(8, 16 / (double)elem) * 4));
}

// An operand of a product: ldmatrix reads rows of 16 bytes along either of the last two dimensions, eight rows at a time.
static double product_operand(const struct graph *b, int t, struct placed p)
{
  const struct shape *s = &b->tensors[t].shape;
  double bytes = bytes_of(b, t);
  int other = p.inner == s->n - 1 ? s->n - 2 : s->n - 1;
  if (p.inner < 0) return bytes;
  if (p.inner < s->n - 2) return bytes * BY_ELEMENT;
  if (s->d[other] == 1) return bytes;
  return bytes * (p.swizzled == other ? 1 + SWIZZLE : CONFLICT);
}

static double product(const struct graph *b, const struct node *n, const struct placed *in, struct placed out)
{
  double sum = 0;
  for (int i = 0; i < n->nin; i++) sum += product_operand(b, n->in[i], in[i]);
  int rank = b->tensors[n->out].shape.n; // results are pairs along columns
  return sum + bytes_of(b, n->out) * (out.inner < 0 || out.inner == rank - 1 ? 1 : out.inner == rank - 2 ? 2 : BY_ELEMENT);
}

// The cost of an operand of an elementwise operator. Threads iterate along the result's innermost dimension.
static double operand_cost(const struct graph *b, int t, struct placed in, int rank, struct placed out)
{
  double bytes = bytes_of(b, t);
  int along = out.inner < 0 ? -1 : out.inner - (rank - b->tensors[t].shape.n); // right-aligned
  if (in.inner < 0 || along < 0 || in.inner == along || b->tensors[t].shape.d[along] == 1) return bytes;
  return bytes * (in.swizzled == along ? ACROSS : CONFLICT);
}

double cost_operator(const struct graph *b, const struct node *n, const struct placed *in, struct placed out)
{
  enum rule rule = op_rows[n->op].rule;
  double sum = out.swizzled >= 0 ? SWIZZLE * bytes_of(b, n->out) : 0;
  if (rule == RULE_CONTRACT) return sum + product(b, n, in, out);
  sum += bytes_of(b, n->out);
  for (int i = 0; i < n->nin; i++) sum += operand_cost(b, n->in[i], in[i], b->tensors[n->out].shape.n, out);
  return sum;
}

static int last_wide(const struct shape *s)
{
  int i = s->n - 1;
  while (i > 0 && s->d[i] == 1) i--;
  return i;
}

double cost_library_layout(const struct graph *g, const struct node *n, const struct placed *in, struct placed out)
{
  double sum = 0;
  for (int i = 0; i <= n->nin; i++) { // libraries accept either of the last two dimensions
    int t = i < n->nin ? n->in[i] : n->out, rank = g->tensors[t].shape.n;
    struct placed p = i < n->nin ? in[i] : out;
    bool inside = i < n->nin ? p.inner >= rank - 2 : p.inner == last_wide(&g->tensors[t].shape); // results are row-major
    if (op_rows[n->op].rule == RULE_CONTRACT && p.inner >= 0 && !inside) return INFINITY;
    sum += bytes_of(g, t);
  }
  if (op_rows[n->op].rule != RULE_CONTRACT)
    for (int i = 0; i < n->nin; i++)
      if (in[i].inner != out.inner) sum += bytes_of(g, n->in[i]);
  return sum;
}

static int64_t elements_after(const struct shape *s, int dim)
{
  int64_t n = 1;
  for (int i = dim + 1; i < s->n; i++) n *= s->d[i];
  return n;
}

int view_inner(const struct graph *g, const struct node *n, int inner)
{
  const struct shape *from = &g->tensors[n->in[0]].shape, *to = &g->tensors[n->out].shape;
  if (inner < 0) return -1;
  if (n->op == OP_RESHAPE) {
    for (int i = 0; i < to->n; i++)
      if (to->d[i] > 1 && elements_after(to, i) == elements_after(from, inner)) return i;
    return -1;
  }
  if (n->op == OP_TRANSPOSE)
    for (int i = 0; i < to->n; i++)
      if (perm_of(&n->a, to->n, i) == inner) return i;
  return inner;
}
