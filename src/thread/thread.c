// Thread graphs by rules (paper, section 4.2, "similar to operator fusion"). In every block graph, elementwise operators of
// one shape and the reductions that end them form groups. A group of two or more becomes a THREAD node, whose intermediates
// stay in registers. Matrix products, views and accumulators stay block operators. The paper's patterns are rows of
// rule.def. The input is a checked kernel graph; the result computes the same, block by block.
#include "thread/fuse.h"

enum { MOST = 48 }; // most members of a group; less than the number of results that a node may have

struct fuse_row {
  const char *name, *doc;
  enum rule rule;
  bool feeds;
};
static const struct fuse_row rows[FUSES] = {
#define FUSE(id, name, rule, feeds, doc) [FUSE_##id] = {#name, doc, rule, feeds},
#include "thread/rule.def"
#undef FUSE
};

bool node_needs(const struct thread_block *b, int node, int on)
{
  return b->needs[(size_t)node * (size_t)b->words + (size_t)on / 64] >> (on % 64) & 1;
}

void thread_needs(struct thread_block *b)
{
  b->words = (b->g->nnodes + 63) / 64;
  b->needs = NEWS(b->mem, uint64_t, (size_t)b->words * (size_t)b->g->nnodes + 1);
  for (int i = 0; i < b->g->nnodes; i++) {
    uint64_t *row = &b->needs[(size_t)i * (size_t)b->words];
    for (int k = 0; k < b->g->nodes[i].nin; k++) {
      int p = b->g->tensors[b->g->nodes[i].in[k]].node;
      row[p / 64] |= (uint64_t)1 << (p % 64);
      for (int w = 0; w < b->words; w++) row[w] |= b->needs[(size_t)p * (size_t)b->words + (size_t)w];
    }
  }
}

// ---- groups ----

int group_size(const struct thread_block *b, int group)
{
  int n = 0;
  for (int i = 0; i < b->g->nnodes; i++) n += b->group[i] == group;
  return n;
}

static const struct fuse_row *row_of(const struct node *n)
{
  for (int i = 0; i < FUSES; i++)
    if (rows[i].rule == op_rows[n->op].rule && (op_rows[n->op].levels & IS_T)) return &rows[i];
  return NULL;
}

static bool feeds(const struct node *n)
{
  const struct fuse_row *row = row_of(n);
  return row && row->feeds;
}

// The shape of the elementwise results of n's group: its result, or the operand of a reduction.
static const struct shape *space_of(const struct graph *g, const struct node *n) { return &g->tensors[feeds(n) ? n->out : n->in[0]].shape; }

// Would the union of two groups have a path that leaves it and comes back?
static bool path_through_others(const struct thread_block *b, int one, int two)
{
  for (int x = 0; x < b->g->nnodes; x++) {
    if (b->group[x] == one || b->group[x] == two) continue;
    bool reads = false, read = false;
    for (int i = 0; i < b->g->nnodes; i++) {
      if (b->group[i] != one && b->group[i] != two) continue;
      reads |= node_needs(b, x, i), read |= node_needs(b, i, x);
    }
    if (reads && read) return true;
  }
  return false;
}

// May node i share a group with the producer of its argument t?
static bool may_join(const struct thread_block *b, int i, int t)
{
  const struct graph *g = b->g;
  const struct node *n = &g->nodes[i], *p = &g->nodes[g->tensors[t].node];
  if (!row_of(n) || !feeds(p) || !space_of(g, n)->n || g->tensors[n->out].phase != g->tensors[t].phase) return false;
  if (!shape_eq(space_of(g, n), space_of(g, p))) return false;
  int one = b->group[g->tensors[t].node], two = b->group[i];
  return one != two && group_size(b, one) + group_size(b, two) <= MOST && !path_through_others(b, one, two);
}

static void find_groups(struct thread_block *b)
{
  for (int i = 0; i < b->g->nnodes; i++) b->group[i] = i;
  for (int i = 0; i < b->g->nnodes; i++) {
    const struct node *n = &b->g->nodes[i];
    for (int k = 0; k < n->nin; k++) {
      if (!may_join(b, i, n->in[k])) continue;
      int from = b->group[i], into = b->group[b->g->tensors[n->in[k]].node];
      for (int x = 0; x < b->g->nnodes; x++)
        if (b->group[x] == from) b->group[x] = into;
    }
  }
}

bool group_reads(const struct thread_block *b, int group, int tensor)
{
  if (b->group[b->g->tensors[tensor].node] == group) return false;
  for (int i = 0; i < b->g->nnodes; i++)
    for (int k = 0; k < b->g->nodes[i].nin && b->group[i] == group; k++)
      if (b->g->nodes[i].in[k] == tensor) return true;
  return false;
}

bool group_result(const struct thread_block *b, int group, int tensor)
{
  if (b->group[b->g->tensors[tensor].node] != group) return false;
  for (int i = 0; i < b->g->nnodes; i++)
    for (int k = 0; k < b->g->nodes[i].nin && b->group[i] != group; k++)
      if (b->g->nodes[i].in[k] == tensor) return true;
  return false;
}

