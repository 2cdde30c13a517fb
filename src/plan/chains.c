// Chains: a leading operator (a product, a reduction, or a value computed from iterators), and elementwise operators that follow it in the registers
// of its result. A product's left operand may stay in registers too, because products are oriented to have the same rows. Its right operand goes
// through shared memory.
#include "plan/passes.h"

#include <string.h>

static int maker(const struct norm *n, int tensor) { return n->block->tensors[n->t[tensor].root].node; }
static bool loaded(const struct norm *n, int tensor) { return n->iter_of[n->t[tensor].root] >= 0; }

// ---- products and their rows ----

static void collect(const struct norm *n, struct chains *c)
{
  c->nproducts = 0;
  for (int i = 0; i < n->block->nnodes; i++) {
    if (n->block->nodes[i].op != OP_MATMUL) continue;
    struct norm_product x = norm_product(n, i);
    c->product[c->nproducts++] = (struct chain_product){i, x.out, x.a, x.b, x.rows, x.cols, x.sum, x.batch, -1};
  }
}

static void transpose(struct chain_product *x) { *x = (struct chain_product){x->node, x->out, x->b, x->a, x->cols, x->rows, x->sum, x->batch, -1}; }

// Orients products so that all have the same letters for rows; the first one as it is, or transposed.
static bool orient(struct chains *c, bool first_transposed)
{
  uint32_t rows = 0, others = 0;
  for (int i = 0; i < c->nproducts; i++) {
    struct chain_product *x = &c->product[i];
    bool fits = false;
    if (!i && first_transposed) transpose(x);
    for (int k = 0; k < 2 && !fits; k++) {
      if (k) transpose(x);
      fits = !((x->rows | x->batch) & others) && !((x->cols | x->sum) & rows);
      if (!i) break;
    }
    if (!fits) return false;
    rows |= x->rows | x->batch, others |= x->cols | x->sum;
  }
  c->rows = rows;
  return !(rows & others);
}

static void find_products(const struct norm *n, struct chains *c)
{
  collect(n, c);
  c->oriented = orient(c, false);
  if (c->oriented) return;
  collect(n, c);
  c->oriented = orient(c, true);
  if (!c->oriented) collect(n, c), c->rows = 0;
}

// ---- products that add to accumulators ----

static int only_reader(const struct norm *n, int root)
{
  const struct graph *b = n->block;
  for (int i = 0; i < b->nnodes && n->uses[root] == 1; i++)
    for (int k = 0; k < b->nodes[i].nin && b->nodes[i].op != OP_ITER && op_rows[b->nodes[i].op].rule != RULE_VIEW; k++)
      if (n->t[b->nodes[i].in[k]].root == root) return i;
  return -1;
}

static struct chain_product *product_in(struct chains *c, int node)
{
  for (int i = 0; i < c->nproducts; i++)
    if (c->product[i].node == node) return &c->product[i];
  return NULL;
}

// Whether `root` is a product, or a sum of products alone, of values that have no other reader. The products then add to accumulator `into`; -1
// undoes that.
static bool sum_of_products(const struct norm *n, struct chains *c, int root, int into)
{
  const struct graph *b = n->block;
  int i = b->tensors[root].node;
  struct chain_product *x = product_in(c, i);
  if (only_reader(n, root) < 0) return false;
  if (x) return x->into = into, true;
  if (b->nodes[i].op != OP_ADD) return false;
  c->folded[i] = into >= 0;
  return sum_of_products(n, c, n->t[b->nodes[i].in[0]].root, into) && sum_of_products(n, c, n->t[b->nodes[i].in[1]].root, into);
}

static void join_accumulators(const struct norm *n, struct chains *c)
{
  for (int i = 0; i < n->block->nnodes; i++) {
    const struct node *x = &n->block->nodes[i];
    if (x->op != OP_ACCUM && x->op != OP_ACCUM_RESCALE) continue;
    int root = n->t[x->in[0]].root;
    if (!sum_of_products(n, c, root, i)) sum_of_products(n, c, root, -1);
  }
}

// ---- side computations ----

// Marks the nodes that compute the tensor; false if one is neither elementwise nor a reduction.
static bool mark(const struct norm *n, bool *marked, int tensor)
{
  int i = maker(n, tensor);
  const struct node *x = &n->block->nodes[i];
  enum rule rule = op_rows[x->op].rule;
  if (x->op == OP_ITER || rule == RULE_CONST) return true;
  if (rule != RULE_MAP && rule != RULE_REDUCE) return false;
  marked[i] = true;
  for (int k = 0; k < x->nin; k++)
    if (!mark(n, marked, x->in[k])) return false;
  return true;
}

