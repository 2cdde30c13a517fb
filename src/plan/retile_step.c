// Changes the step of a loop. The search chose the step for its own tiles, and a scheme may re-tile them. A sum has the same value with any step. The
// letter whose elements continue from iteration to iteration gets the step as its extent, and the loop gets the number of steps. The last iteration
// may have fewer elements (lower/mma_ragged.c).
#include "plan/retile.h"
#include "plan/passes.h"

int norm_only_loop(const struct graph *b)
{
  int found = -1;
  for (int i = 0; i < b->nloop; i++)
    if (b->loop[i] > 1) {
      if (found >= 0) return -1;
      found = i;
    }
  return found;
}

static int64_t step_along(const struct plan_access *a, int axis) { return axis < GRID_AXES ? a->grid[axis] : a->loop[axis - GRID_AXES]; }

// The letter whose next elements the next iteration, or block, has. If several letters fit by their strides, single elements (norm.h, units) win.
static int letter_of(const struct norm *n, const struct plan_access *a, int axis)
{
  const uint32_t has = n->t[a->tile].has;
  int own = -1, single = -1;
  for (int l = 0; l < n->nletters; l++) {
    if (!(has >> l & 1) || a->stride[l] * n->extent[l] != step_along(a, axis)) continue;
    if (n->units >> l & 1) single = l;
    if (n->extent[l] > 1) own = l;
  }
  return single >= 0 ? single : own;
}

int norm_continued(const struct norm *n, int axis)
{
  int letter = -1;
  for (int i = 0; i < n->niter + n->nsave; i++) {
    const struct plan_access *a = norm_access(n, i);
    if (!step_along(a, axis)) continue;
    int own = letter_of(n, a, axis);
    if (own < 0 || (letter >= 0 && own != letter)) return -1;
    letter = own;
  }
  for (int i = 0; i < n->niter + n->nsave && letter >= 0; i++)
    if (n->t[norm_access(n, i)->tile].has >> letter & 1 && !step_along(norm_access(n, i), axis)) return -1;
  return letter;
}

// Whether the node is an accumulator whose only readers are sums over the letter.
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

// Whether the letter is only summed, or its maximum taken, in an iteration or over iterations. No value that lives longer than an iteration may have
// the letter, except an accumulator that is then summed over the letter.
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

static enum phase phase_of(const struct norm *n, int tensor) { return n->block->tensors[tensor].phase; }

// Whether iterations change the tensor.
static bool changes(const struct norm *n, int tensor) { return phase_of(n, tensor) == VARYING || phase_of(n, tensor) == RUN; }

// Whether the node sums over the letter, or takes the maximum.
static bool sums_letter(const struct norm *n, const struct node *x, uint32_t letter)
{
  bool sums = op_rows[x->op].rule == RULE_REDUCE || op_rows[x->op].rule == RULE_CONTRACT, has = false;
  for (int k = 0; k < x->nin && sums; k++) has |= (n->t[x->in[k]].has & letter) != 0;
  return has && changes(n, x->out) && !(n->t[x->out].has & letter);
}

// part: for each tensor, whether it is an iteration's part of a sum over the letter, or a sum of such parts.
static void find_parts(const struct norm *n, uint32_t letter, bool *part)
{
  for (int i = 0; i < n->block->nnodes; i++) {
    const struct node *x = &n->block->nodes[i];
    for (int k = 0; k < x->nout; k++)
      part[x->out + k] = x->op == OP_ADD ? part[x->in[0]] && part[x->in[1]] : x->op != OP_MAX && sums_letter(n, x, letter);
  }
}

// Whether the node accumulates operand k, or computes from it another part of the same sum or maximum.
static bool keeps_part(const struct norm *n, const struct node *x, int k, bool max, const bool *part, const bool *adds)
{
  if (op_rows[x->op].rule == RULE_ACCUM && !k && (x->op == OP_ACCUM_MAX) == max) return true;
  if (!max && x->op == OP_ADD && part[x->out]) return adds[x->out];
  const bool same = max ? x->op == OP_MAXIMUM : x->op == OP_MUL_SCALAR || x->op == OP_MUL || (x->op == OP_DIV && !k);
  return same && !(x->nin > 1 && changes(n, x->in[!k])) && adds[x->out];
}

// adds: for each tensor, whether all its readers allow it to be a part of a sum (max: of a maximum). A part may only be scaled by a value (max:
// compared with one) that no iteration changes, added to another part, and accumulated.
static void find_adds(const struct norm *n, bool max, const bool *part, bool *adds)
{
  const struct graph *b = n->block;
  for (int t = 0; t < b->ntensors; t++) adds[t] = true;
  for (int i = b->nnodes - 1; i >= 0; i--) {
    const struct node *x = &b->nodes[i];
    for (int k = 0; k < x->nin && x->op != OP_ITER && op_rows[x->op].rule != RULE_VIEW; k++)
      if (!keeps_part(n, x, k, max, part, adds)) adds[n->t[x->in[k]].root] = false;
  }
}

// Whether the result is the same for any step: no accumulator counts iterations, and all parts of sums are added up.
static bool same_sums(const struct norm *n, uint32_t letter)
{
  const struct graph *b = n->block;
  struct arena tmp = {0};
  bool *part = NEWS(&tmp, bool, b->ntensors + 1), *adds[2], fine = true;
  find_parts(n, letter, part);
  for (int max = 0; max < 2; max++) find_adds(n, max, part, adds[max] = NEWS(&tmp, bool, b->ntensors + 1));
  for (int i = 0; i < b->nnodes && fine; i++) {
    const struct node *x = &b->nodes[i];
    bool counts = op_rows[x->op].rule == RULE_ACCUM && (op_rows[x->op].flags & MEAN || phase_of(n, x->in[0]) != VARYING);
    fine = !counts && (!sums_letter(n, x, letter) || adds[x->op == OP_MAX][x->out]);
  }
  arena_close(&tmp);
  return fine;
}

static int continued(const struct norm *n)
{
  int loop = norm_only_loop(n->block);
  return loop < 0 ? -1 : norm_continued(n, GRID_AXES + loop);
}

bool norm_step(struct norm *n, struct graph *b, int64_t step, char why[160])
{
  int loop = norm_only_loop(b), letter = continued(n);
  if (letter < 0 || !only_summed(n, 1u << letter) || !same_sums(n, 1u << letter))
    return snprintf(why, 160, "the loop cannot have another step"), false;
  int64_t all = n->extent[letter] * b->loop[loop];
  bool whole = step >= all && n->extent[letter] == 1;
  if (step < 16 || step % 16 || (step >= all && !whole))
    return snprintf(why, 160, "a loop step of %lld of %lld elements", (long long)step, (long long)all), false;
  if (whole) step = all;
  if (all % step) n->ragged.letter = letter, n->ragged.all = all;
  n->extent[letter] = step, b->loop[loop] = (all + step - 1) / step;
  for (int i = 0; i < n->niter; i++)
    if (n->iter[i].loop[loop]) n->iter[i].loop[loop] = n->iter[i].stride[letter] * step;
  return true;
}

int64_t norm_own_step(const struct norm *n, int64_t *all)
{
  const int letter = continued(n);
  const int64_t own = letter < 0 ? 0 : n->extent[letter];
  *all = own ? own * n->block->loop[norm_only_loop(n->block)] : 0;
  return own;
}
