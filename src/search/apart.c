// Splits products that sum over a dimension of which the program reads a part elsewhere. A cache of latents, for example, is read whole as keys and
// in part as values. Its parts become separate tensors that both reads share:
//  matmul(Q, transpose(K))  with slice(K, 0, 512)  becomes  matmul(Q1, transpose(K1)) + matmul(Q2, transpose(K2))
// Both operands must be views of inputs, so that their parts need no kernels. Search results are verified against the original program.
#include "search/space.h"

enum { MOST_PARTS = 4 }; // parts of a dimension
enum { PART_UNIT = 16 }; // boundaries are multiples of it: the depth of a matrix instruction

struct apart {
  const struct graph *p;
  struct graph *to;
  int *map; // tensors of p -> of `to`
  bool any;
  struct err e;
};

static const struct node *maker(const struct graph *g, int t) { return &g->nodes[g->tensors[t].node]; }

// Boundaries of the parts that slices make along that dimension of tensor t, seen under its transposes. Returns the number of parts; 1 if there are
// no slices, or if a boundary is no multiple of PART_UNIT.
static int parts_of(const struct graph *p, int t, int dim, int64_t at[MOST_PARTS + 1])
{
  for (; maker(p, t)->op == OP_TRANSPOSE; t = maker(p, t)->in[0]) dim = perm_of(&maker(p, t)->a, p->tensors[t].shape.n, dim);
  int n = 1;
  at[0] = 0, at[1] = p->tensors[t].shape.d[dim];
  for (int i = 0; i < p->nnodes; i++) {
    const struct node *x = &p->nodes[i];
    if (x->op != OP_SLICE || x->in[0] != t || x->a.dim != dim) continue;
    for (int k = 0; k < 2; k++) {
      int64_t cut = k ? x->a.end : x->a.start;
      int after = 0;
      while (at[after] < cut) after++;
      if (at[after] == cut) continue;
      if (cut % PART_UNIT) return 1;
      if (n++ == MOST_PARTS) return 1;
      for (int m = n; m > after; m--) at[m] = at[m - 1];
      at[after] = cut;
    }
  }
  return n;
}

// The slice of a tensor of `to`, made if it is missing.
static int slice_of(struct apart *m, int t, int dim, int64_t start, int64_t end, int *out)
{
  struct attrs a = attrs_default(OP_SLICE);
  a.dim = dim, a.start = start, a.end = end;
  for (int i = 0; i < m->to->nnodes; i++) {
    const struct node *n = &m->to->nodes[i];
    if (n->op == OP_SLICE && n->in[0] == t && attrs_same(&n->a, &a)) return *out = n->out, OK;
  }
  return graph_add(m->to, OP_SLICE, 1, &t, &a, NOWHERE, out, &m->e);
}

// A part of tensor t of p. The slice is taken from the source of t's transposes, which are then applied to it.
static int part_of(struct apart *m, int t, int dim, int64_t start, int64_t end, int *out)
{
  const struct node *above[MAX_DIMS];
  int n = 0;
  for (const struct node *x = maker(m->p, t); x->op == OP_TRANSPOSE && n < MAX_DIMS; x = maker(m->p, t = x->in[0]))
    above[n++] = x, dim = perm_of(&x->a, m->p->tensors[t].shape.n, dim);
  TRY(slice_of(m, m->map[t], dim, start, end, out));
  while (n--) TRY(graph_add(m->to, OP_TRANSPOSE, 1, out, &above[n]->a, NOWHERE, out, &m->e));
  return OK;
}

static int sum_of_parts(struct apart *m, const struct node *n, const int64_t *at, int parts)
{
  int sum = -1;
  for (int i = 0; i < parts; i++) {
    int x[2], y;
    for (int k = 0; k < 2; k++) TRY(part_of(m, n->in[k], m->p->tensors[n->in[k]].shape.n - 1 - k, at[i], at[i + 1], &x[k]));
    TRY(graph_add(m->to, OP_MATMUL, 2, x, &n->a, n->at, &y, &m->e));
    if (i) TRY(graph_add(m->to, OP_ADD, 2, (int[]){sum, y}, NULL, n->at, &y, &m->e));
    sum = y;
  }
  return m->map[n->out] = sum, m->any = true, OK;
}

static int put(struct apart *m, const struct node *n)
{
  const struct graph *p = m->p;
  int64_t at[MOST_PARTS + 1];
  int parts = 1;
  bool given = n->op == OP_MATMUL;
  for (int k = 0; k < 2 && given; k++) given = maker(p, graph_root(p, n->in[k]))->op == OP_INPUT;
  for (int k = 0; k < 2 && given && parts == 1; k++) parts = parts_of(p, n->in[k], p->tensors[n->in[k]].shape.n - 1 - k, at);
  if (parts > 1) return sum_of_parts(m, n, at, parts);
  if (n->op == OP_SLICE) return slice_of(m, m->map[n->in[0]], n->a.dim, n->a.start, n->a.end, &m->map[n->out]);
  const struct tensor *x = n->nout ? &p->tensors[n->out] : NULL;
  if (n->op == OP_INPUT) return graph_input_as(m->to, x->name, x->dtype, x, n->at, &m->map[n->out], &m->e);
  return graph_take(m->to, NULL, -1, p, n, m->map, &m->e);
}

const struct graph *sums_apart(struct arena *mem, const struct graph *p)
{
  struct apart m = {.p = p, .to = graph_new(mem, KERNEL, p->name), .map = NEWS(mem, int, p->ntensors + 1)};
  for (int i = 0; i < p->nnodes; i++)
    if (put(&m, &p->nodes[i]) != OK) return p;
  return m.any && graph_check(m.to, &m.e) == OK ? m.to : p;
}
