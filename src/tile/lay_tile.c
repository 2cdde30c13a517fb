// Graphene's tile and reshape (B. Hagedorn et al., "Graphene: An IR for Optimized Tensor Computations on GPUs", section
// 3.3), by composition. tile goes dimension by dimension: the elements of a tile are A o T, the tiles A o
// complement(T).
#include "tile/lay_flat.h"

static bool tile_one(struct lay_ctx *c, struct lay a, struct lay t, struct lay *outer, struct lay *inner, bool *partial)
{
  struct lay rest;
  ex unit, size = lay_size(c, a);
  if (t.node->arity == LAY_LEAF && t.node->shape == EX_C(0)) {
    *inner = a, *outer = lay_int(c, EX_C(1), EX_C(0)), *partial = false;
    return true;
  }
  if (!lay_complement_unit(c, t, size, &rest, &unit)) return false;
  *partial = !ex_divides(c->ex, unit, size);
  return lay_compose(c, a, t, inner) && lay_compose(c, a, rest, outer);
}

// Gives the layout l's rank. For rank 1, a leaf stays a leaf and a tuple is one mode.
static struct lay gathered(struct lay_ctx *c, struct lay l, const struct lay *mode)
{
  bool leaf = l.node->arity == LAY_LEAF && mode[0].node->arity == LAY_LEAF;
  return leaf ? mode[0] : lay_tuple(c, lay_rank(l), mode);
}

bool lay_tile(struct lay_ctx *c, struct lay l, struct lay tiler, struct lay *outer, struct lay *inner, bool *partial)
{
  struct lay in[LAY_LEAVES], out[LAY_LEAVES];
  int n = lay_rank(l), m = lay_rank(tiler);
  if (n > LAY_LEAVES || (m != n && n != 1)) return lay_refuse(c, "a tiling of %d dimensions for a tensor of %d", m, n);
  for (int i = 0; i < n; i++)
    if (!tile_one(c, lay_mode(l, i), m == n ? lay_mode(tiler, i) : tiler, &out[i], &in[i], &partial[i])) return false;
  *outer = gathered(c, l, out), *inner = gathered(c, l, in);
  return lay_kept(c);
}

bool lay_reshape(struct lay_ctx *c, struct lay l, struct lay shape, struct lay *out)
{
  ex old = lay_size(c, l), new = lay_size(c, shape);
  if (old != new) return lay_refuse(c, "%s elements cannot be reshaped to %s", lay_say(c, old), lay_say(c, new));
  return lay_compose(c, l, shape, out);
}
