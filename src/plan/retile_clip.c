// Re-tiles columns. A block graph's tiles divide the columns of a result evenly: 4104 columns are 27 tiles of 152, and 1000 are 8 of 125. A block may
// have any number of columns if the last one may have fewer. TMA loads zeros for columns that do not exist and does not store them, and threads
// neither load nor store them. So no column of the block may depend on another column.
#include "plan/retile.h"
#include "plan/passes.h"

// Whether every value that is computed from tensors with the letter has it, too.
static bool kept(const struct norm *n, int letter)
{
  const struct graph *b = n->block;
  for (int i = 0; i < b->nnodes; i++) {
    const struct node *x = &b->nodes[i];
    bool in = false, out = true;
    for (int k = 0; k < x->nin && x->op != OP_ITER; k++) in |= n->t[x->in[k]].has >> letter & 1;
    for (int o = 0; o < x->nout; o++) out &= n->t[x->out + o].has >> letter & 1;
    if (in && !out) return false;
  }
  for (int i = 0; i < n->nsave; i++)
    if (!(n->t[n->save[i].tile].has >> letter & 1)) return false;
  return true;
}

static bool columns_of_products(const struct norm *n, int letter)
{
  const struct chains *ch = &n->passes->chains;
  bool all = ch->nproducts > 0;
  for (int i = 0; i < ch->nproducts; i++) all &= ch->product[i].cols >> letter & 1;
  return all;
}

// The grid axis along which blocks have adjacent columns of products, and sets *letter to their letter; -1: there is none.
static int axis_of_columns(const struct norm *n, int *letter)
{
  for (int axis = 0; axis < n->block->ngrid; axis++) {
    if (n->block->grid[axis] == 1) continue;
    *letter = norm_continued(n, axis);
    if (*letter >= 0 && columns_of_products(n, *letter) && kept(n, *letter)) return axis;
  }
  return -1;
}

int64_t norm_clip_all(const struct norm *n, int64_t *own)
{
  int letter, axis = axis_of_columns(n, &letter);
  *own = axis < 0 ? 0 : n->extent[letter];
  return axis < 0 ? 0 : *own * n->block->grid[axis];
}

bool norm_clip(struct norm *n, struct graph *b, int64_t cols, char why[160])
{
  int letter, axis = axis_of_columns(n, &letter);
  if (axis < 0) return snprintf(why, 160, "no grid axis divides the columns of the products alone"), false;
  int64_t all = n->extent[letter] * b->grid[axis];
  if (cols < 16 || cols % 16 || cols >= all)
    return snprintf(why, 160, "%lld columns a block, of %lld columns in all", (long long)cols, (long long)all), false;
  if (all % cols) n->clipped.letter = letter, n->clipped.axis = axis, n->clipped.all = all;
  n->extent[letter] = cols, b->grid[axis] = (all + cols - 1) / cols;
  for (int i = 0; i < n->niter; i++)
    if (n->iter[i].grid[axis]) n->iter[i].grid[axis] = n->iter[i].stride[letter] * cols;
  for (int i = 0; i < n->nsave; i++) n->save[i].grid[axis] = n->save[i].stride[letter] * cols;
  return true;
}
