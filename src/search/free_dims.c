// Dimensions that no operator of a program mixes. Dimensions that an operator traverses together form a class (union-find over all tensors). A class
// is mixed if a reduction, scan, split, concat or repeat works along it, or a reshape divides it. If a reshape regroups several dimensions, the parts
// of the first one are preserved. Blocks may divide a class that is not mixed, if every result has it once and no tensor twice. The number of parts
// must divide all its dimensions.
#include "search/space.h"

struct dim_classes {
  const struct graph *p;
  int *up; // indexed by tensor * MAX_DIMS + dimension
  bool *mixed;
};

static int top_of(struct dim_classes *c, int t, int d)
{
  int i = t * MAX_DIMS + d;
  while (c->up[i] != i) i = c->up[i] = c->up[c->up[i]];
  return i;
}

static const struct shape *shape_of(const struct dim_classes *c, int t) { return &c->p->tensors[t].shape; }
static void mix(struct dim_classes *c, int t, int d) { c->mixed[top_of(c, t, d)] = true; }

static void link(struct dim_classes *c, int t, int d, int u, int e)
{
  int a = top_of(c, t, d), b = top_of(c, u, e);
  c->up[b] = a, c->mixed[a] |= c->mixed[b];
}

static void link_elementwise(struct dim_classes *c, const struct node *n)
{
  int rank = shape_of(c, n->out)->n;
  for (int k = 0; k < n->nin; k++) {
    const struct shape *s = shape_of(c, n->in[k]);
    for (int d = 0; d < s->n; d++)
      if (s->d[d] == shape_of(c, n->out)->d[rank - s->n + d]) link(c, n->out, rank - s->n + d, n->in[k], d);
  }
}

// Links every dimension of operands and results except the one that the operator works along.
static void link_others(struct dim_classes *c, const struct node *n)
{
  for (int k = 0; k < n->nin; k++)
    for (int o = 0; o < n->nout; o++)
      for (int d = 0; d < shape_of(c, n->out)->n; d++)
        if (d == n->a.dim)
          mix(c, n->in[k], d), mix(c, n->out + o, d);
        else
          link(c, n->out + o, d, n->in[k], d);
}

// Links leading and last dimensions that are unchanged. The dimensions between are regrouped, and the parts of the first of them are preserved.
static void link_reshape(struct dim_classes *c, const struct node *n)
{
  const struct shape *x = shape_of(c, n->in[0]), *y = shape_of(c, n->out);
  int first = 0, last = 0;
  for (; first < MIN(x->n, y->n) && x->d[first] == y->d[first]; first++) link(c, n->out, first, n->in[0], first);
  for (; last < MIN(x->n, y->n) - first && x->d[x->n - 1 - last] == y->d[y->n - 1 - last]; last++)
    link(c, n->out, y->n - 1 - last, n->in[0], x->n - 1 - last);
  bool both = first < MIN(x->n, y->n) - last;
  if (both) link(c, n->out, first, n->in[0], first);
  for (int d = first + both; d < x->n - last; d++) mix(c, n->in[0], d);
  for (int d = first + both; d < y->n - last; d++) mix(c, n->out, d);
}

static void link_view(struct dim_classes *c, const struct node *n)
{
  int rank = shape_of(c, n->out)->n;
  if (n->op == OP_RESHAPE) {
    link_reshape(c, n);
  } else if (n->op == OP_TRANSPOSE) {
    for (int i = 0; i < rank; i++) link(c, n->out, i, n->in[0], perm_of(&n->a, rank, i));
  } else {
    link_others(c, n);
  }
}

// An index that only scans read.
static bool link_index(struct dim_classes *c, const struct node *n)
{
  for (int i = 0; i < c->p->nnodes; i++)
    for (int k = 0; k < c->p->nodes[i].nin; k++)
      if (c->p->nodes[i].in[k] == n->out && !graph_scans(c->p, NULL, i)) return false;
  for (int d = 0; d < shape_of(c, n->out)->n; d++) mix(c, n->out, d);
  return true;
}

// A scan works along the dimension that its product sums.
static bool link_scan(struct dim_classes *c, const struct node *n)
{
  const struct scan s = graph_scan(c->p, NULL, n);
  if (!s.triangle) return false;
  const int x = n->in[s.x];
  for (int d = 0; d < shape_of(c, x)->n; d++)
    if (d == s.along)
      mix(c, x, d), mix(c, n->out, d);
    else
      link(c, n->out, d, x, d);
  return true;
}

static bool link_node(struct dim_classes *c, const struct node *n)
{
  switch (op_rows[n->op].rule) {
  case RULE_IO:
  case RULE_CONST: return true;
  case RULE_MAP: return link_elementwise(c, n), true;
  case RULE_REDUCE:
  case RULE_CONCAT:
  case RULE_SPLIT: return link_others(c, n), true;
  case RULE_VIEW: return link_view(c, n), true;
  case RULE_INDEX: return link_index(c, n);
  case RULE_CONTRACT: return link_scan(c, n);
  case RULE_AT:
  case RULE_WORLD:
  case RULE_COMPOSITE:
  case RULE_ACCUM:
  case RULE_GRAPH: break;
  }
  return false;
}

// Number of parts of all dimensions of the class.
static int64_t parts_of(struct dim_classes *c, int class)
{
  int64_t n = 0;
  for (int t = 0; t < c->p->ntensors; t++)
    for (int d = 0; d < shape_of(c, t)->n; d++)
      if (top_of(c, t, d) == class) n = common_divisor(shape_of(c, t)->d[d], n);
  return n;
}

static int times_in(struct dim_classes *c, int t, int class)
{
  int n = 0;
  for (int d = 0; d < shape_of(c, t)->n; d++) n += top_of(c, t, d) == class;
  return n;
}

static bool shared_out(struct dim_classes *c, int class)
{
  const struct graph *p = c->p;
  bool good = !c->mixed[class];
  for (int t = 0; t < p->ntensors && good; t++) good = times_in(c, t, class) <= 1;
  for (int i = 0; i < p->nnodes && good; i++)
    if (p->nodes[i].op == OP_OUTPUT) good = times_in(c, p->nodes[i].in[0], class) == 1;
  return good;
}

bool free_dims_of(struct arena *mem, const struct graph *p, struct free_dims *out)
{
  int all = p->ntensors * MAX_DIMS, first = -1;
  struct dim_classes c = {p, NEWS(mem, int, all + 1), NEWS(mem, bool, all + 1)};
  *out = (struct free_dims){.of = NEWS(mem, int, all + 1)};
  for (int i = 0; i < all; i++) c.up[i] = i, out->of[i] = -1;
  for (int i = 0; i < p->nnodes; i++)
    if (!link_node(&c, &p->nodes[i])) return false;
  for (int i = 0; i < p->nnodes && first < 0; i++)
    if (p->nodes[i].op == OP_OUTPUT) first = p->nodes[i].in[0];
  for (int d = 0; first >= 0 && d < shape_of(&c, first)->n; d++) {
    int class = top_of(&c, first, d);
    int64_t parts = parts_of(&c, class);
    if (parts == 1 || !shared_out(&c, class)) continue;
    out->extent[out->n] = parts;
    for (int t = 0; t < p->ntensors; t++)
      for (int e = 0; e < shape_of(&c, t)->n; e++)
        if (top_of(&c, t, e) == class) out->of[t * MAX_DIMS + e] = out->n;
    out->n++;
  }
  return first >= 0;
}
