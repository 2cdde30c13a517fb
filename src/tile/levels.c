// Levels of layouts. Tensors of data and tensors of threads are tiled, reshaped and indexed alike.
#include "tile/build.h"

int levels_check(struct builder *b, int n, const struct lay *level)
{
  if (n < 0 || n > TILE_LEVELS) return build_error(b, "%d levels, at most %d are allowed", n, TILE_LEVELS);
  struct ex_pool *p = b->p->ex;
  for (int i = 0; i < n; i++) {
    ex shape[64], stride[64];
    int leaves = lay_leaves(level[i], shape, stride, 64);
    if (leaves < 0) return build_error(b, "a level has more than 64 extents");
    for (int j = 0; j < leaves; j++)
      if (ex_range(p, shape[j]).lo < 1 || ex_range(p, stride[j]).lo < 0) {
        struct str s = {0};
        lay_text(&b->p->lay, level[i], &s);
        build_error(b, "extents are at least 1 and strides at least 0; here [%s]", str_text(&s));
        str_free(&s);
        return USER;
      }
  }
  return OK;
}

const char *levels_text(struct builder *b, const struct levels *l)
{
  struct str s = {0};
  for (int i = 0; i < l->n; i++) {
    str_add(&s, i ? ".[" : "[");
    lay_text(&b->p->lay, l->level[i], &s);
    str_add(&s, "]");
  }
  if (!l->n) str_add(&s, "[]");
  return str_keep(b->p->mem, &s);
}

// `tile(4,2 : 1,16)` of a one-dimensional level: a tiler of several modes divides one dimension, and the tile then has these modes.
static struct lay wrapped(struct builder *b, struct lay level, struct lay tiler)
{
  return lay_rank(level) == 1 && lay_rank(tiler) > 1 ? lay_tuple(&b->p->lay, 1, &tiler) : tiler;
}

int levels_tile(struct builder *b, struct levels *l, struct lay tiler, const bool *whole, bool *partial)
{
  if (!l->n) return build_error(b, "a scalar cannot be tiled");
  if (l->n == TILE_LEVELS) return build_error(b, "more than %d levels of tiles", TILE_LEVELS);
  struct lay *inner = &l->level[l->n - 1], outer, tile;
  struct lay t = wrapped(b, *inner, tiler);
  int rank = lay_rank(*inner);
  if (lay_rank(t) != rank) return build_error(b, "%d dimensions in the tile, %d in %s", lay_rank(t), rank, levels_text(b, l));
  CHECK(rank <= 64);
  bool cut[64] = {0};
  if (!lay_tile(&b->p->lay, *inner, t, &outer, &tile, cut)) return build_error(b, "cannot tile %s: %s", levels_text(b, l), b->p->lay.why);
  for (int d = 0; d < rank; d++) {
    if (cut[d] && !(whole && whole[d])) return build_error(b, "the tile does not divide dimension %d of %s", d, levels_text(b, l));
    if (partial) partial[d] = cut[d];
  }
  l->level[l->n - 1] = outer;
  l->level[l->n++] = t.node != tiler.node ? lay_mode(tile, 0) : tile;
  return OK;
}

int levels_reshape(struct builder *b, struct levels *l, int depth, struct lay shape)
{
  if (depth < 0 || depth >= l->n) return build_error(b, "no level %d in %s", depth, levels_text(b, l));
  struct lay_ctx *c = &b->p->lay;
  if (!ex_true(c->ex, ex_eq(c->ex, lay_size(c, shape), lay_size(c, l->level[depth]))))
    return build_error(b, "the new shape of level %d of %s must have as many elements", depth, levels_text(b, l));
  struct lay r;
  if (!lay_compose(c, l->level[depth], shape, &r)) return build_error(b, "cannot reshape level %d of %s: %s", depth, levels_text(b, l), c->why);
  l->level[depth] = r;
  return OK;
}

// An enclosing condition may exclude indices that are out of bounds.
static bool conditional(const struct builder *b)
{
  for (int i = 1; i <= b->nopen; i++)
    if (b->k->stmts[b->open[i].stmt].kind == STMT_IF) return true;
  return false;
}

int levels_index(struct builder *b, struct levels *l, int n, const ex *index, ex *offset)
{
  if (!l->n) return build_error(b, "a scalar has no coordinates");
  struct lay_ctx *c = &b->p->lay;
  int rank = lay_rank(l->level[0]);
  if (n != rank) return build_error(b, "%d coordinates for %d dimensions of %s", n, rank, levels_text(b, l));
  ex at[64];
  struct lay kept[64];
  bool any = false;
  CHECK(n <= 64);
  for (int d = 0; d < n; d++) {
    bool all = index[d] == EX_ALL;
    at[d] = all ? EX_C(0) : index[d], any |= all;
    kept[d] = all ? lay_mode(l->level[0], d) : lay_int(c, EX_C(1), EX_C(0));
  }
  for (int d = 0; d < n && !conditional(b); d++) {
    if (index[d] == EX_ALL) continue;
    ex extent = lay_size(c, lay_mode(l->level[0], d));
    if (ex_true(c->ex, ex_lt(c->ex, index[d], EX_C(0))) || ex_true(c->ex, ex_le(c->ex, extent, index[d])))
      return build_error(b, "coordinate %d is outside of %s", d, levels_text(b, l));
  }
  *offset = ex_add(c->ex, *offset, lay_at_coords(c, l->level[0], n, at));
  if (any) {
    l->level[0] = lay_tuple(c, n, kept);
    return OK;
  }
  for (int i = 1; i < l->n; i++) l->level[i - 1] = l->level[i];
  l->n--;
  return OK;
}

ex levels_size(struct builder *b, const struct levels *l)
{
  ex size = EX_C(1);
  for (int i = 0; i < l->n; i++) size = ex_mul(b->p->ex, size, lay_size(&b->p->lay, l->level[i]));
  return size;
}