bool chain_sums_parts(const struct norm *n, uint32_t rows, const struct node *x)
{
  uint32_t gone = n->t[x->in[0]].has & ~n->t[x->out].has, columns = n->t[x->in[0]].has & ~rows;
  return loaded(n, x->in[0]) && gone && !(gone & rows) && gone != columns;
}

// Finds tiles and side computations. A tile is an iterator that a product reads, or one that a computed right operand of its size replaces. A side
// computation is an operator that computes such an operand. Every warp reads the result, so all of them must have written it.
static void find_sides(struct arena *mem, const struct norm *n, struct chains *c)
{
  bool *marked = NEWS(mem, bool, n->block->nnodes);
  for (int k = 0; k < c->nproducts; k++) {
    const struct chain_product *x = &c->product[k];
    memset(marked, 0, sizeof(bool) * (size_t)n->block->nnodes);
    c->tile[x->a] |= n->iter_of[x->a] >= 0, c->tile[x->b] |= n->iter_of[x->b] >= 0;
    if (n->iter_of[x->b] >= 0 || !mark(n, marked, x->b)) continue;
    for (int i = 0; i < n->block->nnodes; i++) {
      c->side[i] |= marked[i];
      for (int j = 0; marked[i] && j < n->block->nodes[i].nin; j++) {
        int root = n->t[n->block->nodes[i].in[j]].root;
        c->tile[root] |= n->iter_of[root] >= 0 && n->t[root].has == n->t[x->b].has;
      }
    }
  }
}

// ---- paths of operands ----

static enum operand_source source_of(const struct norm *n, const struct chains *c, const struct node *x, int operand)
{
  int tensor = x->in[operand], from = maker(n, tensor), i = (int)(x - n->block->nodes);
  bool folds = op_rows[x->op].rule == RULE_REDUCE; // the parts of an accumulator are reduced when it is read
  if (op_rows[n->block->nodes[from].op].rule == RULE_CONST) return SOURCE_CONSTANT;
  if (loaded(n, tensor)) return c->tile[n->t[tensor].root] ? SOURCE_TILE : SOURCE_DEVICE;
  if (c->side[from] && !c->side[i]) return SOURCE_SHARED;
  for (int k = 0; k < c->nproducts; k++)
    if (c->product[k].node == i && c->product[k].b == n->t[tensor].root) return SOURCE_SHARED;
  folds = folds && n->t[tensor].has & ~n->t[x->out].has;
  return folds || op_rows[n->block->nodes[from].op].flags & REDUCES ? SOURCE_FOLD : SOURCE_REGISTERS;
}

// ---- chains ----

// The chain whose last value x continues element by element; if there are several, the one that is computed last.
static int continued(const struct norm *n, const struct chains *c, const struct node *x)
{
  int best = -1, i = (int)(x - n->block->nodes);
  bool accumulates = op_rows[x->op].rule == RULE_ACCUM && !(op_rows[x->op].flags & REDUCES);
  if (op_rows[x->op].rule != RULE_MAP && !accumulates) return -1;
  for (int k = 0; k < (accumulates ? 1 : x->nin); k++) {
    int from = maker(n, x->in[k]);
    if (c->of[from] < 0 || c->source[i][MIN(k, 1)] != SOURCE_REGISTERS) continue;
    if (n->t[x->in[k]].has == n->t[x->out].has) best = MAX(best, c->of[from]);
  }
  return best;
}

void plan_chains(struct arena *mem, const struct norm *n, struct chains *c)
{
  const struct graph *b = n->block;
  *c = (struct chains){.product = NEWS(mem, struct chain_product, b->nnodes + 1),
                       .chain = NEWS(mem, struct chain, b->nnodes + 1),
                       .of = NEWS(mem, int, b->nnodes + 1),
                       .folded = NEWS(mem, bool, b->nnodes + 1),
                       .side = NEWS(mem, bool, b->nnodes + 1),
                       .tile = NEWS(mem, bool, b->ntensors + 1)};
  c->source = arena_alloc(mem, sizeof *c->source * (size_t)(b->nnodes + 1));
  memset(c->source, 0, sizeof *c->source * (size_t)(b->nnodes + 1));
  find_products(n, c);
  join_accumulators(n, c);
  find_sides(mem, n, c);
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *x = &b->nodes[i];
    c->of[i] = -1;
    if (!norm_computes(x)) continue;
    for (int k = x->nin - 1; k >= 0; k--) c->source[i][MIN(k, 1)] = source_of(n, c, x, k);
    c->of[i] = continued(n, c, x);
    if (c->of[i] < 0) c->of[i] = c->nchains, c->chain[c->nchains++].lead = i;
    c->chain[c->of[i]].last = i, c->chain[c->of[i]].length++;
  }
}
