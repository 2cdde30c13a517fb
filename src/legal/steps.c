// Splits products of loop-invariant operands into steps of the loop. A search may run a loop over the summed dimension of one product, while another
// product in the same block has whole operands. These would be in shared memory at once; in steps, they are loaded like the other operands.
//   matmul(h, u)  becomes  accum(matmul(h_i, u_i))
// A product is split only if nothing in the loop reads the result, and each step is a product that tensor cores support. Input: a checked kernel
// graph. Output: an equal one.
#include "legal/rewrite.h"

enum { LEAST_STEP = 16 };

static bool read_once(const struct graph *b, int t)
{
  int n = 0;
  for (int i = 0; i < b->nnodes; i++)
    for (int k = 0; k < b->nodes[i].nin; k++) n += b->nodes[i].in[k] == t;
  return n == 1;
}

// Whether the loop, or an accumulator, reads a value that depends on tensor t.
static bool read_in_loop(struct arena *mem, const struct graph *b, int t)
{
  bool *of = NEWS(mem, bool, b->ntensors + 1);
  of[t] = true;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *n = &b->nodes[i];
    bool reads = false;
    for (int k = 0; k < n->nin; k++) reads |= of[n->in[k]];
    if (!reads) continue;
    if (op_rows[n->op].rule == RULE_ACCUM) return true;
    for (int o = 0; o < n->nout; o++) {
      enum phase p = b->tensors[n->out + o].phase;
      if (p == VARYING || p == RUN) return true;
      of[n->out + o] = true;
    }
  }
  return false;
}

// Whether n steps of at least LEAST_STEP can divide the iterator's tile along a dimension, which no grid axis divides.
static bool may_step(const struct graph *b, int t, int dim)
{
  const struct node *n = &b->nodes[b->tensors[t].node];
  int64_t extent = b->tensors[t].shape.d[dim];
  if (n->op != OP_ITER || b->tensors[t].phase != FIXED || !read_once(b, t)) return false;
  for (int i = 0; i < b->ngrid; i++)
    if (n->a.imap[i] == dim) return false;
  return extent % b->loop[0] == 0 && extent / b->loop[0] % LEAST_STEP == 0;
}

static bool steps(struct arena *mem, const struct graph *b, const struct node *n)
{
  if (n->op != OP_MATMUL || b->nloop != 1 || b->loop[0] == 1) return false;
  return may_step(b, n->in[0], b->tensors[n->in[0]].shape.n - 1) && may_step(b, n->in[1], b->tensors[n->in[1]].shape.n - 2) && n->in[0] != n->in[1] &&
         !read_in_loop(mem, b, n->out);
}

struct stepping { // of a block graph
  bool *in_steps; // by node
  int *cut;       // by tensor: the dimension of an iterator's tile that steps divide; -1: none
};

static int node(struct block_rewriting *r, const struct node *x, int from)
{
  const struct stepping *s = r->own;
  const struct attrs all = attrs_default(OP_ACCUM);
  struct node n = *x;
  if (from >= 0 && s->cut[n.out] >= 0) n.a.fmap[0] = (int8_t)s->cut[n.out];
  TRY(rewrite_take(r, &n, from));
  if (s->in_steps[x - r->n->sub->nodes]) r->tile[n.out] = block_add(&r->b, OP_ACCUM, 1, &r->tile[n.out], &all, n.at);
  return r->b.status;
}

static int kernel(struct rewriting *w, const struct node *n, int *out)
{
  const struct graph *b = n->sub;
  struct arena *mem = w->to->mem;
  struct stepping s = {NEWS(mem, bool, b->nnodes + 1), NEWS(mem, int, b->ntensors + 1)};
  bool any = false, nested = false;
  for (int t = 0; t < b->ntensors; t++) s.cut[t] = -1;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *x = &b->nodes[i];
    any |= s.in_steps[i] = steps(mem, b, x), nested |= x->sub != NULL;
    for (int k = 0; s.in_steps[i] && k < 2; k++) s.cut[x->in[k]] = b->tensors[x->in[k]].shape.n - 1 - k;
  }
  return any && !nested ? w->changed = true, rewrite_block(w, n, node, &s, out) : NO;
}

int step_products(struct arena *mem, const struct graph *g, struct graph **out, struct err *e)
{
  const int status = legal_rewrite(mem, g, kernel, NULL, out, e);
  return status == NO ? *out = (struct graph *)g, OK : status;
}
