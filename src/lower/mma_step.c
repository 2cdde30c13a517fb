// What a loop takes at a time. A block graph takes as much of what it sums in an iteration as the search thought good for tiles that
// may be cut anew since; several iterations at once, or a part of one, sum the same. The letter that goes on from one iteration
// to the next becomes longer or shorter, and the loop's extent what is left.
#include "lower/mma.h"

#include <stdio.h>

// The loop that has more than one iteration; -1: none, or several.
static int only_loop(const struct graph *b)
{
  int found = -1;
  for (int i = 0; i < b->nloop; i++)
    if (b->loop[i] > 1) {
      if (found >= 0) return -1;
      found = i;
    }
  return found;
}

// All that the loop walks continues the same letter.
static int continued_letter(const struct norm *n, int loop)
{
  int letter = -1;
  for (int i = 0; i < n->niter; i++) {
    const struct plan_access *a = &n->iter[i];
    if (!a->loop[loop]) continue;
    int own = -1;
    for (int l = 0; l < n->nletters; l++)
      if (n->t[a->tile].has >> l & 1 && n->extent[l] > 1 && a->stride[l] * n->extent[l] == a->loop[loop]) own = l;
    if (own < 0 || (letter >= 0 && own != letter)) return -1;
    letter = own;
  }
  for (int i = 0; i < n->niter && letter >= 0; i++)
    if (n->t[n->iter[i].tile].has >> letter & 1 && !n->iter[i].loop[loop]) return -1;
  return letter;
}

// Is what the node leaves read by sums over the letter alone?
static bool then_summed(const struct norm *n, const struct node *x, uint32_t letter)
{
  const struct graph *b = n->block;
  if (x->op != OP_ACCUM && x->op != OP_ACCUM_RESCALE) return false;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *y = &b->nodes[i];
    for (int k = 0; k < y->nin && y->op != OP_ITER && op_rows[y->op].rule != RULE_VIEW; k++)
      if (n->t[y->in[k]].root == x->out && (y->op != OP_SUM || n->t[y->out].has & letter)) return false;
  }
  return true;
}

// The letter is summed or its maximum taken, in each iteration or over them, and nothing that outlives one has it, but sums over
// iterations that are then summed over the letter.
static bool only_summed(const struct norm *n, uint32_t letter)
{
  const struct graph *b = n->block;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *x = &b->nodes[i];
    enum rule rule = op_rows[x->op].rule;
    bool out = false;
    for (int o = 0; o < x->nout; o++) out |= (n->t[x->out + o].has & letter) != 0;
    if (rule == RULE_ACCUM && out && !then_summed(n, x, letter)) return false;
    if ((rule != RULE_ACCUM && rule != RULE_REDUCE) || !(n->t[x->in[0]].has & letter)) continue;
    bool fine = x->op == OP_SUM || x->op == OP_MAX || x->op == OP_ACCUM_SUM || x->op == OP_ACCUM_SUM_RESCALE;
    if (!out && !fine) return false;
  }
  for (int i = 0; i < n->nsave; i++)
    if (n->t[n->save[i].tile].has & letter) return false;
  return true;
}

bool mma_step(struct norm *n, struct graph *b, int64_t step, char why[160])
{
  int loop = only_loop(b), letter = loop < 0 ? -1 : continued_letter(n, loop);
  if (letter < 0 || !only_summed(n, 1u << letter)) return snprintf(why, 160, "the loop does not go on where an iteration ends"), false;
  int64_t own = n->extent[letter], all = own * b->loop[loop];
  if (step < 16 || step % 16 || all % step || all / step < 2)
    return snprintf(why, 160, "%lld at a time of %lld", (long long)step, (long long)all), false;
  n->extent[letter] = step, b->loop[loop] = all / step;
  for (int i = 0; i < n->niter; i++)
    if (n->iter[i].loop[loop]) n->iter[i].loop[loop] = n->iter[i].stride[letter] * step;
  return true;
}

int64_t mma_own_step(const struct norm *n)
{
  int loop = only_loop(n->block), letter = loop < 0 ? -1 : continued_letter(n, loop);
  return letter < 0 ? 0 : n->extent[letter];
}