// ---- rebuilding the block graph ----

static int put_node(struct thread_block *b, const struct node *n)
{
  int *in = NEWS(b->mem, int, n->nin + 1), t = 0, s;
  for (int k = 0; k < n->nin; k++) in[k] = b->moved[n->in[k]];
  if (n->sub)
    s = graph_nest(b->to, graph_copy(b->to->mem, n->sub), n->nin, in, n->at, &t, b->e);
  else
    s = graph_add(b->to, n->op, n->nin, in, &n->a, n->at, &t, b->e);
  for (int k = 0; k < n->nout && !s; k++) {
    b->moved[n->out + k] = t + k;
    b->to->tensors[t + k].name = b->g->tensors[n->out + k].name;
  }
  return s;
}

static int put_iter(struct thread_block *b, const struct node *n, const struct graph *above, int from)
{
  int s = graph_iter(b->to, above, from, &n->a, n->at, &b->moved[n->out], b->e);
  if (!s) b->to->tensors[b->moved[n->out]].name = b->g->tensors[n->out].name;
  return s;
}

static bool ready(const struct thread_block *b, int group)
{
  for (int i = 0; i < b->g->nnodes; i++) {
    if (b->group[i] != group) continue;
    for (int k = 0; k < b->g->nodes[i].nin; k++) {
      int t = b->g->nodes[i].in[k], p = b->g->tensors[t].node;
      if (b->group[p] != group && b->moved[t] < 0 && b->g->nodes[p].op != OP_CONST) return false;
    }
  }
  return true;
}

// Does a node outside of groups read the constant? Groups have their own copies of constants.
static bool const_needed(const struct thread_block *b, int node)
{
  for (int i = 0; i < b->g->nnodes; i++)
    for (int k = 0; k < b->g->nodes[i].nin; k++)
      if (b->g->tensors[b->g->nodes[i].in[k]].node == node && group_size(b, b->group[i]) == 1) return true;
  return false;
}

// Adds iterators and constants first, then each group when its operands are available, savers last. The order of
// iterators and savers is part of the block's signature and does not change.
static int put_all(struct thread_block *b, const struct graph *above, const struct node *holder)
{
  int iter = 0, s = OK;
  const struct graph *g = b->g;
  bool *done = NEWS(b->mem, bool, g->nnodes + 1);
  for (int i = 0; i < g->nnodes && !s; i++) {
    if (g->nodes[i].op == OP_ITER)
      s = put_iter(b, &g->nodes[i], above, holder->in[iter++]);
    else if (g->nodes[i].op == OP_CONST && const_needed(b, i))
      s = put_node(b, &g->nodes[i]);
    else if (g->nodes[i].op != OP_CONST)
      continue;
    done[b->group[i]] = true;
  }
  for (int i = 0; i < g->nnodes && !s;) {
    int x = b->group[i];
    if (done[x] || g->nodes[i].op == OP_SAVE || !ready(b, x)) {
      i++;
      continue;
    }
    s = group_size(b, x) > 1 ? build_thread(b, x) : put_node(b, &g->nodes[i]);
    done[x] = true, i = 0;
  }
  for (int i = 0; i < g->nnodes && !s; i++)
    if (g->nodes[i].op == OP_SAVE) s = put_node(b, &g->nodes[i]);
  return s;
}

static int fuse_block(struct arena *mem, const struct graph *above, struct node *holder, struct err *e)
{
  struct arena tmp = {0};
  const struct graph *g = holder->sub;
  struct thread_block b = {.mem = &tmp, .g = g, .to = graph_new(mem, BLOCK, g->name), .e = e};
  graph_axes(b.to, g->ngrid, g->grid, g->nloop, g->loop);
  b.group = NEWS(&tmp, int, g->nnodes + 1), b.moved = NEWS(&tmp, int, g->ntensors + 1);
  for (int t = 0; t < g->ntensors; t++) b.moved[t] = -1;
  thread_needs(&b);
  find_groups(&b);
  int s = put_all(&b, above, holder);
  if (!s) holder->sub = b.to;
  arena_close(&tmp);
  return s;
}

int thread_graphs(struct arena *mem, const struct graph *g, struct graph **out, struct err *e)
{
  struct graph *copy = graph_copy(mem, g);
  int s = OK;
  for (int i = 0; i < copy->nnodes && !s; i++)
    if (copy->nodes[i].op == OP_BLOCK) s = fuse_block(mem, copy, &copy->nodes[i], e);
  *out = copy;
  return s;
}

int thread_canonical(struct arena *mem, const struct graph *g, const struct graph **out, struct err *e)
{
  const struct graph *flat;
  struct graph *formed;
  *out = g;
  TRY(thread_flat(mem, g, &flat, e));
  if (flat == g) return OK;
  TRY(thread_graphs(mem, flat, &formed, e));
  return *out = formed, OK;
}
