// Registers that a thread of the kernel needs: the most that live at any node. Values live from the node that makes
// them to the last that reads them; what crosses an iteration, and what the loop reads from before it, through all of
// the loop. An elementwise operator writes where an operand was that nobody reads again.
#include "lower/mma.h"

struct life {
  int first, last; // positions of nodes; last < first: nobody reads it
  int64_t registers;
};

int64_t mma_fragment_registers(const struct mma_plan *p, struct mma_shape s)
{
  return (s.rows ? 2 * p->mt : 1) * (s.cols >= 0 ? 2 * p->cols[s.cols].nt : 1);
}

// Nodes in the order in which they are emitted; returns how many. loop[0..1]: positions of the loop's.
static int in_order(const struct mma_plan *p, int *order, int loop[2])
{
  const struct graph *b = p->n->block;
  const struct schedule *planned = &p->n->passes->schedule;
  int n = 0;
  for (enum mma_section s = MMA_PRE; s <= MMA_POST; s++) {
    if (s == MMA_LOOP) loop[0] = n;
    for (int i = 0; i < planned->n; i++)
      if (p->section[planned->order[i]] == s) order[n++] = planned->order[i];
    for (int i = 0; i < b->nnodes; i++)
      if (p->section[i] == s && b->nodes[i].op == OP_SAVE) order[n++] = i;
    if (s == MMA_LOOP) loop[1] = n - 1;
  }
  return n;
}

// An iterator comes with the rows and columns that it has of those that are wanted.
static int64_t loaded_registers(const struct mma_plan *p, int t, int node, int operand)
{
  struct mma_shape s = mma_wanted(p, node, operand);
  s.rows = (p->n->t[t].has & p->row_letters) != 0;
  if (!(p->n->t[t].has & ~p->row_letters)) s.cols = -1;
  return mma_fragment_registers(p, s);
}

static bool through_loop(const struct mma_plan *p, const struct node *maker) { return p->iterations > 1 && op_rows[maker->op].rule == RULE_ACCUM; }

static void lives(const struct mma_plan *p, const int *order, int n, const int loop[2], struct life *l)
{
  const struct graph *b = p->n->block;
  for (int t = 0; t < b->ntensors; t++) l[t] = (struct life){-1, -2, 0};
  for (int at = 0; at < n; at++) {
    const struct node *x = &b->nodes[order[at]];
    bool inside = at >= loop[0] && at <= loop[1];
    for (int k = 0; k < x->nin; k++) {
      int t = p->n->t[x->in[k]].root;
      bool loaded = p->n->iter_of[t] >= 0, crosses = inside && p->iterations > 1 && (loaded ? b->tensors[t].phase == FIXED : l[t].first < loop[0]);
      if (loaded && x->op == OP_MATMUL) continue; // from shared memory
      if (loaded && l[t].first < 0) l[t].first = crosses ? loop[0] : at, l[t].registers = loaded_registers(p, t, order[at], k);
      l[t].last = crosses ? MAX(l[t].last, loop[1]) : MAX(l[t].last, at);
    }
    for (int o = 0; o < x->nout; o++) {
      int t = x->out + o;
      bool crosses = through_loop(p, x),
           added = p->folded[order[at]] || (p->product_of[order[at]] >= 0 && p->product[p->product_of[order[at]]].into >= 0);
      l[t] = (struct life){crosses ? loop[0] : at, crosses ? loop[1] : at, added ? 0 : mma_fragment_registers(p, p->shape[t])};
    }
  }
}

// Beside what lives: fragments of left operands.
static int64_t product_extra(const struct mma_plan *p, const struct mma_product *x)
{
  if (mma_keeps_left(p, x)) return 2ll * p->mt * p->cols[x->sum_cols].nt;
  return p->wg ? 0 : 4 * p->mt + 4;
}

int64_t mma_live(const struct mma_plan *p)
{
  const struct graph *b = p->n->block;
  struct arena *mem = p->job->mem;
  int *order = NEWS(mem, int, b->nnodes), loop[2] = {0, -1}, n = in_order(p, order, loop);
  struct life *l = NEWS(mem, struct life, b->ntensors);
  int64_t most = 0;
  lives(p, order, n, loop, l);
  for (int at = 0; at < n; at++) {
    const struct node *x = &b->nodes[order[at]];
    int64_t live = 0, reused = 0;
    for (int t = 0; t < b->ntensors; t++)
      if (l[t].first <= at && l[t].last >= at && l[t].first >= 0) live += l[t].registers;
    for (int k = 0; k < x->nin && op_rows[x->op].rule == RULE_MAP; k++) {
      const struct life *in = &l[p->n->t[x->in[k]].root];
      if (in->last == at) reused = MAX(reused, MIN(in->registers, x->nout ? l[x->out].registers : 0));
    }
    live -= reused;
    if (p->product_of[order[at]] >= 0) live += product_extra(p, &p->product[p->product_of[order[at]]]);
    most = MAX(most, live);
  }
  return most;
}
