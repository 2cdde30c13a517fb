// Rewrites that registers ask for, in a copy of the block graph and of its normal form.
//
// Factors of a fixed left operand go behind its product: (q c) k' = (q k') c. Then products read q where TMA has put it, and
// the factor costs nothing in an exponential that follows (mma_node.c). Done where only maxima and differences read the
// product, as in softmax; the two nodes change places.
//
// What is accumulated only to be summed is summed first: a row of the accumulator is one number then.
#include "lower/wgmma.h"

static bool is_view(const struct node *n) { return op_rows[n->op].rule == RULE_VIEW; }

static bool reads(const struct norm *n, const struct node *x, int root)
{
  for (int k = 0; k < x->nin && x->op != OP_ITER && !is_view(x); k++)
    if (n->t[x->in[k]].root == root) return true;
  return false;
}

static bool softmax_reads(const struct norm *n, int tensor)
{
  for (int i = 0; i < n->block->nnodes; i++) {
    const struct node *x = &n->block->nodes[i];
    if (reads(n, x, tensor) && x->op != OP_MAX && (x->op != OP_SUB || n->t[x->in[1]].root == tensor)) return false;
  }
  return true;
}

// The product whose left operand this node makes; -1: it is not such a factor.
static int product_of_scaled(const struct norm *n, int node)
{
  const struct graph *b = n->block;
  const struct node *m = &b->nodes[node];
  if (m->op != OP_MUL_SCALAR || m->a.scalar <= 0 || n->uses[m->out] != 1 || b->tensors[m->out].phase != FIXED) return -1;
  if (n->iter_of[n->t[m->in[0]].root] < 0) return -1;
  for (int i = node + 1; i < b->nnodes; i++) {
    const struct node *x = &b->nodes[i];
    if (!reads(n, x, m->out)) continue;
    bool left = x->op == OP_MATMUL && n->t[x->in[0]].root == m->out && b->tensors[x->out].phase == VARYING;
    return left && softmax_reads(n, x->out) ? i : -1;
  }
  return -1;
}

static int *replaced(struct arena *mem, const struct node *x, int from, int to)
{
  int *in = arena_copy(mem, x->in, (size_t)x->nin * sizeof *in);
  for (int k = 0; k < x->nin; k++)
    if (in[k] == from) in[k] = to;
  return in;
}

static void exchange(struct arena *mem, struct norm *n, struct graph *b, int mul, int product)
{
  struct node m = b->nodes[mul], x = b->nodes[product];
  int scaled = m.out, whole = n->t[m.in[0]].root;
  for (int i = mul + 1; i < product; i++) {
    b->nodes[i - 1] = b->nodes[i];
    if (is_view(&b->nodes[i - 1])) b->nodes[i - 1].in = replaced(mem, &b->nodes[i - 1], scaled, m.in[0]);
  }
  x.in = replaced(mem, &x, scaled, m.in[0]), m.in = arena_copy(mem, &scaled, sizeof scaled);
  m.out = x.out, x.out = scaled;
  b->nodes[product - 1] = x, b->nodes[product] = m;
  b->tensors[scaled] = b->tensors[m.out];
  for (int t = 0; t < b->ntensors; t++)
    if (t != scaled && n->t[t].root == scaled) n->t[t].root = whole; // views
  n->t[scaled] = n->t[m.out], n->t[scaled].root = scaled;
  for (int i = mul; i <= product; i++)
    for (int o = 0; o < b->nodes[i].nout; o++) b->tensors[b->nodes[i].out + o].node = i;
}

// The sum that alone reads this accumulator; -1: there is none.
static int sum_of_accumulated(const struct norm *n, int node)
{
  const struct graph *b = n->block;
  const struct node *a = &b->nodes[node];
  if ((a->op != OP_ACCUM && a->op != OP_ACCUM_RESCALE) || n->joins || n->uses[a->out] != 1) return -1;
  for (int i = node + 1; i < b->nnodes; i++)
    if (reads(n, &b->nodes[i], a->out)) return b->nodes[i].op == OP_SUM ? i : -1;
  return -1;
}

// The accumulator becomes one of sums where it stands, its second output stays; the sum is gone.
static void sum_first(struct norm *n, struct graph *b, int accumulator, int sum)
{
  struct node *a = &b->nodes[accumulator], s = b->nodes[sum];
  a->op = a->op == OP_ACCUM ? OP_ACCUM_SUM : OP_ACCUM_SUM_RESCALE;
  a->a = s.a;
  n->t[a->out] = n->t[s.out], n->t[a->out].root = a->out, n->uses[a->out] = n->uses[s.out];
  b->tensors[a->out].shape = b->tensors[s.out].shape;
  for (int t = 0; t < b->ntensors; t++)
    if (n->t[t].root == s.out) n->t[t].root = a->out;
  for (int i = sum + 1; i < b->nnodes; i++) b->nodes[i - 1] = b->nodes[i];
  b->nnodes--;
  for (int i = sum; i < b->nnodes; i++)
    for (int o = 0; o < b->nodes[i].nout; o++) b->tensors[b->nodes[i].out + o].node = i;
}

static struct lower_job *copy(const struct lower_job *j, struct norm **n, struct graph **b)
{
  struct lower_job *job = arena_copy(j->mem, j, sizeof *j);
  *n = arena_copy(j->mem, j->n, sizeof **n), *b = arena_copy(j->mem, j->n->block, sizeof **b);
  (*b)->nodes = arena_copy(j->mem, (*b)->nodes, (size_t)(*b)->nnodes * sizeof *(*b)->nodes);
  (*b)->tensors = arena_copy(j->mem, (*b)->tensors, (size_t)(*b)->ntensors * sizeof *(*b)->tensors);
  (*n)->t = arena_copy(j->mem, (*n)->t, (size_t)(*b)->ntensors * sizeof *(*n)->t);
  (*n)->uses = arena_copy(j->mem, (*n)->uses, (size_t)(*b)->ntensors * sizeof *(*n)->uses);
  (*n)->block = *b, job->n = *n;
  return job;
}

const struct lower_job *wgmma_lift(const struct lower_job *j)
{
  struct norm *n;
  struct graph *b;
  for (int i = 0; i < j->n->block->nnodes; i++) {
    int product = product_of_scaled(j->n, i), sum = sum_of_accumulated(j->n, i);
    if (product < 0 && sum < 0) continue;
    struct lower_job *job = copy(j, &n, &b);
    if (product >= 0)
      exchange(j->mem, n, b, i, product);
    else
      sum_first(n, b, i, sum);
    n->passes = plan_passes(j->mem, n); // of what it is now
    return wgmma_lift(job);
  }
  return j;
}
